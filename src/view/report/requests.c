/* Requests as clients saw them: in the report, and as the summary of `load`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "model/quantile.h"
#include "view/report/parts.h"

enum { CELL = 11, NARROW = 10, LOAD_WIDTH = 18 };

/* One of the four times that are shown alike. */
struct times {
        const char *label, *key;
        struct infp_samples *samples; /* NULL: the gaps between pieces */
};

static bool quantile_of(struct infp_requests *requests, const struct times *times, double q, struct infp_quantile *ret)
{
        return times->samples ? infp_samples_quantile(times->samples, q, ret) : infp_requests_itl(requests, q, ret);
}

static double mean_of(const struct infp_requests *requests, const struct times *times)
{
        return times->samples ? infp_stat_mean(&times->samples->stat) / 1e9 : infp_requests_itl_mean_s(requests);
}

static double std_of(const struct infp_requests *requests, const struct times *times)
{
        return times->samples ? infp_stat_std(&times->samples->stat) / 1e9 : infp_requests_itl_std_s(requests);
}

static double max_of(const struct infp_requests *requests, const struct times *times)
{
        if (times->samples)
                return times->samples->stat.n ? times->samples->stat.max / 1e9 : NAN;
        return requests->gaps.n ? (double) requests->gap_max_ns / 1e9 : NAN;
}

static void put_right(struct infp_out *out, const char *text, unsigned room)
{
        const unsigned width = infp_text_width(text, strlen(text));

        infp_report_put(out, "%*s%s", width < room ? (int) (room - width) : 1, "", text);
}

static void put_cell(struct infp_out *out, const char *text)
{
        put_right(out, text, CELL);
}

static void put_narrow(struct infp_out *out, const char *text)
{
        put_right(out, text, NARROW);
}

static void put_times(struct infp_out *out, struct infp_requests *requests, const struct times *times)
{
        const double mean = mean_of(requests, times);
        struct infp_quantile at;

        if (isnan(mean))
                return;
        infp_report_put(out, "  %-12s", times->label);
        put_cell(out, infp_report_seconds(mean).text);
        for (unsigned i = 0; i < INFP_QUANTILES_N; i++)
                put_cell(out, quantile_of(requests, times, infp_quantiles_shown[i], &at)
                                      ? infp_report_seconds(at.estimate).text
                                      : "-");
        put_cell(out, infp_report_seconds(max_of(requests, times)).text);
        infp_report_end(out);
}

/* Short: without TPOT, which is much like ITL. */
static void put_table(struct infp_out *out, struct infp_requests *requests, bool is_short)
{
        const struct times all[] = { { "TTFT", NULL, &requests->ttft },
                                     { "ITL", NULL, NULL },
                                     { "TPOT", NULL, &requests->tpot },
                                     { "end to end", NULL, &requests->e2e } };

        if (!requests->n_ok)
                return;
        infp_report_put(out, "  %-12s", "");
        put_cell(out, "mean");
        for (unsigned i = 0; i < INFP_QUANTILES_N; i++)
                put_cell(out, infp_quantile_names[i]);
        put_cell(out, "max");
        infp_report_end(out);
        for (unsigned i = 0; i < INFP_COUNT(all); i++)
                if (!is_short || all[i].samples != &requests->tpot)
                        put_times(out, requests, &all[i]);
}

static void put_counts(struct infp_out *out, const struct infp_requests *requests)
{
        const uint64_t n_cut = requests->n - requests->n_ok - requests->n_failed;
        const double duration = infp_requests_duration_s(requests);
        char failed[64] = "", cut[80] = "";

        if (requests->n_failed)
                snprintf(failed, sizeof(failed), ", %s failed", infp_count(requests->n_failed).text);
        if (n_cut)
                snprintf(cut, sizeof(cut), ", %s cut off by the end of the load", infp_count(n_cut).text);
        infp_report_line(out, "requests", "%s of %s ok in %s (%s/s)%s%s", infp_count(requests->n_ok).text,
                         infp_count(requests->n).text, infp_report_seconds(duration).text,
                         infp_number(duration > 0 ? (double) requests->n_ok / duration : 0).text, failed, cut);
        for (unsigned i = 0; i < requests->n_failures; i++)
                infp_report_line(out, "", "%s x %s%s%s", infp_count(requests->failures[i].n).text,
                                 requests->failures[i].name, *requests->failures[i].example ? ", such as: " : "",
                                 requests->failures[i].example);
}

