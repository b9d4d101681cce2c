/* Names that have to be found while the recording lasts, since what names them goes with the process: code made at run time, and
 * objects that are not below our root under their path. A thread of its own reads the files; it only knows formats that we read
 * ourselves, so that a file cannot crash the recorder: lines, inlined functions and demangling are left for `finish`. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/row.h"
#include "sampler/stacks/stack.h"

struct infp_symbols_live_options {
        int root_fd; /* of /proc and of files; stays open */
        /* Takes a row of table symbols away: 0, or -ENOSPC (it is tried again). Called by the caller of turn and end. */
        int (*put)(void *context, const struct infp_row *row);
        void *put_context;
};
struct infp_symbols_live;

int infp_symbols_live_new(const struct infp_symbols_live_options *options, struct infp_symbols_live **ret,
                          struct infp_err *err);
/* The rest is of the thread that the stacks belong to. Takes what is new of infp_stacks_nameless, and puts names that were found.
 * Cheap; to be called each second or so, and never waits. */
void infp_symbols_live_turn(struct infp_symbols_live *live, const struct infp_stacks *stacks, uint64_t now_ns);
/* All that is still to be named, until deadline_ns (CLOCK_MONOTONIC). Before infp_stacks_free. */
void infp_symbols_live_end(struct infp_symbols_live *live, const struct infp_stacks *stacks, uint64_t deadline_ns);
/* Does not wait for a thread that hangs in a file system. NULL is fine; returns NULL. */
struct infp_symbols_live *infp_symbols_live_free(struct infp_symbols_live *live);
