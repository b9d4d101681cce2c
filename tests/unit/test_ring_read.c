/* Reading ring files: rows, pairs of spans, what another reader has taken, what a writer writes over meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/str.h"
#include "base/time.h"
#include "model/tables.h"
#include "ring_sample.h"

/* A file and its reader, and what it gave as text: "table t_ns column=value ...", a line a row. */
struct world {
        struct ring_sample *sample; /* the file, mapped */
        int file;
        struct infp_ring *ring;
        struct infp_str rows;
        struct infp_err err;
        unsigned generation; /* of begin_spans */
};

static int put(void *context, const struct infp_row *row)
{
        struct world *w = context;

        infp_str_printf(&w->rows, "%s %llu", row->table->name, (unsigned long long) row->t_ns);
        for (unsigned i = 2; i < row->table->n_columns; i++) {
                const struct infp_column *column = &row->table->columns[i];
                size_t size;

                if (!infp_row_has(row, i))
                        continue;
                infp_str_printf(&w->rows, " %s=", column->name);
                if (column->type == INFP_STR) {
                        const char *text = infp_row_text(row, i, &size);

                        infp_str_put(&w->rows, text, size);
                } else if (column->type == INFP_F64) {
                        infp_str_f64(&w->rows, row->cell[i].f64);
                } else {
                        infp_str_i64(&w->rows, row->cell[i].i64);
                }
        }
        infp_str_puts(&w->rows, "\n");
        assert_true(row->cell[1].u64 == 42);
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
        infp_str_done(&w->rows);
        free(w);
        return 0;
}

static int open_as(struct world *w, bool consumer)
{
        const struct infp_ring_owner owner = sample_owner();

        w->ring = infp_ring_close(w->ring);
        return infp_ring_open(w->file, &owner, consumer, &w->ring, &w->err);
}

static void expect_rows(struct world *w, bool last, const char *expected)
{
        infp_str_clear(&w->rows);
        assert_true(infp_ring_read(w->ring, last, put, w, &w->err) >= 0);
        assert_string_equal(w->rows.data ? w->rows.data : "", expected);
}

static void marks_come_in_the_order_of_time(void **state)
{
        struct world *w = *state;

        sample_claim(w->sample, 0, 1, 10);
        sample_claim(w->sample, 1, 1, 11);
        sample_mark(w->sample, 0, 10, 100, "a");
        sample_mark(w->sample, 0, 10, 300, "c \\ \xff");
        sample_thread(w->sample, 1, 11, 150, "worker");
        sample_mark(w->sample, 1, 11, 200, "b");
        assert_int_equal(open_as(w, false), 0);
        expect_rows(w, false,
                    "marks 100 tid=10 tag=a\n"
                    "marks 200 tid=11 tag=b thread=worker\n"
                    "marks 300 tid=10 tag=c \\\\ \\xFF\n");
        expect_rows(w, false, "");
        sample_mark(w->sample, 0, 10, 400, "d");
        expect_rows(w, false, "marks 400 tid=10 tag=d\n");
        assert_int_equal(infp_ring_counts(w->ring)->rows[0], 4);
}

static void a_span_comes_one_pass_behind_its_end_with_all_attributes(void **state)
{
        struct world *w = *state;

        sample_claim(w->sample, 0, 1, 10);
        sample_claim(w->sample, 1, 1, 11);
        sample_begin(w->sample, 1, 11, 100, 7, 3, "step");
        sample_attr_text(w->sample, 1, 11, 110, 7, "model", "a \"b\" \\");
        sample_attr(w->sample, 1, 11, 120, 7, "n", INFP_WIRE_INT, (uint64_t) -5);
        sample_end(w->sample, 1, 12, 500, 7, 3, 100, 11, "step");
        assert_int_equal(open_as(w, true), 0);
        expect_rows(w, false, "");
        assert_true(infp_ring_is_waiting(w->ring));
        /* Chunk 0 was visited before the end was seen in chunk 1. */
        sample_attr(w->sample, 0, 10, 400, 7, "ok", INFP_WIRE_BOOL, 1);
        sample_attr(w->sample, 0, 10, 410, 7, "n", INFP_WIRE_DOUBLE, sample_bits(0.5));
        expect_rows(w, false,
                    "spans 100 span=7 parent=3 name=step duration_ns=400 status=ok tid=11 end_tid=12 "
                    "attributes={\"model\":\"a \\\"b\\\" \\\\\\\\\",\"ok\":true,\"n\":0.5}\n");
        assert_false(infp_ring_is_waiting(w->ring));
        expect_rows(w, true, "");
}

