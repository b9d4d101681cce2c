/* The client's side: finding a live run, writing into it, reading it. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/str.h"
#include "base/time.h"
#include "store/live.h"
#include "store/live_registry.h"
#include "store/run.h"

enum { READ_LOCK_MS = 5000, ASK_MS = 3000, ASKS = 3 };

struct search {
        const char *prefix, *here; /* here: the directory whose runs are preferred; NULL: none */
        struct infp_live_entry *found;
        unsigned n;
        bool is_here, failed;
};

/* Version 7 uuids sort by time: the greatest is the newest. */
static int look(void *context, const char *uuid, const char *output)
{
        struct search *search = context;
        struct infp_live_entry *found = search->found;
        const bool is_here = search->here && !strcmp(output, search->here);

        if (strncmp(uuid, search->prefix, strlen(search->prefix)) != 0)
                return 0;
        search->n++;
        if (search->n > 1 && (is_here != search->is_here ? search->is_here : strcmp(uuid, found->uuid) < 0))
                return 0;
        search->is_here = is_here;
        free(found->output);
        found->output = strdup(output);
        search->failed = !found->output;
        snprintf(found->uuid, sizeof(found->uuid), "%s", uuid);
        return 0;
}

static int read_pid(int dir_fd, const char *uuid)
{
        char name[64];
        json_t *root;
        int fd, pid;

        snprintf(name, sizeof(name), "%s.json", uuid);
        fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        root = fd < 0 ? NULL : json_loadfd(fd, 0, NULL);
        pid = (int) json_integer_value(json_object_get(root, "pid"));
        json_decref(root);
        infp_close(fd);
        return pid;
}

/* Ends a search, and adds the pid of the recorder that was found. */
static int settle(int r, int dir_fd, struct infp_live_entry *ret)
{
        if (r < 0) {
                free(ret->output);
                *ret = (struct infp_live_entry){ 0 };
                return r;
        }
        ret->pid = read_pid(dir_fd, ret->uuid);
        return 0;
}

static int fail_none(const char *uuid, const char *own, const char *path, struct infp_err *err)
{
        if (uuid)
                return infp_fail(err, -ENOENT,
                                 "no live run of uid %u has a uuid that begins with '%.40s' (looked in %s)",
                                 (unsigned) geteuid(), uuid, path);
        if (own)
                return infp_fail(err, -ENOENT,
                                 "run %.40s, which started this process (INFPROF_RUN), is no longer recorded", own);
        return infp_fail(err, -ENOENT, "no live run of uid %u (looked in %s): start one with `infprof record`",
                         (unsigned) geteuid(), path);
}

static int find_in(int dir_fd, const char *path, const char *uuid, struct infp_live_entry *ret, struct infp_err *err)
{
        const char *own = uuid ? NULL : getenv("INFPROF_RUN");
        infp_autofree char *here = realpath(INFP_DEFAULT_OUTPUT, NULL);
        struct search search = { .prefix = uuid ? uuid : own ? own : "", .here = here, .found = ret };
        int r;

        *ret = (struct infp_live_entry){ 0 };
        r = infp_live_each(dir_fd, look, &search, err);
        if (r == 0 && search.failed)
                r = infp_fail(err, -ENOMEM, "not enough memory");
        else if (r == 0 && search.n == 0)
                r = fail_none(uuid, own && *own ? own : NULL, path, err);
        else if (r == 0 && uuid && search.n > 1)
                r = infp_fail(err, -ENOTUNIQ, "%u live runs begin with '%.40s': give more of its uuid", search.n, uuid);
        return settle(r, dir_fd, ret);
}

int infp_live_find(const char *uuid, struct infp_live_entry *ret, struct infp_err *err)
{
        char path[PATH_MAX];
        infp_autoclose int dir_fd = infp_live_open_directory(path, sizeof(path), err);

        *ret = (struct infp_live_entry){ 0 };
        return dir_fd < 0 ? dir_fd : find_in(dir_fd, path, uuid, ret, err);
}

