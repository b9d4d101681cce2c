/* Figures as SVG: text stays text, escaped; for light and dark; no script and no external resources. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view/figure/canvas.h"
#include "view/markup.h"

/* Tamed text is UTF-8 without control characters; of that XML forbids only U+FFFE and U+FFFF. */
static void put_escaped(struct infp_str *out, const char *text)
{
        infp_autostr struct infp_str tame = { 0 };

        infp_text_tame(&tame, text, strlen(text));
        for (const char *at = tame.data ? tame.data : ""; *at; at++)
                if (infp_markup_reference(*at))
                        infp_str_puts(out, infp_markup_reference(*at));
                else if (!strncmp(at, "\xef\xbf\xbe", 3) || !strncmp(at, "\xef\xbf\xbf", 3)) {
                        infp_str_puts(out, "\xef\xbf\xbd");
                        at += 2;
                } else
                        infp_str_putc(out, *at);
}

static void put_inks(struct infp_str *out, const uint32_t *inks)
{
        for (unsigned i = 0; i < INFP_INKS; i++)
                infp_str_printf(out, ".f%u{fill:#%06x}.s%u{stroke:#%06x}", i, inks[i], i, inks[i]);
}

static int begin(struct infp_canvas *canvas, const char *title, const char *about, struct infp_err *err)
{
        struct infp_str *out = &canvas->out->text;

        (void) err;
        infp_str_printf(
                out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
                "style=\"max-width:100%%;height:auto\" role=\"img\" aria-labelledby=\"infprof-title "
                "infprof-about\">\n<title id=\"infprof-title\">",
                canvas->width, canvas->height, canvas->width, canvas->height);
        put_escaped(out, title);
        infp_str_puts(out, "</title>\n<desc id=\"infprof-about\">");
        put_escaped(out, about);
        infp_str_puts(
                out, "</desc>\n<style>text{font-family:system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif;"
                     "font-variant-numeric:tabular-nums}.l{fill:none;stroke-linejoin:round}");
        put_inks(out, infp_ink_light);
        infp_str_puts(out, "@media(prefers-color-scheme:dark){");
        put_inks(out, infp_ink_dark);
        infp_str_puts(out, "}</style>\n");
        return 0;
}

static void put_points(struct infp_str *out, const double *points, size_t n)
{
        bool is_down = false;

        for (size_t i = 0; i < n; i++) {
                if (isnan(points[2 * i]) || isnan(points[2 * i + 1])) {
                        is_down = false;
                        continue;
                }
                infp_str_printf(out, "%c%.1f %.1f", is_down ? 'L' : 'M', points[2 * i], points[2 * i + 1]);
                /* A single point between two gaps is a dot: the line's round cap. */
                if (!is_down && (i + 1 == n || isnan(points[2 * i + 2])))
                        infp_str_puts(out, "h0");
                is_down = true;
        }
}

static void line(struct infp_canvas *canvas, const double *points, size_t n, unsigned ink, double width, bool is_dashed)
{
        struct infp_str *out = &canvas->out->text;

        infp_str_printf(out, "<path class=\"l s%u\" stroke-width=\"%.1f\" stroke-linecap=\"round\"%s d=\"", ink, width,
                        is_dashed ? " stroke-dasharray=\"6 4\"" : "");
        put_points(out, points, n);
        infp_str_puts(out, "\"/>\n");
        infp_out_drain(canvas->out);
}

static void area(struct infp_canvas *canvas, const double *points, size_t n, unsigned ink)
{
        struct infp_str *out = &canvas->out->text;

        infp_str_printf(out, "<path class=\"f%u\" fill-opacity=\".25\" d=\"", ink);
        put_points(out, points, n);
        infp_str_puts(out, "Z\"/>\n");
}

static void box(struct infp_canvas *canvas, double x, double y, double width, double height, unsigned ink)
{
        infp_str_printf(&canvas->out->text,
                        "<rect class=\"f%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", ink, x, y,
                        width, height);
}

static void text(struct infp_canvas *canvas, double x, double y, double size, enum infp_text_anchor anchor,
                 unsigned ink, const char *string)
{
        static const char *const anchors[] = { "start", "middle", "end" };
        struct infp_str *out = &canvas->out->text;

        infp_str_printf(out, "<text class=\"f%u\" x=\"%.1f\" y=\"%.1f\" font-size=\"%.0f\" text-anchor=\"%s\">", ink, x,
                        y, size, anchors[anchor]);
        put_escaped(out, string);
        infp_str_puts(out, "</text>\n");
}

static int end(struct infp_canvas *canvas, struct infp_err *err)
{
        (void) err;
        infp_str_puts(&canvas->out->text, "</svg>\n");
        return 0;
}

const struct infp_canvas_kind infp_canvas_svg = {
        .extension = "svg",
        .begin = begin,
        .line = line,
        .area = area,
        .box = box,
        .text = text,
        .end = end,
};
