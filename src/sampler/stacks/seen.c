#include "sampler/stacks/seen.h"

#include "base/time.h"

enum { MOST = 3 << 17, FORGET_S = 300 };

void infp_seen_init(struct infp_seen *seen)
{
        *seen = (struct infp_seen){ .forgot_ns = 0 };
        infp_ids_init(&seen->ids, MOST);
}

void infp_seen_done(struct infp_seen *seen)
{
        infp_ids_done(&seen->ids);
}

void infp_seen_add(struct infp_seen *seen, uint64_t id)
{
        if (!id || infp_ids_add(&seen->ids, id) >= 0)
                return;
        infp_ids_clear(&seen->ids);
        infp_ids_add(&seen->ids, id);
}

void infp_seen_turn(struct infp_seen *seen, uint64_t now_ns)
{
        if (!seen->forgot_ns)
                seen->forgot_ns = now_ns;
        if (now_ns < seen->forgot_ns + FORGET_S * INFP_NS_PER_S)
                return;
        seen->forgot_ns = now_ns;
        infp_ids_clear(&seen->ids);
}
