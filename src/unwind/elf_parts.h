/* Shared by the files of the ELF reader. */
#pragma once

#include "unwind/elf_image.h"

bool infp_elf_copy(const struct infp_elf *elf, uint64_t offset, void *into, uint64_t size);
struct infp_elf_bytes infp_elf_slice(const struct infp_elf *elf, uint64_t offset, uint64_t size, uint64_t vaddr);

/* Linkers merge Go's table into other sections; it lies among the data that are loaded then. */
void infp_elf_search_go_table(struct infp_elf *elf);

/* Takes .eh_frame, .debug_frame and the procedure linkage tables by their sections; what cannot be read is left out. */
void infp_elf_read_sections(struct infp_elf *elf, uint64_t offset, unsigned entry_size, unsigned n, unsigned names);
