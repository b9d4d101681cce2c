/* Shared by the files that make stacks of samples. */
#pragma once

#include "base/map.h"
#include "sampler/spaces/process.h"
#include "sampler/stacks/seen.h"
#include "sampler/stacks/stack.h"
#include "sampler/stacks/wait.h"
#include "unwind/walk.h"

enum {
        INFP_STACK_RULES = 16384, /* cached rules of the unwinder */
        INFP_STACK_FRAMES = 8192, /* cached ids of frames */
        INFP_STACK_TEXT = 8192,   /* of a row: a path of 4,096 bytes, escaped as far as it fits */
        INFP_STACK_DEPTH = 1024,  /* of user frames */
        INFP_MAX_NAMELESS = 65536,
};

/* The id of the frame at an address of a space. */
struct infp_cached_frame {
        uint64_t pc, id;
        uint32_t space, flags;
};

struct infp_stacks {
        struct infp_stacks_options options;
        struct infp_env env; /* root_fd and boot_id */
        struct infp_objects *objects;
        struct infp_processes processes;
        struct infp_wait wait;
        struct infp_seen seen;
        uint32_t max_depth, last_space_id;
        uint64_t frames_cleared_ns, n_guesses;
        struct infp_unwind_cache cache;
        struct infp_unwind_cached rules[INFP_STACK_RULES];
        struct infp_cached_frame ids[INFP_STACK_FRAMES];
        struct infp_unwind_frame frames[INFP_STACK_DEPTH];
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
};

/* A user's stack that was unwound: frames as the view of space has them, innermost first. */
struct infp_unwound {
        struct infp_space *space; /* its view is up to date */
        const struct infp_unwind_frame *frames;
        uint32_t n_frames;
        uint32_t space_id;
};

/* Unwinds a sample in a space. False: a table that it needs may come, *ret_object. may_wait false: never. */
bool infp_stack_unwind(struct infp_stacks *stacks, struct infp_space *space, const struct infp_perf_sample *sample,
                       bool may_wait, struct infp_unwound *ret, struct infp_unwind_result *ret_result,
                       const struct infp_object **ret_object);

/* Writes the frames and nodes that were not written yet. Returns the innermost node, 0 for none. */
uint64_t infp_stack_nodes(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                          const struct infp_unwound *user, const uint64_t *kernel, uint32_t n_kernel);
/* A node that is new, or was not told of for long. */
void infp_stack_put_node(struct infp_stacks *stacks, const struct infp_stack_found *moment, uint64_t id,
                         uint64_t parent, uint64_t frame, uint32_t depth);
/* Writes the thread, when that was not done yet. */
void infp_stack_thread_row(struct infp_stacks *stacks, uint64_t t_ns, const struct infp_space_thread *thread);
/* Puts the row that was filled. */
int infp_stack_put_row(struct infp_stacks *stacks);

/* Remembers a frame whose name may be out of reach later. */
void infp_stack_note_nameless(struct infp_stacks *stacks, const struct infp_stack_found *moment,
                              const struct infp_frame_place *place);
void infp_stack_nameless_done(struct infp_stacks *stacks);
