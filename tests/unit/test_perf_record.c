/* What the kernel writes into a buffer of perf events: records by hand, broken ones, and the order of several rings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sampler/perf/record.h"
#include "sampler/perf/ring.h"

enum { PAGE = 4096, RING = 4096, MAX = 1 << 16 };

/* A record that grows; its size is put into its head at the end. */
struct record {
        uint8_t bytes[MAX];
        size_t size;
};

static void put(struct record *record, const void *data, size_t size)
{
        memcpy(record->bytes + record->size, data, size);
        record->size += size;
}

static void put_u64(struct record *record, uint64_t v)
{
        put(record, &v, sizeof(v));
}

static void put_2(struct record *record, uint32_t a, uint32_t b)
{
        put(record, &a, sizeof(a));
        put(record, &b, sizeof(b));
}

static void begin(struct record *record, uint32_t type, uint16_t misc)
{
        const struct perf_event_header head = { .type = type, .misc = misc };

        record->size = 0;
        put(record, &head, sizeof(head));
}

static void finish(struct record *record)
{
        const uint16_t size = (uint16_t) record->size;

        memcpy(record->bytes + offsetof(struct perf_event_header, size), &size, sizeof(size));
}

/* Thread, time and CPU, as they stand behind all but samples. */
static void finish_task(struct record *record, uint32_t pid, uint32_t tid, uint64_t t_ns)
{
        put_2(record, pid, tid);
        put_u64(record, t_ns);
        put_2(record, 3, 0);
        finish(record);
}

/* What the handler has heard, as words. */
struct heard {
        char text[2048];
        struct infp_perf_sample sample;
        struct infp_switch wait;
        uint64_t kernel[8];
        uint8_t stack[64];
};

static void say(struct heard *heard, const char *format, ...)
{
        const size_t used = strlen(heard->text);
        va_list ap;

        va_start(ap, format);
        vsnprintf(heard->text + used, sizeof(heard->text) - used, format, ap);
        va_end(ap);
}

static void on_sample(void *context, const struct infp_perf_sample *sample)
{
        struct heard *heard = context;

        heard->sample = *sample;
        if (sample->wait)
                heard->wait = *sample->wait;
        for (uint32_t i = 0; i < sample->n_kernel && i < INFP_COUNT(heard->kernel); i++)
                heard->kernel[i] = sample->kernel[i];
        if (sample->stack)
                memcpy(heard->stack, sample->stack, sample->stack_size < 64 ? sample->stack_size : 64);
        say(heard, "sample %d/%d at %llu;", sample->pid, sample->tid, (unsigned long long) sample->t_ns);
}

static void on_mapping(void *context, const struct infp_perf_mapping *m)
{
        say(context, "map %d %llx+%llx of %llx %s inode %llu id %u:%02x;", m->pid, (unsigned long long) m->begin,
            (unsigned long long) m->size, (unsigned long long) m->offset, m->path, (unsigned long long) m->inode,
            m->build_id_size, m->build_id ? m->build_id[0] : 0);
}

static void on_name(void *context, uint64_t t_ns, int32_t pid, int32_t tid, const char *name, bool is_exec)
{
        say(context, "name %d/%d %s%s at %llu;", pid, tid, name, is_exec ? " by exec" : "", (unsigned long long) t_ns);
}

static void on_fork(void *context, uint64_t t_ns, int32_t pid, int32_t tid, int32_t parent_pid, int32_t parent_tid)
{
        say(context, "fork %d/%d of %d/%d at %llu;", pid, tid, parent_pid, parent_tid, (unsigned long long) t_ns);
}

static void on_end(void *context, uint64_t t_ns, int32_t pid, int32_t tid)
{
        say(context, "exit %d/%d at %llu;", pid, tid, (unsigned long long) t_ns);
}

static void on_run(void *context, uint64_t t_ns, int32_t pid, int32_t tid, bool is_in, bool is_preempted)
{
        say(context, "%s%s %d/%d at %llu;", is_in ? "in" : "out", is_preempted ? " preempted" : "", pid, tid,
            (unsigned long long) t_ns);
}

static struct infp_perf_handler handler_of(struct heard *heard)
{
        return (struct infp_perf_handler){ heard, on_sample, on_mapping, on_name, on_fork, on_end, on_run };
}

/* A sample with the parts that the options say. */
struct parts {
        uint32_t n_kernel;
        uint64_t abi, period, stack_size, stack_used;
        const struct infp_switch *wait;
        uint32_t wait_size;
};

