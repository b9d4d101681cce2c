/* Functions that the time went to, a mode after the other. */
#include <string.h>

#include "analyze/profile/flame_top.h"
#include "view/flame/top.h"
#include "view/flame/trust.h"
#include "view/report/parts.h"

enum { MOST = 10, MOST_SHORT = 5, MOST_JSON = 50 };

void infp_report_functions_title(struct infp_str *out, const char *what, const char *mode, enum infp_profile_part part)
{
        const enum infp_stack_mode own = infp_stack_mode_of(mode);

        infp_str_printf(out, "%s %s%s", what,
                        own < INFP_STACK_MODES ? infp_stack_modes[own].words : "of the imported profile",
                        part == INFP_PROFILE_PYTHON   ? " (Python only)"
                        : part == INFP_PROFILE_NATIVE ? " (without Python)"
                                                      : "");
}

static void put_title(struct infp_out *out, const struct infp_report *report, const char *what, const char *mode)
{
        infp_autostr struct infp_str title = { 0 };

        infp_report_functions_title(&title, what, mode, report->functions.part);
        infp_report_title(out, title.data ? title.data : what);
}

/* Samples were wanted but none was taken; no line for a target that did not run. */
static void put_none(struct infp_out *out, const struct infp_report *report, const char *what, bool is_short)
{
        const struct infp_sampling_mode *cpu = infp_sampling_find(&report->functions.sampling, INFP_STACK_CPU);
        const struct infp_absence *refused = infp_absences_find(&report->absences, "sampler", "perf");
        infp_autostr struct infp_str words = { 0 };

        if (!cpu || (is_short && !(cpu->wanted >= 1) && !refused) || cpu->taken > 0)
                return;
        put_title(out, report, what, infp_stack_modes[INFP_STACK_CPU].name);
        infp_sampling_none(&words, cpu, refused);
        infp_report_line(out, "none", "%s", words.data ? words.data : "");
}

static void put_modes(struct infp_out *out, const struct infp_report *report, const struct infp_flame *flames,
                      const char *what)
{
        put_none(out, report, what, false);
        for (unsigned i = 0; i < report->functions.n; i++) {
                const struct infp_flame *flame = &flames[i];
                infp_autostr struct infp_str words = { 0 }, folded = { 0 }, lineless = { 0 };

                put_title(out, report, what, flame->mode);
                if (report->functions.part != INFP_PROFILE_WHOLE)
                        infp_report_line(out, "samples", "%s of %s have such a function",
                                         infp_count(flame->samples + flame->folded.samples).text,
                                         infp_count(flame->all_samples).text);
                if (!flame->samples)
                        continue;
                infp_flame_top_folded(&folded, flame);
                if (folded.size)
                        infp_report_line(out, "waiting", "%s", folded.data);
                infp_flame_top_table(out, flame, false, MOST, infp_report_width(out));
                infp_report_end(out);
                infp_flame_top_table(out, flame, true, MOST, infp_report_width(out));
                infp_report_end(out);
                infp_flame_top_lineless(&lineless, flame);
                if (lineless.size)
                        infp_report_line(out, "no line", "%s", lineless.data);
                infp_sampling_words(&words, flame,
                                    infp_sampling_find(&report->functions.sampling, infp_stack_mode_of(flame->mode)));
                infp_report_line(out, "trust", "%s", words.data ? words.data : "");
        }
}

void infp_report_functions(struct infp_out *out, const struct infp_report *report)
{
        put_modes(out, report, report->functions.flames, "Functions");
}

void infp_report_lines(struct infp_out *out, const struct infp_report *report)
{
        put_modes(out, report, report->functions.lines, "Source lines");
}

/* Of the first mode, which is CPU where that was sampled. */
void infp_report_functions_short(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_report_functions *functions = &report->functions;
        infp_autostr struct infp_str others = { 0 };

        put_none(out, report, "Functions", true);
        if (!functions->n)
                return;
        put_title(out, report, "Functions", functions->flames[0].mode);
        infp_flame_top_short(out, &functions->flames[0], MOST_SHORT, infp_report_width(out));
        for (unsigned i = 1; i < functions->n; i++)
                infp_str_printf(&others, "%s%s", i > 1 ? ", " : "; also by ", functions->flames[i].mode);
        infp_report_line(out, "samples", "%s; callers, intervals and trust: `infprof report functions`%s",
                         infp_count(functions->flames[0].samples).text, others.data ? others.data : "");
}

/* A member each mode: "cpu", as in the mission's report. */
static void put_json(struct infp_json *json, const char *key, const struct infp_report *report,
                     const struct infp_flame *flames)
{
        infp_json_key(json, key);
        infp_json_object(json);
        for (unsigned i = 0; i < report->functions.n; i++) {
                const struct infp_flame_top_view view = { .flame = &flames[i],
                                                          .sampling = &report->functions.sampling,
                                                          .most = MOST_JSON };

                infp_json_key(json, *view.flame->mode ? view.flame->mode : "unknown");
                infp_json_object(json);
                infp_flame_top_members(json, &view);
                infp_json_object_end(json);
        }
        infp_json_object_end(json);
}

void infp_report_json_functions(struct infp_json *json, const struct infp_report *report)
{
        put_json(json, "functions", report, report->functions.flames);
        put_json(json, "lines", report, report->functions.lines);
}
