/* Counters and gauges are registered in memory of the process, also when nothing is recorded; each file that it opens, after fork
 * too, gets them all under the same numbers. */
#include "ring/writer_parts.h"

#include <string.h>
#include <sys/mman.h>

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
                        fits = (text[k].at = infp_writer_arena_put(all->texts + text[k].at, text[k].size,
                                                                   INFP_WIRE_ARENA)) != 0;
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
