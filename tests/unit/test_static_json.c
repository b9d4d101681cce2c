/* static_<uuid>.json, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/builder.h"
#include "model/row.h"
#include "view/static_json.h"

// clang-format off
enum { ID, NAME, BOOT, L1D, L2, SYNCED, CPUS, N };
static const struct infp_column columns[] = {
        [ID] = INFP_COLUMN(vId, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Id."),
        [NAME] = INFP_COLUMN(vHostname, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
        [BOOT] = INFP_COLUMN(vBootTime, I64, GAUGE, unix_s, MEASURED, NO, NULL, 0, NULL, "Boot."),
        [L1D] = INFP_COLUMN(vCpuCacheL1d, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Cache."),
        [L2] = INFP_COLUMN(vCpuCacheL2, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Cache."),
        [SYNCED] = INFP_COLUMN(vTimeSynced, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Synced."),
        [CPUS] = INFP_COLUMN(vEffectiveCpus, F64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "CPUs."),
};
// clang-format on
static const struct infp_table table = { .name = "host", .help = "Host.", .columns = columns, .n_columns = N };

static char *make(const struct infp_row *row)
{
        struct infp_builder *builder = infp_builder_new(&table, 4);
        struct infp_str out = { 0 };
        struct infp_batch batch;

        assert_non_null(builder);
        if (row)
                assert_int_equal(infp_builder_append(builder, row, 0), 0);
        batch = infp_builder_batch(builder, 0);
        infp_static_json(&out, "6f1c0000-0000-4000-8000-000000000001", &batch);
        infp_builder_free(builder);
        return infp_str_take(&out);
}

static void full_and_absent(void **state)
{
        char text[256], *json;
        struct infp_row row = { .text = text, .text_cap = sizeof(text) };

        (void) state;
        infp_row_begin(&row, &table, 1);
        infp_row_str(&row, ID, "id-1");
        infp_row_str(&row, NAME, "h \"q\"");
        infp_row_i64(&row, BOOT, 1703000000);
        infp_row_i64(&row, L1D, 262144);
        infp_row_bool(&row, SYNCED, true);
        infp_row_f64(&row, CPUS, 1.5);
        json = make(&row);
        assert_string_equal(json, "{\n"
                                  "  \"uuid\": \"6f1c0000-0000-4000-8000-000000000001\",\n"
                                  "  \"vId\": \"id-1\",\n"
                                  "  \"host\": {\n"
                                  "    \"vHostname\": \"h \\\"q\\\"\",\n"
                                  "    \"vBootTime\": 1703000000,\n"
                                  "    \"vCpuCache\": {\n"
                                  "      \"L1d\": 262144,\n"
                                  "      \"L2\": null\n"
                                  "    },\n"
                                  "    \"vTimeSynced\": true,\n"
                                  "    \"vEffectiveCpus\": 1.5\n"
                                  "  }\n"
                                  "}\n");
        free(json);
}

static void without_a_row(void **state)
{
        char *json = make(NULL);

        (void) state;
        assert_non_null(strstr(json, "\"vId\": null"));
        assert_non_null(strstr(json, "\"L1d\": null"));
        assert_non_null(strstr(json, "\"vEffectiveCpus\": null"));
        free(json);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(full_and_absent),
                cmocka_unit_test(without_a_row),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
