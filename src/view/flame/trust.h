/* How well a profile was sampled, in words: what was taken, what is missing, and what its stacks lack. */
#pragma once

#include "analyze/absent.h"
#include "analyze/profile/flame.h"
#include "analyze/profile/sampling.h"
#include "base/str.h"

/* One paragraph: what was wanted, taken and lost; stacks that end early; frames that are guessed or have no name. flame NULL: what the
 * sampler says alone, beside pictures, which report their own samples (words.h). */
void infp_sampling_words(struct infp_str *out, const struct infp_flame *flame,
                         const struct infp_sampling_mode *sampling);

/* Why a run has no samples: `refused` (the row of `sources` for instance perf of the sampler) or NULL; else by how many
 * samples the CPU clock called for. */
void infp_sampling_none(struct infp_str *out, const struct infp_sampling_mode *sampling,
                        const struct infp_absence *refused);

/* "1,384 stacks"; "99.9 %". */
void infp_trust_count(struct infp_str *out, double v, const char *one, const char *many);
void infp_trust_share(struct infp_str *out, double part, double whole);
