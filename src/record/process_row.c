#include "record/process_row.h"

#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/procfile.h"
#include "base/time.h"
#include "collect/collector.h"
#include "model/id.h"
#include "model/mask.h"
#include "record/processes.h"

enum { CMDLINE = 4096 };

/* The cell of a column, which is the collector's: -1 where there is none. */
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
        char path[48], text[8192];
        ssize_t n;
        struct infp_span rest, line, words[3];
        int64_t uid;

        snprintf(path, sizeof(path), "proc/%d/status", (int) pid);
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        rest = (struct infp_span){ text, n > 0 ? (size_t) n : 0 };
        while (infp_span_line(&rest, &line))
                if (infp_span_starts(line, "Uid:") && infp_span_words(line, words, 3) == 3 &&
                    infp_span_i64(words[2], &uid) == 0)
                        put_number(row, "pUserId", uid);
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
