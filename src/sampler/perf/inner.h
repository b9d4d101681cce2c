/* The inside of the perf front, shared by its files alone. */
#pragma once

#include <linux/perf_event.h>

#include "base/map.h"
#include "sampler/perf/front.h"
#include "sampler/perf/record.h"
#include "sampler/perf/ring.h"

/* The ring of a CPU hangs on an event of our own that never counts, so that it outlives every event of the target and can be
 * polled without the endless POLLHUP of threads that are gone. */
enum perf_kind { PERF_KIND_CLOCK, PERF_KIND_SWITCH, PERF_KINDS };
struct perf_cpu {
        int number;
        /* Samples of switches have a ring of their own: when they are too many, what else is told must not be lost with them. */
        int fd[PERF_KINDS];
        /* By which a program in the kernel writes samples of waits, [1] with small copies of stacks; -1: there is none. */
        int output_fd[2];
        void *map[PERF_KINDS];
        size_t map_size;
};

/* The events of one thread, of a launched tree, or of the machine: `per_group` descriptors, the kinds of a CPU side by side. */
struct perf_group {
        int32_t tid; /* 0: not used */
        bool is_ended;
};
struct perf_fd {
        int fd;
        uint64_t clock_ns, n_lost; /* as read last */
};

struct infp_perf {
        struct infp_perf_options options;
        struct infp_perf_may may;
        bool has_lost_format;
        enum infp_perf_method method;
        bool is_stopped;
        int program_fd; /* -1: none */
        int filter_fd;  /* the program that events of switches run, which writes nothing of them; -1: none */

        struct perf_cpu *cpus;
        struct infp_perf_ring *rings; /* n_kinds of each CPU */
        unsigned n_cpus, n_kinds;
        uint32_t ring_bytes;
        struct infp_perf_reader reader;

        struct perf_group *groups;
        struct perf_fd *fds; /* per_group of each group */
        unsigned n_groups, cap_groups, per_group;
        unsigned next_read; /* the descriptor whose count is read next */
        uint32_t n_events, max_events;
        uint64_t clock_ns, n_lost, n_lost_switches; /* of all, closed ones too */

        /* THREADS: by tid, the number of its group, or PERF_INHERITED: it has its events from another. CPUS: by pid, who is the target. */
        struct infp_map known;
        uint64_t n_skipped;
        bool was_late;
        struct infp_perf_refused refused;
};

enum { PERF_INHERITED = UINT32_MAX };

/* front.c. Writes into the ring of the event with descriptor output_fd, -1: of none. A descriptor or a negative errno. */
int infp_perf_open_event(struct perf_event_attr *attr, pid_t pid, int cpu, int output_fd);
void infp_perf_attribute(const struct infp_perf *perf, enum perf_kind kind, struct perf_event_attr *ret);
/* The sentence for what perf_event_open answered, with the fix. Returns r. */
int infp_perf_refused(int r, struct infp_err *err);
/* Events of one thread (or of a tree that will inherit them, or with pid -1 of all CPUs). */
int infp_perf_group_open(struct infp_perf *perf, pid_t pid, bool on_exec, unsigned *ret_group);
void infp_perf_group_close(struct infp_perf *perf, unsigned group);
void infp_perf_groups_reap(struct infp_perf *perf);

/* outputs.c */
void infp_perf_close_outputs(struct perf_cpu *cpu);

/* threads.c */
static inline uint64_t perf_key(int32_t number)
{
        return (uint64_t) (uint32_t) number * UINT64_C(0x9e3779b97f4a7c15); /* the map wants mixed keys */
}
void infp_perf_note_task(void *perf, uint64_t t_ns, bool is_fork, int32_t pid, int32_t tid, int32_t parent_pid);
/* Whether the process that has the number now was there at that time (CLOCK_MONOTONIC), within 10 ms. */
bool infp_perf_was_there(int32_t pid, uint64_t t_ns);
bool infp_perf_is_of_target(void *perf, int32_t pid, int32_t tid);
