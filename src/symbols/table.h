/* Functions of an ELF file by address, from .symtab or .dynsym: of names that mean the same place the one that people know. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "symbols/image.h"

struct infp_function {
        uint64_t begin, end; /* end = begin: the file does not say how long it is */
        uint32_t name;       /* in names */
        uint16_t section;
};

struct infp_functions {
        struct infp_function *sized; /* by address, none in two; the inner one of two that overlap */
        struct infp_function *open;  /* those without a size, by address */
        uint32_t n_sized, n_open;
        const char *names; /* borrowed from the image, or own_names */
        char *own_names;
};

/* Addresses that will be asked for, ascending: tables are then read past what names none of them, and cost no more than what does.
 * addresses NULL: any may be. */
struct infp_wanted {
        const uint64_t *addresses;
        size_t n;
};

/* section: SHT_SYMTAB or SHT_DYNSYM of the image, which outlives the table. 0, -ENOENT (no such section, or no function in it),
 * -EFBIG (more than image->most_bytes), -ENOMEM. */
int infp_functions_read(struct infp_image *image, uint32_t section, const struct infp_wanted *wanted,
                        struct infp_functions *ret);
void infp_functions_done(struct infp_functions *functions);

/* A function that has the address within its size. NULL: none. */
const struct infp_function *infp_functions_find(const struct infp_functions *functions, uint64_t address);
/* The last one without a size that begins at or before it in the same section, with no other function between. */
const struct infp_function *infp_functions_find_open(const struct infp_functions *functions,
                                                     const struct infp_image *image, uint64_t address);
/* Its name as the file has it, and its size without a version ("memcpy@@GLIBC_2.14" is memcpy). */
const char *infp_function_name(const struct infp_functions *functions, const struct infp_function *function,
                               size_t *ret_size);
/* Which of two names of one place: < 0 the first is better. Fewer leading underscores, then shorter, then by letters. */
int infp_symbol_name_order(const char *a, const char *b);
