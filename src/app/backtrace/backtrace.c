#include "app/backtrace/backtrace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/backtrace/parts.h"
#include "base/cache_directory.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "collect/target.h"

enum { MOST_PROCESSES = 4096 };

const char *infp_backtrace_printf(struct infp_backtraces *b, const char *format, ...)
{
        infp_autofree char *text = NULL;
        va_list ap;
        int n;

        va_start(ap, format);
        n = vasprintf(&text, format, ap);
        va_end(ap);
        if (n < 0)
                text = NULL;
        return infp_strings_keep(&b->texts, text);
}

static double cpu_ms(void)
{
        struct rusage own, children;
        double s = 0;

        if (getrusage(RUSAGE_SELF, &own) < 0 || getrusage(RUSAGE_CHILDREN, &children) < 0)
                return 0;
        s += (double) (own.ru_utime.tv_sec + own.ru_stime.tv_sec + children.ru_utime.tv_sec + children.ru_stime.tv_sec);
        s += (double) (own.ru_utime.tv_usec + own.ru_stime.tv_usec + children.ru_utime.tv_usec +
                       children.ru_stime.tv_usec) /
             1e6;
        return s * 1e3;
}

/* ---- which processes ---- */

/* A pid that is not alive may be a zombie, which has something to say all the same. */
static int find_roots(struct infp_backtraces *b, pid_t *zombie, struct infp_err *err)
{
        const struct infp_follow_options *asked = &b->options.follow;
        struct infp_process process;
        int r = infp_follow_init(&b->follow, asked, &b->env, err);

        if (r == -ESRCH && asked->n_pids == 1 &&
            infp_process_stat_read(b->env.root_fd, asked->pids[0], &process) == 0 && process.state == 'Z') {
                *zombie = asked->pids[0];
                return 0;
        }
        if (r < 0)
                return r;
        if (!b->follow.n_roots)
                return infp_fail(err, b->follow.is_denied ? -EPERM : -ESRCH, "%s", b->follow.reason);
        if (b->follow.problem[0])
                infp_notice(b->notices, "%s", b->follow.problem);
        return 0;
}

/* The roots and what descends from them, without ourselves. Returns how many. */
static int list_tree(struct infp_backtraces *b, pid_t *ret, struct infp_err *err)
{
        struct infp_target *target;
        pid_t roots[INFP_FOLLOW_PIDS];
        size_t n, kept = 0;
        int r;

        INFP_TRY(infp_target_new(INFP_MODE_PID, false, &target, err));
        infp_target_set_root(target, roots, infp_follow_pids(&b->follow, roots, INFP_COUNT(roots)));
        infp_target_exclude(target, getpid());
        b->env.target = target;
        r = infp_target_refresh(target, &b->env, err);
        n = r < 0 ? 0 : infp_target_pids(target, ret, MOST_PROCESSES);
        b->env.target = NULL;
        infp_target_free(target);
        if (r < 0)
                return r;
        if (n > MOST_PROCESSES) {
                infp_notice(b->notices, "%zu processes: only the first %d are shown", n, MOST_PROCESSES);
                n = MOST_PROCESSES;
        }
        for (size_t i = 0; i < n; i++)
                if (ret[i] != getpid())
                        ret[kept++] = ret[i];
        return (int) kept;
}

static int list_processes(struct infp_backtraces *b, pid_t **ret, unsigned *ret_n, struct infp_err *err)
{
        pid_t zombie = 0;
        int n = 1;

        *ret = calloc(MOST_PROCESSES, sizeof(**ret));
        if (!*ret)
                return infp_fail(err, -ENOMEM, "no memory for the list of processes");
        INFP_TRY(find_roots(b, &zombie, err));
        if (zombie)
                (*ret)[0] = zombie;
        else if (b->options.tid || b->options.is_alone)
                (*ret)[0] = b->follow.roots[0].pid;
        else
                n = list_tree(b, *ret, err);
        if (n < 0)
                return n;
        if (!n)
                return infp_fail(err, -ESRCH, "infprof cannot show its own stack");
        *ret_n = (unsigned) n;
        return 0;
}

/* ---- from what was read to what is shown ---- */

static struct infp_backtrace_frame shown_place(const struct infp_backtraces *b,
                                               const struct infp_backtrace_place *place)
{
        const bool is_made = place->kind == INFP_FRAME_JIT;
        const char *object = place->object == UINT32_MAX ? NULL : b->objects[place->object].path;

        return (struct infp_backtrace_frame){ .object = object,
                                              .address = place->address,
                                              .kind = is_made ? INFP_BACKTRACE_JIT : INFP_BACKTRACE_NATIVE };
}

