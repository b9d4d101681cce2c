/* Offsets in the layouts of Linux 5.9 to 7.0; unused fields are not named. */
#include "collectors/gpu/drm/amdgpu_metrics.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/procfile.h"
#include "collectors/gpu/table.h"

/* n values of `width` bytes, one after the other: the largest of them counts, or their sum. */
struct field {
        uint8_t metric, width;
        uint16_t n, offset;
        double scale;
        bool is_sum;
};

// clang-format off
#define U8(metric, offset)        { metric, 1, 1, offset, 1 }
#define U16(metric, offset)       { metric, 2, 1, offset, 1 }
#define U16S(metric, offset, n)   { metric, 2, n, offset, 1 }
#define U32(metric, offset)       { metric, 4, 1, offset, 1 }
#define U64(metric, offset)       { metric, 8, 1, offset, 1 }
#define CENTI(metric, offset)     { metric, 2, 1, offset, 0.01 }
#define MILLI(metric, w, offset)  { metric, w, 1, offset, 0.001 }

#define CLOCKS(at) U16S(AMD_CLOCK_GFX, at, 8), U16S(AMD_CLOCK_SOC, (at) + 16, 4), U16S(AMD_CLOCK_VIDEO, (at) + 24, 4), \
        U16(AMD_CLOCK_MEM, (at) + 40)
#define PCIE(at) U16(AMD_PCIE_WIDTH, at), U16(AMD_PCIE_SPEED, (at) + 2)
#define XGMI(at) { AMD_XGMI_READ, 8, 8, at, 1, true }, { AMD_XGMI_WRITE, 8, 8, (at) + 64, 1, true }
#define RESIDENCIES(at) U32(AMD_ACCUMULATION, at), U32(AMD_RESIDENCY_PROCHOT, (at) + 4), U32(AMD_RESIDENCY_POWER, (at) + 8), \
        U32(AMD_RESIDENCY_SOCKET_THERMAL, (at) + 12), U32(AMD_RESIDENCY_VR_THERMAL, (at) + 16), \
        U32(AMD_RESIDENCY_HBM_THERMAL, (at) + 20)

static const struct field v1_0[] = {
        U16(AMD_TEMPERATURE_EDGE, 16), U16(AMD_TEMPERATURE_HOTSPOT, 18), U16(AMD_TEMPERATURE_MEM, 20),
        U16(AMD_ACTIVITY_GFX, 28), U16(AMD_ACTIVITY_UMC, 30), U16(AMD_ACTIVITY_MEDIA, 32), U16(AMD_POWER, 34),
        U16(AMD_CLOCK_GFX, 54), U16(AMD_CLOCK_SOC, 56), U16(AMD_CLOCK_MEM, 58), U16(AMD_CLOCK_VIDEO, 60),
        U16(AMD_FAN_RPM, 72), U8(AMD_PCIE_WIDTH, 74), U8(AMD_PCIE_SPEED, 75),
};
#define V1_1 U16(AMD_TEMPERATURE_EDGE, 4), U16(AMD_TEMPERATURE_HOTSPOT, 6), U16(AMD_TEMPERATURE_MEM, 8), \
        U16(AMD_ACTIVITY_GFX, 16), U16(AMD_ACTIVITY_UMC, 18), U16(AMD_ACTIVITY_MEDIA, 20), U16(AMD_POWER, 22), \
        U64(AMD_ENERGY, 24), U16(AMD_CLOCK_GFX, 54), U16(AMD_CLOCK_SOC, 56), U16(AMD_CLOCK_MEM, 58), \
        U16(AMD_CLOCK_VIDEO, 60), U16(AMD_FAN_RPM, 72), PCIE(74), U32(AMD_ACTIVITY_GFX_SUM, 80)
static const struct field v1_1[] = { V1_1 };
static const struct field v1_3[] = { V1_1, U64(AMD_THROTTLE, 112) };
#define V1_4 U16(AMD_TEMPERATURE_HOTSPOT, 4), U16(AMD_TEMPERATURE_MEM, 6), U16(AMD_POWER, 10), \
        U16(AMD_ACTIVITY_GFX, 12), U16(AMD_ACTIVITY_UMC, 14)
