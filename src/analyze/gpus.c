#include "analyze/gpus.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/mem.h"
#include "base/sort.h"

const char *const infp_gpu_tables[] = { "nvidia", "amdgpu", "intel", NULL };

static const char *const columns[] = {
        [INFP_GPU_USED] = "gUtilizationGpu",
        [INFP_GPU_MEMORY_USED] = "gMemoryUsedBytes",
        [INFP_GPU_MEMORY_TOTAL] = "gMemoryTotalBytes",
        [INFP_GPU_MEMORY_ACTIVE] = "gUtilizationMem",
        [INFP_GPU_POWER] = "gPowerDrawW",
        [INFP_GPU_POWER_LIMIT] = "gPowerLimitEnforcedW",
        [INFP_GPU_TEMPERATURE] = "gTemperatureC",
        [INFP_GPU_TEMPERATURE_MEMORY] = "gTemperatureMemoryC",
        [INFP_GPU_CLOCK] = "gClockGraphicsMhz",
        [INFP_GPU_CLOCK_MAX] = "gClockGraphicsMaxMhz",
        [INFP_GPU_SM_ACTIVE] = "gGpmSmActive",
        [INFP_GPU_TENSOR_ACTIVE] = "gGpmTensorActive",
        [INFP_GPU_BANDWIDTH] = "gGpmDramBandwidth",
        [INFP_GPU_ECC_UNCORRECTED] = "gEccDoubleBitErrors",
        [INFP_GPU_XIDS] = "gXidErrors",
        [INFP_GPU_HELD_POWER] = "gViolationPowerNs",
        [INFP_GPU_HELD_THERMAL] = "gViolationThermalNs",
        [INFP_GPU_HELD_SYNC_BOOST] = "gViolationSyncBoostNs",
        [INFP_GPU_HELD_BOARD] = "gViolationBoardLimitNs",
        [INFP_GPU_HELD_RELIABILITY] = "gViolationReliabilityNs",
        [INFP_GPU_HELD_SW_THERMAL] = "gViolationSwThermalNs",
        [INFP_GPU_HELD_HW_THERMAL] = "gViolationHwThermalNs",
        [INFP_GPU_HELD_HW_BRAKE] = "gViolationHwPowerBrakeNs",
        "gGpuIndex",
        "gUuid",
        "gName",
        "gVendor",
        "gClocksEventReasonsText",
        NULL,
};
enum { INDEX = INFP_GPU_FIGURES, UUID, NAME, VENDOR, REASONS };

static const char *const process_columns[] = { "gGpuIndex",
                                               "gUuid",
                                               "gPid",
                                               "gProcessName",
                                               "gProcessType",
                                               "gInTree",
                                               "gPidIsHost",
                                               "gProcessMemoryBytes",
                                               "gProcessSm",
                                               "gProcessComputeNs",
                                               NULL };
enum { P_INDEX, P_UUID, P_PID, P_NAME, P_TYPE, P_IN_TREE, P_IS_HOST, P_MEMORY, P_SM, P_COMPUTE };

void infp_gpus_done(struct infp_gpus *gpus)
{
        for (unsigned i = 0; i < gpus->n; i++) {
                struct infp_gpu *gpu = &gpus->list[i];

                free(gpu->uuid);
                free(gpu->name);
                free(gpu->vendor);
                for (unsigned k = 0; k < gpu->n_reasons; k++)
                        free(gpu->reasons[k].text);
                free(gpu->reasons);
                for (unsigned k = 0; k < gpu->n_processes; k++) {
                        free(gpu->processes[k].name);
                        free(gpu->processes[k].type);
                }
                free(gpu->processes);
        }
        free(gpus->list);
        *gpus = (struct infp_gpus){ 0 };
}

/* Keeps the first text. */
static int keep_text(char **ret, const struct infp_batch *batch, int column, uint32_t row)
{
        size_t size;
        const char *text;

        if (*ret || !infp_cell_has(batch, column, row))
                return 0;
        text = infp_batch_str(batch, (unsigned) column, row, &size);
        *ret = strndup(text, size);
        return *ret ? 0 : -ENOMEM;
}

