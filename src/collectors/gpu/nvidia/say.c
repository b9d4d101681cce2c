/* Why something is missing: of GPUs that do not answer, and of columns that no GPU here fills. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collectors/gpu/nvidia/nvidia.h"

/* Errors that newer drivers may have: in their own words. */
static const char *reason_of(const struct nvidia *nvidia, int result, char text[200])
{
        const char *words =
                infp_nvidia_is_known(result) || !nvidia->nvml.ErrorString ? NULL : nvidia->nvml.ErrorString(result);

        if (!words)
                return infp_nvidia_reason(result);
        snprintf(text, 200, "the driver says: %.120s (error %d)", words, result);
        for (char *at = text; *at; at++)
                if (*at < ' ' || *at > '~')
                        *at = '?';
        return text;
}

void infp_nvidia_say_device(const struct nvidia *nvidia, struct nvidia_device *device, struct infp_emit *emit)
{
        char text[200];

        if (!device->fault && !device->said_as[0])
                return;
        if (!device->said_as[0] && device->uuid[0])
                memcpy(device->said_as, device->uuid, sizeof(device->said_as));
        else if (!device->said_as[0])
                snprintf(device->said_as, sizeof(device->said_as), "GPU %u", device->index);
        if (!device->fault) {
                infp_emit_source(emit, &infp_table_nvidia, -1, device->said_as, INFP_OK, NULL, NULL);
                device->said_as[0] = 0;
                return;
        }
        infp_emit_source(emit, &infp_table_nvidia, -1, device->said_as, infp_nvidia_state(device->fault),
                         reason_of(nvidia, device->fault, text), infp_nvidia_fix(device->fault));
}

/* The cell whose call fills this one, too. */
static unsigned asked_cell(unsigned cell)
{
        static const struct {
                unsigned first, last, asked;
        } groups[] = {
                { GPU_UTILIZATION_MEM, GPU_UTILIZATION_MEM, GPU_UTILIZATION_GPU },
                { GPU_MEMORY_USED_MB, GPU_MEMORY_FREE_MB, GPU_MEMORY_TOTAL_MB },
                { GPU_MEMORY_TOTAL_BYTES, GPU_MEMORY_FREE_BYTES, GPU_MEMORY_TOTAL_MB },
                { GPU_MEMORY_RESERVED_BYTES, GPU_MEMORY_RESERVED_BYTES, GPU_MEMORY_RESERVED_MB },
                { GPU_BAR1_USED_MB, GPU_BAR1_FREE_MB, GPU_BAR1_TOTAL_MB },
                { GPU_FAN_RPM, GPU_FANS, GPU_FAN_SPEED },
                { GPU_POWER_LIMIT_MAX, GPU_POWER_LIMIT_MAX, GPU_POWER_LIMIT_MIN },
                { GPU_EVENT_REASONS_TEXT, GPU_EVENT_REASONS_TEXT, GPU_EVENT_REASONS },
                { GPU_REMAPPED_ROWS_UNCORRECTABLE, GPU_REMAPPED_ROWS_FAILURE, GPU_REMAPPED_ROWS_CORRECTABLE },
                { GPU_GPM_SM, GPU_MEMORY_BANDWIDTH_KBPS, GPU_GPM_GRAPHICS },
                { GPU_MIG_DEVICES, GPU_MIG_DEVICES, GPU_MIG_MODE },
                { GPU_XID_LAST, GPU_XID_LAST, GPU_XID_ERRORS },
        };

        for (size_t i = 0; i < INFP_COUNT(groups); i++)
                if (cell >= groups[i].first && cell <= groups[i].last)
                        return groups[i].asked;
        return cell;
}

/* Columns of other makers' drivers. */
static bool is_never(unsigned cell)
{
        return (cell >= GPU_UTILIZATION_MEDIA && cell <= GPU_UTILIZATION_COMPUTE) ||
               (cell >= GPU_SYSTEM_MEMORY_TOTAL_BYTES && cell <= GPU_SYSTEM_MEMORY_USED_BYTES) ||
               cell == GPU_TEMPERATURE_HOTSPOT || cell == GPU_CLOCK_SOC || cell == GPU_VOLTAGE;
}

static bool is_open(const struct nvidia_device *device)
{
        return device->handle && !device->fault;
}

static int refusal_of(const struct nvidia_device *device, unsigned asked)
{
        return device->refused[asked / 64] >> asked % 64 & 1 ? device->why[asked] : NVML_SUCCESS;
}

/* A GPU that is split says little of itself as a whole, and of that nothing but that it is not supported. */
static bool is_split(const struct nvidia_device *device)
{
        return device->mig_mode > 0;
}

/* The result by which every GPU refuses the cell, all for the same reason; 0: one does not, or none is open. */
static int refusal_of_all(const struct nvidia *nvidia, unsigned asked)
{
        int result = NVML_SUCCESS;

        for (uint32_t i = 0; i < nvidia->n_devices; i++) {
                const struct nvidia_device *device = &nvidia->devices[i];
                const int why = refusal_of(device, asked);

                if (!is_open(device))
                        continue;
                if (!why || is_split(device) || (result && why != result))
                        return NVML_SUCCESS;
                result = why;
        }
        return result;
}

