#include "view/figure/figure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "base/sort.h"

enum { LEFT = 84, RIGHT = 24, HEAD = 64, BELOW = 40, LEGEND = 22 };

struct frame {
        double left, top, width, height; /* of the drawing area, without axes */
        double x0, x1, y0, y1;           /* values at its edges */
};

static double frame_x(const struct frame *frame, double x)
{
        return frame->left + (x - frame->x0) / (frame->x1 - frame->x0) * frame->width;
}

static double frame_y(const struct frame *frame, double y)
{
        return frame->top + frame->height - (y - frame->y0) / (frame->y1 - frame->y0) * frame->height;
}

unsigned infp_figure_parts(double pixels, double least, unsigned most)
{
        return (unsigned) fmax(1, fmin(most, pixels / least));
}

static const double em_share = 0.58; /* of a letter, on average */

static double put_text_to(struct infp_canvas *canvas, double x, double right, double y, double size, unsigned ink,
                          const char *text)
{
        infp_autostr struct infp_str tame = { 0 }, cut = { 0 };
        const unsigned columns = (unsigned) fmax(1, (right - x) / (size * em_share));

        infp_text_tame(&tame, text, strlen(text));
        if (tame.data && infp_text_width(tame.data, tame.size) > columns) {
                infp_str_put(&cut, tame.data, infp_text_fit(tame.data, tame.size, columns - 1, NULL));
                infp_str_puts(&cut, "…");
        }
        text = cut.data ? cut.data : tame.data;
        canvas->kind->text(canvas, x, y, size, INFP_ANCHOR_START, ink, text ? text : "");
        return x + (text ? infp_text_width(text, strlen(text)) : 0) * size * em_share;
}

static void put_line_of_text(struct infp_canvas *canvas, double x, double y, double size, unsigned ink,
                             const char *text)
{
        put_text_to(canvas, x, canvas->width - 8, y, size, ink, text);
}

double infp_figure_step(double extent, unsigned n, bool is_bytes)
{
        double scale = 1, step, power;

        if (!(extent > 0))
                return 1;
        for (double left = extent; is_bytes && left >= 1024; left /= 1024)
                scale *= 1024;
        step = extent / scale / n;
        power = pow(10, floor(log10(step)));
        step /= power;
        step = (step <= 1 ? 1 : step <= 2 ? 2 : step <= 5 ? 5 : 10) * power * scale;
        return is_bytes ? fmax(1, step) : step; /* bytes have no fractions */
}

static bool is_rate(const struct infp_figure *figure, const struct infp_figure_series *series)
{
        return figure->mode == INFP_FIGURE_RATE && series->kind == INFP_COUNTER;
}

const char *infp_figure_how(const struct infp_figure *figure, const struct infp_figure_series *series)
{
        return figure->mode == INFP_FIGURE_DELTA ? ", difference of two samples"
               : is_rate(figure, series)         ? ", rate"
               : series->is_mean                 ? ", mean of each interval"
                                                 : "";
}

struct infp_figure_text infp_figure_value(const struct infp_figure *figure, const struct infp_figure_series *series,
                                          double v)
{
        infp_autostr struct infp_str text = { 0 };
        struct infp_figure_text ret = { "" };

        infp_human_value(&text, v, series->base, series->unit, is_rate(figure, series));
        snprintf(ret.text, sizeof(ret.text), "%s", text.data ? text.data : "");
        return ret;
}

/* The number at the beginning of a text for people, and what stands after it. */
static double read_back(const char *text, const char **ret_unit)
{
        char plain[32];
        size_t n = 0;

        /* bound: infp_human's texts are no longer */
        for (; n + 1 < sizeof(plain) && *text && strchr("-0123456789.,", *text); text++)
                if (*text != ',')
                        plain[n++] = *text;
        plain[n] = 0;
        *ret_unit = text;
        return strtod(plain, NULL);
}