static void an_end_alone_is_whole(void **state)
{
        struct world *w = *state;
        struct infp_wire_span_end *end;

        sample_claim(w->sample, 0, 1, 10);
        end = sample_end(w->sample, 0, 10, 500, 7, 0, 100, 10, "late");
        end->status = INFP_WIRE_ERROR;
        sample_end(w->sample, 0, 10, 600, 8, 0, 550, 10, ""); /* no name: that of its begin, which is gone */
        assert_int_equal(open_as(w, true), 0);
        expect_rows(w, true,
                    "spans 100 span=7 name=late duration_ns=400 status=error tid=10 end_tid=10\n"
                    "spans 550 span=8 name= duration_ns=50 status=ok tid=10 end_tid=10\n");
}

static void an_end_without_name_takes_that_of_its_begin(void **state)
{
        struct world *w = *state;

        sample_claim(w->sample, 0, 1, 10);
        sample_begin(w->sample, 0, 10, 100, 7, 0, "first");
        sample_end(w->sample, 0, 10, 500, 7, 0, 100, 10, "");
        assert_int_equal(open_as(w, true), 0);
        expect_rows(w, true, "spans 100 span=7 name=first duration_ns=400 status=ok tid=10 end_tid=10\n");
}

static void open_spans_are_shown_at_the_last_read(void **state)
{
        struct world *w = *state;

        sample_claim(w->sample, 0, 1, 10);
        sample_begin(w->sample, 0, 10, 200, 8, 7, "inner");
        sample_begin(w->sample, 0, 10, 100, 7, 0, "outer");
        sample_attr(w->sample, 0, 10, 210, 99, "stray", INFP_WIRE_INT, 1);
        assert_int_equal(open_as(w, false), 0);
        expect_rows(w, false, "");
        expect_rows(w, true,
                    "spans 100 span=7 name=outer status=open tid=10\n"
                    "spans 200 span=8 parent=7 name=inner status=open tid=10\n");
}

static void a_value_whose_record_is_gone_comes_from_its_slot(void **state)
{
        struct world *w = *state;

        sample_add_metric(w->sample, "tokens", "tokens", INFP_WIRE_COUNTER);
        sample_add_metric(w->sample, "queue", "", INFP_WIRE_GAUGE);
        sample_claim(w->sample, 0, 1, 10);
        sample_value(w->sample, 0, 10, 100, 0, 5);
        sample_set_slot(w->sample, 0, 100, 5);
        sample_set_slot(w->sample, 1, 300, -1.5);
        assert_int_equal(open_as(w, false), 0);
        expect_rows(w, false, "counters 100 name=tokens kind=counter unit=tokens value=5.0 tid=10\n");
        expect_rows(w, false, "counters 300 name=queue kind=gauge value=-1.5\n");
        expect_rows(w, true, "");
}

/* wire.h: of two threads that add at once the smaller sum may have the later time. */
static void a_counter_never_falls(void **state)
{
        struct world *w = *state;

        sample_add_metric(w->sample, "n", "", INFP_WIRE_COUNTER);
        sample_claim(w->sample, 0, 1, 10);
        sample_value(w->sample, 0, 10, 100, 0, 7);
        sample_value(w->sample, 0, 10, 101, 0, 6);
        assert_int_equal(open_as(w, false), 0);
        expect_rows(w, false,
                    "counters 100 name=n kind=counter value=7.0 tid=10\n"
                    "counters 101 name=n kind=counter value=7.0 tid=10\n");
}

