/* Shared by the files of off_cpu_waits.h. */
#pragma once

#include "sampler/waits/off_cpu_waits.h"

/* A stack that a wait has, or will have when infp_stacks has found it. */
struct infp_off_cpu_place {
        struct infp_off_cpu_wait *wait; /* NULL: none yet, or none any more */
        struct infp_off_cpu_place *next, *previous;
        int32_t pid, tid;
        uint64_t t_ns;                    /* when it was read */
        const char *state, *call, *wchan; /* as the reader says; NULL: not told */
        bool is_found, is_orphan;         /* orphan: nobody wants it, infp_stacks still has it */
        bool is_whole;                    /* the copy is as large as was asked for */
        struct infp_stack_found found;
};

/* A sample of perf, kept until it is known whether its wait is long enough. */
struct infp_off_cpu_copy {
        struct infp_perf_sample sample;
        uint64_t kernel[INFP_PERF_MAX_KERNEL_FRAMES];
        uint8_t stack[];
};

struct infp_off_cpu_wait {
        struct infp_off_cpu_wait *next, *previous, **list; /* NULL: in none */
        struct infp_off_cpu_wait *older;                   /* of closed ones: of the same thread */
        int32_t pid, tid;
        uint64_t out_ns, in_ns, told_ns; /* told: up to there it stands in rows */
        bool is_preempted, is_over, has_row;
        bool has_kernel;   /* its stack has the kernel's frames */
        bool is_closing;   /* its place is being looked for */
        const char *state; /* as the reader says; NULL: it does not */
        struct infp_off_cpu_copy *copy;
        struct infp_off_cpu_place *place;
};

struct infp_off_cpu_thread {
        int32_t pid, tid;
        bool has_records;                 /* perf sees it */
        bool is_refused;                  /* there was no room for its wait, which is counted */
        uint64_t in_ns, dead_ns, gone_ns; /* it got a CPU last; it ended, by perf; by the reader */
        struct infp_off_cpu_wait *wait;   /* open */
        struct infp_off_cpu_wait *closed; /* the newest */
        struct infp_off_cpu_copy *copy;   /* of the wait that begins with the next record */
        struct infp_off_cpu_place *place; /* read, of a wait whose record is still to come */
        uint32_t n_short[2];              /* by is_preempted */
        uint64_t short_ns[2];
};

/* The one copy of a text; "blocked" when there are too many. */
const char *infp_off_cpu_word(struct infp_off_cpu_waits *waits, const char *text);

/* NULL: no room; the sample is then taken without a stack. */
struct infp_off_cpu_copy *infp_off_cpu_copy_new(struct infp_off_cpu_waits *waits,
                                                const struct infp_perf_sample *sample);
void infp_off_cpu_copy_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_copy *copy);

struct infp_off_cpu_place *infp_off_cpu_place_new(struct infp_off_cpu_waits *waits);
void infp_off_cpu_place_drop(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place);
/* Its stack is known: frames of the reader go below it, and a wait that is over and waits for it becomes a row. */
void infp_off_cpu_place_found(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place,
                              const struct infp_stack_found *found);
void infp_off_cpu_place_unread(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place); /* it has none */
void infp_off_cpu_places_done(struct infp_off_cpu_waits *waits);

struct infp_off_cpu_wait *infp_off_cpu_wait_new(struct infp_off_cpu_waits *waits, int32_t pid, int32_t tid);
void infp_off_cpu_wait_link(struct infp_off_cpu_wait **list, struct infp_off_cpu_wait *wait);
void infp_off_cpu_wait_unlink(struct infp_off_cpu_wait *wait);
/* Of an open one too. */
void infp_off_cpu_wait_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait);
/* Sees to it that it has a place: by perf's copy, the reader's, or without a stack. */
void infp_off_cpu_wait_find(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait);
/* The row up to until_ns, if its stack is known; of one that is over it is the last: the wait is freed. */
void infp_off_cpu_wait_tell(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait, uint64_t until_ns);

void infp_off_cpu_thread_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_thread *thread);
