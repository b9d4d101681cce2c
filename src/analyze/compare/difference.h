/* Whether one number of two runs, or of two groups of runs, differs. Pure functions; the same input gives the same answer, since the
 * resampling has a fixed seed.
 *
 * One run a side. The time of a run is cut into pieces (INFP_COMPARE_BLOCKS of equal length; those without data are left out). The
 * standard error of the run's value is its standard deviation over resamples of blocks of neighbouring pieces, a fifth of them long,
 * drawn with replacement from the run closed to a circle (circular block bootstrap: what hangs together over a few pieces stays
 * together), times sqrt(n / (n - 1)) for n blocks. Intervals and p values take Student's t with the degrees of freedom of Welch and
 * Satterthwaite, n - 1 a side. One run does not show how runs differ, so two noise floors are held against it: the largest
 * difference between two quarters of one of the runs, and the number's own `least`. A difference within either is no evidence.
 *
 * Several runs a side. Welch's t test between the values of the runs: that has all noise from run to run in it.
 *
 * Ratios are compared: the difference of logarithms. Shares are compared as they are, in points, since they may be 0.
 *
 * Many numbers: Holm's step-down correction. Of all verdicts together at most 5 % of comparisons of equal runs have a false one,
 * whatever depends on what. Numbers, and functions with modules, are families of their own that share the 5 %, so that many functions do
 * not make the numbers weaker. Benjamini and Hochberg's method bounds the share of false ones among those reported, which lets a
 * comparison of equal runs alarm more often. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/log_histogram.h"

enum {
        INFP_COMPARE_BLOCKS = 20,
        INFP_COMPARE_LEAST_BLOCKS = 8, /* with data, for a verdict */
        INFP_COMPARE_NEIGHBOURS = 5,   /* a block of the bootstrap is one such part of the pieces */
        INFP_COMPARE_RESAMPLES = 500,
        INFP_COMPARE_QUARTERS = 4,
};
#define INFP_COMPARE_ALPHA 0.05
#define INFP_COMPARE_POWER 0.8 /* of the smallest difference that could be found */

struct infp_compare_value {
        double value;
        uint32_t block;
};

/* Single values of one kind, such as TTFT of requests; in ascending order once settled. */
struct infp_compare_values {
        struct infp_compare_value *list;
        size_t n, cap;
};
void infp_compare_values_settle(struct infp_compare_values *values);

enum infp_compare_kind {
        INFP_COMPARE_RATIO,     /* the sum of sums over the sum of weights */
        INFP_COMPARE_TOTAL,     /* sum[0]; it has no blocks */
        INFP_COMPARE_QUANTILE,  /* of values, exact: linear between ranks */
        INFP_COMPARE_HISTOGRAM, /* a quantile by buckets: an estimate */
};

/* One number of one run. `values` and `histograms` are borrowed. */
struct infp_compare_series {
        enum infp_compare_kind kind;
        unsigned n; /* blocks, in the order of time: of a ratio those that have data, else all */
        double sum[INFP_COMPARE_BLOCKS], weight[INFP_COMPARE_BLOCKS];
        double q;
        const struct infp_compare_values *values;
        const struct infp_log_histogram *histograms; /* n of them */
};

/* The value with block i counted times[i] times; NULL: each once. NAN: it has none. */
double infp_compare_value(const struct infp_compare_series *series, const unsigned *times);

enum infp_better { INFP_BETTER_NEITHER, INFP_BETTER_LESS, INFP_BETTER_MORE };
const char *infp_better_name(enum infp_better better); /* "less", "more", NULL */
enum infp_verdict {
        INFP_VERDICT_UNKNOWN, /* nothing can be said: `why` */
        INFP_VERDICT_NONE,    /* no evidence */
        INFP_VERDICT_BETTER,
        INFP_VERDICT_WORSE,
        INFP_VERDICT_MORE, /* of a number of which neither direction is good */
        INFP_VERDICT_LESS,
};
const char *infp_verdict_name(enum infp_verdict verdict); /* "no evidence" */

struct infp_difference {
        double before, after;         /* of several runs their mean, geometric for ratios; NAN: no value */
        unsigned n_before, n_after;   /* blocks, or runs */
        bool is_points, is_of_blocks; /* a difference of shares; of one run a side */
        bool is_disturbed;            /* single runs on a busy machine, and it is time by the clock */
        /* after / before - 1, of shares after - before; with its 95 % interval for this number alone. NAN: not known. */
        double difference, low, high;
        double p, p_all; /* p_all: corrected by infp_compare_holm */
        double noise; /* what has to be exceeded, as `difference`; between runs: what two single runs would differ by */
        double detectable; /* the smallest difference that would be found in 80 % of cases, after the correction */
        enum infp_verdict verdict;
        const char *why; /* of INFP_VERDICT_UNKNOWN, and where a significant difference is no evidence; else NULL */

        /* On the scale of the test, which is the logarithm for ratios: for other intervals. */
        double estimate, error, df, floor;
};

struct infp_compare_how {
        bool is_points;
        enum infp_better better;
        double least; /* noise floor between single runs, as `difference` */
        uint64_t seed;
};

/* NULL series: the run has no such number. n_before and n_after are 1, or both at least 2. No verdict yet. */
void infp_difference_find(const struct infp_compare_series *const *before, unsigned n_before,
                          const struct infp_compare_series *const *after, unsigned n_after,
                          const struct infp_compare_how *how, struct infp_difference *ret);
/* Time by the clock of single runs, on a machine that others kept busy: raises the noise floor to a factor of two. Equal runs of 10 s
 * beside a load of 15 on 2 CPUs differed by up to 1.8. Before infp_compare_judge. */
#define INFP_COMPARE_DISTURBED 2.0
void infp_difference_disturb(struct infp_difference *difference);
/* Corrects p of all of a family that have one, and gives the verdicts and what was detectable. better[i] belongs to list[i]; families:
 * how many share the 5 %. 0 or -ENOMEM. */
int infp_compare_judge(struct infp_difference *const *list, const enum infp_better *better, unsigned n,
                       unsigned families);
/* The interval of a level, such as 0.99, as `difference`. False: it is not known. */
bool infp_difference_interval(const struct infp_difference *difference, double level, double *ret_low,
                              double *ret_high);

/* p values corrected by Holm's method, in place; NAN stays and does not count. 0 or -ENOMEM. */
int infp_compare_holm(double *p, unsigned n);
