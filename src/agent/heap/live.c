#include "agent/heap/live.h"

#include <errno.h>
#include <sys/mman.h>

/* Pages that nobody has used take no memory. */
enum { SLOTS_BITS = 17, SLOTS = 1 << SLOTS_BITS, WINDOW = 32, SATURATED = 255 };

/* A slot is claimed by a CAS of its address from 0, and a block stands anywhere in its window: all of it is searched each time, so that a
 * slot that becomes free between hides nothing. Nobody knows a block's address before it was put. */
static struct slot {
        _Atomic uint64_t address, id;
} * slots;
static struct infp_preload_heap *filter;

int infp_agent_live_make(struct infp_preload_heap *hooks)
{
        void *memory = mmap(NULL, (SLOTS + WINDOW) * sizeof(*slots), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED)
                return -ENOMEM;
        madvise(memory, (SLOTS + WINDOW) * sizeof(*slots), MADV_NOHUGEPAGE);
        slots = memory;
        filter = hooks;
        return 0;
}

static struct slot *window_of(uint64_t address)
{
        return slots + ((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOTS_BITS));
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

bool infp_agent_live_put(uint64_t address, uint64_t id)
{
        struct slot *window = window_of(address);

        for (unsigned i = 0; i < WINDOW; i++) {
                uint64_t nobody = 0;

                if (!atomic_compare_exchange_strong_explicit(&window[i].address, &nobody, 1, memory_order_relaxed,
                                                             memory_order_relaxed))
                        continue;
                change_filter(address, 1);
                atomic_store_explicit(&window[i].id, id, memory_order_relaxed);
                atomic_store_explicit(&window[i].address, address, memory_order_release);
                return true;
        }
        return false;
}

uint64_t infp_agent_live_take(uint64_t address)
{
        struct slot *window = window_of(address);

        for (unsigned i = 0; i < WINDOW; i++) {
                uint64_t id;

                if (atomic_load_explicit(&window[i].address, memory_order_acquire) != address)
                        continue;
                id = atomic_load_explicit(&window[i].id, memory_order_relaxed);
                atomic_store_explicit(&window[i].address, 0, memory_order_relaxed);
                change_filter(address, -1);
                return id;
        }
        return 0;
}
