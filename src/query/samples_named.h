/* SQL's view of samples of stacks with their names. */
#pragma once

#include "model/schema.h"

extern const struct infp_table infp_samples_named_table; /* plain */
extern const char infp_samples_named_sql[];
