/* One sample of every source, now, kept in a tail: what `snapshot` and `doctor` show. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "collect/env.h"
#include "model/last.h"

struct infp_one_shot {
        struct infp_env env;
        struct infp_sink *tail;
        struct infp_last last;
        int64_t unix_ms;
        bool is_hung; /* a source has not returned: its thread may still use env */
};

/* root: "/" for this machine, else a copy of one. settings: ended by a NULL name, borrowed. all: every process. What a source
 * lacks is in table `sources`; only a root that is not a directory fails. */
int infp_one_shot_take(const char *root, const struct infp_setting *settings, bool all, struct infp_one_shot *ret,
                       struct infp_err *err);
void infp_one_shot_done(struct infp_one_shot *shot);
