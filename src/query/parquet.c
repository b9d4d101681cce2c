/* Parquet of a short run without DuckDB, whose start costs more CPU than all of its tables: one row group, one page a column, plain
 * values, Snappy, no statistics. The numbers of fields and types are those of parquet.thrift, in Thrift's compact protocol. */
#include "query/parquet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/new_file.h"
#include "base/str.h"
#include "base/time.h"

enum { MOST_BYTES = 256 << 20 };
enum { SNAPPY = 1, PLAIN = 0, RLE = 3, OPTIONAL = 1 };
enum { BOOLEAN = 0, INT64 = 2, DOUBLE = 5, BYTE_ARRAY = 6 }; /* types of values */
enum { BOOL_TRUE = 1, BOOL_FALSE, I8, I32 = 5, I64, BINARY = 8, LIST, STRUCT = 12 };

struct column {
        struct infp_str values, valid; /* valid: a bit a row */
        uint32_t n_values, n_bits;     /* n_bits: of bools */
        uint64_t offset;               /* in the file */
        size_t size, packed_size;      /* of the page with its header */
};

struct writer {
        const struct infp_table *table;
        unsigned width;
        uint32_t n_rows;
        struct column *columns;
        struct infp_str file, page, packed;
        size_t n_bytes; /* of texts and of bits of rows */
};

static void put_varint(struct infp_str *out, uint64_t value)
{
        for (; value >= 0x80; value >>= 7)
                infp_str_putc(out, (char) (value | 0x80));
        infp_str_putc(out, (char) value);
}

static void put_fixed(struct infp_str *out, uint64_t value, size_t size)
{
        infp_str_put(out, &value, size); /* little endian, as all machines that infprof runs on */
}

/* Fields come in order: `last` is the one before. */
static void put_field(struct infp_str *out, int *last, int field, int type)
{
        infp_str_putc(out, (char) ((field - *last) << 4 | type));
        *last = field;
}

static void put_number(struct infp_str *out, int *last, int field, int type, int64_t value)
{
        put_field(out, last, field, type);
        put_varint(out, (uint64_t) value << 1 ^ (uint64_t) (value >> 63));
}

static void put_list(struct infp_str *out, int *last, int field, int type, unsigned n)
{
        put_field(out, last, field, LIST);
        infp_str_putc(out, (char) ((n < 15 ? n : 15) << 4 | (unsigned) type));
        if (n >= 15)
                put_varint(out, n);
}

static void put_text(struct infp_str *out, const char *text)
{
        put_varint(out, strlen(text));
        infp_str_puts(out, text);
}

static void put_end(struct infp_str *out)
{
        infp_str_putc(out, 0);
}

static void put_literal(struct infp_str *out, const char *data, size_t size)
{
        for (size_t n; size; data += n, size -= n) {
                n = size < 65536 ? size : 65536;
                infp_str_putc(out, (char) ((n <= 60 ? n - 1 : 61) << 2)); /* 61: two bytes of length follow */
                put_fixed(out, n - 1, n <= 60 ? 0 : 2);
                infp_str_put(out, data, n);
        }
}

static void put_copy(struct infp_str *out, size_t distance, size_t size)
{
        for (size_t n; size; size -= n) {
                n = size < 64 ? size : 64;
                infp_str_putc(out, (char) ((n - 1) << 2 | 2));
                put_fixed(out, distance, 2);
        }
}

static void pack(struct infp_str *out, const char *in, size_t size)
{
        enum { SLOT_BITS = 12, LEAST = 4 };
        uint32_t places[1 << SLOT_BITS] = { 0 }; /* 1 + where four such bytes were last; 0: nowhere */
        size_t at = 0, from = 0;

        put_varint(out, size);
        while (at + LEAST <= size) {
                uint32_t word, *place;
                size_t distance, n = LEAST;

                memcpy(&word, in + at, sizeof(word));
                place = &places[word * 0x9e3779b1u >> (32 - SLOT_BITS)];
                distance = at + 1 - *place;
                if (!*place || distance > UINT16_MAX || memcmp(in + at - distance, in + at, LEAST) != 0)
                        n = 0;
                *place = (uint32_t) at + 1;
                if (!n) {
                        at++;
                        continue;
                }
                while (at + n < size && in[at + n - distance] == in[at + n])
                        n++;
                put_literal(out, in + from, at - from);
                put_copy(out, distance, n);
                from = at += n;
        }
        put_literal(out, in + from, size - from);
}

static int value_type(enum infp_type type)
{
        return type == INFP_STR ? BYTE_ARRAY : type == INFP_BOOL ? BOOLEAN : type == INFP_F64 ? DOUBLE : INT64;
}

static void take_bit(struct infp_str *bits, uint32_t index, bool is_set)
{
        if (index % 8 == 0)
                infp_str_putc(bits, 0);
        if (is_set && !bits->failed)
                bits->data[index / 8] = (char) (bits->data[index / 8] | 1 << index % 8);
}

