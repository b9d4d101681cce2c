/* The inside of a capture, shared by its files alone. */
#pragma once

#include <pthread.h>

#include "record/capture.h"

enum { INFP_CAPTURE_EVENTS = 256, INFP_CAPTURE_CHUNK = 64 << 10, INFP_CAPTURE_SAMPLE = 64 };

/* Bytes as they were read, to see whether they still stand there. */
struct infp_capture_sample {
        char bytes[INFP_CAPTURE_SAMPLE];
        size_t size;
};

struct infp_capture {
        struct infp_capture_options options;
        char *path;
        int child_fd; /* O_APPEND; -1 once the threads run: the command has its own */
        int fd;       /* ours: to read and to make holes */
        int show_fd, wake_fd, stop_fd;
        int inotify_fd; /* -1: there is none, we look each period */
        const struct infp_notices *notices;
        pthread_t watcher, shower;
        bool has_watcher, has_shower;

        /* Of the watcher alone. */
        struct infp_label_lines lines;
        struct infp_capture_sample head, tail; /* the first of the file, and those before `seen` */
        uint64_t block_bytes;
        bool cannot_punch, said_unreadable, said_shorter, said_removed;
        uint64_t label_second, n_labels; /* in that second */
        uint64_t woke_ns;                /* when the recorder was last woken */
        bool has_news;                   /* events of which it has not been told */
        char watch_chunk[INFP_CAPTURE_CHUNK];

        /* Of the shower alone. */
        char show_chunk[INFP_CAPTURE_CHUNK];

        pthread_mutex_t mutex; /* of all below */
        pthread_cond_t changed;
        struct infp_capture_event events[INFP_CAPTURE_EVENTS];
        unsigned first, n_events;
        bool is_stopping, is_watch_over, is_show_over;
        uint64_t seen;           /* the end of what the watcher has read: so far the other may copy */
        uint64_t removed, shown; /* offsets: what lies before is off the disk, has been copied */
        uint64_t n_shortened;    /* how often the file has become shorter */
        uint64_t n_skipped, n_labels_missed;
};

void *infp_capture_watch(void *capture);
void *infp_capture_show(void *capture);
