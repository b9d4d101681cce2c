/* Inside the reader of names of code made at run time: what its two formats are put into. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"
#include "symbols/symbols.h"

enum {
        INFP_JIT_MAX_ENTRIES = 1 << 20,
        INFP_JIT_MAX_TEXT = 128 << 20,
        INFP_JIT_MAX_LINES = 4 << 20,
        INFP_JIT_MAX_NAME = 4096,
        INFP_JIT_MAX_FILES = 64,
};

struct infp_jit_entry {
        uint64_t begin, end, t_ns;
        uint32_t order;         /* a later one is newer */
        uint32_t name;          /* in text */
        uint32_t line, n_lines; /* in lines; 0: none */
        uint64_t code;          /* where `lines` say that it begins: it may have been moved since */
        bool is_dump;
};
struct infp_jit_line {
        uint64_t address;
        uint32_t line, file; /* in text */
};

/* How far a file was read. */
struct infp_jit_file {
        uint64_t device, inode, at;
        bool is_swapped, has_time, is_broken;
        uint32_t line, n_lines; /* of the last debug record: they belong to the next piece of code */
        uint64_t code;
};

struct infp_jit_symbols {
        struct infp_jit_entry *entries; /* by begin, then order, once sorted */
        uint64_t *most;                 /* of entries: the greatest end of it and all before */
        struct infp_jit_line *lines;
        size_t n, cap, n_lines, cap_lines, n_sorted;
        struct infp_str text, made; /* texts, each with a 0 after it; what the last look-up shows */
        struct infp_jit_file files[INFP_JIT_MAX_FILES];
        unsigned n_files;
        uint64_t n_rejected;
        bool is_full;
};

/* The state of an open file; NULL: too many files. */
struct infp_jit_file *infp_jit_file(struct infp_jit_symbols *jit, int fd, uint64_t *ret_size);
/* Where the text is, or -ENOSPC, -ENOMEM. */
int64_t infp_jit_text(struct infp_jit_symbols *jit, const char *text, size_t size);
/* Consumes nothing; -ENOSPC when there are too many. */
int infp_jit_add(struct infp_jit_symbols *jit, const struct infp_jit_entry *entry);
/* Makes what was added findable. */
int infp_jit_sort(struct infp_jit_symbols *jit);
/* How many of the sorted entries begin at this address or before it. */
size_t infp_jit_up_to(const struct infp_jit_symbols *jit, uint64_t address);
