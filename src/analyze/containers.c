#include "analyze/containers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report_scan.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"

static const char *const columns[] = {
        [INFP_CONTAINER_CPU] = "cCpuTime",
        [INFP_CONTAINER_PERIODS] = "cCpuPeriods",
        [INFP_CONTAINER_THROTTLED] = "cCpuThrottledPeriods",
        [INFP_CONTAINER_THROTTLED_NS] = "cCpuThrottledTime",
        [INFP_CONTAINER_OOM_KILLS] = "cOomKills",
        [INFP_CONTAINER_LIMIT_HITS] = "cMemoryLimitHits",
        [INFP_CONTAINER_READ] = "cDiskReadBytes",
        [INFP_CONTAINER_WRITTEN] = "cDiskWriteBytes",
        [INFP_CONTAINER_RECEIVED] = "cNetworkBytesRecvd",
        [INFP_CONTAINER_SENT] = "cNetworkBytesSent",
        [INFP_CONTAINER_CPU_SOME] = "cPressureCpuSome",
        [INFP_CONTAINER_CPU_FULL] = "cPressureCpuFull",
        [INFP_CONTAINER_MEMORY_SOME] = "cPressureMemorySome",
        [INFP_CONTAINER_MEMORY_FULL] = "cPressureMemoryFull",
        [INFP_CONTAINER_IO_SOME] = "cPressureIoSome",
        [INFP_CONTAINER_IO_FULL] = "cPressureIoFull",
        [INFP_CONTAINER_MEMORY] = "cMemoryUsed",
        [INFP_CONTAINER_MEMORY_PEAK] = "cMemoryMaxUsed",
        [INFP_CONTAINER_MEMORY_LIMIT] = "cMemoryLimitEffective",
        [INFP_CONTAINER_CPU_LIMIT] = "cCpuLimitEffective",
        [INFP_CONTAINER_PROCESSORS] = "cNumProcessors",
        [INFP_CONTAINER_OTHERS] = "cOtherProcesses",
        "container",
        "cIsTarget",
        NULL,
};
enum { ID = INFP_CONTAINER_FIGURES, IS_TARGET, N_COLUMNS };

void infp_containers_done(struct infp_containers *containers)
{
        for (unsigned i = 0; i < containers->n; i++) {
                free(containers->list[i].cid);
                free(containers->list[i].name);
                free(containers->list[i].runtime);
        }
        free(containers->list);
        *containers = (struct infp_containers){ 0 };
}

static int out_of_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "no memory for the containers of the report");
}

/* NULL: no memory, or (*ret_is_full) one too many. */
static struct infp_container_use *use_of(struct infp_containers *c, struct infp_map *map, uint64_t id,
                                         bool *ret_is_full)
{
        const uint64_t *known = infp_map_get(map, id);
        struct infp_container_use *more;

        if (known)
                return &c->list[*known];
        *ret_is_full = c->n == INFP_CONTAINERS_MOST;
        if (*ret_is_full)
                return NULL;
        if ((c->n & (c->n - 1)) == 0) {
                more = reallocarray(c->list, c->n ? 2 * (size_t) c->n : 1, sizeof(*more));
                if (!more)
                        return NULL;
                c->list = more;
        }
        if (infp_map_put(map, id, c->n) < 0)
                return NULL;
        c->list[c->n] = (struct infp_container_use){ .id = id };
        return &c->list[c->n++];
}

static void add_row(struct infp_container_use *use, const struct infp_batch *batch, const int at[], uint32_t row)
{
        use->last_t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        if (!use->first_t_ns)
                use->first_t_ns = use->last_t_ns;
        for (unsigned i = 0; i < INFP_CONTAINER_FIGURES; i++)
                if (at[i] >= 0)
                        infp_stat_add(&use->stat[i], batch, (unsigned) at[i], row);
        if (at[IS_TARGET] >= 0 && infp_batch_bool(batch, (unsigned) at[IS_TARGET], row))
                use->is_target = true;
}

static int read_uses(struct infp_run *run, const struct infp_scan_options *options, struct infp_containers *ret,
                     struct infp_map *map, struct infp_err *err)
{
        int at[N_COLUMNS];
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = infp_report_scan(run, "containers", columns, options, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < N_COLUMNS; i++)
                at[i] = infp_table_find(infp_scan_table(scan), columns[i]);
        while (at[ID] >= 0 && r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++) {
                        bool is_full = false;
                        struct infp_container_use *use =
                                use_of(ret, map, infp_batch_u64(&batch, (unsigned) at[ID], row), &is_full);

                        if (use)
                                add_row(use, &batch, at, row);
                        else if (is_full)
                                ret->n_rows_left_out++;
                        else
                                r = out_of_memory(err);
                }
        infp_scan_close(scan);
        return r;
}

