/* Engines in the report: the servers' own metrics, as text and JSON. For times at the client see requests.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "view/report/parts.h"

enum { NAME_WIDTH = 12, CELL_WIDTH = 12, SHOWN_SHORT = 4 /* of `known`: up to end to end */ };

/* Common names, in the order of interest. Other metrics follow under their own names. */
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

static void put_cell(struct infp_out *out, const char *text)
{
        infp_report_put(out, " %*s", CELL_WIDTH, text);
}

/* The edges of a bucket in one unit: "0.75..1 s". */
static void put_edges(struct infp_str *out, const struct infp_quantile *at, const struct unit *unit)
{
        static const struct {
                const char *name;
                double factor;
        } steps[] = { { " s", 1 }, { " ms", 1e3 }, { " us", 1e6 } };
        const double low = at->low * unit->factor, high = at->high * unit->factor;
        const bool is_time = !strcmp(unit->base, "seconds");
        char text[80] = "";
        unsigned i = 0;

        while (is_time && i + 1 < INFP_COUNT(steps) && high * steps[i].factor < 0.9999999)
                i++;
        if (isfinite(low) && isfinite(high))
                snprintf(text, sizeof(text), "%s..%s%s", infp_number(low * steps[i].factor).text,
                         infp_number(high * steps[i].factor).text, is_time ? steps[i].name : "");
        infp_str_printf(out, " %*s", CELL_WIDTH, text);
}

static void put_quantile(struct infp_out *out, const struct infp_quantile *at, const struct unit *unit)
{
        char text[64];

        if (isinf(at->high))
                snprintf(text, sizeof(text), "> %s", show(at->low, unit).text);
        else if (isinf(at->low))
                snprintf(text, sizeof(text), "<= %s", show(at->high, unit).text);
        else
                snprintf(text, sizeof(text), "%s", show(at->estimate, unit).text);
        put_cell(out, text);
}

/* Two lines: figures, and below them how many were observed and between which edges the estimates lie. Short: the figures. */
static void put_metric(struct infp_out *out, const struct infp_window_metric *m, const char *label, bool is_short)
{
        const struct unit unit = unit_of(m->metric);
        struct infp_quantile at[INFP_QUANTILES_N];
        infp_autostr struct infp_str seen = { 0 };
        bool has_quantiles = true;

        for (unsigned i = 0; i < INFP_QUANTILES_N; i++)
                has_quantiles &= infp_window_quantile(m, infp_quantiles_shown[i], &at[i]);
        infp_report_put(out, "  %-*s", NAME_WIDTH, label);
        put_cell(out, m->count > 0 && !isnan(m->sum) ? show(m->sum / m->count, &unit).text : "-");
        for (unsigned i = 0; i < INFP_QUANTILES_N && has_quantiles; i++)
                put_quantile(out, &at[i], &unit);
        infp_report_end(out);
        if (is_short)
                return;
        infp_str_printf(&seen, "    n %s", infp_fixed(infp_window_observations(m), 0).text);
        infp_str_printf(&seen, "%*s", (int) (NAME_WIDTH + CELL_WIDTH + 3 - seen.size), "");
        for (unsigned i = 0; i < INFP_QUANTILES_N && has_quantiles; i++)
                put_edges(&seen, &at[i], &unit);
        while (seen.size && seen.data[seen.size - 1] == ' ')
                seen.data[--seen.size] = 0;
        infp_report_put(out, "%s", seen.data ? seen.data : "");
        infp_report_end(out);
}

static void put_heads(struct infp_out *out)
{
        infp_report_put(out, "  %-*s", NAME_WIDTH, "server-side");
        put_cell(out, "mean");
        for (unsigned i = 0; i < INFP_QUANTILES_N; i++)
                put_cell(out, infp_quantile_names[i]);
        infp_report_end(out);
}

/* Metrics without a name here are in JSON and SQL. */
static void put_metrics(struct infp_out *out, const struct infp_report_engine *e, bool is_short)
{
        bool any = false;

        for (int rank = 0; rank < (is_short ? SHOWN_SHORT : (int) INFP_COUNT(known)); rank++)
                for (unsigned i = 0; i < e->n_metrics; i++) {
                        if (rank_of(e->metrics[i].metric) != rank || !(infp_window_observations(&e->metrics[i]) > 0))
                                continue;
                        if (!any)
                                put_heads(out);
                        any = true;
                        put_metric(out, &e->metrics[i], known[rank].label, is_short);
                }
        if (any && !is_short)
                infp_report_line(out, "note",
                                 "by the server's own clock and histograms; means are exact, percentiles are estimates "
                                 "between the bounds below them");
}

