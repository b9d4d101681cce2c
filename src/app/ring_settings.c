#include "app/ring_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "base/str.h"
#include "base/time.h"
#include "ring/find.h"

enum { FILES = 8, MAX_MAPS = 64 << 20, STEP_NS = 2000000 };

/* A library that is in a process twice (in a program and in a Python extension) has two files. */
struct files {
        pid_t pid;
        const char *maps;
        int n;
        struct {
                int fd, n;
                struct infp_ring_owner owner;
                struct infp_ring_setting settings[INFP_WIRE_SETTINGS];
        } file[FILES];
        int why_r;
        struct infp_err why;
};

static int read_one(struct files *f, int i, struct infp_err *err)
{
        struct infp_err why = { "" };
        int r = infp_ring_settings(f->file[i].fd, &f->file[i].owner, f->file[i].settings, &why);

        if (r < 0)
                return infp_fail(err, r, "the ring file of process %d %s", (int) f->pid, why.text);
        f->file[i].n = r;
        return r;
}

/* Files that the process no longer maps are those of programs before an exec. */
static int take(void *context, int file, const struct infp_ring_owner *owner, const char *name)
{
        struct files *f = context;
        int r = 0;

        if (f->n < FILES && strstr(f->maps, name)) {
                f->file[f->n].fd = file;
                f->file[f->n].owner = *owner;
                r = read_one(f, f->n, &f->why);
                if (r < 0)
                        f->why_r = r;
        }
        if (r > 0)
                f->n++;
        else
                infp_close(file);
        return 0;
}

static void close_all(struct files *f)
{
        for (int i = 0; i < f->n; i++)
                infp_close(f->file[i].fd);
}

static int open_all(struct files *f, bool writable, struct infp_err *err)
{
        infp_autoclose int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        infp_autofree char *maps = NULL;
        char path[64];

        if (proc_fd < 0)
                return infp_fail_errno(err, -errno, "/proc cannot be opened");
        snprintf(path, sizeof(path), "%d/maps", (int) infp_proc_thread(proc_fd, "", (int32_t) f->pid));
        f->maps = infp_read_all_at(proc_fd, path, MAX_MAPS, &maps) > 0 ? maps : "";
        INFP_TRY(infp_ring_find(proc_fd, f->pid, writable, take, f, err));
        if (f->n)
                return 0;
        if (f->why_r < 0)
                return infp_fail(err, f->why_r, "%s", f->why.text);
        return infp_fail(
                err, -ENOENT,
                "process %d has no settings: it records with a library of infprof that is older than they are, "
                "or only samples itself",
                (int) f->pid);
}

static const struct infp_ring_setting *find(const struct files *f, int i, const char *key)
{
        for (int k = 0; k < f->file[i].n; k++)
                if (strcmp(f->file[i].settings[k].key, key) == 0)
                        return &f->file[i].settings[k];
        return NULL;
}

static int fail_unknown(const struct files *f, const char *key, struct infp_err *err)
{
        infp_autostr struct infp_str has = { 0 };

        for (int i = 0; i < f->n; i++)
                for (int k = 0; k < f->file[i].n; k++)
                        infp_str_printf(&has, "%s%s", has.size ? ", " : "", f->file[i].settings[k].key);
        return infp_fail(err, -ENOENT, "process %d has no setting %.40s; it has %s", (int) f->pid, key,
                         has.data ? has.data : "none");
}

static int ask(struct files *f, const struct infp_wish *wish, struct infp_err *err)
{
        struct infp_err why = { "" };

        for (int i = 0; i < f->n; i++) {
                const struct infp_ring_setting *setting = find(f, i, wish->key);
                int r = setting ? infp_ring_ask(f->file[i].fd, &f->file[i].owner, setting->number, wish->value, &why)
                                : 0;

                if (r < 0)
                        return infp_fail(err, r, "the ring file of process %d %s", (int) f->pid, why.text);
        }
        return 0;
}

static bool is_pending(const struct files *f, const struct infp_wish *wishes, size_t n)
{
        for (size_t w = 0; w < n; w++)
                for (int i = 0; i < f->n; i++) {
                        const struct infp_ring_setting *setting = find(f, i, wishes[w].key);

                        if (setting && setting->state == INFP_RING_SETTING_PENDING)
                                return true;
                }
        return false;
}

static int read_all(struct files *f, struct infp_err *err)
{
        for (int i = 0; i < f->n; i++)
                INFP_TRY(read_one(f, i, err));
        return 0;
}

static int ask_all(struct files *f, const struct infp_wish *wishes, size_t n, unsigned wait_ms, struct infp_err *err)
{
        const uint64_t end_ns = infp_clock_ns(CLOCK_MONOTONIC) + wait_ms * INFP_NS_PER_MS;

        for (size_t w = 0; w < n; w++) {
                bool is_there = false;

                for (int i = 0; i < f->n; i++)
                        is_there = is_there || find(f, i, wishes[w].key);
                if (!is_there)
                        return fail_unknown(f, wishes[w].key, err);
        }
        for (size_t w = 0; w < n; w++)
                INFP_TRY(ask(f, &wishes[w], err));
        INFP_TRY(read_all(f, err));
        while (is_pending(f, wishes, n) && infp_clock_ns(CLOCK_MONOTONIC) < end_ns) {
                nanosleep(&(struct timespec){ .tv_nsec = STEP_NS }, NULL);
                INFP_TRY(read_all(f, err));
        }
        return 0;
}

static bool is_wished(const struct infp_wish *wishes, size_t n, const char *key)
{
        for (size_t w = 0; w < n; w++)
                if (strcmp(wishes[w].key, key) == 0)
                        return true;
        return n == 0;
}

int infp_settings_of(pid_t pid, const struct infp_wish *wishes, size_t n, unsigned wait_ms,
                     int (*each)(void *context, const struct infp_ring_setting *setting), void *context,
                     struct infp_err *err)
{
        struct files f = { .pid = pid, .why = { "" } };
        int r = open_all(&f, n > 0, err);

        if (r == 0)
                r = ask_all(&f, wishes, n, wait_ms, err);
        for (int i = 0; i < f.n && r >= 0; i++)
                for (int k = 0; k < f.file[i].n && r >= 0; k++)
                        if (is_wished(wishes, n, f.file[i].settings[k].key))
                                r = each(context, &f.file[i].settings[k]);
        close_all(&f);
        return r < 0 ? r : 0;
}
