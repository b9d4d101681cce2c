#include "unwind/elf_image.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "unwind/cfi.h"
#include "unwind/cursor.h"

static bool is_within(const struct infp_elf *elf, uint64_t offset, uint64_t size)
{
        return offset <= elf->size && size <= elf->size - offset;
}

bool infp_elf_copy(const struct infp_elf *elf, uint64_t offset, void *into, uint64_t size)
{
        if (!is_within(elf, offset, size))
                return false;
        memcpy(into, elf->bytes + offset, size);
        return true;
}

static struct infp_elf_bytes slice(const struct infp_elf *elf, uint64_t offset, uint64_t size, uint64_t vaddr)
{
        if (!size || !is_within(elf, offset, size) || vaddr + size < vaddr)
                return (struct infp_elf_bytes){ NULL, 0, 0 };
        return (struct infp_elf_bytes){ elf->bytes + offset, size, vaddr };
}

const uint8_t *infp_elf_at(const struct infp_elf *elf, uint64_t vaddr, uint64_t size)
{
        for (unsigned i = 0; i < elf->n_loads; i++) {
                const struct infp_elf_load *load = &elf->loads[i];
                const uint64_t at = vaddr - load->vaddr;

                if (vaddr >= load->vaddr && at <= load->file_size && size <= load->file_size - at)
                        return elf->bytes + load->offset + at;
        }
        return NULL;
}

bool infp_elf_vaddr(const struct infp_elf *elf, uint64_t offset, uint64_t *ret_vaddr)
{
        bool is_found = false;

        for (unsigned i = 0; i < elf->n_loads; i++) {
                const struct infp_elf_load *load = &elf->loads[i];
                /* The kernel maps whole pages: the first page begins before the segment does. */
                const uint64_t slack = load->offset & 4095;

                if (offset < load->offset - slack || offset >= load->offset + load->file_size)
                        continue;
                if (is_found && !load->is_executable)
                        continue;
                *ret_vaddr = load->vaddr + (offset - load->offset);
                if (load->is_executable)
                        return true;
                is_found = true;
        }
        return is_found;
}

bool infp_elf_is_executable(const struct infp_elf *elf, uint64_t vaddr, uint64_t size)
{
        for (unsigned i = 0; i < elf->n_loads; i++) {
                const struct infp_elf_load *load = &elf->loads[i];

                if (load->is_executable && vaddr >= load->vaddr && vaddr - load->vaddr <= load->size &&
                    size <= load->size - (vaddr - load->vaddr))
                        return true;
        }
        return false;
}

static void add_load(struct infp_elf *elf, const Elf64_Phdr *header)
{
        struct infp_elf_load *load;

        if (elf->n_loads == INFP_ELF_MAX_LOADS || header->p_vaddr + header->p_memsz < header->p_vaddr ||
            header->p_offset > elf->size)
                return;
        load = &elf->loads[elf->n_loads++];
        *load = (struct infp_elf_load){ header->p_offset, header->p_filesz,       header->p_vaddr,
                                        header->p_memsz,  header->p_flags & PF_X, header->p_flags & PF_W };
        if (load->file_size > elf->size - load->offset)
                load->file_size = elf->size - load->offset;
        if (load->file_size > load->size)
                load->file_size = load->size;
}

enum { GO_NOTE = 4 };

static void read_notes(struct infp_elf *elf, const Elf64_Phdr *header)
{
        const struct infp_elf_bytes notes = slice(elf, header->p_offset, header->p_filesz, header->p_vaddr);
        const uint64_t align = header->p_align == 8 ? 8 : 4;
        struct infp_cursor c = infp_cursor(notes.bytes, notes.size);

        while (infp_cursor_left(&c) >= sizeof(Elf64_Nhdr)) {
                const uint64_t n_name = infp_cursor_u32(&c), n_text = infp_cursor_u32(&c);
                const uint32_t type = infp_cursor_u32(&c);
                const uint8_t *name = infp_cursor_take(&c, (n_name + align - 1) & -align);
                const uint8_t *text = infp_cursor_take(&c, n_text);

                if (!name || !text)
                        return;
                if (type == NT_GNU_BUILD_ID && n_name == 4 && memcmp(name, "GNU", 4) == 0 && n_text > 0 &&
                    !elf->build_id.bytes)
                        elf->build_id = (struct infp_elf_bytes){ text, n_text, 0 };
                /* Go's linker writes a note of its own into every program. */
                elf->is_go |= type == GO_NOTE && n_name == 4 && memcmp(name, "Go\0", 4) == 0;
                infp_cursor_take(&c, -n_text & (align - 1));
        }
}

