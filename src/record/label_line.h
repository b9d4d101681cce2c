/* Labels in a command's output: lines "measure_label-<tag>: <Unix seconds>" and "measure_label-filename: <name>", as the
 * helpers of the mission's system profiler print them. Bytes come in pieces of any size; memory is bounded.
 *
 * A line ends at \n or \r, so that a progress bar that redraws itself is many lines. Escape sequences of terminals are
 * skipped. After other text of the same line a label counts only with a whole number of seconds at the line's end: a progress
 * bar leaves its line open, and listings of a program that prints labels are not labels. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INFP_LABEL_LINE = 4096, INFP_LABEL_TAG = 256 };

enum infp_label_epoch {
        INFP_LABEL_HAS_TIME,
        INFP_LABEL_NO_TIME,  /* nothing follows the tag */
        INFP_LABEL_BAD_TIME, /* what follows is not a time */
};

struct infp_label {
        bool is_filename;
        const char *
                tag; /* raw bytes, at most INFP_LABEL_TAG, never empty; borrowed for the call. Of a file name: the name */
        size_t size;
        enum infp_label_epoch epoch;
        int64_t unix_ns; /* with INFP_LABEL_HAS_TIME */
};

/* Zero-initialised is the start of a line. */
struct infp_label_lines {
        char line[INFP_LABEL_LINE]; /* what has come of the open line */
        size_t size;
        bool is_cut; /* its beginning was dropped */
};

typedef void infp_label_found(void *context, const struct infp_label *label);

void infp_label_lines_feed(struct infp_label_lines *lines, const char *bytes, size_t size, infp_label_found *found,
                           void *context);
/* The output has ended: an open line counts, too. */
void infp_label_lines_end(struct infp_label_lines *lines, infp_label_found *found, void *context);
