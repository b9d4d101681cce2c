#include "ring/writer_parts.h"

#include <string.h>
#include <sys/mman.h>

/* Texts that many records name, written into the arena once. Finding one takes no lock; a new one is put in under a lock that is
 * tried once: who does not get it puts the text into its record. */

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

/* Under arena_lock; 0: no room. */
static uint32_t arena_put(const char *text, uint32_t size, uint32_t limit)
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
                at = arena_put(text, size, NAMES_LIMIT);
                if (at)
                        atomic_store_explicit(slot, (hash >> 32) << 32 | (uint64_t) (at / 8) << 16 | size,
                                              memory_order_release);
        }
        infp_writer_unlock(&page->arena_lock);
        return at;
}

/* Counters and gauges are registered in memory of the process, also when nothing is recorded; each file that it opens, after fork
 * too, gets them all under the same numbers. */

enum { TEXT_BYTES = INFP_WIRE_ARENA, TEXTS = 3 };

struct entry {
        uint32_t kind, hash;
        struct infp_wire_text text[TEXTS]; /* name, unit, help */
};
struct registry {
        _Atomic uint32_t n;
        uint32_t used;
        struct entry entry[INFP_WIRE_METRICS];
        char texts[TEXT_BYTES];
};
static struct registry *_Atomic registry;

static struct registry *get(void)
{
        struct registry *ours = atomic_load(&registry), *expected = NULL;
        void *memory;

        if (ours)
                return ours;
        memory = mmap(NULL, sizeof *ours, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
                return NULL;
        if (atomic_compare_exchange_strong(&registry, &expected, memory))
                return memory;
        munmap(memory, sizeof *ours);
        return expected;
}

static uint32_t hash_of(const char *text, uint32_t size)
{
        uint32_t hash = size;

        for (uint32_t i = 0; i < size; i++)
                hash = (hash ^ (unsigned char) text[i]) * 16777619U;
        return hash;
}

/* Number + 1, or 0. */
static uint32_t find(const struct registry *all, const char *name, uint32_t size, uint32_t hash)
{
        uint32_t n = atomic_load_explicit(&all->n, memory_order_acquire);

        for (uint32_t i = 0; i < n; i++) {
                const struct infp_wire_text *text = &all->entry[i].text[0];

                if (all->entry[i].hash == hash && text->size == size && memcmp(all->texts + text->at, name, size) == 0)
                        return i + 1;
        }
        return 0;
}

/* Into the file; when its arena has no room the metric stays without `ready`, and is counted. */
static void publish(const struct registry *all, uint32_t i)
{
        struct infp_wire_metric *metric = &infp_writer_file.metrics[i];
        struct infp_wire_head *head = infp_writer_file.head;
        struct infp_writer_page *page = atomic_load(&infp_writer_page);
        struct infp_wire_text text[TEXTS];
        bool fits = infp_writer_wait_lock(&page->arena_lock);

        for (unsigned k = 0; fits && k < TEXTS; k++) {
                text[k] = all->entry[i].text[k];
                if (!text[k].size)
                        text[k].at = 0;
                else
                        fits = (text[k].at = arena_put(all->texts + text[k].at, text[k].size, INFP_WIRE_ARENA)) != 0;
                if (!fits)
                        infp_writer_unlock(&page->arena_lock);
        }
        if (fits) {
                infp_writer_unlock(&page->arena_lock);
                metric->name = text[0];
                metric->unit = text[1];
                metric->help = text[2];
                metric->kind = all->entry[i].kind;
                atomic_store_explicit(&metric->ready, 1, memory_order_release);
        } else {
                infp_writer_add(&head->refused_metrics, 1);
        }
        if (atomic_load(&head->n_metrics) <= i)
                atomic_store_explicit(&head->n_metrics, i + 1, memory_order_release);
}

void infp_writer_metric_all(void)
{
        const struct registry *all = atomic_load(&registry);
        uint32_t n = all ? atomic_load(&all->n) : 0;

        for (uint32_t i = 0; i < n; i++)
                publish(all, i);
}

/* Under the lock. */
static uint32_t add(struct registry *all, const char *const texts[TEXTS], const uint32_t sizes[TEXTS], uint32_t hash,
                    enum infp_wire_metric_kind kind)
{
        uint32_t n = atomic_load(&all->n), used = all->used;
        struct entry *entry = &all->entry[n];

        if (n == INFP_WIRE_METRICS || used + sizes[0] + sizes[1] + sizes[2] > TEXT_BYTES)
                return 0;
        for (unsigned k = 0; k < TEXTS; k++) {
                memcpy(all->texts + used, texts[k], sizes[k]);
                entry->text[k] = (struct infp_wire_text){ .at = used, .size = sizes[k] };
                used += sizes[k];
        }
        entry->hash = hash;
        entry->kind = kind;
        all->used = used;
        atomic_store_explicit(&all->n, n + 1, memory_order_release);
        return n + 1;
}

static void count_refused(void)
{
        if (atomic_load(&atomic_load(&infp_writer_page)->epoch))
                infp_writer_add(&infp_writer_file.head->refused_metrics, 1);
}

static uint32_t find_or_add(struct registry *all, const char *const texts[TEXTS], const uint32_t sizes[TEXTS],
                            enum infp_wire_metric_kind kind)
{
        uint32_t hash = hash_of(texts[0], sizes[0]), found = find(all, texts[0], sizes[0], hash);
        struct infp_writer_page *page;

        if (found || infp_writer_make_page() < 0)
                return found;
        page = atomic_load(&infp_writer_page);
        if (!infp_writer_wait_lock(&page->metric_lock))
                return 0;
        found = find(all, texts[0], sizes[0], hash);
        if (!found && (found = add(all, texts, sizes, hash, kind)) && atomic_load(&page->epoch))
                publish(all, found - 1);
        infp_writer_unlock(&page->metric_lock);
        return found;
}

uint32_t infp_writer_metric(const char *name, const char *unit, const char *help, enum infp_wire_metric_kind kind)
{
        const char *const texts[TEXTS] = { name ? name : "", unit ? unit : "", help ? help : "" };
        uint32_t sizes[TEXTS], found = 0;
        struct infp_writer_quiet quiet;
        struct registry *all;

        for (unsigned k = 0; k < TEXTS; k++)
                sizes[k] = infp_writer_size(texts[k], INFP_WRITER_NAME);
        if (!sizes[0] || atomic_exchange_explicit(&infp_writer_self.busy, 1, memory_order_relaxed)) {
                count_refused();
                return 0;
        }
        quiet = infp_writer_quiet_begin();
        all = get();
        if (all)
                found = find_or_add(all, texts, sizes, kind);
        infp_writer_quiet_end(quiet);
        infp_writer_end();
        if (found && all->entry[found - 1].kind != kind)
                found = 0;
        if (!found)
                count_refused();
        return found;
}

struct infp_wire_metric *infp_writer_metric_at(uint32_t number)
{
        struct infp_wire_metric *metric = number < INFP_WIRE_METRICS ? &infp_writer_file.metrics[number] : NULL;

        return metric && atomic_load_explicit(&metric->ready, memory_order_acquire) ? metric : NULL;
}
