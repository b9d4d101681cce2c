#include "collect/env.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/time.h"

enum { FIXTURE_TICKS_PER_S = 100, FIXTURE_PAGE_SIZE = 4096, BOOT_ID_SIZE = 36 };

static uint64_t real_clock(const struct infp_env *env)
{
        (void) env;
        return infp_clock_ns(CLOCK_MONOTONIC);
}

static bool is_same_directory(int fd, const char *path)
{
        struct stat a, b;

        return !fstat(fd, &a) && !stat(path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void read_boot_id(struct infp_env *env)
{
        char text[64];
        ssize_t n = infp_read_at(env->root_fd, "proc/sys/kernel/random/boot_id", text, sizeof(text));

        env->boot_id[0] = 0;
        if (n < BOOT_ID_SIZE || strspn(text, "0123456789abcdef-") < BOOT_ID_SIZE)
                return;
        memcpy(env->boot_id, text, BOOT_ID_SIZE);
        env->boot_id[BOOT_ID_SIZE] = 0;
}

int infp_env_open(struct infp_env *env, const char *root, struct infp_err *err)
{
        static const struct infp_setting no_settings[] = { { NULL, NULL } };
        int r;

        *env = (struct infp_env){ .root_fd = -1, .now_ns = real_clock, .settings = no_settings, .period_ms = 1000 };
        /* O_PATH: search permission is enough, as it is for the machine itself. */
        env->root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (env->root_fd < 0) {
                r = -errno;
                return infp_fail_errno(err, r, "the root directory %s cannot be opened", root);
        }
        env->is_live = is_same_directory(env->root_fd, "/");
        env->ticks_per_s = FIXTURE_TICKS_PER_S;
        env->page_size = FIXTURE_PAGE_SIZE;
        if (env->is_live) {
                long ticks = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);

                env->ticks_per_s = ticks > 0 ? (uint32_t) ticks : FIXTURE_TICKS_PER_S;
                env->page_size = page > 0 ? (uint32_t) page : FIXTURE_PAGE_SIZE;
        }
        read_boot_id(env);
        return 0;
}

void infp_env_close(struct infp_env *env)
{
        env->root_fd = infp_close(env->root_fd);
}

const char *infp_env_setting(const struct infp_env *env, const char *name)
{
        const char *value = NULL;

        /* The last one wins, as on a command line. */
        for (const struct infp_setting *s = env->settings; s && s->name; s++)
                if (!strcmp(s->name, name))
                        value = s->value ? s->value : "";
        return value;
}

const char *infp_env_setting_at(const struct infp_env *env, const char *name, unsigned index)
{
        for (const struct infp_setting *s = env->settings; s && s->name; s++)
                if (!strcmp(s->name, name) && index-- == 0)
                        return s->value ? s->value : "";
        return NULL;
}

bool infp_env_flag(const struct infp_env *env, const char *name)
{
        const char *value = infp_env_setting(env, name);

        return value && strcmp(value, "0") && strcmp(value, "off");
}
