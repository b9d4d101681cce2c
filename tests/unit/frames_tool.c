/* For tests of names of code (tests/e2e/test_symbolize.py): frames_tool DIR makes a run that has ended, with the frames of standard
 * input, a line each: "kind|object|build id|address in hexadecimal|name that the recorder gave". Prints id and line of each. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/time.h"
#include "model/builder.h"
#include "model/stack_tables.h"
#include "store/store.h"

static char scratch[INFP_ROW_TEXT];
static struct infp_row row = { .text = scratch, .text_cap = sizeof(scratch) };

static void die(const char *why)
{
        fprintf(stderr, "%s\n", why);
        exit(1);
}

static void append(struct infp_sink *sink, struct infp_builder *b)
{
        struct infp_err err = { "" };

        while (infp_builder_append(b, &row, 1) == -ENOSPC) {
                const struct infp_batch batch = infp_builder_batch(b, 0);

                if (batch.n_rows && sink->batch(sink, &batch, &err) < 0)
                        die(err.text);
                infp_builder_reset(b);
                if (!batch.n_rows && infp_builder_grow(b, row.text_size) < 0)
                        die("too large");
        }
}

static void flush(struct infp_sink *sink, struct infp_builder *b)
{
        const struct infp_batch batch = infp_builder_batch(b, 0);
        struct infp_err err = { "" };

        if (batch.n_rows && sink->batch(sink, &batch, &err) < 0)
                die(err.text);
        infp_builder_free(b);
}

/* The next part of the line, up to a bar. */
static char *part(char **line)
{
        return strsep(line, "|\n");
}

static void take(struct infp_sink *sink, struct infp_builder *frames, struct infp_builder *symbols, char *line)
{
        char *kind = part(&line), *object = part(&line), *build_id = part(&line), *address = part(&line),
             *name = part(&line);
        const int number = infp_frame_kind_by_name(kind, strlen(kind));
        uint64_t id, at;

        if (!name || number < 0)
                die("a line has five parts");
        at = strtoull(address, NULL, 16);
        id = infp_frame_id((enum infp_frame_kind) number, object, strlen(object), at, false);
        infp_row_begin(&row, &infp_table_frames, 1);
        infp_row_id(&row, INFP_FRAMES_ID, id);
        infp_row_str(&row, INFP_FRAMES_KIND, kind);
        infp_row_str(&row, INFP_FRAMES_OBJECT, object);
        if (*build_id)
                infp_row_str(&row, INFP_FRAMES_BUILD_ID, build_id);
        infp_row_u64(&row, INFP_FRAMES_ADDRESS, at);
        append(sink, frames);
        if (*name) {
                infp_row_begin(&row, &infp_table_symbols, 1);
                infp_row_id(&row, INFP_SYMBOLS_FRAME, id);
                infp_row_i64(&row, INFP_SYMBOLS_LEVEL, 0);
                infp_row_str(&row, INFP_SYMBOLS_NAME, name);
                infp_row_str(&row, INFP_SYMBOLS_FROM, "dynsym");
                append(sink, symbols);
        }
        printf("%" PRIu64 " %s %s\n", id, object, address);
}

int main(int argc, char **argv)
{
        static char mode[] = "run", format[] = "csv", version[] = "0", empty[] = "";
        struct infp_run_info info = { .command = empty,
                                      .mode = mode,
                                      .format = format,
                                      .version = version,
                                      .hostname = empty,
                                      .exit_code = -1,
                                      .period_ms = 1000 };
        struct infp_builder *frames = infp_builder_new(&infp_table_frames, 1024),
                            *symbols = infp_builder_new(&infp_table_symbols, 1024);
        struct infp_err err = { "" };
        struct infp_sink *sink;
        struct infp_run *run;
        char line[4096];

        if (argc != 2)
                return 2;
        infp_uuid_make(info.uuid);
        infp_read_at(open("/", O_PATH | O_CLOEXEC), "/proc/sys/kernel/random/boot_id", info.boot_id, 37);
        info.started_t_ns = 1;
        info.started_unix_ns = (int64_t) infp_clock_ns(CLOCK_REALTIME);
        if (infp_run_create(argv[1], &info, &run, &err) < 0 || infp_store_sink_new(run, NULL, &sink, &err) < 0)
                die(err.text);
        while (fgets(line, sizeof(line), stdin))
                take(sink, frames, symbols, line);
        flush(sink, frames);
        flush(sink, symbols);
        run->info.ended_t_ns = 2;
        run->info.ended_unix_ns = run->info.started_unix_ns + 1;
        run->state = INFP_RUN_ENDED;
        if (sink->end(sink, &err) < 0 || infp_run_save(run, &err) < 0)
                die(err.text);
        infp_store_sink_free(sink);
        infp_run_close(run);
        return 0;
}
