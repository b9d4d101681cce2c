/* One card at one moment. hwmon and sysfs go first, since their units are the same for all chips; what they lack, gpu_metrics
 * may have. Of clocks and PCIe it is the other way round: hwmon has one clock of several, and the PCIe link of a card is that of
 * a switch within the card. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "collectors/gpu/bounds.h"
#include "collectors/gpu/drm/amdgpu.h"

// clang-format off
static const struct gpu_file files[] = {
        { GPU_UTILIZATION_GPU, GPU_DEVICE, true, "gpu_busy_percent", 1, 0, 100 },
        { GPU_UTILIZATION_MEM, GPU_DEVICE, false, "mem_busy_percent", 1, 0, 100 },
        { GPU_UTILIZATION_MEDIA, GPU_DEVICE, false, "vcn_busy_percent", 1, 0, 100 },
        { GPU_BAR1_TOTAL_MB, GPU_DEVICE, false, "mem_info_vis_vram_total", 1.0 / 1048576, 0, 0 },
        { GPU_BAR1_USED_MB, GPU_DEVICE, false, "mem_info_vis_vram_used", 1.0 / 1048576, 0, 0 },
        { GPU_SYSTEM_MEMORY_TOTAL_BYTES, GPU_DEVICE, false, "mem_info_gtt_total", 1, 0, 0 },
        { GPU_SYSTEM_MEMORY_USED_BYTES, GPU_DEVICE, false, "mem_info_gtt_used", 1, 0, 0 },
        /* Chips for data centres have no sensor at the edge any more: the hottest place stands for it. */
        { GPU_TEMPERATURE, GPU_HWMON, false, "temp1_input", 1e-3, -60000, 200000 },
        { GPU_TEMPERATURE, GPU_HWMON, true, "temp2_input", 1e-3, -60000, 200000 },
        { GPU_TEMPERATURE_HOTSPOT, GPU_HWMON, false, "temp2_input", 1e-3, -60000, 200000 },
        { GPU_TEMPERATURE_MEMORY, GPU_HWMON, false, "temp3_input", 1e-3, -60000, 200000 },
        { GPU_TEMPERATURE_SLOWDOWN, GPU_HWMON, false, "temp2_crit", 1e-3, 1, 200000 },
        { GPU_TEMPERATURE_SLOWDOWN, GPU_HWMON, false, "temp1_crit", 1e-3, 1, 200000 },
        { GPU_TEMPERATURE_SHUTDOWN, GPU_HWMON, false, "temp2_emergency", 1e-3, 1, 200000 },
        { GPU_TEMPERATURE_SHUTDOWN, GPU_HWMON, false, "temp1_emergency", 1e-3, 1, 200000 },
        { GPU_TEMPERATURE_MEMORY_MAX, GPU_HWMON, false, "temp3_crit", 1e-3, 1, 200000 },
        { GPU_FAN_RPM, GPU_HWMON, false, "fan1_input", 1, 0, 100000 },
        { GPU_FAN_SPEED, GPU_HWMON, false, "pwm1", 100.0 / 255, 0, 255 },
        { GPU_POWER_AVERAGE, GPU_HWMON, false, "power1_average", 1e-6, 0, 0 },
        { GPU_POWER_INSTANT, GPU_HWMON, false, "power1_input", 1e-6, 0, 0 },
        { GPU_POWER_LIMIT, GPU_HWMON, false, "power1_cap", 1e-6, 0, 0 },
        { GPU_POWER_LIMIT_DEFAULT, GPU_HWMON, false, "power1_cap_default", 1e-6, 0, 0 },
        { GPU_POWER_LIMIT_MIN, GPU_HWMON, false, "power1_cap_min", 1e-6, 0, 0 },
        { GPU_POWER_LIMIT_MAX, GPU_HWMON, false, "power1_cap_max", 1e-6, 0, 0 },
        { GPU_VOLTAGE, GPU_HWMON, false, "in0_input", 1e-3, 0, 100000 },
        { GPU_PCIE_REPLAYS, GPU_DEVICE, false, "pcie_replay_count", 1, 0, 0 },
};
/* Where gpu_metrics has no clocks. */
static const struct gpu_file clock_files[] = {
        { GPU_CLOCK_GRAPHICS, GPU_HWMON, false, "freq1_input", 1e-6, 0, 0 },
        { GPU_CLOCK_MEM, GPU_HWMON, false, "freq2_input", 1e-6, 0, 0 },
};
static const struct {
        uint8_t cell, metric;
} clocks[] = {
        { GPU_CLOCK_GRAPHICS, AMD_CLOCK_GFX },
        { GPU_CLOCK_MEM, AMD_CLOCK_MEM },
        { GPU_CLOCK_SOC, AMD_CLOCK_SOC },
        { GPU_CLOCK_VIDEO, AMD_CLOCK_VIDEO },
        { GPU_PCIE_WIDTH, AMD_PCIE_WIDTH },
}, others[] = {
        { GPU_UTILIZATION_GPU, AMD_ACTIVITY_GFX },
        { GPU_UTILIZATION_MEM, AMD_ACTIVITY_UMC },
        { GPU_UTILIZATION_MEDIA, AMD_ACTIVITY_MEDIA },
        { GPU_UTILIZATION_JPEG, AMD_ACTIVITY_JPEG },
        { GPU_TEMPERATURE, AMD_TEMPERATURE_EDGE },
        { GPU_TEMPERATURE, AMD_TEMPERATURE_HOTSPOT },
        { GPU_TEMPERATURE_HOTSPOT, AMD_TEMPERATURE_HOTSPOT },
        { GPU_TEMPERATURE_MEMORY, AMD_TEMPERATURE_MEM },
        { GPU_FAN_RPM, AMD_FAN_RPM },
        { GPU_PCIE_REPLAYS, AMD_PCIE_REPLAYS },
};
static const struct {
        uint8_t cell;
        const char *name;
} levels[] = {
        { GPU_CLOCK_GRAPHICS, "pp_dpm_sclk" },
        { GPU_CLOCK_MEM, "pp_dpm_mclk" },
        { GPU_CLOCK_SOC, "pp_dpm_socclk" },
        { GPU_CLOCK_VIDEO, "pp_dpm_vclk" },
};
// clang-format on