/* NULL: no memory, or (*ret_is_full) one too many. */
static struct infp_gpu *gpu_of(struct infp_gpus *gpus, const char *table, const struct infp_batch *batch, int index_at,
                               int uuid_at, uint32_t row, bool *ret_is_full)
{
        const int64_t index =
                infp_cell_has(batch, index_at, row) ? infp_batch_i64(batch, (unsigned) index_at, row) : -1;
        struct infp_gpu *gpu, *more;

        for (unsigned i = 0; i < gpus->n; i++) {
                gpu = &gpus->list[i];
                if (gpu->table == table && gpu->index == index &&
                    infp_cell_is(batch, uuid_at, row, gpu->uuid ? gpu->uuid : ""))
                        return gpu;
        }
        *ret_is_full = gpus->n == INFP_GPUS_MOST;
        more = *ret_is_full ? NULL : reallocarray(gpus->list, gpus->n + 1, sizeof(*more));
        if (!more)
                return NULL;
        gpus->list = more;
        gpu = &gpus->list[gpus->n];
        *gpu = (struct infp_gpu){ .table = table, .index = index };
        snprintf(gpu->domain, sizeof(gpu->domain), "%s%lld", table, (long long) index);
        if (keep_text(&gpu->uuid, batch, uuid_at, row) < 0)
                return NULL;
        gpus->n++;
        return gpu;
}