static int connect_to(int dir_fd, const char *path, const char *uuid, int timeout_ms, struct infp_err *err)
{
        struct timeval wait = { .tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000 };
        int room = INFP_LIVE_MESSAGE_MAX;
        struct sockaddr_un address;
        const socklen_t size = infp_live_address(dir_fd, path, uuid, &address);
        int fd, r;

        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return infp_fail_errno(err, -errno, "cannot make a socket");
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
        if (connect(fd, (const struct sockaddr *) &address, size) == 0)
                return fd;
        r = -errno;
        infp_close(fd);
        return infp_fail_errno(err, r, "cannot connect to the recorder at %s/%s.sock", path, uuid);
}

static int read_answer(const char *text, size_t size, struct infp_err *err)
{
        json_t *root = json_loadb(text, size, 0, NULL);
        const char *error = json_string_value(json_object_get(root, "error"));
        json_int_t rows = json_integer_value(json_object_get(root, "rows"));
        int r;

        if (json_is_true(json_object_get(root, "ok")) && rows >= 0 && rows <= INT_MAX)
                r = (int) rows;
        else
                r = infp_fail(err, json_is_true(json_object_get(root, "again")) ? -EAGAIN : -EPROTO,
                              "the recorder refused the message: %.400s", error ? error : "its answer cannot be read");
        json_decref(root);
        return r;
}

static int wait_for_answer(int fd, int timeout_ms, int pid, struct infp_err *err)
{
        uint64_t until = infp_clock_ns(CLOCK_MONOTONIC) + (uint64_t) timeout_ms * INFP_NS_PER_MS;
        char text[4096];
        ssize_t n;

        for (;;) {
                uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
                struct pollfd wait = { .fd = fd, .events = POLLIN };
                int r = poll(&wait, 1, now < until ? (int) ((until - now) / INFP_NS_PER_MS) + 1 : 0);

                if (r > 0)
                        break;
                if (r < 0 && errno == EINTR)
                        continue;
                return infp_fail(err, -ETIMEDOUT,
                                 "the recorder (pid %d) did not answer within %d ms; the rows may yet be stored", pid,
                                 timeout_ms);
        }
        n = recv(fd, text, sizeof(text), 0);
        if (n < 0 && errno == ECONNRESET) /* it refused before reading: the reset comes first, then the reason */
                n = recv(fd, text, sizeof(text), MSG_DONTWAIT);
        if (n < 0)
                return infp_fail_errno(err, -errno, "cannot receive from the recorder (pid %d)", pid);
        if (n == 0)
                return infp_fail(err, -ECONNRESET, "the recorder (pid %d) ended before it answered", pid);
        return read_answer(text, (size_t) n, err);
}

