/* The picture around a flame graph's rectangles: title, legend, notes, style, script. */
#include "view/flame/svg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "view/flame/page.h"
#include "view/flame/svg_parts.h"
#include "view/flame/words.h"
#include "view/format.h"

enum { WIDTH = 1200, MARGIN = 10, ROW = 18, LINE = 16, LEAST_WIDTH = 300, MOST_WIDTH = 20000 };

struct sheet {
        const struct infp_flame *flame;
        const struct infp_flame_look *look;
        struct infp_flame_frames frames;
        double width; /* of all, with margins */
        double y;     /* how far down it is filled */
        struct infp_str text, style;
        char id[24]; /* of this picture among those of a page */
};

static void sheet_done(struct sheet *sheet)
{
        infp_flame_frames_done(&sheet->frames);
        infp_str_done(&sheet->text);
        infp_str_done(&sheet->style);
}

/* A line of small text, cut where the picture ends. */
static void put_line(struct sheet *sheet, const char *class, const char *text, double letter)
{
        const size_t size = strlen(text), some = size > 4000 ? 4000 : size;
        const size_t fits = infp_text_fit(text, some, (unsigned) ((sheet->width - 2 * MARGIN) / letter), NULL);

        if (!size)
                return;
        sheet->y += LINE;
        infp_str_printf(&sheet->text, "<text class=\"%s\" x=\"%d\" y=\"%.0f\">", class, MARGIN, sheet->y);
        infp_flame_svg_text(&sheet->text, text, fits);
        infp_str_puts(&sheet->text, "</text>\n");
}

static void put_heading(struct sheet *sheet)
{
        infp_autostr struct infp_str text = { 0 };

        infp_flame_title(&text, sheet->flame, sheet->look);
        sheet->y = 10;
        put_line(sheet, "title", text.data ? text.data : "", 9.5);
        infp_str_clear(&text);
        infp_flame_amount(&text, sheet->flame);
        sheet->y += 4;
        put_line(sheet, "soft", text.data ? text.data : "", 6.4);
        if (sheet->look->subtitle)
                put_line(sheet, "soft mono", sheet->look->subtitle, 6.7);
        infp_str_clear(&text);
        infp_flame_trust(&text, sheet->flame);
        put_line(sheet, "soft", text.data ? text.data : "", 6.4);
}

/* A swatch and its word; on the next line when there is no room. */
static void put_key(struct sheet *sheet, double *x, unsigned colour, const char *text)
{
        const double width = 24 + 7.3 * (double) strlen(text);

        if (*x + width > sheet->width - MARGIN) {
                *x = MARGIN;
                sheet->y += LINE;
        }
        sheet->frames.is_used[colour] = true;
        infp_str_printf(&sheet->text,
                        "<rect class=\"c%u\" x=\"%.1f\" y=\"%.0f\" width=\"11\" height=\"11\"/><text class=\"soft\" "
                        "x=\"%.1f\" y=\"%.0f\">",
                        colour, *x, sheet->y - 10, *x + 15, sheet->y);
        infp_flame_svg_text(&sheet->text, text, 200);
        infp_str_puts(&sheet->text, "</text>\n");
        *x += width;
}

static void put_kinds(struct sheet *sheet, double *x)
{
        const struct infp_flame *flame = sheet->flame;
        const double all = flame->weight > 0 ? flame->weight : (double) flame->samples; /* as widths are */
        double own[INFP_FLAME_CLASSES] = { 0 };
        bool is_seen[INFP_FLAME_CLASSES] = { 0 };

        for (uint32_t i = 0; i < flame->n_functions; i++) {
                const unsigned class = infp_flame_class(&flame->functions[i]);

                if (flame->functions[i].is_group)
                        continue;
                is_seen[class] = true;
                own[class] +=
                        flame->weight > 0 ? flame->functions[i].self_weight : (double) flame->functions[i].self_samples;
        }
        for (unsigned class = 0; class < INFP_FLAME_CLASSES; class ++) {
                infp_autostr struct infp_str text = { 0 };

                if (!is_seen[class])
                        continue;
                infp_str_puts(&text, infp_flame_class_name(class));
                if (own[class] > 0 && all > 0)
                        infp_str_printf(&text, " %.1f %%", 100 * own[class] / all);
                put_key(sheet, x, class * INFP_FLAME_SHADES + 4, text.data ? text.data : "");
        }
}

