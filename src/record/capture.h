/* The command's standard output and error go to a file, <uuid>_output.txt, that is the command's own (O_APPEND). No
 * pipe: whatever happens to infprof, the command neither blocks nor fails.
 *
 * Two threads follow the file. The watcher sees what is new (inotify, else each period), finds labels, gives events,
 * and removes the head of the file where a limit is set. The shower copies to a descriptor that may be slow or gone:
 * only it can block. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/notice.h"
#include "record/label_line.h"

/* Rows at most, each second: what comes within one gap is one event. Labels beyond that number are counted. */
enum { INFP_CAPTURE_GAP_MS = 20, INFP_CAPTURE_LABELS = 1000 };

struct infp_capture_options {
        int directory_fd; /* of the run's output */
        mode_t mode;      /* of the file */
        const char *directory, *uuid;
        uint64_t limit_bytes; /* at most this much of its end stays on disk; 0: all */
        uint32_t period_ms;   /* between two looks without inotify; a second at most */
};

struct infp_capture;
/* Makes the file, which must not exist. */
int infp_capture_open(const struct infp_capture_options *options, struct infp_capture **ret, struct infp_err *err);
int infp_capture_child_fd(const struct infp_capture *capture); /* what the command gets as 1 and 2 */
const char *infp_capture_path(const struct infp_capture *capture);

/* Starts the threads; signals that are blocked now are blocked in them. show_fd: the output is copied there. wake_fd:
 * an eventfd, written when there are events. notices: borrowed, called by both threads. */
int infp_capture_start(struct infp_capture *capture, int show_fd, int wake_fd, const struct infp_notices *notices,
                       struct infp_err *err);

enum infp_capture_kind {
        INFP_CAPTURE_NEW,     /* bytes offset .. offset + length are new */
        INFP_CAPTURE_REMOVED, /* these were removed from the disk */
        INFP_CAPTURE_LABEL,
};
struct infp_capture_event {
        enum infp_capture_kind kind;
        uint64_t t_ns; /* when it was seen, stamped before the file was read */
        uint64_t offset, length;
        /* A label. */
        bool is_filename;
        enum infp_label_epoch epoch;
        int64_t unix_ns;
        uint32_t tag_size;
        char tag[INFP_LABEL_TAG];
};
/* The oldest event that was not taken; false: none. The watcher waits for room, the command does not. */
bool infp_capture_take(struct infp_capture *capture, struct infp_capture_event *ret);

/* Has the watcher look at the file once more and end. Take events until it is over. */
void infp_capture_stop(struct infp_capture *capture);
bool infp_capture_is_over(struct infp_capture *capture);

/* How far the copy is. */
struct infp_capture_shown {
        uint64_t bytes, of;
        bool is_over; /* all is copied, or copying was given up */
};
struct infp_capture_shown infp_capture_shown(struct infp_capture *capture);

struct infp_capture_sums {
        uint64_t bytes, removed;
        uint64_t skipped;       /* removed before they were copied */
        uint64_t labels_missed; /* too many in a second */
};
struct infp_capture_sums infp_capture_sums(struct infp_capture *capture);

/* NULL is fine; returns NULL. Threads that still run keep the memory until the program ends. */
struct infp_capture *infp_capture_free(struct infp_capture *capture);
