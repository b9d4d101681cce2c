/* What happened between two labels (marks of a run), as post-processing of the mission's system profiler shows it: mean and
 * sample standard deviation (n - 1) of CPU, cores, memory, swap and temperature, least and most memory and energy, disparity
 * and dominance of the cores. One pass over each table for all spans; memory grows with spans and cores, not with the run.
 *
 * Only samples between the labels count, each alike (a rate is that of the interval between two of them). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/cores.h"
#include "analyze/range.h"
#include "analyze/stat.h"
#include "base/err.h"
#include "query/scan.h"

enum { INFP_LABELS_MAX = 1000 };

struct infp_labels {
        struct infp_label_mark {
                char *tag, *source, *stamp; /* stamp: NULL where the run has none */
                uint64_t t_ns;
                int64_t unix_ns;
        } * list; /* by time */
        unsigned n;
        uint64_t n_left_out; /* beyond the first INFP_LABELS_MAX */
        char *filename;      /* what the command called its results ("measure_label-filename: ..."); NULL */
};

/* All marks in the range of `options`. 0 also for a run without the table. */
int infp_labels_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_labels *ret,
                     struct infp_err *err);
void infp_labels_done(struct infp_labels *labels);

struct infp_labelled_span {
        uint64_t t0, t1; /* samples with t0 <= t < t1 */
        double seconds;
        uint64_t n;                   /* samples of the tree */
        struct infp_stat cpu_percent; /* of the tree, of all CPUs together: 100 = every CPU was busy with it */
        struct infp_stat rss_bytes, vms_bytes, swap_bytes, temperature_c;
        struct infp_cores cores; /* with the mean of the cores */
        /* Joules of the machine since the recording began; the last less the first is what was used between them. */
        struct infp_stat energy_j;
        double energy_s;          /* between those two samples, as far as they were measured */
        bool energy_is_estimated; /* integrated from power */

        struct infp_span_last {
                bool has;
                uint64_t t_ns, cpu_ns;
        } last;
};

struct infp_spans {
        struct infp_labelled_span *list; /* by time, not overlapping */
        unsigned n;
        /* A row that comes sooner after the one before has no rate of its own: where the reader was interrupted between the row's stamp and
         * what it read, much CPU time lies in a moment. */
        uint64_t shortest_ns;
};

/* One span for each pair of neighbours of the labels. */
int infp_spans_between(const struct infp_labels *labels, struct infp_spans *ret, struct infp_err *err);
int infp_spans_of_range(const struct infp_range *range, struct infp_spans *ret, struct infp_err *err);
/* Fills them. n_cpus NAN: the CPU share stays unknown. On error ret_table is the table that cannot be read. */
int infp_spans_read(struct infp_run *run, const struct infp_catalog *catalog, double n_cpus, struct infp_spans *spans,
                    const char **ret_table, struct infp_err *err);
void infp_spans_done(struct infp_spans *spans);

double infp_span_joules(const struct infp_labelled_span *span); /* NAN with fewer than two samples; likewise the next */
double infp_span_watts(const struct infp_labelled_span *span);
