/* Engines in the report: what servers say of themselves, as text and as JSON. Client-side times are report_requests.c's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "view/human.h"
#include "view/report_parts.h"

/* Names that people use, in the order in which they ask. What stands here not is shown behind under its own name. */
static const struct {
        const char *stem, *label;
} known[] = {
        { "latency_ttft", "TTFT" },          { "latency_inter_token", "inter-token" },
        { "latency_tpot", "TPOT" },          { "latency_e2e", "end to end" },
        { "latency_queue", "queue" },        { "latency_prefill", "prefill" },
        { "latency_decode", "decode" },      { "latency_inference", "inference" },
        { "latency_step", "step" },          { "req_size_prompt", "prompt" },
        { "req_size_generation", "output" }, { "tokens_per_step", "tokens/step" },
};

/* What a metric is measured in, by the end of its name. */
struct unit {
        const char *base;
        double factor;
};

static struct unit unit_of(const char *metric)
{
        const size_t n = strlen(metric);

        if (n > 3 && strcmp(metric + n - 3, "_ms") == 0)
                return (struct unit){ "seconds", 1e-3 };
        if (n > 2 && strcmp(metric + n - 2, "_s") == 0)
                return (struct unit){ "seconds", 1 };
        return (struct unit){ "none", 1 };
}

static struct human show(double v, const struct unit *unit)
{
        return infp_human(v * unit->factor, unit->base, "", false);
}

static int rank_of(const char *metric)
{
        for (unsigned i = 0; i < INFP_COUNT(known); i++)
                if (strncmp(metric, known[i].stem, strlen(known[i].stem)) == 0)
                        return (int) i;
        return INFP_COUNT(known);
}

static double observations(const struct infp_window_metric *m)
{
        return m->n_buckets ? m->buckets[m->n_buckets - 1].count : m->count;
}

static void put_quantiles(struct infp_str *text, const struct infp_window_metric *m, const struct unit *unit)
{
        for (unsigned i = 0; i < INFP_QUANTILES_N; i++) {
                struct infp_quantile at;

                if (!infp_quantile_of(m->buckets, m->n_buckets, infp_quantiles_shown[i], &at))
                        return;
                infp_str_printf(text, "%s p%.0f ", i ? "," : ";", 100 * infp_quantiles_shown[i]);
                if (isinf(at.high))
                        infp_str_printf(text, "> %s", show(at.low, unit).text);
                else if (isinf(at.low))
                        infp_str_printf(text, "<= %s", show(at.high, unit).text);
                else
                        infp_str_printf(text, "%s (%s..%s)", show(at.estimate, unit).text, show(at.low, unit).text,
                                        show(at.high, unit).text);
        }
}

static void put_metric(struct infp_out *out, const struct infp_window_metric *m, int rank)
{
        infp_autostr struct infp_str text = { 0 };
        const struct unit unit = unit_of(m->metric);

        if (!(observations(m) > 0))
                return;
        infp_str_printf(&text, "%.0f observed", observations(m));
        if (m->count > 0 && !isnan(m->sum))
                infp_str_printf(&text, ", mean %s", show(m->sum / m->count, &unit).text);
        put_quantiles(&text, m, &unit);
        infp_report_line(out, rank < (int) INFP_COUNT(known) ? known[rank].label : m->metric, "%s",
                         text.data ? text.data : "");
}

static void put_metrics(struct infp_out *out, const struct infp_report_engine *e)
{
        bool has_quantiles = false;

        for (int rank = 0; rank <= (int) INFP_COUNT(known); rank++)
                for (unsigned i = 0; i < e->n_metrics; i++)
                        if (rank_of(e->metrics[i].metric) == rank) {
                                has_quantiles |= e->metrics[i].n_buckets && observations(&e->metrics[i]) > 0;
                                /* Of the rest, which nobody asked for, JSON and SQL tell. */
                                if (rank < (int) INFP_COUNT(known))
                                        put_metric(out, &e->metrics[i], rank);
                        }
        if (has_quantiles)
                infp_report_line(out, "note",
                                 "times are the server's own; means are exact, percentiles estimated between the edges "
                                 "of its buckets (low..high)");
}

static void put_scrapes(struct infp_out *out, const struct infp_report_engine *e)
{
        infp_autostr struct infp_str text = { 0 };
        const unsigned long long ok = e->n_ok, failed = e->n_failed;

        if (!failed)
                infp_str_printf(&text, "%llu, all good", ok);
        else if (!ok)
                infp_str_printf(&text, "none of %llu came", failed);
        else
                infp_str_printf(&text, "%llu good, %llu failed (%s in all)", ok, failed,
                                infp_human(e->down_s, "seconds", "s", false).text);
        if (e->reason)
                infp_str_printf(&text, "; the last failure: %s", e->reason);
        if (e->n_restarts)
                infp_str_printf(&text, "; it was started anew %llu time%s", (unsigned long long) e->n_restarts,
                                e->n_restarts == 1 ? "" : "s");
        infp_report_line(out, "pages", "%s", text.data ? text.data : "");
}

