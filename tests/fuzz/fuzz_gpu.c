/* Any bytes where a GPU's driver writes: the table gpu_metrics, fdinfo, and each file of a card, through the collectors amdgpu and
 * intel. They give what is sure of it, and neither crash nor fail as a whole. The first byte says which file; beyond the last one
 * the parsers alone are run, which is a thousand times as fast. */
#include "collect/target.h"
#include "collectors/gpu/drm/amdgpu_metrics.h"
#include "collectors/gpu/drm/card.h"
#include "collectors/gpu/drm/fdinfo.h"
#include "fuzz_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define AMD "sys/class/drm/card0/device/"
#define INTEL "sys/class/drm/card1/device/"

static const struct tree_file files[] = {
        { AMD "uevent", "DRIVER=amdgpu\nPCI_ID=1002:744C\nPCI_SLOT_NAME=0000:03:00.0\n" },
        { INTEL "uevent", "DRIVER=xe\nPCI_ID=8086:E20B\nPCI_SLOT_NAME=0000:04:00.0\n" },
        { "sys/class/drm/renderD128/device/uevent", "PCI_SLOT_NAME=0000:03:00.0\n" },
        { "sys/class/drm/renderD129/device/uevent", "PCI_SLOT_NAME=0000:04:00.0\n" },
        { AMD "gpu_metrics", "\x78\x00\x01\x03" },
        { AMD "gpu_busy_percent", "5\n" },
        { AMD "mem_info_vram_used", "5\n" },
        { AMD "mem_info_vram_total", "50\n" },
        { AMD "pp_dpm_sclk", "0: 500Mhz *\n" },
        { AMD "ras/umc_err_count", "ue: 0\nce: 0\n" },
        { AMD "ras/gpu_vram_bad_pages", "0x1 : 0x1 : R\n" },
        { AMD "current_link_speed", "16.0 GT/s PCIe\n" },
        { AMD "power/runtime_status", "active\n" },
        { AMD "unique_id", "abc\n" },
        { AMD "hwmon/hwmon0/name", "amdgpu\n" },
        { AMD "hwmon/hwmon0/power1_average", "1000000\n" },
        { INTEL "hwmon/hwmon1/name", "xe\n" },
        { INTEL "hwmon/hwmon1/energy1_input", "1000000\n" },
        { INTEL "tile0/gt0/freq0/throttle/status", "1\n" },
        { "usr/share/libdrm/amdgpu.ids", "744C,\tC8,\tname\n" },
        { "usr/share/misc/pci.ids", "8086  x\n\te20b  name\n" },
        { "sys/class/kfd/kfd/topology/nodes/0/gpu_id", "7\n" },
        { "sys/class/kfd/kfd/topology/nodes/0/properties",
          "simd_count 8\nsimd_per_cu 4\nlocation_id 768\ngfx_target_version 110000\n" },
        { "sys/class/kfd/kfd/proc/1/vram_7", "4096\n" },
        { "sys/class/kfd/kfd/proc/1/stats_7/cu_occupancy", "1\n" },
        { "proc/1/stat", "1 (x) S 0 1 1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 5 4096000 10 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 "
                         "0 0 0 0 0 0 0 0 0 0 0 0\n" },
        { "proc/1/cgroup", "0::/\n" },
        { "proc/1/fdinfo/3", "drm-driver: amdgpu\ndrm-client-id: 1\ndrm-engine-gfx: 5 ns\n" },
        { "proc/1/fdinfo/4", "drm-driver: xe\ndrm-client-id: 1\ndrm-cycles-rcs: 5\ndrm-total-cycles-rcs: 9\n" },
        { "proc/sys/kernel/random/boot_id", "01234567-89ab-cdef-0123-456789abcdef\n" },
};

static uint64_t clock_ns;

static void begin(void)
{
        tree_begin(files, INFP_COUNT(files));
        tree_make_folders("proc/1/fd/3");
        if (symlinkat("/dev/dri/renderD128", tree_fd, "proc/1/fd/3") < 0 ||
            symlinkat("/dev/dri/renderD129", tree_fd, "proc/1/fd/4") < 0)
                abort();
}

static uint64_t now(const struct infp_env *env)
{
        (void) env;
        return clock_ns += 1000000000;
}

/* Two samples, so that differences are taken: the second after the first file's text, the first before it. */
static void sample(const char *name, const char *path, const uint8_t *data, size_t size)
{
        static struct infp_emit emit;
        struct infp_collector_state state = { 0 };
        struct infp_target *target;
        struct infp_env env;
        uint64_t sum = 0;

        if (infp_env_open(&env, tree_top, NULL) < 0 || infp_target_new(INFP_MODE_HOST, true, &target, NULL) < 0)
                abort();
        env.now_ns = now;
        env.target = target;
        infp_emit_init(&emit, tree_put_nowhere, &sum);
        if (infp_collector_open(&state, infp_collector_find(name), &env, &emit, NULL, NULL) == 0)
                infp_collector_sample(&state, &env, &emit, NULL, NULL);
        tree_put(path, data, size);
        if (state.memory)
                infp_collector_sample(&state, &env, &emit, NULL, NULL);
        infp_collector_close(&state);
        infp_target_free(target);
        infp_env_close(&env);
}

/* What is made of a file's content without the file; of the line of a link's speed and of levels of clocks as well. */
static void parse(const char *text, size_t size)
{
        infp_autofree char *line = strndup(text, size);
        struct amdgpu_throttle throttle = { 0 };
        struct amdgpu_metrics metrics;
        struct gpu_fdinfo info;
        int64_t current, highest;
        uint64_t bits = 0;
        char words[256];

        infp_gpu_fdinfo_parse(text, size, &info);
        infp_amdgpu_levels(text, size, &current, &highest);
        if (line)
                infp_gpu_pcie_generation(line);
        memcpy(&bits, text, size < sizeof(bits) ? size : sizeof(bits));
        infp_amdgpu_throttle_words(bits, words, sizeof(words));
        if (infp_amdgpu_metrics_parse(text, size, &metrics, NULL) < 0)
                return;
        infp_amdgpu_throttle(&throttle, &metrics, 1);
        infp_amdgpu_throttle(&throttle, &metrics, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (!size)
                return 0;
        parse((const char *) data + 1, size - 1);
        if (data[0] >= INFP_COUNT(files) || !tree_is_chosen(data, size))
                return 0;
        if (tree_fd < 0)
                begin();
        sample("amdgpu", files[data[0]].path, data + 1, size - 1);
        sample("intel", files[data[0]].path, data + 1, size - 1);
        tree_put(files[data[0]].path, files[data[0]].text, strlen(files[data[0]].text));
        return 0;
}
