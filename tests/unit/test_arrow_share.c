/* Equal buffers of a message are stored once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/builder.h"
#include "store/arrow.h"

static const struct infp_column columns[] = {
        INFP_COLUMN(a, I64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "A."),
        INFP_COLUMN(b, I64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "B."),
        INFP_COLUMN(c, I64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "C."),
        INFP_COLUMN(d, I64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "D."),
};
static const struct infp_table table = {
        .name = "t",
        .help = "A table.",
        .columns = columns,
        .n_columns = INFP_COUNT(columns),
};

enum { ROWS = 4 };

/* Bytes of a batch whose row i has t_ns = i + 1 and these: -1: no value, else the value plus i where `counts`. */
static size_t size_of(int64_t time, const int64_t values[4], const bool counts[4])
{
        struct infp_builder *builder = infp_builder_new(&table, ROWS);
        struct infp_arrow_writer *writer;
        infp_autostr struct infp_str out = { 0 };
        struct infp_batch batch;
        struct infp_row row = { .table = NULL };

        assert_non_null(builder);
        assert_int_equal(infp_arrow_writer_new(&table, NULL, &writer, NULL), 0);
        for (int64_t i = 0; i < ROWS; i++) {
                infp_row_begin(&row, &table, (uint64_t) i + 1);
                for (unsigned k = 0; k < 4; k++)
                        if (values[k] >= 0)
                                infp_row_i64(&row, k, values[k] + (counts[k] ? i : 0));
                assert_int_equal(infp_builder_append(builder, &row, 1000 * (time + i)), 0);
        }
        batch = infp_builder_batch(builder, 0);
        assert_int_equal(infp_arrow_put_batch(writer, &batch, &out, NULL), 0);
        infp_arrow_writer_free(writer);
        infp_builder_free(builder);
        return out.size;
}

/* A column of four numbers takes 32 bytes, a bitmap 8. */
static void stores_equal_ones_once(void **state)
{
        static const bool counts[4] = { true, true, true, true }, none[4] = { false };
        /* t_ns, time, a, b and d are five times 32, c 8 and 32. */
        size_t apart = size_of(101, (const int64_t[4]){ 201, 301, -1, 401 }, counts);

        (void) state;
        /* Of `time` like t_ns one is left; of a and b as well. */
        assert_int_equal(apart - size_of(1, (const int64_t[4]){ 201, 301, -1, 401 }, counts), 32);
        assert_int_equal(apart - size_of(101, (const int64_t[4]){ 201, 201, -1, 401 }, counts), 32);
        /* Zeros stand for a column of zeros and for one without values: b, c and d are 8 and 32 together. */
        assert_int_equal(apart - size_of(101, (const int64_t[4]){ 201, 0, -1, 0 }, none), 64);
        /* Equal at first, not at the end. */
        assert_int_equal(apart - size_of(101, (const int64_t[4]){ 201, 201, -1, 401 },
                                         (const bool[4]){ true, false, true, true }),
                         0);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(stores_equal_ones_once) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
