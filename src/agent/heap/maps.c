#include "agent/heap/maps.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/core/system_call.h"

/* Pages that nobody has used take no memory. The kernel lets a process have 65,530 mappings, and most have few of these. */
enum { SLOTS = 4096, SPINS = 1000, YIELDS = 1000, NAPS = 1000 /* of a millisecond */ };

/* They lie apart from each other, so that those of a range are found by halving. */
static struct maps {
        struct slot {
                struct infp_agent_map map;
                uint64_t stamp; /* when it was put */
        } slots[SLOTS];
        uint16_t order[SLOTS]; /* numbers of slots: first those in use, by their addresses, then the others */
        uint32_t n;
} * maps;
static _Atomic uint64_t newest;

/* Calls of mmap and munmap wait for each other in the kernel, too. A thread rarely loses its CPU in the middle of this; when one has waited for
 * it in vain, the others no longer do, until it has gone on. */
static _Atomic uintptr_t holder; /* a thread; 0: nobody */
static _Atomic bool is_given_up;

/* By no function of libc: that would be a point at which a thread may be cancelled. */
static void nap(void)
{
        struct timespec left = { .tv_nsec = 1000000 };

        while (infp_system_call(SYS_nanosleep, (uintptr_t) &left, (uintptr_t) &left, 0, 0, 0, 0) == -EINTR)
                ;
}

static bool begin_work(void)
{
        const uintptr_t own = (uintptr_t) pthread_self();

        for (unsigned i = 0; i < SPINS + YIELDS + NAPS; i++) {
                uintptr_t nobody = 0;

                if (atomic_compare_exchange_strong_explicit(&holder, &nobody, own, memory_order_acquire,
                                                            memory_order_relaxed)) {
                        atomic_store_explicit(&is_given_up, false, memory_order_relaxed);
                        return true;
                }
                if (nobody == own || (i >= SPINS && atomic_load_explicit(&is_given_up, memory_order_relaxed)))
                        return false;
                if (i >= SPINS + YIELDS)
                        nap();
                else if (i >= SPINS)
                        sched_yield();
        }
        atomic_store_explicit(&is_given_up, true, memory_order_relaxed);
        return false;
}

static void end_work(void)
{
        atomic_store_explicit(&holder, 0, memory_order_release);
}

int infp_agent_maps_make(void)
{
        void *memory =
                mmap(NULL, sizeof(*maps), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED)
                return -ENOMEM;
        maps = memory;
        for (uint16_t i = 0; i < SLOTS; i++)
                maps->order[i] = i;
        return 0;
}

/* What another thread of the parent was at is half done, and that thread is not here. */
void infp_agent_maps_forked(void)
{
        const uintptr_t other = atomic_load(&holder);

        if (!maps || !other || other == (uintptr_t) pthread_self())
                return;
        for (uint16_t i = 0; i < SLOTS; i++)
                maps->order[i] = i;
        maps->n = 0;
        end_work();
}

uint64_t infp_agent_maps_now(void)
{
        return atomic_load(&newest);
}

static struct slot *slot_at(uint32_t at)
{
        return &maps->slots[maps->order[at]];
}

/* The first one that ends after it; n: none. */
static uint32_t after(uint64_t address)
{
        uint32_t low = 0, high = maps->n;

        while (low < high) {
                const uint32_t middle = (low + high) / 2;

                if (slot_at(middle)->map.end > address)
                        high = middle;
                else
                        low = middle + 1;
        }
        return low;
}

static bool put(const struct infp_agent_map *map, uint64_t stamp)
{
        const uint32_t at = after(map->begin);
        uint16_t slot;

        if (maps->n == SLOTS || (at < maps->n && slot_at(at)->map.begin < map->end))
                return false;
        slot = maps->order[maps->n];
        memmove(&maps->order[at + 1], &maps->order[at], (maps->n++ - at) * sizeof(maps->order[0]));
        maps->order[at] = slot;
        *slot_at(at) = (struct slot){ *map, stamp };
        return true;
}

static void take_out(uint32_t at)
{
        const uint16_t slot = maps->order[at];

        memmove(&maps->order[at], &maps->order[at + 1], (--maps->n - at) * sizeof(maps->order[0]));
        maps->order[maps->n] = slot;
}

bool infp_agent_maps_put(const struct infp_agent_map *map)
{
        bool ret;

        if (!begin_work())
                return false;
        ret = put(map, atomic_fetch_add(&newest, 1));
        end_work();
        return ret;
}

/* n: none. */
static uint32_t find(uint64_t begin, uint64_t end, uint64_t since)
{
        for (uint32_t at = after(begin); at < maps->n && slot_at(at)->map.begin < end; at++)
                if (slot_at(at)->stamp < since)
                        return at;
        return maps->n;
}

bool infp_agent_maps_has(uint64_t begin, uint64_t end, uint64_t since)
{
        bool ret;

        if (!begin_work())
                return false;
        ret = find(begin, end, since) < maps->n;
        end_work();
        return ret;
}

/* The chance to be sampled stays that of the whole, so the mean shrinks with the size. */
static struct infp_agent_map rest_of(const struct infp_agent_map *old, uint64_t begin, uint64_t end, uint64_t id)
{
        const uint64_t mean =
                (uint64_t) ((double) old->mean * (double) (end - begin) / (double) (old->end - old->begin));

        return (struct infp_agent_map){ begin, end, old->id ? id : 0, mean ? mean : 1 };
}

static void cut(uint32_t at, uint64_t begin, uint64_t end, const uint64_t ids[2], struct infp_agent_cut *ret)
{
        const struct slot old = *slot_at(at);

        *ret = (struct infp_agent_cut){ .old = old.map };
        if (old.map.begin < begin)
                ret->rest[ret->n_rest++] = rest_of(&old.map, old.map.begin, begin, ids[0]);
        if (old.map.end > end)
                ret->rest[ret->n_rest++] = rest_of(&old.map, end, old.map.end, ids[1]);
        if (!ret->n_rest) {
                take_out(at);
                return;
        }
        slot_at(at)->map = ret->rest[0];
        if (ret->n_rest == 2 && !put(&ret->rest[1], old.stamp))
                ret->n_rest = 1; /* no room: the end of it is not counted any more */
}

bool infp_agent_maps_cut(uint64_t begin, uint64_t end, uint64_t since, const uint64_t ids[2],
                         struct infp_agent_cut *ret)
{
        uint32_t at;
        bool is_there;

        if (!begin_work())
                return false;
        at = find(begin, end, since);
        is_there = at < maps->n;
        if (is_there)
                cut(at, begin, end, ids, ret);
        end_work();
        return is_there;
}
