/* GPUs of Intel: what their drivers i915 and xe show in sysfs and of each process. A thread of its own: a file may wait for the
 * card's firmware, and a client's fdinfo for work that is being ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "collectors/gpu/account.h"
#include "collectors/gpu/drm/drm.h"

struct intel_card {
        struct gpu_card card;  /* first */
        unsigned energy_meter; /* N of hwmon's energyN_input; 0: not found yet */
};

// clang-format off
static const struct gpu_file files[] = {
        /* xe counts sensors from that of the board, which is 1; i915 has one, of the package. */
        { GPU_TEMPERATURE, GPU_HWMON, false, "temp2_input", 1e-3, -60000, 200000 },
        { GPU_TEMPERATURE, GPU_HWMON, true, "temp1_input", 1e-3, -60000, 200000 },
        { GPU_TEMPERATURE_MEMORY, GPU_HWMON, false, "temp3_input", 1e-3, -60000, 200000 },
        { GPU_TEMPERATURE_SLOWDOWN, GPU_HWMON, false, "temp2_crit", 1e-3, 1, 200000 },
        { GPU_TEMPERATURE_SHUTDOWN, GPU_HWMON, false, "temp2_emergency", 1e-3, 1, 200000 },
        { GPU_TEMPERATURE_MEMORY_MAX, GPU_HWMON, false, "temp3_crit", 1e-3, 1, 200000 },
        { GPU_FAN_RPM, GPU_HWMON, false, "fan1_input", 1, 0, 100000 },
        { GPU_VOLTAGE, GPU_HWMON, false, "in1_input", 1e-3, 0, 100000 },
        { GPU_VOLTAGE, GPU_HWMON, false, "in0_input", 1e-3, 0, 100000 },
        { GPU_CLOCK_GRAPHICS, GPU_DEVICE, false, "tile0/gt0/freq0/act_freq", 1, 0, 100000 },
        { GPU_CLOCK_GRAPHICS, GPU_CARD, false, "gt/gt0/rps_act_freq_mhz", 1, 0, 100000 },
        { GPU_CLOCK_GRAPHICS, GPU_CARD, true, "gt_act_freq_mhz", 1, 0, 100000 },
        { GPU_CLOCK_VIDEO, GPU_DEVICE, false, "tile0/gt1/freq0/act_freq", 1, 0, 100000 },
        { GPU_CLOCK_VIDEO, GPU_CARD, false, "gt/gt1/rps_act_freq_mhz", 1, 0, 100000 },
        { GPU_CLOCK_GRAPHICS_MAX, GPU_DEVICE, false, "tile0/gt0/freq0/rp0_freq", 1, 0, 100000 },
        { GPU_CLOCK_GRAPHICS_MAX, GPU_CARD, false, "gt/gt0/rps_RP0_freq_mhz", 1, 0, 100000 },
        { GPU_CLOCK_GRAPHICS_MAX, GPU_CARD, false, "gt_RP0_freq_mhz", 1, 0, 100000 },
        { GPU_CLOCK_VIDEO_MAX, GPU_DEVICE, false, "tile0/gt1/freq0/rp0_freq", 1, 0, 100000 },
        { GPU_CLOCK_VIDEO_MAX, GPU_CARD, false, "gt/gt1/rps_RP0_freq_mhz", 1, 0, 100000 },
        { GPU_MEMORY_TOTAL_BYTES, GPU_DEVICE, false, "tile0/physical_vram_size_bytes", 1, 1, INT64_MAX },
        { GPU_MEMORY_TOTAL_BYTES, GPU_CARD, false, "lmem_total_bytes", 1, 1, INT64_MAX },
};
/* Bit i of gClocksEventReasons is reason i. */
static const struct {
        const char *file, *word;
} reasons[] = {
        { "pl1", "power_pl1" },
        { "pl2", "power_pl2" },
        { "pl4", "power_pl4" },
        { "thermal", "thermal" },
        { "prochot", "prochot" },
        { "ratl", "thermal_ratl" },
        { "vr_thermalert", "thermal_vr" },
        { "vr_tdc", "current_vr_tdc" },
        { "soc_thermal", "thermal_soc" },
        { "mem_thermal", "thermal_mem" },
        { "vr_thermal", "thermal_vr" },
        { "iccmax", "current_iccmax" },
        { "soc_avg_thermal", "thermal_soc_average" },
        { "fastvmode", "current_fastvmode" },
        { "psys_pl1", "power_psys_pl1" },
        { "psys_pl2", "power_psys_pl2" },
        { "p0_freq", "p0_frequency" },
        { "psys_crit", "power_psys_critical" },
};
// clang-format on

