#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/batch.h"

// clang-format off
static const struct infp_column columns[] = {
        INFP_COLUMN(i, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "I64."),
        INFP_COLUMN(u, U64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "U64."),
        INFP_COLUMN(f, F64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "F64."),
        INFP_COLUMN(b, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Bool."),
        INFP_COLUMN(s, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Text."),
        INFP_COLUMN(ts, TS_NS, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Moment."),
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
};
// clang-format on

enum { I, U, F, B, S, TS, ID };

static const struct infp_table table = {
        .name = "t", .help = "T t.", .columns = columns, .n_columns = 7, .plain = true
};

/* Ten rows in Arrow's layout, written by hand; row 8 is absent everywhere but in `b`, whose vector has no bitmap. The
 * batch shows rows 7 to 9. */
static const uint8_t all_but_8[] = { 0xff, 0x02 };
static const int64_t i64s[10] = { [7] = -7, [8] = 88, [9] = -9 };
static const uint64_t u64s[10] = { [7] = UINT64_MAX, [8] = 88, [9] = 9 };
static const double f64s[10] = { [7] = 0.5, [8] = 88, [9] = -1.5 };
static const uint8_t bools[] = { 0x80, 0x01 }; /* rows 7 and 8 */
static const int32_t offsets[11] = { 0, 0, 0, 0, 0, 0, 0, 2, 5, 5, 5 };
static const char bytes[] = "xxabc";
static const struct infp_vector vectors[] = {
        { all_but_8, i64s, NULL },     { all_but_8, u64s, NULL }, { all_but_8, f64s, NULL }, { NULL, bools, NULL },
        { all_but_8, bytes, offsets }, { all_but_8, i64s, NULL }, { all_but_8, u64s, NULL },
};
static const struct infp_batch batch = { .table = &table, .columns = vectors, .first = 7, .n_rows = 3 };

static void present(void **state)
{
        size_t size;
        const char *s;

        (void) state;
        assert_true(infp_batch_i64(&batch, I, 0) == -7);
        assert_true(infp_batch_i64(&batch, I, 2) == -9);
        assert_true(infp_batch_i64(&batch, TS, 2) == -9);
        assert_true(infp_batch_u64(&batch, U, 0) == UINT64_MAX);
        assert_true(infp_batch_u64(&batch, ID, 2) == 9);
        assert_true(infp_batch_f64(&batch, F, 2) == -1.5);
        assert_true(infp_batch_bool(&batch, B, 0));
        assert_true(infp_batch_bool(&batch, B, 1));
        assert_false(infp_batch_bool(&batch, B, 2));
        s = infp_batch_str(&batch, S, 0, &size);
        assert_int_equal(size, 3);
        assert_memory_equal(s, "abc", 3);
        s = infp_batch_str(&batch, S, 2, &size); /* present and empty */
        assert_true(infp_batch_has(&batch, S, 2));
        assert_int_equal(size, 0);
        assert_string_equal(s, "");
}

static void absent(void **state)
{
        size_t size = 7;

        (void) state;
        for (unsigned c = 0; c < 7; c++) {
                assert_true(infp_batch_has(&batch, c, 0));
                assert_true(infp_batch_has(&batch, c, 1) == (c == B));
                assert_true(infp_batch_has(&batch, c, 2));
        }
        assert_true(infp_batch_i64(&batch, I, 1) == 0);
        assert_true(infp_batch_u64(&batch, U, 1) == 0);
        assert_true(isnan(infp_batch_f64(&batch, F, 1)));
        assert_string_equal(infp_batch_str(&batch, S, 1, &size), "");
        assert_int_equal(size, 0);
}

static void numbers(void **state)
{
        (void) state;
        assert_true(infp_batch_number(&batch, I, 0) == -7);
        assert_true(infp_batch_number(&batch, U, 0) == 18446744073709551616.0);
        assert_true(infp_batch_number(&batch, F, 0) == 0.5);
        assert_true(infp_batch_number(&batch, B, 0) == 1);
        assert_true(infp_batch_number(&batch, B, 2) == 0);
        assert_true(infp_batch_number(&batch, TS, 0) == -7);
        assert_true(isnan(infp_batch_number(&batch, S, 0)));
        assert_true(isnan(infp_batch_number(&batch, ID, 0)));
        assert_true(isnan(infp_batch_number(&batch, I, 1)));
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(present), cmocka_unit_test(absent),
                                            cmocka_unit_test(numbers) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
