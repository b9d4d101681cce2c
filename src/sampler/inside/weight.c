#include "sampler/inside/weight.h"

enum {
        MOST_THREADS = 16384,
        DRIFT = 256, /* a part of so much: the scheduler's clock is not slewed as CLOCK_MONOTONIC is */
};
#define LATE_NS UINT64_C(3000000000) /* samples that waited for tables come after later ones */

bool infp_inside_weight_fits(struct infp_inside_weights *weights, int32_t tid, uint64_t t_ns, uint64_t now_ns,
                             uint64_t weight_ns)
{
        const uint64_t *at = infp_map_get(&weights->until, (uint32_t) tid);
        const uint64_t counted_ns = weight_ns - weight_ns / DRIFT, limit_ns = now_ns + weights->slack_ns;
        uint64_t until_ns = at ? *at : weights->begin_ns;

        if (t_ns > now_ns || until_ns > limit_ns || counted_ns > limit_ns - until_ns)
                return false;
        until_ns += counted_ns;
        if (t_ns > LATE_NS && until_ns < t_ns - LATE_NS)
                until_ns = t_ns - LATE_NS;
        if (!at && weights->until.n >= MOST_THREADS) { /* what is forgotten does not count again */
                infp_map_done(&weights->until);
                weights->begin_ns = now_ns;
        }
        infp_map_put(&weights->until, (uint32_t) tid, until_ns);
        return true;
}

void infp_inside_weights_done(struct infp_inside_weights *weights)
{
        infp_map_done(&weights->until);
}
