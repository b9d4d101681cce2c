/* The reader of metric pages: what the two formats say. Real pages are in test_promtext_pages.c. */
#include <errno.h>
#include <stdio.h>

#include "promtext_show.h"

#include "base/promtext/scan.h"
#include "count_mallocs.h"

struct page_case {
        const char *text, *shown;
        unsigned n_bad;
        bool header;
};

static void check_pages(const struct page_case *cases, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                infp_autostr struct infp_str shown = { 0 };
                struct infp_prom_page page;
                struct infp_err err = { "" };
                int r = parse(cases[i].text, strlen(cases[i].text), cases[i].header, &shown, &page, &err);

                infp_str_puts(&shown, "");
                if (strcmp(shown.data ? shown.data : "", cases[i].shown) != 0 || page.n_bad_lines != cases[i].n_bad ||
                    (r < 0) != (cases[i].n_bad > 0 && !cases[i].shown[0]))
                        fail_msg("%s\n%d %s, %u bad lines, read as\n%s", cases[i].text, r, err.text,
                                 (unsigned) page.n_bad_lines, shown.data ? shown.data : "");
        }
}

static void series_and_labels(void **state)
{
        static const struct page_case cases[] = {
                { "up 1\n", "up unknown/value 1.0\n", 0, false },
                { "up{} 1\n", "up unknown/value 1.0\n", 0, false },
                { "up { } 1\n", "up unknown/value 1.0\n", 0, false },
                { "up{a=\"b\"}1\n", "up{a=b} unknown/value 1.0\n", 0, false },
                { "  up\t{\ta = \"b\" ,\tc= \"d\"\t, }\t1 \t\r\n", "up{a=b,c=d} unknown/value 1.0\n", 0, false },
                { "a:b:c_9{_x1=\"\"} 1\n", "a:b:c_9{_x1=} unknown/value 1.0\n", 0, false },
                { "a{b=\"},{ =#\"} 1\n", "a{b=},{ =#} unknown/value 1.0\n", 0, false },
                { "a{b=\"\\\\\"} 1\n", "a{b=\\} unknown/value 1.0\n", 0, false },
                { "a{b=\"\\\"\",c=\"\\n\"} 1\n", "a{b=\",c=\n} unknown/value 1.0\n", 0, false },
                /* Only three escapes exist: the rest stands for itself. */
                { "a{b=\"C:\\dir\\t\\\\n\"} 1\n", "a{b=C:\\dir\\t\\n} unknown/value 1.0\n", 0, false },
                { "a{b=\"12345678\\\\12345678\\\"\"} 1\n", "a{b=12345678\\12345678\"} unknown/value 1.0\n", 0, false },
                { "a{b=\"\xe6\x8e\xa8\"} 1\n", "a{b=\xe6\x8e\xa8} unknown/value 1.0\n", 0, false },
                { "{\"my.name\",l=\"v\"} 1\n", "my.name{l=v} unknown/value 1.0\n", 0, false },
                { "{l=\"v\",\"my.name\"} 1\n", "my.name{l=v} unknown/value 1.0\n", 0, false },
                { "{\"a \\\"b\\\"\",\"l.x\"=\"v\",\"m\\\\\"=\"w\"} 1\n", "a \"b\"{l.x=v,m\\=w} unknown/value 1.0\n", 0,
                  false },
                { "\n\n \t \n\r\nup 1\n\n", "up unknown/value 1.0\n", 0, false },
                { "ok 1\n{\"a\",\"b\"} 1\n{l=\"v\"} 1\n{\"\"} 1\n{} 1\n\"a\" 1\n", "ok unknown/value 1.0\n", 5, false },
                { "ok 1\na{b=\"c\"\na{b=\"c} 1\na{b=\"c\\\"} 1\na{b=\"c\\\na{b=c} 1\na{b} 1\na{=\"c\"} "
                  "1\na{b=\"c\"d=\"e\"} 1\n",
                  "ok unknown/value 1.0\n", 8, false },
                { "ok 1\na{,} 1\na{b=\"c\",,} 1\na{9=\"c\"} 1\na{b:c=\"d\"} 1\n", "ok unknown/value 1.0\n", 4, false },
                { "ok 1\na{b=\"c\",b=\"d\"} 1\na{b=\"c\",bb=\"d\",c=\"e\",bb=\"f\"} 1\n", "ok unknown/value 1.0\n", 2,
                  false },
                { "ok 1\n9a 1\na-b 1\n1\na\na \n= 1\n}\n", "ok unknown/value 1.0\n", 7, false },
        };

        (void) state;
        check_pages(cases, INFP_COUNT(cases));
}

