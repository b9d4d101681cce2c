/* Memory of a process that does not exist, and interpreters' objects in it, laid as a layout says. */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/python/code.h"
#include "unwind/python/layout.h"
#include "unwind/python/walk.h"

enum { FAKE_BASE = 0x100000, FAKE_SIZE = 256 * 1024 };

struct fake {
        struct infp_python_layout layout;
        uint8_t bytes[FAKE_SIZE];
        uint64_t used;
        unsigned n_reads;
        /* Before a read with this number: 8 bytes there become that. */
        unsigned change_at;
        uint64_t change_address, change_to;
};

static inline uint8_t *fake_at(struct fake *fake, uint64_t address)
{
        return fake->bytes + (address - FAKE_BASE);
}

static inline void fake_put(struct fake *fake, uint64_t address, uint64_t value)
{
        memcpy(fake_at(fake, address), &value, sizeof(value));
}

static inline void fake_put32(struct fake *fake, uint64_t address, uint32_t value)
{
        memcpy(fake_at(fake, address), &value, sizeof(value));
}

static inline int fake_read(void *context, uint64_t address, void *ret, size_t size)
{
        struct fake *fake = context;

        if (++fake->n_reads == fake->change_at)
                fake_put(fake, fake->change_address, fake->change_to);
        if (address < FAKE_BASE || address > FAKE_BASE + FAKE_SIZE || size > FAKE_BASE + FAKE_SIZE - address)
                return -EFAULT;
        memcpy(ret, fake_at(fake, address), size);
        return 0;
}

static inline struct infp_python_memory fake_memory(struct fake *fake)
{
        return (struct infp_python_memory){ fake_read, fake };
}

static inline uint64_t fake_take(struct fake *fake, uint64_t size)
{
        const uint64_t address = FAKE_BASE + 64 + fake->used;

        fake->used += (size + 15) & ~UINT64_C(15);
        if (fake->used + 64 > FAKE_SIZE)
                abort();
        return address;
}

/* _Py_DebugOffsets of each build: interpreters', and those that the headers of Debian's 3.14 and 3.15 give with Py_GIL_DISABLED. */
enum { FAKE_WORDS = INFP_PYTHON_DEBUG_OFFSETS / 8 };
/* clang-format off */
static const uint64_t fake_words[][FAKE_WORDS] = {
        { /* 3.13.0 */
          0x7970677562656478, 0x30d00f0, 0, 283320, 608, 632, 194968, 7272, 7264, 7344, 7400, 7656, 7640,
          7648, 16, 7752, 0, 7768, 7760, 304, 0, 8, 16, 72, 152, 160, 232, 32, 80, 8, 0, 56, 72, 70, 208, 112,
          120, 128, 136, 68, 52, 96, 104, 200, 16, 8, 416, 24, 88, 168, 32, 24, 16, 40, 24, 16, 48, 32, 40,
          24, 16, 32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 240, 200 },
        { /* 3.14.10-1 of Debian */
          0x7970677562656478, 0x30e0af0, 0, 316616, 784, 808, 225864, 7280, 7272, 7344, 7360, 7408, 7688,
          7672, 7680, 16, 7784, 0, 7800, 7792, 7992, 0, 832, 0, 8, 16, 72, 152, 160, 232, 32, 88, 8, 0, 56,
          80, 74, 64, 0, 216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0, 16, 8, 416, 24, 88, 168, 40, 32,
          16, 40, 24, 16, 200, 24, 40, 32, 48, 32, 40, 24, 16, 32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 264,
          192, 160, 24, 72, 67, 0, 8, 24, 304, 8076, 0, 4, 512 },
        { /* 3.15.2-1 of Debian */
          0x7970677562656478, 0x30f02f0, 0, 346568, 912, 936, 226240, 7272, 7264, 7336, 7352, 7400, 7592,
          7576, 7584, 16, 7736, 0, 7752, 7744, 7944, 0, 888, 0, 8, 16, 72, 80, 88, 96, 176, 184, 256, 32, 36,
          40, 136, 288, 0, 88, 8, 0, 56, 80, 74, 64, 0, 216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0, 16,
          8, 424, 24, 88, 168, 32, 288, 944, 888, 40, 32, 16, 40, 24, 16, 200, 24, 40, 32, 48, 32, 40, 24, 16,
          32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 56 },
        { /* 3.13.15, free-threaded: the rest are such builds */
          0x7970677562656478, 0x30d0ff0, 1, 328384, 608, 632, 215616, 7272, 7264, 7344, 7400, 7664, 7648,
          7656, 16, 7760, 0, 7784, 7776, 312, 0, 8, 16, 72, 152, 160, 232, 32, 80, 8, 0, 56, 72, 70, 224, 128,
          136, 144, 152, 84, 68, 112, 120, 216, 32, 24, 432, 40, 104, 184, 48, 40, 32, 56, 40, 32, 64, 48, 56,
          40, 32, 48, 32, 40, 56, 32, 48, 80, 48, 32, 56, 248, 200 },
        { /* 3.14.10 */
          0x7970677562656478, 0x30e0af0, 1, 365624, 784, 808, 249976, 7280, 7272, 7344, 7360, 7408, 7712,
          7696, 7704, 16, 7808, 0, 7832, 7824, 8024, 17300, 832, 0, 8, 16, 72, 152, 160, 232, 32, 88, 8, 0,
          56, 80, 78, 64, 72, 240, 128, 136, 144, 152, 84, 68, 112, 120, 232, 224, 32, 24, 432, 40, 104, 184,
          56, 48, 32, 56, 40, 32, 216, 40, 56, 48, 64, 48, 56, 40, 32, 48, 32, 40, 56, 32, 48, 80, 48, 32, 56,
          288, 192, 176, 40, 88, 83, 0, 8, 24, 304, 8108, 0, 4, 512 },
        { /* 3.15.2 */
          0x7970677562656478, 0x30f02f0, 1, 409296, 912, 936, 250328, 7272, 7264, 7336, 7352, 7400, 7592,
          7576, 7584, 16, 7736, 0, 7760, 7752, 7952, 17252, 888, 0, 8, 16, 72, 80, 88, 96, 176, 184, 256, 32,
          36, 40, 136, 288, 0, 88, 8, 0, 56, 80, 78, 64, 72, 240, 128, 136, 144, 152, 84, 68, 112, 120, 232,
          224, 32, 24, 440, 40, 104, 184, 48, 304, 968, 904, 56, 48, 32, 56, 40, 32, 216, 40, 56, 48, 64, 48,
          56, 40, 32, 48, 32, 40, 56, 32, 48, 80, 48, 32, 56, 72, 176, 112 },
};
/* clang-format on */

