#include "finish/timeseries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "query/series.h"
#include "view/format.h"

static int next(void *context, struct infp_batch *ret, struct infp_err *err)
{
        return infp_series_next(context, ret, err);
}

static int write_text(struct infp_series *series, const struct infp_format *format, struct infp_out *out,
                      uint64_t *ret_rows, struct infp_err *err)
{
        const struct infp_table *table = infp_series_table(series);
        struct infp_batch batch;
        int r = format->begin(out, table);

        while (r >= 0 && (r = infp_series_next(series, &batch, err)) > 0) {
                *ret_rows += batch.n_rows;
                r = format->batch(out, &batch);
                if (r < 0)
                        break;
                infp_out_drain(out);
                r = out->error;
        }
        if (r < 0 && !out->error)
                return r;
        if (!out->error)
                format->end(out, table);
        return infp_out_flush(out, err);
}

/* Aside, synced, renamed. */
static int write_text_file(struct infp_run *run, struct infp_series *series, const struct infp_format *format,
                           const char *name, uint64_t *ret_rows, struct infp_err *err)
{
        infp_autoclose int fd = -1;
        char part[80], path[512];
        struct infp_out out;
        int r;

        snprintf(part, sizeof(part), "%s.part", name);
        snprintf(path, sizeof(path), "%s/%s", run->output, name);
        fd = openat(run->output_fd, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0)
                return infp_fail_errno(err, -errno, "cannot write %s", path);
        infp_out_init(&out, fd, path);
        r = write_text(series, format, &out, ret_rows, err);
        infp_out_done(&out);
        if (r == 0 && fsync(fd) < 0)
                r = infp_fail_errno(err, -errno, "cannot write %s to the disk", path);
        if (r == 0 && renameat(run->output_fd, part, run->output_fd, name) < 0)
                r = infp_fail_errno(err, -errno, "cannot rename %s", path);
        if (r < 0)
                unlinkat(run->output_fd, part, 0);
        return r;
}

/* Which of our formats makes a file that ends in .<format>: one sample a line, also as JSON. */
static const struct infp_format *text_format(const char *format)
{
        return strcmp(format, "json") == 0 ? &infp_format_jsonl : infp_format_find(format);
}

int infp_finish_timeseries(struct infp_run *run, struct infp_duck *duck, const char *format, struct infp_finished *ret,
                           struct infp_err *err)
{
        bool is_parquet = strcmp(format, "parquet") == 0;
        const struct infp_format *text = is_parquet ? NULL : text_format(format);
        struct infp_series *series;
        int r;

        if (!is_parquet && !text)
                return infp_fail(err, -EINVAL, "the run asks for a time series as '%s', which is no format of infprof",
                                 format);
        snprintf(ret->series, sizeof(ret->series), "%s.%.16s", run->info.uuid, format);
        INFP_TRY(infp_series_open(run, 0, 0, &series, err));
        if (is_parquet) {
                struct infp_rows rows = { infp_series_table(series), series, next };

                r = infp_duck_rows_to_parquet(duck, &rows, run->output_fd, ret->series, &ret->n_samples, err);
        } else {
                r = write_text_file(run, series, text, ret->series, &ret->n_samples, err);
        }
        infp_series_close(series);
        return r;
}
