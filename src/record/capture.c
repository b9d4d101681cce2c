#include "record/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/new_file.h"
#include "base/thread.h"
#include "base/time.h"

enum { EVENTS = 256, CHUNK = 64 << 10, SAMPLE = 64 };

/* Bytes as they were read, to see whether they are unchanged. */
struct sample {
        char bytes[SAMPLE];
        size_t size;
};

struct infp_capture {
        struct infp_capture_options options;
        char *path;
        int child_fd; /* O_APPEND; -1 once the threads run: the command has its own */
        int fd;       /* ours: to read and to make holes */
        int show_fd, wake_fd, stop_fd;
        int inotify_fd; /* -1: none, we look each period */
        const struct infp_notices *notices;
        pthread_t watcher, shower;
        bool has_watcher, has_shower;

        /* Of the watcher alone. */
        struct infp_label_lines lines;
        struct sample head, tail; /* the first of the file, and those before `seen` */
        uint64_t block_bytes;
        bool cannot_punch, said_unreadable, said_shorter, said_removed;
        uint64_t label_second, n_labels; /* in that second */
        uint64_t woke_ns;                /* when the recorder was last woken */
        bool has_news;                   /* events that it does not know of yet */
        char watch_chunk[CHUNK];

        /* Of the shower alone. */
        char show_chunk[CHUNK];

        pthread_mutex_t mutex; /* of all below */
        pthread_cond_t changed;
        struct infp_capture_event events[EVENTS];
        unsigned first, n_events;
        bool is_stopping, is_watch_over, is_show_over;
        uint64_t seen;           /* end of what the watcher has read: the shower may copy up to here */
        uint64_t removed, shown; /* offsets: what lies before is off the disk, or copied */
        uint64_t n_shortened;    /* how often the file became shorter */
        uint64_t n_skipped, n_labels_missed;
};

/* The watcher: gives events, finds labels, keeps the file below its limit. A label wakes the recorder at once, other news at most
 * once a second: it turns often enough by itself. */
static const uint64_t wake_ns = INFP_NS_PER_S;
/* The head is removed in steps, so that not every line of a program costs a change of the file. */
enum { LIMIT_STEPS = 16, MOST_PERIOD_MS = 1000 };

static uint64_t now(void)
{
        return infp_clock_ns(CLOCK_MONOTONIC);
}

static void wake(struct infp_capture *capture)
{
        eventfd_write(capture->wake_fd, 1);
        capture->woke_ns = now();
        capture->has_news = false;
}

/* Waits for room: no other thread waits for this one. */
static void give(struct infp_capture *capture, const struct infp_capture_event *event)
{
        unsigned n;

        pthread_mutex_lock(&capture->mutex);
        while (capture->n_events == EVENTS) {
                eventfd_write(capture->wake_fd, 1);
                pthread_cond_wait(&capture->changed, &capture->mutex);
        }
        capture->events[(capture->first + capture->n_events++) % EVENTS] = *event;
        n = capture->n_events;
        pthread_mutex_unlock(&capture->mutex);
        capture->has_news = true;
        if (event->kind == INFP_CAPTURE_LABEL || n > EVENTS / 2)
                wake(capture);
}

struct finding {
        struct infp_capture *capture;
        uint64_t t_ns;
};

static void found(void *context, const struct infp_label *label)
{
        const struct finding *finding = context;
        struct infp_capture *capture = finding->capture;
        struct infp_capture_event event = {
                .kind = INFP_CAPTURE_LABEL,
                .t_ns = finding->t_ns,
                .is_filename = label->is_filename,
                .epoch = label->epoch,
                .unix_ns = label->unix_ns,
                .tag_size = (uint32_t) label->size,
        };

        if (finding->t_ns / INFP_NS_PER_S != capture->label_second) {
                capture->label_second = finding->t_ns / INFP_NS_PER_S;
                capture->n_labels = 0;
        }
        if (++capture->n_labels > INFP_CAPTURE_LABELS) {
                pthread_mutex_lock(&capture->mutex);
                capture->n_labels_missed++;
                pthread_mutex_unlock(&capture->mutex);
                return;
        }
        memcpy(event.tag, label->tag, label->size);
        give(capture, &event);
}

