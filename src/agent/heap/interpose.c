/* The functions of the allocator, in front of those of the next library: libc's, or jemalloc's where that was preloaded or linked. What
 * they do beside the call is to count bytes down, and to look up whether a block that is freed may be a sampled one.
 *
 * As all of the stub (agent/core/preload.c): no library is needed, functions of libc are weak references, and without an agent nothing is done. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/core/exit_group.h"
#include "agent/core/next.h"
#include "agent/heap/counted.h"
#include "agent/heap/hooks.h"

#define EXPORTED __attribute__((visibility("default")))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

#pragma weak __errno_location
/* glibc's own under their second names: before 2.34 dlsym is there only in programs that need libdl. */
extern void *__libc_malloc(size_t) __attribute__((weak));
extern void __libc_free(void *) __attribute__((weak));
extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
extern void *__libc_realloc(void *, size_t) __attribute__((weak));
extern void *__libc_memalign(size_t, size_t) __attribute__((weak));
extern void *__libc_valloc(size_t) __attribute__((weak));
extern void *__libc_pvalloc(size_t) __attribute__((weak));

extern struct infp_preload_heap infp_preload_heap;
EXPORTED struct infp_preload_heap infp_preload_heap;
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _etext[] __attribute__((visibility("hidden")));

void free_sized(void *, size_t); /* headers of glibc before 2.43 have none */
void free_aligned_sized(void *, size_t, size_t);

/* Of a thread. Initial-exec: the loader would allocate what it gets at a thread's first use. */
static _Thread_local struct {
        int64_t left;                   /* bytes until the next sample */
        bool is_drawn, is_busy, is_own; /* is_own: what it is given while it is busy is the agent's */
        uint32_t n;                     /* blocks that used them up */
} own __attribute__((tls_model("initial-exec"))) = { .left = -1 }; /* its first block is looked at, also an empty one */

enum {
        UNHEARD = 1 << 16, /* bytes until it is asked again whether there is an agent */
        EARLY = 1 << 16,
};

static struct {
        void *(*malloc)(size_t);
        void (*free)(void *);
        void *(*calloc)(size_t, size_t);
        void *(*realloc)(void *, size_t);
        int (*posix_memalign)(void **, size_t, size_t);
        void *(*aligned_alloc)(size_t, size_t);
        void *(*memalign)(size_t, size_t);
        void *(*valloc)(size_t);
        void *(*pvalloc)(size_t);
        size_t (*malloc_usable_size)(void *);
        void (*_exit)(int);
        void (*_Exit)(int);
        bool is_asked;
} next;

/* ---- before the next library is known: dlsym itself may allocate ---- */

static _Alignas(16) char early[EARLY];
static _Atomic size_t early_used;

static bool is_early(const void *block)
{
        return (uintptr_t) block - (uintptr_t) early < EARLY;
}

/* Never freed. Its size stands before it. */
static void *take_early(size_t alignment, size_t size)
{
        const size_t room = alignment < 16 ? 16 : alignment;
        size_t at;

        if (size > EARLY || room > EARLY)
                return NULL;
        at = atomic_fetch_add(&early_used, size + 2 * room + 16);
        at = (at + 16 + room - 1) / room * room;
        if (at + size > EARLY)
                return NULL;
        *(size_t *) (void *) (early + at - 16) = size;
        return early + at;
}

static size_t early_size(const void *block)
{
        return *(const size_t *) (const void *) ((const char *) block - 16);
}

static int memalign_of_libc(void **ret, size_t alignment, size_t size)
{
        void *block;

        if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
                return EINVAL;
        block = __libc_memalign(alignment, size);
        if (!block)
                return ENOMEM;
        *ret = block;
        return 0;
}

static void take_libc(void)
{
        next.free = __libc_free;
        next.calloc = __libc_calloc;
        next.realloc = __libc_realloc;
        next.posix_memalign = __libc_memalign ? memalign_of_libc : NULL;
        next.aligned_alloc = next.memalign = __libc_memalign;
        next.valloc = __libc_valloc;
        next.pvalloc = __libc_pvalloc;
        next.malloc = __libc_malloc;
}

static void find_all(void)
{
        if (next.is_asked)
                return;
        next.is_asked = true;
        if (!dlsym) {
                take_libc();
                return;
        }
        *(void **) &next.free = infp_next("free");
        *(void **) &next.calloc = infp_next("calloc");
        *(void **) &next.realloc = infp_next("realloc");
        *(void **) &next.posix_memalign = infp_next("posix_memalign");
        *(void **) &next.aligned_alloc = infp_next("aligned_alloc");
        *(void **) &next.memalign = infp_next("memalign");
        *(void **) &next.valloc = infp_next("valloc");
        *(void **) &next.pvalloc = infp_next("pvalloc");
        *(void **) &next.malloc_usable_size = infp_next("malloc_usable_size");
        *(void **) &next._exit = infp_next("_exit");
        *(void **) &next._Exit = infp_next("_Exit");
        *(void **) &next.malloc = infp_next("malloc");
}

