/* The page of a flame graph: its head, what reads without script, and the data. */
#include "view/flame/html.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/flame_top.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "view/flame/pack.h"
#include "view/flame/page.h"
#include "view/flame/palette.h"
#include "view/flame/words.h"
#include "view/html/parts.h"

enum { TOP = 25 }; /* functions in the page's own table */

static void put_text(struct infp_str *out, const struct infp_str *text)
{
        infp_html_text(out, text->data);
}

static void put_head(struct infp_str *out, const struct infp_str *title)
{
        const struct infp_html_own own = { infp_flame_page_script_hash, infp_flame_page_style_hash, NULL,
                                           infp_flame_page_style, infp_flame_page_style_size };

        infp_html_head(out, title->data, &own);
}

static void put_top(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look,
                    const struct infp_str *title)
{
        infp_autostr struct infp_str text = { 0 };
        bool is_first = true;

        infp_str_puts(out, "<header class=\"top\"><div class=\"what\"><h1>");
        put_text(out, title);
        infp_str_puts(out, "</h1><p class=\"amount\">");
        infp_flame_amount(&text, flame);
        put_text(out, &text);
        infp_str_puts(out, "</p></div>");
        for (unsigned i = 0; i < INFP_FLAME_RECORDED; i++) {
                infp_str_clear(&text);
                if (!infp_flame_recorded(&text, look, i))
                        continue;
                infp_str_puts(out, "<p class=\"subtitle\">");
                put_text(out, &text);
                infp_str_puts(out, "</p>");
        }
        infp_str_clear(&text);
        infp_flame_trust(&text, flame);
        infp_str_puts(out, "<details class=\"trust\"><summary>");
        put_text(out, &text);
        infp_str_puts(out, "</summary>");
        for (unsigned i = 0; i < INFP_FLAME_DOUBTS + look->n_notes; i++) {
                if (!infp_flame_doubt(&text, flame, look, i))
                        continue;
                infp_str_puts(out, is_first ? "<ul class=\"doubts\"><li>" : "<li>");
                put_text(out, &text);
                infp_str_puts(out, "</li>");
                is_first = false;
        }
        infp_str_puts(out, is_first ? "</details></header>\n" : "</ul></details></header>\n");
}

static void put_cell(struct infp_str *out, const struct infp_flame *flame, uint64_t samples, double weight)
{
        const struct infp_flame_share share = infp_flame_share(flame, weight);

        infp_str_puts(out, "<td>");
        infp_flame_count(out, samples);
        infp_str_printf(out, "</td><td>%.1f %%</td><td>%.1f to %.1f</td>", share.percent, share.low, share.high);
}

/* For readers without script and browsers that cannot unpack the data; the script removes it. */
static void put_plain(struct infp_str *out, const struct infp_flame *flame)
{
        infp_autostr struct infp_str nothing = { 0 };
        uint32_t top[TOP];
        const uint32_t n = infp_flame_top(flame, false, TOP, top, NULL);

        infp_str_puts(out, "<section id=\"plain\"><noscript><p>The picture needs JavaScript; these are its functions "
                           "with the highest self time.</p></noscript>\n");
        if (!n) {
                infp_flame_nothing(&nothing, flame);
                infp_str_puts(out, "<p>");
                put_text(out, &nothing);
                infp_str_puts(out, "</p>");
        } else
                infp_str_puts(out, "<table><thead><tr><th>Function</th><th>Self</th><th>%</th><th>95 % "
                                   "interval</th><th>Total</th><th>%</th>"
                                   "<th>95 % interval</th><th>Object</th></tr></thead><tbody>\n");
        for (uint32_t i = 0; i < n; i++) {
                const struct infp_flame_function *function = &flame->functions[top[i]];

                infp_str_puts(out, "<tr><th scope=\"row\">");
                infp_html_text(out, function->name);
                infp_str_puts(out, "</th>");
                put_cell(out, flame, function->self_samples, function->self_weight);
                put_cell(out, flame, function->total_samples, function->total_weight);
                infp_str_puts(out, "<td>");
                infp_html_text(out, function->object);
                infp_str_puts(out, "</td></tr>\n");
        }
        infp_str_puts(out, n ? "</tbody></table></section>\n" : "</section>\n");
}

static void put_colour(struct infp_json *json, uint32_t colour)
{
        char text[8];

        snprintf(text, sizeof text, "#%06x", (unsigned) colour);
        infp_json_str(json, text);
}

/* classes: their names; heats: above which self time in percent each begins; colours: of each theme a list, of the theme by kind one of each class after the other; change: less to more. */
static void put_colours(struct infp_json *json)
{
        infp_json_key(json, "classes");
        infp_json_array(json);
        for (unsigned i = 0; i < INFP_FLAME_CLASSES; i++)
                infp_json_str(json, infp_flame_class_name(i));
        infp_json_array_end(json);
        infp_json_key(json, "heats");
        infp_json_array(json);
        for (unsigned i = 0; i < INFP_FLAME_HEATS; i++)
                infp_json_f64(json, infp_flame_heat_above(i));
        infp_json_array_end(json);
        for (unsigned dark = 0; dark < 2; dark++) {
                infp_json_key(json, dark ? "dark" : "light");
                infp_json_object(json);
                for (unsigned theme = 0; theme < INFP_FLAME_THEMES; theme++) {
                        infp_json_key(json, infp_flame_theme_name((enum infp_flame_theme) theme));
                        infp_json_array(json);
                        for (unsigned class = 0;
                             class < (theme == INFP_FLAME_BY_KIND ? (unsigned) INFP_FLAME_CLASSES : 1); class ++)
                                for (unsigned shade = 0; shade < INFP_FLAME_SHADES; shade++)
                                        put_colour(json, infp_flame_colour((enum infp_flame_theme) theme, class, shade,
                                                                           dark));
                        infp_json_array_end(json);
                }
                infp_json_key(json, "change");
                infp_json_array(json);
                for (int step = -INFP_FLAME_STEPS; step <= INFP_FLAME_STEPS; step++)
                        put_colour(json, infp_flame_change_colour(step, dark));
                infp_json_array_end(json);
                infp_json_object_end(json);
        }
}

