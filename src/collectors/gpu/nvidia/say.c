#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rights.h"
#include "collectors/gpu/nvidia/nvidia.h"

/* The driver's numbers in words. */

static const struct {
        int result;
        enum infp_source_state state;
        const char *reason, *fix;
} result_words[] = {
        { NVML_UNINITIALIZED, INFP_BROKEN, "the driver's library was shut down", NULL },
        { NVML_INVALID_ARGUMENT, INFP_ABSENT, "the driver does not know this call for this GPU", NULL },
        { NVML_NOT_SUPPORTED, INFP_ABSENT, "the GPU does not support it", NULL },
        { NVML_NO_PERMISSION, INFP_DENIED, "the driver refuses it to this user or container", NULL },
        { NVML_NOT_FOUND, INFP_ABSENT, "the driver has nothing to report it", NULL },
        { NVML_INSUFFICIENT_POWER, INFP_BROKEN, "the GPU lacks power", "connect its power cables" },
        { NVML_DRIVER_NOT_LOADED, INFP_ABSENT, "the kernel driver nvidia is not loaded",
          "modprobe nvidia; cat /proc/driver/nvidia/version shows whether it is loaded" },
        { NVML_TIMEOUT, INFP_LATE, "the driver did not answer in time", NULL },
        { NVML_IRQ_ISSUE, INFP_BROKEN, "the kernel does not deliver the GPU's interrupts",
          "dmesg | grep NVRM says more; another slot or a setting of the firmware may help" },
        { NVML_LIBRARY_NOT_FOUND, INFP_ABSENT, "a library of the driver is missing", "install the driver again" },
        { NVML_FUNCTION_NOT_FOUND, INFP_ABSENT, "the driver's library has no call for it: it is too old, or dropped it",
          NULL },
        { NVML_CORRUPTED_INFOROM, INFP_BROKEN, "the GPU's memory of settings (infoROM) is corrupt",
          "nvidia-smi -q says more; the board may have to be returned" },
        { NVML_GPU_IS_LOST, INFP_BROKEN, "the GPU is lost: it fell off the bus or does not answer (Xid 79)",
          "dmesg | grep NVRM says more; a restart of the machine brings it back" },
        { NVML_RESET_REQUIRED, INFP_BROKEN, "the GPU needs a reset before it can be used again",
          "end what uses it, then nvidia-smi --gpu-reset -i NUMBER" },
        { NVML_OPERATING_SYSTEM, INFP_DENIED, "the operating system or the container's device rules block it",
          "let the container have the GPU's device file (docker run --gpus all)" },
        { NVML_LIB_RM_VERSION_MISMATCH, INFP_BROKEN,
          "the driver's library and the loaded kernel driver have different versions",
          "restart the machine (or reload the nvidia modules) after an upgrade of the driver" },
        { NVML_MEMORY, INFP_BROKEN, "the driver has no memory left", NULL },
        { NVML_NO_DATA, INFP_ABSENT, "the driver has no data for it", NULL },
        { NVML_ARGUMENT_VERSION_MISMATCH, INFP_ABSENT, "the driver does not know this version of the call", NULL },
        { NVML_DEPRECATED, INFP_ABSENT, "the driver has dropped it", NULL },
        { NVML_NOT_READY, INFP_LATE, "the GPU is not ready", NULL },
        { NVML_GPU_NOT_FOUND, INFP_ABSENT, "the driver does not find the GPU", NULL },
};

static size_t find_result(int result)
{
        size_t i = 0;

        while (i < INFP_COUNT(result_words) && result_words[i].result != result)
                i++;
        return i;
}

bool infp_nvidia_is_known(int result)
{
        return find_result(result) < INFP_COUNT(result_words);
}

const char *infp_nvidia_reason(int result)
{
        const size_t i = find_result(result);

        return i < INFP_COUNT(result_words) ? result_words[i].reason
                                            : "the driver reports an error that it does not name";
}

const char *infp_nvidia_fix(int result)
{
        const size_t i = find_result(result);

        if (result == NVML_NO_PERMISSION)
                return infp_rights_fix(INFP_MAY_GPU);
        return i < INFP_COUNT(result_words) ? result_words[i].fix : "dmesg | grep NVRM says more";
}

enum infp_source_state infp_nvidia_state(int result)
{
        const size_t i = find_result(result);

        return i < INFP_COUNT(result_words) ? result_words[i].state : INFP_BROKEN;
}

bool infp_nvidia_is_fault(int result)
{
        switch (result) {
        case NVML_UNINITIALIZED:
        case NVML_DRIVER_NOT_LOADED:
        case NVML_IRQ_ISSUE:
        case NVML_GPU_IS_LOST:
        case NVML_RESET_REQUIRED:
        case NVML_LIB_RM_VERSION_MISMATCH:
        case NVML_GPU_NOT_FOUND:
                return true;
        default:
                return false;
        }
}

bool infp_nvidia_is_refusal(int result)
{
        switch (result) {
        case NVML_INVALID_ARGUMENT:
        case NVML_NOT_SUPPORTED:
        case NVML_NO_PERMISSION:
        case NVML_FUNCTION_NOT_FOUND:
        case NVML_CORRUPTED_INFOROM:
        case NVML_OPERATING_SYSTEM:
        case NVML_ARGUMENT_VERSION_MISMATCH:
        case NVML_DEPRECATED:
                return true;
        default:
                return false;
        }
}

size_t infp_nvidia_event_words(uint64_t bits, char *ret, size_t cap)
{
        static const char *const names[] = { "gpu_idle",
                                             "applications_clocks_setting",
                                             "sw_power_cap",
                                             "hw_slowdown",
                                             "sync_boost",
                                             "sw_thermal_slowdown",
                                             "hw_thermal_slowdown",
                                             "hw_power_brake_slowdown",
                                             "display_clock_setting" };
        size_t n = 0;

        if (!bits)
                return (size_t) snprintf(ret, cap, "none");
        for (unsigned i = 0; i < INFP_COUNT(names); i++) {
                if (!(bits >> i & 1))
                        continue;
                bits &= ~(UINT64_C(1) << i);
                n += (size_t) snprintf(ret + n, n < cap ? cap - n : 0, "%s%s", n ? ", " : "", names[i]);
                if (n >= cap)
                        return cap - 1;
        }
        if (bits)
                n += (size_t) snprintf(ret + n, cap - n, "%s0x%llx", n ? ", " : "", (unsigned long long) bits);
        return n < cap ? n : cap - 1;
}

const char *infp_nvidia_recovery_word(uint64_t action)
{
        static const char *const names[] = {
                "none", "reset", "reboot", "drain peer-to-peer", "drain and reset", "recover IMEX domain"
        };

        return action < INFP_COUNT(names) ? names[action] : NULL;
}

void infp_nvidia_cuda_version(int version, char ret[16])
{
        snprintf(ret, 16, "%d.%d", version / 1000 % 1000, version % 1000 / 10);
}

/* Why something is missing: for GPUs that do not answer, and for columns that no GPU here fills. */

/* Errors of newer drivers, in their own words. */
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

/* A split GPU reports little as a whole, mostly that it is not supported. */
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

/* Cells that one of them refuses, and others do not or for another reason. */
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
        /* The kernel has it, too. */
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
