/* What `record` does when its recording is over. */
#pragma once

#include <stdbool.h>

#include "record/child.h"
#include "record/signals.h"

/* Runs `infprof finish -r path` as a child at nice 19 and waits for it. A signal to end cuts it short. False: not finished. */
bool infp_record_finish(const char *path, struct infp_signals *signals);

/* The recording is over and the command goes on, but we are process 1 of a container, which would end with us: waits for the
 * command, passing signals on. Its exit code. */
int infp_record_stay(struct infp_child *child, struct infp_signals *signals);
