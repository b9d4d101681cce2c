/* The page of a report: what a hostile name cannot do, and numbers in few digits. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report_sample.h"
#include "view/html/page.h"
#include "view/html/parts.h"

static void test_text(void **state)
{
        static const struct {
                const char *given, *expected;
        } texts[] = {
                { "plain", "plain" },
                { "<img src=x onerror='a'>\"&", "&lt;img src=x onerror=&#39;a&#39;&gt;&quot;&amp;" },
                { "a\033[31mb\001", "a\xef\xbf\xbd[31mb\xef\xbf\xbd" },
                { "\xff\xc3", "\xef\xbf\xbd\xef\xbf\xbd" },
                { "\xc2\x9b"
                  "1m",
                  "\xef\xbf\xbd"
                  "1m" },
                { "\xc3\xa9 \xe2\x82\xac\n", "\xc3\xa9 \xe2\x82\xac\n" },
                { "\xe2\x80\xaelive\xe2\x81\xa6", "\xef\xbf\xbdlive\xef\xbf\xbd" }, /* would read as "evil" */
                { NULL, "" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(texts); i++) {
                infp_autostr struct infp_str out = { 0 };

                infp_html_text(&out, texts[i].given);
                assert_string_equal(out.data ? out.data : "", texts[i].expected);
        }
}

static void test_json_in_a_script(void **state)
{
        static const char json[] = "{\"a<b\":\"</script><!--\",\"<\":1}";
        infp_autostr struct infp_str out = { 0 };

        (void) state;
        infp_html_json(&out, json, strlen(json));
        assert_string_equal(out.data, "{\"a\\u003cb\":\"\\u003c/script>\\u003c!--\",\"\\u003c\":1}");
}

/* As JSON, with one digit more than a picture shows: to a thousandth of what the series spans. */
static void test_digits(void **state)
{
        static const struct {
                double values[4];
                const char *expected;
        } series[] = {
                { { 0, 33.333333, 66.666666, 100 }, "{\"v\":[0,33.3,66.7,100]}" },
                { { 1, 1, 1, 1 }, "{\"v\":[1,1,1,1]}" },
                { { 0, 0, NAN, 0 }, "{\"v\":[0,0,null,0]}" },
                { { 5e9, 5.0001e9, 5.0002e9, 5.0003e9 }, "{\"v\":[5e9,50001e5,50002e5,50003e5]}" },
                { { -0.0012345, 0, 0.00005, 0.001 }, "{\"v\":[-0.001234,0,5e-5,0.001]}" },
                { { 1e-9, 3e-9, 2.5e-9, 2e-9 }, "{\"v\":[1e-9,3e-9,25e-10,2e-9]}" },
                { { 1e300, 0, 1, 2 }, "{\"v\":[1e300,0,0,0]}" },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(series); i++) {
                struct infp_bucket_stat buckets[4];
                const struct infp_timeline_series one = { .buckets = buckets };
                infp_autostr struct infp_str out = { 0 };
                struct infp_json json;
                json_t *parsed;

                for (unsigned k = 0; k < 4; k++) {
                        const double v = series[i].values[k];

                        buckets[k] =
                                isnan(v) ? (struct infp_bucket_stat){ 0 } : (struct infp_bucket_stat){ v, 1, v, v };
                }
                infp_json_begin(&json, &out, 0);
                infp_json_object(&json);
                infp_html_series(&json, &one, 4, false);
                infp_json_object_end(&json);
                if (i < INFP_COUNT(series) - 1)
                        assert_string_equal(out.data, series[i].expected);
                parsed = json_loads(out.data, 0, NULL);
                assert_non_null(parsed);
                for (unsigned k = 0; k < 4; k++)
                        if (!isnan(series[i].values[k]))
                                assert_true(fabs(json_number_value(json_array_get(json_object_get(parsed, "v"), k)) -
                                                 series[i].values[k]) <= 1e-3 * fabs(series[i].values[0]) + 0.05);
                json_decref(parsed);
        }
}

/* Several samples a bucket: least, most and mean. */
static void test_bounds(void **state)
{
        struct infp_bucket_stat buckets[2] = { { 40, 4, 1, 30 }, { 10, 2, 5, 5 } };
        const struct infp_timeline_series one = { .buckets = buckets };
        infp_autostr struct infp_str out = { 0 };
        struct infp_json json;

        (void) state;
        infp_json_begin(&json, &out, 0);
        infp_json_object(&json);
        infp_html_series(&json, &one, 2, true);
        infp_json_object_end(&json);
        assert_string_equal(out.data, "{\"min\":[1,5],\"max\":[30,5],\"mean\":[10,5]}");
}

