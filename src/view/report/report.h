/* How a report looks: for people, as one JSON object, as a table. */
#pragma once

#include "analyze/report.h"
#include "view/format.h"

/* Sections of plain words and units that people read, cut to out->width (80 columns where that is 0). all: every metric,
 * not only what the run was about and what is asked first of a machine. */
void infp_report_text(struct infp_out *out, const struct infp_report *report, bool all);
void infp_report_json(struct infp_out *out, const struct infp_report *report);
/* A row a metric, in any table format. 0 or a negative errno. */
int infp_report_table(struct infp_out *out, const struct infp_report *report, const struct infp_format *format);
/* A row for each pair of neighbouring labels. */
int infp_report_labels_table(struct infp_out *out, const struct infp_report *report, const struct infp_format *format);
