#include "analyze/report_processes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report.h"
#include "base/mem.h"
#include "base/sort.h"
#include "model/rate.h"

enum { PROCESS, CPU_NS, CPU_USER, CPU_KERNEL, RSS, RSS_PEAK, IN_TREE, N_COLUMNS, MORE_COLUMNS = 8 };

static const char *const columns[] = {
        [PROCESS] = "process",           [CPU_NS] = "pCpuTimeNs",
        [CPU_USER] = "pCpuTimeUserMode", [CPU_KERNEL] = "pCpuTimeKernelMode",
        [RSS] = "pResidentSetSize",      [RSS_PEAK] = "pRssPeakBytes",
        [IN_TREE] = "pInTree",           [N_COLUMNS] = NULL,
};

/* Start times have steps of 10 ms, downwards. */
static const int64_t start_step_ns = 10000000;

struct infp_report_processes_options infp_uses_options(const struct infp_report *report,
                                                       const struct infp_scan_options *scan)
{
        const struct infp_run_info *info = &report->run->info;

        return (struct infp_report_processes_options){
                .scan = scan,
                .from_unix_ns = report->from_unix_ns,
                .tree_is_new = !strcmp(info->mode, "run") && report->range.t0 == report->range.start,
                .late_ns = strcmp(info->mode, "pid") ? 0 : info->period_ms * INT64_C(1000000),
        };
}

void infp_uses_done(struct infp_uses *uses)
{
        free(uses->list);
        infp_map_done(&uses->map);
        *uses = (struct infp_uses){ 0 };
}

/* 1: found or added; 0: no room. */
static int find_use(struct infp_uses *uses, uint64_t id, int64_t unix_ns, struct infp_use **ret)
{
        const uint64_t *number = infp_map_get(&uses->map, id);

        if (number) {
                *ret = &uses->list[*number];
                return 1;
        }
        if (uses->n == INFP_REPORT_MAX_PROCESSES) /* bound: the rows left out are counted (n_rows_left_out) */
                return 0;
        if (!INFP_MAKE_ROOM(uses->list, uses->n, uses->cap, 64))
                return -ENOMEM;
        INFP_TRY(infp_map_put(&uses->map, id, uses->n));
        *ret = &uses->list[uses->n++];
        **ret = (struct infp_use){
                .id = id, .number = uses->n - 1, .rss = NAN, .rss_peak = NAN, .first_unix_ns = unix_ns
        };
        return 1;
}

/* Returns the increase since the previous row; NAN for the first row. */
static double count(struct infp_use_counter *counter, uint64_t v)
{
        double ret = NAN;

        if (counter->has) {
                const uint64_t more = infp_increase_u64(INFP_RESET_ZERO, counter->last, v, 0);

                counter->more += more;
                ret = (double) more;
        } else {
                counter->first = v;
        }
        counter->last = v;
        counter->has = true;
        return ret;
}

static uint64_t cell(const struct infp_batch *batch, int column, uint32_t row)
{
        const int64_t v = infp_batch_i64(batch, (unsigned) column, row);

        return v > 0 ? (uint64_t) v : 0;
}

struct reading {
        const struct infp_report_processes_options *options;
        struct infp_uses *uses;
        infp_uses_row *row;
        void *context;
};

static int add_row(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct reading *reading = context;
        const struct infp_report_processes_options *options = reading->options;
        struct infp_uses *uses = reading->uses;
        const int64_t unix_ns = infp_batch_i64(batch, 1, row);
        double ns = NAN, cs = NAN;
        bool in_tree;
        struct infp_use *use;
        int r;

        if (!infp_cell_has(batch, at[PROCESS], row))
                return 0;
        r = find_use(uses, infp_batch_u64(batch, (unsigned) at[PROCESS], row), unix_ns, &use);
        if (r == 0)
                uses->n_rows_left_out++;
        if (r <= 0)
                return r;
        use->last_unix_ns = unix_ns;
        if (infp_cell_has(batch, at[CPU_NS], row))
                ns = count(&use->ns, cell(batch, at[CPU_NS], row));
        if (infp_cell_has(batch, at[CPU_USER], row) && infp_cell_has(batch, at[CPU_KERNEL], row))
                cs = count(&use->cs, cell(batch, at[CPU_USER], row) + cell(batch, at[CPU_KERNEL], row));
        use->rss = fmax(use->rss, infp_cell_number(batch, at[RSS], row));
        use->rss_peak = fmax(use->rss_peak, infp_cell_number(batch, at[RSS_PEAK], row));
        in_tree = infp_cell_bool(batch, at[IN_TREE], row);
        use->is_new |= in_tree && options->tree_is_new;
        uses->beyond_tree |= !in_tree;
        return reading->row ? reading->row(reading->context, use, batch, at + N_COLUMNS, row,
                                           isnan(ns) ? cs * 1e-2 : ns * 1e-9)
                            : 0;
}

/* Streamed: all command lines of a day would not fit into memory. */
int infp_uses_scan_processes(struct infp_run *run, const struct infp_report_processes_options *options,
                             const char *const *wanted, infp_scan_row *take, void *context, struct infp_err *err)
{
        const struct infp_scan_options scan = { .catalog = options->scan->catalog };

        return infp_scan_rows(run, "process", wanted, &scan, take, context, err);
}

