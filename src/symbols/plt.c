#include "symbols/plt.h"

#include <stdio.h>
#include <string.h>

enum { ENTRY = 16, SHORT_ENTRY = 8, MOST_NAME = 4096 };

static const Elf64_Shdr *table_of(const struct infp_image *image, uint64_t address)
{
        for (unsigned i = 1; i < image->n_sections; i++) {
                const Elf64_Shdr *s = &image->sections[i];

                if ((s->sh_flags & SHF_EXECINSTR) && address >= s->sh_addr && address - s->sh_addr < s->sh_size)
                        return infp_image_section_is(image, s, ".plt") || infp_image_section_is(image, s, ".plt.sec") ||
                                               infp_image_section_is(image, s, ".plt.got")
                                       ? s
                                       : NULL;
        }
        return NULL;
}

/* The slot of the global offset table that `jmp *slot(%rip)` in the entry reads. 0: no such jump. */
static uint64_t slot_of(const uint8_t *entry, unsigned size, uint64_t address)
{
        for (unsigned i = 0; i + 6 <= size; i++) {
                int32_t offset;

                if (entry[i] != 0xff || entry[i + 1] != 0x25)
                        continue;
                memcpy(&offset, entry + i + 2, sizeof(offset));
                return address + i + 6 + (uint64_t) (int64_t) offset;
        }
        return 0;
}

/* The number of the relocation that a lazy entry pushes. */
static bool number_of(const uint8_t *entry, unsigned size, uint32_t *ret)
{
        for (unsigned i = 0; i + 5 <= size; i++)
                if (entry[i] == 0x68) {
                        memcpy(ret, entry + i + 1, sizeof(*ret));
                        return true;
                }
        return false;
}

static const char *symbol_name(struct infp_image *image, const Elf64_Shdr *relocations, uint64_t symbol)
{
        const Elf64_Shdr *table =
                relocations->sh_link < image->n_sections ? &image->sections[relocations->sh_link] : NULL;
        const Elf64_Shdr *texts = table && table->sh_link < image->n_sections ? &image->sections[table->sh_link] : NULL;
        const uint8_t *symbols =
                texts && symbol < table->sh_size / sizeof(Elf64_Sym) ? infp_image_data(image, table) : NULL;
        const uint8_t *names = symbols ? infp_image_data(image, texts) : NULL;
        Elf64_Sym found;

        if (!names || !symbol)
                return NULL;
        memcpy(&found, symbols + symbol * sizeof(found), sizeof(found));
        return infp_image_text(names, texts->sh_size, found.st_name, MOST_NAME);
}

static bool is_found(struct infp_image *image, const Elf64_Shdr *relocations, const Elf64_Rela *r, char *ret,
                     size_t cap)
{
        const char *name = symbol_name(image, relocations, ELF64_R_SYM(r->r_info));

        if (!name || !*name)
                return false;
        snprintf(ret, cap, "%.*s@plt", (int) strcspn(name, "@"), name);
        return true;
}

bool infp_plt_name(struct infp_image *image, uint64_t address, char *ret, size_t cap)
{
        const Elf64_Shdr *table = table_of(image, address);
        unsigned size = ENTRY;
        const uint8_t *bytes;
        uint64_t begin, slot;
        uint32_t number = 0;
        bool has_number;

        if (!table)
                return false;
        if (infp_image_section_is(image, table, ".plt.got") && table->sh_entsize == SHORT_ENTRY)
                size = SHORT_ENTRY;
        begin = table->sh_addr + (address - table->sh_addr) / size * size;
        bytes = infp_image_at(image, begin, size);
        if (!bytes || begin + size > table->sh_addr + table->sh_size)
                return false;
        slot = slot_of(bytes, size, begin);
        has_number = !slot && number_of(bytes, size, &number);
        for (unsigned i = 1; (slot || has_number) && i < image->n_sections; i++) {
                const Elf64_Shdr *s = &image->sections[i];
                const bool is_lazy = infp_image_section_is(image, s, ".rela.plt");
                const uint8_t *all = s->sh_type == SHT_RELA && s->sh_entsize == sizeof(Elf64_Rela) && (slot || is_lazy)
                                             ? infp_image_data(image, s)
                                             : NULL;
                const uint64_t n = all ? s->sh_size / sizeof(Elf64_Rela) : 0;

                for (uint64_t j = slot ? 0 : number; j < n; j++) {
                        Elf64_Rela r;

                        memcpy(&r, all + j * sizeof(r), sizeof(r));
                        if (!slot || r.r_offset == slot)
                                return is_found(image, s, &r, ret, cap);
                }
        }
        return false;
}
