/* A flame graph as a picture: the rectangles, then title, legend, notes, style and script around them. */
#include "view/flame/svg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/flame_top.h"
#include "base/hash.h"
#include "base/mem.h"
#include "view/flame/page.h"
#include "view/flame/palette.h"
#include "view/flame/words.h"
#include "view/format.h"
#include "view/markup.h"

enum { WIDTH = 1200, MARGIN = 10, ROW = 18, LINE = 16, LEAST_WIDTH = 300, MOST_WIDTH = 20000, TITLE_BYTES = 400 };
enum { COLOURS = INFP_FLAME_CLASSES * INFP_FLAME_SHADES };

struct frames {
        struct infp_str text; /* elements; y from 0 down */
        unsigned rows;
        uint32_t n_drawn, n_left_out; /* left out: too narrow */
        uint64_t gone_samples;        /* of a difference: of frames that only the older run has */
        bool is_used[COLOURS];
        double unit_least; /* narrower ones are left out */
};

static const double frame_letter = 6.65; /* of 11 px monospace, whatever font that is */

struct picture {
        const struct infp_flame *flame;
        const struct infp_flame_look *look;
        struct frames *frames;
        double *next; /* where the next child of a node begins */
        double scale;
        bool is_by_weight;
};

static double value_of(const struct picture *picture, uint32_t node)
{
        const struct infp_flame_node *n = &picture->flame->nodes[node];

        return picture->is_by_weight ? n->total_weight : (double) n->total_samples;
}

static void put_amount(struct infp_str *out, const struct picture *picture, uint64_t samples, double weight)
{
        const struct infp_flame *flame = picture->flame;

        infp_flame_count(out, samples);
        infp_str_puts(out, samples == 1 ? " sample" : " samples");
        if (flame->weight > 0 && flame->unit && strcmp(flame->unit, "samples") != 0) {
                infp_str_puts(out, ", ");
                infp_flame_weight(out, weight, flame->unit);
        }
}

static void put_where(struct infp_str *out, const struct infp_flame_function *function)
{
        infp_str_puts(out, "\n");
        if (function->object && *function->object) {
                infp_markup_text(out, function->object, TITLE_BYTES, false);
                infp_str_puts(out, ", ");
        }
        infp_str_puts(out, function->is_group ? "no function" : infp_flame_class_name(infp_flame_class(function)));
        if (function->is_inlined)
                infp_str_puts(out, ", inlined");
        if (function->is_unnamed)
                infp_str_puts(out, ", no symbol");
        if (!function->file)
                return;
        infp_str_puts(out, "\n");
        infp_markup_text(out, function->file, TITLE_BYTES, false);
        if (function->line > 0)
                infp_str_printf(out, ":%lld", (long long) function->line);
}

static void put_title(struct infp_str *out, const struct picture *picture, uint32_t index)
{
        const struct infp_flame *flame = picture->flame;
        const struct infp_flame_node *node = &flame->nodes[index];
        const struct infp_flame_share share = infp_flame_share(flame, node->total_weight);

        infp_str_puts(out, "<title>");
        if (index) {
                infp_markup_text(out, flame->functions[node->function].name, TITLE_BYTES, false);
                put_where(out, &flame->functions[node->function]);
        } else
                infp_str_puts(out, "all");
        infp_str_puts(out, "\n");
        put_amount(out, picture, node->total_samples, node->total_weight);
        infp_str_printf(out, ": %.2f %% of all", 100 * value_of(picture, index) / value_of(picture, 0));
        if (flame->weight > 0)
                infp_str_printf(out, " (95 %% interval %.2f to %.2f)", share.low, share.high);
        infp_str_puts(out, "\nself: ");
        put_amount(out, picture, node->self_samples, node->self_weight);
        if (flame->base) {
                infp_str_puts(out, "\nbefore: ");
                infp_flame_count(out, flame->base[index].total_samples);
                infp_str_printf(out, " samples, %.2f %% of all",
                                flame->base_samples ? 100.0 * (double) flame->base[index].total_samples /
                                                              (double) flame->base_samples
                                                    : 0);
        }
        infp_str_puts(out, "</title>");
}

