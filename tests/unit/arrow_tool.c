/* The store by hand, for the tests that compare it with other programs (tests/e2e/test_arrow.py):
 *   arrow_tool write DIR ROWS   a run in DIR with one table of every type, in batches of 1,000 rows; prints its segment
 *   arrow_tool cat FILE         what our reader sees of an Arrow file: one JSON list a row, the column names first */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json/json.h"
#include "store/store.h"
#include "store_sample.h"

static int fail(const struct infp_err *err)
{
        fprintf(stderr, "%s\n", err->text);
        return 1;
}

static int write_rows(const char *dir, uint32_t n)
{
        struct infp_run_info info = { .exit_code = -1, .recorder_pid = getpid() };
        struct infp_err err = { "" };
        struct infp_sink *sink;
        struct infp_run *run;

        infp_uuid_make(info.uuid);
        if (infp_run_create(dir, &info, &run, &err) < 0 || infp_store_sink_new(run, NULL, &sink, &err) < 0)
                return fail(&err);
        for (uint32_t from = 0; from < n; from += 1000) {
                struct infp_builder *b = sample_builder(from, n - from < 1000 ? n - from : 1000);
                struct infp_batch batch = infp_builder_batch(b, 0);

                if (sink->batch(sink, &batch, &err) < 0)
                        return fail(&err);
                infp_builder_free(b);
        }
        if (sink->end(sink, &err) < 0)
                return fail(&err);
        printf("%s/%s.infprof/sample/000001.arrows\n", dir, run->info.uuid);
        infp_store_sink_free(sink);
        infp_run_close(run);
        return 0;
}

static void put_cell(struct infp_json *json, const struct infp_batch *batch, unsigned column, uint32_t row)
{
        const char *text;
        size_t size;

        if (!infp_batch_has(batch, column, row)) {
                infp_json_null(json);
                return;
        }
        switch (infp_table_column(batch->table, column)->type) {
        case INFP_I64:
        case INFP_TS_NS:
                infp_json_i64(json, infp_batch_i64(batch, column, row));
                break;
        case INFP_U64:
        case INFP_ID64:
                infp_json_u64(json, infp_batch_u64(batch, column, row));
                break;
        case INFP_F64:
                infp_json_f64(json, infp_batch_f64(batch, column, row));
                break;
        case INFP_BOOL:
                infp_json_bool(json, infp_batch_bool(batch, column, row));
                break;
        case INFP_STR:
                text = infp_batch_str(batch, column, row, &size);
                infp_json_strn(json, text, size);
                break;
        }
}

static void print_line(struct infp_str *line)
{
        puts(line->data);
        infp_str_clear(line);
}

static int cat(const char *path)
{
        struct infp_err err = { "" };
        struct infp_segment *segment;
        struct infp_str line = { 0 };
        struct infp_batch batch;
        struct infp_json json;
        bool torn = false;
        int r;

        if (infp_segment_open(AT_FDCWD, path, &segment, &err) < 0)
                return fail(&err);
        infp_json_begin(&json, &line, 0);
        infp_json_array(&json);
        for (unsigned i = 0; i < infp_table_width(infp_segment_table(segment)); i++) {
                const struct infp_column *column = infp_table_column(infp_segment_table(segment), i);

                infp_json_strn(&json, column->name, strlen(column->name));
                infp_json_str(&json, infp_type_name(column->type));
        }
        infp_json_array_end(&json);
        print_line(&line);
        while ((r = infp_segment_next(segment, &batch, &torn, &err)) == 1) {
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        infp_json_begin(&json, &line, 0);
                        infp_json_array(&json);
                        for (unsigned i = 0; i < infp_table_width(batch.table); i++)
                                put_cell(&json, &batch, i, row);
                        infp_json_array_end(&json);
                        print_line(&line);
                }
        }
        infp_str_done(&line);
        infp_segment_close(segment);
        if (r < 0)
                return fail(&err);
        if (torn)
                puts("\"torn\"");
        return 0;
}

int main(int argc, char **argv)
{
        if (argc == 4 && strcmp(argv[1], "write") == 0)
                return write_rows(argv[2], (uint32_t) strtoul(argv[3], NULL, 10));
        if (argc == 3 && strcmp(argv[1], "cat") == 0)
                return cat(argv[2]);
        fprintf(stderr, "usage: arrow_tool write DIR ROWS | cat FILE\n");
        return 2;
}