static void put_rate(struct infp_str *text, const struct infp_report_engine *e, enum infp_engine_counter counter,
                     const char *words)
{
        if (isnan(e->counters[counter]))
                return;
        infp_str_puts(text, text->size ? "; " : "");
        infp_human_number(text, e->counters[counter]);
        infp_str_printf(text, " %s", words);
        if (e->seconds > 0)
                infp_str_printf(text, ", %s/s", infp_human(infp_engine_rate(e, counter), "none", "", false).text);
}

static void put_level(struct infp_str *text, const struct infp_stat *stat, const char *words)
{
        if (!stat->n)
                return;
        infp_str_puts(text, text->size ? "; " : "");
        infp_str_printf(text, "%s %s on average, %s at most", words,
                        infp_human(infp_stat_mean(stat), "none", "", false).text,
                        infp_human(stat->max, "none", "", false).text);
}

static void put_some(struct infp_str *text, const struct infp_report_engine *e, enum infp_engine_counter counter,
                     const char *words)
{
        if (e->counters[counter] > 0)
                infp_str_printf(text, "; %s %s", infp_human(e->counters[counter], "none", "", false).text, words);
}

/* A line when there is anything to say. */
static void put_text(struct infp_out *out, const char *label, const struct infp_str *text)
{
        if (text->size)
                infp_report_line(out, label, "%s", text->data);
}

static void put_requests(struct infp_out *out, const struct infp_report_engine *e)
{
        infp_autostr struct infp_str done = { 0 }, level = { 0 };

        put_rate(&done, e, INFP_ENGINE_FINISHED, "finished");
        if (done.size) {
                put_some(&done, e, INFP_ENGINE_ERRORED, "failed");
                put_some(&done, e, INFP_ENGINE_ABORTED, "aborted, as far as it counts them");
        }
        put_text(out, "requests", &done);
        put_level(&level, &e->gauges[INFP_ENGINE_RUNNING], "running");
        put_level(&level, &e->gauges[INFP_ENGINE_WAITING], "waiting");
        put_text(out, "at once", &level);
}

static void put_tokens(struct infp_out *out, const struct infp_report_engine *e)
{
        infp_autostr struct infp_str tokens = { 0 }, live = { 0 };

        put_rate(&tokens, e, INFP_ENGINE_GENERATED, "generated");
        put_rate(&tokens, e, INFP_ENGINE_PROMPT, "of prompts");
        put_text(out, "tokens", &tokens);
        if (!e->counts_at_end)
                return;
        infp_str_puts(&live, "it counts generated tokens when a request ends");
        if (!isnan(e->counters[INFP_ENGINE_LIVE]))
                infp_str_printf(&live, "; those of running ones included about %s, %s/s (estimated from its steps)",
                                infp_human(e->counters[INFP_ENGINE_LIVE], "none", "", false).text,
                                infp_human(infp_engine_rate(e, INFP_ENGINE_LIVE), "none", "", false).text);
        put_text(out, "", &live);
}

static double share(const struct infp_report_engine *e, enum infp_engine_counter part, enum infp_engine_counter of)
{
        return e->counters[of] > 0 ? e->counters[part] / e->counters[of] : NAN;
}

static void put_cache(struct infp_out *out, const struct infp_report_engine *e)
{
        const struct infp_stat *kv = &e->gauges[INFP_ENGINE_KV];
        const double hits = share(e, INFP_ENGINE_PREFIX_HITS, INFP_ENGINE_PREFIX_QUERIES);
        const double accepted = share(e, INFP_ENGINE_SPEC_ACCEPTED, INFP_ENGINE_SPEC_DRAFTED);
        infp_autostr struct infp_str text = { 0 };

        if (kv->n)
                infp_str_printf(&text, "%s in use on average, %s at most",
                                infp_human(infp_stat_mean(kv), "ratio", "%", false).text,
                                infp_human(kv->max, "ratio", "%", false).text);
        if (!isnan(e->counters[INFP_ENGINE_PREEMPTIONS]))
                infp_str_printf(&text, "%s%s preemptions", text.size ? "; " : "",
                                infp_human(e->counters[INFP_ENGINE_PREEMPTIONS], "none", "", false).text);
        put_text(out, "KV cache", &text);
        if (!isnan(hits))
                infp_report_line(out, "prefix hits", "%s of %s prompt tokens were found in the cache",
                                 infp_human(hits, "ratio", "%", false).text,
                                 infp_human(e->counters[INFP_ENGINE_PREFIX_QUERIES], "none", "", false).text);
        if (!isnan(accepted))
                infp_report_line(out, "drafts", "%s of %s proposed tokens were accepted",
                                 infp_human(accepted, "ratio", "%", false).text,
                                 infp_human(e->counters[INFP_ENGINE_SPEC_DRAFTED], "none", "", false).text);
}

