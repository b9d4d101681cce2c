/* A run in a few words, for `runs` and `mark`. */
#pragma once

#include "base/str.h"
#include "store/run.h"

/* "recording", "interrupted", "ended", "finished". */
const char *infp_run_state_name(enum infp_run_state state);
/* Its command, or that of the attached process; "" without one. */
const char *infp_run_command(const struct infp_run *run);
/* The same, escaped for a terminal and cut to `width` columns (0: whole); without a command what was recorded. */
void infp_run_words(struct infp_str *out, const struct infp_run *run, unsigned width);
