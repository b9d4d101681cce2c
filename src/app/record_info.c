#include "app/record_info.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text.h"
#include "base/time.h"
#include "collect/run_one.h"
#include "model/mask.h"
#include "record/processes.h"
#include "store/run_json.h"

/* The command as one text, its secrets masked; "" without one. */
static char *command_text(const struct infp_record_options *options)
{
        infp_autostr struct infp_str joined = { 0 };
        infp_autofree char *masked = NULL;
        size_t cap, size;

        if (!options->command)
                return strdup("");
        for (char **word = options->command; *word; word++)
                infp_str_put(&joined, *word, strlen(*word) + 1);
        cap = 4 * joined.size + 64;
        masked = malloc(cap);
        if (joined.failed || !masked)
                return NULL;
        size = infp_mask_cmdline(joined.data, joined.size, options->keep_secrets, masked, cap - 1);
        masked[size] = 0;
        return INFP_TAKE(masked);
}

static char *hostname(const struct infp_env *env)
{
        char text[256], escaped[4 * sizeof(text)] = ""; /* as in table host */
        ssize_t n = infp_read_at(env->root_fd, "proc/sys/kernel/hostname", text, sizeof(text));

        n = n > 0 ? (ssize_t) strcspn(text, "\n") : 0;
        escaped[infp_text_escape(text, (size_t) n, escaped, sizeof(escaped) - 1)] = 0;
        return strdup(escaped);
}

static char *table_names(const struct infp_collector *collector)
{
        infp_autostr struct infp_str names = { 0 };

        for (const struct infp_table *const *t = collector->tables; *t; t++) {
                if (names.size)
                        infp_str_putc(&names, ' ');
                infp_str_puts(&names, (*t)->name);
        }
        return infp_str_take(&names);
}

static bool add_collectors(const struct infp_env *env, struct infp_run_info *ret)
{
        unsigned n = 0;

        while (infp_collectors[n])
                n++;
        ret->collectors = calloc(n + 1, sizeof(*ret->collectors));
        for (unsigned i = 0; ret->collectors && i < n; i++) {
                struct infp_run_collector *own = &ret->collectors[ret->n_collectors];

                if (!infp_collector_enabled(infp_collectors[i], env))
                        continue;
                ret->n_collectors++;
                own->name = strdup(infp_collectors[i]->name);
                own->period_ms = infp_collector_effective_ms(infp_collectors[i], env);
                own->tables = table_names(infp_collectors[i]);
                if (!own->name || !own->tables)
                        return false;
        }
        return ret->collectors != NULL;
}

static char *shown_name(const char *name, bool keep_secrets)
{
        const size_t size = strlen(name), cap = 4 * size + 1; /* a mask is at most 4 times as long as the secret */
        char *ret = keep_secrets ? strdup(name) : malloc(cap);

        if (ret && !keep_secrets)
                ret[infp_mask_text(name, size, ret, cap - 1)] = 0;
        return ret;
}

/* The target that the user named. */
static bool add_target(const struct infp_record_options *options, struct infp_run_info *ret)
{
        const struct infp_follow_options *follow = &options->follow;

        ret->target_port = follow->port;
        ret->target_name = shown_name(follow->name ? follow->name : "", options->keep_secrets);
        ret->target_command = strdup("");
        ret->target_pids = calloc(follow->n_pids + 1, sizeof(*ret->target_pids));
        if (!ret->target_name || !ret->target_command || !ret->target_pids)
                return false;
        for (size_t i = 0; i < follow->n_pids; i++)
                ret->target_pids[ret->n_target_pids++] = follow->pids[i];
        return true;
}

char *infp_record_command_of(const struct infp_env *env, pid_t pid, bool keep_secrets)
{
        char path[32], text[4096];
        infp_autofree char *masked = malloc(4 * sizeof(text) + 64);
        struct infp_process process;
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/cmdline", (int) pid);
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        while (n > 1 && !text[n - 1] && !text[n - 2]) /* a title written over the arguments */
                n--;
        if (n <= 0 && infp_process_look(env->root_fd, pid, &process)) { /* a thread of the kernel */
                n = process.comm_size;
                memcpy(text, process.comm, process.comm_size);
        }
        if (!masked || n <= 0)
                return NULL;
        masked[infp_mask_cmdline(text, (size_t) n, keep_secrets, masked, 4 * sizeof(text))] = 0;
        return INFP_TAKE(masked);
}

static uint64_t own_start_ticks(void)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct infp_process own;

        return infp_process_look(root_fd, getpid(), &own) ? own.start_ticks : 0;
}

int infp_record_info(const struct infp_record_options *options, const struct infp_env *env, struct infp_run_info *ret,
                     struct infp_err *err)
{
        const char *mode = options->command ? "run" : infp_record_attaches(options) ? "pid" : "host";

        ret->command = command_text(options);
        ret->mode = strdup(mode);
        ret->format = strdup(options->format);
        ret->version = strdup(INFP_VERSION);
        ret->hostname = hostname(env);
        ret->period_ms = options->period_ms;
        ret->is_shared = options->is_shared;
        ret->recorder_pid = getpid();
        ret->recorder_start_ticks = own_start_ticks();
        ret->started_unix_ns = (int64_t) infp_clock_ns(CLOCK_REALTIME);
        ret->started_t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        ret->exit_code = -1;
        if (infp_sampler_is_asked(&options->sampler))
                ret->sampling = (struct infp_run_sampling){
                        .cpu_hz = options->sampler.cpu_hz,
                        .wall_hz = options->sampler.wall_hz,
                        .off_cpu = options->sampler.off_cpu,
                        .stack_bytes = options->sampler.stack_bytes,
                        .max_depth = options->sampler.max_depth,
                };
        memcpy(ret->boot_id, env->boot_id, sizeof(ret->boot_id));
        if (ret->command && ret->mode && ret->format && ret->version && ret->hostname && add_target(options, ret) &&
            add_collectors(env, ret))
                return 0;
        infp_run_info_done(ret);
        return infp_fail(err, -ENOMEM, "no memory to begin a run");
}

static void drop_collectors(struct infp_run_info *info)
{
        for (unsigned i = 0; i < info->n_collectors; i++) {
                free(info->collectors[i].name);
                free(info->collectors[i].tables);
        }
        info->n_collectors = 0;
}

int infp_record_info_alone(const char *mode, const char *command, struct infp_run_info *ret, struct infp_err *err)
{
        const struct infp_record_options options = { .format = "parquet" };
        struct infp_env env = { .root_fd = -1 };
        infp_autofree char *own_mode = strdup(mode), *own_command = NULL;
        int r = infp_env_open(&env, "/", err);

        if (r < 0)
                return r;
        infp_uuid_make(ret->uuid);
        r = infp_record_info(&options, &env, ret, err);
        own_command = command ? strdup(command) : infp_record_command_of(&env, getpid(), false);
        infp_env_close(&env);
        if (r < 0)
                return r;
        if (!own_mode || !own_command)
                return infp_fail(err, -ENOMEM, "not enough memory to begin a run");
        drop_collectors(ret);
        free(ret->mode);
        free(ret->command);
        ret->mode = INFP_TAKE(own_mode);
        ret->command = INFP_TAKE(own_command);
        ret->period_ms = 0;
        return 0;
}
