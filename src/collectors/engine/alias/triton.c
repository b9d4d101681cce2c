/* Triton: counters without _total, times in microseconds. Means are durations by successful requests, as its manual says. Tokens
 * are known only to the TensorRT-LLM backend (nv_trt_llm_*). OF: of ensembles or of their steps (collectors/engine/models.c). */
#include "collectors/engine/alias/alias.h"

// clang-format off
static const struct infp_engine_alias lines[] = {
        ALIAS("nv_trt_llm_request_metrics", CELL(RUNNING), WHERE("request_type", "active")),
        ALIAS("nv_trt_llm_request_metrics", CELL(WAITING), WHERE("request_type", "waiting")),
        ALIAS("nv_inference_pending_request_count", CELL(WAITING), RANK(1)),
        ALIAS("nv_trt_llm_request_metrics", CELL(SLOTS), WHERE("request_type", "max")),
        ALIAS("nv_trt_llm_kv_cache_block_metrics", CELL(KV_USAGE), WHERE("kv_cache_block_type", "fraction"), MAX),
        ALIAS("nv_cache_num_hits_per_model", CELL(RESPONSE_HITS)),
        ALIAS("nv_cache_num_misses_per_model", CELL(RESPONSE_MISSES)),
        ALIAS("nv_inference_request_success", CELL(FINISHED), OF(WHOLE)),
        ALIAS("nv_inference_request_failure", CELL(FINISHED), OF(WHOLE)),
        ALIAS("nv_inference_request_failure", CELL(ERRORED), OF(WHOLE)),
        ALIAS("nv_inference_request_duration_us", CELL(E2E_SUM), OF(WHOLE), FACTOR(1e-6)),
        ALIAS("nv_inference_request_success", CELL(E2E_COUNT), OF(WHOLE)),
        ALIAS("nv_inference_queue_duration_us", CELL(QUEUE_SUM), OF(PARTS), FACTOR(1e-6)),
        ALIAS("nv_inference_request_success", CELL(QUEUE_COUNT), OF(WHOLE)),
        /* Requests that a cache answered are in none of these three, so there is no count for them. */
        ALIAS("nv_inference_compute_input_duration_us", CELL(INFERENCE_SUM), OF(PARTS), FACTOR(1e-6)),
        ALIAS("nv_inference_compute_infer_duration_us", CELL(INFERENCE_SUM), OF(PARTS), FACTOR(1e-6)),
        ALIAS("nv_inference_compute_output_duration_us", CELL(INFERENCE_SUM), OF(PARTS), FACTOR(1e-6)),
        HISTOGRAM_MS("nv_inference_first_response_histogram_ms", TTFT, "latency_ttft_ms", OF(WHOLE)),
        ALIAS("nv_inference_exec_count", CELL(STEPS), OF(PARTS)),
        ALIAS("nv_inference_count", CELL(SLOT_STEPS), OF(PARTS)),
};
// clang-format on

const struct infp_engine_alias_table infp_engine_alias_triton = { lines, INFP_COUNT(lines) };
