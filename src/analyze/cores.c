#include "analyze/cores.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "model/rate.h"

/* The first five are work. vCpuTimeUserMode holds the guests' time already. */
enum { WORK_PARTS = 5, DOMINANCE = 70 };
const char *const infp_cores_columns[] = {
        "vCpuTimeUserMode",
        "vCpuNice",
        "vCpuTimeKernelMode",
        "vCpuTimeIntSrvc",
        "vCpuTimeSoftIntSrvc",
        "vCpuIdleTime",
        "vCpuTimeIOWait",
        "vCpuSteal",
        "core",
        NULL,
};

void infp_cores_done(struct infp_cores *cores)
{
        free(cores->cores);
        free(cores->sorted);
        *cores = (struct infp_cores){ 0 };
}

static int compare_doubles(const void *a, const void *b)
{
        const double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

double infp_disparity(double *loads, unsigned n)
{
        double sum = 0, weighted = 0, gini;

        for (unsigned i = 0; i < n; i++)
                sum += loads[i];
        if (n < 2 || sum <= 0)
                return NAN;
        infp_sort(loads, n, sizeof(*loads), compare_doubles);
        for (unsigned i = 0; i < n; i++)
                weighted += (i + 1) * (loads[i] / sum);
        gini = (2 * weighted - n - 1) / n;
        return 100 * fmax(gini, 0) / ((n - 1.0) / n);
}

static void find_columns(struct infp_cores *cores, const struct infp_table *table)
{
        cores->table = table;
        cores->key = infp_table_find(table, infp_cores_columns[INFP_CORE_PARTS]);
        for (unsigned i = 0; i < INFP_CORE_PARTS; i++)
                cores->columns[i] = infp_table_find(table, infp_cores_columns[i]);
}

/* The core with this number; a new one is inserted in order. NULL without memory. */
static struct infp_core *core_of(struct infp_cores *cores, int64_t number)
{
        unsigned at = cores->n, sorted_cap = cores->cap;

        while (at && cores->cores[at - 1].number >= number)
                at--;
        if (at < cores->n && cores->cores[at].number == number)
                return &cores->cores[at];
        if (!INFP_MAKE_ROOM(cores->sorted, cores->n, sorted_cap, 16) ||
            !INFP_MAKE_ROOM(cores->cores, cores->n, cores->cap, 16))
                return NULL;
        memmove(cores->cores + at + 1, cores->cores + at, (cores->n - at) * sizeof(*cores->cores));
        cores->cores[at] = (struct infp_core){ .number = number };
        cores->n++;
        return &cores->cores[at];
}

static void find_dominant(struct infp_cores *cores, unsigned n_loads)
{
        const struct infp_core *first = NULL, *second = NULL;

        for (unsigned i = 0; i < cores->n; i++) {
                const struct infp_core *core = &cores->cores[i];

                if (!core->has_load)
                        continue;
                if (!first || core->load > first->load) {
                        second = first;
                        first = core;
                } else if (!second || core->load > second->load) {
                        second = core;
                }
        }
        if (n_loads < 2 || first->load - second->load < DOMINANCE)
                return;
        cores->n_dominant_changes += cores->n_dominated && cores->dominant != first->number;
        cores->dominant = first->number;
        cores->n_dominated++;
}

/* All rows of one moment have been read: compares the cores that were also there at the moment before. */
static void end_interval(struct infp_cores *cores)
{
        unsigned n = 0;
        double disparity, sum = 0;

        for (unsigned i = 0; i < cores->n; i++)
                if (cores->cores[i].has_load) {
                        cores->sorted[n++] = cores->cores[i].load;
                        sum += cores->cores[i].load;
                }
        if (n)
                infp_stat_add_value(&cores->average, sum / n, 1);
        disparity = infp_disparity(cores->sorted, n);
        if (!isnan(disparity))
                infp_stat_add_value(&cores->disparity, disparity, 1);
        find_dominant(cores, n);
        for (unsigned i = 0; i < cores->n; i++) {
                /* A core that was offline starts over when it is back. */
                if (!cores->cores[i].is_seen)
                        cores->cores[i].t_ns = 0;
                cores->cores[i].has_load = cores->cores[i].is_seen = false;
        }
}

static void take(struct infp_cores *cores, struct infp_core *core, const struct infp_batch *batch, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        uint64_t work = 0, all = 0;

        for (unsigned i = 0; i < INFP_CORE_PARTS; i++) {
                const int column = cores->columns[i];
                uint64_t value, more;

                if (column < 0 || !infp_batch_has(batch, (unsigned) column, row))
                        continue;
                value = (uint64_t) infp_batch_i64(batch, (unsigned) column, row);
                more = infp_increase_u64(infp_table_column(batch->table, (unsigned) column)->reset, core->parts[i],
                                         value, 0);
                core->parts[i] = value;
                all += more;
                work += i < WORK_PARTS ? more : 0;
        }
        core->is_seen = true;
        if (core->t_ns && t_ns > core->t_ns && all) {
                core->load = 100.0 * (double) work / (double) all;
                core->has_load = true;
                infp_stat_add_value(&core->stat, core->load, (double) (t_ns - core->t_ns) / 1e9);
        }
        core->t_ns = t_ns;
}

int infp_cores_add(struct infp_cores *cores, const struct infp_batch *batch, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        struct infp_core *core;

        if (cores->table != batch->table)
                find_columns(cores, batch->table);
        if (cores->key < 0 || !infp_batch_has(batch, (unsigned) cores->key, row))
                return 0;
        if (cores->has_rows && t_ns != cores->t_ns)
                end_interval(cores);
        cores->t_ns = t_ns;
        cores->has_rows = true;
        core = core_of(cores, infp_batch_i64(batch, (unsigned) cores->key, row));
        if (!core)
                return -ENOMEM;
        take(cores, core, batch, row);
        return 0;
}

void infp_cores_end(struct infp_cores *cores)
{
        if (cores->has_rows)
                end_interval(cores);
        cores->has_rows = false;
}
