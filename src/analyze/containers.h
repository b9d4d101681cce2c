/* Containers in a range: use against limits, throttling, and how long tasks waited (pressure), for each of them and for the
 * machine. Memory grows with the number of containers, up to a bound. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/stat.h"
#include "base/err.h"
#include "query/scan.h"
#include "store/run.h"

enum infp_container_figure {
        INFP_CONTAINER_CPU, /* counters: increase; in the column's own unit */
        INFP_CONTAINER_PERIODS,
        INFP_CONTAINER_THROTTLED,
        INFP_CONTAINER_THROTTLED_NS,
        INFP_CONTAINER_OOM_KILLS,
        INFP_CONTAINER_LIMIT_HITS,
        INFP_CONTAINER_READ,
        INFP_CONTAINER_WRITTEN,
        INFP_CONTAINER_RECEIVED,
        INFP_CONTAINER_SENT,
        INFP_CONTAINER_CPU_SOME,
        INFP_CONTAINER_CPU_FULL,
        INFP_CONTAINER_MEMORY_SOME,
        INFP_CONTAINER_MEMORY_FULL,
        INFP_CONTAINER_IO_SOME,
        INFP_CONTAINER_IO_FULL,
        INFP_CONTAINER_COUNTERS,
        INFP_CONTAINER_MEMORY = INFP_CONTAINER_COUNTERS, /* gauges */
        INFP_CONTAINER_MEMORY_PEAK,
        INFP_CONTAINER_MEMORY_LIMIT,
        INFP_CONTAINER_CPU_LIMIT,
        INFP_CONTAINER_PROCESSORS,
        INFP_CONTAINER_OTHERS,
        INFP_CONTAINER_FIGURES,
};

enum { INFP_CONTAINERS_MOST = 4096, INFP_PRESSURES = 4 };

struct infp_container_use {
        uint64_t id;
        char *cid, *name, *runtime; /* NULL: not known */
        bool is_target;
        uint64_t first_t_ns, last_t_ns; /* of its rows in the range */
        struct infp_stat stat[INFP_CONTAINER_FIGURES];
};

/* Of the machine, one a resource. */
struct infp_pressure_use {
        const char *resource;        /* "cpu", "memory", "io", "irq" */
        struct infp_stat some, full; /* ns */
};

struct infp_containers {
        struct infp_container_use *list; /* the target's first, then by CPU time */
        unsigned n;
        uint64_t n_rows_left_out; /* of those beyond the bound */
        struct infp_pressure_use pressure[INFP_PRESSURES];
        unsigned n_pressure;
};

/* 0 also for a run without these tables. On error ret_table is the table that cannot be read. */
int infp_containers_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_containers *ret,
                         const char **ret_table, struct infp_err *err);
void infp_containers_done(struct infp_containers *containers);

/* The increase of a counter in its base unit (seconds, bytes); NAN without two samples. */
double infp_container_total(const struct infp_container_use *use, enum infp_container_figure figure);
double infp_container_seconds(
        const struct infp_container_use *use); /* between its first and last row; NAN if there is one row */
/* Share of periods in which it was throttled, 0..1; NAN: it has no quota, or did not run. */
double infp_container_throttled(const struct infp_container_use *use);
/* CPUs used on average, and what it was allowed: its quota or its CPUs, else what `machine_cpus` says; NAN: not known. */
double infp_container_cpus(const struct infp_container_use *use);
double infp_container_cpus_allowed(const struct infp_container_use *use, double machine_cpus);
/* Peak memory in the range, and the limit that applies; without one, `machine_bytes` and *ret_is_limit false. */
double infp_container_memory_peak(const struct infp_container_use *use);
double infp_container_memory_allowed(const struct infp_container_use *use, double machine_bytes, bool *ret_is_limit);
/* Share of the time in which tasks waited, 0..1. */
double infp_container_waited(const struct infp_container_use *use, enum infp_container_figure figure);
double infp_pressure_waited(const struct infp_pressure_use *use, bool full);