static void put_tokens(struct infp_out *out, const struct infp_requests *requests)
{
        const double duration = infp_requests_duration_s(requests);
        char cached[64] = "";

        if (!requests->n_ok)
                return;
        if (!requests->n_counted) {
                infp_report_line(out, "tokens", "not known: the server did not report usage");
                return;
        }
        if (requests->n_cached)
                snprintf(cached, sizeof(cached), " (%s of them cached)", infp_count(requests->cached_tokens).text);
        infp_report_line(out, "tokens", "%s out, %s/s; %s in%s", infp_count(requests->output_tokens).text,
                         infp_number(duration > 0 ? (double) requests->output_tokens / duration : 0).text,
                         infp_count(requests->prompt_tokens).text, cached);
        if (requests->n_counted < requests->n_ok)
                infp_report_line(out, "", "without those of %s requests, whose usage the server did not report",
                                 infp_count((requests->n_ok - requests->n_counted)).text);
}

/* A long one has a line of its own. */
static void put_load_name(struct infp_out *out, const char *name)
{
        const bool is_long = infp_text_width(name, strlen(name)) > LOAD_WIDTH;

        infp_report_put(out, "  ");
        infp_report_put_padded(out, name, is_long ? infp_report_width(out) - 2 : LOAD_WIDTH, is_long);
        if (is_long) {
                infp_report_end(out);
                infp_report_put(out, "%*s", LOAD_WIDTH + 2, "");
        }
}

/* Each phase of a load is a load of its own. */
static void put_loads(struct infp_out *out, struct infp_requests *requests)
{
        if (requests->n_loads < 2)
                return;
        infp_report_put(out, "  %-*s", LOAD_WIDTH, "by load");
        for (unsigned i = 0; i < 6; i++)
                put_narrow(out, (const char *const[]){ "requests", "tokens/s", "TTFT p50", "TTFT p99", "ITL p50",
                                                       "ITL p99" }[i]);
        infp_report_end(out);
        for (unsigned i = 0; i < requests->n_loads; i++) {
                struct infp_requests_load *load = &requests->loads[i];
                const double duration = (double) (load->last_t_ns - load->first_t_ns) / 1e9;
                struct infp_quantile at;
                char cell[32];

                put_load_name(out, load->name);
                snprintf(cell, sizeof(cell), "%s", infp_count(load->n).text);
                put_narrow(out, cell);
                snprintf(cell, sizeof(cell), "%s", infp_number((double) load->output_tokens / duration).text);
                put_narrow(out, load->output_tokens && duration > 0 ? cell : "-");
                for (unsigned k = 0; k < 2; k++)
                        put_narrow(out, infp_samples_quantile(&load->ttft, k ? 0.99 : 0.5, &at)
                                                ? infp_report_seconds(at.estimate).text
                                                : "-");
                for (unsigned k = 0; k < 2; k++)
                        put_narrow(out, infp_requests_load_itl(load, k ? 0.99 : 0.5, &at)
                                                ? infp_report_seconds(at.estimate).text
                                                : "-");
                infp_report_end(out);
        }
}

static void put_goodput(struct infp_out *out, const struct infp_requests *requests)
{
        const struct infp_requests_goals *goals = &requests->goals;
        const double duration = infp_requests_duration_s(requests);
        char text[160] = "";
        const struct {
                const char *name;
                uint64_t ns;
        } all[] = { { "TTFT", goals->ttft_ns }, { "TPOT", goals->tpot_ns }, { "end to end", goals->e2e_ns } };
        size_t n = 0;

        for (unsigned i = 0; i < INFP_COUNT(all); i++)
                if (all[i].ns)
                        n += (size_t) snprintf(text + n, sizeof(text) - n, "%s%s within %s", n ? ", " : "", all[i].name,
                                               infp_report_seconds((double) all[i].ns / 1e9).text);
        if (n)
                infp_report_line(out, "goodput", "%s of %s requests, %s/s: %s", infp_count(requests->n_good).text,
                                 infp_count(requests->n).text,
                                 infp_number(duration > 0 ? (double) requests->n_good / duration : 0).text, text);
}

/* What the figures mean, and their limits. */
static void put_notes(struct infp_out *out, struct infp_requests *requests)
{
        const double pieces = requests->n_pieces ? (double) requests->piece_tokens / (double) requests->n_pieces : NAN;
        struct infp_quantile late;

        if (requests->n_late * 100 >= requests->n && requests->n_late &&
            infp_samples_quantile(&requests->send, 0.99, &late))
                infp_report_line(out, "late",
                                 "%s of %s requests were sent more than 10 ms late (p99 %s, max %s): no free slot, a "
                                 "slow connection, or no CPU for the client; their times count from when they were due",
                                 infp_count(requests->n_late).text, infp_count(requests->n).text,
                                 infp_report_seconds(late.estimate).text,
                                 infp_report_seconds(requests->send.stat.max / 1e9).text);
        if (pieces > 1.05)
                infp_report_line(out, "note",
                                 "a chunk of the stream holds %s tokens on average: ITL is the time between chunks",
                                 infp_number(pieces).text);
        if (requests->n_ok)
                infp_report_line(out, "note",
                                 "measured at the client, for ok requests, from when they were due; rates cover the %s "
                                 "from the first arrival to the last end; ITL percentiles are estimates, accurate to "
                                 "12.5 %% (histogram buckets)%s",
                                 infp_report_seconds(infp_requests_duration_s(requests)).text,
                                 requests->e2e.is_coarse ? "; so are the others, because there are too many requests"
                                                         : "");
}

