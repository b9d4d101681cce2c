/* Ray Serve: requests, not tokens; times in milliseconds; a page that lags by up to 10 s. A vLLM that it hosts is on the same
 * page (ray_vllm_...): what that says goes first, so ranks begin after those of vllm.c. */
#include "collectors/engine/alias/alias.h"

enum {
        HTTP = 20,
        DEPLOYMENT = 22
}; /* the proxies' view, else the replicas' (a request may pass several deployments) */

// clang-format off
static const struct infp_engine_alias lines[] = {
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
        /* Not its sum as requests in steps: Ray adds bucket middles (17 batches of 19.5 requests). */
        ALIAS("ray_serve_actual_batch_size_count", CELL(STEPS), RANK(HTTP)),
};
// clang-format on

const struct infp_engine_alias_table infp_engine_alias_ray_serve = { lines, INFP_COUNT(lines) };
