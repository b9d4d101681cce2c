/* Copies of pages of a process that does not run, or that is read twice: what is read of it lies close together, and each call to the
 * kernel costs. */
#pragma once

#include "base/map.h"
#include "unwind/python/walk.h"

struct infp_python_pages {
        struct infp_python_memory below;
        struct infp_map by_address; /* of a page: its copy */
        uint32_t n;
};

/* Valid until done. */
struct infp_python_memory infp_python_pages_begin(struct infp_python_pages *pages, struct infp_python_memory below);
void infp_python_pages_done(struct infp_python_pages *pages);