static void *no_memory(void)
{
        if (__errno_location)
                errno = ENOMEM;
        return NULL;
}

#define MISSES(function) (UNLIKELY(!next.function) && (find_all(), !next.function))
#define COUNTED(call, size) (is_left_out(size) ? (call) : sample((call), (size)))

/* ---- what is counted ---- */

/* False: the bytes until the next sample are used up by this block, which has to be given to sample(). Before the allocator is called, so that this
 * call is the last thing that most functions do. */
static inline bool is_left_out(size_t size)
{
        own.left -= (int64_t) (size & INT64_MAX);
        return LIKELY(own.left >= 0);
}

static void *__attribute__((noinline, cold)) sample(void *block, size_t size)
{
        int64_t (*allocated)(uint64_t, uint64_t, int64_t, bool) =
                atomic_load_explicit(&infp_preload_heap.allocated, memory_order_acquire);

        if (!block) {
                own.left += (int64_t) (size & INT64_MAX);
                return NULL;
        }
        own.n++;
        if (own.is_busy) {
                if (!own.is_own)
                        atomic_fetch_add_explicit(&infp_preload_heap.nested, 1, memory_order_relaxed);
                return block;
        }
        if (!allocated) {
                own.left = UNHEARD;
                return block;
        }
        own.is_busy = true;
        atomic_signal_fence(memory_order_seq_cst);
        own.left = allocated((uintptr_t) block, size, own.left, !own.is_drawn);
        own.is_drawn = true;
        atomic_signal_fence(memory_order_seq_cst);
        own.is_busy = false;
        return block;
}

static uint64_t __attribute__((noinline, cold)) take_one(const void *block)
{
        uint64_t (*taken)(uint64_t) = atomic_load_explicit(&infp_preload_heap.taken, memory_order_acquire);

        return taken ? taken((uintptr_t) block) : 0;
}

/* Before the block goes: its address may be another one's at once. */
static inline uint64_t take(const void *block)
{
        return infp_heap_may_be_sampled(&infp_preload_heap, (uintptr_t) block) ? take_one(block) : 0;
}

static void __attribute__((noinline, cold)) end(const void *block, uint64_t id, bool is_freed)
{
        if (is_freed)
                atomic_load_explicit(&infp_preload_heap.freed, memory_order_relaxed)(id);
        else
                atomic_load_explicit(&infp_preload_heap.kept, memory_order_relaxed)((uintptr_t) block, id);
}

/* ---- the functions ---- */

EXPORTED void *malloc(size_t size)
{
        if (MISSES(malloc)) {
                void *block = take_early(16, size);

                return block ? block : no_memory();
        }
        return COUNTED(next.malloc(size), size);
}

EXPORTED void free(void *block)
{
        uint64_t id;

        if (UNLIKELY(is_early(block)) || MISSES(free))
                return;
        id = take(block);
        if (UNLIKELY(id))
                end(block, id, true);
        next.free(block);
}

/* C23. For blocks of malloc they are free, so that they do as well where the next library lacks them. */
EXPORTED void free_sized(void *block, size_t size)
{
        (void) size;
        free(block);
}

EXPORTED void free_aligned_sized(void *block, size_t alignment, size_t size)
{
        (void) alignment;
        (void) size;
        free(block);
}

EXPORTED void *calloc(size_t n, size_t size)
{
        size_t bytes;

        if (__builtin_mul_overflow(n, size, &bytes))
                return no_memory();
        if (MISSES(calloc)) {
                void *block = take_early(16, bytes); /* zeros, and never used before */

                return block ? block : no_memory();
        }
        return COUNTED(next.calloc(n, size), bytes);
}

static void *move_early(void *block, size_t size)
{
        const size_t old = early_size(block);
        char *moved = malloc(size);

        for (size_t i = 0; moved && i < old && i < size; i++)
                ((volatile char *) moved)[i] = ((char *) block)[i]; /* the compiler's own way would need libc */
        return moved;
}