void infp_requests_text(struct infp_out *out, struct infp_requests *requests, const char *title)
{
        if (!requests || !requests->n)
                return;
        infp_report_title(out, title);
        put_counts(out, requests);
        put_tokens(out, requests);
        put_table(out, requests, false);
        put_loads(out, requests);
        put_goodput(out, requests);
        put_notes(out, requests);
}

void infp_report_requests_short(struct infp_out *out, const struct infp_report *report)
{
        if (!report->requests || !report->requests->n)
                return;
        infp_report_title(out, "Requests (client-side)");
        put_counts(out, report->requests);
        put_tokens(out, report->requests);
        put_table(out, report->requests, true);
        put_goodput(out, report->requests);
}

void infp_report_requests(struct infp_out *out, const struct infp_report *report)
{
        infp_requests_text(out, report->requests, "Requests (client-side)");
        if (report->is_part && report->requests && report->requests->n)
                infp_report_line(out, "part",
                                 "the requests that were due in it, up to the end of their last answer; rates exclude "
                                 "earlier requests");
}

/* mean_ttft_ms, median_ttft_ms, std_ttft_ms, p50_ttft_ms ... */
static void json_times(struct infp_json *json, struct infp_requests *requests, const struct times *times)
{
        struct infp_quantile at;
        char key[64];

        snprintf(key, sizeof(key), "mean_%s_ms", times->key);
        infp_json_member_f64(json, key, mean_of(requests, times) * 1e3);
        snprintf(key, sizeof(key), "median_%s_ms", times->key);
        infp_json_member_f64(json, key, quantile_of(requests, times, 0.5, &at) ? at.estimate * 1e3 : NAN);
        snprintf(key, sizeof(key), "std_%s_ms", times->key);
        infp_json_member_f64(json, key, std_of(requests, times) * 1e3);
        for (unsigned i = 0; i < INFP_QUANTILES_N; i++) {
                snprintf(key, sizeof(key), "%s_%s_ms", infp_quantile_names[i], times->key);
                infp_json_member_f64(json, key,
                                     quantile_of(requests, times, infp_quantiles_shown[i], &at) ? at.estimate * 1e3
                                                                                                : NAN);
        }
        snprintf(key, sizeof(key), "max_%s_ms", times->key);
        infp_json_member_f64(json, key, max_of(requests, times) * 1e3);
}

/* [low, high]: the bounds of each percentile. */
static void json_bounds(struct infp_json *json, struct infp_requests *requests)
{
        struct infp_quantile at;

        infp_json_key(json, "itl_bounds_ms");
        infp_json_object(json);
        for (unsigned i = 0; i < INFP_QUANTILES_N; i++) {
                if (!infp_requests_itl(requests, infp_quantiles_shown[i], &at))
                        continue;
                infp_json_key(json, infp_quantile_names[i]);
                infp_json_array(json);
                infp_json_f64(json, at.low * 1e3);
                infp_json_f64(json, at.high * 1e3);
                infp_json_array_end(json);
        }
        infp_json_object_end(json);
}

/* One of several loads; what it shares with the whole has the same name. */
static void json_load(struct infp_json *json, struct infp_requests_load *load)
{
        const double duration = (double) (load->last_t_ns - load->first_t_ns) / 1e9;
        struct infp_quantile at;
        char key[32];

        infp_json_object(json);
        infp_json_member_str(json, "name", load->name);
        infp_json_member_f64(json, "duration", duration);
        infp_json_member_u64(json, "requests", load->n);
        infp_json_member_u64(json, "completed", load->n_ok);
        infp_json_member_f64(json, "output_throughput",
                             load->output_tokens && duration > 0 ? (double) load->output_tokens / duration : NAN);
        for (unsigned i = 0; i < INFP_QUANTILES_N; i++) {
                snprintf(key, sizeof(key), "%s_ttft_ms", infp_quantile_names[i]);
                infp_json_member_f64(
                        json, key,
                        infp_samples_quantile(&load->ttft, infp_quantiles_shown[i], &at) ? at.estimate * 1e3 : NAN);
                snprintf(key, sizeof(key), "%s_itl_ms", infp_quantile_names[i]);
                infp_json_member_f64(json, key,
                                     infp_requests_load_itl(load, infp_quantiles_shown[i], &at) ? at.estimate * 1e3
                                                                                                : NAN);
        }
        infp_json_object_end(json);
}

