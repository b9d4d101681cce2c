/* GPUs of AMD: what their driver amdgpu shows in sysfs. A thread of its own: a file may wait for the card's firmware. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/procfile.h"
#include "base/time.h"
#include "collectors/gpu/account.h"
#include "collectors/gpu/bounds.h"
#include "collectors/gpu/drm/amdgpu_metrics.h"
#include "collectors/gpu/drm/drm.h"

/* Read each 10 s, and put into each row. */
struct amdgpu_slow {
        bool has_ecc, has_bad_pages;
        uint64_t corrected, uncorrected, bad_pages;
        int64_t sclk_max, mclk_max, vclk_max; /* MHz; 0: not known */
        char vbios[64], level[32];
        uint64_t t_ns;
};

struct amdgpu_card {
        struct gpu_card card; /* first */
        struct amdgpu_metrics metrics;
        bool has_metrics, is_apu;
        struct amdgpu_throttle throttle;
        struct amdgpu_slow slow;
};

enum { AMD_NODES = 128 };

/* A compute node of KFD; a partitioned card has several. */
struct amdgpu_node {
        struct gpu_card *card;
        uint32_t gpu_id, n_units;
};

struct amdgpu {
        struct drm drm; /* first */
        struct amdgpu_node nodes[AMD_NODES];
        unsigned n_nodes;
        uint64_t nodes_ns;
        uint8_t table[AMD_METRICS_MAX + 1];
};

/* KFD, which ROCm uses to compute, is in no fdinfo. The kernel's own list of its processes shows their memory, the time of the
 * copy engines and the compute units that they hold. */
#define NODES "sys/class/kfd/kfd/topology/nodes"
#define PROCESSES "sys/class/kfd/kfd/proc"

static const uint64_t nodes_period_ns = 10 * INFP_NS_PER_S;

static uint64_t property(struct infp_span text, const char *name)
{
        struct infp_span line;
        uint64_t v;

        while (infp_span_line(&text, &line))
                if (infp_span_is(infp_span_word(&line), name))
                        return infp_span_u64(infp_span_word(&line), &v) ? 0 : v;
        return 0;
}

/* 90402 is 9.4.2: gfx942; 90010 is gfx90a. */
static void put_architecture(struct gpu_card *card, uint64_t version)
{
        if (version && version < 1000000)
                snprintf(card->architecture, sizeof(card->architecture), "gfx%u%x%x", (unsigned) (version / 10000),
                         (unsigned) (version / 100 % 100), (unsigned) (version % 100));
}

static void add_node(struct amdgpu *amdgpu, const struct infp_env *env, unsigned number, uint32_t gpu_id)
{
        char path[96], text[8192], pci[GPU_PCI_NAME];
        struct infp_span all;
        uint64_t location, domain, per_unit;
        struct gpu_card *card;
        ssize_t n;

        snprintf(path, sizeof(path), NODES "/%u/properties", number);
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        if (n <= 0)
                return;
        all = (struct infp_span){ text, (size_t) n };
        location = property(all, "location_id");
        domain = property(all, "domain");
        snprintf(pci, sizeof(pci), "%04x:%02x:%02x.%x", (unsigned) (domain & 0xffffffff),
                 (unsigned) (location >> 8 & 0xff), (unsigned) (location >> 3 & 0x1f), (unsigned) (location & 7));
        card = infp_gpu_card_by_pci(&amdgpu->drm.cards, pci);
        if (!card)
                return;
        put_architecture(card, property(all, "gfx_target_version"));
        per_unit = property(all, "simd_per_cu");
        amdgpu->nodes[amdgpu->n_nodes++] = (struct amdgpu_node){
                .card = card,
                .gpu_id = gpu_id,
                .n_units = per_unit ? (uint32_t) (property(all, "simd_count") / per_unit) : 0,
        };
}

