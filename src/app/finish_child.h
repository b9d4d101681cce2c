/* `infp_finish` in a child process: DuckDB and libdw may crash on hostile files. */
#pragma once

#include <stdbool.h>

#include "base/notice.h"
#include "record/signals.h"

/* Runs `infprof finish -r path` as a child at nice 19 and waits for it; a signal to end stops it. False: not finished. */
bool infp_finish_child(const char *path, struct infp_signals *signals, const struct infp_notices *notices);
