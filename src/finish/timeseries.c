#include "finish/timeseries.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/new_file.h"
#include "query/series.h"
#include "view/format.h"

enum { FEW_SAMPLES = 64 };

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

static int write_text_file(struct infp_run *run, struct infp_series *series, const struct infp_format *format,
                           const char *name, uint64_t *ret_rows, struct infp_err *err)
{
        infp_cleanup(infp_new_file_done) struct infp_new_file file = INFP_NEW_FILE_INIT;
        char path[512];
        struct infp_out out;
        int r;

        snprintf(path, sizeof(path), "%s/%s", run->output, name);
        r = infp_new_file_at(&file, run->output_fd, name, infp_run_file_mode(run));
        if (r < 0)
                return infp_fail_errno(err, r, "cannot write %s", path);
        infp_out_init(&out, file.fd, path);
        r = write_text(series, format, &out, ret_rows, err);
        infp_out_done(&out);
        if (r < 0)
                return r;
        r = infp_new_file_commit(&file, true);
        return r < 0 ? infp_fail_errno(err, r, "cannot write %s", path) : 0;
}

static bool is_small(const struct infp_run_info *info)
{
        return (info->ended_t_ns - info->started_t_ns) / infp_run_period_ns(info, "ticks") < FEW_SAMPLES;
}

/* The format of a file that ends in .<format>: one sample per line, in JSON as well. */
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
                return infp_fail(err, -EINVAL,
                                 "the run asks for a time series in format '%s', which infprof does not know", format);
        snprintf(ret->series, sizeof(ret->series), "%s.%.16s", run->info.uuid, format);
        INFP_TRY(infp_series_open(run, 0, 0, &series, err));
        if (is_parquet) {
                struct infp_rows rows = { infp_series_table(series), series, next, is_small(&run->info) };

                r = infp_duck_rows_to_parquet(duck, &rows, run->output_fd, ret->series, infp_run_file_mode(run),
                                              &ret->n_samples, err);
        } else {
                r = write_text_file(run, series, text, ret->series, &ret->n_samples, err);
        }
        infp_series_close(series);
        return r;
}
