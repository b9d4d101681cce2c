/* Any content taken for one foreign format: it becomes rows whose sums are numbers, or is refused with a sentence. Rows go into
 * memory; every second flush begins a new segment. Defines the target; FORMAT names the format. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t n_rows; /* of stack_samples */

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static int table_begin(struct infp_sink *sink, const struct infp_table *table, struct infp_err *err)
{
        (void) sink;
        (void) err;
        expect(table != NULL);
        return 0;
}

/* Every text is read to its last byte. */
static int take_batch(struct infp_sink *sink, const struct infp_batch *batch, struct infp_err *err)
{
        (void) err;
        expect(batch->n_rows > 0 && batch->n_rows <= INFP_BATCH_ROWS);
        for (unsigned column = 0; column < infp_table_width(batch->table); column++) {
                if (infp_table_column(batch->table, column)->type != INFP_STR)
                        continue;
                for (uint32_t row = 0; row < batch->n_rows; row++) {
                        size_t size = 0;
                        const char *text = infp_batch_str(batch, column, row, &size);

                        expect(!memchr(text, 0, size));
                }
        }
        if (!strcmp(batch->table->name, "stack_samples")) {
                n_rows += batch->n_rows;
                sink->wants_rotation = n_rows & 1;
        }
        return 0;
}

static int rotate(struct infp_sink *sink, uint32_t segment, struct infp_err *err)
{
        (void) err;
        expect(!sink->wants_rotation && segment > 1);
        return 0;
}

static int end(struct infp_sink *sink, struct infp_err *err)
{
        (void) sink;
        (void) err;
        return 0;
}

/* The file: one for all inputs, since making one takes longer than reading it. */
static int file_of(const uint8_t *data, size_t size)
{
        static int fd = -1;

        if (fd < 0)
                fd = memfd_create("fuzz", MFD_CLOEXEC);
        expect(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t) size && ftruncate(fd, (off_t) size) == 0 &&
               !lseek(fd, 0, SEEK_SET));
        return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static char none[] = "";
        struct infp_run run = { .output = none,
                                .info = { .uuid = "01900000-0000-7000-8000-000000000000", .started_unix_ns = 1 } };
        struct infp_sink sink = { .table_begin = table_begin, .batch = take_batch, .rotate = rotate, .end = end };
        struct infp_import_options options = {
                .path = "FILE", .format = FORMAT, .stop_fd = -1, .fd = file_of(data, size), .sink = &sink
        };
        struct infp_imported found;
        struct infp_err err = { "" };

        n_rows = 0;
        if (infp_import(&run, &options, &found, &err) < 0) {
                expect(err.text[0] != 0);
                return 0;
        }
        expect(found.rows == n_rows && found.rows > 0 && found.samples <= INT64_MAX && found.n_modes > 0);
        expect(found.first_t_ns <= found.last_t_ns && run.info.started_t_ns < run.info.ended_t_ns);
        for (unsigned i = 0; i < found.n_modes; i++)
                expect(found.modes[i].weight >= 0 && isfinite(found.modes[i].weight) && found.modes[i].mode[0]);
        return 0;
}