static void keep_samples(struct infp_capture *capture, uint64_t from, const char *bytes, size_t size)
{
        struct sample *head = &capture->head, *tail = &capture->tail;
        const size_t more = size < sizeof(tail->bytes) ? size : sizeof(tail->bytes);

        if (from == head->size && head->size < sizeof(head->bytes)) {
                const size_t room = sizeof(head->bytes) - head->size, n = size < room ? size : room;

                memcpy(head->bytes + head->size, bytes, n);
                head->size += n;
        }
        if (tail->size + more > sizeof(tail->bytes)) {
                const size_t old = sizeof(tail->bytes) - more;

                memmove(tail->bytes, tail->bytes + tail->size - old, old);
                tail->size = old;
        }
        memcpy(tail->bytes + tail->size, bytes + size - more, more);
        tail->size += more;
}

/* Whether these bytes are unchanged. Bytes that cannot be read count as unchanged. */
static bool is_there(const struct infp_capture *capture, const char *bytes, size_t size, uint64_t offset)
{
        char found[SAMPLE];
        const ssize_t n = pread(capture->fd, found, size, (off_t) offset);

        return n < 0 || ((size_t) n == size && !memcmp(found, bytes, size));
}

static bool has_old_head(const struct infp_capture *capture, uint64_t size)
{
        static const char hole[SAMPLE];

        return is_there(capture, capture->removed ? hole : capture->head.bytes,
                        size < capture->head.size ? (size_t) size : capture->head.size, 0);
}

static bool has_old_tail(const struct infp_capture *capture)
{
        const struct sample *tail = &capture->tail;
        const uint64_t kept = capture->seen - capture->removed;
        const size_t size = kept < tail->size ? (size_t) kept : tail->size;

        return is_there(capture, tail->bytes + tail->size - size, size, capture->seen - size);
}

/* Searches new bytes for labels; returns the offset that it reached. */
static uint64_t read_news(struct infp_capture *capture, uint64_t from, uint64_t to, uint64_t t_ns)
{
        struct finding finding = { capture, t_ns };

        while (from < to) {
                const uint64_t left = to - from;
                ssize_t n =
                        pread(capture->fd, capture->watch_chunk,
                              left < sizeof(capture->watch_chunk) ? left : sizeof(capture->watch_chunk), (off_t) from);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        if (n < 0 && !capture->said_unreadable)
                                infp_notice(capture->notices,
                                            "cannot read %s: %s (the command keeps writing; labels in its output are "
                                            "not seen)",
                                            capture->path, strerror(errno));
                        capture->said_unreadable |= n < 0;
                        return n < 0 ? to : from;
                }
                infp_label_lines_feed(&capture->lines, capture->watch_chunk, (size_t) n, found, &finding);
                keep_samples(capture, from, capture->watch_chunk, (size_t) n);
                from += (uint64_t) n;
        }
        return from;
}

static void set_seen(struct infp_capture *capture, uint64_t seen)
{
        pthread_mutex_lock(&capture->mutex);
        capture->seen = seen;
        pthread_cond_broadcast(&capture->changed);
        pthread_mutex_unlock(&capture->mutex);
}

/* By ftruncate(1, ...) of the command, by hand, or by `echo x >/dev/stderr`, which opens the file again: new output
 * lies where old output was. */