static void take_value(struct writer *w, struct column *c, const struct infp_batch *batch, unsigned column,
                       uint32_t row)
{
        const enum infp_type type = infp_table_column(batch->table, column)->type;
        const char *text;
        double number;
        size_t size;

        if (type == INFP_STR) {
                text = infp_batch_str(batch, column, row, &size);
                put_fixed(&c->values, size, 4);
                infp_str_put(&c->values, text, size);
                w->n_bytes += size;
        } else if (type == INFP_BOOL) {
                take_bit(&c->values, c->n_bits++, infp_batch_bool(batch, column, row));
        } else if (type == INFP_F64) {
                number = infp_batch_f64(batch, column, row);
                infp_str_put(&c->values, &number, sizeof(number));
        } else if (type == INFP_TS_NS) {
                put_fixed(&c->values, (uint64_t) infp_floor_us(infp_batch_i64(batch, column, row)), 8);
        } else {
                put_fixed(&c->values,
                          type == INFP_I64 ? (uint64_t) infp_batch_i64(batch, column, row)
                                           : infp_batch_u64(batch, column, row),
                          8);
        }
}

static int take_batch(struct writer *w, const struct infp_batch *batch, struct infp_err *err)
{
        for (unsigned i = 0; i < w->width; i++) {
                w->n_bytes += batch->n_rows / 8;
                for (uint32_t row = 0; row < batch->n_rows; row++) {
                        const bool has = infp_batch_has(batch, i, row);

                        take_bit(&w->columns[i].valid, w->n_rows + row, has);
                        if (has)
                                take_value(w, &w->columns[i], batch, i, row);
                }
                /* Arrow can hold a text once for many rows, and nulls as a number: a hostile file makes much of little. */
                if (w->n_bytes > MOST_BYTES)
                        return infp_fail(err, -EFBIG, "table %s unpacks to more than %d MiB", w->table->name,
                                         MOST_BYTES >> 20);
        }
        w->n_rows += batch->n_rows;
        return 0;
}

/* Which rows have a value (one bit-packed run), then the values. */
static void put_page(struct writer *w, struct column *c)
{
        const uint32_t n_bytes = (w->n_rows + 7) / 8;
        struct infp_str *page = &w->page;
        int last = 0, data_last = 0;
        size_t at;

        infp_str_clear(page);
        put_fixed(page, 0, 4);
        put_varint(page, (uint64_t) n_bytes << 1 | 1);
        infp_str_put(page, c->valid.data, c->valid.size);
        if (!page->failed)
                memcpy(page->data, &(uint32_t){ (uint32_t) page->size - 4 }, 4);
        infp_str_put(page, c->values.data ? c->values.data : "", c->values.size);
        infp_str_clear(&w->packed);
        pack(&w->packed, page->data, page->size);
        c->offset = at = w->file.size;
        put_number(&w->file, &last, 1, I32, 0); /* a data page */
        put_number(&w->file, &last, 2, I32, (int64_t) page->size);
        put_number(&w->file, &last, 3, I32, (int64_t) w->packed.size);
        put_field(&w->file, &last, 5, STRUCT);
        put_number(&w->file, &data_last, 1, I32, w->n_rows);
        put_number(&w->file, &data_last, 2, I32, PLAIN);
        put_number(&w->file, &data_last, 3, I32, RLE);
        put_number(&w->file, &data_last, 4, I32, RLE);
        put_end(&w->file);
        put_end(&w->file);
        c->size = w->file.size - at + page->size;
        infp_str_put(&w->file, w->packed.data, w->packed.size);
        c->packed_size = w->file.size - at;
}

/* The converted type, for old readers, and the logical type. */
static void put_meaning(struct infp_str *out, int *last, enum infp_type type)
{
        static const struct {
                int converted, logical;
        } meanings[] = {
                [INFP_STR] = { 0, 1 }, [INFP_TS_NS] = { 10, 8 }, [INFP_U64] = { 14, 10 }, [INFP_ID64] = { 14, 10 }
        };
        int logical = 0, of = 0, unit = 0;

        if ((size_t) type >= INFP_COUNT(meanings) || !meanings[type].logical)
                return;
        put_number(out, last, 6, I32, meanings[type].converted);
        put_field(out, last, 10, STRUCT);
        put_field(out, &logical, meanings[type].logical, STRUCT);
        if (type == INFP_TS_NS) {
                put_field(out, &of, 1, BOOL_TRUE); /* UTC */
                put_field(out, &of, 2, STRUCT);
                put_field(out, &unit, 2, STRUCT); /* microseconds */
                put_end(out);
                put_end(out);
        } else if (type != INFP_STR) {
                put_field(out, &of, 1, I8);
                infp_str_putc(out, 64);
                put_field(out, &of, 2, BOOL_FALSE); /* not signed */
        }
        put_end(out);
        put_end(out);
}

