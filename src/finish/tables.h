/* Arrow segments of a run become Parquet. */
#pragma once

#include "finish/finish.h"
#include "query/duck.h"

/* Below a MiB: Parquet is written without DuckDB. */
bool infp_finish_is_small(const struct infp_run *run);
/* duck NULL: the run is small. */
int infp_finish_parquet(struct infp_duck *duck, const struct infp_rows *rows, int dir_fd, const char *name, mode_t mode,
                        uint64_t *ret_rows, struct infp_err *err);
/* Converts all of them; broken ones are kept as they are and reported. duck as above. */
int infp_finish_tables(struct infp_run *run, struct infp_duck *duck, const struct infp_notices *notices,
                       struct infp_finished *ret, struct infp_err *err);
