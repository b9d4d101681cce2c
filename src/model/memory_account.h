/* Table `memory_account`: what the memory of a process holds. Rows of one process and one t_ns are one account: those that are part of
 * its RSS (`of` is rss) add up to it. docs/report.md has what each kind means. */
#pragma once

#include "model/schema.h"

extern const struct infp_table infp_table_memory_account;

enum {
        INFP_MEMORY_ACCOUNT_PROCESS,
        INFP_MEMORY_ACCOUNT_OF,
        INFP_MEMORY_ACCOUNT_KIND,
        INFP_MEMORY_ACCOUNT_NAME,
        INFP_MEMORY_ACCOUNT_BYTES,
        INFP_MEMORY_ACCOUNT_QUALITY,
        INFP_MEMORY_ACCOUNT_N,
};

/* A process whose memory hardly changes has an account this often, unless reading it takes too much CPU time. */
enum { INFP_MEMORY_ACCOUNT_PERIOD_S = 10 };

/* In the order in which accounts have them. */
enum infp_memory_kind {
        INFP_MEMORY_FILE,
        INFP_MEMORY_SHARED,
        INFP_MEMORY_HEAP,
        INFP_MEMORY_ANONYMOUS,
        INFP_MEMORY_STACK,
        INFP_MEMORY_CODE,
        INFP_MEMORY_DATA,
        INFP_MEMORY_DEVICE,
        INFP_MEMORY_VDSO,
        INFP_MEMORY_UNEXPLAINED,
        INFP_MEMORY_SWAP, /* from here on not in RAM: no part of RSS */
        INFP_MEMORY_GPU,
        INFP_MEMORY_KINDS, /* none of ours */
};
/* As in the table. "rss", "swap" or "gpu": the total that the bytes are part of. */
const char *infp_memory_kind_name(enum infp_memory_kind kind);
const char *infp_memory_kind_of(enum infp_memory_kind kind);
static inline bool infp_memory_kind_is_rss(enum infp_memory_kind kind)
{
        return kind < INFP_MEMORY_SWAP;
}
enum infp_memory_kind infp_memory_kind_by_name(const char *name, size_t size);