static unsigned colour_of(const struct picture *picture, uint32_t index)
{
        const struct infp_flame *flame = picture->flame;
        const struct infp_flame_node *node = &flame->nodes[index];
        const struct infp_flame_function *function;

        if (flame->base)
                return (unsigned) (INFP_FLAME_STEPS + infp_flame_change_step(node->total_samples, flame->samples,
                                                                             flame->base[index].total_samples,
                                                                             flame->base_samples,
                                                                             picture->look->is_normalised));
        function = &flame->functions[node->function];
        if (picture->look->theme == INFP_FLAME_HEAT)
                return infp_flame_heat(infp_flame_share(flame, function->self_weight).percent);
        return (picture->look->theme == INFP_FLAME_BY_KIND ? infp_flame_class(function) * INFP_FLAME_SHADES : 0) +
               infp_flame_shade(function);
}

/* Bytes of a long name. */
static size_t fitting(const char *name, unsigned letters)
{
        return infp_text_fit(name, strnlen(name, 2000), letters, NULL);
}

static bool is_fitting(const char *name, unsigned letters)
{
        return fitting(name, letters) == strlen(name);
}

/* The name, or the short name, cut to the room; nothing below three letters. */
static void put_label(struct infp_str *out, const struct picture *picture, uint32_t index, double x, double width)
{
        const char *name = index ? picture->flame->functions[picture->flame->nodes[index].function].name : "all";
        const unsigned letters = width > 8 ? (unsigned) ((width - 6) / frame_letter) : 0;
        infp_autostr struct infp_str text = { 0 };

        if (letters < 3)
                return;
        infp_str_printf(out, "<text x=\"%.1f\" y=\"12.5\">", x + 3);
        if (!is_fitting(name, letters)) {
                infp_flame_short_name(&text, name);
                name = text.data ? text.data : "";
        }
        infp_markup_text(out, name, is_fitting(name, letters) ? strlen(name) : fitting(name, letters - 1), false);
        infp_str_puts(out, "</text>");
}

static void put_frame(const struct picture *picture, uint32_t index, double x, double width)
{
        struct infp_str *out = &picture->frames->text;
        const unsigned depth = picture->flame->nodes[index].depth;
        char class[8] = "root";

        if (index || picture->flame->base) {
                const unsigned colour = colour_of(picture, index);

                snprintf(class, sizeof class, "c%u", colour);
                picture->frames->is_used[colour] = true;
        }
        picture->frames->n_drawn++;
        if (depth + 1 > picture->frames->rows)
                picture->frames->rows = depth + 1;
        /* One group per frame, moved to its row, so that its parts have the same y. */
        infp_str_printf(out, "<g transform=\"translate(0 %d)\">",
                        (picture->look->has_root_below ? -1 : 1) * (int) depth * ROW);
        put_title(out, picture, index);
        infp_str_printf(out, "<rect class=\"%s\" x=\"%.2f\" width=\"%.2f\" height=\"%d\"/>", class, x,
                        width > 2 ? width - 0.5 : width, ROW - 1);
        put_label(out, picture, index, x, width);
        infp_str_puts(out, "</g>\n");
}

static uint32_t next_after(const struct infp_flame *flame, uint32_t node)
{
        while (node && !flame->nodes[node].next_sibling)
                node = flame->nodes[node].parent;
        return node ? flame->nodes[node].next_sibling : 0;
}

static void put_frames(struct picture *picture)
{
        const struct infp_flame *flame = picture->flame;
        uint32_t node = 0;

        do {
                const double value = value_of(picture, node), width = value * picture->scale;
                double x = 0;

                if (node) {
                        x = picture->next[flame->nodes[node].parent];
                        picture->next[flame->nodes[node].parent] += value;
                }
                picture->next[node] = x;
                if (node && flame->base && !flame->nodes[node].total_samples)
                        picture->frames->gone_samples += flame->base[node].self_samples;
                if (width >= picture->frames->unit_least) {
                        put_frame(picture, node, x * picture->scale, width);
                        node = flame->nodes[node].first_child ? flame->nodes[node].first_child
                                                              : next_after(flame, node);
                } else if (flame->base && !flame->nodes[node].total_samples)
                        /* Everything below a frame that is gone is gone too: only counted. */
                        node = flame->nodes[node].first_child ? flame->nodes[node].first_child
                                                              : next_after(flame, node);
                else
                        node = next_after(flame, node);
        } while (node);
}

static int make_frames(const struct infp_flame *flame, const struct infp_flame_look *look, double width,
                       struct frames *ret)
{
        infp_autofree double *next = calloc((size_t) flame->n_nodes + 1, sizeof *next);
        struct picture picture = {
                .flame = flame, .look = look, .frames = ret, .next = next, .is_by_weight = flame->weight > 0
        };
        uint32_t n_here = 0;

