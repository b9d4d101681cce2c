/* A run that was recorded in a private directory goes to where it is kept. */
#pragma once

#include "store/run.h"

/* Moves the files of a run that has ended into a directory (made with its parents when missing): by rename where both are on one
 * file system, else by copies, after which the originals are removed. On failure the run stays where it is. 0 or a negative
 * errno: what making, renaming or copying failed with. */
int infp_move_run(struct infp_run *run, const char *output, struct infp_err *err);
