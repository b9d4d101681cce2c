/* Joules of a range: of each domain and of the machine, of its idle power and of what was done, and per token. A pure function
 * over the tables energy, nvidia, amdgpu, intel and marks.
 *
 * GPUs are domains like others (`nvidia0`): they count, unless a meter of the whole machine counts already.
 *
 * A border of the range between two readings takes its share of that interval, as if power had been constant in it. Nothing is
 * extrapolated: `seconds` says how much of the range was measured. Idle power is what was measured as such
 * (record --energy-baseline), never a guess. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analyze/engine.h"
#include "analyze/range.h"
#include "analyze/requests.h"
#include "base/err.h"
#include "query/scan.h"

struct infp_energy_domain {
        char *name, *source, *part_of, *same_as; /* the last two: NULL for none */
        bool is_counted;                         /* in the machine's total */
        bool is_estimated;                       /* integrated from power */
        bool is_gpu;                             /* source: "counter", or the power that was integrated */
        double joules, seconds, watts; /* seconds: of the range, covered by readings; watts: joules / seconds */
        double idle_watts;             /* NAN: not measured */
};

/* Tokens of the range. */
struct infp_energy_tokens {
        enum { INFP_TOKENS_NONE, INFP_TOKENS_ENGINE, INFP_TOKENS_REQUESTS } from;
        unsigned n_engines;
        double generated, prompt, requests; /* NAN: not known */
        double joules, gpu_joules, seconds; /* of the time in which they were counted: between engines' pages */
};

struct infp_energy {
        struct infp_energy_domain *list; /* those that were measured in the range, in the order of their appearance */
        unsigned n;
        bool has_rows;                 /* something was read, even if its counter never moved */
        double joules, seconds, watts; /* of the machine: over the domains that count; NAN without any */
        bool is_estimated;             /* some of it was integrated from power */
        bool has_host;                 /* includes more than GPUs */
        bool is_interpolated;          /* a border lies between two readings */
        uint64_t t0, t1;               /* first and last moment that is covered */

        struct infp_baseline baseline;
        double baseline_s;       /* seconds of it that whole intervals between readings cover */
        bool baseline_is_before; /* the command had not begun; else the first seconds of a target that already ran */
        double idle_watts;       /* of the machine; NAN: not measured; likewise the next two */
        double idle_joules, dynamic_joules;

        double gpu_joules; /* of all GPUs; NAN: none was measured */
        bool gpu_is_estimated;
        double gpu_inside_joules, gpu_inside_idle_joules; /* of those that are in `joules`; 0: none */

        struct infp_energy_tokens tokens;
        double tokens_joules, tokens_gpu_joules, tokens_s; /* of the options' time of tokens; NAN: not measured in it */
        double j_per_generated, j_per_token, j_per_request; /* NAN: not known. token: prompt and generated alike */
        double gpu_j_per_generated;

        /* By CPU time: an estimate. What is split is what GPUs did not use, above its idle power where that is known. */
        double split_joules, split_idle_joules, machine_cpu_s;
        double tree_joules, others_joules; /* NAN: not known */
        double residual_joules;            /* joules without GPUs, less idle, tree and others */
};

struct infp_energy_options {
        const struct infp_scan_options *scan; /* with the catalog */
        const struct infp_range *range;
        bool is_command;               /* infprof ran a command: it waited while the baseline was measured */
        uint64_t tokens_t0, tokens_t1; /* the time in which tokens were counted; 0: the range */
};

/* 0 with n 0 for a run without energy. On error ret_table is the table that cannot be read. */
int infp_energy_read(struct infp_run *run, const struct infp_energy_options *options, struct infp_energy *ret,
                     const char **ret_table, struct infp_err *err);
/* CPU seconds in the range, of the target's tree (NAN without one) and of the whole machine. */
void infp_energy_split(struct infp_energy *energy, double tree_cpu_s, double machine_cpu_s);
/* Joules of a process that used this much CPU time; NAN if unknown. */
double infp_energy_share(const struct infp_energy *energy, double cpu_s);
void infp_energy_done(struct infp_energy *energy);

/* The first and last scrape between which the engines' tokens are counted, for the options of infp_energy_read; 0, 0 without
 * any. */
void infp_energy_tokens_span(const struct infp_report_engines *engines, uint64_t *ret_t0, uint64_t *ret_t1);
/* The figures per token: joules of the time in which tokens were counted. requests may be NULL; requests count over the whole
 * range. */
void infp_energy_per_token(struct infp_energy *energy, const struct infp_report_engines *engines,
                           const struct infp_requests *requests);
