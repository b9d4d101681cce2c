/* The sinks of a recording and what is said when one of them fails: each kind of failure once, then counted; the others go on. */
#pragma once

#include "base/notice.h"
#include "collect/env.h"
#include "model/sink.h"

enum { INFP_FEED_SINKS = 8, INFP_FEED_SAID = 8 };

struct infp_feed {
        const struct infp_notices *notices;
        struct infp_stats *stats;
        unsigned n_sinks;
        struct infp_feed_sink {
                struct infp_sink *sink;
                int said[INFP_FEED_SAID]; /* errnos of which a notice was given */
                uint64_t n_lost;          /* rows that it did not take */
                bool has_failed;          /* since the last end of a tick or flush */
                bool is_failing, said_recovery, said_skipping;
                uint64_t n_lost_said;
        } sinks[INFP_FEED_SINKS];
};

int infp_feed_add(struct infp_feed *feed, struct infp_sink *sink); /* 0 or -ENOSPC */
void infp_feed_tables(struct infp_feed *feed, const struct infp_table *const *tables);

/* The next two speak to the sinks that want rows at each tick, or to those that want them at each flush. 0 or the first error. */
int infp_feed_batch(struct infp_feed *feed, bool each_tick, const struct infp_batch *batch, struct infp_err *err);
/* is_behind: what can be left out is left out, counted, and said once. */
void infp_feed_tick_end(struct infp_feed *feed, bool each_tick, bool is_behind, uint64_t t_ns, int64_t unix_ms);

bool infp_feed_wants_each_tick(const struct infp_feed *feed);
bool infp_feed_wants_rotation(struct infp_feed *feed); /* and clears the wish */
void infp_feed_rotate(struct infp_feed *feed, uint32_t segment);
void infp_feed_end(struct infp_feed *feed); /* with a notice for each sink that lost rows */
