#include "base/strings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/text.h"

enum { CHUNK = 64 * 1024 };

struct infp_strings_chunk {
        struct infp_strings_chunk *next;
        size_t size, cap;
        char text[];
};

static int room(struct infp_strings *strings, size_t size, char **ret)
{
        struct infp_strings_chunk *chunk = strings->chunks;
        const size_t cap = size > CHUNK ? size : CHUNK;

        if (!chunk || chunk->cap - chunk->size < size) {
                if (strings->most_bytes && strings->bytes + sizeof(*chunk) + cap > strings->most_bytes)
                        return -ENOSPC;
                chunk = malloc(sizeof(*chunk) + cap);
                if (!chunk)
                        return -ENOMEM;
                *chunk = (struct infp_strings_chunk){ .next = strings->chunks, .cap = cap };
                strings->chunks = chunk;
                strings->bytes += sizeof(*chunk) + cap;
        }
        chunk->size += size;
        *ret = chunk->text + chunk->size - size;
        return 0;
}

static size_t cut(const char *text, size_t size)
{
        size_t at = 0;

        while (at < size) {
                const unsigned n = infp_utf8_length(text + at, size - at);

                if (at + (n ? n : 1) > INFP_STRING_MOST - 3)
                        break;
                at += n ? n : 1;
        }
        return at;
}

static int put(struct infp_strings *strings, const char *text, size_t size, uint64_t hash, uint32_t *ret)
{
        const size_t kept = size > INFP_STRING_MOST ? cut(text, size) : size;
        char *copy;
        int r;

        if (!INFP_MAKE_ROOM(strings->texts, strings->n + 1, strings->cap, 256))
                return -ENOMEM;
        strings->texts[0] = NULL;
        r = room(strings, kept + (kept < size ? 3 : 0) + 1, &copy);
        if (r < 0)
                return r;
        if (infp_map_put(&strings->by_hash, hash, strings->n + 1) < 0)
                return -ENOMEM;
        memcpy(copy, text, kept);
        memcpy(copy + kept, kept < size ? "..." : "", kept < size ? 4 : 1);
        strings->texts[++strings->n] = copy;
        *ret = strings->n;
        return 0;
}

int infp_strings_add(struct infp_strings *strings, const char *text, size_t size, uint32_t *ret)
{
        const size_t length = strnlen(text, size);
        const uint64_t hash = infp_hash64(text, length, 0);
        const uint64_t *known;

        *ret = 0;
        if (!length)
                return 0;
        known = infp_map_get(&strings->by_hash, hash);
        if (!known)
                return put(strings, text, length, hash, ret);
        *ret = (uint32_t) *known;
        return 0;
}

const char *infp_strings_get(const struct infp_strings *strings, uint32_t number)
{
        return number && number <= strings->n ? strings->texts[number] : NULL;
}

const char *infp_strings_keep(struct infp_strings *strings, const char *text)
{
        uint32_t number;

        if (!text || !*text)
                return text ? "" : NULL;
        return infp_strings_add(strings, text, strlen(text), &number) < 0 ? NULL : infp_strings_get(strings, number);
}

void infp_strings_done(struct infp_strings *strings)
{
        for (struct infp_strings_chunk *chunk = strings->chunks, *next; chunk; chunk = next) {
                next = chunk->next;
                free(chunk);
        }
        free(strings->texts);
        infp_map_done(&strings->by_hash);
        *strings = (struct infp_strings){ 0 };
}
