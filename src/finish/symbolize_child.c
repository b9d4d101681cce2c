/* Names of code are read in a child of its own, since a hostile file can crash its reader. */
#include "finish/symbolize_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/notice.h"
#include "base/time.h"

enum {
        CPU_SECONDS = 60, /* for one object: reading the debug information of all of PyTorch takes a few */
        FLUSH_BYTES = 1 << 15,
};
#define MOST_MEMORY ((rlim_t) 8 << 30)

/* A message of a child: this, then `size` bytes. */
enum message_type { INFP_NAMING_BEGIN = 1, INFP_NAMING_ABOUT, INFP_NAMING_PROBLEM, INFP_NAMING_FRAME, INFP_NAMING_END };
struct message {
        uint32_t type, index; /* of the object, or of the frame */
        uint32_t n;           /* levels of the frame; has_lines; errno of the problem */
        uint32_t
                size; /* texts, each with a 0 after it ("" for none); of a level 5: name, mangled, file, from, and lines */
};

/* The child that reads foreign files. Whatever happens to it, what it has written is valid. */
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
                _exit(1); /* the parent is gone */
        infp_str_clear(&w->out);
}

/* Where a message begins; its size is set at its end. */
static size_t begin(struct work *w, enum message_type type, uint32_t index, uint32_t n)
{
        const struct message message = { type, index, n, 0 };
        const size_t at = w->out.size;

        infp_str_put(&w->out, &message, sizeof(message));
        return at;
}

static void end(struct work *w, size_t at)
{
        struct message message;

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

/* Limits the CPU time of an object from now on; SIGXCPU ends the child. */
static void limit_cpu(const struct infp_naming *naming)
{
        struct rusage usage;
        struct rlimit limit;

        if (getrusage(RUSAGE_SELF, &usage) < 0 || getrlimit(RLIMIT_CPU, &limit) < 0)
                return;
        limit.rlim_cur = (rlim_t) usage.ru_utime.tv_sec + (rlim_t) usage.ru_stime.tv_sec +
                         (naming->cpu_seconds ? naming->cpu_seconds : CPU_SECONDS);
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
        w->kernel = infp_kernel_symbols_free(w->kernel); /* 20 MB that the next object may need */
}

static void name_file(struct work *w, uint32_t index, const struct infp_asked_object *object)
{
        struct infp_naming *naming = w->naming;
        struct infp_symbol levels[INFP_SYMBOL_MAX_LEVELS];
        struct infp_symbols_about about;
        struct infp_err err = { "" };
        unsigned number;
        size_t at;
        int r = infp_symbols_object(w->symbols, object->path, object->fd, *object->build_id ? object->build_id : NULL,
                                    &number, &err);

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
        return infp_symbols_new(
                &(struct infp_symbols_options){ .root_fd = options->root_fd,
                                                .debug_directories = options->debug_directories,
                                                .ran_unix_ns = w->naming->run ? w->naming->run->info.started_unix_ns
                                                                              : w->naming->ran_unix_ns,
                                                .no_lines = tries > 0,
                                                .no_demangling = tries > 1 },
                &w->symbols, NULL);
}

static void name_object(struct work *w, uint32_t index)
{
        const struct infp_asked_object *object = &w->naming->objects[index];

        end(w, begin(w, INFP_NAMING_BEGIN, index, 0));
        flush(w);
        limit_cpu(w->naming);
        if (object->is_kernel)
                name_kernel(w, index, object);
        else if (open_symbols(w, object->tries) == 0) /* reopened for each, to hold one object in memory at a time */
                name_file(w, index, object);
}

/* Demangles names that the recorder took from files as they were. */
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

static void work(struct infp_naming *naming, int fd)
{
        struct work w = { .naming = naming, .fd = fd };

        set_limits();
        if (naming->nice)
                setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + naming->nice);
        for (uint32_t i = 0; i < naming->n_objects; i++)
                if (naming->objects[i].n && !naming->objects[i].is_left_out)
                        name_object(&w, i);
        end(&w, begin(&w, INFP_NAMING_BEGIN, UINT32_MAX, 0));
        flush(&w);
        limit_cpu(naming);
        demangle_all(&w);
        end(&w, begin(&w, INFP_NAMING_END, 0, 0));
        flush(&w);
        infp_symbols_free(w.symbols);
        infp_str_done(&w.out);
}

enum {
        PATIENCE_MS = 120000, /* for a message: the CPU limit ends busy children, this those that wait for a disk */
        MOST_MESSAGE = 64 << 20,
        MOST_TRIES = 3, /* with lines, without, without demangling */
        MOST_DEATHS = 64,
};

