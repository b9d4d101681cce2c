/* Stacks in ring files: sent once, known by their ids, read at any time; and those that no writer makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>

#include "count_mallocs.h"
#include "ring_file.h"
#include "ring_sample.h"

static uint32_t send(const uint64_t *native, uint32_t n, uint32_t epoch, uint8_t flags)
{
        struct infp_writer_stack stack = { .native = native, .n_native = n, .epoch = epoch, .flags = flags };
        struct infp_writer_thread *thread = infp_writer_begin();
        uint32_t id = infp_writer_stack(thread, &stack);

        infp_writer_end();
        return id;
}

static uint32_t send_code(const char *file, const char *function, uint32_t line)
{
        uint32_t id = infp_writer_code(infp_writer_begin(), file, function, line);

        infp_writer_end();
        return id;
}

static const uint64_t three[] = { 0x7f0000001000, 0x7f0000002008, 0x555500003010 };

static void check_once(void)
{
        const uint64_t other[] = { 0x7f0000001000, 0x7f0000002008, 0x555500003018 };
        unsigned long before;
        uint32_t id, used;

        CHECK_EQUAL(infp_enable(), 0);
        id = send(three, 3, 1, 0);
        CHECK(id != 0);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_STACK), 1);
        before = n_mallocs;
        used = ring_chunk(id / 512)->used;
        CHECK_EQUAL(used, 40 + 3 * 8);
        CHECK_EQUAL(send(three, 3, 1, 0), id);
        CHECK_EQUAL(ring_chunk(id / 512)->used, used);
        /* Each of these is another one: address, length, epoch, what is missing. */
        CHECK_EQUAL(send(other, 3, 1, 0), id + used / 8);
        CHECK(send(three, 2, 1, 0) != id);
        CHECK(send(three, 3, 2, 0) != id);
        CHECK(send(three, 3, 1, INFP_WIRE_INCOMPLETE) != id);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_STACK), 5);
        CHECK_EQUAL(send(three, 3, 2, 0), send(three, 3, 2, 0));
        CHECK_EQUAL(send(NULL, 0, 1, 0), 0);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_STACK), 5);
        CHECK_EQUAL(n_mallocs, before);
        CHECK_EQUAL(ring_head()->refused_stacks, 0);
}

static void test_once(void **state)
{
        (void) state;
        in_child(directory, check_once);
}

static void expect_code(struct infp_ring *ring, uint32_t id, const char *file, const char *function, uint32_t line)
{
        struct infp_ring_code code;

        CHECK_EQUAL(infp_ring_code(ring, id, &code), 0);
        CHECK(code.file_size == strlen(file) && memcmp(code.file, file, code.file_size) == 0);
        CHECK(code.function_size == strlen(function) && memcmp(code.function, function, code.function_size) == 0);
        CHECK_EQUAL(code.line, line);
}

