/* The engines' queue and KV cache: of several, the one that is worst off. */
#include <math.h>

#include "analyze/limits_parts.h"

static const double queue_reached = 1, queue_near = 0.1, cache_near = 0.95;

void infp_limit_engine(const struct infp_report *report, struct infp_limit *queue, struct infp_limit *cache)
{
        static const char *const collectors[] = { "engine", NULL };

        double most_pushed = NAN;

        infp_limit_set_unchecked(queue, report, collectors, NULL, "no engine was found");
        infp_limit_set_unchecked(cache, report, collectors, NULL, "no engine was found");
        for (unsigned i = 0; i < report->engines.n; i++) {
                const struct infp_report_engine *e = &report->engines.list[i];
                const struct infp_stat *waiting = &e->gauges[INFP_ENGINE_WAITING],
                                       *running = &e->gauges[INFP_ENGINE_RUNNING], *kv = &e->gauges[INFP_ENGINE_KV];
                const double mean = infp_stat_mean(waiting), fill = kv->n ? kv->max : NAN,
                             pushed = e->counters[INFP_ENGINE_PREEMPTIONS];

                if (waiting->n && (queue->state == INFP_LIMIT_NOT_CHECKED || mean > queue->share))
                        infp_limit_set(queue, infp_limit_state_of(mean, queue_reached, queue_near), mean,
                                       "%.2f requests waited on average (%.0f at most) while %.3g ran", mean,
                                       waiting->max, infp_stat_mean(running));
                if (pushed > 0 && !(pushed <= most_pushed)) {
                        most_pushed = pushed;
                        infp_limit_set(cache, INFP_LIMIT_REACHED, fill,
                                       "the engine pushed out %.0f requests for want of room", pushed);
                } else if (cache->state == INFP_LIMIT_REACHED)
                        continue;
                else if (!isnan(fill) && (cache->state == INFP_LIMIT_NOT_CHECKED || fill > cache->share))
                        infp_limit_set(cache, infp_limit_state_of(fill, INFINITY, cache_near), fill,
                                       "it was full to %.0f %% at most", 100 * fill);
                else if (cache->state == INFP_LIMIT_NOT_CHECKED)
                        infp_limit_set(cache, INFP_LIMIT_NOT_CHECKED, NAN, "the engine does not say how full it is");
        }
        queue->share = NAN; /* requests are no share */
}