static void put_schema(struct writer *w, int *last)
{
        struct infp_str *out = &w->file;
        int root = 0;

        put_list(out, last, 2, STRUCT, w->width + 1);
        put_field(out, &root, 4, BINARY);
        put_text(out, "infprof");
        put_number(out, &root, 5, I32, w->width);
        put_end(out);
        for (unsigned i = 0; i < w->width; i++) {
                const struct infp_column *column = infp_table_column(w->table, i);
                int field = 0;

                put_number(out, &field, 1, I32, value_type(column->type));
                put_number(out, &field, 3, I32, OPTIONAL);
                put_field(out, &field, 4, BINARY);
                put_text(out, column->name);
                put_meaning(out, &field, column->type);
                put_end(out);
        }
}

static void put_chunk(struct writer *w, unsigned index)
{
        const struct infp_column *column = infp_table_column(w->table, index);
        const struct column *c = &w->columns[index];
        struct infp_str *out = &w->file;
        int last = 0, of = 0;

        put_number(out, &last, 2, I64, (int64_t) c->offset);
        put_field(out, &last, 3, STRUCT);
        put_number(out, &of, 1, I32, value_type(column->type));
        put_list(out, &of, 2, I32, 2);
        put_varint(out, PLAIN << 1);
        put_varint(out, RLE << 1);
        put_list(out, &of, 3, BINARY, 1);
        put_text(out, column->name);
        put_number(out, &of, 4, I32, SNAPPY);
        put_number(out, &of, 5, I64, w->n_rows);
        put_number(out, &of, 6, I64, (int64_t) c->size);
        put_number(out, &of, 7, I64, (int64_t) c->packed_size);
        put_number(out, &of, 9, I64, (int64_t) c->offset);
        put_end(out);
        put_end(out);
}

static void put_footer(struct writer *w)
{
        const size_t from = w->file.size;
        struct infp_str *out = &w->file;
        int last = 0, group = 0;
        uint64_t size = 0;

        put_number(out, &last, 1, I32, 1);
        put_schema(w, &last);
        put_number(out, &last, 3, I64, w->n_rows);
        put_list(out, &last, 4, STRUCT, w->n_rows ? 1 : 0);
        if (w->n_rows) {
                put_list(out, &group, 1, STRUCT, w->width);
                for (unsigned i = 0; i < w->width; i++) {
                        put_chunk(w, i);
                        size += w->columns[i].size;
                }
                put_number(out, &group, 2, I64, (int64_t) size);
                put_number(out, &group, 3, I64, w->n_rows);
                put_end(out);
        }
        put_field(out, &last, 6, BINARY);
        put_text(out, "infprof version " INFP_VERSION);
        put_end(out);
        put_fixed(out, w->file.size - from, 4);
        infp_str_puts(out, "PAR1");
}

static void writer_done(struct writer *w)
{
        for (unsigned i = 0; w->columns && i < w->width; i++) {
                infp_str_done(&w->columns[i].values);
                infp_str_done(&w->columns[i].valid);
        }
        free(w->columns);
        infp_str_done(&w->file);
        infp_str_done(&w->page);
        infp_str_done(&w->packed);
}

static int encode(struct writer *w, const struct infp_rows *rows, struct infp_err *err)
{
        struct infp_batch batch;
        int r;

        while ((r = rows->next(rows->context, &batch, err)) > 0)
                INFP_TRY(take_batch(w, &batch, err));
        if (r < 0)
                return r;
        infp_str_puts(&w->file, "PAR1");
        for (unsigned i = 0; w->n_rows && i < w->width; i++) {
                put_page(w, &w->columns[i]);
                w->file.failed |= w->columns[i].values.failed || w->columns[i].valid.failed;
        }
        put_footer(w);
        return w->file.failed || w->page.failed || w->packed.failed ? infp_fail(err, -ENOMEM, "out of memory") : 0;
}

int infp_small_parquet(const struct infp_rows *rows, int dir_fd, const char *name, mode_t mode, uint64_t *ret_rows,
                       struct infp_err *err)
{
        infp_cleanup(writer_done) struct writer w = { .table = rows->table, .width = infp_table_width(rows->table) };
        int r;

        w.columns = calloc(w.width + 1, sizeof(*w.columns));
        if (!w.columns)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(encode(&w, rows, err));
        r = infp_replace_file_at(dir_fd, name, w.file.data, w.file.size, mode, true);
        *ret_rows = w.n_rows;
        if (r == -ENOSPC)
                return infp_fail(err, r, "cannot write %s: no space left on the disk", name);
        return r < 0 ? infp_fail_errno(err, r, "cannot write %s", name) : 0;
}