static void check_python(void)
{
        char text[600], long_file[300];
        struct infp_wire_python python[2] = { { 0, 12 }, { 0, INFP_WIRE_ENTRY | 90 } };
        struct infp_writer_stack stack = { three, python, 3, 2, 7, 0 };
        struct infp_ring_stack read;
        struct infp_ring_code code;
        struct infp_ring *ring;
        uint64_t begin_ns = infp_now_ns();
        uint32_t id, cut;

        memset(text, 'x', sizeof text);
        text[sizeof text - 1] = 0;
        memset(long_file, 'f', sizeof long_file);
        long_file[sizeof long_file - 1] = 0;
        CHECK_EQUAL(infp_enable(), 0);
        python[0].code = send_code("/srv/app.py", "decode", 10);
        python[1].code = send_code("/srv/app.py", "serve", 80);
        CHECK(python[0].code && python[1].code && python[0].code != python[1].code);
        CHECK_EQUAL(send_code("/srv/app.py", "decode", 10), python[0].code);
        CHECK(send_code("/srv/app.py", "decode", 11) != python[0].code);
        cut = send_code(long_file, text, 1);
        id = infp_writer_stack(infp_writer_begin(), &stack);
        infp_writer_end();

        ring = ring_reader(false);
        CHECK_EQUAL(infp_ring_stack(ring, id, &read), 0);
        CHECK(read.t_ns >= begin_ns && read.t_ns <= infp_now_ns());
        CHECK_EQUAL(read.epoch, 7);
        CHECK_EQUAL(read.n_addresses, 3);
        CHECK(memcmp(read.addresses, three, sizeof three) == 0);
        CHECK_EQUAL(read.n_python, 2);
        CHECK(read.python[0].line == 12 && !read.python[0].is_entry);
        CHECK(read.python[1].line == 90 && read.python[1].is_entry);
        CHECK(!read.is_truncated && !read.is_incomplete && !read.is_python_incomplete);
        expect_code(ring, read.python[0].code, "/srv/app.py", "decode", 10);
        expect_code(ring, read.python[1].code, "/srv/app.py", "serve", 80);
        CHECK_EQUAL(infp_ring_code(ring, cut, &code),
                    0); /* a file's name that no arena takes, a function's that is cut */
        CHECK_EQUAL(code.file_size, 299);
        CHECK_EQUAL(code.function_size, 512);
        /* One is not the other, and neither is what lies between. */
        CHECK_EQUAL(infp_ring_code(ring, id, &code), -EBADMSG);
        CHECK_EQUAL(infp_ring_stack(ring, cut, &read), -EBADMSG);
        CHECK_EQUAL(infp_ring_stack(ring, 0, &read), -ENOENT);
        infp_ring_close(ring);
}

static void test_python(void **state)
{
        (void) state;
        in_child(directory, check_python);
}

static void check_bounds(void)
{
        static uint64_t deep[1000];
        static struct infp_wire_python frames[1000];
        struct infp_writer_stack stack = { deep, frames, 1000, 1000, 1, 0 };
        struct infp_ring_stack read;
        struct infp_ring *ring;
        uint32_t whole, broken_off, cut;

        for (unsigned i = 0; i < 1000; i++) {
                deep[i] = 0x1000 + i;
                frames[i] = (struct infp_wire_python){ 0, i };
        }
        CHECK_EQUAL(infp_enable(), 0);
        cut = infp_writer_stack(infp_writer_begin(), &stack);
        infp_writer_end();
        whole = send(deep, INFP_WIRE_FRAMES, 1, 0);
        broken_off = send(deep, 1, 1, INFP_WIRE_INCOMPLETE | INFP_WIRE_PYTHON_INCOMPLETE);
        ring = ring_reader(false);
        CHECK_EQUAL(infp_ring_stack(ring, cut, &read), 0); /* the innermost ones */
        CHECK(read.n_addresses == 248 && read.addresses[0] == 0x1000 && read.addresses[247] == 0x1000 + 247);
        CHECK(read.n_python == 248 && read.python[0].line == 0 && read.python[247].line == 247);
        CHECK(read.is_truncated && read.is_python_incomplete && !read.is_incomplete);
        CHECK_EQUAL(infp_ring_stack(ring, whole, &read), 0);
        CHECK(read.n_addresses == 248 && read.n_python == 0 && !read.is_truncated);
        CHECK_EQUAL(infp_ring_stack(ring, broken_off, &read), 0);
        CHECK(!read.is_truncated && read.is_incomplete && read.is_python_incomplete);
        infp_ring_close(ring);
}

static void test_bounds(void **state)
{
        (void) state;
        in_child(directory, check_bounds);
}

static int put_nothing(void *context, const struct infp_row *row)
{
        (void) row;
        ++*(uint64_t *) context;
        return 0;
}

