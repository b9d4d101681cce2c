/* Lines of labels: what counts as one, in pieces of any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "record/label_line.h"

struct found {
        char text
                [4096]; /* "tag=ns;" of each; "tag?;" without a time, "tag!;" with a bad one, "<name>;" for a file name */
};

static void note(void *context, const struct infp_label *label)
{
        struct found *found = context;
        char own[512];
        int n;

        assert_true(label->size > 0 && label->size <= INFP_LABEL_TAG);
        if (label->is_filename)
                n = snprintf(own, sizeof(own), "<%.*s>;", (int) label->size, label->tag);
        else if (label->epoch == INFP_LABEL_HAS_TIME)
                n = snprintf(own, sizeof(own), "%.*s=%lld;", (int) label->size, label->tag, (long long) label->unix_ns);
        else
                n = snprintf(own, sizeof(own), "%.*s%c;", (int) label->size, label->tag,
                             label->epoch == INFP_LABEL_NO_TIME ? '?' : '!');
        assert_true(strlen(found->text) + (size_t) n < sizeof(found->text));
        strcat(found->text, own);
}

static void read_pieces(const char *text, size_t size, size_t piece, struct found *ret)
{
        struct infp_label_lines lines = { .size = 0 };

        ret->text[0] = 0;
        for (size_t i = 0; i < size; i += piece)
                infp_label_lines_feed(&lines, text + i, size - i < piece ? size - i : piece, note, ret);
        infp_label_lines_end(&lines, note, ret);
}

static void expect(const char *text, size_t size, const char *wanted)
{
        static const size_t pieces[] = { 1, 2, 7, 4096, 1 << 20 };
        struct found found;

        for (unsigned i = 0; i < INFP_COUNT(pieces); i++) {
                read_pieces(text, size, pieces[i], &found);
                if (strcmp(found.text, wanted) != 0)
                        print_error("%s\npieces of %zu: %s\nwanted: %s\n", text, pieces[i], found.text, wanted);
                assert_string_equal(found.text, wanted);
        }
}

static void test_lines(void **state)
{
        static const struct {
                const char *text, *found;
        } cases[] = {
                { "measure_label-start: 1703462400.25\n", "start=1703462400250000000;" },
                { "measure_label-a: 1703462400\nx\nmeasure_label-b: 1703462401.000000001\n",
                  "a=1703462400000000000;b=1703462401000000001;" },
                /* Digits beyond the nanosecond are dropped. */
                { "measure_label-a: 1.1234567899999\n", "a=1123456789;" },
                { "measure_label-filename: gemm_512\n", "<gemm_512>;" },
                { "measure_label-filename: a: 5\n", "<a: 5>;" },
                { "measure_label-filename:\n", "" },
                /* The last colon parts the tag from the time. */
                { "measure_label-phase: decode: 2\n", "phase: decode=2000000000;" },
                { "measure_label-a:3\n", "a=3000000000;" },
                { "measure_label-two words : 4\n", "two words=4000000000;" },
                /* No time, or none that can be read. */
                { "measure_label-a\n", "a?;" },
                { "measure_label-a:\n", "a?;" },
                { "measure_label-a: soon\n", "a!;" },
                { "measure_label-a: -5\n", "a!;" },
                { "measure_label-a: 1e9\n", "a!;" },
                { "measure_label-a: 5.\n", "a=5000000000;" },
                { "measure_label-a: 99999999999\n", "a!;" },
                { "measure_label-a: 9999999999\n", "a!;" }, /* beyond what fits into 64 bits of nanoseconds */
                { "measure_label-: 5\n", "" },
                { "measure_label-\n", "" },
                { "measure_label\n", "" },
                { "Measure_label-a: 5\n", "" },
                /* Ends of lines. */
                { "measure_label-a: 5\r\n", "a=5000000000;" },
                { "50 %\rmeasure_label-a: 5\r51 %\r", "a=5000000000;" },
                { "measure_label-a: 5", "a=5000000000;" },
                { "\n\n\r\r\n", "" },
                /* Behind other text only whole. */
                { "| 3/10 [00:01]measure_label-a: 5\n", "a=5000000000;" },
                { "print(f\"measure_label-{tag}: {time.time()}\")\n", "" },
                { "x measure_label-a\n", "" },
                { "x measure_label-filename: y\n", "" },
                { "measure_label-a: 1 measure_label-b: 2\n", "a: 1 measure_label-b=2000000000;" },
                { "x measure_label-a: 1 measure_label-b: 2\n", "b=2000000000;" },
                { "  measure_label-a: 5 \t\n", "a=5000000000;" },
                /* What a terminal would not show. */
                { "\033[32mmeasure_label-a\033[0m: 5\033[0m\n", "a=5000000000;" },
                { "\033]0;title\ameasure_label-a: 5\n", "a=5000000000;" },
                { "\033]8;;http://x\033\\measure_label-a: 5\n", "a=5000000000;" },
                { "measure_label-a: 5\033[\n", "a=5000000000;" },
                { "measure_label-a: 5\033", "a=5000000000;" },
                { "\033[38;5;1", "" },
        };

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++)
                expect(cases[i].text, strlen(cases[i].text), cases[i].found);
}

static void test_bytes(void **state)
{
        static const char nuls[] = "\0\0measure_label-a: 5\0\nmeasure_label-b\0b: 6\n";
        static const char odd[] = "measure_label-\xff\xfe: 5\n";
        struct found found;

        (void) state;
        read_pieces(nuls, sizeof(nuls) - 1, 3, &found);
        assert_string_equal(found.text, "a=5000000000;b=6000000000;"); /* "%.*s" stops at the 0 of the second */
        expect(odd, strlen(odd), "\xff\xfe=5000000000;");
}

/* A label behind a line of any length is found; memory does not grow. */
static void test_long_lines(void **state)
{
        static const size_t sizes[] = { 100, 1000, 3000, 4070, 4076, 4077, 4078, 4096, 5000, 8192, 100000 };
        static const char label[] = "measure_label-end: 7\n";

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(sizes); i++) {
                infp_autofree char *text = malloc(sizes[i] + sizeof(label));

                memset(text, '#', sizes[i]);
                memcpy(text + sizes[i], label, sizeof(label));
                expect(text, sizes[i] + sizeof(label) - 1, "end=7000000000;");
        }
}

/* A tag is cut between two characters; one that pushes its own beginning out of the room is none. */
static void test_long_tags(void **state)
{
        char text[8192], wanted[600];
        size_t n;

        (void) state;
        n = (size_t) snprintf(text, sizeof(text), "measure_label-x");
        for (unsigned i = 0; i < 200; i++) /* two bytes each, behind one of one byte: 255 would be half of one */
                n += (size_t) snprintf(text + n, sizeof(text) - n, "ü");
        n += (size_t) snprintf(text + n, sizeof(text) - n, ": 5\n");
        snprintf(wanted, sizeof(wanted), "x%.*s=5000000000;", 254, text + 15);
        expect(text, n, wanted);
        n = (size_t) snprintf(text, sizeof(text), "measure_label-%05000d: 5\n", 1);
        expect(text, n, "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lines),
                cmocka_unit_test(test_bytes),
                cmocka_unit_test(test_long_lines),
                cmocka_unit_test(test_long_tags),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
