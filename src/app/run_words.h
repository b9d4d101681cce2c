/* A run in a few words: what `runs` lists and `mark` says. */
#pragma once

#include "base/str.h"
#include "store/run.h"

/* "recording", "interrupted", "ended", "finished". */
const char *infp_run_state_name(enum infp_run_state state);
/* Its command, or the command line of the process that it was attached to; "" when there is none. */
const char *infp_run_command(const struct infp_run *run);
/* The same, cut to `width` columns (0: whole) and fit for a terminal; without one what was recorded. */
void infp_run_words(struct infp_str *out, const struct infp_run *run, unsigned width);
