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
        const char *said_gil;
};

void infp_explain_say(const struct infp_explain *explain, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
void infp_explain_source(const struct infp_explain *explain, const char *instance, enum infp_source_state state,
                         const char *reason, const char *fix);
/* A source that is broken or denied, and a notice. */
void infp_explain_problem(const struct infp_explain *explain, const char *instance, int r, const char *text);
/* perf NULL: it was refused, or nobody needs it (then problem has no text). */
void infp_explain_perf(struct infp_explain *explain, const struct infp_perf *perf, uint32_t stack_bytes,
                       const struct infp_err *problem, const char *fix);
/* perf was refused. is_next: threads are read instead. */
void infp_explain_fall_back(const struct infp_explain *explain, const struct infp_err *problem, const char *fix,
                            bool is_next, bool is_inside);
/* A Python that is not known or may not be read; the program that reads Python frames in the kernel, which is_asked for by name. */
void infp_explain_interpreter(const struct infp_explain *explain, int r, const char *text);
void infp_explain_program(const struct infp_explain *explain, int r, const struct infp_err *problem, const char *fix,
                          bool is_asked);
/* Where it is not known who holds the GIL: each reason once. */
void infp_explain_gil(struct infp_explain *explain, pid_t pid, const struct infp_python *python);
void infp_explain_counts(struct infp_explain *explain, const struct infp_perf_counts *counts); /* each once */