static void shorten(struct infp_capture *capture, uint64_t size)
{
        if (!capture->said_shorter)
                infp_notice(capture->notices,
                            "%s was truncated: the output in it is lost (> /dev/stderr and > /dev/stdout truncate it; "
                            ">&2 and >> do not)",
                            capture->path);
        capture->said_shorter = true;
        capture->lines = (struct infp_label_lines){ 0 };
        capture->tail.size = 0;
        capture->head.size = size < capture->head.size ? (size_t) size : capture->head.size;
        pthread_mutex_lock(&capture->mutex);
        capture->n_shortened++;
        capture->seen = size;
        capture->shown = capture->shown < size ? capture->shown : size;
        capture->removed = capture->removed < size ? capture->removed : size;
        pthread_mutex_unlock(&capture->mutex);
}

/* Removes whole blocks from the head, as many as exceed the limit by a step. The mutex is held, so that the shower
 * never takes a hole for output. */
static void trim(struct infp_capture *capture, uint64_t t_ns)
{
        const uint64_t limit = capture->options.limit_bytes, block = capture->block_bytes;
        const uint64_t step = limit / LIMIT_STEPS > block ? limit / LIMIT_STEPS : block;
        const uint64_t keep = limit > 2 * block ? limit - step : limit;
        const uint64_t from = capture->removed, size = capture->seen;
        uint64_t to;

        if (!limit || capture->cannot_punch || size - from <= limit)
                return;
        to = (size - keep) / block * block;
        if (to <= from)
                return;
        pthread_mutex_lock(&capture->mutex);
        if (fallocate(capture->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) from, (off_t) (to - from)) == 0)
                capture->removed = to;
        else
                capture->cannot_punch = true;
        pthread_mutex_unlock(&capture->mutex);
        if (capture->cannot_punch)
                infp_notice(capture->notices,
                            "--capture-limit has no effect: the file system of %s cannot remove the beginning of a "
                            "file (%s)",
                            capture->path, strerror(errno));
        else
                give(capture,
                     &(struct infp_capture_event){
                             .kind = INFP_CAPTURE_REMOVED, .t_ns = t_ns, .offset = from, .length = to - from });
}

static void look(struct infp_capture *capture)
{
        const uint64_t t_ns = now();
        struct stat st;
        uint64_t size, seen;

        if (fstat(capture->fd, &st) < 0)
                return;
        size = (uint64_t) st.st_size;
        if (!st.st_nlink && !capture->said_removed)
                infp_notice(capture->notices,
                            "%s has been removed: the command's output is lost when it and the recording end",
                            capture->path);
        capture->said_removed |= !st.st_nlink;
        if (size < capture->seen)
                shorten(capture, has_old_head(capture, size) ? size : 0);
        else if (!has_old_tail(capture) && !has_old_head(capture, size)) /* it has grown again since */
                shorten(capture, 0);
        seen = capture->seen;
        if (size <= seen)
                return;
        size = read_news(capture, seen, size, t_ns);
        if (size == seen)
                return;
        give(capture, &(struct infp_capture_event){
                              .kind = INFP_CAPTURE_NEW, .t_ns = t_ns, .offset = seen, .length = size - seen });
        set_seen(capture, size);
        trim(capture, t_ns);
}

static void take_inotify(int fd)
{
        char events[4096] __attribute__((aligned(8)));

        while (read(fd, events, sizeof(events)) > 0)
                ;
}

/* Waits until there may be news. False: it is time to stop. */
static bool wait_for_news(struct infp_capture *capture)
{
        struct pollfd fds[2] = { { .fd = capture->stop_fd, .events = POLLIN },
                                 { .fd = capture->inotify_fd, .events = POLLIN } };
        const uint64_t t = now(), due = capture->woke_ns + wake_ns;
        const uint32_t period_ms = capture->options.period_ms;
        int timeout_ms = capture->inotify_fd >= 0 ? -1 : period_ms < MOST_PERIOD_MS ? (int) period_ms : MOST_PERIOD_MS;

        if (capture->has_news) {
                const int until_wake = t >= due ? 0 : (int) ((due - t) / INFP_NS_PER_MS) + 1;

                timeout_ms = timeout_ms < 0 || until_wake < timeout_ms ? until_wake : timeout_ms;
        }
        poll(fds, capture->inotify_fd < 0 ? 1 : 2, timeout_ms);
        if (fds[0].revents)
                return false;
        if (capture->inotify_fd >= 0 && fds[1].revents)
                take_inotify(capture->inotify_fd);
        if (capture->has_news && now() >= due)
                wake(capture);
        return true;
}

