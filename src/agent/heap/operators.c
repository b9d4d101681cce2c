/* C++: new and delete. Those of libstdc++ and libc++ call malloc and free, which count (interpose.c). Allocators have some of their own
 * beside malloc (tcmalloc, jemalloc, mimalloc): their blocks are counted here.
 *
 * A library with C++ that is opened later, into a program without, would find these functions first, before operators of its own, and the
 * next ones are then not among those that RTLD_NEXT knows. So a program without C++ has none of these: their symbols are taken away before
 * main. What was bound before that, or where they cannot be taken away, does what libstdc++ and libc++ do, malloc, but does not throw where
 * that has no memory: it ends the program.
 *
 * All are looked for at once, before main: dlsym waits for a lock that another thread may hold in dlopen, for long. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "agent/core/next.h"
#include "agent/core/system_call.h"
#include "agent/heap/counted.h"

#define EXPORTED __attribute__((visibility("default")))
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#pragma weak dladdr
#pragma weak dlerror

/* Parameters that a function does not have are whatever their registers hold, and are passed on. */
typedef void *new_fn(size_t size, size_t second, size_t third);
typedef void delete_fn(void *block, size_t second, size_t third);

#define NEWS(X)                                                  \
        X(_Znwm, PLAIN)                                          \
        X(_Znam, PLAIN)                                          \
        X(_ZnwmRKSt9nothrow_t, NOTHROW)                          \
        X(_ZnamRKSt9nothrow_t, NOTHROW)                          \
        X(_ZnwmSt11align_val_t, ALIGNED)                         \
        X(_ZnamSt11align_val_t, ALIGNED)                         \
        X(_ZnwmSt11align_val_tRKSt9nothrow_t, ALIGNED | NOTHROW) \
        X(_ZnamSt11align_val_tRKSt9nothrow_t, ALIGNED | NOTHROW)
#define DELETES(X)                                    \
        X(_ZdlPv, PLAIN)                              \
        X(_ZdaPv, PLAIN)                              \
        X(_ZdlPvm, PLAIN)                             \
        X(_ZdaPvm, PLAIN)                             \
        X(_ZdlPvRKSt9nothrow_t, PLAIN)                \
        X(_ZdaPvRKSt9nothrow_t, PLAIN)                \
        X(_ZdlPvSt11align_val_t, PLAIN)               \
        X(_ZdaPvSt11align_val_t, PLAIN)               \
        X(_ZdlPvmSt11align_val_t, PLAIN)              \
        X(_ZdaPvmSt11align_val_t, PLAIN)              \
        X(_ZdlPvSt11align_val_tRKSt9nothrow_t, PLAIN) \
        X(_ZdaPvSt11align_val_tRKSt9nothrow_t, PLAIN)

enum { PAGE = 4096 };
enum { PLAIN = 0, ALIGNED = 1, NOTHROW = 2 };
#define INDEX(symbol, kind) AT_##symbol,
#define NAME(symbol, kind) #symbol,
enum { NEWS(INDEX) DELETES(INDEX) N };
static const char *const names[N] = { NEWS(NAME) DELETES(NAME) };

static struct {
        void *function;
        bool is_counted; /* it belongs to the library that malloc comes from */
} next[N];
static bool is_asked;

static const void *library_of(void *function)
{
        Dl_info info;

        return function && dladdr && dladdr(function, &info) ? info.dli_fbase : NULL;
}

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/* The loader may have added where this library lies, or not. */
static uintptr_t address_of(const ElfW(Dyn) * entry)
{
        const uintptr_t begin = (uintptr_t) &__ehdr_start, value = entry->d_un.d_ptr;

        return value < begin ? begin + value : value;
}

/* Never in pages with code: a security module may forbid to run those again that were written to. */
static bool set_right(uintptr_t begin, uintptr_t end, uint64_t right)
{
        const ElfW(Phdr) *parts = (const void *) ((const char *) &__ehdr_start + __ehdr_start.e_phoff);
        const uintptr_t page = begin & ~(uintptr_t) (PAGE - 1);

        for (unsigned i = 0; i < __ehdr_start.e_phnum; i++) {
                const uintptr_t at = (uintptr_t) &__ehdr_start + parts[i].p_vaddr;

                if (parts[i].p_type == PT_LOAD && parts[i].p_flags == PF_R && begin >= at &&
                    end <= at + parts[i].p_memsz)
                        return infp_system_call(SYS_mprotect, page, end - page, right, 0, 0, 0) == 0;
        }
        return false;
}

