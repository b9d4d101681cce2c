#include "analyze/report_output.h"

#include <errno.h>
#include <string.h>

#include "analyze/report_scan.h"

enum { STREAM, OFFSET, LENGTH, N_COLUMNS };
static const char *const columns[] = {
        [STREAM] = "stream", [OFFSET] = "offset", [LENGTH] = "length", [N_COLUMNS] = NULL
};

static void take(struct infp_report_output *ret, const struct infp_scan_options *range, const struct infp_batch *batch,
                 const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const int64_t offset = infp_batch_i64(batch, (unsigned) at[OFFSET], row),
                      length = infp_batch_i64(batch, (unsigned) at[LENGTH], row);
        const bool is_in_range = t_ns >= range->t0 && (!range->t1 || t_ns < range->t1);
        size_t size;
        const char *stream = infp_batch_str(batch, (unsigned) at[STREAM], row, &size);
        uint64_t end;

        if (offset < 0 || length < 0)
                return;
        end = (uint64_t) offset + (uint64_t) length;
        ret->has = true;
        if (size == strlen("removed") && memcmp(stream, "removed", size) == 0) {
                ret->removed = end > ret->removed ? end : ret->removed;
                return;
        }
        ret->bytes = end > ret->bytes ? end : ret->bytes;
        ret->range_bytes += is_in_range ? (uint64_t) length : 0;
}

int infp_report_output_read(struct infp_run *run, const struct infp_scan_options *options,
                            struct infp_report_output *ret, struct infp_err *err)
{
        /* The file is the run's, whatever the range: rows of before and after it count, too. */
        const struct infp_scan_options whole = { .catalog = options->catalog };
        struct infp_scan *scan;
        struct infp_batch batch;
        int at[N_COLUMNS], r;
        bool has_all = true;

        *ret = (struct infp_report_output){ 0 };
        r = infp_report_scan(run, "output", columns, &whole, &scan, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < N_COLUMNS; i++) {
                at[i] = infp_table_find(infp_scan_table(scan), columns[i]);
                has_all &= at[i] >= 0;
        }
        while (has_all && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        take(ret, options, &batch, at, row);
        infp_scan_close(scan);
        return r < 0 ? r : 0;
}
