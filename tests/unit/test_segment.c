#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/fd.h"
#include "store/arrow.h"
#include "store_run.h"

/* A stream of the sample: n batches of `rows` rows, with its end. *ret_ends: where the schema and each batch end. */
static struct infp_str make_stream(unsigned n, uint32_t rows, size_t *ret_ends)
{
        struct infp_arrow_writer *writer;
        struct infp_err err = { "" };
        struct infp_str out = { 0 };

        assert_int_equal(infp_arrow_writer_new(&sample_table, NULL, &writer, &err), 0);
        assert_int_equal(infp_arrow_put_schema(writer, &out, &err), 0);
        ret_ends[0] = out.size;
        for (unsigned i = 0; i < n; i++) {
                struct infp_builder *b = sample_builder(i * rows, rows);
                struct infp_batch batch = infp_builder_batch(b, 0);

                assert_int_equal(infp_arrow_put_batch(writer, &batch, &out, &err), 0);
                ret_ends[i + 1] = out.size;
                infp_builder_free(b);
        }
        infp_arrow_put_end(&out);
        infp_arrow_writer_free(writer);
        return out;
}

static int file_of(const void *data, size_t size)
{
        int fd = memfd_create("segment", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(infp_write_all(fd, data, size, NULL), 0);
        return fd;
}

static void put_file(int dir_fd, const char *name, const void *data, size_t size)
{
        int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(infp_write_all(fd, data, size, NULL), 0);
        infp_close(fd);
}

/* What the reader makes of it: rows, or the error. */
static int read_bytes(const void *data, size_t size, uint32_t *ret_rows, bool *ret_torn, struct infp_err *err)
{
        struct infp_segment *segment;
        struct infp_batch batch;
        int r = infp_segment_open_fd(file_of(data, size), "test", &segment, err);

        *ret_rows = 0;
        if (r < 0)
                return r;
        while ((r = infp_segment_next(segment, &batch, ret_torn, err)) == 1) {
                assert_true(batch.n_rows > 0 && batch.n_rows <= INFP_BATCH_ROWS);
                *ret_rows += batch.n_rows;
        }
        infp_segment_close(segment);
        return r;
}

/* Cut at every byte: all batches that are whole are read, and nothing else. */
static void reads_what_is_whole(void **state)
{
        size_t ends[4];
        struct infp_str s = make_stream(3, 9, ends);
        struct infp_err err = { "" };

        (void) state;
        for (size_t cut = 0; cut <= s.size; cut++) {
                uint32_t rows, want = cut < ends[1] ? 0 : cut < ends[2] ? 9 : cut < ends[3] ? 18 : 27;
                bool torn = false;
                int r = read_bytes(s.data, cut, &rows, &torn, &err);

                assert_int_equal(r, cut < ends[0] ? -ENODATA : 0);
                assert_int_equal(rows, want);
                if (r == 0)
                        assert_int_equal(torn, cut < s.size);
        }
        infp_str_done(&s);
}

/* Read up to any byte while its recorder writes, then on: each row comes once, in order. */
static void reads_on_as_it_grows(void **state)
{
        size_t ends[4];
        struct infp_str s = make_stream(3, 9, ends);
        struct infp_err err = { "" };

        (void) state;
        for (size_t cut = ends[0]; cut <= s.size; cut++) {
                const int fd = file_of(s.data, cut), own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
                struct infp_segment *segment;
                struct infp_batch batch;
                uint32_t rows = 0;

                assert_int_equal(infp_segment_open_fd(fd, "test", &segment, &err), 0);
                for (unsigned part = 0; part < 2; part++) {
                        for (; infp_segment_next(segment, &batch, NULL, &err) == 1; rows += batch.n_rows)
                                check_sample(&batch, 0, rows);
                        if (part)
                                break;
                        assert_int_equal(infp_segment_grow(segment, &err), 0);
                        assert_int_equal(infp_pwrite_all(own, s.data + cut, s.size - cut, (off_t) cut), 0);
                        assert_int_equal(infp_segment_grow(segment, &err), cut < s.size);
                }
                assert_int_equal(rows, 27);
                assert_int_equal(infp_segment_damage(segment)->n, 0);
                assert_int_equal(infp_segment_grow(segment, &err), 0); /* closed */
                infp_segment_close(segment);
                infp_close(own);
        }
        infp_str_done(&s);
}

static void takes_zeros_for_a_torn_tail(void **state)
{
        size_t ends[3];
        struct infp_str s = make_stream(2, 9, ends);
        struct infp_err err = { "" };
        uint32_t rows;
        bool torn = false;

        (void) state;
        memset(s.data + ends[1], 0, s.size - ends[1]);
        assert_int_equal(read_bytes(s.data, s.size, &rows, &torn, &err), 0);
        assert_int_equal(rows, 9);
        assert_true(torn);
        infp_str_done(&s);
}

/* A bit of every byte of a small file turned: rows or a sentence, never a crash (run with the address sanitizer). */
static void survives_turned_bits(void **state)
{
        size_t ends[2];
        struct infp_str s = make_stream(1, 9, ends);
        unsigned refused = 0, read = 0;

        (void) state;
        for (size_t byte = 0; byte < s.size; byte++) {
                char bit = (char) (1 << (byte * 5 % 8));
                struct infp_err err = { "" };
                uint32_t rows;
                bool torn;

                s.data[byte] = (char) (s.data[byte] ^ bit);
                if (read_bytes(s.data, s.size, &rows, &torn, &err) < 0) {
                        assert_true(err.text[0]);
                        refused++;
                } else {
                        read++;
                }
                s.data[byte] = (char) (s.data[byte] ^ bit);
        }
        assert_true(refused > 100 && read > 100);
        infp_str_done(&s);
}

/* All rows are those of the sample, in order; batch 1 of three may be missing. Returns how many there are. */
static uint32_t read_sound_rows(const void *data, size_t size, struct infp_segment_damage *ret)
{
        struct infp_segment *segment;
        struct infp_batch batch;
        struct infp_err err = { "" };
        uint32_t n = 0;
        int r;

        assert_int_equal(infp_segment_open_fd(file_of(data, size), "test", &segment, &err), 0);
        while ((r = infp_segment_next(segment, &batch, NULL, &err)) == 1)
                for (uint32_t row = 0; row < batch.n_rows; row++, n++) {
                        const uint32_t i = (uint32_t) (infp_batch_i64(&batch, 0, row) - 1000000000);

                        assert_true(i == n || i == n + 9);
                        assert_int_equal(infp_batch_u64(&batch, 2, row), UINT64_C(0xfedcba9876543210) + i);
                }
        assert_int_equal(r, 0);
        *ret = *infp_segment_damage(segment);
        infp_segment_close(segment);
        return n;
}

/* Damage in the middle costs the batch that it is in, and is counted; no row that was not written comes of it. */
static void leaves_damage_out(void **state)
{
        size_t ends[4];
        struct infp_str s = make_stream(3, 9, ends);
        struct infp_segment_damage damage;
        unsigned unseen = 0;

        (void) state;
        for (size_t byte = ends[1]; byte < ends[2]; byte++) {
                uint32_t n;

                s.data[byte] = (char) (s.data[byte] ^ (1 << (byte * 5 % 8)));
                n = read_sound_rows(s.data, s.size, &damage);
                assert_int_equal(n, damage.n ? 18 : 27);
                assert_int_equal(damage.bytes, damage.n ? ends[2] - ends[1] : 0);
                unseen += !damage.n;
                s.data[byte] = (char) (s.data[byte] ^ (1 << (byte * 5 % 8)));
        }
        assert_int_equal(unseen, 0);
        /* Whole bytes of noise, over the end of one batch and the beginning of the next. */
        memset(s.data + ends[1] - 40, 0x5a, 80);
        assert_int_equal(read_sound_rows(s.data, ends[1], &damage), 0);
        infp_str_done(&s);
}

/* Noise behind the last batch, and in it: the rows before are there, and mending cuts the noise off. */
static void reads_up_to_noise(void **state)
{
        static const char noise[] = "noise that is no message; noise that is no message.....";
        size_t ends[4];
        struct infp_str s = make_stream(3, 9, ends), cut = { 0 };
        int dir_fd = open("/dev/shm", O_PATH | O_DIRECTORY);
        struct infp_segment_damage damage;
        struct infp_err err = { "" };
        char name[64];
        uint64_t lost;

        (void) state;
        snprintf(name, sizeof(name), "infprof-test-noise-%d.arrows", (int) getpid());
        infp_str_put(&cut, s.data, ends[3]);
        infp_str_put(&cut, noise, sizeof(noise));
        assert_int_equal(read_sound_rows(cut.data, cut.size, &damage), 27);
        assert_int_equal(damage.n, 1);
        assert_int_equal(damage.bytes, sizeof(noise));
        memset(cut.data + ends[3] - 64, 0x5a, 64);
        assert_int_equal(read_sound_rows(cut.data, cut.size, &damage), 18);
        put_file(dir_fd, name, cut.data, cut.size);
        assert_int_equal(infp_segment_mend(dir_fd, name, &lost, &err), 2);
        assert_int_equal(lost, cut.size - ends[2]);
        assert_false(check_segment(dir_fd, name, 0, 18));
        unlinkat(dir_fd, name, 0);
        close(dir_fd);
        infp_str_done(&s);
        infp_str_done(&cut);
}

static struct infp_segment *open_fixture(const char *name, struct infp_err *err)
{
        struct infp_segment *segment = NULL;
        char path[4096];

        snprintf(path, sizeof(path), "%s/arrow/%s", getenv("INFP_FIXTURES"), name);
        assert_int_equal(infp_segment_open(AT_FDCWD, path, &segment, err), 0);
        return segment;
}

static void check_text(const struct infp_batch *batch, const char *column, uint32_t row, const char *want)
{
        int index = infp_table_find(batch->table, column);
        const char *text;
        size_t size;

        assert_true(index >= 0);
        assert_int_equal(infp_batch_has(batch, (unsigned) index, row), want != NULL);
        if (!want)
                return;
        text = infp_batch_str(batch, (unsigned) index, row, &size);
        assert_int_equal(size, strlen(want));
        assert_memory_equal(text, want, size);
}

/* The values are those of tests/fixtures/arrow/README.md. ABSENT: no value. */
#define ABSENT -1e300
static void reads_other_peoples_types(void **state)
{
        static const struct {
                const char *name;
                enum infp_type type;
                double want[3];
        } numbers[] = {
                { "t_ns", INFP_I64, { 1, 2, 3 } },
                { "time", INFP_TS_NS, { 1764302400e9, ABSENT, 1764302402e9 } },
                { "i8", INFP_I64, { -1, ABSENT, 127 } },
                { "u16", INFP_U64, { 65535, 0, ABSENT } },
                { "i32", INFP_I64, { 1, 2, 3 } },
                { "f32", INFP_F64, { 0.5, ABSENT, -2 } },
                { "ms", INFP_TS_NS, { 1e6, ABSENT, ABSENT } }, /* 2^62 ms do not fit */
                { "dint", INFP_I64, { ABSENT, 10, ABSENT } },
                { "b", INFP_BOOL, { 1, ABSENT, 0 } },
        };
        struct infp_err err = { "" };
        struct infp_segment *segment = open_fixture("foreign.arrows", &err);
        struct infp_batch batch;

        (void) state;
        assert_string_equal(infp_segment_table(segment)->name, "foreign");
        assert_false(infp_segment_table(segment)->plain);
        assert_int_equal(infp_segment_next(segment, &batch, NULL, &err), 1);
        assert_int_equal(batch.n_rows, 3);
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                int column = infp_table_find(batch.table, numbers[i].name);

                assert_true(column >= 0);
                assert_int_equal(infp_table_column(batch.table, (unsigned) column)->type, numbers[i].type);
                for (uint32_t row = 0; row < 3; row++) {
                        bool has = infp_batch_has(&batch, (unsigned) column, row);

                        assert_int_equal(has, numbers[i].want[row] != ABSENT);
                        if (has)
                                assert_true(infp_batch_number(&batch, (unsigned) column, row) == numbers[i].want[row]);
                }
        }
        check_text(&batch, "ls", 0, "a"), check_text(&batch, "ls", 1, ""), check_text(&batch, "ls", 2, NULL);
        check_text(&batch, "dict", 0, "x"), check_text(&batch, "dict", 1, "y"), check_text(&batch, "dict", 2, NULL);
        check_text(&batch, "nn", 0, NULL);
        assert_int_equal(infp_segment_next(segment, &batch, NULL, &err), 0);
        infp_segment_close(segment);
}

