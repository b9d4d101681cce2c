/* The numbers of a run that are compared: the one place that says of each which direction is better, and what two runs of the same
 * program differ by where neither varies within itself. Names are those of --fail-on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "analyze/compare/difference.h"

enum infp_number_from {
        INFP_NUMBER_OF_RUN,     /* one for the whole run: enum infp_number_whole */
        INFP_NUMBER_OF_SERIES,  /* a metric of the time series over its time or its observations */
        INFP_NUMBER_OF_MEAN,    /* of what an engine observed: its column ..._sum by ..._count */
        INFP_NUMBER_PER_TOKEN,  /* the increase of a metric by generated token */
        INFP_NUMBER_OF_TOKENS,  /* tokens by second */
        INFP_NUMBER_OF_REQUEST, /* of table requests: enum infp_number_request; q 0: the mean */
        INFP_NUMBER_OF_STEP,    /* of python.torch_steps, one for each phase: the name is followed by it */
};
enum infp_number_whole { INFP_WHOLE_CPU, INFP_WHOLE_WALL, INFP_WHOLE_JOULES, INFP_WHOLE_RSS };
enum infp_number_request {
        INFP_REQUEST_TTFT,
        INFP_REQUEST_TPOT,
        INFP_REQUEST_E2E,
        INFP_REQUEST_ITL,
        INFP_REQUEST_KINDS
};

struct infp_compare_number {
        const char *name, *help; /* help: a sentence */
        const char *base;        /* unit, as infp_human_value takes it */
        bool is_rate;            /* per second */
        bool is_of_load;         /* neither direction is better where tokens are counted: those by token say it */
        enum infp_better better;
        double least;
        enum infp_number_from from;
        const char *column; /* of the time series */
        unsigned what;      /* enum infp_number_whole, enum infp_number_request */
        double q;
};
extern const struct infp_compare_number infp_compare_numbers[];
extern const unsigned infp_compare_numbers_n;

/* NULL: no number has this name. Of step times "step_mean:decode" finds "step_mean". */
const struct infp_compare_number *infp_compare_number_find(const char *name, size_t size);

/* Noise floors of what has no line above: shares of functions in points, times of modules. Equal runs of a Python loop differed by up to
 * 22 points of a function (tests/bench/bench_compare.py): in which pools of the allocator a loop works is chance of each run. */
#define INFP_COMPARE_LEAST_SHARE 0.25
#define INFP_COMPARE_LEAST_TIME 0.1

/* Joules of all GPUs, as a name of the time series: the energy counters of each GPU, added up. */
extern const char infp_compare_gpu_joules[];
