/* What energy.c and energy_gpus.c share: domains while their rows stream by. */
#pragma once

#include "analyze/energy.h"

extern const struct infp_energy_tokens infp_energy_no_tokens; /* energy_tokens.c */

/* The readings around the borders are needed too; energy is read each 30 s at least. */
#define ENERGY_MARGIN_NS UINT64_C(61000000000)

struct track {
        struct infp_energy_domain domain;
        uint64_t t_ns;    /* of the reading before; 0: none */
        double at;        /* its joules */
        double counted_s; /* seconds that they cover; NAN: a run of an older version does not say */
        double idle_j, idle_s;
        double tokens_j, tokens_s;  /* of the time in which tokens were counted */
        uint64_t first_ns, last_ns; /* covered in the range */
        bool has;                   /* a row in the range */
        bool is_new;                /* its last row says what it is in the range */
};

struct tracks {
        struct track *list;
        unsigned n;
        uint64_t tokens_t0, tokens_t1;
        bool is_interpolated;
};

/* A reading: joules NAN: the counter has not moved yet; counted_s: see infp_batch_counted_s. */
struct energy_reading {
        uint64_t t_ns;
        double joules, counted_s;
};
/* Of a domain. NULL: no memory. */
struct track *infp_energy_reading(struct tracks *tracks, const char *name, size_t size,
                                  const struct energy_reading *reading, const struct infp_range *range,
                                  const struct infp_baseline *baseline);
/* Replaces *ret by the cell, NULL when it is empty. */
int infp_energy_text(char **ret, const struct infp_batch *batch, int column, uint32_t row);
/* From before the range and the baseline to after them. */
struct infp_scan_options infp_energy_span(const struct infp_energy_options *options,
                                          const struct infp_baseline *baseline);

/* energy_gpus.c: GPUs as domains, after the others: which of them count depends on these. */
int infp_energy_gpus(struct infp_run *run, const struct infp_energy_options *options,
                     const struct infp_baseline *baseline, struct tracks *tracks, const char **ret_table,
                     struct infp_err *err);
