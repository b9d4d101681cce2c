/* SQL by DuckDB, loaded with dlopen when it is needed: INFPROF_LIBDUCKDB, beside the binary, ../lib/infprof, the loader.
 * Every function of a build or machine without it returns -ENOPKG with a sentence that says where it was looked for. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "model/batch.h"
#include "query/scan.h"

struct infp_duck;
int infp_duck_open(struct infp_duck **ret, struct infp_err *err);
struct infp_duck *infp_duck_close(struct infp_duck *duck);
bool infp_duck_available(struct infp_err *err);

/* Every table of the run as a view of the same name (entities joined: query/views.h), and `timeseries`. */
int infp_duck_attach(struct infp_duck *duck, struct infp_run *run, struct infp_err *err);

/* Runs SQL; hands the result out in batches of a `plain` table (model/schema.h) made for it: its columns are the result's, in
 * order. -EINVAL with DuckDB's text for an SQL error. */
struct infp_duck_result;
int infp_duck_query(struct infp_duck *duck, const char *sql, struct infp_duck_result **ret, struct infp_err *err);
const struct infp_table *infp_duck_result_table(const struct infp_duck_result *result);
int infp_duck_result_next(struct infp_duck_result *result, struct infp_batch *ret, struct infp_err *err);
struct infp_duck_result *infp_duck_result_free(struct infp_duck_result *result);

/* COPY (sql) TO path as zstd Parquet; written aside and renamed. */
int infp_duck_to_parquet(struct infp_duck *duck, const char *sql, const char *path, struct infp_err *err);