/* The parent takes what the child reports, and goes on without the file that the child died of. */
static int start(struct infp_naming_child *c, struct infp_err *err)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return infp_fail_errno(err, -errno, "cannot start the reader of symbols");
        c->pid = fork();
        if (c->pid == 0) {
                infp_close(fds[0]);
                work(c->naming, fds[1]);
                _exit(0);
        }
        infp_close(fds[1]);
        c->fd = fds[0];
        if (c->pid < 0) {
                const int r = -errno;

                c->fd = infp_close(c->fd);
                return infp_fail_errno(err, r, "cannot start the reader of symbols");
        }
        return 0;
}

/* The next text of a message; NULL: there is none. */
static const char *next_text(const char **at, const char *end)
{
        const char *text = *at, *zero = text < end ? memchr(text, 0, (size_t) (end - text)) : NULL;

        if (!zero)
                return NULL;
        *at = zero + 1;
        return text;
}

static bool next_number(const char **at, const char *end, int64_t *ret)
{
        const char *text = next_text(at, end);

        if (text)
                *ret = strtoll(text, NULL, 10);
        return text != NULL;
}

static const char *or_null(const char *text)
{
        return *text ? text : NULL;
}

static int take_frame(struct infp_naming_child *c, const struct message *m, const char *at, const char *end,
                      struct infp_err *err)
{
        struct infp_symbol levels[INFP_SYMBOL_MAX_LEVELS];

        if (m->index >= c->naming->n_frames || m->n > INFP_SYMBOL_MAX_LEVELS)
                return -EBADMSG;
        for (unsigned i = 0; i < m->n; i++) {
                const char *name = next_text(&at, end), *mangled = next_text(&at, end), *file = next_text(&at, end),
                           *from = next_text(&at, end);

                levels[i] = (struct infp_symbol){ .name = name };
                if (!name || !mangled || !file || !from || !next_number(&at, end, &levels[i].line) ||
                    !next_number(&at, end, &levels[i].function_line))
                        return -EBADMSG;
                levels[i].mangled = or_null(mangled);
                levels[i].file = or_null(file);
                levels[i].from = from;
        }
        return c->naming->take ? c->naming->take(c->naming->take_context, m->index, levels, m->n, err)
                               : infp_naming_put(c->naming, m->index, levels, m->n, err);
}

static char *copy(const char *text)
{
        return text && *text ? strdup(text) : NULL;
}

static int take_about(struct infp_asked_object *object, const struct message *m, const char *at, const char *end)
{
        const char *names = next_text(&at, end), *debug_file = next_text(&at, end), *problem = next_text(&at, end);

        if (!problem)
                return -EBADMSG;
        free(object->names);
        free(object->debug_file);
        object->names = copy(names);
        object->debug_file = copy(debug_file);
        object->has_lines = m->n != 0;
        if (*problem && !object->problem)
                object->problem = copy(problem);
        return 0;
}

static int take(struct infp_naming_child *c, const struct message *m, const char *text, struct infp_err *err)
{
        struct infp_asked_object *object = m->index < c->naming->n_objects ? &c->naming->objects[m->index] : NULL;

        switch (m->type) {
        case INFP_NAMING_BEGIN:
                if (c->object < c->naming->n_objects)
                        c->naming->objects[c->object].is_left_out = true; /* done */
                c->object = m->index;
                if (object)
                        infp_progress(c->naming->notices, "names of code: %s", object->path);
                return 0;
        case INFP_NAMING_ABOUT:
                return object ? take_about(object, m, text, text + m->size) : -EBADMSG;
        case INFP_NAMING_PROBLEM:
                if (!object)
                        return -EBADMSG;
                object->why = -(int) m->n;
                free(object->problem);
                object->problem = copy(next_text(&text, text + m->size));
                return 0;
        case INFP_NAMING_FRAME:
                return take_frame(c, m, text, text + m->size, err);
        case INFP_NAMING_END:
                c->has_ended = true;
                return 0;
        default:
                return -EBADMSG;
        }
}

/* Takes all complete messages. A child that sends nonsense is treated as one that died. */
static int take_messages(struct infp_naming_child *c, struct infp_err *err)
{
        struct message m;
        size_t at = 0;
        int r = 0;

        while (r == 0 && c->in.size - at >= sizeof(m)) {
                memcpy(&m, c->in.data + at, sizeof(m));
                if (m.size > MOST_MESSAGE)
                        return -EBADMSG;
                if (c->in.size - at - sizeof(m) < m.size)
                        break;
                r = take(c, &m, c->in.data + at + sizeof(m), err);
                at += sizeof(m) + m.size;
        }
        memmove(c->in.data, c->in.data + at, c->in.size - at);
        c->in.size -= at;
        return r;
}