/* What one of them refuses, and others do not or for another reason. */
static void say_of_devices(struct nvidia *nvidia, struct infp_emit *emit, unsigned cell, bool by_all)
{
        const uint64_t bit = UINT64_C(1) << cell % 64;

        for (uint32_t i = 0; i < nvidia->n_devices; i++) {
                struct nvidia_device *device = &nvidia->devices[i];
                const int why = by_all ? NVML_SUCCESS : refusal_of(device, asked_cell(cell));

                if (!is_open(device) || !why == !(device->said[cell / 64] & bit))
                        continue;
                device->said[cell / 64] ^= bit;
                if (!why)
                        infp_emit_source(emit, &infp_table_nvidia, (int) cell, device->uuid, INFP_OK, NULL, NULL);
                else if (is_split(device) && why == NVML_NOT_SUPPORTED)
                        infp_emit_source(emit, &infp_table_nvidia, (int) cell, device->uuid, INFP_ABSENT,
                                         "the GPU is split into MIG devices, and the driver does not report it of the "
                                         "whole: table nvidia_mig has what is known of each",
                                         NULL);
                else
                        infp_emit_source(emit, &infp_table_nvidia, (int) cell, device->uuid, infp_nvidia_state(why),
                                         infp_nvidia_reason(why), infp_nvidia_fix(why));
        }
}

static bool has_open(const struct nvidia *nvidia)
{
        for (uint32_t i = 0; i < nvidia->n_devices; i++)
                if (is_open(&nvidia->devices[i]))
                        return true;
        return false;
}

static void say_column(struct nvidia *nvidia, struct infp_emit *emit, unsigned cell)
{
        const uint64_t bit = UINT64_C(1) << cell % 64;
        const int result = refusal_of_all(nvidia, asked_cell(cell));
        const bool was_said = nvidia->said[cell / 64] & bit;

        if (is_never(cell)) {
                if (!was_said)
                        infp_emit_source(emit, &infp_table_nvidia, (int) cell, NULL, INFP_ABSENT,
                                         "NVIDIA's library does not report it", NULL);
                nvidia->said[cell / 64] |= bit;
                return;
        }
        if (!nvidia->wants_pcie && (cell == GPU_PCIE_TX_KBPS || cell == GPU_PCIE_RX_KBPS)) {
                if (!was_said)
                        infp_emit_source(emit, &infp_table_nvidia, (int) cell, NULL, INFP_ABSENT,
                                         INFP_NOT_ASKED "each reading waits for 20 ms", "--gpu-pcie");
                nvidia->said[cell / 64] |= bit;
                return;
        }
        /* The kernel knows it as well. */
        if (cell == GPU_NUMA_NODE)
                return;
        say_of_devices(nvidia, emit, cell, result != NVML_SUCCESS);
        if (result && !was_said)
                infp_emit_source(emit, &infp_table_nvidia, (int) cell, NULL, infp_nvidia_state(result),
                                 infp_nvidia_reason(result), infp_nvidia_fix(result));
        else if (!result && was_said)
                infp_emit_source(emit, &infp_table_nvidia, (int) cell, NULL, INFP_OK, NULL, NULL);
        nvidia->said[cell / 64] = result ? nvidia->said[cell / 64] | bit : nvidia->said[cell / 64] & ~bit;
}

static void say_processes(const struct nvidia *nvidia, struct infp_emit *emit)
{
        bool has_any = false;

        for (uint32_t i = 0; i < nvidia->n_devices; i++) {
                const struct nvidia_device *device = &nvidia->devices[i];

                if (!is_open(device))
                        continue;
                has_any |= device->has_processes && device->processes.n;
                if (device->has_processes)
                        infp_emit_source(emit, &infp_table_nvidia, GPU_PROCESS_COUNT, device->uuid, INFP_OK, NULL,
                                         NULL);
                else
                        infp_emit_source(emit, &infp_table_nvidia, GPU_PROCESS_COUNT, device->uuid,
                                         infp_nvidia_state(device->process_result),
                                         infp_nvidia_reason(device->process_result),
                                         infp_nvidia_fix(device->process_result));
        }
        if (has_any && !nvidia->pids_are_ours)
                infp_emit_source(emit, &infp_table_nvidia_processes, GPU_PROCESS_NAME, NULL, INFP_ABSENT,
                                 "process ids belong to the host: the driver knows no pid namespaces, and infprof runs "
                                 "in another one than the host's",
                                 "docker run --pid=host, or infprof on the host");
}

void infp_nvidia_say_columns(struct nvidia *nvidia, struct infp_emit *emit)
{
        if (!has_open(nvidia))
                return;
        for (unsigned cell = GPU_VENDOR; cell < GPU_N; cell++)
                say_column(nvidia, emit, cell);
        say_processes(nvidia, emit);
}