/* Of a ratio the page needs to know how much each bucket counts. */
static void test_weights(void **state)
{
        struct infp_bucket_stat buckets[3] = { { 300, 12345, 0.02, 0.03 }, { 0 }, { 2, 0.5, 4, 4 } };
        const struct infp_timeline_series one = { .buckets = buckets, .is_ratio = true };
        infp_autostr struct infp_str out = { 0 };
        struct infp_json json;

        (void) state;
        infp_json_begin(&json, &out, 0);
        infp_json_object(&json);
        infp_html_series(&json, &one, 3, true);
        infp_json_object_end(&json);
        assert_non_null(strstr(out.data, "\"weight\":[12300,0,0.5]"));
}

static char *page_of(struct sample_run *s, struct infp_report *report)
{
        struct infp_timeline timeline;
        struct infp_out out;
        char *ret;

        make(s, NULL, NULL, 0, report);
        sample_check(s, infp_timeline_make(s->run, report, &timeline, &s->err));
        infp_out_init(&out, -1, "nowhere");
        assert_int_equal(infp_report_html(&out, report, &timeline), 0);
        ret = strdup(out.text.data);
        infp_out_done(&out);
        infp_timeline_done(&timeline);
        return ret;
}

static unsigned count(const char *text, const char *what)
{
        unsigned n = 0;

        for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
                n++;
        return n;
}

/* Everywhere that a run has texts, one that would be markup. Of each tag there is as many as we write. */
static void test_hostile_run(void **state)
{
        static const char hostile[] = "</script><img src=x onerror=alert(1)><!--";
        const struct infp_table *const more[] = { &infp_table_marks, &infp_table_requests, NULL };
        struct sample_run *s = begin();
        struct infp_report report;
        infp_autofree char *page = NULL;
        const char *data;
        char *end;
        json_t *parsed;

        (void) state;
        sample_describe(s, more);
        put_numbers(s, 10 * S, 1, 1, 1, 1);
        put_process(s, 10 * S, 5, hostile, hostile, 1 * S);
        put_use(s, 10 * S, 5, true, 1, 10, 100, 100);
        put_use(s, 11 * S, 5, true, 2, 20, 100, 100);
        infp_row_str(sample_row(s, &infp_table_marks, 10 * S + 5), INFP_MARKS_TAG, hostile);
        infp_row_str(&s->row, INFP_MARKS_SOURCE, hostile);
        infp_row_id(&s->row, INFP_MARKS_PROCESS, 5);
        sample_put(s);
        infp_row_str(sample_row(s, &infp_table_requests, 10 * S + 5), INFP_REQUESTS_LOAD, hostile);
        infp_row_str(&s->row, INFP_REQUESTS_FAILURE, hostile);
        sample_put(s);
        put_source(s, 10 * S, "gauge", "absent", hostile);
        finish(s, "run", 12 * S);
        free(s->run->info.command);
        s->run->info.command = strdup(hostile);
        page = page_of(s, &report);
        assert_int_equal(count(page, "<img"), 0);
        assert_int_equal(count(page, "</script"), 2);
        assert_int_equal(count(page, "<!--"), 0);
        assert_int_equal(count(page, "<h1>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&lt;!--</h1>"), 1);
        data = strstr(page, "id=\"data\">");
        assert_non_null(data);
        data += strlen("id=\"data\">");
        end = strstr(data, "</script>");
        *end = 0;
        parsed = json_loads(data, 0, NULL);
        assert_non_null(parsed);
        assert_string_equal(
                json_string_value(json_object_get(json_array_get(json_object_get(parsed, "marks"), 0), "tag")),
                hostile);
        json_decref(parsed);
        infp_report_done(&report);
        sample_free(s);
}

/* Of 20 devices the figures of 8 are in the page, the chart has them all; the page says so, and the report still has its own. */
static void test_long_lists_are_cut(void **state)
{
        const struct infp_table *const tables[] = { &device_table, &infp_table_ticks, NULL };
        struct sample_run *s = sample_new("csv");
        struct infp_report report;
        infp_autofree char *page = NULL;

        (void) state;
        sample_describe(s, tables);
        for (unsigned i = 0; i < 40; i++) {
                char name[16];

                snprintf(name, sizeof(name), "dev%u", i % 20);
                infp_row_str(sample_row(s, &device_table, (10 + i / 20) * S), DEVICE_DEVICE, name);
                infp_row_i64(&s->row, DEVICE_HEAT, i);
                sample_put(s);
        }
        finish(s, "host", 12 * S);
        page = page_of(s, &report);
        assert_int_equal(count(page, "\"device7_heat\""), 1);
        assert_int_equal(count(page, "\"device8_heat\""), 0);
        assert_int_equal(count(page, "This page has 8 of 20 metrics: those of the first 8"), 1);
        assert_int_equal(report.n_metrics, 20);
        infp_report_done(&report);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_json_in_a_script),
                cmocka_unit_test(test_digits),
                cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_weights),
                cmocka_unit_test(test_hostile_run),
                cmocka_unit_test(test_long_lists_are_cut),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
