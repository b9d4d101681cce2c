/* Any bytes where a GPU's driver writes: the table gpu_metrics, fdinfo, and each file of a card, through the collectors amdgpu and
 * intel. They give what is sure of it, and neither crash nor fail as a whole. The first byte says which file; beyond the last one
 * the parsers alone are run, which is a thousand times as fast. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "collect/run_one.h"
#include "collect/target.h"
#include "collectors/amdgpu_metrics.h"
#include "collectors/gpu_fdinfo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define AMD "sys/class/drm/card0/device/"
#define INTEL "sys/class/drm/card1/device/"

static const struct {
        const char *path, *text;
} files[] = {
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

static char top[] = "/tmp/infp-fuzz-XXXXXX";
static uint64_t clock_ns;

static void make_folders(char *path)
{
        for (char *at = path + strlen(top) + 1; (at = strchr(at, '/')); at++) {
                *at = 0;
                mkdir(path, 0777);
                *at = '/';
        }
}

static void put(const char *name, const void *text, size_t size)
{
        char path[1024];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", top, name);
        make_folders(path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, text, size) != (ssize_t) size)
                abort();
        close(fd);
}

static void remove_tree(void)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf %s", top);
        if (system(command) != 0)
                fprintf(stderr, "%s is left\n", top);
}

static void put_link(const char *name, const char *to)
{
        char path[1024];

        snprintf(path, sizeof(path), "%s/%s", top, name);
        make_folders(path);
        if (symlink(to, path) < 0)
                abort();
}

static void begin(void)
{
        if (!mkdtemp(top))
                abort();
        atexit(remove_tree);
        for (size_t i = 0; i < INFP_COUNT(files); i++)
                put(files[i].path, files[i].text, strlen(files[i].text));
        put_link("proc/1/fd/3", "/dev/dri/renderD128");
        put_link("proc/1/fd/4", "/dev/dri/renderD129");
}

static uint64_t now(const struct infp_env *env)
{
        (void) env;
        return clock_ns += 1000000000;
}

static int put_nowhere(void *context, const struct infp_row *row)
{
        *(uint64_t *) context += row->text_size;
        return 0;
}

/* Two samples, so that differences are taken: the second after the first file's text, the first before it. */
static void sample(const char *name, const char *path, const uint8_t *data, size_t size)
{
        static struct infp_emit emit;
        struct infp_collector_state state = { 0 };
        struct infp_target *target;
        struct infp_env env;
        uint64_t sum = 0;

        if (infp_env_open(&env, top, NULL) < 0 || infp_target_new(INFP_MODE_HOST, true, &target, NULL) < 0)
                abort();
        env.now_ns = now;
        env.target = target;
        infp_emit_init(&emit, put_nowhere, &sum);
        if (infp_collector_open(&state, infp_collector_find(name), &env, &emit, NULL, NULL) == 0)
                infp_collector_sample(&state, &env, &emit, NULL, NULL);
        put(path, data, size);
        if (state.memory)
                infp_collector_sample(&state, &env, &emit, NULL, NULL);
        infp_collector_close(&state);
        infp_target_free(target);
        infp_env_close(&env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static bool has_begun;
        struct amdgpu_metrics metrics;
        struct gpu_fdinfo info;

        if (!size)
                return 0;
        infp_amdgpu_metrics_parse(data + 1, size - 1, &metrics, NULL);
        infp_gpu_fdinfo_parse((const char *) data + 1, size - 1, &info);
        if (data[0] >= INFP_COUNT(files))
                return 0;
        if (!has_begun)
                begin();
        has_begun = true;
        sample("amdgpu", files[data[0]].path, data + 1, size - 1);
        sample("intel", files[data[0]].path, data + 1, size - 1);
        put(files[data[0]].path, files[data[0]].text, strlen(files[data[0]].text));
        return 0;
}