static int set_text(char **ret, const struct infp_batch *batch, int column, uint32_t row)
{
        size_t size;
        const char *text;

        if (column < 0 || !infp_batch_has(batch, (unsigned) column, row))
                return 0;
        text = infp_batch_str(batch, (unsigned) column, row, &size);
        free(*ret);
        *ret = strndup(text, size);
        return *ret ? 0 : -ENOMEM;
}

/* Who they are is told once a segment, which may have begun before the range. */
static int read_names(struct infp_run *run, const struct infp_scan_options *options, struct infp_containers *ret,
                      const struct infp_map *map, struct infp_err *err)
{
        static const char *const names[] = { "id", "cId", "cName", "cRuntime", NULL };
        const struct infp_scan_options all = { .catalog = options->catalog };
        int at[INFP_COUNT(names) - 1];
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = infp_report_scan(run, "container", names, &all, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < INFP_COUNT(at); i++)
                at[i] = infp_table_find(infp_scan_table(scan), names[i]);
        while (at[0] >= 0 && r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++) {
                        const uint64_t *i = infp_map_get(map, infp_batch_u64(&batch, (unsigned) at[0], row));
                        struct infp_container_use *use = i ? &ret->list[*i] : NULL;

                        if (use && (set_text(&use->cid, &batch, at[1], row) < 0 ||
                                    set_text(&use->name, &batch, at[2], row) < 0 ||
                                    set_text(&use->runtime, &batch, at[3], row) < 0))
                                r = out_of_memory(err);
                }
        infp_scan_close(scan);
        return r;
}

/* Columns of table pressure; NULL: the kernel has no such. */
static const struct {
        const char *resource, *some, *full;
} pressures[] = {
        { "cpu", "vPressureCpuSome", "vPressureCpuFull" },
        { "memory", "vPressureMemorySome", "vPressureMemoryFull" },
        { "io", "vPressureIoSome", "vPressureIoFull" },
        { "irq", NULL, "vPressureIrqFull" },
};
_Static_assert(INFP_COUNT(pressures) == INFP_PRESSURES, "room for each resource");

static int scan_pressure(struct infp_run *run, const struct infp_scan_options *options,
                         struct infp_pressure_use uses[INFP_PRESSURES], struct infp_err *err)
{
        const char *names[2 * INFP_PRESSURES + 1];
        int at[2 * INFP_PRESSURES];
        struct infp_scan *scan;
        struct infp_batch batch;
        unsigned n = 0;
        int r;

        for (unsigned i = 0; i < INFP_PRESSURES; i++) {
                if (pressures[i].some)
                        names[n++] = pressures[i].some;
                names[n++] = pressures[i].full;
        }
        names[n] = NULL;
        r = infp_report_scan(run, "pressure", names, options, &scan, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < INFP_PRESSURES; i++) {
                at[2 * i] = pressures[i].some ? infp_table_find(infp_scan_table(scan), pressures[i].some) : -1;
                at[2 * i + 1] = infp_table_find(infp_scan_table(scan), pressures[i].full);
        }
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (unsigned i = 0; i < 2 * INFP_PRESSURES; i++)
                        for (uint32_t row = 0; at[i] >= 0 && row < batch.n_rows; row++)
                                infp_stat_add(i % 2 ? &uses[i / 2].full : &uses[i / 2].some, &batch, (unsigned) at[i],
                                              row);
        infp_scan_close(scan);
        return r;
}

/* Those resources of which there is anything. */
static int read_pressure(struct infp_run *run, const struct infp_scan_options *options, struct infp_containers *ret,
                         struct infp_err *err)
{
        struct infp_pressure_use uses[INFP_PRESSURES] = { { 0 } };
        int r = scan_pressure(run, options, uses, err);

        for (unsigned i = 0; i < INFP_PRESSURES && r >= 0; i++) {
                if (!uses[i].some.has_last && !uses[i].full.has_last)
                        continue;
                uses[i].resource = pressures[i].resource;
                ret->pressure[ret->n_pressure++] = uses[i];
        }
        return r;
}

