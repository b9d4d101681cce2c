#include "analyze/thread_stops.h"

#include "analyze/scan_some.h"
#include "model/stack_tables.h"

static const char *const columns[] = { "stop_ns", NULL };

const uint32_t infp_stop_bounds_us[INFP_STOP_BUCKETS - 1] = { 20,   50,   100,   200,   500,  1000,
                                                              2000, 5000, 10000, 20000, 50000 };

static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_thread_stops *stops = context;
        const int64_t ns = infp_cell_has(batch, at[0], row) ? infp_batch_i64(batch, (unsigned) at[0], row) : -1;
        unsigned bucket = 0;

        if (ns < 0)
                return 0;
        while (bucket < INFP_STOP_BUCKETS - 1 && ns > 1000 * (int64_t) infp_stop_bounds_us[bucket])
                bucket++;
        stops->n[bucket]++;
        infp_samples_add(&stops->times, (uint64_t) ns);
        return 0;
}

int infp_thread_stops_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_thread_stops *ret,
                           struct infp_err *err)
{
        *ret = (struct infp_thread_stops){ .n = { 0 } };
        return infp_scan_rows(run, infp_table_thread_stops.name, columns, options, take, ret, err);
}

void infp_thread_stops_done(struct infp_thread_stops *stops)
{
        infp_samples_done(&stops->times);
}
