/* Names of entries of procedure linkage tables: the function that an entry jumps to, as name@plt. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "symbols/image.h"

/* False: the address lies in no linkage table, or the entry's function has no name. */
bool infp_plt_name(struct infp_image *image, uint64_t address, char *ret, size_t cap);
