/* infprof.h: marks, spans, counters and gauges of a program, on the clock of the recording that watches it.
 *
 * C99 and C++11, no dependency beyond libc. Link with -linfprof (pkg-config infprof), with libinfprof.a, or define INFP_LAZY
 * before the include: then libinfprof.so is looked for when the program runs, and without it every call does nothing.
 *
 * A process records when INFPROF_RING is set in its environment (`infprof record` does that for its whole tree) or after
 * infp_enable(). Otherwise each call is one load and one branch, and there is no file. No call blocks, allocates from the heap,
 * fails or aborts: what finds no room is dropped and counted; the recording says how many. All calls may be made from any
 * thread; from a signal handler they are safe, and dropped (counted) when they interrupt one of their own thread.
 * After fork the child records into a file of its own. Texts are UTF-8, copied at the call, at most about 1,900 bytes (cut).
 * NULL for a text is the empty text. Times are CLOCK_MONOTONIC, in nanoseconds. */
#ifndef INFPROF_H
#define INFPROF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define INFP_API_VERSION 1

#ifndef INFP_API
#define INFP_API __attribute__((visibility("default")))
#endif

/* A running span: a value of the caller's, valid in any thread. All zero: no span; every call takes it and does nothing. */
typedef struct infp_span {
        uint64_t id, parent, begin_ns;
        uint32_t name_at, name_size; /* of the library: where the name lies */
        uint32_t tid;
        uint32_t flags;
} infp_span;

/* A counter or gauge, registered once and valid until the process ends; NULL is taken by every call. */
typedef struct infp_metric infp_metric;

/* Starts recording in this process, also without INFPROF_RING. 0, or -errno of why no file could be made (-ENOSPC, -EACCES ...). */
INFP_API int infp_enable(void);
INFP_API void infp_disable(void);     /* stops; the file stays until the process ends */
INFP_API int infp_is_recording(void); /* 1 or 0: whether it is worth making a long text */
INFP_API uint64_t infp_now_ns(void);  /* the clock of all records */

/* A tag on the time line: table `marks`, source "api". `report --from TAG --to TAG` and the HTML page show what lies between. */
INFP_API void infp_mark(const char *tag);

/* A span of this thread: child of the thread's innermost one, and innermost until its end. */
INFP_API infp_span infp_span_begin(const char *name);
/* A span that belongs to no thread: child of `parent` (NULL: none), may end in any thread: a request, a batch. */
INFP_API infp_span infp_span_start(const char *name, const infp_span *parent);
/* Ends either kind, once; a second end does nothing. Inner spans of the thread that are still open are ended first. */
INFP_API void infp_span_end(infp_span *span);
INFP_API void infp_span_fail(infp_span *span, const char *error); /* ends it as failed, with attribute error.type */
/* The span's id goes into logs and other processes; children there: a parent with this id alone. */
INFP_API uint64_t infp_span_id(const infp_span *span);

/* Attributes, before the end. Keys: OpenTelemetry's where it has one (INFP_GEN_AI_... below). */
INFP_API void infp_span_text(const infp_span *span, const char *key, const char *value);
INFP_API void infp_span_int(const infp_span *span, const char *key, int64_t value);
INFP_API void infp_span_double(const infp_span *span, const char *key, double value);
INFP_API void infp_span_bool(const infp_span *span, const char *key, int value);

/* Table `counters`. The same name gives the same metric; unit in UCUM's or plain words ("tokens", "By", "s"), help may be NULL.
 * NULL when there is no room (1,024 metrics). A counter only grows: what is negative or no number is refused and counted. */
INFP_API infp_metric *infp_counter(const char *name, const char *unit, const char *help);
INFP_API infp_metric *infp_gauge(const char *name, const char *unit, const char *help);
INFP_API void infp_add(infp_metric *metric, double amount);
INFP_API void infp_set(infp_metric *metric, double value); /* gauges */

/* One more step (iteration, batch, token) of this process: counter "step". Returns its number, from 1; 0 when not recording. */
INFP_API uint64_t infp_step(void);

/* Name of this thread in tables and pictures; the kernel's own name (prctl) stays. */
INFP_API void infp_thread_name(const char *name);

/* OpenTelemetry's semantic conventions for generative AI. */
#define INFP_GEN_AI_OPERATION_NAME "gen_ai.operation.name" /* chat, text_completion, embeddings ... */
#define INFP_GEN_AI_PROVIDER_NAME "gen_ai.provider.name"
#define INFP_GEN_AI_REQUEST_MODEL "gen_ai.request.model"
#define INFP_GEN_AI_REQUEST_MAX_TOKENS "gen_ai.request.max_tokens"
#define INFP_GEN_AI_RESPONSE_MODEL "gen_ai.response.model"
#define INFP_GEN_AI_RESPONSE_ID "gen_ai.response.id"
#define INFP_GEN_AI_RESPONSE_FINISH_REASONS "gen_ai.response.finish_reasons"
#define INFP_GEN_AI_USAGE_INPUT_TOKENS "gen_ai.usage.input_tokens"
#define INFP_GEN_AI_USAGE_OUTPUT_TOKENS "gen_ai.usage.output_tokens"
#define INFP_SERVER_ADDRESS "server.address"
#define INFP_SERVER_PORT "server.port"
#define INFP_ERROR_TYPE "error.type"

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
