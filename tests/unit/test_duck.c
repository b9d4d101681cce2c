#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/str.h"
#include "query/duck.h"
#include "query_sample.h"

static struct infp_duck *duck;
static struct infp_err err;

static void must(int r)
{
        if (r < 0)
                fprintf(stderr, "%s\n", err.text);
        assert_true(r >= 0);
}

static void put_cell(struct infp_str *out, const struct infp_batch *batch, unsigned column, uint32_t row)
{
        size_t size;
        const char *text;

        if (!infp_batch_has(batch, column, row)) {
                infp_str_puts(out, "null");
                return;
        }
        switch (infp_table_column(batch->table, column)->type) {
        case INFP_STR:
                text = infp_batch_str(batch, column, row, &size);
                infp_str_putc(out, '\'');
                infp_str_put(out, text, size);
                infp_str_putc(out, '\'');
                break;
        case INFP_BOOL:
                infp_str_puts(out, infp_batch_bool(batch, column, row) ? "true" : "false");
                break;
        case INFP_F64:
                infp_str_f64(out, infp_batch_f64(batch, column, row));
                break;
        case INFP_U64:
        case INFP_ID64:
                infp_str_u64(out, infp_batch_u64(batch, column, row));
                break;
        case INFP_I64:
        case INFP_TS_NS:
                infp_str_i64(out, infp_batch_i64(batch, column, row));
        }
}

