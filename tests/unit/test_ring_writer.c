/* The writer of ring files and the public API over it: what each call puts into the file, and what the file says of itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "ring_file.h"

static void check_head(void)
{
        uint64_t before = infp_now_ns();
        struct stat st;

        CHECK_EQUAL(infp_is_recording(), 0);
        infp_mark("nobody hears it");
        CHECK_EQUAL(infp_enable(), 0);
        CHECK_EQUAL(infp_is_recording(), 1);
        const struct infp_wire_head *head = ring_head();
        CHECK(memcmp(head->magic, "infpring", 8) == 0 && head->version == 1 && head->ready == 1);
        CHECK_EQUAL(head->pid, getpid());
        CHECK_EQUAL(head->uid, geteuid());
        CHECK(head->created_ns >= before && head->created_ns <= infp_now_ns());
        CHECK(head->start_ticks > 0 && head->pid_ns > 0);
        CHECK(head->boot_id[0] | head->boot_id[1] | head->boot_id[15]);
        CHECK(stat(infp_writer_file.path, &st) == 0);
        CHECK_EQUAL(st.st_mode, S_IFREG | 0600);
        CHECK_EQUAL(st.st_size, 1024 * 1024);
        CHECK_EQUAL(head->n_chunks, (1024 * 1024 - (int) head->chunks_at) / 4096);
        CHECK(head->max_chunks > 4000 && head->chunks_at + (uint64_t) head->max_chunks * 4096 <= 16 * 1024 * 1024);
        CHECK_EQUAL(ring_each(NULL, NULL), 0);
        /* The schema says where the end of a span lies in its record. */
        const struct infp_wire_kind *kinds = (const void *) ((const char *) head + head->kinds_at);
        CHECK_EQUAL(head->n_kinds, 14);
        CHECK(strcmp(kinds[3].name, "span_end") == 0 && kinds[3].size == 56 && kinds[3].class == INFP_WIRE_KEEP);
        CHECK(strcmp(kinds[3].fields[2].name, "begin_ns") == 0 && kinds[3].fields[2].offset == 32);
        CHECK(strcmp(kinds[4].name, "value") == 0 && kinds[4].class == INFP_WIRE_RECENT);
        /* Names of the file: <pid>-<start ticks>-<created ns>.ring. */
        char name[128];
        snprintf(name, sizeof name, "%s/%d-%llu-%llu.ring", directory, (int) getpid(),
                 (unsigned long long) head->start_ticks, (unsigned long long) head->created_ns);
        CHECK(strcmp(name, infp_writer_file.path) == 0);
}

static void test_head(void **state)
{
        (void) state;
        in_child(directory, check_head);
}

static void check_spans(void)
{
        const struct infp_wire_span_begin *begin;
        const struct infp_wire_span_end *end;
        infp_span outer, inner, left_open, request, copy;
        uint64_t before;

        CHECK_EQUAL(infp_enable(), 0);
        before = infp_now_ns();
        infp_mark("warm");
        outer = infp_span_begin("outer");
        inner = infp_span_begin("inner");
        request = infp_span_start("request", &inner);
        infp_span_end(&inner);
        CHECK_EQUAL(inner.id, 0);
        infp_span_end(&inner); /* a second time: nothing */
        left_open = infp_span_begin("left open");
        copy = left_open;
        infp_span_end(&outer); /* ends it, too */
        infp_span_end(&copy);
        infp_span_fail(&request, "timeout");

        const struct infp_wire_mark *mark = ring_record(INFP_WIRE_MARK, 0);
        CHECK(strcmp(ring_text(mark, &mark->text), "warm") == 0);
        CHECK(mark->record.t_ns >= before && mark->record.t_ns <= infp_now_ns());
        CHECK_EQUAL(mark->record.tid, syscall(SYS_gettid));
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_BEGIN), 4);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_END), 4);
        begin = ring_record(INFP_WIRE_SPAN_BEGIN, 0);
        CHECK(begin->parent == 0 && begin->id != 0 && strcmp(ring_text(begin, &begin->name), "outer") == 0);
        uint64_t outer_id = begin->id;
        begin = ring_record(INFP_WIRE_SPAN_BEGIN, 1);
        CHECK(begin->parent == outer_id);
        uint64_t inner_id = begin->id;
        begin = ring_record(INFP_WIRE_SPAN_BEGIN, 2);
        CHECK(begin->parent == inner_id && strcmp(ring_text(begin, &begin->name), "request") == 0);
        end = ring_record(INFP_WIRE_SPAN_END, 0);
        CHECK(end->id == inner_id && end->parent == outer_id && end->status == INFP_WIRE_OK);
        CHECK(strcmp(ring_text(end, &end->name), "inner") == 0 && end->begin_ns <= end->record.t_ns);
        end = ring_record(INFP_WIRE_SPAN_END, 1);
        CHECK(strcmp(ring_text(end, &end->name), "left open") == 0 && end->parent == outer_id);
        end = ring_record(INFP_WIRE_SPAN_END, 2);
        CHECK(end->id == outer_id && end->begin_tid == (uint32_t) syscall(SYS_gettid));
        end = ring_record(INFP_WIRE_SPAN_END, 3);
        CHECK(strcmp(ring_text(end, &end->name), "request") == 0 && end->status == INFP_WIRE_ERROR);
        const struct infp_wire_span_attr *attr = ring_record(INFP_WIRE_SPAN_ATTR, 0);
        CHECK(attr->id == end->id && strcmp(ring_text(attr, &attr->key), "error.type") == 0);
        CHECK(strcmp(ring_text(attr, &attr->text), "timeout") == 0);
        /* Names lie in the arena once. */
        CHECK(end->name.at == begin->name.at);
}

