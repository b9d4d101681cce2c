/* The table of dynamic symbols of a file that has no section headers (sstrip, lld -z nosectionheader): where PT_DYNAMIC, which the
 * loader needs, says that it is. */
#pragma once

#include "symbols/image.h"

/* As headers of sections would say it: where they are in the file, and how large. */
struct infp_symbol_sections {
        Elf64_Shdr symbols, texts;
};

/* False: the file has none, or it cannot be read. */
bool infp_symbol_sections_by_loader(struct infp_image *image, struct infp_symbol_sections *ret);