/* "i64 i64 | 1 2; 3 null": types, then rows. */
static const char *answer(const char *sql)
{
        static struct infp_str out;
        struct infp_duck_result *result;
        const struct infp_table *table;
        struct infp_batch batch;
        int r;

        infp_str_clear(&out);
        must(infp_duck_query(duck, sql, &result, &err));
        table = infp_duck_result_table(result);
        for (unsigned i = 0; i < infp_table_width(table); i++)
                infp_str_printf(&out, "%s ", infp_type_name(infp_table_column(table, i)->type));
        infp_str_putc(&out, '|');
        while ((r = infp_duck_result_next(result, &batch, &err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        for (unsigned i = 0; i < infp_table_width(table); i++) {
                                infp_str_putc(&out, ' ');
                                put_cell(&out, &batch, i, row);
                        }
                        infp_str_putc(&out, ';');
                }
        must(r);
        infp_duck_result_free(result);
        return out.data;
}

static void test_types(void **state)
{
        static const struct {
                const char *sql, *answer;
        } cases[] = {
                { "SELECT 1, 2::TINYINT, -3::SMALLINT, 4::UINTEGER", "i64 i64 i64 i64 | 1 2 -3 4;" },
                { "SELECT 9007199254740993, 18446744073709551615::UBIGINT",
                  "i64 u64 | 9007199254740993 18446744073709551615;" },
                { "SELECT sum(x) FROM (VALUES (9007199254740993), (2)) t(x)", "i64 | 9007199254740995;" },
                { "SELECT 18446744073709551615::HUGEINT", "u64 | 18446744073709551615;" },
                { "SELECT x::HUGEINT FROM (VALUES (18446744073709551616), (-1)) t(x)",
                  "str | '18446744073709551616'; '-1';" },
                { "SELECT 340282366920938463463374607431768211455::UHUGEINT",
                  "str | '340282366920938463463374607431768211455';" },
                { "SELECT NULL::HUGEINT, NULL::DECIMAL(4,2)", "i64 f64 | null null;" },
                { "SELECT 1.5::DOUBLE, 0.1::DOUBLE, 0.25::FLOAT", "f64 f64 f64 | 1.5 0.1 0.25;" },
                { "SELECT 0.1, 1.10, -2.675, 123456789012.345", "f64 f64 f64 f64 | 0.1 1.1 -2.675 123456789012.345;" },
                { "SELECT 9007199254740993.1", "str | '9007199254740993.1';" },
                { "SELECT 7::DECIMAL(9,0), 9007199254740993::DECIMAL(38,0)", "i64 i64 | 7 9007199254740993;" },
                { "SELECT 0.000000000000000001::DECIMAL(38,18)", "f64 | 1e-18;" },
                { "SELECT true, false, NULL::BOOLEAN", "bool bool bool | true false null;" },
                { "SELECT 'a', '', 'fourteen bytes', 'it''s', NULL::VARCHAR",
                  "str str str str str | 'a' '' 'fourteen bytes' 'it's' null;" },
                { "SELECT TIMESTAMP '1970-01-01 00:00:01.5', TIMESTAMP_S '1970-01-01 00:00:02', TIMESTAMP_MS "
                  "'1969-12-31 23:59:59.999'",
                  "ts_ns ts_ns ts_ns | 1500000000 2000000000 -1000000;" },
                { "SELECT TIMESTAMP_NS '2025-11-28 04:00:00.123456789', TIMESTAMPTZ '1970-01-01 01:00:00+01'",
                  "ts_ns ts_ns | 1764302400123456789 0;" },
                { "SELECT DATE '2025-11-28', TIME '04:05:06', INTERVAL 90 SECOND",
                  "str str str | '2025-11-28' '04:05:06' '00:01:30';" },
                { "SELECT [1, 2], {'a': 1}, NULL::INTEGER[]", "str str str | '[1, 2]' '{'a': 1}' null;" },
                { "SELECT x, [x] FROM range(3) t(x) ORDER BY x DESC", "i64 str | 2 '[2]'; 1 '[1]'; 0 '[0]';" },
                { "SELECT '\\xAA'::BLOB, 'b'::ENUM('a', 'b')", "str str | '\\xAA' 'b';" },
                { "SELECT 1 AS a, 2 AS a", "i64 i64 | 1 2;" },
                { "SELECT 1 WHERE false", "i64 |" },
                { "SELECT sum(x), count(*), avg(x) FROM range(5000) t(x)", "i64 i64 f64 | 12497500 5000 2499.5;" },
                { "CREATE TEMP TABLE t AS SELECT 5 AS x; INSERT INTO t VALUES (6); SELECT * FROM t; ", "i64 | 5; 6;" },
                { "SET threads=1", "|" },
                { "SELECT 1; -- the end", "i64 | 1;" },
        };

        (void) state;
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                assert_string_equal(answer(cases[i].sql), cases[i].answer);
}

static void test_many_rows_keep_their_order(void **state)
{
        static const char *const queries[] = {
                "SELECT x FROM range(100000) t(x)",
                "SELECT x::HUGEINT FROM range(100000) t(x)",
                "SELECT 99999 - x FROM range(100000) t(x) ORDER BY x DESC",
        };
        struct infp_duck_result *result;
        struct infp_batch batch;

        (void) state;
        for (unsigned q = 0; q < 3; q++) {
                int64_t n = 0;

                must(infp_duck_query(duck, queries[q], &result, &err));
                while (infp_duck_result_next(result, &batch, &err) > 0)
                        for (uint32_t row = 0; row < batch.n_rows; row++)
                                assert_int_equal(infp_batch_i64(&batch, 0, row), n++);
                assert_int_equal(n, 100000);
                infp_duck_result_free(result);
        }
}

/* Too much to be held until its type is known: texts, in order. */
static void test_a_result_too_large_to_be_held(void **state)
{
        enum { N = 17 << 20 };
        struct infp_duck_result *result;
        struct infp_batch batch;
        uint32_t n = 0;
        char shown[16];

        (void) state;
        must(infp_duck_query(duck, "SELECT x::HUGEINT FROM range(17 << 20) t(x)", &result, &err));
        assert_int_equal(infp_table_column(infp_duck_result_table(result), 0)->type, INFP_STR);
        while (infp_duck_result_next(result, &batch, &err) > 0) {
                size_t size;
                const char *text = infp_batch_str(&batch, 0, 0, &size);

                snprintf(shown, sizeof(shown), "%u", n);
                assert_int_equal(size, strlen(shown));
                assert_memory_equal(text, shown, size);
                n += batch.n_rows;
        }
        assert_int_equal(n, N);
        infp_duck_result_free(result);
}

/* An error in the middle of a result is no end of it. */
static void check_late_error(void)
{
        struct infp_duck_result *result;
        struct infp_batch batch;
        int r = infp_duck_query(
                duck, "SELECT CASE WHEN x = 900000 THEN error('late')::INTEGER ELSE x END FROM range(2000000) t(x)",
                &result, &err);

        while (r >= 0 && (r = infp_duck_result_next(result, &batch, &err)) != 0)
                if (r < 0)
                        break;
        assert_int_equal(r, -EINVAL);
        assert_non_null(strstr(err.text, "late"));
        infp_duck_result_free(result);
}

/* An error says what DuckDB says, and the database is usable after it. */
static void test_errors(void **state)
{
        static const struct {
                const char *sql, *text;
        } cases[] = {
                { "SELEC 1", "syntax error at or near \"SELEC\"" },
                { "SELECT nonsense", "nonsense" },
                { "SELECT * FROM nowhere", "nowhere" },
                { "", "no SQL statement" },
                { "  ; ", "no SQL statement" },
                { "-- nothing", "no SQL statement" },
                { "SELECT 1; SELECT * FROM nowhere", "nowhere" },
                { "SELECT error('my words')", "my words" },
                { "SELECT CAST('x' AS INTEGER)", "Could not convert" },
                { "SELECT infp_increase('sideways', 1, 2)", "'none', 'zero', 'wrap' or 'gap'" },
                { "SELECT * FROM infp_scan('x')", "no run is attached" },
                { "SELECT * FROM infp_scan(NULL)", "no run is attached" },
                { "SELECT * FROM infp_rows()", "own use" },
                { "SELECT * FROM infp_chunk()", "own use" },
                { "SELECT * FROM 'x.sqlite'", "x.sqlite" },
                { "SELECT * FROM read_csv('https://127.0.0.1:9/x.csv')", "httpfs" },
        };
        struct infp_duck_result *result;

        (void) state;
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                int r = infp_duck_query(duck, cases[i].sql, &result, &err);

                assert_int_equal(r, -EINVAL);
                assert_null(result);
                if (!strstr(err.text, cases[i].text))
                        fail_msg("%s: %s", cases[i].sql, err.text);
                assert_string_equal(answer("SELECT 42"), "i64 | 42;");
        }
        check_late_error();
        must(infp_duck_query(duck, "SELECT TIMESTAMP '9999-01-01'", &result, &err));
        assert_int_equal(infp_duck_result_next(result, &(struct infp_batch){ 0 }, &err), -ERANGE);
        infp_duck_result_free(result);
}

static void *interrupt_soon(void *context)
{
        (void) context;
        usleep(200000);
        infp_duck_interrupt(duck);
        return NULL;
}

static void test_interrupt(void **state)
{
        struct infp_duck_result *result;
        pthread_t thread;

        (void) state;
        assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, NULL), 0);
        assert_int_equal(
                infp_duck_query(
                        duck,
                        "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = 7",
                        &result, &err),
                -EINTR);
        pthread_join(thread, NULL);
        assert_string_equal(answer("SELECT 42"), "i64 | 42;");
}

