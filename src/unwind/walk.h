/* Unwinding a stack: from the registers of one moment and a copy of the stack to the addresses of all callers.
 *
 * Everything is the caller's memory; nothing allocates, locks, prints or touches errno, so that it may run in a signal handler.
 * Only the given dumps and code are read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/rule.h"
#include "unwind/table.h"

enum {
        /* Where its table has nothing, its functions keep rbp as a frame pointer (Go), but for those that have no frame of their
         * own: a guess. */
        INFP_MAPPING_FRAME_POINTERS = 1,
        /* The whole object has no table (musl): where one of its functions is a caller, and no guess leads on, it is the one that
         * began the thread, as far as anybody can tell. Only with may_guess. */
        INFP_MAPPING_NO_TABLES = 2,
};

/* Executable memory of a process. */
struct infp_unwind_mapping {
        uint64_t begin, end;
        uint64_t bias;                         /* address in memory - address in the image */
        const struct infp_unwind_table *table; /* NULL: none (made at run time, or not built yet) */
        const uint8_t *code;                   /* the bytes of [begin, end); NULL: not at hand */
        uint32_t flags;
        uint32_t id;    /* for the caller */
        uint64_t entry; /* where a program or its loader begins: nobody calls it; 0: not known */
};

struct infp_unwind_space {
        const struct infp_unwind_mapping *mappings; /* sorted, disjoint */
        uint32_t n_mappings;
        uint32_t id; /* not 0; another one whenever the mappings change: cached rules name it */
};

/* Memory of the stopped thread. A register that was saved below the stack pointer and outside of every dump has its
 * value again (an epilogue popped it). To have what leaf functions keep below their stack pointer, begin up to 128 bytes below it. */
struct infp_unwind_dump {
        const uint8_t *bytes;
        uint64_t begin, size;
        bool is_cut; /* the stack goes on above it */
};

/* A direct-mapped cache of rules by address, for one thread at a time, shared by all spaces. */
struct infp_unwind_cached {
        uint64_t pc;
        const struct infp_unwind_rule *rule;
        const struct infp_unwind_save *saves;
        uint32_t space, mapping;
};
struct infp_unwind_cache {
        struct infp_unwind_cached *entries;
        unsigned shift; /* 64 - log2 of the number of entries */
        uint64_t n_missed;
};

/* n is a power of 2 and not 1; 16,384 serve a process well. The entries are cleared. */
void infp_unwind_cache_init(struct infp_unwind_cache *cache, struct infp_unwind_cached *entries, uint32_t n);

enum {
        INFP_FRAME_EXACT = 1,         /* pc is the instruction that was at work; else the one after a call */
        INFP_FRAME_SIGNAL = 2,        /* the frame that the kernel makes for a signal */
        INFP_FRAME_FRAME_POINTER = 4, /* its caller was found by frame pointer alone */
        INFP_FRAME_GUESSED =
                8, /* it, or a frame between, was found by frame pointer alone, or by looking for a return address */
};

struct infp_unwind_frame {
        uint64_t pc;      /* as it was in the register or on the stack */
        uint64_t sp;      /* in this frame */
        uint32_t mapping; /* index; INFP_NO_MAPPING */
        uint32_t flags;
};
#define INFP_NO_MAPPING UINT32_MAX

enum infp_unwind_end {
        INFP_UNWIND_COMPLETE,    /* the outermost frame says that it is */
        INFP_UNWIND_TRUNCATED,   /* the dump ends below what was needed */
        INFP_UNWIND_TOO_DEEP,    /* more frames than there was room for */
        INFP_UNWIND_NO_MAPPING,  /* the address is in no mapping */
        INFP_UNWIND_NO_TABLE,    /* the mapping has no table, or its table nothing there */
        INFP_UNWIND_UNSUPPORTED, /* its rule is an expression that is not supported */
        INFP_UNWIND_BROKEN, /* a needed register is lost, memory outside the stack, or a stack that does not grow */
};

struct infp_unwind_result {
        enum infp_unwind_end end;
        uint32_t n_frames, n_guessed;
        uint64_t address; /* what was looked for in vain: code, or memory when truncated or broken */
};

/* What a walk depended on beside the tables: some registers of its start, and words of the first dump. Where they are the same again, so is
 * the walk. */
enum { INFP_UNWIND_TRAIL = 128 };
struct infp_unwind_trail {
        uint32_t n;
        uint32_t registers;             /* a bit for each */
        bool is_whole;                  /* false: it depended on more, and says nothing */
        uint32_t at[INFP_UNWIND_TRAIL]; /* bytes from the dump's begin */
        uint64_t words[INFP_UNWIND_TRAIL];
};

/* What an unwind starts from. */
struct infp_unwind_start {
        const struct infp_unwind_space *space;
        const struct infp_unwind_dump
                *dumps; /* the first is the one with the stack pointer in it; more: alternate stacks */
        uint32_t n_dumps;
        bool may_guess;         /* bridge code without tables (compiled at run time) */
        const uint64_t *values; /* of INFP_N_REGISTERS registers, by DWARF number */
        /* Bit r: values[r] is not known (a thread that was not stopped). An unwind that needs it before a frame gave it back
         * ends as broken. */
        uint32_t unknown;
        struct infp_unwind_trail *trail; /* is filled; NULL: not wanted */
};

/* Fills up to max_frames frames, the innermost first. ret_frames has room for them. cache may be NULL. */
void infp_unwind(const struct infp_unwind_start *start, struct infp_unwind_cache *cache,
                 struct infp_unwind_frame *ret_frames, uint32_t max_frames, struct infp_unwind_result *ret);

/* The mapping with address in it, or INFP_NO_MAPPING. */
uint32_t infp_unwind_find_mapping(const struct infp_unwind_space *space, uint64_t address);

/* A short plain name, as it is stored: "complete", "truncated" ... */
const char *infp_unwind_end_name(enum infp_unwind_end end);
