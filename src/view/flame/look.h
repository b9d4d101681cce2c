/* How a flame graph looks, and the text above it: for html.h and svg.h. All zero is a good look. */
#pragma once

#include <stdbool.h>

enum infp_flame_theme {
        INFP_FLAME_BY_KIND, /* kernel, native, C++ runtime, Python, Go, JIT, unknown, each with its own hue */
        INFP_FLAME_HOT,
        INFP_FLAME_COLD,
        INFP_FLAME_RAINBOW,
        INFP_FLAME_MONO,
        INFP_FLAME_HEAT, /* by the self share of functions (infp_flame_heat) */
        INFP_FLAME_THEMES,
};
const char *infp_flame_theme_name(enum infp_flame_theme theme); /* "kind" "hot" "cold" "rainbow" "mono" "heat" */
int infp_flame_theme_by_name(const char *name);                 /* or -ENOENT */

struct infp_flame_look {
        const char *title;        /* NULL: by the mode, "CPU flame graph" */
        const char *subtitle;     /* what was recorded, in one line: command, pid, duration, rate; NULL: not known */
        const char *base;         /* of a difference: what the older run recorded, in one line; NULL: not known */
        const char *const *notes; /* further sentences on its accuracy, after those from the tree's own counters */
        unsigned n_notes;
        enum infp_flame_theme theme;
        double min_width_percent; /* frames with less than this share of all are not drawn at first; 0: all that are a pixel wide */
        bool has_root_below; /* a flame; else an icicle, which is read from the top */
        bool is_reversed;    /* the tree was read leaf first: parents are callees */
        bool is_normalised;  /* of a difference: the older run is scaled to as many samples as the newer has */
        bool has_no_script;  /* SVG: the picture alone */
        unsigned width;      /* SVG: of its coordinates, 0: 1200; it is shown as wide as there is room */
};
