#include "analyze/labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report_scan.h"
#include "base/mem.h"
#include "base/sort.h"

static const char filename[] = "filename: ";
enum { FILENAME_SIZE = sizeof(filename) - 1 };

void infp_labels_done(struct infp_labels *labels)
{
        for (unsigned i = 0; i < labels->n; i++) {
                free(labels->list[i].tag);
                free(labels->list[i].source);
                free(labels->list[i].stamp);
        }
        free(labels->list);
        free(labels->filename);
        *labels = (struct infp_labels){ 0 };
}

static int out_of_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "no memory for the report");
}

static char *text_of(const struct infp_batch *batch, int column, uint32_t row)
{
        size_t size = 0;
        const char *text = column >= 0 ? infp_batch_str(batch, (unsigned) column, row, &size) : "";

        return strndup(text, size);
}

enum { TAG, SOURCE, STAMP, N_COLUMNS };
static const char *const columns[] = { [TAG] = "tag", [SOURCE] = "source", [STAMP] = "stamp", [N_COLUMNS] = NULL };

static bool is_filename(const struct infp_label_mark *mark)
{
        return !strcmp(mark->source, "output") && !strncmp(mark->tag, filename, FILENAME_SIZE);
}

/* Marks are few, but come from outside: the room doubles up to the bound. */
static int add(struct infp_labels *labels, struct infp_label_mark *mark)
{
        struct infp_label_mark *more = labels->list;

        if (labels->n == INFP_LABELS_MAX) {
                labels->n_left_out++;
                return 0;
        }
        if ((labels->n & (labels->n - 1)) == 0)
                more = reallocarray(labels->list, labels->n ? 2 * (size_t) labels->n : 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        labels->list = more;
        more[labels->n++] = *mark;
        *mark = (struct infp_label_mark){ 0 };
        return 0;
}

static int take_mark(struct infp_labels *labels, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_label_mark mark = {
                .tag = text_of(batch, at[TAG], row),
                .source = text_of(batch, at[SOURCE], row),
                .stamp = text_of(batch, at[STAMP], row),
                .t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                .unix_ns = infp_batch_i64(batch, 1, row),
        };
        int r = mark.tag && mark.source && mark.stamp ? 0 : -ENOMEM;

        if (r == 0 && !*mark.stamp) {
                free(mark.stamp);
                mark.stamp = NULL;
        }
        if (r == 0 && is_filename(&mark)) {
                free(labels->filename);
                labels->filename = strdup(mark.tag + FILENAME_SIZE);
                r = labels->filename ? 0 : -ENOMEM;
        } else if (r == 0) {
                r = add(labels, &mark);
        }
        free(mark.tag);
        free(mark.source);
        free(mark.stamp);
        return r;
}

/* A label whose time stands in its line may be written after later ones. */
static int by_time(const void *a, const void *b)
{
        const struct infp_label_mark *x = a, *y = b;

        return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

int infp_labels_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_labels *ret,
                     struct infp_err *err)
{
        struct infp_scan *scan;
        struct infp_batch batch;
        int at[N_COLUMNS], r;

        *ret = (struct infp_labels){ 0 };
        r = infp_report_scan(run, "marks", columns, options, &scan, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < N_COLUMNS; i++)
                at[i] = infp_table_find(infp_scan_table(scan), columns[i]);
        while (at[TAG] >= 0 && r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (take_mark(ret, &batch, at, row) < 0)
                                r = out_of_memory(err);
        infp_scan_close(scan);
        if (r < 0)
                infp_labels_done(ret);
        else
                infp_sort(ret->list, ret->n, sizeof(*ret->list), by_time);
        return r < 0 ? r : 0;
}
