/* Prometheus text: base units, labels, one HELP and TYPE a name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/builder.h"
#include "model/prom_name.h"
#include "query/made.h"
#include "view/prom.h"

// clang-format off
static const struct infp_column keys[] = {
        INFP_COLUMN(device, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Device."),
};
static const struct infp_column columns[] = {
        INFP_COLUMN(vTime, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, "x_time_seconds_total", "Time \\ spent."),
        INFP_COLUMN(vShare, F64, GAUGE, percent, MEASURED, NO, NULL, 0, "x_share_ratio", "Share."),
        INFP_COLUMN(vBytes, U64, GAUGE, bytes, MEASURED, NO, NULL, 0, "x_bytes", "Bytes."),
        INFP_COLUMN(vHidden, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Not exposed."),
        INFP_COLUMN(vUp, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, "x_up", "Up."),
};
static const struct infp_column thing_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
};
static const struct infp_column thing_columns[] = {
        INFP_COLUMN(pId, I64, LABEL, none, MEASURED, NO, NULL, 0, "pid", "Pid."),
        INFP_COLUMN(pName, STR, LABEL, none, MEASURED, NO, NULL, 0, "name", "Name."),
        INFP_COLUMN(pCmdline, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Long."),
};
static const struct infp_column fact_keys[] = {
        INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process."),
};
static const struct infp_column fact_columns[] = {
        INFP_COLUMN(pMemory, I64, GAUGE, mib, MEASURED, NO, NULL, 0, "p_memory_bytes", "Memory."),
};
// clang-format on
static const struct infp_table keyed = {
        .name = "disks", .keys = keys, .columns = columns, .n_keys = 1, .n_columns = 5
};
static const struct infp_table plain_sum = { .name = "disk", .columns = columns, .n_columns = 5 };
static const struct infp_table things = {
        .name = "process", .keys = thing_keys, .columns = thing_columns, .n_keys = 1, .n_columns = 3, .entity = true
};
static const struct infp_table facts = {
        .name = "processes", .keys = fact_keys, .columns = fact_columns, .n_keys = 1, .n_columns = 1
};

static void add_numbers(struct infp_prom *prom, const struct infp_table *table, const char *device, int64_t unix_ns,
                        int64_t centiseconds)
{
        struct infp_builder *b = infp_builder_new(table, 1);
        const unsigned first = INFP_FIXED_COLUMNS + table->n_keys;
        struct infp_batch batch;

        assert_int_equal(infp_builder_row_begin(b, 1, unix_ns), 0);
        if (device)
                infp_builder_set(b, 2, (union infp_cell){ 0 }, device, strlen(device));
        infp_builder_set(b, first, (union infp_cell){ .i64 = centiseconds }, NULL, 0);
        infp_builder_set(b, first + 1, (union infp_cell){ .f64 = 68.75 }, NULL, 0);
        infp_builder_set(b, first + 2, (union infp_cell){ .u64 = UINT64_MAX }, NULL, 0);
        infp_builder_set(b, first + 3, (union infp_cell){ .i64 = 1 }, NULL, 0);
        assert_int_equal(infp_builder_row_end(b), 0);
        batch = infp_builder_batch(b, 0);
        assert_int_equal(infp_prom_add(prom, &batch, NULL), 0);
        infp_builder_free(b);
}

static char *written(struct infp_prom *prom)
{
        char path[] = "/tmp/infprof-test-XXXXXX";
        const int fd = mkstemp(path);
        const size_t max = 8 << 20;
        struct infp_out out;
        char *text = calloc(1, max);

        assert_true(fd >= 0 && text);
        unlink(path);
        infp_out_init(&out, fd, path);
        assert_int_equal(infp_prom_write(prom, &out), 0);
        assert_int_equal(infp_out_flush(&out, NULL), 0);
        infp_out_done(&out);
        assert_true(pread(fd, text, max - 1, 0) >= 0);
        close(fd);
        infp_prom_free(prom);
        return text;
}

static void test_names(void **state)
{
        static const struct {
                const char *table, *prom, *expected;
                unsigned n_keys;
        } cases[] = {
                { "cpu", "infprof_host_cpu_user_seconds_total", "infprof_host_cpu_user_seconds_total", 0 },
                { "cpu_core", "infprof_host_cpu_user_seconds_total", "infprof_cpu_core_user_seconds_total", 1 },
                { "disk_device", "infprof_host_disk_read_bytes_total", "infprof_disk_device_read_bytes_total", 1 },
                { "net_interface", "infprof_host_network_sent_bytes_total", "infprof_net_interface_sent_bytes_total",
                  1 },
                { "net_interface", "infprof_host_mtu_bytes", "infprof_net_interface_mtu_bytes", 1 },
                { "net_interface", "infprof_host_network", "infprof_net_interface_network", 1 },
                { "processes", "infprof_process_threads", "infprof_process_threads", 1 },
                { "process", "pid", "pid", 1 },
                /* As a run's own table `columns` gives it back. */
                { "cpu_core", "infprof_cpu_core_user_seconds_total", "infprof_cpu_core_user_seconds_total", 1 },
                { "cpu", NULL, NULL, 1 },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                const struct infp_table table = { .name = cases[i].table,
                                                  .keys = keys,
                                                  .n_keys = (uint16_t) cases[i].n_keys };
                const struct infp_column column = { .name = "x", .prom = cases[i].prom };
                infp_autostr struct infp_str name = { 0 };

                assert_int_equal(infp_prom_name(&name, &table, &column), cases[i].expected != NULL);
                if (cases[i].expected)
                        assert_string_equal(name.data, cases[i].expected);
        }
}

