/* Ring files that no writer makes, and those that change under the reader's hands: it says so, or skips, and lives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/time.h"
#include "ring_sample.h"

struct world {
        struct ring_sample *sample;
        int file;
        struct infp_ring *ring;
        unsigned n_rows;
        struct infp_err err;
};

static int count(void *context, const struct infp_row *row)
{
        struct world *w = context;

        assert_true(row->t_ns <= infp_clock_ns(CLOCK_MONOTONIC) + INFP_NS_PER_S);
        w->n_rows++;
        return 0;
}

static int setup(void **state)
{
        struct world *w = calloc(1, sizeof(*w));

        w->file = memfd_create("ring", MFD_CLOEXEC);
        assert_int_equal(ftruncate(w->file, SAMPLE_BYTES), 0);
        w->sample = mmap(NULL, SAMPLE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->file, 0);
        assert_true(w->sample != MAP_FAILED);
        sample_init(w->sample);
        *state = w;
        return 0;
}

static int teardown(void **state)
{
        struct world *w = *state;

        infp_ring_close(w->ring);
        munmap(w->sample, SAMPLE_BYTES);
        close(w->file);
        free(w);
        return 0;
}

static int open_it(struct world *w)
{
        const struct infp_ring_owner owner = sample_owner();

        w->ring = infp_ring_close(w->ring);
        return infp_ring_open(w->file, &owner, true, &w->ring, &w->err);
}

/* Each a 32-bit word of the head, and what it becomes. */
static void heads_that_make_no_sense_are_refused(void **state)
{
        static const struct {
                size_t at;
                uint32_t value;
                int r;
                const char *text;
        } cases[] = {
                { offsetof(struct infp_wire_head, magic), 0x41414141, -EBADMSG, "its header is wrong" },
                { offsetof(struct infp_wire_head, version), 2, -EBADMSG, "version 2" },
                { offsetof(struct infp_wire_head, ready), 0, -EAGAIN, "being made" },
                { offsetof(struct infp_wire_head, pid), SAMPLE_PID + 1, -ESTALE, "another process" },
                { offsetof(struct infp_wire_head, start_ticks), 1, -ESTALE, "another process" },
                { offsetof(struct infp_wire_head, head_bytes), 8, -EBADMSG, "impossible size" },
                { offsetof(struct infp_wire_head, head_bytes), 5000, -EBADMSG, "impossible size" },
                { offsetof(struct infp_wire_head, kinds_at), 0, -EBADMSG, "schema lies outside" },
                { offsetof(struct infp_wire_head, kinds_at), UINT32_MAX - 7, -EBADMSG, "schema lies outside" },
                { offsetof(struct infp_wire_head, kinds_at), SAMPLE_KINDS_AT + 1, -EBADMSG, "schema lies outside" },
                { offsetof(struct infp_wire_head, n_kinds), UINT32_MAX, -EBADMSG, "schema lies outside" },
                { offsetof(struct infp_wire_head, metrics_at), SAMPLE_BYTES, -EBADMSG, "counters lie outside" },
                { offsetof(struct infp_wire_head, max_metrics), UINT32_MAX, -EBADMSG, "counters lie outside" },
                { offsetof(struct infp_wire_head, arena_at), UINT32_MAX, -EBADMSG, "texts lie outside" },
                { offsetof(struct infp_wire_head, arena_bytes), UINT32_MAX, -EBADMSG, "texts lie outside" },
                { offsetof(struct infp_wire_head, chunks_at), SAMPLE_CHUNKS_AT + 64, -EBADMSG, "chunks lie outside" },
                { offsetof(struct infp_wire_head, chunks_at), 0xfffff000, -EBADMSG, "chunks lie outside" },
                { offsetof(struct infp_wire_head, max_chunks), 0, -EBADMSG, "number of chunks" },
                { offsetof(struct infp_wire_head, max_chunks), UINT32_MAX, -EBADMSG, "number of chunks" },
        };
        struct world *w = *state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                sample_init(w->sample);
                memcpy(w->sample->bytes + cases[i].at, &cases[i].value, 4);
                assert_int_equal(open_it(w), cases[i].r);
                assert_non_null(strstr(w->err.text, cases[i].text));
                assert_null(w->ring);
        }
}

