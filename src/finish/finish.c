#include "finish/finish.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/notice.h"
#include "finish/lock.h"
#include "finish/symbolize.h"
#include "finish/tables.h"
#include "finish/timeseries.h"
#include "model/tables.h"
#include "query/scan.h"

static int check_state(const struct infp_run *run, struct infp_err *err)
{
        if (run->state == INFP_RUN_RECORDING)
                return infp_fail(err, -EBUSY, "run %s is still being recorded by process %d", run->info.uuid,
                                 run->info.recorder_pid);
        if (run->state == INFP_RUN_INTERRUPTED)
                return infp_fail(err, -ENOTRECOVERABLE,
                                 "the recording of run %s was interrupted; `infprof recover %s/%s.infprof` repairs and "
                                 "finishes it",
                                 run->info.uuid, run->output, run->info.uuid);
        return 0;
}

static void free_duck(struct infp_duck **duck)
{
        infp_duck_close(*duck);
}

/* A full disk is the only failure that a second try can fix: say so. */
static int explain(int r, const struct infp_run *run, struct infp_err *err)
{
        struct infp_err why = err ? *err : (struct infp_err){ "" };

        if (r != -ENOSPC && r != -EDQUOT)
                return r;
        return infp_fail(err, r, "%s; nothing is lost: make room and run `infprof finish -r %s/%s.infprof` again",
                         why.text, run->output, run->info.uuid);
}

/* Before DuckDB has threads, since naming forks a child, and before Parquet, which must contain the names. A recording without names
 * is still useful: only a full disk stops here. */
static int name_code(struct infp_run *run, const struct infp_notices *notices, struct infp_err *err)
{
        struct infp_err why = { "" };
        const int r =
                infp_symbolize_frames(run, &(struct infp_symbolize_options){ .root_fd = -1 }, notices, NULL, &why);

        if (r == -ENOSPC || r == -EDQUOT)
                return infp_fail(err, r, "%s", why.text);
        if (r < 0)
                infp_notice(notices, "code has no names: %s; `infprof symbolize -r %s` tries again", why.text,
                            run->info.uuid);
        return 0;
}

static int do_all(struct infp_run *run, const struct infp_notices *notices, struct infp_finished *ret,
                  struct infp_err *err)
{
        infp_cleanup(free_duck) struct infp_duck *duck = NULL;
        const char *format = run->info.format && *run->info.format ? run->info.format : "parquet";
        struct infp_err why = { "" };
        int r = name_code(run, notices, err);

        if (r < 0)
                return r;
        r = infp_duck_open_writer(&duck, &why);
        if (r < 0 && r != -ENOPKG)
                return infp_fail(err, r, "%s", why.text);
        if (r < 0 && strcmp(format, "parquet") == 0)
                format = "csv";
        if (r < 0)
                infp_notice(notices, "the tables stay Arrow and the time series is %s: %s", format, why.text);
        infp_progress(notices, "finish: time series");
        /* First, while the tables are Arrow: reading each as Parquet needs a connection and its buffers. */
        INFP_TRY(infp_finish_timeseries(run, duck, format, ret, err));
        malloc_trim(0); /* no other table is as wide */
        if (duck)
                INFP_TRY(infp_finish_tables(run, duck, notices, ret, err));
        run->state = INFP_RUN_FINISHED;
        return infp_run_save(run, err);
}

int infp_finish(struct infp_run *run, const struct infp_notices *notices, struct infp_finished *ret,
                struct infp_err *err)
{
        infp_autoclose int fd = -1;
        struct infp_finished finished = { 0 };
        int r;

        INFP_TRY(check_state(run, err));
        /* Two processes that finish the same run take turns: the second finds the tables done. */
        fd = infp_finish_lock(run, INFP_FINISH_PATIENCE_MS, notices, err);
        if (fd < 0)
                return fd;
        r = do_all(run, notices, &finished, err);
        for (unsigned i = 0; i < run->notes.n; i++)
                infp_notice(notices, "%s", run->notes.list[i]);
        if (ret)
                *ret = finished;
        return explain(r, run, err);
}

/* The time of the last tick. Without ticks the end stays unknown. */
static int find_end(struct infp_run *run, struct infp_err *err)
{
        static const char *const columns[] = { "t_ns", NULL };
        struct infp_scan *scan;
        struct infp_batch batch;
        int r = infp_scan_open(run, infp_table_ticks.name, &(struct infp_scan_options){ .columns = columns }, &scan,
                               err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                if (batch.n_rows) {
                        run->info.ended_t_ns = (uint64_t) infp_batch_i64(&batch, 0, batch.n_rows - 1);
                        run->info.ended_unix_ns = infp_batch_i64(&batch, 1, batch.n_rows - 1);
                }
        infp_scan_close(scan);
        return r;
}

/* Locked: mending removes half-written files, which another process may be writing right now. */
static int mend(struct infp_run *run, const struct infp_notices *notices, struct infp_mend *ret, struct infp_err *err)
{
        infp_autoclose int fd = infp_finish_lock(run, INFP_FINISH_PATIENCE_MS, notices, err);

        if (fd < 0)
                return fd;
        INFP_TRY(infp_run_reload(run, err)); /* another process may have mended it before we got the lock */
        if (run->state != INFP_RUN_INTERRUPTED)
                return 0;
        if (run->problem)
                infp_notice(notices, "%s; it is rewritten from what the directory says", run->problem);
        INFP_TRY(infp_store_mend_run(run, ret, err));
        INFP_TRY(find_end(run, err));
        run->state = INFP_RUN_ENDED;
        return infp_run_save(run, err); /* from now on `finish` is enough */
}

int infp_recover(struct infp_run *run, const struct infp_notices *notices, struct infp_mend *ret_mend,
                 struct infp_finished *ret, struct infp_err *err)
{
        struct infp_mend counts = { 0 };

        if (ret)
                *ret = (struct infp_finished){ 0 };
        if (run->state == INFP_RUN_INTERRUPTED)
                INFP_TRY(mend(run, notices, &counts, err));
        if (ret_mend)
                *ret_mend = counts;
        return run->state == INFP_RUN_FINISHED ? 0 : infp_finish(run, notices, ret, err);
}