_Static_assert(INFP_COUNT(files) + INFP_COUNT(clock_files) <= GPU_FILES, "a bit for each");

static const double step_j = 1.0 / 65536, kib_per_gb = 1e9 / 1024, kib_per_mb = 1e6 / 1024;

static int read_metrics(struct amdgpu *amdgpu, struct amdgpu_card *card, struct infp_emit *emit)
{
        char text[GPU_CARD_PATH + 200];
        struct infp_err err = { "" };
        ssize_t n = infp_read_at(card->card.place_fd[GPU_DEVICE], "gpu_metrics", (char *) amdgpu->table,
                                 sizeof(amdgpu->table));
        int r = n < 0 ? (int) n : infp_amdgpu_metrics_parse(amdgpu->table, (size_t) n, &card->metrics, &err);

        card->has_metrics = r == 0;
        if (r < 0)
                card->metrics = (struct amdgpu_metrics){ 0 };
        if (r == 0) {
                infp_emit_source(emit, &infp_table_amdgpu, GPU_EVENT_REASONS, card->card.pci, INFP_OK, NULL, NULL);
        } else if (r == -ENOENT) {
                infp_emit_source(emit, &infp_table_amdgpu, GPU_EVENT_REASONS, card->card.pci, INFP_ABSENT,
                                 "this chip, or this kernel, has no gpu_metrics", NULL);
        } else if (r != -ENODEV) {
                snprintf(text, sizeof(text), "/sys/class/drm/card%u/device/gpu_metrics: %.200s", card->card.number,
                         *err.text ? err.text : strerror(-r));
                infp_emit_source(emit, &infp_table_amdgpu, GPU_EVENT_REASONS, card->card.pci,
                                 r == -ENOTSUP ? INFP_ABSENT : infp_source_state_of(r), text, NULL);
        }
        return r == -ENODEV ? r : 0;
}

static void put_memory(struct amdgpu_card *card, struct infp_emit *emit)
{
        static const char *const names[] = { "mem_info_vram_total", "mem_info_vram_used" };
        int64_t bytes[2];
        char text[128];

        for (int i = 0; i < 2; i++) {
                int r = infp_gpu_read_i64(card->card.place_fd[GPU_DEVICE], names[i], &bytes[i]);

                if (r == 0 && bytes[i] < 0)
                        r = -EBADMSG;
                if (r == 0)
                        continue;
                snprintf(text, sizeof(text), "/sys/class/drm/card%u/device/%s: %s", card->card.number, names[i],
                         r == -EBADMSG ? "what stands there is no such number" : strerror(-r));
                infp_emit_source(emit, &infp_table_amdgpu, GPU_MEMORY_USED_BYTES, card->card.pci,
                                 infp_source_state_of(r), text, NULL);
                return;
        }
        infp_gpu_put_memory(&emit->row, (uint64_t) bytes[0], (uint64_t) bytes[1]);
        infp_emit_source(emit, &infp_table_amdgpu, GPU_MEMORY_USED_BYTES, card->card.pci, INFP_OK, NULL, NULL);
}