static void make_sample(struct record *record, const struct parts *parts, uint64_t t_ns)
{
        begin(record, PERF_RECORD_SAMPLE, parts->n_kernel ? PERF_RECORD_MISC_KERNEL : PERF_RECORD_MISC_USER);
        put_2(record, 10, 11);
        put_u64(record, t_ns);
        put_2(record, 3, 0);
        put_u64(record, parts->period);
        put_u64(record, parts->n_kernel ? parts->n_kernel + 1 : 0);
        if (parts->n_kernel)
                put_u64(record, (uint64_t) PERF_CONTEXT_KERNEL);
        for (uint32_t i = 0; i < parts->n_kernel; i++)
                put_u64(record, UINT64_C(0xffffffff81000000) + i);
        if (parts->wait) {
                put(record, &parts->wait_size, sizeof(parts->wait_size));
                put(record, parts->wait, sizeof(*parts->wait));
                put_2(record, 0, 0); /* with its size a multiple of 8 */
                record->size -= 4;
        }
        put_u64(record, parts->abi);
        for (uint64_t i = 0; parts->abi && i < INFP_N_REGISTERS; i++)
                put_u64(record, 100 + i);
        put_u64(record, parts->stack_size);
        for (uint64_t i = 0; i < parts->stack_size; i += 8)
                put_u64(record, 0x1111111111111111 * (i / 8 + 1));
        if (parts->stack_size)
                put_u64(record, parts->stack_used);
        finish(record);
}

static void give(struct infp_perf_reader *reader, const struct record *record)
{
        infp_perf_record_give(reader, record->bytes, record->size);
}

static void test_sample(void **state)
{
        /* The kernel's numbers of registers (rax rbx rcx rdx rsi rdi rbp rsp rip r8-r15), as DWARF counts them. */
        static const uint64_t expected[INFP_N_REGISTERS] = { 100, 103, 102, 101, 104, 105, 106, 107, 109,
                                                             110, 111, 112, 113, 114, 115, 116, 108 };
        const struct parts parts = { 2, PERF_SAMPLE_REGS_ABI_64, 1000000, 32, 24 };
        struct heard heard = { .text = "" };
        const struct infp_perf_handler handler = handler_of(&heard);
        struct infp_perf_reader reader = { .handler = &handler, .has_callchain = true };
        struct record record;

        (void) state;
        make_sample(&record, &parts, 500);
        give(&reader, &record);
        assert_string_equal(heard.text, "sample 10/11 at 500;");
        assert_int_equal(heard.sample.cpu, 3);
        assert_int_equal(heard.sample.period, 1000000);
        assert_false(heard.sample.is_switch);
        assert_true(heard.sample.is_in_kernel);
        assert_int_equal(heard.sample.n_kernel, 2);
        assert_true(heard.kernel[1] == UINT64_C(0xffffffff81000001));
        assert_true(heard.sample.has_registers);
        assert_memory_equal(heard.sample.registers, expected, sizeof(expected));
        assert_int_equal(heard.sample.stack_size, 24);
        assert_int_equal(heard.stack[8], 0x22);
        assert_true(heard.sample.is_cut);
        assert_int_equal(reader.n_samples, 1);
}

/* A program in the kernel had perf write it: its own frames do not belong to the wait. */
static void test_sample_of_wait(void **state)
{
        const struct infp_switch wait = { .out_ns = 7, .in_ns = 9, .place = UINT64_C(0xffffffff81000002) };
        struct parts parts = { 4, PERF_SAMPLE_REGS_ABI_64, 0, 16, 16, &wait, sizeof(wait) + 4 };
        struct heard heard = { .text = "" };
        const struct infp_perf_handler handler = handler_of(&heard);
        struct infp_perf_reader reader = {
                .handler = &handler, .has_callchain = true, .has_waits = true, .is_of_switches = true
        };
        static const uint32_t bad_sizes[] = { 0, sizeof(wait) - 1, MAX, UINT32_MAX };
        struct record record;

        (void) state;
        make_sample(&record, &parts, 500);
        give(&reader, &record);
        assert_string_equal(heard.text, "sample 10/11 at 500;");
        assert_true(heard.sample.is_switch);
        assert_int_equal(heard.wait.out_ns, 7);
        assert_int_equal(heard.sample.n_kernel, 2);
        assert_true(heard.kernel[0] == wait.place);
        assert_int_equal(heard.stack[8], 0x22);
        assert_int_equal(reader.n_samples, 0);
        for (uint32_t i = 0; i < INFP_COUNT(bad_sizes); i++) {
                parts.wait_size = bad_sizes[i];
                make_sample(&record, &parts, 500);
                give(&reader, &record);
                assert_int_equal(reader.n_broken, i + 1);
        }
}

