/* Perf events of a target: a ring a CPU, into which the events of all its threads write, and the reading of all of them in the order
 * of time. Everything but infp_perf_counts' result belongs to one thread at a time. */
#pragma once

#include <poll.h>

#include "sampler/perf/perf.h"

enum {
        INFP_PERF_RING_BYTES = 4 << 20,
};

struct infp_perf_options {
        double hz;                   /* samples of the CPU's clock; 0: none */
        uint32_t stack_bytes;        /* copied of each stack, a multiple of 8 */
        bool switch_records;         /* handler.run: threads get a CPU and lose it */
        bool switch_samples;         /* a sample with is_switch at each loss of a CPU, where that is allowed */
        uint32_t switch_stack_bytes; /* of these; 0: as stack_bytes */
        uint32_t ring_bytes;         /* a CPU, at most; 0: INFP_PERF_RING_BYTES */
};

/* What the kernel lets us do; decided by infp_perf_open. */
struct infp_perf_may {
        bool kernel;         /* frames and time of the kernel */
        bool machine;        /* events of CPUs, for any process */
        bool switch_samples; /* stacks at switches */
        bool build_ids;      /* in records of mappings */
};

enum infp_perf_method {
        INFP_PERF_NONE,
        INFP_PERF_TREE,    /* events that a command's tree inherits */
        INFP_PERF_THREADS, /* events of the threads that were there, inherited by those that they start */
        INFP_PERF_CPUS,    /* events of CPUs; records of others than the target are left out */
        INFP_PERF_MACHINE, /* events of CPUs; everybody is the target */
};
const char *infp_perf_method_name(enum infp_perf_method method);

struct infp_perf;

/* Maps a ring for each CPU; nothing is sampled yet. 0; -ENOSYS, -EPERM, -EACCES: not allowed at all, -EMFILE, -ENOMEM: no
 * descriptors, no memory that may be locked: err has the reason, ret_fix what would help. */
int infp_perf_open(const struct infp_perf_options *options, struct infp_perf **ret, const char **ret_fix,
                   struct infp_err *err);
struct infp_perf *infp_perf_free(struct infp_perf *perf); /* NULL is fine; returns NULL */
struct infp_perf_may infp_perf_may(const struct infp_perf *perf);
uint32_t infp_perf_ring_bytes(const struct infp_perf *perf);
uint32_t infp_perf_stack_bytes(const struct infp_perf *perf); /* less than asked for where rings are small */

/* What is copied of each stack at least, if there is so much: a record has at most 64 KiB with all that stands before the stack. */
uint32_t infp_perf_copied_bytes(const struct infp_perf *perf, bool is_switch);

/* Events run this BPF program from now on at each sample: those that are open, those that are opened later, and what inherits from them
 * later. The descriptor is borrowed until infp_perf_free. */
void infp_perf_set_program(struct infp_perf *perf, int fd);

/* Switches are not recorded, and their events run this program, which has perf write nothing: another one writes samples of waits
 * (struct infp_switch) by an event of each CPU, given to `put`. Before anything else is opened. 0, or a negative errno: all is as it was. */
typedef int infp_perf_put_event_fn(void *context, int cpu, int fd, bool is_shallow);
int infp_perf_filter_switches(struct infp_perf *perf, int program_fd, infp_perf_put_event_fn *put, void *context);
/* Whether what is written of all threads of the machine is of the target. */
bool infp_perf_is_target(const struct infp_perf *perf, int32_t pid);

/* A process at its gate: sampled from its exec on, with all that it starts. */
int infp_perf_launch(struct infp_perf *perf, pid_t pid, struct infp_err *err);
/* The threads of these processes; what they start later is sampled with them. Those that were attached before cost nothing. The
 * processes' descendants must be among pids. Processes that may not be sampled are in infp_perf_counts and are no error. */
int infp_perf_attach(struct infp_perf *perf, const int32_t *pids, size_t n, struct infp_err *err);
/* Everybody. */
int infp_perf_attach_machine(struct infp_perf *perf, struct infp_err *err);

/* Descriptors to poll, at most `cap`: readable when a ring has a good piece to read. Returns their number. */
unsigned infp_perf_pollfds(const struct infp_perf *perf, struct pollfd *ret, unsigned cap);
unsigned infp_perf_rings(const struct infp_perf *perf);

/* Gives the records that are older than settle_ns to the handler, by time, with 0 all: a record is stamped before it is written, so
 * another CPU may still write one that is older than the newest. Returns their number. */
uint64_t infp_perf_drain(struct infp_perf *perf, const struct infp_perf_handler *handler, uint64_t settle_ns);

/* Records that the kernel has said it lost, as far as they were drained. */
uint64_t infp_perf_lost(const struct infp_perf *perf);
/* Of the samples of switches alone, which have rings of their own: these stacks are missing, nothing else is. */
uint64_t infp_perf_lost_switches(const struct infp_perf *perf);

/* Ends the sampling. What lies in the rings can still be read. */
void infp_perf_stop(struct infp_perf *perf);

/* The first process that the kernel did not let us sample. */
struct infp_perf_refused {
        int32_t pid; /* 0: none */
        char name[16];
};

/* Sums since the start. */
struct infp_perf_counts {
        enum infp_perf_method method;
        bool has_clock;    /* clock_ns is of the target alone */
        uint64_t clock_ns; /* time that the target was on a CPU, by the kernel's counting of the events */
        uint64_t n_samples, n_lost, n_throttled;
        uint64_t n_broken;  /* records that made no sense: of those a ring was given up to its end */
        uint64_t n_foreign; /* samples of others, and of threads whose end had made them nobody's */
        uint64_t n_skipped; /* threads that are not sampled, since a limit does not let us ... */
        bool was_late;      /* ... or since it took too long */
        struct infp_perf_refused refused;
        uint32_t n_events;
};
/* Also closes the events of threads that have ended. Reads the clocks, of thousands of threads a part at each call. */
void infp_perf_counts(struct infp_perf *perf, struct infp_perf_counts *ret);
