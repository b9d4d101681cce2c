/* Text Generation Inference: no _total, no unit in names; tokens only as histograms of finished requests; no time to the first
 * token. */
#include "collectors/engine/alias/alias.h"

// clang-format off
static const struct infp_engine_alias lines[] = {
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
// clang-format on

const struct infp_engine_alias_table infp_engine_alias_tgi = { lines, INFP_COUNT(lines) };
