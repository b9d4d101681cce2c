/* What holds the target back, by rules: for people, and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/report/findings.h"
#include "view/report/parts.h"

enum { MOST_SHORT = 2, HOTSPOTS = 10, HOTSPOTS_JSON = 50 };

static struct human percent(double share)
{
        return infp_fixed(100 * share, share < 0.0995 ? 1 : 0);
}

static void put_title(struct infp_str *out, const struct infp_bottleneck *f)
{
        infp_str_printf(out, "%s (%s)", f->rule->title, f->rule->id);
        if (isnan(f->share))
                return;
        infp_str_printf(out, ": %s %%", percent(f->share).text);
        if (!isnan(f->low))
                infp_str_printf(out, " (%s to %s %%)", percent(f->low).text, percent(f->high).text);
        infp_str_printf(out, " of %s%s", f->rule->of, f->is_estimated ? ", estimated" : "");
}

static void put_place(struct infp_str *out, const struct infp_bottleneck_place *place)
{
        infp_str_puts(out, place->function ? place->function : "(a stack without names)");
        if (place->file && place->line)
                infp_str_printf(out, " (%s:%lld)", place->file, (long long) place->line);
        else if (place->file)
                infp_str_printf(out, " (%s)", place->file);
        if (!isnan(place->share))
                infp_str_printf(out, " %s %%", percent(place->share).text);
}

static void put_evidence(struct infp_out *out, const struct infp_bottleneck *f)
{
        infp_autostr struct infp_str where = { 0 };

        for (unsigned i = 0; i < f->n_lines; i++)
                infp_report_line(out, i ? "" : "evidence", "%s", f->lines[i]);
        for (unsigned i = 0; i < f->n_places; i++) {
                infp_str_puts(&where, i ? ", " : "");
                put_place(&where, &f->places[i]);
        }
        if (where.size)
                infp_report_line(out, "where", "%s", where.data);
}

static void put_finding(struct infp_out *out, const struct infp_report *report, const struct infp_bottleneck *f)
{
        infp_autostr struct infp_str title = { 0 }, query = { 0 };

        put_title(&title, f);
        infp_report_end(out);
        infp_report_style(out, "1");
        infp_report_line(out, infp_severity_name(f->severity), "%s", title.data ? title.data : "");
        infp_report_style(out, "0");
        if (f->cause)
                infp_report_line(out, "follows from", "%s", f->cause->rule->title);
        put_evidence(out, f);
        infp_report_line(out, "try", "%s", f->rule->advice);
        infp_report_line(out, "verify", "%s", f->rule->verify);
        infp_rule_query(&query, f->rule, report);
        infp_report_line(out, "query", "%s", query.data ? query.data : "");
}

static void put_hotspots(struct infp_out *out, const struct infp_bottlenecks *findings)
{
        if (!findings->n_hotspots)
                return;
        infp_report_title(out, "Functions above 5 % of the CPU time, in themselves");
        for (unsigned i = 0; i < findings->n_hotspots && i < HOTSPOTS; i++) { /* bound: those that take the most */
                const struct infp_hotspot *h = &findings->hotspots[i];

                infp_report_line(out, infp_severity_name(h->severity), "%s %% (%s to %s %%)  %s%s%s",
                                 percent(h->share).text, percent(h->low).text, percent(h->high).text, h->function->name,
                                 h->function->object ? "  " : "", h->function->object ? h->function->object : "");
        }
}

/* Rules with one reason are named together, with the first of them. */
static void put_unchecked(struct infp_out *out, const struct infp_bottlenecks *findings)
{
        const char *label = "not checked";

        for (unsigned i = 0; i < findings->n_unchecked; i++) {
                infp_autostr struct infp_str names = { 0 };
                const char *reason = findings->unchecked[i].reason;
                unsigned first = 0;

                while (strcmp(findings->unchecked[first].reason, reason) != 0)
                        first++;
                for (unsigned k = i; first == i && k < findings->n_unchecked; k++)
                        if (!strcmp(findings->unchecked[k].reason, reason))
                                infp_str_printf(&names, "%s%s", k > i ? ", " : "", findings->unchecked[k].rule->id);
                if (!names.size)
                        continue;
                infp_report_line(out, label, "%s: %s", names.data, reason);
                label = "";
        }
}