/* All that comes in this time is one event. */
static bool pause_a_gap(struct infp_capture *capture)
{
        struct pollfd fd = { .fd = capture->stop_fd, .events = POLLIN };

        return poll(&fd, 1, INFP_CAPTURE_GAP_MS) == 0;
}

static void *watch_output(void *context)
{
        struct infp_capture *capture = context;
        struct finding finding = { capture, 0 };

        do
                look(capture);
        while (pause_a_gap(capture) && wait_for_news(capture));
        look(capture);
        finding.t_ns = now();
        infp_label_lines_end(&capture->lines, found, &finding);
        pthread_mutex_lock(&capture->mutex);
        capture->is_watch_over = true;
        pthread_cond_broadcast(&capture->changed);
        pthread_mutex_unlock(&capture->mutex);
        eventfd_write(capture->wake_fd, 1);
        return NULL;
}

/* The shower: copies the output to where it would have gone. It alone waits for the reader there, also where another process has
 * made the shared descriptor non-blocking. */
static int write_whole(int fd, const char *data, size_t size)
{
        while (size) {
                ssize_t n = write(fd, data, size);

                if (n < 0 && errno == EAGAIN) {
                        struct pollfd wanted = { .fd = fd, .events = POLLOUT };

                        poll(&wanted, 1, -1);
                        continue;
                }
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                data += n;
                size -= (size_t) n;
        }
        return 0;
}

struct part {
        uint64_t from, to;
        uint64_t n_shortened; /* of the capture, when this was taken: offsets have another meaning afterwards */
};

/* The next part to copy, without what was removed from the disk. False: there is no more. */
static bool next_part(struct infp_capture *capture, struct part *ret)
{
        bool has;

        pthread_mutex_lock(&capture->mutex);
        while (capture->shown >= capture->seen && !capture->is_watch_over)
                pthread_cond_wait(&capture->changed, &capture->mutex);
        if (capture->shown < capture->removed) {
                capture->n_skipped += capture->removed - capture->shown;
                capture->shown = capture->removed;
        }
        has = capture->shown < capture->seen;
        *ret = (struct part){ capture->shown, capture->seen, capture->n_shortened };
        pthread_mutex_unlock(&capture->mutex);
        return has;
}

/* The watcher made a hole: what was read may be zeros. Or the text is another one. */
static bool is_gone(struct infp_capture *capture, const struct part *part)
{
        bool ret;

        pthread_mutex_lock(&capture->mutex);
        ret = part->from < capture->removed || part->n_shortened != capture->n_shortened;
        pthread_mutex_unlock(&capture->mutex);
        return ret;
}

static void set_shown(struct infp_capture *capture, const struct part *part, uint64_t shown)
{
        pthread_mutex_lock(&capture->mutex);
        if (part->n_shortened == capture->n_shortened)
                capture->shown = shown;
        pthread_mutex_unlock(&capture->mutex);
}

/* Bytes of the part from its beginning; 0: look again. */
static ssize_t read_part(struct infp_capture *capture, const struct part *part)
{
        const uint64_t size = part->to - part->from;
        ssize_t n = pread(capture->fd, capture->show_chunk,
                          size < sizeof(capture->show_chunk) ? size : sizeof(capture->show_chunk), (off_t) part->from);

        if (n < 0)
                return errno == EINTR ? 0 : -errno;
        if (n == 0) /* it became shorter: what was cut is not shown */
                set_shown(capture, part, part->to);
        return is_gone(capture, part) ? 0 : n;
}

