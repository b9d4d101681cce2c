/* csv, tsv, json, jsonl, table: the same rows through each format, expectations written by hand. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>

#include "base/mem.h"
#include "model/builder.h"
#include "view/format.h"

// clang-format off
static const struct infp_column keys[] = {
        INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
};
static const struct infp_column columns[] = {
        INFP_COLUMN(big, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Signed."),
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
        INFP_COLUMN(part, F64, GAUGE, ratio, MEASURED, NO, NULL, 0, NULL, "Float."),
        INFP_COLUMN(flag, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Flag."),
        INFP_COLUMN(when, TS_NS, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Moment."),
};
// clang-format on
static const struct infp_table table = {
        .name = "things", .help = "Things.", .keys = keys, .columns = columns, .n_keys = 1, .n_columns = 5
};

static const struct infp_column only_column[] = {
        INFP_COLUMN(note, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Text."),
};
static const struct infp_table only = { .name = "", .columns = only_column, .n_columns = 1, .plain = true };

enum { NAME = 2, BIG, ID, PART, FLAG, WHEN };

struct row {
        const char *name; /* NULL: absent, and so is all else */
        int64_t big;
        uint64_t id;
        double part;
        bool flag;
        int64_t when;
};

static struct infp_builder *build(const struct row *rows, size_t n)
{
        struct infp_builder *b = infp_builder_new(&table, 16);

        assert_non_null(b);
        for (size_t i = 0; i < n; i++) {
                const struct row *r = &rows[i];

                assert_int_equal(infp_builder_row_begin(b, 9007199254740993, 1703462400123999999), 0);
                if (r->name) {
                        infp_builder_set(b, NAME, (union infp_cell){ 0 }, r->name, strlen(r->name));
                        infp_builder_set(b, BIG, (union infp_cell){ .i64 = r->big }, NULL, 0);
                        infp_builder_set(b, ID, (union infp_cell){ .u64 = r->id }, NULL, 0);
                        infp_builder_set(b, PART, (union infp_cell){ .f64 = r->part }, NULL, 0);
                        infp_builder_set(b, FLAG, (union infp_cell){ .b = r->flag }, NULL, 0);
                        infp_builder_set(b, WHEN, (union infp_cell){ .i64 = r->when }, NULL, 0);
                }
                assert_int_equal(infp_builder_row_end(b), 0);
        }
        return b;
}

static bool is_csv_safe;

/* What the format writes, read back from a file; free it. */
static char *print_with(const struct infp_format *format, struct infp_builder *b, const struct infp_table *of,
                        unsigned width, bool colour)
{
        char path[] = "/tmp/infprof-test-XXXXXX";
        const int fd = mkstemp(path);
        struct infp_out out;
        struct infp_err err;
        char *text = calloc(1, 65536);

        assert_true(fd >= 0 && text);
        unlink(path);
        infp_out_init(&out, fd, path);
        assert_false(out.colour);
        assert_int_equal(out.width, 0);
        out.width = width;
        out.colour = colour;
        out.is_csv_safe = is_csv_safe;
        assert_int_equal(format->begin(&out, of), 0);
        /* In two batches: what stands between rows must not depend on where one batch ends. */
        struct infp_batch all = infp_builder_batch(b, 0), first = all;

        first.n_rows = all.n_rows > 1 ? 1 : all.n_rows;
        assert_int_equal(format->batch(&out, &first), 0);
        if (all.n_rows > 1) {
                struct infp_batch rest = infp_builder_batch(b, 1);

                assert_int_equal(format->batch(&out, &rest), 0);
        }
        assert_int_equal(format->end(&out, of), 0);
        assert_int_equal(infp_out_flush(&out, &err), 0);
        infp_out_done(&out);
        assert_true(pread(fd, text, 65535, 0) >= 0);
        close(fd);
        return text;
}

static char *print(const char *name, struct infp_builder *b, const struct infp_table *of)
{
        const struct infp_format *format = infp_format_find(name);

        assert_non_null(format);
        return print_with(format, b, of, 0, false);
}

static const struct row two_rows[] = {
        { "plain", INT64_MIN, UINT64_MAX, 0.1, true, -1 },
        { NULL },
};

