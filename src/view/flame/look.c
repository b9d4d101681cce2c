/* Names of looks, and sentences that page and picture share. */
#include "view/flame/look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/flame/words.h"

static const char *const themes[INFP_FLAME_THEMES] = {
        [INFP_FLAME_BY_KIND] = "kind",    [INFP_FLAME_HOT] = "hot",   [INFP_FLAME_COLD] = "cold",
        [INFP_FLAME_RAINBOW] = "rainbow", [INFP_FLAME_MONO] = "mono", [INFP_FLAME_HEAT] = "heat",
};

const char *infp_flame_theme_name(enum infp_flame_theme theme)
{
        return (unsigned) theme < INFP_FLAME_THEMES ? themes[theme] : themes[INFP_FLAME_BY_KIND];
}

int infp_flame_theme_by_name(const char *name)
{
        for (unsigned i = 0; i < INFP_FLAME_THEMES; i++)
                if (!strcmp(themes[i], name))
                        return (int) i;
        /* Other names for them. */
        if (!strcmp(name, "monochrome"))
                return INFP_FLAME_MONO;
        return -ENOENT;
}

void infp_flame_title(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look)
{
        const enum infp_stack_mode mode = infp_stack_mode_of(flame->mode);
        const char *what = mode < INFP_STACK_MODES ? infp_stack_modes[mode].title : flame->mode;

        if (look->title) {
                infp_str_puts(out, look->title);
                return;
        }
        infp_str_printf(out, "%s%sflame graph%s%s", what, *what ? " " : "", look->is_reversed ? ", leaf first" : "",
                        flame->base ? ", what changed" : "");
}

/* "12,345" */
void infp_flame_count(struct infp_str *out, uint64_t n)
{
        char digits[24];
        const int size = snprintf(digits, sizeof digits, "%llu", (unsigned long long) n);

        for (int i = 0; i < size; i++) {
                if (i && (size - i) % 3 == 0)
                        infp_str_putc(out, ',');
                infp_str_putc(out, digits[i]);
        }
}

bool infp_flame_figure(struct infp_str *out, double weight, const char *unit)
{
        if (unit && !strcmp(unit, "seconds"))
                infp_human_seconds(out, weight);
        else if (unit && !strcmp(unit, "nanoseconds"))
                infp_human_seconds(out, weight / 1e9);
        else if (unit && !strcmp(unit, "bytes"))
                infp_human_bytes(out, weight);
        else {
                infp_human_number(out, weight);
                return false;
        }
        return true;
}

void infp_flame_weight(struct infp_str *out, double weight, const char *unit)
{
        if (!infp_flame_figure(out, weight, unit) && unit && *unit)
                infp_str_printf(out, " %s", unit);
}

static void put_samples(struct infp_str *out, const struct infp_flame *flame, uint64_t samples, double weight)
{
        infp_flame_count(out, samples);
        infp_str_puts(out, samples == 1 ? " sample" : " samples");
        if (flame->unit && *flame->unit && strcmp(flame->unit, "samples") != 0) {
                infp_str_puts(out, ", ");
                infp_flame_weight(out, weight, flame->unit);
        }
}

/* "4,950 samples, 50 s, over 12.5 s"; of a difference "before: 4,950 samples, 50 s; after: ...". */
void infp_flame_amount(struct infp_str *out, const struct infp_flame *flame)
{
        if (flame->base) {
                infp_str_puts(out, "before: ");
                put_samples(out, flame, flame->base_samples, flame->base_weight);
                infp_str_puts(out, "; after: ");
        }
        put_samples(out, flame, flame->samples, flame->weight);
        if (flame->t1 > flame->t0) {
                infp_str_puts(out, ", over ");
                infp_human_seconds(out, (double) (flame->t1 - flame->t0) / 1e9);
        }
}

bool infp_flame_recorded(struct infp_str *out, const struct infp_flame_look *look, unsigned i)
{
        const char *const lines[] = { look->base, look->subtitle };

        if (i >= INFP_COUNT(lines) || !lines[i] || !*lines[i])
                return false;
        infp_str_printf(out, "%s%s", !look->base ? "" : i ? "after: " : "before: ", lines[i]);
        return true;
}

void infp_flame_nothing(struct infp_str *out, const struct infp_flame *flame)
{
        if (flame->base_samples)
                infp_str_puts(out, "All samples are in the older run.");
        else if (flame->all_samples) {
                infp_str_puts(out, "None of the ");
                infp_flame_count(out, flame->all_samples);
                infp_str_puts(out, " samples matches the filter.");
        } else
                infp_str_puts(out, "No samples were taken here.");
}

void infp_flame_cuts(struct infp_str *out, const struct infp_flame *flame)
{
        infp_str_printf(
                out,
                "Incomplete stacks: %s %% before, %s %% after, so frames are in different places; compare functions "
                "(%s)",
                infp_fixed(100.0 * (double) flame->base_truncated_samples / (double) flame->base_samples, 1).text,
                infp_fixed(100.0 * (double) flame->truncated_samples / (double) flame->samples, 1).text,
                "the table, or `infprof flamegraph --diff RUN --top`");
}

