/* The last row of each table (of each key) as Prometheus text. */
#pragma once

#include "store/run.h"
#include "view/format.h"

/* As a scrape at the end of t0 <= t_ns < t1 would have shown it; t1 0: the end of the run. */
int infp_export_page(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_out *out, struct infp_err *err);
