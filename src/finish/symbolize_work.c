/* The child that reads files of others. Whatever happens to it, what it has written holds. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "finish/symbolize_parts.h"

enum {
        CPU_SECONDS = 60, /* for one object: reading the debug information of all of PyTorch takes a few */
        FLUSH_BYTES = 1 << 15,
};
#define MOST_MEMORY ((rlim_t) 8 << 30)

struct work {
        struct infp_naming *naming; /* our own copy: we are a child */
        int fd;
        struct infp_str out;
        struct infp_symbols *symbols;
        struct infp_kernel_symbols *kernel;
};

static void flush(struct work *w)
{
        if (w->out.failed || infp_write_all(w->fd, w->out.data, w->out.size, NULL) < 0)
                _exit(1); /* nobody listens any more */
        infp_str_clear(&w->out);
}

/* Where a message begins; its size is set at its end. */
static size_t begin(struct work *w, enum infp_naming_message_type type, uint32_t index, uint32_t n)
{
        const struct infp_naming_message message = { type, index, n, 0 };
        const size_t at = w->out.size;

        infp_str_put(&w->out, &message, sizeof(message));
        return at;
}

static void end(struct work *w, size_t at)
{
        struct infp_naming_message message;

        if (w->out.failed)
                _exit(1);
        memcpy(&message, w->out.data + at, sizeof(message));
        message.size = (uint32_t) (w->out.size - at - sizeof(message));
        memcpy(w->out.data + at, &message, sizeof(message));
        if (w->out.size >= FLUSH_BYTES)
                flush(w);
}

static void put_text(struct work *w, const char *text)
{
        infp_str_puts(&w->out, text ? text : "");
        infp_str_putc(&w->out, 0);
}

static void put_number(struct work *w, int64_t number)
{
        infp_str_i64(&w->out, number);
        infp_str_putc(&w->out, 0);
}

static void put_frame(struct work *w, uint32_t frame, const struct infp_symbol *levels, unsigned n)
{
        const size_t at = begin(w, INFP_NAMING_FRAME, frame, n);

        w->naming->frames[frame].is_done = n > 0;
        for (unsigned i = 0; i < n; i++) {
                put_text(w, levels[i].name);
                put_text(w, levels[i].mangled);
                put_text(w, levels[i].file);
                put_text(w, levels[i].from);
                put_number(w, levels[i].line);
                put_number(w, levels[i].function_line);
        }
        end(w, at);
}

static void put_problem(struct work *w, uint32_t object, int r, const char *text)
{
        const size_t at = begin(w, INFP_NAMING_PROBLEM, object, (uint32_t) -r);

        put_text(w, text);
        end(w, at);
}

/* What an object may cost, from now on; SIGXCPU ends us then. */
static void limit_cpu(void)
{
        struct rusage usage;
        struct rlimit limit;

        if (getrusage(RUSAGE_SELF, &usage) < 0 || getrlimit(RLIMIT_CPU, &limit) < 0)
                return;
        limit.rlim_cur = (rlim_t) usage.ru_utime.tv_sec + (rlim_t) usage.ru_stime.tv_sec + CPU_SECONDS;
        if (limit.rlim_max != RLIM_INFINITY && limit.rlim_cur > limit.rlim_max)
                limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_CPU, &limit);
}

static void name_kernel(struct work *w, uint32_t index, const struct infp_asked_object *object)
{
        struct infp_naming *naming = w->naming;
        struct infp_err err = { "" };
        int r = 0;

        if (!w->kernel)
                r = infp_kernel_symbols_open(naming->options->root_fd, &w->kernel, &err);
        if (r < 0) {
                put_problem(w, index, r, err.text);
                return;
        }
        for (uint32_t i = object->first; i < object->first + object->n; i++) {
                struct infp_symbol symbol;
                const bool is_found =
                        infp_kernel_symbols_at(w->kernel, naming->frames[naming->order[i]].address, &symbol, NULL);

                put_frame(w, naming->order[i], &symbol, is_found);
        }
        w->kernel = infp_kernel_symbols_free(w->kernel); /* 20 MB that the next object may want */
}