_Static_assert(INFP_COUNT(files) <= GPU_FILES, "a bit for each");

static const double step_j = 1e-6;

/* power1 is that of the card, power2 of its package; 0: no limit is set. */
static void put_limit(const struct gpu_card *card, struct infp_row *row, unsigned cell, const char *name)
{
        for (unsigned i = 1; i <= 2; i++) {
                char file[32];
                int64_t uw;

                snprintf(file, sizeof(file), "power%u_%s", i, name);
                if (infp_gpu_read_i64(card->place_fd[GPU_HWMON], file, &uw) < 0 || uw <= 0)
                        continue;
                infp_row_f64(row, cell, (double) uw / 1e6);
                return;
        }
}

/* Card and package have unrelated counters: the one that was read first is used throughout. */
static int read_energy(struct intel_card *card, int64_t *ret)
{
        int r = -ENOENT;

        for (unsigned i = card->energy_meter ? card->energy_meter : 1; i <= 2; i++) {
                char file[32];

                snprintf(file, sizeof(file), "energy%u_input", i);
                r = infp_gpu_read_i64(card->card.place_fd[GPU_HWMON], file, ret);
                if (r == 0 && *ret < 0)
                        r = -EBADMSG;
                if (r == 0)
                        card->energy_meter = i;
                if (r == 0 || card->energy_meter)
                        break;
        }
        return r;
}

static int put_energy(struct intel_card *card, struct infp_emit *emit, uint64_t t_ns)
{
        struct infp_row *row = &emit->row;
        char text[128];
        int64_t uj = 0;
        int r = card->card.place_fd[GPU_HWMON] < 0 ? -ENOENT : read_energy(card, &uj);

        if (r == -ENODEV)
                return r;
        if (r == 0 && infp_gpu_energy_count(&card->card.energy, (uint64_t) uj, step_j, t_ns)) {
                infp_row_u64(row, GPU_ENERGY_MJ, (uint64_t) uj / 1000);
                infp_gpu_energy_put(&card->card.energy, row);
                if (card->card.energy.has_counter_watts)
                        infp_row_f64(row, GPU_POWER_DRAW, card->card.energy.counter_watts);
                infp_emit_source(emit, &infp_table_intel, GPU_ENERGY_MJ, card->card.pci, INFP_OK, NULL, NULL);
                return 0;
        }
        infp_gpu_energy_pause(&card->card.energy);
        if (r == 0)
                snprintf(text, sizeof(text), "its meter has counted nothing yet");
        else if (r == -ENOENT)
                snprintf(text, sizeof(text),
                         "no meter in its hwmon: the energy of a GPU within a processor is that of its package");
        else
                snprintf(text, sizeof(text), "/sys/class/drm/card%u/device/hwmon/hwmon*/energy%u_input: %s",
                         card->card.number, card->energy_meter ? card->energy_meter : 1,
                         r == -EBADMSG ? "not a valid number" : strerror(-r));
        infp_emit_source(emit, &infp_table_intel, GPU_ENERGY_MJ, card->card.pci,
                         r ? infp_source_state_of(r) : INFP_ABSENT, text, NULL);
        return 0;
}

