/* What holds the target back, and what to do about it: findings of rules, over the figures of a report. A pure function.
 *
 * A rule is one const record (rules.c) with its words and thresholds, and a function that looks at the figures. What limited the run
 * (analyze/limits) is where the rules of resources take their verdicts from. Its answer is one of three: found, clear, not checked; a
 * source that is missing is never clear.
 *
 * Severity goes by the share of time that is lost: 2, 5, 20 and 50 % are low, medium, high and critical, unless the rule's record says
 * other. A finding that another one explains is listed below that one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/range.h"
#include "base/err.h"
#include "base/str.h"
#include "store/run.h"

struct infp_report;
struct infp_flame_function;

enum infp_severity {
        INFP_SEVERITY_LOW,
        INFP_SEVERITY_MEDIUM,
        INFP_SEVERITY_HIGH,
        INFP_SEVERITY_CRITICAL,
        INFP_SEVERITIES, /* none: below the least step */
};
const char *infp_severity_name(enum infp_severity severity);            /* "low" */
int infp_severity_by_name(const char *name);                            /* or -ENOENT */
enum infp_severity infp_severity_of(double share, const double *steps); /* steps: INFP_SEVERITIES shares, 0..1 */

struct infp_bottleneck;
enum infp_rule_answer { INFP_RULE_FOUND, INFP_RULE_CLEAR, INFP_RULE_UNCHECKED };

enum { INFP_RULE_CAUSES = 16, INFP_BOTTLENECK_LINES = 6, INFP_BOTTLENECK_PLACES = 5 };

struct infp_rule {
        const char *id;    /* "cpu-throttled" */
        const char *title; /* of a finding */
        const char *needs; /* what must be recorded, and how */
        const char *table; /* where most of it comes from: if that cannot be read, the rule was not checked */
        const char *of;    /* what its share is a share of; NULL: it has none */
        double steps[INFP_SEVERITIES];
        const char *const *collectors; /* whose rows in `sources` say why it was not checked; ended by NULL */
        const char *unchecked;         /* said where these have no reason */
        enum infp_rule_answer (*find)(const struct infp_report *report, struct infp_bottleneck *ret);
        const char *means, *decided, *why; /* for docs; why: these thresholds */
        const char *advice, *verify;       /* for people, a sentence or two each */
        const char *sql;                   /* {where}, {and}: a condition of the range; {gpus}: the table of the GPUs */
        const char *causes[INFP_RULE_CAUSES]; /* ids of rules that may explain it, the likeliest first */
};
extern const struct infp_rule infp_rules[]; /* ended by id NULL; a cause comes before what it explains */

struct infp_bottleneck {
        const struct infp_rule *rule;
        enum infp_severity severity;
        double share;                       /* 0..1; NAN: not known */
        double low, high;                   /* its 95 % interval; NAN: none */
        const char *no_share, *no_interval; /* why; NULL: there is one */
        bool is_estimated;
        const struct infp_bottleneck *cause; /* that explains it; NULL: none */
        unsigned n_lines, n_places;
        char lines[INFP_BOTTLENECK_LINES][400]; /* the evidence */
        struct infp_bottleneck_place {
                const char *function, *file; /* NULL: not known; borrowed of the report */
                int64_t line;                /* 0: not known */
                double share;                /* of what the finding is about; NAN: not known */
        } places[INFP_BOTTLENECK_PLACES];
        char reason[320]; /* why it was not checked */
};

/* A function that more than 5 % of the CPU time went to, in itself. */
struct infp_hotspot {
        const struct infp_flame_function *function; /* of the report */
        enum infp_severity severity;
        double share, low, high; /* 0..1 */
};

/* Of the heap of all processes, for the rule of leaks and for profile-report. */
struct infp_heap_sums {
        bool has;
        bool is_sampled; /* else every block was counted */
        double leaked_bytes, blocks_allocated;
        unsigned n_leaks;
        double leak_rate;             /* bytes a second, of all of them */
        char process[64], place[200]; /* of the fastest leak; "" none */
};

struct infp_bottlenecks {
        struct infp_bottleneck *list; /* causes first, the worst first; each with what it explains just below */
        unsigned n;
        struct infp_bottleneck *unchecked; /* in the order of the rules */
        unsigned n_unchecked;
        const struct infp_rule **clear;
        unsigned n_clear;
        struct infp_hotspot *hotspots; /* the hottest first */
        unsigned n_hotspots;
};

enum { INFP_HOTSPOT_SAMPLES = 100 }; /* fewer say nothing of a function */
extern const double infp_hotspot_steps[INFP_SEVERITIES];

/* 0 also of a run without a heap. */
int infp_heap_sums_read(struct infp_run *run, const struct infp_range *range, struct infp_heap_sums *ret,
                        struct infp_err *err);
/* After all else of the report was read. min_samples: of the profile, for hotspots. -ENOMEM. */
int infp_bottlenecks_find(const struct infp_report *report, uint64_t min_samples, struct infp_bottlenecks *ret);
/* The rule's SQL for the range of the report; NULL: of a whole run. */
void infp_rule_query(struct infp_str *out, const struct infp_rule *rule, const struct infp_report *report);
void infp_bottlenecks_done(struct infp_bottlenecks *findings);
