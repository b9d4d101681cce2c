/* The processes that used the most in a range. Memory grows with their number, up to a bound, not with the length of the run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "query/scan.h"
#include "store/run.h"

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
        bool beyond_tree; /* others than the target's were recorded: the shares are of all CPUs, else of the tree */
};

struct infp_report_processes_options {
        const struct infp_scan_options *scan; /* range and catalog */
        int64_t from_unix_ns;                 /* the range's start */
        bool tree_is_new;                     /* the tree began with the range */
        int64_t late_ns; /* what is seen first so long after its start was attached to: its past is not ours; 0: none is */
};

/* -ENOENT: the run has no such table. Of an error ret_table says what could not be read. The shares are left to the caller. */
int infp_report_processes_read(struct infp_run *run, const struct infp_report_processes_options *options,
                               struct infp_report_processes *ret, const char **ret_table, struct infp_err *err);
void infp_report_processes_done(struct infp_report_processes *processes);