static void test_sample_of_less(void **state)
{
        static const struct {
                struct parts parts;
                bool has_registers, is_cut, is_switch;
        } cases[] = {
                { { 3, PERF_SAMPLE_REGS_ABI_NONE, 1000, 0, 0 }, false, false, false }, /* a thread of the kernel */
                { { 0, PERF_SAMPLE_REGS_ABI_32, 1000, 16, 8 }, false, true, false },   /* a program of 32 bits */
                { { 0, PERF_SAMPLE_REGS_ABI_64, 1000, 16, 16 }, true, true, false },
                { { 1, PERF_SAMPLE_REGS_ABI_64, INFP_PERF_SWITCH_PERIOD, 16, 8 }, true, true, true },
        };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(cases); i++) {
                struct heard heard = { .text = "" };
                const struct infp_perf_handler handler = handler_of(&heard);
                struct infp_perf_reader reader = { .handler = &handler, .has_callchain = true };
                struct record record;

                make_sample(&record, &cases[i].parts, 500);
                give(&reader, &record);
                assert_string_equal(heard.text, "sample 10/11 at 500;");
                assert_int_equal(heard.sample.has_registers, cases[i].has_registers);
                assert_int_equal(heard.sample.is_cut, cases[i].is_cut);
                assert_int_equal(heard.sample.is_switch, cases[i].is_switch);
                assert_int_equal(reader.n_samples, !cases[i].is_switch);
        }
}

static void put_text(struct record *record, const char *text)
{
        char padded[64] = "";

        strcpy(padded, text);
        put(record, padded, (strlen(text) + 8) / 8 * 8);
}

static void make_mapping(struct record *record, uint16_t misc, const uint8_t identity[24])
{
        begin(record, PERF_RECORD_MMAP2, misc);
        put_2(record, 10, 11);
        put_u64(record, 0x7f0000001000);
        put_u64(record, 0x2000);
        put_u64(record, 0x1000);
        put(record, identity, 24);
        put_2(record, 5, 2);
        put_text(record, "/lib/x.so");
        finish_task(record, 10, 11, 600);
}

