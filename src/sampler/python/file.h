/* What the file of an interpreter says of it: places of what it defines, and where its loop's code is. Addresses are the file's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "symbols/image.h"
#include "unwind/python/merge.h"

enum { INFP_PYTHON_PARTS = 512 }; /* a tail-call interpreter has a function an instruction */

struct infp_python_file {
        /* 0: not defined here. */
        uint64_t runtime, code_type, none;
        uint64_t version;     /* PY_VERSION_HEX; 0: it does not say */
        uint64_t get_version; /* of a function that every CPython has */
        uint64_t loop;        /* of the function that is the interpreter's loop */
        uint32_t n_parts;
        struct infp_python_range parts[INFP_PYTHON_PARTS]; /* of the loop, as symbols name them; in any order */
};

/* Reads the image's symbols; what it has none for, it looks for in section and data. */
void infp_python_file_read(struct infp_image *image, struct infp_python_file *ret);

/* Adds the parts of the loop that no symbol names, since the compiler moved them out of it; sorts all, and joins those that overlap. */
void infp_python_loop_find(struct infp_image *image, struct infp_python_file *file);
