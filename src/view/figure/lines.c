/* Metrics over time. Where there are more samples than pixels, each pixel shows the least, the largest and the mean of its own: a
 * spike of one sample is never lost. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/figure/parts.h"

enum { Y_PARTS = 5, X_PARTS = 8, MARK_APART = 3, MARK_LEAST = 40, MARK_MOST = 180 }; /* MARK_: pixels */

static bool is_share(const struct infp_figure *figure, const struct infp_figure_series *series)
{
        return !strcmp(series->unit, "%") || (!strcmp(series->base, "seconds") && infp_figure_is_rate(figure, series));
}

static void find_extent(const struct infp_figure *figure, const unsigned *members, unsigned n, struct infp_frame *frame)
{
        const char *base = figure->list[members[0]].base;
        double low = INFINITY, high = -INFINITY, step;

        for (unsigned k = 0; k < n; k++)
                for (size_t i = 0; i < figure->list[members[k]].n; i++) {
                        low = fmin(low, figure->list[members[k]].points[i].value);
                        high = fmax(high, figure->list[members[k]].points[i].value);
                }
        /* From 0, unless what is to be seen would then be a flat line far above it. A share is part of a whole. */
        if (low >= 0 && (low < 0.6 * high || is_share(figure, &figure->list[members[0]])))
                low = 0;
        if (!(high > low)) {
                high = low + (low != 0 ? fabs(low) * 0.1 : 1);
                low = low > 0 ? fmax(0, low - (high - low)) : low;
        }
        step = infp_figure_step(high - low, Y_PARTS, !strcmp(base, "bytes"));
        frame->y0 = floor(low / step) * step;
        frame->y1 = ceil(high / step * (1 - 1e-12)) * step;
        if (!(frame->y1 > frame->y0))
                frame->y1 = frame->y0 + step;
}

static void draw_axes(struct infp_canvas *canvas, const struct infp_figure *figure,
                      const struct infp_figure_series *series, const struct infp_frame *f)
{
        const double y_step = infp_figure_step(f->y1 - f->y0, Y_PARTS, !strcmp(series->base, "bytes"));
        const double x_step = infp_figure_step(f->x1 - f->x0, infp_figure_parts(f->width, 70, X_PARTS), false);

        const double y_first = ceil(f->y0 / y_step - 1e-9) * y_step; /* 0 is among them, if it is in sight */

        for (unsigned i = 0; i <= 2 * Y_PARTS && y_first + i * y_step <= f->y1 + y_step / 1e6; i++) {
                const double v = y_first + i * y_step, y = infp_frame_y(f, v);

                canvas->kind->line(canvas, (double[]){ f->left, y, f->left + f->width, y }, 2, INFP_INK_GRID, 1, false);
                canvas->kind->text(canvas, f->left - 8, y + 4, 11, INFP_ANCHOR_END, INFP_INK_SOFT,
                                   infp_figure_tick(figure, series, fabs(v) < y_step / 1e6 ? 0 : v, y_step).text);
        }
        for (unsigned i = 0; i <= 2 * X_PARTS && i * x_step <= f->x1 + x_step / 1e6; i++) {
                infp_autostr struct infp_str text = { 0 };

                infp_human_seconds(&text, i * x_step);
                canvas->kind->text(canvas, infp_frame_x(f, i * x_step), f->top + f->height + 18, 11, INFP_ANCHOR_MIDDLE,
                                   INFP_INK_SOFT, text.data ? text.data : "");
        }
}

static double seconds_of(const struct infp_figure *figure, uint64_t t_ns)
{
        return t_ns > figure->t0 ? (double) (t_ns - figure->t0) / 1e9 : 0;
}

static void draw_all(struct infp_canvas *canvas, const struct infp_figure *figure,
                     const struct infp_figure_series *series, const struct infp_frame *f, unsigned ink, double *points)
{
        size_t n = 0;

        for (size_t i = 0; i < series->n; i++) {
                if (series->points[i].is_first && i) {
                        points[2 * n] = points[2 * n + 1] = NAN;
                        n++;
                }
                points[2 * n] = infp_frame_x(f, seconds_of(figure, series->points[i].t_ns));
                points[2 * n + 1] = infp_frame_y(f, series->points[i].value);
                n++;
        }
        canvas->kind->line(canvas, points, n, ink, 1.6, series->quality == INFP_ESTIMATED);
}

