/* What the sampler may not do here, or not as it was asked: rows of `sources`, and notices for people. */
#pragma once

#include "base/err.h"
#include "collect/emit.h"
#include "sampler/perf/front.h"
#include "sampler/sampler.h"

struct infp_explain {
        struct infp_emit *emit;
        infp_notice_fn *notice; /* may be NULL */
        void *context;
        bool said_skipped, said_refused;
};

void infp_explain_say(const struct infp_explain *explain, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
void infp_explain_source(const struct infp_explain *explain, const char *instance, enum infp_source_state state,
                         const char *reason, const char *fix);
/* perf NULL: it was refused, or nobody needs it (then problem has no text). */
void infp_explain_perf(struct infp_explain *explain, const struct infp_perf *perf, uint32_t stack_bytes,
                       const struct infp_err *problem, const char *fix);
void infp_explain_counts(struct infp_explain *explain, const struct infp_perf_counts *counts); /* each once */
