#include "record/anchors.h"

#include <stddef.h>

#include "base/time.h"
#include "model/tables.h"

enum { READINGS = 5 };

static const uint64_t periodic_ns = 60 * INFP_NS_PER_S;
/* A step of the wall clock between two looks. Slewing by NTP is at most 500 ppm: 0.5 ms from second to second. */
static const int64_t set_ns = 5 * (int64_t) INFP_NS_PER_MS;

void infp_clocks_read(void *context, struct infp_clocks *ret)
{
        uint64_t best = UINT64_MAX;

        (void) context;
        /* The thread may lose its CPU between two clocks: the reading with the smallest gap is nearest to one moment. */
        for (unsigned i = 0; i < READINGS; i++) {
                uint64_t before = infp_clock_ns(CLOCK_MONOTONIC);
                uint64_t unix_ns = infp_clock_ns(CLOCK_REALTIME);
                uint64_t after = infp_clock_ns(CLOCK_MONOTONIC);

                if (after - before >= best)
                        continue;
                best = after - before;
                ret->at.t_ns = before + best / 2;
                ret->at.unix_ns = (int64_t) unix_ns;
                ret->boottime_ns = infp_clock_ns(CLOCK_BOOTTIME);
        }
}

static int64_t offset_of(const struct infp_clocks *clocks)
{
        return clocks->at.unix_ns - (int64_t) clocks->at.t_ns;
}

void infp_anchors_begin(struct infp_anchors *anchors, void (*read)(void *context, struct infp_clocks *ret),
                        void *context)
{
        *anchors = (struct infp_anchors){ .read = read ? read : infp_clocks_read, .context = context };
        infp_anchors_take(anchors);
}

void infp_anchors_take(struct infp_anchors *anchors)
{
        anchors->read(anchors->context, &anchors->newest);
        anchors->last_offset = offset_of(&anchors->newest);
}

const char *infp_anchors_look(struct infp_anchors *anchors)
{
        struct infp_clocks now;
        const char *reason = NULL;
        int64_t step;

        anchors->read(anchors->context, &now);
        step = offset_of(&now) - anchors->last_offset;
        if (step > set_ns || step < -set_ns)
                reason = "clock_set";
        else if (now.at.t_ns - anchors->newest.at.t_ns >= periodic_ns)
                reason = "periodic";
        anchors->last_offset = offset_of(&now);
        if (reason)
                anchors->newest = now;
        return reason;
}

void infp_anchors_row(const struct infp_anchors *anchors, const char *reason, struct infp_row *row)
{
        infp_row_begin(row, &infp_table_clock, anchors->newest.at.t_ns);
        infp_row_ts(row, INFP_CLOCK_REALTIME, anchors->newest.at.unix_ns);
        if (anchors->newest.boottime_ns)
                infp_row_i64(row, INFP_CLOCK_BOOTTIME, (int64_t) anchors->newest.boottime_ns);
        infp_row_str(row, INFP_CLOCK_REASON, reason);
}