/* Where PT_GNU_EH_FRAME says that .eh_frame begins; its end is said nowhere. */
static void read_eh_frame_header(struct infp_elf *elf, const Elf64_Phdr *header)
{
        const struct infp_elf_bytes found = slice(elf, header->p_offset, header->p_filesz, header->p_vaddr);
        struct infp_cursor c = infp_cursor(found.bytes, found.size);
        uint64_t begin;

        if (found.size < 8 || found.bytes[0] != 1)
                return;
        infp_cursor_take(&c, 4);
        if (infp_cfi_pointer(&c, found.bytes[1], found.vaddr + 4, found.vaddr, &begin) < 0)
                return;
        for (unsigned i = 0; i < elf->n_loads; i++) {
                const struct infp_elf_load *load = &elf->loads[i];

                if (begin >= load->vaddr && begin - load->vaddr < load->file_size) {
                        const uint64_t at = begin - load->vaddr;

                        elf->eh_frame =
                                (struct infp_elf_bytes){ elf->bytes + load->offset + at, load->file_size - at, begin };
                        return;
                }
        }
}

/* Where PT_DYNAMIC says that relocations are. */
static void read_dynamic(struct infp_elf *elf, const Elf64_Phdr *header)
{
        const struct infp_elf_bytes found = slice(elf, header->p_offset, header->p_filesz, header->p_vaddr);
        uint64_t at = 0, size = 0;
        Elf64_Dyn entry;

        for (uint64_t i = 0; i + sizeof(entry) <= found.size; i += sizeof(entry)) {
                memcpy(&entry, found.bytes + i, sizeof(entry));
                if (entry.d_tag == DT_NULL)
                        break;
                if (entry.d_tag == DT_RELA)
                        at = entry.d_un.d_ptr;
                else if (entry.d_tag == DT_RELASZ)
                        size = entry.d_un.d_val;
        }
        if (at && infp_elf_at(elf, at, size))
                elf->relocations = (struct infp_elf_bytes){ infp_elf_at(elf, at, size), size, at };
}

/* So much is looked at for the build id. */
enum { MAX_NOTES = 16, MAX_NOTE_BYTES = 1 << 20 };

static void read_segments(struct infp_elf *elf, const Elf64_Ehdr *head)
{
        unsigned n_notes = 0, n_dynamic = 0; /* a file may claim thousands of parts, each as large as itself */

        for (unsigned pass = 0; pass < 2; pass++) { /* PT_GNU_EH_FRAME needs all of PT_LOAD */
                for (unsigned i = 0; i < head->e_phnum; i++) {
                        Elf64_Phdr header;

                        if (!infp_elf_copy(elf, head->e_phoff + (uint64_t) i * sizeof(header), &header, sizeof(header)))
                                return;
                        if (pass == 0 && header.p_type == PT_LOAD)
                                add_load(elf, &header);
                        else if (pass == 1 && header.p_type == PT_NOTE && header.p_filesz <= MAX_NOTE_BYTES &&
                                 n_notes++ < MAX_NOTES)
                                read_notes(elf, &header);
                        else if (pass == 1 && header.p_type == PT_GNU_EH_FRAME && !elf->eh_frame.bytes)
                                read_eh_frame_header(elf, &header);
                        else if (pass == 1 && header.p_type == PT_DYNAMIC && n_dynamic++ == 0)
                                read_dynamic(elf, &header);
                }
        }
}

enum { MAX_SECTIONS = 1 << 20 };

static bool is_named(const struct infp_elf_bytes *names, uint32_t at, const char *name)
{
        const size_t size = strlen(name) + 1;

        return at < names->size && size <= names->size - at && memcmp(names->bytes + at, name, size) == 0;
}

static void take_section(struct infp_elf *elf, const Elf64_Shdr *section, const struct infp_elf_bytes *names)
{
        const struct infp_elf_bytes found = slice(elf, section->sh_offset, section->sh_size, section->sh_addr);

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

/* Takes .eh_frame, .debug_frame and the procedure linkage tables by their sections; what cannot be read is left out. */
static void read_sections(struct infp_elf *elf, uint64_t offset, unsigned entry_size, unsigned n, unsigned names_at)
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
        names = slice(elf, section.sh_offset, section.sh_size, 0);
        if (!names.bytes)
                return;
        for (uint64_t i = 1; i < n_sections && i < MAX_SECTIONS; i++) {
                if (!read_section(elf, offset, i, &section))
                        return;
                take_section(elf, &section, &names);
        }
}

static int refuse(const char **ret_why, int error, const char *why)
{
        if (ret_why)
                *ret_why = why;
        return error;
}

int infp_elf_open(struct infp_elf *elf, const void *bytes, uint64_t size, const char **ret_why)
{
        Elf64_Ehdr head;

        *elf = (struct infp_elf){ .bytes = bytes, .size = size };
        if (!infp_elf_copy(elf, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
                return refuse(ret_why, -EBADMSG, "it is not an ELF file");
        if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_machine != EM_X86_64)
                return refuse(ret_why, -ENOTSUP, "it is not an x86-64 ELF file");
        if (head.e_phnum && head.e_phentsize != sizeof(Elf64_Phdr))
                return refuse(ret_why, -EBADMSG, "its program headers have an unknown size");
        elf->type = head.e_type;
        read_segments(elf, &head);
        if (!elf->n_loads)
                return refuse(ret_why, -EBADMSG, "it has no loadable segment");
        read_sections(elf, head.e_shoff, head.e_shentsize, head.e_shnum, head.e_shstrndx);
        if (elf->is_go && !elf->go_table.bytes)
                infp_elf_search_go_table(elf);
        return 0;
}
