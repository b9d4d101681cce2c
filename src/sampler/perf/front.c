#include "sampler/perf/front.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>

#include "base/time.h"
#include "sampler/perf/inner.h"

/* A record is stamped before it is written: what another CPU has stamped this long ago is in its ring. */
static const uint64_t settle_ns = INFP_NS_PER_MS;
/* Descriptors that others may still need. */
enum { SPARE_FDS = 256, MOST_EVENTS = 1 << 17 };

const char *infp_perf_method_name(enum infp_perf_method method)
{
        static const char *const names[] = {
                [INFP_PERF_NONE] = "none",
                [INFP_PERF_TREE] = "perf events of a tree",
                [INFP_PERF_THREADS] = "perf events of threads",
                [INFP_PERF_CPUS] = "perf events of CPUs, the target's alone",
                [INFP_PERF_MACHINE] = "perf events of CPUs",
        };

        return names[method];
}

/* A quarter of a small allowance: the collectors and the store need theirs. */
static uint32_t event_budget(void)
{
        struct rlimit limit;
        uint64_t n;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return SPARE_FDS;
        n = limit.rlim_cur > 2 * SPARE_FDS ? limit.rlim_cur - SPARE_FDS : limit.rlim_cur / 4;
        return n > MOST_EVENTS ? MOST_EVENTS : (uint32_t) n;
}

int infp_perf_open(const struct infp_perf_options *options, struct infp_perf **ret, const char **ret_fix,
                   struct infp_err *err)
{
        struct infp_perf *perf = calloc(1, sizeof(*perf));
        int r;

        *ret_fix = NULL;
        if (!INFP_PERF_REGISTERS) {
                free(perf);
                return infp_fail(err, -ENOTSUP, "stacks are sampled on x86-64 only");
        }
        if (!perf)
                return infp_fail(err, -ENOMEM, "no memory for perf events");
        perf->options = *options;
        r = infp_perf_probe(perf, ret_fix, err);
        perf->n_kinds = options->switch_samples && perf->may.switch_samples ? PERF_KINDS : 1;
        if (r >= 0)
                r = infp_perf_map_rings(perf, ret_fix, err);
        if (r < 0) {
                infp_perf_free(perf);
                return r;
        }
        perf->max_events = event_budget();
        perf->per_group = perf->n_cpus * perf->n_kinds;
        perf->reader = (struct infp_perf_reader){
                .has_callchain = perf->may.kernel,
                .is_wanted = infp_perf_is_of_target,
                .task = infp_perf_note_task,
                .context = perf,
        };
        *ret = perf;
        return 0;
}

struct infp_perf *infp_perf_free(struct infp_perf *perf)
{
        if (!perf)
                return NULL;
        for (unsigned i = 0; i < perf->n_groups; i++)
                if (perf->groups[i].tid)
                        infp_perf_group_close(perf, i);
        infp_perf_unmap_rings(perf);
        infp_map_done(&perf->known);
        free(perf->groups);
        free(perf->fds);
        free(perf->cpus);
        free(perf->rings);
        free(perf);
        return NULL;
}

struct infp_perf_may infp_perf_may(const struct infp_perf *perf)
{
        return perf->may;
}

uint32_t infp_perf_ring_bytes(const struct infp_perf *perf)
{
        return perf->ring_bytes;
}

uint32_t infp_perf_stack_bytes(const struct infp_perf *perf)
{
        return perf->options.stack_bytes;
}

unsigned infp_perf_rings(const struct infp_perf *perf)
{
        return perf->n_cpus * perf->n_kinds;
}

int infp_perf_launch(struct infp_perf *perf, pid_t pid, struct infp_err *err)
{
        unsigned group;
        int r = infp_perf_group_open(perf, pid, true, &group);

        if (r < 0)
                return infp_perf_refused(r, err);
        perf->method = INFP_PERF_TREE;
        return 0;
}

unsigned infp_perf_pollfds(const struct infp_perf *perf, struct pollfd *ret, unsigned cap)
{
        unsigned n = 0;

        for (unsigned i = 0; i < perf->n_cpus * perf->n_kinds && n < cap; i++) {
                const int fd = perf->cpus[i / perf->n_kinds].fd[i % perf->n_kinds];

                if (fd >= 0)
                        ret[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
        }
        return n;
}

uint64_t infp_perf_drain(struct infp_perf *perf, const struct infp_perf_handler *handler, bool all)
{
        const uint64_t until_ns = all ? UINT64_MAX : infp_clock_ns(CLOCK_MONOTONIC) - settle_ns;
        const unsigned n_rings = perf->n_cpus * perf->n_kinds;
        struct infp_perf_ring *ring;
        uint64_t n = 0;

        perf->reader.handler = handler;
        for (unsigned i = 0; i < n_rings; i++)
                infp_perf_ring_look(&perf->rings[i]);
        while ((ring = infp_perf_ring_oldest(perf->rings, n_rings, until_ns))) {
                perf->reader.is_of_switches = (unsigned) (ring - perf->rings) % perf->n_kinds == PERF_KIND_SWITCH;
                infp_perf_record_give(&perf->reader, ring->record, ring->record_size);
                infp_perf_ring_pop(ring);
                n++;
        }
        return n;
}

uint64_t infp_perf_lost(const struct infp_perf *perf)
{
        return perf->reader.n_lost;
}

uint64_t infp_perf_lost_switches(const struct infp_perf *perf)
{
        return perf->n_lost_switches > perf->reader.n_lost_switches ? perf->n_lost_switches
                                                                    : perf->reader.n_lost_switches;
}

void infp_perf_stop(struct infp_perf *perf)
{
        if (perf->is_stopped)
                return;
        perf->is_stopped = true;
        for (unsigned i = 0; i < perf->n_groups * perf->per_group; i++)
                if (perf->groups[i / perf->per_group].tid && perf->fds[i].fd >= 0)
                        ioctl(perf->fds[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

void infp_perf_counts(struct infp_perf *perf, struct infp_perf_counts *ret)
{
        const struct infp_perf_reader *reader = &perf->reader;
        uint64_t n_broken = reader->n_broken;

        infp_perf_groups_reap(perf);
        infp_perf_groups_read(perf, perf->is_stopped);
        for (unsigned i = 0; i < perf->n_cpus * perf->n_kinds; i++)
                n_broken += perf->rings[i].n_broken;
        *ret = (struct infp_perf_counts){
                .method = perf->method,
                .has_clock = perf->method == INFP_PERF_TREE || perf->method == INFP_PERF_THREADS,
                .clock_ns = perf->clock_ns,
                .n_samples = reader->n_samples,
                /* The events count what the records tell only with the next one that finds room. */
                .n_lost = perf->n_lost > reader->n_lost ? perf->n_lost : reader->n_lost,
                .n_throttled = reader->n_throttled,
                .n_broken = n_broken,
                .n_foreign = reader->n_foreign,
                .n_skipped = perf->n_skipped,
                .was_late = perf->was_late,
                .refused = perf->refused,
                .n_events = perf->n_events,
        };
}
