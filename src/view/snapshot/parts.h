/* Parts of a snapshot (snapshot.h): members and rows in snapshot.c, tables with a leading instance in lead.c. */
#pragma once

#include "base/json.h"
#include "model/last.h"
#include "view/histograms.h"

/* What stays from one snapshot to the next. */
struct infp_snapshot_memory {
        struct infp_histograms *histograms; /* NULL: made anew each time */
        bool has_lead;                      /* the thing of the lowest number that has ever had a row */
        uint64_t lead;
        int64_t lead_number;
};

/* One column under a name that may be another than its own. batch NULL: the table has no row now. */
void infp_snapshot_member_as(struct infp_json *json, const char *name, const struct infp_table *table,
                             const struct infp_batch *batch, unsigned i, uint32_t row);
/* false: nothing keeps such a table. */
bool infp_snapshot_entity(struct infp_json *json, const struct infp_last *last, const char *name, uint64_t id);
/* All members of a row, into the object that is open. */
void infp_snapshot_row(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                       const struct infp_batch *batch, uint32_t row);

/* The leading instance into the open object, then the list of all when there are more. */
void infp_snapshot_lead(struct infp_json *json, const struct infp_last *last, const struct infp_table *table,
                        struct infp_snapshot_memory *memory);

/* memory: never NULL. */
void infp_snapshot_put_again(struct infp_str *out, const struct infp_last *last, int64_t unix_ms, unsigned indent,
                             bool sources, struct infp_snapshot_memory *memory);
