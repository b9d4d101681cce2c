/* How long threads were stopped by record --blocking. */
#include <math.h>

#include "base/human.h"
#include "view/report/parts.h"

enum { BAR = 40 };

static double quantile_s(const struct infp_report *report, double q)
{
        struct infp_thread_stops stops = report->stops; /* sorts */
        struct infp_quantile at;

        return infp_samples_quantile(&stops.times, q, &at) ? at.estimate : NAN;
}

static uint64_t most(const struct infp_thread_stops *stops)
{
        uint64_t ret = 0;

        for (unsigned i = 0; i < INFP_STOP_BUCKETS; i++)
                ret = stops->n[i] > ret ? stops->n[i] : ret;
        return ret;
}

static void put_summary(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_stat *stat = &report->stops.times.stat;

        infp_report_line(out, "stops", "%s, %s in all, %s on average; 99 %% below %s, longest %s",
                         infp_count(stat->n).text, infp_report_seconds(stat->mean * (double) stat->n / 1e9).text,
                         infp_report_seconds(stat->mean / 1e9).text, infp_report_seconds(quantile_s(report, 0.99)).text,
                         infp_report_seconds(stat->max / 1e9).text);
}

void infp_report_stops_short(struct infp_out *out, const struct infp_report *report)
{
        if (report->stops.times.stat.n)
                put_summary(out, report);
}

void infp_report_stops(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_thread_stops *stops = &report->stops;
        const uint64_t highest = most(stops);
        unsigned first = 0, last = INFP_STOP_BUCKETS - 1;

        if (!highest)
                return;
        infp_report_title(out, "Stops of threads by --blocking");
        put_summary(out, report);
        while (!stops->n[first])
                first++;
        while (!stops->n[last])
                last--;
        for (unsigned i = first; i <= last; i++) {
                const uint32_t bound = infp_stop_bounds_us[i < INFP_STOP_BUCKETS - 1 ? i : i - 1];

                infp_report_put(out, "  %s %9s %10s  ", i < INFP_STOP_BUCKETS - 1 ? "up to" : "above",
                                infp_report_seconds((double) bound / 1e6).text, infp_count(stops->n[i]).text);
                for (uint64_t k = 0; k < (BAR * stops->n[i] + highest - 1) / highest; k++)
                        infp_report_put(out, "#");
                infp_report_end(out);
        }
}

void infp_report_json_stops(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_thread_stops *stops = &report->stops;
        const struct infp_stat *stat = &stops->times.stat;

        infp_json_key(json, "stops");
        if (!stat->n) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_u64(json, "n", stat->n);
        infp_json_member_f64(json, "total_s", stat->mean * (double) stat->n / 1e9);
        infp_json_member_f64(json, "mean_s", stat->mean / 1e9);
        infp_json_member_f64(json, "p50_s", quantile_s(report, 0.5));
        infp_json_member_f64(json, "p99_s", quantile_s(report, 0.99));
        infp_json_member_f64(json, "max_s", stat->max / 1e9);
        infp_json_key(json, "histogram");
        infp_json_array(json);
        for (unsigned i = 0; i < INFP_STOP_BUCKETS; i++) {
                infp_json_object(json);
                infp_json_member_f64(json, "up_to_s",
                                     i < INFP_STOP_BUCKETS - 1 ? (double) infp_stop_bounds_us[i] / 1e6 : NAN);
                infp_json_member_u64(json, "n", stops->n[i]);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_object_end(json);
}
