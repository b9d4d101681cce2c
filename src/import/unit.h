/* What a foreign profile measures, as a mode of stack_samples. */
#pragma once

#include "import/writer.h"

/* Seconds of one of a unit of time ("nanoseconds", "us" ...); 0: it is not one. */
double infp_import_seconds(struct infp_import_text unit);

/* Writes the mode of a value into ret and returns what it is multiplied with: "cpu", "wall" and "off-cpu" in seconds where that is
 * what the type says, else "TYPE/UNIT" as it is. */
double infp_import_mode(struct infp_import_text type, struct infp_import_text unit, char ret[INFP_IMPORT_MODE_TEXT]);
