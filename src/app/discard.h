#pragma once

#include "store/run.h"

/* Removes all that a run has written: its tables, its directory, its static record and snapshots. What is not there is no error. */
void infp_discard_run(struct infp_run *run);
