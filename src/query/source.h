/* Batches of one or more segment files of a table, as they lie in the files: below scan.h, which gives them their place in
 * the table. An Arrow segment is read by the store; a row of Parquet segments that follow each other, by DuckDB. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "model/batch.h"
#include "query/parts.h"

struct infp_source;

/* What the reader will use, so that the rest can be skipped; batches may hold more. */
struct infp_source_hint {
        uint64_t t0, t1;            /* as struct infp_scan_options */
        const char *const *columns; /* ended by NULL; NULL: all */
        bool no_rows;               /* only the columns are of interest */
};

/* Opens the parts from `index` on that are read together, *ret_n of them. */
int infp_source_open(struct infp_run *run, const struct infp_parts *parts, unsigned index,
                     const struct infp_source_hint *hint, struct infp_source **ret, unsigned *ret_n,
                     struct infp_err *err);
struct infp_source *infp_source_close(struct infp_source *source); /* returns NULL */
/* NULL: the segment is empty, not even its columns are known. */
const struct infp_table *infp_source_table(const struct infp_source *source);
int infp_source_next(struct infp_source *source, struct infp_batch *ret, struct infp_err *err);
