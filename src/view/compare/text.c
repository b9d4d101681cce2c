#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "view/compare/parts.h"
#include "view/report/parts.h"

enum { FIGURES_WIDTH = 78, MOST_WITHOUT = 8 }; /* rows of a section without evidence */

static bool has_evidence(const struct infp_compare_row *row)
{
        return row->difference.verdict != INFP_VERDICT_NONE && row->difference.verdict != INFP_VERDICT_UNKNOWN;
}

static void put_row(struct infp_out *out, const struct infp_compare_row *row)
{
        const struct infp_difference *d = &row->difference;
        infp_autostr struct infp_str interval = { 0 }, name = { 0 };
        const unsigned width = infp_report_width(out);
        const double finds =
                d->detectable < (d->is_points ? 1 : 99) ? d->detectable : NAN; /* of two runs a side: nothing */

        infp_compare_interval(&interval, d);
        infp_str_printf(&name, "%s%s%s", row->name, row->object ? "  " : "", row->object ? row->object : "");
        infp_report_put(out, "%11s %11s %9s %18s %7s  ", infp_compare_amount(row, d->before).text,
                        infp_compare_amount(row, d->after).text, infp_compare_change(d, d->difference).text,
                        interval.data ? interval.data : "", infp_compare_change(d, finds).text);
        if (has_evidence(row))
                infp_report_style(out, "1");
        infp_report_put(out, "%-11s", infp_verdict_name(d->verdict));
        infp_report_style(out, "0");
        infp_report_put(out, "  ");
        infp_report_put_padded(out, name.data ? name.data : "",
                               width > FIGURES_WIDTH + 24 ? width - FIGURES_WIDTH : 200, true);
        infp_report_end(out);
}

/* Without evidence a few functions are enough, and none that nearly every stack passes. n: of those that are shown already. */
static bool is_worth_a_line(const struct infp_compare_row *row, unsigned n)
{
        const bool is_passed =
                row->section == INFP_COMPARE_TOTAL_OF && row->difference.before > 0.9 && row->difference.after > 0.9;

        return row->section == INFP_COMPARE_NUMBERS || has_evidence(row) || (n < MOST_WITHOUT && !is_passed);
}

static void put_section(struct infp_out *out, const struct infp_compare *compare, unsigned side,
                        enum infp_compare_section section)
{
        const struct infp_compare_title *title = &infp_compare_titles[section];
        unsigned n_without = 0, n_hidden = 0;
        bool has_title = false;

        for (unsigned i = 0; i < compare->n; i++) {
                const struct infp_compare_row *row = &compare->rows[i];

                if (row->side != side || row->section != section)
                        continue;
                if (!is_worth_a_line(row, n_without)) {
                        n_hidden++;
                        continue;
                }
                n_without += !has_evidence(row);
                if (!has_title) {
                        infp_report_title(out, title->title);
                        infp_report_put(out, "%11c %11c %9s %18s %7s  %s", infp_compare_letter(0),
                                        infp_compare_letter(side),
                                        title->unit_of_change[0] == '%' ? "change" : "points", "95 % interval", "finds",
                                        "verdict");
                        infp_report_end(out);
                }
                has_title = true;
                put_row(out, row);
        }
        if (n_hidden)
                infp_report_line(out, "", "%s more without evidence of a difference: --json has them",
                                 infp_count(n_hidden).text);
        if (has_title && compare->n_left_out[section])
                infp_report_line(out, "", "%s more with little time were not tested",
                                 infp_count(compare->n_left_out[section]).text);
}

static void put_gates(struct infp_out *out, const struct infp_compare_view *view)
{
        if (view->n_gates)
                infp_report_title(out, "Conditions");
        for (unsigned i = 0; i < view->n_gates; i++) {
                infp_autostr struct infp_str text = { 0 };

                infp_compare_gate(&text, &view->gates[i]);
                infp_report_put(out, "  ");
                infp_report_wrap(out, text.data ? text.data : "", 2, 4);
        }
}

static void put_notes(struct infp_out *out, const struct infp_compare_view *view)
{
        infp_report_end(out);
        for (unsigned i = 0;; i++) {
                infp_autostr struct infp_str text = { 0 };

                if (!infp_compare_note(&text, view, i))
                        break;
                if (text.size)
                        infp_report_wrap(out, text.data, 0, 0);
        }
}

void infp_compare_text(struct infp_out *out, const struct infp_compare_view *view)
{
        const struct infp_compare *compare = view->compare;

        for (unsigned i = 0; i < compare->n_sides; i++) {
                infp_report_put(out, "%c  ", infp_compare_letter(i));
                infp_report_wrap(out, view->words[i], 3, 3);
        }
        for (unsigned side = 1; side < compare->n_sides; side++) {
                infp_autostr struct infp_str summary = { 0 };

                infp_report_end(out);
                infp_str_printf(&summary, "%c against %c: ", infp_compare_letter(side), infp_compare_letter(0));
                infp_compare_summary(&summary, view, side);
                infp_report_style(out, "1");
                infp_report_wrap(out, summary.data ? summary.data : "", 0, 0);
                infp_report_style(out, "0");
                for (unsigned section = 0; section < INFP_COMPARE_SECTIONS; section++)
                        put_section(out, compare, side, section);
        }
        put_gates(out, view);
        put_notes(out, view);
}