static void say_over(struct infp_capture *capture, int r)
{
        if (r == -EPIPE)
                infp_notice(capture->notices, "standard output is closed: the command's output is only in %s",
                            capture->path);
        else if (r != -EBADF) /* started without a standard output: no reader wants it */
                infp_notice(capture->notices,
                            "the command's output is no longer copied to standard output; it is in %s: %s",
                            capture->path, strerror(-r));
}

static void *show_output(void *context)
{
        struct infp_capture *capture = context;
        struct part part;
        ssize_t r = 0;

        while (r >= 0 && next_part(capture, &part)) {
                r = read_part(capture, &part);
                if (r <= 0)
                        continue;
                const uint64_t end = part.from + (uint64_t) r;

                r = write_whole(capture->show_fd, capture->show_chunk, (size_t) r);
                if (r == 0)
                        set_shown(capture, &part, end);
        }
        if (r < 0)
                say_over(capture, (int) r);
        pthread_mutex_lock(&capture->mutex);
        capture->is_show_over = true;
        pthread_mutex_unlock(&capture->mutex);
        return NULL;
}

enum { STACK_BYTES = 256 << 10, MOST_BLOCK_BYTES = 1 << 20, LEAST_BLOCK_BYTES = 512 };

static int open_file(struct infp_capture *capture, struct infp_err *err)
{
        const struct infp_capture_options *o = &capture->options;
        char name[64];
        struct stat st;

        snprintf(name, sizeof(name), "%s_output.txt", o->uuid);
        if (asprintf(&capture->path, "%s/%s", o->directory, name) < 0) {
                capture->path = NULL;
                return infp_fail(err, -ENOMEM, "no memory to capture the output");
        }
        capture->child_fd = infp_make_file_at(o->directory_fd, name, O_WRONLY | O_APPEND, o->mode);
        if (capture->child_fd < 0)
                return infp_fail_errno(err, capture->child_fd, "cannot make %s for --capture", capture->path);
        /* A description of our own: the command's has O_APPEND and cannot be read. */
        capture->fd = openat(o->directory_fd, name, O_RDWR | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
        if (capture->fd < 0 || fstat(capture->fd, &st) < 0)
                return infp_fail_errno(err, -errno, "cannot read %s, which was made for --capture", capture->path);
        capture->block_bytes = st.st_blksize >= LEAST_BLOCK_BYTES && st.st_blksize <= MOST_BLOCK_BYTES
                                       ? (uint64_t) st.st_blksize
                                       : 4096;
        return 0;
}

int infp_capture_open(const struct infp_capture_options *options, struct infp_capture **ret, struct infp_err *err)
{
        struct infp_capture *capture = calloc(1, sizeof(*capture));
        int r;

        if (!capture)
                return infp_fail(err, -ENOMEM, "no memory to capture the output");
        capture->options = *options;
        capture->child_fd = capture->fd = capture->wake_fd = capture->stop_fd = capture->inotify_fd = -1;
        pthread_mutex_init(&capture->mutex, NULL);
        infp_cond_init(&capture->changed);
        r = open_file(capture, err);
        if (r < 0) {
                infp_capture_free(capture);
                return r;
        }
        *ret = capture;
        return 0;
}

int infp_capture_child_fd(const struct infp_capture *capture)
{
        return capture->child_fd;
}

const char *infp_capture_path(const struct infp_capture *capture)
{
        return capture->path;
}

/* By the descriptor, since the directory's path may not be accessible again. -1 where the kernel or its limits
 * refuse: then we look each period. */
static int open_inotify(int fd)
{
        char path[32];
        int ret = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (ret >= 0 && inotify_add_watch(ret, path, IN_MODIFY) < 0)
                ret = infp_close(ret);
        return ret;
}

int infp_capture_start(struct infp_capture *capture, int show_fd, int wake_fd, const struct infp_notices *notices,
                       struct infp_err *err)
{
        int r;

        capture->child_fd = infp_close(capture->child_fd);
        capture->notices = notices;
        capture->show_fd = show_fd;
        /* Our own: a blocked thread may write to it after the recorder has closed its one. */
        capture->wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 3);
        capture->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (capture->wake_fd < 0 || capture->stop_fd < 0)
                return infp_fail_errno(err, -errno, "cannot make an eventfd");
        capture->inotify_fd = open_inotify(capture->fd);
        r = infp_thread_start(&capture->watcher, "infprof-watch", STACK_BYTES, watch_output, capture);
        capture->has_watcher = r == 0;
        if (r == 0) {
                r = infp_thread_start(&capture->shower, "infprof-show", STACK_BYTES, show_output, capture);
                capture->has_shower = r == 0;
        }
        return r < 0 ? infp_fail_errno(err, r, "cannot start a thread to follow %s", capture->path) : 0;
}

