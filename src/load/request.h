/* One request from its start to its row. */
#pragma once

#include "fetch/http.h"
#include "load/chunk.h"
#include "load/load.h"
#include "load/sse.h"
#include "model/log_histogram.h"

struct infp_load_request {
        const struct infp_load_options *options;
        struct infp_load_request *next, *previous; /* of those in flight */
        struct infp_http_transfer *transfer;
        uint64_t number, due_ns;
        int64_t max_tokens;
        bool is_cut_off; /* by us: the load ended */

        struct infp_sse sse;
        struct infp_str
                head; /* beginning of the body, as long as no event has come: errors, answers that are no stream */
        bool has_event, is_done, has_choice, is_garbage;
        uint64_t done_ns;             /* when [DONE] came: nothing after it counts; 0: it has not */
        struct infp_str server_error; /* an error object within the stream */
        char finish_reason[32];
        int64_t prompt_tokens, cached_tokens, output_tokens;
        uint64_t t_ns; /* of the bytes that are being read */
        uint64_t first_ns, last_ns, n_pieces, gap_max_ns;
        struct infp_log_histogram gaps;
};

void infp_load_request_init(struct infp_load_request *request, const struct infp_load_options *options, uint64_t number,
                            uint64_t due_ns);
void infp_load_request_done(struct infp_load_request *request);

/* Bytes of the body that were read at t_ns. Non-zero: no use to read on, the transfer is to end with it. */
int infp_load_request_data(struct infp_load_request *request, const char *bytes, size_t size, uint64_t t_ns);

/* The row of a request that has ended; row has text memory. result: NULL when it was never sent (with the reason in `error`).
 * Returns whether all is well. */
bool infp_load_request_row(struct infp_load_request *request, const struct infp_http_result *result, uint64_t now_ns,
                           const char *error, struct infp_row *row);
