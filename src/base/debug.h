/* What infprof decided and what failed on the way, for a person who looks for a fault in infprof: with INFPROF_DEBUG=1 the last 512
 * lines are kept in memory. `doctor` shows its own; every other verb writes them to standard error when it ends. */
#pragma once

#include <stdbool.h>

/* From any thread. Without INFPROF_DEBUG it costs one load. Every infp_fail is such a line by itself. */
void infp_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool infp_debug_is_on(void);

/* Calls `each` for every line that is kept, oldest first: "+12.345 ms text". Returns how many older ones were overwritten. */
unsigned long infp_debug_each(void (*each)(void *context, const char *line), void *context);
