/* The collector amdgpu. Parts: amdgpu.c (record, rounds), amdgpu_read.c (files and gpu_metrics to a row), amdgpu_slow.c (what
 * changes rarely), amdgpu_metrics.c (the binary table), amdgpu_throttle.c (why clocks are held down), amdgpu_kfd.c (ROCm's
 * processes); of all DRM drivers: card.h, users.h, energy.h. */
#pragma once

#include "collectors/gpu/drm/amdgpu_metrics.h"
#include "collectors/gpu/drm/energy.h"
#include "collectors/gpu/drm/users.h"

enum { AMD_RESIDENCIES = AMD_RESIDENCY_SOC_THERMAL - AMD_RESIDENCY_PROCHOT + 1, AMD_NODES = 128 };

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
        struct gpu_energy energy;
};

/* A compute node of KFD; a partitioned card has several. */
struct amdgpu_node {
        struct gpu_card *card;
        uint32_t gpu_id, n_units;
};

struct amdgpu {
        struct gpu_cards cards;
        struct gpu_users users;
        struct amdgpu_node nodes[AMD_NODES];
        unsigned n_nodes;
        uint64_t nodes_ns;
        uint8_t table[AMD_METRICS_MAX + 1];
};

/* amdgpu_read.c: fills the row between begin and commit. -ENODEV: it has gone. */
int infp_amdgpu_read(struct amdgpu *amdgpu, struct amdgpu_card *card, struct infp_emit *emit, uint64_t t_ns);

/* amdgpu_slow.c */
void infp_amdgpu_read_slow(struct amdgpu_card *card, uint64_t t_ns);
void infp_amdgpu_put_slow(const struct amdgpu_card *card, struct infp_row *row);
/* "1: 1500Mhz *": the marked line and the highest, in MHz; 0: none. */
void infp_amdgpu_levels(const char *text, size_t size, int64_t *ret_current, int64_t *ret_highest);

/* amdgpu_throttle.c */
void infp_amdgpu_throttle(struct amdgpu_throttle *throttle, const struct amdgpu_metrics *metrics, uint64_t t_ns);
/* `junction_c`, `limit_c`: of the hottest place, 0 where not known. */
void infp_amdgpu_put_throttle(const struct amdgpu_throttle *throttle, const struct amdgpu_metrics *metrics,
                              double junction_c, double limit_c, struct infp_row *row);
/* Names of the bits, separated by ", "; "none". */
void infp_amdgpu_throttle_words(uint64_t bits, char *ret, size_t cap);

/* amdgpu_kfd.c */
void infp_amdgpu_kfd_find(struct amdgpu *amdgpu, const struct infp_env *env, uint64_t now_ns);
void infp_amdgpu_kfd_read(struct amdgpu *amdgpu, const struct infp_env *env);
