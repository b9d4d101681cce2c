/* Writes call frame information byte by byte, and an image around it, for tests of src/unwind. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "unwind/elf_image.h"

enum { BYTES_MAX = 4096, BYTES_TEXT = 0x10000, BYTES_TEXT_SIZE = 0x10000, BYTES_FRAME = 0x40000 };

struct unwind_bytes {
        uint8_t bytes[BYTES_MAX];
        uint64_t size;
        uint64_t cie; /* offset of the last one */
        bool is_debug;
};

static inline void put(struct unwind_bytes *b, uint64_t value, unsigned n)
{
        if (b->size + n > BYTES_MAX)
                abort();
        memcpy(b->bytes + b->size, &value, n);
        b->size += n;
}

static inline void put_bytes(struct unwind_bytes *b, const void *bytes, uint64_t n)
{
        if (b->size + n > BYTES_MAX)
                abort();
        memcpy(b->bytes + b->size, bytes, n);
        b->size += n;
}

/* Closes the entry that begins at offset: its length. */
static inline void put_length(struct unwind_bytes *b, uint64_t offset)
{
        uint32_t length;

        while (b->size % 8)
                put(b, 0, 1);
        length = (uint32_t) (b->size - offset - 4);
        memcpy(b->bytes + offset, &length, 4);
}

/* CFA=rsp+8, ra at CFA-8; augmentation is "zR" or a longer text of letters whose data is given. */
static inline void put_cie(struct unwind_bytes *b, unsigned version, const char *augmentation, const void *data,
                           uint64_t n_data)
{
        static const uint8_t program[] = { 0x0c, 7, 8, 0x90, 1 };

        b->cie = b->size;
        put(b, 0, 4);
        put(b, b->is_debug ? UINT32_MAX : 0, 4);
        put(b, version, 1);
        put_bytes(b, augmentation, strlen(augmentation) + 1);
        if (version == 4) {
                put(b, 8, 1); /* size of an address */
                put(b, 0, 1);
        }
        put(b, 1, 1);    /* code alignment */
        put(b, 0x78, 1); /* data alignment: -8 */
        put(b, 16, 1);
        if (augmentation[0] == 'z') {
                put(b, n_data, 1);
                put_bytes(b, data, n_data);
        }
        put_bytes(b, program, sizeof(program));
        put_length(b, b->cie);
}

/* Of the last CIE, whose pointers are in encoding: [begin, begin + size) and a program. */
static inline void put_fde(struct unwind_bytes *b, uint8_t encoding, uint64_t begin, uint64_t size, const void *program,
                           uint64_t n_program)
{
        const uint64_t offset = b->size;
        static const unsigned sizes[16] = { 8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8, 0, 0, 0 };

        put(b, 0, 4);
        put(b, b->is_debug ? b->cie : b->size - b->cie, 4);
        put(b, encoding & 0x10 ? begin - (BYTES_FRAME + b->size) : begin, sizes[encoding & 15]);
        put(b, size, sizes[encoding & 15]);
        if (!b->is_debug)
                put(b, 0, 1); /* no augmentation */
        put_bytes(b, program, n_program);
        put_length(b, offset);
}

/* An image with 64 KiB of code and this information; the bytes are borrowed. */
static inline struct infp_elf unwind_image(const void *bytes, uint64_t size, bool is_debug)
{
        struct infp_elf elf = { .n_loads = 1, .has_eh_frame_size = true };
        const struct infp_elf_bytes data = { bytes, size, is_debug ? 0 : BYTES_FRAME };

        elf.loads[0] = (struct infp_elf_load){ 0, 0, BYTES_TEXT, BYTES_TEXT_SIZE, true };
        if (is_debug)
                elf.debug_frame = data;
        else
                elf.eh_frame = data;
        return elf;
}