static void test_spans(void **state)
{
        (void) state;
        in_child(directory, check_spans);
}

static void check_attributes(void)
{
        const struct infp_wire_span_attr *attr;
        infp_span span, none = { 0 };
        double half = 0.5, stored;

        CHECK_EQUAL(infp_enable(), 0);
        span = infp_span_begin("chat");
        infp_span_text(&span, INFP_GEN_AI_REQUEST_MODEL, "tiny");
        infp_span_int(&span, INFP_GEN_AI_USAGE_INPUT_TOKENS, -7);
        infp_span_double(&span, "share", half);
        infp_span_bool(&span, "cached", 3);
        infp_span_text(&span, "empty", NULL);
        infp_span_int(&none, "of no span", 1);
        infp_span_int(NULL, "of no span", 1);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_ATTR), 5);
        attr = ring_record(INFP_WIRE_SPAN_ATTR, 0);
        CHECK(attr->type == INFP_WIRE_TEXT && strcmp(ring_text(attr, &attr->text), "tiny") == 0);
        CHECK(strcmp(ring_text(attr, &attr->key), "gen_ai.request.model") == 0 && attr->id == span.id);
        attr = ring_record(INFP_WIRE_SPAN_ATTR, 1);
        CHECK(attr->type == INFP_WIRE_INT && (int64_t) attr->value == -7);
        attr = ring_record(INFP_WIRE_SPAN_ATTR, 2);
        memcpy(&stored, &attr->value, sizeof stored);
        CHECK(attr->type == INFP_WIRE_DOUBLE && stored == half);
        attr = ring_record(INFP_WIRE_SPAN_ATTR, 3);
        CHECK(attr->type == INFP_WIRE_BOOL && attr->value == 1);
        attr = ring_record(INFP_WIRE_SPAN_ATTR, 4);
        CHECK(attr->type == INFP_WIRE_TEXT && attr->text.size == 0);
}

static void test_attributes(void **state)
{
        (void) state;
        in_child(directory, check_attributes);
}

static infp_span other_ends;

static void *end_other(void *context)
{
        (void) context;
        infp_thread_name("the other");
        infp_span_end(&other_ends);
        return NULL;
}

/* A thread's own span that another thread ends, as happens to coroutines: one end, and no longer anybody's parent. */
static void check_end_elsewhere(void)
{
        infp_span outer, inner;
        pthread_t thread;

        CHECK_EQUAL(infp_enable(), 0);
        outer = infp_span_begin("outer");
        other_ends = infp_span_begin("moves");
        pthread_create(&thread, NULL, end_other, NULL);
        pthread_join(thread, NULL);
        inner = infp_span_begin("after");
        infp_span_end(&inner);
        infp_span_end(&outer);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_END), 3);
        const struct infp_wire_span_begin *after = ring_record(INFP_WIRE_SPAN_BEGIN, 2);
        const struct infp_wire_span_begin *first = ring_record(INFP_WIRE_SPAN_BEGIN, 0);
        CHECK(after->parent == first->id);
        const struct infp_wire_mark *name = ring_record(INFP_WIRE_THREAD, 0);
        CHECK(strcmp(ring_text(name, &name->text), "the other") == 0 &&
              name->record.tid != (uint32_t) syscall(SYS_gettid));
}

