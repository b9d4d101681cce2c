#include "agent/heap/maps.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

/* Pages that nobody has used take no memory. The kernel lets a process have 65,530 mappings, and most have few of these. */
enum { SLOTS = 4096, SPINS = 1000, YIELDS = 20 };
enum { FREE = 0, BUSY = 1, FIRST = 2 };

/* A slot is claimed by a CAS of its stamp, which says when it was put, to BUSY. What is read before that is looked at again after it. */
static struct slot {
        _Atomic uint64_t stamp, begin, end;
        uint64_t id, mean; /* of who has claimed it */
} * slots;
static _Atomic uint64_t newest = FIRST;
static _Atomic uint32_t n_slots; /* that were ever used */

int infp_agent_maps_make(void)
{
        void *memory = mmap(NULL, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED)
                return -ENOMEM;
        slots = memory;
        return 0;
}

/* Other threads of the parent were at these: they are lost. */
void infp_agent_maps_forked(void)
{
        const uint32_t n = atomic_load(&n_slots);

        for (uint32_t i = 0; i < n; i++)
                if (atomic_load_explicit(&slots[i].stamp, memory_order_relaxed) == BUSY)
                        atomic_store_explicit(&slots[i].stamp, FREE, memory_order_relaxed);
}

uint64_t infp_agent_maps_now(void)
{
        return atomic_load(&newest);
}

static bool claim(struct slot *slot, uint64_t stamp)
{
        return atomic_compare_exchange_strong_explicit(&slot->stamp, &stamp, BUSY, memory_order_acquire,
                                                       memory_order_relaxed);
}

static void fill(struct slot *slot, const struct infp_agent_map *map, uint64_t stamp)
{
        atomic_store_explicit(&slot->begin, map->begin, memory_order_relaxed);
        atomic_store_explicit(&slot->end, map->end, memory_order_relaxed);
        slot->id = map->id;
        slot->mean = map->mean;
        atomic_store_explicit(&slot->stamp, stamp, memory_order_release);
}

static bool put(const struct infp_agent_map *map, uint64_t stamp)
{
        for (uint32_t i = 0; i < SLOTS; i++) {
                uint32_t n = atomic_load_explicit(&n_slots, memory_order_relaxed);

                if (atomic_load_explicit(&slots[i].stamp, memory_order_relaxed) != FREE || !claim(&slots[i], FREE))
                        continue;
                while (n <= i && !atomic_compare_exchange_weak(&n_slots, &n, i + 1))
                        ;
                fill(&slots[i], map, stamp);
                return true;
        }
        return false;
}

bool infp_agent_maps_put(const struct infp_agent_map *map)
{
        return put(map, atomic_fetch_add(&newest, 1));
}

static bool meets(const struct slot *slot, uint64_t begin, uint64_t end)
{
        return atomic_load_explicit(&slot->begin, memory_order_relaxed) < end &&
               atomic_load_explicit(&slot->end, memory_order_relaxed) > begin;
}

static bool is_older(uint64_t stamp, uint64_t since)
{
        return stamp >= FIRST && stamp < since;
}

bool infp_agent_maps_has(uint64_t begin, uint64_t end, uint64_t since)
{
        const uint32_t n = atomic_load(&n_slots);

        for (uint32_t i = 0; i < n; i++) {
                const uint64_t stamp = atomic_load_explicit(&slots[i].stamp, memory_order_acquire);

                if ((stamp == BUSY || is_older(stamp, since)) && meets(&slots[i], begin, end))
                        return true;
        }
        return false;
}

/* The chance to be sampled stays that of the whole, so the mean shrinks with the size. */
static struct infp_agent_map rest_of(const struct infp_agent_map *old, uint64_t begin, uint64_t end, uint64_t id)
{
        const uint64_t mean =
                (uint64_t) ((double) old->mean * (double) (end - begin) / (double) (old->end - old->begin));

        return (struct infp_agent_map){ begin, end, old->id ? id : 0, mean ? mean : 1 };
}

static void cut(struct slot *slot, uint64_t stamp, uint64_t begin, uint64_t end, const uint64_t ids[2],
                struct infp_agent_cut *ret)
{
        const struct infp_agent_map old = { slot->begin, slot->end, slot->id, slot->mean };

        *ret = (struct infp_agent_cut){ .old = old };
        if (old.begin < begin)
                ret->rest[ret->n_rest++] = rest_of(&old, old.begin, begin, ids[0]);
        if (old.end > end)
                ret->rest[ret->n_rest++] = rest_of(&old, end, old.end, ids[1]);
        if (ret->n_rest == 2 && !put(&ret->rest[1], stamp))
                ret->n_rest = 1; /* no room: the end of it is not counted any more */
        if (ret->n_rest)
                fill(slot, &ret->rest[0], stamp);
        else
                atomic_store_explicit(&slot->stamp, FREE, memory_order_release);
}

bool infp_agent_maps_cut(uint64_t begin, uint64_t end, uint64_t since, const uint64_t ids[2],
                         struct infp_agent_cut *ret)
{
        const uint32_t n = atomic_load(&n_slots);

        for (uint32_t i = 0; i < n; i++) {
                struct slot *slot = &slots[i];

                for (unsigned k = 0;; k++) {
                        const uint64_t stamp = atomic_load_explicit(&slot->stamp, memory_order_acquire);

                        if (stamp != BUSY && (!is_older(stamp, since) || !meets(slot, begin, end)))
                                break;
                        if (stamp == BUSY && k >= SPINS + YIELDS) /* its thread was interrupted by this one */
                                break;
                        if (stamp == BUSY && k >= SPINS) /* or it has no CPU */
                                sched_yield();
                        if (stamp == BUSY || !claim(slot, stamp))
                                continue;
                        if (!meets(slot, begin, end)) {
                                atomic_store_explicit(&slot->stamp, stamp, memory_order_release);
                                break;
                        }
                        cut(slot, stamp, begin, end, ids, ret);
                        return true;
                }
        }
        return false;
}