struct infp_figure_text infp_figure_tick(const struct infp_figure *figure, const struct infp_figure_series *series,
                                         double v, double step)
{
        struct infp_figure_text ret = infp_figure_value(figure, series, v), fine = { "" };
        const char *unit;
        const double shown = read_back(ret.text, &unit), base = strcmp(series->base, "bytes") ? 10 : 1024;
        double scale;

        if (shown == 0 || strpbrk(unit, "0123456789") ||
            (strcmp(ret.text, infp_figure_value(figure, series, v - step).text) &&
             strcmp(ret.text, infp_figure_value(figure, series, v + step).text)))
                return ret;
        scale = pow(base, round(log(v / shown) / log(base)));
        snprintf(fine.text, sizeof(fine.text), "%s%.30s",
                 infp_fixed(v / scale, (int) fmin(6, fmax(0, ceil(-log10(step / scale) - 1e-9)))).text, unit);
        return fine;
}

/* Metrics over time. With more samples than pixels, each pixel shows the minimum, maximum and mean of its samples: a spike of
 * one sample is never lost. */
enum { Y_PARTS = 5, X_PARTS = 8, MARK_APART = 3, MARK_LEAST = 40, MARK_MOST = 180 }; /* MARK_: pixels */

static bool is_share(const struct infp_figure *figure, const struct infp_figure_series *series)
{
        return !strcmp(series->unit, "%") || (!strcmp(series->base, "seconds") && is_rate(figure, series));
}

static void find_extent(const struct infp_figure *figure, const unsigned *members, unsigned n, struct frame *frame)
{
        const char *base = figure->list[members[0]].base;
        double low = INFINITY, high = -INFINITY, step;

        for (unsigned k = 0; k < n; k++)
                for (size_t i = 0; i < figure->list[members[k]].n; i++) {
                        low = fmin(low, figure->list[members[k]].points[i].value);
                        high = fmax(high, figure->list[members[k]].points[i].value);
                }
        /* From 0, unless the curve would then be a flat line far above it. Shares always start at 0. */
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
                      const struct infp_figure_series *series, const struct frame *f)
{
        const double y_step = infp_figure_step(f->y1 - f->y0, Y_PARTS, !strcmp(series->base, "bytes"));
        const double x_step = infp_figure_step(f->x1 - f->x0, infp_figure_parts(f->width, 70, X_PARTS), false);

        const double y_first = ceil(f->y0 / y_step - 1e-9) * y_step; /* 0 is a tick if it is visible */

        for (unsigned i = 0; i <= 2 * Y_PARTS && y_first + i * y_step <= f->y1 + y_step / 1e6; i++) {
                const double v = y_first + i * y_step, y = frame_y(f, v);

                canvas->kind->line(canvas, (double[]){ f->left, y, f->left + f->width, y }, 2, INFP_INK_GRID, 1, false);
                canvas->kind->text(canvas, f->left - 8, y + 4, 11, INFP_ANCHOR_END, INFP_INK_SOFT,
                                   infp_figure_tick(figure, series, fabs(v) < y_step / 1e6 ? 0 : v, y_step).text);
        }
        for (unsigned i = 0; i <= 2 * X_PARTS && i * x_step <= f->x1 + x_step / 1e6; i++) {
                infp_autostr struct infp_str text = { 0 };

                infp_human_seconds(&text, i * x_step);
                canvas->kind->text(canvas, frame_x(f, i * x_step), f->top + f->height + 18, 11, INFP_ANCHOR_MIDDLE,
                                   INFP_INK_SOFT, text.data ? text.data : "");
        }
}

static double seconds_of(const struct infp_figure *figure, uint64_t t_ns)
{
        return t_ns > figure->t0 ? (double) (t_ns - figure->t0) / 1e9 : 0;
}

