/* The report in the shape of the mission: exactly its keys, and one more, `absent`, with the reason for each null. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyze/profile/flame_top.h"
#include "base/mem.h"
#include "view/flame/trust.h"
#include "view/report/findings.h"

enum { MOST_FUNCTIONS = 20 };
static const double mib = 1 << 20;
/* Share of the range that spans of one name took. */
static const double span_steps[INFP_SEVERITIES] = { 0.02, 0.05, 0.2, 0.5 };

static void add_spans(const struct infp_report *report, double threshold_ms, enum infp_severity least,
                      struct infp_call *ret, unsigned *n)
{
        for (unsigned i = 0; i < report->program_spans.n; i++) {
                const struct infp_program_span *span = &report->program_spans.list[i];
                const struct infp_stat *stat = &span->durations.stat;
                const double mean_s = infp_stat_mean(stat) / 1e9;
                const enum infp_severity severity =
                        infp_severity_of(mean_s * (double) stat->n / report->wall_s, span_steps);

                if (!(mean_s * 1000 >= threshold_ms) || severity == INFP_SEVERITIES || severity < least)
                        continue;
                ret[(*n)++] = (struct infp_call){
                        .function = span->name, .avg_ms = 1000 * mean_s, .calls = (double) stat->n, .severity = severity
                };
        }
}

int infp_calls_find(const struct infp_report *report, double threshold_ms, enum infp_severity least,
                    struct infp_call **ret, unsigned *ret_n)
{
        const struct infp_bottlenecks *findings = &report->findings;
        struct infp_call *list =
                calloc(findings->n + findings->n_hotspots + report->program_spans.n + 1, sizeof(*list));
        unsigned n = 0;

        if (!list)
                return -ENOMEM;
        for (unsigned i = 0; i < findings->n; i++) {
                const struct infp_bottleneck *f = &findings->list[i];
                const char *function = f->n_places ? f->places[0].function : NULL;

                if (f->severity >= least)
                        list[n++] = (struct infp_call){ function, NAN, NAN, f->severity,
                                                        function ? INFP_CALLS_UNKNOWN : INFP_NO_FUNCTION };
        }
        for (unsigned i = 0; i < findings->n_hotspots; i++)
                if (findings->hotspots[i].severity >= least)
                        list[n++] = (struct infp_call){ findings->hotspots[i].function->name, NAN, NAN,
                                                        findings->hotspots[i].severity, INFP_CALLS_UNKNOWN };
        add_spans(report, threshold_ms, least, list, &n);
        *ret = list;
        *ret_n = n;
        return 0;
}

