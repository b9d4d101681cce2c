/* The nesting of a snapshot, byte for byte, and the files that the sink writes. */
#include "count_mallocs.h"

#include <dirent.h>
#include <errno.h>
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

#include "base/fd.h"
#include "base/mem.h"
#include "model/builder.h"
#include "model/tables.h"
#include "view/snapshot/snapshot.h"

// clang-format off
static const struct infp_column cpu_columns[] = {
        INFP_COLUMN(vCpuTime, I64, COUNTER, cs, MEASURED, ZERO, NULL, 0, NULL, "Time."),
        INFP_COLUMN(vLoadAvg, F64, GAUGE, ratio, MEASURED, NO, NULL, 0, NULL, "Load."),
        INFP_COLUMN(vKind, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "A label."),
};
static const struct infp_column core_keys[] = {
        INFP_COLUMN(core, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Core."),
};
static const struct infp_column tree_columns[] = {
        INFP_COLUMN(pNumProcesses, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Processes."),
};
static const struct infp_column thing_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Id."),
};
static const struct infp_column thing_columns[] = {
        INFP_COLUMN(pId, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Pid."),
        INFP_COLUMN(pName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
};
static const struct infp_column fact_keys[] = {
        INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process."),
};
static const struct infp_column fact_columns[] = {
        INFP_COLUMN(pState, STR, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "State."),
        INFP_COLUMN(pUp, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Up."),
};
static const struct infp_column gpu_keys[] = {
        INFP_COLUMN(gGpuIndex, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Index."),
};
// clang-format on

enum { CPU, CORE, GPU, TREE, FACTS, THINGS, HIDDEN, SOURCES, N_TABLES };

static const struct infp_table tables[] = {
        [CPU] = { .name = "cpu", .columns = cpu_columns, .n_columns = 3, .section = "cpu" },
        [CORE] = { .name = "cpu_core",
                   .keys = core_keys,
                   .columns = cpu_columns,
                   .n_keys = 1,
                   .n_columns = 1,
                   .section = "cpu" },
        [GPU] = { .name = "nvidia",
                  .keys = gpu_keys,
                  .columns = cpu_columns,
                  .n_keys = 1,
                  .n_columns = 1,
                  .section = "nvidia" },
        [TREE] = { .name = "tree", .columns = tree_columns, .n_columns = 1, .section = "processes" },
        [FACTS] = { .name = "processes",
                    .keys = fact_keys,
                    .columns = fact_columns,
                    .n_keys = 1,
                    .n_columns = 2,
                    .section = "processes" },
        [THINGS] = { .name = "process",
                     .keys = thing_keys,
                     .columns = thing_columns,
                     .n_keys = 1,
                     .n_columns = 2,
                     .entity = true },
        [HIDDEN] = { .name = "host", .columns = tree_columns, .n_columns = 1 },
};

/* A world: a builder a table. */
struct world {
        struct infp_builder *rows[N_TABLES];
        struct infp_last last;
};

static const struct infp_table *world_table(void *context, unsigned index)
{
        (void) context;
        if (index == SOURCES)
                return &infp_table_sources;
        return index < N_TABLES ? &tables[index] : NULL;
}

static struct infp_builder *rows_of(const struct world *w, const struct infp_table *table)
{
        return w->rows[table == &infp_table_sources ? SOURCES : table - tables];
}

static bool world_rows(void *context, const struct infp_table *table, uint32_t from, struct infp_batch *ret)
{
        const struct infp_builder *b = rows_of(context, table);

        if (from >= infp_builder_rows(b))
                return false;
        *ret = infp_builder_batch(b, from);
        ret->n_rows = 1; /* the view must go on */
        return true;
}

static bool world_entity(void *context, const char *table, uint64_t id, struct infp_batch *ret)
{
        const struct world *w = context;
        struct infp_batch all = infp_builder_batch(w->rows[THINGS], 0);

        assert_string_equal(table, "process");
        for (uint32_t row = 0; row < all.n_rows; row++)
                if (infp_batch_u64(&all, 2, row) == id) {
                        *ret = all;
                        ret->first += row;
                        ret->n_rows = 1;
                        return true;
                }
        return false;
}

static int setup(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        for (unsigned i = 0; i < N_TABLES; i++)
                w->rows[i] = infp_builder_new(world_table(w, i), 8);
        w->last = (struct infp_last){ .context = w, .table = world_table, .rows = world_rows, .entity = world_entity };
        *state = w;
        return 0;
}

static int teardown(void **state)
{
        struct world *w = *state;

        for (unsigned i = 0; i < N_TABLES; i++)
                infp_builder_free(w->rows[i]);
        free(w);
        return 0;
}

static void row(struct infp_builder *b, int64_t unix_ms)
{
        assert_int_equal(infp_builder_row_begin(b, 1, unix_ms * 1000000 + 999999), 0);
}

static void fill(struct world *w)
{
        struct infp_builder *b = w->rows[CPU];

        row(b, 1703462400000);
        infp_builder_set(b, 2, (union infp_cell){ .i64 = 9007199254740993 }, NULL, 0);
        infp_builder_set(b, 4, (union infp_cell){ 0 }, "a\"b", 3);
        infp_builder_row_end(b);
        for (int64_t core = 0; core < 4; core += 3) {
                row(w->rows[CORE], 1703462400000 + core);
                infp_builder_set(w->rows[CORE], 2, (union infp_cell){ .i64 = core }, NULL, 0);
                infp_builder_set(w->rows[CORE], 3, (union infp_cell){ .i64 = 10 * core }, NULL, 0);
                infp_builder_row_end(w->rows[CORE]);
        }
        row(w->rows[TREE], 1703462400007);
        infp_builder_set(w->rows[TREE], 2, (union infp_cell){ .i64 = 2 }, NULL, 0);
        infp_builder_row_end(w->rows[TREE]);
        row(w->rows[THINGS], 0);
        infp_builder_set(w->rows[THINGS], 2, (union infp_cell){ .u64 = 77 }, NULL, 0);
        infp_builder_set(w->rows[THINGS], 3, (union infp_cell){ .i64 = 410 }, NULL, 0);
        infp_builder_set(w->rows[THINGS], 4, (union infp_cell){ 0 }, "x\ny", 3);
        infp_builder_row_end(w->rows[THINGS]);
        for (uint64_t id = 77; id < 79; id++) {
                row(w->rows[FACTS], 1703462400001);
                infp_builder_set(w->rows[FACTS], 2, (union infp_cell){ .u64 = id }, NULL, 0);
                infp_builder_set(w->rows[FACTS], 3, (union infp_cell){ 0 }, "S", 1);
                infp_builder_set(w->rows[FACTS], 4, (union infp_cell){ .b = true }, NULL, 0);
                infp_builder_row_end(w->rows[FACTS]);
        }
}

#define NOTHING "{\"value\":null,\"time\":null}"

static void test_nesting(void **state)
{
        struct world *w = *state;
        infp_autostr struct infp_str text = { 0 };

        fill(w);
        infp_snapshot_put(&text, &w->last, 1703462400000, 0, false);
        assert_string_equal(
                text.data,
                "{\"timestamp\":1703462400000,"
                "\"cpu\":{\"vCpuTime\":{\"value\":9007199254740993,\"time\":1703462400000},\"vLoadAvg\":" NOTHING
                ",\"vKind\":\"a\\\"b\","
                "\"cpu_core\":[{\"core\":0,\"vCpuTime\":{\"value\":0,\"time\":1703462400000}},"
                "{\"core\":3,\"vCpuTime\":{\"value\":30,\"time\":1703462400003}}]},"
                "\"nvidia\":[],"
                "\"processes\":{\"pNumProcesses\":{\"value\":2,\"time\":1703462400007},"
                "\"processes\":[{\"pId\":410,\"pName\":\"x\\ny\",\"pState\":{\"value\":\"S\",\"time\":1703462400001},"
                "\"pUp\":{\"value\":true,\"time\":1703462400001}},"
                "{\"pId\":null,\"pName\":null,\"pState\":{\"value\":\"S\",\"time\":1703462400001},"
                "\"pUp\":{\"value\":true,\"time\":1703462400001}}]}}\n");
}

/* What is absent is there, and says so. */
static void test_nothing_at_all(void **state)
{
        struct world *w = *state;
        infp_autostr struct infp_str text = { 0 };

        infp_snapshot_put(&text, &w->last, 5, 0, false);
        assert_string_equal(text.data, "{\"timestamp\":5,\"cpu\":{\"vCpuTime\":" NOTHING ",\"vLoadAvg\":" NOTHING
                                       ",\"vKind\":null,\"cpu_core\":[]},\"nvidia\":[],"
                                       "\"processes\":{\"pNumProcesses\":" NOTHING ",\"processes\":[]}}\n");
}

static void test_indented_with_sources(void **state)
{
        struct world *w = *state;
        struct infp_builder *b = w->rows[SOURCES];
        infp_autostr struct infp_str text = { 0 };
        static const char *const states[] = { "ok", "denied" };

        for (size_t i = 0; i < 2; i++) {
                row(b, 0);
                infp_builder_set(b, 2 + INFP_SOURCES_COLLECTOR, (union infp_cell){ 0 }, "energy", 6);
                infp_builder_set(b, 2 + INFP_SOURCES_STATE, (union infp_cell){ 0 }, states[i], strlen(states[i]));
                infp_builder_row_end(b);
        }
        infp_snapshot_put(&text, &w->last, 5, 2, true);
        assert_ptr_equal(strstr(text.data, "{\n  \"timestamp\": 5,\n  \"cpu\": {\n"), text.data);
        assert_non_null(strstr(text.data, "\"state\": \"denied\""));
        assert_null(strstr(text.data, "\"state\": \"ok\""));
}

static unsigned count_files(int fd)
{
        DIR *dir = fdopendir(dup(fd));
        unsigned n = 0;

        rewinddir(dir);
        while (readdir(dir))
                n++;
        closedir(dir);
        return n - 2;
}

static void keep_notice(void *context, const char *text)
{
        unsigned *n = context;

        assert_non_null(strstr(text, "--snapshot-limit"));
        (*n)++;
}

/* One file a tick, until the limit; then one notice and no more. */
static void test_files(void **state)
{
        struct world *w = *state;
        char path[] = "/tmp/infprof-test-XXXXXX", buffer[4096], shell[64];
        infp_autostr struct infp_str text = { 0 };
        unsigned n_notices = 0;
        struct infp_sink *sink;
        struct infp_err err = { "" };
        int fd;

        assert_non_null(mkdtemp(path));
        fd = open(path, O_RDONLY | O_DIRECTORY);
        fill(w);
        infp_snapshot_put(&text, &w->last, 1703462400000, 0, false);
        const struct infp_snapshot_options options = {
                .last = w->last,
                .output_fd = fd,
                .mode = 0600,
                .uuid = "0190-aa",
                .limit_bytes = 3 * text.size,
                .notice = keep_notice,
                .context = &n_notices,
        };

        assert_int_equal(infp_snapshot_sink_new(&options, &sink, NULL), 0);
        assert_true(sink->each_tick);
        for (int64_t i = 0; i < 6; i++) {
                const unsigned long before = n_mallocs;

                assert_int_equal(sink->tick_end(sink, 1, 1703462400000 + i, &err), 0);
                assert_true(i == 0 || n_mallocs == before);
        }
        assert_int_equal(count_files(fd), 3);
        assert_int_equal(n_notices, 1);
        assert_int_equal(infp_snapshot_bytes(sink), 3 * text.size);
        assert_int_equal(infp_read_at(fd, "0190-aa-1703462400000.json", buffer, sizeof(buffer)), (ssize_t) text.size);
        assert_string_equal(buffer, text.data);
        infp_snapshot_sink_free(sink);

        /* A file that is there already is not written over. */
        assert_int_equal(infp_snapshot_sink_new(&options, &sink, NULL), 0);
        assert_int_equal(sink->tick_end(sink, 1, 1703462400000, &err), -EEXIST);
        assert_non_null(strstr(err.text, "0190-aa-1703462400000.json"));
        infp_snapshot_sink_free(sink);
        close(fd);
        snprintf(shell, sizeof(shell), "rm -r %s", path);
        assert_int_equal(system(shell), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_nesting, setup, teardown),
                cmocka_unit_test_setup_teardown(test_nothing_at_all, setup, teardown),
                cmocka_unit_test_setup_teardown(test_indented_with_sources, setup, teardown),
                cmocka_unit_test_setup_teardown(test_files, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