static void test_increase(void **state)
{
        (void) state;
        assert_string_equal(answer("SELECT infp_increase('zero', 10, 15), infp_increase('zero', 10, 4), "
                                   "infp_increase('none', 10, 4)"),
                            "i64 i64 i64 | 5 4 0;");
        assert_string_equal(answer("SELECT infp_increase('wrap', 250, 4, 256), infp_increase('wrap', 250, 4)"),
                            "i64 i64 | 10 0;");
        assert_string_equal(answer("SELECT infp_increase('zero', NULL, 4), infp_increase(NULL, 1, 4), "
                                   "infp_increase('zero', -1, 4)"),
                            "i64 i64 i64 | null null null;");
        assert_string_equal(answer("SELECT infp_increase('zero', 1.5::DOUBLE, 4)"), "f64 | 2.5;");
        assert_string_equal(
                answer("SELECT infp_increase('zero', 9007199254740993::UBIGINT, 18446744073709551615::UBIGINT)"),
                "u64 | 18437736874454810622;");
        assert_string_equal(answer("SELECT infp_increase('zero', lag(x) OVER (ORDER BY i), x) FROM (VALUES (1, 5), (2, "
                                   "9), (3, 2)) t(i, x)"),
                            "i64 | null; 4; 2;");
}

static void test_no_file_is_left(void **state)
{
        struct stat st;

        (void) state;
        answer("SELECT count(*) FROM (SELECT random() AS x FROM range(1000000) ORDER BY x)");
        assert_int_equal(stat(".tmp", &st), -1);
        assert_string_equal(
                answer("SELECT current_setting('temp_directory'), current_setting('autoinstall_known_extensions')"),
                "str bool | '' false;");
}

