/* The GPUs in static_<uuid>.json: {"nvidia": {"gDriverVersion", "gCudaVersion", "gpus": [{"gName", "gUuid", "gTotalMemoryMb",
 * "gPciBusId", "gMaxGraphicsClock", "gMaxSmClock", "gMaxMemClock"}, ...]}}, and likewise "amdgpu" and "intel", without versions.
 * They become known one after the other, from the first row of each; a maker without GPUs is not there. */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "model/batch.h"

enum { INFP_STATIC_MAKERS = 3 };

struct infp_static_gpus {
        struct infp_static_maker {
                struct infp_str driver_version, cuda_version; /* JSON values; empty: not known */
                struct infp_static_gpu {
                        int64_t index;
                        uint64_t id;
                        struct infp_str json; /* its object */
                } * gpus;                     /* by index */
                unsigned n;
        } makers[INFP_STATIC_MAKERS];
};

void infp_static_gpus_done(struct infp_static_gpus *gpus);
/* Takes what is new in rows of any table; false: nothing. */
bool infp_static_gpus_take(struct infp_static_gpus *gpus, const struct infp_batch *batch);
/* The record with the GPUs: `record` is what infp_static_json wrote. */
void infp_static_gpus_put(const struct infp_static_gpus *gpus, const struct infp_str *record, struct infp_str *out);
