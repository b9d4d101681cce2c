/* Why clocks are held down: the bits of indep_throttle_status, which are the same for all chips, or, of chips that count instead
 * in how many rounds of the firmware each reason held, what has moved since the last reading. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collectors/gpu/drm/amdgpu.h"

enum {
        BIT_PPT0 = 0,
        BIT_SPL = 4,
        BIT_FPPT = 5,
        BIT_SPPT = 6,
        BIT_TEMP_GPU = 32,
        BIT_TEMP_CORE = 33,
        BIT_TEMP_MEM = 34,
        BIT_TEMP_HOTSPOT = 36,
        BIT_TEMP_SOC = 37,
        BIT_TEMP_VR_GFX = 38,
        BIT_PROCHOT_CPU = 46,
        BIT_PROCHOT_GFX = 47,
};

static const char *const names[64] = {
        [BIT_PPT0] = "power_ppt0",
        [1] = "power_ppt1",
        [2] = "power_ppt2",
        [3] = "power_ppt3",
        [BIT_SPL] = "power_spl",
        [BIT_FPPT] = "power_fppt",
        [BIT_SPPT] = "power_sppt",
        [7] = "power_sppt_apu",
        [16] = "current_tdc_gfx",
        [17] = "current_tdc_soc",
        [18] = "current_tdc_mem",
        [19] = "current_tdc_vdd",
        [20] = "current_tdc_cvip",
        [21] = "current_edc_cpu",
        [22] = "current_edc_gfx",
        [23] = "current_apcc",
        [BIT_TEMP_GPU] = "thermal_gpu",
        [BIT_TEMP_CORE] = "thermal_core",
        [BIT_TEMP_MEM] = "thermal_mem",
        [35] = "thermal_edge",
        [BIT_TEMP_HOTSPOT] = "thermal_hotspot",
        [BIT_TEMP_SOC] = "thermal_soc",
        [BIT_TEMP_VR_GFX] = "thermal_vr_gfx",
        [39] = "thermal_vr_soc",
        [40] = "thermal_vr_mem0",
        [41] = "thermal_vr_mem1",
        [42] = "thermal_liquid0",
        [43] = "thermal_liquid1",
        [44] = "thermal_vrhot0",
        [45] = "thermal_vrhot1",
        [BIT_PROCHOT_CPU] = "prochot_cpu",
        [BIT_PROCHOT_GFX] = "prochot_gfx",
        [56] = "ppm",
        [57] = "fit",
};

static const struct {
        uint8_t metric, bit;
} residencies[] = {
        { AMD_RESIDENCY_PROCHOT, BIT_PROCHOT_GFX },
        { AMD_RESIDENCY_POWER, BIT_PPT0 },
        { AMD_RESIDENCY_SOCKET_THERMAL, BIT_TEMP_GPU },
        { AMD_RESIDENCY_VR_THERMAL, BIT_TEMP_VR_GFX },
        { AMD_RESIDENCY_HBM_THERMAL, BIT_TEMP_MEM },
        { AMD_RESIDENCY_SPL, BIT_SPL },
        { AMD_RESIDENCY_FPPT, BIT_FPPT },
        { AMD_RESIDENCY_SPPT, BIT_SPPT },
        { AMD_RESIDENCY_CORE_THERMAL, BIT_TEMP_CORE },
        { AMD_RESIDENCY_GFX_THERMAL, BIT_TEMP_GPU },
        { AMD_RESIDENCY_SOC_THERMAL, BIT_TEMP_SOC },
};

/* Consumer chips of RDNA 3 show the bit of the hottest place nearly always: so far below the limit it holds nothing down. */
static const double hotspot_near_c = 15;

void infp_amdgpu_throttle_words(uint64_t bits, char *ret, size_t cap)
{
        size_t n = 0;

        if (!bits)
                snprintf(ret, cap, "none");
        for (unsigned i = 0; i < 64 && n < cap; i++) {
                if (!(bits >> i & 1))
                        continue;
                if (names[i])
                        n += (size_t) snprintf(ret + n, cap - n, "%s%s", n ? ", " : "", names[i]);
                else
                        n += (size_t) snprintf(ret + n, cap - n, "%sbit_%u", n ? ", " : "", i);
        }
}

