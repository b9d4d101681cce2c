/* infprof.h: marks, spans, counters and gauges of a program, on the clock of the recording that watches it.
 *
 * C99 and C++11, no dependency beyond libc. Link with -linfprof (pkg-config infprof), with libinfprof.a, or define INFP_LAZY
 * before the include: the program then loads libinfprof.so when it runs, and without it every call does nothing.
 *
 * A process records when INFPROF_RING is set in its environment (`infprof record` does that for its whole tree) or after
 * infp_enable(). Otherwise each call is one load and one branch, and there is no file. No call allocates from the heap, fails,
 * aborts or waits (except the first calls of several threads, and registering: milliseconds, while another thread does the same):
 * what does not fit is dropped and counted, and the recording reports the count. All calls may be made from any
 * thread. From a signal handler they are safe; a call that interrupts another one of its thread is dropped and counted.
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

#ifdef INFP_LAZY
#define INFP_API static inline
#elif !defined(INFP_API)
#define INFP_API __attribute__((visibility("default")))
#endif

/* A running span: a value that the caller owns, valid in any thread. All zero: no span; every call accepts it and does nothing. */
typedef struct infp_span {
        uint64_t id, parent, begin_ns;
        uint32_t name_at, name_size; /* of the library: where the name lies */
        uint32_t tid;
        uint32_t flags;
} infp_span;

/* A counter or gauge, registered once and valid until the process ends; every call accepts NULL. */
typedef struct infp_metric infp_metric;

/* A table that infprof knows, of schema `python` (docs/metrics.md), registered once and valid until the process ends; every call
 * accepts NULL. */
typedef struct infp_table infp_table;
enum {
        INFP_CELL_NONE = 0,
        INFP_CELL_INT,
        INFP_CELL_DOUBLE,
        INFP_CELL_TEXT,
        INFP_CELL_TEXT_ONCE /* one that will not come again, as a value: it takes no room among the names */
};
typedef struct infp_table_cell {
        uint32_t type; /* NONE, and TEXT with NULL: the cell has no value */
        uint32_t unused;
        union {
                int64_t i;
                double d;
                const char *text;
        } value;
} infp_cell;

/* A setting that `infprof config PID key=value` changes while the program runs, registered once and valid until the process ends; every
 * call accepts NULL. */
typedef struct infp_setting infp_setting;
enum { INFP_SETTING_BYTES = 64 }; /* of a value, with its end */

/* Starts recording in this process, also without INFPROF_RING. Returns 0, or -errno if the file cannot be created (-ENOSPC, -EACCES ...). */
INFP_API int infp_enable(void);
INFP_API void infp_disable(void);     /* stops; the file stays until the process ends */
INFP_API int infp_is_recording(void); /* 1 or 0: whether to build a long text at all */
INFP_API uint64_t infp_now_ns(void);  /* the clock of all records */

/* A tag on the time line: table `marks`, source "api". `report --from TAG --to TAG` and the HTML page show the part between two marks. */
INFP_API void infp_mark(const char *tag);

/* A span of this thread: child of the thread's innermost one, and innermost until its end. */
INFP_API infp_span infp_span_begin(const char *name);
/* A span that belongs to no thread: child of `parent` (NULL: none), may end in any thread: a request, a batch. */
INFP_API infp_span infp_span_start(const char *name, const infp_span *parent);
/* Ends either kind, once; a second end does nothing. Inner spans of the thread that are still open are ended first. */
INFP_API void infp_span_end(infp_span *span);
INFP_API void infp_span_fail(infp_span *span, const char *error); /* ends it as failed, with attribute error.type */
/* The span's id, for logs and other processes: a child there has a parent with only this id set. */
INFP_API uint64_t infp_span_id(const infp_span *span);

/* Attributes, before the end. Keys: OpenTelemetry's where it has one (INFP_GEN_AI_... below). */
INFP_API void infp_span_text(const infp_span *span, const char *key, const char *value);
INFP_API void infp_span_int(const infp_span *span, const char *key, int64_t value);
INFP_API void infp_span_double(const infp_span *span, const char *key, double value);
INFP_API void infp_span_bool(const infp_span *span, const char *key, int value);

