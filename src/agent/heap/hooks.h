/* What the preloaded allocator functions (interpose.c) and the agent that samples (heap.c) say to each other. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFP_PRELOAD_HEAP_FILE "libinfprof-preload-heap.so"
/* Bytes between two samples, on average: 65536, or from 65536-4194304. 1-PID: every block, for the recorder of that number. */
#define INFP_AGENT_ENV_HEAP "INFPROF_AGENT_HEAP"

enum { INFP_HEAP_PAGES = 1 << 16, INFP_HEAP_FILTER = 1 << 16, INFP_HEAP_OWN = 6 };

/* How many sampled blocks there are in a page, or in one that is a multiple of 256 MiB away. Most have none, and pages that lie together share
 * a cache line: a program that frees blocks of its own neighbourhood loses none of its cache to the look-up. */
static inline uint32_t infp_heap_page(uint64_t address)
{
        return (uint32_t) (address >> 12) % INFP_HEAP_PAGES;
}

/* Asked of the others: how many sampled blocks there may be whose address falls on a place of the filter: 0 is sure, and 255 stays. */
static inline uint32_t infp_heap_place(uint64_t address)
{
        return (uint32_t) ((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48);
}

struct infp_preload_heap {
        _Atomic uint16_t pages[INFP_HEAP_PAGES];
        _Atomic uint8_t filter[INFP_HEAP_FILTER];
        /* Set by the agent; none calls an allocator or changes errno, or waits but for one that counts every block. */
        /* The bytes until the next sample are used up by this block; is_new: they were not drawn yet. Returns how many are next. */
        int64_t (*_Atomic allocated)(uint64_t address, uint64_t size, int64_t left, bool is_new);
        /* A block that may be a sampled one is about to go. Returns its id, and one of the others follows; 0: it is not one. */
        uint64_t (*_Atomic taken)(uint64_t address);
        void (*_Atomic freed)(uint64_t id);
        void (*_Atomic kept)(uint64_t address, uint64_t id); /* it did not go */
        void (*_Atomic ended)(void);                         /* the process ends without its destructors */
        /* Where the code of this library lies: its frames are no part of a stack. */
        uint64_t begin, end;
        int64_t (*left)(void); /* malloc has counted a block of this thread if it changes */
        /* What the program maps itself. mapped: as allocated, for each that is counted, also where the bytes are not used up; the other two are
         * set before it. unmapped: what lies there and was mapped before `since`, which mapping() has returned, is no more, a part of it, too;
         * false: nothing of it was counted. */
        int64_t (*_Atomic mapped)(uint64_t address, uint64_t size, int64_t left, bool is_new);
        uint64_t (*mapping)(void);
        bool (*unmapped)(uint64_t begin, uint64_t end, uint64_t since);
        struct {
                uint64_t begin, end;
        } own[INFP_HEAP_OWN]; /* code whose mappings are not counted: the agent, allocators whose blocks are */
        uintptr_t allocator;  /* a function of the one that is next */
        void (*count)(void *block, size_t size); /* a block that the allocator gave without a call of malloc */
        void *(*find)(const char *name);         /* what is defined after this library; NULL: nothing */
        void (*heard)(void);                     /* this thread counts from now on: there is an agent */
        bool (*busy)(bool is_busy);              /* of this thread: counts nothing while it is. Returns what it was */
        _Atomic uint64_t nested; /* blocks of signal handlers in the middle of another one: not counted */
};
#define INFP_PRELOAD_HEAP "infp_preload_heap"

static inline bool infp_heap_may_be_sampled(const struct infp_preload_heap *hooks, uint64_t address)
{
        return __builtin_expect(
                atomic_load_explicit(&hooks->pages[infp_heap_page(address)], memory_order_relaxed) != 0 &&
                        atomic_load_explicit(&hooks->filter[infp_heap_place(address)], memory_order_relaxed) != 0,
                0);
}