/* 4321 cs are 43.21 s and not 43.21000000000001; percent becomes a ratio; absent values have no line. */
static void test_a_page(void **state)
{
        struct infp_prom *prom;

        (void) state;
        assert_int_equal(infp_prom_new(false, &prom), 0);
        add_numbers(prom, &plain_sum, NULL, 0, 4321);
        add_numbers(prom, &keyed, "sd\"a\\b\nc", 0, 29);
        infp_autofree char *text = written(prom);

        assert_string_equal(text, "# HELP x_time_seconds_total Time \\\\ spent.\n"
                                  "# TYPE x_time_seconds_total counter\n"
                                  "x_time_seconds_total 43.21\n"
                                  "x_time_seconds_total{device=\"sd\\\"a\\\\b\\nc\"} 0.29\n"
                                  "# HELP x_share_ratio Share.\n"
                                  "# TYPE x_share_ratio gauge\n"
                                  "x_share_ratio 0.6875\n"
                                  "x_share_ratio{device=\"sd\\\"a\\\\b\\nc\"} 0.6875\n"
                                  "# HELP x_bytes Bytes.\n"
                                  "# TYPE x_bytes gauge\n"
                                  "x_bytes 18446744073709551615\n"
                                  "x_bytes{device=\"sd\\\"a\\\\b\\nc\"} 18446744073709551615\n");
}

static bool find_thing(void *context, const char *table, uint64_t id, struct infp_batch *ret)
{
        if (strcmp(table, "process") || id != 77)
                return false;
        *ret = infp_builder_batch(context, 0);
        return true;
}

