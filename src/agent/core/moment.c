#include "agent/core/moment.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/core/stack.h"
#include "agent/core/tables.h"

enum { KEPT = 1024, FREE = 0, TAKEN = 1, FULL = 2 };
#define MOST_NS UINT64_C(2000000000)

static struct kept {
        uint64_t number; /* of the tables that did not suffice */
        struct infp_agent_moment moment;
} * kept;
static _Atomic uint8_t states[KEPT]; /* apart from them: a child of fork touches no page of theirs */
static _Atomic uint32_t n_kept;      /* about: whether it is worth to look */

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
                atomic_store(&states[i], FREE);
        atomic_store(&n_kept, 0);
}

static bool change(unsigned i, uint8_t from, uint8_t to)
{
        return atomic_compare_exchange_strong_explicit(&states[i], &from, to, memory_order_acquire,
                                                       memory_order_relaxed);
}

bool infp_agent_moment_keep(const struct infp_agent_moment *moment)
{
        for (unsigned i = 0; i < KEPT; i++) {
                if (!change(i, FREE, TAKEN))
                        continue;
                kept[i].number = infp_agent_tables_number();
                memcpy(&kept[i].moment, moment, offsetof(struct infp_agent_moment, dump) + moment->dump_size);
                atomic_fetch_add(&n_kept, 1);
                atomic_store_explicit(&states[i], FULL, memory_order_release);
                return true;
        }
        return false;
}

void infp_agent_moments_give(struct infp_agent_stack *stack, struct infp_writer_thread *thread, unsigned most,
                             bool last)
{
        const uint64_t number = infp_agent_tables_number(), now_ns = atomic_load(&n_kept) ? infp_writer_now_ns() : 0;

        for (unsigned i = 0; i < KEPT && most && atomic_load(&n_kept); i++) {
                const struct infp_agent_moment *moment = &kept[i].moment;
                struct infp_agent_walk walked;

                if (!change(i, FULL, TAKEN))
                        continue;
                if (!last && kept[i].number == number && now_ns < moment->t_ns + MOST_NS) {
                        atomic_store_explicit(&states[i], FULL, memory_order_release);
                        continue;
                }
                walked = infp_agent_stack_walk(stack, moment, false);
                moment->put(stack, moment, &walked, thread);
                most--;
                atomic_fetch_sub(&n_kept, 1);
                atomic_store_explicit(&states[i], FREE, memory_order_release);
        }
}
