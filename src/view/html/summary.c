/* What limited the run and the figures that are asked first, as plain HTML: they read without script, and on paper. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "model/quantile.h"
#include "view/html/parts.h"
#include "view/report/parts.h"

enum { GPUS_SHOWN = 4, ENGINES_SHOWN = 4 };

static void put_limits(struct infp_str *out, const struct infp_limits *limits)
{
        static const char *const classes[] = {
                [INFP_LIMIT_REACHED] = "limited",
                [INFP_LIMIT_NEAR] = "near",
                [INFP_LIMIT_FREE] = "room",
                [INFP_LIMIT_NOT_CHECKED] = "unchecked",
        };

        infp_str_puts(out, "<p class=\"headline\">");
        infp_html_text(out, limits->headline);
        infp_str_puts(out, "</p>\n<ul class=\"checks\">");
        for (unsigned i = 0; i < limits->n; i++) {
                const struct infp_limit *l = &limits->list[i];

                if (infp_limit_repeats(limits, i))
                        continue;
                infp_str_printf(out, "\n<li class=\"check %s\"><b>%s</b> <span class=\"state\">%s</span> <span>",
                                classes[l->state], infp_limit_resource_name(l->resource),
                                infp_limit_state_words(l->state));
                infp_html_text(out, l->text);
                infp_str_puts(out, "</span></li>"); /* the text says where it is a guess */
        }
        infp_str_puts(out, "\n</ul>\n");
}

/* The evidence, what to try and the query, which the browser opens at a click; all of it is there without script. */
static void put_finding(struct infp_str *out, const struct infp_report *report, const struct infp_bottleneck *f)
{
        infp_autostr struct infp_str query = { 0 };

        infp_str_printf(out, "\n<li class=\"finding %s%s\"><details><summary><b>%s</b> ",
                        infp_severity_name(f->severity), f->cause ? " follows" : "", infp_severity_name(f->severity));
        infp_html_text(out, f->rule->title);
        if (!isnan(f->share))
                infp_str_printf(out, ": %s %% of %s", infp_fixed(100 * f->share, f->share < 0.0995 ? 1 : 0).text,
                                f->rule->of);
        infp_str_puts(out, "</summary>");
        for (unsigned i = 0; i < f->n_lines; i++) {
                infp_str_puts(out, "<p>");
                infp_html_text(out, f->lines[i]);
                infp_str_puts(out, "</p>");
        }
        for (unsigned i = 0; i < f->n_places; i++) {
                infp_str_puts(out, i ? ", " : "<p>Where: ");
                infp_html_text(out, f->places[i].function ? f->places[i].function : "a stack without names");
        }
        infp_str_puts(out, f->n_places ? "</p><p>Try: " : "<p>Try: ");
        infp_html_text(out, f->rule->advice);
        infp_str_puts(out, "</p><p>Verify: ");
        infp_html_text(out, f->rule->verify);
        infp_str_puts(out, "</p><p><code>");
        infp_rule_query(&query, f->rule, report);
        infp_html_text(out, query.data ? query.data : "");
        infp_str_puts(out, "</code></p></details></li>");
}

static void put_findings(struct infp_str *out, const struct infp_report *report)
{
        if (!report->findings.n)
                return;
        infp_str_puts(out, "<h3>Bottlenecks</h3>\n<ul class=\"findings\">");
        for (unsigned i = 0; i < report->findings.n; i++)
                put_finding(out, report, &report->findings.list[i]);
        infp_str_puts(out, "\n</ul>\n");
}