/* The address is already above. */
static const char *without_url(const char *reason, const char *url)
{
        const size_t n = url ? strlen(url) : 0;

        return n && strncmp(reason, url, n) == 0 && strncmp(reason + n, ": ", 2) == 0 ? reason + n + 2 : reason;
}

/* Failed scrapes while a server starts, and after it ended, are normal. */
static void put_failures(struct infp_str *text, const struct infp_report_engine *e)
{
        infp_str_printf(text, "%s ok", infp_count(e->n_ok).text);
        if (e->n_failed_between) {
                infp_str_printf(text, "; %s failed between them", infp_count(e->n_failed_between).text);
                if (e->down_between_s > 0)
                        infp_str_printf(text, " (%s in total)", infp_report_seconds(e->down_between_s).text);
                if (e->reason_between)
                        infp_str_printf(text, ", the last: %s", without_url(e->reason_between, e->url));
        }
        if (e->n_failed_before)
                infp_str_printf(text, "; %s failed before the first success (server still starting)",
                                infp_count(e->n_failed_before).text);
        if (e->n_failed_after)
                infp_str_printf(text, "; %s failed after the last success%s%s%s", infp_count(e->n_failed_after).text,
                                e->reason ? " (" : "", e->reason ? without_url(e->reason, e->url) : "",
                                e->reason ? ")" : "");
}

static void put_scrapes(struct infp_out *out, const struct infp_report_engine *e)
{
        infp_autostr struct infp_str text = { 0 };

        if (!e->n_failed)
                infp_str_printf(&text, "%s, all ok", infp_count(e->n_ok).text);
        else if (!e->n_ok)
                infp_str_printf(&text, "all %s failed%s%s", infp_count(e->n_failed).text, e->reason ? ": " : "",
                                e->reason ? without_url(e->reason, e->url) : "");
        else
                put_failures(&text, e);
        if (e->n_restarts)
                infp_str_printf(&text, "; it restarted %s time%s", infp_count(e->n_restarts).text,
                                e->n_restarts == 1 ? "" : "s");
        if (e->seconds > 0)
                infp_str_printf(&text, "; rates cover the %s between them", infp_report_seconds(e->seconds).text);
        infp_report_line(out, "scrapes", "%s", text.data ? text.data : "");
}

/* A start of a tenth of the range affects every average. An engine is found when it listens, so there may be no failed
 * scrapes before. */
