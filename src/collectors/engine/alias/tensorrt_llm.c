/* TensorRT-LLM's trtllm-serve (return_perf_metrics); "trtllm:" of Dynamo is the same. Its cache counts blocks, not tokens. */
#include "collectors/engine/alias/alias.h"

// clang-format off
static const struct infp_engine_alias lines[] = {
        ALIAS("trtllm_num_requests_running", CELL(RUNNING)),
        ALIAS("trtllm_num_requests_waiting", CELL(WAITING)),
        ALIAS("trtllm_max_num_active_requests", CELL(SLOTS)),
        ALIAS("trtllm_kv_cache_utilization", CELL(KV_USAGE), MAX),
        ALIAS("trtllm_kv_cache_host_utilization", CELL(KV_CPU_USAGE), MAX),
        ALIAS("trtllm_kv_cache_hit_rate", CELL(PREFIX_RATIO), MAX),
        ALIAS("trtllm_kv_cache_reused_blocks_total", CELL(BLOCKS_REUSED)),
        ALIAS("trtllm_kv_cache_missed_blocks_total", CELL(BLOCKS_MISSED)),
        ALIAS("trtllm_request_success_total", CELL(FINISHED)),
        ALIAS("trtllm_num_requests_completed_total", CELL(FINISHED), RANK(1)),
        ALIAS("trtllm_request_success_total", CELL(STOPPED), WHERE("finished_reason", "stop")),
        ALIAS("trtllm_request_success_total", CELL(LENGTH), WHERE("finished_reason", "length")),
        ALIAS("trtllm_request_success_total", CELL(ABORTED), WHERE("finished_reason", "cancelled")),
        ALIAS("trtllm_request_error_total", CELL(ERRORED)),
        ALIAS("trtllm_prompt_tokens_total", CELL(PROMPT)),
        ALIAS("trtllm_generation_tokens_total", CELL(GENERATION)),
        ALIAS("trtllm_prompt_cached_tokens_total", CELL(PROMPT_CACHED)),
        HISTOGRAM("trtllm_time_to_first_token_seconds", TTFT, "latency_ttft_s"),
        HISTOGRAM("trtllm_e2e_request_latency_seconds", E2E, "latency_e2e_s"),
        HISTOGRAM("trtllm_request_queue_time_seconds", QUEUE, "latency_queue_s"),
        HISTOGRAM("trtllm_request_inference_time_seconds", INFERENCE, "latency_inference_s"),
        HISTOGRAM("trtllm_request_prefill_time_seconds", PREFILL, "latency_prefill_s"),
        HISTOGRAM("trtllm_request_decode_time_seconds", DECODE, "latency_decode_s"),
        HISTOGRAM("trtllm_time_per_output_token_seconds", TPOT, "latency_tpot_s"),
        ALIAS("trtllm_spec_decode_num_draft_tokens_total", CELL(SPEC_DRAFT_TOKENS)),
        ALIAS("trtllm_spec_decode_num_accepted_tokens_total", CELL(SPEC_ACCEPTED)),
        ALIAS("trtllm_spec_decode_acceptance_length", CELL(SPEC_LENGTH), MAX),
};
// clang-format on

const struct infp_engine_alias_table infp_engine_alias_tensorrt_llm = { lines, INFP_COUNT(lines) };
