/* The columns of the time series: which table, which instance and which of its columns stands behind each. */
#pragma once

#include "base/str.h"
#include "query/joins.h"
#include "query/made.h"
#include "query/scan.h"

/* One table, or one instance of a keyed one. */
struct infp_series_slot {
        unsigned feed; /* index of its table in the plan */
        char *key;     /* of keyed tables: the key cells as bytes */
        size_t key_size;
        char *prefix; /* "container0_", "" */
        uint64_t id;  /* of the thing that its first key names; 0: that is no id */
        int64_t part; /* of a feed of parts: which one, as its second key says */
};

struct infp_series_column {
        char *name;
        unsigned slot;
        unsigned source;   /* column of the table's batches; of an attribute: of the entity's table */
        bool is_time;      /* <metric>_time */
        bool is_attribute; /* of the thing that the slot is about: in place of its id */
};

struct infp_series_plan {
        struct infp_catalog catalog;
        struct infp_series_feed {
                const struct infp_table *table; /* in the catalog */
                uint64_t period_ns;
                const struct infp_table *entity; /* that its first key names; NULL: none */
                struct infp_entities *things;    /* NULL: there are none */
                unsigned
                        whole; /* 1 + number of the feed whose instances its rows are parts of; 0: it stands for itself */
        } * feeds;
        unsigned n_feeds;
        struct infp_series_slot *slots;
        unsigned n_slots;
        struct infp_series_column *columns; /* without `timestamp`, sorted, each name once */
        unsigned n_columns;
        unsigned n_left_out;    /* instances without a column here: the table has no room for more */
        struct infp_made *made; /* `timestamp` first */
};

int infp_series_plan_make(struct infp_run *run, struct infp_series_plan *ret, struct infp_err *err);
void infp_series_plan_done(struct infp_series_plan *plan);

/* The slot of a row of a feed by its key (query/instances.h); -1: none. */
int infp_series_slot_of(const struct infp_series_plan *plan, unsigned feed, const struct infp_str *key);
