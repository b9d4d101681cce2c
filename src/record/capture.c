#include "record/capture.h"

#include <errno.h>
#include <fcntl.h>
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
#include "record/capture_inner.h"

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
        /* By its own description: the command's has O_APPEND and no way to read. */
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

/* By the descriptor: the directory's path may not be one that we could walk again. -1 where the kernel or its limits do not
 * let us: then we look each period. */
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
        /* Our own: a thread that is held up may write to it when the recorder has closed its one. */
        capture->wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 3);
        capture->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (capture->wake_fd < 0 || capture->stop_fd < 0)
                return infp_fail_errno(err, -errno, "cannot make an eventfd");
        capture->inotify_fd = open_inotify(capture->fd);
        r = infp_thread_start(&capture->watcher, "infprof-watch", STACK_BYTES, infp_capture_watch, capture);
        capture->has_watcher = r == 0;
        if (r == 0) {
                r = infp_thread_start(&capture->shower, "infprof-show", STACK_BYTES, infp_capture_show, capture);
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
                capture->first = (capture->first + 1) % INFP_CAPTURE_EVENTS;
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

/* Whether none of the threads looks at the capture any more. */
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
        /* A thread is in it, and will be until the program ends. Volatile: a store that nobody reads would be left out, and
         * the leak checker would miss what it keeps. */
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
