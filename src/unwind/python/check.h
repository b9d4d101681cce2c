/* Whether a code object is still the one that lay at its address before: a sum over what differs between two of them.
 *
 * Shared by the remote reader, the agent and the BPF program, so it needs <stdint.h> alone. An allocator gives a freed address again at
 * once, that of the texts too, so addresses say little. From 3.12 on the interpreter counts code objects; before, the content of the
 * texts has to be asked: their hash where the interpreter keeps it, and else their end. */
#pragma once

#include "unwind/python/layout.h"

enum { INFP_PYTHON_CHECK_WORDS = 12, INFP_PYTHON_CHECK_TEXTS = 2 };

/* Which words of a code object count, of a version. */
struct infp_python_check {
        uint16_t begin; /* offset of the first of INFP_PYTHON_CHECK_WORDS words of 8 bytes */
        uint16_t mask;  /* a bit for each that counts */
        uint8_t n_texts;
        uint8_t texts[INFP_PYTHON_CHECK_TEXTS]; /* which of the words are addresses of texts whose content counts */
};

/* How a str begins, from its member str_length on. */
struct infp_python_check_text {
        uint64_t length, hash, state; /* hash: all ones until somebody has asked for it */
};

void infp_python_check_of(const struct infp_python_layout *layout, struct infp_python_check *ret);

static inline uint64_t infp_python_check_add(uint64_t sum, uint64_t word)
{
        return (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Of the words from `begin` on. */
static inline uint64_t infp_python_check_words(const struct infp_python_check *check, const uint64_t *words)
{
        uint64_t sum = 0;

        for (int i = 0; i < INFP_PYTHON_CHECK_WORDS; i++)
                sum = infp_python_check_add(sum, words[i] & -(uint64_t) (check->mask >> i & 1));
        return sum;
}

static inline uint64_t infp_python_check_text_size(const struct infp_python_layout *layout,
                                                   const struct infp_python_check_text *text)
{
        return text->length * (text->state >> layout->str_kind_shift & 7);
}

/* Where the last 8 bytes of a text are, which infp_python_check_text needs; 0: it does not. */
static inline uint64_t infp_python_check_end(const struct infp_python_layout *layout, uint64_t address,
                                             const struct infp_python_check_text *text)
{
        const _Bool is_ascii = text->state >> layout->str_kind_shift >> 4 & 1;

        if (text->hash != UINT64_MAX)
                return 0;
        return address + (is_ascii ? layout->str_ascii : layout->str_compact) +
               infp_python_check_text_size(layout, text) - 8;
}

/* The sum as it is kept. */
static inline uint32_t infp_python_check_done(uint64_t sum)
{
        return (uint32_t) (sum >> 32);
}

/* What the content of a text adds to the sum. One that could not be read is zeroes. */
static inline uint32_t infp_python_check_text(const struct infp_python_layout *layout,
                                              const struct infp_python_check_text *text, uint64_t end)
{
        const uint64_t size = infp_python_check_text_size(layout, text);
        uint64_t content = text->hash;

        if (content == UINT64_MAX) /* what lies before a shorter text does not count */
                content = !size ? 0 : size < 8 ? end >> (64 - 8 * size) : end;
        return infp_python_check_done(infp_python_check_add(infp_python_check_add(0, text->length), content));
}