static void test_end_elsewhere(void **state)
{
        (void) state;
        in_child(directory, check_end_elsewhere);
}

/* Deeper than the library follows: all are recorded, each is ended once. */
static void check_deep(void)
{
        infp_span spans[100];

        CHECK_EQUAL(infp_enable(), 0);
        for (unsigned i = 0; i < 100; i++)
                spans[i] = infp_span_begin("level");
        for (unsigned i = 100; i-- > 0;)
                infp_span_end(&spans[i]);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_BEGIN), 100);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_END), 100);
        spans[0] = infp_span_begin("again at the top");
        CHECK_EQUAL(spans[0].parent, 0);
}

static void test_deep(void **state)
{
        (void) state;
        in_child(directory, check_deep);
}

static void check_texts(void)
{
        char long_text[4000], name[300];
        const struct infp_wire_mark *mark;
        const struct infp_wire_span_begin *begin;
        const struct infp_wire_span_end *end;
        infp_span span;

        CHECK_EQUAL(infp_enable(), 0);
        for (unsigned i = 0; i < sizeof long_text - 1; i += 3) /* characters of three bytes: 1,900 is within one */
                memcpy(long_text + i, "\xE2\x82\xAC", 3);
        long_text[sizeof long_text - 1] = 0;
        infp_mark(long_text);
        infp_mark(NULL);
        mark = ring_record(INFP_WIRE_MARK, 0);
        CHECK_EQUAL(mark->text.size, 1899);
        CHECK(mark->record.flags == INFP_WIRE_CUT && memcmp(ring_text(mark, &mark->text), long_text, 1899) == 0);
        CHECK_EQUAL(ring_head()->cut_texts, 1);
        mark = ring_record(INFP_WIRE_MARK, 1);
        CHECK(mark->text.size == 0 && mark->record.flags == 0 && mark->record.size == 24);
        /* A long name lies in the begin alone. */
        memset(name, 'n', sizeof name);
        name[sizeof name - 1] = 0;
        span = infp_span_begin(name);
        infp_span_end(&span);
        begin = ring_record(INFP_WIRE_SPAN_BEGIN, 0);
        end = ring_record(INFP_WIRE_SPAN_END, 0);
        CHECK(begin->name.at == (INFP_WIRE_INLINE | 40) && strcmp(ring_text(begin, &begin->name), name) == 0);
        CHECK(end->name.size == 0 && end->id == begin->id);
        /* The longest of all: a key and a value that are both cut. */
        span = infp_span_begin("x");
        infp_span_text(&span, long_text, long_text);
        const struct infp_wire_span_attr *attr = ring_record(INFP_WIRE_SPAN_ATTR, 0);
        CHECK(attr->record.size <= INFP_WIRE_MAX_RECORD && attr->key.size == 255 && attr->text.size > 1690);
}

static void test_texts(void **state)
{
        (void) state;
        in_child(directory, check_texts);
}

/* Names that fill the arena: later ones lie in their records, and metrics still find room. */
static void check_arena(void)
{
        char name[32];
        infp_span span;
        unsigned n_inline = 0;

        CHECK_EQUAL(infp_enable(), 0);
        for (unsigned i = 0; i < 6000; i++) {
                snprintf(name, sizeof name, "GET /item/%u", i);
                span = infp_span_start(name, NULL);
                n_inline += span.name_size == 0;
                CHECK(span.id != 0);
        }
        CHECK(n_inline > 2000 && n_inline < 5000);
        CHECK(ring_head()->arena_used <= INFP_WIRE_ARENA * 3 / 4);
        CHECK(infp_counter("late", "1", "registered when the arena is full of names") != NULL);
        CHECK_EQUAL(ring_head()->refused_metrics, 0);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_BEGIN) + ring_head()->dropped_full, 6000);
}

