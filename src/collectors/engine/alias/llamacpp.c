/* llama.cpp's llama-server --metrics: no labels, no histograms. Token counters and seconds move when a request ends, n_decode_total
 * at each step. Its prompt_tokens_total leaves out what came from the cache (collectors/engine/fields.c adds it). */
#include "collectors/engine/alias/alias.h"

// clang-format off
static const struct infp_engine_alias lines[] = {
        ALIAS("llamacpp:requests_processing", CELL(RUNNING)),
        ALIAS("llamacpp:requests_deferred", CELL(WAITING)),
        ALIAS("llamacpp:kv_cache_usage_ratio", CELL(KV_USAGE), MAX), /* older builds */
        ALIAS("llamacpp:kv_cache_tokens", CELL(KV_TOKENS)),          /* older builds */
        ALIAS("llamacpp:prompt_tokens_cached_total", CELL(PREFIX_HITS)),
        ALIAS("llamacpp:prompt_tokens_total", CELL(PROMPT)),
        ALIAS("llamacpp:tokens_predicted_total", CELL(GENERATION)),
        ALIAS("llamacpp:prompt_tokens_cached_total", CELL(PROMPT_CACHED)),
        ALIAS("llamacpp:prompt_seconds_total", CELL(PREFILL_SUM)),
        ALIAS("llamacpp:tokens_predicted_seconds_total", CELL(DECODE_SUM)),
        ALIAS("llamacpp:n_decode_total", CELL(STEPS)),
        ALIAS("llamacpp:n_busy_slots_per_decode", CELL(BATCH)),
        ALIAS("llamacpp:spec_decode_num_drafts_total", CELL(SPEC_DRAFTS)),
        ALIAS("llamacpp:spec_decode_num_draft_tokens_total", CELL(SPEC_DRAFT_TOKENS)),
        ALIAS("llamacpp:spec_decode_num_accepted_tokens_total", CELL(SPEC_ACCEPTED)),
        ALIAS("llamacpp:prompt_tokens_seconds", CELL(PROMPT_SPEED)),
        ALIAS("llamacpp:predicted_tokens_seconds", CELL(GENERATION_SPEED)),
};
// clang-format on

const struct infp_engine_alias_table infp_engine_alias_llamacpp = { lines, INFP_COUNT(lines) };