/* A figure as a card: name, value, and what stands smaller after it. */
static void put_card(struct infp_str *out, const char *name, const char *value, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
static void put_card(struct infp_str *out, const char *name, const char *value, const char *format, ...)
{
        char text[512] = "";
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        infp_str_puts(out, "\n<div class=\"card\"><dt>");
        infp_html_text(out, name);
        infp_str_puts(out, "</dt><dd>");
        infp_html_text(out, value);
        if (*text) {
                infp_str_puts(out, " <small>");
                infp_html_text(out, text);
                infp_str_puts(out, "</small>");
        }
        infp_str_puts(out, "</dd></div>");
}

static struct human seconds(double s)
{
        return infp_human(s, "seconds", "s", false);
}

static struct human number(double v)
{
        return infp_human(v, "", "", false);
}

static struct human bytes(double v)
{
        return infp_human(v, "bytes", "bytes", false);
}

static void put_cpu(struct infp_str *out, const struct infp_report *report)
{
        const double used = report->tree_cpu_s / report->wall_s;
        char value[64];

        if (isfinite(used)) {
                snprintf(value, sizeof(value), "%s CPUs", infp_fixed(used, 2).text);
                put_card(out, "CPU of the target", value,
                         isfinite(report->effective_cpus) ? "of %s available; %s in total" : "%s%s in total",
                         isfinite(report->effective_cpus) ? number(report->effective_cpus).text : "",
                         seconds(report->tree_cpu_s).text);
        }
        if (report->cores.average.n) {
                snprintf(value, sizeof(value), "%s %%", infp_fixed(infp_stat_mean(&report->cores.average), 1).text);
                put_card(out, "CPU of the machine", value, "of all %u CPUs, on average", report->cores.n);
        }
}

static void put_memory(struct infp_str *out, const struct infp_report *report)
{
        const double most = infp_report_tree_rss_most(report), machine = infp_report_max(report, "vMemoryUsed"),
                     total = infp_report_max(report, "vMemoryTotal");

        if (isfinite(most) && most > 0)
                put_card(out, "Peak memory of the target", bytes(most).text,
                         isfinite(report->memory_limit_bytes) ? "limit %s" : "%s",
                         isfinite(report->memory_limit_bytes) ? bytes(report->memory_limit_bytes).text : "");
        else if (isfinite(machine))
                put_card(out, "Peak memory used", bytes(machine).text, isfinite(total) ? "of %s" : "%s",
                         isfinite(total) ? bytes(total).text : "");
}

/* The first three figures of the latency, by the engine's own histogram. */
static void put_engine_latency(struct infp_str *out, const struct infp_report_engine *engine, const char *metric,
                               const char *name)
{
        for (unsigned i = 0; i < engine->n_metrics; i++) {
                const struct infp_window_metric *m = &engine->metrics[i];
                struct infp_quantile middle, high;

                if (strcmp(m->metric, metric) || !infp_window_quantile(m, 0.5, &middle) ||
                    !infp_window_quantile(m, 0.99, &high))
                        continue;
                put_card(out, name, seconds(middle.estimate).text, "median; p99 %s%s (server histogram)",
                         isfinite(high.high) ? "\xe2\x89\xa4 " : "",
                         isfinite(high.high) ? seconds(high.high).text : "above its last bucket");
                return;
        }
}

static void put_engines(struct infp_str *out, const struct infp_report *report)
{
        /* bound: a card says how many there are */
        for (unsigned i = 0; i < report->engines.n && i < ENGINES_SHOWN; i++) {
                const struct infp_report_engine *engine = &report->engines.list[i];
                const double rate = infp_engine_rate(engine, INFP_ENGINE_GENERATED),
                             prompt = infp_engine_rate(engine, INFP_ENGINE_PROMPT);
                char name[64] = "Tokens per second";

                if (report->engines.n > 1)
                        snprintf(name, sizeof(name), "Tokens per second, engine %lld", (long long) engine->number);
                if (isfinite(rate))
                        put_card(out, name, number(rate).text,
                                 isfinite(prompt) ? "generated, over %s; %s prompt tokens" : "generated, over %s%s",
                                 seconds(engine->seconds).text, isfinite(prompt) ? number(prompt).text : "");
                if (!report->requests && report->engines.n == 1) {
                        put_engine_latency(out, engine, "latency_ttft_s", "Time to first token");
                        put_engine_latency(out, engine, "latency_e2e_s", "Whole request");
                }
        }
        if (report->engines.n > ENGINES_SHOWN)
                put_card(out, "Engines", number(report->engines.n).text, "all listed below");
}

static void put_times(struct infp_str *out, const char *name, struct infp_samples *samples)
{
        struct infp_quantile middle, high;

        if (infp_samples_quantile(samples, 0.5, &middle) && infp_samples_quantile(samples, 0.99, &high))
                put_card(out, name, seconds(middle.estimate).text, "median; p99 %s (client-side)",
                         seconds(high.estimate).text);
}

static void put_requests(struct infp_str *out, const struct infp_report *report)
{
        struct infp_requests *requests = report->requests;
        struct infp_quantile middle, high;

        if (!requests)
                return;
        put_card(out, "Requests", number((double) requests->n_ok).text, "ok of %llu in %s, %llu failed",
                 (unsigned long long) requests->n, seconds(infp_requests_duration_s(requests)).text,
                 (unsigned long long) requests->n_failed);
        put_times(out, "Time to first token", &requests->ttft);
        if (infp_requests_itl(requests, 0.5, &middle) && infp_requests_itl(requests, 0.99, &high))
                put_card(out, "Between tokens", seconds(middle.estimate).text, "median; p99 %s",
                         seconds(high.estimate).text);
        put_times(out, "Whole request", &requests->e2e);
}

static void put_gpus(struct infp_str *out, const struct infp_report *report)
{
        for (unsigned i = 0; i < report->gpus.n && i < GPUS_SHOWN; i++) { /* bound: a card says how many there are */
                const struct infp_gpu *gpu = &report->gpus.list[i];
                const double used = infp_gpu_mean(gpu, INFP_GPU_USED),
                             memory = infp_gpu_most(gpu, INFP_GPU_MEMORY_USED);
                const struct infp_stat *stat = &gpu->stat[INFP_GPU_MEMORY_USED];
                char name[96], value[64];

                snprintf(name, sizeof(name), "GPU %lld%s%.60s", (long long) gpu->index, gpu->name ? ", " : "",
                         gpu->name ? gpu->name : "");
                snprintf(value, sizeof(value), "%s %%", infp_fixed(used, 0).text);
                if (isfinite(used))
                        put_card(out, name, value,
                                 stat->n ? "average utilisation; peak memory %s" : "average utilisation%s",
                                 stat->n ? bytes(memory).text : "");
        }
        if (report->gpus.n > GPUS_SHOWN)
                put_card(out, "GPUs", number(report->gpus.n).text, "all listed below");
}

static void put_energy(struct infp_str *out, const struct infp_report *report)
{
        const struct infp_energy *energy = &report->energy;

        if (!isfinite(energy->watts))
                return;
        put_card(out, energy->is_estimated ? "Power (estimated)" : "Power",
                 infp_human(energy->watts, "watts", "W", false).text, "average; %s in total",
                 infp_human(energy->joules, "joules", "J", false).text);
        if (isfinite(energy->j_per_generated))
                put_card(out, "Energy per generated token",
                         infp_human(energy->j_per_generated, "joules", "J", false).text, "%s", "");
}

void infp_html_summary(struct infp_str *out, const struct infp_report *report)
{
        const bool has_limits = report->limits.n > 0;

        infp_str_puts(out, "<section id=\"summary\" aria-labelledby=\"summary-title\"><h2 id=\"summary-title\">");
        infp_str_puts(out, has_limits ? "What limited the run" : "Figures");
        infp_str_puts(out, "</h2>\n");
        if (has_limits)
                put_limits(out, &report->limits);
        put_findings(out, report);
        infp_str_puts(out, "<dl class=\"cards\">");
        put_engines(out, report);
        put_requests(out, report);
        put_cpu(out, report);
        put_memory(out, report);
        put_gpus(out, report);
        put_energy(out, report);
        if (report->is_part) /* the header has the duration of a whole run */
                put_card(out, "Took", seconds(report->wall_s).text, "of a longer run");
        infp_str_puts(out, "\n</dl></section>\n");
}