/* Table `counters`. The same name gives the same metric; unit in UCUM's or plain words ("tokens", "By", "s"), help may be NULL.
 * NULL when there is no room (1,024 metrics). A counter only grows: negative amounts and NaN are refused and counted. */
INFP_API infp_metric *infp_counter(const char *name, const char *unit, const char *help);
INFP_API infp_metric *infp_gauge(const char *name, const char *unit, const char *help);
INFP_API void infp_add(infp_metric *metric, double amount);
INFP_API void infp_set(infp_metric *metric, double value); /* gauges */

/* One more step (iteration, batch, token) of this process: counter "step". Returns its number, from 1; 0 when not recording. */
INFP_API uint64_t infp_step(void);

/* Name of this thread in tables and pictures; the kernel's own name (prctl) stays. */
INFP_API void infp_thread_name(const char *name);

/* columns: the names of those that rows will have, separated by blanks, in the order of their cells, 32 at most. Names that the infprof
 * which reads does not know are left out there, and counted. The same names give the same table; NULL when there is no room (64). */
INFP_API infp_table *infp_table_open(const char *name, const char *columns);
/* t_ns: when it was, 0: now. Cells beyond the columns are left out; an integer may stand where the column has real numbers, and no
 * other kind of value where it does not belong. When nobody reads, the oldest rows are overwritten. */
INFP_API void infp_row(infp_table *table, uint64_t t_ns, const infp_cell *cells, size_t n);

/* Settings of the program's own, beside those of the ring (`recording`, `ring.bytes`, `ring.records`), which the library obeys by itself at
 * its next call. key: as "torch.profiling", at most 31 bytes; value: what it is now; may_be: what it may be, in words, at most 95 bytes.
 * The same key gives the same setting; NULL when there is no room (7). Not from signal handlers. */
INFP_API infp_setting *infp_setting_open(const char *key, const char *value, const char *may_be);
/* Another number than before: somebody has asked for values. A few loads, for where the program comes by often. */
INFP_API uint32_t infp_settings_asked(void);
/* 1: this value is asked for (printable ASCII, into ret), and was not answered yet. 0: none. */
INFP_API int infp_setting_asked(infp_setting *setting, char *ret, size_t cap);
INFP_API void infp_setting_is(infp_setting *setting, const char *value,
                              const char *source); /* source: environment, program, config */
INFP_API void infp_setting_answer(infp_setting *setting,
                                  const char *refused); /* NULL: what was asked for is done; else why not */

#ifdef INFP_LAZY
/* The library is loaded before main; each function then calls it, or does nothing. Needs -ldl before glibc 2.34. */
#include <dlfcn.h>
#include <string.h>

#ifdef __cplusplus
#define INFP_NULL_ nullptr
#else
#define INFP_NULL_ NULL
#endif
#ifndef INFP_LAZY_LIBRARY
#define INFP_LAZY_LIBRARY "libinfprof.so.1"
#endif

struct infp_lazy_ {
        int is_there; /* 1: all that follows is set; -1: the library is absent */
        int (*enable_)(void);
        void (*disable_)(void);
        int (*is_recording_)(void);
        uint64_t (*now_ns_)(void);
        void (*mark_)(const char *);
        infp_span (*span_begin_)(const char *);
        infp_span (*span_start_)(const char *, const infp_span *);
        void (*span_end_)(infp_span *);
        void (*span_fail_)(infp_span *, const char *);
        uint64_t (*span_id_)(const infp_span *);
        void (*span_text_)(const infp_span *, const char *, const char *);
        void (*span_int_)(const infp_span *, const char *, int64_t);
        void (*span_double_)(const infp_span *, const char *, double);
        void (*span_bool_)(const infp_span *, const char *, int);
        infp_metric *(*counter_)(const char *, const char *, const char *);
        infp_metric *(*gauge_)(const char *, const char *, const char *);
        void (*add_)(infp_metric *, double);
        void (*set_)(infp_metric *, double);
        uint64_t (*step_)(void);
        void (*thread_name_)(const char *);
        /* NULL: the library is older than these. */
        infp_table *(*table_open_)(const char *, const char *);
        void (*row_)(infp_table *, uint64_t, const infp_cell *, size_t);
        infp_setting *(*setting_open_)(const char *, const char *, const char *);
        uint32_t (*settings_asked_)(void);
        int (*setting_asked_)(infp_setting *, char *, size_t);
        void (*setting_is_)(infp_setting *, const char *, const char *);
        void (*setting_answer_)(infp_setting *, const char *);
};
/* One for the program, shared by all its files. */
extern struct infp_lazy_ infp_lazy_table_;
__attribute__((weak, visibility("hidden"))) struct infp_lazy_ infp_lazy_table_;