bool infp_capture_take(struct infp_capture *capture, struct infp_capture_event *ret)
{
        bool has;

        pthread_mutex_lock(&capture->mutex);
        has = capture->n_events > 0;
        if (has) {
                *ret = capture->events[capture->first];
                capture->first = (capture->first + 1) % EVENTS;
                capture->n_events--;
                pthread_cond_broadcast(&capture->changed);
        }
        pthread_mutex_unlock(&capture->mutex);
        return has;
}

void infp_capture_stop(struct infp_capture *capture)
{
        pthread_mutex_lock(&capture->mutex);
        capture->is_stopping = true;
        pthread_mutex_unlock(&capture->mutex);
        eventfd_write(capture->stop_fd, 1);
}

bool infp_capture_is_over(struct infp_capture *capture)
{
        bool ret;

        pthread_mutex_lock(&capture->mutex);
        ret = (capture->is_watch_over || !capture->has_watcher) && !capture->n_events;
        pthread_mutex_unlock(&capture->mutex);
        return ret;
}

struct infp_capture_shown infp_capture_shown(struct infp_capture *capture)
{
        struct infp_capture_shown ret;

        pthread_mutex_lock(&capture->mutex);
        ret = (struct infp_capture_shown){
                .bytes = capture->shown,
                .of = capture->seen,
                .is_over = capture->is_show_over || !capture->has_shower,
        };
        pthread_mutex_unlock(&capture->mutex);
        return ret;
}

struct infp_capture_sums infp_capture_sums(struct infp_capture *capture)
{
        struct infp_capture_sums ret;

        pthread_mutex_lock(&capture->mutex);
        ret = (struct infp_capture_sums){
                .bytes = capture->seen,
                .removed = capture->removed,
                .skipped = capture->n_skipped,
                .labels_missed = capture->n_labels_missed,
        };
        pthread_mutex_unlock(&capture->mutex);
        return ret;
}

/* True once no thread uses the capture. */
static bool join(struct infp_capture *capture)
{
        bool watch_over, show_over;

        pthread_mutex_lock(&capture->mutex);
        watch_over = capture->is_watch_over;
        show_over = capture->is_show_over;
        pthread_mutex_unlock(&capture->mutex);
        if (capture->has_watcher && watch_over) {
                pthread_join(capture->watcher, NULL);
                capture->has_watcher = false;
        }
        if (capture->has_shower && show_over) {
                pthread_join(capture->shower, NULL);
                capture->has_shower = false;
        }
        return !capture->has_watcher && !capture->has_shower;
}

struct infp_capture *infp_capture_free(struct infp_capture *capture)
{
        /* A thread uses it until the program ends. Volatile: the compiler drops a store that nothing reads, and then
         * the leak checker reports the memory. */
        static struct infp_capture *volatile kept;

        if (!capture)
                return NULL;
        if (!join(capture)) {
                kept = capture;
                (void) kept;
                return NULL;
        }
        infp_close(capture->child_fd);
        infp_close(capture->fd);
        infp_close(capture->wake_fd);
        infp_close(capture->stop_fd);
        infp_close(capture->inotify_fd);
        pthread_mutex_destroy(&capture->mutex);
        pthread_cond_destroy(&capture->changed);
        free(capture->path);
        free(capture);
        return NULL;
}
