/* A file of an interpreter, in memory, byte by byte: its symbols, its loop with a part that no symbol names, what 3.13 says of itself. */
#pragma once

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "python_memory.h"
#include "unwind_bytes.h"

enum {
        ELF_BASE = 0x400000, /* address of the file's first byte */
        ELF_SIZE = 0x4000,
        ELF_FRAMES = 0x200,
        ELF_SYMBOLS = 0xc00,
        ELF_NAMES = 0x1000,
        ELF_SECTIONS = 0x1800,
        ELF_CODE = 0x2000, /* one function each 0x200 bytes */
        ELF_STEP = 0x200,
        ELF_DATA = 0x3000,
};

struct python_elf {
        uint8_t bytes[ELF_SIZE];
        struct unwind_bytes frames;
        unsigned n_symbols;
        uint64_t names_size;
};

static inline uint64_t elf_function(unsigned i)
{
        return ELF_BASE + ELF_CODE + ELF_STEP * (uint64_t) i;
}

static inline void elf_symbol(struct python_elf *elf, const char *name, uint64_t value, uint64_t size, unsigned type,
                              uint16_t section)
{
        const Elf64_Sym symbol = { .st_name = (uint32_t) elf->names_size,
                                   .st_info = ELF64_ST_INFO(STB_GLOBAL, type),
                                   .st_shndx = section,
                                   .st_value = value,
                                   .st_size = size };

        memcpy(elf->bytes + ELF_SYMBOLS + elf->n_symbols++ * sizeof(symbol), &symbol, sizeof(symbol));
        memcpy(elf->bytes + ELF_NAMES + elf->names_size, name, strlen(name) + 1);
        elf->names_size += strlen(name) + 1;
}

/* A jump (with a condition: 6 bytes) in the code. */
static inline void elf_jump(struct python_elf *elf, uint64_t from, uint64_t to, bool has_condition)
{
        uint8_t *at = elf->bytes + (from - ELF_BASE);
        const unsigned length = has_condition ? 6 : 5;
        const int32_t distance = (int32_t) (to - from - length);

        at[0] = has_condition ? 0x0f : 0xe9;
        if (has_condition)
                at[1] = 0x84;
        memcpy(at + length - 4, &distance, 4);
}

/* A function with call frame information. */
static inline void elf_frame(struct python_elf *elf, unsigned i, uint64_t size)
{
        static const uint8_t program[] = { 0x44, 0x0e, 16 };

        put_fde(&elf->frames, 0, elf_function(i), size, program, sizeof(program));
}

static inline struct python_elf *elf_new(void)
{
        static const uint8_t encoding = 0; /* addresses as they are */
        struct python_elf *elf = calloc(1, sizeof(*elf));

        if (!elf)
                abort();
        put_cie(&elf->frames, 1, "zR", &encoding, 1);
        elf->names_size = 1;
        elf->n_symbols = 1;
        memset(elf->bytes + ELF_CODE, 0x90, ELF_DATA - ELF_CODE);
        return elf;
}

static inline void elf_section(struct python_elf *elf, unsigned i, uint32_t name, uint32_t type, uint64_t flags,
                               uint64_t offset, uint64_t size)
{
        const Elf64_Shdr section = { .sh_name = name,
                                     .sh_type = type,
                                     .sh_flags = flags,
                                     .sh_addr = ELF_BASE + offset,
                                     .sh_offset = offset,
                                     .sh_size = size,
                                     .sh_link = 4,
                                     .sh_entsize = type == SHT_DYNSYM ? sizeof(Elf64_Sym) : 0 };

        memcpy(elf->bytes + ELF_SECTIONS + i * sizeof(section), &section, sizeof(section));
}

