/* `infp_finish` in a child of its own: DuckDB and libdw read what others made and may crash. */
#pragma once

#include <stdbool.h>

#include "base/notice.h"
#include "record/signals.h"

/* Runs `infprof finish -r path` as a child at nice 19 and waits for it. A signal to end cuts it short. False: not finished. */
bool infp_finish_child(const char *path, struct infp_signals *signals, const struct infp_notices *notices);