static void put_metric(const struct amdgpu_card *card, struct infp_row *row, unsigned cell, enum amdgpu_metric metric)
{
        if (!infp_row_has(row, cell) && amdgpu_has(&card->metrics, metric))
                infp_gpu_put(row, cell, card->metrics.value[metric]);
}

static void put_clocks(const struct amdgpu_card *card, struct infp_row *row)
{
        for (size_t i = 0; i < INFP_COUNT(clocks); i++)
                put_metric(card, row, clocks[i].cell, clocks[i].metric);
}

/* Of chips without gpu_metrics: each of these asks the firmware. */
static void put_levels(const struct amdgpu_card *card, struct infp_row *row)
{
        for (size_t i = 0; i < INFP_COUNT(levels) && !card->has_metrics; i++) {
                char text[4096];
                int64_t current, most;
                ssize_t n;

                if (infp_row_has(row, levels[i].cell))
                        continue;
                n = infp_read_at(card->card.place_fd[GPU_DEVICE], levels[i].name, text, sizeof(text));
                infp_amdgpu_levels(text, n > 0 ? (size_t) n : 0, &current, &most);
                if (current)
                        infp_row_i64(row, levels[i].cell, current);
        }
}

static void put_link(const struct amdgpu_card *card, struct infp_row *row)
{
        char speed[32];
        int generation;

        if (amdgpu_has(&card->metrics, AMD_PCIE_SPEED)) {
                const unsigned tenths = (unsigned) card->metrics.value[AMD_PCIE_SPEED];

                snprintf(speed, sizeof(speed), "%u.%u GT/s", tenths / 10, tenths % 10);
                generation = infp_gpu_pcie_generation(speed);
                if (generation)
                        infp_row_i64(row, GPU_PCIE_GEN, generation);
        }
        infp_gpu_put_pcie(&card->card, row);
}

/* Old APUs have no gpu_metrics; none has a limit or a fan of its own. */
static bool is_apu(const struct amdgpu_card *card, const struct infp_row *row)
{
        if (card->has_metrics)
                return card->metrics.format >= 2;
        return !infp_row_has(row, GPU_POWER_LIMIT) && !infp_row_has(row, GPU_FAN_RPM) &&
               !infp_row_has(row, GPU_FAN_SPEED);
}

static void put_power(struct amdgpu_card *card, struct infp_row *row)
{
        const struct amdgpu_metrics *m = &card->metrics;

        /* What an APU's sensor gives is the power of CPU and GPU together. */
        if (card->is_apu && amdgpu_has(m, AMD_POWER_GFX))
                infp_row_f64(row, GPU_POWER_DRAW, m->value[AMD_POWER_GFX]);
        else if (infp_row_has(row, GPU_POWER_AVERAGE))
                infp_row_f64(row, GPU_POWER_DRAW, row->cell[GPU_POWER_AVERAGE].f64);
        else if (infp_row_has(row, GPU_POWER_INSTANT))
                infp_row_f64(row, GPU_POWER_DRAW, row->cell[GPU_POWER_INSTANT].f64);
        else if (amdgpu_has(m, AMD_POWER))
                infp_row_f64(row, GPU_POWER_DRAW, m->value[AMD_POWER]);
        if (infp_row_has(row, GPU_POWER_LIMIT))
                infp_row_f64(row, GPU_POWER_LIMIT_ENFORCED, row->cell[GPU_POWER_LIMIT].f64);
}

