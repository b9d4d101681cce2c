/* Directories for runs that nobody asked to keep. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* PLACE/infprof-WHAT-PID-RANDOM, of mode 0700. in_memory: in a memory file system if there is one, for a run that is small.
 * *ret_held_fd: as long as it is open, here or in a child, nobody sweeps the directory; NULL: this kind is not swept. The caller frees
 * the path. NULL: no place can be written, which err says. */
char *infp_private_directory(const char *what, bool in_memory, int *ret_held_fd, struct infp_err *err);
/* Removes it with all that is in it; frees the path; NULL is fine. Returns NULL. */
char *infp_private_remove(char *directory);
/* Gives it another name, PLACE/kept-infprof-..., which is never swept. Frees the path; returns the new one, or the old one where it
 * cannot be renamed. */
char *infp_private_keep(char *directory);
/* Removes the directories of this kind whose processes were killed. */
void infp_private_sweep(const char *what);
