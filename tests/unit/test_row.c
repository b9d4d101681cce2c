#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/row.h"

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

static char scratch[64];
static struct infp_row row = { .text = scratch, .text_cap = sizeof(scratch) };

static void assert_row_text(unsigned column, const char *text)
{
        size_t size;
        const char *at = infp_row_text(&row, column, &size);

        assert_int_equal(size, strlen(text));
        assert_memory_equal(at, text, size);
}

static void nothing_is_set(void **state)
{
        (void) state;
        memset(row.valid, 0xff, sizeof(row.valid));
        infp_row_begin(&row, &table, 77);
        assert_int_equal(row.t_ns, 77);
        assert_ptr_equal(row.text, scratch);
        assert_int_equal(row.text_cap, sizeof(scratch));
        for (unsigned i = 0; i < INFP_MAX_COLUMNS; i++)
                assert_false(infp_row_has(&row, i));
        assert_row_text(S, "");
}

static void each_type(void **state)
{
        (void) state;
        infp_row_begin(&row, &table, 1);
        infp_row_i64(&row, I, INT64_MIN);
        infp_row_u64(&row, U, UINT64_MAX);
        infp_row_f64(&row, F, -0.5);
        infp_row_bool(&row, B, false);
        infp_row_ts(&row, TS, INT64_C(1700000000000000001));
        infp_row_id(&row, ID, 0);
        infp_row_str(&row, S, "first");
        infp_row_str(&row, S2, "");
        infp_row_str(&row, KEY, "k");
        assert_true(row.cell[I].i64 == INT64_MIN);
        assert_true(row.cell[U].u64 == UINT64_MAX);
        assert_true(row.cell[F].f64 == -0.5);
        assert_false(row.cell[B].b);
        assert_true(row.cell[TS].i64 == INT64_C(1700000000000000001));
        for (unsigned i = KEY; i <= S2; i++)
                assert_true(infp_row_has(&row, i));
        assert_false(infp_row_has(&row, KB));
        assert_row_text(S, "first");
        assert_row_text(S2, "");
        assert_row_text(KEY, "k");
        infp_row_str(&row, S, "second"); /* the last one counts */
        assert_row_text(S, "second");
}

static void not_finite_is_absent(void **state)
{
        static const double values[] = { NAN, -NAN, INFINITY, -INFINITY };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(values); i++) {
                infp_row_begin(&row, &table, 1);
                infp_row_f64(&row, F, values[i]);
                assert_false(infp_row_has(&row, F));
        }
}

static void scaled(void **state)
{
        static const struct {
                unsigned column;
                uint64_t raw;
                bool has;
                int64_t i64;
                uint64_t u64;
                double f64;
        } cases[] = {
                { KB, 0, true, 0, 0, 0 },
                { KB, 16318472, true, INT64_C(16710115328), 0, 0 },
                { KB, UINT64_C(9007199254740991), true, INT64_C(9223372036854774784), 0, 0 },
                { KB, UINT64_C(9007199254740992), false, 0, 0, 0 }, /* 2^63 */
                { KB, UINT64_MAX, false, 0, 0, 0 },
                { UK, UINT64_C(9007199254740992), true, 0, UINT64_C(1) << 63, 0 },
                { UK, UINT64_C(18014398509481983), true, 0, UINT64_C(18446744073709550592), 0 },
                { UK, UINT64_C(18014398509481984), false, 0, 0, 0 }, /* 2^64 */
                { FK, 3, true, 0, 0, 3072 },
                { FK, UINT64_MAX, true, 0, 0, 18446744073709551615.0 * 1024 },
                { I, INT64_MAX, true, INT64_MAX, 0, 0 }, /* scale 0 means 1 */
                { I, (uint64_t) INT64_MAX + 1, false, 0, 0, 0 },
                { U, UINT64_MAX, true, 0, UINT64_MAX, 0 },
                { F, 5, true, 0, 0, 5 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_row_begin(&row, &table, 1);
                infp_row_raw(&row, cases[i].column, cases[i].raw);
                if (infp_row_has(&row, cases[i].column) != cases[i].has)
                        fail_msg("case %zu", i);
                if (!cases[i].has)
                        continue;
                if (cases[i].column == KB || cases[i].column == I)
                        assert_true(row.cell[cases[i].column].i64 == cases[i].i64);
                else if (cases[i].column == UK || cases[i].column == U)
                        assert_true(row.cell[cases[i].column].u64 == cases[i].u64);
                else
                        assert_true(row.cell[cases[i].column].f64 == cases[i].f64);
        }
}

static void bytes_from_outside(void **state)
{
        (void) state;
        infp_row_begin(&row, &table, 1);
        infp_row_bytes(&row, S, "a\\b\xff\0c", 6);
        size_t size;
        const char *at = infp_row_text(&row, S, &size);
        assert_int_equal(size, 10);
        assert_memory_equal(at, "a\\\\b\\xFF\0c", 10);
        infp_row_bytes(&row, S2, "", 0);
        assert_true(infp_row_has(&row, S2));
        assert_row_text(S2, "");
}

/* Our own texts keep their backslashes; a stray byte in them must not make the column unreadable. */
static void text_of_ours(void **state)
{
        (void) state;
        infp_row_begin(&row, &table, 1);
        infp_row_str(&row, S, "C:\\x \xff gr\xc3\xbc\xc3\x9f");
        assert_row_text(S, "C:\\x \\xFF gr\xc3\xbc\xc3\x9f");
}

static void cut_at_a_character(void **state)
{
        char small[8];

        (void) state;
        for (uint32_t cap = 0; cap <= 7; cap++) {
                static const size_t plain[] = { 0, 1, 1, 1, 4, 4, 6, 6 }, escaped[] = { 0, 1, 1, 1, 4, 4, 4, 4 };
                struct infp_row r = { .text = small, .text_cap = cap };
                size_t size;

                infp_row_begin(&r, &table, 1);
                infp_row_str(&r, S, "a\xe2\x82\xac\xc3\xa4zz"); /* 1 + 3 + 2 + ... */
                infp_row_text(&r, S, &size);
                assert_int_equal(size, cap == 7 ? 7 : plain[cap]);
                assert_true(r.text_size <= cap);

                infp_row_begin(&r, &table, 1);
                infp_row_bytes(&r, S, "a\xe2\x82\xac\xff", 5); /* 1 + 3 + 4 */
                infp_row_text(&r, S, &size);
                assert_int_equal(size, escaped[cap]);
        }
}

static void texts_share_the_scratch(void **state)
{
        char longer[80];

        (void) state;
        memset(longer, 'x', sizeof(longer));
        longer[79] = 0;
        infp_row_begin(&row, &table, 1);
        infp_row_str(&row, S, "0123456789");
        infp_row_str(&row, S2, longer);
        infp_row_str(&row, KEY, "no room");
        assert_row_text(S, "0123456789");
        longer[54] = 0;
        assert_row_text(S2, longer);
        assert_row_text(KEY, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(nothing_is_set),       cmocka_unit_test(each_type),
                cmocka_unit_test(not_finite_is_absent), cmocka_unit_test(scaled),
                cmocka_unit_test(bytes_from_outside),   cmocka_unit_test(text_of_ours),
                cmocka_unit_test(cut_at_a_character),   cmocka_unit_test(texts_share_the_scratch),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
