/* Reads a table of a run from its begin: Arrow segments (closed, open, torn), Parquet (by DuckDB), later rings; in order of
 * segments; columns that a segment lacks are null, unknown ones pass through. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "model/batch.h"
#include "store/run.h"

/* The run's own schema: every table that its writer could write, from its table `columns`; of tables that are not in there
 * (foreign or broken runs): what the segments say. Owned by the caller. */
struct infp_catalog {
        struct infp_table *tables;
        unsigned n_tables;
        struct infp_catalog_memory *memory;
};
int infp_catalog_read(struct infp_run *run, struct infp_catalog *ret, struct infp_err *err);
void infp_catalog_done(struct infp_catalog *catalog);
const struct infp_table *infp_catalog_find(const struct infp_catalog *catalog, const char *name);

struct infp_parts;

struct infp_scan_options {
        /* Rows with t0 <= t_ns < t1; t1 0 = no end. Of table `spans`, whose t_ns is the begin, all that overlap the range: an
         * hour's span is found from each of its minutes; open ones have no end. */
        uint64_t t0, t1;
        const char *const *columns; /* names, ended by NULL; NULL = all. t_ns and time are always there */
        bool names;                 /* joins: the attributes of each entity that an ID64 column names come after it */

        /* If the caller has them already; borrowed until close. */
        const struct infp_catalog *catalog;
        const struct infp_parts *parts; /* only these segments (query/parts.h) */
};

struct infp_scan;
/* -ENOENT when the run has no such table: no segment, and nothing about it in `columns`. */
int infp_scan_open(struct infp_run *run, const char *table, const struct infp_scan_options *options,
                   struct infp_scan **ret, struct infp_err *err);
struct infp_scan *infp_scan_close(struct infp_scan *scan); /* NULL is fine; returns NULL */
/* Columns of what comes, kinds and units from the run's own table `columns`. Owned by the scan. */
const struct infp_table *infp_scan_table(const struct infp_scan *scan);
/* 1: batch, borrowed until the next call; 0: end; negative errno. */
int infp_scan_next(struct infp_scan *scan, struct infp_batch *ret, struct infp_err *err);