        *ret = (struct frames){ .unit_least = fmax(0.5, look->min_width_percent / 100 * width) };
        if (!next)
                return -ENOMEM;
        if (!flame->n_nodes || !(value_of(&picture, 0) > 0))
                return 0;
        picture.scale = width / value_of(&picture, 0);
        put_frames(&picture);
        for (uint32_t i = 0; i < flame->n_nodes; i++)
                n_here += value_of(&picture, i) > 0;
        ret->n_left_out = n_here > ret->n_drawn ? n_here - ret->n_drawn : 0;
        return ret->text.failed ? -ENOMEM : 0;
}

static void frames_done(struct frames *frames)
{
        infp_str_done(&frames->text);
}

struct sheet {
        const struct infp_flame *flame;
        const struct infp_flame_look *look;
        struct frames frames;
        double width; /* of all, with margins */
        double y;     /* how far down it is filled */
        struct infp_str text, style;
        char id[24]; /* of this picture among those of a page */
};

static void sheet_done(struct sheet *sheet)
{
        frames_done(&sheet->frames);
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
        infp_markup_text(&sheet->text, text, fits, false);
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
        for (unsigned i = 0; i < INFP_FLAME_RECORDED; i++) {
                infp_str_clear(&text);
                if (infp_flame_recorded(&text, sheet->look, i))
                        put_line(sheet, "soft mono", text.data ? text.data : "", 6.7);
        }
        infp_str_clear(&text);
        infp_flame_trust(&text, sheet->flame);
        put_line(sheet, "soft", text.data ? text.data : "", 6.4);
}

static void put_words(struct sheet *sheet, double *x, const char *text)
{
        infp_str_printf(&sheet->text, "<text class=\"soft\" x=\"%.1f\" y=\"%.0f\">", *x, sheet->y);
        infp_markup_text(&sheet->text, text, 200, false);
        infp_str_puts(&sheet->text, "</text>\n");
        *x += 12 + 6.8 * (double) strlen(text);
}

/* A swatch and its word; on the next line when there is no room. */
static void put_key(struct sheet *sheet, double *x, unsigned colour, const char *text)
{
        const double width = 27 + 6.8 * (double) strlen(text);

        if (*x + width > sheet->width - MARGIN) {
                *x = MARGIN;
                sheet->y += LINE;
        }
        sheet->frames.is_used[colour] = true;
        infp_str_printf(&sheet->text, "<rect class=\"c%u\" x=\"%.1f\" y=\"%.0f\" width=\"11\" height=\"11\"/>", colour,
                        *x, sheet->y - 10);
        *x += 15;
        put_words(sheet, x, text);
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
        put_words(sheet, &x, "samples, after compared with before:");
        put_key(sheet, &x, 0, "less: -64 % or gone");
        put_key(sheet, &x, INFP_FLAME_STEPS - 3, "-16 %");
        put_key(sheet, &x, INFP_FLAME_STEPS, "no significant change");
        put_key(sheet, &x, INFP_FLAME_STEPS + 3, "+16 %");
        put_key(sheet, &x, 2 * INFP_FLAME_STEPS, "more: +64 % or new");
}

static void put_note(struct sheet *sheet)
{
        infp_autostr struct infp_str text = { 0 };
        const struct frames *frames = &sheet->frames;

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
        for (unsigned colour = 0; colour < COLOURS; colour++) {
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

/* The picture in words for readers who do not see it, with its accuracy. */
static void put_about(struct infp_str *out, const struct sheet *sheet)
{
        infp_autostr struct infp_str text = { 0 };

        infp_flame_amount(&text, sheet->flame);
        if (sheet->look->subtitle)
                infp_str_printf(&text, "; %s", sheet->look->subtitle);
        infp_str_printf(&text, ". The wider a frame, the more samples; %s.",
                        sheet->look->has_root_below ? "what is above a frame was called by it"
                                                    : "what is below a frame was called by it");
        infp_markup_text(out, text.data ? text.data : "", 4000, false);
        for (unsigned i = 0; i < INFP_FLAME_DOUBTS + sheet->look->n_notes; i++)
                if (infp_flame_doubt(&text, sheet->flame, sheet->look, i)) {
                        infp_str_putc(out, ' ');
                        infp_markup_text(out, text.data ? text.data : "", 2000, false);
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
        infp_markup_text(out, title.data ? title.data : "", 1000, false);
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
        r = make_frames(flame, look, sheet.width - 2 * MARGIN, &sheet.frames);
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