static void test_labels_of_things(void **state)
{
        struct infp_builder *thing = infp_builder_new(&things, 1), *b = infp_builder_new(&facts, 2);
        struct infp_last last = { .context = thing, .entity = find_thing };
        struct infp_batch batch;
        struct infp_prom *prom;

        (void) state;
        infp_builder_row_begin(thing, 0, 0);
        infp_builder_set(thing, 2, (union infp_cell){ .u64 = 77 }, NULL, 0);
        infp_builder_set(thing, 3, (union infp_cell){ .i64 = 410 }, NULL, 0);
        infp_builder_set(thing, 4, (union infp_cell){ 0 }, "two words", 9);
        infp_builder_set(thing, 5, (union infp_cell){ 0 }, "--long", 6);
        assert_int_equal(infp_builder_row_end(thing), 0);
        for (uint64_t id = 77; id < 79; id++) {
                infp_builder_row_begin(b, 0, 0);
                infp_builder_set(b, 2, (union infp_cell){ .u64 = id }, NULL, 0);
                infp_builder_set(b, 3, (union infp_cell){ .i64 = 3 }, NULL, 0);
                assert_int_equal(infp_builder_row_end(b), 0);
        }
        batch = infp_builder_batch(b, 0);
        assert_int_equal(infp_prom_new(false, &prom), 0);
        assert_int_equal(infp_prom_add(prom, &batch, &last), 0);
        infp_autofree char *text = written(prom);

        assert_string_equal(text, "# HELP p_memory_bytes Memory.\n"
                                  "# TYPE p_memory_bytes gauge\n"
                                  "p_memory_bytes{pid=\"410\",name=\"two words\"} 3145728.0\n"
                                  "p_memory_bytes{process=\"78\"} 3145728.0\n");
        infp_builder_free(b);
        infp_builder_free(thing);
}

static bool find_namesake(void *context, const char *table, uint64_t id, struct infp_batch *ret)
{
        (void) table;
        (void) id;
        *ret = infp_builder_batch(context, 0);
        return true;
}

/* Three things that call themselves the same, at each of two moments: no sample is there twice, none is lost. */
static void test_namesakes(void **state)
{
        struct infp_builder *thing = infp_builder_new(&things, 1), *b = infp_builder_new(&facts, 6);
        struct infp_last last = { .context = thing, .entity = find_namesake };
        struct infp_batch batch;
        struct infp_prom *prom;

        (void) state;
        infp_builder_row_begin(thing, 0, 0);
        infp_builder_set(thing, 4, (union infp_cell){ 0 }, "same", 4);
        assert_int_equal(infp_builder_row_end(thing), 0);
        for (uint64_t i = 0; i < 6; i++) {
                infp_builder_row_begin(b, 0, (int64_t) (i / 3) * 1000000);
                infp_builder_set(b, 2, (union infp_cell){ .u64 = 1 + i % 3 }, NULL, 0);
                infp_builder_set(b, 3, (union infp_cell){ .i64 = (int64_t) i }, NULL, 0);
                assert_int_equal(infp_builder_row_end(b), 0);
        }
        batch = infp_builder_batch(b, 0);
        assert_int_equal(infp_prom_new(true, &prom), 0);
        assert_int_equal(infp_prom_add(prom, &batch, &last), 0);
        infp_autofree char *text = written(prom);

        assert_string_equal(text, "# HELP p_memory_bytes Memory.\n"
                                  "# TYPE p_memory_bytes gauge\n"
                                  "p_memory_bytes{name=\"same\"} 0.0 0\n"
                                  "p_memory_bytes{name=\"same\",process=\"2\"} 1048576.0 0\n"
                                  "p_memory_bytes{name=\"same\",process=\"3\"} 2097152.0 0\n"
                                  "p_memory_bytes{name=\"same\"} 3145728.0 1\n"
                                  "p_memory_bytes{name=\"same\",process=\"2\"} 4194304.0 1\n"
                                  "p_memory_bytes{name=\"same\",process=\"3\"} 5242880.0 1\n");
        infp_builder_free(b);
        infp_builder_free(thing);
}

/* An export: every sample with its time, samples of a name together although they came row by row, more than is kept in
 * memory. */
static void test_an_export(void **state)
{
        struct infp_prom *prom;
        const char *at;
        int64_t n = 0;

        (void) state;
        assert_int_equal(infp_prom_new(true, &prom), 0);
        for (int64_t i = 0; i < 40000; i++)
                add_numbers(prom, &plain_sum, NULL, 1703462400123456789 + i * 1000000, i);
        infp_autofree char *text = written(prom);

        assert_int_equal(strncmp(text, "# HELP x_time", 13), 0);
        at = strstr(text, "x_time_seconds_total 0.0 1703462400123\n");
        assert_non_null(at);
        while (!strncmp(at, "x_time_seconds_total ", 21)) {
                const char *end = strchr(at, '\n');
                long long stamp;

                assert_int_equal(sscanf(at, "%*s %*s %lld", &stamp), 1);
                assert_int_equal(stamp, 1703462400123 + n++);
                at = end + 1;
        }
        assert_int_equal(n, 40000);
        assert_int_equal(strncmp(at, "# HELP x_share", 14), 0);
}

