/* The makes of engines, what each calls its series, and which cell of `vllm` a sample feeds. Data first, then the look-up. */
#include <string.h>

#include "base/mem.h"
#include "collectors/engine/engine.h"
#include "collectors/engine/vllm.h"

// clang-format off
#define CELL(cell_) .cell = INFP_VLLM_##cell_
#define MAX .join = INFP_ENGINE_MAX
#define RANK(rank_) .rank = (rank_)
#define OF(share_) .share = INFP_ENGINE_##share_
#define FACTOR(factor_) .factor = (factor_)
#define WHERE(label_, value_) .label = (label_), .value = (value_)
#define ALIAS(series_, ...) { .series = (series_), .size = sizeof(series_) - 1, __VA_ARGS__ }
/* A histogram or summary: buckets or quantiles, sum, count. */
#define HISTOGRAM(series_, cell_, stem_, ...)                                                              \
        ALIAS(series_ "_bucket", .cell = -1, .stem = (stem_), __VA_ARGS__),                                \
        ALIAS(series_ "_sum", .cell = INFP_VLLM_##cell_##_SUM, .stem = (stem_), __VA_ARGS__),              \
        ALIAS(series_ "_count", .cell = INFP_VLLM_##cell_##_COUNT, .stem = (stem_), __VA_ARGS__)
/* Times in milliseconds: the sum becomes seconds, the count stays. */
#define HISTOGRAM_MS(series_, cell_, stem_, ...)                                                           \
        ALIAS(series_ "_bucket", .cell = -1, .stem = (stem_), __VA_ARGS__),                                \
        ALIAS(series_ "_sum", .cell = INFP_VLLM_##cell_##_SUM, .stem = (stem_), FACTOR(1e-3), __VA_ARGS__),\
        ALIAS(series_ "_count", .cell = INFP_VLLM_##cell_##_COUNT, .stem = (stem_), __VA_ARGS__)
/* Ray gives counters twice, with and without _total: the latter counts where the former is missing. */
enum { WITHOUT_TOTAL = 1 };
#define COUNTER(series_, cell_, rank_, ...)                                                                \
        ALIAS(series_ "_total", CELL(cell_), RANK(2 * (rank_)), __VA_ARGS__),                              \
        ALIAS(series_, CELL(cell_), RANK(2 * (rank_) + WITHOUT_TOTAL), __VA_ARGS__)

/* vLLM: the current names, those of V1 before 0.11, those of V0. Rank 0 is the current name. */
static const struct infp_engine_alias vllm_lines[] = {
        ALIAS("vllm:num_requests_running", CELL(RUNNING)),
        ALIAS("vllm:num_requests_waiting", CELL(WAITING)),
        ALIAS("vllm:num_requests_waiting_by_reason", CELL(WAITING_CAPACITY), WHERE("reason", "capacity")),
        ALIAS("vllm:num_requests_waiting_by_reason", CELL(WAITING_DEFERRED), WHERE("reason", "deferred")),
        ALIAS("vllm:num_requests_swapped", CELL(SWAPPED)),
        /* One series per state, 1 for the current one; that of `awake` adds nothing. */
        ALIAS("vllm:engine_sleep_state", CELL(SLEEP), WHERE("sleep_state", "weights_offloaded"), MAX),
        ALIAS("vllm:engine_sleep_state", CELL(SLEEP), WHERE("sleep_state", "discard_all"), MAX, FACTOR(2)),
        COUNTER("vllm:num_preemptions", PREEMPTIONS, 0),
        ALIAS("vllm:kv_cache_usage_perc", CELL(KV_USAGE), MAX),
        ALIAS("vllm:gpu_cache_usage_perc", CELL(KV_USAGE), MAX, RANK(4)),
        ALIAS("vllm:cpu_cache_usage_perc", CELL(KV_CPU_USAGE), MAX),
        COUNTER("vllm:prefix_cache_hits", PREFIX_HITS, 0),
        COUNTER("vllm:gpu_prefix_cache_hits", PREFIX_HITS, 2),
        COUNTER("vllm:prefix_cache_queries", PREFIX_QUERIES, 0),
        COUNTER("vllm:gpu_prefix_cache_queries", PREFIX_QUERIES, 2),
        ALIAS("vllm:gpu_prefix_cache_hit_rate", CELL(PREFIX_RATIO), MAX),
        COUNTER("vllm:external_prefix_cache_hits", EXTERNAL_HITS, 0),
        COUNTER("vllm:external_prefix_cache_queries", EXTERNAL_QUERIES, 0),
        COUNTER("vllm:mm_cache_hits", MULTIMODAL_HITS, 0),
        COUNTER("vllm:mm_cache_queries", MULTIMODAL_QUERIES, 0),
        ALIAS("http_requests_total", CELL(RECEIVED), WHERE("method", "POST")),
        COUNTER("vllm:request_success", FINISHED, 0),
        COUNTER("vllm:request_success", STOPPED, 0, WHERE("finished_reason", "stop")),
        COUNTER("vllm:request_success", LENGTH, 0, WHERE("finished_reason", "length")),
        COUNTER("vllm:request_success", ABORTED, 0, WHERE("finished_reason", "abort")),
        COUNTER("vllm:request_success", ERRORED, 0, WHERE("finished_reason", "error")),
        COUNTER("vllm:request_success", REPETITION, 0, WHERE("finished_reason", "repetition")),
        COUNTER("vllm:corrupted_requests", CORRUPTED, 0),
        COUNTER("vllm:admission_rejections", REJECTED, 0),
        COUNTER("vllm:prompt_tokens", PROMPT, 0),
        COUNTER("vllm:generation_tokens", GENERATION, 0),
        COUNTER("vllm:prompt_tokens_cached", PROMPT_CACHED, 0),
        COUNTER("vllm:prompt_tokens_by_source", PROMPT_TRANSFERRED, 0, WHERE("source", "external_kv_transfer")),
        HISTOGRAM("vllm:time_to_first_token_seconds", TTFT, "latency_ttft_s"),
        HISTOGRAM("vllm:e2e_request_latency_seconds", E2E, "latency_e2e_s"),
        HISTOGRAM("vllm:request_queue_time_seconds", QUEUE, "latency_queue_s"),
        HISTOGRAM("vllm:request_inference_time_seconds", INFERENCE, "latency_inference_s"),
        HISTOGRAM("vllm:request_prefill_time_seconds", PREFILL, "latency_prefill_s"),
        HISTOGRAM("vllm:request_decode_time_seconds", DECODE, "latency_decode_s"),
        HISTOGRAM("vllm:inter_token_latency_seconds", INTER_TOKEN, "latency_inter_token_s"),
        HISTOGRAM("vllm:time_per_output_token_seconds", INTER_TOKEN, "latency_inter_token_s", RANK(4)),
        HISTOGRAM("vllm:request_time_per_output_token_seconds", TPOT, "latency_tpot_s"),
        HISTOGRAM_MS("vllm:model_execute_time_milliseconds", STEP, "latency_step_ms"),
        /* A histogram whose name ends in _total. */
        HISTOGRAM("vllm:iteration_tokens_total", STEP_TOKENS, "tokens_per_step"),
        ALIAS("vllm:iteration_tokens_total_count", CELL(STEPS)),
        HISTOGRAM("vllm:request_prompt_tokens", SIZE_PROMPT, "req_size_prompt_tokens"),
        HISTOGRAM("vllm:request_generation_tokens", SIZE_GENERATION, "req_size_generation_tokens"),
        HISTOGRAM("vllm:request_prefill_kv_computed_tokens", SIZE_COMPUTED, "req_size_prefill_computed_tokens"),
        HISTOGRAM("vllm:request_max_num_generation_tokens", SIZE_MAX, "req_size_max_generation_tokens"),
        HISTOGRAM("vllm:request_params_max_tokens", PARAM_MAX, "request_params_max_tokens"),
        HISTOGRAM("vllm:request_params_n", PARAM_N, "request_params_n"),
        HISTOGRAM("vllm:request_num_preemptions", REQ_PREEMPTIONS, "req_preemptions"),
        COUNTER("vllm:spec_decode_num_drafts", SPEC_DRAFTS, 0),
        COUNTER("vllm:spec_decode_num_draft_tokens", SPEC_DRAFT_TOKENS, 0),
        COUNTER("vllm:spec_decode_num_accepted_tokens", SPEC_ACCEPTED, 0),
        ALIAS("vllm:spec_decode_draft_acceptance_rate", CELL(SPEC_RATIO), MAX),
        ALIAS("vllm:avg_prompt_throughput_toks_per_s", CELL(PROMPT_RATE)),
        ALIAS("vllm:avg_generation_throughput_toks_per_s", CELL(GENERATION_RATE)),
};

/* SGLang (--enable-metrics). Token counters of requests move when a request ends; realtime_tokens_total moves at once. */
static const struct infp_engine_alias sglang_lines[] = {
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

/* Text Generation Inference: no _total, no unit in names; tokens only as histograms of finished requests; no time to the first
 * token. */
static const struct infp_engine_alias tgi_lines[] = {
        ALIAS("tgi_batch_current_size", CELL(RUNNING)),
        ALIAS("tgi_queue_size", CELL(WAITING)),
        ALIAS("tgi_request_count", CELL(RECEIVED)),
        ALIAS("tgi_request_success", CELL(FINISHED)),
        ALIAS("tgi_request_failure", CELL(FINISHED)),
        ALIAS("tgi_request_failure", CELL(ERRORED)),
        ALIAS("tgi_request_input_length_sum", CELL(PROMPT)),
        ALIAS("tgi_request_generated_tokens_sum", CELL(GENERATION)),
        HISTOGRAM("tgi_request_duration", E2E, "latency_e2e_s"),
        HISTOGRAM("tgi_request_queue_duration", QUEUE, "latency_queue_s"),
        HISTOGRAM("tgi_request_inference_duration", INFERENCE, "latency_inference_s"),
        HISTOGRAM("tgi_request_mean_time_per_token_duration", TPOT, "latency_tpot_s"),
        HISTOGRAM("tgi_batch_forward_duration", STEP, "latency_step_s"),
        ALIAS("tgi_batch_inference_count", CELL(STEPS)),
        HISTOGRAM("tgi_request_input_length", SIZE_PROMPT, "req_size_prompt_tokens"),
        HISTOGRAM("tgi_request_generated_tokens", SIZE_GENERATION, "req_size_generation_tokens"),
        HISTOGRAM("tgi_request_max_new_tokens", PARAM_MAX, "request_params_max_tokens"),
        ALIAS("tgi_request_skipped_tokens_sum", CELL(SPEC_ACCEPTED)),
};

/* llama.cpp's llama-server --metrics: no labels, no histograms. Token counters and seconds move when a request ends,
 * n_decode_total at each step. Its prompt_tokens_total leaves out cached tokens (fields.c adds them). */
static const struct infp_engine_alias llamacpp_lines[] = {
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

/* Triton: counters without _total, times in microseconds. Means are durations by successful requests, as in its manual.
 * Tokens are known only to the TensorRT-LLM backend (nv_trt_llm_*). OF: of ensembles or of their steps (page.c). */
static const struct infp_engine_alias triton_lines[] = {
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

/* TensorRT-LLM's trtllm-serve (return_perf_metrics); "trtllm:" of Dynamo is the same. Its cache counts blocks, not tokens. */
static const struct infp_engine_alias tensorrt_llm_lines[] = {
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

/* LMDeploy (--enable-metrics): vLLM's names of its time. Its generation_tokens_total may count each token twice; fields.c
 * finds out by request_generation_tokens_sum. */
static const struct infp_engine_alias lmdeploy_lines[] = {
        ALIAS("lmdeploy:num_requests_running", CELL(RUNNING)),
        ALIAS("lmdeploy:num_requests_waiting", CELL(WAITING)),
        ALIAS("lmdeploy:gpu_cache_usage_perc", CELL(KV_USAGE), MAX),
        ALIAS("lmdeploy:request_success_total", CELL(FINISHED)),
        /* This version has no counter of requests: each finished one is in this histogram once. */
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

/* Ray Serve: requests, not tokens; times in milliseconds; a page that lags by up to 10 s. A vLLM that it hosts is on the same
 * page (ray_vllm_...) and comes first, so ranks begin after vLLM's. */
enum {
        HTTP = 20,
        DEPLOYMENT = 22
}; /* the proxies' view, else the replicas' (a request may pass several deployments) */

static const struct infp_engine_alias ray_serve_lines[] = {
        ALIAS("ray_serve_replica_processing_queries", CELL(RUNNING), RANK(HTTP)),
        ALIAS("ray_serve_num_ongoing_http_requests", CELL(RUNNING), RANK(DEPLOYMENT)),
        ALIAS("ray_serve_deployment_queued_queries", CELL(WAITING), RANK(HTTP)),
        COUNTER("ray_serve_num_http_requests", FINISHED, HTTP / 2),
        COUNTER("ray_serve_deployment_request_counter", FINISHED, DEPLOYMENT / 2),
        COUNTER("ray_serve_num_http_error_requests", ERRORED, HTTP / 2),
        COUNTER("ray_serve_deployment_error_counter", ERRORED, DEPLOYMENT / 2),
        HISTOGRAM_MS("ray_serve_http_request_latency_ms", E2E, "latency_e2e_ms", RANK(HTTP)),
        HISTOGRAM_MS("ray_serve_deployment_queuing_latency_ms", QUEUE, "latency_queue_ms", RANK(HTTP)),
        HISTOGRAM_MS("ray_serve_request_router_fulfillment_time_ms", QUEUE, "latency_queue_ms", RANK(DEPLOYMENT)),
        HISTOGRAM_MS("ray_serve_deployment_processing_latency_ms", INFERENCE, "latency_inference_ms", RANK(HTTP)),
        HISTOGRAM_MS("ray_serve_replica_processing_latency_ms", INFERENCE, "latency_inference_ms", RANK(DEPLOYMENT)),
        HISTOGRAM_MS("ray_serve_batch_execution_time_ms", STEP, "latency_step_ms", RANK(HTTP)),
        /* Its sum is no count of requests in steps: Ray adds bucket middles (17 batches of 19.5 requests). */
        ALIAS("ray_serve_actual_batch_size_count", CELL(STEPS), RANK(HTTP)),
};

/* MLServer: requests, not tokens. Its HTTP server counts probes, too, so only the paths of inference are used. */
#define INFER WHERE("path", "/v2/models/{model_name}/infer")
#define INFER_VERSION WHERE("path", "/v2/models/{model_name}/versions/{model_version}/infer")

static const struct infp_engine_alias mlserver_lines[] = {
        ALIAS("rest_server_requests_in_progress", CELL(RUNNING), WHERE("method", "POST")),
        ALIAS("model_infer_request_success_total", CELL(FINISHED)),
        ALIAS("model_infer_request_failure_total", CELL(FINISHED)),
        ALIAS("model_infer_request_failure_total", CELL(ERRORED)),
        HISTOGRAM("rest_server_request_duration_seconds", E2E, "latency_e2e_s", INFER),
        HISTOGRAM("rest_server_request_duration_seconds", E2E, "latency_e2e_s", INFER_VERSION),
        /* A summary with only sum and count. */
        ALIAS("model_infer_request_duration_sum", CELL(INFERENCE_SUM), .stem = "latency_inference_s"),
        ALIAS("model_infer_request_duration_count", CELL(INFERENCE_COUNT), .stem = "latency_inference_s"),
};

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define NO_WORDS ((const char *const[]){ NULL })

const struct infp_engine_make_info infp_engine_makes[INFP_ENGINE_N] = {
        [INFP_ENGINE_UNKNOWN] = { .name = "", .prefixes = NO_WORDS, .commands = NO_WORDS, .port_flags = NO_WORDS, .path = "/metrics" },
        [INFP_ENGINE_VLLM] = {
                .name = "vllm",
                .prefixes = WORDS("vllm:", "vllm_", "ray_vllm_", "kserve_vllm:", "kserve_vllm_"),
                .commands = WORDS("vllm.entrypoints", "vllm serve"),
                .port_flags = WORDS("--port"), .port = 8000, .path = "/metrics",
        },
        [INFP_ENGINE_SGLANG] = {
                .name = "sglang", .prefixes = WORDS("sglang:", "sglang_"),
                .commands = WORDS("sglang.launch_server", "sglang serve"),
                .port_flags = WORDS("--port"), .port = 30000, .path = "/metrics", .metrics_flag = "--enable-metrics",
        },
        [INFP_ENGINE_TGI] = {
                .name = "tgi", .prefixes = WORDS("tgi_"),
                .commands = WORDS("text-generation-launcher", "text-generation-router"),
                .port_flags = WORDS("--port", "-p"), .port = 3000, .path = "/metrics",
        },
        [INFP_ENGINE_LLAMACPP] = {
                .name = "llamacpp", .prefixes = WORDS("llamacpp:"),
                .commands = WORDS("llama-server", "llama-server-vulkan"),
                .port_flags = WORDS("--port"), .port = 8080, .path = "/metrics", .metrics_flag = "--metrics",
                .prefix_flag = "--api-prefix", .sleep_flag = "--sleep-idle-seconds", .sleep_page = "/props",
        },
        [INFP_ENGINE_TRITON] = {
                .name = "triton", .prefixes = WORDS("nv_inference_", "nv_trt_llm_", "nv_cache_"),
                .commands = WORDS("tritonserver"),
                .port_flags = WORDS("--metrics-port"), .port = 8002, .path = "/metrics",
        },
        [INFP_ENGINE_TENSORRT_LLM] = {
                .name = "tensorrt_llm", .prefixes = WORDS("trtllm_", "trtllm:"),
                .commands = WORDS("trtllm-serve"),
                .port_flags = WORDS("--port"), .port = 8000, .path = "/prometheus/metrics",
        },
        [INFP_ENGINE_LMDEPLOY] = {
                .name = "lmdeploy", .prefixes = WORDS("lmdeploy:", "lmdeploy_"),
                .commands = WORDS("lmdeploy serve api_server"),
                .port_flags = WORDS("--server-port"), .port = 23333, .path = "/metrics", .metrics_flag = "--enable-metrics",
        },
        /* Ray chooses its port, which is on no command line of the server. */
        [INFP_ENGINE_RAY_SERVE] = { .name = "ray_serve", .prefixes = WORDS("ray_serve_"), .commands = NO_WORDS, .port_flags = NO_WORDS, .path = "/metrics" },
        [INFP_ENGINE_MLSERVER] = {
                .name = "mlserver", .prefixes = WORDS("model_infer_request_", "rest_server_request"),
                .commands = WORDS("mlserver start"),
                .port_flags = NO_WORDS, .port = 8082, .path = "/metrics",
        },
        /* No release has a metrics page: OLLAMA_METRICS is a proposal. */
        [INFP_ENGINE_OLLAMA] = {
                .name = "ollama", .prefixes = WORDS("ollama_"), .commands = WORDS("ollama serve"),
                .port_flags = NO_WORDS, .port = 11434, .path = "/metrics",
        },
};

static const struct alias_table {
        const struct infp_engine_alias *at;
        size_t n;
} tables[INFP_ENGINE_N] = {
#define LINES(make_) { make_##_lines, INFP_COUNT(make_##_lines) }
        [INFP_ENGINE_VLLM] = LINES(vllm),
        [INFP_ENGINE_SGLANG] = LINES(sglang),
        [INFP_ENGINE_TGI] = LINES(tgi),
        [INFP_ENGINE_LLAMACPP] = LINES(llamacpp),
        [INFP_ENGINE_TRITON] = LINES(triton),
        [INFP_ENGINE_TENSORRT_LLM] = LINES(tensorrt_llm),
        [INFP_ENGINE_LMDEPLOY] = LINES(lmdeploy),
        [INFP_ENGINE_RAY_SERVE] = LINES(ray_serve),
        [INFP_ENGINE_MLSERVER] = LINES(mlserver),
};
// clang-format on

const struct infp_engine_alias *infp_engine_aliases(enum infp_engine_make make, size_t *ret_n)
{
        *ret_n = tables[make].n;
        return tables[make].at;
}

static bool begins(const char *s, size_t size, const char *prefix)
{
        size_t n = strlen(prefix);

        return size >= n && memcmp(s, prefix, n) == 0;
}

enum infp_engine_make infp_engine_make_of(const char *series, size_t size)
{
        for (enum infp_engine_make make = INFP_ENGINE_VLLM; make < INFP_ENGINE_N; make++) {
                for (const char *const *prefix = infp_engine_makes[make].prefixes; *prefix; prefix++) {
                        if (begins(series, size, *prefix))
                                return make;
                }
        }
        return INFP_ENGINE_UNKNOWN;
}

/* Prefixes of other programs: Ray's before the names of its guests, llm-d's and KServe's before vLLM's. */
static void skip_wrapping(const char **name, size_t *size)
{
        static const char *const wrapping[] = { "ray_vllm", "kserve_vllm" };

        for (size_t i = 0; i < INFP_COUNT(wrapping); i++) {
                size_t n = strlen(wrapping[i]) - strlen("vllm");

                if (begins(*name, *size, wrapping[i])) {
                        *name += n;
                        *size -= n;
                }
        }
}

/* Systems that allow no colon in names write '_' after the make; Dynamo once wrote a colon there. */
static bool is_name(const struct infp_engine_alias *alias, const char *name, size_t size)
{
        size_t make = strcspn(alias->series, ":_");

        if (alias->size != size || memcmp(alias->series, name, make) != 0)
                return false;
        return make == size || ((name[make] == ':' || name[make] == '_') &&
                                memcmp(alias->series + make + 1, name + make + 1, size - make - 1) == 0);
}

static const struct infp_prom_label *label_of(const struct infp_prom_sample *sample, const char *name)
{
        size_t n = strlen(name);

        for (unsigned i = 0; i < sample->n_labels; i++) {
                const struct infp_prom_text *t = &sample->labels[i].name;

                if (t->size == n && memcmp(t->at, name, n) == 0)
                        return &sample->labels[i];
        }
        return NULL;
}

static bool label_is(const struct infp_prom_sample *sample, const char *name, const char *value)
{
        const struct infp_prom_label *l = label_of(sample, name);

        return l && l->value.size == strlen(value) && memcmp(l->value.at, value, l->value.size) == 0;
}

/* With --enable-metrics-for-all-schedulers each tensor parallel rank of SGLang reports the same requests. Where ranks have
 * requests of their own (data parallel attention) there is a label dp_rank. */
static bool is_repeated(enum infp_engine_make make, const struct infp_prom_sample *sample)
{
        if (make != INFP_ENGINE_SGLANG || label_of(sample, "dp_rank"))
                return false;
        return (label_of(sample, "tp_rank") && !label_is(sample, "tp_rank", "0")) ||
               (label_of(sample, "pp_rank") && !label_is(sample, "pp_rank", "0"));
}

static size_t find(const struct alias_table *table, const struct infp_prom_sample *sample,
                   const struct infp_engine_alias *ret[INFP_ENGINE_FEEDS])
{
        const char *name = sample->name.at;
        size_t size = sample->name.size, n = 0;

        skip_wrapping(&name, &size);
        /* bound: a unit test counts the lines of each series */
        for (size_t i = 0; i < table->n && n < INFP_ENGINE_FEEDS; i++) {
                const struct infp_engine_alias *alias = &table->at[i];

                if (is_name(alias, name, size) && (!alias->label || label_is(sample, alias->label, alias->value)))
                        ret[n++] = alias;
        }
        return n;
}

size_t infp_engine_alias_find(enum infp_engine_make make, const struct infp_prom_sample *sample,
                              const struct infp_engine_alias *ret[INFP_ENGINE_FEEDS])
{
        enum infp_engine_make other;
        size_t n;

        if (sample->part == INFP_PROM_CREATED || !tables[make].n || is_repeated(make, sample))
                return 0;
        n = find(&tables[make], sample, ret);
        if (n || !begins(sample->name.at, sample->name.size, "ray_"))
                return n;
        /* A page of Ray holds the metrics of all that runs on the node: of Serve and of a vLLM that it hosts. */
        other = infp_engine_make_of(sample->name.at, sample->name.size);
        return find(&tables[other], sample, ret);
}

bool infp_engine_alias_is_of(const struct infp_engine_alias *alias, enum infp_engine_share share)
{
        return alias->share == INFP_ENGINE_ALL || share == INFP_ENGINE_ALL || alias->share == share;
}

const char *infp_engine_alias_metric(const struct infp_engine_alias *const *feeds, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (feeds[i]->stem)
                        return feeds[i]->stem;
        }
        if (!n || feeds[0]->cell < 0)
                return NULL;
        return infp_table_column(&infp_table_vllm, INFP_FIXED_COLUMNS + (unsigned) feeds[0]->cell)->name;
}