/* 20,000 rows in one message, as other writers make them: handed out in slices. */
static void splits_large_messages(void **state)
{
        enum { N = 20000 };
        struct infp_str out = { 0 };
        struct infp_arrow_writer *writer;
        struct infp_err err = { "" };
        static int64_t numbers[N];
        static int32_t offsets[N + 1];
        static uint8_t bits[N / 8];
        static char text[N];
        static const struct infp_column columns[] = {
                { .name = "n", .type = INFP_I64, .kind = INFP_GAUGE, .unit = &infp_unit_none },
                { .name = "s", .type = INFP_STR, .kind = INFP_LABEL, .unit = &infp_unit_none },
                { .name = "b", .type = INFP_BOOL, .kind = INFP_LABEL, .unit = &infp_unit_none },
        };
        const struct infp_table table = { .name = "t", .columns = columns, .n_columns = 3, .plain = true };
        const struct infp_vector vectors[] = { { .valid = bits, .values = numbers },
                                               { .values = text, .offsets = offsets },
                                               { .values = bits } };
        struct infp_batch batch = { .table = &table, .columns = vectors, .n_rows = N };
        struct infp_segment *segment;
        uint32_t seen = 0;
        int r;

        (void) state;
        for (uint32_t i = 0; i < N; i++) {
                numbers[i] = i;
                offsets[i + 1] = (int32_t) i + 1;
                text[i] = (char) ('a' + i % 26);
                if (i % 3 == 0)
                        bits[i / 8] = (uint8_t) (bits[i / 8] | 1 << (i % 8));
        }
        assert_int_equal(infp_arrow_writer_new(&table, NULL, &writer, &err), 0);
        assert_int_equal(infp_arrow_put_schema(writer, &out, &err), 0);
        assert_int_equal(infp_arrow_put_batch(writer, &batch, &out, &err), 0);
        assert_int_equal(infp_segment_open_fd(file_of(out.data, out.size), "test", &segment, &err), 0);
        assert_true(infp_segment_table(segment)->plain);
        while ((r = infp_segment_next(segment, &batch, NULL, &err)) == 1) {
                for (uint32_t row = 0; row < batch.n_rows; row++, seen++) {
                        size_t size;

                        assert_int_equal(infp_batch_has(&batch, 0, row), seen % 3 == 0);
                        assert_int_equal(infp_batch_i64(&batch, 0, row), seen % 3 == 0 ? seen : 0);
                        assert_int_equal(infp_batch_str(&batch, 1, row, &size)[0], 'a' + seen % 26);
                        assert_int_equal(size, 1);
                        assert_int_equal(infp_batch_bool(&batch, 2, row), seen % 3 == 0);
                }
        }
        assert_int_equal(r, 0);
        assert_int_equal(seen, N);
        infp_segment_close(segment);
        infp_arrow_writer_free(writer);
        infp_str_done(&out);
}

