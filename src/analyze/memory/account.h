/* What the memory of the largest processes holds: of each the account (table memory_account) with the most bytes in RAM, and how much of its
 * anonymous memory is in blocks of the heap that were in use then. */
#pragma once

#include "model/memory_account.h"
#include "query/scan.h"

enum { INFP_MEMORY_LARGEST = 5 };

struct infp_memory_row {
        enum infp_memory_kind kind;
        char *name; /* NULL: all of the kind */
        double bytes;
        char *quality;
        uint64_t t_ns;
};

/* Blocks in use by samples of record --heap (table heap_samples): bytes that the program asked for, in RAM or not. */
struct infp_memory_blocks {
        bool has;
        double bytes, error_bytes; /* error: half of the 95 % interval */
};

/* Anonymous memory in two: what blocks in use explain at most, since parts of them may never have been touched; and the rest, at least: what
 * the allocator keeps and needs itself, and what does not come from it. NAN: blocks have more than there is in RAM, so it is not known. */
struct infp_memory_split {
        double in_use, rest;
};
struct infp_memory_split infp_memory_split(double anonymous_bytes, double blocks_bytes);

struct infp_memory_process {
        uint64_t id, t_ns;
        int64_t pid, unix_ns;  /* pid -1: not known; unix_ns: of the account */
        char *name;            /* NULL: not known */
        double rss_bytes;      /* the sum of its rows */
        double gpu_bytes;      /* NAN: not known */
        double swap_bytes;     /* of that account; NAN: not known */
        uint64_t last_ns;      /* of its last account */
        uint64_t seen_ns;      /* when it was looked at last; 0: not known */
        double seen_rss_bytes; /* then; NAN: not known */
        double anonymous_bytes;
        struct infp_memory_blocks blocks;
        uint64_t
                program_ns; /* when exec ended the program before that of the account, with all of its blocks; 0: none is known */
        struct infp_memory_row *rows; /* of its RSS, of swap, then of GPUs, as they were nearest to t_ns */
        size_t n, cap;
};

struct infp_memory_accounts {
        struct infp_memory_process list[INFP_MEMORY_LARGEST]; /* the largest first */
        unsigned n;
        size_t n_seen; /* processes that have an account */
};

/* Of the range of `options`. A run without accounts has none. has_end: the recording has come to its end; rows of blocks come when they are
 * freed or their process ends, and before that the sum of those in use would be too small. On error ret_table is the table that cannot be
 * read. */
int infp_memory_accounts_read(struct infp_run *run, const struct infp_scan_options *options, bool has_end,
                              struct infp_memory_accounts *ret, const char **ret_table, struct infp_err *err);
void infp_memory_accounts_done(struct infp_memory_accounts *accounts);