static void a_tid_that_comes_again_has_no_old_name(void **state)
{
        struct world *w = *state;

        sample_claim(w->sample, 0, 1, 10);
        sample_thread(w->sample, 0, 10, 90, "first");
        sample_mark(w->sample, 0, 10, 100, "a");
        assert_int_equal(open_as(w, false), 0);
        expect_rows(w, false, "marks 100 tid=10 tag=a thread=first\n");
        sample_claim(w->sample, 1, 1, 10);
        sample_chunk(w->sample, 1)->thread_start = 99999; /* another thread of that number */
        sample_mark(w->sample, 1, 10, 200, "b");
        expect_rows(w, false, "marks 200 tid=10 tag=b\n");
}

static void the_consumer_says_what_it_has_taken(void **state)
{
        struct world *w = *state;
        struct infp_wire_chunk *chunk = sample_chunk(w->sample, 0);
        const struct infp_ring_owner owner = sample_owner();
        char path[32];
        struct infp_ring *second;
        int other;

        sample_claim(w->sample, 0, 5, 10);
        sample_mark(w->sample, 0, 10, 100, "a");
        assert_int_equal(open_as(w, true), 0);
        assert_int_equal(sample_head(w->sample)->consumer_pid, getpid());
        assert_true(sample_head(w->sample)->consumer_start_ticks > 0);
        expect_rows(w, false, "marks 100 tid=10 tag=a\n");
        assert_true(chunk->drained == ((uint64_t) 5 << 32 | chunk->used));

        snprintf(path, sizeof(path), "/proc/self/fd/%d", w->file);
        other = open(path, O_RDWR | O_CLOEXEC);
        assert_true(other >= 0);
        assert_int_equal(infp_ring_open(other, &owner, true, &second, &w->err), -EBUSY);
        assert_non_null(strstr(w->err.text, "another recording"));
        assert_int_equal(infp_ring_open(other, &owner, false, &second, &w->err), 0);
        infp_ring_close(second);

        /* The next one goes on where this one was. */
        w->ring = infp_ring_close(w->ring);
        assert_int_equal(sample_head(w->sample)->consumer_pid, 0);
        sample_mark(w->sample, 0, 10, 200, "b");
        assert_int_equal(infp_ring_open(other, &owner, true, &second, &w->err), 0);
        assert_true(infp_ring_read(second, false, put, w, &w->err) >= 0);
        assert_string_equal(w->rows.data, "marks 100 tid=10 tag=a\nmarks 200 tid=10 tag=b\n");
        infp_ring_close(second);
        close(other);
}

static void a_chunk_that_was_claimed_anew_is_another(void **state)
{
        struct world *w = *state;

        sample_claim(w->sample, 0, 1, 10);
        sample_mark(w->sample, 0, 10, 100, "a");
        assert_int_equal(open_as(w, false), 0);
        expect_rows(w, false, "marks 100 tid=10 tag=a\n");
        sample_claim(w->sample, 0, 2, 11);
        sample_mark(w->sample, 0, 11, 200, "b");
        expect_rows(w, false, "marks 200 tid=11 tag=b\n");
        assert_int_equal(infp_ring_counts(w->ring)->missed_chunks, 1);
        atomic_store(&sample_chunk(w->sample, 0)->stamp, (uint64_t) 3 << 3 | INFP_WIRE_CLAIMING);
        expect_rows(w, false, "");
}