/* Enums of C that the script needs. */
static void put_constants(struct infp_json *json)
{
        static const struct {
                const char *name;
                unsigned value;
        } constants[] = {
                { "shades", INFP_FLAME_SHADES },         { "steps", INFP_FLAME_STEPS },
                { "unknown_class", INFP_FRAME_UNKNOWN }, { "guessed_class", INFP_FLAME_GUESSED },
                { "kind", INFP_FLAME_PACK_KIND },        { "guessed", INFP_FLAME_PACK_GUESSED },
                { "inlined", INFP_FLAME_PACK_INLINED },  { "unnamed", INFP_FLAME_PACK_UNNAMED },
                { "group", INFP_FLAME_PACK_GROUP },      { "kernel", INFP_FRAME_KERNEL },
        };

        infp_json_key(json, "constants");
        infp_json_object(json);
        for (unsigned i = 0; i < INFP_COUNT(constants); i++)
                infp_json_member_u64(json, constants[i].name, constants[i].value);
        infp_json_object_end(json);
}

static void put_facts(struct infp_json *json, const struct infp_flame *flame, const struct infp_flame_look *look,
                      const struct infp_flame_packing *packing)
{
        infp_json_object(json);
        infp_json_member_i64(json, "version", 1);
        infp_json_member_str(json, "mode", flame->mode);
        infp_json_member_str(json, "unit", flame->unit);
        infp_json_member_u64(json, "samples", flame->samples);
        infp_json_member_f64(json, "effective_samples", flame->effective_samples);
        infp_json_member_f64(json, "weight", flame->weight);
        infp_json_member_f64(json, "seconds", flame->t1 > flame->t0 ? (double) (flame->t1 - flame->t0) / 1e9 : 0);
        infp_json_member_bool(json, "has_base", flame->base != NULL);
        infp_json_member_u64(json, "base_samples", flame->base_samples);
        infp_json_member_f64(json, "base_weight", flame->base_weight);
        infp_json_member_u64(json, "nodes", flame->n_nodes);
        infp_json_member_u64(json, "functions", flame->n_functions);
        infp_json_member_u64(json, "moments", flame->moments ? flame->n_moments : 0);
        infp_json_member_u64(json, "buckets", flame->n_buckets);
        infp_json_member_bool(json, "has_weights", packing->has_weights);
        infp_json_member_bool(json, "has_lines", flame->is_by_line);
        infp_json_member_bool(json, "has_waits", packing->has_waits);
        infp_json_member_f64(json, "step", packing->step);
        infp_json_member_str(json, "theme", infp_flame_theme_name(look->theme));
        infp_json_member_f64(json, "min_width_percent", look->min_width_percent);
        infp_json_member_bool(json, "root_below", look->has_root_below);
        infp_json_member_bool(json, "reversed", look->is_reversed);
        infp_json_member_bool(json, "normalised", look->is_normalised);
        put_constants(json);
        put_colours(json);
        infp_json_object_end(json);
}

static int put_data(struct infp_str *packed, struct infp_str *facts, const struct infp_flame *flame,
                    const struct infp_flame_look *look, struct infp_err *err)
{
        struct infp_flame_packing packing;
        struct infp_json json;

        INFP_TRY(infp_flame_pack(packed, flame, &packing, err));
        infp_json_begin(&json, facts, 0);
        put_facts(&json, flame, look, &packing);
        return packed->failed || facts->failed
                       ? infp_fail(err, -ENOMEM, "there is no memory for the page of a flame graph")
                       : 0;
}

int infp_flame_html_data(struct infp_str *packed, struct infp_str *facts, const struct infp_flame *flame,
                         struct infp_err *err)
{
        static const struct infp_flame_look look = { .theme = INFP_FLAME_BY_KIND };

        return put_data(packed, facts, flame, &look, err);
}

int infp_flame_html(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look,
                    struct infp_err *err)
{
        infp_autostr struct infp_str title = { 0 }, packed = { 0 }, facts = { 0 };

        INFP_TRY(put_data(&packed, &facts, flame, look, err));
        infp_flame_title(&title, flame, look);
        put_head(out, &title);
        put_top(out, flame, look, &title);
        infp_str_puts(out, "<main id=\"page\">\n");
        put_plain(out, flame);
        infp_str_puts(out, "</main>\n<script type=\"application/json\" id=\"facts\">");
        infp_html_json(out, facts.data ? facts.data : "", facts.size);
        infp_str_puts(out, "</script>\n<script type=\"application/octet-stream\" id=\"packed\">");
        infp_str_put(out, packed.data ? packed.data : "", packed.size);
        infp_str_puts(out, "</script>\n<script>");
        infp_str_put(out, infp_flame_page_script, infp_flame_page_script_size);
        infp_str_puts(out, "</script>\n</body></html>\n");
        if (out->failed || title.failed)
                return infp_fail(err, -ENOMEM, "there is no memory for the page of a flame graph");
        return 0;
}
