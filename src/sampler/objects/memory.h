/* The last way to a file that is gone: what a process has of it in its memory. */
#pragma once

#include <stdbool.h>

#include "sampler/objects/open.h"

/* Looks again where the process has the mapping, and of which inode it is. False: there is nothing executable now. */
bool infp_object_find(int root_fd, struct infp_object_place *place);

/* A memory file with the parts of the file that the process has mapped, each at its offset; the rest is zeros. Large code is left
 * out. A descriptor, or a negative errno: -EPERM where its memory may not be read. */
int infp_object_from_memory(int root_fd, const struct infp_object_place *place, struct infp_file_identity *ret);