static inline int infp_lazy_find_(void *library, const char *name, void *to)
{
        void *found = dlsym(library, name);

        memcpy(to, &found, sizeof found);
        return found ? 1 : 0;
}

__attribute__((constructor)) static void infp_lazy_load_(void)
{
        struct infp_lazy_ *t = &infp_lazy_table_;
        void *library;

        if (t->is_there)
                return;
        t->is_there = -1;
        library = dlopen(INFP_LAZY_LIBRARY, RTLD_NOW | RTLD_LOCAL);
#define INFP_FIND_(name) infp_lazy_find_(library, "infp_" #name, &t->name##_)
        if (library && INFP_FIND_(enable) && INFP_FIND_(disable) && INFP_FIND_(is_recording) && INFP_FIND_(now_ns) &&
            INFP_FIND_(mark) && INFP_FIND_(span_begin) && INFP_FIND_(span_start) && INFP_FIND_(span_end) &&
            INFP_FIND_(span_fail) && INFP_FIND_(span_id) && INFP_FIND_(span_text) && INFP_FIND_(span_int) &&
            INFP_FIND_(span_double) && INFP_FIND_(span_bool) && INFP_FIND_(counter) && INFP_FIND_(gauge) &&
            INFP_FIND_(add) && INFP_FIND_(set) && INFP_FIND_(step) && INFP_FIND_(thread_name)) {
                t->is_there = 1;
                (void) (INFP_FIND_(table_open) && INFP_FIND_(row));
                (void) (INFP_FIND_(setting_open) && INFP_FIND_(settings_asked) && INFP_FIND_(setting_asked) &&
                        INFP_FIND_(setting_is) && INFP_FIND_(setting_answer));
        }
#undef INFP_FIND_
}