static void put_title(struct infp_out *out, const struct infp_report_engine *e)
{
        infp_autostr struct infp_str title = { 0 }, tame = { 0 };

        infp_str_printf(&title, "Engine %s", e->make ? e->make : "of unknown make");
        if (e->version)
                infp_str_printf(&title, " %s", e->version);
        if (e->model)
                infp_str_printf(&title, ", %s", e->model);
        infp_text_tame(&tame, title.data ? title.data : "", title.size);
        infp_report_title(out, tame.data ? tame.data : "");
}

void infp_report_engines(struct infp_out *out, const struct infp_report *report)
{
        for (unsigned i = 0; i < report->engines.n; i++) {
                const struct infp_report_engine *e = &report->engines.list[i];

                /* The default address was tried, and nothing was there: nobody asked for it. */
                if (!e->n_ok && !e->make)
                        continue;
                put_title(out, e);
                if (e->url)
                        infp_report_line(out, "address", "%s", e->url);
                put_scrapes(out, e);
                put_requests(out, e);
                put_tokens(out, e);
                put_cache(out, e);
                put_metrics(out, e);
        }
}

static void json_f64(struct infp_json *json, const char *key, double v)
{
        infp_json_key(json, key);
        infp_json_f64(json, v);
}

static void json_str(struct infp_json *json, const char *key, const char *text)
{
        infp_json_key(json, key);
        if (text)
                infp_json_str(json, text);
        else
                infp_json_null(json);
}

static void json_u64(struct infp_json *json, const char *key, uint64_t v)
{
        infp_json_key(json, key);
        infp_json_u64(json, v);
}

static void json_quantile(struct infp_json *json, double q, const struct infp_quantile *at)
{
        infp_json_object(json);
        json_f64(json, "quantile", q);
        json_f64(json, "low", at->low);
        json_f64(json, "estimate", at->estimate);
        json_f64(json, "high", at->high);
        infp_json_object_end(json);
}

static void json_metric(struct infp_json *json, const struct infp_window_metric *m)
{
        struct infp_quantile at;

        infp_json_key(json, m->metric);
        infp_json_object(json);
        json_str(json, "series", m->family);
        json_str(json, "side", "server");
        json_f64(json, "n", observations(m));
        json_f64(json, "sum", m->sum);
        json_f64(json, "mean", m->count > 0 ? m->sum / m->count : NAN);
        infp_json_key(json, "quantiles");
        infp_json_array(json);
        for (unsigned i = 0; i < INFP_QUANTILES_N; i++)
                if (infp_quantile_of(m->buckets, m->n_buckets, infp_quantiles_shown[i], &at))
                        json_quantile(json, infp_quantiles_shown[i], &at);
        infp_json_array_end(json);
        infp_json_object_end(json);
}

static void json_gauge(struct infp_json *json, const char *name, const struct infp_stat *stat)
{
        infp_json_key(json, name);
        infp_json_object(json);
        json_f64(json, "mean", infp_stat_mean(stat));
        json_f64(json, "max", stat->n ? stat->max : NAN);
        infp_json_object_end(json);
}

static void json_counter(struct infp_json *json, const struct infp_report_engine *e, unsigned counter)
{
        infp_json_key(json, infp_engine_columns[counter]);
        infp_json_object(json);
        json_f64(json, "total", e->counters[counter]);
        json_f64(json, "per_s", infp_engine_rate(e, (enum infp_engine_counter) counter));
        infp_json_object_end(json);
}

static void json_engine(struct infp_json *json, const struct infp_report_engine *e)
{
        infp_json_object(json);
        json_str(json, "url", e->url);
        json_str(json, "make", e->make);
        json_str(json, "version", e->version);
        json_str(json, "model", e->model);
        json_u64(json, "scrapes_ok", e->n_ok);
        json_u64(json, "scrapes_failed", e->n_failed);
        json_f64(json, "down_s", e->down_s);
        json_str(json, "last_failure", e->reason);
        json_u64(json, "restarts", e->n_restarts);
        json_f64(json, "seconds", e->seconds);
        infp_json_key(json, "counts_tokens_at_request_end");
        infp_json_bool(json, e->counts_at_end);
        for (unsigned i = 0; i < INFP_ENGINE_COUNTERS; i++)
                json_counter(json, e, i);
        for (unsigned i = 0; i < INFP_ENGINE_GAUGES; i++)
                json_gauge(json, infp_engine_columns[INFP_ENGINE_COUNTERS + i], &e->gauges[i]);
        json_f64(json, "prefix_cache_hit_ratio", share(e, INFP_ENGINE_PREFIX_HITS, INFP_ENGINE_PREFIX_QUERIES));
        infp_json_key(json, "distributions");
        infp_json_object(json);
        for (unsigned i = 0; i < e->n_metrics; i++)
                json_metric(json, &e->metrics[i]);
        infp_json_object_end(json);
        infp_json_object_end(json);
}

void infp_report_engines_json(struct infp_json *json, const struct infp_report *report)
{
        infp_json_key(json, "engines");
        infp_json_array(json);
        for (unsigned i = 0; i < report->engines.n; i++)
                json_engine(json, &report->engines.list[i]);
        infp_json_array_end(json);
}