/* What was inlined is a frame of its own. */
static uint32_t expand_one(const struct infp_backtraces *b, const struct infp_backtrace_raw *raw,
                           struct infp_backtrace_frame *ret)
{
        const struct infp_backtrace_place *place = raw->place == UINT32_MAX ? NULL : &b->places[raw->place];
        const uint32_t n = place && place->n_levels ? place->n_levels : 1;

        for (uint32_t i = 0; i < n && ret; i++) {
                ret[i] = place ? shown_place(b, place) : raw->frame;
                ret[i].is_guessed = raw->frame.is_guessed;
                ret[i].is_inlined = i + 1 < n;
                if (place && place->n_levels) {
                        ret[i].func = place->levels[n - 1 - i].func;
                        ret[i].file = place->levels[n - 1 - i].file;
                        ret[i].lineno = place->levels[n - 1 - i].lineno;
                }
        }
        return n;
}

static void expand(const struct infp_backtraces *b, const struct infp_backtrace_raw *raws, uint32_t n_raws,
                   struct infp_backtrace_frame **ret, uint32_t *ret_n)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < n_raws; i++)
                n += expand_one(b, &raws[i], NULL);
        *ret = n ? calloc(n, sizeof(**ret)) : NULL;
        for (uint32_t i = 0; i < n_raws && *ret; i++)
                *ret_n += expand_one(b, &raws[i], *ret + *ret_n);
}

static void expand_all(struct infp_backtraces *b, struct infp_backtrace_raws **raws)
{
        for (unsigned i = 0; i < b->shown.n_processes; i++) {
                struct infp_backtrace_process *process = &b->shown.processes[i];

                for (unsigned k = 0; k < process->n_threads && raws[i]; k++) {
                        struct infp_backtrace_thread *thread = &process->threads[k];

                        expand(b, raws[i][k].frames, raws[i][k].n_frames, &thread->frames, &thread->n_frames);
                        expand(b, raws[i][k].native, raws[i][k].n_native, &thread->native, &thread->n_native);
                }
        }
}

static void free_raws(struct infp_backtraces *b, struct infp_backtrace_raws **raws)
{
        for (unsigned i = 0; i < b->shown.n_processes && raws; i++) {
                for (unsigned k = 0; k < b->shown.processes[i].n_threads && raws[i]; k++) {
                        free(raws[i][k].frames);
                        free(raws[i][k].native);
                }
                free(raws[i]);
        }
        free(raws);
}

/* Rows are for recordings. */
static int drop_row(void *context, const struct infp_row *row)
{
        (void) context;
        (void) row;
        return 0;
}

static int open_stacks(struct infp_backtraces *b, struct infp_err *err)
{
        infp_autofree char *cache = infp_cache_path(INFP_STACKS_CACHE);
        const struct infp_stacks_options options = {
                .env = &b->env, .max_depth = INFP_BACKTRACE_FRAMES, .cache_directory = cache, .put = drop_row
        };

        return infp_stacks_new(&options, &b->stacks, err);
}

/* Why not one thread of all could be read; false: one was. */
static bool is_nothing_read(const struct infp_backtraces *b, const char **ret_why, int32_t *ret_pid)
{
        *ret_why = NULL;
        for (unsigned i = 0; i < b->shown.n_processes; i++) {
                const struct infp_backtrace_process *process = &b->shown.processes[i];

                if (process->tasks.n_tasks)
                        return false;
                for (unsigned k = 0; k < process->n_threads; k++) {
                        if (process->threads[k].n_frames || process->threads[k].n_native ||
                            process->threads[k].was_stopped)
                                return false;
                        if (!*ret_why) {
                                *ret_why = process->threads[k].why;
                                *ret_pid = process->pid;
                        }
                }
        }
        return true;
}

/* Takes all of them. One that ends meanwhile is left out. */
static int take_all(struct infp_backtraces *b, const pid_t *pids, unsigned n, struct infp_backtrace_raws **raws,
                    struct infp_err *err)
{
        int r = 0, first = 0;

        for (unsigned i = 0; i < n; i++) {
                struct infp_err own = { "" };

                r = infp_backtrace_process_take(b, pids[i], &b->shown.processes[b->shown.n_processes],
                                                &raws[b->shown.n_processes], &own);
                if (r == 0)
                        b->shown.n_processes++;
                else if (n > 1 && r != -ESRCH)
                        infp_notice(b->notices, "%s", own.text);
                if (r < 0 && !first)
                        first = infp_fail(err, r, "%s", own.text);
        }
        return b->shown.n_processes ? 0 : first;
}

