/* Spans that programs recorded, by name: in the text report and in its JSON. */
#include <math.h>
#include <string.h>

#include "base/human.h"
#include "view/report/parts.h"

enum { SHOWN = 12, NAME_WIDTH = 24 };

static void put_time(struct infp_out *out, double seconds)
{
        infp_report_put(out, " %9s", isnan(seconds) ? "-" : infp_report_seconds(seconds).text);
}

static double quantile_s(struct infp_program_span *span, double q)
{
        struct infp_quantile at;

        return infp_samples_quantile(&span->durations, q, &at) ? at.estimate : NAN;
}

struct infp_program_span_times infp_program_span_times(struct infp_program_span *span)
{
        const struct infp_stat *stat = &span->durations.stat;

        return (struct infp_program_span_times){
                .total_s = stat->n ? stat->mean * (double) stat->n / 1e9 : NAN,
                .mean_s = stat->n ? stat->mean / 1e9 : NAN,
                .p50_s = quantile_s(span, 0.5),
                .p99_s = quantile_s(span, 0.99),
                .max_s = stat->n ? stat->max / 1e9 : NAN,
        };
}

static void put_span(struct infp_out *out, struct infp_program_span *span)
{
        const struct infp_program_span_times times = infp_program_span_times(span);

        infp_report_put(out, "  ");
        infp_report_put_padded(out, span->name, NAME_WIDTH, false);
        infp_report_put(out, " %8s", infp_count(span->n).text);
        put_time(out, times.total_s);
        put_time(out, times.mean_s);
        put_time(out, times.p50_s);
        put_time(out, times.p99_s);
        if (span->n_errors)
                infp_report_put(out, "  %s with an error", infp_count(span->n_errors).text);
        if (span->n_open)
                infp_report_put(out, "  %s not ended", infp_count(span->n_open).text);
        infp_report_end(out);
}

void infp_report_program_spans(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_program_spans *spans = &report->program_spans;
        uint64_t n_shown = 0;

        if (!spans->n)
                return;
        infp_report_title(out, "Spans of programs              count     total      mean       p50       p99");
        /* bound: the rest is counted below */
        for (unsigned i = 0; i < spans->n && i < SHOWN; i++) {
                put_span(out, &spans->list[i]);
                n_shown += spans->list[i].n;
        }
        if (n_shown < spans->n_rows)
                infp_report_line(out, "", "%s more of other names; `infprof query \"FROM spans\"` has them all",
                                 infp_count(spans->n_rows - n_shown).text);
}

void infp_report_json_program_spans(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_program_spans *spans = &report->program_spans;

        infp_json_key(json, "spans");
        infp_json_array(json);
        for (unsigned i = 0; i < spans->n; i++) {
                struct infp_program_span *span = &spans->list[i];
                const struct infp_program_span_times times = infp_program_span_times(span);

                infp_json_object(json);
                infp_json_member_str(json, "name", span->name);
                infp_json_member_u64(json, "n", span->n);
                infp_json_member_u64(json, "errors", span->n_errors);
                infp_json_member_u64(json, "open", span->n_open);
                infp_json_member_f64(json, "total_s", times.total_s);
                infp_json_member_f64(json, "mean_s", times.mean_s);
                infp_json_member_f64(json, "p50_s", times.p50_s);
                infp_json_member_f64(json, "p99_s", times.p99_s);
                infp_json_member_f64(json, "max_s", times.max_s);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_member_u64(json, "spans_left_out", spans->n_left_out);
}
