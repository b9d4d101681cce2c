#include "analyze/baseline.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "model/baseline.h"
#include "query/scan.h"

static bool is_text(const struct infp_batch *batch, int column, uint32_t row, const char *text)
{
        size_t size;
        const char *found = column >= 0 ? infp_batch_str(batch, (unsigned) column, row, &size) : NULL;

        return found && size == strlen(text) && !memcmp(found, text, size);
}

int infp_baseline_find(struct infp_run *run, struct infp_baseline *ret, struct infp_err *err)
{
        static const char *const names[] = { "source", "tag", NULL };
        const struct infp_scan_options options = { .columns = names };
        struct infp_baseline found = { 0 };
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = infp_scan_open(run, "marks", &options, &scan, err), source, tag;

        *ret = found;
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        source = infp_table_find(infp_scan_table(scan), names[0]);
        tag = infp_table_find(infp_scan_table(scan), names[1]);
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        const uint64_t t_ns = (uint64_t) infp_batch_i64(&batch, 0, row);

                        if (!is_text(&batch, source, row, INFP_BASELINE_SOURCE))
                                continue;
                        if (is_text(&batch, tag, row, INFP_BASELINE_START))
                                found.t0 = t_ns;
                        else if (is_text(&batch, tag, row, INFP_BASELINE_END))
                                found.t1 = t_ns;
                }
        infp_scan_close(scan);
        if (r >= 0 && found.t0 && found.t1 > found.t0)
                *ret = found;
        return r;
}
