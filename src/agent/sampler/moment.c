#include "agent/sampler/moment.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/sampler/tables.h"

enum { KEPT = 128, FREE = 0, TAKEN = 1, FULL = 2 };
#define MOST_NS UINT64_C(2000000000)

static struct kept {
        _Atomic uint32_t state;
        uint64_t number; /* of the tables that did not suffice */
        struct infp_agent_moment moment;
} * kept;
static _Atomic uint32_t n_kept; /* about: whether it is worth to look */

int infp_agent_moments_make(void)
{
        void *memory = mmap(NULL, KEPT * sizeof(*kept), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (memory == MAP_FAILED)
                return -ENOMEM;
        madvise(memory, KEPT * sizeof(*kept), MADV_NOHUGEPAGE);
        kept = memory;
        return 0;
}

void infp_agent_moments_reset(void)
{
        for (unsigned i = 0; i < KEPT; i++)
                atomic_store(&kept[i].state, FREE);
        atomic_store(&n_kept, 0);
}

static bool change(struct kept *one, uint32_t from, uint32_t to)
{
        return atomic_compare_exchange_strong_explicit(&one->state, &from, to, memory_order_acquire,
                                                       memory_order_relaxed);
}

bool infp_agent_moment_keep(const struct infp_agent_moment *moment)
{
        for (unsigned i = 0; i < KEPT; i++) {
                if (!change(&kept[i], FREE, TAKEN))
                        continue;
                kept[i].number = infp_agent_tables_number();
                memcpy(&kept[i].moment, moment, offsetof(struct infp_agent_moment, dump) + moment->dump_size);
                atomic_fetch_add(&n_kept, 1);
                atomic_store_explicit(&kept[i].state, FULL, memory_order_release);
                return true;
        }
        return false;
}

void infp_agent_moments_give(uint64_t number, uint64_t now_ns,
                             void (*give)(void *context, const struct infp_agent_moment *moment), void *context)
{
        for (unsigned i = 0; i < KEPT && atomic_load(&n_kept); i++) {
                if (!change(&kept[i], FULL, TAKEN))
                        continue;
                if (kept[i].number == number && now_ns < kept[i].moment.t_ns + MOST_NS) {
                        atomic_store_explicit(&kept[i].state, FULL, memory_order_release);
                        continue;
                }
                give(context, &kept[i].moment);
                atomic_fetch_sub(&n_kept, 1);
                atomic_store_explicit(&kept[i].state, FREE, memory_order_release);
        }
}
