/* Statistics of every number of a table, under the names of the time series: those of a keyed table by instance. */
#pragma once

#include <stdint.h>

#include "analyze/stat.h"
#include "base/err.h"
#include "model/schema.h"
#include "query/scan.h"

/* Texts belong to it. */
struct infp_report_metric {
        char *table, *name, *unit, *base;
        size_t prefix_size;        /* of the name: "container0_" */
        bool is_share;             /* shown in percent, whatever its unit */
        double factor;             /* value x factor is in the base unit */
        struct infp_column column; /* do not use its name, unit and help */
        struct infp_stat stat;
};

/* Appends the metrics of the table over the range of `wanted`, whose catalog must be set and hold the table. Reads only the
 * needed columns, once. Appends nothing on failure. */
int infp_metrics_read(struct infp_run *run, const struct infp_table *known, const struct infp_scan_options *wanted,
                      struct infp_report_metric **metrics, unsigned *n, struct infp_err *err);
/* Increase of a counter in the range, in the base unit; NAN: not measured. from_zero: it began with the run, at 0, and its first value
 * counts. */
double infp_metric_increase(const struct infp_report_metric *metric, bool from_zero);
void infp_metrics_done(struct infp_report_metric *metrics, unsigned n);
