#include "load/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/mask.h"
#include "model/tables.h"

enum { HEAD_MAX = 4 << 20, ERROR_BYTES = 1024 };

void infp_load_request_init(struct infp_load_request *request, const struct infp_load_options *options, uint64_t number,
                            uint64_t due_ns)
{
        *request = (struct infp_load_request){
                .options = options,
                .number = number,
                .due_ns = due_ns,
                .prompt_tokens = -1,
                .cached_tokens = -1,
                .output_tokens = -1,
        };
}

void infp_load_request_done(struct infp_load_request *request)
{
        infp_sse_done(&request->sse);
        infp_str_done(&request->head);
        infp_str_done(&request->server_error);
}

/* Whatever comes last counts: some servers tell the usage so far with each chunk. */
static void take_facts(struct infp_load_request *request, const struct infp_chunk *chunk)
{
        request->is_done |= chunk->is_done;
        request->has_choice |= chunk->has_choice;
        if (*chunk->finish_reason)
                memcpy(request->finish_reason, chunk->finish_reason, sizeof(request->finish_reason));
        if (chunk->prompt_tokens >= 0)
                request->prompt_tokens = chunk->prompt_tokens;
        if (chunk->cached_tokens >= 0)
                request->cached_tokens = chunk->cached_tokens;
        if (chunk->output_tokens >= 0)
                request->output_tokens = chunk->output_tokens;
}

static void take_piece(struct infp_load_request *request)
{
        if (request->n_pieces++ == 0) {
                request->first_ns = request->last_ns = request->t_ns;
                return;
        }
        const uint64_t gap = request->t_ns - request->last_ns;

        infp_log_add(&request->gaps, gap, 1);
        if (gap > request->gap_max_ns)
                request->gap_max_ns = gap;
        request->last_ns = request->t_ns;
}

static bool is_blank(const char *text, size_t size)
{
        while (size && strchr(" \t\r\n", text[size - 1]))
                size--;
        return size == 0;
}

static int take_event(void *context, const char *type, const char *data, size_t size)
{
        struct infp_load_request *request = context;
        struct infp_chunk chunk;

        /* Relays keep a long stream alive by events without data. */
        if (request->done_ns || is_blank(data, size))
                return 0;
        request->has_event = true;
        if (!strcmp(type, "error")) {
                if (!request->server_error.size)
                        infp_http_words(data, size, &request->server_error);
                return 0;
        }
        if (infp_chunk_read(data, size, &chunk) < 0) {
                request->is_garbage = true;
                if (!request->server_error.size)
                        infp_http_words(data, size, &request->server_error);
                return -EBADMSG;
        }
        take_facts(request, &chunk);
        if (chunk.is_done)
                request->done_ns = request->t_ns;
        if (chunk.is_error && !request->server_error.size)
                infp_http_words(data, size, &request->server_error);
        if (chunk.has_text)
                take_piece(request);
        return 0;
}

int infp_load_request_data(struct infp_load_request *request, const char *bytes, size_t size, uint64_t t_ns)
{
        request->t_ns = t_ns;
        if (!request->has_event && request->head.size < HEAD_MAX) {
                const size_t room = HEAD_MAX - request->head.size;

                infp_str_put(&request->head, bytes, size < room ? size : room);
        }
        return request->options->no_stream || request->done_ns
                       ? 0
                       : infp_sse_feed(&request->sse, bytes, size, take_event, request);
}

/* An answer that is no stream: one was not wanted, or the server knows none. Its tokens have no times. */
static void take_whole(struct infp_load_request *request)
{
        struct infp_chunk chunk;

        if (infp_chunk_read(request->head.data ? request->head.data : "", request->head.size, &chunk) < 0) {
                request->is_garbage = request->head.size > 0;
                return;
        }
        take_facts(request, &chunk);
        if (chunk.is_error)
                infp_http_words(request->head.data, request->head.size, &request->server_error);
        request->is_done |= chunk.has_choice;
}

