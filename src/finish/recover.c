#include <errno.h>

#include "base/fd.h"
#include "base/notice.h"
#include "finish/finish.h"
#include "finish/lock.h"
#include "model/tables.h"
#include "query/scan.h"

/* The last moment of which the run knows. Without a tick it stays unknown. */
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

/* Locked: a mender removes what is half written, also what another one's finishing writes just now. */
static int mend(struct infp_run *run, const struct infp_notices *notices, struct infp_mend *ret, struct infp_err *err)
{
        infp_autoclose int fd = infp_finish_lock(run, INFP_FINISH_PATIENCE_MS, notices, err);

        if (fd < 0)
                return fd;
        INFP_TRY(infp_run_reload(run, err)); /* another one may have mended it before we had the lock */
        if (run->state != INFP_RUN_INTERRUPTED)
                return 0;
        if (run->problem)
                infp_notice(notices, "%s; it is rewritten from what the directory says", run->problem);
        INFP_TRY(infp_store_mend_run(run, ret, err));
        INFP_TRY(find_end(run, err));
        run->state = INFP_RUN_ENDED;
        return infp_run_save(run, err); /* from now on `finish` will do */
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