/* 32 bits that wrap. */
static uint64_t more_of(const struct amdgpu_throttle *throttle, const struct amdgpu_metrics *now, unsigned metric)
{
        if (!amdgpu_has(now, metric) || !amdgpu_has(&throttle->last, metric))
                return 0;
        return (uint32_t) (now->raw[metric] - throttle->last.raw[metric]);
}

static void count_times(struct amdgpu_throttle *throttle, const struct amdgpu_metrics *now, uint64_t dt_ns)
{
        const uint64_t rounds = more_of(throttle, now, AMD_ACCUMULATION);
        static const uint8_t thermal[] = { AMD_RESIDENCY_SOCKET_THERMAL, AMD_RESIDENCY_VR_THERMAL,
                                           AMD_RESIDENCY_HBM_THERMAL };
        uint64_t hottest = 0, power = more_of(throttle, now, AMD_RESIDENCY_POWER),
                 prochot = more_of(throttle, now, AMD_RESIDENCY_PROCHOT);
        double ns_per_round;

        for (size_t i = 0; i < INFP_COUNT(thermal); i++) {
                const uint64_t more = more_of(throttle, now, thermal[i]);

                hottest = more > hottest ? more : hottest;
        }
        throttle->has_times = true;
        /* More than all rounds: the firmware began anew. */
        if (!rounds || hottest > rounds || power > rounds || prochot > rounds)
                return;
        ns_per_round = (double) dt_ns / (double) rounds;
        throttle->power_ns += (uint64_t) ((double) power * ns_per_round);
        throttle->thermal_ns += (uint64_t) ((double) hottest * ns_per_round);
        throttle->prochot_ns += (uint64_t) ((double) prochot * ns_per_round);
}

void infp_amdgpu_throttle(struct amdgpu_throttle *throttle, const struct amdgpu_metrics *metrics, uint64_t t_ns)
{
        bool has_residencies = false;

        throttle->reasons = 0;
        throttle->has_reasons = false;
        for (size_t i = 0; i < INFP_COUNT(residencies); i++) {
                if (!amdgpu_has(metrics, residencies[i].metric))
                        continue;
                has_residencies = true;
                if (throttle->has_last && more_of(throttle, metrics, residencies[i].metric))
                        throttle->reasons |= UINT64_C(1) << residencies[i].bit;
        }
        if (throttle->has_last && has_residencies) {
                throttle->has_reasons = true;
                if (amdgpu_has(metrics, AMD_ACCUMULATION))
                        count_times(throttle, metrics, t_ns - throttle->t_ns);
        }
        throttle->last = *metrics;
        throttle->has_last = true;
        throttle->t_ns = t_ns;
}

void infp_amdgpu_put_throttle(const struct amdgpu_throttle *throttle, const struct amdgpu_metrics *metrics,
                              double junction_c, double limit_c, struct infp_row *row)
{
        const bool has_status = amdgpu_has(metrics, AMD_THROTTLE);
        uint64_t bits = has_status ? metrics->raw[AMD_THROTTLE] : throttle->reasons;
        char words[1024];

        if (throttle->has_times) {
                infp_row_i64(row, GPU_VIOLATION_POWER, (int64_t) throttle->power_ns);
                infp_row_i64(row, GPU_VIOLATION_THERMAL, (int64_t) throttle->thermal_ns);
                infp_row_i64(row, GPU_VIOLATION_HW_THERMAL, (int64_t) throttle->prochot_ns);
        }
        if (!has_status && !throttle->has_reasons)
                return;
        infp_row_i64(row, GPU_EVENT_REASONS, (int64_t) bits);
        if (junction_c > 0 && limit_c > 0 && junction_c < limit_c - hotspot_near_c)
                bits &= ~(UINT64_C(1) << BIT_TEMP_HOTSPOT);
        infp_amdgpu_throttle_words(bits, words, sizeof(words));
        infp_row_str(row, GPU_EVENT_REASONS_TEXT, words);
}