static void check(const char *format, const struct row *rows, size_t n, const char *expected)
{
        struct infp_builder *b = build(rows, n);
        infp_autofree char *text = print(format, b, &table);

        infp_builder_free(b);
        assert_string_equal(text, expected);
}

static void test_csv(void **state)
{
        (void) state;
        check("csv", two_rows, 2,
              "t_ns,time,name,big,id,part,flag,when\n"
              "9007199254740993,1703462400123,plain,-9223372036854775808,18446744073709551615,0.1,true,-1\n"
              "9007199254740993,1703462400123,,,,,,\n");
        check("csv", NULL, 0, "t_ns,time,name,big,id,part,flag,when\n");
}

static void test_tsv(void **state)
{
        (void) state;
        check("tsv", two_rows, 2,
              "t_ns\ttime\tname\tbig\tid\tpart\tflag\twhen\n"
              "9007199254740993\t1703462400123\tplain\t-9223372036854775808\t18446744073709551615\t0.1\ttrue\t-1\n"
              "9007199254740993\t1703462400123\t\t\t\t\t\t\n");
}

static void test_json(void **state)
{
#define ROW_1                                                                                                \
        "{\"t_ns\":9007199254740993,\"time\":1703462400123,\"name\":\"plain\",\"big\":-9223372036854775808," \
        "\"id\":18446744073709551615,\"part\":0.1,\"flag\":true,\"when\":-1}"
#define ROW_2                                                                                                     \
        "{\"t_ns\":9007199254740993,\"time\":1703462400123,\"name\":null,\"big\":null,\"id\":null,\"part\":null," \
        "\"flag\":null,\"when\":null}"
        (void) state;
        check("json", two_rows, 2, "[\n" ROW_1 ",\n" ROW_2 "\n]\n");
        check("json", NULL, 0, "[]\n");
        check("jsonl", two_rows, 2, ROW_1 "\n" ROW_2 "\n");
        check("jsonl", NULL, 0, "");
}

/* Of unit json: as what it is where the format is JSON, else as text. */
static void test_json_in_json(void **state)
{
        // clang-format off
        static const struct infp_column column[] = {
                INFP_COLUMN(config, STR, LABEL, json, MEASURED, NO, NULL, 0, NULL, "Set-up."),
        };
        // clang-format on
        static const struct infp_table set_up = { .name = "", .columns = column, .n_columns = 1, .plain = true };
        static const char *const texts[] = { "{\"a\":\n[1]}", "{broken", NULL };
        struct infp_builder *b = infp_builder_new(&set_up, 16);

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(texts); i++) {
                assert_int_equal(infp_builder_row_begin(b, 0, 0), 0);
                if (texts[i])
                        infp_builder_set(b, 0, (union infp_cell){ 0 }, texts[i], strlen(texts[i]));
                assert_int_equal(infp_builder_row_end(b), 0);
        }
        infp_autofree char *lines = print("jsonl", b, &set_up), *csv = print("csv", b, &set_up);

        infp_builder_free(b);
        assert_string_equal(lines, "{\"config\":{\"a\":[1]}}\n{\"config\":\"{broken\"}\n{\"config\":null}\n");
        assert_string_equal(csv, "config\n\"{\"\"a\"\":\n[1]}\"\n{broken\n\"\"\n");
}

static void check_text(const char *value, const char *csv, const char *tsv, const char *json)
{
        struct infp_builder *b = infp_builder_new(&only, 16);

        assert_int_equal(infp_builder_row_begin(b, 0, 0), 0);
        if (value)
                infp_builder_set(b, 0, (union infp_cell){ 0 }, value, strlen(value));
        assert_int_equal(infp_builder_row_end(b), 0);

        infp_autofree char *as_csv = print("csv", b, &only), *as_tsv = print("tsv", b, &only),
                           *as_json = print("jsonl", b, &only);

        infp_builder_free(b);
        assert_true(!strncmp(as_csv, "note\n", 5) && !strncmp(as_tsv, "note\n", 5));
        assert_string_equal(as_csv + 5, csv);
        assert_string_equal(as_tsv + 5, tsv);
        assert_string_equal(as_json, json);
}

