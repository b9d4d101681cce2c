/* llama.cpp adds the tokens of a request to its counters when the request ends. What moves in between is made here. */
#pragma once

#include "collectors/engine/engine.h"

/* What the page says: tokens of finished requests, n_decode_total, slot-steps, accepted tokens of drafts (0 where the page has
 * none). Sets live->total, which never falls but when the engine began anew, and live->steps likewise. */
struct infp_engine_live_page {
        double finished, decodes, steps, accepted;
};
void infp_engine_live_page(struct infp_engine_live *live, const struct infp_engine_live_page *page);
