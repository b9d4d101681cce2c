/* Unwind tables: for each address of an ELF image the rule that leads to its caller's registers.
 *
 * A table is one block of the caller's memory without pointers in it: it may be copied, written to a file and mapped from there.
 * It is read by any number of threads. Nothing here allocates, locks or prints. About 6.3 bytes a row, 4 a function. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/elf_image.h"
#include "unwind/rule.h"

#define INFP_UNWIND_TABLE_MAGIC UINT64_C(0x3244574e55464e49) /* "INFUNWD2" */

struct infp_unwind_table {
        uint64_t magic, size; /* of the block */
        uint64_t base;        /* address in the image that pc 0 of the table stands for */
        uint32_t n_rules, n_saves, n_rows, n_functions, n_buckets, bucket_shift;
        uint32_t rules_at, saves_at, pcs_at, row_rules_at, functions_at, buckets_at; /* bytes from the block's begin */
        /* What was met when it was built. */
        uint32_t n_fdes;        /* entries that were read */
        uint32_t n_bad;         /* entries that were not: unknown encodings, broken programs */
        uint32_t n_outside;     /* left out: not in executable memory */
        uint32_t n_overlapping; /* left out or cut: another entry has their addresses */
        uint32_t n_unsupported; /* rows with an expression that is not supported */
        uint32_t n_plt_rows;    /* rows of linkage tables without entries of their own */
        uint32_t is_cut_short;  /* a broken length ended the reading */
        uint32_t zero;
};

/* What a build needs; made by infp_unwind_table_measure(). */
struct infp_unwind_room {
        uint64_t bytes; /* of memory while it is built; the table itself is smaller */
        uint32_t n_entries, max_rows, max_rules, max_saves;
        bool has_rules; /* else a row says only whether there is a function */
};

/* Returns 0, -ENODATA when the image has no call frame information, or -EFBIG. */
int infp_unwind_table_measure(const struct infp_elf *elf, struct infp_unwind_room *ret);

/* The same for a table of functions alone, without rules for the code in them: a tenth of the work. */
int infp_unwind_table_measure_functions(const struct infp_elf *elf, struct infp_unwind_room *ret);

/* Builds the table at the begin of memory, which is aligned to 8 and has room->bytes. ret->size bytes are the table's; the rest is
 * free again. Returns 0, or -ENOSPC when the image changed after it was measured. */
int infp_unwind_table_build(const struct infp_elf *elf, const struct infp_unwind_room *room, void *memory,
                            const struct infp_unwind_table **ret);

/* The table in memory that comes from a file: 0, or -EBADMSG when using it would read outside. */
int infp_unwind_table_check(const void *memory, uint64_t size, const struct infp_unwind_table **ret);

/* The function (a stretch that one entry covers) with vaddr in it. */
bool infp_unwind_table_function(const struct infp_unwind_table *table, uint64_t vaddr, uint64_t *ret_begin,
                                uint64_t *ret_end);

static inline const struct infp_unwind_rule *infp_unwind_table_rules(const struct infp_unwind_table *table)
{
        return (const struct infp_unwind_rule *) ((const char *) table + table->rules_at);
}

static inline const struct infp_unwind_save *infp_unwind_table_saves(const struct infp_unwind_table *table)
{
        return (const struct infp_unwind_save *) ((const char *) table + table->saves_at);
}

static inline const uint32_t *infp_unwind_table_pcs(const struct infp_unwind_table *table)
{
        return (const uint32_t *) ((const char *) table + table->pcs_at);
}

static inline const uint16_t *infp_unwind_table_row_rules(const struct infp_unwind_table *table)
{
        return (const uint16_t *) ((const char *) table + table->row_rules_at);
}

/* The last row at or before vaddr, or -1. */
int64_t infp_unwind_table_row(const struct infp_unwind_table *table, uint64_t vaddr);

/* The number of the rule at vaddr: INFP_RULE_NONE when no entry covers it. */
unsigned infp_unwind_table_find(const struct infp_unwind_table *table, uint64_t vaddr);