/* Loaders pass over symbols without a value. Their number is that of the hash table, for which meson.build asks the linker. */
static void take_away(void)
{
        uintptr_t symbols = 0, texts = 0, end;
        const uint32_t *hash = NULL; /* number of buckets, of symbols, ... */

        for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++) {
                symbols = entry->d_tag == DT_SYMTAB ? address_of(entry) : symbols;
                texts = entry->d_tag == DT_STRTAB ? address_of(entry) : texts;
                hash = entry->d_tag == DT_HASH ? (const uint32_t *) address_of(entry) : hash;
        }
        end = hash ? symbols + hash[1] * sizeof(ElfW(Sym)) : 0;
        if (!symbols || !texts || !hash || !set_right(symbols, end, PROT_READ | PROT_WRITE))
                return;
        for (ElfW(Sym) *symbol = (void *) symbols; (uintptr_t) symbol < end; symbol++) {
                const char *name = (const char *) texts + symbol->st_name;

                if (name[0] == '_' && name[1] == 'Z' && (name[2] == 'n' || name[2] == 'd'))
                        symbol->st_value = 0;
        }
        set_right(symbols, end, PROT_READ);
}

__attribute__((constructor(101))) static void find_all(void)
{
        const void *allocator;

        if (is_asked)
                return;
        is_asked = true;
        next[0].function = infp_next(names[0]);
        if (!next[0].function) {
                if (dlerror)
                        dlerror(); /* else the program's own call would have the message */
                take_away();
                return;
        }
        allocator = library_of(infp_next("malloc"));
        for (unsigned i = 0; i < N; i++) {
                next[i].function = infp_next(names[i]);
                next[i].is_counted = allocator && library_of(next[i].function) == allocator;
        }
        if (dlerror)
                dlerror();
}

/* ---- where there is no next one ---- */

static void *__attribute__((noinline)) new_without(unsigned kind, size_t size, size_t alignment)
{
        void *block = NULL;

        size = size ? size : 1;
        if (!(kind & ALIGNED))
                block = malloc(size);
        else if (size + alignment - 1 >= size)
                block = aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
        if (!block && !(kind & NOTHROW))
                __builtin_trap(); /* nothing throws here */
        return block;
}

/* ---- the functions ---- */

static void *__attribute__((noinline)) new_counted(new_fn *function, size_t size, size_t second, size_t third)
{
        const int64_t before = infp_heap_left();
        void *block = function(size, second, third);

        if (infp_heap_left() == before)
                infp_heap_count(block, size);
        return block;
}

#define DEFINE_NEW(symbol, kind)                                                                 \
        EXPORTED new_fn symbol;                                                                  \
        void *symbol(size_t size, size_t second, size_t third)                                   \
        {                                                                                        \
                new_fn *function = (new_fn *) next[AT_##symbol].function;                        \
                                                                                                 \
                if (UNLIKELY(!function)) {                                                       \
                        find_all();                                                              \
                        function = (new_fn *) next[AT_##symbol].function;                        \
                }                                                                                \
                if (UNLIKELY(!function))                                                         \
                        return new_without(kind, size, second);                                  \
                return next[AT_##symbol].is_counted ? new_counted(function, size, second, third) \
                                                    : function(size, second, third);             \
        }
#define DEFINE_DELETE(symbol, kind)                                             \
        EXPORTED delete_fn symbol;                                              \
        void symbol(void *block, size_t second, size_t third)                   \
        {                                                                       \
                delete_fn *function = (delete_fn *) next[AT_##symbol].function; \
                                                                                \
                if (UNLIKELY(!function)) {                                      \
                        find_all();                                             \
                        function = (delete_fn *) next[AT_##symbol].function;    \
                }                                                               \
                if (UNLIKELY(!function)) {                                      \
                        free(block);                                            \
                        return;                                                 \
                }                                                               \
                if (next[AT_##symbol].is_counted)                               \
                        infp_heap_gone(block);                                  \
                function(block, second, third);                                 \
        }
NEWS(DEFINE_NEW)
DELETES(DEFINE_DELETE)
