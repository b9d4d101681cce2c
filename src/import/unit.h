/* What a foreign profile measures, as a mode of stack_samples. */
#pragma once

#include "import/writer.h"

/* Seconds of one of a unit of time ("nanoseconds", "us" ...); 0: it is not one. */
double infp_import_seconds(struct infp_import_text unit);

/* Our mode in seconds that a type names; NULL: none. */
const char *infp_import_clock(struct infp_import_text type);

/* Our mode of the heap that a type in bytes names; NULL: none. */
const struct infp_stack_mode_is *infp_import_heap(struct infp_import_text type, struct infp_import_text unit);

/* Writes the mode of a value into ret and returns what it is multiplied with: one of ours where that is what type and unit say,
 * else "TYPE/UNIT" as it is. */
double infp_import_mode(struct infp_import_text type, struct infp_import_text unit, char ret[INFP_IMPORT_MODE_TEXT]);