void infp_calls_member(struct infp_json *json, const struct infp_call *calls, unsigned n, bool has_reasons)
{
        infp_json_key(json, "bottlenecks");
        infp_json_array(json);
        for (unsigned i = 0; i < n; i++) {
                infp_json_object(json);
                infp_json_member_str(json, "function", calls[i].function);
                infp_json_member_f64(json, "avg_time_ms", calls[i].avg_ms);
                infp_json_key(json, "call_count");
                if (isnan(calls[i].calls))
                        infp_json_null(json);
                else
                        infp_json_u64(json, (uint64_t) calls[i].calls);
                infp_json_member_str(json, "severity", infp_severity_name(calls[i].severity));
                if (has_reasons)
                        infp_json_member_str(json, "null_because", calls[i].null_because);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static const struct infp_flame *cpu_of(const struct infp_report *report)
{
        for (unsigned i = 0; i < report->functions.n; i++)
                if (infp_stack_mode_of(report->functions.flames[i].mode) == INFP_STACK_CPU)
                        return &report->functions.flames[i];
        return NULL;
}

static void put_function(struct infp_json *json, const struct infp_flame *flame, const struct infp_flame_function *f)
{
        infp_json_object(json);
        infp_json_member_str(json, "name", f->name);
        infp_json_member_u64(json, "samples", f->self_samples);
        /* a sum of all may be a rounding error more */
        infp_json_member_f64(json, "percent", fmin(infp_flame_share(flame, f->self_weight).percent, 100));
        infp_json_member_str(json, "file", f->file);
        infp_json_key(json, "line");
        if (f->file && f->line)
                infp_json_i64(json, f->line);
        else
                infp_json_null(json);
        infp_json_object_end(json);
}

static void put_cpu(struct infp_json *json, const struct infp_flame *flame, const uint32_t *top, uint32_t n)
{
        infp_json_key(json, "cpu");
        infp_json_object(json);
        infp_json_key(json, "total_samples");
        if (flame)
                infp_json_u64(json, flame->samples);
        else
                infp_json_null(json);
        infp_json_key(json, "top_functions");
        if (flame)
                infp_json_array(json);
        else
                infp_json_null(json);
        for (uint32_t i = 0; flame && i < n; i++)
                put_function(json, flame, &flame->functions[top[i]]);
        if (flame)
                infp_json_array_end(json);
        infp_json_object_end(json);
}

static void put_memory(struct infp_json *json, const struct infp_report *report, double peak)
{
        infp_json_key(json, "memory");
        infp_json_object(json);
        infp_json_member_f64(json, "peak_mb", peak / mib);
        infp_json_key(json, "allocations");
        if (report->heap.has)
                infp_json_u64(json, (uint64_t) llround(report->heap.blocks_allocated));
        else
                infp_json_null(json);
        infp_json_member_f64(json, "leaked_mb", report->heap.has ? report->heap.leaked_bytes / mib : NAN);
        infp_json_object_end(json);
}

static void put_reason(struct infp_json *json, const char *reason, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
static void put_reason(struct infp_json *json, const char *reason, const char *format, ...)
{
        char path[80];
        va_list ap;

        va_start(ap, format);
        vsnprintf(path, sizeof(path), format, ap);
        va_end(ap);
        infp_json_member_str(json, path, reason);
}

/* Why there are no samples, as the report has it. */
static void put_no_cpu(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_sampling_mode *cpu = infp_sampling_find(&report->functions.sampling, INFP_STACK_CPU);
        infp_autostr struct infp_str words = { 0 };

        if (cpu)
                infp_sampling_none(&words, cpu, infp_absences_find(&report->absences, "sampler", "perf"));
        if (!words.size)
                infp_str_puts(&words, "stacks were not sampled: record with --cpu");
        put_reason(json, words.data, "cpu.total_samples");
        put_reason(json, words.data, "cpu.top_functions");
}

static void put_absent(struct infp_json *json, const struct infp_report *report, const struct infp_flame *flame,
                       const uint32_t *top, uint32_t n_top, double peak, const struct infp_call *calls,
                       unsigned n_calls)
{
        static const char no_heap[] = "blocks of the heap were not recorded: record with --heap";

        infp_json_key(json, "absent");
        infp_json_object(json);
        if (!flame)
                put_no_cpu(json, report);
        for (uint32_t i = 0; i < n_top; i++) {
                const struct infp_flame_function *f = &flame->functions[top[i]];

                if (!f->file)
                        put_reason(json, "no debug information names its source", "cpu.top_functions[%u].file", i);
                if (!f->file || !f->line)
                        put_reason(json, "no debug information names its line", "cpu.top_functions[%u].line", i);
        }
        if (isnan(peak))
                put_reason(json, "the memory of a target was not recorded", "memory.peak_mb");
        if (!report->heap.has) {
                put_reason(json, no_heap, "memory.allocations");
                put_reason(json, no_heap, "memory.leaked_mb");
        }
        for (unsigned i = 0; i < n_calls; i++) {
                if (!calls[i].function)
                        put_reason(json, calls[i].null_because, "bottlenecks[%u].function", i);
                if (isnan(calls[i].avg_ms)) {
                        put_reason(json, calls[i].null_because, "bottlenecks[%u].avg_time_ms", i);
                        put_reason(json, calls[i].null_because, "bottlenecks[%u].call_count", i);
                }
        }
        infp_json_object_end(json);
}

static void put_id(struct infp_json *json, const struct infp_report *report)
{
        const time_t t = (time_t) (report->from_unix_ns / 1000000000);
        char id[64] = "";
        struct tm tm;

        if (gmtime_r(&t, &tm) && strftime(id, sizeof(id), "prof_%Y%m%d_%H%M%S", &tm))
                infp_json_member_str(json, "profile_id", id);
}

int infp_profile_report(struct infp_out *out, const struct infp_report *report, double threshold_ms)
{
        const struct infp_flame *flame = cpu_of(report);
        const double peak = infp_report_tree_rss_most(report);
        infp_autofree struct infp_call *calls = NULL;
        uint32_t top[MOST_FUNCTIONS], n_top = flame ? infp_flame_top(flame, false, MOST_FUNCTIONS, top, NULL) : 0;
        struct infp_json json;
        unsigned n_calls;

        INFP_TRY(infp_calls_find(report, threshold_ms, INFP_SEVERITY_LOW, &calls, &n_calls));
        infp_json_begin(&json, &out->text, 2);
        infp_json_object(&json);
        put_id(&json, report);
        infp_json_member_f64(&json, "duration_seconds", report->wall_s);
        put_cpu(&json, flame, top, n_top);
        put_memory(&json, report, peak);
        infp_calls_member(&json, calls, n_calls, false);
        put_absent(&json, report, flame, top, n_top, peak, calls, n_calls);
        infp_json_object_end(&json);
        infp_str_putc(&out->text, '\n');
        return 0;
}
