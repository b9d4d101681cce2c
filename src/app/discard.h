#pragma once

#include "store/run.h"

/* Removes the files of a run: its tables, directory, static record and snapshots. Missing files are no error. */
void infp_discard_run(struct infp_run *run);
