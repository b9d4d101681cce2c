/* Where the running program lies. */
#pragma once

#include <stddef.h>

/* Its directory, without a slash at the end; "" if /proc does not show it, or cap is too small. */
void infp_own_directory(char *ret, size_t cap);
