/* The text of /proc/PID/smaps as an account of what is in RAM. The text is read in pieces and never kept: that of a process with 65,530
 * mappings has 46 MB. Memory is bounded, nothing is allocated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/memory_account.h"

enum {
        INFP_SMAPS_NAMES = 4096, /* of files and named memory, each with its own sum; of more only the kinds */
        INFP_SMAPS_NAMES_BYTES = 1 << 20,
        INFP_SMAPS_LINE =
                32 * 1024,     /* a longer one is cut: paths have 4 KiB, each byte of which may be written as four */
        INFP_SMAPS_SHOWN = 16, /* names with a row of their own */
        INFP_SMAPS_JOINED = 1024,
        INFP_SMAPS_MOST_ROWS = INFP_SMAPS_SHOWN + 2 * INFP_MEMORY_KINDS + 1,
};

struct infp_smaps {
        struct smaps_mapping {
                uint64_t begin, end, rss, anonymous, swap;
                uint64_t *into; /* the sum that it is part of */
                uint32_t named; /* number of its name */
                bool is_writable, is_executable, is_shared, is_guard;
                bool is_backed; /* by a file, a device or shared memory: anonymous pages are copies that the process has made */
        } now, before;
        struct smaps_named {
                uint64_t hash, bytes;
                uint32_t at, size; /* of its name, in `names` */
                enum infp_memory_kind kind;
        } named[INFP_SMAPS_NAMES]; /* from 1 */
        uint32_t n_named, names_size;
        uint16_t slots[4 * INFP_SMAPS_NAMES]; /* of the hash: number, 0: free */
        uint32_t program;                     /* number of the first file, which is the program's own */
        uint64_t sums[INFP_MEMORY_KINDS], others[INFP_MEMORY_KINDS];
        uint64_t thread_stacks, guessed_stacks;
        uint64_t stack_bytes; /* the caller's, after begin: how long stacks of threads are as a rule; 0: not known */
        /* Longer mappings above a guard page: a longer stack, or one and what was mapped right above it, which the kernel has joined. */
        struct smaps_joined {
                uint64_t begin, rss;
                uint64_t stack; /* the caller's: of its first stack_bytes what is in RAM, if that is a stack */
                bool has_stack, is_long;
        } joined[INFP_SMAPS_JOINED];
        uint32_t n_joined;
        uint64_t n_mappings, nothing, swap;
        bool has_swap;
        uint32_t size; /* of what waits for the end of its line */
        char line[INFP_SMAPS_LINE], names[INFP_SMAPS_NAMES_BYTES];
};

struct infp_smaps_row {
        enum infp_memory_kind kind;
        enum infp_quality quality;
        const char *name; /* size bytes of outside; NULL: none */
        size_t size;
        uint64_t bytes;
        bool is_others; /* all of the kind that have no row of their own */
};

void infp_smaps_begin(struct infp_smaps *smaps);
void infp_smaps_add(struct infp_smaps *smaps, const char *text, size_t size);
/* The account: rows with bytes, by kind, the largest first, those of others last, then what is swapped out, which may be 0. Returns their number;
 * *ret_bytes is the sum of those before the last, that of Rss of all mappings. Names are valid until the next begin. */
unsigned infp_smaps_end(struct infp_smaps *smaps, struct infp_smaps_row ret[INFP_SMAPS_MOST_ROWS], uint64_t *ret_bytes);
