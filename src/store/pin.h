/* Names for runs: DIR/pins/NAME is a file that holds the uuid of a run of DIR. infp_run_open takes a NAME (of its output directory)
 * and DIR/NAME. */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "store/run.h"

enum { INFP_PIN_MOST = 64 }; /* characters of a name */

/* Letters, digits, ., _ and -; not the beginning of a uuid, and no . in front. */
bool infp_pin_check(const char *name);
/* Names the run, whatever was named so before. -EINVAL: not a name. */
int infp_pin_set(const struct infp_run *run, const char *name, struct infp_err *err);
int infp_pin_remove(const char *output, const char *name, struct infp_err *err); /* -ENOENT: no run has it */
/* 0 and its uuid; -ENOENT: nothing is named so. */
int infp_pin_find(int output_fd, const char *name, char ret[37]);
/* The names of a run, sorted, with a comma and a blank between; "" where it has none. */
int infp_pin_names(int output_fd, const char *uuid, struct infp_str *ret);