/* JSON of the stream that is no event: a failing server's words. What is no error is one only where the answer has no end. */
static void take_bare(struct infp_load_request *request)
{
        const struct infp_str *bare = &request->sse.bare;
        size_t size = bare->size;
        struct infp_chunk chunk;

        if (!size || bare->failed || request->server_error.size || !(request->has_event || request->is_garbage))
                return;
        if (infp_chunk_read(bare->data, size, &chunk) < 0) {
                size = (size_t) ((const char *) memchr(bare->data, '\n', size) - bare->data);
                if (infp_chunk_read(bare->data, size, &chunk) < 0)
                        return;
        }
        if (!chunk.is_error && (request->is_done || *request->finish_reason))
                return;
        infp_http_words(bare->data, size, &request->server_error);
        request->is_garbage = false;
}

/* What a server says that gave an answer up: vLLM and SGLang when they are shut down, paused or told to, TensorRT-LLM after its
 * own limits. All other words are those of an answer that came to its end. */
static bool is_given_up(const char *finish_reason)
{
        static const char *const words[] = { "abort", "aborted", "error", "cancelled", "canceled", "timeout" };

        for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
                if (!strcasecmp(finish_reason, words[i]))
                        return true;
        return false;
}

struct verdict {
        const char *failure; /* NULL: all is well */
        char failure_text[48];
        struct infp_str error;
};

static const char *name_of(int r)
{
        switch (r) {
        case -ETIMEDOUT:
                return "timeout";
        case -ECONNREFUSED:
        case -EHOSTUNREACH:
        case -ENETUNREACH:
        case -ENOENT:
                return "refused";
        case -EBADMSG:
                return "cut";
        default:
                return "connection";
        }
}

static void judge_transfer(struct infp_load_request *request, const struct infp_http_result *result,
                           struct verdict *verdict)
{
        const char *sentence = result->error && *result->error ? result->error : strerror(-result->r);

        if (request->server_error.size && !request->is_garbage && result->status == 200) {
                verdict->failure = "server error";
                infp_str_puts(&verdict->error, request->server_error.data);
        } else if (request->is_garbage) {
                verdict->failure = "garbage";
                infp_str_puts(&verdict->error, "the stream has an event that is not a JSON object: ");
                infp_str_puts(&verdict->error, request->server_error.data ? request->server_error.data : "");
        } else {
                /* An answer that the client refuses, such as a redirect, is an answer. */
                if (result->status && result->status != 200) {
                        snprintf(verdict->failure_text, sizeof(verdict->failure_text), "http %ld", result->status);
                        verdict->failure = verdict->failure_text;
                } else
                        verdict->failure = name_of(result->r);
                infp_str_puts(&verdict->error, sentence);
        }
}

static void judge_answer(struct infp_load_request *request, const struct infp_http_result *result,
                         struct verdict *verdict)
{
        if (result->status != 200) {
                snprintf(verdict->failure_text, sizeof(verdict->failure_text), "http %ld", result->status);
                verdict->failure = verdict->failure_text;
                infp_str_printf(&verdict->error, "the server answered with status %ld", result->status);
                if (request->head.size) {
                        infp_str_puts(&verdict->error, ": ");
                        infp_http_words(request->head.data, request->head.size, &verdict->error);
                }
        } else if (request->server_error.size && !request->is_garbage) {
                verdict->failure = "server error";
                infp_str_puts(&verdict->error, request->server_error.data);
        } else if (request->is_garbage || (!request->has_choice && request->head.size)) {
                verdict->failure = "garbage";
                infp_str_puts(&verdict->error, "the answer is neither a stream of events nor a completion: ");
                infp_http_words(request->head.data ? request->head.data : "", request->head.size, &verdict->error);
        } else if (is_given_up(request->finish_reason)) {
                snprintf(verdict->failure_text, sizeof(verdict->failure_text), "finish %s", request->finish_reason);
                verdict->failure = verdict->failure_text;
                infp_str_printf(&verdict->error, "the server aborted the answer: its finish_reason is \"%s\"",
                                request->finish_reason);
        } else if (!request->is_done && !*request->finish_reason) {
                verdict->failure = "cut";
                infp_str_puts(&verdict->error, "the stream ended before its last chunk");
        }
}

static void judge(struct infp_load_request *request, const struct infp_http_result *result, const char *error,
                  struct verdict *verdict)
{
        /* What breaks after [DONE] spoils no answer. */
        const bool is_broken = result && result->r < 0 && !request->done_ns;

