/* Threads by their numbers, and the names that they have. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

enum { INFP_THREAD_NAME = 64 }; /* the kernel's have 15 characters; those of its own threads, in /proc, are longer */

struct infp_space_thread {
        int32_t pid, tid;
        uint64_t id; /* of its entity under this name; 0: not made yet */
        uint64_t process;
        bool is_named;
        char name[INFP_THREAD_NAME];
};

struct infp_threads {
        struct infp_map by_tid;
};

struct infp_space_thread *infp_threads_find(const struct infp_threads *threads, int32_t tid); /* NULL: not known */
/* A new thread under a number that another one may have had. NULL: no memory, or too many. */
struct infp_space_thread *infp_threads_add(struct infp_threads *threads, int32_t pid, int32_t tid);
void infp_threads_drop(struct infp_threads *threads, int32_t tid);
void infp_threads_done(struct infp_threads *threads);

void infp_thread_set_name(struct infp_space_thread *thread, const char *name);
/* The name that /proc has now: the thread was not told of, so it was there before. */
void infp_thread_read_name(struct infp_space_thread *thread, int root_fd);
