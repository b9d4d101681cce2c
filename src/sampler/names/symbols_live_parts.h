/* Inside the naming beside a recording: what its two threads share, and what the one that reads files has. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/map.h"
#include "sampler/names/symbols_live.h"
#include "symbols/symbols.h"

enum { INFP_LIVE_MAX_FRAMES = 65536, INFP_LIVE_MAX_PROCESSES = 32 };

/* A frame to be named. */
struct infp_live_frame {
        uint64_t frame, address, t_ns;
        int32_t pid;
        uint32_t object; /* of objects; UINT32_MAX: code made at run time */
};

/* A file that is not where its path says, or may be removed; its descriptor is ours. */
struct infp_live_object {
        char *path, *build_id; /* build_id NULL: none */
        int fd;
        bool is_reachable; /* it was where its path says: `finish` names it while it is */
};

struct infp_live_name {
        uint64_t frame;
        char *name, *file; /* file NULL: none */
        int64_t line, function_line;
        const char *from; /* constant */
};

/* Of the reading thread alone. */
struct infp_live_process {
        int32_t pid;
        int perf_map, jitdump; /* descriptors; -1 */
        struct infp_jit_symbols *symbols;
};
struct infp_live_reader {
        int root_fd;
        struct infp_symbols *symbols;
        struct infp_live_process processes[INFP_LIVE_MAX_PROCESSES];
        unsigned n_processes;
        struct infp_live_frame *waiting; /* code made at run time that has no name yet */
        size_t n_waiting, cap_waiting;
        struct infp_live_frame *in_files; /* of objects, until they are read next */
        size_t n_in_files, cap_in_files;
};

struct infp_live_shared {
        pthread_mutex_t lock;
        pthread_cond_t news, done; /* on CLOCK_MONOTONIC */
        unsigned n_refs;           /* the owner, and the thread */
        bool is_ending, is_ended;
        struct infp_live_frame *frames; /* that were handed over, and not yet taken by the thread */
        size_t n_frames, cap_frames;
        struct infp_live_object *objects; /* only added to */
        size_t n_objects, cap_objects;
        struct {
                int32_t pid;
                char *path;
        } jitdumps[INFP_LIVE_MAX_PROCESSES];
        unsigned n_jitdumps;
        struct infp_live_name *names; /* that were found, and not yet put */
        size_t n_names, cap_names;
        int root_fd;
};

/* symbols_live_read.c: the thread. */
void *infp_live_main(void *shared);
/* Gives a reference back; the last one frees all. */
void infp_live_unref(struct infp_live_shared *shared);
