/* GPUs of all makers in a range: a pure function over the tables nvidia, amdgpu, intel and those of their processes, which
 * share their columns. For joules see analyze/energy.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/stat.h"
#include "base/err.h"
#include "query/scan.h"

enum infp_gpu_figure {
        INFP_GPU_USED, /* share of time, per cent */
        INFP_GPU_MEMORY_USED,
        INFP_GPU_MEMORY_TOTAL,
        INFP_GPU_MEMORY_ACTIVE, /* of its memory's time, per cent */
        INFP_GPU_POWER,
        INFP_GPU_POWER_LIMIT,
        INFP_GPU_TEMPERATURE,
        INFP_GPU_TEMPERATURE_MEMORY,
        INFP_GPU_CLOCK,
        INFP_GPU_CLOCK_MAX,
        INFP_GPU_SM_ACTIVE, /* counted in the chip; per cent, like the next two */
        INFP_GPU_TENSOR_ACTIVE,
        INFP_GPU_BANDWIDTH,
        INFP_GPU_ECC_UNCORRECTED, /* counters, from here on */
        INFP_GPU_XIDS,
        INFP_GPU_HELD_POWER, /* ns in which its clocks were held down, and by what */
        INFP_GPU_HELD_THERMAL,
        INFP_GPU_HELD_SYNC_BOOST,
        INFP_GPU_HELD_BOARD,
        INFP_GPU_HELD_RELIABILITY,
        INFP_GPU_HELD_SW_THERMAL,
        INFP_GPU_HELD_HW_THERMAL,
        INFP_GPU_HELD_HW_BRAKE,
        INFP_GPU_FIGURES,
};

enum { INFP_GPUS_MOST = 256, INFP_GPU_PROCESSES_MOST = 1024 };

struct infp_gpu_process {
        int64_t pid;
        char *name, *type; /* NULL: not known */
        bool is_target, is_host_pid;
        struct infp_stat memory_bytes, sm_percent, compute_ns;
};

struct infp_gpu {
        const char *table; /* "nvidia", "amdgpu", "intel" */
        int64_t index;
        char *uuid, *name, *vendor; /* NULL: not known */
        char domain[32];            /* its name among the domains of energy, and in the time series: "nvidia0" */
        uint64_t first_t_ns, last_t_ns;
        uint64_t n_rows;
        struct infp_stat stat[INFP_GPU_FIGURES];
        /* Why its clocks were not higher at a sample. */
        struct infp_gpu_reason {
                char *text;
                uint64_t n;
        } * reasons;
        unsigned n_reasons;
        uint64_t n_asked;                   /* samples with a reason, or with `none` */
        struct infp_gpu_process *processes; /* the target's first, then by memory */
        unsigned n_processes;
};

struct infp_gpus {
        struct infp_gpu *list; /* by table and number */
        unsigned n;
        uint64_t n_rows_left_out; /* of GPUs and processes beyond the bounds */
};

/* The tables, ended by NULL, in the order of makers. */
extern const char *const infp_gpu_tables[];

/* 0 also for a run without these tables. On error ret_table is the table that cannot be read. */
int infp_gpus_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_gpus *ret,
                   const char **ret_table, struct infp_err *err);
void infp_gpus_done(struct infp_gpus *gpus);

double infp_gpu_mean(const struct infp_gpu *gpu,
                     enum infp_gpu_figure figure); /* NAN: not measured; likewise the next two */
double infp_gpu_most(const struct infp_gpu *gpu, enum infp_gpu_figure figure);
double infp_gpu_total(const struct infp_gpu *gpu, enum infp_gpu_figure figure); /* the increase of a counter */
double infp_gpu_held(const struct infp_gpu *gpu, enum infp_gpu_figure figure);  /* share of the time, 0..1 */
