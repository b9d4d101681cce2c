#include "sampler/python/join.h"

#include <string.h>

#include "base/time.h"

struct waiting {
        bool is_used;
        struct infp_frames_record record; /* as far as it has frames */
};

/* Between record and sample, each of which may have the earlier time (Linux 6.3 stamps the sample first): microseconds, unless a virtual
 * machine loses its CPU between the two. */
static const uint64_t longest_ns = INFP_JOIN_LONGEST_NS;
/* A thread may switch as often as this, always at one place of the kernel. */
static const uint64_t switch_ns = 50 * 1000;

int infp_python_join_init(struct infp_python_join *join, uint32_t bytes)
{
        *join = (struct infp_python_join){ 0 };
        return infp_byte_ring_init(&join->ring, bytes);
}

void infp_python_join_done(struct infp_python_join *join)
{
        infp_byte_ring_done(&join->ring);
}

void infp_python_join_put(struct infp_python_join *join, const struct infp_frames_record *record)
{
        const size_t size = offsetof(struct infp_frames_record, frames) + record->n * sizeof(record->frames[0]);
        const size_t whole = offsetof(struct waiting, record) + size;
        struct waiting *waiting;

        if (!infp_byte_ring_after(&join->ring, NULL))
                infp_byte_ring_restart(&join->ring);
        while (!(waiting = infp_byte_ring_begin(&join->ring, whole, 0))) {
                const void *oldest = infp_byte_ring_after(&join->ring, NULL);

                if (!oldest)
                        return;
                infp_byte_ring_give_back(&join->ring, oldest);
        }
        waiting->is_used = false;
        memcpy(&waiting->record, record, size);
        infp_byte_ring_commit(&join->ring, whole);
}

/* Where it was interrupted; 0: the sample does not say. */
static uint64_t address_of(const struct infp_perf_sample *sample)
{
        if (sample->wait)
                return sample->wait->place;
        if (sample->n_kernel)
                return sample->kernel[0];
        return sample->has_registers && !sample->is_in_kernel ? sample->registers[INFP_RIP] : 0;
}

bool infp_python_join_is_of(const struct infp_perf_sample *sample, int32_t pid, int32_t tid, uint64_t address)
{
        const uint64_t wanted = address_of(sample);

        return tid == sample->tid && pid == sample->pid && (!wanted || address == wanted);
}

uint64_t infp_python_join_distance(const struct infp_perf_sample *sample)
{
        const uint64_t half_period_ns = sample->is_switch ? switch_ns : sample->period / 2;

        return half_period_ns < longest_ns ? half_period_ns : longest_ns;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
        return a < b ? b - a : a - b;
}

const struct infp_frames_record *infp_python_join_take(struct infp_python_join *join,
                                                       const struct infp_perf_sample *sample)
{
        uint64_t nearest_ns = infp_python_join_distance(sample) + 1;
        struct waiting *at, *found = NULL;

        while ((at = infp_byte_ring_after(&join->ring, NULL)) &&
               (at->is_used || at->record.t_ns + longest_ns < sample->t_ns))
                infp_byte_ring_give_back(&join->ring, at);
        for (; at && at->record.t_ns < sample->t_ns + longest_ns; at = infp_byte_ring_after(&join->ring, at)) {
                const uint64_t ns = distance(at->record.t_ns, sample->t_ns);

                if (at->is_used || ns >= nearest_ns ||
                    !infp_python_join_is_of(sample, at->record.pid, at->record.tid, at->record.address))
                        continue;
                found = at;
                nearest_ns = ns;
        }
        if (!found)
                return NULL;
        found->is_used = true;
        return &found->record;
}
