/* The entries of an image's call frame information, from .eh_frame and .debug_frame alike. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/cfa.h"
#include "unwind/cfi.h"

/* CIEs that were read lately, with the state after their programs. */
enum { INFP_CIE_CACHE = 16 };
struct infp_cached_cie {
        int status; /* 1: not read yet; else what reading it gave */
        bool is_debug;
        struct infp_cie cie;
        struct infp_cfa_state begin;
};

struct infp_entries {
        struct infp_cfi_section sections[2];
        unsigned n_sections;
        struct infp_cached_cie cache[INFP_CIE_CACHE];
        /* Where the walk is. */
        const struct infp_elf *elf;
        unsigned section;
        uint64_t offset, n_read;
        bool is_cut_short;
        uint64_t cie_bytes_left; /* that may still be read again: a hostile file must not take quadratic time */
};

/* Returns 0, -ENODATA or -EFBIG (a section of more than 1 GiB). The image is borrowed. At most a few walks: see cie_bytes_left. */
int infp_entries_open(struct infp_entries *entries, const struct infp_elf *elf);
void infp_entries_rewind(struct infp_entries *entries);

/* The next entry and, in ret_section, which section it is in: 1; -EBADMSG or -ENOTSUP for one that cannot be read, after which
 * the walk goes on; 0 at the end. */
int infp_entries_next(struct infp_entries *entries, struct infp_fde *ret, unsigned *ret_section);

/* The entry at an offset that a walk gave, and its CIE: 1, or an error. */
int infp_entries_at(struct infp_entries *entries, unsigned section, uint64_t offset, struct infp_fde *ret,
                    const struct infp_cached_cie **ret_cie);