static void put_heats(struct sheet *sheet, double *x)
{
        for (unsigned heat = 0; heat < INFP_FLAME_HEATS; heat++) {
                char text[64];

                snprintf(text, sizeof(text), infp_flame_heat_above(heat) > 0 ? "self time above %.0f %%" : "less",
                         infp_flame_heat_above(heat));
                put_key(sheet, x, heat, text);
        }
}

static void put_legend(struct sheet *sheet)
{
        const enum infp_flame_theme theme = sheet->look->theme;
        double x = MARGIN;

        if (!sheet->flame->base && theme != INFP_FLAME_BY_KIND && theme != INFP_FLAME_HEAT)
                return;
        sheet->y += LINE + 4;
        if (!sheet->flame->base) {
                (theme == INFP_FLAME_HEAT ? put_heats : put_kinds)(sheet, &x);
                return;
        }
        put_key(sheet, &x, 0, "less: -64 % or gone");
        put_key(sheet, &x, INFP_FLAME_STEPS - 3, "-16 %");
        put_key(sheet, &x, INFP_FLAME_STEPS, "no significant change");
        put_key(sheet, &x, INFP_FLAME_STEPS + 3, "+16 %");
        put_key(sheet, &x, 2 * INFP_FLAME_STEPS, "more: +64 % or new");
}

static void put_note(struct sheet *sheet)
{
        infp_autostr struct infp_str text = { 0 };
        const struct infp_flame_frames *frames = &sheet->frames;

        if (frames->n_left_out) {
                infp_flame_count(&text, frames->n_left_out);
                infp_str_printf(&text, " of ");
                infp_flame_count(&text, (uint64_t) frames->n_left_out + frames->n_drawn);
                infp_str_printf(&text,
                                " frames are not drawn: each is narrower than %.3g %% of the whole. The page of "
                                "`infprof flamegraph --html` has them.",
                                100 * frames->unit_least / (sheet->width - 2 * MARGIN));
        }
        if (frames->gone_samples) {
                if (text.size)
                        infp_str_putc(&text, ' ');
                infp_flame_count(&text, frames->gone_samples);
                infp_str_puts(&text, " samples of the older run were in frames that are gone.");
        }
        sheet->y += 4;
        if (text.size)
                put_line(sheet, "soft", text.data, 6.4);
}

/* Rules of one picture begin with its id: several in a page do not change each other. */
static void put_rules(struct sheet *sheet, bool is_dark)
{
        for (unsigned colour = 0; colour < INFP_FLAME_COLOURS; colour++) {
                uint32_t value;

                if (!sheet->frames.is_used[colour])
                        continue;
                value = sheet->flame->base ? infp_flame_change_colour((int) colour - INFP_FLAME_STEPS, is_dark)
                                           : infp_flame_colour(sheet->look->theme, colour / INFP_FLAME_SHADES,
                                                               colour % INFP_FLAME_SHADES, is_dark);
                infp_str_printf(&sheet->style, "#%s .c%u{fill:#%06x}", sheet->id, colour, (unsigned) value);
        }
        infp_str_putc(&sheet->style, '\n');
}

static void put_style(struct sheet *sheet)
{
        put_rules(sheet, false);
        infp_str_puts(&sheet->style, "@media (prefers-color-scheme: dark){");
        put_rules(sheet, true);
        infp_str_puts(&sheet->style, "}\n");
}

static void put_graph(struct sheet *sheet)
{
        const double tall = sheet->frames.rows * (double) ROW;

        sheet->y += 10;
        infp_str_printf(&sheet->text, "<g class=\"frames\" transform=\"translate(%d %.0f)\">\n", MARGIN,
                        sheet->look->has_root_below ? sheet->y + tall - ROW : sheet->y);
        infp_str_put(&sheet->text, sheet->frames.text.data ? sheet->frames.text.data : "", sheet->frames.text.size);
        infp_str_puts(&sheet->text, "</g>\n");
        sheet->y += tall;
}