/* Two rows within a millisecond would be one sample twice, which Prometheus' own reader refuses. */
static void test_one_sample_a_millisecond(void **state)
{
        struct infp_prom *prom;

        (void) state;
        assert_int_equal(infp_prom_new(true, &prom), 0);
        add_numbers(prom, &plain_sum, NULL, INT64_C(1703462400123000000), 1);
        add_numbers(prom, &plain_sum, NULL, INT64_C(1703462400123999999), 2);
        add_numbers(prom, &plain_sum, NULL, INT64_C(1703462400124000000), 3);
        infp_autofree char *text = written(prom);
        unsigned n = 0;

        for (const char *at = text; (at = strstr(at, "\nx_time_seconds_total ")); at++)
                n++;
        assert_int_equal(n, 2);
        assert_non_null(strstr(text, " 1703462400123\n"));
        assert_non_null(strstr(text, " 1703462400124\n"));
}

/* More columns than a table of a collector may have, of several things: none is left out, and each has its own sample. */
static void test_a_time_series(void **state)
{
        enum { WIDTH = 300 };
        static const struct infp_column tick =
                INFP_COLUMN(timestamp, I64, LABEL, ms, MEASURED, NO, NULL, 0, NULL, "Tick.");
        struct infp_made *made = infp_made_new("timeseries", true);
        struct infp_prom *prom;
        struct infp_builder *b;
        struct infp_batch batch;
        unsigned n = 0;

        (void) state;
        assert_int_equal(infp_made_add(made, &tick, false), 0);
        for (unsigned i = 0; i < WIDTH; i++) {
                struct infp_column column = columns[2];
                char name[32], own[32];

                snprintf(name, sizeof(name), "thing%u_vBytes", i);
                snprintf(own, sizeof(own), "x%u_bytes", i);
                column.name = name;
                column.prom = i < 2 ? "x_bytes" : own;
                assert_int_equal(infp_made_add(made, &column, false), 0);
        }
        b = infp_builder_new(&made->table, 1);
        assert_int_equal(infp_builder_row_begin(b, 0, 0), 0);
        infp_builder_set(b, 0, (union infp_cell){ .i64 = 1703462400123 }, NULL, 0);
        for (unsigned i = 0; i < WIDTH; i++)
                infp_builder_set(b, i + 1, (union infp_cell){ .u64 = i }, NULL, 0);
        assert_int_equal(infp_builder_row_end(b), 0);
        batch = infp_builder_batch(b, 0);
        assert_int_equal(infp_prom_new(true, &prom), 0);
        assert_int_equal(infp_prom_add(prom, &batch, NULL), 0);
        infp_builder_free(b);
        infp_autofree char *text = written(prom);
        infp_made_free(made);

        for (const char *at = text; (at = strstr(at, "# TYPE ")); at++)
                n++;
        assert_int_equal(n, WIDTH - 1);
        assert_non_null(strstr(text, "\nx_bytes{column=\"thing0_vBytes\"} 0 1703462400123\n"));
        assert_non_null(strstr(text, "\nx_bytes{column=\"thing1_vBytes\"} 1 1703462400123\n"));
        assert_non_null(strstr(text, "\nx299_bytes 299 1703462400123\n"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                cmocka_unit_test(test_a_page),
                cmocka_unit_test(test_labels_of_things),
                cmocka_unit_test(test_namesakes),
                cmocka_unit_test(test_an_export),
                cmocka_unit_test(test_one_sample_a_millisecond),
                cmocka_unit_test(test_a_time_series),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