void infp_flame_cut_bytes(struct infp_str *out, const struct infp_flame *flame)
{
        const struct infp_profile_cut *cut = &flame->cut;

        if (cut->most <= 0)
                return;
        infp_str_puts(out, " (too deep: read for ");
        if (cut->least < cut->most) {
                infp_human_bytes(out, (double) cut->least);
                infp_str_puts(out, " to ");
        }
        infp_human_bytes(out, (double) cut->most);
        infp_str_puts(out, ")");
}

void infp_flame_trust(struct infp_str *out, const struct infp_flame *flame)
{
        const struct {
                uint64_t samples;
                const char *what;
        } parts[] = { { flame->truncated_samples, "are incomplete (outermost frames missing)" },
                      { flame->completed_samples, "were completed just after the sample" },
                      { flame->guessed_samples, "have a guessed frame" },
                      { flame->unnamed_samples, "end without a name" } };
        bool is_first = true;

        if (infp_flame_cuts_differ(flame)) {
                infp_flame_cuts(out, flame);
                return;
        }
        for (unsigned i = 0; i < INFP_COUNT(parts); i++) {
                const double share = 100.0 * (double) parts[i].samples / (double) flame->samples;

                if (!parts[i].samples || !flame->samples)
                        continue;
                infp_str_printf(out, "%s%s %%%s %s", is_first ? "" : ", ", infp_fixed(share, share < 0.1 ? 3 : 1).text,
                                is_first ? " of stacks" : "", parts[i].what);
                is_first = false;
        }
        if (is_first && flame->samples)
                infp_str_puts(out, "All stacks are complete, and all have names");
}

static bool put_share(struct infp_str *out, uint64_t k, const struct infp_flame *flame, const char *rest)
{
        if (!k || !flame->samples)
                return false;
        infp_flame_count(out, k);
        infp_str_puts(out, " of ");
        infp_flame_count(out, flame->samples);
        infp_str_printf(out, " samples (%s %%) %s", infp_fixed(100.0 * (double) k / (double) flame->samples, 1).text,
                        rest);
        return true;
}

bool infp_flame_doubt(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_look *look,
                      unsigned i)
{
        infp_str_clear(out);
        switch (i) {
        case 0:
                return put_share(out, flame->truncated_samples, flame,
                                 "are incomplete: their outermost frames are missing, because the stack was deeper "
                                 "than its copy or could not be unwound further.");
        case 1:
                return put_share(out, flame->guessed_samples, flame,
                                 "have a guessed frame, because unwind tables are missing.");
        case 2:
                return put_share(out, flame->unnamed_samples, flame,
                                 "end in code without a name: its file has no symbols here.");
        case 3:
                return put_share(out, flame->cut_samples, flame,
                                 "lost a part of their stack because a table of the run is damaged.");
        case 4:
                if (flame->all_samples <= flame->samples)
                        return false;
                infp_flame_count(out, flame->all_samples - flame->samples);
                infp_str_puts(out, " of ");
                infp_flame_count(out, flame->all_samples);
                infp_str_puts(out, " samples do not match the filter.");
                return true;
        default:
                if (i - INFP_FLAME_DOUBTS >= look->n_notes)
                        return false;
                infp_str_puts(out, look->notes[i - INFP_FLAME_DOUBTS]);
                return true;
        }
}

enum { LONGEST_NAME = 2000 }; /* longer names stay as they are: shortening takes too long */

/* A "(" after a blank begins no parameters: "name (guessed)". A "<" at the beginning or after a dot belongs to a name of Python, Java or
 * Rust: "<module> (app.py:3)", "Main.<init>". */
static bool is_list(const char *text, const char *open)
{
        return *open == '(' ? open == text || open[-1] != ' ' : open > text && open[-1] != '.';
}

/* Removes innermost pairs. True: some were removed. */
static bool take_out(char *text, char opening, char closing)
{
        char *open = NULL;
        bool any = false;

        for (char *at = text; *at;) {
                char *next = at + 1;

                if (*at == opening) {
                        open = at;
                } else if (*at == closing) {
                        if (open && is_list(text, open)) {
                                memmove(open, next, strlen(next) + 1);
                                next = open;
                                any = true;
                        }
                        open = NULL;
                }
                at = next;
        }
        return any;
}

void infp_flame_short_name(struct infp_str *out, const char *name)
{
        static const char anonymous[] = "(anonymous namespace)::", is_const[] = " const";
        const size_t skip = strncmp(name, anonymous, strlen(anonymous)) ? 0 : strlen(anonymous);
        infp_autofree char *text = strlen(name) > LONGEST_NAME ? NULL : strdup(name + skip);
        size_t size;

        if (!text || strncmp(name, "operator", 8) == 0) {
                infp_str_puts(out, name);
                return;
        }
        while (take_out(text, '(', ')') || take_out(text, '<', '>'))
                ;
        size = strlen(text);
        if (size >= strlen(is_const) && !strcmp(text + size - strlen(is_const), is_const))
                text[size -= strlen(is_const)] = 0;
        while (size && text[size - 1] == ' ')
                text[--size] = 0;
        infp_str_puts(out,
                      strpbrk(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ? text : name);
}
