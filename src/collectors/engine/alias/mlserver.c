/* MLServer: requests, not tokens. Its HTTP server counts probes as well, so only the paths of inference are taken. */
#include "collectors/engine/alias/alias.h"

#define INFER WHERE("path", "/v2/models/{model_name}/infer")
#define INFER_VERSION WHERE("path", "/v2/models/{model_name}/versions/{model_version}/infer")

// clang-format off
static const struct infp_engine_alias lines[] = {
        ALIAS("rest_server_requests_in_progress", CELL(RUNNING), WHERE("method", "POST")),
        ALIAS("model_infer_request_success_total", CELL(FINISHED)),
        ALIAS("model_infer_request_failure_total", CELL(FINISHED)),
        ALIAS("model_infer_request_failure_total", CELL(ERRORED)),
        HISTOGRAM("rest_server_request_duration_seconds", E2E, "latency_e2e_s", INFER),
        HISTOGRAM("rest_server_request_duration_seconds", E2E, "latency_e2e_s", INFER_VERSION),
        /* A summary with nothing but sum and count. */
        ALIAS("model_infer_request_duration_sum", CELL(INFERENCE_SUM), .stem = "latency_inference_s"),
        ALIAS("model_infer_request_duration_count", CELL(INFERENCE_COUNT), .stem = "latency_inference_s"),
};
// clang-format on

const struct infp_engine_alias_table infp_engine_alias_mlserver = { lines, INFP_COUNT(lines) };
