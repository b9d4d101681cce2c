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
#include "view/snapshot/static_json.h"

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

// clang-format off
enum { INDEX, UUID, GPU_NAME, MEMORY, CLOCK, GPU_N };
static const struct infp_column gpu_keys[] = {
        INFP_COLUMN(gGpuIndex, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number."),
        INFP_COLUMN(gUuid, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Uuid."),
};
static const struct infp_column gpu_columns[] = {
        INFP_COLUMN(gName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
        INFP_COLUMN(gMemoryTotalMb, I64, GAUGE, mib, MEASURED, NO, NULL, 0, NULL, "Memory."),
        INFP_COLUMN(gClockSmMaxMhz, I64, GAUGE, mhz, MEASURED, NO, NULL, 0, NULL, "Clock."),
};
static const struct infp_column driver_columns[] = {
        INFP_COLUMN(gDriverVersion, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Driver."),
        INFP_COLUMN(gCudaVersion, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "CUDA."),
};
// clang-format on
static const struct infp_table gpu_table = {
        .name = "nvidia", .help = "GPUs.", .keys = gpu_keys, .n_keys = 2, .columns = gpu_columns, .n_columns = 3
};
static const struct infp_table driver_table = {
        .name = "nvidia_driver", .help = "Driver.", .columns = driver_columns, .n_columns = 2
};

static bool take(struct infp_static_gpus *gpus, const struct infp_row *row)
{
        struct infp_builder *builder = infp_builder_new(row->table, 4);
        struct infp_batch batch;
        bool is_new;

        assert_non_null(builder);
        assert_int_equal(infp_builder_append(builder, row, 0), 0);
        batch = infp_builder_batch(builder, 0);
        is_new = infp_static_gpus_take(gpus, &batch);
        infp_builder_free(builder);
        return is_new;
}

static bool take_gpu(struct infp_static_gpus *gpus, int64_t index, const char *uuid, int64_t memory)
{
        char text[256];
        struct infp_row row = { .text = text, .text_cap = sizeof(text) };

        infp_row_begin(&row, &gpu_table, 1);
        infp_row_i64(&row, INDEX, index);
        infp_row_str(&row, UUID, uuid);
        infp_row_str(&row, GPU_NAME, "H \"100\"");
        infp_row_i64(&row, MEMORY, memory);
        return take(gpus, &row);
}

/* They come one after the other, in any order, each once; the record stays what it was. */
static void gpus_are_added(void **state)
{
        static const char before[] = "{\n  \"uuid\": \"u\"\n}\n";
        struct infp_static_gpus gpus = { 0 };
        struct infp_str record = { 0 }, out = { 0 };
        char text[256];
        struct infp_row row = { .text = text, .text_cap = sizeof(text) };

        (void) state;
        infp_str_puts(&record, before);
        infp_static_gpus_put(&gpus, &record, &out);
        assert_string_equal(out.data, before); /* without a GPU nothing is said of GPUs */

        assert_true(take_gpu(&gpus, 1, "GPU-b", 2));
        assert_true(take_gpu(&gpus, 0, "GPU-a", 1));
        assert_false(take_gpu(&gpus, 1, "GPU-b", 3));
        infp_row_begin(&row, &driver_table, 1);
        infp_row_str(&row, 0, "580.65.06");
        assert_true(take(&gpus, &row));
        infp_str_clear(&out);
        infp_static_gpus_put(&gpus, &record, &out);
        assert_string_equal(out.data, "{\n"
                                      "  \"uuid\": \"u\",\n"
                                      "  \"nvidia\": {\n"
                                      "    \"gDriverVersion\": \"580.65.06\",\n"
                                      "    \"gCudaVersion\": null,\n"
                                      "    \"gpus\": [\n"
                                      "      {\n"
                                      "        \"gName\": \"H \\\"100\\\"\",\n"
                                      "        \"gUuid\": \"GPU-a\",\n"
                                      "        \"gTotalMemoryMb\": 1,\n"
                                      "        \"gPciBusId\": null,\n"
                                      "        \"gMaxGraphicsClock\": null,\n"
                                      "        \"gMaxSmClock\": null,\n"
                                      "        \"gMaxMemClock\": null\n"
                                      "      },\n"
                                      "      {\n"
                                      "        \"gName\": \"H \\\"100\\\"\",\n"
                                      "        \"gUuid\": \"GPU-b\",\n"
                                      "        \"gTotalMemoryMb\": 2,\n"
                                      "        \"gPciBusId\": null,\n"
                                      "        \"gMaxGraphicsClock\": null,\n"
                                      "        \"gMaxSmClock\": null,\n"
                                      "        \"gMaxMemClock\": null\n"
                                      "      }\n"
                                      "    ]\n"
                                      "  }\n"
                                      "}\n");
        infp_static_gpus_done(&gpus);
        infp_str_done(&record);
        infp_str_done(&out);
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
                cmocka_unit_test(gpus_are_added),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
