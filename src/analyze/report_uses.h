/* What each process used in a range: the rows of table `processes`, summed up. For the report's list and the timeline's. */
#pragma once

#include "analyze/report_processes.h"
#include "base/map.h"

struct infp_use_counter {
        bool has;
        uint64_t first, last, more;
};

struct infp_use {
        uint64_t id;
        size_t number; /* in the order of appearance, from 0 */
        struct infp_use_counter ns, cs;
        double rss, rss_peak, cpu_s;
        int64_t first_unix_ns, last_unix_ns;
        int64_t start_unix_ns; /* of the process, in steps of 10 ms; 0: not known */
        bool is_new;           /* began within the range */
};

struct infp_uses {
        struct infp_use *list; /* the busiest first */
        size_t n, cap;
        struct infp_map map; /* id -> number */
        uint64_t n_rows_left_out;
        bool beyond_tree;
};

struct infp_report;
/* Whose past belongs to the range. */
struct infp_report_processes_options infp_uses_options(const struct infp_report *report,
                                                       const struct infp_scan_options *scan);

/* Each row, while the list is still in the order of appearance: more_s is its CPU time since the row before, NAN for the first
 * one. `columns` are those that were asked for. */
typedef int infp_uses_row(void *context, const struct infp_use *use, const struct infp_batch *batch, uint32_t row,
                          double more_s);

/* -ENOENT: the run has no such table. more_columns: read as well, ended by NULL; may be NULL, as `row`. Of an error ret_table says
 * what could not be read. */
int infp_uses_read(struct infp_run *run, const struct infp_report_processes_options *options,
                   const char *const *more_columns, infp_uses_row *row, void *context, struct infp_uses *ret,
                   const char **ret_table, struct infp_err *err);
void infp_uses_done(struct infp_uses *uses);

/* Descending, what is not known last. */
int infp_uses_compare(double a, double b);
/* Scans the entity table, which is streamed: with every command line of a day it would not fit into memory. */
int infp_uses_scan_processes(struct infp_run *run, const struct infp_report_processes_options *options,
                             const char *const *wanted, struct infp_scan **ret, struct infp_err *err);
