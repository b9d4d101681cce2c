/* Where infprof's own files are: beside the program in a build, or where it was installed. */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* The folder that has the file `name`. 0, or -ENOENT with a sentence that says it is missing. */
int infp_own_folder(const char *name, char *ret, size_t cap, struct infp_err *err);
