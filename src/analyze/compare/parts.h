/* What the files that read a run for a comparison share. */
#pragma once

#include "analyze/compare/read.h"

/* A metric of the time series by block: sums of value x weight, and weights; has: it was measured there. */
struct infp_compare_track {
        double sum[INFP_COMPARE_BLOCKS], weight[INFP_COMPARE_BLOCKS];
        bool has[INFP_COMPARE_BLOCKS], has_any;
};

struct infp_compare_reading {
        struct infp_compare_run *ret;
        struct infp_run *run;
        struct infp_scan_options options; /* range and catalog */
        const char *mode;
        struct infp_compare_track tokens; /* generated */
};

/* Block of a moment; a moment after the end belongs to the last one. */
unsigned infp_compare_block(const struct infp_compare_run *run, uint64_t t_ns);
int infp_compare_value_add(struct infp_compare_values *values, double value, unsigned block);
struct infp_compare_series infp_compare_mean(const struct infp_compare_run *run,
                                             const struct infp_compare_values *values);
/* name is kept. -ENOMEM */
int infp_compare_item_add(struct infp_compare_run *run, const struct infp_compare_item *item);

int infp_compare_requests(struct infp_compare_reading *reading,
                          struct infp_err *err); /* tokens too, where there are none */
int infp_compare_torch(struct infp_compare_reading *reading, struct infp_err *err);
int infp_compare_functions(struct infp_compare_reading *reading, struct infp_err *err);
int infp_compare_facts(struct infp_compare_reading *reading, struct infp_err *err);