static void put_thing(struct sample_run *s, uint64_t t_ns, uint64_t id, const char *label)
{
        infp_row_id(sample_row(s, &thing_table, t_ns), THING_ID, id);
        infp_row_str(&s->row, THING_LABEL, label);
        sample_put(s);
}

static void put_hostile(struct sample_run *s, const char *table, const char *column)
{
        infp_row_str(sample_row(s, &infp_table_columns, 1), INFP_COLUMNS_TABLE, table);
        infp_row_str(&s->row, INFP_COLUMNS_COLUMN, column);
        infp_row_str(&s->row, INFP_COLUMNS_TYPE, "i64");
        sample_put(s);
}

static struct sample_run *make_run(void)
{
        static const struct infp_table *const tables[] = { &load_table,         &thing_table,  &use_table,
                                                           &silent_table,       &device_table, &infp_table_ticks,
                                                           &infp_table_columns, NULL };
        struct sample_run *s = sample_new("parquet");

        sample_describe(s, tables);
        put_hostile(s, "x\"; DROP VIEW load; --", "y\"z");
        put_hostile(s, "LOAD", "shouting");
        put_hostile(s, "twins", "same");
        put_hostile(s, "twins", "SAME");
        put_hostile(s, "timeseries", "imposter");
        for (unsigned i = 0; i < 5000; i++) {
                infp_row_i64(sample_row(s, &load_table, 1000 + i), LOAD_BUSY, i);
                if (i % 2)
                        infp_row_f64(&s->row, LOAD_LEVEL, i / 4.0);
                sample_put(s);
                if (i % 1000 == 0) {
                        sample_tick(s, i / 1000, 1000 + i);
                        infp_row_id(sample_row(s, &use_table, 1000 + i), USE_THING, UINT64_MAX - i / 1000 % 3);
                        infp_row_u64(&s->row, USE_BYTES, UINT64_C(9007199254740993) + i);
                        infp_row_bool(&s->row, USE_IS_ON, i % 2000 == 0);
                        infp_row_ts(&s->row, USE_BORN, -1);
                        sample_put(s);
                }
        }
        put_thing(s, 1, UINT64_MAX, "old");
        put_thing(s, 2, UINT64_MAX - 1, "a name of more than twelve bytes");
        sample_rotate(s, 2);
        put_thing(s, 9000, UINT64_MAX, "new");
        sample_end(s);
        return s;
}

static void check_views(void)
{
        assert_string_equal(
                answer("SELECT count(*), sum(busy), count(level), count(never), typeof(any_value(never)) FROM load"),
                "i64 i64 i64 i64 str | 5000 12497500 2500 0 'DOUBLE';");
        assert_string_equal(
                answer("SELECT busy, level, t_ns, epoch_ns(time) FROM load WHERE busy IN (0, 4999) ORDER BY 1"),
                "i64 f64 i64 i64 | 0 null 1000 1764302400000001000; 4999 1249.75 5999 1764302400000005000;");
        assert_string_equal(answer("SELECT count(*) FROM silent"), "i64 | 0;");
        assert_string_equal(answer("SELECT data_type FROM information_schema.columns WHERE table_name = 'silent' ORDER "
                                   "BY ordinal_position"),
                            "str | 'BIGINT'; 'TIMESTAMP WITH TIME ZONE'; 'BIGINT'; 'DOUBLE'; 'DOUBLE'; 'VARCHAR';");
        assert_string_equal(
                answer("SELECT bytes, label, weight, is_on, epoch_ns(born) FROM use ORDER BY bytes"),
                "u64 str i64 bool i64 | 9007199254740993 'new' null true -1000; "
                "9007199254741993 'a name of more than twelve bytes' null false -1000; 9007199254742993 null "
                "null true -1000; "
                "9007199254743993 'new' null false -1000; 9007199254744993 'a name of more than twelve bytes' "
                "null true -1000;");
        assert_string_equal(answer("SELECT label, count(*) FROM use GROUP BY ALL ORDER BY 2, 1"),
                            "str i64 | null 1; 'a name of more than twelve bytes' 2; 'new' 2;");
        /* Constants: DuckDB folds them, and a column that a Parquet file lacks is one. */
        assert_string_equal(
                answer("SELECT \"infp_entity:thing.label\"(NULL), \"infp_entity:thing.label\"(18446744073709551614), "
                       "\"infp_entity:thing.weight\"(18446744073709551614)"),
                "str str i64 | null 'a name of more than twelve bytes' null;");
        assert_string_equal(answer("SELECT DISTINCT \"infp_entity:thing.label\"(n::UBIGINT) "
                                   "FROM (SELECT NULL AS n FROM range(3000))"),
                            "str | null;");
        assert_string_equal(answer("SELECT column_name FROM (DESCRIBE use)"),
                            "str | 't_ns'; 'time'; 'thing'; 'label'; 'weight'; 'bytes'; 'is_on'; 'born';");
        assert_string_equal(
                answer("SELECT timestamp, busy, busy_time, never FROM timeseries ORDER BY 1 LIMIT 2"),
                "i64 i64 i64 f64 | 1764302400000 999 1764302400000 null; 1764302400000 1999 1764302400000 null;");
        assert_string_equal(answer("SELECT count(*) FROM timeseries"), "i64 | 5;");
        assert_string_equal(answer("SELECT \"y\"\"z\" FROM \"x\"\"; DROP VIEW load; --\""), "i64 |");
}