static void name_file(struct work *w, uint32_t index, const struct infp_asked_object *object)
{
        struct infp_naming *naming = w->naming;
        struct infp_symbol levels[INFP_SYMBOL_MAX_LEVELS];
        struct infp_symbols_about about;
        struct infp_err err = { "" };
        unsigned number;
        size_t at;
        int r = infp_symbols_object(w->symbols, object->path, -1, *object->build_id ? object->build_id : NULL, &number,
                                    &err);

        if (r < 0 || !infp_symbols_object_about(w->symbols, number, &about)) {
                put_problem(w, index, r < 0 ? r : -EIO, err.text);
                return;
        }
        at = begin(w, INFP_NAMING_ABOUT, index, about.has_lines);
        put_text(w, about.names);
        put_text(w, about.debug_file);
        put_text(w, about.problem);
        end(w, at);
        for (uint32_t i = object->first; i < object->first + object->n; i++) {
                const struct infp_asked_frame *frame = &naming->frames[naming->order[i]];

                if (!frame->is_done)
                        put_frame(w, naming->order[i], levels,
                                  infp_symbols_at(w->symbols, number, frame->address, levels));
        }
}

static int open_symbols(struct work *w, unsigned tries)
{
        const struct infp_symbolize_options *options = w->naming->options;

        w->symbols = infp_symbols_free(w->symbols);
        return infp_symbols_new(&(struct infp_symbols_options){ .root_fd = options->root_fd,
                                                                .debug_directories = options->debug_directories,
                                                                .ran_unix_ns = w->naming->run->info.started_unix_ns,
                                                                .no_lines = tries > 0,
                                                                .no_demangling = tries > 1 },
                                &w->symbols, NULL);
}

static void name_object(struct work *w, uint32_t index)
{
        const struct infp_asked_object *object = &w->naming->objects[index];

        end(w, begin(w, INFP_NAMING_BEGIN, index, 0));
        flush(w);
        limit_cpu();
        if (object->is_kernel)
                name_kernel(w, index, object);
        else if (open_symbols(w, object->tries) == 0) /* anew: the memory of one object at a time */
                name_file(w, index, object);
}

/* Names that the recorder took beside the recording, as the files have them. */
static void demangle_all(struct work *w)
{
        struct infp_naming *naming = w->naming;

        if (open_symbols(w, 0) < 0)
                return;
        for (uint32_t i = 0; i < naming->n_asked; i++) {
                const struct infp_asked_frame *frame = &naming->frames[naming->order[i]];
                struct infp_symbol level = { .mangled = frame->raw };

                if (!frame->raw || frame->is_done)
                        continue;
                level.from = infp_name_from(frame->raw_rank);
                if (infp_symbols_demangle(w->symbols, frame->raw, strlen(frame->raw), &level.name))
                        put_frame(w, naming->order[i], &level, 1);
        }
}

static void set_limits(void)
{
        const struct rlimit none = { 0, 0 };
        struct rlimit limit;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGXCPU, SIG_DFL);
        signal(SIGPIPE, SIG_DFL);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* whose shadow is terabytes */
        if (getrlimit(RLIMIT_DATA, &limit) == 0 && (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > MOST_MEMORY)) {
                limit.rlim_cur = MOST_MEMORY;
                setrlimit(RLIMIT_DATA, &limit);
        }
#else
        (void) limit;
#endif
}

void infp_naming_work(struct infp_naming *naming, int fd)
{
        struct work w = { .naming = naming, .fd = fd };

        set_limits();
        for (uint32_t i = 0; i < naming->n_objects; i++)
                if (naming->objects[i].n && !naming->objects[i].is_left_out)
                        name_object(&w, i);
        end(&w, begin(&w, INFP_NAMING_BEGIN, UINT32_MAX, 0));
        flush(&w);
        limit_cpu();
        demangle_all(&w);
        end(&w, begin(&w, INFP_NAMING_END, 0, 0));
        flush(&w);
        infp_symbols_free(w.symbols);
        infp_str_done(&w.out);
}