int infp_naming_step(struct infp_naming_child *c, struct infp_err *err)
{
        ssize_t got;
        int r;

        if (!infp_str_reserve(&c->in, 1 << 16))
                return infp_fail(err, -ENOMEM, "no memory for names");
        got = read(c->fd, c->in.data + c->in.size, 1 << 16);
        if (got < 0 && errno == EINTR)
                return 1;
        if (got <= 0)
                return 0;
        c->in.size += (size_t) got;
        r = take_messages(c, err);
        return r < 0 ? r : 1;
}

/* Until the child ends. */
static int listen_to(struct infp_naming_child *c, struct infp_err *err)
{
        int r = 1;

        while (r > 0) {
                struct pollfd fd = { .fd = c->fd, .events = POLLIN };
                const int n = poll(&fd, 1, PATIENCE_MS);

                if (n < 0 && errno == EINTR)
                        continue;
                r = n <= 0 ? -ETIMEDOUT : infp_naming_step(c, err);
        }
        return r;
}

static void say_death(struct infp_asked_object *object, int status, int r)
{
        const char *how = r == -ETIMEDOUT ? "reading it made no progress for two minutes"
                          : WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU ? "reading it took too much CPU time"
                                                                               : "its reader crashed";
        static const char *const without[] = { "lines and inlined functions", "demangled names", "names" };
        char *text = NULL;

        if (asprintf(&text, "%s: %s; it has no %s", object->path, how,
                     without[object->tries <= MOST_TRIES ? object->tries - 1 : MOST_TRIES - 1]) < 0)
                return;
        free(object->problem);
        object->problem = text;
        object->why = -EFAULT;
}

/* After a child that did not finish. False: nothing is left to try. */
static bool leave_out(struct infp_naming_child *c, int status, int r)
{
        struct infp_asked_object *object = c->object < c->naming->n_objects ? &c->naming->objects[c->object] : NULL;

        if (!object)
                return false;
        object->tries++;
        object->is_left_out = object->tries >= MOST_TRIES;
        say_death(object, status, r);
        return true;
}

/* Waits for the child; its wait status. */
static int reap(struct infp_naming_child *c)
{
        struct rusage usage;
        int status = 0;

        c->fd = infp_close(c->fd);
        while (wait4(c->pid, &status, 0, &usage) < 0)
                if (errno != EINTR)
                        return 0;
        c->pid = 0;
        c->cpu_ns += ((uint64_t) usage.ru_utime.tv_sec + (uint64_t) usage.ru_stime.tv_sec) * INFP_NS_PER_S +
                     ((uint64_t) usage.ru_utime.tv_usec + (uint64_t) usage.ru_stime.tv_usec) * 1000;
        return status;
}

static int start_one(struct infp_naming_child *c, struct infp_err *err)
{
        c->object = UINT32_MAX;
        c->has_ended = false;
        infp_str_clear(&c->in);
        return start(c, err);
}

int infp_naming_begin(struct infp_naming_child *c, struct infp_naming *naming, struct infp_err *err)
{
        *c = (struct infp_naming_child){ .naming = naming, .fd = -1 };
        return start_one(c, err);
}

int infp_naming_go_on(struct infp_naming_child *c, int r, struct infp_err *err)
{
        int status;

        if (r < 0)
                kill(c->pid, SIGKILL);
        status = reap(c);
        if (r < 0 && r != -ETIMEDOUT && r != -EBADMSG)
                return r;
        if (c->has_ended || !leave_out(c, status, r) || ++c->deaths >= MOST_DEATHS)
                return 0;
        r = start_one(c, err);
        return r < 0 ? r : 1;
}

void infp_naming_stop(struct infp_naming_child *c)
{
        if (c->pid > 0) {
                kill(c->pid, SIGKILL);
                reap(c);
        }
        infp_str_done(&c->in);
}

int infp_naming_ask(struct infp_naming *naming, struct infp_err *err)
{
        struct infp_naming_child c;
        int r;

        if (!naming->n_asked)
                return 0;
        r = infp_naming_begin(&c, naming, err);
        while (r >= 0) {
                r = infp_naming_go_on(&c, listen_to(&c, err), err);
                if (r == 0)
                        break;
        }
        infp_naming_stop(&c);
        return r;
}
