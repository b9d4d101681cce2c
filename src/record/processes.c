#include "record/processes.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/procfile.h"
#include "base/time.h"
#include "collect/collector.h"
#include "collect/process_stat.h"
#include "model/id.h"
#include "model/mask.h"

bool infp_process_look(int root_fd, pid_t pid, struct infp_process *ret)
{
        if (infp_process_stat_read(root_fd, pid, ret) < 0)
                return false;
        /* A main thread that ended before the others is a zombie, too. */
        return (ret->state != 'Z' && ret->state != 'X') || ret->n_threads > 1;
}

int infp_process_each(int root_fd, bool (*each)(void *context, const struct infp_process *process), void *context)
{
        infp_autoclose int fd = openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_process process;
        struct infp_names names;
        const char *name;

        if (fd < 0)
                return -errno;
        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)))
                if (isdigit((unsigned char) *name) && infp_process_look(root_fd, atoi(name), &process) &&
                    !each(context, &process))
                        break;
        return 0;
}

struct link {
        pid_t pid, ppid;
        bool is_in;
};

struct links {
        struct link *all;
        size_t n, cap;
};

static bool add_link(void *context, const struct infp_process *process)
{
        struct links *links = context;

        if (!INFP_MAKE_ROOM(links->all, links->n, links->cap, 256))
                return false;
        links->all[links->n++] = (struct link){ .pid = process->pid, .ppid = process->ppid };
        return true;
}

static bool is_among(pid_t pid, const pid_t *pids, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

static bool is_member(const struct links *links, pid_t pid)
{
        for (size_t i = 0; i < links->n; i++)
                if (links->all[i].pid == pid)
                        return links->all[i].is_in;
        return false;
}

unsigned infp_process_count_descendants(pid_t ancestor, const pid_t *without, unsigned n_without)
{
        int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct links links = { 0 };
        unsigned n = 0;

        infp_process_each(root_fd, add_link, &links);
        infp_close(root_fd);
        /* Parents can have larger numbers than their children: repeat until nothing is added. */
        for (unsigned before = UINT32_MAX; before != n;) {
                before = n;
                for (size_t i = 0; i < links.n; i++) {
                        struct link *link = &links.all[i];

                        if (link->is_in || is_among(link->pid, without, n_without))
                                continue;
                        link->is_in = link->ppid == ancestor || is_member(&links, link->ppid);
                        n += link->is_in;
                }
        }
        free(links.all);
        return n;
}

enum { CMDLINE = 4096 };

/* The cell of a column of the collector; -1: no such column. */
static int cell(const struct infp_table *table, const char *column)
{
        const int at = infp_table_find(table, column);

        return at < 0 ? -1 : at - INFP_FIXED_COLUMNS;
}

static void put_number(struct infp_row *row, const char *column, int64_t v)
{
        const int at = cell(row->table, column);

        if (at >= 0)
                infp_row_i64(row, (unsigned) at, v);
}

static void put_bytes(struct infp_row *row, const char *column, const char *text, size_t size)
{
        const int at = cell(row->table, column);

        if (at >= 0 && size)
                infp_row_bytes(row, (unsigned) at, text, size);
}

static void put_cmdline(struct infp_row *row, const struct infp_env *env, pid_t pid)
{
        char path[48], text[CMDLINE + 1], masked[CMDLINE];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/cmdline", (int) pid);
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        if (n > 0)
                put_bytes(row, "pCmdline", masked,
                          infp_mask_cmdline(text, (size_t) n, infp_env_flag(env, "keep-secrets"), masked,
                                            sizeof(masked)));
}

static void put_start(struct infp_row *row, const struct infp_env *env, uint64_t start_ticks)
{
        const int at = cell(row->table, "pStartTime");
        const int64_t boot = (int64_t) (infp_clock_ns(CLOCK_REALTIME) - infp_clock_ns(CLOCK_BOOTTIME));

        if (at >= 0 && env->is_live && start_ticks / env->ticks_per_s < INT32_MAX)
                infp_row_ts(row, (unsigned) at, boot + (int64_t) (start_ticks * (INFP_NS_PER_S / env->ticks_per_s)));
}

static void put_uid(struct infp_row *row, const struct infp_env *env, pid_t pid)
{
        char path[48];
        uint64_t uid;

        snprintf(path, sizeof(path), "proc/%d/status", (int) pid);
        if (infp_proc_number(env->root_fd, path, "Uid:", 1, &uid))
                put_number(row, "pUserId", (int64_t) uid);
}

bool infp_process_row(struct infp_row *row, const struct infp_env *env, pid_t pid, uint64_t start_ticks)
{
        const struct infp_table *table = infp_table_by_name("process");
        struct infp_process process;

        if (!table || !infp_process_look(env->root_fd, pid, &process) || process.start_ticks != start_ticks)
                return false;
        infp_row_begin(row, table, env->now_ns(env));
        infp_row_id(row, 0, infp_process_id(env->boot_id, pid, start_ticks));
        put_number(row, "pId", pid);
        put_number(row, "pFirstParentId", process.ppid);
        put_bytes(row, "pName", process.comm, process.comm_size);
        put_cmdline(row, env, pid);
        put_start(row, env, start_ticks);
        put_uid(row, env, pid);
        return true;
}

bool infp_process_row_ended(struct infp_row *row, const struct infp_env *env, pid_t pid, uint64_t start_ticks,
                            pid_t parent, const char *name, uint32_t uid)
{
        const struct infp_table *table = infp_table_by_name("process");

        if (!table)
                return false;
        infp_row_begin(row, table, env->now_ns(env));
        infp_row_id(row, 0, infp_process_id(env->boot_id, pid, start_ticks));
        put_number(row, "pId", pid);
        if (parent)
                put_number(row, "pFirstParentId", parent);
        put_bytes(row, "pName", name, strlen(name));
        put_start(row, env, start_ticks);
        put_number(row, "pUserId", uid);
        return true;
}
