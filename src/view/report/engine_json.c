/* Engines in the report's JSON. */
#include <math.h>

#include "base/json.h"
#include "view/report/parts.h"

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
