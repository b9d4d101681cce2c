#include "sampler/objects/image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sampler/objects/tables_cache.h"
#include "symbols/unpack.h"
#include "unwind/go_table.h"

enum {
        PAGE = 4096,
        VDSO_BYTES = 2 * PAGE,   /* no more is mapped of it by any kernel that we know; what is read of it is checked */
        SMALL_TABLE = 32 * 1024, /* lies in the heap */
        FEW_ENTRIES = 64,
};
/* What a table may take while it is built: 30 times as much as the largest of torch, and no more than a machine has. */
static const uint64_t max_build_bytes = UINT64_C(512) << 20;
static const uint64_t max_file_bytes = UINT64_C(1) << 36;

static void free_table(struct infp_object_image *image)
{
        if (image->memory_size > SMALL_TABLE)
                munmap(image->memory, image->memory_size);
        else
                free(image->memory);
        image->memory = NULL;
        image->memory_size = 0;
        image->table = NULL;
}

struct infp_object_image *infp_object_image_free(struct infp_object_image *image)
{
        if (image) {
                free_table(image);
                infp_guarded_map_close(&image->table_map);
                infp_guarded_map_close(&image->file_map);
                infp_close(image->fd);
                free(image->loads);
                free(image);
        }
        return NULL;
}

/* Keeps a table that was built in much memory in as much as it needs. */
static int keep_table(struct infp_object_image *image, void *memory, uint64_t room, uint64_t size)
{
        void *small = size <= SMALL_TABLE ? malloc(size) : mremap(memory, room, size, MREMAP_MAYMOVE);

        if (!small || small == MAP_FAILED) {
                munmap(memory, room);
                return -ENOMEM;
        }
        if (size <= SMALL_TABLE) {
                memcpy(small, memory, size);
                munmap(memory, room);
        }
        image->memory = small;
        image->memory_size = size;
        image->table = small;
        return 0;
}

