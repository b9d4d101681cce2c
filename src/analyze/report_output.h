/* How much a captured command wrote (table `output`), and how much of it is not on disk any more. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "query/scan.h"

struct infp_report_output {
        bool has;
        uint64_t bytes, removed; /* of the file: its size, and how much of its head is a hole */
        uint64_t range_bytes;    /* written in the range */
};

/* options: range and catalog. A run without a captured output has none. */
int infp_report_output_read(struct infp_run *run, const struct infp_scan_options *options,
                            struct infp_report_output *ret, struct infp_err *err);