EXPORTED void *realloc(void *block, size_t size)
{
        uint64_t id;
        void *moved;

        if (!block)
                return malloc(size);
        if (UNLIKELY(is_early(block)))
                return move_early(block, size);
        if (MISSES(realloc))
                return no_memory();
        id = take(block);
        if (LIKELY(!id))
                return COUNTED(next.realloc(block, size), size);
        moved = next.realloc(block, size);
        end(block, id, moved || !size);
        return COUNTED(moved, size);
}

EXPORTED void *reallocarray(void *block, size_t n, size_t size)
{
        size_t bytes;

        if (__builtin_mul_overflow(n, size, &bytes))
                return no_memory();
        return realloc(block, bytes);
}

EXPORTED int posix_memalign(void **ret, size_t alignment, size_t size)
{
        int r;

        if (MISSES(posix_memalign)) {
                void *block = take_early(alignment, size);

                if (!block)
                        return ENOMEM;
                *ret = block;
                return 0;
        }
        r = next.posix_memalign(ret, alignment, size);
        if (r == 0 && !is_left_out(size))
                sample(*ret, size);
        return r;
}

static void *early_or_none(size_t alignment, size_t size)
{
        void *block = alignment && !(alignment & (alignment - 1)) ? take_early(alignment, size) : NULL;

        return block ? block : no_memory();
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
        return MISSES(aligned_alloc) ? early_or_none(alignment, size)
                                     : COUNTED(next.aligned_alloc(alignment, size), size);
}

EXPORTED void *memalign(size_t alignment, size_t size)
{
        return MISSES(memalign) ? early_or_none(alignment, size) : COUNTED(next.memalign(alignment, size), size);
}

EXPORTED void *valloc(size_t size)
{
        return MISSES(valloc) ? early_or_none(4096, size) : COUNTED(next.valloc(size), size);
}

EXPORTED void *pvalloc(size_t size)
{
        return MISSES(pvalloc) ? early_or_none(4096, size) : COUNTED(next.pvalloc(size), size);
}

EXPORTED size_t malloc_usable_size(void *block)
{
        if (UNLIKELY(block && is_early(block)))
                return early_size(block);
        return MISSES(malloc_usable_size) ? 0 : next.malloc_usable_size(block);
}

/* Children of fork end so. The system call is for where there is no dlsym. */
static _Noreturn void leave(void (*next_exit)(int), int code)
{
        void (*ended)(void) = atomic_load_explicit(&infp_preload_heap.ended, memory_order_acquire);

        if (ended)
                ended();
        if (next_exit)
                next_exit(code);
        for (;;)
                infp_exit_group(code);
}

EXPORTED _Noreturn void _exit(int code)
{
        find_all();
        leave(next._exit, code);
}

EXPORTED _Noreturn void _Exit(int code)
{
        find_all();
        leave(next._Exit, code);
}

/* ---- for other functions of the stub ---- */

/* A new distance may be as long as what was left before: so the number of them is a part of it. */
int64_t infp_heap_left(void)
{
        return (int64_t) ((uint64_t) own.left + ((uint64_t) own.n << 40));
}

/* The bytes until it is asked again whether there is an agent. */
static void heard(void)
{
        own.left = -1;
}

void infp_heap_count(void *block, size_t size)
{
        if (block && !is_left_out(size))
                sample(block, size);
}

bool infp_heap_is_busy(void)
{
        return own.is_busy;
}

static bool busy(bool is_busy)
{
        const bool was = own.is_busy;

        own.is_busy = is_busy;
        own.is_own = is_busy && (own.is_own || !was);
        return was;
}

void infp_heap_mapped(uint64_t address, uint64_t size)
{
        own.is_busy = true;
        atomic_signal_fence(memory_order_seq_cst);
        own.left -= (int64_t) (size & INT64_MAX);
        own.left = atomic_load_explicit(&infp_preload_heap.mapped, memory_order_relaxed)(address, size, own.left,
                                                                                         !own.is_drawn);
        own.is_drawn = true;
        atomic_signal_fence(memory_order_seq_cst);
        own.is_busy = false;
}

void infp_heap_gone(const void *block)
{
        const uint64_t id = take(block);

        if (UNLIKELY(id))
                end(block, id, true);
}

/* Before the stub's own, which loads the agent. */
__attribute__((constructor(101))) static void begin_heap(void)
{
        find_all();
        infp_preload_heap.begin = (uintptr_t) __ehdr_start;
        infp_preload_heap.end = (uintptr_t) _etext;
        infp_preload_heap.left = infp_heap_left;
        infp_preload_heap.count = infp_heap_count;
        infp_preload_heap.find = infp_next;
        infp_preload_heap.heard = heard;
        infp_preload_heap.busy = busy;
        infp_preload_heap.allocator = (uintptr_t) next.malloc;
}
