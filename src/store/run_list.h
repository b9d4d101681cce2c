/* Runs of an output directory, inside src/store. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct infp_run_entry {
        char uuid[37];
        int64_t started_unix_ns;
};

/* Oldest first; free the array. Their number or a negative errno. */
int infp_run_entries(int output_fd, struct infp_run_entry **ret);
/* A descriptor, or the sentence why there is no run to be found there. */
int infp_run_open_output(const char *output, struct infp_err *err);