static void a_newer_writer_is_read(void **state)
{
        struct world *w = *state;
        struct {
                struct infp_wire_mark mark;
                uint64_t more;
        } longer = { .mark.record = sample_record(INFP_WIRE_MARK, 10, 100) };
        struct infp_wire_record unknown = sample_record(77, 10, 200);
        const char *tag = "a";

        sample_head(w->sample)->head_bytes += 64;
        sample_kind(w->sample, 0)->size = sizeof(longer);
        *sample_kind(w->sample, sample_head(w->sample)->n_kinds) =
                (struct infp_wire_kind){ .name = "new", .kind = 77, .size = sizeof(unknown) };
        sample_head(w->sample)->n_kinds++;
        sample_claim(w->sample, 0, 1, 10);
        sample_put(w->sample, 0, &longer, sizeof(longer), &tag, &(struct infp_wire_text *){ &longer.mark.text }, 1);
        sample_put(w->sample, 0, &unknown, sizeof(unknown), NULL, NULL, 0);
        assert_int_equal(open_as(w, false), 0);
        expect_rows(w, true, "marks 100 tid=10 tag=a\n");
        assert_int_equal(infp_ring_counts(w->ring)->unknown, 1);
        assert_int_equal(infp_ring_counts(w->ring)->broken, 0);
}

/* Begins spans *next ... last, which nobody ends, and reads them, a chunk at a time. Returns the CPU time that it took. */
static uint64_t begin_spans(struct world *w, uint64_t *next, uint64_t last)
{
        const uint64_t begin_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);

        while (*next <= last) {
                sample_claim(w->sample, 0, ++w->generation, 10);
                while (sample_chunk(w->sample, 0)->used + 48 <= SAMPLE_ROOM && *next <= last)
                        sample_begin(w->sample, 0, 10, 100, (*next)++, 0, "x");
                assert_true(infp_ring_read(w->ring, false, put, w, &w->err) >= 0);
        }
        return infp_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns;
}

static void spans_beyond_the_limit_come_when_they_end(void **state)
{
        struct world *w = *state;
        struct infp_ring_counts c;
        uint64_t id = 1;

        assert_int_equal(open_as(w, true), 0);
        begin_spans(w, &id, INFP_RING_OPEN_SPANS + 10);
        c = *infp_ring_counts(w->ring);
        assert_int_equal(c.spans_forgotten, 10);
        sample_claim(w->sample, 1, 1, 10);
        sample_end(w->sample, 1, 10, 200, id - 1, 0, 100, 10, "last");
        assert_true(infp_ring_read(w->ring, false, put, w, &w->err) >= 0);
        assert_string_equal(w->rows.data,
                            "spans 100 span=65546 name=last duration_ns=100 status=ok tid=10 end_tid=10\n");
}

/* A program that drops records leaves spans open for ever: those that come then cost as much as the others. */
static void spans_beyond_the_limit_cost_no_more(void **state)
{
        enum { MORE = 8192 };
        struct world *w = *state;
        uint64_t id = 1, before_ns;

        assert_int_equal(open_as(w, true), 0);
        before_ns = begin_spans(w, &id, INFP_RING_OPEN_SPANS);
        assert_true(begin_spans(w, &id, id + MORE) < 10 * before_ns);
        assert_int_equal(infp_ring_counts(w->ring)->spans_forgotten, MORE + 1);
}

static void attributes_of_a_span_are_bounded(void **state)
{
        struct world *w = *state;
        char text[1501], key[16];

        memset(text, 'x', 1500);
        text[1500] = 0;
        assert_int_equal(open_as(w, true), 0);
        for (unsigned i = 0; i < 20; i++) {
                sample_claim(w->sample, 0, 1 + i, 10);
                snprintf(key, sizeof(key), "k%u", i);
                sample_attr_text(w->sample, 0, 10, 100, 7, key, text);
                assert_true(infp_ring_read(w->ring, false, put, w, &w->err) >= 0);
        }
        assert_int_equal(infp_ring_counts(w->ring)->cut_attributes, 10);
}

/* A writer that claims one chunk again and again while it is read: every row that is shown was written whole. */
struct storm {
        struct ring_sample *sample;
        atomic_bool is_over;
};

static void store_words(_Atomic uint64_t *to, const void *from, size_t size)
{
        for (size_t i = 0; i < size / 8; i++) {
                uint64_t word;

                memcpy(&word, (const char *) from + i * 8, 8);
                atomic_store_explicit(&to[i], word, memory_order_relaxed);
        }
}