static void note_tasks_of(const struct infp_backtraces *b, const struct infp_backtrace_process *process)
{
        const struct infp_backtrace_tasks *tasks = &process->tasks;

        if (!process->has_tasks || tasks->problem)
                return;
        if (tasks->n_unread)
                infp_notice(b->notices, "process %d: %u of its %u tasks could not be read whole", process->pid,
                            tasks->n_unread, tasks->n_tasks);
        if (!tasks->is_whole)
                infp_notice(b->notices,
                            "process %d: some of its tasks may be missing: their list changed, or could not be read to "
                            "its end",
                            process->pid);
        if (!tasks->has_all_awaiters)
                infp_notice(b->notices,
                            "process %d: not all that await its tasks are shown: there are more than infprof lists",
                            process->pid);
}

/* What is said where tasks were asked for. */
static void note_tasks(const struct infp_backtraces *b)
{
        unsigned n = 0;

        for (unsigned i = 0; i < b->shown.n_processes; i++) {
                const struct infp_backtrace_process *process = &b->shown.processes[i];

                n += process->has_tasks;
                note_tasks_of(b, process);
        }
        if (!n)
                infp_notice(b->notices, "no tasks: asyncio is not imported");
}

static int take(struct infp_backtraces *b, const pid_t *pids, unsigned n, struct infp_err *err)
{
        struct infp_backtrace_raws **raws = calloc(n, sizeof(*raws));
        struct infp_stacks_counts counts;
        struct infp_err own = { "" };
        const char *why;
        int32_t pid = 0;
        int r;

        b->shown.processes = calloc(n, sizeof(*b->shown.processes));
        b->shown.is_no_block = b->options.no_block;
        b->shown.start_ms = cpu_ms();
        r = raws && b->shown.processes ? take_all(b, pids, n, raws, err)
                                       : infp_fail(err, -ENOMEM, "no memory for the stacks");
        if (r == 0) {
                infp_stacks_counts(b->stacks, &counts);
                b->shown.n_tables_made = counts.n_built;
                infp_backtrace_name_made(b);
                b->stacks = infp_stacks_free(b->stacks); /* its threads end before the process forks */
                if (infp_backtrace_name_files(b, &own) < 0)
                        infp_notice(b->notices, "native code is shown without names: %s", own.text);
                expand_all(b, raws);
        }
        free_raws(b, raws);
        if (r >= 0 && b->options.tasks)
                note_tasks(b);
        b->shown.cpu_ms = cpu_ms();
        if (r >= 0 && is_nothing_read(b, &why, &pid) && why)
                r = infp_fail(err, -EPERM, "process %d has no stack to show: %s", (int) pid, why);
        return r < 0 ? r : 0;
}

int infp_backtraces_take(const struct infp_backtrace_options *options, const struct infp_notices *notices,
                         struct infp_backtraces **ret, struct infp_err *err)
{
        struct infp_backtraces *b = calloc(1, sizeof(*b));
        infp_autofree pid_t *pids = NULL;
        unsigned n = 0;
        int r;

        if (!b)
                return infp_fail(err, -ENOMEM, "no memory for the stacks");
        b->options = *options;
        b->notices = notices;
        b->env.root_fd = -1;
        r = infp_env_open(&b->env, "/", err);
        if (r >= 0)
                r = list_processes(b, &pids, &n, err);
        if (r >= 0)
                r = open_stacks(b, err);
        if (r >= 0)
                r = take(b, pids, n, err);
        if (r < 0) {
                infp_backtraces_free(b);
                return r;
        }
        *ret = b;
        return 0;
}

const struct infp_backtrace *infp_backtraces_shown(const struct infp_backtraces *backtraces)
{
        return &backtraces->shown;
}

static void free_process(struct infp_backtrace_process *process)
{
        for (unsigned k = 0; k < process->n_threads; k++) {
                free(process->threads[k].frames);
                free(process->threads[k].native);
        }
        free(process->threads);
        infp_backtrace_tasks_done(&process->tasks);
        free(process->gils);
}

struct infp_backtraces *infp_backtraces_free(struct infp_backtraces *b)
{
        if (!b)
                return NULL;
        for (unsigned i = 0; i < b->shown.n_processes; i++)
                free_process(&b->shown.processes[i]);
        free(b->shown.processes);
        for (uint32_t i = 0; i < b->n_places; i++)
                free(b->places[i].levels);
        free(b->places);
        for (uint32_t i = 0; i < b->n_objects; i++)
                infp_close(b->objects[i].fd);
        free(b->objects);
        for (unsigned i = 0; i < b->n_locals; i++)
                free(b->locals[i]);
        free(b->locals);
        infp_stacks_free(b->stacks);
        infp_follow_done(&b->follow);
        infp_env_close(&b->env);
        infp_strings_done(&b->texts);
        infp_map_done(&b->by_place);
        infp_map_done(&b->by_object);
        free(b);
        return NULL;
}
