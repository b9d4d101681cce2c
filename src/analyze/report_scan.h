/* What the files report*.c share. */
#pragma once

#include "query/scan.h"

/* Scans only those of the wanted columns that the run has. -ENOENT: it has no such table. */
int infp_report_scan(struct infp_run *run, const char *table, const char *const *wanted,
                     const struct infp_scan_options *given, struct infp_scan **ret, struct infp_err *err);

struct infp_report;
/* report_figures.c: CPU of the tree and its processes, energy shared out, when all tables have been read. */
void infp_report_figures(struct infp_report *report);