/* At the start of a sample. */
static void begin(struct drm *drm, const struct infp_env *env, uint64_t now_ns)
{
        struct amdgpu *amdgpu = (struct amdgpu *) drm;

        for (unsigned i = 0; i < drm->cards.n; i++)
                if (drm->cards.list[i]->state != GPU_AWAKE)
                        ((struct amdgpu_card *) drm->cards.list[i])->throttle.has_last = false;
        if (amdgpu->nodes_ns && now_ns - amdgpu->nodes_ns < nodes_period_ns)
                return;
        amdgpu->nodes_ns = now_ns;
        amdgpu->n_nodes = 0;
        /* Numbered without gaps; nodes of CPUs have the id 0, and those that a container may not use cannot be read. */
        for (unsigned i = 0; i < AMD_NODES; i++) {
                char path[96];
                int64_t gpu_id;
                int r;

                snprintf(path, sizeof(path), NODES "/%u/gpu_id", i);
                r = infp_gpu_read_i64(env->root_fd, path, &gpu_id);
                if (r == -ENOENT)
                        break;
                if (r == 0 && gpu_id > 0 && gpu_id <= UINT32_MAX)
                        add_node(amdgpu, env, i, (uint32_t) gpu_id);
        }
}

static bool read_number(int dir_fd, const char *stem, uint32_t gpu_id, const char *file, uint64_t *ret)
{
        char name[64];
        int64_t v;

        snprintf(name, sizeof(name), "%s_%" PRIu32 "%s", stem, gpu_id, file);
        if (infp_gpu_read_i64(dir_fd, name, &v) < 0 || v < 0)
                return false;
        *ret = (uint64_t) v;
        return true;
}

/* Each process has files for each GPU, also for those that it does not use. */
static void read_node(struct amdgpu *amdgpu, const struct amdgpu_node *node, int dir_fd, int32_t pid)
{
        uint64_t vram = 0, sdma_us = 0, units = 0;
        bool has_vram = read_number(dir_fd, "vram", node->gpu_id, "", &vram);
        bool has_sdma = read_number(dir_fd, "sdma", node->gpu_id, "", &sdma_us);
        bool has_units = node->n_units && read_number(dir_fd, "stats", node->gpu_id, "/cu_occupancy", &units);
        struct gpu_user *user;

        if (!vram && !sdma_us && !units)
                return;
        user = infp_gpu_user(&amdgpu->drm.users, node->card, pid);
        if (!user)
                return;
        user->is_kfd = true;
        if (has_vram) {
                /* fdinfo of newer kernels includes this memory: the larger of the two counts, at the end of a round. */
                user->kfd_vram_bytes += vram;
                user->has_kfd_vram = true;
        }
        if (has_sdma && sdma_us < INT64_MAX / 1000) {
                user->copy_ns += sdma_us * 1000;
                user->has_copy = true;
        }
        if (has_units) {
                user->occupied += units;
                user->units += node->n_units;
        }
}

static void read_process(struct amdgpu *amdgpu, int processes_fd, const char *name)
{
        char *end;
        const long pid = strtol(name, &end, 10);
        infp_autoclose int fd = -1;

        if (pid <= 0 || pid > INT32_MAX || *end)
                return;
        fd = openat(processes_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return;
        for (unsigned i = 0; i < amdgpu->n_nodes; i++)
                if (!amdgpu->nodes[i].card->is_gone && amdgpu->nodes[i].card->state == GPU_AWAKE)
                        read_node(amdgpu, &amdgpu->nodes[i], fd, (int32_t) pid);
}

static void read_kfd(struct drm *drm, const struct infp_env *env)
{
        struct amdgpu *amdgpu = (struct amdgpu *) drm;
        infp_autoclose int fd =
                amdgpu->n_nodes ? openat(env->root_fd, PROCESSES, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        struct infp_names names;
        const char *name;

        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)))
                read_process(amdgpu, fd, name);
}

/* What changes rarely, or is expensive for the firmware: read each 10 s. */

static const uint64_t slow_period_ns = 10 * INFP_NS_PER_S;

static int64_t highest(int dir_fd, const char *name)
{
        char text[4096];
        int64_t current, most;
        ssize_t n = infp_read_at(dir_fd, name, text, sizeof(text));

        infp_amdgpu_levels(text, n > 0 ? (size_t) n : 0, &current, &most);
        return most;
}

/* "ue: 0\nce: 12\n" */
static void read_errors(struct amdgpu_slow *slow, int dir_fd)
{
        char text[256];
        struct infp_span rest, line, value, key;
        ssize_t n = infp_read_at(dir_fd, "ras/umc_err_count", text, sizeof(text));
        bool has_ue = false, has_ce = false;

        rest = (struct infp_span){ text, n > 0 ? (size_t) n : 0 };
        while (infp_span_line(&rest, &line)) {
                key = infp_span_trim(infp_span_cut(line, ':', &value));
                value = infp_span_trim(value);
                if (infp_span_is(key, "ue"))
                        has_ue = !infp_span_u64(value, &slow->uncorrected);
                else if (infp_span_is(key, "ce"))
                        has_ce = !infp_span_u64(value, &slow->corrected);
        }
        slow->has_ecc = has_ue && has_ce;
}