/* Builds are numbered as their versions, and then free-threaded ones from 3.13 on. */
enum { FAKE_WITH_WORDS = 0x30d, FAKE_FREE = 0x310, FAKE_FIRST = 0x308, FAKE_LAST = 0x312 };

static inline const uint8_t *fake_runtime(uint16_t build)
{
        return build < FAKE_WITH_WORDS ? NULL : (const uint8_t *) fake_words[build - FAKE_WITH_WORDS];
}

static inline bool fake_layout(uint16_t build, struct infp_python_layout *ret)
{
        uint32_t found;

        if (build < FAKE_WITH_WORDS)
                return infp_python_layout_of(build, ret);
        return infp_python_layout_of_runtime(fake_runtime(build), sizeof(fake_words[0]), ret, &found) &&
               found >> 16 == (build < FAKE_FREE ? build : build - 3u) && ret->is_free_threaded == (build >= FAKE_FREE);
}

static inline struct fake *fake_new(uint16_t build)
{
        struct fake *fake = calloc(1, sizeof(*fake));

        if (!fake || !fake_layout(build, &fake->layout))
                abort();
        return fake;
}

/* A str whose characters take kind bytes each; 0: ASCII. */
static inline uint64_t fake_str(struct fake *fake, unsigned kind, const void *data, uint64_t length)
{
        const struct infp_python_layout *l = &fake->layout;
        const unsigned at = kind ? l->str_compact : l->str_ascii, size = kind ? kind : 1;
        const uint64_t address = fake_take(fake, at + length * size);

        fake_put(fake, address + l->str_length, length);
        fake_put32(fake, address + l->str_state, (size | 8u | (kind ? 0 : 16u)) << l->str_kind_shift);
        memcpy(fake_at(fake, address + at), data, length * size);
        return address;
}

static inline uint64_t fake_text(struct fake *fake, const char *text)
{
        return fake_str(fake, 0, text, strlen(text));
}

static inline uint64_t fake_bytes(struct fake *fake, const void *data, uint64_t size)
{
        const uint64_t address = fake_take(fake, fake->layout.bytes_data + size);

        fake_put(fake, address + fake->layout.bytes_size, size);
        if (size)
                memcpy(fake_at(fake, address + fake->layout.bytes_data), data, size);
        return address;
}

enum { FAKE_TYPE = 0x7777000 };

static inline uint64_t fake_code(struct fake *fake, uint64_t file, uint64_t name, uint32_t line, const void *table,
                                 uint64_t table_size)
{
        const struct infp_python_layout *l = &fake->layout;
        const uint64_t table_at = fake_bytes(fake, table, table_size), address = fake_take(fake, 512);

        fake_put(fake, address + l->object_type, FAKE_TYPE);
        fake_put(fake, address + l->code_file, file);
        fake_put(fake, address + l->code_name, name);
        if (l->code_qualname != INFP_PYTHON_ABSENT)
                fake_put(fake, address + l->code_qualname, name);
        fake_put(fake, address + l->code_line_table, table_at);
        fake_put32(fake, address + l->code_first_line, line);
        if (l->code_units != INFP_PYTHON_ABSENT)
                fake_put(fake, address + l->code_units, 100);
        return address;
}

/* A frame; owner 0xff: none is written. */
static inline void fake_frame(struct fake *fake, uint64_t address, uint64_t code, uint64_t previous,
                              uint64_t instruction, uint8_t owner, bool is_entry)
{
        const struct infp_python_layout *l = &fake->layout;

        fake_put(fake, address + l->frame_previous, previous);
        fake_put(fake, address + l->frame_code, code);
        if (l->instruction_unit)
                fake_put32(fake, address + l->frame_instruction, (uint32_t) instruction);
        else
                fake_put(fake, address + l->frame_instruction, instruction);
        if (l->frame_owner != INFP_PYTHON_ABSENT)
                *fake_at(fake, address + l->frame_owner) = owner;
        if (l->frame_is_entry != INFP_PYTHON_ABSENT)
                *fake_at(fake, address + l->frame_is_entry) = is_entry;
}

/* A thread state whose innermost frame is that. */
static inline uint64_t fake_thread(struct fake *fake, uint64_t interpreter, uint64_t frame)
{
        const struct infp_python_layout *l = &fake->layout;
        const uint64_t address = fake_take(fake, 512), c_frame = fake_take(fake, 32);

        fake_put(fake, address + l->thread_interp, interpreter);
        if (l->cframe_frame == INFP_PYTHON_ABSENT) {
                fake_put(fake, address + l->thread_frame, frame);
        } else {
                fake_put(fake, address + l->thread_frame, c_frame);
                fake_put(fake, c_frame + l->cframe_frame, frame);
        }
        return address;
}
