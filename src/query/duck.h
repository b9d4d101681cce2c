/* SQL by DuckDB, loaded with dlopen when needed from INFPROF_LIBDUCKDB, the binary's directory, ../lib/infprof, or where the
 * loader finds it. Without DuckDB every function returns -ENOPKG with a sentence that names these places. */
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
/* Stops the running query with -EINTR; may be called from a signal handler and from any thread. */
void infp_duck_interrupt(struct infp_duck *duck);

/* Makes each table of the run a view of the same name (entities joined: query/joins.h), and `timeseries`. Rows that are added to
 * a segment later are seen, new segments are not: attach again. The run is borrowed until close or the next attach. */
int infp_duck_attach(struct infp_duck *duck, struct infp_run *run, struct infp_err *err);

/* After attach, and permanently: SQL is limited to one SELECT that reads this run and no other file, and no setting can be
 * changed. -ENOTSUP when DuckDB is too old; -ELOOP when a file of the run is a symbolic link. */
int infp_duck_restrict(struct infp_duck *duck, struct infp_err *err);

/* Runs one or more SQL statements and returns the result of the last in batches of a `plain` table (model/schema.h) with the
 * result's columns in order. Integers are i64 or u64; larger ones, and every type that is not ours (dates, intervals, lists ...),
 * are DuckDB's text; decimals are f64 where that keeps all digits, else text. The types of 128-bit integers and decimals depend
 * on their values; if the result is too large to look at first, they are text. -EINVAL with DuckDB's text for an SQL error. One
 * result at a time. */
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

/* The same for rows that do not come from SQL: `next` works like infp_scan_next. name is below dir_fd; AT_FDCWD: a user's path. */
struct infp_rows {
        const struct infp_table *table;
        void *context;
        int (*next)(void *context, struct infp_batch *ret, struct infp_err *err);
        bool is_small; /* some KiB: snappy, since zstd takes longer to set up a column than to compress it */
};
int infp_duck_rows_to_parquet(struct infp_duck *duck, const struct infp_rows *rows, int dir_fd, const char *name,
                              mode_t mode, uint64_t *ret_rows, struct infp_err *err);