static void draw_all(struct infp_canvas *canvas, const struct infp_figure *figure,
                     const struct infp_figure_series *series, const struct frame *f, unsigned ink, double *points)
{
        size_t n = 0;

        for (size_t i = 0; i < series->n; i++) {
                if (series->points[i].is_first && i) {
                        points[2 * n] = points[2 * n + 1] = NAN;
                        n++;
                }
                points[2 * n] = frame_x(f, seconds_of(figure, series->points[i].t_ns));
                points[2 * n + 1] = frame_y(f, series->points[i].value);
                n++;
        }
        canvas->kind->line(canvas, points, n, ink, 1.6, series->quality == INFP_ESTIMATED);
}

/* A stretch without gaps: means as a line, minimum to maximum as an area. */
static void draw_stretch(struct infp_canvas *canvas, const struct infp_figure *figure,
                         const struct infp_figure_series *series, const struct frame *f, unsigned ink, size_t from,
                         size_t to, double *points)
{
        const size_t most = (size_t) f->width + 2;
        double *lows = points + 2 * most, *highs = lows + 2 * most;
        size_t n = 0;

        for (size_t i = from; i < to;) {
                const double x = floor(frame_x(f, seconds_of(figure, series->points[i].t_ns)));
                double low = INFINITY, high = -INFINITY, sum = 0, weight = 0;
                size_t k = i;

                for (; k < to && frame_x(f, seconds_of(figure, series->points[k].t_ns)) < x + 1; k++) {
                        low = fmin(low, series->points[k].value);
                        high = fmax(high, series->points[k].value);
                        sum += series->points[k].value * series->points[k].weight;
                        weight += series->points[k].weight;
                }
                if (n == most)
                        break;
                points[2 * n] = lows[2 * n] = highs[2 * n] = x + 0.5;
                points[2 * n + 1] = frame_y(f, sum / weight);
                lows[2 * n + 1] = frame_y(f, low);
                highs[2 * n + 1] = frame_y(f, high);
                n++;
                i = k;
        }
        for (size_t i = 0; i < n; i++) { /* along the maxima and back along the minima */
                highs[2 * (n + i)] = lows[2 * (n - 1 - i)];
                highs[2 * (n + i) + 1] = lows[2 * (n - 1 - i) + 1];
        }
        canvas->kind->area(canvas, highs, 2 * n, ink);
        canvas->kind->line(canvas, points, n, ink, 1.4, series->quality == INFP_ESTIMATED);
}

static void draw_series(struct infp_canvas *canvas, const struct infp_figure *figure,
                        const struct infp_figure_series *series, const struct frame *f, unsigned ink)
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
        canvas->kind->line(canvas, (double[]){ LEFT, y - 4, LEFT + 18, y - 4 }, 2, ink, 3,
                           series->quality == INFP_ESTIMATED);
        put_line_of_text(canvas, LEFT + 26, y, 12, INFP_INK_TEXT, text);
}

/* A line per mark where they do not overlap, with its tag where there is room: after it, at the right edge before it. */
static void draw_marks(struct infp_canvas *canvas, const struct infp_figure *figure, const struct frame *f)
{
        double last = -INFINITY, free_from = -INFINITY;

        for (unsigned i = 0; i < figure->marks.n; i++) {
                const struct infp_label_mark *mark = &figure->marks.list[i];
                const double x = frame_x(f, seconds_of(figure, mark->t_ns)), end = f->left + f->width;
                const double before =
                        x - 4 - fmin(MARK_MOST, infp_text_width(mark->tag, strlen(mark->tag)) * 10 * em_share);

                if (x - last < MARK_APART)
                        continue;
                last = x;
                canvas->kind->line(canvas, (double[]){ x, f->top, x, f->top + f->height }, 2, INFP_INK_SOFT, 1, true);
                if (x >= free_from && x + MARK_LEAST <= end)
                        free_from = put_text_to(canvas, x + 3, fmin(end, x + MARK_MOST), f->top + 10, 10, INFP_INK_SOFT,
                                                mark->tag) +
                                    6;
                else if (x + MARK_LEAST > end && before >= fmax(free_from, f->left))
                        put_text_to(canvas, before, x - 3, f->top + 10, 10, INFP_INK_SOFT, mark->tag);
        }
}