static int take_start(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct reading *reading = context;
        const int64_t late_ns = reading->options->late_ns;
        const uint64_t *number;
        struct infp_use *use;
        int64_t began;

        if (!infp_cell_has(batch, at[0], row) || !infp_cell_has(batch, at[1], row))
                return 0;
        number = infp_map_get(&reading->uses->map, infp_batch_u64(batch, (unsigned) at[0], row));
        if (!number)
                return 0;
        use = &reading->uses->list[*number];
        use->start_unix_ns = infp_batch_i64(batch, (unsigned) at[1], row);
        began = use->start_unix_ns + start_step_ns;
        if (began > reading->options->from_unix_ns && (!late_ns || use->first_unix_ns - began < late_ns))
                use->is_new = true;
        return 0;
}

static double seconds(const struct infp_use_counter *counter, bool is_new, double factor)
{
        return counter->has ? (double) (counter->more + (is_new ? counter->first : 0)) * factor : NAN;
}

/* CPU time before the range does not count. Ticks can lag the clock by one each; they exceed it if the clock of an ended
 * process could no longer be read. */
static void conclude(struct infp_use *use)
{
        const double ns = seconds(&use->ns, use->is_new, 1e-9), cs = seconds(&use->cs, use->is_new, 1e-2);

        use->cpu_s = isnan(ns) || cs > ns + 0.02 ? cs : ns;
        /* The kernel's own peak holds from the start of the process. */
        if (use->is_new)
                use->rss = fmax(use->rss, use->rss_peak);
}

int infp_uses_compare(double a, double b)
{
        return isnan(a) != isnan(b) ? isnan(a) - isnan(b) : a < b ? 1 : a > b ? -1 : 0;
}

static int by_cpu(const void *a, const void *b)
{
        const struct infp_use *x = a, *y = b;
        int r = infp_uses_compare(x->cpu_s, y->cpu_s);

        r = r ? r : infp_uses_compare(x->rss, y->rss);
        return r ? r : (x->first_unix_ns > y->first_unix_ns) - (x->first_unix_ns < y->first_unix_ns);
}

int infp_uses_read(struct infp_run *run, const struct infp_report_processes_options *options,
                   const char *const *more_columns, infp_uses_row *row, void *context, struct infp_uses *ret,
                   const char **ret_table, struct infp_err *err)
{
        static const char *const starts[] = { "id", "pStartTime", NULL };
        const char *names[N_COLUMNS + MORE_COLUMNS + 1] = { NULL };
        struct reading reading = { options, ret, row, context };

        memcpy(names, columns, N_COLUMNS * sizeof(*names));
        for (unsigned i = 0; more_columns && more_columns[i] && i < MORE_COLUMNS; i++)
                names[N_COLUMNS + i] = more_columns[i];
        *ret_table = "processes";
        INFP_TRY(infp_scan_rows(run, "processes", names, options->scan, add_row, &reading, err));
        if (!ret->n)
                return 0;
        *ret_table = "process";
        INFP_TRY(infp_uses_scan_processes(run, options, starts, take_start, &reading, err));
        for (size_t i = 0; i < ret->n; i++)
                conclude(&ret->list[i]);
        infp_sort(ret->list, ret->n, sizeof(*ret->list), by_cpu);
        return 0;
}

void infp_report_processes_done(struct infp_report_processes *processes)
{
        for (unsigned i = 0; i < processes->n; i++) {
                free(processes->list[i].name);
                free(processes->list[i].command);
        }
        *processes = (struct infp_report_processes){ 0 };
}

static void take(struct infp_report_processes *ret, const struct infp_use *use)
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

static void choose(struct infp_uses *uses, struct infp_report_processes *ret)
{
        size_t biggest = 0;

        for (size_t i = 0; i < uses->n; i++) {
                if (i < INFP_REPORT_BUSIEST)
                        take(ret, &uses->list[i]);
                if (infp_uses_compare(uses->list[i].rss, uses->list[biggest].rss) < 0)
                        biggest = i;
        }
        if (biggest >= INFP_REPORT_BUSIEST)
                take(ret, &uses->list[biggest]);
        ret->n_seen = (unsigned) uses->n;
        ret->n_rows_left_out = uses->n_rows_left_out;
        ret->beyond_tree = uses->beyond_tree;
}

/* The latest name and command line of each chosen process. */
static int take_name(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_report_processes *ret = context;

        for (unsigned i = 0; at[0] >= 0 && i < ret->n; i++) {
                struct infp_report_process *p = &ret->list[i];

                if (infp_batch_u64(batch, (unsigned) at[0], row) != p->id)
                        continue;
                if (infp_cell_has(batch, at[1], row))
                        p->pid = infp_batch_i64(batch, (unsigned) at[1], row);
                INFP_TRY(infp_cell_keep(&p->name, batch, at[2], row));
                INFP_TRY(infp_cell_keep(&p->command, batch, at[3], row));
        }
        return 0;
}

int infp_report_processes_read(struct infp_run *run, const struct infp_report_processes_options *options,
                               struct infp_report_processes *ret, const char **ret_table, struct infp_err *err)
{
        static const char *const names[] = { "id", "pId", "pName", "pCmdline", NULL };
        infp_cleanup(infp_uses_done) struct infp_uses uses = { 0 };
        int r;

        *ret = (struct infp_report_processes){ 0 };
        INFP_TRY(infp_uses_read(run, options, NULL, NULL, NULL, &uses, ret_table, err));
        if (!uses.n)
                return 0;
        choose(&uses, ret);
        r = infp_uses_scan_processes(run, options, names, take_name, ret, err);
        if (r < 0)
                infp_report_processes_done(ret);
        return r;
}
