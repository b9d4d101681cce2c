/* The rest of a stack that is larger than its copy: what is read after the sample, and what the kernel's program read in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "sampler/python/deep.h"
#include "sampler/stacks/rest.h"

/* ---- after the sample ---- */

enum { COPY = 4096, MEMORY = 20 * INFP_REST_PIECE, UNMAPPED = 4096 };

/* A stack in our own memory, with an end; the sample has a copy of its first bytes. */
static uint8_t copy[COPY];
static uint8_t *memory;
static struct infp_perf_sample sample;

static int begin(void **state)
{
        (void) state;
        memory = mmap(NULL, MEMORY + UNMAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || munmap(memory + MEMORY, UNMAPPED) < 0)
                return -1;
        for (size_t i = 0; i < MEMORY; i++)
                memory[i] = (uint8_t) (i * 2654435761u >> 13);
        memcpy(copy, memory, COPY);
        sample = (struct infp_perf_sample){ .pid = getpid(), .stack = copy, .stack_size = COPY, .is_cut = true };
        sample.registers[INFP_RSP] = (uint64_t) (uintptr_t) memory;
        return 0;
}

static int end(void **state)
{
        (void) state;
        return munmap(memory, MEMORY);
}

static uint64_t address(size_t offset)
{
        return (uint64_t) (uintptr_t) memory + offset;
}

/* Each part holds what is in memory there, and no byte is in two. */
static void check_parts(const struct infp_rest *rest, unsigned n)
{
        assert_int_equal(rest->n_dumps, n);
        for (unsigned i = 0; i < n; i++) {
                const struct infp_unwind_dump *dump = &rest->dumps[i];

                assert_memory_equal(dump->bytes, (void *) (uintptr_t) dump->begin, dump->size);
                assert_true(dump->begin >= address(COPY));
                for (unsigned k = 0; k < i; k++)
                        assert_true(dump->begin >= rest->dumps[k].begin + rest->dumps[k].size ||
                                    dump->begin + dump->size <= rest->dumps[k].begin);
        }
}

static void pieces_are_read_where_they_are_asked_for(void **state)
{
        struct infp_rest rest = { .bytes = NULL };

        (void) state;
        infp_rest_begin(&rest, &sample, 0);
        assert_int_equal(infp_rest_add(&rest, address(COPY)), INFP_REST_READ);
        assert_int_equal(rest.dumps[0].begin, address(COPY));
        assert_int_equal(infp_rest_add(&rest, address(5 * INFP_REST_PIECE)), INFP_REST_READ);
        assert_int_equal(infp_rest_add(&rest, address(5 * INFP_REST_PIECE - 256)),
                         INFP_REST_READ);                                             /* up to the one above */
        assert_int_equal(infp_rest_add(&rest, address(MEMORY - 64)), INFP_REST_READ); /* as far as there is memory */
        check_parts(&rest, 4);
        assert_int_equal(infp_rest_add(&rest, address(MEMORY)), INFP_REST_NONE);
        assert_int_equal(infp_rest_add(&rest, 1), INFP_REST_NONE);
        assert_true(infp_rest_holds(&rest));
        infp_rest_done(&rest);
}

static void they_are_bounded(void **state)
{
        struct infp_rest rest = { .bytes = NULL };

        (void) state;
        infp_rest_begin(&rest, &sample, 0);
        for (unsigned i = 0; i < INFP_REST_PIECES; i++)
                assert_int_equal(infp_rest_add(&rest, address(COPY + i * (size_t) INFP_REST_PIECE)), INFP_REST_READ);
        check_parts(&rest, INFP_REST_PIECES);
        assert_int_equal(infp_rest_add(&rest, address(18 * INFP_REST_PIECE)), INFP_REST_NONE);
        infp_rest_done(&rest);
}

