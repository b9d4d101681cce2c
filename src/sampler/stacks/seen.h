/* Ids whose entities were written. All of them are forgotten when they are many, and every few minutes, since the recorder forgets
 * entities that it was not told of for long: what is in use is then told again. */
#pragma once

#include "base/ids.h"

struct infp_seen {
        struct infp_ids ids;
        uint64_t forgot_ns;
};

void infp_seen_init(struct infp_seen *seen);
void infp_seen_done(struct infp_seen *seen);
void infp_seen_add(struct infp_seen *seen, uint64_t id);
void infp_seen_turn(struct infp_seen *seen, uint64_t now_ns);

static inline bool infp_seen_has(const struct infp_seen *seen, uint64_t id)
{
        return infp_ids_has(&seen->ids, id);
}
