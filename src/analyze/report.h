/* What happened in a run, or in a part of it: a pure function over scans. Memory grows with the number of metrics and cores,
 * not with the length of the run. view/report/report.h prints it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/absent.h"
#include "analyze/bottlenecks/bottlenecks.h"
#include "analyze/containers.h"
#include "analyze/cores.h"
#include "analyze/energy.h"
#include "analyze/engine.h"
#include "analyze/gil.h"
#include "analyze/gpus.h"
#include "analyze/labels.h"
#include "analyze/lag.h"
#include "analyze/limits/limits.h"
#include "analyze/memory/account.h"
#include "analyze/metrics.h"
#include "analyze/program_spans.h"
#include "analyze/range.h"
#include "analyze/report_functions.h"
#include "analyze/report_processes.h"
#include "analyze/requests.h"
#include "analyze/tasks.h"
#include "analyze/thread_stops.h"
#include "analyze/torch.h"
#include "base/err.h"
#include "store/run.h"

struct infp_report {
        const struct infp_run *run; /* borrowed */
        struct infp_range range;
        bool is_part; /* of the run: a range was asked for */
        bool is_cut;  /* its recorder died before the end */
        int64_t from_unix_ns, to_unix_ns;
        double wall_s; /* of the range */

        /* CPU of the target's tree in the range, with that of children waited for; NAN if not measured. */
        double tree_cpu_s, tree_user_s, tree_system_s;
        bool tree_is_fine; /* by CPU clocks (ns), not by ticks of 10 ms */
        /* Of the target, averaged over the range; of infprof itself if that was not recorded. NAN if unknown, as the next two. */
        double effective_cpus;
        double memory_limit_bytes;
        double n_cpus;

        struct infp_report_metric *metrics; /* in the order of tables and columns */
        unsigned n_metrics;
        struct infp_cores cores;
        struct infp_absences absences;

        struct infp_report_ticks {
                uint64_t n;
                struct infp_stat late_ns, busy_ns, missed;
        } ticks;
        /* Columns of `self`, as metrics. */
        struct infp_report_metric *self;
        unsigned n_self;

        struct infp_report_processes processes;
        struct infp_report_engines engines;
        struct infp_energy energy;
        struct infp_containers containers;
        struct infp_gpus gpus;
        struct infp_limits limits; /* what limited it */
        struct infp_bottlenecks findings;
        struct infp_heap_sums heap;
        struct infp_memory_accounts memory;
        struct infp_report_functions functions;

        /* With --labels: all labels in the range, and a span for each pair of neighbours. Else a span where an end of the range was
         * named by a label. */
        bool lists_labels;
        struct infp_labels labels;
        struct infp_spans spans;
        char *from_label, *to_label; /* NULL: that end was not named by one */
        /* How much a captured command wrote (table `output`), and how much of it is not on disk any more. */
        struct infp_report_output {
                bool has;
                uint64_t bytes, removed; /* of the file: its size, and how much of its head is a hole */
                uint64_t range_bytes;    /* written in the range */
        } output;
        struct infp_program_spans program_spans;
        struct infp_torch_report torch;
        struct infp_gil_report gil;
        struct infp_lag_report lag;
        struct infp_tasks tasks;
        struct infp_thread_stops stops;

        struct infp_requests *requests; /* that arrived in the range; NULL: none were recorded */
        /* Tables that could not be read, and why. None of their rows is used. */
        struct infp_report_broken {
                char *table, *message;
        } * broken;
        unsigned n_broken;
};

struct infp_report_options {
        const char *from, *to; /* as infp_range_find */
        uint64_t skip_ns;
        bool labels;                 /* list them */
        enum infp_profile_part part; /* of the stacks of functions and lines */
        uint64_t min_samples;        /* of a profile, for hotspots; 0: INFP_HOTSPOT_SAMPLES */
};

/* The run is borrowed until done. */
int infp_report_make(struct infp_run *run, const struct infp_report_options *options, struct infp_report *ret,
                     struct infp_err *err);
void infp_report_done(struct infp_report *report);

const struct infp_report_metric *infp_report_find(const struct infp_report *report, const char *name); /* NULL */
/* Mean of a gauge, rate of a counter (NAN without either); the increase of a counter; the largest value. In the base unit. */
double infp_report_mean(const struct infp_report *report, const char *name);
double infp_report_total(const struct infp_report *report, const char *name);
double infp_report_max(const struct infp_report *report, const char *name);

/* A lower bound of the tree's peak memory: the largest sample, or a process's peak between samples if the kernel's own peak
 * rose within the range. */
double infp_report_tree_rss_most(const struct infp_report *report);

/* The tree was sampled but never had a process: it lived between two samples. Its gauges have no value, and counters at 0
 * mean nothing. */
bool infp_report_tree_unseen(const struct infp_report *report);

/* What infprof itself cost in the range; NAN where it was not measured. */
struct infp_report_self {
        double cpu_s, cpu_percent; /* of one core */
        double rss_max_bytes, rows, rows_dropped, bytes_written, errors;
        double rows_lost;               /* taken, and not written: the disk was full, say */
        double ring_rows, ring_dropped; /* marks, spans and values of programs */
};
struct infp_report_self infp_report_self(const struct infp_report *report);
