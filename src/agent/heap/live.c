#include "agent/heap/live.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* Most processes have few sampled blocks: those lie together in the cache. Pages that nobody has used take no memory. */
enum { FEW_BITS = 12, FEW_WINDOW = 8, MANY_BITS = 17, MANY_WINDOW = 32, SATURATED = 255 };
#define FEW_SLOTS ((1U << FEW_BITS) + FEW_WINDOW)
#define SLOTS (FEW_SLOTS + (1U << MANY_BITS) + MANY_WINDOW)

/* A slot is claimed by a CAS of its address from 0, and a block stands anywhere in its window: all of it is searched each time, so that a
 * slot that becomes free between hides nothing. Nobody knows a block's address before it was put. */
static struct slot {
        _Atomic uint64_t address, id;
} * slots;
static _Atomic bool are_many; /* some did not fit among the few */
static struct infp_preload_heap *filter;

int infp_agent_live_make(struct infp_preload_heap *hooks)
{
        void *memory = mmap(NULL, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED)
                return -ENOMEM;
        madvise(memory, SLOTS * sizeof(*slots), MADV_NOHUGEPAGE);
        slots = memory;
        atomic_store(&are_many, false);
        filter = hooks;
        return 0;
}

static struct slot *window_of(struct slot *first, unsigned bits, uint64_t address)
{
        return first + ((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

/* One that is full stays so: how many there are is not known any more. */
static void change_filter(uint64_t address, int by)
{
        _Atomic uint8_t *at = &filter->filter[infp_heap_place(address)];
        uint8_t n = atomic_load_explicit(at, memory_order_relaxed);

        while (n != SATURATED && !(by < 0 && !n) &&
               !atomic_compare_exchange_weak_explicit(at, &n, (uint8_t) (n + by), memory_order_relaxed,
                                                      memory_order_relaxed))
                ;
}

static bool put(struct slot *window, unsigned n, uint64_t address, uint64_t id)
{
        for (unsigned i = 0; i < n; i++) {
                uint64_t nobody = 0;

                if (!atomic_compare_exchange_strong_explicit(&window[i].address, &nobody, 1, memory_order_relaxed,
                                                             memory_order_relaxed))
                        continue;
                atomic_fetch_add_explicit(&filter->pages[infp_heap_page(address)], 1, memory_order_relaxed);
                change_filter(address, 1);
                atomic_store_explicit(&window[i].id, id, memory_order_relaxed);
                atomic_store_explicit(&window[i].address, address, memory_order_release);
                return true;
        }
        return false;
}

static uint64_t take(struct slot *window, unsigned n, uint64_t address)
{
        for (unsigned i = 0; i < n; i++) {
                uint64_t id;

                if (atomic_load_explicit(&window[i].address, memory_order_acquire) != address)
                        continue;
                id = atomic_load_explicit(&window[i].id, memory_order_relaxed);
                atomic_store_explicit(&window[i].address, 0, memory_order_relaxed);
                change_filter(address, -1);
                atomic_fetch_sub_explicit(&filter->pages[infp_heap_page(address)], 1, memory_order_relaxed);
                return id;
        }
        return 0;
}

bool infp_agent_live_put(uint64_t address, uint64_t id)
{
        if (put(window_of(slots, FEW_BITS, address), FEW_WINDOW, address, id))
                return true;
        atomic_store_explicit(&are_many, true, memory_order_relaxed);
        return put(window_of(slots + FEW_SLOTS, MANY_BITS, address), MANY_WINDOW, address, id);
}

uint64_t infp_agent_live_take(uint64_t address)
{
        const uint64_t id = take(window_of(slots, FEW_BITS, address), FEW_WINDOW, address);

        return id || !atomic_load_explicit(&are_many, memory_order_relaxed)
                       ? id
                       : take(window_of(slots + FEW_SLOTS, MANY_BITS, address), MANY_WINDOW, address);
}
