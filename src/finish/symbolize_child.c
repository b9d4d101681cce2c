/* The parent of those who read files of others: takes what they say, and goes on without what they died of. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/notice.h"
#include "finish/symbolize_parts.h"

enum {
        PATIENCE_MS = 120000, /* without a word: the CPU limit ends who works, this who waits for a file system */
        MOST_MESSAGE = 64 << 20,
        MOST_TRIES = 3, /* with lines, without, without demangling */
        MOST_DEATHS = 64,
};

struct child {
        struct infp_naming *naming;
        pid_t pid;
        int fd;
        uint32_t object; /* that it works on; UINT32_MAX: it demangles, or has not begun */
        bool has_ended;
        struct infp_str in;
};

static int start(struct child *c, struct infp_err *err)
{
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) < 0)
                return infp_fail_errno(err, -errno, "cannot start the reader of symbols");
        c->pid = fork();
        if (c->pid == 0) {
                infp_close(fds[0]);
                infp_naming_work(c->naming, fds[1]);
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

static int take_frame(struct child *c, const struct infp_naming_message *m, const char *at, const char *end,
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
        return infp_naming_put(c->naming, m->index, levels, m->n, err);
}

static char *copy(const char *text)
{
        return text && *text ? strdup(text) : NULL;
}

static int take_about(struct infp_asked_object *object, const struct infp_naming_message *m, const char *at,
                      const char *end)
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

static int take(struct child *c, const struct infp_naming_message *m, const char *text, struct infp_err *err)
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

/* All whole messages. A child that was made to say nonsense is treated as one that died. */
static int take_messages(struct child *c, struct infp_err *err)
{
        struct infp_naming_message m;
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

static int listen_to(struct child *c, struct infp_err *err)
{
        for (;;) {
                struct pollfd fd = { .fd = c->fd, .events = POLLIN };
                const int n = poll(&fd, 1, PATIENCE_MS);
                ssize_t got;
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return -ETIMEDOUT;
                if (!infp_str_reserve(&c->in, 1 << 16))
                        return infp_fail(err, -ENOMEM, "no memory for names");
                got = read(c->fd, c->in.data + c->in.size, 1 << 16);
                if (got < 0 && errno == EINTR)
                        continue;
                if (got <= 0)
                        return 0;
                c->in.size += (size_t) got;
                r = take_messages(c, err);
                if (r < 0)
                        return r;
        }
}

static void say_death(struct infp_asked_object *object, int status, int r)
{
        const char *how = r == -ETIMEDOUT ? "reading it made no progress for two minutes"
                          : WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU
                                  ? "reading it took more than a minute of CPU time"
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

/* Of a child that did not come to its end. False: there is nothing left to try. */
static bool go_on(struct child *c, int status, int r)
{
        struct infp_asked_object *object = c->object < c->naming->n_objects ? &c->naming->objects[c->object] : NULL;

        if (!object)
                return false;
        object->tries++;
        object->is_left_out = object->tries >= MOST_TRIES;
        say_death(object, status, r);
        return true;
}

int infp_naming_ask(struct infp_naming *naming, struct infp_err *err)
{
        struct child c = { .naming = naming };
        int r = 0;

        for (unsigned deaths = 0; naming->n_asked && deaths < MOST_DEATHS; deaths++) {
                int status = 0;

                c.object = UINT32_MAX;
                infp_str_clear(&c.in);
                r = start(&c, err);
                if (r < 0)
                        break;
                r = listen_to(&c, err);
                if (r < 0)
                        kill(c.pid, SIGKILL);
                c.fd = infp_close(c.fd);
                while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR)
                        ;
                if (r < 0 && r != -ETIMEDOUT && r != -EBADMSG)
                        break;
                if (c.has_ended || !go_on(&c, status, r)) {
                        r = 0;
                        break;
                }
                r = 0;
        }
        infp_str_done(&c.in);
        return r;
}
