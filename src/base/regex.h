/* Regular expressions of the user: POSIX extended, none that would take the machine. */
#pragma once

#include <regex.h>

#include "base/err.h"

/* -EINVAL with a sentence. regfree(ret) after success. */
int infp_regex_compile(regex_t *ret, const char *text, struct infp_err *err);
