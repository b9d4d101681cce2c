/* What limited a run, by the figures of its report: each resource reached its limit, came near, had room, or was not checked since
 * nothing of it was recorded. A pure function; it reads no table.
 *
 * Thresholds: CPU, a GPU: at least 90 % of the available CPUs in use on average (near from 70 %). CPU also where the target's own control
 * group waited for one 25 % of the time, or, a guess, the machine's were full and the target lost a CPU 20 times a second (near from
 * once). Throttling: in 5 % of the quota's periods (near from one). Memory: tasks waited for it 10 % of the time, or somebody was
 * killed for want of it (near from 90 % of the limit). I/O: tasks waited for it 25 %, or all of them 10 % (near from 5 %). Queue: at
 * least one request waited on average (near from 0.1).
 * Busy waiting: 25 % of the CPU time of its samples (near from 5 %); what is left of the CPU time is what the CPU's state goes by. One
 * thread that was always busy (90 % of the time) is at its limit whatever CPUs are left; without samples that is a guess.
 *
 * Shares of waiting are the kernel's (pressure), of the target's own control group where it has one for itself. Those of the machine
 * count for the machine alone; of a target they are a guess, and only where the target did what has to wait: lost CPUs, came to its
 * limit of memory, moved most of what went through the disks.
 */
#pragma once

#include <stdbool.h>

struct infp_report;

/* In the order of the report: a cause before its effect. */
enum infp_limit_resource {
        INFP_LIMIT_THROTTLING,
        INFP_LIMIT_MEMORY,
        INFP_LIMIT_GPU,
        INFP_LIMIT_GPU_MEMORY,
        INFP_LIMIT_WAITING, /* that uses CPU */
        INFP_LIMIT_CPU,
        INFP_LIMIT_IO,
        INFP_LIMIT_CACHE,
        INFP_LIMIT_QUEUE,
        INFP_LIMIT_RESOURCES,
};
enum infp_limit_state { INFP_LIMIT_REACHED, INFP_LIMIT_NEAR, INFP_LIMIT_FREE, INFP_LIMIT_NOT_CHECKED };

struct infp_limit {
        enum infp_limit_resource resource;
        enum infp_limit_state state;
        double share;      /* of its limit, or of the time, 0..1; NAN: neither */
        bool is_estimated; /* rests on a guess, as the text says */
        char text[320];    /* the figures, or why it was not checked; no full stop */
};

struct infp_limits {
        struct infp_limit
                list[INFP_LIMIT_RESOURCES]; /* reached, near, free, not checked; within each in the order above */
        unsigned n;                         /* 0: a load or an import */
        char headline[1024];                /* plain words, whole sentences */
};

void infp_limits_find(const struct infp_report *report, struct infp_limits *ret);
const char *infp_limit_resource_name(enum infp_limit_resource resource); /* "CPU" */
const char *infp_limit_state_name(enum infp_limit_state state);  /* JSON: "limited", "near", "room", "not checked" */
const char *infp_limit_state_words(enum infp_limit_state state); /* for people: "headroom" for "room" */
/* The limit before says the same of the GPU itself: a missing GPU is reported once. */
bool infp_limit_repeats(const struct infp_limits *limits, unsigned i);
