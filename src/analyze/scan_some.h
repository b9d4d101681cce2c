/* Tables of a run that an older infprof, an import or a foreign program wrote: any table and any column may be missing. */
#pragma once

#include <math.h>
#include <string.h>

#include "query/scan.h"

/* Scans those of the wanted columns that the run has. The catalog must be given. -ENOENT: there is no such table. */
int infp_scan_some(struct infp_run *run, const char *table, const char *const *wanted,
                   const struct infp_scan_options *given, struct infp_scan **ret, struct infp_err *err);

/* at[i] is the column of wanted[i] in the batch, -1 where it is missing. A negative errno ends the scan. */
typedef int infp_scan_row(void *context, const struct infp_batch *batch, const int *at, uint32_t row);
/* Passes each row to `take`. 0 also where there is no such table. The text of an -ENOMEM from `take` is written here. */
int infp_scan_rows(struct infp_run *run, const char *table, const char *const *wanted,
                   const struct infp_scan_options *given, infp_scan_row *take, void *context, struct infp_err *err);

/* Cells of a column that may be missing. */
static inline bool infp_cell_has(const struct infp_batch *batch, int column, uint32_t row)
{
        return column >= 0 && infp_batch_has(batch, (unsigned) column, row);
}

static inline double infp_cell_number(const struct infp_batch *batch, int column, uint32_t row)
{
        return column >= 0 ? infp_batch_number(batch, (unsigned) column, row) : NAN;
}

static inline bool infp_cell_bool(const struct infp_batch *batch, int column, uint32_t row)
{
        return infp_cell_has(batch, column, row) && infp_batch_bool(batch, (unsigned) column, row);
}

static inline const char *infp_cell_str(const struct infp_batch *batch, int column, uint32_t row, size_t *ret_size)
{
        *ret_size = 0;
        return column >= 0 ? infp_batch_str(batch, (unsigned) column, row, ret_size) : "";
}

static inline bool infp_cell_is(const struct infp_batch *batch, int column, uint32_t row, const char *text)
{
        size_t size;
        const char *cell = infp_cell_str(batch, column, row, &size);

        return size == strlen(text) && !memcmp(cell, text, size);
}

/* Replaces *ret by a copy of the cell; without a value it stays. */
int infp_cell_keep(char **ret, const struct infp_batch *batch, int column, uint32_t row);
