/* What the files flame_svg*.c share. */
#pragma once

#include "analyze/profile/flame.h"
#include "base/str.h"
#include "view/flame/look.h"
#include "view/flame/palette.h"

enum { INFP_FLAME_COLOURS = INFP_FLAME_CLASSES * INFP_FLAME_SHADES };

struct infp_flame_frames {
        struct infp_str text; /* elements; y from 0 down */
        unsigned rows;
        uint32_t n_drawn, n_left_out; /* left out: too narrow */
        uint64_t gone_samples;        /* of a difference: of frames that only the older run has */
        bool is_used[INFP_FLAME_COLOURS];
        double unit_least; /* narrower ones are left out */
};

/* 0 or -ENOMEM. Rows go down from the root, or up when it is below. */
int infp_flame_svg_frames(const struct infp_flame *flame, const struct infp_flame_look *look, double width,
                          struct infp_flame_frames *ret);
void infp_flame_frames_done(struct infp_flame_frames *frames);

/* infp_markup_text of one line. */
void infp_flame_svg_text(struct infp_str *out, const char *text, size_t most);
