/* LMDeploy (--enable-metrics): vLLM's names of its time. Its generation_tokens_total may count each token twice; collectors/engine/fields.c
 * finds out by request_generation_tokens_sum. */
#include "collectors/engine/alias/alias.h"

// clang-format off
static const struct infp_engine_alias lines[] = {
        ALIAS("lmdeploy:num_requests_running", CELL(RUNNING)),
        ALIAS("lmdeploy:num_requests_waiting", CELL(WAITING)),
        ALIAS("lmdeploy:gpu_cache_usage_perc", CELL(KV_USAGE), MAX),
        ALIAS("lmdeploy:request_success_total", CELL(FINISHED)),
        /* No counter of requests in the version that was read: each finished one is in this histogram once. */
        ALIAS("lmdeploy:e2e_request_latency_seconds_count", CELL(FINISHED), RANK(1)),
        ALIAS("lmdeploy:prompt_tokens_total", CELL(PROMPT)),
        ALIAS("lmdeploy:generation_tokens_total", CELL(GENERATION)),
        HISTOGRAM("lmdeploy:time_to_first_token_seconds", TTFT, "latency_ttft_s"),
        HISTOGRAM("lmdeploy:e2e_request_latency_seconds", E2E, "latency_e2e_s"),
        HISTOGRAM("lmdeploy:request_queue_time_seconds", QUEUE, "latency_queue_s"),
        HISTOGRAM("lmdeploy:request_inference_time_seconds", INFERENCE, "latency_inference_s"),
        HISTOGRAM("lmdeploy:request_prefill_time_seconds", PREFILL, "latency_prefill_s"),
        HISTOGRAM("lmdeploy:request_decode_time_seconds", DECODE, "latency_decode_s"),
        HISTOGRAM("lmdeploy:time_per_output_token_seconds", INTER_TOKEN, "latency_inter_token_s"),
        HISTOGRAM("lmdeploy:iteration_tokens_total", STEP_TOKENS, "tokens_per_step"),
        ALIAS("lmdeploy:iteration_tokens_total_count", CELL(STEPS)),
        HISTOGRAM("lmdeploy:request_prompt_tokens", SIZE_PROMPT, "req_size_prompt_tokens"),
        HISTOGRAM("lmdeploy:request_generation_tokens", SIZE_GENERATION, "req_size_generation_tokens"),
};
// clang-format on

const struct infp_engine_alias_table infp_engine_alias_lmdeploy = { lines, INFP_COUNT(lines) };
