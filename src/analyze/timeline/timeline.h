/* What a run did over time, for drawing: all of it on one grid of buckets, few enough for a page. A pure function over scans: one
 * pass over each table; memory grows with the number of series, cores, processes, requests and spans, each up to a bound, not with
 * the length of the run. What a bound left out is counted.
 *
 * A bucket has the mean of its samples and the least and largest of them: a spike of one sample is never averaged away. A counter
 * is shown as its rate between two samples (model/rate.h: resets, wraps), weighted by their distance; what comes after a gap of
 * more than two periods begins anew. A level holds up to two periods; where nothing was measured a bucket is empty, never 0. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/report.h"
#include "base/err.h"
#include "model/schema.h"

enum {
        INFP_TIMELINE_SAMPLES = 1200, /* as many buckets of one sample each, else */
        INFP_TIMELINE_BUCKETS = 800,  /* at most so many of several */
        INFP_TIMELINE_CORES = 256,
        INFP_TIMELINE_CORE_CELLS = 65536,
        INFP_TIMELINE_PROCESSES = 40, /* the busiest; their parents come with them */
        INFP_TIMELINE_SPARK = 120,    /* buckets of a process */
        INFP_TIMELINE_REQUESTS = 5000,
        INFP_TIMELINE_SPANS = 2000,
        INFP_TIMELINE_MARKS = 1000,
        INFP_TIMELINE_GAPS = 200,
        INFP_TIMELINE_CODE_BUCKETS = 480,           /* of the stacks; halved where there is little room */
        INFP_TIMELINE_ATTRIBUTES_BYTES = 96 * 1024, /* of all spans together */
};

/* CLOCK_MONOTONIC t0 + i x step_ns is where bucket i begins. */
struct infp_grid {
        uint64_t t0, step_ns;
        unsigned n;
};
int infp_grid_bucket(const struct infp_grid *grid, uint64_t t_ns); /* -1: outside */

struct infp_bucket_stat {
        double sum, weight, min, max; /* weight 0: empty */
};

struct infp_timeline_series {
        char *name;                             /* within its panel */
        char *metric, *table, *help, *instance; /* instance: NULL for none */
        enum infp_quality quality;
        bool is_rate;
        bool is_ratio;     /* of two counters: a bucket's weight is the increase of the second */
        bool is_of_events; /* a bucket has each by itself: none of its least and largest may be left out */
        struct infp_bucket_stat *buckets; /* as the grid */
};

struct infp_timeline_panel {
        char *id, *title, *note; /* note: NULL for none */
        const char *group, *unit, *kind;
        double max;        /* NAN: open */
        unsigned left_out; /* series */
        struct infp_timeline_series *series;
        unsigned n_series;
        struct infp_timeline_limit {
                char *name;
                double value;
        } * limits;
        unsigned n_limits;
};

struct infp_timeline {
        struct infp_grid grid;
        int64_t start_unix_ns; /* of the grid's begin */
        uint32_t period_ms;    /* of the run */
        bool is_downsampled;

        struct infp_timeline_panel *panels;
        unsigned n_panels;

        /* Load in percent, NAN: not measured; cells[row x grid.n + column]. */
        struct infp_timeline_cores {
                struct infp_grid grid;
                char **names;
                unsigned n;
                float *cells;
                char *note;
        } cores;

        struct infp_grid spark;
        struct infp_timeline_process {
                uint64_t id;
                int64_t pid, ppid; /* -1: not known */
                int parent;        /* index; -1: not listed */
                char *name, *cmdline;
                int64_t start_unix_ns;         /* 0: not known */
                uint64_t first_t_ns, end_t_ns; /* of its rows; end 0: alive at the end */
                double cpu_s, rss_max;         /* NAN: not measured */
                float *cpu,
                        *rss; /* percent of a core, bytes; as spark; NAN: not measured; NULL: of a parent without rows */
        } * processes;        /* parents before their children */
        unsigned n_processes;
        uint64_t processes_left_out;

        struct infp_timeline_request {
                uint64_t t_ns;
                double ttft_s, e2e_s, tokens; /* NAN: none */
                int8_t ok;                    /* 1, 0, -1: cut off */
                unsigned load, failure;       /* of names */
        } * requests;                         /* by arrival */
        unsigned n_requests;
        uint64_t requests_left_out;
        char **loads, **failures;
        unsigned n_loads, n_failures;

        struct infp_timeline_mark {
                uint64_t t_ns;
                char *tag, *source, *process; /* process: NULL for none */
        } * marks;
        unsigned n_marks;
        uint64_t marks_left_out;

        char **lanes;
        unsigned n_lanes;
        struct infp_timeline_span {
                uint64_t t_ns, process;
                int64_t duration_ns; /* negative: open */
                int64_t id, parent;  /* parent negative: none */
                char *name, *status, *attributes;
                char *thread;
                int64_t tid;
                unsigned lane, depth;
        } * spans; /* by begin */
        unsigned n_spans;
        uint64_t spans_left_out;

        struct infp_timeline_gap {
                uint64_t from, to;
                char *reason;
        } * gaps;
        unsigned n_gaps, gaps_left_out;

        /* Stacks by time, of each mode of report->functions, over the report's range. n 0: none. */
        struct infp_timeline_code {
                struct infp_flame flames[INFP_STACK_MODES];
                unsigned n;
                struct infp_strings strings; /* of the flames */
        } code;

        char **notes;
        unsigned n_notes;
};

/* Over the report's range; borrows the report. A table that cannot be read gives a note. */
int infp_timeline_make(struct infp_run *run, const struct infp_report *report, struct infp_timeline *ret,
                       struct infp_err *err);
void infp_timeline_done(struct infp_timeline *timeline);

/* Adds a note for the reader of the page. 0 or -ENOMEM. */
int infp_timeline_note(struct infp_timeline *timeline, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Joins each k neighbouring buckets of all panels into one. */
void infp_timeline_coarsen(struct infp_timeline *timeline, unsigned k);
