/* SGLang (--enable-metrics). Token counters of requests move when a request ends; realtime_tokens_total moves at once. */
#include "collectors/engine/alias/alias.h"

// clang-format off
static const struct infp_engine_alias lines[] = {
        ALIAS("sglang:num_running_reqs", CELL(RUNNING)),
        ALIAS("sglang:num_queue_reqs", CELL(WAITING)),
        ALIAS("sglang:num_grammar_queue_reqs", CELL(WAITING)),
        /* num_retracted_reqs is a gauge of the last batch. */
        ALIAS("sglang:num_retracted_requests_total", CELL(PREEMPTIONS)),
        ALIAS("sglang:token_usage", CELL(KV_USAGE), MAX),
        ALIAS("sglang:num_used_tokens", CELL(KV_TOKENS)),
        ALIAS("sglang:kv_used_tokens", CELL(KV_TOKENS), RANK(1)),
        ALIAS("sglang:max_total_num_tokens", CELL(KV_TOKENS_MAX)),
        ALIAS("sglang:realtime_tokens_total", CELL(PREFIX_HITS), WHERE("mode", "prefill_cache")),
        ALIAS("sglang:cached_tokens_total", CELL(PREFIX_HITS), RANK(1)),
        ALIAS("sglang:realtime_tokens_total", CELL(PREFIX_QUERIES), WHERE("mode", "prefill_cache")),
        ALIAS("sglang:realtime_tokens_total", CELL(PREFIX_QUERIES), WHERE("mode", "prefill_compute")),
        ALIAS("sglang:prompt_tokens_total", CELL(PREFIX_QUERIES), RANK(1)),
        ALIAS("sglang:cache_hit_rate", CELL(PREFIX_RATIO), MAX),
        ALIAS("sglang:num_requests_total", CELL(FINISHED)),
        ALIAS("sglang:num_aborted_requests_total", CELL(ABORTED)),
        ALIAS("sglang:prompt_tokens_total", CELL(PROMPT)),
        ALIAS("sglang:generation_tokens_total", CELL(GENERATION)),
        ALIAS("sglang:realtime_tokens_total", CELL(LIVE), WHERE("mode", "decode")),
        ALIAS("sglang:cached_tokens_total", CELL(PROMPT_CACHED)),
        HISTOGRAM("sglang:time_to_first_token_seconds", TTFT, "latency_ttft_s"),
        HISTOGRAM("sglang:e2e_request_latency_seconds", E2E, "latency_e2e_s"),
        HISTOGRAM("sglang:queue_time_seconds", QUEUE, "latency_queue_s"),
        HISTOGRAM("sglang:inter_token_latency_seconds", INTER_TOKEN, "latency_inter_token_s"),
        HISTOGRAM("sglang:time_per_output_token_seconds", TPOT, "latency_tpot_s"),
        HISTOGRAM("sglang:prompt_tokens_histogram", SIZE_PROMPT, "req_size_prompt_tokens"),
        HISTOGRAM("sglang:generation_tokens_histogram", SIZE_GENERATION, "req_size_generation_tokens"),
        HISTOGRAM("sglang:num_retractions", REQ_PREEMPTIONS, "req_preemptions"),
        ALIAS("sglang:spec_accept_length", CELL(SPEC_LENGTH), MAX),
        ALIAS("sglang:spec_accept_rate", CELL(SPEC_RATIO), MAX),
        ALIAS("sglang:gen_throughput", CELL(GENERATION_RATE)),
};
// clang-format on

const struct infp_engine_alias_table infp_engine_alias_sglang = { lines, INFP_COUNT(lines) };
