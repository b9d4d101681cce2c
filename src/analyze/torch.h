/* What PyTorch programs spent in their modules and steps, by tables of schema `python` (docs/python.md). Modules' times are of the steps
 * that were sampled; memory grows with the number of modules. */
#pragma once

#include "analyze/stat.h"
#include "base/strings.h"
#include "query/scan.h"

enum { INFP_TORCH_PHASES = 16, INFP_TORCH_SLOWEST = 5, INFP_TORCH_NOTES = 8, INFP_TORCH_PROCESSES = 32 };
enum infp_torch_stage { INFP_TORCH_FORWARD, INFP_TORCH_BACKWARD, INFP_TORCH_STEP, INFP_TORCH_STAGES };

struct infp_torch_time {
        uint64_t calls;
        double seconds; /* with what was called */
        double self_s;  /* without; NAN: not known of some call */
};

/* One module in all its stages, over all processes. Texts are numbers of strings. */
struct infp_torch_module {
        uint32_t name, cls;
        struct infp_torch_time of[INFP_TORCH_STAGES], all;
        uint64_t growths;  /* calls whose memory was counted */
        double growth_mib; /* of them together */
};

struct infp_torch_class {
        uint32_t name;
        struct infp_torch_time all;
};

struct infp_torch_step {
        uint32_t shape, note;
        int64_t step; /* -1: not known */
        double seconds, gc_s, data_s;
};

struct infp_torch_phase {
        uint32_t name;
        uint64_t n_hooked;
        struct infp_samples durations;                      /* of all its steps */
        struct infp_torch_step slowest[INFP_TORCH_SLOWEST]; /* the slowest first */
        unsigned n_slowest;
};

/* The last that a process said of its overhead in the range. Shares; NAN: too few pairs. */
struct infp_torch_overhead {
        uint64_t process_id;
        int64_t pairs, every;
        double hooks, hooks_low, hooks_high, own, overhead, low, high;
};

struct infp_torch_report {
        struct infp_torch_module *modules; /* by their own time, the most first */
        struct infp_torch_class *classes;  /* the same */
        uint32_t n, cap, n_classes, classes_cap;
        struct infp_torch_time stages[INFP_TORCH_STAGES]; /* seconds: of outermost calls is not known; self_s counts */
        struct infp_torch_phase *phases;                  /* as they appeared */
        unsigned n_phases, n_notes, n_overheads;
        uint32_t notes[INFP_TORCH_NOTES]; /* why there are no hooks, each once */
        struct infp_torch_overhead overheads[INFP_TORCH_PROCESSES];
        uint64_t n_steps, n_hooked, n_calls_left_out; /* of modules beyond the most that are kept */
        uint64_t n_collections;
        double collections_s, longest_collection_s;
        struct infp_strings strings;
};

int infp_torch_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_torch_report *ret,
                    struct infp_err *err);
void infp_torch_done(struct infp_torch_report *torch);

static inline bool infp_torch_has(const struct infp_torch_report *torch)
{
        return torch->n || torch->n_steps || torch->n_notes;
}
/* Rows are a program's, which may write anything. False of NAN. */
static inline bool infp_torch_is_time(double seconds)
{
        return seconds >= 0 && seconds <= 1e9;
}
/* Seconds by which a list of modules or classes is ordered: their own where that is known. */
static inline double infp_torch_weight(const struct infp_torch_time *time)
{
        return time->self_s >= 0 ? time->self_s : time->seconds;
}
/* The time of all calls without what they called; NAN: not known of some call. */
double infp_torch_own_s(const struct infp_torch_report *torch);
double infp_torch_median_s(struct infp_torch_phase *phase); /* NAN: of none */

/* Modules that have allocated more than they freed, the most first. Returns how many, `most` at most. */
unsigned infp_torch_growths(const struct infp_torch_report *torch, const struct infp_torch_module **ret, unsigned most);
double infp_torch_growth_bytes(const struct infp_torch_module *module); /* a call; NAN: not known */

/* Steps that took longer than the others of their phase, those first that lost most. Returns how many. */
struct infp_torch_long_step {
        const struct infp_torch_step *step;
        const struct infp_torch_phase *phase;
        double median_s; /* of the phase */
};
unsigned infp_torch_long_steps(const struct infp_torch_report *torch,
                               struct infp_torch_long_step ret[INFP_TORCH_SLOWEST]);
const char *infp_torch_stage_name(enum infp_torch_stage stage);
