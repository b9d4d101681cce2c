/* Shared by the files of the walk. */
#pragma once

#include "unwind/walk.h"

struct infp_walk {
        const struct infp_unwind_start *start;
        struct infp_unwind_cache *cache;
        struct infp_unwind_frame *frames;
        uint32_t n_frames, max_frames;
        uint32_t flags;       /* of the frame that comes next */
        uint32_t valid;       /* bit r: values[r] is this frame's */
        uint32_t n_guesses;   /* on the way here, by looking for a return address */
        uint32_t seen;        /* all flags of frames */
        uint32_t words_left;  /* that guesses may still look at */
        uint32_t trials_left; /* that guesses may still follow */
        uint64_t address;
        uint64_t values[INFP_N_REGISTERS];
};

enum infp_unwind_end infp_walk_on(struct infp_walk *walk);

/* 8 bytes of the stack: COMPLETE, or what an unwind that needs them ends with. */
enum infp_unwind_end infp_walk_read(const struct infp_walk *walk, uint64_t address, uint64_t *ret);

/* Where no table helps: looks for the caller on the stack. True when the walk then reached the outermost frame. */
bool infp_walk_guess(struct infp_walk *walk);

/* The rule for code at pc, through the cache. NULL: *ret_end says why not. */
const struct infp_unwind_rule *infp_walk_find(struct infp_walk *walk, uint64_t pc,
                                              const struct infp_unwind_save **ret_saves, uint32_t *ret_mapping,
                                              enum infp_unwind_end *ret_end);

/* _start is written by hand, and in musl it has no call frame information. It ends a few instructions after its call. */
bool infp_walk_is_entry(const struct infp_walk *walk, uint32_t mapping, uint64_t pc);