static void test_tasks(void **state)
{
        static const uint8_t inode[24] = { 8, 0, 0, 0, 1, 0, 0, 0, 77 }, id[24] = { 20, 0, 0, 0, 0xab, 0xcd };
        struct heard heard = { .text = "" };
        const struct infp_perf_handler handler = handler_of(&heard);
        struct infp_perf_reader reader = { .handler = &handler };
        struct record record;

        (void) state;
        make_mapping(&record, 0, inode);
        give(&reader, &record);
        make_mapping(&record, PERF_RECORD_MISC_MMAP_BUILD_ID, id);
        give(&reader, &record);
        begin(&record, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
        put_2(&record, 10, 11);
        put_text(&record, "server");
        finish_task(&record, 10, 11, 700);
        give(&reader, &record);
        begin(&record, PERF_RECORD_FORK, 0);
        put_2(&record, 20, 10); /* pid, parent; tid, parent */
        put_2(&record, 21, 11);
        put_u64(&record, 800);
        finish_task(&record, 20, 21, 801);
        give(&reader, &record);
        begin(&record, PERF_RECORD_EXIT, 0);
        put_2(&record, 20, 10);
        put_2(&record, 21, 11);
        put_u64(&record, 900);
        finish_task(&record, 20, 21, 901);
        give(&reader, &record);
        begin(&record, PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT);
        finish_task(&record, 10, 11, 1000);
        give(&reader, &record);
        begin(&record, PERF_RECORD_SWITCH, 0);
        finish_task(&record, 10, 11, 1001);
        give(&reader, &record);
        begin(&record, PERF_RECORD_LOST, 0);
        put_u64(&record, 1);
        put_u64(&record, 12);
        finish_task(&record, 10, 11, 1002);
        give(&reader, &record);
        begin(&record, PERF_RECORD_THROTTLE, 0);
        for (unsigned i = 0; i < 3; i++)
                put_u64(&record, 1);
        finish_task(&record, 10, 11, 1003);
        give(&reader, &record);
        assert_string_equal(heard.text, "map 10 7f0000001000+2000 of 1000 /lib/x.so inode 77 id 0:00;"
                                        "map 10 7f0000001000+2000 of 1000 /lib/x.so inode 0 id 20:ab;"
                                        "name 10/11 server by exec at 700;"
                                        "fork 20/21 of 10/11 at 801;"
                                        "exit 20/21 at 901;"
                                        "out preempted 10/11 at 1000;"
                                        "in 10/11 at 1001;");
        assert_int_equal(reader.n_lost, 12);
        assert_int_equal(reader.n_throttled, 1);
        assert_int_equal(reader.n_broken, 0);
}

static bool is_20(void *context, int32_t pid, int32_t tid)
{
        (void) context;
        (void) tid;
        return pid == 20;
}

static void test_others_are_left_out(void **state)
{
        const struct parts parts = { 0, PERF_SAMPLE_REGS_ABI_64, 1000, 16, 8 };
        struct heard heard = { .text = "" };
        const struct infp_perf_handler handler = handler_of(&heard);
        struct infp_perf_reader reader = { .handler = &handler, .has_callchain = true, .is_wanted = is_20 };
        struct record record;
        const uint32_t nobody = 0;

        (void) state;
        make_sample(&record, &parts, 500);
        give(&reader, &record);
        begin(&record, PERF_RECORD_SWITCH, 0);
        finish_task(&record, 10, 11, 1001);
        give(&reader, &record);
        assert_string_equal(heard.text, "");
        assert_int_equal(reader.n_foreign, 1);
        /* A thread that has left its process. */
        reader.is_wanted = NULL;
        make_sample(&record, &parts, 500);
        memcpy(record.bytes + 8, &nobody, sizeof(nobody));
        give(&reader, &record);
        assert_string_equal(heard.text, "");
        assert_int_equal(reader.n_foreign, 2);
        assert_int_equal(reader.n_samples, 0);
}

/* Each record, cut at each length, and with each of its words replaced by what is large: nothing behind its end is read (the copy is
 * as long as it says, for the sanitizers), and nothing is given on that has less than all of its parts. */
static void test_broken(void **state)
{
        const struct parts parts = { 2, PERF_SAMPLE_REGS_ABI_64, 1000, 32, 24 };
        static const uint8_t id[24] = { 20, 0, 0, 0, 0xab, 0xcd };
        struct record records[2];

        (void) state;
        make_sample(&records[0], &parts, 500);
        make_mapping(&records[1], PERF_RECORD_MISC_MMAP_BUILD_ID, id);
        for (size_t i = 0; i < INFP_COUNT(records); i++)
                for (size_t size = 0; size < records[i].size; size++) {
                        struct heard heard = { .text = "" };
                        const struct infp_perf_handler handler = handler_of(&heard);
                        struct infp_perf_reader reader = { .handler = &handler, .has_callchain = true };
                        uint8_t *copy = malloc(size + !size);

                        memcpy(copy, records[i].bytes, size);
                        infp_perf_record_give(&reader, copy, size);
                        free(copy);
                        if (i == 0) {
                                assert_string_equal(heard.text, "");
                                assert_int_equal(reader.n_broken, 1);
                        }
                }
        for (size_t i = 0; i < INFP_COUNT(records); i++)
                for (size_t at = 8; at < records[i].size; at += 4) {
                        struct heard heard = { .text = "" };
                        const struct infp_perf_handler handler = handler_of(&heard);
                        struct infp_perf_reader reader = { .handler = &handler, .has_callchain = true };
                        uint8_t *copy = malloc(records[i].size);

                        memcpy(copy, records[i].bytes, records[i].size);
                        memset(copy + at, 0xff, 4);
                        infp_perf_record_give(&reader, copy, records[i].size);
                        free(copy);
                }
}

/* A buffer as the kernel maps it. */
struct buffer {
        struct infp_perf_ring ring;
        void *memory;
        struct perf_event_mmap_page *page;
};

static void buffer_open(struct buffer *buffer, uint64_t at)
{
        buffer->memory = calloc(1, PAGE + RING);
        buffer->page = buffer->memory;
        assert_int_equal(infp_perf_ring_init(&buffer->ring, buffer->memory, PAGE, RING), 0);
        buffer->page->data_head = buffer->page->data_tail = buffer->ring.head = buffer->ring.tail = at;
}

static void buffer_close(struct buffer *buffer)
{
        infp_perf_ring_done(&buffer->ring);
        free(buffer->memory);
}

static void write_to(struct buffer *buffer, const struct record *record)
{
        uint8_t *data = (uint8_t *) buffer->memory + PAGE;

        for (size_t i = 0; i < record->size; i++)
                data[(buffer->page->data_head + i) % RING] = record->bytes[i];
        buffer->page->data_head += record->size;
}

static void write_exit(struct buffer *buffer, uint32_t pid, uint64_t t_ns)
{
        struct record record;

        begin(&record, PERF_RECORD_EXIT, 0);
        put_2(&record, pid, 1);
        put_2(&record, pid, 1);
        put_u64(&record, t_ns);
        finish_task(&record, pid, pid, t_ns);
        write_to(buffer, &record);
}

static void test_order_of_rings(void **state)
{
        struct buffer buffers[2];
        struct infp_perf_ring rings[2];
        struct infp_perf_ring *ring;
        struct heard heard = { .text = "" };
        const struct infp_perf_handler handler = handler_of(&heard);
        struct infp_perf_reader reader = { .handler = &handler };

        (void) state;
        for (unsigned i = 0; i < 2; i++)
                buffer_open(&buffers[i], 0);
        write_exit(&buffers[0], 1, 10);
        write_exit(&buffers[0], 4, 40);
        write_exit(&buffers[0], 5, 50);
        write_exit(&buffers[1], 2, 20);
        write_exit(&buffers[1], 3, 30);
        for (unsigned i = 0; i < 2; i++) {
                rings[i] = buffers[i].ring;
                infp_perf_ring_look(&rings[i]);
        }
        /* What is written behind the look waits, and so does what is newer than the moment. */
        write_exit(&buffers[1], 6, 35);
        while ((ring = infp_perf_ring_oldest(rings, 2, 40))) {
                infp_perf_record_give(&reader, ring->record, ring->record_size);
                infp_perf_ring_pop(ring);
        }
        assert_string_equal(heard.text, "exit 1/1 at 10;exit 2/2 at 20;exit 3/3 at 30;exit 4/4 at 40;");
        assert_int_equal(buffers[1].page->data_tail, rings[1].tail);
        assert_int_equal(rings[0].head - rings[0].tail, buffers[0].page->data_head / 3);
        for (unsigned i = 0; i < 2; i++)
                buffer_close(&buffers[i]);
}

/* Whatever lies at its end, a record is given in one piece. */
static void test_wrap(void **state)
{
        const struct parts parts = { 2, PERF_SAMPLE_REGS_ABI_64, 1000, 32, 24 };
        struct record record;

        (void) state;
        make_sample(&record, &parts, 500);
        for (uint64_t at = RING - 400; at < RING + 8; at += 8) {
                struct buffer buffer;

                buffer_open(&buffer, at);
                write_to(&buffer, &record);
                infp_perf_ring_look(&buffer.ring);
                assert_true(infp_perf_ring_peek(&buffer.ring));
                assert_int_equal(buffer.ring.t_ns, 500);
                assert_int_equal(buffer.ring.record_size, record.size);
                assert_memory_equal(buffer.ring.record, record.bytes, record.size);
                infp_perf_ring_pop(&buffer.ring);
                assert_false(infp_perf_ring_peek(&buffer.ring));
                buffer_close(&buffer);
        }
}

/* A head that cannot be: all that lies there is left out, and what is written next is read. */
static void test_broken_ring(void **state)
{
        static const uint16_t sizes[] = { 0, 7, 12, 4000, 65528 };

        (void) state;
        for (size_t i = 0; i < INFP_COUNT(sizes); i++) {
                struct buffer buffer;
                struct record record = { .size = 16 };

                memset(record.bytes, 0, 16);
                memcpy(record.bytes + offsetof(struct perf_event_header, size), &sizes[i], sizeof(sizes[i]));
                buffer_open(&buffer, 0);
                write_to(&buffer, &record);
                infp_perf_ring_look(&buffer.ring);
                assert_false(infp_perf_ring_peek(&buffer.ring));
                assert_int_equal(buffer.ring.n_broken, 1);
                assert_int_equal(buffer.page->data_tail, 16);
                write_exit(&buffer, 1, 10);
                infp_perf_ring_look(&buffer.ring);
                assert_true(infp_perf_ring_peek(&buffer.ring));
                /* A head of the kernel that ran away. */
                buffer.page->data_head += 3 * RING;
                infp_perf_ring_pop(&buffer.ring);
                infp_perf_ring_look(&buffer.ring);
                assert_false(infp_perf_ring_peek(&buffer.ring));
                assert_int_equal(buffer.ring.n_broken, 2);
                buffer_close(&buffer);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sample),
                cmocka_unit_test(test_sample_of_wait),
                cmocka_unit_test(test_sample_of_less),
                cmocka_unit_test(test_tasks),
                cmocka_unit_test(test_others_are_left_out),
                cmocka_unit_test(test_broken),
                cmocka_unit_test(test_order_of_rings),
                cmocka_unit_test(test_wrap),
                cmocka_unit_test(test_broken_ring),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