static void put_rest(struct infp_out *out, const struct infp_bottlenecks *findings)
{
        infp_autostr struct infp_str clear = { 0 };

        infp_report_end(out);
        for (unsigned i = 0; i < findings->n_clear; i++)
                infp_str_printf(&clear, "%s%s", i ? ", " : "", findings->clear[i]->id);
        if (clear.size)
                infp_report_line(out, "clear", "%s", clear.data);
        put_unchecked(out, findings);
}

void infp_bottlenecks_text(struct infp_out *out, const struct infp_report *report, enum infp_severity least)
{
        const struct infp_bottlenecks *findings = &report->findings;
        unsigned n = 0;

        infp_report_title(out, "Bottlenecks");
        for (unsigned i = 0; i < findings->n; i++)
                if (findings->list[i].severity >= least) {
                        put_finding(out, report, &findings->list[i]);
                        n++;
                }
        if (!n)
                infp_report_line(out, "none", "nothing was found%s%s%s",
                                 findings->n ? " that is " : " by the rules that could be checked",
                                 findings->n ? infp_severity_name(least) : "", findings->n ? " or worse" : "");
        put_hotspots(out, findings);
        put_rest(out, findings);
}

void infp_report_findings(struct infp_out *out, const struct infp_report *report)
{
        if (report->limits.n)
                infp_bottlenecks_text(out, report, INFP_SEVERITY_LOW);
}

/* The worst, without what follows from it: a line each. */
void infp_report_findings_short(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_bottlenecks *findings = &report->findings;
        unsigned n = 0;

        if (!findings->n)
                return;
        infp_report_title(out, "Bottlenecks");
        /* bound: the verb that is named below has all */
        for (unsigned i = 0; i < findings->n && n < MOST_SHORT; i++) {
                infp_autostr struct infp_str title = { 0 };

                if (findings->list[i].cause)
                        continue;
                n++;
                put_title(&title, &findings->list[i]);
                infp_report_line(out, infp_severity_name(findings->list[i].severity), "%s",
                                 title.data ? title.data : "");
        }
        infp_report_line(out, "", "evidence, and what to try: `infprof bottlenecks`");
}

/* JSON */

