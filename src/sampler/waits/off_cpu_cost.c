#include "sampler/waits/off_cpu_cost.h"

#include "base/time.h"

bool infp_off_cpu_is_costly(struct infp_off_cpu_cost *cost, uint64_t n_switches, double cpu_s, uint64_t now_ns)
{
        static const double cheap = 0.05, news = 1.5;
        const struct infp_off_cpu_cost last = *cost;
        const uint64_t ns = now_ns - last.looked_ns;

        if (last.looked_ns && ns < INFP_NS_PER_S)
                return false;
        cost->looked_ns = now_ns;
        cost->looked_switches = n_switches;
        cost->looked_cpu_s = cpu_s;
        if (!last.looked_ns)
                return false;
        cost->rate = (double) (n_switches - last.looked_switches) * 1e9 / (double) ns;
        cost->share = (cpu_s - last.looked_cpu_s) * 1e9 / (double) ns;
        if (cost->share <= cheap || cost->share <= news * cost->said_share)
                return false;
        cost->said_share = cost->share;
        return true;
}