static const struct field v1_4[] = {
        V1_4, U16S(AMD_ACTIVITY_MEDIA, 16, 4), U64(AMD_ENERGY, 24), PCIE(48), U64(AMD_PCIE_REPLAYS, 88), XGMI(104), CLOCKS(240),
};
static const struct field v1_5[] = {
        V1_4, U16S(AMD_ACTIVITY_MEDIA, 16, 4), U16S(AMD_ACTIVITY_JPEG, 24, 32), U64(AMD_ENERGY, 88), PCIE(112),
        U64(AMD_PCIE_REPLAYS, 152), XGMI(176), CLOCKS(312),
};
static const struct field v1_6_first[] = {
        V1_4, U16S(AMD_ACTIVITY_MEDIA, 16, 4), U16S(AMD_ACTIVITY_JPEG, 24, 32), U64(AMD_ENERGY, 88), RESIDENCIES(104),
        PCIE(136), U64(AMD_PCIE_REPLAYS, 176), XGMI(200), CLOCKS(336),
};
static const struct field v1_6[] = {
        V1_4, U64(AMD_ENERGY, 16), RESIDENCIES(32), PCIE(60), U64(AMD_PCIE_REPLAYS, 104), XGMI(128), CLOCKS(264),
};
/* 1.8 differs from 1.7 after these alone. */
static const struct field v1_7[] = {
        V1_4, U64(AMD_BANDWIDTH_MAX, 16), U64(AMD_ENERGY, 24), RESIDENCIES(40), PCIE(68), U64(AMD_PCIE_REPLAYS, 112), XGMI(136), CLOCKS(296),
};
/* APUs. The units of temperatures, activity and power are stated from 2.4 on; before, chips differ, and they are left out. */
static const struct field v2_0[] = {
        U16(AMD_CLOCK_GFX, 80), U16(AMD_CLOCK_SOC, 82), U16(AMD_CLOCK_MEM, 84), U16(AMD_CLOCK_VIDEO, 88),
};
#define V2_1 U16(AMD_CLOCK_GFX, 76), U16(AMD_CLOCK_SOC, 78), U16(AMD_CLOCK_MEM, 80), U16(AMD_CLOCK_VIDEO, 84)
static const struct field v2_1[] = { V2_1 };
static const struct field v2_2[] = { V2_1, U64(AMD_THROTTLE, 120) };
static const struct field v2_4[] = {
        V2_1, U64(AMD_THROTTLE, 120), CENTI(AMD_TEMPERATURE_EDGE, 4), CENTI(AMD_ACTIVITY_GFX, 28), CENTI(AMD_ACTIVITY_MEDIA, 30),
        MILLI(AMD_POWER, 2, 40), MILLI(AMD_POWER_GFX, 2, 46),
};
static const struct field v3_0[] = {
        CENTI(AMD_TEMPERATURE_EDGE, 4), U16(AMD_ACTIVITY_GFX, 42), U16(AMD_ACTIVITY_MEDIA, 44), U16(AMD_DRAM_READ, 94),
        U16(AMD_DRAM_WRITE, 96), MILLI(AMD_POWER, 4, 112), MILLI(AMD_POWER_GFX, 4, 124), U16(AMD_CLOCK_GFX, 174),
        U16(AMD_CLOCK_SOC, 176), U16(AMD_CLOCK_VIDEO, 184), U16(AMD_CLOCK_MEM, 186), U32(AMD_RESIDENCY_PROCHOT, 228),
        U32(AMD_RESIDENCY_SPL, 232), U32(AMD_RESIDENCY_FPPT, 236), U32(AMD_RESIDENCY_SPPT, 240),
        U32(AMD_RESIDENCY_CORE_THERMAL, 244), U32(AMD_RESIDENCY_GFX_THERMAL, 248), U32(AMD_RESIDENCY_SOC_THERMAL, 252),
};
// clang-format on

#define LAYOUT(format, content, size, fields)                               \
        {                                                                   \
                format, content, (uint8_t) INFP_COUNT(fields), size, fields \
        }

static const struct layout {
        uint8_t format, content, n;
        uint16_t size;
        const struct field *fields;
} layouts[] = {
        LAYOUT(1, 0, 80, v1_0),
        LAYOUT(1, 1, 96, v1_1),
        LAYOUT(1, 2, 104, v1_1),
        LAYOUT(1, 3, 120, v1_3),
        LAYOUT(1, 4, 288, v1_4),
        LAYOUT(1, 5, 360, v1_5),
        /* Two layouts have this number: that of Linux 6.12, of exactly 384 bytes, and the one since 6.14. */
        LAYOUT(1, 6, 1664, v1_6),
        LAYOUT(1, 7, 2208, v1_7),
        LAYOUT(1, 8, 3872, v1_7),
        LAYOUT(2, 0, 120, v2_0),
        LAYOUT(2, 1, 120, v2_1),
        LAYOUT(2, 2, 128, v2_2),
        LAYOUT(2, 3, 152, v2_2),
        LAYOUT(2, 4, 168, v2_4),
        LAYOUT(3, 0, 264, v3_0),
};
enum { V1_6_FIRST_SIZE = 384 };
static const struct layout layout_1_6_first = LAYOUT(1, 6, V1_6_FIRST_SIZE, v1_6_first);