static void put_places(struct infp_json *json, const struct infp_bottleneck *f)
{
        infp_json_key(json, "functions");
        infp_json_array(json);
        for (unsigned i = 0; i < f->n_places; i++) {
                infp_json_object(json);
                infp_json_member_str(json, "function", f->places[i].function);
                infp_json_member_str(json, "file", f->places[i].file);
                infp_json_key(json, "line");
                if (f->places[i].line)
                        infp_json_i64(json, f->places[i].line);
                else
                        infp_json_null(json);
                infp_json_member_f64(json, "share", f->places[i].share);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

/* The mission's four members, and why two of them are null. */
static void put_call(struct infp_json *json, const char *function)
{
        infp_json_member_str(json, "function", function);
        infp_json_member_f64(json, "avg_time_ms", NAN);
        infp_json_member_f64(json, "call_count", NAN);
        infp_json_member_str(json, "null_because", function ? INFP_CALLS_UNKNOWN : INFP_NO_FUNCTION);
}

static void put_member(struct infp_json *json, const struct infp_report *report, const struct infp_bottleneck *f)
{
        infp_autostr struct infp_str query = { 0 };

        infp_rule_query(&query, f->rule, report);
        infp_json_object(json);
        infp_json_member_str(json, "rule", f->rule->id);
        infp_json_member_str(json, "title", f->rule->title);
        infp_json_member_str(json, "severity", infp_severity_name(f->severity));
        infp_json_member_f64(json, "share", f->share);
        infp_json_member_str(json, "share_of", isnan(f->share) ? NULL : f->rule->of);
        infp_json_member_f64(json, "share_low", f->low);
        infp_json_member_f64(json, "share_high", f->high);
        infp_json_member_str(json, "share_null_because", f->no_share);
        infp_json_member_str(json, "interval_null_because", isnan(f->low) ? f->no_interval : NULL);
        infp_json_member_bool(json, "estimated", f->is_estimated);
        infp_json_member_str(json, "cause", f->cause ? f->cause->rule->id : NULL);
        infp_json_member_i64(json, "from_unix_ms", report->from_unix_ns / 1000000);
        infp_json_member_i64(json, "to_unix_ms", report->to_unix_ns / 1000000);
        infp_json_key(json, "evidence");
        infp_json_array(json);
        for (unsigned i = 0; i < f->n_lines; i++)
                infp_json_str(json, f->lines[i]);
        infp_json_array_end(json);
        put_places(json, f);
        put_call(json, f->n_places ? f->places[0].function : NULL);
        infp_json_member_str(json, "try", f->rule->advice);
        infp_json_member_str(json, "verify", f->rule->verify);
        infp_json_member_str(json, "query", query.data);
        infp_json_object_end(json);
}

static void put_hotspot_members(struct infp_json *json, const struct infp_bottlenecks *findings)
{
        infp_json_key(json, "hotspots");
        infp_json_array(json);
        for (unsigned i = 0; i < findings->n_hotspots && i < HOTSPOTS_JSON; i++) { /* bound: above 5 % are at most 20 */
                const struct infp_hotspot *h = &findings->hotspots[i];

                infp_json_object(json);
                put_call(json, h->function->name);
                infp_json_member_str(json, "severity", infp_severity_name(h->severity));
                infp_json_member_str(json, "object", h->function->object);
                infp_json_member_str(json, "file", h->function->file);
                infp_json_member_f64(json, "share", h->share);
                infp_json_member_f64(json, "share_low", h->low);
                infp_json_member_f64(json, "share_high", h->high);
                infp_json_member_u64(json, "samples", h->function->self_samples);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

void infp_bottlenecks_members(struct infp_json *json, const struct infp_report *report, enum infp_severity least)
{
        const struct infp_bottlenecks *findings = &report->findings;

        infp_json_key(json, "findings");
        infp_json_array(json);
        for (unsigned i = 0; i < findings->n; i++)
                if (findings->list[i].severity >= least)
                        put_member(json, report, &findings->list[i]);
        infp_json_array_end(json);
        put_hotspot_members(json, findings);
        infp_json_key(json, "findings_clear");
        infp_json_array(json);
        for (unsigned i = 0; i < findings->n_clear; i++)
                infp_json_str(json, findings->clear[i]->id);
        infp_json_array_end(json);
        infp_json_key(json, "findings_not_checked");
        infp_json_array(json);
        for (unsigned i = 0; i < findings->n_unchecked; i++) {
                infp_json_object(json);
                infp_json_member_str(json, "rule", findings->unchecked[i].rule->id);
                infp_json_member_str(json, "title", findings->unchecked[i].rule->title);
                infp_json_member_str(json, "reason", findings->unchecked[i].reason);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

/* The rules, as Markdown: docs/bottlenecks.md below its introduction. */

static void put_steps(struct infp_str *out, const struct infp_rule *rule)
{
        if (rule->steps[0] > 1)
                return;
        infp_str_puts(out, "- **Severity:**");
        for (int i = 0; i < INFP_SEVERITIES; i++)
                infp_str_printf(out, "%s %s from %s %%", i ? "," : "", infp_severity_name((enum infp_severity) i),
                                infp_number(100 * rule->steps[i]).text);
        infp_str_printf(out, " of %s.\n", rule->of);
}

void infp_rules_markdown(struct infp_str *out)
{
        for (const struct infp_rule *rule = infp_rules; rule->id; rule++) {
                infp_str_printf(out, "\n### %s\n\n%s.\n\n", rule->id, rule->title);
                infp_str_printf(out, "- **What it means:** %s\n", rule->means);
                infp_str_printf(out, "- **How it is decided:** %s\n", rule->decided);
                put_steps(out, rule);
                infp_str_printf(out, "- **Why these figures:** %s\n", rule->why);
                infp_str_printf(out, "- **Needs:** %s.\n", rule->needs);
                infp_str_printf(out, "- **What to do:** %s\n", rule->advice);
                infp_str_printf(out, "- **How to verify:** %s\n", rule->verify);
                infp_str_puts(out, "- **Query:** `");
                infp_rule_query(out, rule, NULL);
                infp_str_puts(out, "`\n");
                for (unsigned i = 0; i < INFP_RULE_CAUSES && rule->causes[i]; i++)
                        infp_str_printf(out, "%s`%s`", i ? ", " : "- **May follow from:** ", rule->causes[i]);
                infp_str_puts(out, rule->causes[0] ? ".\n" : "");
        }
}