static int read_reason(const struct gpu_card *card, const char *name, int64_t *ret)
{
        const bool is_xe = !strcmp(card->driver, "xe");
        char file[96];

        if (is_xe)
                snprintf(file, sizeof(file), "tile0/gt0/freq0/throttle/%s%s", strcmp(name, "status") ? "reason_" : "",
                         name);
        else
                snprintf(file, sizeof(file), "gt/gt0/throttle_reason_%s", name);
        return infp_gpu_read_i64(card->place_fd[is_xe ? GPU_DEVICE : GPU_CARD], file, ret);
}

static void put_reasons(const struct gpu_card *card, struct infp_row *row)
{
        uint64_t bits = 0;
        char words[512] = "none";
        size_t n = 0;
        int64_t v;

        if (read_reason(card, "status", &v) < 0)
                return;
        for (size_t i = 0; v && i < INFP_COUNT(reasons); i++) {
                int64_t is_set;

                if (read_reason(card, reasons[i].file, &is_set) < 0 || !is_set)
                        continue;
                bits |= UINT64_C(1) << i;
                n += (size_t) snprintf(words + n, n < sizeof(words) ? sizeof(words) - n : 0, "%s%s", n ? ", " : "",
                                       reasons[i].word);
                n = n < sizeof(words) ? n : sizeof(words) - 1;
        }
        if (v && !bits)
                snprintf(words, sizeof(words), "unknown");
        infp_row_i64(row, GPU_EVENT_REASONS, (int64_t) bits);
        infp_row_str(row, GPU_EVENT_REASONS_TEXT, words);
}

/* Sums over processes, since the drivers report load and memory only by process; nothing where no process was looked at. */
struct sums {
        double percent[GPU_ENGINE_N];
        bool has_percent[GPU_ENGINE_N], has_vram, has_system;
        uint64_t vram, system;
};

static void add_up(const struct gpu_card *card, const struct gpu_users *users, struct sums *ret)
{
        *ret = (struct sums){ .has_vram = false };
        for (size_t i = 0; i < users->n_users; i++) {
                const struct gpu_user *user = &users->users[i];

                if (user->card != card || !user->is_live)
                        continue;
                for (int e = 0; e < GPU_ENGINE_N; e++) {
                        ret->percent[e] += user->percent[e];
                        ret->has_percent[e] |= user->has_percent[e];
                }
                ret->vram += user->vram_bytes;
                ret->system += user->system_bytes;
                ret->has_vram |= user->has_vram;
                ret->has_system |= user->has_system;
        }
}

static double most(double a, double b)
{
        a = a > b ? a : b;
        return a < 100 ? a : 100;
}

static void put_load(const struct sums *sums, struct infp_row *row)
{
        const double *percent = sums->percent;
        const bool *has = sums->has_percent;

        if (has[GPU_ENGINE_RENDER] || has[GPU_ENGINE_COMPUTE])
                infp_gpu_put(row, GPU_UTILIZATION_GPU, most(percent[GPU_ENGINE_RENDER], percent[GPU_ENGINE_COMPUTE]));
        if (has[GPU_ENGINE_COMPUTE])
                infp_gpu_put(row, GPU_UTILIZATION_COMPUTE, most(percent[GPU_ENGINE_COMPUTE], 0));
        if (has[GPU_ENGINE_COPY])
                infp_gpu_put(row, GPU_UTILIZATION_COPY, most(percent[GPU_ENGINE_COPY], 0));
        if (has[GPU_ENGINE_VIDEO] || has[GPU_ENGINE_ENHANCE])
                infp_gpu_put(row, GPU_UTILIZATION_MEDIA, most(percent[GPU_ENGINE_VIDEO], percent[GPU_ENGINE_ENHANCE]));
}