static void values_and_times(void **state)
{
        static const struct page_case cases[] = {
                { "a 1e+06\nb -2.5E-3\nc +1.5e3\nd .5\ne 5.\nf 007\ng -0\n",
                  "a unknown/value 1000000.0\nb unknown/value -0.0025\nc unknown/value 1500.0\nd unknown/value 0.5\n"
                  "e unknown/value 5.0\nf unknown/value 7.0\ng unknown/value -0.0\n",
                  0, false },
                { "a NaN\na nan\na -nan\na +NAN\na -nan(ind)\na nan(0x8000)\n",
                  "a unknown/value nan\na unknown/value nan\na unknown/value nan\na unknown/value nan\n"
                  "a unknown/value nan\na unknown/value nan\n",
                  0, false },
                { "a Inf\na +Inf\na -inf\na INFINITY\na -Infinity\na 1e999\n",
                  "a unknown/value inf\na unknown/value inf\na unknown/value -inf\na unknown/value inf\n"
                  "a unknown/value -inf\na unknown/value inf\n",
                  0, false },
                { "ok 1\na 0x10\na 1_000\na 1,5\na --1\na +\na -\na .\na e5\na 1e\na 1e+\na 1.2.3\na nanx\na in\na "
                  "nan(\n",
                  "ok unknown/value 1.0\n", 14, false },
                /* Whole milliseconds in one format, seconds in the other. */
                { "a 1 1788000000123\nb 2 -5\nc 3 0 \n",
                  "a unknown/value 1.0 at 1788000000123000000\nb unknown/value 2.0 at -5000000\nc unknown/value 3.0 at "
                  "0\n",
                  0, false },
                { "a 1 1788000000\nb 2 1788000000.123456789\nc 3 -0.5\nd 4 1.788e9\n# EOF\n",
                  "a unknown/value 1.0 at 1788000000000000000\nb unknown/value 2.0 at 1788000000123456789\n"
                  "c unknown/value 3.0 at -500000000\nd unknown/value 4.0 at 1788000000000000000\n",
                  0, false },
                { "a 1 1788000000.5\n", "a unknown/value 1.0 at 1788000000500000000\n", 0, true },
                { "ok 1\na 1 1788000000.5\na 1 x\na 1 99999999999999999\na 1 2 3\na 1 -\n", "ok unknown/value 1.0\n", 5,
                  false },
                { "a 1 2 st@1.5\nb 1 st@1.5\nc 1 st@x\n# EOF\n",
                  "a unknown/value 1.0 at 2000000000\nb unknown/value 1.0\n", 1, false },
                /* Exemplars are checked and left out. */
                { "a_total 17 # {trace_id=\"x } # 5\"} 0.67 1520879607.789\na_total 1 # {} 1\nb{x=\"y # {\"} 3 5 # "
                  "{a=\"b\"} 2\n# EOF\n",
                  "a_total unknown/value 17.0\na_total unknown/value 1.0\nb{x=y # {} unknown/value 3.0 at 5000000000\n",
                  0, false },
                { "ok 1\na 1 # x\na 1 # {\na 1 # {} \na 1 # {a=\"b\"} z\na 1 # {\"a\"} 1\na 1 # {} 1 1 1\n",
                  "ok unknown/value 1.0\n", 6, false },
        };

        (void) state;
        check_pages(cases, INFP_COUNT(cases));
}

