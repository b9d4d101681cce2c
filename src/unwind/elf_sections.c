#include <elf.h>
#include <string.h>

#include "unwind/elf_parts.h"

enum { MAX_SECTIONS = 1 << 20 };

static bool is_named(const struct infp_elf_bytes *names, uint32_t at, const char *name)
{
        const size_t size = strlen(name) + 1;

        return at < names->size && size <= names->size - at && memcmp(names->bytes + at, name, size) == 0;
}

static void take_section(struct infp_elf *elf, const Elf64_Shdr *section, const struct infp_elf_bytes *names)
{
        const struct infp_elf_bytes found = infp_elf_slice(elf, section->sh_offset, section->sh_size, section->sh_addr);

        if (section->sh_type == SHT_NOBITS || !found.bytes)
                return;
        if (is_named(names, section->sh_name, ".eh_frame") && !(section->sh_flags & SHF_COMPRESSED)) {
                elf->eh_frame = found;
                elf->has_eh_frame_size = true;
        } else if (is_named(names, section->sh_name, ".debug_frame")) {
                *(section->sh_flags & SHF_COMPRESSED ? &elf->compressed_debug_frame : &elf->debug_frame) = found;
        } else if (is_named(names, section->sh_name, ".zdebug_frame")) {
                elf->compressed_debug_frame = found;
                elf->is_old_compression = true;
        } else if (is_named(names, section->sh_name, ".gopclntab") ||
                   is_named(names, section->sh_name, ".data.rel.ro.gopclntab")) {
                elf->go_table = found;
                elf->is_go = true;
        } else if (elf->n_plts < INFP_ELF_MAX_PLTS && (section->sh_flags & SHF_EXECINSTR)) {
                const bool is_lazy = is_named(names, section->sh_name, ".plt");

                if (is_lazy || is_named(names, section->sh_name, ".plt.sec") ||
                    is_named(names, section->sh_name, ".plt.got"))
                        elf->plts[elf->n_plts++] = (struct infp_elf_plt){ found.vaddr, found.size, is_lazy };
        }
}

static bool read_section(const struct infp_elf *elf, uint64_t offset, uint64_t i, Elf64_Shdr *ret)
{
        const uint64_t at = i * sizeof(*ret);

        return offset + at >= offset && infp_elf_copy(elf, offset + at, ret, sizeof(*ret));
}

void infp_elf_read_sections(struct infp_elf *elf, uint64_t offset, unsigned entry_size, unsigned n, unsigned names_at)
{
        struct infp_elf_bytes names;
        Elf64_Shdr section;
        uint64_t n_sections = n;

        if (!offset || entry_size != sizeof(section) || !read_section(elf, offset, 0, &section))
                return;
        if (n_sections == 0) /* more than fit the header's field */
                n_sections = section.sh_size;
        if (names_at == SHN_XINDEX)
                names_at = section.sh_link;
        if (!read_section(elf, offset, names_at, &section))
                return;
        names = infp_elf_slice(elf, section.sh_offset, section.sh_size, 0);
        if (!names.bytes)
                return;
        for (uint64_t i = 1; i < n_sections && i < MAX_SECTIONS; i++) {
                if (!read_section(elf, offset, i, &section))
                        return;
                take_section(elf, &section, &names);
        }
}
