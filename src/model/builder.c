#include "model/builder.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { TEXT_PER_ROW = 32 };

/* One column's own memory, a single block; `struct infp_vector` beside it is what readers see. */
struct column {
        enum infp_type type;
        void *block;
        int32_t *offsets; /* texts; where the block begins */
        uint8_t *valid;
        void *values;    /* the last: a sanitizer sees what is written past their end */
        size_t text_cap; /* texts: bytes of values */
};

struct infp_builder {
        const struct infp_table *table;
        unsigned width, fixed;
        uint32_t cap, n;
        bool no_room; /* a text of the row that was begun did not fit */
        struct column *columns;
        struct infp_vector *vectors;
};

static size_t bits(uint32_t n)
{
        return ((size_t) n + 7) / 8;
}

/* What follows it is aligned for any value. */
static size_t aligned(size_t size)
{
        return (size + 7) & ~(size_t) 7;
}

static int column_make(struct column *c, enum infp_type type, uint32_t cap, size_t text_cap)
{
        const bool is_text = type == INFP_STR;
        const size_t valid_at = is_text ? aligned(((size_t) cap + 1) * sizeof(int32_t)) : 0;
        const size_t values_at = valid_at + aligned(bits(cap));
        char *block = calloc(1, values_at + (is_text ? text_cap : type == INFP_BOOL ? bits(cap) : (size_t) cap * 8));

        if (!block)
                return -ENOMEM;
        *c = (struct column){ .type = type,
                              .block = block,
                              .offsets = is_text ? (void *) block : NULL,
                              .valid = (uint8_t *) block + valid_at,
                              .values = block + values_at,
                              .text_cap = text_cap };
        return 0;
}

struct infp_builder *infp_builder_free(struct infp_builder *b)
{
        if (!b)
                return NULL;
        for (unsigned i = 0; b->columns && i < b->width; i++)
                free(b->columns[i].block);
        free(b->columns);
        free(b->vectors);
        free(b);
        return NULL;
}

/* What readers see after memory was made anew. */
static void show(struct infp_builder *b)
{
        for (unsigned i = 0; i < b->width; i++)
                b->vectors[i] =
                        (struct infp_vector){ .values = b->columns[i].values, .offsets = b->columns[i].offsets };
}

struct infp_builder *infp_builder_new(const struct infp_table *table, uint32_t cap_rows)
{
        struct infp_builder *b = calloc(1, sizeof(*b));

        if (!b)
                return NULL;
        assert(cap_rows > 0 && cap_rows <= INFP_BATCH_ROWS);
        b->table = table;
        b->width = infp_table_width(table);
        b->fixed = table->plain ? 0 : INFP_FIXED_COLUMNS;
        b->cap = cap_rows;
        b->columns = calloc(b->width ? b->width : 1, sizeof(*b->columns));
        b->vectors = calloc(b->width ? b->width : 1, sizeof(*b->vectors));
        if (!b->columns || !b->vectors)
                return infp_builder_free(b);
        for (unsigned i = 0; i < b->width; i++) {
                enum infp_type type = infp_table_column(table, i)->type;

                if (column_make(&b->columns[i], type, cap_rows, (size_t) cap_rows * TEXT_PER_ROW) < 0)
                        return infp_builder_free(b);
        }
        show(b);
        return b;
}

int infp_builder_grow(struct infp_builder *b, size_t text)
{
        uint32_t cap = b->cap * 2 < INFP_BATCH_ROWS ? b->cap * 2 : INFP_BATCH_ROWS;

        assert(b->n == 0);
        for (unsigned i = 0; i < b->width; i++) {
                struct column made, *c = &b->columns[i];
                size_t text_cap = c->text_cap;

                if (c->type == INFP_STR && (__builtin_add_overflow(text_cap, text, &text_cap) || text_cap > INT32_MAX))
                        return -EFBIG; /* beyond what offsets of 32 bits reach */
                /* The columns before this one are larger than b->cap says until all are: that does no harm. */
                if (column_make(&made, c->type, cap, text_cap) < 0)
                        return -ENOMEM;
                free(c->block);
                *c = made;
                b->vectors[i] = (struct infp_vector){ .values = c->values, .offsets = c->offsets };
        }
        b->cap = cap;
        return 0;
}

static void set_bit(void *at, uint32_t i, bool v)
{
        uint8_t *byte = (uint8_t *) at + i / 8, mask = (uint8_t) (1u << (i % 8));

        *byte = v ? *byte | mask : *byte & (uint8_t) ~mask;
}

static void put_null(struct infp_builder *b, unsigned column)
{
        struct column *c = &b->columns[column];

        set_bit(c->valid, b->n, false);
        b->vectors[column].valid = c->valid;
        /* A defined value below the null: equal rows make equal files, and they compress. */
        if (c->type == INFP_STR)
                c->offsets[b->n + 1] = c->offsets[b->n];
        else if (c->type == INFP_BOOL)
                set_bit(c->values, b->n, false);
        else
                ((uint64_t *) c->values)[b->n] = 0;
}

