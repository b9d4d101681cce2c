/* A run in a directory of its own, for the tests of the store. */
#pragma once

#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store.h"
#include "store_sample.h"

struct test_run {
        char dir[64];
        struct infp_run *run;
        struct infp_sink *sink;
        struct infp_err err;
};

static inline int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
        (void) status, (void) kind, (void) walk;
        return remove(path);
}

static inline void remove_tree(const char *path)
{
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A command line that a killed recorder would leave: this process is not its recorder. */
static inline struct infp_run_info test_info(void)
{
        static char command[] = "python serve.py --api-key ***", mode[] = "run", format[] = "parquet",
                    version[] = "0.1.0", hostname[] = "box", cpu[] = "cpu", tables[] = "cpu cpu_core";
        static struct infp_run_collector collectors[1] = { { cpu, 1000, tables } };
        struct infp_run_info info = { .command = command,
                                      .mode = mode,
                                      .format = format,
                                      .version = version,
                                      .hostname = hostname,
                                      .boot_id = "00000000-0000-0000-0000-000000000000",
                                      .recorder_pid = 4242,
                                      .recorder_start_ticks = 77,
                                      .period_ms = 1000,
                                      .started_unix_ns = SAMPLE_TIME,
                                      .started_t_ns = 1000000000,
                                      .exit_code = -1,
                                      .collectors = collectors,
                                      .n_collectors = 1 };

        infp_uuid_make(info.uuid);
        return info;
}

static inline struct test_run test_run_open(const struct infp_store_options *options)
{
        struct test_run t = { .dir = "/tmp/infprof-test-XXXXXX" };
        struct infp_run_info info = test_info();

        assert_non_null(mkdtemp(t.dir));
        assert_int_equal(infp_run_create(t.dir, &info, &t.run, &t.err), 0);
        assert_int_equal(infp_store_sink_new(t.run, options, &t.sink, &t.err), 0);
        return t;
}

static inline void test_run_close(struct test_run *t)
{
        infp_store_sink_free(t->sink);
        infp_run_close(t->run);
        remove_tree(t->dir);
}

static inline int test_write(struct test_run *t, uint32_t from, uint32_t n)
{
        struct infp_builder *b = sample_builder(from, n);
        struct infp_batch batch = infp_builder_batch(b, 0);
        int r = t->sink->batch(t->sink, &batch, &t->err);

        infp_builder_free(b);
        return r;
}

/* Row `row` of the batch is row i of the sample, cell by cell. */
static inline void check_sample(const struct infp_batch *batch, uint32_t row, uint32_t i)
{
        struct infp_builder *b = sample_builder(i, 1);
        struct infp_batch want = infp_builder_batch(b, 0);

        assert_int_equal(infp_table_width(batch->table), infp_table_width(&sample_table));
        for (unsigned c = 0; c < infp_table_width(batch->table); c++) {
                enum infp_type type = infp_table_column(&sample_table, c)->type;
                const char *text, *other;
                size_t size, other_size;

                assert_int_equal(infp_table_column(batch->table, c)->type, type);
                assert_int_equal(infp_batch_has(batch, c, row), infp_batch_has(&want, c, 0));
                if (!infp_batch_has(batch, c, row))
                        continue;
                if (type == INFP_STR) {
                        text = infp_batch_str(batch, c, row, &size);
                        other = infp_batch_str(&want, c, 0, &other_size);
                        assert_int_equal(size, other_size);
                        assert_memory_equal(text, other, size);
                } else if (type == INFP_BOOL) {
                        assert_int_equal(infp_batch_bool(batch, c, row), infp_batch_bool(&want, c, 0));
                } else {
                        assert_memory_equal((const uint64_t *) batch->columns[c].values + batch->first + row,
                                            want.columns[c].values, 8);
                }
        }
        infp_builder_free(b);
}

/* Reads a segment that must hold rows from .. from + n - 1; returns whether it is torn. */
static inline bool check_segment(int dir_fd, const char *path, uint32_t from, uint32_t n)
{
        struct infp_err err = { "" };
        struct infp_segment *segment;
        struct infp_batch batch;
        uint32_t seen = 0;
        bool torn = false;
        int r;

        assert_int_equal(infp_segment_open(dir_fd, path, &segment, &err), 0);
        while ((r = infp_segment_next(segment, &batch, &torn, &err)) == 1)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        check_sample(&batch, row, from + seen++);
        assert_int_equal(r, 0);
        assert_int_equal(seen, n);
        infp_segment_close(segment);
        return torn;
}
