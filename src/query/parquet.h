/* Parquet files of a short run, written without DuckDB. */
#pragma once

#include "query/duck.h"

/* As infp_duck_rows_to_parquet, but holds all rows in memory: for some MiB. */
int infp_small_parquet(const struct infp_rows *rows, int dir_fd, const char *name, mode_t mode, uint64_t *ret_rows,
                       struct infp_err *err);
