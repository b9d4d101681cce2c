#include "analyze/report_processes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report_scan.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/rate.h"

enum { PROCESS, CPU_NS, CPU_USER, CPU_KERNEL, RSS, RSS_PEAK, IN_TREE, N_COLUMNS };

static const char *const columns[] = {
        [PROCESS] = "process",           [CPU_NS] = "pCpuTimeNs",
        [CPU_USER] = "pCpuTimeUserMode", [CPU_KERNEL] = "pCpuTimeKernelMode",
        [RSS] = "pResidentSetSize",      [RSS_PEAK] = "pRssPeakBytes",
        [IN_TREE] = "pInTree",           [N_COLUMNS] = NULL,
};

/* Start times have steps of 10 ms, downwards. */
static const int64_t start_step_ns = 10000000;

struct counter {
        bool has;
        uint64_t first, last, more;
};

struct use {
        uint64_t id;
        struct counter ns, cs;
        double rss, rss_peak, cpu_s;
        int64_t first_unix_ns, last_unix_ns;
        bool is_new; /* began within the range */
};

struct uses {
        struct use *list;
        size_t n, cap;
        struct infp_map map; /* id -> number */
        uint64_t n_rows_left_out;
        bool beyond_tree;
};

static void uses_done(struct uses *uses)
{
        free(uses->list);
        infp_map_done(&uses->map);
}

void infp_report_processes_done(struct infp_report_processes *processes)
{
        for (unsigned i = 0; i < processes->n; i++) {
                free(processes->list[i].name);
                free(processes->list[i].command);
        }
        *processes = (struct infp_report_processes){ 0 };
}

/* 1: found or made; 0: there is no room for one more. */
static int find_use(struct uses *uses, uint64_t id, int64_t unix_ns, struct use **ret)
{
        const uint64_t *number = infp_map_get(&uses->map, id);

        if (number) {
                *ret = &uses->list[*number];
                return 1;
        }
        if (uses->n == INFP_REPORT_MAX_PROCESSES)
                return 0;
        if (uses->n == uses->cap) {
                const size_t cap = uses->cap ? 2 * uses->cap : 64;
                struct use *more = reallocarray(uses->list, cap, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                uses->list = more;
                uses->cap = cap;
        }
        INFP_TRY(infp_map_put(&uses->map, id, uses->n));
        *ret = &uses->list[uses->n++];
        **ret = (struct use){ .id = id, .rss = NAN, .rss_peak = NAN, .first_unix_ns = unix_ns };
        return 1;
}

static void count(struct counter *counter, uint64_t v)
{
        if (counter->has)
                counter->more += infp_increase_u64(INFP_RESET_ZERO, counter->last, v, 0);
        else
                counter->first = v;
        counter->last = v;
        counter->has = true;
}

static bool has(const struct infp_batch *batch, int column, uint32_t row)
{
        return column >= 0 && infp_batch_has(batch, (unsigned) column, row);
}

static uint64_t cell(const struct infp_batch *batch, int column, uint32_t row)
{
        const int64_t v = infp_batch_i64(batch, (unsigned) column, row);

        return v > 0 ? (uint64_t) v : 0;
}

static int add_row(struct uses *uses, const struct infp_report_processes_options *options,
                   const struct infp_batch *batch, const int *at, uint32_t row)
{
        const int64_t unix_ns = infp_batch_i64(batch, 1, row);
        bool in_tree;
        struct use *use;
        int r;

        if (!has(batch, at[PROCESS], row))
                return 0;
        r = find_use(uses, infp_batch_u64(batch, (unsigned) at[PROCESS], row), unix_ns, &use);
        if (r == 0)
                uses->n_rows_left_out++;
        if (r <= 0)
                return r;
        use->last_unix_ns = unix_ns;
        if (has(batch, at[CPU_NS], row))
                count(&use->ns, cell(batch, at[CPU_NS], row));
        if (has(batch, at[CPU_USER], row) && has(batch, at[CPU_KERNEL], row))
                count(&use->cs, cell(batch, at[CPU_USER], row) + cell(batch, at[CPU_KERNEL], row));
        if (has(batch, at[RSS], row))
                use->rss = fmax(use->rss, infp_batch_number(batch, (unsigned) at[RSS], row));
        if (has(batch, at[RSS_PEAK], row))
                use->rss_peak = fmax(use->rss_peak, infp_batch_number(batch, (unsigned) at[RSS_PEAK], row));
        in_tree = has(batch, at[IN_TREE], row) && infp_batch_bool(batch, (unsigned) at[IN_TREE], row);
        use->is_new |= in_tree && options->tree_is_new;
        uses->beyond_tree |= !in_tree;
        return 0;
}

static int out_of_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "no memory for the report");
}

static int read_uses(struct infp_run *run, const struct infp_report_processes_options *options, struct uses *uses,
                     struct infp_err *err)
{
        struct infp_scan *scan;
        struct infp_batch batch;
        int at[N_COLUMNS], r;