static void families(void **state)
{
        static const struct page_case cases[] = {
                /* The text format's counters carry _total in the family's name, OpenMetrics' do not. */
                { "# HELP a_total Help.\n# TYPE a_total counter\na_total 1\n", "a_total counter/value 1.0 help Help.\n",
                  0, false },
                { "# TYPE a counter\n# UNIT a seconds\n# HELP a Help.\na_total 1\na_created 2\n# EOF\n",
                  "a_total counter/value 1.0 of a in seconds help Help.\na_created counter/created 2.0 of a in seconds "
                  "help Help.\n",
                  0, false },
                { "# TYPE h histogram\nh_bucket{le=\"0.5\"} 1\nh_bucket{x=\"y\",le=\"+Inf\"} 2\nh_sum 3\nh_count "
                  "2\nh_created 9\nh 1\n",
                  "h_bucket{le=0.5} histogram/bucket 1.0 le 0.5 of h\nh_bucket{x=y,le=+Inf} histogram/bucket 2.0 le "
                  "inf of h\n"
                  "h_sum histogram/sum 3.0 of h\nh_count histogram/count 2.0 of h\nh_created histogram/created 9.0 of "
                  "h\n"
                  "h histogram/value 1.0\n",
                  0, false },
                /* A histogram whose name ends in _total, and its own gauge of births (vLLM). */
                { "# TYPE v:i_total histogram\nv:i_total_bucket{le=\"1e0\"} 1\nv:i_total_count 2\n# TYPE "
                  "v:i_total_created gauge\nv:i_total_created 3\n",
                  "v:i_total_bucket{le=1e0} histogram/bucket 1.0 le 1.0 of v:i_total\nv:i_total_count histogram/count "
                  "2.0 of v:i_total\n"
                  "v:i_total_created histogram/created 3.0 of v:i_total\n",
                  0, false },
                { "# TYPE r_total counter\nr_total 5\n# TYPE r_created gauge\nr_created 1.7e9\n# TYPE kube_pod_created "
                  "gauge\nkube_pod_created 1.7e9\n",
                  "r_total counter/value 5.0\nr_created counter/created 1700000000.0 of r_total\nkube_pod_created "
                  "gauge/value 1700000000.0\n",
                  0, false },
                { "# TYPE s summary\ns{quantile=\"0.99\"} NaN\ns_sum 1\ns_count 2\ns 7\n# TYPE g "
                  "gauge\ng{quantile=\"x\",le=\"y\"} 1\n",
                  "s{quantile=0.99} summary/quantile nan le 0.99\ns_sum summary/sum 1.0 of s\ns_count summary/count "
                  "2.0 of s\n"
                  "s summary/value 7.0\ng{quantile=x,le=y} gauge/value 1.0\n",
                  0, false },
                { "# TYPE g gaugehistogram\ng_bucket{gt=\"1\",le=\"2\"} 1\ng_gsum 2\ng_gcount 3\n# TYPE i "
                  "info\ni_info{a=\"b\"} 1\n"
                  "# TYPE t stateset\nt{t=\"on\"} 1\n# TYPE u untyped\nu 1\n# EOF\n",
                  "g_bucket{gt=1,le=2} gaugehistogram/bucket 1.0 le 2.0 of g\ng_gsum gaugehistogram/sum 2.0 of g\n"
                  "g_gcount gaugehistogram/count 3.0 of g\ni_info{a=b} info/value 1.0 of i\nt{t=on} stateset/value "
                  "1.0\n"
                  "u unknown/value 1.0\n",
                  0, false },
                /* Without TYPE: buckets tell what they are, and what follows them. A sum in front is just a number. */
                { "h_sum 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 4\nk_bucket 5\n",
                  "h_sum unknown/value 1.0\nh_bucket{le=+Inf} unknown/bucket 2.0 le inf of h\nh_sum unknown/sum 3.0 of "
                  "h\n"
                  "h_count unknown/count 4.0 of h\nk_bucket unknown/value 5.0\n",
                  0, false },
                /* A gauge of its own that ends like a part of another family. */
                { "# TYPE h histogram\n# TYPE h_count gauge\nh_count 4\n# TYPE c counter\nc_sum 1\nc_bucket 2\n",
                  "h_count gauge/value 4.0\nc_sum unknown/value 1.0\nc_bucket unknown/value 2.0\n", 0, false },
                { "# TYPE a gauge\na 1\n# TYPE a gauge\na 2\n# TYPE a counter\na 3\n",
                  "a gauge/value 1.0\na gauge/value 2.0\na counter/value 3.0\n", 0, false },
                { "# TYPE \"a.b\" counter\n# HELP \"a.b\" Dots.\n{\"a.b_total\"} 1\n{\"a.b\"} 2\n",
                  "a.b_total counter/value 1.0 of a.b help Dots.\na.b counter/value 2.0 help Dots.\n", 0, false },
                /* HELP has two escapes in one format, three in the other. */
                { "# HELP a x\\\\y\\nz\\\"q\na 1\n", "a unknown/value 1.0 help x\\y\nz\\\"q\n", 0, false },
                { "# HELP a x\\\\y\\nz\\\"q\na 1\n# EOF\n", "a unknown/value 1.0 help x\\y\nz\"q\n", 0, false },
                { "#HELP a Help.\n#\n# \n# HELPa b\n#comment {x=\"y\"} 5\n# a comment\na 1\n",
                  "a unknown/value 1.0 help Help.\n", 0, false },
                { "ok 1\n# TYPE\n# TYPE a\n# TYPE a thing\n# HELP 9 b\n# TYPE a gauge x\n", "ok unknown/value 1.0\n", 5,
                  false },
                { "# TYPE h histogram\nh_bucket{le=\"x\"} 1\nh_bucket{le=\"NaN\"} 1\nh_bucket 1\nh_bucket{le=\"1 2\"} "
                  "1\n# TYPE s summary\ns{quantile=\"\"} 1\nok 1\n",
                  "ok unknown/value 1.0\n", 5, false },
        };

        (void) state;
        check_pages(cases, INFP_COUNT(cases));
}

