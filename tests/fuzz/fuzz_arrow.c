/* Any bytes as an Arrow file: what the reader hands out can be read to the last byte and written again, and mending leaves a
 * whole file with the same rows. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "store/arrow.h"
#include "store/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sum; /* so that no read is left out */

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void read_cell(const struct infp_batch *batch, unsigned column, uint32_t row)
{
        const char *text;
        size_t size;

        if (!infp_batch_has(batch, column, row))
                return;
        switch (infp_table_column(batch->table, column)->type) {
        case INFP_I64:
        case INFP_TS_NS:
                sum += (uint64_t) infp_batch_i64(batch, column, row);
                break;
        case INFP_U64:
        case INFP_ID64:
                sum += infp_batch_u64(batch, column, row);
                break;
        case INFP_F64:
                sum += infp_batch_f64(batch, column, row) > 0;
                break;
        case INFP_BOOL:
                sum += infp_batch_bool(batch, column, row);
                break;
        case INFP_STR:
                text = infp_batch_str(batch, column, row, &size);
                for (size_t i = 0; i < size; i++)
                        sum += (unsigned char) text[i];
                break;
        }
}

static void read_batch(const struct infp_batch *batch)
{
        expect(batch->n_rows > 0 && batch->n_rows <= INFP_BATCH_ROWS);
        for (unsigned column = 0; column < infp_table_width(batch->table); column++)
                for (uint32_t row = 0; row < batch->n_rows; row++)
                        read_cell(batch, column, row);
}

/* The whole and a slice that begins in the middle of a byte. */
static void write_again(struct infp_arrow_writer *writer, struct infp_batch batch, struct infp_str *out)
{
        struct infp_err err = { "" };

        infp_str_clear(out);
        expect(infp_arrow_put_batch(writer, &batch, out, &err) == 0);
        batch.first += batch.n_rows / 3;
        batch.n_rows -= batch.n_rows / 3;
        expect(infp_arrow_put_batch(writer, &batch, out, &err) == 0);
}

/* Number of rows; *ret_whole: it has its end marker and nothing in it is broken. */
static uint64_t read_all(struct infp_segment *segment, bool *ret_whole)
{
        const struct infp_table *table = infp_segment_table(segment);
        struct infp_arrow_writer *writer = NULL;
        struct infp_str out = { 0 };
        struct infp_err err = { "" };
        struct infp_batch batch;
        uint64_t n = 0;
        bool torn = false;
        int r;

        expect(infp_arrow_writer_new(table, NULL, &writer, &err) == 0);
        expect(infp_arrow_put_schema(writer, &out, &err) == 0);
        while ((r = infp_segment_next(segment, &batch, &torn, &err)) == 1) {
                read_batch(&batch);
                if (n == 0)
                        write_again(writer, batch, &out);
                n += batch.n_rows;
                if (n > 1 << 20)
                        break; /* columns of nothing but gaps have no end */
        }
        expect(r >= 0 || err.text[0]);
        *ret_whole = r == 0 && !torn;
        infp_arrow_writer_free(writer);
        infp_str_done(&out);
        infp_segment_close(segment);
        return n;
}

static int file_of(const uint8_t *data, size_t size)
{
        int fd = memfd_create("arrow", MFD_CLOEXEC);

        expect(fd >= 0 && infp_write_all(fd, data, size, NULL) == 0);
        return fd;
}

static void mend(const uint8_t *data, size_t size)
{
        static char path[64];
        struct infp_segment *segment;
        struct infp_err err = { "" };
        bool whole;
        int fd;

        if (!path[0])
                snprintf(path, sizeof(path), "/dev/shm/infprof-fuzz-%d.arrows", (int) getpid());
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0)
                return;
        expect(infp_write_all(fd, data, size, NULL) == 0);
        close(fd);
        if (infp_segment_mend(AT_FDCWD, path, NULL, &err) >= 0) {
                expect(infp_segment_open(AT_FDCWD, path, &segment, &err) == 0);
                read_all(segment, &whole);
                expect(whole);
        }
        unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct infp_segment *segment;
        struct infp_err err = { "" };
        bool whole;
        uint64_t n;

        if (infp_segment_open_fd(file_of(data, size), "input", &segment, &err) < 0) {
                expect(err.text[0]);
                return 0;
        }
        n = read_all(segment, &whole);
        if (n <= 1 << 16)
                mend(data, size);
        return 0;
}
