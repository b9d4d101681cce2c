/* KFD: the way by which ROCm computes. What runs through it is in no fdinfo, so that the kernel's own list of its processes shows
 * of them: memory, time of the copy engines, compute units that they hold. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/procfile.h"
#include "base/time.h"
#include "collectors/gpu/drm/amdgpu.h"

#define NODES "sys/class/kfd/kfd/topology/nodes"
#define PROCESSES "sys/class/kfd/kfd/proc"

static const uint64_t period_ns = 10 * INFP_NS_PER_S;

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
        card = infp_gpu_card_by_pci(&amdgpu->cards, pci);
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

void infp_amdgpu_kfd_find(struct amdgpu *amdgpu, const struct infp_env *env, uint64_t now_ns)
{
        if (amdgpu->nodes_ns && now_ns - amdgpu->nodes_ns < period_ns)
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

/* Each process has files of each GPU, also of those that it does nothing with. */
static void read_node(struct amdgpu *amdgpu, const struct amdgpu_node *node, int dir_fd, int32_t pid)
{
        uint64_t vram = 0, sdma_us = 0, units = 0;
        bool has_vram = read_number(dir_fd, "vram", node->gpu_id, "", &vram);
        bool has_sdma = read_number(dir_fd, "sdma", node->gpu_id, "", &sdma_us);
        bool has_units = node->n_units && read_number(dir_fd, "stats", node->gpu_id, "/cu_occupancy", &units);
        struct gpu_user *user;

        if (!vram && !sdma_us && !units)
                return;
        user = infp_gpu_user(&amdgpu->users, node->card, pid);
        if (!user)
                return;
        user->is_kfd = true;
        if (has_vram) {
                /* fdinfo of newer kernels counts this memory, too: the larger of the two, at the end of a round. */
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

void infp_amdgpu_kfd_read(struct amdgpu *amdgpu, const struct infp_env *env)
{
        infp_autoclose int fd =
                amdgpu->n_nodes ? openat(env->root_fd, PROCESSES, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        _Alignas(struct dirent64) char buffer[4096];
        ssize_t n;

        while (fd >= 0 && (n = getdents64(fd, buffer, sizeof(buffer))) > 0)
                for (ssize_t at = 0; at < n;) {
                        const struct dirent64 *entry = (const void *) (buffer + at);

                        read_process(amdgpu, fd, entry->d_name);
                        at += entry->d_reclen;
                }
}