static int send_to(int dir_fd, const char *path, const struct infp_live_entry *entry, const char *message, size_t size,
                   int timeout_ms, struct infp_err *err)
{
        infp_autoclose int fd = connect_to(dir_fd, path, entry->uuid, timeout_ms, err);

        if (fd < 0)
                return fd;
        if (send(fd, message, size, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
                return infp_fail_errno(err, -errno, "cannot talk to the recorder (pid %d)", entry->pid);
        return wait_for_answer(fd, timeout_ms, entry->pid, err);
}

int infp_live_send(const char *uuid, const char *message, size_t size, int timeout_ms, struct infp_err *err)
{
        char path[PATH_MAX];
        infp_autoclose int dir_fd = -1;
        struct infp_live_entry entry;

        if (size > INFP_LIVE_MESSAGE_MAX)
                return infp_fail(err, -EMSGSIZE, "a message is at most %d bytes", INFP_LIVE_MESSAGE_MAX);
        dir_fd = infp_live_open_directory(path, sizeof(path), err);
        if (dir_fd < 0)
                return dir_fd;
        INFP_TRY(find_in(dir_fd, path, uuid, &entry, err));
        free(entry.output);
        return send_to(dir_fd, path, &entry, message, size, timeout_ms, err);
}

struct run {
        struct infp_live_entry entry;
        bool is_here;
};

struct runs {
        struct run *all;
        size_t n;
        const char *here, *only; /* directories, or NULL */
};

static int add_run(void *context, const char *uuid, const char *output)
{
        struct runs *runs = context;
        struct run *more, *run;

        if (runs->only && strcmp(runs->only, output))
                return 0;
        more = reallocarray(runs->all, runs->n + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        runs->all = more;
        run = &runs->all[runs->n];
        *run = (struct run){ .is_here = runs->here && !strcmp(output, runs->here) };
        snprintf(run->entry.uuid, sizeof(run->entry.uuid), "%s", uuid);
        run->entry.output = strdup(output);
        runs->n += run->entry.output != NULL;
        return run->entry.output ? 0 : -ENOMEM;
}

static int compare_runs(const void *left, const void *right)
{
        const struct run *a = left, *b = right;

        return a->is_here != b->is_here ? b->is_here - a->is_here : strcmp(b->entry.uuid, a->entry.uuid);
}

static bool serves(int dir_fd, const char *path, const struct infp_live_entry *entry, const char *url)
{
        infp_autostr struct infp_str message = { 0 };
        struct infp_err err = { "" };
        const struct timespec pause = { .tv_sec = 1 };
        struct infp_json json;

        infp_json_begin(&json, &message, 0);
        infp_json_object(&json);
        infp_json_key(&json, "serves");
        infp_json_str(&json, url);
        infp_json_object_end(&json);
        if (message.failed)
                return false;
        /* A recorder on a busy machine may not have found out within the time that it gives to such questions each second. */
        for (unsigned i = 0;; i++) {
                const int r = send_to(dir_fd, path, entry, message.data, message.size, ASK_MS, &err);

                if (r != -EAGAIN || i + 1 == ASKS)
                        return r >= 0;
                nanosleep(&pause, NULL);
        }
}

int infp_live_find_server(const char *url, const char *output, struct infp_live_entry *ret, unsigned *ret_others,
                          char ret_other[37], struct infp_err *err)
{
        infp_autofree char *here = realpath(INFP_DEFAULT_OUTPUT, NULL), *only = output ? realpath(output, NULL) : NULL;
        char path[PATH_MAX];
        infp_autoclose int dir_fd = infp_live_open_directory(path, sizeof(path), err);
        struct runs runs = { .here = here, .only = only };
        int r = dir_fd < 0 ? dir_fd : output && !only ? 0 : infp_live_each(dir_fd, add_run, &runs, err);

        *ret = (struct infp_live_entry){ 0 };
        infp_sort(runs.all, runs.n, sizeof(*runs.all), compare_runs);
        *ret_others = (unsigned) runs.n;
        snprintf(ret_other, 37, "%s", runs.n ? runs.all[0].entry.uuid : "");
        for (size_t i = 0; i < runs.n; i++)
                if (r == 0 && !ret->uuid[0] && serves(dir_fd, path, &runs.all[i].entry, url))
                        *ret = runs.all[i].entry;
                else
                        free(runs.all[i].entry.output);
        free(runs.all);
        if (r == 0 && !ret->uuid[0])
                r = infp_fail(err, -ENOENT, "no run that is being recorded has %s as its target", url);
        return r;
}

int infp_live_read_lock(const char *uuid, struct infp_err *err)
{
        char path[PATH_MAX], name[64];
        infp_autoclose int dir_fd = infp_live_open_directory(path, sizeof(path), err);
        struct infp_live_entry entry;
        int fd, r;

        if (dir_fd < 0)
                return dir_fd;
        INFP_TRY(find_in(dir_fd, path, uuid, &entry, err));
        free(entry.output);
        snprintf(name, sizeof(name), "%s.reader", entry.uuid);
        fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : infp_lock(fd, LOCK_SH, READ_LOCK_MS); /* the recorder holds it only briefly */
        if (r < 0) {
                infp_close(fd);
                return infp_fail_errno(err, r, "cannot lock %s/%s, which the recorder (pid %d) holds", path, name,
                                       entry.pid);
        }
        return fd;
}