/* The recorder reads, chunks are used again and again: what was sent first stays, also for a reader that comes last. */
static void check_late(void)
{
        struct infp_ring *consumer, *late;
        struct infp_ring_stack read;
        uint64_t n = 0;
        uint32_t id;

        CHECK_EQUAL(infp_enable(), 0);
        consumer = ring_reader(true);
        id = send(three, 3, 1, 0);
        for (unsigned turn = 0; turn < 300; turn++) {
                for (unsigned i = 0; i < 200; i++)
                        infp_mark("mark");
                while (infp_ring_read(consumer, false, put_nothing, &n, NULL) > 0)
                        ;
        }
        CHECK_EQUAL(n, 300 * 200);
        CHECK_EQUAL(ring_head()->dropped_full, 0);
        CHECK(ring_count(INFP_WIRE_SEALED) < 200); /* they were */
        CHECK_EQUAL(infp_ring_counts(consumer)->unknown, 0);
        CHECK_EQUAL(send(three, 3, 1, 0), id);
        late = ring_reader(false);
        for (unsigned i = 0; i < 2; i++) {
                CHECK_EQUAL(infp_ring_stack(i ? late : consumer, id, &read), 0);
                CHECK(read.n_addresses == 3 && memcmp(read.addresses, three, sizeof three) == 0);
        }
        infp_ring_close(late);
        infp_ring_close(consumer);
}

static void test_late(void **state)
{
        (void) state;
        in_child(directory, check_late);
}

/* Between two turns of one pass of the reader a chunk of values becomes one of stacks: that is no damage. */
static void check_between_turns(void)
{
        infp_metric *metric = infp_gauge("gauge", NULL, NULL);
        uint64_t stack[100] = { 0 }, n = 0;
        struct infp_ring *consumer;

        infp_writer_config.bytes = 2 * 1024 * 1024;
        CHECK_EQUAL(infp_enable(), 0);
        consumer = ring_reader(true);
        for (unsigned i = 0; i < 60000; i++)
                infp_set(metric, i);
        CHECK_EQUAL(infp_ring_read(consumer, false, put_nothing, &n, NULL), 1);
        for (stack[0] = 1; ring_head()->refused_stacks == 0; stack[0]++)
                send(stack, 100, 1, 0);
        while (infp_ring_read(consumer, false, put_nothing, &n, NULL) > 0)
                ;
        CHECK(ring_head()->evicted_chunks > 0);
        CHECK_EQUAL(infp_ring_counts(consumer)->broken, 0);
        infp_ring_close(consumer);
}

static void test_between_turns(void **state)
{
        (void) state;
        in_child(directory, check_between_turns);
}

/* More than there is room for: the first are all there, later ones have no id and are counted, and marks have their part. */
static void check_full(void)
{
        enum { N = 60000 };
        static uint32_t ids[N];
        uint64_t stack[20] = { 0 };
        uint32_t n = 0, refused = 0;
        struct infp_ring_stack read;
        struct infp_ring *ring;

        infp_writer_config.bytes = 2 * 1024 * 1024;
        CHECK_EQUAL(infp_enable(), 0);
        for (unsigned i = 0; i < N; i++) {
                stack[0] = stack[19] = i + 1;
                ids[i] = send(stack, 20, 1, 0);
                n += ids[i] != 0;
                refused += ids[i] == 0;
        }
        CHECK_EQUAL(n + ring_head()->refused_stacks, N);
        /* 20 of 200 bytes a chunk, in half of some 460 chunks. */
        CHECK(n > 4000 && n < 5000);
        CHECK(refused > 0);
        for (unsigned i = 0; i < 4000; i++)
                infp_mark("mark");
        CHECK_EQUAL(ring_head()->dropped_full, 0);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_MARK), 4000);
        ring = ring_reader(true);
        CHECK_EQUAL(infp_ring_counts(ring)->refused_stacks, refused);
        for (unsigned i = 0; i < N; i++) {
                if (!ids[i])
                        continue;
                CHECK_EQUAL(infp_ring_stack(ring, ids[i], &read), 0);
                CHECK(read.n_addresses == 20 && read.addresses[0] == i + 1 && read.addresses[19] == i + 1);
        }
        infp_ring_close(ring);
}

static void test_full(void **state)
{
        (void) state;
        in_child(directory, check_full);
}

/* Threads that send the same stacks at once, while a reader looks them up. */
enum { THREADS = 4, STACKS = 2000 };
static _Atomic uint32_t sent[THREADS][STACKS];

