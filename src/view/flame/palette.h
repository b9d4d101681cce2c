/* Colours of flame graphs. A frame's colour is its class (what it is) and its shade (by its names), so that a function keeps its
 * colour in every picture of every run. Light and dark: text of the other kind upon them has a contrast of at least 4.5. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/profile/flame.h"
#include "view/flame/look.h"

enum {
        INFP_FLAME_GUESSED = INFP_FRAME_KINDS, /* a class beside those of enum infp_frame_kind */
        INFP_FLAME_CLASSES,
        INFP_FLAME_SHADES = 12,
        INFP_FLAME_STEPS = 5, /* of change, each way */
        INFP_FLAME_HEATS = 5,
};

const char *infp_flame_class_name(unsigned class); /* as a legend has it: "C++ runtime" */
unsigned infp_flame_class(const struct infp_flame_function *function);
unsigned infp_flame_shade(const struct infp_flame_function *function);

uint32_t infp_flame_colour(enum infp_flame_theme theme, unsigned class, unsigned shade, bool is_dark); /* 0xRRGGBB */
/* Theme heat: the shade of a function by its self time in percent of all, 0 the hottest; it has more than infp_flame_heat_above percent. */
unsigned infp_flame_heat(double percent);
double infp_flame_heat_above(unsigned heat);
/* Of a difference: -INFP_FLAME_STEPS (much less, blue) to INFP_FLAME_STEPS (much more, red); 0: no significant change. */
uint32_t infp_flame_change_colour(int step, bool is_dark);
/* The step of k of n samples against `before_k` of `before_n`: 0 when chance alone may have made it (95 %). Scaled: shares are
 * compared, else numbers. */
int infp_flame_change_step(uint64_t k, uint64_t n, uint64_t before_k, uint64_t before_n, bool is_normalised);
