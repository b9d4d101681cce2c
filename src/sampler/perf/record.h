/* One record as the kernel wrote it, given to a handler. What stands in it is input: sizes are checked against the record's own, and
 * one that makes no sense is counted and left out.
 *
 * All events are opened with the same parts (INFP_PERF_SAMPLE_TYPE), so that a record shows by itself where its parts are. */
#pragma once

#include <linux/perf_event.h>
#include <stddef.h>

#include "sampler/perf/perf.h"

/* In the order in which the kernel writes them; of others than samples thread, time and CPU stand at the end. */
#define INFP_PERF_SAMPLE_TYPE                                                                                \
        (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD | PERF_SAMPLE_REGS_USER | \
         PERF_SAMPLE_STACK_USER)
/* rax to rip, r8 to r15, by the kernel's numbers. 0: not known for this CPU (ARCHITECTURE.md, "64-bit Arm"). */
#ifdef __x86_64__
#define INFP_PERF_REGISTERS UINT64_C(0xff01ff)
#else
#define INFP_PERF_REGISTERS UINT64_C(0)
#endif
/* Of samples that are taken at each switch; those of a clock stand for at least 10,000 ns. */
enum { INFP_PERF_SWITCH_PERIOD = 1 };

struct infp_perf_reader {
        const struct infp_perf_handler *handler;
        bool has_callchain; /* the events are asked for the kernel's frames, too */
        /* False: not given on. NULL: everything is. */
        bool (*is_wanted)(void *context, int32_t pid, int32_t tid);
        /* Sees every fork and exit before is_wanted is asked. May be NULL. */
        void (*task)(void *context, uint64_t t_ns, bool is_fork, int32_t pid, int32_t tid, int32_t parent_pid);
        void *context;
        bool has_waits;      /* samples of switches are those of waits, with struct infp_switch */
        bool is_of_switches; /* the record lies in a ring of samples of switches: what is lost there is counted apart */
        uint64_t n_samples, n_lost, n_lost_switches, n_throttled, n_broken, n_foreign;
};

/* size: of the record, from its head on. */
void infp_perf_record_give(struct infp_perf_reader *reader, const uint8_t *record, size_t size);
/* When it was; 0: too short to tell. */
uint64_t infp_perf_record_time(const uint8_t *record, size_t size);