static void another_boot_namespace_or_user_is_refused(void **state)
{
        struct world *w = *state;
        struct infp_ring_owner owner = sample_owner();

        strcpy(owner.boot_id, "00000000-0000-0000-0000-000000000000");
        assert_int_equal(infp_ring_open(w->file, &owner, false, &w->ring, &w->err), 0);
        w->ring = infp_ring_close(w->ring);
        owner.boot_id[0] = '1';
        assert_int_equal(infp_ring_open(w->file, &owner, false, &w->ring, &w->err), -ESTALE);
        owner = sample_owner();
        owner.pid_ns = 5;
        sample_head(w->sample)->pid_ns = 6;
        assert_int_equal(infp_ring_open(w->file, &owner, false, &w->ring, &w->err), -ESTALE);
        owner = sample_owner();
        owner.uid++;
        assert_int_equal(infp_ring_open(w->file, &owner, false, &w->ring, &w->err), -EPERM);
}

static void schemas_that_make_no_sense_are_refused(void **state)
{
        struct world *w = *state;

        sample_kind(w->sample, 3)->size = 24; /* a span's end that is shorter than ours */
        assert_int_equal(open_it(w), -EBADMSG);
        assert_non_null(strstr(w->err.text, "span_end"));
        sample_init(w->sample);
        sample_kind(w->sample, 1)->kind = INFP_WIRE_MARK; /* twice */
        assert_int_equal(open_it(w), -EBADMSG);
        sample_init(w->sample);
        sample_kind(w->sample, 1)->kind = 900;
        assert_int_equal(open_it(w), -EBADMSG);
        sample_init(w->sample);
        sample_kind(w->sample, 0)->n_fields = 1;
        strcpy(sample_kind(w->sample, 0)->fields[0].name, "text");
        sample_kind(w->sample, 0)->fields[0].offset = 8; /* the text lies elsewhere */
        assert_int_equal(open_it(w), -EBADMSG);
        sample_kind(w->sample, 0)->fields[0].offset = offsetof(struct infp_wire_mark, text);
        assert_int_equal(open_it(w), 0);
}

static void files_that_are_none_are_refused(void **state)
{
        const struct infp_ring_owner owner = sample_owner();
        struct world *w = *state;
        int file = memfd_create("short", MFD_CLOEXEC), pipes[2];

        assert_int_equal(infp_ring_open(file, &owner, false, &w->ring, &w->err), -EAGAIN); /* empty: not made yet */
        assert_int_equal(write(file, "infpring", 8), 8);
        assert_int_equal(infp_ring_open(file, &owner, false, &w->ring, &w->err), -EBADMSG);
        close(file);
        assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
        assert_int_equal(infp_ring_open(pipes[0], &owner, false, &w->ring, &w->err), -EBADMSG);
        close(pipes[0]);
        close(pipes[1]);
}

/* Each a record that is spoilt; the good one before it is shown, the one behind it is not. */
static void spoilt_records_end_their_chunk(void **state)
{
        struct world *w = *state;

        for (unsigned i = 0; i < 9; i++) {
                struct infp_wire_mark *mark;

                sample_init(w->sample);
                w->n_rows = 0;
                sample_claim(w->sample, 0, 1, 10);
                sample_mark(w->sample, 0, 10, 100, "good");
                mark = sample_mark(w->sample, 0, 10, 200, "spoilt");
                sample_mark(w->sample, 0, 10, 300, "behind");
                switch (i) {
                case 0:
                        mark->record.size = 0;
                        break;
                case 1:
                        mark->record.size = 8;
                        break;
                case 2:
                        mark->record.size = 4000;
                        break;
                case 3:
                        mark->record.size += 4;
                        break;
                case 4:
                        mark->record.kind = 0;
                        break;
                case 5:
                        mark->record.kind = 200;
                        break;
                case 6:
                        mark->record.t_ns = UINT64_MAX;
                        break;
                case 7:
                        mark->record.size = 16; /* shorter than a mark */
                        break;
                default:
                        sample_chunk(w->sample, 0)->used = SAMPLE_ROOM + 8;
                        break;
                }
                assert_int_equal(open_it(w), 0);
                assert_true(infp_ring_read(w->ring, true, count, w, &w->err) >= 0);
                assert_int_equal(w->n_rows, i == 8 ? 0 : 1);
                assert_int_equal(infp_ring_counts(w->ring)->broken, 1);
        }
}

