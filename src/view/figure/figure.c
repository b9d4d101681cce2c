#include "view/figure/figure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/figure/parts.h"

double infp_frame_x(const struct infp_frame *frame, double x)
{
        return frame->left + (x - frame->x0) / (frame->x1 - frame->x0) * frame->width;
}

double infp_frame_y(const struct infp_frame *frame, double y)
{
        return frame->top + frame->height - (y - frame->y0) / (frame->y1 - frame->y0) * frame->height;
}

unsigned infp_figure_parts(double pixels, double least, unsigned most)
{
        return (unsigned) fmax(1, fmin(most, pixels / least));
}

double infp_figure_text_to(struct infp_canvas *canvas, double x, double right, double y, double size, unsigned ink,
                           const char *text)
{
        infp_autostr struct infp_str tame = { 0 }, cut = { 0 };
        const double em_share = 0.58; /* of a letter, on average */
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

void infp_figure_line_of_text(struct infp_canvas *canvas, double x, double y, double size, unsigned ink,
                              const char *text)
{
        infp_figure_text_to(canvas, x, canvas->width - 8, y, size, ink, text);
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
        return is_bytes ? fmax(1, step) : step; /* there is no half a byte */
}

bool infp_figure_is_rate(const struct infp_figure *figure, const struct infp_figure_series *series)
{
        return figure->mode == INFP_FIGURE_RATE && series->kind == INFP_COUNTER;
}

const char *infp_figure_how(const struct infp_figure *figure, const struct infp_figure_series *series)
{
        return figure->mode == INFP_FIGURE_DELTA     ? ", difference of two samples"
               : infp_figure_is_rate(figure, series) ? ", rate"
               : series->is_mean                     ? ", mean of each interval"
                                                     : "";
}

struct infp_figure_text infp_figure_value(const struct infp_figure *figure, const struct infp_figure_series *series,
                                          double v)
{
        infp_autostr struct infp_str text = { 0 };
        struct infp_figure_text ret = { "" };

        infp_human_value(&text, v, series->base, series->unit, infp_figure_is_rate(figure, series));
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

/* Series that share an axis: the same base unit, and both rates or neither. */
static unsigned group(const struct infp_figure *figure, bool is_histogram, unsigned *members, bool *taken)
{
        unsigned n = 0, first = 0;

        while (first < figure->n && taken[first])
                first++;
        for (unsigned i = first; i < figure->n; i++) {
                const bool is_like = !strcmp(figure->list[i].base, figure->list[first].base) &&
                                     infp_figure_is_rate(figure, &figure->list[i]) ==
                                             infp_figure_is_rate(figure, &figure->list[first]);

                if (taken[i] || (i != first && (is_histogram || !is_like)))
                        continue;
                taken[i] = true;
                members[n++] = i;
        }
        return n;
}

/* What is drawn in keeps its height however many series there are. */
static double panel_height(const struct infp_figure_look *look, unsigned n)
{
        return look->height + (look->is_histogram ? 0 : (n - 1) * INFP_FIGURE_LEGEND);
}

static double whole_height(const struct infp_figure *figure, const struct infp_figure_look *look)
{
        bool taken[INFP_FIGURE_SERIES] = { 0 };
        unsigned members[INFP_FIGURE_SERIES], n;
        double height = INFP_FIGURE_HEAD;

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
        double top = INFP_FIGURE_HEAD;

        canvas->kind->box(canvas, 0, 0, canvas->width, canvas->height, INFP_INK_PAPER);
        infp_figure_line_of_text(canvas, 20, 28, 17, INFP_INK_TEXT, title);
        infp_figure_line_of_text(canvas, 20, 48, 12, INFP_INK_SOFT, look->about);
        for (; (n = group(figure, look->is_histogram, members, taken)); top += panel_height(look, n))
                if (!look->is_histogram)
                        infp_figure_lines(canvas, figure, members, n, top, panel_height(look, n));
                else if (infp_figure_histogram(canvas, figure, members[0], top, look->height) < 0)
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