static void draw_lines(struct infp_canvas *canvas, const struct infp_figure *figure, const unsigned *members,
                       unsigned n, double top, double height)
{
        const double legend = n * LEGEND;
        struct frame frame = { .left = LEFT,
                               .top = top + legend + 8,
                               .width = canvas->width - LEFT - RIGHT,
                               .x1 = seconds_of(figure, figure->t1) };

        frame.height = height - legend - 8 - BELOW;
        if (!(frame.x1 > 0))
                frame.x1 = 1;
        find_extent(figure, members, n, &frame);
        draw_axes(canvas, figure, &figure->list[members[0]], &frame);
        draw_marks(canvas, figure, &frame);
        for (unsigned k = 0; k < n; k++) {
                const unsigned ink = INFP_INK_SERIES + (members[0] + k) % INFP_INKS_SERIES;

                draw_legend(canvas, figure, &figure->list[members[k]], top + (k + 1) * LEGEND - 6, ink);
                draw_series(canvas, figure, &figure->list[members[k]], &frame, ink);
        }
}

/* A histogram of a metric's values: one count per sample. */
enum { MOST_BINS = 60, FEWEST_BINS = 8, COUNT_PARTS = 4 };

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

static void draw_histogram_axes(struct infp_canvas *canvas, const struct infp_figure *figure,
                                const struct infp_figure_series *series, const struct frame *f)
{
        const double y_step = fmax(1, infp_figure_step(f->y1, COUNT_PARTS, false));
        const double x_step = infp_figure_step(f->x1 - f->x0, infp_figure_parts(f->width, 90, X_PARTS),
                                               !strcmp(series->base, "bytes"));

        for (double v = 0; v <= f->y1; v += y_step) {
                char count[32];

                snprintf(count, sizeof(count), "%.0f", v);
                canvas->kind->line(canvas, (double[]){ f->left, frame_y(f, v), f->left + f->width, frame_y(f, v) }, 2,
                                   INFP_INK_GRID, 1, false);
                canvas->kind->text(canvas, f->left - 8, frame_y(f, v) + 4, 11, INFP_ANCHOR_END, INFP_INK_SOFT, count);
        }
        for (double i = ceil(f->x0 / x_step); i * x_step <= f->x1; i++)
                canvas->kind->text(canvas, frame_x(f, i * x_step), f->top + f->height + 18, 11, INFP_ANCHOR_MIDDLE,
                                   INFP_INK_SOFT, infp_figure_tick(figure, series, i * x_step, x_step).text);
}

static void draw_histogram_legend(struct infp_canvas *canvas, const struct infp_figure *figure,
                                  const struct infp_figure_series *series, const double *sorted, double y)
{
        static const double shown[] = { 0.5, 0.95, 0.99 };
        char text[512];
        int used = snprintf(text, sizeof(text), "%s%s: %zu samples", series->name, infp_figure_how(figure, series),
                            series->n);

        for (unsigned i = 0; i < INFP_COUNT(shown) && used > 0 && (size_t) used < sizeof(text); i++)
                used += snprintf(text + used, sizeof(text) - (size_t) used, ", p%.0f %s", 100 * shown[i],
                                 infp_figure_value(figure, series, quantile(sorted, series->n, shown[i])).text);
        put_line_of_text(canvas, LEFT, y, 12, INFP_INK_TEXT, text);
}

