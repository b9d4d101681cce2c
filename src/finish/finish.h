/* Finishes a run that has ended: converts segments to Parquet and writes the time series to a file of its own. Can be repeated:
 * it continues where it stopped. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/notice.h"
#include "store/run.h"
#include "store/store.h"

struct infp_finished {
        unsigned n_segments; /* made Parquet now */
        uint64_t n_rows;     /* in them */
        uint64_t n_samples;  /* rows of the time series */
        char series[64];     /* its file's name in the output directory */
};

/* Segments to zstd Parquet, <uuid>.<format of the run>, run.json. Without DuckDB segments stay Arrow and a series that was to be
 * Parquet is CSV. -EBUSY while the run is recorded, -ENOTRECOVERABLE when its recorder died (infp_recover); -ENOSPC: nothing is lost,
 * finish it again. ret may be NULL. */
int infp_finish(struct infp_run *run, const struct infp_notices *notices, struct infp_finished *ret,
                struct infp_err *err);

/* Repairs a run whose recorder died: mends its segments, sets its end to the last tick and finishes it. A run that ended
 * unfinished is finished, a finished one is not touched. -EBUSY while it is recorded. Both results may be NULL. */
int infp_recover(struct infp_run *run, const struct infp_notices *notices, struct infp_mend *ret_mend,
                 struct infp_finished *ret, struct infp_err *err);