static void test_arena(void **state)
{
        (void) state;
        in_child(directory, check_arena);
}

static double value_of(const struct infp_wire_value *record)
{
        double value;

        memcpy(&value, &record->value, sizeof value);
        return value;
}

static void check_metrics(void)
{
        infp_metric *early = infp_counter("early", "tokens", "before recording"), *queue, *last = NULL;
        char name[32];

        CHECK(early != NULL);
        infp_add(early, 100); /* not recorded, so not counted */
        CHECK_EQUAL(infp_enable(), 0);
        queue = infp_gauge("queue", NULL, NULL);
        CHECK(infp_counter("early", NULL, NULL) == early && queue && queue != early);
        CHECK(infp_gauge("early", NULL, NULL) == NULL && infp_counter("", NULL, NULL) == NULL);
        CHECK_EQUAL(ring_head()->refused_metrics, 2);
        infp_add(early, 2);
        infp_add(early, 0.5);
        infp_set(queue, 4);
        infp_add(queue, -1);
        infp_add(early, -1);
        infp_add(early, NAN);
        infp_set(early, 7);
        infp_set(queue, INFINITY);
        infp_add(NULL, 1);
        infp_set(NULL, 1);
        CHECK_EQUAL(ring_head()->refused_values, 4);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_VALUE), 4);
        CHECK(value_of(ring_record(INFP_WIRE_VALUE, 0)) == 2 && value_of(ring_record(INFP_WIRE_VALUE, 1)) == 2.5);
        CHECK(value_of(ring_record(INFP_WIRE_VALUE, 2)) == 4 && value_of(ring_record(INFP_WIRE_VALUE, 3)) == 3);
        const struct infp_wire_metric *metric = &infp_writer_file.metrics[0];
        CHECK(metric->ready && metric->kind == INFP_WIRE_COUNTER && metric->n == 2);
        CHECK(strcmp(ring_text(NULL, &metric->name), "early") == 0 &&
              strcmp(ring_text(NULL, &metric->unit), "tokens") == 0);
        CHECK(infp_writer_file.metrics[1].unit.size == 0);
        CHECK(infp_step() == 1 && infp_step() == 2 && ring_head()->step == 2);
        CHECK(value_of(ring_record(INFP_WIRE_VALUE, 5)) == 2);
        infp_set(queue, 1.5e308);
        infp_add(queue, 1.5e308); /* the sum would be no number */
        CHECK(ring_head()->refused_values == 5 && value_of(ring_record(INFP_WIRE_VALUE, 6)) == 1.5e308);
        for (unsigned i = 0; i < 1021; i++) {
                snprintf(name, sizeof name, "m%u", i);
                last = infp_gauge(name, NULL, NULL);
                CHECK(last != NULL);
        }
        CHECK(infp_gauge("one too many", NULL, NULL) == NULL);
        CHECK_EQUAL(ring_head()->n_metrics, 1024);
}

static void test_metrics(void **state)
{
        (void) state;
        in_child(directory, check_metrics);
}

/* Off and on again: same file, and no span of before is anybody's parent. */
static void check_off_and_on(void)
{
        infp_span span, later;

        CHECK_EQUAL(infp_enable(), 0);
        span = infp_span_begin("before");
        infp_disable();
        CHECK_EQUAL(infp_is_recording(), 0);
        infp_mark("off");
        infp_span_end(&span);
        CHECK(infp_span_begin("off").id == 0 && infp_step() == 0);
        ino_t inode = infp_writer_file.inode;
        CHECK_EQUAL(infp_enable(), 0);
        CHECK(infp_writer_file.inode == inode);
        later = infp_span_begin("after");
        CHECK_EQUAL(later.parent, 0);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 0);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_SPAN_END), 0);
}

static void test_off_and_on(void **state)
{
        (void) state;
        in_child(directory, check_off_and_on);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_head),          cmocka_unit_test(test_spans),   cmocka_unit_test(test_attributes),
                cmocka_unit_test(test_end_elsewhere), cmocka_unit_test(test_deep),    cmocka_unit_test(test_texts),
                cmocka_unit_test(test_arena),         cmocka_unit_test(test_metrics), cmocka_unit_test(test_off_and_on),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
