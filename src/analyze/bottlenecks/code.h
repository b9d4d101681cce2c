/* What the names in stacks say about a target's time: work that has nothing to do with the model, and waits for locks. Estimates
 * from samples, but for waits, which mode off-cpu measures.
 *
 * A wait in futex is not a wait for a lock: a thread that has nothing to do waits there as well. What counts is that the functions
 * between the kernel and the program are those that take a lock. Locks of Python's threading look the same as its conditions and
 * queues, and do not count. */
#pragma once

#include "analyze/profile/place.h"

enum infp_code_kind {
        INFP_CODE_ALLOCATOR, /* mode cpu: malloc and free, by their own frames */
        INFP_CODE_TOKENIZER, /* mode cpu: anywhere in the stack, as the next */
        INFP_CODE_SAMPLING,  /* of the next token */
        INFP_CODE_LOCK,      /* mode off-cpu: waits for a lock that another thread has */
        INFP_CODE_KINDS,
};

struct infp_code {
        uint64_t samples; /* of mode cpu */
        double seconds;   /* likewise */
        double squares;   /* of their weights */
        struct infp_code_sum {
                double seconds;
                uint64_t samples;
                struct infp_profile_places places; /* those of the most time first; strings are the profile's */
        } of[INFP_CODE_KINDS];
};

/* -ENOMEM. */
int infp_code_read(const struct infp_profile *profile, struct infp_code *ret);
void infp_code_done(struct infp_code *code);
/* As many samples of equal weight as those of mode cpu are worth (Kish); 0 without any. */
double infp_code_effective(const struct infp_code *code);
