/* A flame graph's tree as few bytes of text: varint columns and prefix-coded names, deflated, in base 64. Layout: web/flame/README.md. */
#pragma once

#include "analyze/profile/flame.h"
#include "base/str.h"

/* Of a function: its kind (enum infp_frame_kind) and these. */
enum {
        INFP_FLAME_PACK_KIND = 15, /* the bits of the kind */
        INFP_FLAME_PACK_GUESSED = 16,
        INFP_FLAME_PACK_INLINED = 32,
        INFP_FLAME_PACK_UNNAMED = 64,
        INFP_FLAME_PACK_GROUP = 128,
};

struct infp_flame_packing {
        bool has_weights; /* else each sample weighs the same: weight / samples of the whole */
        bool has_waits;
        double step; /* of weights: a power of ten, at most 1e-7 of the whole */
        uint32_t n_strings;
};

/* Appends to `out`. 0 or a negative errno. */
int infp_flame_pack(struct infp_str *out, const struct infp_flame *flame, struct infp_flame_packing *ret,
                    struct infp_err *err);