static void nothing_is_joined_once_the_calls_have_changed(void **state)
{
        struct infp_rest rest = { .bytes = NULL };
        const uint64_t last_four = address(COPY - 2048);

        (void) state;
        memory[100] ^= 1; /* an inner function works on */
        infp_rest_begin(&rest, &sample, last_four);
        assert_int_equal(infp_rest_add(&rest, address(COPY)), INFP_REST_READ);
        assert_true(infp_rest_holds(&rest));
        memory[COPY - 2048] ^= 1; /* the return address of one of the outer calls */
        assert_false(infp_rest_holds(&rest));
        assert_int_equal(infp_rest_add(&rest, address(2 * INFP_REST_PIECE)), INFP_REST_MOVED);
        infp_rest_begin(&rest, &sample, last_four);
        assert_int_equal(infp_rest_add(&rest, address(COPY)), INFP_REST_MOVED);
        memory[COPY - 2048] ^= 1;
        infp_rest_begin(&rest, &sample, 0); /* of few calls all is looked at */
        assert_int_equal(infp_rest_add(&rest, address(COPY)), INFP_REST_MOVED);
        memory[100] ^= 1;
        memory[COPY - INFP_REST_WITNESS] ^= 1; /* the last KiB always is */
        infp_rest_begin(&rest, &sample, address(COPY - 8));
        assert_int_equal(infp_rest_add(&rest, address(COPY)), INFP_REST_MOVED);
        memory[COPY - INFP_REST_WITNESS] ^= 1;
        infp_rest_done(&rest);
}

static void a_process_that_has_ended_or_has_unmapped_its_stack(void **state)
{
        struct infp_rest rest = { .bytes = NULL };
        struct infp_perf_sample own = sample;
        const pid_t child = fork();

        (void) state;
        if (child == 0)
                _exit(0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        own.pid = child;
        infp_rest_begin(&rest, &own, 0);
        assert_int_equal(infp_rest_add(&rest, address(COPY)), INFP_REST_NONE);
        assert_false(infp_rest_holds(&rest));
        own = sample;
        own.registers[INFP_RSP] = address(MEMORY);
        infp_rest_begin(&rest, &own, 0);
        assert_int_equal(infp_rest_add(&rest, address(MEMORY + COPY)), INFP_REST_NONE);
        infp_rest_done(&rest);
}

/* ---- in its interrupt ---- */

enum { RING = 1 << 17, PID = 70, TID = 71 };
static const uint64_t t0 = 5 * INFP_NS_PER_S, period_ns = 10 * INFP_NS_PER_MS;

/* A file that looks like the kernel's ring. */
static struct ring {
        int fd;
        uint8_t *pages;
        struct infp_deep *deep;
} ring;

static void open_ring(void)
{
        const size_t page = (size_t) sysconf(_SC_PAGESIZE), size = 2 * page + RING;

        ring.fd = memfd_create("ring", MFD_CLOEXEC);
        assert_true(ring.fd >= 0 && ftruncate(ring.fd, (off_t) size) == 0);
        ring.pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring.fd, 0);
        assert_ptr_not_equal(ring.pages, MAP_FAILED);
        assert_int_equal(infp_deep_open(ring.fd, RING, &ring.deep), 0);
}

static void close_ring(void)
{
        infp_deep_free(ring.deep);
        munmap(ring.pages, 2 * (size_t) sysconf(_SC_PAGESIZE) + RING);
        close(ring.fd);
}

static uint64_t *position(bool is_consumer)
{
        return (uint64_t *) (void *) (ring.pages + (is_consumer ? 0 : sysconf(_SC_PAGESIZE)));
}

static void write_piece(int32_t tid, uint64_t t_ns, uint64_t at, uint64_t page, unsigned present, uint32_t flags)
{
        uint64_t *producer = position(false);
        uint8_t *data = ring.pages + 2 * sysconf(_SC_PAGESIZE);
        struct infp_deep_piece piece = { .t_ns = t_ns, .address = at, .pid = PID, .tid = tid };
        const uint32_t head[2] = { (uint32_t) sizeof(piece) | flags, 0 };

        for (unsigned k = 0; k < INFP_DEEP_PAGES; k++) {
                piece.pages[k] = present >> k & 1 ? page + k * INFP_DEEP_PAGE : 0;
                memset(piece.bytes + (size_t) k * INFP_DEEP_PAGE, (int) ((page >> 12) + k), INFP_DEEP_PAGE);
        }
        memcpy(data + *producer % RING, head, sizeof(head));
        *producer += sizeof(head);
        for (size_t i = 0; i < sizeof(piece); i++)
                data[(*producer + i) % RING] = ((const uint8_t *) &piece)[i];
        *producer += sizeof(piece);
}

static uint32_t take(int32_t tid, uint64_t t_ns, uint64_t at, struct infp_unwind_dump *ret)
{
        struct infp_perf_sample of = {
                .t_ns = t_ns, .pid = PID, .tid = tid, .period = period_ns, .has_registers = true
        };
        uint32_t n;

        of.registers[INFP_RIP] = at;
        n = infp_deep_take(ring.deep, &of, ret);
        for (uint32_t i = 0; i < n; i++)
                for (uint64_t k = 0; k < ret[i].size; k += 512)
                        assert_int_equal(ret[i].bytes[k], (ret[i].begin + k) >> 12 & 255);
        return n;
}

