/* The time series of a run as one file beside it. */
#pragma once

#include "finish/finish.h"
#include "query/duck.h"

/* Writes <uuid>.<format> into the output directory, atomically. format: parquet (needs duck), csv, tsv or json (JSON Lines). */
int infp_finish_timeseries(struct infp_run *run, struct infp_duck *duck, const char *format, struct infp_finished *ret,
                           struct infp_err *err);