/* 1.9 is a list of attributes that describe themselves, packed: 64 bits {unit, type, id, how many}, then the values. */
enum { HEADER = 4, ATTRIBUTES_AT = 8, ATTRIBUTE_HEAD = 8, UNIT_GT_PER_S = 6 };

static const struct {
        uint16_t id;
        uint8_t metric;
} attributes[] = {
        { 0, AMD_TEMPERATURE_HOTSPOT },
        { 1, AMD_TEMPERATURE_MEM },
        { 3, AMD_POWER },
        { 4, AMD_ACTIVITY_GFX },
        { 5, AMD_ACTIVITY_UMC },
        { 6, AMD_BANDWIDTH_MAX },
        { 7, AMD_ENERGY },
        { 9, AMD_ACCUMULATION },
        { 10, AMD_RESIDENCY_PROCHOT },
        { 11, AMD_RESIDENCY_POWER },
        { 12, AMD_RESIDENCY_SOCKET_THERMAL },
        { 13, AMD_RESIDENCY_VR_THERMAL },
        { 14, AMD_RESIDENCY_HBM_THERMAL },
        { 16, AMD_PCIE_WIDTH },
        { 17, AMD_PCIE_SPEED },
        { 25, AMD_PCIE_REPLAYS },
        { 29, AMD_XGMI_READ },
        { 30, AMD_XGMI_WRITE },
        { 33, AMD_CLOCK_GFX },
        { 34, AMD_CLOCK_SOC },
        { 35, AMD_CLOCK_VIDEO },
        { 37, AMD_CLOCK_MEM },
        { 41, AMD_ACTIVITY_JPEG },
        { 42, AMD_ACTIVITY_MEDIA },
};

_Static_assert(AMD_N <= 64, "a bit for each");

static uint64_t get(const uint8_t *at, unsigned width)
{
        uint64_t v = 0;

        for (unsigned i = width; i-- > 0;)
                v = v << 8 | at[i];
        return v;
}

/* A value that no such chip has is a fault of its firmware, and dropped. */
static bool is_possible(enum amdgpu_metric metric, double v)
{
        switch (metric) {
        case AMD_TEMPERATURE_EDGE:
        case AMD_TEMPERATURE_HOTSPOT:
        case AMD_TEMPERATURE_MEM:
                return v <= 250;
        case AMD_ACTIVITY_GFX:
        case AMD_ACTIVITY_UMC:
        case AMD_ACTIVITY_MEDIA:
        case AMD_ACTIVITY_JPEG:
                return v <= 100;
        case AMD_POWER:
        case AMD_POWER_GFX:
                return v <= 5000;
        case AMD_PCIE_WIDTH:
                return v >= 1 && v <= 32;
        default:
                return true;
        }
}

static void take(struct amdgpu_metrics *ret, const struct field *field, const uint8_t *at)
{
        const uint64_t none = UINT64_MAX >> (64 - 8 * field->width);
        const enum amdgpu_metric metric = field->metric;

        for (unsigned i = 0; i < field->n; i++) {
                uint64_t raw = get(at + (size_t) i * field->width, field->width);
                const bool has = amdgpu_has(ret, metric);

                if (raw == none || !is_possible(metric, (double) raw * field->scale))
                        continue;
                if (has && field->is_sum)
                        raw += ret->raw[metric];
                else if (has && raw <= ret->raw[metric])
                        continue;
                ret->has |= UINT64_C(1) << metric;
                ret->raw[metric] = raw;
                ret->value[metric] = (double) raw * field->scale;
        }
}

static void drop(struct amdgpu_metrics *ret, enum amdgpu_metric metric)
{
        ret->has &= ~(UINT64_C(1) << metric);
}

/* Consumer chips of 1.1 to 1.3 count energy in an unknown unit, and in 32 bits that wrap within minutes. Those of data
 * centres, the only ones that sum up their activity, count it as all do from 1.4 on. */
static void drop_unsure_energy(struct amdgpu_metrics *ret)
{
        if (ret->format == 1 && ret->content <= 3 && !amdgpu_has(ret, AMD_ACTIVITY_GFX_SUM))
                drop(ret, AMD_ENERGY);
}

static int metric_of_attribute(unsigned id)
{
        for (size_t i = 0; i < INFP_COUNT(attributes); i++)
                if (attributes[i].id == id)
                        return attributes[i].metric;
        return -1;
}

