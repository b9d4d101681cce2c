/* Call frame information that a compiler or linker has packed: the unwinder is of libc alone. */
#pragma once

#include "unwind/elf_image.h"

/* Sets elf->debug_frame where it is packed by zlib and unpacks whole: to memory that the caller frees when elf is done with; else
 * NULL (also for zstd, and beyond 256 MiB), and nothing changes: what it would say is guessed. */
void *infp_object_unpack(struct infp_elf *elf);
