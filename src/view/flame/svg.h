/* A flame graph as SVG that reads without script: rectangles with titles, as wide as there is room. Opened by itself it zooms and
 * searches. Frames that are narrower than look->min_width_percent, or half a unit, are not in it; it says how many. */
#pragma once

#include "analyze/profile/flame.h"
#include "base/str.h"
#include "view/flame/look.h"

/* Appends to `out`. 0 or a negative errno; -ENOMEM also when `out` failed. An empty tree is a picture with a sentence. */
int infp_flame_svg(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look,
                   struct infp_err *err);
