/* What an unwinder needs of an x86-64 ELF image: where it is loaded, its build id, and its call frame information.
 *
 * The image is a file (or the vDSO) that lies whole in the caller's memory; nothing is copied and nothing allocated. Every
 * offset in it is checked. A mapped file that somebody truncates kills its reader by SIGBUS: that is for the caller to avoid. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { INFP_ELF_MAX_LOADS = 64, INFP_ELF_MAX_PLTS = 8 };

/* Bytes of the image and the address that they have in it (0: they are not loaded). bytes is NULL when there are none. */
struct infp_elf_bytes {
        const uint8_t *bytes;
        uint64_t size, vaddr;
};

struct infp_elf_load {
        uint64_t offset, file_size; /* in the file */
        uint64_t vaddr, size;
        bool is_executable, is_writable;
};

/* Entries of a procedure linkage table, which some linkers leave without call frame information. */
struct infp_elf_plt {
        uint64_t vaddr, size;
        bool is_lazy; /* .plt: its entries push; those of .plt.sec and .plt.got only jump */
};

struct infp_elf {
        const uint8_t *bytes;
        uint64_t size;
        uint16_t type; /* ET_EXEC, ET_DYN */
        unsigned n_loads, n_plts;
        struct infp_elf_load loads[INFP_ELF_MAX_LOADS];
        struct infp_elf_plt plts[INFP_ELF_MAX_PLTS];
        struct infp_elf_bytes build_id;
        struct infp_elf_bytes eh_frame;
        struct infp_elf_bytes debug_frame;
        /* The size of eh_frame is that of its section; else it is what is loaded after its begin, and it ends at a zero word. */
        bool has_eh_frame_size;
        /* .debug_frame as it is in the file, for a caller that has zlib to unpack and set. With is_old_compression it is .zdebug_frame
         * (its head is "ZLIB" and the size in 8 bytes, the highest first), else its head is an Elf64_Chdr. */
        struct infp_elf_bytes compressed_debug_frame;
        bool is_old_compression;
        bool is_go;                        /* Go's linker wrote it, or a part of it */
        struct infp_elf_bytes go_table;    /* .gopclntab: see go_table.h */
        struct infp_elf_bytes relocations; /* of when it is loaded (DT_RELA) */
        /* Called now and then while entries are read, NULL or the caller's: pages of a mapped file may go, they come again. */
        void (*forget)(void *context);
        void *forget_context;
};

/* Returns 0, -ENOTSUP for another machine or word size, or -EBADMSG; ret_why, when given, is then a constant sentence. */
int infp_elf_open(struct infp_elf *elf, const void *bytes, uint64_t size, const char **ret_why);

/* size bytes that are loaded at vaddr, or NULL when the file does not hold all of them. */
const uint8_t *infp_elf_at(const struct infp_elf *elf, uint64_t vaddr, uint64_t size);

/* The address that the file's byte at offset has in executable (or, without such, any) memory. False: it is not loaded. */
bool infp_elf_vaddr(const struct infp_elf *elf, uint64_t offset, uint64_t *ret_vaddr);

/* Whether all of [vaddr, vaddr + size) lies in one executable segment. */
bool infp_elf_is_executable(const struct infp_elf *elf, uint64_t vaddr, uint64_t size);

/* size bytes of the file at an offset. False: it is shorter. */
bool infp_elf_copy(const struct infp_elf *elf, uint64_t offset, void *into, uint64_t size);

/* go_table.c. Linkers merge Go's table into other sections; it lies among the data that are loaded then. */
void infp_elf_search_go_table(struct infp_elf *elf);
