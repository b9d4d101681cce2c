/* The rectangles of a flame graph's picture. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/flame_top.h"
#include "base/mem.h"
#include "view/flame/svg_parts.h"
#include "view/flame/words.h"
#include "view/format.h"
#include "view/markup.h"

enum { ROW = 18, TITLE_BYTES = 400 };
static const double letter = 6.65; /* of 11 px monospace, whatever font that is */

void infp_flame_svg_text(struct infp_str *out, const char *text, size_t most)
{
        infp_markup_text(out, text, most, false);
}

struct picture {
        const struct infp_flame *flame;
        const struct infp_flame_look *look;
        struct infp_flame_frames *frames;
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

static void put_where(struct infp_str *out, const struct infp_flame_function *function, int64_t node_line)
{
        const int64_t line = node_line > 0 ? node_line : function->line;

        infp_str_puts(out, "\n");
        if (function->object && *function->object) {
                infp_flame_svg_text(out, function->object, TITLE_BYTES);
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
        infp_flame_svg_text(out, function->file, TITLE_BYTES);
        if (line > 0)
                infp_str_printf(out, ":%lld", (long long) line);
}

static void put_title(struct infp_str *out, const struct picture *picture, uint32_t index)
{
        const struct infp_flame *flame = picture->flame;
        const struct infp_flame_node *node = &flame->nodes[index];
        const struct infp_flame_share share = infp_flame_share(flame, node->total_weight);

        infp_str_puts(out, "<title>");
        if (index) {
                infp_flame_svg_text(out, flame->functions[node->function].name, TITLE_BYTES);
                put_where(out, &flame->functions[node->function], node->line);
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

/* Bytes; of a name that is a book the first page. */
static size_t fitting(const char *name, unsigned letters)
{
        return infp_text_fit(name, strnlen(name, 2000), letters, NULL);
}

static bool is_fitting(const char *name, unsigned letters)
{
        return fitting(name, letters) == strlen(name);
}

/* As much of the name as there is room for, of the short one where the whole has none; nothing below three letters. */
static void put_label(struct infp_str *out, const struct picture *picture, uint32_t index, double x, double width)
{
        const char *name = index ? picture->flame->functions[picture->flame->nodes[index].function].name : "all";
        const unsigned letters = width > 8 ? (unsigned) ((width - 6) / letter) : 0;
        infp_autostr struct infp_str text = { 0 };

        if (letters < 3)
                return;
        infp_str_printf(out, "<text x=\"%.1f\" y=\"12.5\">", x + 3);
        if (!is_fitting(name, letters)) {
                infp_flame_short_name(&text, name);
                name = text.data ? text.data : "";
        }
        infp_flame_svg_text(out, name, is_fitting(name, letters) ? strlen(name) : fitting(name, letters - 1));
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
        /* One group a frame, moved to its row, so that all within has the same y. */
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
                        /* Within what is gone all is gone: only counted. */
                        node = flame->nodes[node].first_child ? flame->nodes[node].first_child
                                                              : next_after(flame, node);
                else
                        node = next_after(flame, node);
        } while (node);
}

int infp_flame_svg_frames(const struct infp_flame *flame, const struct infp_flame_look *look, double width,
                          struct infp_flame_frames *ret)
{
        infp_autofree double *next = calloc((size_t) flame->n_nodes + 1, sizeof *next);
        struct picture picture = {
                .flame = flame, .look = look, .frames = ret, .next = next, .is_by_weight = flame->weight > 0
        };
        uint32_t n_here = 0;

        *ret = (struct infp_flame_frames){ .unit_least = fmax(0.5, look->min_width_percent / 100 * width) };
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

void infp_flame_frames_done(struct infp_flame_frames *frames)
{
        infp_str_done(&frames->text);
}
