#include "base/ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_CAP = 64 };

void infp_ids_init(struct infp_ids *ids, size_t max)
{
        *ids = (struct infp_ids){ .max = max };
}

void infp_ids_done(struct infp_ids *ids)
{
        free(ids->slots);
        *ids = (struct infp_ids){ 0 };
}

void infp_ids_clear(struct infp_ids *ids)
{
        if (ids->slots)
                memset(ids->slots, 0, ids->cap * sizeof(*ids->slots));
        ids->n = 0;
}

static int grow(struct infp_ids *ids)
{
        size_t cap = ids->cap ? 2 * ids->cap : MIN_CAP;
        uint64_t *slots = calloc(cap, sizeof(*slots));

        if (!slots)
                return -ENOMEM;
        for (size_t i = 0; i < ids->cap; i++)
                if (ids->slots[i])
                        *infp_ids_slot(slots, cap, ids->slots[i]) = ids->slots[i];
        free(ids->slots);
        ids->slots = slots;
        ids->cap = cap;
        return 0;
}

int infp_ids_add(struct infp_ids *ids, uint64_t id)
{
        uint64_t *slot = ids->cap ? infp_ids_slot(ids->slots, ids->cap, id) : NULL;

        if (slot && *slot)
                return 0;
        if (ids->n >= ids->max)
                return -ENOSPC;
        if (!slot || ids->n >= ids->cap / 4 * 3) {
                int r = grow(ids);

                if (r < 0)
                        return r;
                slot = infp_ids_slot(ids->slots, ids->cap, id);
        }
        *slot = id;
        ids->n++;
        return 1;
}
