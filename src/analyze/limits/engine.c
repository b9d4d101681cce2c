/* The engines' queue and KV cache; of several engines the worst. Values of an engine are input: an impossible number is
 * ignored. */
#include <math.h>
#include <stdio.h>

#include "analyze/limits/parts.h"

static const double queue_reached = 1, queue_near = 0.1, cache_near = 0.95;
static const double most_requests = 1e9, fullest = 1.05; /* some count a block more than they have */

static bool can_be(const struct infp_stat *stat, double most)
{
        return stat->n && stat->min >= 0 && stat->max <= most;
}

static void find_queue(const struct infp_report_engine *e, struct infp_limit *queue)
{
        const struct infp_stat *waiting = &e->gauges[INFP_ENGINE_WAITING], *running = &e->gauges[INFP_ENGINE_RUNNING];
        const double mean = infp_stat_mean(waiting);
        char ran[40] = "";

        if (!can_be(waiting, most_requests)) {
                if (queue->state == INFP_LIMIT_NOT_CHECKED && waiting->n)
                        infp_limit_set(queue, INFP_LIMIT_NOT_CHECKED, NAN,
                                       "the engine reports an impossible number of waiting requests");
                return;
        }
        if (queue->state != INFP_LIMIT_NOT_CHECKED && !(mean > queue->share))
                return;
        if (can_be(running, most_requests))
                snprintf(ran, sizeof(ran), "; %.*f ran on average", infp_limit_decimals(infp_stat_mean(running)),
                         infp_stat_mean(running));
        if (waiting->max > 0)
                infp_limit_set(queue, infp_limit_state_of(mean, queue_reached, queue_near), mean,
                               "%.2f requests waited on average (peak %.0f)%s", mean, waiting->max, ran);
        else
                infp_limit_set(queue, INFP_LIMIT_FREE, mean, "no request waited%s", ran);
}

static void find_cache(const struct infp_report_engine *e, struct infp_limit *cache, double *most_pushed)
{
        const struct infp_stat *kv = &e->gauges[INFP_ENGINE_KV];
        const double fill = can_be(kv, fullest) ? kv->max : NAN, pushed = e->counters[INFP_ENGINE_PREEMPTIONS];

        if (pushed > *most_pushed) {
                *most_pushed = pushed;
                infp_limit_set(cache, INFP_LIMIT_REACHED, fill,
                               "the engine preempted %.0f request%s because the cache was full", pushed,
                               pushed == 1 ? "" : "s");
        } else if (cache->state == INFP_LIMIT_REACHED)
                return; /* another engine's preemptions stand, whatever this one's cache does */
        else if (!isnan(fill) && (cache->state == INFP_LIMIT_NOT_CHECKED || fill > cache->share))
                infp_limit_set(cache, infp_limit_state_of(fill, INFINITY, cache_near), fill, "peaked at %.0f %% full",
                               100 * fill);
        else if (cache->state == INFP_LIMIT_NOT_CHECKED && kv->n)
                infp_limit_set(cache, INFP_LIMIT_NOT_CHECKED, NAN, "the engine reports an impossible fill level");
}

void infp_limit_engine(const struct infp_report *report, struct infp_limit *queue, struct infp_limit *cache)
{
        static const char *const collectors[] = { "engine", NULL };
        double most_pushed = 0;

        infp_limit_set_unchecked(queue, report, collectors, NULL, "no engine was found");
        infp_limit_set_unchecked(cache, report, collectors, NULL, "no engine was found");
        if (report->engines.n) {
                infp_limit_set(queue, INFP_LIMIT_NOT_CHECKED, NAN, "the engine does not report how many requests wait");
                infp_limit_set(cache, INFP_LIMIT_NOT_CHECKED, NAN, "the engine does not report how full it is");
        }
        for (unsigned i = 0; i < report->engines.n; i++) {
                find_queue(&report->engines.list[i], queue);
                find_cache(&report->engines.list[i], cache, &most_pushed);
        }
        queue->share = NAN; /* a number of requests is not a share */
}