static void *write_over_and_over(void *context)
{
        struct storm *storm = context;
        struct infp_wire_chunk *c = sample_chunk(storm->sample, 0);
        uint64_t generation = 1;

        while (!atomic_load(&storm->is_over)) {
                atomic_store_explicit(&c->stamp, generation << 3 | INFP_WIRE_CLAIMING, memory_order_relaxed);
#ifndef __SANITIZE_THREAD__
                atomic_thread_fence(memory_order_release);
#endif
                atomic_store_explicit(&c->used, 0, memory_order_relaxed);
                atomic_store_explicit(&c->stamp, generation << 3 | INFP_WIRE_ACTIVE, memory_order_release);
                for (unsigned i = 0; i < 30; i++) {
                        struct {
                                struct infp_wire_mark mark;
                                char tag[64];
                        } r = { .mark = { .record =
                                                  sample_record(INFP_WIRE_MARK, (uint32_t) generation, 1 + generation),
                                          .text = { INFP_WIRE_INLINE | sizeof(struct infp_wire_mark), 64 } } };

                        r.mark.record.size = sizeof(r);
                        memset(r.tag, 'a' + (int) (generation % 26), sizeof(r.tag));
                        store_words((_Atomic uint64_t *) (void *) (c + 1) + i * sizeof(r) / 8, &r, sizeof(r));
                        atomic_store_explicit(&c->used, (i + 1) * (uint32_t) sizeof(r), memory_order_release);
                }
                generation++;
        }
        return NULL;
}

static int check_mark(void *context, const struct infp_row *row)
{
        uint64_t *n = context;
        size_t size;
        const char *tag = infp_row_text(row, INFP_MARKS_TAG, &size);
        const char letter = (char) ('a' + (row->t_ns - 1) % 26);

        assert_int_equal(size, 64);
        assert_true((uint32_t) row->cell[INFP_MARKS_TID].i64 == (uint32_t) (row->t_ns - 1));
        for (size_t i = 0; i < size; i++)
                assert_true(tag[i] == letter);
        ++*n;
        return 0;
}

static void nothing_torn_is_shown(void **state)
{
        struct world *w = *state;
        struct storm storm = { .sample = w->sample };
        /* Until the writer was met in the middle, and then a while; on a machine that is too busy for that it is given up. */
        const uint64_t start_ns = infp_clock_ns(CLOCK_MONOTONIC);
        pthread_t writer;
        uint64_t n = 0;

        assert_int_equal(open_as(w, false), 0);
        assert_int_equal(pthread_create(&writer, NULL, write_over_and_over, &storm), 0);
        while (infp_clock_ns(CLOCK_MONOTONIC) - start_ns <
               (infp_ring_counts(w->ring)->torn < 10 ? 2 : 1) * INFP_NS_PER_S / 2)
                assert_true(infp_ring_read(w->ring, false, check_mark, &n, &w->err) >= 0);
        atomic_store(&storm.is_over, true);
        pthread_join(writer, NULL);
        assert_true(n > 100);
        assert_int_equal(infp_ring_counts(w->ring)->broken, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(marks_come_in_the_order_of_time),
                TEST(a_span_comes_one_pass_behind_its_end_with_all_attributes),
                TEST(an_end_alone_is_whole),
                TEST(an_end_without_name_takes_that_of_its_begin),
                TEST(open_spans_are_shown_at_the_last_read),
                TEST(a_value_whose_record_is_gone_comes_from_its_slot),
                TEST(a_counter_never_falls),
                TEST(a_tid_that_comes_again_has_no_old_name),
                TEST(the_consumer_says_what_it_has_taken),
                TEST(a_chunk_that_was_claimed_anew_is_another),
                TEST(a_newer_writer_is_read),
                TEST(spans_beyond_the_limit_come_when_they_end),
                TEST(spans_beyond_the_limit_cost_no_more),
                TEST(attributes_of_a_span_are_bounded),
                TEST(nothing_torn_is_shown),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
