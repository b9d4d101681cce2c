/* Functions of a flame graph, by self or total. */
#pragma once

#include "analyze/profile/flame.h"

/* A share in percent with its 95 % interval: Wilson's, for as many samples as the weights are worth (Kish's effective number;
 * all of them where each has the same weight). */
struct infp_flame_share {
        double percent, low, high;
};
struct infp_flame_share infp_flame_share(const struct infp_flame *flame, double weight);

/* The change of a function's share from the older to the newer run, in percentage points; the interval is Newcombe's (1998,
 * method 10), from those of both shares. */
struct infp_flame_change {
        struct infp_flame_share before, now, points;
};
struct infp_flame_change infp_flame_change(const struct infp_flame *flame, const struct infp_flame_function *function,
                                           bool by_total);

/* Numbers of functions, the largest first (of a difference: those that changed most), into ret (of `most`); processes, threads and "[truncated]" are none. Returns how many,
 * *ret_all (may be NULL) how many there are. */
uint32_t infp_flame_top(const struct infp_flame *flame, bool by_total, uint32_t most, uint32_t *ret, uint32_t *ret_all);
