/* All numbers of one run, or of a part of it, by blocks of its time: a pure function over scans. Memory grows with its functions and
 * requests, not with its length. */
#pragma once

#include "analyze/compare/numbers.h"
#include "analyze/range.h"
#include "base/strings.h"
#include "model/stack_tables.h"
#include "query/scan.h"

enum infp_compare_section {
        INFP_COMPARE_NUMBERS,  /* infp_compare_numbers, of steps too */
        INFP_COMPARE_SELF,     /* functions: share of samples in themselves; of whole and cut stacks alike */
        INFP_COMPARE_TOTAL_OF, /* with what they call */
        INFP_COMPARE_MODULES,  /* of PyTorch: own time of a call */
        INFP_COMPARE_SECTIONS,
};

struct infp_compare_item {
        enum infp_compare_section section;
        const char *name;                         /* of a step "step_mean:decode"; of a module "layers.0.mlp forward" */
        const char *object;                       /* of a function: where it is; else NULL */
        const struct infp_compare_number *number; /* NULL: a function or a module */
        double seconds;                           /* of a module: in all, by which they are chosen */
        struct infp_compare_series series;
};

/* A function: samples' weight by block. */
struct infp_compare_function {
        const char *name, *object;
        enum infp_frame_kind kind;
        double self[INFP_COMPARE_BLOCKS], total[INFP_COMPARE_BLOCKS];
};

/* What makes runs unlike; "": not known. */
enum infp_compare_fact {
        INFP_FACT_ENGINE,
        INFP_FACT_MODEL,
        INFP_FACT_CPU,
        INFP_FACT_CPUS,
        INFP_FACT_GPUS,
        INFP_FACTS,
};

struct infp_compare_run {
        const struct infp_run *run; /* borrowed */
        struct infp_range range;
        bool is_part;
        double wall_s;
        unsigned n_blocks;
        const char *facts[INFP_FACTS];
        bool has_tokens;
        double n_cpus; /* NAN: not known */
        double others; /* share of the CPUs that went to other processes and other machines (steal); NAN: not measured */

        struct infp_compare_item *items;
        unsigned n, cap;

        char mode[64]; /* of the stacks; "": there are none */
        struct infp_compare_function *functions;
        uint32_t n_functions;
        double weight[INFP_COMPARE_BLOCKS]; /* of all samples */
        uint64_t samples, truncated_samples;

        struct infp_strings strings;
        /* What series borrow. */
        struct infp_compare_values requests[INFP_REQUEST_KINDS];
        struct infp_log_histogram *gaps; /* by block */
        struct infp_compare_values *steps[16];
        unsigned n_steps;
};

struct infp_compare_part {
        const char *from, *to; /* as infp_range_find */
        const char *mode;      /* of stacks; NULL: as infp_flame_read chooses */
};

/* run is borrowed until free. */
int infp_compare_read(struct infp_run *run, const struct infp_compare_part *part, struct infp_compare_run **ret,
                      struct infp_err *err);
struct infp_compare_run *infp_compare_run_free(struct infp_compare_run *run); /* returns NULL */

/* A ratio over those blocks that have a weight. */
struct infp_compare_series infp_compare_ratio(const struct infp_compare_run *run, const double *sum,
                                              const double *weight);
const struct infp_compare_item *infp_compare_item_find(const struct infp_compare_run *run,
                                                       enum infp_compare_section section, const char *name);
