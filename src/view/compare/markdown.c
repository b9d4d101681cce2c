/* Markdown as GitHub and GitLab show it in a comment. Names come from programs: what is markup there is escaped. */
#include <string.h>

#include "view/compare/parts.h"
#include "view/markup.h"

static void put_text(struct infp_str *out, const char *text)
{
        infp_autostr struct infp_str tame = { 0 };

        infp_text_tame(&tame, text, strlen(text));
        for (size_t i = 0; i < tame.size; i++) {
                const char *html = infp_markup_reference(tame.data[i]);

                if (html)
                        infp_str_puts(out, html);
                else if (strchr("\\`*_{}[]()#+!|~", tame.data[i]))
                        infp_str_printf(out, "\\%c", tame.data[i]);
                else
                        infp_str_putc(out, tame.data[i]);
        }
}

static void put_row(struct infp_str *out, const struct infp_compare_row *row)
{
        const struct infp_difference *d = &row->difference;
        const bool is_evidence = d->verdict != INFP_VERDICT_NONE && d->verdict != INFP_VERDICT_UNKNOWN;
        infp_autostr struct infp_str interval = { 0 };

        infp_compare_interval(&interval, d);
        infp_str_puts(out, "| ");
        put_text(out, row->name);
        infp_str_printf(out, " | %s | %s | %s%s | %s | %s%s%s |\n", infp_compare_amount(row, d->before).text,
                        infp_compare_amount(row, d->after).text, infp_compare_change(d, d->difference).text,
                        d->is_points ? " points" : "", interval.data ? interval.data : "", is_evidence ? "**" : "",
                        infp_verdict_name(d->verdict), is_evidence ? "**" : "");
}

static void put_table(struct infp_str *out, const struct infp_compare *compare, unsigned side, bool of_evidence)
{
        bool has_head = false;

        for (unsigned i = 0; i < compare->n; i++) {
                const enum infp_verdict verdict = compare->rows[i].difference.verdict;

                if (compare->rows[i].side != side ||
                    of_evidence != (verdict != INFP_VERDICT_NONE && verdict != INFP_VERDICT_UNKNOWN))
                        continue;
                if (!has_head)
                        infp_str_printf(
                                out,
                                "\n| | %c | %c | change | 95 %% interval | verdict |\n|---|---:|---:|---:|---:|---|\n",
                                infp_compare_letter(0), infp_compare_letter(side));
                has_head = true;
                put_row(out, &compare->rows[i]);
        }
}

static void put_side(struct infp_str *out, const struct infp_compare_view *view, unsigned side)
{
        infp_autostr struct infp_str summary = { 0 };

        infp_compare_summary(&summary, view, side);
        infp_str_printf(out, "\n**%c against %c:** ", infp_compare_letter(side), infp_compare_letter(0));
        put_text(out, summary.data ? summary.data : "");
        infp_str_puts(out, "\n");
        put_table(out, view->compare, side, true);
        infp_str_puts(out, "\n<details><summary>without evidence</summary>\n");
        put_table(out, view->compare, side, false);
        infp_str_puts(out, "\n</details>\n");
}

void infp_compare_markdown(struct infp_str *out, const struct infp_compare_view *view)
{
        infp_str_puts(out, "## infprof compare\n\n");
        for (unsigned i = 0; i < view->compare->n_sides; i++) {
                infp_str_printf(out, "- **%c**: ", infp_compare_letter(i));
                put_text(out, view->words[i]);
                infp_str_puts(out, "\n");
        }
        for (unsigned i = 0; i < view->n_gates; i++) {
                infp_autostr struct infp_str text = { 0 };

                infp_compare_gate(&text, &view->gates[i]);
                infp_str_puts(out, i ? "- " : "\n- ");
                put_text(out, text.data ? text.data : "");
                infp_str_puts(out, "\n");
        }
        for (unsigned side = 1; side < view->compare->n_sides; side++)
                put_side(out, view, side);
        infp_str_puts(out, "\n");
        for (unsigned i = 0;; i++) {
                infp_autostr struct infp_str text = { 0 };

                if (!infp_compare_note(&text, view, i))
                        break;
                if (!text.size)
                        continue;
                infp_str_puts(out, "- ");
                put_text(out, text.data);
                infp_str_puts(out, "\n");
        }
}