static void put_energy(struct amdgpu_card *card, struct infp_emit *emit, uint64_t t_ns)
{
        struct infp_row *row = &emit->row;
        const struct amdgpu_metrics *m = &card->metrics;

        if (card->is_apu) {
                /* RAPL's package has it: given here as well, it would be counted twice. */
                infp_emit_source(emit, &infp_table_amdgpu, GPU_ENERGY_JOULES, card->card.pci, INFP_ABSENT,
                                 "the GPU is a part of the processor, whose energy is that of its package", NULL);
                return;
        }
        if (amdgpu_has(m, AMD_ENERGY) && infp_gpu_energy_count(&card->energy, m->raw[AMD_ENERGY], step_j, t_ns)) {
                infp_row_u64(row, GPU_ENERGY_MJ, (uint64_t) ((unsigned __int128) m->raw[AMD_ENERGY] * 1000 / 65536));
        } else if (infp_row_has(row, GPU_POWER_DRAW)) {
                infp_gpu_energy_integrate(&card->energy, row->cell[GPU_POWER_DRAW].f64, t_ns,
                                          infp_row_has(row, GPU_POWER_AVERAGE) ? "power" : "instant power");
        } else {
                infp_gpu_energy_pause(&card->energy);
                return;
        }
        infp_gpu_energy_put(&card->energy, row);
}

/* The share of time in which the memory controller works, of what it can move at most. */
static void put_bandwidth(const struct amdgpu_card *card, struct infp_row *row)
{
        const struct amdgpu_metrics *m = &card->metrics;

        if (amdgpu_has(m, AMD_DRAM_READ) && amdgpu_has(m, AMD_DRAM_WRITE))
                infp_row_f64(row, GPU_MEMORY_BANDWIDTH_KBPS,
                             (m->value[AMD_DRAM_READ] + m->value[AMD_DRAM_WRITE]) * kib_per_mb);
        else if (amdgpu_has(m, AMD_BANDWIDTH_MAX) && amdgpu_has(m, AMD_ACTIVITY_UMC))
                infp_row_f64(row, GPU_MEMORY_BANDWIDTH_KBPS,
                             m->value[AMD_BANDWIDTH_MAX] * kib_per_gb * m->value[AMD_ACTIVITY_UMC] / 100);
}

static void put_xgmi(const struct amdgpu_card *card, struct infp_row *row)
{
        static const struct {
                uint8_t cell, metric;
        } directions[] = { { GPU_NVLINK_RX_BYTES, AMD_XGMI_READ }, { GPU_NVLINK_TX_BYTES, AMD_XGMI_WRITE } };

        for (size_t i = 0; i < INFP_COUNT(directions); i++) {
                const uint64_t kib = card->metrics.raw[directions[i].metric];

                if (amdgpu_has(&card->metrics, directions[i].metric) && kib <= INT64_MAX / 1024)
                        infp_row_i64(row, directions[i].cell, (int64_t) (kib * 1024));
        }
}

static double value_of(const struct infp_row *row, unsigned cell)
{
        return infp_row_has(row, cell) ? (double) row->cell[cell].i64 : 0;
}

int infp_amdgpu_read(struct amdgpu *amdgpu, struct amdgpu_card *card, struct infp_emit *emit, uint64_t t_ns)
{
        struct infp_row *row = &emit->row;

        INFP_TRY(read_metrics(amdgpu, card, emit));
        put_clocks(card, row);
        INFP_TRY(infp_gpu_files_read(&card->card, clock_files, INFP_COUNT(clock_files), INFP_COUNT(files), row));
        INFP_TRY(infp_gpu_files_read(&card->card, files, INFP_COUNT(files), 0, row));
        if (infp_row_has(row, GPU_BAR1_TOTAL_MB) && infp_row_has(row, GPU_BAR1_USED_MB))
                infp_row_i64(row, GPU_BAR1_FREE_MB, row->cell[GPU_BAR1_TOTAL_MB].i64 - row->cell[GPU_BAR1_USED_MB].i64);
        for (size_t i = 0; i < INFP_COUNT(others); i++)
                put_metric(card, row, others[i].cell, others[i].metric);
        put_memory(card, emit);
        put_levels(card, row);
        put_link(card, row);
        card->is_apu = is_apu(card, row);
        put_power(card, row);
        infp_gpu_bound(emit, card->card.uuid); /* what is integrated first */
        put_energy(card, emit, t_ns);
        put_bandwidth(card, row);
        put_xgmi(card, row);
        infp_amdgpu_throttle(&card->throttle, &card->metrics, t_ns);
        infp_amdgpu_put_throttle(&card->throttle, &card->metrics, value_of(row, GPU_TEMPERATURE_HOTSPOT),
                                 value_of(row, GPU_TEMPERATURE_SLOWDOWN), row);
        infp_amdgpu_read_slow(card, t_ns);
        infp_amdgpu_put_slow(card, row);
        infp_gpu_files_say(&card->card, files, INFP_COUNT(files), 0, emit);
        return 0;
}
