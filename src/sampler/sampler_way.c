#include "sampler/sampler_way.h"

#include <time.h>
#include <unistd.h>

#include "base/time.h"

static const uint64_t wait_ns = 200 * 1000; /* for room in the ring, again and again */

void infp_sampler_way_wake(const struct infp_sampler_way *way)
{
        const uint64_t one = 1;

        (void) !write(way->wake_fd, &one, sizeof(one));
}

/* As the collectors' threads do it: at each quarter of the ring. */
static void wake_for_burst(struct infp_sampler_way *way)
{
        const uint64_t taken = infp_rowring_taken(way->ring), used = infp_rowring_written(way->ring) - taken;
        const size_t size = infp_rowring_size(way->ring);

        if (used <= size / 4 || (way->is_woken && taken - way->woken_at < size / 8))
                return;
        way->is_woken = true;
        way->woken_at = taken;
        infp_sampler_way_wake(way);
}

/* Waiting is better than losing as long as the kernel has room for what comes meanwhile. */
int infp_sampler_way_put(void *context, const struct infp_row *row)
{
        struct infp_sampler_way *way = context;
        const size_t size = infp_rowring_size(way->ring);

        wake_for_burst(way);
        while (way->patience_ns >= wait_ns && size - infp_rowring_used(way->ring) < size / 8) {
                const struct timespec pause = infp_timespec(wait_ns);

                clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
                way->patience_ns -= wait_ns;
                wake_for_burst(way);
        }
        return infp_rowring_put(way->ring, row);
}
