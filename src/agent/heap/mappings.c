/* What the program maps itself. Counted are mappings that are memory at once: private, anonymous, writable; neither reservations (no right
 * to write, or MAP_NORESERVE) nor stacks. libc's own calls (malloc's, those of pthread_create) never come here, and those of an allocator are
 * left out: its blocks are counted.
 *
 * As all of the stub: no library is needed, and without libc's functions the kernel is asked. */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "agent/core/next.h"
#include "agent/core/system_call.h"
#include "agent/heap/counted.h"
#include "agent/heap/hooks.h"

#define EXPORTED __attribute__((visibility("default")))

#pragma weak __errno_location

extern struct infp_preload_heap infp_preload_heap;

typedef void *mmap_fn(void *, size_t, int, int, int, off_t);
typedef int munmap_fn(void *, size_t);
typedef void *mremap_fn(void *, size_t, size_t, int, void *);

/* By their names here: the headers may give `mmap` the name of mmap64. */
EXPORTED mmap_fn infp_preload_mmap __asm__("mmap"), infp_preload_mmap64 __asm__("mmap64");
EXPORTED munmap_fn infp_preload_munmap __asm__("munmap");
EXPORTED mremap_fn infp_preload_mremap __asm__("mremap");

enum { PAGE = 4096 };

static struct {
        mmap_fn *mmap, *mmap64;
        munmap_fn *munmap;
        mremap_fn *mremap;
        bool is_asked;
} next;

static int64_t result_of(int64_t result)
{
        if (result >= 0 || result < -4095)
                return result;
        if (__errno_location)
                errno = (int) -result;
        return -1;
}

static void *mmap_of_kernel(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
        return (void *) result_of(infp_system_call(SYS_mmap, (uintptr_t) address, size, (uint64_t) protection,
                                                   (uint64_t) flags, (uint64_t) file, (uint64_t) offset));
}

static int munmap_of_kernel(void *address, size_t size)
{
        return (int) result_of(infp_system_call(SYS_munmap, (uintptr_t) address, size, 0, 0, 0, 0));
}

static void *mremap_of_kernel(void *old, size_t old_size, size_t size, int flags, void *address)
{
        return (void *) result_of(infp_system_call(SYS_mremap, (uintptr_t) old, old_size, size, (uint64_t) flags,
                                                   (uintptr_t) address, 0));
}

/* All at once, before main: dlsym waits for a lock that another thread may hold in dlopen, for long. */
__attribute__((constructor(101))) static void find_all(void)
{
        if (next.is_asked)
                return;
        next.is_asked = true;
        *(void **) &next.mmap = infp_next("mmap");
        *(void **) &next.mmap64 = infp_next("mmap64");
        *(void **) &next.munmap = infp_next("munmap");
        *(void **) &next.mremap = infp_next("mremap");
}

/* ---- what is counted ---- */

/* Neither those of the agent nor those of an allocator. */
static bool is_program(const void *caller)
{
        const uint64_t at = (uintptr_t) caller;

        if (!atomic_load_explicit(&infp_preload_heap.mapped, memory_order_acquire) || infp_heap_is_busy())
                return false;
        for (unsigned i = 0; i < INFP_HEAP_OWN; i++)
                if (at >= infp_preload_heap.own[i].begin && at < infp_preload_heap.own[i].end)
                        return false;
        return true;
}

static bool is_memory(int protection, int flags)
{
        return (flags & (MAP_PRIVATE | MAP_ANONYMOUS)) == (MAP_PRIVATE | MAP_ANONYMOUS) && protection & PROT_WRITE &&
               !(flags & (MAP_NORESERVE | MAP_STACK | MAP_GROWSDOWN));
}

static uint64_t now(void)
{
        return infp_preload_heap.mapping();
}

/* What lay there, however it went: by another thread that has not said so yet, or by a call that does not come here. */
static bool end(const void *begin, size_t size, uint64_t since)
{
        const uint64_t from = (uintptr_t) begin & ~(uint64_t) (PAGE - 1);

        return infp_preload_heap.unmapped(from, (uintptr_t) begin + size, since);
}

/* ---- the functions ---- */

static void *map(mmap_fn *function, const void *caller, void *address, size_t size, int protection, int flags, int file,
                 off_t offset)
{
        uint64_t since;
        void *mapped;

        if (!is_program(caller))
                return function(address, size, protection, flags, file, offset);
        since = now();
        mapped = function(address, size, protection, flags, file, offset);
        if (mapped == MAP_FAILED)
                return mapped;
        end(mapped, size, since);
        if (is_memory(protection, flags))
                infp_heap_mapped((uintptr_t) mapped, size);
        return mapped;
}

void *infp_preload_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
        find_all();
        return map(next.mmap ? next.mmap : mmap_of_kernel, __builtin_return_address(0), address, size, protection,
                   flags, file, offset);
}

void *infp_preload_mmap64(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
        find_all();
        return map(next.mmap64 ? next.mmap64 : mmap_of_kernel, __builtin_return_address(0), address, size, protection,
                   flags, file, offset);
}

int infp_preload_munmap(void *address, size_t size)
{
        munmap_fn *function;
        uint64_t since;
        int result;

        find_all();
        function = next.munmap ? next.munmap : munmap_of_kernel;
        if (!is_program(__builtin_return_address(0)))
                return function(address, size);
        since = now();
        result = function(address, size);
        if (result == 0)
                end(address, size, since);
        return result;
}

/* It is variadic, which x86-64 and 64-bit Arm call alike. As realloc it ends a block and begins another; what was no block stays none.
 * MREMAP_DONTUNMAP leaves the block where it was: what comes beside it is not counted. */
void *infp_preload_mremap(void *old, size_t old_size, size_t size, int flags, void *address)
{
        mremap_fn *function;
        uint64_t since;
        bool was_counted;
        void *mapped;

        find_all();
        function = next.mremap ? next.mremap : mremap_of_kernel;
        if (!is_program(__builtin_return_address(0)))
                return function(old, old_size, size, flags, address);
        since = now();
        mapped = function(old, old_size, size, flags, address);
        if (mapped == MAP_FAILED)
                return mapped;
        was_counted = !(flags & 4 /* MREMAP_DONTUNMAP */) && end(old, old_size, since);
        end(mapped, size, since);
        if (was_counted)
                infp_heap_mapped((uintptr_t) mapped, size);
        return mapped;
}
