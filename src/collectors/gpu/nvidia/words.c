/* What the driver says in numbers, in words. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rights.h"
#include "collectors/gpu/nvidia/nvidia.h"

static const struct {
        int result;
        enum infp_source_state state;
        const char *reason, *fix;
} words[] = {
        { NVML_UNINITIALIZED, INFP_BROKEN, "the driver's library was shut down", NULL },
        { NVML_INVALID_ARGUMENT, INFP_ABSENT, "the driver does not know this question for this GPU", NULL },
        { NVML_NOT_SUPPORTED, INFP_ABSENT, "the GPU does not support it", NULL },
        { NVML_NO_PERMISSION, INFP_DENIED, "the driver refuses it to this user or container", NULL },
        { NVML_NOT_FOUND, INFP_ABSENT, "the driver has nothing to report it", NULL },
        { NVML_INSUFFICIENT_POWER, INFP_BROKEN, "the GPU lacks power", "connect its power cables" },
        { NVML_DRIVER_NOT_LOADED, INFP_ABSENT, "the kernel driver nvidia is not loaded",
          "modprobe nvidia; cat /proc/driver/nvidia/version says whether it is there" },
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
        { NVML_NO_DATA, INFP_ABSENT, "the driver has no data of it", NULL },
        { NVML_ARGUMENT_VERSION_MISMATCH, INFP_ABSENT, "the driver does not know this form of the question", NULL },
        { NVML_DEPRECATED, INFP_ABSENT, "the driver has dropped it", NULL },
        { NVML_NOT_READY, INFP_LATE, "the GPU is not ready", NULL },
        { NVML_GPU_NOT_FOUND, INFP_ABSENT, "the driver does not find the GPU", NULL },
};

static size_t find(int result)
{
        size_t i = 0;

        while (i < INFP_COUNT(words) && words[i].result != result)
                i++;
        return i;
}

bool infp_nvidia_is_known(int result)
{
        return find(result) < INFP_COUNT(words);
}

const char *infp_nvidia_reason(int result)
{
        const size_t i = find(result);

        return i < INFP_COUNT(words) ? words[i].reason : "the driver reports an error that it does not name";
}

const char *infp_nvidia_fix(int result)
{
        const size_t i = find(result);

        if (result == NVML_NO_PERMISSION)
                return infp_rights_fix(INFP_MAY_GPU);
        return i < INFP_COUNT(words) ? words[i].fix : "dmesg | grep NVRM says more";
}

enum infp_source_state infp_nvidia_state(int result)
{
        const size_t i = find(result);

        return i < INFP_COUNT(words) ? words[i].state : INFP_BROKEN;
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
