/* The events of threads: opened, read and closed together. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sampler/perf/inner.h"

/* Counts that are read at each call, of thousands of events: a reading of one that runs interrupts its CPU. */
enum { READ_AT_ONCE = 512, FIRST_GROUPS = 8 };

static struct perf_fd *fds_of(const struct infp_perf *perf, unsigned group)
{
        return &perf->fds[(size_t) group * perf->per_group];
}

static int new_group(struct infp_perf *perf, unsigned *ret)
{
        for (unsigned i = 0; i < perf->n_groups; i++)
                if (!perf->groups[i].tid) {
                        *ret = i;
                        return 0;
                }
        if (perf->n_groups == perf->cap_groups) {
                const unsigned cap = perf->cap_groups ? 2 * perf->cap_groups : FIRST_GROUPS;
                struct perf_group *groups = reallocarray(perf->groups, cap, sizeof(*groups));
                struct perf_fd *fds;

                if (!groups)
                        return -ENOMEM;
                perf->groups = groups;
                fds = reallocarray(perf->fds, (size_t) cap * perf->per_group, sizeof(*fds));
                if (!fds)
                        return -ENOMEM;
                perf->fds = fds;
                perf->cap_groups = cap;
        }
        *ret = perf->n_groups++;
        return 0;
}

static int open_one(const struct infp_perf *perf, pid_t pid, const struct perf_cpu *cpu, enum perf_kind kind,
                    bool on_exec)
{
        struct perf_event_attr attr;
        int fd;

        infp_perf_attribute(perf, kind, &attr);
        attr.disabled = attr.enable_on_exec = on_exec;
        attr.inherit = pid != -1;
        fd = infp_perf_event(&attr, pid, cpu->number, cpu->fd[kind]);
        if (fd < 0 || !infp_fd_is_scarce(fd))
                return fd;
        infp_close(fd);
        return -EMFILE;
}

void infp_perf_group_close(struct infp_perf *perf, unsigned group)
{
        struct perf_fd *fds = fds_of(perf, group);

        for (unsigned i = 0; i < perf->per_group; i++) {
                perf->n_events -= fds[i].fd >= 0;
                fds[i].fd = infp_close(fds[i].fd);
        }
        perf->groups[group] = (struct perf_group){ 0 };
}

/* pid -1: of the CPUs. A CPU that has gone is left out. */
int infp_perf_group_open(struct infp_perf *perf, pid_t pid, bool on_exec, unsigned *ret_group)
{
        const unsigned kinds = perf->n_kinds;
        struct perf_fd *fds;
        unsigned group, n = 0;
        int r = new_group(perf, &group);

        if (r < 0)
                return r;
        fds = fds_of(perf, group);
        perf->groups[group] = (struct perf_group){ .tid = pid };
        for (unsigned i = 0; i < perf->per_group; i++)
                fds[i] = (struct perf_fd){ .fd = -1 };
        for (unsigned i = 0; i < perf->per_group && r >= 0; i++) {
                const struct perf_cpu *cpu = &perf->cpus[i / kinds];

                if (cpu->fd[i % kinds] < 0)
                        continue;
                r = perf->n_events < perf->max_events ? open_one(perf, pid, cpu, (enum perf_kind)(i % kinds), on_exec)
                                                      : -EMFILE;
                if (r >= 0) {
                        fds[i].fd = r;
                        perf->n_events++;
                        n++;
                } else if (r == -ENODEV) {
                        r = 0;
                }
        }
        if (r >= 0 && n) {
                *ret_group = group;
                return 0;
        }
        infp_perf_group_close(perf, group);
        return r < 0 ? r : -ENODEV;
}

static void read_one(struct infp_perf *perf, struct perf_fd *fd, bool is_clock)
{
        uint64_t values[2] = { 0, 0 };

        if (fd->fd < 0 || read(fd->fd, values, sizeof(values)) < (ssize_t) sizeof(values[0]))
                return;
        if (is_clock) {
                perf->clock_ns += values[0] - fd->clock_ns;
                fd->clock_ns = values[0];
                perf->n_lost += values[1] - fd->n_lost;
        } else {
                perf->n_lost_switches += values[1] - fd->n_lost;
        }
        fd->n_lost = values[1];
}

void infp_perf_groups_read(struct infp_perf *perf, bool all)
{
        const unsigned n = perf->n_groups * perf->per_group, kinds = perf->n_kinds;

        for (unsigned i = 0; i < n && (all || i < READ_AT_ONCE); i++) {
                if (perf->next_read >= n)
                        perf->next_read = 0;
                if (perf->groups[perf->next_read / perf->per_group].tid)
                        read_one(perf, &perf->fds[perf->next_read], perf->next_read % kinds == PERF_KIND_CLOCK);
                perf->next_read++;
        }
}

/* The kernel hangs up once the thread, and all that inherited its events, have ended. Closing earlier would take them from those. */
static bool is_over(const struct infp_perf *perf, const struct perf_fd *fds)
{
        for (unsigned i = 0; i < perf->per_group; i++) {
                struct pollfd fd = { .fd = fds[i].fd };

                if (fd.fd >= 0 && (poll(&fd, 1, 0) <= 0 || !(fd.revents & POLLHUP)))
                        return false;
        }
        return true;
}

void infp_perf_groups_reap(struct infp_perf *perf)
{
        const unsigned kinds = perf->n_kinds;

        for (unsigned i = 0; i < perf->n_groups; i++) {
                struct perf_fd *fds = fds_of(perf, i);

                if (!perf->groups[i].tid || !perf->groups[i].is_ended || !is_over(perf, fds))
                        continue;
                for (unsigned k = 0; k < perf->per_group; k++)
                        read_one(perf, &fds[k], k % kinds == PERF_KIND_CLOCK);
                infp_perf_group_close(perf, i);
        }
}
