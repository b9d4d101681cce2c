/* Functions of allocators that have names of their own: jemalloc's mallocx, mimalloc's mi_malloc, tcmalloc's tc_malloc and the like. Programs
 * look for them (weak references, dlsym) to know which allocator they have, so the stub must not define them. Instead the references to them
 * that the loader has resolved are turned to functions of ours: of the program and the libraries that it was linked with. Those that it opens
 * later, and pointers that dlsym gave, go to the allocator as before.
 *
 * mi_heap_malloc and the like are left alone: mi_heap_destroy frees their blocks without saying so. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/heap/heap_parts.h"

enum { PAGE = 4096 };

/* What a function does, and which of its arguments is what: the block that it is given, and the factors of the size. */
enum kind {
        GIVES,    /* returns a block */
        SETS,     /* the first argument says where it goes; returns 0 or an error */
        MOVES,    /* ends one and returns another; NULL: it stays */
        MOVES_OR, /* the same, but it ends anyway */
        RESIZES,  /* in place; returns how large it is, or where */
        COPIES,   /* returns a text */
        FREES,
};
enum { NO = 6 };

#define FUNCTIONS(X)                                     \
        X(mallocx, GIVES, 0, NO)                         \
        X(rallocx, MOVES, 1, NO)                         \
        X(xallocx, RESIZES, 1, NO)                       \
        X(dallocx, FREES, NO, NO)                        \
        X(sdallocx, FREES, NO, NO)                       \
        X(mi_malloc, GIVES, 0, NO)                       \
        X(mi_malloc_small, GIVES, 0, NO)                 \
        X(mi_zalloc, GIVES, 0, NO)                       \
        X(mi_zalloc_small, GIVES, 0, NO)                 \
        X(mi_calloc, GIVES, 0, 1)                        \
        X(mi_mallocn, GIVES, 0, 1)                       \
        X(mi_realloc, MOVES, 1, NO)                      \
        X(mi_reallocn, MOVES, 1, 2)                      \
        X(mi_reallocarray, MOVES, 1, 2)                  \
        X(mi_reallocf, MOVES_OR, 1, NO)                  \
        X(mi_rezalloc, MOVES, 1, NO)                     \
        X(mi_recalloc, MOVES, 1, 2)                      \
        X(mi_expand, RESIZES, 1, NO)                     \
        X(mi_strdup, COPIES, NO, NO)                     \
        X(mi_strndup, COPIES, NO, NO)                    \
        X(mi_malloc_aligned, GIVES, 0, NO)               \
        X(mi_malloc_aligned_at, GIVES, 0, NO)            \
        X(mi_zalloc_aligned, GIVES, 0, NO)               \
        X(mi_zalloc_aligned_at, GIVES, 0, NO)            \
        X(mi_calloc_aligned, GIVES, 0, 1)                \
        X(mi_calloc_aligned_at, GIVES, 0, 1)             \
        X(mi_realloc_aligned, MOVES, 1, NO)              \
        X(mi_realloc_aligned_at, MOVES, 1, NO)           \
        X(mi_rezalloc_aligned, MOVES, 1, NO)             \
        X(mi_rezalloc_aligned_at, MOVES, 1, NO)          \
        X(mi_recalloc_aligned, MOVES, 1, 2)              \
        X(mi_recalloc_aligned_at, MOVES, 1, 2)           \
        X(mi_posix_memalign, SETS, 2, NO)                \
        X(mi_memalign, GIVES, 1, NO)                     \
        X(mi_aligned_alloc, GIVES, 1, NO)                \
        X(mi_valloc, GIVES, 0, NO)                       \
        X(mi_pvalloc, GIVES, 0, NO)                      \
        X(mi_new, GIVES, 0, NO)                          \
        X(mi_new_nothrow, GIVES, 0, NO)                  \
        X(mi_new_aligned, GIVES, 0, NO)                  \
        X(mi_new_aligned_nothrow, GIVES, 0, NO)          \
        X(mi_new_n, GIVES, 0, 1)                         \
        X(mi_new_realloc, MOVES, 1, NO)                  \
        X(mi_new_reallocn, MOVES, 1, 2)                  \
        X(mi_free, FREES, NO, NO)                        \
        X(mi_cfree, FREES, NO, NO)                       \
        X(mi_free_size, FREES, NO, NO)                   \
        X(mi_free_aligned, FREES, NO, NO)                \
        X(mi_free_size_aligned, FREES, NO, NO)           \
        X(tc_malloc, GIVES, 0, NO)                       \
        X(tc_malloc_skip_new_handler, GIVES, 0, NO)      \
        X(tc_calloc, GIVES, 0, 1)                        \
        X(tc_realloc, MOVES, 1, NO)                      \
        X(tc_memalign, GIVES, 1, NO)                     \
        X(tc_posix_memalign, SETS, 2, NO)                \
        X(tc_valloc, GIVES, 0, NO)                       \
        X(tc_pvalloc, GIVES, 0, NO)                      \
        X(tc_new, GIVES, 0, NO)                          \
        X(tc_new_nothrow, GIVES, 0, NO)                  \
        X(tc_new_aligned, GIVES, 0, NO)                  \
        X(tc_new_aligned_nothrow, GIVES, 0, NO)          \
        X(tc_newarray, GIVES, 0, NO)                     \
        X(tc_newarray_nothrow, GIVES, 0, NO)             \
        X(tc_newarray_aligned, GIVES, 0, NO)             \
        X(tc_newarray_aligned_nothrow, GIVES, 0, NO)     \
        X(tc_free, FREES, NO, NO)                        \
        X(tc_cfree, FREES, NO, NO)                       \
        X(tc_free_sized, FREES, NO, NO)                  \
        X(tc_delete, FREES, NO, NO)                      \
        X(tc_delete_nothrow, FREES, NO, NO)              \
        X(tc_delete_sized, FREES, NO, NO)                \
        X(tc_delete_aligned, FREES, NO, NO)              \
        X(tc_delete_aligned_nothrow, FREES, NO, NO)      \
        X(tc_delete_sized_aligned, FREES, NO, NO)        \
        X(tc_deletearray, FREES, NO, NO)                 \
        X(tc_deletearray_nothrow, FREES, NO, NO)         \
        X(tc_deletearray_sized, FREES, NO, NO)           \
        X(tc_deletearray_aligned, FREES, NO, NO)         \
        X(tc_deletearray_aligned_nothrow, FREES, NO, NO) \
        X(tc_deletearray_sized_aligned, FREES, NO, NO)