static double cpu_of(const struct infp_container_use *use)
{
        return use->stat[INFP_CONTAINER_CPU].n ? (double) use->stat[INFP_CONTAINER_CPU].total_u64 : -1;
}

static int in_order(const void *a, const void *b)
{
        const struct infp_container_use *x = a, *y = b;
        double cpu_x = cpu_of(x), cpu_y = cpu_of(y);

        if (x->is_target != y->is_target)
                return x->is_target ? -1 : 1;
        if (cpu_x > cpu_y || cpu_x < cpu_y)
                return cpu_x > cpu_y ? -1 : 1;
        return x->first_t_ns < y->first_t_ns ? -1 : x->first_t_ns > y->first_t_ns;
}

int infp_containers_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_containers *ret,
                         const char **ret_table, struct infp_err *err)
{
        infp_cleanup(infp_map_done) struct infp_map map = { 0 };
        int r;

        *ret = (struct infp_containers){ 0 };
        *ret_table = "containers";
        r = read_uses(run, options, ret, &map, err);
        if (r >= 0 && ret->n) {
                *ret_table = "container";
                r = read_names(run, options, ret, &map, err);
        }
        if (r >= 0) {
                *ret_table = "pressure";
                r = read_pressure(run, options, ret, err);
        }
        if (r < 0)
                infp_containers_done(ret);
        else
                infp_sort(ret->list, ret->n, sizeof(*ret->list), in_order);
        return r < 0 ? r : 0;
}

double infp_container_total(const struct infp_container_use *use, enum infp_container_figure figure)
{
        const struct infp_stat *stat = &use->stat[figure];
        bool is_time = figure == INFP_CONTAINER_CPU || figure == INFP_CONTAINER_THROTTLED_NS ||
                       (figure >= INFP_CONTAINER_CPU_SOME && figure <= INFP_CONTAINER_IO_FULL);

        return stat->n ? (double) stat->total_u64 / (is_time ? 1e9 : 1) : NAN;
}

double infp_container_seconds(const struct infp_container_use *use)
{
        return use->last_t_ns > use->first_t_ns ? (double) (use->last_t_ns - use->first_t_ns) / 1e9 : NAN;
}

double infp_container_throttled(const struct infp_container_use *use)
{
        double periods = infp_container_total(use, INFP_CONTAINER_PERIODS);

        return periods > 0 ? infp_container_total(use, INFP_CONTAINER_THROTTLED) / periods : NAN;
}

double infp_container_cpus(const struct infp_container_use *use)
{
        return infp_stat_mean(&use->stat[INFP_CONTAINER_CPU]) / 1e9;
}

static double last_of(const struct infp_container_use *use, enum infp_container_figure figure)
{
        return use->stat[figure].has_last ? use->stat[figure].last : NAN;
}

double infp_container_cpus_allowed(const struct infp_container_use *use, double machine_cpus)
{
        /* fmin takes no notice of what is not a number. */
        return fmin(fmin(last_of(use, INFP_CONTAINER_CPU_LIMIT), last_of(use, INFP_CONTAINER_PROCESSORS)),
                    machine_cpus);
}

double infp_container_memory_peak(const struct infp_container_use *use)
{
        const struct infp_stat *peak = &use->stat[INFP_CONTAINER_MEMORY_PEAK],
                               *used = &use->stat[INFP_CONTAINER_MEMORY];
        double seen = used->n ? used->max : NAN;

        /* The kernel's own peak is of all its life: of this range only when it has risen in it. */
        if (peak->n && peak->last > peak->first)
                return fmax(peak->last, seen);
        return seen;
}

double infp_container_memory_allowed(const struct infp_container_use *use, double machine_bytes, bool *ret_is_limit)
{
        double limit = last_of(use, INFP_CONTAINER_MEMORY_LIMIT);

        /* A limit beyond the machine's memory limits nothing. */
        *ret_is_limit = limit > 0 && !(limit > machine_bytes);
        return *ret_is_limit ? limit : machine_bytes;
}

double infp_container_waited(const struct infp_container_use *use, enum infp_container_figure figure)
{
        return infp_stat_mean(&use->stat[figure]) / 1e9;
}

double infp_pressure_waited(const struct infp_pressure_use *use, bool full)
{
        return infp_stat_mean(full ? &use->full : &use->some) / 1e9;
}