static void native_histograms(void **state)
{
        static const char text[] =
                "# TYPE n histogram\n"
                "n {count:17,sum:3.5,schema:3,zero_threshold:1e-9,positive_spans:[0:2]} 1520879607.789\n"
                "n{a=\"b\"} {count:17,sum:3.5}\n"
                "n_count 17\n"
                "n {count:\n";
        infp_autostr struct infp_str shown = { 0 };
        struct infp_prom_page page;

        (void) state;
        assert_int_equal(parse(text, sizeof(text) - 1, false, &shown, &page, NULL), 0);
        assert_string_equal(shown.data, "n_count histogram/count 17.0 of n\n");
        assert_int_equal(page.n_native, 2);
        assert_int_equal(page.n_samples, 1);
        assert_int_equal(page.n_bad_lines, 1);
        assert_int_equal(page.first_bad_line, 5);
}

static void ends_of_pages(void **state)
{
        static const struct {
                const char *text;
                bool header, is_openmetrics, has_eof, ends_in_line;
                unsigned n_samples, n_bad, first_bad;
        } cases[] = {
                { "", false, false, false, true, 0, 0, 0 },
                { "a 1\n", false, false, false, true, 1, 0, 0 },
                { "a 1\nb 48", false, false, false, false, 1, 0, 0 },
                { "a 1\n# TYPE b", false, false, false, false, 1, 0, 0 },
                { "a 1\n# EO", false, false, false, false, 1, 0, 0 },
                { "a 1\n# EOF\n", false, true, true, true, 1, 0, 0 },
                { "a 1\n# EOF", false, true, true, true, 1, 0, 0 },
                { "a 1\r\n# EOF\r\n", false, true, true, true, 1, 0, 0 },
                { "a 1\n# EOF \n\n", false, true, true, true, 1, 0, 0 },
                { "a 1\n# EOF\nb 2\nc\n", false, true, true, true, 1, 2, 3 },
                { "a 1\n# EOF is near\nb 2\n", false, false, false, true, 2, 0, 0 },
                { "a 1\n", true, true, false, true, 1, 0, 0 },
                { "# EOF\n", false, true, true, true, 0, 0, 0 },
                { "# only a comment\n", false, false, false, true, 0, 0, 0 },
                { "a 1\n\nb\n", false, false, false, true, 1, 1, 3 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_autostr struct infp_str shown = { 0 };
                struct infp_prom_page page;
                int r = parse(cases[i].text, strlen(cases[i].text), cases[i].header, &shown, &page, NULL);

                if (r != 0 || page.is_openmetrics != cases[i].is_openmetrics || page.has_eof != cases[i].has_eof ||
                    page.ends_in_line != cases[i].ends_in_line || page.n_samples != cases[i].n_samples ||
                    page.n_bad_lines != cases[i].n_bad || page.first_bad_line != cases[i].first_bad)
                        fail_msg("%s", cases[i].text);
        }
}

static void no_metrics_page(void **state)
{
        static const struct {
                const char *text;
                size_t size;
                const char *message;
        } cases[] = {
                { "<html><body>404</body></html>\n", 0,
                  "this is not a metrics page: line 1 is \"<html><body>404</body></html>\"" },
                { "\n{\"error\":\t\"x\"}\n", 0, "this is not a metrics page: line 2 is \"{\"error\":?\"x\"}\"" },
                { "\x1f\x8b\x08\xff\n", 0, "this is not a metrics page: line 1 is \"?\\x8B?\\xFF\"" },
                { "a 1\nb \0 2\n", 10, "this is not a metrics page: byte 6 is 0" },
                { "a 1", 0, "this is not a metrics page: it has no whole line" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                infp_autostr struct infp_str shown = { 0 };
                struct infp_prom_page page;
                struct infp_err err = { "" };

                assert_int_equal(parse(cases[i].text, cases[i].size ? cases[i].size : strlen(cases[i].text), false,
                                       &shown, &page, &err),
                                 -EBADMSG);
                assert_string_equal(err.text, cases[i].message);
                assert_null(shown.data);
        }
}

static int stop_at_second(void *context, const struct infp_prom_sample *sample)
{
        unsigned *n = context;

        (void) sample;
        return ++*n == 2 ? -ECANCELED : 0;
}

static int count(void *context, const struct infp_prom_sample *sample)
{
        unsigned *n = context;

        *n += sample->n_labels + 1;
        return 0;
}

static void limits(void **state)
{
        struct infp_promtext *parser = infp_promtext_new();
        infp_autostr struct infp_str text = { 0 };
        struct infp_prom_page page;
        unsigned n = 0;

        (void) state;
        assert_int_equal(infp_promtext_parse(parser, "a 1\na 2\na 3\n", 12, false, stop_at_second, &n, &page, NULL),
                         -ECANCELED);
        assert_int_equal(n, 2);
        /* 128 labels, and one more. */
        for (int more = 0; more < 2; more++) {
                infp_str_puts(&text, "a{");
                for (int i = 0; i < INFP_PROM_LABELS + more; i++)
                        infp_str_printf(&text, "l%d=\"\\\\%d\",", i, i);
                infp_str_puts(&text, "} 1\n");
        }
        n = 0;
        assert_int_equal(infp_promtext_parse(parser, text.data, text.size, false, count, &n, &page, NULL), 0);
        assert_int_equal(n, 1 + INFP_PROM_LABELS);
        assert_int_equal(page.n_bad_lines, 1);
        /* More families than it keeps: their lines are bad, the samples are not. */
        infp_str_clear(&text);
        for (int i = 0; i < INFP_PROM_FAMILIES + 2; i++)
                infp_str_printf(&text, "# TYPE f%d gauge\n", i);
        infp_str_printf(&text, "f1 1\nf%d 1\n", INFP_PROM_FAMILIES + 1);
        n = 0;
        assert_int_equal(infp_promtext_parse(parser, text.data, text.size, false, count, &n, &page, NULL), 0);
        assert_int_equal(n, 2);
        assert_int_equal(page.n_bad_lines, 2);
        infp_promtext_free(parser);
}

static uint64_t random_bits(uint64_t *seed)
{
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        return *seed;
}

static void check_number(const char *text)
{
        const char *end = text + strlen(text);
        double v = -1, expected = strtod(text, NULL);

        if (infp_prom_number(text, end, &v) != end || memcmp(&v, &expected, sizeof(v)) != 0)
                fail_msg("%s is read as %.17g", text, v);
}

/* The same bits as the C library's, which rounds correctly. */
static void numbers_are_exact(void **state)
{
        static const char *const hard[] = {
                "0",
                "-0",
                "9007199254740993",
                "9007199254740993.0",
                "18446744073709551615",
                "99999999999999999999",
                "0.1",
                "36.870060443878174",
                "1.7958301054812334e+09",
                "8.583068847656e-06",
                "9223372036854775807e-19",
                "1.00000000000000011102230246251565404236316680908203125", /* half way */
                "1.0000000000000001110",
                "5e-324",
                "2.2250738585072011e-308",
                "1e23",
                "8.5e22",
                "9.5367431640625e-07",
                "00000000000000000000000012",
                "0.00000000000000000000000012",
                "123456789012345678901234567890",
        };
        uint64_t seed = UINT64_C(88172645463325252);

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(hard); i++)
                check_number(hard[i]);
        for (unsigned i = 0; i < 200000; i++) {
                uint64_t digits = random_bits(&seed) >> (random_bits(&seed) % 64), bits = random_bits(&seed);
                int exponent = (int) (random_bits(&seed) % 48) - 24;
                char text[64];
                double v;

                snprintf(text, sizeof(text), "%s%llue%d", i % 2 ? "-" : "", (unsigned long long) digits, exponent);
                check_number(text);
                memcpy(&v, &bits, sizeof(v));
                if (isfinite(v)) {
                        snprintf(text, sizeof(text), "%.*g", 15 + (int) (i % 4), v);
                        check_number(text);
                }
                /* Decimals such as a server prints. */
                snprintf(text, sizeof(text), "%.*g", 15 + (int) (i % 4), (double) digits / 1048576);
                check_number(text);
        }
}

static void nothing_is_allocated_twice(void **state)
{
        static const char text[] =
                "# HELP a b\\nc\n# TYPE a histogram\na_bucket{x=\"\\\\\",le=\"1\"} 1\na_count 1\nb{c=\"\\\"\"} 2\n";
        struct infp_promtext *parser = infp_promtext_new();
        struct infp_prom_page page;
        unsigned long before;
        unsigned n = 0;

        (void) state;
        assert_int_equal(infp_promtext_parse(parser, text, sizeof(text) - 1, false, count, &n, &page, NULL), 0);
        before = n_mallocs;
        for (int i = 0; i < 3; i++)
                assert_int_equal(infp_promtext_parse(parser, text, sizeof(text) - 1, false, count, &n, &page, NULL), 0);
        assert_int_equal(n_mallocs, before);
        assert_int_equal(n, 4 * 6);
        assert_int_equal(page.n_samples, 3);
        infp_promtext_free(parser);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(series_and_labels),
                cmocka_unit_test(values_and_times),
                cmocka_unit_test(families),
                cmocka_unit_test(native_histograms),
                cmocka_unit_test(ends_of_pages),
                cmocka_unit_test(no_metrics_page),
                cmocka_unit_test(limits),
                cmocka_unit_test(numbers_are_exact),
                cmocka_unit_test(nothing_is_allocated_twice),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