/* All take and return whole registers; those that a function does not have are passed on as they are. */
typedef uint64_t function_fn(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f);

#define INDEX(symbol, kind, size, factor) AT_##symbol,
enum { FUNCTIONS(INDEX) N };
#define DECLARE(symbol, kind, size, factor) static function_fn hook_##symbol;
FUNCTIONS(DECLARE)

static struct function {
        const char *name;
        function_fn *hook;
        enum kind kind;
        uint8_t size, factor;
        function_fn *next;
} functions[N] = {
#define DESCRIBE(symbol, kind, size, factor) { #symbol, hook_##symbol, kind, size, factor, NULL },
        FUNCTIONS(DESCRIBE)
};

static struct infp_preload_heap *hooks;

/* A product that is too large is refused, and then not looked at. */
static uint64_t size_of(const struct function *function, const uint64_t *arguments)
{
        return arguments[function->size] * (function->factor < NO ? arguments[function->factor] : 1);
}

static bool is_moved(const struct function *function, const uint64_t *arguments, uint64_t result)
{
        if (function->kind == RESIZES)
                return function == &functions[AT_xallocx] ? result >= arguments[1] : result != 0;
        return result || function->kind == MOVES_OR || function->kind == FREES;
}

static void count(const struct function *function, const uint64_t *arguments, uint64_t result)
{
        void *block = (void *) (function->kind == RESIZES ? arguments[0] : result);

        if (function->kind == SETS)
                hooks->count(result ? NULL : *(void **) arguments[0], size_of(function, arguments));
        else if (function->kind == COPIES)
                hooks->count(block, block ? strlen(block) + 1 : 0);
        else if (function->kind != FREES)
                hooks->count(block, size_of(function, arguments));
}