        INFP_TRY(r = infp_report_scan(run, "processes", columns, options->scan, &scan, err));
        for (unsigned i = 0; i < N_COLUMNS; i++)
                at[i] = infp_table_find(infp_scan_table(scan), columns[i]);
        while (r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (add_row(uses, options, &batch, at, row) < 0)
                                r = out_of_memory(err);
        infp_scan_close(scan);
        return r;
}

/* The entity table is streamed as well: with every command line of a day it would not fit into memory. */
static int scan_processes(struct infp_run *run, const struct infp_report_processes_options *options,
                          const char *const *wanted, struct infp_scan **ret, struct infp_err *err)
{
        const struct infp_scan_options scan = { .catalog = options->scan->catalog };

        return infp_report_scan(run, "process", wanted, &scan, ret, err);
}

static int read_starts(struct infp_run *run, const struct infp_report_processes_options *options, struct uses *uses,
                       struct infp_err *err)
{
        static const char *const names[] = { "id", "pStartTime", NULL };
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = scan_processes(run, options, names, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        const int id = infp_table_find(infp_scan_table(scan), names[0]),
                  start = infp_table_find(infp_scan_table(scan), names[1]);

        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        const uint64_t *number;
                        struct use *use;
                        int64_t began;

                        if (!has(&batch, id, row) || !has(&batch, start, row))
                                continue;
                        number = infp_map_get(&uses->map, infp_batch_u64(&batch, (unsigned) id, row));
                        if (!number)
                                continue;
                        use = &uses->list[*number];
                        began = infp_batch_i64(&batch, (unsigned) start, row) + start_step_ns;
                        if (began > options->from_unix_ns &&
                            (!options->late_ns || use->first_unix_ns - began < options->late_ns))
                                use->is_new = true;
                }
        infp_scan_close(scan);
        return r;
}

static double seconds(const struct counter *counter, bool is_new, double factor)
{
        return counter->has ? (double) (counter->more + (is_new ? counter->first : 0)) * factor : NAN;
}

/* What a process used before the range is not of it. The ticks may say less than the clock by one each; they say more where
 * the clock of an ended process could not be read any more. */
static void conclude(struct use *use)
{
        const double ns = seconds(&use->ns, use->is_new, 1e-9), cs = seconds(&use->cs, use->is_new, 1e-2);

        use->cpu_s = isnan(ns) || cs > ns + 0.02 ? cs : ns;
        /* The kernel's own peak holds from the start of the process. */
        if (use->is_new)
                use->rss = fmax(use->rss, use->rss_peak);
}

static int compare(double a, double b)
{
        return isnan(a) != isnan(b) ? isnan(a) - isnan(b) : a < b ? 1 : a > b ? -1 : 0;
}

static int by_cpu(const void *a, const void *b)
{
        const struct use *x = a, *y = b;
        int r = compare(x->cpu_s, y->cpu_s);

        r = r ? r : compare(x->rss, y->rss);
        return r ? r : (x->first_unix_ns > y->first_unix_ns) - (x->first_unix_ns < y->first_unix_ns);
}

static void take(struct infp_report_processes *ret, const struct use *use)
{
        ret->list[ret->n++] = (struct infp_report_process){
                .id = use->id,
                .pid = -1,
                .cpu_s = use->cpu_s,
                .cpu_share_percent = NAN,
                .rss_peak_bytes = use->rss,
                .first_unix_ns = use->first_unix_ns,
                .last_unix_ns = use->last_unix_ns,
        };
}

static void choose(struct uses *uses, struct infp_report_processes *ret)
{
        size_t biggest = 0;

        for (size_t i = 0; i < uses->n; i++)
                conclude(&uses->list[i]);
        if (uses->n)
                qsort(uses->list, uses->n, sizeof(*uses->list), by_cpu);
        for (size_t i = 0; i < uses->n; i++) {
                if (i < INFP_REPORT_BUSIEST)
                        take(ret, &uses->list[i]);
                if (compare(uses->list[i].rss, uses->list[biggest].rss) < 0)
                        biggest = i;
        }
        if (biggest >= INFP_REPORT_BUSIEST)
                take(ret, &uses->list[biggest]);
        ret->n_seen = (unsigned) uses->n;
        ret->n_rows_left_out = uses->n_rows_left_out;
        ret->beyond_tree = uses->beyond_tree;
}

static int set_text(char **ret, const struct infp_batch *batch, int column, uint32_t row)
{
        size_t size;
        const char *text;

        if (!has(batch, column, row))
                return 0;
        text = infp_batch_str(batch, (unsigned) column, row, &size);
        free(*ret);
        *ret = strndup(text, size);
        return *ret ? 0 : -ENOMEM;
}

/* The last word about each of those that were chosen. */
static int read_names(struct infp_run *run, const struct infp_report_processes_options *options,
                      struct infp_report_processes *ret, struct infp_err *err)
{
        static const char *const names[] = { "id", "pId", "pName", "pCmdline", NULL };
        int at[INFP_COUNT(names) - 1];
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = scan_processes(run, options, names, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < INFP_COUNT(at); i++)
                at[i] = infp_table_find(infp_scan_table(scan), names[i]);
        while (at[0] >= 0 && r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        for (unsigned i = 0; i < ret->n; i++) {
                                struct infp_report_process *p = &ret->list[i];

                                if (infp_batch_u64(&batch, (unsigned) at[0], row) != p->id)
                                        continue;
                                if (has(&batch, at[1], row))
                                        p->pid = infp_batch_i64(&batch, (unsigned) at[1], row);
                                if (set_text(&p->name, &batch, at[2], row) < 0 ||
                                    set_text(&p->command, &batch, at[3], row) < 0)
                                        r = out_of_memory(err);
                        }
        infp_scan_close(scan);
        return r;
}

int infp_report_processes_read(struct infp_run *run, const struct infp_report_processes_options *options,
                               struct infp_report_processes *ret, const char **ret_table, struct infp_err *err)
{
        infp_cleanup(uses_done) struct uses uses = { 0 };
        int r;

        *ret = (struct infp_report_processes){ 0 };
        *ret_table = "processes";
        INFP_TRY(read_uses(run, options, &uses, err));
        if (!uses.n)
                return 0;
        *ret_table = "process";
        INFP_TRY(read_starts(run, options, &uses, err));
        choose(&uses, ret);
        r = read_names(run, options, ret, err);
        if (r < 0)
                infp_report_processes_done(ret);
        return r;
}