static int parse_attributes(const uint8_t *data, size_t size, struct amdgpu_metrics *ret, struct infp_err *err)
{
        size_t at = ATTRIBUTES_AT;
        uint64_t n = size >= ATTRIBUTES_AT ? get(data + HEADER, 4) : 0;

        for (uint64_t i = 0; i < n; i++) {
                uint64_t head, type, count;
                struct field field;
                unsigned width;
                int metric;

                if (size - at < ATTRIBUTE_HEAD)
                        return infp_fail(err, -EBADMSG, "gpu_metrics 1.9 ends within an attribute");
                head = get(data + at, ATTRIBUTE_HEAD);
                type = head >> 20 & 0xf;
                count = head & 0x3ff;
                width = 1u << (type / 2); /* U8, S8, U16, S16 ... S64 */
                at += ATTRIBUTE_HEAD;
                if (type > 7 || count > (size - at) / width)
                        return infp_fail(err, -EBADMSG, "gpu_metrics 1.9 has an invalid attribute");
                metric = metric_of_attribute(head >> 10 & 0x3ff);
                field = (struct field){
                        .metric = (uint8_t) (metric < 0 ? 0 : metric),
                        .width = (uint8_t) width,
                        .n = (uint16_t) count,
                        .scale = metric == AMD_PCIE_SPEED && (head >> 24 & 0xff) == UNIT_GT_PER_S ? 10 : 1,
                        .is_sum = metric == AMD_XGMI_READ || metric == AMD_XGMI_WRITE,
                };
                if (metric >= 0)
                        take(ret, &field, data + at);
                at += count * width;
        }
        return 0;
}

static const struct layout *find(unsigned format, unsigned content, size_t size)
{
        if (format == 1 && content == 6 && size == V1_6_FIRST_SIZE)
                return &layout_1_6_first;
        for (size_t i = 0; i < INFP_COUNT(layouts); i++)
                if (layouts[i].format == format && layouts[i].content == content)
                        return &layouts[i];
        return NULL;
}

int infp_amdgpu_metrics_parse(const void *data, size_t size, struct amdgpu_metrics *ret, struct infp_err *err)
{
        const uint8_t *bytes = data;
        const struct layout *layout;
        struct amdgpu_metrics m = { 0 };
        size_t said;

        *ret = m;
        if (size < HEADER)
                return infp_fail(err, -EBADMSG, "gpu_metrics has %zu bytes, too few for a version", size);
        said = get(bytes, 2);
        m.format = bytes[2];
        m.content = bytes[3];
        if (said > size)
                return infp_fail(err, -EBADMSG, "gpu_metrics is truncated: %zu of %zu bytes", size, said);
        if (m.format == 1 && m.content == 9) {
                INFP_TRY(parse_attributes(bytes, said, &m, err));
                *ret = m;
                return 0;
        }
        layout = find(m.format, m.content, said);
        if (!layout)
                return infp_fail(err, -ENOTSUP, "gpu_metrics version %u.%u is not known to this infprof", m.format,
                                 m.content);
        if (said < layout->size)
                return infp_fail(err, -EBADMSG, "gpu_metrics %u.%u has %zu bytes, not %u", m.format, m.content, said,
                                 layout->size);
        for (unsigned i = 0; i < layout->n; i++)
                take(&m, &layout->fields[i], bytes + layout->fields[i].offset);
        drop_unsure_energy(&m);
        *ret = m;
        return 0;
}

void infp_amdgpu_levels(const char *text, size_t size, int64_t *ret_current, int64_t *ret_highest)
{
        struct infp_span rest = { text, size }, line, value;

        *ret_current = *ret_highest = 0;
        while (infp_span_line(&rest, &line)) {
                int64_t mhz = 0;
                size_t digits = 0;

                infp_span_cut(line, ':', &value);
                value = infp_span_trim(value);
                while (digits < value.size && digits < 6 && value.at[digits] >= '0' && value.at[digits] <= '9')
                        mhz = mhz * 10 + (value.at[digits++] - '0');
                if (!digits || !infp_span_starts((struct infp_span){ value.at + digits, value.size - digits }, "Mhz"))
                        continue;
                *ret_highest = mhz > *ret_highest ? mhz : *ret_highest;
                if (value.at[value.size - 1] == '*')
                        *ret_current = mhz;
        }
}

/* Why clocks are held down: the bits of indep_throttle_status, which are the same for all chips; or, for chips that count the
 * rounds of the firmware in which each reason held, the reasons that have moved since the last reading. */

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

/* Consumer chips of RDNA 3 show the bit of the hottest place nearly always: this far below the limit it holds nothing down. */
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
        /* More than all rounds: the firmware restarted. */
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
