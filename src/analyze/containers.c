#include "analyze/containers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/scan_some.h"
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
enum { ID = INFP_CONTAINER_FIGURES, IS_TARGET };

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

/* NULL: no memory, or (*ret_is_full) one too many. */
static struct infp_container_use *use_of(struct infp_containers *c, struct infp_map *map, uint64_t id,
                                         bool *ret_is_full)
{
        const uint64_t *known = infp_map_get(map, id);

        if (known)
                return &c->list[*known];
        *ret_is_full = c->n == INFP_CONTAINERS_MOST;
        if (*ret_is_full)
                return NULL;
        if (!INFP_ONE_MORE(c->list, c->n))
                return NULL;
        if (infp_map_put(map, id, c->n) < 0)
                return NULL;
        c->list[c->n] = (struct infp_container_use){ .id = id };
        return &c->list[c->n++];
}

struct reading {
        struct infp_containers *containers;
        struct infp_map map; /* id -> place in the list */
};

static void reading_done(struct reading *reading)
{
        infp_map_done(&reading->map);
}

static int add_row(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct reading *reading = context;
        bool is_full = false;
        struct infp_container_use *use;

        if (at[ID] < 0)
                return 0;
        use = use_of(reading->containers, &reading->map, infp_batch_u64(batch, (unsigned) at[ID], row), &is_full);
        if (!use) {
                reading->containers->n_rows_left_out += is_full;
                return is_full ? 0 : -ENOMEM;
        }
        use->last_t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        if (!use->first_t_ns)
                use->first_t_ns = use->last_t_ns;
        for (unsigned i = 0; i < INFP_CONTAINER_FIGURES; i++)
                if (at[i] >= 0)
                        infp_stat_add(&use->stat[i], batch, (unsigned) at[i], row);
        use->is_target |= infp_cell_bool(batch, at[IS_TARGET], row);
        return 0;
}

/* Their names are written once a segment, which may have begun before the range. */
static const char *const name_columns[] = { "id", "cId", "cName", "cRuntime", NULL };

static int add_name(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct reading *reading = context;
        const uint64_t *i =
                at[0] < 0 ? NULL : infp_map_get(&reading->map, infp_batch_u64(batch, (unsigned) at[0], row));
        struct infp_container_use *use = i ? &reading->containers->list[*i] : NULL;

        if (!use)
                return 0;
        INFP_TRY(infp_cell_keep(&use->cid, batch, at[1], row));
        INFP_TRY(infp_cell_keep(&use->name, batch, at[2], row));
        return infp_cell_keep(&use->runtime, batch, at[3], row);
}

/* `some` and `full` of each resource; interrupts have only `full`. */
static const char *const pressure_columns[] = { "vPressureCpuSome",    "vPressureCpuFull",
                                                "vPressureMemorySome", "vPressureMemoryFull",
                                                "vPressureIoSome",     "vPressureIoFull",
                                                "vPressureIrqFull",    NULL };
static const char *const resources[] = { "cpu", "memory", "io", "irq" };
_Static_assert(INFP_COUNT(resources) == INFP_PRESSURES, "room for each resource");
enum { IRQ_FULL = 6 };

static int add_pressure(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_pressure_use *uses = context;

        for (unsigned i = 0; i <= IRQ_FULL; i++)
                if (at[i] >= 0)
                        infp_stat_add(i % 2 || i == IRQ_FULL ? &uses[i / 2].full : &uses[i / 2].some, batch,
                                      (unsigned) at[i], row);
        return 0;
}

/* Keeps the resources that have values. */
static int read_pressure(struct infp_run *run, const struct infp_scan_options *options, struct infp_containers *ret,
                         struct infp_err *err)
{
        struct infp_pressure_use uses[INFP_PRESSURES] = { { 0 } };

        INFP_TRY(infp_scan_rows(run, "pressure", pressure_columns, options, add_pressure, uses, err));
        for (unsigned i = 0; i < INFP_PRESSURES; i++) {
                if (!uses[i].some.has_last && !uses[i].full.has_last)
                        continue;
                uses[i].resource = resources[i];
                ret->pressure[ret->n_pressure++] = uses[i];
        }
        return 0;
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
        infp_cleanup(reading_done) struct reading reading = { .containers = ret };
        const struct infp_scan_options all = { .catalog = options->catalog };
        int r;

        *ret = (struct infp_containers){ 0 };
        *ret_table = "containers";
        r = infp_scan_rows(run, "containers", columns, options, add_row, &reading, err);
        if (r >= 0 && ret->n) {
                *ret_table = "container";
                r = infp_scan_rows(run, "container", name_columns, &all, add_name, &reading, err);
        }
        if (r >= 0) {
                *ret_table = "pressure";
                r = read_pressure(run, options, ret, err);
        }
        if (r < 0)
                infp_containers_done(ret);
        else
                infp_sort(ret->list, ret->n, sizeof(*ret->list), in_order);
        return r;
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
        /* fmin ignores NAN. */
        return fmin(fmin(last_of(use, INFP_CONTAINER_CPU_LIMIT), last_of(use, INFP_CONTAINER_PROCESSORS)),
                    machine_cpus);
}

double infp_container_memory_peak(const struct infp_container_use *use)
{
        const struct infp_stat *peak = &use->stat[INFP_CONTAINER_MEMORY_PEAK],
                               *used = &use->stat[INFP_CONTAINER_MEMORY];
        double seen = used->n ? used->max : NAN;

        /* The kernel's peak covers the container's whole life: it belongs to this range only if it rose in it. */
        if (peak->n && peak->last > peak->first)
                return fmax(peak->last, seen);
        return seen;
}

double infp_container_memory_allowed(const struct infp_container_use *use, double machine_bytes, bool *ret_is_limit)
{
        double limit = last_of(use, INFP_CONTAINER_MEMORY_LIMIT);

        /* A limit above the machine's memory has no effect. */
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
