/* The loop that the collectors of DRM drivers share. What differs is in their struct gpu_vendor (card.h). */
#pragma once

#include "collectors/gpu/drm/users.h"

/* First in a collector's state. */
struct drm {
        struct gpu_cards cards;
        struct gpu_users users;
};

int infp_drm_open(struct drm *drm, const struct gpu_vendor *vendor, const struct infp_env *env, struct infp_err *err);
/* These two serve as a collector's own. */
int infp_drm_sample(void *drm, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err);
void infp_drm_close(void *drm);
