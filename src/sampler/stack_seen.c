#include "sampler/stack_seen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

enum { FIRST_SLOTS = 1 << 14, MAX_SLOTS = 1 << 19, FORGET_S = 300 };

int infp_seen_init(struct infp_seen *seen)
{
        *seen = (struct infp_seen){ .slots = calloc(FIRST_SLOTS, sizeof(*seen->slots)), .cap = FIRST_SLOTS };
        return seen->slots ? 0 : -ENOMEM;
}

void infp_seen_done(struct infp_seen *seen)
{
        free(seen->slots);
        seen->slots = NULL;
}

static void forget(struct infp_seen *seen)
{
        memset(seen->slots, 0, seen->cap * sizeof(*seen->slots));
        seen->n = 0;
}

static void put(uint64_t *slots, uint32_t cap, uint64_t id)
{
        uint32_t i = (uint32_t) id & (cap - 1);

        while (slots[i])
                i = (i + 1) & (cap - 1);
        slots[i] = id;
}

static void grow(struct infp_seen *seen)
{
        const uint32_t cap = seen->cap * 2;
        uint64_t *slots = cap <= MAX_SLOTS ? calloc(cap, sizeof(*slots)) : NULL;

        if (!slots) {
                forget(seen);
                return;
        }
        for (uint32_t i = 0; i < seen->cap; i++)
                if (seen->slots[i])
                        put(slots, cap, seen->slots[i]);
        free(seen->slots);
        seen->slots = slots;
        seen->cap = cap;
}

void infp_seen_add(struct infp_seen *seen, uint64_t id)
{
        if (!id || infp_seen_has(seen, id))
                return;
        if (seen->n >= seen->cap / 4 * 3)
                grow(seen);
        put(seen->slots, seen->cap, id);
        seen->n++;
}

void infp_seen_turn(struct infp_seen *seen, uint64_t now_ns)
{
        if (!seen->forgot_ns)
                seen->forgot_ns = now_ns;
        if (now_ns < seen->forgot_ns + FORGET_S * INFP_NS_PER_S)
                return;
        seen->forgot_ns = now_ns;
        forget(seen);
}
