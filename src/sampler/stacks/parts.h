/* Shared by the files that make stacks of samples. */
#pragma once

#include "base/ids.h"
#include "base/map.h"
#include "sampler/python/names.h"
#include "sampler/python/thread_names.h"
#include "sampler/spaces/process.h"
#include "sampler/stacks/rest.h"
#include "sampler/stacks/stack.h"
#include "sampler/stacks/wait.h"
#include "unwind/walk.h"

enum {
        INFP_STACK_RULES = 16384, /* cached rules of the unwinder */
        INFP_STACK_FRAMES = 8192, /* cached ids of frames */
        INFP_STACK_PATHS = 16,    /* last stacks, of threads by their numbers ... */
        INFP_STACK_PATH = 128,    /* ... and so many frames of each, the outermost */
        INFP_STACK_TEXT = 8192,   /* of a row: a path of 4,096 bytes, escaped as far as it fits */
        INFP_STACK_DEPTH = 1024,  /* of user frames */
        INFP_STACK_CUT = 4,       /* threads whose samples are waited for */
        INFP_MAX_NAMELESS = 65536,
        INFP_FRAME_OF_KERNEL = 1 << 16, /* beside the flags of infp_unwind_frame */
        INFP_FRAME_OF_PYTHON = 1 << 17, /* the same; pc is the id of the named frame */
};

/* The id of the frame at an address of a place: of a process, and the mappings that it has. */
struct infp_cached_frame {
        uint64_t pc, place, id;
        uint32_t flags;
};

/* The stack of the last sample: that of the next one mostly has the same outer frames. Nodes that were written, the root first. */
struct infp_cached_path {
        uint64_t place;
        uint32_t n;
        struct infp_cached_node {
                uint64_t pc, id;
                uint32_t flags;
        } nodes[INFP_STACK_PATH];
};

struct infp_stacks {
        struct infp_stacks_options options;
        struct infp_env env; /* root_fd and boot_id */
        struct infp_objects *objects;
        struct infp_processes processes;
        struct infp_thread_names *thread_names; /* NULL: no process runs Python */
        struct infp_wait wait;
        /* Ids whose entities were written. All of them are forgotten when they are many, and every few minutes, since the recorder forgets
         * entities that it was not told of for long: what is in use is then told again. */
        struct infp_ids seen;
        uint64_t forgot_ns;
        uint32_t max_depth, last_space_id;
        uint64_t frames_cleared_ns, n_guesses;
        struct infp_rest rest;
        infp_stacks_lacked_fn *lacked; /* NULL: nobody asks */
        void *lacked_context;
        struct infp_stack_cut {
                uint64_t period_ns, next_ns,
                        last_ns; /* 0: none; when its next sample is due; when the last was taken */
        } cut[INFP_STACK_CUT];   /* threads whose stacks lack their rest */
        struct infp_unwind_cache cache;
        struct infp_unwind_cached rules[INFP_STACK_RULES];
        struct infp_cached_frame ids[INFP_STACK_FRAMES];
        struct infp_cached_path paths[INFP_STACK_PATHS];
        /* Of the stack that is at work, the kernel's before the user's. */
        struct infp_unwind_frame frames[INFP_PERF_MAX_KERNEL_FRAMES + INFP_STACK_DEPTH];
        const struct infp_unwound *found; /* whose frames infp_stacks_frames gives: while its caller is told of it */
        struct {                          /* scratch of infp_stack_merge */
                uint64_t pcs[INFP_STACK_DEPTH];
                bool is_exact[INFP_STACK_DEPTH];
                uint32_t order[INFP_STACK_DEPTH];
                struct infp_unwind_frame frames[INFP_STACK_DEPTH];
        } merge;
        bool is_comparing;
        struct {
                uint64_t n, n_wrong;
                struct infp_unwind_frame frames[INFP_PERF_MAX_KERNEL_FRAMES + INFP_STACK_DEPTH];
        } compared;
        struct infp_row row;
        char text[INFP_STACK_TEXT];
        struct infp_stacks_counts counts;
        struct infp_nameless *nameless;
        size_t n_nameless, cap_nameless;
        struct infp_map nameless_ids;
        struct infp_map named; /* frames whose names were written here; never forgotten: a name is told once */
};

/* One frame as rows have it. */
struct infp_frame_place {
        uint64_t id, address;
        enum infp_frame_kind kind;
        struct infp_object *object; /* NULL: the kernel, or nothing known */
        bool is_guessed;
        const struct infp_python_name *python; /* of kind INFP_FRAME_PYTHON */
};

/* A stack that was unwound, the frames of which are in infp_stacks.frames. */
struct infp_unwound {
        struct infp_space *space; /* its view is up to date */
        struct infp_unwind_space view;
        struct infp_unwind_dump dumps[1 + INFP_PERF_REST]; /* the kernel's copy first */
        struct infp_unwind_start start;
        struct infp_unwind_result result; /* of the user's frames */
        uint32_t n_kernel;
        bool is_guessable; /* a guess may lead on */
};

/* Puts Python frames into the place of those of the interpreter's loop, or counts why not. */
void infp_stack_merge(struct infp_stacks *stacks, struct infp_unwound *unwound, const struct infp_python_moment *python,
                      struct infp_stack_counts *counts);
void infp_stack_count(struct infp_stacks *stacks, enum infp_stack_mode mode, const struct infp_unwind_result *result);
/* Writes the frames and nodes that were not written yet. Returns the innermost node, 0 for none. */
uint64_t infp_stack_nodes(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                          const struct infp_unwound *unwound);
/* Writes the thread, when that was not done yet and it has an id. */
void infp_stack_thread_row(struct infp_stacks *stacks, struct infp_space_thread *thread);
/* Puts the row that was filled. */
int infp_stack_put_row(struct infp_stacks *stacks);

void infp_stack_nameless_done(struct infp_stacks *stacks);
