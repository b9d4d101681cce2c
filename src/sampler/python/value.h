/* Values of Python objects of another process as text, as repr would write them. Nothing of that process runs: exact built-in scalars and
 * containers are read, tensors by their shape, and of all else class and address are given. */
#pragma once

#include "base/str.h"
#include "unwind/python/walk.h"

enum { INFP_PYTHON_TYPES = 64 };

/* Of one process: the caller sets the first three members and leaves the rest zero. */
struct infp_python_values {
        const struct infp_python_layout *layout; /* borrowed as long as this is used */
        struct infp_python_memory memory;
        bool keep_secrets;
        unsigned *said;           /* of infp_mask_next, in a list or tuple: it may be a command line; else NULL */
        struct infp_python_type { /* by address: what was read of types */
                uint64_t address;
                uint8_t kind;
                char name[64];
        } types[INFP_PYTHON_TYPES];
};

/* Appends one line of UTF-8. name: of the variable; a value whose name says that it is secret is ***. One that cannot be read is
 * `<it cannot be read>`; out->failed: no memory. */
void infp_python_value_put(struct infp_python_values *values, const char *name, uint64_t object, struct infp_str *out);

/* Calls back for each variable of the frame that has a value, in the code's order, until that returns false. Texts are borrowed for the
 * call. The frame's thread is stopped. Of a frame with more than 256 variables, or one that cannot be read, there are none. */
void infp_python_locals(struct infp_python_values *values, const struct infp_python_frame *frame,
                        bool (*take)(void *context, const char *name, const char *value), void *context);