/* What a spreadsheet would compute gets a quote before it; numbers stay numbers. */
static void test_csv_safe(void **state)
{
        static const char *const cases[][2] = {
                { "=1+1", "\"'=1+1\"" },
                { "+cmd", "\"'+cmd\"" },
                { "-cmd", "\"'-cmd\"" },
                { "@x", "\"'@x\"" },
                { "=\"a\"", "\"'=\"\"a\"\"\"" },
                { "\nx", "\"'\nx\"" },
                { "-", "\"'-\"" },
                { "-1.5", "-1.5" },
                { "a=1", "a=1" },
                { "", "\"\"" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                char line[64];

                snprintf(line, sizeof(line), "%s\n", cases[i][1]);
                infp_autofree char *text = NULL;
                struct infp_builder *b = infp_builder_new(&only, 16);

                assert_int_equal(infp_builder_row_begin(b, 0, 0), 0);
                infp_builder_set(b, 0, (union infp_cell){ 0 }, cases[i][0], strlen(cases[i][0]));
                assert_int_equal(infp_builder_row_end(b), 0);
                is_csv_safe = true;
                text = print("csv", b, &only);
                is_csv_safe = false;
                infp_builder_free(b);
                assert_string_equal(text + strlen("note\n"), line);
        }
}

/* Separators, quotes and line ends inside a text: one field, the same string in each format. */
static void test_texts(void **state)
{
        (void) state;
        check_text("two words", "two words\n", "two words\n", "{\"note\":\"two words\"}\n");
        check_text("a,b", "\"a,b\"\n", "a,b\n", "{\"note\":\"a,b\"}\n");
        check_text("a\tb", "a\tb\n", "\"a\tb\"\n", "{\"note\":\"a\\tb\"}\n");
        check_text("x\ny", "\"x\ny\"\n", "\"x\ny\"\n", "{\"note\":\"x\\ny\"}\n");
        check_text("x\ry", "\"x\ry\"\n", "\"x\ry\"\n", "{\"note\":\"x\\ry\"}\n");
        check_text("say \"hi\"", "\"say \"\"hi\"\"\"\n", "\"say \"\"hi\"\"\"\n", "{\"note\":\"say \\\"hi\\\"\"}\n");
        check_text("back\\\\slash\\xFF", "back\\\\slash\\xFF\n", "back\\\\slash\\xFF\n",
                   "{\"note\":\"back\\\\\\\\slash\\\\xFF\"}\n");
        check_text(") S 1 1 1 (", ") S 1 1 1 (\n", ") S 1 1 1 (\n", "{\"note\":\") S 1 1 1 (\"}\n");
        check_text(" pad ", "\" pad \"\n", "\" pad \"\n", "{\"note\":\" pad \"}\n");
        check_text("推理", "推理\n", "推理\n", "{\"note\":\"推理\"}\n");
}

/* An empty text is not an absent one where both are possible; a row of nothing is still a row. */
static void test_empty_and_absent(void **state)
{
        static const struct row rows[] = { { "", 0, 0, -0.0, false, 0 } };

        (void) state;
        check("csv", rows, 1,
              "t_ns,time,name,big,id,part,flag,when\n9007199254740993,1703462400123,\"\",0,0,-0.0,false,0\n");
        check_text("", "\"\"\n", "\"\"\n", "{\"note\":\"\"}\n");
        check_text(NULL, "\"\"\n", "\"\"\n", "{\"note\":null}\n");
}

static void test_floats(void **state)
{
        static const struct {
                double value;
                const char *text;
        } cases[] = {
                { 0.45, "0.45" }, { 2023.502, "2023.502" }, { 1e300, "1e+300" }, { 1.0 / 3, "0.3333333333333333" },
                { 4.97, "4.97" }, { 5e-324, "5e-324" },     { 1e22, "1e+22" },   { 100, "100.0" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                const struct row row = { "f", 0, 0, cases[i].value, false, 0 };
                struct infp_builder *b = build(&row, 1);
                struct infp_batch batch = infp_builder_batch(b, 0);
                infp_autostr struct infp_str text = { 0 };

                infp_cell_text(&text, &batch, PART, 0);
                assert_string_equal(text.data, cases[i].text);
                infp_builder_free(b);
        }
}

static void test_unix_ms(void **state)
{
        (void) state;
        assert_int_equal(infp_unix_ms(1999999), 1);
        assert_int_equal(infp_unix_ms(0), 0);
        assert_int_equal(infp_unix_ms(-1), -1);
        assert_int_equal(infp_unix_ms(-1000000), -1);
        assert_int_equal(infp_unix_ms(-1000001), -2);
}

static void test_table_is_aligned(void **state)
{
        static const struct row rows[] = { { "a", 7, 1, 0.5, true, 1000000 },
                                           { "推理", -12345, 2, 2, false, 0 },
                                           { NULL } };

        (void) state;
        check("table", rows, 3,
              "            t_ns           time  name     big    id  part  flag   when\n"
              "----------------  -------------  ----  ------  ----  ----  -----  ----\n"
              "9007199254740993  1703462400123  a          7     1   0.5  true      1\n"
              "9007199254740993  1703462400123  推理  -12345     2   2.0  false     0\n"
              "9007199254740993  1703462400123  null    null  null  null  null   null\n");
}

static char *print_notes(const char *const *notes, size_t n, unsigned width)
{
        struct infp_builder *b = infp_builder_new(&only, (uint32_t) n);
        char *text;

        for (size_t i = 0; i < n; i++) {
                assert_int_equal(infp_builder_row_begin(b, 0, 0), 0);
                infp_builder_set(b, 0, (union infp_cell){ 0 }, notes[i], strlen(notes[i]));
                assert_int_equal(infp_builder_row_end(b), 0);
        }
        text = print_with(&infp_format_table, b, &only, width, false);
        infp_builder_free(b);
        return text;
}

/* Escape sequences in a name must not reach the terminal; a wide text is cut between characters. */
static void test_table_on_a_terminal(void **state)
{
        static const char *const notes[] = { "red \033[31m", "推理服务推理服务推理服务推理服务" };
        infp_autofree char *text = print_notes(notes, 2, 20);

        (void) state;
        assert_string_equal(text, "note\n--------------------\nred \\x1B[31m\n推理服务推理服务推\u2026\n");
}

static void test_tame(void **state)
{
        static const struct {
                const char *text, *line;
        } cases[] = {
                { "plain 推理 \xf0\x9f\x98\x80", "plain 推理 \xf0\x9f\x98\x80" },
                { "a\x1b]0;title\a", "a\\x1B]0;title\\x07" },
                { "a\nb\tc\rd\x7f", "a\\nb\\tc\\x0Dd\\x7F" },
                { "a\xc2\x9b"
                  "31m",
                  "a\\xC2\\x9B31m" }, /* CSI of C1 */
                { "a\x9b"
                  "31m\xff\xe2\x82",
                  "a\\x9B31m\\xFF\\xE2\\x82" }, /* no UTF-8 */
                { "\xe2\x80\xaetxt", "\\xE2\\x80\\xAEtxt" },
                { "a\xe2\x80\xa8"
                  "b",
                  "a\\xE2\\x80\\xA8b" },
                { "back\\slash", "back\\slash" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_autostr struct infp_str line = { 0 };

                infp_text_tame(&line, cases[i].text, strlen(cases[i].text));
                assert_string_equal(line.data, cases[i].line);
        }
}

/* A format for programs leaves texts as they are; where a terminal reads it, nothing in them is obeyed. */
static void test_csv_on_a_terminal(void **state)
{
        struct infp_builder *b = infp_builder_new(&only, 16);
        static const char note[] = "a\x1b]0;x\a\xc2\x9b"
                                   "2J";

        (void) state;
        assert_int_equal(infp_builder_row_begin(b, 0, 0), 0);
        infp_builder_set(b, 0, (union infp_cell){ 0 }, note, strlen(note));
        assert_int_equal(infp_builder_row_end(b), 0);
        infp_autofree char *shown = print_with(&infp_format_csv, b, &only, 80, true),
                           *piped = print_with(&infp_format_csv, b, &only, 0, false);

        infp_builder_free(b);
        assert_string_equal(shown, "note\na\\x1B]0;x\\x07\\xC2\\x9B2J\n");
        assert_string_equal(piped, "note\na\x1b]0;x\a\xc2\x9b"
                                   "2J\n");
}

/* A query names its columns. */
static void test_table_with_a_hostile_column(void **state)
{
        struct infp_column column = only_column[0];
        const struct infp_table hostile = { .name = "", .columns = &column, .n_columns = 1, .plain = true };
        struct infp_builder *b;

        (void) state;
        column.name = "a\n\x1b[31m";
        b = infp_builder_new(&hostile, 16);
        infp_autofree char *text = print_with(&infp_format_table, b, &hostile, 80, false);

        infp_builder_free(b);
        assert_string_equal(text, "a\\n\\x1B[31m\n-----------\n");
}

static void test_table_counts_what_it_hides(void **state)
{
        const char *notes[600];

        (void) state;
        for (size_t i = 0; i < 600; i++)
                notes[i] = "n";
        infp_autofree char *on_terminal = print_notes(notes, 600, 80), *in_file = print_notes(notes, 600, 0);

        assert_non_null(strstr(on_terminal, "(100 more rows;"));
        assert_int_equal(strlen(in_file), strlen("note\n----\n") + 600 * 2);
}

/* Too many columns for the line: one below the other. */
static void test_table_turns_upright(void **state)
{
        struct infp_builder *b = build(two_rows, 1);
        infp_autofree char *text = print_with(&infp_format_table, b, &table, 40, false);

        (void) state;
        infp_builder_free(b);
        assert_string_equal(text, "-- 1\n"
                                  "t_ns  9007199254740993\n"
                                  "time  1703462400123\n"
                                  "name  plain\n"
                                  "big   -9223372036854775808\n"
                                  "id    18446744073709551615\n"
                                  "part  0.1\n"
                                  "flag  true\n"
                                  "when  -1\n");
}

static void test_write_errors(void **state)
{
        struct infp_out out;
        struct infp_err err = { "" };
        const int full = open("/dev/full", O_WRONLY);
        int ends[2];

        (void) state;
        assert_true(full >= 0);
        infp_out_init(&out, full, "rows.csv");
        infp_str_puts(&out.text, "x");
        assert_int_equal(infp_out_flush(&out, &err), -ENOSPC);
        assert_non_null(strstr(err.text, "rows.csv"));
        /* The first error is kept. */
        out.fd = -1;
        infp_str_puts(&out.text, "y");
        assert_int_equal(infp_out_flush(&out, &err), -ENOSPC);
        infp_out_done(&out);
        close(full);

        signal(SIGPIPE, SIG_IGN);
        assert_int_equal(pipe(ends), 0);
        close(ends[0]);
        infp_out_init(&out, ends[1], "standard output");
        infp_str_puts(&out.text, "x");
        assert_int_equal(infp_out_flush(&out, &err), 0);
        assert_int_equal(out.error, -EPIPE);
        infp_out_done(&out);
        close(ends[1]);
}

static void test_formats_are_found(void **state)
{
        (void) state;
        for (const struct infp_format *const *f = infp_formats(); *f; f++)
                assert_ptr_equal(infp_format_find((*f)->name), *f);
        assert_null(infp_format_find("xml"));
}

static void test_width(void **state)
{
        unsigned width;

        (void) state;
        assert_int_equal(infp_text_width("abc", 3), 3);
        assert_int_equal(infp_text_width("e\u0301", 3), 1);
        assert_int_equal(infp_text_width("\u63a8", 3), 2);
        assert_int_equal(infp_text_width("\xff\xfe", 2), 2);
        assert_int_equal(infp_text_fit("\u63a8\u7406", 6, 3, &width), 3);
        assert_int_equal(width, 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_csv),
                cmocka_unit_test(test_csv_safe),
                cmocka_unit_test(test_tsv),
                cmocka_unit_test(test_json),
                cmocka_unit_test(test_json_in_json),
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_empty_and_absent),
                cmocka_unit_test(test_floats),
                cmocka_unit_test(test_unix_ms),
                cmocka_unit_test(test_table_is_aligned),
                cmocka_unit_test(test_table_on_a_terminal),
                cmocka_unit_test(test_tame),
                cmocka_unit_test(test_csv_on_a_terminal),
                cmocka_unit_test(test_table_with_a_hostile_column),
                cmocka_unit_test(test_table_counts_what_it_hides),
                cmocka_unit_test(test_table_turns_upright),
                cmocka_unit_test(test_write_errors),
                cmocka_unit_test(test_formats_are_found),
                cmocka_unit_test(test_width),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
