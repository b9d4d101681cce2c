/* What the files figure*.c share: a panel's place, its axes, how values are told. */
#pragma once

#include "view/figure/figure.h"

struct infp_frame {
        double left, top, width, height; /* of what is drawn in, without axes */
        double x0, x1, y0, y1;           /* values at its edges */
};
double infp_frame_x(const struct infp_frame *frame, double x);
double infp_frame_y(const struct infp_frame *frame, double y);

/* At most `most` parts of `least` pixels each. */
unsigned infp_figure_parts(double pixels, double least, unsigned most);
/* A round step of 1, 2 or 5 times a power of ten (of two, of bytes) that makes about n parts of the extent. */
double infp_figure_step(double extent, unsigned n, bool is_bytes);

struct infp_figure_text {
        char text[64];
};
struct infp_figure_text infp_figure_value(const struct infp_figure *figure, const struct infp_figure_series *series,
                                          double v);
/* Of an axis: with as many digits as tell it from the next. */
struct infp_figure_text infp_figure_tick(const struct infp_figure *figure, const struct infp_figure_series *series,
                                         double v, double step);
bool infp_figure_is_rate(const struct infp_figure *figure, const struct infp_figure_series *series);
/* What is told after the name: ", rate" and the like, or "". */
const char *infp_figure_how(const struct infp_figure *figure, const struct infp_figure_series *series);

/* From x on, cut short with an ellipsis where it would pass `right`. Returns where it ends. */
double infp_figure_text_to(struct infp_canvas *canvas, double x, double right, double y, double size, unsigned ink,
                           const char *text);
/* The same up to the end of the picture. */
void infp_figure_line_of_text(struct infp_canvas *canvas, double x, double y, double size, unsigned ink,
                              const char *text);

void infp_figure_lines(struct infp_canvas *canvas, const struct infp_figure *figure, const unsigned *members,
                       unsigned n, double top, double height);
/* -ENOMEM */
int infp_figure_histogram(struct infp_canvas *canvas, const struct infp_figure *figure, unsigned member, double top,
                          double height);

enum {
        INFP_FIGURE_LEFT = 84,
        INFP_FIGURE_RIGHT = 24,
        INFP_FIGURE_HEAD = 64,
        INFP_FIGURE_BELOW = 40,
        INFP_FIGURE_LEGEND = 22
};
