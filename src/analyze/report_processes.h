/* The processes that used the most in a range. Memory grows with their number, up to a bound, not with the length of the run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/scan_some.h"
#include "base/map.h"

enum { INFP_REPORT_BUSIEST = 5, INFP_REPORT_MAX_PROCESSES = 65536 };

struct infp_report_process {
        uint64_t id;
        int64_t pid;                                     /* negative: not known */
        char *name, *command;                            /* NULL: not known; secrets are masked since it was recorded */
        double cpu_s, cpu_share_percent, rss_peak_bytes; /* NAN: not measured */
        int64_t first_unix_ns, last_unix_ns;             /* of its rows in the range */
};

struct infp_report_processes {
        /* The busiest, then the one that had the most memory, when it is not among them. */
        struct infp_report_process list[INFP_REPORT_BUSIEST + 1];
        unsigned n, n_seen;
        uint64_t n_rows_left_out; /* of those beyond the bound */
        bool beyond_tree; /* processes outside the target were recorded: shares are of all CPUs, else of the tree */
};

struct infp_report_processes_options {
        const struct infp_scan_options *scan; /* range and catalog */
        int64_t from_unix_ns;                 /* the range's start */
        bool tree_is_new;                     /* the tree began with the range */
        int64_t late_ns; /* a process first seen this long after its start was attached to, and its earlier CPU time does not count; 0: never */
};

/* 0 also for a run without such a table. On error ret_table is the table that cannot be read. The caller fills the shares. */
int infp_report_processes_read(struct infp_run *run, const struct infp_report_processes_options *options,
                               struct infp_report_processes *ret, const char **ret_table, struct infp_err *err);
void infp_report_processes_done(struct infp_report_processes *processes);

/* What each process used in the range: the rows of table `processes`, summed up. For the report's list and the timeline's. */
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
/* Which processes' earlier CPU time counts. */
struct infp_report_processes_options infp_uses_options(const struct infp_report *report,
                                                       const struct infp_scan_options *scan);

/* Each row, while the list is still in the order of appearance: at[i] is the column of more_columns[i], -1 where it is missing;
 * more_s is the CPU time since the row before, NAN for the first one. */
typedef int infp_uses_row(void *context, const struct infp_use *use, const struct infp_batch *batch, const int *at,
                          uint32_t row, double more_s);

/* 0 also for a run without such a table. more_columns: read as well, ended by NULL; may be NULL, as `row`. On error ret_table
 * is the table that cannot be read. */
int infp_uses_read(struct infp_run *run, const struct infp_report_processes_options *options,
                   const char *const *more_columns, infp_uses_row *row, void *context, struct infp_uses *ret,
                   const char **ret_table, struct infp_err *err);
void infp_uses_done(struct infp_uses *uses);

/* Descending, NAN last. */
int infp_uses_compare(double a, double b);
/* The rows of the entity table `process`. */
int infp_uses_scan_processes(struct infp_run *run, const struct infp_report_processes_options *options,
                             const char *const *wanted, infp_scan_row *take, void *context, struct infp_err *err);
