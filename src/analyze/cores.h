/* What the cores of the machine did: the load of each, how unevenly it lay on them, which one dominated. Fed with the rows of
 * `cpu_core`; constant memory a core.
 *
 * Load of a core in an interval: its time neither idle nor waiting for I/O nor stolen, as a share of all its time.
 * Disparity, after systems.md 4.3: with the loads in ascending order p_i = load_i / sum,
 * G = (2 sum(i p_i) - n - 1) / n, shown as 100 G / ((n - 1) / n): 0 all alike, 100 all on one core; the mean over the
 * intervals with any load. A core dominates where its load is at least 70 points above that of every other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/stat.h"
#include "base/err.h"

enum { INFP_CORE_PARTS = 8 };

struct infp_core {
        int64_t number;
        bool is_seen; /* in the interval that is being read */
        uint64_t t_ns, parts[INFP_CORE_PARTS];
        double load; /* of that interval, percent */
        bool has_load;
        struct infp_stat stat; /* of the loads, weighted by time */
};

struct infp_cores {
        struct infp_core *cores; /* by number, ascending */
        unsigned n, cap;
        double *sorted; /* scratch */
        uint64_t t_ns;  /* of the rows that are being gathered */
        bool has_rows;
        struct infp_stat average;   /* percent: the mean of the cores, of each interval */
        struct infp_stat disparity; /* percent; nothing when there is one core */
        int64_t dominant;           /* newest, where n_dominated is not 0 */
        uint64_t n_dominant_changes, n_dominated;
        int columns[INFP_CORE_PARTS], key; /* of the table that is read */
        const struct infp_table *table;
};

/* The columns it reads: the parts of the time, then the key; ended by NULL. */
extern const char *const infp_cores_columns[];

int infp_cores_add(struct infp_cores *cores, const struct infp_batch *batch, uint32_t row);
void infp_cores_end(struct infp_cores *cores); /* the last interval */
void infp_cores_done(struct infp_cores *cores);

/* The formula alone: loads are sorted in place. NAN for fewer than two or no load at all. */
double infp_disparity(double *loads, unsigned n);
