/* static_<uuid>.json: what the machine is, from a row of the table `host`.
 *
 * {"uuid", "vId", "host": {"vHostname", ..., "vCpuCache": {"L1d": bytes, ...}, ...}}: the columns of the row in their order,
 * but for vId, which stands outside, and the caches, which stand together. What is absent is null. */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "model/batch.h"

/* host_row: the first row of the batch is taken; a batch without rows makes every field null. A line feed ends the text. */
void infp_static_json(struct infp_str *out, const char *uuid, const struct infp_batch *host_row);

/* The GPUs in static_<uuid>.json: {"nvidia": {"gDriverVersion", "gCudaVersion", "gpus": [{"gName", "gUuid", "gTotalMemoryMb",
 * "gPciBusId", "gMaxGraphicsClock", "gMaxSmClock", "gMaxMemClock"}, ...]}}, and likewise "amdgpu" and "intel", without versions.
 * They become known one after the other, from the first row of each; a maker without GPUs is not there. */
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