static void *send_all(void *number)
{
        for (uint32_t i = 0; i < STACKS; i++) {
                const uint64_t stack[] = { i, i * 3, 5 };

                atomic_store(&sent[(uintptr_t) number][i], send(stack, 3, i % 4, 0));
        }
        return NULL;
}

static void check_threads(void)
{
        pthread_t threads[THREADS];
        struct infp_ring_stack read;
        struct infp_ring *ring;
        uint32_t n;

        CHECK_EQUAL(infp_enable(), 0);
        ring = ring_reader(true);
        for (uintptr_t i = 0; i < THREADS; i++)
                CHECK_EQUAL(pthread_create(&threads[i], NULL, send_all, (void *) i), 0);
        for (unsigned i = 0; i < STACKS; i++)
                for (unsigned k = 0; k < THREADS; k++) {
                        uint32_t id;

                        while (!(id = atomic_load(&sent[k][i])))
                                sched_yield();
                        CHECK_EQUAL(infp_ring_stack(ring, id, &read), 0);
                        CHECK(read.n_addresses == 3 && read.addresses[0] == i && read.addresses[1] == i * 3);
                        CHECK_EQUAL(read.epoch, i % 4);
                }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        infp_ring_close(ring);
        n = ring_count_kind(INFP_WIRE_STACK);
        CHECK(n >= STACKS && n < THREADS * STACKS); /* most of them once */
        send_all(NULL);
        CHECK_EQUAL(ring_count_kind(INFP_WIRE_STACK), n);
}

static void test_threads(void **state)
{
        (void) state;
        in_child(directory, check_threads);
}

