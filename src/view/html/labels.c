/* What happened between the labels, as a table: of --labels, or of a range between two marks. */
#include <math.h>
#include <stdio.h>

#include "view/html/parts.h"
#include "view/report/parts.h"

enum { ROWS = 200 };

static void put_cell(struct infp_str *out, const char *text)
{
        infp_str_puts(out, "<td class=\"number\">");
        infp_html_text(out, text);
        infp_str_puts(out, "</td>");
}

/* Mean and deviation of a figure; "-" where it has no samples. */
static void put_stat(struct infp_str *out, const struct infp_stat *stat, const char *base, const char *unit)
{
        char text[128] = "-";

        if (stat->n > 1)
                snprintf(text, sizeof(text), "%s ± %s", infp_human(infp_stat_mean(stat), base, unit, false).text,
                         infp_human(infp_stat_sample_std(stat), base, unit, false).text);
        else if (stat->n)
                snprintf(text, sizeof(text), "%s", infp_human(infp_stat_mean(stat), base, unit, false).text);
        put_cell(out, text);
}

static void put_row(struct infp_str *out, const struct infp_labelled_span *span, const char *from, const char *to)
{
        char text[160] = "-";

        infp_str_puts(out, "\n<tr><th scope=\"row\">");
        infp_html_text(out, from);
        infp_str_puts(out, "</th><td>");
        infp_html_text(out, to);
        infp_str_puts(out, "</td>");
        put_cell(out, infp_human(span->seconds, "seconds", "s", false).text);
        put_stat(out, &span->cpu_percent, "", "");
        put_stat(out, &span->rss_bytes, "bytes", "bytes");
        put_stat(out, &span->cores.average, "", "");
        if (isfinite(infp_span_joules(span)))
                snprintf(text, sizeof(text), "%s, %s%s", infp_human(infp_span_joules(span), "joules", "J", false).text,
                         infp_human(infp_span_watts(span), "watts", "W", false).text,
                         span->energy_is_estimated ? " (estimated)" : "");
        put_cell(out, text);
        infp_str_puts(out, "</tr>");
}

void infp_html_labels(struct infp_str *out, const struct infp_report *report)
{
        const struct infp_labels *labels = &report->labels;
        const unsigned n = report->spans.n < ROWS ? report->spans.n : ROWS;

        if (!n)
                return;
        infp_str_puts(
                out,
                "<section id=\"labels\" aria-labelledby=\"labels-title\"><h2 id=\"labels-title\">Between labels</h2>\n"
                "<div class=\"card wide\"><p class=\"note\">Means of the samples between them, and their deviation.");
        if (n < report->spans.n)
                infp_str_printf(out, " The first %u of %u; infprof report --labels --csv has all.", n, report->spans.n);
        infp_str_puts(out, "</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: between "
                           "labels\"><table>"
                           "<thead><tr><th scope=\"col\">from</th><th scope=\"col\">to</th><th scope=\"col\" "
                           "class=\"number\">time</th>"
                           "<th scope=\"col\" class=\"number\">CPU of the target, % of all CPUs</th>"
                           "<th scope=\"col\" class=\"number\">memory of the target</th>"
                           "<th scope=\"col\" class=\"number\">load of the machine, %</th>"
                           "<th scope=\"col\" class=\"number\">energy</th></tr></thead><tbody>");
        for (unsigned i = 0; i < n; i++)
                put_row(out, &report->spans.list[i], report->lists_labels ? labels->list[i].tag : report->from_label,
                        report->lists_labels ? labels->list[i + 1].tag : report->to_label);
        infp_str_puts(out, "\n</tbody></table></div></div></section>\n");
}