static void test_views(void **state)
{
        struct sample_run *s = make_run();
        struct infp_duck_result *result;

        (void) state;
        must(infp_duck_attach(duck, s->run, &err));
        check_views();
        assert_int_equal(infp_duck_query(duck, "SELECT * FROM twins", &result, &err), -EINVAL);
        assert_string_equal(answer("SELECT count(*) FROM load"), "i64 | 5000;"); /* another run of it, and again: */
        must(infp_duck_attach(duck, s->run, &err));
        check_views();
        sample_free(s);
}

static int next_rows(void *context, struct infp_batch *ret, struct infp_err *e)
{
        return infp_scan_next(context, ret, e);
}

/* All tables as Parquet: the same answers. */
static void test_views_of_parquet(void **state)
{
        static const char *const files[][2] = { { "load", "000001" },  { "use", "000001" },   { "thing", "000001" },
                                                { "thing", "000002" }, { "ticks", "000001" }, { "columns", "000001" } };
        struct sample_run *s = make_run();

        (void) state;
        for (unsigned i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                struct infp_segment *segment;
                struct infp_scan *scan;
                struct infp_rows rows;
                char from[64], to[64], sql[160];
                bool is_second = strcmp(files[i][1], "000002") == 0;
                struct infp_scan_options options = { .t0 = is_second ? 9000 : 0, .t1 = is_second ? 0 : 9000 };

                snprintf(from, sizeof(from), "%s/%s.arrows", files[i][0], files[i][1]);
                snprintf(to, sizeof(to), "%s/%s.parquet", files[i][0], files[i][1]);
                must(infp_segment_open(s->run->fd, from, &segment, &err));
                infp_segment_close(segment);
                must(infp_scan_open(s->run, files[i][0], &options, &scan, &err));
                rows = (struct infp_rows){ infp_scan_table(scan), scan, next_rows, is_second };
                must(infp_duck_rows_to_parquet(duck, &rows, s->run->fd, to, 0666, NULL, &err));
                snprintf(sql, sizeof(sql), "SELECT DISTINCT compression FROM parquet_metadata('/proc/self/fd/%d/%s')",
                         s->run->fd, to);
                assert_string_equal(answer(sql), is_second ? "str | 'SNAPPY';" : "str | 'ZSTD';");
                infp_scan_close(scan);
                assert_int_equal(unlinkat(s->run->fd, from, 0), 0);
        }
        must(infp_duck_attach(duck, s->run, &err));
        check_views();
        assert_string_equal(answer("SELECT count(*) FROM thing"), "i64 | 3;");
        sample_free(s);
}

static int fail_at_once(void *context, struct infp_batch *ret, struct infp_err *e)
{
        (void) context, (void) ret;
        return infp_fail(e, -EBADMSG, "the source is broken");
}