static int draw_histogram(struct infp_canvas *canvas, const struct infp_figure *figure, unsigned member, double top,
                          double height)
{
        const struct infp_figure_series *series = &figure->list[member];
        infp_autofree double *sorted = malloc(series->n * sizeof(*sorted));
        struct frame frame = { .left = LEFT,
                               .top = top + LEGEND + 8,
                               .width = canvas->width - LEFT - RIGHT,
                               .height = height - LEGEND - 8 - BELOW };
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
        draw_histogram_axes(canvas, figure, series, &frame);
        for (unsigned i = 0; i < bins; i++)
                if (counts[i])
                        canvas->kind->box(canvas, frame.left + i * frame.width / bins + 0.5,
                                          frame_y(&frame, (double) counts[i]), frame.width / bins - 1,
                                          frame.top + frame.height - frame_y(&frame, (double) counts[i]),
                                          INFP_INK_SERIES + member % INFP_INKS_SERIES);
        draw_histogram_legend(canvas, figure, series, sorted, top + LEGEND - 6);
        return 0;
}

/* Series that share an axis: the same base unit, and both rates or neither. */
static unsigned group(const struct infp_figure *figure, bool is_histogram, unsigned *members, bool *taken)
{
        unsigned n = 0, first = 0;

        while (first < figure->n && taken[first])
                first++;
        for (unsigned i = first; i < figure->n; i++) {
                const bool is_like = !strcmp(figure->list[i].base, figure->list[first].base) &&
                                     is_rate(figure, &figure->list[i]) == is_rate(figure, &figure->list[first]);

                if (taken[i] || (i != first && (is_histogram || !is_like)))
                        continue;
                taken[i] = true;
                members[n++] = i;
        }
        return n;
}

/* The drawing area keeps its height, however many series there are. */
static double panel_height(const struct infp_figure_look *look, unsigned n)
{
        return look->height + (look->is_histogram ? 0 : (n - 1) * LEGEND);
}

static double whole_height(const struct infp_figure *figure, const struct infp_figure_look *look)
{
        bool taken[INFP_FIGURE_SERIES] = { 0 };
        unsigned members[INFP_FIGURE_SERIES], n;
        double height = HEAD;

        while ((n = group(figure, look->is_histogram, members, taken)))
                height += panel_height(look, n);
        return height;
}

static void name_all(const struct infp_figure *figure, struct infp_str *out)
{
        for (unsigned i = 0; i < figure->n; i++) {
                infp_str_puts(out, i ? ", " : "");
                infp_str_puts(out, figure->list[i].name);
        }
}

static int draw(struct infp_canvas *canvas, const struct infp_figure *figure, const struct infp_figure_look *look,
                const char *title, struct infp_err *err)
{
        bool taken[INFP_FIGURE_SERIES] = { 0 };
        unsigned members[INFP_FIGURE_SERIES], n;
        double top = HEAD;

        canvas->kind->box(canvas, 0, 0, canvas->width, canvas->height, INFP_INK_PAPER);
        put_line_of_text(canvas, 20, 28, 17, INFP_INK_TEXT, title);
        put_line_of_text(canvas, 20, 48, 12, INFP_INK_SOFT, look->about);
        for (; (n = group(figure, look->is_histogram, members, taken)); top += panel_height(look, n))
                if (!look->is_histogram)
                        draw_lines(canvas, figure, members, n, top, panel_height(look, n));
                else if (draw_histogram(canvas, figure, members[0], top, look->height) < 0)
                        return infp_fail(err, -ENOMEM, "no memory for the histogram of %s",
                                         figure->list[members[0]].name);
        return 0;
}

int infp_figure_draw(struct infp_out *out, const struct infp_figure *figure, const struct infp_figure_look *look,
                     const struct infp_canvas_kind *kind, struct infp_err *err)
{
        struct infp_canvas canvas = {
                .kind = kind, .out = out, .width = look->width, .height = whole_height(figure, look)
        };
        infp_autostr struct infp_str names = { 0 };
        const char *title;
        int r, ended;

        name_all(figure, &names);
        title = look->title ? look->title : names.data ? names.data : "";
        r = kind->begin(&canvas, title, look->about, err);
        if (r >= 0)
                r = draw(&canvas, figure, look, title, err);
        ended = kind->end(&canvas, r < 0 ? NULL : err);
        return r < 0 ? r : ended;
}
