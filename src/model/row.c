#include "model/row.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/text.h"

void infp_row_begin(struct infp_row *row, const struct infp_table *table, uint64_t t_ns)
{
        row->table = table;
        row->t_ns = t_ns;
        row->valid[0] = row->valid[1] = 0;
        row->text_size = 0;
}

static const struct infp_column *column_of(const struct infp_row *row, unsigned column)
{
        const struct infp_table *table = row->table;

        assert(column < (unsigned) table->n_keys + table->n_columns && column < INFP_MAX_COLUMNS);
        return column < table->n_keys ? &table->keys[column] : &table->columns[column - table->n_keys];
}

static union infp_cell *set(struct infp_row *row, unsigned column, enum infp_type type)
{
        assert(column_of(row, column)->type == type);
        (void) type;
        row->valid[column / 64] |= UINT64_C(1) << (column % 64);
        return &row->cell[column];
}

void infp_row_i64(struct infp_row *row, unsigned column, int64_t v)
{
        set(row, column, INFP_I64)->i64 = v;
}

void infp_row_u64(struct infp_row *row, unsigned column, uint64_t v)
{
        set(row, column, INFP_U64)->u64 = v;
}

void infp_row_f64(struct infp_row *row, unsigned column, double v)
{
        if (isfinite(v))
                set(row, column, INFP_F64)->f64 = v;
}

void infp_row_bool(struct infp_row *row, unsigned column, bool v)
{
        set(row, column, INFP_BOOL)->b = v;
}

void infp_row_id(struct infp_row *row, unsigned column, uint64_t id)
{
        set(row, column, INFP_ID64)->u64 = id;
}

void infp_row_ts(struct infp_row *row, unsigned column, int64_t unix_ns)
{
        set(row, column, INFP_TS_NS)->i64 = unix_ns;
}

static void set_text(struct infp_row *row, unsigned column, size_t size)
{
        union infp_cell *cell = set(row, column, INFP_STR);

        cell->text.offset = row->text_size;
        cell->text.size = (uint32_t) size;
        row->text_size += (uint32_t) size;
}

/* Our own texts quote paths and names from outside now and then; a byte that is no UTF-8 would make the whole column
 * unreadable, so it is written as text.h does, while backslashes stay as they are. */
void infp_row_str(struct infp_row *row, unsigned column, const char *utf8)
{
        size_t size = strlen(utf8), room = row->text_cap - row->text_size, n = 0;
        char *at = row->text + row->text_size;

        for (size_t i = 0; i < size;) {
                unsigned length = infp_utf8_length(utf8 + i, size - i);

                if (length == 0) {
                        size_t escaped = infp_text_escape(utf8 + i, 1, at + n, room - n);

                        if (escaped == 0)
                                break;
                        n += escaped;
                        i++;
                        continue;
                }
                if (length > room - n)
                        break;
                memcpy(at + n, utf8 + i, length);
                n += length;
                i += length;
        }
        set_text(row, column, n);
}

void infp_row_bytes(struct infp_row *row, unsigned column, const char *s, size_t size)
{
        set_text(row, column, infp_text_escape(s, size, row->text + row->text_size, row->text_cap - row->text_size));
}

void infp_row_foreign(struct infp_row *row, unsigned column, const char *s)
{
        if (*s)
                infp_row_bytes(row, column, s, strlen(s));
}

void infp_row_raw(struct infp_row *row, unsigned column, uint64_t raw)
{
        const struct infp_column *c = column_of(row, column);
        unsigned __int128 product = (unsigned __int128) raw * (c->scale ? c->scale : 1);

        switch (c->type) {
        case INFP_I64:
                if (product <= INT64_MAX)
                        infp_row_i64(row, column, (int64_t) product);
                break;
        case INFP_U64:
                if (product <= UINT64_MAX)
                        infp_row_u64(row, column, (uint64_t) product);
                break;
        case INFP_F64:
                infp_row_f64(row, column, (double) product);
                break;
        default:
                assert(!"a raw value goes into I64, U64 or F64");
        }
}

const char *infp_row_text(const struct infp_row *row, unsigned column, size_t *ret_size)
{
        bool has = infp_row_has(row, column);

        assert(column_of(row, column)->type == INFP_STR);
        *ret_size = has ? row->cell[column].text.size : 0;
        return has && *ret_size ? row->text + row->cell[column].text.offset : "";
}
