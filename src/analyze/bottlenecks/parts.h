/* What the files of the rules share. */
#pragma once

#include "analyze/bottlenecks/bottlenecks.h"
#include "analyze/profile/place.h"
#include "analyze/report.h"

void infp_bottleneck_line(struct infp_bottleneck *finding, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* 0: it has one. */
void infp_bottleneck_share(struct infp_bottleneck *finding, double share, const char *no_interval);
/* A share of effective samples: with Wilson's interval. part of whole, then times `scale`. */
void infp_bottleneck_sampled(struct infp_bottleneck *finding, double part, double whole, double effective,
                             double scale);
void infp_bottleneck_no_share(struct infp_bottleneck *finding, enum infp_severity severity, const char *why);
void infp_bottleneck_places(struct infp_bottleneck *finding, const struct infp_strings *strings,
                            const struct infp_profile_places *places, double whole);
enum infp_rule_answer infp_bottleneck_unchecked(struct infp_bottleneck *finding, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
/* What limits found of a resource; NULL: nothing, in loads and imports. */
const struct infp_limit *infp_bottleneck_limit(const struct infp_report *report, enum infp_limit_resource resource);
/* The same as an answer: not checked with its reason, clear with headroom, found with its text as evidence. */
enum infp_rule_answer infp_bottleneck_of_limit(const struct infp_report *report, enum infp_limit_resource resource,
                                               struct infp_bottleneck *ret);

/* Thread seconds in which threads of the target had work: on a CPU, waiting for one, for a lock, for the GIL, as far as these were
 * recorded; the length of the range at least, so that what is lost of a target that sleeps counts little. */
double infp_wanted_s(const struct infp_report *report);
double infp_gil_waited_s(const struct infp_report *report); /* NAN: not recorded */

/* cpu.c */
enum infp_rule_answer infp_rule_throttled(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_neighbours(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_saturated(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_one_thread(const struct infp_report *report, struct infp_bottleneck *ret);
/* memory.c */
enum infp_rule_answer infp_rule_oom(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_memory(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_swap(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_leak(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_io(const struct infp_report *report, struct infp_bottleneck *ret);
/* gpu.c */
enum infp_rule_answer infp_rule_gpu_held(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_gpu_idle(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_gpu_memory(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_pcie(const struct infp_report *report, struct infp_bottleneck *ret);
/* engine.c */
enum infp_rule_answer infp_rule_cache(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_queue(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_batch(const struct infp_report *report, struct infp_bottleneck *ret);
/* threads.c */
enum infp_rule_answer infp_rule_busy_wait(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_lock(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_gil(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_gc(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_lag(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_allocator(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_tokenizer(const struct infp_report *report, struct infp_bottleneck *ret);
enum infp_rule_answer infp_rule_sampling(const struct infp_report *report, struct infp_bottleneck *ret);
