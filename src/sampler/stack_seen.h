/* Ids whose entities were written: a set of 64-bit hashes, bounded. It forgets all of them when it is full, and every few minutes,
 * since the recorder forgets entities that it was not told of for long: what is in use is then told again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct infp_seen {
        uint64_t *slots; /* 0: free */
        uint32_t cap, n;
        uint64_t forgot_ns;
};

int infp_seen_init(struct infp_seen *seen);
void infp_seen_done(struct infp_seen *seen);
void infp_seen_add(struct infp_seen *seen, uint64_t id);
void infp_seen_turn(struct infp_seen *seen, uint64_t now_ns);

static inline bool infp_seen_has(const struct infp_seen *seen, uint64_t id)
{
        for (uint32_t i = (uint32_t) id & (seen->cap - 1);; i = (i + 1) & (seen->cap - 1)) {
                if (seen->slots[i] == id)
                        return true;
                if (!seen->slots[i])
                        return false;
        }
}