static void put_start(struct infp_out *out, const struct infp_report *report, const struct infp_report_engine *e)
{
        const uint64_t t0 = report->range.t0, t1 = report->range.t1;

        if (e->n_ok && e->t0 > t0 + 2 * INFP_NS_PER_S && (e->t0 - t0) > (t1 - t0) / 10) {
                infp_autostr struct infp_str text = { 0 };

                infp_human_seconds(&text, (double) (e->t0 - t0) / 1e9);
                infp_report_line(out, "ready", "after %s, which averages include; --from ready excludes them",
                                 text.data ? text.data : "");
        }
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

/* Prints a line if it is not empty. */
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

static void put_tokens(struct infp_out *out, const struct infp_report_engine *e, bool has_requests)
{
        infp_autostr struct infp_str tokens = { 0 }, live = { 0 };

        put_rate(&tokens, e, INFP_ENGINE_GENERATED, "generated");
        put_rate(&tokens, e, INFP_ENGINE_PROMPT, "of prompts");
        put_text(out, "tokens", &tokens);
        if (!e->counts_at_end || has_requests)
                return;
        infp_str_puts(&live, "it counts generated tokens only when a request ends");
        if (!isnan(e->counters[INFP_ENGINE_LIVE]))
                infp_str_printf(&live, "; with running requests about %s, %s/s (estimated)",
                                infp_human(e->counters[INFP_ENGINE_LIVE], "none", "", false).text,
                                infp_human(infp_engine_rate(e, INFP_ENGINE_LIVE), "none", "", false).text);
        put_text(out, "", &live);
}

/* Counters that jump back and forth have no increase. */
static void put_falls(struct infp_out *out, const struct infp_report_engine *e)
{
        if (e->n_falls > e->n_restarts)
                infp_report_line(out, "warning",
                                 "its counters fell %s times, but it restarted %s times: several processes may answer "
                                 "in turn, so the figures of requests and tokens are too high",
                                 infp_count(e->n_falls).text, infp_count(e->n_restarts).text);
}

static void put_cache(struct infp_out *out, const struct infp_report_engine *e)
{
        const struct infp_stat *kv = &e->gauges[INFP_ENGINE_KV];
        const double hits = infp_engine_share(e, INFP_ENGINE_PREFIX_HITS, INFP_ENGINE_PREFIX_QUERIES);
        const double accepted = infp_engine_share(e, INFP_ENGINE_SPEC_ACCEPTED, INFP_ENGINE_SPEC_DRAFTED);
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

/* As the makers write it; other names as stored. */
const char *infp_report_make_name(const char *make)
{
        static const char *const names[][2] = {
                { "vllm", "vLLM" },          { "sglang", "SGLang" },       { "tgi", "TGI" },
                { "llamacpp", "llama.cpp" }, { "triton", "Triton" },       { "tensorrt_llm", "TensorRT-LLM" },
                { "lmdeploy", "LMDeploy" },  { "ray_serve", "Ray Serve" }, { "mlserver", "MLServer" },
                { "ollama", "Ollama" },
        };

        for (unsigned i = 0; i < INFP_COUNT(names); i++)
                if (!strcmp(names[i][0], make))
                        return names[i][1];
        return make;
}

/* The start of the last part of a path that ends at `end`. */
static const char *last_part(const char *path, const char *end)
{
        while (end > path && end[-1] != '/')
                end--;
        return end;
}

/* The last part of a path; "org/name" is not a path. Hugging Face's cache has org/name in the directory models--org--name,
 * with the files in a directory below that is named by a hash. */
static void put_model(struct infp_str *text, const char *model)
{
        static const char snapshots[] = "/snapshots/", cached[] = "models--";
        const char *end = model + strlen(model), *slash = strchr(model, '/'), *part = strstr(model, snapshots);

        while (end > model + 1 && end[-1] == '/')
                end--;
        if (part && !strncmp(last_part(model, part), cached, sizeof(cached) - 1)) {
                const char *name = last_part(model, part) + sizeof(cached) - 1, *dashes = strstr(name, "--");

                if (dashes && dashes < part)
                        infp_str_printf(text, "%.*s/%.*s", (int) (dashes - name), name, (int) (part - dashes) - 2,
                                        dashes + 2);
                else
                        infp_str_put(text, name, (size_t) (part - name));
                return;
        }
        if (end > model + 1 && slash &&
            (strchr("/.~", *model) || strchr(slash + 1, '/') || (end - model > 5 && !strncmp(end - 5, ".gguf", 5))))
                model = last_part(model, end);
        infp_str_put(text, model, (size_t) (end - model));
}

static void put_title(struct infp_out *out, const struct infp_report_engine *e)
{
        infp_autostr struct infp_str title = { 0 };

        infp_str_printf(&title, "Engine %s", e->make ? infp_report_make_name(e->make) : "of unknown make");
        if (e->version)
                infp_str_printf(&title, " %s", e->version);
        if (e->model && *e->model) {
                infp_str_puts(&title, ", ");
                put_model(&title, e->model);
        }
        infp_report_title(out, title.data ? title.data : "");
}

/* The fix for an engine that does not answer now; the section on what is absent does not repeat it. */
static void put_fix(struct infp_out *out, const struct infp_report *report, const struct infp_report_engine *e)
{
        for (unsigned i = 0; i < report->absences.n; i++) {
                const struct infp_absence *a = &report->absences.list[i];

                if (e->url && !strcmp(a->instance, e->url) && e->reason && !strcmp(a->reason, e->reason) && *a->fix) {
                        infp_report_line(out, "fix", "%s", a->fix);
                        return;
                }
        }
}

/* Scrapes only where some failed while it ran, latencies only where no client measured them. */
void infp_report_engines_short(struct infp_out *out, const struct infp_report *report)
{
        for (unsigned i = 0; i < report->engines.n; i++) {
                const struct infp_report_engine *e = &report->engines.list[i];

                put_title(out, e);
                if (!e->n_ok || e->n_failed_between || e->n_restarts) {
                        put_scrapes(out, e);
                        put_fix(out, report, e);
                }
                put_start(out, report, e);
                put_requests(out, e);
                put_tokens(out, e, report->requests);
                put_falls(out, e);
                put_cache(out, e);
                if (!report->requests)
                        put_metrics(out, e, true);
        }
}

void infp_report_engines(struct infp_out *out, const struct infp_report *report)
{
        for (unsigned i = 0; i < report->engines.n; i++) {
                const struct infp_report_engine *e = &report->engines.list[i];

                put_title(out, e);
                if (e->url)
                        infp_report_line(out, "address", "%s", e->url);
                put_scrapes(out, e);
                put_start(out, report, e);
                put_fix(out, report, e);
                put_requests(out, e);
                put_tokens(out, e, false);
                put_falls(out, e);
                put_cache(out, e);
                put_metrics(out, e, false);
        }
}

/* Engines in the report's JSON. */
static void json_quantile(struct infp_json *json, double q, const struct infp_quantile *at)
{
        infp_json_object(json);
        infp_json_member_f64(json, "quantile", q);
        infp_json_member_f64(json, "low", at->low);
        infp_json_member_f64(json, "estimate", at->estimate);
        infp_json_member_f64(json, "high", at->high);
        infp_json_object_end(json);
}

static void json_metric(struct infp_json *json, const struct infp_window_metric *m)
{
        struct infp_quantile at;

        infp_json_key(json, m->metric);
        infp_json_object(json);
        infp_json_member_str(json, "series", m->family);
        infp_json_member_str(json, "side", "server");
        infp_json_member_f64(json, "n", infp_window_observations(m));
        infp_json_member_f64(json, "sum", m->sum);
        infp_json_member_f64(json, "mean", m->count > 0 ? m->sum / m->count : NAN);
        infp_json_key(json, "quantiles");
        infp_json_array(json);
        for (unsigned i = 0; i < INFP_QUANTILES_N; i++)
                if (infp_window_quantile(m, infp_quantiles_shown[i], &at))
                        json_quantile(json, infp_quantiles_shown[i], &at);
        infp_json_array_end(json);
        infp_json_object_end(json);
}

static void json_gauge(struct infp_json *json, const char *name, const struct infp_stat *stat)
{
        infp_json_key(json, name);
        infp_json_object(json);
        infp_json_member_f64(json, "mean", infp_stat_mean(stat));
        infp_json_member_f64(json, "max", stat->n ? stat->max : NAN);
        infp_json_object_end(json);
}

static void json_counter(struct infp_json *json, const struct infp_report_engine *e, unsigned counter)
{
        infp_json_key(json, infp_engine_columns[counter]);
        infp_json_object(json);
        infp_json_member_f64(json, "total", e->counters[counter]);
        infp_json_member_f64(json, "per_s", infp_engine_rate(e, (enum infp_engine_counter) counter));
        infp_json_object_end(json);
}

static void json_engine(struct infp_json *json, const struct infp_report_engine *e)
{
        infp_json_object(json);
        infp_json_member_str(json, "url", e->url);
        infp_json_member_str(json, "make", e->make);
        infp_json_member_str(json, "make_name", e->make ? infp_report_make_name(e->make) : NULL);
        infp_json_member_str(json, "version", e->version);
        infp_json_member_str(json, "model", e->model);
        infp_json_member_u64(json, "scrapes_ok", e->n_ok);
        infp_json_member_u64(json, "scrapes_failed", e->n_failed);
        infp_json_member_u64(json, "scrapes_failed_before_first", e->n_failed_before);
        infp_json_member_u64(json, "scrapes_failed_between", e->n_failed_between);
        infp_json_member_u64(json, "scrapes_failed_after_last", e->n_failed_after);
        infp_json_member_f64(json, "down_s", e->down_s);
        infp_json_member_f64(json, "down_between_s", e->down_between_s);
        infp_json_member_str(json, "last_failure", e->reason);
        infp_json_member_str(json, "last_failure_between", e->reason_between);
        infp_json_member_u64(json, "restarts", e->n_restarts);
        infp_json_member_u64(json, "falls", e->n_falls);
        infp_json_member_f64(json, "seconds", e->seconds);
        infp_json_member_bool(json, "counts_tokens_at_request_end", e->counts_at_end);
        for (unsigned i = 0; i < INFP_ENGINE_COUNTERS; i++)
                json_counter(json, e, i);
        for (unsigned i = 0; i < INFP_ENGINE_GAUGES; i++)
                json_gauge(json, infp_engine_columns[INFP_ENGINE_COUNTERS + i], &e->gauges[i]);
        infp_json_member_f64(json, "prefix_cache_hit_ratio",
                             infp_engine_share(e, INFP_ENGINE_PREFIX_HITS, INFP_ENGINE_PREFIX_QUERIES));
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
