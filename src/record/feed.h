/* The sinks of a recording. Each kind of failure of a sink is reported once, then counted; the other sinks continue. */
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
                int said[INFP_FEED_SAID]; /* errnos that were reported */
                uint64_t n_lost;          /* rows that it did not take */
                bool has_failed;          /* since the last end of a tick or flush */
                bool is_failing, said_recovery, said_skipping;
                uint64_t n_lost_said;
        } sinks[INFP_FEED_SINKS];
};

int infp_feed_add(struct infp_feed *feed, struct infp_sink *sink); /* 0 or -ENOSPC */
void infp_feed_tables(struct infp_feed *feed, const struct infp_table *const *tables);

/* The next two address the sinks that want rows at each tick, or those that want them at each flush. 0 or the first
 * error. */
int infp_feed_batch(struct infp_feed *feed, bool each_tick, const struct infp_batch *batch, struct infp_err *err);
/* is_behind: sinks that can skip are skipped, which is counted and reported once. */
void infp_feed_tick_end(struct infp_feed *feed, bool each_tick, bool is_behind, uint64_t t_ns, int64_t unix_ms);

bool infp_feed_wants_each_tick(const struct infp_feed *feed);
bool infp_feed_wants_rotation(struct infp_feed *feed); /* and clears the request */
void infp_feed_rotate(struct infp_feed *feed, uint32_t segment);
void infp_feed_end(struct infp_feed *feed); /* with a notice for each sink that lost rows */
