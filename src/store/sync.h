/* Syncs files to disk in a thread of its own: a disk may take seconds for each, and only callers that ask to wait for it. The
 * thread opens each file itself, so that no descriptor is closed under it and one is enough for all. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct infp_syncer;

/* Files lie below dir_fd (borrowed); shown: the path of that directory as a person writes it, for messages. */
int infp_syncer_new(int dir_fd, const char *shown, struct infp_syncer **ret, struct infp_err *err);
/* Never waits: a thread that is still busy ends by itself. NULL is fine; returns NULL. */
struct infp_syncer *infp_syncer_free(struct infp_syncer *syncer);

/* The file has changed: the next pass syncs it, unless it was removed by then. */
int infp_syncer_add(struct infp_syncer *syncer, const char *path, struct infp_err *err);
/* Starts a pass over all that was added, in that order, unless one is running. */
int infp_syncer_start(struct infp_syncer *syncer, struct infp_err *err);
/* Whether a pass is running. One that has ended since the last call sets *ret_r to 0, or to its first error with the text
 * (reported once: the kernel forgets a failed page as well). */
bool infp_syncer_is_busy(struct infp_syncer *syncer, int *ret_r, struct infp_err *err);
/* Runs passes until all is on the disk, or returns -ETIMEDOUT or the first error. */
int infp_syncer_wait(struct infp_syncer *syncer, uint64_t patience_ns, struct infp_err *err);