/* "0x00000001 : 0x00001000 : R" a line: R is out of use, P and F will be. */
static void read_bad_pages(struct amdgpu_slow *slow, int dir_fd)
{
        char text[4096];
        struct infp_span rest, line;
        ssize_t n = infp_read_at(dir_fd, "ras/gpu_vram_bad_pages", text, sizeof(text));

        slow->has_bad_pages =
                n >= 0 && (size_t) n < sizeof(text) - 1; /* a longer list cannot be counted by its start */
        slow->bad_pages = 0;
        rest = (struct infp_span){ text, n > 0 ? (size_t) n : 0 };
        while (infp_span_line(&rest, &line)) {
                line = infp_span_trim(line);
                slow->bad_pages += line.size && line.at[line.size - 1] == 'R';
        }
}

static void read_slow(struct amdgpu_card *card, uint64_t t_ns)
{
        struct amdgpu_slow *slow = &card->slow;
        const int fd = card->card.place_fd[GPU_DEVICE];

        if (slow->t_ns && t_ns - slow->t_ns < slow_period_ns)
                return;
        slow->t_ns = t_ns;
        read_errors(slow, fd);
        read_bad_pages(slow, fd);
        slow->sclk_max = highest(fd, "pp_dpm_sclk");
        slow->mclk_max = highest(fd, "pp_dpm_mclk");
        slow->vclk_max = highest(fd, "pp_dpm_vclk");
        infp_gpu_read_line(fd, "vbios_version", slow->vbios, sizeof(slow->vbios));
        infp_gpu_read_line(fd, "power_dpm_force_performance_level", slow->level, sizeof(slow->level));
}

static void put_count(struct infp_row *row, unsigned cell, bool has, uint64_t n)
{
        if (has && n <= INT64_MAX)
                infp_row_i64(row, cell, (int64_t) n);
}

static void put_slow(const struct amdgpu_card *card, struct infp_row *row)
{
        const struct amdgpu_slow *slow = &card->slow;

        if (slow->has_ecc)
                infp_row_bool(row, GPU_ECC_ENABLED, true);
        put_count(row, GPU_ECC_SINGLE_BIT, slow->has_ecc, slow->corrected);
        put_count(row, GPU_ECC_DOUBLE_BIT, slow->has_ecc, slow->uncorrected);
        put_count(row, GPU_RETIRED_PAGES_DOUBLE_BIT, slow->has_bad_pages, slow->bad_pages);
        put_count(row, GPU_CLOCK_GRAPHICS_MAX, slow->sclk_max > 0, (uint64_t) slow->sclk_max);
        put_count(row, GPU_CLOCK_MEM_MAX, slow->mclk_max > 0, (uint64_t) slow->mclk_max);
        put_count(row, GPU_CLOCK_VIDEO_MAX, slow->vclk_max > 0, (uint64_t) slow->vclk_max);
        infp_row_foreign(row, GPU_VBIOS, slow->vbios);
        infp_row_foreign(row, GPU_PERF_STATE, slow->level);
}

/* One card at one time. hwmon and sysfs come first, since their units are the same for all chips; gpu_metrics fills the gaps.
 * For clocks and PCIe it is the other way round: hwmon has one of several clocks, and the PCIe link of a card is that of a
 * switch within the card. */

// clang-format off
static const struct gpu_file files[] = {
        { GPU_UTILIZATION_GPU, GPU_DEVICE, true, "gpu_busy_percent", 1, 0, 100 },
        { GPU_UTILIZATION_MEM, GPU_DEVICE, false, "mem_busy_percent", 1, 0, 100 },
        { GPU_UTILIZATION_MEDIA, GPU_DEVICE, false, "vcn_busy_percent", 1, 0, 100 },
        { GPU_BAR1_TOTAL_MB, GPU_DEVICE, false, "mem_info_vis_vram_total", 1.0 / 1048576, 0, 0 },
        { GPU_BAR1_USED_MB, GPU_DEVICE, false, "mem_info_vis_vram_used", 1.0 / 1048576, 0, 0 },
        { GPU_SYSTEM_MEMORY_TOTAL_BYTES, GPU_DEVICE, false, "mem_info_gtt_total", 1, 0, 0 },
        { GPU_SYSTEM_MEMORY_USED_BYTES, GPU_DEVICE, false, "mem_info_gtt_used", 1, 0, 0 },
        /* Chips for data centres have no edge sensor any more: the hottest place takes its part. */
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
                         r == -EBADMSG ? "not a valid number" : strerror(-r));
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

