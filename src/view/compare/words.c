#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view/compare/parts.h"

enum { MOST_NAMED = 5, MOST_PERCENT = 9 /* times 100 */ };

const struct infp_compare_title infp_compare_titles[INFP_COMPARE_SECTIONS] = {
        [INFP_COMPARE_NUMBERS] = { "numbers", "Numbers", "%" },
        [INFP_COMPARE_SELF] = { "functions_self", "Functions by their own samples", "points" },
        [INFP_COMPARE_TOTAL_OF] = { "functions_total", "Functions with what they call", "points" },
        [INFP_COMPARE_MODULES] = { "modules", "Modules of PyTorch, own time of a call", "%" },
};

char infp_compare_letter(unsigned side)
{
        return (char) ('A' + side);
}

struct human infp_compare_amount(const struct infp_compare_row *row, double value)
{
        if (isnan(value))
                return infp_number(NAN);
        if (row->difference.is_points)
                return infp_human(value, "ratio", "%", false);
        if (row->number)
                return infp_human(value, row->number->base, "", row->number->is_rate);
        return infp_human(value, "seconds", "", false);
}

/* From ten times on as a factor: 28-fold says more than +2,700 %. A share has 100 points. */
static void put_change(struct infp_str *out, double change, bool is_points, bool has_unit)
{
        if (is_points && isfinite(change))
                change = fmax(fmin(change, 1), -1);
        if (!isfinite(change))
                infp_str_puts(out, "-");
        else if (!is_points && change >= MOST_PERCENT)
                infp_str_printf(out, "x%s", infp_fixed(1 + change, change < 99 ? 1 : 0).text);
        else
                infp_str_printf(out, "%s%s%s", change > 0 ? "+" : "", infp_fixed(100 * change, 1).text,
                                has_unit && !is_points ? " %" : "");
}

struct human infp_compare_change(const struct infp_difference *d, double change)
{
        infp_autostr struct infp_str text = { 0 };
        struct human ret = infp_number(NAN);

        put_change(&text, change, d->is_points, true);
        if (text.data)
                snprintf(ret.text, sizeof(ret.text), "%s", text.data);
        return ret;
}

void infp_compare_interval(struct infp_str *out, const struct infp_difference *d)
{
        if (!isfinite(d->low) || !isfinite(d->high)) {
                infp_str_puts(out, "-");
                return;
        }
        put_change(out, d->low, d->is_points, d->high >= MOST_PERCENT);
        infp_str_puts(out, " to ");
        put_change(out, d->high, d->is_points, true);
}

static void put_names(struct infp_str *out, const struct infp_compare *compare, unsigned side,
                      enum infp_verdict verdict)
{
        unsigned n = 0;

        for (unsigned i = 0; i < compare->n; i++) {
                const struct infp_compare_row *row = &compare->rows[i];

                if (row->side != side || row->difference.verdict != verdict)
                        continue;
                if (n++ < MOST_NAMED)
                        infp_str_printf(out, "%s%s %s%s", n > 1 ? ", " : "", row->name,
                                        infp_compare_change(&row->difference, row->difference.difference).text,
                                        row->difference.is_points ? " points" : "");
        }
        if (n > MOST_NAMED)
                infp_str_printf(out, " and %s more", infp_count(n - MOST_NAMED).text);
}

void infp_compare_summary(struct infp_str *out, const struct infp_compare_view *view, unsigned side)
{
        static const enum infp_verdict shown[] = { INFP_VERDICT_WORSE, INFP_VERDICT_BETTER, INFP_VERDICT_MORE,
                                                   INFP_VERDICT_LESS };
        const struct infp_compare *compare = view->compare;
        unsigned counts[INFP_VERDICT_LESS + 1] = { 0 };
        const size_t begin = out->size;

        for (unsigned i = 0; i < compare->n; i++)
                counts[compare->rows[i].difference.verdict] += compare->rows[i].side == side;
        for (unsigned i = 0; i < sizeof(shown) / sizeof(*shown); i++)
                if (counts[shown[i]]) {
                        infp_str_printf(out, "%s%s: ", out->size > begin ? "; " : "", infp_verdict_name(shown[i]));
                        put_names(out, compare, side, shown[i]);
                }
        infp_str_printf(out, "%s%s without evidence of a difference", out->size > begin ? "; " : "",
                        infp_count(counts[INFP_VERDICT_NONE]).text);
        if (counts[INFP_VERDICT_UNKNOWN])
                infp_str_printf(out, ", %s not judged", infp_count(counts[INFP_VERDICT_UNKNOWN]).text);
}