        if (request->is_cut_off && (!result || is_broken)) {
                verdict->failure = "cut off";
                infp_str_puts(&verdict->error, result ? "the load ended before the answer did"
                                                      : "the load ended before it could be sent");
        } else if (!result) {
                verdict->failure = "connection";
                infp_str_puts(&verdict->error, error);
        } else if (is_broken)
                judge_transfer(request, result, verdict);
        else
                judge_answer(request, result, verdict);
}

static int64_t since(const struct infp_load_request *request, uint64_t t_ns)
{
        return (int64_t) (t_ns - request->due_ns);
}

static void put_count(struct infp_row *row, unsigned cell, int64_t count)
{
        if (count >= 0)
                infp_row_i64(row, cell, count);
}

/* Of a status that is no success nothing is a token, whatever the body held. */
static void put_times(struct infp_load_request *request, const struct infp_http_result *result, struct infp_row *row)
{
        struct infp_str gaps = { 0 };

        if (result && result->sent_t_ns)
                infp_row_i64(row, INFP_REQUESTS_SEND_NS, since(request, result->sent_t_ns));
        if (!result || result->status != 200)
                return;
        put_count(row, INFP_REQUESTS_PROMPT_TOKENS, request->prompt_tokens);
        put_count(row, INFP_REQUESTS_CACHED_TOKENS, request->cached_tokens);
        put_count(row, INFP_REQUESTS_OUTPUT_TOKENS, request->output_tokens);
        if (!request->has_event)
                return;
        infp_row_i64(row, INFP_REQUESTS_CHUNKS, (int64_t) request->n_pieces);
        if (request->n_pieces) {
                infp_row_i64(row, INFP_REQUESTS_FIRST_NS, since(request, request->first_ns));
                infp_row_i64(row, INFP_REQUESTS_LAST_NS, since(request, request->last_ns));
        }
        if (request->n_pieces < 2)
                return;
        infp_row_i64(row, INFP_REQUESTS_GAP_MAX_NS, (int64_t) request->gap_max_ns);
        infp_log_put(&request->gaps, &gaps);
        if (!gaps.failed)
                infp_row_str(row, INFP_REQUESTS_GAPS, gaps.data);
        infp_str_done(&gaps);
}

bool infp_load_request_row(struct infp_load_request *request, const struct infp_http_result *result, uint64_t now_ns,
                           const char *error, struct infp_row *row)
{
        const struct infp_load_options *options = request->options;
        struct verdict verdict = { 0 };

        if (result && result->r == 0 && !options->no_stream &&
            infp_sse_end(&request->sse, take_event, request) == -EBADMSG)
                request->is_garbage = true;
        if (result && result->status == 200 && result->r == 0 && !request->has_event)
                take_whole(request);
        take_bare(request);
        judge(request, result, error, &verdict);
        infp_row_begin(row, &infp_table_requests, request->due_ns);
        infp_row_str(row, INFP_REQUESTS_SOURCE, "load");
        infp_row_str(row, INFP_REQUESTS_LOAD, options->name);
        infp_row_i64(row, INFP_REQUESTS_NUMBER, (int64_t) request->number);
        infp_row_str(row, INFP_REQUESTS_URL, options->shown_url);
        if (options->model)
                infp_row_str(row, INFP_REQUESTS_MODEL, options->model);
        infp_row_bool(row, INFP_REQUESTS_OK, !verdict.failure);
        if (result && result->status)
                infp_row_i64(row, INFP_REQUESTS_STATUS, result->status);
        if (verdict.failure)
                infp_row_str(row, INFP_REQUESTS_FAILURE, verdict.failure);
        if (verdict.error.size) { /* servers repeat the key that they refuse */
                char masked[ERROR_BYTES];

                infp_row_bytes(row, INFP_REQUESTS_ERROR, masked,
                               infp_mask_text(verdict.error.data, verdict.error.size, masked, sizeof(masked)));
        }
        if (*request->finish_reason)
                infp_row_bytes(row, INFP_REQUESTS_FINISH, request->finish_reason, strlen(request->finish_reason));
        infp_row_i64(row, INFP_REQUESTS_MAX_TOKENS, request->max_tokens);
        put_times(request, result, row);
        if (result && result->done_t_ns)
                now_ns = result->r < 0 && request->done_ns ? request->done_ns : result->done_t_ns;
        infp_row_i64(row, INFP_REQUESTS_END_NS, since(request, now_ns));
        infp_str_done(&verdict.error);
        return !verdict.failure;
}
