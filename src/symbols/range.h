/* Functions without a name: how far they reach is known from the file's call frame information. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "symbols/image.h"
#include "unwind/table.h"

struct infp_ranges {
        void *memory;
        const struct infp_unwind_table *table; /* NULL: none can be made */
};

/* Never fails: without call frame information there are no ranges. */
void infp_ranges_read(struct infp_image *image, struct infp_ranges *ret);
void infp_ranges_done(struct infp_ranges *ranges);

/* The function with the address. Where no function is known: what lies between known ones, within its section; false then. */
bool infp_ranges_find(const struct infp_ranges *ranges, const struct infp_image *image, uint64_t address,
                      uint64_t *ret_begin, uint64_t *ret_end);

/* Whether code of libgomp waits there for other threads: its functions that spin have no names in stripped files. */
bool infp_range_is_openmp_wait(struct infp_image *image, const char *path, uint64_t begin, uint64_t end);
