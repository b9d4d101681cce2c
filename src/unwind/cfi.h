/* Call frame information: the entries of .eh_frame and .debug_frame, as DWARF and the LSB define them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/cursor.h"
#include "unwind/elf_image.h"

struct infp_cfi_section {
        struct infp_elf_bytes data;
        bool is_debug;       /* .debug_frame */
        bool ends_with_zero; /* its size is not known: a zero word is its end; else it is skipped */
};

struct infp_cie {
        uint64_t offset; /* in the section */
        uint64_t code_align, ra_register;
        int64_t data_align;
        const uint8_t *program, *program_end;
        uint8_t pointer_encoding; /* of the addresses in its FDEs */
        bool has_augmentation;    /* 'z': FDEs carry the size of theirs */
        bool is_signal;           /* 'S' */
};

/* One function's entry, or part of one. */
struct infp_fde {
        uint64_t offset, cie_offset;
        uint64_t begin, size; /* addresses that it covers, as in the image */
        const uint8_t *program, *program_end;
};

/* Reads a pointer in one of the encodings that occur: vaddr is that of its first byte, data_base what DW_EH_PE_datarel counts
 * from. Returns 0, -ENOTSUP (indirect, text and function relative, omitted) or -EBADMSG. */
int infp_cfi_pointer(struct infp_cursor *c, uint8_t encoding, uint64_t vaddr, uint64_t data_base, uint64_t *ret);

/* Fills the offsets of the next FDE at or after *offset and moves *offset after it. Returns 1, 0 at the end, or -EBADMSG:
 * nothing after it can be read. */
int infp_cfi_next(const struct infp_cfi_section *section, uint64_t *offset, struct infp_fde *ret);

/* A CIE is read again for FDEs that come much later: what is longer is no work of a compiler and -EBADMSG. */
enum { INFP_MAX_CIE_BYTES = 256 };

/* Reads the CIE at offset: 0, -ENOTSUP or -EBADMSG. */
int infp_cfi_cie(const struct infp_cfi_section *section, uint64_t offset, struct infp_cie *ret);

/* Reads the rest of fde, of which infp_cfi_next() filled the offsets: 0, -ENOTSUP or -EBADMSG. */
int infp_cfi_fde(const struct infp_cfi_section *section, const struct infp_cie *cie, struct infp_fde *fde);
