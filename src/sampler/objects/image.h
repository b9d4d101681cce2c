/* What was read of a file that processes execute from: where its code belongs, its build id, its unwind table. The file itself is
 * not kept, but mapped without being touched, for readers of its code. Made by helper threads; then read only. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/guarded_map.h"
#include "unwind/elf_image.h"
#include "unwind/table.h"

enum { INFP_MAX_BUILD_ID = 64 };

/* Distinguishes files, also those that have the same name or inode one after the other: nobody can set ctime. */
struct infp_file_identity {
        uint64_t device, inode, size, changed_ns;
};

struct infp_tables_cache;

struct infp_object_image {
        atomic_uint n_refs;
        struct infp_file_identity identity; /* zeros: of no file */
        bool is_elf;
        bool is_go;                /* its functions keep frame pointers */
        uint64_t go_begin, go_end; /* where they are; zeros: all that has no call frame information */
        bool has_few_tables; /* hardly any of its functions has call frame information: musl, but for what the compiler added */
        bool has_eh_frame;     /* a part of it, at least, has call frame information */
        bool is_reachable;     /* below our root under the path that the process has for it */
        uint64_t copied_bytes; /* of memory that holds a copy of the file; 0: it is the file itself */
        uint8_t build_id[INFP_MAX_BUILD_ID];
        uint32_t build_id_size;
        char build_id_text[2 * INFP_MAX_BUILD_ID + 1]; /* "": none */
        uint64_t entry;                                /* where a program or its loader begins: nobody calls it */
        struct infp_elf_load *loads;
        unsigned n_loads;
        const struct infp_unwind_table *table; /* NULL: it has none */
        void *memory;                          /* the table's, of memory_size bytes; NULL: it lies in table_map */
        size_t memory_size;
        struct infp_guarded_map table_map; /* an entry of the cache; to be touched only as file_map */
        bool is_from_cache;
        const uint8_t *bytes; /* of the whole file or NULL; see file_map */
        size_t size;
        struct infp_guarded_map
                file_map; /* what of `bytes` may be touched only between infp_guarded_map_begin and _end */
        uint64_t mark;    /* for the thread that samples: see sampler/stacks/stack.c */
        uint64_t listing; /* for the same: see infp_objects_table_maps */
        int fd;           /* of the file, kept where it cannot be found again, or may be removed; else -1 */
        struct infp_object_image *next; /* of all that there are; the loader's */
};

/* What its table takes, in memory or mapped. */
static inline uint64_t infp_object_image_table_bytes(const struct infp_object_image *image)
{
        return image->memory_size + image->table_map.size;
}

/* Reads a regular file, through `cache` (NULL: none). fd stays the caller's. 0, also for what is no ELF file; -ENOMEM; -EIO: it was
 * made shorter meanwhile; -EFBIG. */
int infp_object_image_read(int fd, const struct infp_file_identity *identity, struct infp_tables_cache *cache,
                           struct infp_object_image **ret);
/* The same of the vDSO, which is that of every process of this kernel. -ENOENT: this process has none. */
int infp_object_image_vdso(struct infp_object_image **ret);
struct infp_object_image *infp_object_image_free(struct infp_object_image *image); /* NULL is fine; returns NULL */

/* The address that the file's byte at offset has in the image when it is executed. False: no executable part holds it. */
bool infp_object_image_vaddr(const struct infp_object_image *image, uint64_t offset, uint64_t *ret);