static void put_method(struct infp_str *out, const struct infp_compare_view *view)
{
        const struct infp_compare *compare = view->compare;

        infp_str_printf(
                out,
                "%s differences were tested together (Holm's correction): of comparisons of equal runs at most 5 %% "
                "have any false verdict. The intervals are of 95 %% for each number alone; 'finds' is the change "
                "that would have been found in 80 %% of cases.",
                infp_count(compare->n_tested).text);
}

static void put_noise(struct infp_str *out, const struct infp_compare_view *view)
{
        if (view->compare->sides[0].n > 1)
                infp_str_puts(out,
                              "Several runs a side: the noise from run to run is in the intervals (Welch's t test).");
        else
                infp_str_puts(
                        out,
                        "One run a side: the intervals come from blocks of its time and do not hold the noise from "
                        "run to run; a change counts only when it exceeds what quarters of one run differ by, and "
                        "at least 10 % (of memory 5 %, of functions 25 points). Several runs a side (A1,A2,A3 "
                        "B1,B2,B3) show it.");
}

static void put_others(struct infp_str *out, const struct infp_compare_view *view)
{
        if (view->compare->is_disturbed)
                infp_str_printf(
                        out,
                        "Other processes, or other machines on this host, used %s of the CPUs in one of the runs: "
                        "time by the clock (latencies, what is by second) has a verdict only beyond a factor of "
                        "two then. Several runs a side, in turns, say more.",
                        infp_human(view->compare->others, "ratio", "%", false).text);
}

static void put_cuts(struct infp_str *out, const struct infp_compare_view *view)
{
        if (view->compare->cuts_differ && *view->compare->mode)
                infp_str_puts(out,
                              "One side has more incomplete stacks than the other: shares with what functions call "
                              "depend on it, those of their own samples do not.");
        else if (view->compare->no_functions)
                infp_str_printf(out, "Functions are not compared: %s.", view->compare->no_functions);
}

static void put_why(struct infp_str *out, const struct infp_compare_view *view, unsigned wanted)
{
        const struct infp_compare *compare = view->compare;
        const char *why = NULL;
        unsigned n = 0, reasons = 0;

        for (unsigned i = 0; i < compare->n; i++) {
                const char *one = compare->rows[i].difference.why;
                bool is_new = one;

                for (unsigned k = 0; k < i; k++)
                        is_new &= compare->rows[k].difference.why != one;
                if (is_new && reasons++ == wanted)
                        why = one;
        }
        for (unsigned i = 0; why && i < compare->n; i++)
                if (compare->rows[i].difference.why == why && n++ < MOST_NAMED)
                        infp_str_printf(out, "%s%s", n > 1 ? ", " : "", compare->rows[i].name);
        if (n > MOST_NAMED)
                infp_str_printf(out, " and %s more", infp_count(n - MOST_NAMED).text);
        if (why)
                infp_str_printf(out, ": %s.", why);
}

bool infp_compare_note(struct infp_str *out, const struct infp_compare_view *view, unsigned i)
{
        enum { METHOD, NOISE, OTHERS, CUTS, UNLIKE, REASONS };
        const size_t begin = out->size;

        if (i == METHOD && view->compare->n_tested)
                put_method(out, view);
        if (i == NOISE && view->compare->n_tested)
                put_noise(out, view);
        if (i == OTHERS)
                put_others(out, view);
        if (i == CUTS)
                put_cuts(out, view);
        if (i == UNLIKE && view->unlike)
                infp_str_printf(out, "The runs are unlike: %s.", view->unlike);
        if (i >= REASONS)
                put_why(out, view, i - REASONS);
        return i < REASONS || out->size > begin;
}

void infp_compare_gate(struct infp_str *out, const struct infp_gate_result *result)
{
        const struct infp_difference *d = result->row ? &result->row->difference : NULL;

        infp_str_printf(out, "%s of %c: %s", result->gate->text, infp_compare_letter(result->side),
                        infp_gate_state_name(result->state));
        if (!d || result->state == INFP_GATE_ABSENT)
                return;
        infp_str_printf(out, ": %s", infp_compare_change(d, d->difference).text);
        if (isfinite(result->low) && isfinite(result->high)) {
                const struct infp_difference wide = { .low = result->low, .high = result->high };

                infp_str_puts(out, " (");
                infp_compare_interval(out, &wide);
                infp_str_puts(out, ")");
        }
        if (result->state == INFP_GATE_UNDECIDED && d->why)
                infp_str_printf(out, "; %s", d->why);
        else if (result->state == INFP_GATE_UNDECIDED && d->is_of_blocks && fabs(d->estimate) <= d->floor)
                infp_str_printf(out, "; within the noise of one run%s, %s", d->is_disturbed ? " on a busy machine" : "",
                                infp_compare_change(d, d->noise).text);
}