static void json_loads(struct infp_json *json, struct infp_requests *requests)
{
        infp_json_key(json, "loads");
        infp_json_array(json);
        for (unsigned i = 0; i < requests->n_loads; i++)
                json_load(json, &requests->loads[i]);
        infp_json_array_end(json);
}

static void json_kinds(struct infp_json *json, const char *key, const struct infp_requests_kind *kinds, unsigned n)
{
        infp_json_key(json, key);
        infp_json_object(json);
        for (unsigned i = 0; i < n; i++)
                infp_json_member_u64(json, *kinds[i].name ? kinds[i].name : "unknown", kinds[i].n);
        infp_json_object_end(json);
}

/* The server's messages, one each. */
static void json_examples(struct infp_json *json, const struct infp_requests *requests)
{
        infp_json_key(json, "failure_examples");
        infp_json_object(json);
        for (unsigned i = 0; i < requests->n_failures; i++)
                if (*requests->failures[i].example)
                        infp_json_member_str(json, requests->failures[i].name, requests->failures[i].example);
        infp_json_object_end(json);
}

static void json_throughput(struct infp_json *json, const struct infp_requests *requests)
{
        const double duration = infp_requests_duration_s(requests), per_s = duration > 0 ? 1 / duration : NAN;
        const bool known = requests->n_counted > 0,
                   wanted = requests->goals.ttft_ns || requests->goals.tpot_ns || requests->goals.e2e_ns;
        const double in = known ? (double) requests->prompt_tokens : NAN,
                     out = known ? (double) requests->output_tokens : NAN;

        infp_json_member_f64(json, "request_throughput", (double) requests->n_ok * per_s);
        infp_json_member_f64(json, "request_goodput", wanted ? (double) requests->n_good * per_s : NAN);
        infp_json_member_f64(json, "output_throughput", out * per_s);
        infp_json_member_f64(json, "total_token_throughput", (in + out) * per_s);
}

static void json_tokens(struct infp_json *json, const struct infp_requests *requests)
{
        const struct {
                const char *key;
                bool known;
                uint64_t v;
        } all[] = { { "total_input_tokens", requests->n_counted > 0, requests->prompt_tokens },
                    { "total_cached_tokens", requests->n_cached > 0, requests->cached_tokens },
                    { "total_output_tokens", requests->n_counted > 0, requests->output_tokens } };

        for (unsigned i = 0; i < INFP_COUNT(all); i++) {
                infp_json_key(json, all[i].key);
                if (all[i].known)
                        infp_json_u64(json, all[i].v);
                else
                        infp_json_null(json);
        }
        infp_json_member_u64(json, "requests_without_usage", requests->n_ok - requests->n_counted);
        infp_json_member_f64(json, "tokens_per_piece",
                             requests->n_pieces ? (double) requests->piece_tokens / (double) requests->n_pieces : NAN);
}

void infp_requests_json(struct infp_json *json, struct infp_requests *requests)
{
        const struct times all[] = { { NULL, "ttft", &requests->ttft },
                                     { NULL, "tpot", &requests->tpot },
                                     { NULL, "itl", NULL },
                                     { NULL, "e2el", &requests->e2e },
                                     { NULL, "send_delay", &requests->send } };

        infp_json_member_str(json, "measured_at", "client");
        infp_json_member_f64(json, "duration", infp_requests_duration_s(requests));
        infp_json_member_u64(json, "requests", requests->n);
        infp_json_member_u64(json, "completed", requests->n_ok);
        infp_json_member_u64(json, "failed", requests->n_failed);
        infp_json_member_u64(json, "cut_off", requests->n - requests->n_ok - requests->n_failed);
        json_kinds(json, "failures", requests->failures, requests->n_failures);
        json_examples(json, requests);
        json_kinds(json, "finish_reasons", requests->finishes, requests->n_finishes);
        json_tokens(json, requests);
        json_throughput(json, requests);
        for (unsigned i = 0; i < INFP_COUNT(all); i++)
                json_times(json, requests, &all[i]);
        json_bounds(json, requests);
        json_loads(json, requests);
        infp_json_member_u64(json, "sent_late", requests->n_late);
        infp_json_member_u64(json, "unreadable_gaps", requests->n_broken);
        infp_json_member_str(json, "percentiles",
                             requests->e2e.is_coarse ? "estimated from a histogram, accurate to 12.5 %"
                                                     : "exact, linear between ranks; those of ITL are estimated from a "
                                                       "histogram, accurate to 12.5 %");
}