static int build_table(struct infp_object_image *image, struct infp_elf *elf)
{
        infp_autofree __attribute__((unused)) void *unpacked = infp_object_unpack(elf);
        const struct infp_unwind_table *table;
        struct infp_unwind_room room;
        void *memory;
        int r = infp_unwind_table_measure(elf, &room);

        if (r < 0)
                return r == -ENODATA ? 0 : r;
        if (room.bytes > max_build_bytes)
                return -EFBIG;
        memory = mmap(NULL, room.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
                return -ENOMEM;
        r = infp_unwind_table_build(elf, &room, memory, &table);
        if (r < 0) {
                munmap(memory, room.bytes);
                return r == -ENOSPC ? -EIO : r;
        }
        return keep_table(image, memory, room.bytes, table->size);
}

static int get_table(struct infp_object_image *image, struct infp_elf *elf, struct infp_tables_cache *cache)
{
        const struct infp_unwind_table *cached;
        int r;

        if (!cache || !image->build_id_size)
                return build_table(image, elf);
        if (infp_tables_cache_get(cache, image->build_id, image->build_id_size, &image->identity, &image->table_map,
                                  &image->table) == 0) {
                image->is_from_cache = true;
                return 0;
        }
        r = build_table(image, elf);
        if (r == 0 && image->table && !atomic_load(&image->file_map.is_lost) &&
            infp_tables_cache_put(cache, image->build_id, image->build_id_size, &image->identity, image->table,
                                  &image->table_map, &cached) == 0) {
                free_table(image);
                image->table = cached;
        }
        return r;
}

static void take_build_id(struct infp_object_image *image, const struct infp_elf *elf)
{
        static const char digits[] = "0123456789abcdef";

        if (!elf->build_id.bytes || elf->build_id.size > INFP_MAX_BUILD_ID)
                return;
        image->build_id_size = (uint32_t) elf->build_id.size;
        memcpy(image->build_id, elf->build_id.bytes, image->build_id_size);
        for (uint32_t i = 0; i < image->build_id_size; i++) {
                image->build_id_text[2 * i] = digits[image->build_id[i] >> 4];
                image->build_id_text[2 * i + 1] = digits[image->build_id[i] & 15];
        }
}

/* Compilers write several functions a page, with an entry each. What was built without entries on purpose, and has some thousands
 * all the same (Chromium), keeps frame pointers: those lead on, and an end within it is not the real end. */
static bool has_few_tables(const struct infp_object_image *image)
{
        uint64_t code = 0;

        for (unsigned i = 0; i < image->n_loads; i++)
                code += image->loads[i].is_executable ? image->loads[i].size : 0;
        return !image->table ||
               (image->table->n_fdes < FEW_ENTRIES && image->table->n_fdes * UINT64_C(4) < code / PAGE);
}

/* It counts as ours as long as it is mapped and was touched. */
static void forget_pages(void *context)
{
        const struct infp_object_image *image = context;

        madvise(image->file_map.at, image->file_map.size, MADV_DONTNEED);
}

static int read_elf(struct infp_object_image *image, struct infp_tables_cache *cache)
{
        struct infp_elf elf;
        struct infp_go go;
        Elf64_Ehdr head;

        if (infp_elf_open(&elf, image->bytes, image->size, NULL) < 0 || !infp_elf_copy(&elf, 0, &head, sizeof(head)))
                return 0;
        if (image->file_map.at) {
                elf.forget = forget_pages;
                elf.forget_context = image;
        }
        image->entry = head.e_entry;
        image->is_elf = true;
        image->loads = malloc(elf.n_loads * sizeof(*image->loads));
        if (!image->loads)
                return -ENOMEM;
        memcpy(image->loads, elf.loads, elf.n_loads * sizeof(*image->loads));
        image->n_loads = elf.n_loads;
        image->is_go = elf.is_go;
        if (infp_go_open(&go, &elf) == 0) {
                image->go_begin = go.begin;
                image->go_end = go.end;
        }
        image->has_eh_frame = elf.eh_frame.bytes != NULL;
        take_build_id(image, &elf);
        INFP_TRY(get_table(image, &elf, cache));
        image->has_few_tables = has_few_tables(image);
        return 0;
}

static struct infp_object_image *new_image(void)
{
        struct infp_object_image *image = calloc(1, sizeof(*image));

        if (image) {
                atomic_init(&image->n_refs, 1);
                image->fd = -1;
        }
        return image;
}

int infp_object_image_read(int fd, const struct infp_file_identity *identity, struct infp_tables_cache *cache,
                           struct infp_object_image **ret)
{
        struct infp_object_image *image = new_image();
        int r;

        if (!image)
                return -ENOMEM;
        image->identity = *identity;
        if (identity->size == 0 || identity->size > max_file_bytes)
                r = identity->size ? -EFBIG : 0;
        else
                r = infp_guarded_map_open(&image->file_map, fd, (identity->size + PAGE - 1) & ~(size_t) (PAGE - 1),
                                          false);
        if (r == 0 && image->file_map.at) {
                image->bytes = image->file_map.at;
                image->size = identity->size;
                image->file_map.next = &image->table_map;
                infp_guarded_map_begin(&image->file_map);
                r = read_elf(image, cache);
                infp_guarded_map_end();
                if (atomic_load(&image->file_map.is_lost) || atomic_load(&image->table_map.is_lost))
                        r = -EIO;
                forget_pages(image);
        }
        if (r < 0) {
                infp_object_image_free(image);
                return r;
        }
        *ret = image;
        return 0;
}

int infp_object_image_vdso(struct infp_object_image **ret)
{
        const unsigned long at = getauxval(AT_SYSINFO_EHDR);
        struct infp_object_image *image;
        int r;

        if (!at)
                return -ENOENT;
        image = new_image();
        if (!image)
                return -ENOMEM;
        image->bytes = (const uint8_t *) at;
        image->size = VDSO_BYTES;
        r = read_elf(image, NULL);
        if (r < 0) {
                infp_object_image_free(image);
                return r;
        }
        *ret = image;
        return 0;
}

bool infp_object_image_vaddr(const struct infp_object_image *image, uint64_t offset, uint64_t *ret)
{
        for (unsigned i = 0; i < image->n_loads; i++) {
                const struct infp_elf_load *load = &image->loads[i];
                const uint64_t begin = load->offset & ~(uint64_t) (PAGE - 1);

                /* A mapping begins at a page, its part of the file anywhere in it. */
                if (load->is_executable && offset >= begin && offset < load->offset + load->file_size) {
                        *ret = load->vaddr - load->offset + offset;
                        return true;
                }
        }
        return false;
}
