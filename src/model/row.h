/* A row lives only between a source and its ring: cells by column number, a validity bit each. A cell that was not set is
 * absent, never 0. Texts are copied into the row's own scratch memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/schema.h"

union infp_cell {
        int64_t i64;  /* also TS_NS */
        uint64_t u64; /* also ID64 */
        double f64;
        bool b;
        struct {
                uint32_t offset, size;
        } text; /* in infp_row.text */
};

enum { INFP_ROW_TEXT = 192 * 1024 }; /* the texts of one row together; what does not fit is cut at a character */

struct infp_row {
        const struct infp_table *table;
        uint64_t t_ns;
        uint64_t valid[2]; /* bit i: cell i; cells are numbered keys first, then columns: table column 0 is cell 0 */
        union infp_cell cell[INFP_MAX_COLUMNS];
        char *text; /* borrowed scratch of text_cap bytes */
        uint32_t text_size, text_cap;
};

void infp_row_begin(struct infp_row *row, const struct infp_table *table, uint64_t t_ns);

/* `column` counts keys and columns without t_ns and time. The type must be the column's: checked by assert, it is our code. */
void infp_row_i64(struct infp_row *row, unsigned column, int64_t v);
void infp_row_u64(struct infp_row *row, unsigned column, uint64_t v);
void infp_row_f64(struct infp_row *row, unsigned column, double v); /* not finite: stays absent */
void infp_row_bool(struct infp_row *row, unsigned column, bool v);
void infp_row_id(struct infp_row *row, unsigned column, uint64_t id);
void infp_row_ts(struct infp_row *row, unsigned column, int64_t unix_ns);
void infp_row_str(struct infp_row *row, unsigned column, const char *utf8); /* text of ours */
void infp_row_bytes(struct infp_row *row, unsigned column, const char *s,
                    size_t size); /* from outside: text.h's escapes */
void infp_row_foreign(struct infp_row *row, unsigned column,
                      const char *s); /* the same up to its 0; absent where it is "" */

/* An unsigned raw value of the source: times the column's scale, into I64, U64 or F64, whichever the column is. A product
 * that does not fit stays absent. */
void infp_row_raw(struct infp_row *row, unsigned column, uint64_t raw);

static inline bool infp_row_has(const struct infp_row *row, unsigned column)
{
        return row->valid[column / 64] >> (column % 64) & 1;
}
const char *infp_row_text(const struct infp_row *row, unsigned column, size_t *ret_size); /* "" when absent */
