/* Brings files to the disk in a thread of its own: a disk may take seconds for each, and nobody waits for it but who asks to.
 * The thread opens each file itself, so that no descriptor is closed under it and one is enough for all. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct infp_syncer;

/* Files lie below dir_fd (borrowed); shown: the path of that directory as a person writes it, for messages. */
int infp_syncer_new(int dir_fd, const char *shown, struct infp_syncer **ret, struct infp_err *err);
/* Never waits: a thread that is still at it ends by itself. NULL is fine; returns NULL. */
struct infp_syncer *infp_syncer_free(struct infp_syncer *syncer);

/* The file has changed: the next pass brings it to the disk. One that has been removed by then is left out. */
int infp_syncer_add(struct infp_syncer *syncer, const char *path, struct infp_err *err);
/* Begins a pass over all that was added, in that order, unless one is under way. */
int infp_syncer_start(struct infp_syncer *syncer, struct infp_err *err);
/* Whether a pass is under way. One that has ended since the last question sets *ret_r: to 0, or to its first error with the text
 * (told once: the kernel forgets a failed page as well). */
bool infp_syncer_is_busy(struct infp_syncer *syncer, int *ret_r, struct infp_err *err);
/* Passes until all is on the disk, at most this long: -ETIMEDOUT beyond. Or the first error. */
int infp_syncer_wait(struct infp_syncer *syncer, uint64_t patience_ns, struct infp_err *err);
