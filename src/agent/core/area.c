#include "agent/core/area.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "agent/core/machine.h"

enum { PAGE = 4096 };

static char *areas;
static size_t area_bytes; /* with its stack, which lies before the memory */
static struct {
        _Alignas(64) _Atomic uint32_t is_taken;
} states[INFP_AGENT_AREAS];

int infp_agent_areas_make(size_t bytes)
{
        void *memory;

        area_bytes = INFP_AGENT_STACK_BYTES + ((bytes + PAGE - 1) & ~(size_t) (PAGE - 1));
        memory = mmap(NULL, INFP_AGENT_AREAS * area_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
                return -ENOMEM;
        madvise(memory, INFP_AGENT_AREAS * area_bytes, MADV_NOHUGEPAGE); /* else the first use takes 2 MiB */
        areas = memory;
        return 0;
}

void infp_agent_areas_reset(void)
{
        for (unsigned i = 0; i < INFP_AGENT_AREAS; i++)
                atomic_store(&states[i].is_taken, 0);
}

struct call {
        void (*work)(void *memory, void *context);
        void *memory, *context;
};

static void work_in(void *context)
{
        const struct call *call = context;

        call->work(call->memory, call->context);
}

/* Each thread begins with another one, whose caches are its own. */
bool infp_agent_area_work(void (*work)(void *memory, void *context), void *context)
{
        const unsigned first = (unsigned) (infp_agent_thread_pointer() * UINT64_C(0x9e3779b97f4a7c15) >> 58);

        for (unsigned k = 0; k < INFP_AGENT_AREAS; k++) {
                const unsigned i = (first + k) % INFP_AGENT_AREAS;
                char *memory = areas + i * area_bytes + INFP_AGENT_STACK_BYTES;
                struct call call = { work, memory, context };

                if (atomic_exchange_explicit(&states[i].is_taken, 1, memory_order_acquire))
                        continue;
                infp_agent_call_on(memory, work_in, &call);
                atomic_store_explicit(&states[i].is_taken, 0, memory_order_release);
                return true;
        }
        return false;
}