static int count_reason(struct infp_gpu *gpu, const char *text, size_t size)
{
        struct infp_gpu_reason *more;

        for (unsigned i = 0; i < gpu->n_reasons; i++)
                if (strlen(gpu->reasons[i].text) == size && !memcmp(gpu->reasons[i].text, text, size)) {
                        gpu->reasons[i].n++;
                        return 0;
                }
        more = reallocarray(gpu->reasons, gpu->n_reasons + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        gpu->reasons = more;
        gpu->reasons[gpu->n_reasons] = (struct infp_gpu_reason){ .text = strndup(text, size), .n = 1 };
        return gpu->reasons[gpu->n_reasons].text ? (int) ++gpu->n_reasons : -ENOMEM;
}

/* "power limit, heat" */
static int add_reasons(struct infp_gpu *gpu, const struct infp_batch *batch, int column, uint32_t row)
{
        size_t size;
        const char *text;

        if (!infp_cell_has(batch, column, row))
                return 0;
        gpu->n_asked++;
        text = infp_batch_str(batch, (unsigned) column, row, &size);
        for (const char *end = text + size; text < end;) {
                const char *comma = memchr(text, ',', (size_t) (end - text));
                const size_t word = (size_t) ((comma ? comma : end) - text);

                if (word && !(word == strlen("none") && !memcmp(text, "none", word)))
                        INFP_TRY(count_reason(gpu, text, word));
                text += word;
                while (text < end && (*text == ',' || *text == ' '))
                        text++;
        }
        return 0;
}

struct reading {
        struct infp_gpus *gpus;
        const char *table; /* of the GPUs, also while reading the table of their processes */
};

static int add_row(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct reading *reading = context;
        bool is_full = false;
        struct infp_gpu *gpu = gpu_of(reading->gpus, reading->table, batch, at[INDEX], at[UUID], row, &is_full);

        reading->gpus->n_rows_left_out += is_full;
        if (!gpu)
                return is_full ? 0 : -ENOMEM;
        gpu->last_t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        if (!gpu->n_rows++)
                gpu->first_t_ns = gpu->last_t_ns;
        for (unsigned i = 0; i < INFP_GPU_FIGURES; i++)
                if (at[i] >= 0)
                        infp_stat_add(&gpu->stat[i], batch, (unsigned) at[i], row);
        INFP_TRY(keep_text(&gpu->name, batch, at[NAME], row));
        INFP_TRY(keep_text(&gpu->vendor, batch, at[VENDOR], row));
        return add_reasons(gpu, batch, at[REASONS], row);
}

static struct infp_gpu_process *process_of(struct infp_gpu *gpu, int64_t pid, bool *ret_is_full)
{
        struct infp_gpu_process *more;

        for (unsigned i = 0; i < gpu->n_processes; i++)
                if (gpu->processes[i].pid == pid)
                        return &gpu->processes[i];
        *ret_is_full = gpu->n_processes == INFP_GPU_PROCESSES_MOST;
        more = *ret_is_full ? NULL : reallocarray(gpu->processes, gpu->n_processes + 1, sizeof(*more));
        if (!more)
                return NULL;
        gpu->processes = more;
        more += gpu->n_processes++;
        *more = (struct infp_gpu_process){ .pid = pid };
        return more;
}

static int add_process(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct reading *reading = context;
        bool is_full = false;
        struct infp_gpu *gpu;
        struct infp_gpu_process *p = NULL;

        if (at[P_PID] < 0)
                return 0;
        gpu = gpu_of(reading->gpus, reading->table, batch, at[P_INDEX], at[P_UUID], row, &is_full);
        if (gpu)
                p = process_of(gpu, infp_batch_i64(batch, (unsigned) at[P_PID], row), &is_full);
        reading->gpus->n_rows_left_out += is_full;
        if (!p)
                return is_full ? 0 : -ENOMEM;
        struct infp_stat *const stats[] = { &p->memory_bytes, &p->sm_percent, &p->compute_ns };

        for (unsigned i = 0; i < INFP_COUNT(stats); i++)
                if (at[P_MEMORY + i] >= 0)
                        infp_stat_add(stats[i], batch, (unsigned) at[P_MEMORY + i], row);
        p->is_target |= infp_cell_bool(batch, at[P_IN_TREE], row);
        p->is_host_pid |= infp_cell_bool(batch, at[P_IS_HOST], row);
        INFP_TRY(keep_text(&p->name, batch, at[P_NAME], row));
        return keep_text(&p->type, batch, at[P_TYPE], row);
}

static int compare(double a, double b)
{
        return a < b ? -1 : a > b;
}

static int process_order(const void *a, const void *b)
{
        const struct infp_gpu_process *x = a, *y = b;

        if (x->is_target != y->is_target)
                return x->is_target ? -1 : 1;
        if (x->memory_bytes.max != y->memory_bytes.max)
                return compare(y->memory_bytes.max, x->memory_bytes.max);
        return compare((double) x->pid, (double) y->pid);
}

static int gpu_order(const void *a, const void *b)
{
        const struct infp_gpu *x = a, *y = b;
        unsigned i = 0, k = 0;

        while (infp_gpu_tables[i] != x->table)
                i++;
        while (infp_gpu_tables[k] != y->table)
                k++;
        return i != k ? compare(i, k) : compare((double) x->index, (double) y->index);
}

int infp_gpus_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_gpus *ret,
                   const char **ret_table, struct infp_err *err)
{
        static const char *const processes[] = { "nvidia_processes", "amdgpu_processes", "intel_processes" };
        int r = 0;

        *ret = (struct infp_gpus){ 0 };
        for (unsigned i = 0; infp_gpu_tables[i] && r >= 0; i++) {
                struct reading reading = { ret, infp_gpu_tables[i] };

                *ret_table = infp_gpu_tables[i];
                r = infp_scan_rows(run, *ret_table, columns, options, add_row, &reading, err);
                if (r < 0)
                        break;
                *ret_table = processes[i];
                r = infp_scan_rows(run, *ret_table, process_columns, options, add_process, &reading, err);
        }
        if (r < 0) {
                infp_gpus_done(ret);
                return r;
        }
        infp_sort(ret->list, ret->n, sizeof(*ret->list), gpu_order);
        for (unsigned i = 0; i < ret->n; i++)
                infp_sort(ret->list[i].processes, ret->list[i].n_processes, sizeof(*ret->list[i].processes),
                          process_order);
        return 0;
}

double infp_gpu_mean(const struct infp_gpu *gpu, enum infp_gpu_figure figure)
{
        return infp_stat_mean(&gpu->stat[figure]);
}

double infp_gpu_most(const struct infp_gpu *gpu, enum infp_gpu_figure figure)
{
        return gpu->stat[figure].n ? gpu->stat[figure].max : NAN;
}

double infp_gpu_total(const struct infp_gpu *gpu, enum infp_gpu_figure figure)
{
        return gpu->stat[figure].n ? (double) gpu->stat[figure].total_u64 : NAN;
}

double infp_gpu_held(const struct infp_gpu *gpu, enum infp_gpu_figure figure)
{
        return infp_gpu_mean(gpu, figure) / 1e9;
}
