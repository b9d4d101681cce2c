/* What works on a machine and what does not: one line each, with the fix. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct infp_finding {
        char *group, *name; /* "sources", "cpu" */
        const char *state;  /* ok, absent, denied, broken, late, off, info */
        char *text, *fix;   /* NULL: none */
        bool essential;     /* infprof is useless without it */
};

struct infp_findings {
        struct infp_finding *list;
        size_t n, cap;
        bool failed; /* no memory */
};

void infp_findings_done(struct infp_findings *findings);
void infp_findings_add(struct infp_findings *findings, const char *group, const char *name, const char *state,
                       bool essential, const char *text, const char *fix);

/* Every source, by one sample of all below root; then what was found, in groups: "engines", each page that was read; "gpus", each GPU;
 * "cgroups", where infprof itself is counted. settings: of sources
 * (record_options.h), ended by a NULL name. 0, or the root cannot be opened. */
struct infp_setting;
int infp_doctor_sources(struct infp_findings *findings, const char *root, const struct infp_setting *settings,
                        struct infp_err *err);
/* Kernel settings that restrict measurements; read below root. */
void infp_doctor_kernel(struct infp_findings *findings, const char *root);
/* Which stacks may be sampled, of this machine. */
void infp_doctor_sampler(struct infp_findings *findings);
/* What infprof itself needs here: places to write, DuckDB, descriptors. */
void infp_doctor_program(struct infp_findings *findings);
/* The lines of base/debug.h, if kept: last, so that they include the other checks. */
void infp_doctor_debug(struct infp_findings *findings);
