/* One figure of named metrics: over time, a panel a unit, or as histograms, a panel a metric. */
#pragma once

#include "analyze/figure.h"
#include "view/figure/canvas.h"

struct infp_figure_look {
        const char *title;    /* NULL: the metrics' names */
        const char *about;    /* of the run: below the title */
        double width, height; /* of one panel, pixels */
        bool is_histogram;
};

/* Into out, whole. 0 or a negative errno with the text. */
int infp_figure_draw(struct infp_out *out, const struct infp_figure *figure, const struct infp_figure_look *look,
                     const struct infp_canvas_kind *kind, struct infp_err *err);
