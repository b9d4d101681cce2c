/* A directory of this user alone for what can be made again. */
#pragma once

#include "base/err.h"

/* Makes the directory (0700) and those above it, and opens it: a descriptor. One that others can write to, that is not ours or is a
 * link is refused (-EPERM), and one on a network file system (-EREMOTE). what: is kept there, for messages. */
int infp_cache_directory_open(const char *path, const char *what, struct infp_err *err);

/* XDG_CACHE_HOME/infprof/NAME, else ~/.cache/infprof/NAME; NULL when neither is set. free() it. */
char *infp_cache_path(const char *name);
