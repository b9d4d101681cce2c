/* SQL by DuckDB, loaded with dlopen when it is needed: INFPROF_LIBDUCKDB, beside the binary, ../lib/infprof, the loader.
 * Every function of a build or machine without it returns -ENOPKG with a sentence that says where it was looked for. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/batch.h"
#include "query/scan.h"

/* A database in memory: it writes no file but those that SQL names, opens no connection, uses at most half of the memory that
 * is available, and as many threads as there are CPUs for it, or INFPROF_SQL_THREADS. One caller at a time. */
struct infp_duck;
int infp_duck_open(struct infp_duck **ret, struct infp_err *err);
/* The process's own for infp_duck_rows_to_parquet, without further threads. */
int infp_duck_open_writer(struct infp_duck **ret, struct infp_err *err);
/* A connection to one database that all of these share: for reading files only, each by its own caller. */
int infp_duck_open_shared(struct infp_duck **ret, struct infp_err *err);
struct infp_duck *infp_duck_close(struct infp_duck *duck); /* NULL is fine; returns NULL */
bool infp_duck_available(struct infp_err *err);
/* Ends what runs with -EINTR; may be called by a signal handler and by any thread. */
void infp_duck_interrupt(struct infp_duck *duck);

/* Every table of the run as a view of the same name (entities joined: query/joins.h), and `timeseries`. What the recorder adds
 * to a segment later is seen, a new segment is not: attach again. The run is borrowed until close or the next attach. */
int infp_duck_attach(struct infp_duck *duck, struct infp_run *run, struct infp_err *err);

/* After attach, for good: SQL is one SELECT that reads this run and no other file, and no setting can be changed. -ENOTSUP when
 * DuckDB is too old for it; -ELOOP when a file of the run is a symbolic link. */
int infp_duck_restrict(struct infp_duck *duck, struct infp_err *err);

/* Runs SQL, several statements too; hands the result of the last one out in batches of a `plain` table (model/schema.h) made
 * for it: its columns are the result's, in order. Integers come as i64 or u64; what exceeds both, and every type that is not
 * ours (dates, intervals, lists ...) as DuckDB's text; decimals as f64 where that keeps all digits, else as text. What 128-bit
 * integers and decimals become depends on their values; where the result is too large to be looked at first they are texts.
 * -EINVAL with DuckDB's text for an SQL error. One result at a time. */
struct infp_duck_result;
int infp_duck_query(struct infp_duck *duck, const char *sql, struct infp_duck_result **ret, struct infp_err *err);
const struct infp_table *infp_duck_result_table(const struct infp_duck_result *result);
/* 1: batch, borrowed until the next call; 0: end; a negative errno. */
int infp_duck_result_next(struct infp_duck_result *result, struct infp_batch *ret, struct infp_err *err);
struct infp_duck_result *infp_duck_result_free(struct infp_duck_result *result); /* NULL is fine; returns NULL */

/* Writes the rows of one SELECT as zstd Parquet into a new file (base/new_file.h), synced; on failure nothing stays. ret_rows
 * may be NULL. -ENOSPC when the disk is full. */
int infp_duck_to_parquet(struct infp_duck *duck, const char *sql, const char *path, uint64_t *ret_rows,
                         struct infp_err *err);

/* The same with rows that are not SQL's: `next` as infp_scan_next. name lies below dir_fd; AT_FDCWD: it is a
 * path of the user's. */
struct infp_rows {
        const struct infp_table *table;
        void *context;
        int (*next)(void *context, struct infp_batch *ret, struct infp_err *err);
        bool is_small; /* some KiB: packed by snappy, since zstd prepares each column longer than it packs it */
};
int infp_duck_rows_to_parquet(struct infp_duck *duck, const struct infp_rows *rows, int dir_fd, const char *name,
                              mode_t mode, uint64_t *ret_rows, struct infp_err *err);
