/* Functions of a flame graph, by what they have of themselves or with what they call. */
#pragma once

#include "analyze/flame.h"

/* A share in percent with its 95 % interval: Wilson's, for as many samples as the weights are worth (Kish's effective number;
 * all of them where each has the same weight). */
struct infp_flame_share {
        double percent, low, high;
};
struct infp_flame_share infp_flame_share(const struct infp_flame *flame, double weight);

/* Numbers of functions, the largest first, into ret (of `most`); processes, threads and "[truncated]" are none. Returns how many,
 * *ret_all (may be NULL) how many there are. */
uint32_t infp_flame_top(const struct infp_flame *flame, bool by_total, uint32_t most, uint32_t *ret, uint32_t *ret_all);