/* Headers; runtime: the section .PyRuntime where the data are. */
static inline void elf_end(struct python_elf *elf, bool has_sections, bool has_runtime)
{
        static const char names[] = "\0.text\0.eh_frame\0.PyRuntime";
        Elf64_Ehdr head = { .e_type = ET_EXEC,
                            .e_machine = EM_X86_64,
                            .e_version = 1,
                            .e_phoff = sizeof(head),
                            .e_ehsize = sizeof(head),
                            .e_phentsize = sizeof(Elf64_Phdr),
                            .e_phnum = 2,
                            .e_shentsize = sizeof(Elf64_Shdr) };
        const Elf64_Phdr segments[2] = {
                { PT_LOAD, PF_R | PF_X, 0, ELF_BASE, ELF_BASE, ELF_DATA, ELF_DATA, 4096 },
                { PT_LOAD, PF_R | PF_W, ELF_DATA, ELF_BASE + ELF_DATA, ELF_BASE + ELF_DATA, ELF_SIZE - ELF_DATA,
                  ELF_SIZE - ELF_DATA, 4096 },
        };

        memcpy(head.e_ident, ELFMAG "\2\1\1", 7);
        memcpy(elf->bytes + sizeof(head), segments, sizeof(segments));
        memcpy(elf->bytes + ELF_FRAMES, elf->frames.bytes, elf->frames.size);
        if (has_sections) {
                head.e_shoff = ELF_SECTIONS;
                head.e_shnum = 7;
                head.e_shstrndx = 5;
                elf_section(elf, 1, 1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, ELF_CODE, ELF_DATA - ELF_CODE);
                elf_section(elf, 2, 7, SHT_PROGBITS, SHF_ALLOC, ELF_FRAMES, elf->frames.size);
                elf_section(elf, 3, 0, SHT_DYNSYM, SHF_ALLOC, ELF_SYMBOLS, elf->n_symbols * sizeof(Elf64_Sym));
                elf_section(elf, 4, 0, SHT_STRTAB, SHF_ALLOC, ELF_NAMES, elf->names_size);
                elf_section(elf, 5, 0, SHT_STRTAB, 0, ELF_SECTIONS - 64, sizeof(names));
                elf_section(elf, 6, has_runtime ? 17 : 0, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, ELF_DATA, 0x800);
                memcpy(elf->bytes + ELF_SECTIONS - 64, names, sizeof(names));
        }
        memcpy(elf->bytes, &head, sizeof(head));
}

/* An interpreter of 3.14 whose loop (function 0) has a part that no symbol names (function 2). Function 1 is another one that calls
 * the loop as the last it does, function 3 one that is called so. */
static inline struct python_elf *elf_python(void)
{
        static const uint64_t version = 0x030e0af0;
        struct python_elf *elf = elf_new();

        elf_symbol(elf, "_PyEval_EvalFrameDefault", elf_function(0), ELF_STEP, STT_FUNC, 1);
        elf_symbol(elf, "Py_GetVersion", elf_function(1), ELF_STEP, STT_FUNC, 1);
        elf_symbol(elf, "_PyRuntime", ELF_BASE + ELF_DATA + 0x100, 768, STT_OBJECT, 6);
        elf_symbol(elf, "Py_Version", ELF_BASE + ELF_DATA, 8, STT_OBJECT, 6);
        elf_symbol(elf, "PyCode_Type", ELF_BASE + ELF_DATA + 0x700, 408, STT_OBJECT, 6);
        elf_symbol(elf, "_Py_NoneStruct", 0, 0, STT_OBJECT, SHN_UNDEF);
        for (unsigned i = 0; i < 4; i++)
                elf_frame(elf, i, ELF_STEP);
        elf_jump(elf, elf_function(0) + 16, elf_function(2) + 32, true);
        elf_jump(elf, elf_function(0) + 32, elf_function(0) + 64, true);
        elf_jump(elf, elf_function(0) + 48, elf_function(3), false);
        elf_jump(elf, elf_function(2) + 64, elf_function(0) + 80, false);
        elf_jump(elf, elf_function(2) + 80, elf_function(0) + 96, true);
        for (unsigned i = 0; i < 4; i++)
                elf_jump(elf, elf_function(1) + 16 * i, elf_function(0), false);
        elf_jump(elf, elf_function(3) + 16, elf_function(0), false);
        memcpy(elf->bytes + ELF_DATA, &version, 8);
        memcpy(elf->bytes + ELF_DATA + 0x100, fake_words[1], sizeof(fake_words[1]));
        return elf;
}
