/* Texts that many records name, written into the arena once. Finding one takes no lock; a new one is put in under a lock that is
 * tried once: who does not get it puts the text into its record. */
#include "ring/writer_parts.h"

#include <string.h>

enum {
        PROBES = 8,
        NAMES_LIMIT = INFP_WIRE_ARENA * 3 / 4 /* the rest is for metrics, which cannot be without a name */
};

/* hash << 32 | place / 8 << 16 | size */
_Atomic uint64_t *infp_writer_interned;

uint32_t infp_writer_size(const char *text, uint32_t max)
{
        size_t size = strnlen(text, (size_t) max + 1);

        if (__builtin_expect(size <= max, 1))
                return (uint32_t) size;
        size = max;
        while (size > max - 4 && ((unsigned char) text[size] & 0xC0) == 0x80)
                size--;
        return (uint32_t) size;
}

uint64_t infp_writer_hash(const void *data, uint32_t size, uint64_t seed)
{
        const char *text = data;
        uint64_t hash = seed + size, word;

        for (; size >= 8; size -= 8, text += 8) {
                memcpy(&word, text, 8);
                hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
                hash ^= hash >> 32;
        }
        if (size) {
                word = 0;
                memcpy(&word, text, size);
                hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        }
        return hash ^ hash >> 29;
}

/* The place, or 0 and the free slot that it may have (NULL: none near). */
static uint32_t look_up(const char *text, uint32_t size, uint64_t hash, _Atomic uint64_t **ret_free)
{
        for (unsigned i = 0; i < PROBES; i++) {
                _Atomic uint64_t *slot = &infp_writer_interned[(hash + i) % INFP_WRITER_INTERNED];
                uint64_t entry = atomic_load_explicit(slot, memory_order_acquire);
                uint32_t at = (uint32_t) (entry >> 16 & 0xFFFF) * 8;

                if (!entry) {
                        *ret_free = slot;
                        return 0;
                }
                if (entry >> 32 == hash >> 32 && (entry & 0xFFFF) == size &&
                    memcmp(infp_writer_file.arena + at, text, size) == 0)
                        return at;
        }
        *ret_free = NULL;
        return 0;
}

uint32_t infp_writer_arena_put(const char *text, uint32_t size, uint32_t limit)
{
        struct infp_wire_head *head = infp_writer_file.head;
        uint32_t at = atomic_load_explicit(&head->arena_used, memory_order_relaxed);
        uint32_t end = at + ((size + 7) & ~UINT32_C(7));

        if (at < 8 || at % 8 || at > limit ||
            end > limit) /* the file is memory that others of this user can write too */
                return 0;
        infp_writer_copy((uint64_t *) (infp_writer_file.arena + at), text, size);
        atomic_store_explicit(&head->arena_used, end, memory_order_release);
        return at;
}

uint32_t infp_writer_intern(const char *text, uint32_t size)
{
        struct infp_writer_page *page = atomic_load_explicit(&infp_writer_page, memory_order_relaxed);
        uint64_t hash = infp_writer_hash(text, size, 0);
        _Atomic uint64_t *slot = NULL;
        uint32_t at;

        if (!size || size > INFP_WRITER_NAME)
                return 0;
        at = look_up(text, size, hash, &slot);
        if (__builtin_expect(at != 0, 1) || !slot || !infp_writer_try_lock(&page->arena_lock, 1))
                return at;
        at = look_up(text, size, hash, &slot);
        if (!at && slot) {
                at = infp_writer_arena_put(text, size, NAMES_LIMIT);
                if (at)
                        atomic_store_explicit(slot, (hash >> 32) << 32 | (uint64_t) (at / 8) << 16 | size,
                                              memory_order_release);
        }
        infp_writer_unlock(&page->arena_lock);
        return at;
}
