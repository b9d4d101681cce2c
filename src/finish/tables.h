/* Arrow segments of a run become Parquet. */
#pragma once

#include "finish/finish.h"
#include "query/duck.h"

/* All of them; what is broken stays as it is and is said. */
int infp_finish_tables(struct infp_run *run, struct infp_duck *duck, const struct infp_notices *notices,
                       struct infp_finished *ret, struct infp_err *err);
