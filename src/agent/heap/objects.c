/* Objects of Python. It asks malloc for blocks of more than 512 bytes alone (SMALL_REQUEST_THRESHOLD of Objects/obmalloc.c): smaller ones
 * come from arenas that it maps, and in free-threaded builds all come from an allocator of its own (mimalloc). So these allocators are
 * wrapped as Python's documentation says, before the interpreter begins; PYTHONMALLOC, -X dev and an interpreter that is opened later
 * install others over ours, and then their objects are not seen.
 *
 * They are sampled as blocks of malloc are, each thread with a count of its own. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/heap/heap_parts.h"

enum { SMALL = 512, MEM = 1, OBJECT = 2 };

/* PyMemAllocatorEx of Include/cpython/pymem.h, since 3.5 */
struct allocator {
        void *context;
        void *(*malloc)(void *context, size_t size);
        void *(*calloc)(void *context, size_t n, size_t size);
        void *(*realloc)(void *context, void *block, size_t size);
        void (*free)(void *context, void *block);
};

/* PyObjectArenaAllocator */
struct arena_allocator {
        void *context;
        void *(*alloc)(void *context, size_t size);
        void (*free)(void *context, void *arena, size_t size);
};

static struct arena_allocator next_arenas;
static struct allocator next[2];
static size_t largest; /* of larger ones malloc is asked */
static struct infp_preload_heap *hooks;
static _Thread_local struct {
        int64_t left; /* bytes until the next sample */
        bool is_drawn;
} own __attribute__((tls_model("initial-exec"))) = { .left = -1 };

/* As is_left_out() and sample() of interpose.c. */
static inline bool is_left_out(size_t size)
{
        if (size > largest)
                return true;
        own.left -= (int64_t) size;
        return __builtin_expect(own.left >= 0, 1);
}

static __attribute__((noinline, cold)) void *sample(void *block, size_t size)
{
        if (!block) {
                own.left += (int64_t) size;
                return NULL;
        }
        own.left = infp_agent_heap_allocated((uintptr_t) block, size, own.left, !own.is_drawn, INFP_WIRE_OBJECT);
        own.is_drawn = true;
        return block;
}

#define COUNTED(call, size) (is_left_out(size) ? (call) : sample((call), (size)))

static inline uint64_t take(const void *block)
{
        return infp_heap_may_be_sampled(hooks, (uintptr_t) block) ? atomic_load(&hooks->taken)((uintptr_t) block) : 0;
}

static void *malloc_counted(void *context, size_t size)
{
        const struct allocator *of = context;

        return COUNTED(of->malloc(of->context, size), size);
}

static void *calloc_counted(void *context, size_t n, size_t size)
{
        const struct allocator *of = context;
        size_t bytes;

        if (__builtin_mul_overflow(n, size, &bytes))
                bytes = SIZE_MAX; /* it is refused */
        return COUNTED(of->calloc(of->context, n, size), bytes);
}

/* A block that malloc gave is given to it again, also when it becomes small. */
static void *realloc_counted(void *context, void *block, size_t size)
{
        const struct allocator *of = context;
        const int64_t before = hooks->left();
        const uint64_t id = block ? take(block) : 0;
        void *moved = of->realloc(of->context, block, size);

        if (id && moved)
                atomic_load (&hooks->freed)(id);
        else if (id)
                atomic_load (&hooks->kept)((uintptr_t) block, id);
        return hooks->left() == before ? COUNTED(moved, size) : moved;
}

static void free_counted(void *context, void *block)
{
        const struct allocator *of = context;
        const uint64_t id = block ? take(block) : 0;

        if (__builtin_expect(id != 0, 0))
                atomic_load (&hooks->freed)(id);
        of->free(of->context, block);
}

/* The objects in them are counted. */
static void *map_arena(void *context, size_t size)
{
        const bool was = hooks->busy(true);
        void *arena = next_arenas.alloc(context, size);

        hooks->busy(was);
        return arena;
}

static void leave_arenas_out(void)
{
        void (*get)(struct arena_allocator * ret), (*set)(struct arena_allocator * allocator);

        *(void **) &get = dlsym(RTLD_DEFAULT, "PyObject_GetArenaAllocator");
        *(void **) &set = dlsym(RTLD_DEFAULT, "PyObject_SetArenaAllocator");
        if (!get || !set)
                return;
        get(&next_arenas);
        set(&(struct arena_allocator){ next_arenas.context, map_arena, next_arenas.free });
}

void infp_agent_heap_objects_begin(struct infp_preload_heap *given, bool is_free_threaded)
{
        void (*get)(int domain, struct allocator *ret), (*set)(int domain, struct allocator *allocator);
        struct allocator raw, one;

        *(void **) &get = dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
        *(void **) &set = dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");
        if (!get || !set)
                return;
        hooks = given;
        largest = is_free_threaded ? PTRDIFF_MAX : SMALL;
        get(0, &raw);
        for (int domain = MEM; domain <= OBJECT; domain++) {
                struct allocator *of = &next[domain - MEM];

                get(domain, of);
                if (of->malloc ==
                    raw.malloc) /* built without allocators of its own: malloc's blocks are counted there */
                        continue;
                if (is_free_threaded && domain == OBJECT)
                        infp_agent_mapped_leave_out((const void *) of->malloc);
                else if (!is_free_threaded && !next_arenas.alloc)
                        leave_arenas_out();
                one = (struct allocator){ of, malloc_counted, calloc_counted, realloc_counted, free_counted };
                set(domain, &one);
        }
}
