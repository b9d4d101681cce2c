/* Bounded reading of bytes from a file that nobody vouches for: past the end every read gives 0 and the cursor is bad. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct infp_cursor {
        const uint8_t *at, *end;
        bool is_bad;
};

static inline struct infp_cursor infp_cursor(const void *bytes, uint64_t size)
{
        const uint8_t *at = bytes;

        return (struct infp_cursor){ at, size ? at + size : at, false }; /* NULL + 0 is an error in C */
}

static inline uint64_t infp_cursor_left(const struct infp_cursor *c)
{
        return (uint64_t) (c->end - c->at);
}

/* The next n bytes, or NULL. */
static inline const uint8_t *infp_cursor_take(struct infp_cursor *c, uint64_t n)
{
        const uint8_t *at = c->at;

        if (n > infp_cursor_left(c)) {
                c->is_bad = true;
                c->at = c->end;
                return NULL;
        }
        c->at += n;
        return at;
}

#define INFP_CURSOR_READ(name, type)                                   \
        static inline type infp_cursor_##name(struct infp_cursor *c)   \
        {                                                              \
                const uint8_t *at = infp_cursor_take(c, sizeof(type)); \
                type value = 0;                                        \
                                                                       \
                if (at)                                                \
                        memcpy(&value, at, sizeof(value));             \
                return value;                                          \
        }
INFP_CURSOR_READ(u8, uint8_t)
INFP_CURSOR_READ(u16, uint16_t)
INFP_CURSOR_READ(u32, uint32_t)
INFP_CURSOR_READ(u64, uint64_t)
#undef INFP_CURSOR_READ

/* LEB128: bits beyond the 64th are dropped, as elfutils does. */
static inline uint64_t infp_cursor_uleb(struct infp_cursor *c)
{
        uint64_t value = 0;

        for (unsigned shift = 0;; shift += 7) {
                const uint8_t byte = infp_cursor_u8(c);

                if (shift < 64)
                        value |= (uint64_t) (byte & 0x7f) << shift;
                if (!(byte & 0x80))
                        return value;
        }
}

static inline int64_t infp_cursor_sleb(struct infp_cursor *c)
{
        uint64_t value = 0;

        for (unsigned shift = 0;;) {
                const uint8_t byte = infp_cursor_u8(c);

                if (shift < 64)
                        value |= (uint64_t) (byte & 0x7f) << shift;
                shift += 7;
                if (!(byte & 0x80)) {
                        if (shift < 64 && (byte & 0x40))
                                value |= ~UINT64_C(0) << shift;
                        return (int64_t) value;
                }
        }
}

/* Text up to its zero byte, or NULL. */
static inline const char *infp_cursor_text(struct infp_cursor *c)
{
        const uint8_t *at = c->at, *zero = infp_cursor_left(c) ? memchr(at, 0, infp_cursor_left(c)) : NULL;

        if (!zero) {
                c->is_bad = true;
                c->at = c->end;
                return NULL;
        }
        c->at = zero + 1;
        return (const char *) at;
}
