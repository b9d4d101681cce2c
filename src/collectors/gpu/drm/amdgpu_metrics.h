/* gpu_metrics: the binary table in which AMD's firmware shows, in one reading, what hwmon and sysfs show one by one. There is a
 * layout for each version (format, content); a value of all ones is one that this chip does not give. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/row.h"

enum amdgpu_metric {
        AMD_TEMPERATURE_EDGE, /* celsius */
        AMD_TEMPERATURE_HOTSPOT,
        AMD_TEMPERATURE_MEM,
        AMD_ACTIVITY_GFX, /* percent */
        AMD_ACTIVITY_UMC, /* of the memory controller */
        AMD_ACTIVITY_MEDIA,
        AMD_ACTIVITY_JPEG,
        AMD_ACTIVITY_GFX_SUM, /* percent, added up by the firmware */
        AMD_POWER,            /* W, of the socket: on an APU with its CPU */
        AMD_POWER_GFX,        /* W, of the GPU in an APU */
        AMD_ENERGY,           /* in steps of 2^-16 J */
        AMD_CLOCK_GFX,        /* MHz; the fastest of several */
        AMD_CLOCK_MEM,
        AMD_CLOCK_SOC,
        AMD_CLOCK_VIDEO,
        AMD_FAN_RPM,
        AMD_PCIE_WIDTH,
        AMD_PCIE_SPEED, /* 0.1 GT/s */
        AMD_PCIE_REPLAYS,
        AMD_THROTTLE,     /* bits, the same for all chips */
        AMD_ACCUMULATION, /* rounds of the firmware; in how many of them each of the following held the clock down */
        AMD_RESIDENCY_PROCHOT,
        AMD_RESIDENCY_POWER,
        AMD_RESIDENCY_SOCKET_THERMAL,
        AMD_RESIDENCY_VR_THERMAL,
        AMD_RESIDENCY_HBM_THERMAL,
        AMD_RESIDENCY_SPL, /* of APUs, in an unknown unit */
        AMD_RESIDENCY_FPPT,
        AMD_RESIDENCY_SPPT,
        AMD_RESIDENCY_CORE_THERMAL,
        AMD_RESIDENCY_GFX_THERMAL,
        AMD_RESIDENCY_SOC_THERMAL,
        AMD_DRAM_READ, /* MB/s */
        AMD_DRAM_WRITE,
        AMD_BANDWIDTH_MAX, /* GB/s, at the highest memory clock */
        AMD_XGMI_READ,     /* KB of all links since the driver was loaded */
        AMD_XGMI_WRITE,
        AMD_N,
};

enum { AMD_METRICS_MAX = 4096 }; /* an attribute of sysfs has one page at most */

struct amdgpu_metrics {
        uint8_t format, content;
        uint64_t has; /* bit i: metric i */
        uint64_t raw[AMD_N];
        double value[AMD_N]; /* in the unit above */
};

static inline bool amdgpu_has(const struct amdgpu_metrics *metrics, enum amdgpu_metric metric)
{
        return metrics->has >> metric & 1;
}

/* 0; -EBADMSG: it is cut, or its header is impossible; -ENOTSUP: an unknown version. ret is empty then. */
int infp_amdgpu_metrics_parse(const void *data, size_t size, struct amdgpu_metrics *ret, struct infp_err *err);

/* Text of pp_dpm_*, "1: 1500Mhz *": the marked line and the highest, in MHz; 0: none. */
void infp_amdgpu_levels(const char *text, size_t size, int64_t *ret_current, int64_t *ret_highest);

/* In how many rounds of the firmware each reason held the clocks down. */
struct amdgpu_throttle {
        bool has_last;
        uint64_t t_ns;
        struct amdgpu_metrics last;
        uint64_t reasons; /* bits of AMD_THROTTLE that moved since the last reading */
        bool has_reasons;
        bool has_times;
        uint64_t power_ns, thermal_ns, prochot_ns;
};

void infp_amdgpu_throttle(struct amdgpu_throttle *throttle, const struct amdgpu_metrics *metrics, uint64_t t_ns);
/* `junction_c`, `limit_c`: of the hottest place, 0 where not known. */
void infp_amdgpu_put_throttle(const struct amdgpu_throttle *throttle, const struct amdgpu_metrics *metrics,
                              double junction_c, double limit_c, struct infp_row *row);
/* Names of the bits, separated by ", "; "none". */
void infp_amdgpu_throttle_words(uint64_t bits, char *ret, size_t cap);
