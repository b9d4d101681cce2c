#include "app/open_run.h"

#include <time.h>

#include "base/human.h"
#include "base/time.h"
#include "store/live.h"

enum { WAIT_MS = 1200 };

int infp_reader_open(const char *spec, struct infp_run **ret, int *ret_lock, struct infp_err *err)
{
        const struct timespec pause = infp_timespec(WAIT_MS * INFP_NS_PER_MS);
        static const char flush[] = "{\"table\":\"marks\",\"rows\":[]}";

        *ret_lock = -1;
        INFP_TRY(infp_run_open(spec, NULL, ret, err));
        if ((*ret)->state != INFP_RUN_RECORDING)
                return 0;
        *ret_lock = infp_live_read_lock((*ret)->info.uuid, NULL);
        /* A message without rows is answered when all rows before it are on disk. A recorder that cannot answer (another
         * user's, or stopped) flushes on its own. */
        if (infp_live_send((*ret)->info.uuid, flush, sizeof(flush) - 1, WAIT_MS, NULL) < 0 && *ret_lock >= 0)
                nanosleep(&pause, NULL);
        return 0;
}

void infp_reader_close(struct infp_run *run, const struct infp_notices *notices)
{
        if (!run)
                return;
        for (unsigned i = 0; i < run->notes.n; i++)
                infp_notice(notices, "%s", run->notes.list[i]);
        if (run->notes.n_more)
                infp_notice(notices, "%s more parts of run %s were left out", infp_count(run->notes.n_more).text,
                            run->info.uuid);
        infp_run_close(run);
}
