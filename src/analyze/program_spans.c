#include "analyze/program_spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/sort.h"
#include "model/tables.h"

enum { NAME, DURATION, STATUS };
static const char *const columns[] = { "name", "duration_ns", "status", NULL };

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

static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_program_spans *spans = context;
        size_t size;
        const char *name = infp_cell_str(batch, at[NAME], row, &size);
        const int64_t duration =
                infp_cell_has(batch, at[DURATION], row) ? infp_batch_i64(batch, (unsigned) at[DURATION], row) : -1;
        struct infp_program_span *span;
        int r = 0;

        if (at[NAME] < 0 || at[DURATION] < 0 || at[STATUS] < 0)
                return 0;
        span = find(spans, name, size, &r);
        spans->n_rows++;
        if (!span) {
                spans->n_left_out++;
                return r;
        }
        span->n++;
        span->n_errors += infp_cell_is(batch, at[STATUS], row, "error");
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
        int r;

        *ret = (struct infp_program_spans){ .list = calloc(INFP_PROGRAM_SPANS, sizeof(*ret->list)) };
        if (!ret->list)
                return infp_fail(err, -ENOMEM, "no memory for the report");
        r = infp_scan_rows(run, infp_table_spans.name, columns, options, take, ret, err);
        infp_sort(ret->list, ret->n, sizeof(*ret->list), by_total);
        return r;
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
