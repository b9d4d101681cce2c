/* /proc/PID/fdinfo/FD of an open GPU: what the kernel's DRM drivers (amdgpu, i915, xe) report about one client, in the common
 * format of their documentation (drm-usage-stats), and in that of amdgpu before Linux 5.19. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpu_engine {
        GPU_ENGINE_RENDER,  /* amdgpu gfx, i915 render, xe rcs */
        GPU_ENGINE_COMPUTE, /* compute, ccs; without what ROCm runs through KFD */
        GPU_ENGINE_COPY,    /* dma, copy, bcs */
        GPU_ENGINE_VIDEO,   /* dec, video, vcs */
        GPU_ENGINE_ENCODE,  /* enc, enc_1 */
        GPU_ENGINE_JPEG,    /* jpeg */
        GPU_ENGINE_ENHANCE, /* video-enhance, vecs */
        GPU_ENGINE_N,
};

struct gpu_engine_use {
        bool has_busy, has_cycles, has_percent;
        uint64_t busy_ns;
        uint64_t cycles, total_cycles; /* xe: busy, and of the clock that counts both */
        uint32_t capacity;             /* engines of this kind: this many can be busy at once */
        double percent;                /* amdgpu before 5.19: over an unstated time */
};

enum { GPU_DRIVER_NAME = 16, GPU_PCI_NAME = 24 };

struct gpu_fdinfo {
        char driver[GPU_DRIVER_NAME]; /* "amdgpu", "i915", "xe" ... */
        char pci[GPU_PCI_NAME];       /* "0000:03:00.0"; "": not a PCI device, or not reported */
        uint64_t client;              /* the same in each descriptor of one opening, in children, too */
        bool has_client;
        struct gpu_engine_use engine[GPU_ENGINE_N];
        bool has_vram, has_system;
        uint64_t vram_bytes, system_bytes; /* of the GPU; of the machine, that the GPU maps */
};

/* False: not a GPU's. Other lines are skipped. */
bool infp_gpu_fdinfo_parse(const char *text, size_t size, struct gpu_fdinfo *ret);
