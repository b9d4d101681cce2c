#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/builder.h"

enum cell { KEY, I, U, F, B, S, TS, ID, S2, KB, UK, FK, N };

// clang-format off
static const struct infp_column keys[] = {
        INFP_COLUMN(key, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Key."),
};
static const struct infp_column columns[] = {
        INFP_COLUMN(i, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "I64."),
        INFP_COLUMN(u, U64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "U64."),
        INFP_COLUMN(f, F64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "F64."),
        INFP_COLUMN(b, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Bool."),
        INFP_COLUMN(s, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Text."),
        INFP_COLUMN(ts, TS_NS, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Moment."),
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Id."),
        INFP_COLUMN(s2, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Text."),
        INFP_COLUMN(kb, I64, GAUGE, bytes, MEASURED, NO, "kB", 1024, NULL, "I64, scaled."),
        INFP_COLUMN(uk, U64, GAUGE, bytes, MEASURED, NO, "kB", 1024, NULL, "U64, scaled."),
        INFP_COLUMN(fk, F64, GAUGE, bytes, MEASURED, NO, "kB", 1024, NULL, "F64, scaled."),
};
// clang-format on

static const struct infp_table table = {
        .name = "t", .help = "T t.", .keys = keys, .n_keys = 1, .columns = columns, .n_columns = N - 1
};

static char scratch[4096];
static struct infp_row row = { .text = scratch, .text_cap = sizeof(scratch) };

static void assert_str(const struct infp_batch *batch, unsigned column, uint32_t r, const char *text)
{
        size_t size;
        const char *at = infp_batch_str(batch, column, r, &size);

        assert_true(infp_batch_has(batch, column, r));
        assert_int_equal(size, strlen(text));
        assert_memory_equal(at, text, size);
}

/* Row n: all cells present when n is even, only the key when it is odd. */
static int append(struct infp_builder *b, unsigned n)
{
        char text[32];

        infp_row_begin(&row, &table, 1000 + n);
        snprintf(text, sizeof(text), "key%u", n);
        infp_row_str(&row, KEY, text);
        if (n % 2 == 0) {
                infp_row_i64(&row, I, -(int64_t) n);
                infp_row_u64(&row, U, UINT64_MAX - n);
                infp_row_f64(&row, F, n + 0.5);
                infp_row_bool(&row, B, n % 4 == 0);
                infp_row_str(&row, S, "text");
                infp_row_ts(&row, TS, 5000 + n);
                infp_row_id(&row, ID, n);
                infp_row_str(&row, S2, "");
        }
        return infp_builder_append(b, &row, 2000 + n);
}

static void check(const struct infp_batch *batch, uint32_t r, unsigned n)
{
        char text[32];

        assert_true(infp_batch_i64(batch, 0, r) == 1000 + n);
        assert_true(infp_batch_i64(batch, 1, r) == 2000 + n);
        snprintf(text, sizeof(text), "key%u", n);
        assert_str(batch, 2 + KEY, r, text);
        for (unsigned c = I; c <= S2; c++)
                assert_true(infp_batch_has(batch, 2 + c, r) == (n % 2 == 0));
        assert_false(infp_batch_has(batch, 2 + KB, r));
        if (n % 2)
                return;
        assert_true(infp_batch_i64(batch, 2 + I, r) == -(int64_t) n);
        assert_true(infp_batch_u64(batch, 2 + U, r) == UINT64_MAX - n);
        assert_true(infp_batch_f64(batch, 2 + F, r) == n + 0.5);
        assert_true(infp_batch_bool(batch, 2 + B, r) == (n % 4 == 0));
        assert_str(batch, 2 + S, r, "text");
        assert_str(batch, 2 + S2, r, "");
        assert_true(infp_batch_i64(batch, 2 + TS, r) == 5000 + n);
        assert_true(infp_batch_u64(batch, 2 + ID, r) == n);
}

static void appends_and_slices(void **state)
{
        struct infp_builder *b = infp_builder_new(&table, 100);
        struct infp_batch batch;

        (void) state;
        for (unsigned n = 0; n < 100; n++)
                assert_int_equal(append(b, n), 0);
        assert_int_equal(infp_builder_rows(b), 100);
        assert_int_equal(append(b, 100), -ENOSPC);
        assert_int_equal(infp_builder_rows(b), 100);
        batch = infp_builder_batch(b, 0);
        assert_ptr_equal(batch.table, &table);
        assert_int_equal(batch.n_rows, 100);
        for (unsigned n = 0; n < 100; n++)
                check(&batch, n, n);
        batch = infp_builder_batch(b, 37); /* not at a byte's begin */
        assert_int_equal(batch.n_rows, 63);
        for (unsigned n = 37; n < 100; n++)
                check(&batch, n - 37, n);
        assert_int_equal(infp_builder_batch(b, 100).n_rows, 0);
        assert_int_equal(infp_builder_batch(b, 101).n_rows, 0);
        assert_null(infp_builder_free(b));
        assert_null(infp_builder_free(NULL));
}

/* The very bytes that Arrow wants. */
static void layout(void **state)
{
        struct infp_builder *b = infp_builder_new(&table, 10);
        static const int32_t key_offsets[] = { 0, 4, 8, 12, 16, 20, 24, 28, 32, 36 };
        static const int32_t s_offsets[] = { 0, 4, 4, 8, 8, 12, 12, 16, 16, 20 };
        const struct infp_vector *v;

        (void) state;
        for (unsigned n = 0; n < 9; n++)
                append(b, n);
        v = infp_builder_batch(b, 0).columns;
        assert_null(v[0].valid); /* nothing is absent: no bitmap */
        assert_null(v[1].valid);
        assert_null(v[2 + KEY].valid);
        assert_memory_equal(v[2 + KEY].offsets, key_offsets, sizeof(key_offsets));
        assert_memory_equal(v[2 + KEY].values, "key0key1key2key3key4key5key6key7key8", 36);
        assert_int_equal(v[2 + I].valid[0], 0x55);
        assert_int_equal(v[2 + I].valid[1] & 1, 1);
        assert_true(((const int64_t *) v[2 + I].values)[1] == 0); /* below a null lies 0 */
        assert_int_equal(((const uint8_t *) v[2 + B].values)[0], 0x11);
        assert_int_equal(((const uint8_t *) v[2 + B].values)[1] & 1, 1);
        assert_memory_equal(v[2 + S].offsets, s_offsets, sizeof(s_offsets));
        assert_memory_equal(v[2 + S].values, "texttexttexttexttext", 20);
        assert_null(v[0].offsets);
        infp_builder_free(b);
}

static void reset_begins_anew(void **state)
{
        struct infp_builder *b = infp_builder_new(&table, 8);
        struct infp_batch batch;

        (void) state;
        for (unsigned n = 0; n < 8; n++)
                append(b, n);
        infp_builder_reset(b);
        assert_int_equal(infp_builder_rows(b), 0);
        assert_int_equal(infp_builder_bytes(b), 0);
        for (unsigned n = 1; n < 9; n++)
                assert_int_equal(append(b, n), 0);
        batch = infp_builder_batch(b, 0);
        for (unsigned n = 1; n < 9; n++)
                check(&batch, n - 1, n);
        infp_builder_reset(b);
        append(b, 4);
        batch = infp_builder_batch(b, 0);
        assert_null(batch.columns[2 + I].valid); /* the nulls of before are gone */
        check(&batch, 0, 4);
        infp_builder_free(b);
}

static void bytes_used(void **state)
{
        struct infp_builder *b = infp_builder_new(&table, 10);

        (void) state;
        assert_int_equal(infp_builder_bytes(b), 0);
        infp_row_begin(&row, &table, 1);
        infp_row_str(&row, KEY, "abc");
        infp_builder_append(b, &row, 1);
        /* t_ns, time; key: 2 offsets + 3; 11 cells with a bitmap byte each: 8 of 8 bytes, a bool byte, 2 texts of 8 */
        assert_int_equal(infp_builder_bytes(b), 8 + 8 + (8 + 3) + 11 + 8 * 8 + 1 + 2 * 8);
        infp_builder_free(b);
}

static int append_texts(struct infp_builder *b, const char *key, const char *s, size_t s_size)
{
        infp_row_begin(&row, &table, 5);
        infp_row_str(&row, KEY, key);
        infp_row_bytes(&row, S, s, s_size);
        infp_row_i64(&row, I, 5);
        return infp_builder_append(b, &row, 6);
}

static void long_texts(void **state)
{
        struct infp_builder *b = infp_builder_new(&table, 2);
        struct infp_batch batch;
        char text[1000];

        (void) state;
        memset(text, 'x', sizeof(text));
        assert_int_equal(append_texts(b, "one", "short", 5), 0);
        /* No room for it: nothing of the row is there, and what was before is whole. */
        assert_int_equal(append_texts(b, "two", text, sizeof(text)), -ENOSPC);
        assert_int_equal(infp_builder_rows(b), 1);
        batch = infp_builder_batch(b, 0);
        assert_str(&batch, 2 + KEY, 0, "one");
        assert_str(&batch, 2 + S, 0, "short");
        infp_builder_reset(b);
        assert_int_equal(append_texts(b, "two", text, sizeof(text)), -ENOSPC); /* too long for the empty one, too */
        assert_int_equal(infp_builder_grow(b, sizeof(text)), 0);
        assert_int_equal(append_texts(b, "two", text, sizeof(text)), 0);
        assert_int_equal(append_texts(b, "three", "s", 1), 0);
        assert_int_equal(append_texts(b, "four", "s", 1), 0); /* the rows doubled as well */
        assert_int_equal(append_texts(b, "five", "s", 1), 0);
        assert_int_equal(append_texts(b, "six", "s", 1), -ENOSPC);
        batch = infp_builder_batch(b, 0);
        assert_str(&batch, 2 + KEY, 0, "two");
        assert_str(&batch, 2 + S, 1, "s");
        assert_str(&batch, 2 + KEY, 3, "five");
        infp_builder_free(b);
}

static void grows_to_the_limit(void **state)
{
        struct infp_builder *b = infp_builder_new(&table, INFP_BATCH_ROWS - 1);

        (void) state;
        assert_int_equal(infp_builder_grow(b, 0), 0);
        assert_int_equal(infp_builder_grow(b, 0), 0);
        for (unsigned n = 0; n < INFP_BATCH_ROWS; n++)
                assert_int_equal(append(b, n), 0);
        assert_int_equal(append(b, 0), -ENOSPC);
        infp_builder_reset(b);
        assert_int_equal(infp_builder_grow(b, SIZE_MAX), -EFBIG);
        assert_int_equal(infp_builder_grow(b, INT32_MAX), -EFBIG);
        assert_int_equal(append(b, 0), 0); /* still usable */
        infp_builder_free(b);
}

static void cell_by_cell(void **state)
{
        struct infp_builder *b = infp_builder_new(&table, 2);
        struct infp_batch batch;
        char text[200];

        (void) state;
        memset(text, 'x', sizeof(text));
        assert_int_equal(infp_builder_row_begin(b, 7, 8), 0);
        infp_builder_set(b, 2 + I, (union infp_cell){ .i64 = -1 }, NULL, 0);
        infp_builder_set(b, 2 + S, (union infp_cell){ 0 }, "abcdef", 6);
        infp_builder_set(b, 2 + S, (union infp_cell){ 0 }, "xyz", 3); /* the last one counts */
        infp_builder_set(b, 2 + B, (union infp_cell){ .b = true }, NULL, 0);
        infp_builder_set(b, 2 + F, (union infp_cell){ .f64 = 2.5 }, NULL, 0);
        assert_int_equal(infp_builder_row_end(b), 0);

        /* A row with a text that does not fit is not there. */
        assert_int_equal(infp_builder_row_begin(b, 9, 9), 0);
        infp_builder_set(b, 2 + S, (union infp_cell){ 0 }, text, sizeof(text));
        assert_int_equal(infp_builder_row_end(b), -ENOSPC);
        assert_int_equal(infp_builder_rows(b), 1);

        assert_int_equal(infp_builder_row_begin(b, 10, 11), 0);
        infp_builder_set(b, 2 + S, (union infp_cell){ 0 }, "", 0);
        assert_int_equal(infp_builder_row_end(b), 0);
        assert_int_equal(infp_builder_row_begin(b, 12, 12), -ENOSPC);

        batch = infp_builder_batch(b, 0);
        assert_int_equal(batch.n_rows, 2);
        assert_true(infp_batch_i64(&batch, 0, 0) == 7);
        assert_true(infp_batch_i64(&batch, 1, 0) == 8);
        assert_true(infp_batch_i64(&batch, 2 + I, 0) == -1);
        assert_str(&batch, 2 + S, 0, "xyz");
        assert_true(infp_batch_bool(&batch, 2 + B, 0));
        assert_true(infp_batch_f64(&batch, 2 + F, 0) == 2.5);
        assert_false(infp_batch_has(&batch, 2 + KEY, 0));
        assert_true(infp_batch_i64(&batch, 0, 1) == 10);
        assert_str(&batch, 2 + S, 1, "");
        assert_false(infp_batch_has(&batch, 2 + I, 1));
        assert_false(infp_batch_bool(&batch, 2 + B, 1));
        infp_builder_free(b);
}

/* A query's result: no t_ns, no time. */
static void plain_table(void **state)
{
        struct infp_table plain = table;
        struct infp_builder *b;
        struct infp_batch batch;

        (void) state;
        plain.plain = true;
        b = infp_builder_new(&plain, 1);
        assert_int_equal(infp_builder_row_begin(b, 7, 8), 0);
        infp_builder_set(b, KEY, (union infp_cell){ 0 }, "k", 1);
        infp_builder_set(b, I, (union infp_cell){ .i64 = 3 }, NULL, 0);
        assert_int_equal(infp_builder_row_end(b), 0);
        batch = infp_builder_batch(b, 0);
        assert_str(&batch, KEY, 0, "k");
        assert_true(infp_batch_i64(&batch, I, 0) == 3);
        infp_builder_free(b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(appends_and_slices), cmocka_unit_test(layout),
                cmocka_unit_test(reset_begins_anew),  cmocka_unit_test(bytes_used),
                cmocka_unit_test(long_texts),         cmocka_unit_test(grows_to_the_limit),
                cmocka_unit_test(cell_by_cell),       cmocka_unit_test(plain_table),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
