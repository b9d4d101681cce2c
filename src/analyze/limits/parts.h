/* Parts of limits.c: one function a group of resources. */
#pragma once

#include <stdbool.h>

#include "analyze/containers.h"
#include "analyze/limits/limits.h"
#include "analyze/report.h"

void infp_limit_set(struct infp_limit *limit, enum infp_limit_state state, double share, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
enum infp_limit_state infp_limit_state_of(double v, double reached, double near);
/* Why nothing of it was recorded, in the words of `sources`: of the whole source or of `column` (NULL: of the source alone). */
void infp_limit_set_unchecked(struct infp_limit *limit, const struct infp_report *report, const char *const *collectors,
                              const char *column, const char *otherwise);

/* Decimals of three figures that matter, for %.*f: unlike %g it never writes 1.2e+03. */
int infp_limit_decimals(double v);

bool infp_limit_is_host(const struct infp_report *report);
/* Share of the time in which some task (or all, `full`) of the target's own control groups waited; NAN: it has none, or it was not
 * measured. */
double infp_limit_own_waited(const struct infp_report *report, enum infp_container_figure figure);
double infp_limit_machine_waited(const struct infp_report *report, const char *resource, bool full); /* likewise */

/* cpu.c, memory.c, gpu.c, engine.c */
void infp_limit_throttling(const struct infp_report *report, struct infp_limit *limit);
void infp_limit_cpu(const struct infp_report *report, struct infp_limit *limit);
/* Where the CPU time that samples saw went to waiting; nothing is said without samples. */
void infp_limit_waiting(const struct infp_report *report, struct infp_limit *limit);
/* A queue that grows since neighbours have the CPUs is the CPU's: after both have been found. */
void infp_limit_starved(const struct infp_report *report, const struct infp_limit *queue, struct infp_limit *cpu);
void infp_limit_memory(const struct infp_report *report, struct infp_limit *limit);
void infp_limit_io(const struct infp_report *report, struct infp_limit *limit);
void infp_limit_gpu(const struct infp_report *report, struct infp_limit *busy, struct infp_limit *memory);
void infp_limit_engine(const struct infp_report *report, struct infp_limit *queue, struct infp_limit *cache);