static uint64_t call(const struct function *function, uint64_t *arguments)
{
        const bool has_block = function->kind == MOVES || function->kind == MOVES_OR || function->kind == RESIZES ||
                               function->kind == FREES,
                   may_be = has_block && arguments[0] && infp_heap_may_be_sampled(hooks, arguments[0]);
        const uint64_t id = may_be ? atomic_load(&hooks->taken)(arguments[0]) : 0;
        const int64_t before = hooks->left();
        uint64_t result;

        if (id && function->kind == FREES)
                atomic_load (&hooks->freed)(id);
        result = function->next(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
        if (function->kind == FREES)
                return result;
        if (id && is_moved(function, arguments, result))
                atomic_load (&hooks->freed)(id);
        else if (id)
                atomic_load (&hooks->kept)(arguments[0], id);
        if (hooks->left() == before && (!has_block || is_moved(function, arguments, result)))
                count(function, arguments, result);
        return result;
}

#define DEFINE(symbol, kind, size, factor)                                                                    \
        static uint64_t hook_##symbol(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) \
        {                                                                                                     \
                uint64_t arguments[NO + 1] = { a, b, c, d, e, f, 0 };                                         \
                                                                                                              \
                return call(&functions[AT_##symbol], arguments);                                              \
        }
FUNCTIONS(DEFINE)

/* ---- references ---- */

struct object {
        uint64_t bias, begin, end;              /* end: of its addresses */
        uint64_t relro_begin, relro_end;        /* the loader has taken the right to write away */
        const ElfW(Rela) * relocations, *slots; /* slots: of calls, maybe not resolved yet */
        uint64_t relocations_size, slots_size;
        const ElfW(Sym) * symbols;
        const char *strings;
        bool is_symbolic;
};

static void read_dynamic(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic, struct object *ret)
{
        for (; dynamic->d_tag != DT_NULL; dynamic++) {
                /* The loader has added the bias to these in all objects but the kernel's. */
                const uint64_t value = dynamic->d_un.d_val;
                const void *at = (const void *) (value < info->dlpi_addr ? value + info->dlpi_addr : value);

                switch (dynamic->d_tag) {
                case DT_RELA:
                        ret->relocations = at;
                        break;
                case DT_RELASZ:
                        ret->relocations_size = value;
                        break;
                case DT_JMPREL:
                        ret->slots = at;
                        break;
                case DT_PLTRELSZ:
                        ret->slots_size = value;
                        break;
                case DT_SYMTAB:
                        ret->symbols = at;
                        break;
                case DT_STRTAB:
                        ret->strings = at;
                        break;
                case DT_SYMBOLIC:
                        ret->is_symbolic = true;
                        break;
                case DT_FLAGS:
                        ret->is_symbolic |= value & DF_SYMBOLIC;
                        break;
                default:
                        break;
                }
        }
}

static bool read_object(const struct dl_phdr_info *info, struct object *ret)
{
        *ret = (struct object){ .bias = info->dlpi_addr, .begin = UINT64_MAX };
        for (unsigned i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *part = &info->dlpi_phdr[i];
                const uint64_t begin = info->dlpi_addr + part->p_vaddr, end = begin + part->p_memsz;

                if (part->p_type == PT_DYNAMIC) {
                        read_dynamic(info, (const ElfW(Dyn) *) begin, ret);
                } else if (part->p_type == PT_GNU_RELRO) {
                        ret->relro_begin = begin & ~(uint64_t) (PAGE - 1);
                        ret->relro_end = end & ~(uint64_t) (PAGE - 1);
                } else if (part->p_type == PT_LOAD) {
                        ret->begin = begin < ret->begin ? begin : ret->begin;
                        ret->end = end > ret->end ? end : ret->end;
                }
        }
        return ret->symbols && ret->strings;
}

static struct function *function_of(const char *name)
{
        if (!strchr("mrxdst", name[0]) || !name[0])
                return NULL;
        for (unsigned i = 0; i < N; i++)
                if (functions[i].next && strcmp(functions[i].name, name) == 0)
                        return &functions[i];
        return NULL;
}

static bool is_in(const struct object *object, uint64_t address)
{
        return address >= object->begin && address < object->end;
}

static void turn(const struct object *object, uint64_t at, function_fn *hook)
{
        void *page = (void *) (at & ~(uint64_t) (PAGE - 1));
        const bool is_locked = at >= object->relro_begin && at < object->relro_end;

        if (is_locked && mprotect(page, PAGE, PROT_READ | PROT_WRITE) < 0)
                return;
        atomic_store_explicit((_Atomic uintptr_t *) at, (uintptr_t) hook, memory_order_release);
        if (is_locked)
                mprotect(page, PAGE, PROT_READ);
}

/* A call that was not made yet leads to the object's own code, which asks the loader: it would find the same. */
static void look(const struct object *object, const ElfW(Rela) * list, uint64_t size)
{
        for (uint64_t i = 0; i < size / sizeof(*list); i++) {
                const uint64_t type = ELF64_R_TYPE(list[i].r_info), at = object->bias + list[i].r_offset;
                const ElfW(Sym) *symbol = &object->symbols[ELF64_R_SYM(list[i].r_info)];
                struct function *function;
                uintptr_t now;

                if ((type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) ||
                    list[i].r_addend || symbol->st_shndx != SHN_UNDEF)
                        continue;
                function = function_of(object->strings + symbol->st_name);
                if (!function || is_in(object, (uintptr_t) function->next))
                        continue; /* the allocator's own */
                now = *(const uintptr_t *) at;
                if (now == (uintptr_t) function->next ||
                    (type == R_X86_64_JUMP_SLOT && is_in(object, now) && !object->is_symbolic))
                        turn(object, at, function->hook);
        }
}

static int look_at(struct dl_phdr_info *info, size_t size, void *context)
{
        struct object object;

        (void) size;
        (void) context;
        if (!read_object(info, &object))
                return 0;
        look(&object, object.relocations, object.relocations_size);
        look(&object, object.slots, object.slots_size);
        return 0;
}

/* NULL: there is none after ours, or the program has one of its own, which comes before. Or the address is that of a jump in the program,
 * whose symbol says that it does not define the function: it leads to the next one. */
static void *bound(const char *name)
{
        void *next = hooks->find(name), *first = dlsym(RTLD_DEFAULT, name);
        const ElfW(Sym) *symbol = NULL;
        Dl_info info;

        if (first == next || (first && dladdr1(first, &info, (void **) &symbol, RTLD_DL_SYMENT) && symbol &&
                              symbol->st_shndx == SHN_UNDEF))
                return next;
        return NULL;
}

void infp_agent_allocators_begin(struct infp_preload_heap *given)
{
        static const char *const libraries[] = { "mallocx", "mi_malloc", "tc_malloc" };
        bool is_any = false;

        hooks = given;
        for (unsigned i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
                const void *function = hooks->find(libraries[i]);

                is_any |= function != NULL;
                infp_agent_mapped_leave_out(function); /* also where malloc is another one's */
        }
        for (unsigned i = 0; i < N && is_any; i++)
                *(void **) &functions[i].next = bound(functions[i].name);
        dlerror(); /* else the program's own call would have the message */
        if (is_any)
                dl_iterate_phdr(look_at, NULL);
}