static void put_memory(const struct sums *sums, struct infp_row *row)
{
        const bool has_total = infp_row_has(row, GPU_MEMORY_TOTAL_BYTES);
        const uint64_t total = has_total ? (uint64_t) row->cell[GPU_MEMORY_TOTAL_BYTES].i64 : 0;

        if (sums->has_system && sums->system <= INT64_MAX)
                infp_row_i64(row, GPU_SYSTEM_MEMORY_USED_BYTES, (int64_t) sums->system);
        if (has_total && sums->has_vram) {
                infp_gpu_put_memory(row, total, sums->vram);
                return;
        }
        if (has_total)
                infp_row_i64(row, GPU_MEMORY_TOTAL_MB, (int64_t) (total >> 20));
        if (sums->has_vram && sums->vram <= INT64_MAX) {
                infp_row_i64(row, GPU_MEMORY_USED_BYTES, (int64_t) sums->vram);
                infp_row_i64(row, GPU_MEMORY_USED_MB, (int64_t) (sums->vram >> 20));
        }
}

static void say_load(const struct gpu_card *card, const struct gpu_users *users, struct infp_emit *emit)
{
        const char *reason;

        if (infp_row_has(&emit->row, GPU_UTILIZATION_GPU)) {
                infp_emit_source(emit, &infp_table_intel, GPU_UTILIZATION_GPU, card->pci, INFP_OK, NULL, NULL);
                return;
        }
        if (infp_gpu_card_is_used(users, card))
                reason = "the driver reports it process by process, and a share of time needs two readings";
        else if (users->all || users->has_target)
                reason = "the driver reports it process by process, and no process that was looked at uses the card";
        else
                reason = INFP_NOT_ASKED "the driver reports it process by process; -p looks at all";
        infp_emit_source(emit, &infp_table_intel, GPU_UTILIZATION_GPU, card->pci, INFP_ABSENT, reason, NULL);
}

static int read_card(struct drm *drm, struct gpu_card *any_card, struct infp_emit *emit, uint64_t t_ns)
{
        struct intel_card *card = (struct intel_card *) any_card;
        struct infp_row *row = &emit->row;
        struct sums sums;

        INFP_TRY(infp_gpu_files_read(&card->card, files, INFP_COUNT(files), 0, row));
        INFP_TRY(put_energy(card, emit, t_ns));
        if (card->card.place_fd[GPU_HWMON] >= 0) {
                put_limit(&card->card, row, GPU_POWER_LIMIT, "max");
                put_limit(&card->card, row, GPU_POWER_LIMIT_DEFAULT, "rated_max");
        }
        put_reasons(&card->card, row);
        infp_gpu_put_pcie(&card->card, row);
        add_up(&card->card, &drm->users, &sums);
        put_load(&sums, row);
        put_memory(&sums, row);
        infp_gpu_files_say(&card->card, files, INFP_COUNT(files), 0, emit);
        say_load(&card->card, &drm->users, emit);
        return 0;
}

static const char *const drivers[] = { "i915", "xe", NULL };
enum { PCI_INTEL = 0x8086, FLOOR_MS = 100 };

static void forget(struct gpu_card *card)
{
        ((struct intel_card *) card)->energy_meter = 0;
}

static const struct gpu_vendor intel = {
        .name = "intel",
        .none = "no Intel GPU: i915 and xe have no card in /sys/class/drm",
        .drivers = drivers,
        .pci_id = PCI_INTEL,
        .table = &infp_table_intel,
        .processes = &infp_table_intel_processes,
        .card_size = sizeof(struct intel_card),
        .idle_cell = GPU_CLOCK_GRAPHICS,
        .forget = forget,
        .read = read_card,
};

static int intel_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        return infp_drm_open(state, &intel, env, err);
}

static const struct infp_table *const intel_tables[] = { &infp_table_intel, &infp_table_intel_processes,
                                                         &infp_table_memory_account, NULL };

const struct infp_collector infp_collector_intel = {
        .name = "intel",
        .help = "GPUs of Intel: clocks, energy, and what processes use.",
        .tables = intel_tables,
        .floor_ms = FLOOR_MS,
        .flags = INFP_MAY_BLOCK,
        .state_size = sizeof(struct drm),
        .open = intel_open,
        .sample = infp_drm_sample,
        .close = infp_drm_close,
};