/* The record is left out, those behind it are read. */
static void texts_that_lie_outside_are_refused(void **state)
{
        static const struct infp_wire_text texts[] = {
                { INFP_WIRE_INLINE | 0, 4 },
                { INFP_WIRE_INLINE | 16, 8 },
                { INFP_WIRE_INLINE | 24, 9 },
                { INFP_WIRE_INLINE | 0x7fffffff, 4 },
                { INFP_WIRE_INLINE | 24, UINT32_MAX },
                { 0, 6 },
                { 5, 1 },
                { 0x7fffffff, 4 },
                { 1, UINT32_MAX },
        };
        struct world *w = *state;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                struct infp_wire_mark *mark;

                sample_init(w->sample);
                w->n_rows = 0;
                sample_arena(w->sample, "arena");
                sample_claim(w->sample, 0, 1, 10);
                mark = sample_mark(w->sample, 0, 10, 100, "spoilt");
                mark->text = texts[i];
                sample_mark(w->sample, 0, 10, 200, "behind");
                assert_int_equal(open_it(w), 0);
                assert_true(infp_ring_read(w->ring, true, count, w, &w->err) >= 0);
                assert_int_equal(w->n_rows, 1);
                assert_int_equal(infp_ring_counts(w->ring)->broken, 1);
        }
}

static void metrics_and_spans_that_make_no_sense_are_skipped(void **state)
{
        struct world *w = *state;

        sample_add_metric(w->sample, "n", "", INFP_WIRE_COUNTER);
        sample_head(w->sample)->n_metrics = UINT32_MAX;
        sample_metric(w->sample, 1)->t_ns = 50; /* not ready */
        sample_claim(w->sample, 0, 1, 10);
        sample_value(w->sample, 0, 10, 100, UINT32_MAX, 1);
        sample_value(w->sample, 0, 10, 100, 1, 1);
        sample_end(w->sample, 0, 10, 100, 7, 0, 200, 10, "backwards");
        sample_end(w->sample, 0, 10, 300, 8, 0, 200, 10, "twice");
        sample_end(w->sample, 0, 10, 300, 8, 0, 200, 10, "twice");
        assert_int_equal(open_it(w), 0);
        assert_true(infp_ring_read(w->ring, true, count, w, &w->err) >= 0);
        assert_int_equal(w->n_rows, 1);
        assert_int_equal(infp_ring_counts(w->ring)->broken, 4);
}

static void a_file_that_is_cut_while_it_is_mapped_is_let_go(void **state)
{
        struct world *w = *state;
        struct infp_ring_owner owner = sample_owner();
        int other = memfd_create("cut", MFD_CLOEXEC);
        struct infp_ring *ring;

        sample_claim(w->sample, 0, 1, 10);
        sample_mark(w->sample, 0, 10, 100, "a");
        assert_int_equal(write(other, w->sample->bytes, SAMPLE_BYTES), SAMPLE_BYTES);
        assert_int_equal(infp_ring_open(other, &owner, true, &ring, &w->err), 0);
        assert_int_equal(infp_ring_read(ring, false, count, w, &w->err), 0);
        assert_int_equal(w->n_rows, 1);
        assert_int_equal(ftruncate(other, 0), 0);
        assert_true(infp_ring_read(ring, false, count, w, &w->err) >= 0);
        assert_true(infp_ring_counts(ring)->was_cut);
        assert_false(infp_ring_has_ended(ring));
        assert_true(infp_ring_read(ring, true, count, w, &w->err) >= 0);
        assert_int_equal(w->n_rows, 1);
        infp_ring_close(ring);
        close(other);
}

/* It says it has more chunks than there are on the disk; and one of them is a hole. */
static void chunks_behind_the_end_are_not_there(void **state)
{
        struct world *w = *state;

        sample_head(w->sample)->max_chunks = 4000;
        sample_head(w->sample)->n_chunks = UINT32_MAX;
        assert_int_equal(open_it(w), 0);
        assert_true(infp_ring_read(w->ring, true, count, w, &w->err) >= 0);
        assert_true(infp_ring_counts(w->ring)->was_cut);

        sample_init(w->sample);
        sample_head(w->sample)->max_chunks = 4000;
        sample_head(w->sample)->n_chunks = 4000;
        assert_int_equal(ftruncate(w->file, (off_t) 1 << 40), 0); /* sparse */
        assert_int_equal(open_it(w), 0);
        assert_true(infp_ring_read(w->ring, true, count, w, &w->err) >= 0);
        assert_false(infp_ring_counts(w->ring)->was_cut);
        assert_int_equal(w->n_rows, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(heads_that_make_no_sense_are_refused),
                TEST(another_boot_namespace_or_user_is_refused),
                TEST(schemas_that_make_no_sense_are_refused),
                TEST(files_that_are_none_are_refused),
                TEST(spoilt_records_end_their_chunk),
                TEST(texts_that_lie_outside_are_refused),
                TEST(metrics_and_spans_that_make_no_sense_are_skipped),
                TEST(a_file_that_is_cut_while_it_is_mapped_is_let_go),
                TEST(chunks_behind_the_end_are_not_there),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
