/* The collector intel: GPUs by the drivers i915 and xe. Parts: intel.c (record, rounds), intel_read.c (files of one card); of all
 * DRM drivers: card.h, users.h, energy.h. */
#pragma once

#include "collectors/gpu/drm/energy.h"
#include "collectors/gpu/drm/users.h"

struct intel_card {
        struct gpu_card card;  /* first */
        unsigned energy_meter; /* N of hwmon's energyN_input; 0: not found yet */
        struct gpu_energy energy;
};

struct intel {
        struct gpu_cards cards;
        struct gpu_users users;
};

/* Fills the row between begin and commit. -ENODEV: it has gone. */
int infp_intel_read(struct intel_card *card, const struct gpu_users *users, struct infp_emit *emit, uint64_t t_ns);