static void test_parquet_files(void **state)
{
        static const char *const no_selects[][2] = {
                { " ; ", "no SQL statement" },
                { "SELECT 1; SELECT 2", "one SELECT; there are several" },
                { "CREATE TABLE t(a INTEGER)", "needs a SELECT" },
        };
        char directory[] = "/tmp/infp-it's-XXXXXX", path[64];
        infp_autostr struct infp_str sql = { 0 };
        uint64_t n = 0;
        int fd;

        (void) state;
        assert_non_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/a'b.parquet", directory);
        must(infp_duck_to_parquet(duck,
                                  "SELECT sum(x) AS s, 1 AS \"q\"\"q\" FROM (VALUES (9007199254740993), (2)) t(x) ; ",
                                  path, &n, &err));
        assert_int_equal(n, 1);
        infp_str_printf(&sql, "SELECT typeof(s), s, \"q\"\"q\" FROM read_parquet('%.12s''%s/a''b.parquet')", directory,
                        directory + 13);
        assert_string_equal(answer(sql.data), "str i64 i64 | 'BIGINT' 9007199254740995 1;");
        must(infp_duck_to_parquet(duck, "SELECT 18446744073709551616::HUGEINT AS s, 1 AS \"q\"\"q\"", path, NULL,
                                  &err));
        assert_string_equal(answer(sql.data), "str str i64 | 'DECIMAL(38,0)' '18446744073709551616' 1;");
        must(infp_duck_to_parquet(duck, "SELECT (1::UHUGEINT << 127) AS s, 1 AS \"q\"\"q\"", path, NULL, &err));
        assert_string_equal(answer(sql.data), "str str i64 | 'VARCHAR' '170141183460469231731687303715884105728' 1;");
        assert_int_equal(infp_duck_to_parquet(duck, "SELECT * FROM nowhere", path, NULL, &err), -EINVAL);
        assert_non_null(strstr(err.text, "nowhere"));
        for (unsigned i = 0; i < sizeof(no_selects) / sizeof(no_selects[0]); i++) {
                assert_int_equal(infp_duck_to_parquet(duck, no_selects[i][0], path, NULL, &err), -EINVAL);
                if (!strstr(err.text, no_selects[i][1]))
                        fail_msg("%s: %s", no_selects[i][0], err.text);
        }
        assert_int_equal(infp_duck_to_parquet(duck, "SELECT 1", "/proc/nowhere/x", NULL, &err), -ENOENT);
        must(infp_duck_to_parquet(duck, "SELECT 1 AS x", "/dev/null", NULL, &err));

        /* What fails half-way leaves nothing; what was there stays. */
        fd = open(directory, O_RDONLY | O_DIRECTORY);
        assert_int_equal(infp_duck_rows_to_parquet(duck, &(struct infp_rows){ &load_table, NULL, fail_at_once }, fd,
                                                   "a'b.parquet", 0666, NULL, &err),
                         -EINVAL);
        assert_non_null(strstr(err.text, "the source is broken"));
        assert_string_equal(answer(sql.data), "str str i64 | 'VARCHAR' '170141183460469231731687303715884105728' 1;");
        assert_int_equal(unlinkat(fd, "a'b.parquet", 0), 0);
        close(fd);
        assert_int_equal(rmdir(directory), 0);
}

static int set_up(void **state)
{
        (void) state;
        return infp_duck_open(&duck, &err);
}

static int tear_down(void **state)
{
        (void) state;
        duck = infp_duck_close(duck);
        return 0;
}

/* A machine without the library: a sentence that says where it was looked for. Runs before it is loaded. */
static void test_missing_library(void **state)
{
        char *own = strdup(getenv("INFPROF_LIBDUCKDB") ? getenv("INFPROF_LIBDUCKDB") : "");

        (void) state;
        setenv("INFPROF_LIBDUCKDB", "/nowhere/libduckdb.so", 1);
        assert_int_equal(infp_duck_open(&duck, &err), -ENOPKG);
        assert_null(duck);
        assert_non_null(strstr(err.text, "DuckDB"));
        assert_false(infp_duck_available(&err));
        setenv("INFPROF_LIBDUCKDB", own, 1);
        free(own);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_types, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_many_rows_keep_their_order, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_a_result_too_large_to_be_held, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_interrupt, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_increase, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_no_file_is_left, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_views, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_views_of_parquet, set_up, tear_down),
                cmocka_unit_test_setup_teardown(test_parquet_files, set_up, tear_down),
        };
        const struct CMUnitTest without[] = { cmocka_unit_test(test_missing_library) };
        int failed = cmocka_run_group_tests(without, NULL, NULL);

        /* A build without DuckDB's header has only the sentence. */
        if (!infp_duck_available(&err) && strstr(err.text, "built without"))
                return failed;
        return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
