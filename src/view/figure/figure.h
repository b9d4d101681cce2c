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

/* At most `most` parts of `least` pixels each. */
unsigned infp_figure_parts(double pixels, double least, unsigned most);
/* A round step of 1, 2 or 5 times a power of ten (of two, of bytes) that makes about n parts of the extent. */
double infp_figure_step(double extent, unsigned n, bool is_bytes);

struct infp_figure_text {
        char text[64];
};
struct infp_figure_text infp_figure_value(const struct infp_figure *figure, const struct infp_figure_series *series,
                                          double v);
/* For an axis: with enough digits to differ from the next tick. */
struct infp_figure_text infp_figure_tick(const struct infp_figure *figure, const struct infp_figure_series *series,
                                         double v, double step);
/* Added to the name: ", rate" and the like, or "". */
const char *infp_figure_how(const struct infp_figure *figure, const struct infp_figure_series *series);
