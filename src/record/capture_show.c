/* The thread that copies what the command writes to where it would have gone. It alone waits for the reader there. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "record/capture_inner.h"

/* A descriptor that somebody else made non-blocking (it is shared) has to be waited for. */
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
        uint64_t n_shortened; /* of the capture, when it was taken: offsets mean another thing afterwards */
};

/* The next part to copy, without what is gone from the disk. False: there will be no more. */
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

/* A hole was made behind our back: what was read may be zeros. Or it is another text by now. */
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
        if (n == 0) /* it has become shorter: there is nothing to show of what is gone */
                set_shown(capture, part, part->to);
        return is_gone(capture, part) ? 0 : n;
}

static void say_over(struct infp_capture *capture, int r)
{
        if (r == -EPIPE)
                infp_notice(capture->notices, "standard output is closed: the command's output is only in %s",
                            capture->path);
        else if (r != -EBADF) /* started without a standard output: nobody wants it there */
                infp_notice(capture->notices,
                            "the command's output is no longer copied to standard output; it is in %s: %s",
                            capture->path, strerror(-r));
}

void *infp_capture_show(void *context)
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
