/* How often a metric had which value: one count a sample. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "view/figure/parts.h"

enum { MOST_BINS = 60, FEWEST_BINS = 8, Y_PARTS = 4, X_PARTS = 8 };

static int compare(const void *a, const void *b)
{
        const double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

/* Linear between the two closest ranks. */
static double quantile(const double *sorted, size_t n, double q)
{
        const double at = q * (double) (n - 1);
        const size_t low = (size_t) at;

        return low + 1 < n ? sorted[low] + (at - (double) low) * (sorted[low + 1] - sorted[low]) : sorted[n - 1];
}

static void draw_axes(struct infp_canvas *canvas, const struct infp_figure *figure,
                      const struct infp_figure_series *series, const struct infp_frame *f)
{
        const double y_step = fmax(1, infp_figure_step(f->y1, Y_PARTS, false));
        const double x_step = infp_figure_step(f->x1 - f->x0, infp_figure_parts(f->width, 90, X_PARTS),
                                               !strcmp(series->base, "bytes"));

        for (double v = 0; v <= f->y1; v += y_step) {
                char count[32];

                snprintf(count, sizeof(count), "%.0f", v);
                canvas->kind->line(canvas,
                                   (double[]){ f->left, infp_frame_y(f, v), f->left + f->width, infp_frame_y(f, v) }, 2,
                                   INFP_INK_GRID, 1, false);
                canvas->kind->text(canvas, f->left - 8, infp_frame_y(f, v) + 4, 11, INFP_ANCHOR_END, INFP_INK_SOFT,
                                   count);
        }
        for (double i = ceil(f->x0 / x_step); i * x_step <= f->x1; i++)
                canvas->kind->text(canvas, infp_frame_x(f, i * x_step), f->top + f->height + 18, 11, INFP_ANCHOR_MIDDLE,
                                   INFP_INK_SOFT, infp_figure_tick(figure, series, i * x_step, x_step).text);
}

static void draw_legend(struct infp_canvas *canvas, const struct infp_figure *figure,
                        const struct infp_figure_series *series, const double *sorted, double y)
{
        static const double shown[] = { 0.5, 0.95, 0.99 };
        char text[512];
        int used = snprintf(text, sizeof(text), "%s%s: %zu samples", series->name, infp_figure_how(figure, series),
                            series->n);

        for (unsigned i = 0; i < INFP_COUNT(shown) && used > 0 && (size_t) used < sizeof(text); i++)
                used += snprintf(text + used, sizeof(text) - (size_t) used, ", p%.0f %s", 100 * shown[i],
                                 infp_figure_value(figure, series, quantile(sorted, series->n, shown[i])).text);
        infp_figure_line_of_text(canvas, INFP_FIGURE_LEFT, y, 12, INFP_INK_TEXT, text);
}

int infp_figure_histogram(struct infp_canvas *canvas, const struct infp_figure *figure, unsigned member, double top,
                          double height)
{
        const struct infp_figure_series *series = &figure->list[member];
        infp_autofree double *sorted = malloc(series->n * sizeof(*sorted));
        struct infp_frame frame = { .left = INFP_FIGURE_LEFT,
                                    .top = top + INFP_FIGURE_LEGEND + 8,
                                    .width = canvas->width - INFP_FIGURE_LEFT - INFP_FIGURE_RIGHT,
                                    .height = height - INFP_FIGURE_LEGEND - 8 - INFP_FIGURE_BELOW };
        size_t counts[MOST_BINS] = { 0 }, most = 0;
        const unsigned bins = (unsigned) fmin(MOST_BINS, fmax(FEWEST_BINS, 2 * sqrt((double) series->n)));

        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < series->n; i++)
                sorted[i] = series->points[i].value;
        infp_sort(sorted, series->n, sizeof(*sorted), compare);
        frame.x0 = sorted[0];
        frame.x1 = sorted[series->n - 1];
        if (!(frame.x1 > frame.x0)) { /* one value */
                const double half = frame.x0 != 0 ? fabs(frame.x0) * 0.05 : 0.5;

                frame.x0 -= half;
                frame.x1 += half;
        }
        for (size_t i = 0; i < series->n; i++) {
                const double at = (sorted[i] - frame.x0) / (frame.x1 - frame.x0) * bins;
                const size_t bin = at >= bins ? bins - 1 : (size_t) at;

                counts[bin]++;
                most = counts[bin] > most ? counts[bin] : most;
        }
        frame.y1 = (double) most;
        draw_axes(canvas, figure, series, &frame);
        for (unsigned i = 0; i < bins; i++)
                if (counts[i])
                        canvas->kind->box(canvas, frame.left + i * frame.width / bins + 0.5,
                                          infp_frame_y(&frame, (double) counts[i]), frame.width / bins - 1,
                                          frame.top + frame.height - infp_frame_y(&frame, (double) counts[i]),
                                          INFP_INK_SERIES + member % INFP_INKS_SERIES);
        draw_legend(canvas, figure, series, sorted, top + INFP_FIGURE_LEGEND - 6);
        return 0;
}
