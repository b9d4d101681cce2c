/* The engine's own figures; of several engines the worst. Values of an engine are input: impossible ones are ignored, as in limits. */
#include <math.h>

#include "analyze/bottlenecks/parts.h"
#include "base/human.h"

static const double waits_least = 0.1; /* requests, on average */

static double mean_of(const struct infp_report_engine *e, enum infp_engine_gauge gauge)
{
        const struct infp_stat *stat = &e->gauges[gauge];

        return stat->n && stat->min >= 0 && stat->max <= 1e9 ? infp_stat_mean(stat) : NAN;
}

enum infp_rule_answer infp_rule_cache(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const enum infp_rule_answer answer = infp_bottleneck_of_limit(report, INFP_LIMIT_CACHE, ret);
        const bool preempted = answer == INFP_RULE_FOUND &&
                               infp_bottleneck_limit(report, INFP_LIMIT_CACHE)->state == INFP_LIMIT_REACHED;

        if (answer != INFP_RULE_FOUND)
                return answer;
        infp_bottleneck_no_share(ret, preempted ? INFP_SEVERITY_HIGH : INFP_SEVERITY_LOW,
                                 "engines do not say how long preempted requests were computed again");
        return INFP_RULE_FOUND;
}

/* By Little's law the requests that wait, divided by all in the engine, are the share of their time that requests waited. */
enum infp_rule_answer infp_rule_queue(const struct infp_report *report, struct infp_bottleneck *ret)
{
        const enum infp_rule_answer answer = infp_bottleneck_of_limit(report, INFP_LIMIT_QUEUE, ret);
        double worst = NAN;

        if (answer != INFP_RULE_FOUND)
                return answer;
        for (unsigned i = 0; i < report->engines.n; i++) {
                const struct infp_report_engine *e = &report->engines.list[i];
                const double waiting = mean_of(e, INFP_ENGINE_WAITING), running = mean_of(e, INFP_ENGINE_RUNNING);
                const struct infp_stat *stat = &e->gauges[INFP_ENGINE_WAITING];

                if (isnan(waiting) || isnan(running) || !(waiting >= waits_least))
                        continue;
                worst = fmax(worst, waiting / (waiting + running));
                infp_bottleneck_line(
                        ret, "engine %lld: %s requests waited and %s ran on average; %s waited first, %s at the end",
                        (long long) e->number, infp_fixed(waiting, 2).text, infp_fixed(running, 2).text,
                        infp_number(stat->first).text, infp_number(stat->last).text);
        }
        if (isnan(worst))
                infp_bottleneck_no_share(ret, INFP_SEVERITY_MEDIUM, "the engine does not report how many requests run");
        else
                infp_bottleneck_share(ret, worst,
                                      "from the engine's gauges at each scrape; what was between them is not known");
        return INFP_RULE_FOUND;
}

enum infp_rule_answer infp_rule_batch(const struct infp_report *report, struct infp_bottleneck *ret)
{
        double worst = NAN;

        for (unsigned i = 0; i < report->engines.n; i++) {
                const struct infp_report_engine *e = &report->engines.list[i];
                const double running = mean_of(e, INFP_ENGINE_RUNNING), waiting = mean_of(e, INFP_ENGINE_WAITING),
                             empty = e->max_seqs >= 1 ? 1 - running / e->max_seqs : NAN;

                if (isnan(empty) || isnan(waiting))
                        continue;
                worst = fmax(worst, waiting >= waits_least ? empty : 0);
                if (waiting >= waits_least && empty >= ret->rule->steps[0])
                        infp_bottleneck_line(ret,
                                             "engine %lld worked on %s requests of the %s that it can, while %s waited",
                                             (long long) e->number, infp_fixed(running, 2).text,
                                             infp_fixed(e->max_seqs, 0).text, infp_fixed(waiting, 2).text);
        }
        if (isnan(worst))
                return INFP_RULE_UNCHECKED;
        infp_bottleneck_share(ret, worst,
                              "from the engine's gauges at each scrape; what was between them is not known");
        return INFP_RULE_FOUND;
}
