/* The columns of the time series: which table, which instance and which of its columns stands behind each. */
#pragma once

#include "base/str.h"
#include "query/made.h"
#include "query/scan.h"

/* One table, or one instance of a keyed one. */
struct infp_series_slot {
        unsigned feed; /* index of its table in the plan */
        char *key;     /* of keyed tables: the key cells as bytes */
        size_t key_size;
        char *prefix; /* "container0_", "" */
};

struct infp_series_column {
        char *name;
        unsigned slot;
        unsigned source; /* column of the table's batches */
        bool is_time;    /* <metric>_time */
};

struct infp_series_plan {
        struct infp_catalog catalog;
        struct infp_series_feed {
                const struct infp_table *table; /* in the catalog */
                uint64_t period_ns;
        } * feeds;
        unsigned n_feeds;
        struct infp_series_slot *slots;
        unsigned n_slots;
        struct infp_series_column *columns; /* without `timestamp`, sorted, each name once */
        unsigned n_columns;
        struct infp_made *made; /* `timestamp` first */
};

int infp_series_plan_make(struct infp_run *run, struct infp_series_plan *ret, struct infp_err *err);
void infp_series_plan_done(struct infp_series_plan *plan);

/* The slot of a row of a feed by its key (query/instances.h); -1: none. */
int infp_series_slot_of(const struct infp_series_plan *plan, unsigned feed, const struct infp_str *key);
