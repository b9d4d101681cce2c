/* Profiles of stacks in the formats of other programs: one file, one format. docs/flamegraph.md says how each is opened.
 * Counts are samples; sums are the same in all of them. */
#pragma once

#include "analyze/profile/flame.h"
#include "analyze/profile/profile.h"
#include "view/format.h"

/* About the run, for formats that have room for it. */
struct infp_profile_about {
        const char *name;      /* of the profile: the command, or the run */
        const char *run;       /* uuid */
        int64_t begin_unix_ns; /* of profile->t0; 0: not known */
        double rate_hz;        /* that was asked for; 0: not known */
        uint64_t heap_bytes;   /* of the heap: from one sampled block to the next on average, at least; 0: not known */
        enum infp_flame_by by; /* speedscope: what its profiles are of; nothing: threads */
};

/* Lines "outermost;...;innermost COUNT", sorted: FlameGraph's format. */
int infp_folded_write(struct infp_out *out, const struct infp_flame *flame, struct infp_err *err);
/* pprof's profile.proto, gzip. */
int infp_pprof_write(struct infp_out *out, const struct infp_profile *profile, const struct infp_profile_about *about,
                     struct infp_err *err);
/* The others need stacks with times. */
int infp_speedscope_write(struct infp_out *out, const struct infp_profile *profile,
                          const struct infp_profile_about *about, struct infp_err *err);
int infp_chrome_write(struct infp_out *out, const struct infp_profile *profile, const struct infp_profile_about *about,
                      struct infp_err *err);
/* As `perf script` prints samples with stacks. */
int infp_perf_script_write(struct infp_out *out, const struct infp_profile *profile, struct infp_err *err);
