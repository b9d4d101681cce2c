/* Batches of one or more segment files of a table, as they lie in the files: below scan.h, which gives them their place in
 * the table. An Arrow segment is read by the store; a row of Parquet segments that follow each other, by DuckDB. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "model/batch.h"
#include "query/parts.h"

struct infp_source;

/* Opens the parts from `index` on that are read together, *ret_n of them. t0, t1 as struct infp_scan_options: a help to skip
 * whole pieces, batches may hold rows outside. columns: names, ended by NULL, NULL = all; a help as well. */
int infp_source_open(struct infp_run *run, const struct infp_parts *parts, unsigned index, uint64_t t0, uint64_t t1,
                     const char *const *columns, struct infp_source **ret, unsigned *ret_n, struct infp_err *err);
struct infp_source *infp_source_close(struct infp_source *source); /* returns NULL */
/* NULL: the segment is empty, not even its columns are known. */
const struct infp_table *infp_source_table(const struct infp_source *source);
int infp_source_next(struct infp_source *source, struct infp_batch *ret, struct infp_err *err);