/* A stretch without gaps: means as a line, least and largest as an area around it. */
static void draw_stretch(struct infp_canvas *canvas, const struct infp_figure *figure,
                         const struct infp_figure_series *series, const struct infp_frame *f, unsigned ink, size_t from,
                         size_t to, double *points)
{
        const size_t most = (size_t) f->width + 2;
        double *lows = points + 2 * most, *highs = lows + 2 * most;
        size_t n = 0;

        for (size_t i = from; i < to;) {
                const double x = floor(infp_frame_x(f, seconds_of(figure, series->points[i].t_ns)));
                double low = INFINITY, high = -INFINITY, sum = 0, weight = 0;
                size_t k = i;

                for (; k < to && infp_frame_x(f, seconds_of(figure, series->points[k].t_ns)) < x + 1; k++) {
                        low = fmin(low, series->points[k].value);
                        high = fmax(high, series->points[k].value);
                        sum += series->points[k].value * series->points[k].weight;
                        weight += series->points[k].weight;
                }
                if (n == most)
                        break;
                points[2 * n] = lows[2 * n] = highs[2 * n] = x + 0.5;
                points[2 * n + 1] = infp_frame_y(f, sum / weight);
                lows[2 * n + 1] = infp_frame_y(f, low);
                highs[2 * n + 1] = infp_frame_y(f, high);
                n++;
                i = k;
        }
        for (size_t i = 0; i < n; i++) { /* along the largest and back along the least */
                highs[2 * (n + i)] = lows[2 * (n - 1 - i)];
                highs[2 * (n + i) + 1] = lows[2 * (n - 1 - i) + 1];
        }
        canvas->kind->area(canvas, highs, 2 * n, ink);
        canvas->kind->line(canvas, points, n, ink, 1.4, series->quality == INFP_ESTIMATED);
}

static void draw_series(struct infp_canvas *canvas, const struct infp_figure *figure,
                        const struct infp_figure_series *series, const struct infp_frame *f, unsigned ink)
{
        const size_t most = (size_t) f->width + 2;
        const bool is_dense = series->n > 2 * most;
        infp_autofree double *points = malloc((is_dense ? 8 * most : 4 * (series->n + 1)) * sizeof(*points));

        if (!points)
                return;
        if (!is_dense) {
                draw_all(canvas, figure, series, f, ink, points);
                return;
        }
        for (size_t from = 0, to; from < series->n; from = to) {
                for (to = from + 1; to < series->n && !series->points[to].is_first; to++)
                        ;
                draw_stretch(canvas, figure, series, f, ink, from, to, points);
        }
}

static void draw_legend(struct infp_canvas *canvas, const struct infp_figure *figure,
                        const struct infp_figure_series *series, double y, unsigned ink)
{
        double low = INFINITY, high = -INFINITY;
        char text[512];

        for (size_t i = 0; i < series->n; i++) {
                low = fmin(low, series->points[i].value);
                high = fmax(high, series->points[i].value);
        }
        snprintf(text, sizeof(text), "%s%s%s: min %s, mean %s, max %s%s", series->name, infp_figure_how(figure, series),
                 series->quality == INFP_ESTIMATED ? " (estimated)" : "", infp_figure_value(figure, series, low).text,
                 infp_figure_value(figure, series, infp_figure_mean(series)).text,
                 infp_figure_value(figure, series, high).text,
                 series->left_out ? "; the rest of the range is left out, it has too many samples" : "");
        canvas->kind->line(canvas, (double[]){ INFP_FIGURE_LEFT, y - 4, INFP_FIGURE_LEFT + 18, y - 4 }, 2, ink, 3,
                           series->quality == INFP_ESTIMATED);
        infp_figure_line_of_text(canvas, INFP_FIGURE_LEFT + 26, y, 12, INFP_INK_TEXT, text);
}

/* A line each, as far as they can be told apart, with the tag where there is room for one. */
static void draw_marks(struct infp_canvas *canvas, const struct infp_figure *figure, const struct infp_frame *f)
{
        double last = -INFINITY, free_from = -INFINITY;

        for (unsigned i = 0; i < figure->marks.n; i++) {
                const struct infp_label_mark *mark = &figure->marks.list[i];
                const double x = infp_frame_x(f, seconds_of(figure, mark->t_ns)), end = f->left + f->width;

                if (x - last < MARK_APART)
                        continue;
                last = x;
                canvas->kind->line(canvas, (double[]){ x, f->top, x, f->top + f->height }, 2, INFP_INK_SOFT, 1, true);
                if (x >= free_from && x + MARK_LEAST <= end)
                        free_from = infp_figure_text_to(canvas, x + 3, fmin(end, x + MARK_MOST), f->top + 10, 10,
                                                        INFP_INK_SOFT, mark->tag) +
                                    6;
        }
}

void infp_figure_lines(struct infp_canvas *canvas, const struct infp_figure *figure, const unsigned *members,
                       unsigned n, double top, double height)
{
        const double legend = n * INFP_FIGURE_LEGEND;
        struct infp_frame frame = { .left = INFP_FIGURE_LEFT,
                                    .top = top + legend + 8,
                                    .width = canvas->width - INFP_FIGURE_LEFT - INFP_FIGURE_RIGHT,
                                    .x1 = seconds_of(figure, figure->t1) };

        frame.height = height - legend - 8 - INFP_FIGURE_BELOW;
        if (!(frame.x1 > 0))
                frame.x1 = 1;
        find_extent(figure, members, n, &frame);
        draw_axes(canvas, figure, &figure->list[members[0]], &frame);
        draw_marks(canvas, figure, &frame);
        for (unsigned k = 0; k < n; k++) {
                const unsigned ink = INFP_INK_SERIES + (members[0] + k) % INFP_INKS_SERIES;

                draw_legend(canvas, figure, &figure->list[members[k]], top + (k + 1) * INFP_FIGURE_LEGEND - 6, ink);
                draw_series(canvas, figure, &figure->list[members[k]], &frame, ink);
        }
}
