/* The thread that sees what the command writes: gives events, finds labels, keeps the file below its limit. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "record/capture_inner.h"

/* The recorder is told at once of a label, of other news at most once a second: it turns often enough by itself. */
static const uint64_t wake_ns = INFP_NS_PER_S;
/* A head is taken off in steps, so that not each line of a program costs a change of the file. */
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

/* Waits for room: this thread may wait, nobody waits for it. */
static void give(struct infp_capture *capture, const struct infp_capture_event *event)
{
        unsigned n;

        pthread_mutex_lock(&capture->mutex);
        while (capture->n_events == INFP_CAPTURE_EVENTS) {
                eventfd_write(capture->wake_fd, 1);
                pthread_cond_wait(&capture->changed, &capture->mutex);
        }
        capture->events[(capture->first + capture->n_events++) % INFP_CAPTURE_EVENTS] = *event;
        n = capture->n_events;
        pthread_mutex_unlock(&capture->mutex);
        capture->has_news = true;
        if (event->kind == INFP_CAPTURE_LABEL || n > INFP_CAPTURE_EVENTS / 2)
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
        struct infp_capture_sample *head = &capture->head, *tail = &capture->tail;
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

/* Whether these bytes stand there still. What cannot be read is not said to have changed. */
static bool is_there(const struct infp_capture *capture, const char *bytes, size_t size, uint64_t offset)
{
        char found[INFP_CAPTURE_SAMPLE];
        const ssize_t n = pread(capture->fd, found, size, (off_t) offset);

        return n < 0 || ((size_t) n == size && !memcmp(found, bytes, size));
}

static bool has_old_head(const struct infp_capture *capture, uint64_t size)
{
        static const char hole[INFP_CAPTURE_SAMPLE];

        return is_there(capture, capture->removed ? hole : capture->head.bytes,
                        size < capture->head.size ? (size_t) size : capture->head.size, 0);
}

static bool has_old_tail(const struct infp_capture *capture)
{
        const struct infp_capture_sample *tail = &capture->tail;
        const uint64_t kept = capture->seen - capture->removed;
        const size_t size = kept < tail->size ? (size_t) kept : tail->size;

        return is_there(capture, tail->bytes + tail->size - size, size, capture->seen - size);
}

/* Reads what has come for labels; returns how far it came. */
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

/* By ftruncate(1, ...) of the command, by hand, or by `echo x >/dev/stderr`, which opens the file anew: what comes now stands
 * where something else has been. */
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

/* Whole blocks at the head, as many as lie beyond the limit and a step. The mutex is held, so that the other thread never
 * takes a hole for what the command wrote. */
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
        else if (!has_old_tail(capture) && !has_old_head(capture, size)) /* it has grown again meanwhile */
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

/* Until there may be news. False: it is time to stop. */
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

/* What comes meanwhile is one event. */
static bool pause_a_gap(struct infp_capture *capture)
{
        struct pollfd fd = { .fd = capture->stop_fd, .events = POLLIN };

        return poll(&fd, 1, INFP_CAPTURE_GAP_MS) == 0;
}

void *infp_capture_watch(void *context)
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
