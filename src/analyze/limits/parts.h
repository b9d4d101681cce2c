/* Parts of limits.c: one function a group of resources. */
#pragma once

#include <stdbool.h>

#include "analyze/containers.h"
#include "analyze/limits/limits.h"
#include "analyze/report.h"

void infp_limit_set(struct infp_limit *limit, enum infp_limit_state state, double share, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
enum infp_limit_state infp_limit_state_of(double v, double reached, double near);
/* Why it was not recorded, as `sources` has it: for the whole source or for `column` (NULL: the source only). */
void infp_limit_set_unchecked(struct infp_limit *limit, const struct infp_report *report, const char *const *collectors,
                              const char *column, const char *otherwise);

/* Decimals for three significant figures, for %.*f, which never writes 1.2e+03 as %g does. */
int infp_limit_decimals(double v);

bool infp_limit_is_host(const struct infp_report *report);
/* Share of time in which some task (`full`: all tasks) of the target's own control groups waited; NAN: no group of its own,
 * or not measured. */
double infp_limit_own_waited(const struct infp_report *report, enum infp_container_figure figure);
double infp_limit_machine_waited(const struct infp_report *report, const char *resource, bool full); /* likewise */

double infp_limit_cpus_allowed(const struct infp_report *report); /* to the target; NAN: not known */
/* How long threads were ready without a CPU, in thread seconds: by the kernel's count, in older runs by waits; NAN: not measured. */
double infp_limit_run_delay_s(const struct infp_report *report);

/* cpu.c, memory.c, gpu.c, engine.c */
void infp_limit_throttling(const struct infp_report *report, struct infp_limit *limit);
void infp_limit_cpu(const struct infp_report *report, struct infp_limit *limit);
/* CPU time that went to busy waiting, by samples; no text without samples. */
void infp_limit_waiting(const struct infp_report *report, struct infp_limit *limit);
/* A queue that grows because other processes have the CPUs is the CPU's fault: call after both were found. */
void infp_limit_starved(const struct infp_report *report, const struct infp_limit *queue, struct infp_limit *cpu);
void infp_limit_memory(const struct infp_report *report, struct infp_limit *limit);
void infp_limit_io(const struct infp_report *report, struct infp_limit *limit);
void infp_limit_gpu(const struct infp_report *report, struct infp_limit *busy, struct infp_limit *memory);
void infp_limit_engine(const struct infp_report *report, struct infp_limit *queue, struct infp_limit *cache);