static void says_what_it_cannot_read(void **state)
{
        static const char junk[] = "root:x:0:0:root:/root:/bin/bash\n";
        struct infp_segment *segment;
        struct infp_err err = { "" };

        (void) state;
        assert_int_equal(infp_segment_open_fd(file_of(junk, sizeof(junk)), "passwd", &segment, &err), -EBADMSG);
        assert_string_equal(err.text, "cannot read passwd at byte 0: no Arrow stream message begins there");
        assert_int_equal(infp_segment_open_fd(file_of("", 0), "empty", &segment, &err), -ENODATA);
        assert_int_equal(infp_segment_open(AT_FDCWD, "/nowhere", &segment, &err), -ENOENT);
        assert_string_equal(err.text, "cannot open /nowhere: No such file or directory");
        assert_int_equal(infp_segment_open(AT_FDCWD, "/tmp", &segment, &err), -EINVAL);
}

/* Cut at every byte, then mended: whole, with what was whole before. A second mending changes nothing. */
static void mends_at_every_cut(void **state)
{
        size_t ends[3];
        struct infp_str s = make_stream(2, 5, ends);
        int dir_fd =
                open("/dev/shm", O_PATH | O_DIRECTORY); /* each mending goes to the disk: here that costs nothing */
        struct infp_err err = { "" };
        char name[64];

        (void) state;
        assert_true(dir_fd >= 0);
        snprintf(name, sizeof(name), "infprof-test-%d.arrows", (int) getpid());
        for (size_t cut = ends[0]; cut <= s.size; cut++) {
                int want = cut < ends[1] ? 0 : cut < ends[2] ? 1 : 2;
                int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
                uint64_t lost = 0;

                assert_int_equal(infp_write_all(fd, s.data, cut, NULL), 0);
                infp_close(fd);
                assert_int_equal(infp_segment_mend(dir_fd, name, &lost, &err), want);
                assert_int_equal(lost, cut == s.size ? 0 : cut - ends[want]);
                assert_false(check_segment(dir_fd, name, 0, (uint32_t) want * 5));
                assert_int_equal(infp_segment_mend(dir_fd, name, &lost, &err), want);
                assert_int_equal(lost, 0);
        }
        infp_str_done(&s);
        unlinkat(dir_fd, name, 0);
        close(dir_fd);
}

