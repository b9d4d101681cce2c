#include "symbols/unpack.h"

#include <elf.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const uint64_t most_bytes = UINT64_C(256) << 20;

/* What stands before the packed bytes: how long it is, and the size that they unpack to. */
static bool read_head(const struct infp_elf *elf, uint64_t *ret_head, uint64_t *ret_size)
{
        static const char old_magic[4] = "ZLIB";
        const struct infp_elf_bytes *packed = &elf->compressed_debug_frame;
        Elf64_Chdr head;

        if (elf->is_old_compression) {
                if (packed->size < 12 || memcmp(packed->bytes, old_magic, sizeof(old_magic)) != 0)
                        return false;
                memcpy(ret_size, packed->bytes + 4, sizeof(*ret_size));
                *ret_size = be64toh(*ret_size);
                *ret_head = 12;
                return true;
        }
        if (packed->size < sizeof(head))
                return false;
        memcpy(&head, packed->bytes, sizeof(head));
        *ret_size = head.ch_size;
        *ret_head = sizeof(head);
        return head.ch_type == ELFCOMPRESS_ZLIB;
}

void *infp_object_unpack(struct infp_elf *elf)
{
        const struct infp_elf_bytes *packed = &elf->compressed_debug_frame;
        uint64_t head, size;
        uLongf unpacked;
        void *memory;

        if (!packed->bytes || elf->debug_frame.bytes || !read_head(elf, &head, &size) || !size || size > most_bytes)
                return NULL;
        memory = malloc(size);
        unpacked = size;
        if (memory && uncompress(memory, &unpacked, packed->bytes + head, packed->size - head) == Z_OK &&
            unpacked == size) {
                elf->debug_frame = (struct infp_elf_bytes){ memory, size, 0 };
                return memory;
        }
        free(memory);
        return NULL;
}
