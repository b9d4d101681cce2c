#include "sampler/python/file.h"

#include <string.h>

#include "symbols/dynamic.h"
#include "unwind/python/layout.h"

#define LOOP "_PyEval_EvalFrameDefault"
#define HANDLER "_TAIL_CALL_"
static const uint64_t most_symbols = UINT64_C(16) << 20, most_data = UINT64_C(16) << 20;

static void take_part(struct infp_python_file *file, const Elf64_Sym *symbol, bool is_handler)
{
        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !symbol->st_size ||
            symbol->st_value + symbol->st_size < symbol->st_value || file->n_parts == INFP_PYTHON_PARTS)
                return;
        file->parts[file->n_parts++] =
                (struct infp_python_range){ symbol->st_value, symbol->st_value + symbol->st_size, is_handler };
}

static void take_symbol(struct infp_python_file *file, const Elf64_Sym *symbol, const char *name, uint64_t *version_at)
{
        const struct {
                const char *name;
                uint64_t *place;
        } wanted[] = {
                { "_PyRuntime", &file->runtime },
                { "PyCode_Type", &file->code_type },
                { "_Py_NoneStruct", &file->none },
                { "Py_Version", version_at },
                { LOOP, &file->loop },
                { "Py_GetVersion", &file->get_version },
        };

        for (unsigned i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
                if (strcmp(name, wanted[i].name) == 0)
                        *wanted[i].place = symbol->st_value;
        if (strncmp(name, LOOP, sizeof(LOOP) - 1) == 0 && (!name[sizeof(LOOP) - 1] || name[sizeof(LOOP) - 1] == '.'))
                take_part(file, symbol, false);
        else if (strncmp(name, HANDLER, sizeof(HANDLER) - 1) == 0)
                take_part(file, symbol, true);
}

static void read_symbols(struct infp_image *image, const Elf64_Shdr *symbols, const Elf64_Shdr *texts,
                         struct infp_python_file *file, uint64_t *version_at)
{
        const uint8_t *names, *table;

        if (symbols->sh_size > most_symbols || texts->sh_size > most_symbols)
                return;
        names = infp_image_need(image, texts->sh_offset, texts->sh_size);
        table = names ? infp_image_need(image, symbols->sh_offset, symbols->sh_size) : NULL;
        for (uint64_t at = 0; table && at + sizeof(Elf64_Sym) <= symbols->sh_size; at += sizeof(Elf64_Sym)) {
                Elf64_Sym symbol;
                const char *name;

                memcpy(&symbol, table + at, sizeof(symbol));
                if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= texts->sh_size)
                        continue;
                name = (const char *) names + symbol.st_name;
                if (name[0] != '_' && name[0] != 'P')
                        continue;
                if (infp_image_text(names, texts->sh_size, symbol.st_name, 256))
                        take_symbol(file, &symbol, name, version_at);
        }
}

static void read_table(struct infp_image *image, uint32_t type, struct infp_python_file *file, uint64_t *version_at)
{
        const Elf64_Shdr *symbols = infp_image_section(image, NULL, type);
        struct infp_symbol_sections sections;

        if (symbols && symbols->sh_link < image->n_sections)
                read_symbols(image, symbols, &image->sections[symbols->sh_link], file, version_at);
        else if (type == SHT_DYNSYM && infp_symbol_sections_by_loader(image, &sections))
                read_symbols(image, &sections.symbols, &sections.texts, file, version_at);
}

/* From 3.13 on it begins with a word that nothing else has. */
static uint64_t search_cookie(struct infp_image *image, const Elf64_Phdr *load)
{
        const uint8_t *bytes =
                load->p_filesz <= most_data ? infp_image_need(image, load->p_offset, load->p_filesz) : NULL;

        for (uint64_t at = -load->p_vaddr & 7; bytes && at + INFP_PYTHON_DEBUG_OFFSETS <= load->p_filesz; at += 8) {
                struct infp_python_layout layout;
                uint32_t version;

                if (memcmp(bytes + at, INFP_PYTHON_COOKIE, 8) != 0)
                        continue;
                infp_python_layout_of_runtime(bytes + at, INFP_PYTHON_DEBUG_OFFSETS, &layout, &version);
                if (version)
                        return load->p_vaddr + at;
        }
        return 0;
}

static uint64_t search_runtime(struct infp_image *image)
{
        const Elf64_Shdr *section = infp_image_section(image, ".PyRuntime", 0);
        uint64_t found = section ? section->sh_addr : 0;

        for (unsigned i = 0; !found && image->segments && i < image->head.e_phnum; i++)
                if (image->segments[i].p_type == PT_LOAD && (image->segments[i].p_flags & PF_W))
                        found = search_cookie(image, &image->segments[i]);
        return found;
}

void infp_python_file_read(struct infp_image *image, struct infp_python_file *ret)
{
        uint64_t version_at = 0;
        const uint8_t *version;

        *ret = (struct infp_python_file){ 0 };
        read_table(image, SHT_DYNSYM, ret, &version_at);
        read_table(image, SHT_SYMTAB, ret, &version_at);
        if (!ret->runtime)
                ret->runtime = search_runtime(image);
        version = version_at ? infp_image_at(image, version_at, sizeof(ret->version)) : NULL;
        if (version)
                memcpy(&ret->version, version, sizeof(ret->version));
}