static void put_body(struct sheet *sheet)
{
        infp_autostr struct infp_str nothing = { 0 };

        put_heading(sheet);
        if (!sheet->frames.n_drawn) {
                sheet->y += 16;
                infp_flame_nothing(&nothing, sheet->flame);
                put_line(sheet, "sentence", nothing.data ? nothing.data : "", 8);
                return;
        }
        put_legend(sheet);
        put_graph(sheet);
        put_note(sheet);
}

/* The whole in words, for those who do not see it, and how far it can be trusted. */
static void put_about(struct infp_str *out, const struct sheet *sheet)
{
        infp_autostr struct infp_str text = { 0 };

        infp_flame_amount(&text, sheet->flame);
        if (sheet->look->subtitle)
                infp_str_printf(&text, "; %s", sheet->look->subtitle);
        infp_str_printf(&text, ". The wider a frame, the more samples; %s.",
                        sheet->look->has_root_below ? "what is above a frame was called by it"
                                                    : "what is below a frame was called by it");
        infp_flame_svg_text(out, text.data ? text.data : "", 4000);
        for (unsigned i = 0; i < INFP_FLAME_DOUBTS + sheet->look->n_notes; i++)
                if (infp_flame_doubt(&text, sheet->flame, sheet->look, i)) {
                        infp_str_putc(out, ' ');
                        infp_flame_svg_text(out, text.data ? text.data : "", 2000);
                }
}

static void put_all(struct infp_str *out, struct sheet *sheet)
{
        infp_autostr struct infp_str title = { 0 };

        infp_flame_title(&title, sheet->flame, sheet->look);
        infp_str_puts(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
                           "class=\"infprof-flame\"");
        infp_str_printf(out,
                        " id=\"%s\" viewBox=\"0 0 %.0f %.0f\" width=\"100%%\" preserveAspectRatio=\"xMidYMin meet\" "
                        "role=\"img\" "
                        "aria-labelledby=\"%s-title %s-about\">\n<title id=\"%s-title\">",
                        sheet->id, sheet->width, sheet->y + 12, sheet->id, sheet->id, sheet->id);
        infp_flame_svg_text(out, title.data ? title.data : "", 1000);
        infp_str_printf(out, "</title>\n<desc id=\"%s-about\">", sheet->id);
        put_about(out, sheet);
        infp_str_puts(out, "</desc>\n<style><![CDATA[\n");
        infp_str_put(out, infp_flame_svg_style, infp_flame_svg_style_size);
        infp_str_put(out, sheet->style.data ? sheet->style.data : "", sheet->style.size);
        infp_str_puts(out, "]]></style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n");
        infp_str_put(out, sheet->text.data ? sheet->text.data : "", sheet->text.size);
        if (!sheet->look->has_no_script && sheet->frames.n_drawn) {
                infp_str_puts(out, "<script><![CDATA[\n");
                infp_str_put(out, infp_flame_svg_script, infp_flame_svg_script_size);
                infp_str_puts(out, "]]></script>\n");
        }
        infp_str_puts(out, "</svg>\n");
}

int infp_flame_svg(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look,
                   struct infp_err *err)
{
        infp_cleanup(sheet_done) struct sheet sheet = { .flame = flame,
                                                        .look = look,
                                                        .width = look->width ? look->width : WIDTH };
        int r;

        sheet.width = fmin(fmax(sheet.width, LEAST_WIDTH), MOST_WIDTH);
        r = infp_flame_svg_frames(flame, look, sheet.width - 2 * MARGIN, &sheet.frames);
        if (r >= 0) {
                put_body(&sheet);
                snprintf(sheet.id, sizeof sheet.id, "flame-%08x",
                         (unsigned) infp_hash64(sheet.text.data, sheet.text.size, look->theme));
                put_style(&sheet);
                put_all(out, &sheet);
        }
        if (r < 0 || out->failed || sheet.text.failed || sheet.style.failed || sheet.frames.text.failed)
                return infp_fail(err, -ENOMEM, "there is no memory for the picture of a flame graph of %u nodes",
                                 (unsigned) flame->n_nodes);
        return 0;
}
