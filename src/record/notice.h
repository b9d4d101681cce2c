/* What the recorder has to tell a person: given to a callback, counted, never printed here. */
#pragma once

#include "collect/env.h"

struct infp_notices {
        void (*say)(void *context, const char *text); /* one sentence without newline; NULL: only counted */
        void *context;
        struct infp_stats *stats; /* may be NULL */
};

void infp_notice(const struct infp_notices *notices, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Own counters are read by the collector `self` in another thread. */
static inline void infp_stat_add(uint64_t *counter, uint64_t n)
{
        __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
static inline void infp_stat_set(uint64_t *counter, uint64_t n)
{
        __atomic_store_n(counter, n, __ATOMIC_RELAXED);
}
