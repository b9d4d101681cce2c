/* Fills cells from kernel text by the columns' own keys, so that a new metric is one line of its table: "meminfo:MemTotal" is
 * the number after that word at the start of a line of the file tagged meminfo, "diskstats:5" is word 5 (from 0) of a line.
 * Columns without a key are set by hand. */
#pragma once

#include "base/procfile.h"
#include "collect/emit.h"

enum { INFP_FIELD_WORDS = 32, INFP_FIELD_SLOTS = 256 };

struct infp_fields {
        const struct infp_table *table;
        const char *path;     /* for reasons: "/proc/meminfo" */
        uint32_t ticks_per_s; /* ticks of the source: columns in cs are converted. 0: it has none */
        uint8_t n;
        struct infp_field {
                const char *name; /* NULL: by position */
                uint8_t name_size, word, cell;
        } field[INFP_MAX_COLUMNS];
        uint8_t slot[INFP_FIELD_SLOTS]; /* by hash of the name: index + 1 */
};

void infp_fields_init(struct infp_fields *fields, const struct infp_table *table, const char *tag, const char *path,
                      uint32_t ticks_per_s);

/* A line "name value ..." or "name: value ...". */
void infp_fields_named(const struct infp_fields *fields, struct infp_row *row, struct infp_span line);
/* The words of a line by position. */
void infp_fields_words(const struct infp_fields *fields, struct infp_row *row, const struct infp_span *words, size_t n);

/* Between begin and commit: reports for each column of these fields without a value why: `r` is the result of reading the
 * file. */
void infp_fields_explain(const struct infp_fields *fields, struct infp_emit *emit, int r);
/* The same for a column that is computed from them. */
void infp_fields_explain_derived(const struct infp_fields *fields, struct infp_emit *emit, unsigned cell, int r);

/* Sums over the lines of several devices: a column that one of them lacks has no sum. Zero-initialised. */
struct infp_sums {
        uint64_t total[INFP_MAX_COLUMNS]; /* by field */
        bool is_unknown[INFP_MAX_COLUMNS];
        size_t n, most_words, last_words;
};
/* Call for each line of a device, whether it is added or not: a last line that is short reveals a cut text. */
void infp_sums_line(struct infp_sums *sums, size_t n_words);
void infp_sums_add(struct infp_sums *sums, const struct infp_fields *fields, const struct infp_span *words, size_t n);
/* A cut text gives no sums: devices are missing after the cut. */
void infp_sums_row(const struct infp_sums *sums, const struct infp_fields *fields, bool is_cut, struct infp_row *row);
bool infp_sums_is_cut(const struct infp_sums *sums, struct infp_span text, size_t fewest_words);

/* The text without a last word that nothing ends. The kernel ends each line: the end of a cut text may be the first digits of
 * another number. */
struct infp_span infp_whole_words(struct infp_span text);
