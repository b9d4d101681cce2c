#include "analyze/program_spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report_scan.h"
#include "base/sort.h"
#include "model/tables.h"

enum { NAME, DURATION, STATUS, N_COLUMNS };
static const char *const columns[] = {
        [NAME] = "name", [DURATION] = "duration_ns", [STATUS] = "status", [N_COLUMNS] = NULL
};

/* NULL with *r 0: there are too many names. */
static struct infp_program_span *find(struct infp_program_spans *spans, const char *name, size_t size, int *r)
{
        struct infp_program_span *new;

        for (unsigned i = 0; i < spans->n; i++)
                if (strncmp(spans->list[i].name, name, size) == 0 && !spans->list[i].name[size])
                        return &spans->list[i];
        if (spans->n == INFP_PROGRAM_SPANS) /* bound: the rows of further names are counted */
                return NULL;
        new = &spans->list[spans->n];
        new->name = strndup(name, size);
        if (!new->name) {
                *r = -ENOMEM;
                return NULL;
        }
        spans->n++;
        return new;
}

static int take(struct infp_program_spans *spans, const struct infp_batch *batch, const int *at, uint32_t row)
{
        size_t size = 0, status_size = 0;
        const char *name = infp_batch_str(batch, (unsigned) at[NAME], row, &size),
                   *status = infp_batch_str(batch, (unsigned) at[STATUS], row, &status_size);
        const bool has_duration = infp_batch_has(batch, (unsigned) at[DURATION], row);
        const int64_t duration = has_duration ? infp_batch_i64(batch, (unsigned) at[DURATION], row) : -1;
        int r = 0;
        struct infp_program_span *span = find(spans, name ? name : "", name ? size : 0, &r);

        spans->n_rows++;
        if (!span) {
                spans->n_left_out++;
                return r;
        }
        span->n++;
        span->n_errors += status_size == strlen("error") && memcmp(status, "error", status_size) == 0;
        if (duration < 0)
                span->n_open++;
        else
                infp_samples_add(&span->durations, (uint64_t) duration);
        return 0;
}

static double total(const struct infp_program_span *span)
{
        return span->durations.stat.n ? span->durations.stat.mean * (double) span->durations.stat.n : 0;
}

static int by_total(const void *a, const void *b)
{
        const double x = total(a), y = total(b);

        return x > y   ? -1
               : x < y ? 1
                       : strcmp(((const struct infp_program_span *) a)->name,
                                ((const struct infp_program_span *) b)->name);
}

int infp_program_spans_read(struct infp_run *run, const struct infp_scan_options *options,
                            struct infp_program_spans *ret, struct infp_err *err)
{
        struct infp_scan *scan;
        struct infp_batch batch;
        int at[N_COLUMNS], r;
        bool has_all = true;

        *ret = (struct infp_program_spans){ 0 };
        r = infp_report_scan(run, infp_table_spans.name, columns, options, &scan, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < N_COLUMNS; i++) {
                at[i] = infp_table_find(infp_scan_table(scan), columns[i]);
                has_all &= at[i] >= 0;
        }
        ret->list = calloc(INFP_PROGRAM_SPANS, sizeof(*ret->list));
        if (!ret->list)
                r = infp_fail(err, -ENOMEM, "no memory for the report");
        while (r >= 0 && has_all && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r >= 0; row++)
                        r = take(ret, &batch, at, row);
        infp_scan_close(scan);
        infp_sort(ret->list, ret->n, sizeof(*ret->list), by_total);
        return r < 0 ? r : 0;
}

void infp_program_spans_done(struct infp_program_spans *spans)
{
        for (unsigned i = 0; i < spans->n; i++) {
                free(spans->list[i].name);
                infp_samples_done(&spans->list[i].durations);
        }
        free(spans->list);
        *spans = (struct infp_program_spans){ 0 };
}
