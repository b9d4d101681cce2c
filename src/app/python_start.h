/* record --python, --torch: infprof's Python package in the Python programs of the command, which site.py starts there (python/infprof/start). */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum { INFP_PYTHON_START_VARIABLES = 2 };

struct infp_python_start {
        struct infp_str path, torch;
};
/* Fills at most INFP_PYTHON_START_VARIABLES texts NAME=VALUE, which lie in ret. torch: the value of --torch, "" without one; NULL: not
 * asked for. budget: of --torch-budget, or NULL. How many; -ENOENT: the package is missing; -EINVAL: its path has a colon, at which PYTHONPATH ends a name; -ENOMEM. */
int infp_python_start_variables(const char *torch, const char *budget, struct infp_python_start *ret,
                                const char **variables, struct infp_err *err);
void infp_python_start_done(struct infp_python_start *start);

/* The folder of the package's folder, and whether it has its extension in C. 0 or -ENOENT. */
int infp_python_start_find(char *ret, size_t cap, bool *ret_has_extension, struct infp_err *err);
