/* Arrow segments of a run become Parquet. */
#pragma once

#include "finish/finish.h"
#include "query/duck.h"

/* Converts all of them; broken ones are kept as they are and reported. */
int infp_finish_tables(struct infp_run *run, struct infp_duck *duck, const struct infp_notices *notices,
                       struct infp_finished *ret, struct infp_err *err);