/* For chips without gpu_metrics: each of these asks the firmware. */
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

/* Old APUs have no gpu_metrics; no APU has a limit or a fan of its own. */
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

        /* An APU's sensor measures CPU and GPU together. */
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
                /* RAPL's package includes it: here it would be counted twice. */
                infp_emit_source(emit, &infp_table_amdgpu, GPU_ENERGY_JOULES, card->card.pci, INFP_ABSENT,
                                 "the GPU is a part of the processor, whose energy is that of its package", NULL);
                return;
        }
        if (amdgpu_has(m, AMD_ENERGY) && infp_gpu_energy_count(&card->card.energy, m->raw[AMD_ENERGY], step_j, t_ns)) {
                infp_row_u64(row, GPU_ENERGY_MJ, (uint64_t) ((unsigned __int128) m->raw[AMD_ENERGY] * 1000 / 65536));
        } else if (infp_row_has(row, GPU_POWER_DRAW)) {
                infp_gpu_energy_integrate(&card->card.energy, row->cell[GPU_POWER_DRAW].f64, t_ns,
                                          infp_row_has(row, GPU_POWER_AVERAGE) ? "power" : "instant power");
        } else {
                infp_gpu_energy_pause(&card->card.energy);
                return;
        }
        infp_gpu_energy_put(&card->card.energy, row);
}

/* The share of time in which the memory controller works, of its maximum. */
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

static int read_card(struct drm *drm, struct gpu_card *any_card, struct infp_emit *emit, uint64_t t_ns)
{
        struct amdgpu_card *card = (struct amdgpu_card *) any_card;
        struct infp_row *row = &emit->row;

        INFP_TRY(read_metrics((struct amdgpu *) drm, card, emit));
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
        infp_gpu_bound(emit, card->card.uuid); /* before it is integrated */
        put_energy(card, emit, t_ns);
        put_bandwidth(card, row);
        put_xgmi(card, row);
        infp_amdgpu_throttle(&card->throttle, &card->metrics, t_ns);
        infp_amdgpu_put_throttle(&card->throttle, &card->metrics, value_of(row, GPU_TEMPERATURE_HOTSPOT),
                                 value_of(row, GPU_TEMPERATURE_SLOWDOWN), row);
        read_slow(card, t_ns);
        put_slow(card, row);
        infp_gpu_files_say(&card->card, files, INFP_COUNT(files), 0, emit);
        return 0;
}

static const char *const drivers[] = { "amdgpu", NULL };
/* The firmware takes no new readings more often, and each reading takes some of its time. */
enum { PCI_AMD = 0x1002, FLOOR_MS = 100 };

static void forget(struct gpu_card *card)
{
        struct amdgpu_card *c = (struct amdgpu_card *) card;

        c->throttle = (struct amdgpu_throttle){ .has_last = false };
        c->slow = (struct amdgpu_slow){ .t_ns = 0 };
}

static const struct gpu_vendor amd = {
        .name = "amd",
        .none = "no AMD GPU: the driver amdgpu has no card in /sys/class/drm",
        .drivers = drivers,
        .pci_id = PCI_AMD,
        .table = &infp_table_amdgpu,
        .processes = &infp_table_amdgpu_processes,
        .card_size = sizeof(struct amdgpu_card),
        .idle_cell = GPU_UTILIZATION_GPU,
        .forget = forget,
        .read = read_card,
        .begin = begin,
        .read_users = read_kfd,
};

static int amdgpu_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        return infp_drm_open(state, &amd, env, err);
}

static const struct infp_table *const amdgpu_tables[] = { &infp_table_amdgpu, &infp_table_amdgpu_processes,
                                                          &infp_table_memory_account, NULL };

const struct infp_collector infp_collector_amdgpu = {
        .name = "amdgpu",
        .help = "GPUs of AMD: load, memory, power, clocks, processes.",
        .tables = amdgpu_tables,
        .floor_ms = FLOOR_MS,
        .flags = INFP_MAY_BLOCK,
        .state_size = sizeof(struct amdgpu),
        .open = amdgpu_open,
        .sample = infp_drm_sample,
        .close = infp_drm_close,
};