static inline int infp_enable(void)
{
        return infp_lazy_table_.is_there > 0 ? infp_lazy_table_.enable_() : -2 /* ENOENT */;
}
static inline void infp_disable(void)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.disable_();
}
static inline int infp_is_recording(void)
{
        return infp_lazy_table_.is_there > 0 ? infp_lazy_table_.is_recording_() : 0;
}
static inline uint64_t infp_now_ns(void)
{
        return infp_lazy_table_.is_there > 0 ? infp_lazy_table_.now_ns_() : 0;
}
static inline void infp_mark(const char *tag)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.mark_(tag);
}
static inline infp_span infp_span_begin(const char *name)
{
        infp_span none = { 0, 0, 0, 0, 0, 0, 0 };

        return infp_lazy_table_.is_there > 0 ? infp_lazy_table_.span_begin_(name) : none;
}
static inline infp_span infp_span_start(const char *name, const infp_span *parent)
{
        infp_span none = { 0, 0, 0, 0, 0, 0, 0 };

        return infp_lazy_table_.is_there > 0 ? infp_lazy_table_.span_start_(name, parent) : none;
}
static inline void infp_span_end(infp_span *span)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.span_end_(span);
}
static inline void infp_span_fail(infp_span *span, const char *error)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.span_fail_(span, error);
}
static inline uint64_t infp_span_id(const infp_span *span)
{
        return infp_lazy_table_.is_there > 0 ? infp_lazy_table_.span_id_(span) : 0;
}
static inline void infp_span_text(const infp_span *span, const char *key, const char *value)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.span_text_(span, key, value);
}
static inline void infp_span_int(const infp_span *span, const char *key, int64_t value)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.span_int_(span, key, value);
}
static inline void infp_span_double(const infp_span *span, const char *key, double value)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.span_double_(span, key, value);
}
static inline void infp_span_bool(const infp_span *span, const char *key, int value)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.span_bool_(span, key, value);
}
static inline infp_metric *infp_counter(const char *name, const char *unit, const char *help)
{
        return infp_lazy_table_.is_there > 0 ? infp_lazy_table_.counter_(name, unit, help) : INFP_NULL_;
}
static inline infp_metric *infp_gauge(const char *name, const char *unit, const char *help)
{
        return infp_lazy_table_.is_there > 0 ? infp_lazy_table_.gauge_(name, unit, help) : INFP_NULL_;
}
static inline void infp_add(infp_metric *metric, double amount)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.add_(metric, amount);
}
static inline void infp_set(infp_metric *metric, double value)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.set_(metric, value);
}
static inline uint64_t infp_step(void)
{
        return infp_lazy_table_.is_there > 0 ? infp_lazy_table_.step_() : 0;
}
static inline void infp_thread_name(const char *name)
{
        if (infp_lazy_table_.is_there > 0)
                infp_lazy_table_.thread_name_(name);
}
static inline infp_table *infp_table_open(const char *name, const char *columns)
{
        return infp_lazy_table_.row_ ? infp_lazy_table_.table_open_(name, columns) : INFP_NULL_;
}
static inline void infp_row(infp_table *table, uint64_t t_ns, const infp_cell *cells, size_t n)
{
        if (infp_lazy_table_.row_)
                infp_lazy_table_.row_(table, t_ns, cells, n);
}
static inline infp_setting *infp_setting_open(const char *key, const char *value, const char *may_be)
{
        return infp_lazy_table_.setting_answer_ ? infp_lazy_table_.setting_open_(key, value, may_be) : INFP_NULL_;
}
static inline uint32_t infp_settings_asked(void)
{
        return infp_lazy_table_.setting_answer_ ? infp_lazy_table_.settings_asked_() : 0;
}
static inline int infp_setting_asked(infp_setting *setting, char *ret, size_t cap)
{
        return infp_lazy_table_.setting_answer_ ? infp_lazy_table_.setting_asked_(setting, ret, cap) : 0;
}
static inline void infp_setting_is(infp_setting *setting, const char *value, const char *source)
{
        if (infp_lazy_table_.setting_answer_)
                infp_lazy_table_.setting_is_(setting, value, source);
}
static inline void infp_setting_answer(infp_setting *setting, const char *refused)
{
        if (infp_lazy_table_.setting_answer_)
                infp_lazy_table_.setting_answer_(setting, refused);
}
#endif /* INFP_LAZY */

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

#ifdef __cplusplus
/* C++: spans that end with their block, detached ones that move with their owner. */
namespace infprof
{
class span
{
      public:
        explicit span(const char *name) noexcept : span_(infp_span_begin(name))
        {
        }
        ~span()
        {
                infp_span_end(&span_);
        }
        span(const span &) = delete;
        span &operator=(const span &) = delete;

        void text(const char *key, const char *value) noexcept
        {
                infp_span_text(&span_, key, value);
        }
        void integer(const char *key, int64_t value) noexcept
        {
                infp_span_int(&span_, key, value);
        }
        void number(const char *key, double value) noexcept
        {
                infp_span_double(&span_, key, value);
        }
        void boolean(const char *key, bool value) noexcept
        {
                infp_span_bool(&span_, key, value);
        }
        void end() noexcept
        {
                infp_span_end(&span_);
        }
        void fail(const char *error) noexcept
        {
                infp_span_fail(&span_, error);
        }
        uint64_t id() const noexcept
        {
                return infp_span_id(&span_);
        }
        const infp_span *get() const noexcept
        {
                return &span_;
        }

      protected:
        explicit span(const infp_span &from) noexcept : span_(from)
        {
        }
        infp_span release() noexcept
        {
                infp_span released = span_;

                span_.id = 0;
                return released;
        }
        infp_span span_;
};

/* Of no thread: a request, a batch. */
class detached_span : public span
{
      public:
        explicit detached_span(const char *name, const infp_span *parent = nullptr) noexcept
            : span(infp_span_start(name, parent))
        {
        }
        detached_span(detached_span &&other) noexcept : span(other.release())
        {
        }
        detached_span &operator=(detached_span &&other) noexcept
        {
                if (this != &other) {
                        infp_span_end(&span_);
                        span_ = other.release();
                }
                return *this;
        }
};
} /* namespace infprof */
#endif

#endif
