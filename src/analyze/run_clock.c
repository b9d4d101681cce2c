#include "analyze/run_clock.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/scan_some.h"
#include "base/mem.h"

void infp_run_clock_done(struct infp_run_clock *clock)
{
        free(clock->anchors);
        *clock = (struct infp_run_clock){ 0 };
}

static int add_anchor(struct infp_run_clock *clock, uint64_t t_ns, int64_t unix_ns)
{
        if (!INFP_ONE_MORE(clock->anchors, clock->n))
                return -ENOMEM;
        clock->anchors[clock->n++] = (struct infp_anchor){ t_ns, unix_ns };
        return 0;
}

static int take_anchor(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        if (!infp_cell_has(batch, at[0], row))
                return 0;
        return add_anchor(context, (uint64_t) infp_batch_i64(batch, 0, row),
                          infp_batch_i64(batch, (unsigned) at[0], row));
}

int infp_run_clock_read(struct infp_run *run, struct infp_run_clock *ret, struct infp_err *err)
{
        static const char *const columns[] = { "realtime", NULL };
        static const struct infp_scan_options whole;
        int r;

        *ret = (struct infp_run_clock){ 0 };
        r = infp_scan_rows(run, "clock", columns, &whole, take_anchor, ret, err);
        if (r >= 0 && !ret->n && add_anchor(ret, run->info.started_t_ns, run->info.started_unix_ns) < 0)
                r = infp_fail(err, -ENOMEM, "no memory for the clock of the run");
        if (r < 0)
                infp_run_clock_done(ret);
        return r;
}

/* By the newest anchor at or before the moment, as the recorder stamps `time`; by the first one before it. */
int64_t infp_run_clock_unix_ns(const struct infp_run_clock *clock, uint64_t t_ns)
{
        unsigned at = 0;

        while (at + 1 < clock->n && clock->anchors[at + 1].t_ns <= t_ns)
                at++;
        return infp_anchor_unix_ns(clock->anchors[at], t_ns);
}

uint64_t infp_run_clock_t_ns(const struct infp_run_clock *clock, int64_t unix_ns)
{
        unsigned at = 0;

        while (at + 1 < clock->n && clock->anchors[at + 1].unix_ns <= unix_ns)
                at++;
        const int64_t after = unix_ns - clock->anchors[at].unix_ns;

        if (after < 0 && (uint64_t) -after > clock->anchors[at].t_ns)
                return 0;
        return clock->anchors[at].t_ns + (uint64_t) after;
}