static bool text_fits(const struct infp_builder *b, unsigned column, size_t size)
{
        const struct column *c = &b->columns[column];

        return size <= c->text_cap - (size_t) c->offsets[b->n];
}

/* The text's room has been checked. */
static void put(struct infp_builder *b, unsigned column, union infp_cell cell, const char *text, size_t size)
{
        struct column *c = &b->columns[column];

        set_bit(c->valid, b->n, true);
        switch (c->type) {
        case INFP_STR:
                if (size > 0)
                        memcpy((char *) c->values + c->offsets[b->n], text, size);
                c->offsets[b->n + 1] = c->offsets[b->n] + (int32_t) size;
                break;
        case INFP_BOOL:
                set_bit(c->values, b->n, cell.b);
                break;
        case INFP_F64:
                ((double *) c->values)[b->n] = cell.f64;
                break;
        case INFP_I64:
        case INFP_U64:
        case INFP_TS_NS:
        case INFP_ID64:
                ((uint64_t *) c->values)[b->n] = cell.u64;
                break;
        }
}

static void put_times(struct infp_builder *b, uint64_t t_ns, int64_t unix_ns)
{
        if (b->fixed == 0)
                return;
        put(b, 0, (union infp_cell){ .i64 = (int64_t) t_ns }, NULL, 0);
        put(b, 1, (union infp_cell){ .i64 = unix_ns }, NULL, 0);
}

int infp_builder_append(struct infp_builder *b, const struct infp_row *row, int64_t unix_ns)
{
        unsigned cells = b->width - b->fixed;
        size_t size;

        assert(row->table == b->table && cells <= INFP_MAX_COLUMNS);
        if (b->n == b->cap)
                return -ENOSPC;
        for (unsigned i = 0; i < cells; i++) {
                if (b->columns[b->fixed + i].type == INFP_STR && infp_row_has(row, i) &&
                    !text_fits(b, b->fixed + i, row->cell[i].text.size))
                        return -ENOSPC;
        }
        put_times(b, row->t_ns, unix_ns);
        for (unsigned i = 0; i < cells; i++) {
                const char *text = NULL;

                size = 0;
                if (!infp_row_has(row, i)) {
                        put_null(b, b->fixed + i);
                        continue;
                }
                if (b->columns[b->fixed + i].type == INFP_STR)
                        text = infp_row_text(row, i, &size);
                put(b, b->fixed + i, row->cell[i], text, size);
        }
        b->n++;
        return 0;
}

uint32_t infp_builder_rows(const struct infp_builder *b)
{
        return b->n;
}

size_t infp_builder_bytes(const struct infp_builder *b)
{
        size_t sum = 0;

        for (unsigned i = 0; i < b->width && b->n > 0; i++) {
                const struct column *c = &b->columns[i];

                if (b->vectors[i].valid)
                        sum += bits(b->n);
                if (c->type == INFP_STR)
                        sum += ((size_t) b->n + 1) * sizeof(int32_t) + (size_t) c->offsets[b->n];
                else
                        sum += c->type == INFP_BOOL ? bits(b->n) : (size_t) b->n * 8;
        }
        return sum;
}

struct infp_batch infp_builder_batch(const struct infp_builder *b, uint32_t first)
{
        uint32_t from = first < b->n ? first : b->n;

        return (struct infp_batch){ .table = b->table, .columns = b->vectors, .first = from, .n_rows = b->n - from };
}

void infp_builder_reset(struct infp_builder *b)
{
        b->n = 0;
        for (unsigned i = 0; i < b->width; i++)
                b->vectors[i].valid = NULL;
}

int infp_builder_row_begin(struct infp_builder *b, uint64_t t_ns, int64_t unix_ns)
{
        if (b->n == b->cap)
                return -ENOSPC;
        b->no_room = false;
        for (unsigned i = b->fixed; i < b->width; i++)
                put_null(b, i);
        put_times(b, t_ns, unix_ns);
        return 0;
}

void infp_builder_set(struct infp_builder *b, unsigned column, union infp_cell cell, const char *text, size_t size)
{
        assert(column < b->width && b->n < b->cap);
        if (b->columns[column].type == INFP_STR && !text_fits(b, column, size))
                b->no_room = true;
        else
                put(b, column, cell, text, size);
}

void infp_builder_set_text(struct infp_builder *b, unsigned column, const char *text)
{
        infp_builder_set(b, column, (union infp_cell){ 0 }, text, strlen(text));
}

void infp_builder_set_f64(struct infp_builder *b, unsigned column, double v)
{
        if (isfinite(v))
                infp_builder_set(b, column, (union infp_cell){ .f64 = v }, NULL, 0);
}

int infp_builder_row_end(struct infp_builder *b)
{
        if (b->no_room)
                return -ENOSPC;
        b->n++;
        return 0;
}
