/* Names for frames of a run that is still being recorded, for a view of it: nothing is written into the run. A child with limits of
 * its own reads the files (symbolize.h); the caller polls, and is never blocked. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "symbols/symbols.h"

struct infp_name_frames;
/* ran_unix_ns: when the program began (struct infp_symbols_options). */
int infp_name_frames_new(int64_t ran_unix_ns, struct infp_name_frames **ret, struct infp_err *err);
struct infp_name_frames *infp_name_frames_free(struct infp_name_frames *names); /* NULL is fine; returns NULL */
/* One that is to be named; texts are borrowed for the call, "": none. Not while a child runs. -ENOMEM. */
int infp_name_frames_add(struct infp_name_frames *names, uint64_t id, enum infp_frame_kind kind, const char *object,
                         const char *build_id, uint64_t address);
/* Starts a child for those that were added. 0 too where none was. */
int infp_name_frames_begin(struct infp_name_frames *names, struct infp_err *err);
/* To poll for reading; -1: no child runs, and frames may be added. */
int infp_name_frames_fd(const struct infp_name_frames *names);
/* Calls `take` for each frame that was looked up: n 0 where nothing was found. Texts are borrowed for the call. When the child has
 * ended, fd is -1. A negative errno ends it as well. */
int infp_name_frames_read(struct infp_name_frames *names,
                          void (*take)(void *context, uint64_t id, const struct infp_symbol *levels, unsigned n),
                          void *context, struct infp_err *err);
uint64_t infp_name_frames_cpu_ns(const struct infp_name_frames *names); /* of the children of the last begin */
