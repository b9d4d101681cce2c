/* Go's own table of functions (.gopclntab), which every Go program has, stripped or not: where functions begin, what they are
 * called, and by how much each instruction has lowered the stack pointer. Layouts of Go 1.2 to 1.26.
 *
 * The image is borrowed. Every offset comes from the file and is checked; texts are bounded by the table. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/elf_image.h"

enum {
        INFP_GO_TOP = 1,        /* a thread or goroutine begins with it: there is no caller */
        INFP_GO_SP_WRITTEN = 2, /* it switches stacks: what the table says of its stack pointer is not so */
        INFP_GO_ASSEMBLY = 4,   /* it may use its frame as it likes */
};

struct infp_go {
        const uint8_t *bytes;
        uint64_t size, text; /* text: what entries count from, since 1.18 */
        uint64_t begin, end; /* of all its functions; nothing else lies between */
        uint64_t n_functions, entries, functions, names, values, files, units; /* offsets */
        unsigned version;   /* 2, 16, 18, 20: Go 1.N that came with the layout */
        uint64_t work_left; /* values that may still be read: a hostile file must not take quadratic time */
};

struct infp_go_function {
        uint64_t begin, end; /* addresses as in the image */
        uint64_t at;         /* offset */
        uint32_t name;       /* offset of the text from infp_go_names() */
        uint32_t stack;      /* of values: how far the stack pointer is below what it was at the begin */
        unsigned flags;
};

/* Returns 0; -ENODATA: the image has none; -EBADMSG: it cannot be read. At most a few walks over all values: see work_left. */
int infp_go_open(struct infp_go *go, const struct infp_elf *elf);

/* Function i, by address. False: it cannot be read. */
bool infp_go_function(const struct infp_go *go, uint64_t i, struct infp_go_function *ret);

/* The function that has the address. */
bool infp_go_find(const struct infp_go *go, uint64_t address, struct infp_go_function *ret);

/* From pc on the value holds. A negative result ends the walk with it. */
typedef int infp_go_value(void *context, uint64_t pc, int32_t value);
/* Walks values of a function from its begin to its end: 0, -EBADMSG or what value() gave. */
int infp_go_values(struct infp_go *go, const struct infp_go_function *function, uint32_t values, infp_go_value *value,
                   void *context);

/* file: of the function, borrowed. Lines are 0 where they are not known; line: of the instruction, where nothing was inlined. */
struct infp_go_place {
        const char *file;
        int32_t line, function_line;
};
bool infp_go_place(struct infp_go *go, uint64_t address, struct infp_go_place *ret);

/* All names: texts that end with a zero byte, within *ret_size. */
const uint8_t *infp_go_names(const struct infp_go *go, uint64_t *ret_size);
