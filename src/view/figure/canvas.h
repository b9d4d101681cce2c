/* Drawing of a figure as SVG text, or as pixels by cairo. Coordinates are pixels from the top left. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "view/format.h"

/* Inks by meaning, not by value: an SVG follows the reader's dark scheme. */
enum infp_ink {
        INFP_INK_PAPER,
        INFP_INK_TEXT,
        INFP_INK_SOFT, /* secondary text */
        INFP_INK_GRID,
        INFP_INK_SERIES, /* + number of the series, modulo INFP_INKS_SERIES */
        INFP_INKS_SERIES = 8,
        INFP_INKS = INFP_INK_SERIES + INFP_INKS_SERIES,
};
extern const uint32_t infp_ink_light[INFP_INKS], infp_ink_dark[INFP_INKS]; /* 0xRRGGBB */

enum infp_text_anchor { INFP_ANCHOR_START, INFP_ANCHOR_MIDDLE, INFP_ANCHOR_END };

struct infp_canvas {
        const struct infp_canvas_kind *kind;
        struct infp_out *out;
        double width, height;
        void *state; /* of the kind */
};

struct infp_canvas_kind {
        const char *extension; /* "svg" */
        int (*begin)(struct infp_canvas *canvas, const char *title, const char *about, struct infp_err *err);
        /* Points come in pairs; a NAN lifts the pen. */
        void (*line)(struct infp_canvas *canvas, const double *points, size_t n, unsigned ink, double width,
                     bool is_dashed);
        /* Translucent: between the largest and the least of a bucket. */
        void (*area)(struct infp_canvas *canvas, const double *points, size_t n, unsigned ink);
        void (*box)(struct infp_canvas *canvas, double x, double y, double width, double height, unsigned ink);
        void (*text)(struct infp_canvas *canvas, double x, double y, double size, enum infp_text_anchor anchor,
                     unsigned ink, const char *text);
        int (*end)(struct infp_canvas *canvas, struct infp_err *err); /* also after a failure */
};

extern const struct infp_canvas_kind infp_canvas_svg;
extern const struct infp_canvas_kind infp_canvas_png; /* begin: -ENOENT where libcairo is missing, with the fix */
const struct infp_canvas_kind *infp_canvas_find(const char *extension);