static void mends_a_whole_run(void **state)
{
        size_t ends[3];
        struct infp_str s = make_stream(2, 5, ends);
        struct test_run t = test_run_open(NULL);
        struct infp_mend counts;
        char uuid[37], part[64];
        struct infp_run *run;

        (void) state;
        assert_int_equal(test_write(&t, 0, 5), 0); /* no end marker */
        assert_int_equal(t.sink->rotate(t.sink, 2, &t.err), 0);
        put_file(t.run->fd, "sample/000002.arrows", s.data, ends[1] + 100);
        put_file(t.run->fd, "sample/000003.arrows", s.data, ends[0] - 10);    /* not even a schema */
        put_file(t.run->fd, "sample/000004.arrows", "\0\0\0\0\0\0\0\0\0", 9); /* never reached the disk */
        put_file(t.run->fd, "sample/000002.parquet.part", "x", 1);
        assert_int_equal(mkdirat(t.run->fd, "empty", 0700), 0);
        put_file(t.run->fd, "empty/000001.arrows", "", 0);
        put_file(t.run->fd, "run.json.part", "{", 1);
        snprintf(part, sizeof(part), "%s.parquet.part", t.run->info.uuid);
        put_file(t.run->output_fd, part, "x", 1);
        put_file(t.run->output_fd, "other.part", "x", 1); /* not ours */

        assert_int_equal(infp_store_mend_run(t.run, &counts, &t.err), -EBUSY);
        memcpy(uuid, t.run->info.uuid, sizeof(uuid));
        t.sink = infp_store_sink_free(t.sink);
        t.run = infp_run_close(t.run);
        assert_int_equal(infp_run_open(t.dir, NULL, &run, &t.err), 0);
        assert_string_equal(run->info.uuid, uuid);
        assert_int_equal(run->state, INFP_RUN_INTERRUPTED);
        assert_int_equal(infp_store_mend_run(run, &counts, &t.err), 0);
        assert_int_equal(counts.n_segments, 5);
        assert_int_equal(counts.n_broken, 1);
        assert_int_equal(faccessat(run->fd, "sample/000004.arrows.broken", F_OK, 0), 0);
        assert_int_equal(counts.n_mended, 1); /* 000001 was ended by rotate */
        assert_int_equal(counts.n_batches, 1);
        assert_int_equal(counts.bytes_cut, 100);
        assert_int_equal(counts.n_removed, 5);
        assert_false(check_segment(run->fd, "sample/000002.arrows", 0, 5));
        assert_int_equal(faccessat(run->fd, "empty", F_OK, 0), -1);
        assert_int_equal(faccessat(run->fd, "sample/000003.arrows", F_OK, 0), -1);
        assert_int_equal(faccessat(run->output_fd, "other.part", F_OK, 0), 0);
        infp_run_close(run);
        infp_str_done(&s);
        test_run_close(&t);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(reads_what_is_whole),         cmocka_unit_test(reads_on_as_it_grows),
                cmocka_unit_test(takes_zeros_for_a_torn_tail), cmocka_unit_test(survives_turned_bits),
                cmocka_unit_test(reads_other_peoples_types),   cmocka_unit_test(splits_large_messages),
                cmocka_unit_test(says_what_it_cannot_read),    cmocka_unit_test(leaves_damage_out),
                cmocka_unit_test(reads_up_to_noise),           cmocka_unit_test(mends_at_every_cut),
                cmocka_unit_test(mends_a_whole_run),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