static void pages_are_joined_with_their_sample(void **state)
{
        struct infp_unwind_dump found[INFP_DEEP_DUMPS];

        (void) state;
        open_ring();
        assert_int_equal(take(TID, t0, 0x40, found), 0);
        write_piece(TID, t0 + 1000, 0x40, 0x10000, 15, 0);
        write_piece(TID + 1, t0 + 1500, 0x40, 0x90000, 15, 0);
        write_piece(TID, t0 + 1000, 0x40, 0x30000, 15, BPF_RINGBUF_DISCARD_BIT);
        write_piece(TID, t0 + 1000, 0x40, 0x20000, 9, 0); /* pages between were never touched */
        assert_int_equal(take(TID, t0, 0x48, found), 0);  /* another place */
        assert_int_equal(take(TID, t0, 0x40, found), 3);
        assert_true(found[0].begin == 0x10000 && found[0].size == 0x4000);
        assert_true(found[1].begin == 0x20000 && found[1].size == 0x1000);
        assert_true(found[2].begin == 0x23000 && found[2].size == 0x1000);
        assert_int_equal(take(TID + 1, t0 + 10, 0x40, found), 1);
        assert_int_equal(found[0].begin, 0x90000);
        assert_int_equal(take(TID, t0 + period_ns, 0x40, found), 0);
        assert_int_equal(*position(true), *position(false)); /* the room is given back */
        write_piece(TID, t0 + 2 * period_ns, 0x40, 0x50000, 1, BPF_RINGBUF_BUSY_BIT);
        assert_int_equal(take(TID, t0 + 2 * period_ns, 0x40, found), 0);
        close_ring();
}

/* Of which the ring's end cuts some in two. */
static void pieces_are_whole_everywhere(void **state)
{
        struct infp_unwind_dump found[INFP_DEEP_DUMPS];

        (void) state;
        open_ring();
        assert_false(infp_deep_is_filling(ring.deep));
        for (uint64_t i = 1; i < 40; i++) {
                write_piece(TID, t0 + i * period_ns, 0x40, i << 16, 15, 0);
                assert_int_equal(infp_deep_is_filling(ring.deep),
                                 i > 1); /* beside the two before: they are given back with the next sample */
                write_piece(TID, t0 + i * period_ns, 0x40, (i << 16) + 0x8000, 15, 0);
                assert_int_equal(take(TID, t0 + i * period_ns, 0x40, found), 2);
                assert_true(found[0].begin == i << 16 && found[0].size == 0x4000);
                assert_true(found[1].begin == (i << 16) + 0x8000 && found[1].size == 0x4000);
                assert_true(infp_deep_is_filling(ring.deep));
        }
        close_ring();
}

static void what_was_missing_is_wanted(void **state)
{
        static struct infp_deep_wants wants;
        const struct infp_deep_wanted *wanted;

        (void) state;
        wanted = infp_deep_want(&wants, TID, 0x70a10);
        assert_non_null(wanted);
        assert_int_equal(wanted->pages[0], 0x70000);
        assert_null(infp_deep_want(&wants, TID, 0x70ff8));
        wanted = infp_deep_want(&wants, TID, 0x80010); /* registers that were saved below it */
        assert_true(wanted && wanted->pages[1] == 0x80000 && wanted->pages[2] == 0x7f000);
        assert_non_null(infp_deep_want(&wants, TID + 1, 0x70a10)); /* another thread has its own */
        assert_null(infp_deep_want(&wants, TID, 8));
        for (uint64_t i = 0; i < INFP_DEEP_WANTED; i++) /* the oldest give way */
                wanted = infp_deep_want(&wants, TID, 0x100800 + i * 0x10000);
        for (uint64_t i = 0; i < INFP_DEEP_WANTED; i++)
                assert_null(infp_deep_want(&wants, TID, 0x100800 + i * 0x10000));
        assert_non_null(infp_deep_want(&wants, TID, 0x70a10));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(pieces_are_read_where_they_are_asked_for),
                cmocka_unit_test(they_are_bounded),
                cmocka_unit_test(nothing_is_joined_once_the_calls_have_changed),
                cmocka_unit_test(a_process_that_has_ended_or_has_unmapped_its_stack),
                cmocka_unit_test(pages_are_joined_with_their_sample),
                cmocka_unit_test(pieces_are_whole_everywhere),
                cmocka_unit_test(what_was_missing_is_wanted),
        };

        return cmocka_run_group_tests(tests, begin, end);
}