/* A child of fork knows none of its parent's: it sends them again, into its own file. */
static void check_fork(void)
{
        uint32_t id;
        int status;
        pid_t pid;

        CHECK_EQUAL(infp_enable(), 0);
        send(three, 2, 1, 0);
        id = send(three, 3, 1, 0);
        pid = fork();
        if (pid == 0) {
                CHECK(send(three, 3, 1, 0) < id);
                CHECK_EQUAL(ring_count_kind(INFP_WIRE_STACK), 1);
                _exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        CHECK_EQUAL(send(three, 3, 1, 0), id);
}

static void test_fork(void **state)
{
        (void) state;
        in_child(directory, check_fork);
}

/* A file made by hand: its chunk 2 holds one stack of two addresses and one frame of Python, and its function. */
struct world {
        struct ring_sample *sample;
        struct infp_ring *ring;
        struct infp_wire_stack *stack;
        struct infp_wire_code *code;
        uint32_t stack_id, code_id;
        int file;
};

static void open_world(struct world *w)
{
        const struct infp_ring_owner owner = sample_owner();
        struct infp_err err;

        w->file = memfd_create("ring", MFD_CLOEXEC);
        assert_int_equal(ftruncate(w->file, SAMPLE_BYTES), 0);
        w->sample = mmap(NULL, SAMPLE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, w->file, 0);
        sample_init(w->sample);
        sample_claim(w->sample, 2, 1, 10);
        sample_chunk(w->sample, 2)->class = INFP_WIRE_STAY;
        w->stack = sample_stack(w->sample, 2, 10, 100, &w->stack_id);
        w->code = sample_code(w->sample, 2, 10, 100, &w->code_id);
        assert_int_equal(infp_ring_open(w->file, &owner, false, &w->ring, &err), 0);
}

static void close_world(struct world *w)
{
        infp_ring_close(w->ring);
        munmap(w->sample, SAMPLE_BYTES);
        close(w->file);
}

static void test_by_hand(void **state)
{
        struct infp_ring_stack stack;
        struct infp_ring_code code;
        struct world w;

        (void) state;
        open_world(&w);
        assert_int_equal(w.stack_id, (2 * 4096 + 64) / 8);
        assert_int_equal(w.code_id, (2 * 4096 + 64 + 64) / 8);
        assert_int_equal(infp_ring_stack(w.ring, w.stack_id, &stack), 0);
        assert_int_equal(stack.epoch, 3);
        assert_int_equal(stack.n_addresses, 2);
        assert_true(stack.addresses[0] == 0x1111 && stack.addresses[1] == 0x2222);
        assert_int_equal(stack.n_python, 1);
        assert_true(stack.python[0].code == w.code_id && stack.python[0].line == 5 && stack.python[0].is_entry);
        assert_int_equal(infp_ring_code(w.ring, w.code_id, &code), 0);
        assert_int_equal(code.line, 4);
        assert_int_equal(code.file_size, 4);
        assert_memory_equal(code.file, "a.py", 4);
        assert_memory_equal(code.function, "main", 4);
        /* A pass leaves the chunk out. */
        assert_int_equal(infp_ring_read(w.ring, true, put_nothing, &(uint64_t){ 0 }, NULL), 0);
        assert_int_equal(infp_ring_counts(w.ring)->broken, 0);
        close_world(&w);
}

/* Ids under which there is no stack: that is no fault of the file. */
static void test_absent(void **state)
{
        struct infp_ring_stack stack;
        struct world w;

        (void) state;
        open_world(&w);
        for (unsigned i = 0; i < 9; i++) {
                struct infp_wire_chunk *chunk = sample_chunk(w.sample, 2);
                const struct infp_wire_chunk before = *chunk;
                const uint32_t ids[] = { 0,
                                         1,
                                         7 /* in a head */,
                                         512 * 2 + 7,
                                         512 * 5 + 8 /* never claimed */,
                                         512 * 8 + 8 /* after the last chunk */,
                                         UINT32_MAX };
                uint32_t id = w.stack_id;

                if (i < 5)
                        chunk->used = i < 4 ? i * 5 : UINT32_MAX;
                else if (i == 5)
                        chunk->class = INFP_WIRE_KEEP;
                else if (i == 6)
                        chunk->stamp = (uint64_t) 1 << 3 | INFP_WIRE_CLAIMING;
                else if (i == 7)
                        chunk->stamp = 0;
                for (unsigned k = 0; i == 8 && k < sizeof ids / sizeof ids[0]; k++)
                        assert_int_equal(infp_ring_stack(w.ring, ids[k], &stack), -ENOENT);
                if (i == 8)
                        id = w.code_id + 512;
                assert_int_equal(infp_ring_stack(w.ring, id, &stack), -ENOENT);
                memcpy(chunk, &before, sizeof before);
        }
        assert_int_equal(infp_ring_counts(w.ring)->broken, 0);
        assert_int_equal(infp_ring_stack(w.ring, w.stack_id, &stack), 0);
        close_world(&w);
}

static void test_garbage(void **state)
{
        static const struct infp_wire_text parts[] = {
                { 40, 16 }, /* not in the record */
                { INFP_WIRE_INLINE | 40, 12 },
                { INFP_WIRE_INLINE | 41, 8 },
                { INFP_WIRE_INLINE | 0, 8 }, /* in the fixed part */
                { INFP_WIRE_INLINE | 64, 8 },
                { INFP_WIRE_INLINE | 0x7ffffff8, 8 },
                { INFP_WIRE_INLINE | 40, UINT32_MAX - 7 },
                { INFP_WIRE_INLINE | 40, 249 * 8 },
        };
        const uint16_t sizes[] = { 0, 8, 16, 32, 63, 65, 68, 4032 };
        const unsigned n_parts = sizeof parts / sizeof parts[0], n_sizes = sizeof sizes / sizeof sizes[0];
        struct infp_ring_stack stack;
        struct infp_ring_code code;
        struct world w;

        (void) state;
        open_world(&w);
        for (unsigned i = 0; i < 2 * n_parts + n_sizes + 3; i++) {
                unsigned char before[64];

                memcpy(before, w.stack, sizeof before);
                if (i < n_parts)
                        w.stack->native = parts[i];
                else if (i < 2 * n_parts)
                        w.stack->python = parts[i - n_parts];
                else if (i < 2 * n_parts + n_sizes)
                        w.stack->record.size = sizes[i - 2 * n_parts];
                else if (i == 2 * n_parts + n_sizes)
                        w.stack->record.kind = INFP_WIRE_CODE;
                else if (i == 2 * n_parts + n_sizes + 1)
                        w.stack->record.kind = 200;
                else
                        w.stack->record.t_ns = UINT64_MAX;
                assert_int_equal(infp_ring_stack(w.ring, w.stack_id, &stack), -EBADMSG);
                assert_int_equal(infp_ring_counts(w.ring)->broken, i + 1);
                memcpy(w.stack, before, sizeof before);
        }
        w.code->function = (struct infp_wire_text){ INFP_WIRE_INLINE | 40, 2000 };
        assert_int_equal(infp_ring_code(w.ring, w.code_id, &code), -EBADMSG);
        w.code->function = (struct infp_wire_text){ 4000, 97 }; /* beyond the arena */
        assert_int_equal(infp_ring_code(w.ring, w.code_id, &code), -EBADMSG);
        assert_int_equal(infp_ring_stack(w.ring, w.stack_id + 1, &stack), -EBADMSG); /* in the middle of a record */
        assert_int_equal(infp_ring_stack(w.ring, w.stack_id, &stack), 0);
        close_world(&w);
}

/* In a chunk of marks they are records that no writer makes; in a file that was cut there are none. */
static void test_elsewhere(void **state)
{
        struct infp_ring_stack stack;
        struct world w;
        uint64_t n = 0;
        uint32_t id;

        (void) state;
        open_world(&w);
        sample_claim(w.sample, 1, 1, 11);
        sample_mark(w.sample, 1, 11, 100, "a");
        sample_stack(w.sample, 1, 11, 200, &id);
        sample_mark(w.sample, 1, 11, 300, "b");
        assert_true(infp_ring_read(w.ring, true, put_nothing, &n, NULL) >= 0);
        assert_int_equal(n, 2);
        assert_int_equal(infp_ring_counts(w.ring)->broken, 1);
        assert_int_equal(infp_ring_stack(w.ring, id, &stack), -ENOENT);
        assert_int_equal(ftruncate(w.file, 4096), 0);
        assert_int_equal(infp_ring_stack(w.ring, w.stack_id, &stack), -ENOENT);
        close_world(&w);
}

/* ---- samples of a sampler inside the process ---- */

struct seen {
        unsigned n;
        struct infp_ring_sample sample;
        uint64_t address;
        struct infp_ring_python python[2];
};

static void see(void *context, const struct infp_ring_sample *sample)
{
        struct seen *seen = context;

        seen->n++;
        seen->sample = *sample;
        if (sample->stack.n_addresses)
                seen->address = sample->stack.addresses[sample->stack.n_addresses - 1];
        for (unsigned i = 0; i < 2 && i < sample->stack.n_python; i++)
                seen->python[i] = sample->stack.python[i];
}

static int no_row(void *context, const struct infp_row *row)
{
        (void) context;
        (void) row;
        return 0;
}

/* Returns where the record lies. */
static struct infp_wire_sample *send_sample(uint8_t flags, uint32_t cpu, uint32_t n_native)
{
        static const struct infp_wire_python python[] = { { 64, INFP_WIRE_ENTRY | 12 },
                                                          { INFP_WIRE_SHIM, INFP_WIRE_ENTRY } };
        struct infp_writer_thread *thread = infp_writer_begin();
        struct infp_wire_sample sample = {
                .record = { .kind = INFP_WIRE_SAMPLE, .flags = flags, .t_ns = infp_writer_now_ns() },
                .cpu = cpu,
                .periods = 3,
                .epoch = 5,
                .tid = 4711
        };
        const struct infp_writer_text texts[] = { { &sample.native, (const char *) three, n_native * 8 },
                                                  { &sample.python, (const char *) python, sizeof python } };
        uint64_t *at = infp_writer_put(thread, INFP_WIRE_RECENT, &sample, sizeof sample, texts, 2);

        infp_writer_end();
        return (struct infp_wire_sample *) at;
}

static void check_samples(void)
{
        struct infp_ring_sampler sampler;
        struct seen seen = { 0 };
        struct infp_ring *ring;

        infp_writer_sampler_hz_1000 = 99500;
        CHECK_EQUAL(infp_enable(), 0);
        ring = ring_reader(true);
        send_sample(0, 1, 3); /* nobody takes it */
        CHECK_EQUAL(infp_ring_read(ring, false, no_row, NULL, NULL), 0);
        infp_ring_on_sample(ring, see, &seen);
        send_sample(INFP_WIRE_PYTHON_INCOMPLETE | INFP_WIRE_TRUNCATED, 1, 3);
        CHECK_EQUAL(infp_ring_read(ring, false, no_row, NULL, NULL), 0);
        CHECK_EQUAL(seen.n, 1);
        CHECK_EQUAL(seen.sample.tid, 4711);
        CHECK_EQUAL(seen.sample.cpu, 1);
        CHECK_EQUAL(seen.sample.periods, 3);
        CHECK_EQUAL(seen.sample.epoch, 5);
        CHECK_EQUAL(seen.sample.stack.n_addresses, 3);
        CHECK_EQUAL(seen.address, three[2]);
        CHECK_EQUAL(seen.sample.stack.n_python, 2);
        CHECK(seen.python[0].code == 64 && seen.python[0].line == 12 && seen.python[0].is_entry &&
              !seen.python[0].is_shim);
        CHECK(seen.python[1].is_shim && seen.python[1].is_entry);
        CHECK(seen.sample.stack.is_truncated && seen.sample.stack.is_python_incomplete &&
              !seen.sample.stack.is_incomplete);
        send_sample(0, UINT32_MAX, 0);
        CHECK_EQUAL(infp_ring_read(ring, false, no_row, NULL, NULL), 0);
        CHECK(seen.n == 2 && seen.sample.cpu == -1 && seen.sample.stack.n_addresses == 0);

        CHECK(infp_ring_sampler(ring, &sampler));
        CHECK(sampler.hz == 99.5 && sampler.state == 0);
        infp_ring_offer_tables(ring, 6);
        CHECK_EQUAL(ring_head()->tables, 6);
        CHECK_EQUAL(infp_ring_counts(ring)->broken, 0);
        infp_ring_close(ring);
        CHECK_EQUAL(ring_head()->consumer_pid, 0);
}

/* A part that lies elsewhere, is too long or no whole frames. */
static void check_broken_samples(void)
{
        static const struct infp_wire_text parts[] = {
                { 56, 8 },
                { INFP_WIRE_INLINE | 48, 8 },
                { INFP_WIRE_INLINE | 56, 4 },
                { INFP_WIRE_INLINE | 57, 8 },
                { INFP_WIRE_INLINE | 56, UINT32_MAX - 7 },
                { INFP_WIRE_INLINE | 3000, 8 },
                { INFP_WIRE_INLINE | 56, 8 * 249 },
        };
        struct seen seen = { 0 };
        struct infp_ring *ring;

        infp_writer_sampler_hz_1000 = 1000;
        CHECK_EQUAL(infp_enable(), 0);
        ring = ring_reader(false);
        infp_ring_on_sample(ring, see, &seen);
        for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
                struct infp_wire_sample *sample = send_sample(0, 1, 3);

                *(i % 2 ? &sample->native : &sample->python) = parts[i];
                CHECK_EQUAL(infp_ring_read(ring, false, no_row, NULL, NULL), 0);
                CHECK_EQUAL(infp_ring_counts(ring)->broken, i + 1);
                infp_ring_offer_tables(ring, 1); /* it is no consumer */
        }
        CHECK(seen.n == 0 && ring_head()->tables == 0);
        infp_ring_close(ring);
}

static void test_samples(void **state)
{
        (void) state;
        in_child(directory, check_samples);
        in_child(directory, check_broken_samples);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_once),    cmocka_unit_test(test_python),    cmocka_unit_test(test_bounds),
                cmocka_unit_test(test_late),    cmocka_unit_test(test_full),      cmocka_unit_test(test_threads),
                cmocka_unit_test(test_fork),    cmocka_unit_test(test_by_hand),   cmocka_unit_test(test_absent),
                cmocka_unit_test(test_garbage), cmocka_unit_test(test_elsewhere), cmocka_unit_test(test_between_turns),
                cmocka_unit_test(test_samples),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
