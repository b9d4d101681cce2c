/* The rest of a stack that is larger than the kernel's copy of it, read from the memory of its process just after the sample: what the
 * unwinder asks for, a piece at a time. The thread runs meanwhile, so a piece is believed only while a witness is in memory as it is in
 * the copy: the outermost calls in it, all of them where they are few, and its last KiB. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sampler/perf/perf.h"
#include "unwind/walk.h"

enum {
        INFP_REST_PIECE = 16 << 10,
        INFP_REST_PIECES = 16,
        INFP_REST_WITNESS = 1024, /* at least */
};

struct infp_rest {
        uint8_t *bytes; /* INFP_REST_PIECES pieces, and the witness as it is now; NULL: none was needed yet */
        /* What of the stack is known beside the copy: what came with the sample, and then pieces. */
        struct infp_unwind_dump dumps[INFP_PERF_REST];
        uint32_t n_dumps, n_pieces;
        /* Of the sample that is at work. */
        pid_t pid;
        struct infp_unwind_dump copy;
        uint64_t witness; /* address, up to the end of the copy */
};

enum infp_rest_read {
        INFP_REST_READ,
        INFP_REST_MOVED, /* the thread has left the call that the sample is from */
        INFP_REST_NONE,  /* there is no memory, no process, or no piece left */
        INFP_REST_DENIED,
};

/* witness: where the calls begin that must not have changed. */
void infp_rest_begin(struct infp_rest *rest, const struct infp_perf_sample *sample, uint64_t witness);
/* Adds the piece with the 8 bytes at address. */
enum infp_rest_read infp_rest_add(struct infp_rest *rest, uint64_t address);
/* Whether the witness is as it was, after the last piece. */
bool infp_rest_holds(const struct infp_rest *rest);
void infp_rest_done(struct infp_rest *rest);
