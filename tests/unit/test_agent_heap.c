/* The heap's agent over a ring file of this process, called as the functions call it that are preloaded in front of the allocator: so that
 * sanitizers see it. Addresses of blocks are numbers. There are no unwind tables, and so no stacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "agent/heap/heap.h"
#include "agent/heap/hooks.h"
#include "ring_file.h"

enum { THREADS = 4, ROUNDS = 3000, HELD = 50, SIZE = 5000, PAGE = 4096, MAPPED_EACH = 50, MOST = 1 << 16 };
enum { LEAST = 64 }; /* of blocks of SIZE bytes each is a sample */

extern struct infp_preload_heap infp_preload_heap; /* the agent looks for it by its name */
__attribute__((visibility("default"))) struct infp_preload_heap infp_preload_heap;
static struct infp_preload_heap *const hooks = &infp_preload_heap;

/* The agent copies stacks as they are. In place of what a sanitizer has for this call, which would look at them as at any other memory. */
ssize_t process_vm_writev(pid_t pid, const struct iovec *from, unsigned long n_from, const struct iovec *to,
                          unsigned long n_to, unsigned long flags)
{
        return syscall(SYS_process_vm_writev, pid, from, n_from, to, n_to, flags);
}

/* ---- as interpose.c and mappings.c do it ---- */

static _Thread_local struct {
        int64_t left;
        bool is_drawn, is_busy;
} own;
static _Atomic uint64_t n_allocated, n_freed, n_nested;
static _Atomic unsigned n_running;

static int64_t left(void)
{
        static _Atomic int64_t n;

        return n++; /* its own block was counted, it says */
}

static bool busy(bool is_busy)
{
        const bool was = own.is_busy;

        own.is_busy = is_busy;
        return was;
}

static void heard(void)
{
}

static void *find(const char *name)
{
        (void) name;
        return NULL;
}

static void call(int64_t (*function)(uint64_t, uint64_t, int64_t, bool), uint64_t address, uint64_t size)
{
        own.left -= (int64_t) size;
        own.is_busy = true;
        atomic_signal_fence(memory_order_seq_cst);
        own.left = function(address, size, own.left, !own.is_drawn);
        own.is_drawn = true;
        n_allocated++;
        atomic_signal_fence(memory_order_seq_cst);
        own.is_busy = false;
}

static void allocate(uint64_t address)
{
        if (!own.is_busy) {
                call(atomic_load(&hooks->allocated), address, SIZE);
                return;
        }
        atomic_fetch_add(&hooks->nested, 1);
        n_nested++;
}

static uint64_t take(uint64_t address)
{
        return infp_heap_may_be_sampled(hooks, address) ? atomic_load(&hooks->taken)(address) : 0;
}

static void release(uint64_t address)
{
        const uint64_t id = take(address);

        if (id)
                atomic_load (&hooks->freed)(id);
        n_freed += id != 0;
}

/* realloc, which has no room for it */
static void keep(uint64_t address)
{
        const uint64_t id = take(address);

        if (id)
                atomic_load (&hooks->kept)(address, id);
}

static bool unmap(uint64_t begin, uint64_t end)
{
        return hooks->unmapped(begin, end, hooks->mapping());
}

/* Three blocks: the whole, and what is left of it on both sides. */
static void map(uint64_t address)
{
        if (!atomic_load(&hooks->mapped))
                return; /* of an agent that counts every block */
        call(atomic_load(&hooks->mapped), address, 3 * PAGE);
        CHECK(unmap(address + PAGE, address + 2 * PAGE));
        CHECK(unmap(address, address + 3 * PAGE));
        n_allocated += 2;
        n_freed += 3;
}

static void begin(uint64_t least, uint64_t most)
{
        memset(hooks, 0, sizeof *hooks);
        hooks->left = left;
        hooks->busy = busy;
        hooks->heard = heard;
        hooks->find = find;
        infp_agent_heap_announce(least);
        CHECK_EQUAL(infp_writer_enable(), 0);
        infp_agent_heap_begin(least, most, directory);
        CHECK(atomic_load(&hooks->allocated));
}

/* ---- a program ---- */

static uint64_t address_of(uint64_t thread, uint64_t i)
{
        return (thread + 1) << 40 | i << 12;
}

static void *work(void *number)
{
        const uint64_t thread = (uintptr_t) number;
        bool has[HELD] = { false };

        for (uint64_t i = 0; i < ROUNDS; i++) {
                const uint64_t at = (i * i + i / 7) % HELD;

                if (i % MAPPED_EACH == 0)
                        map(address_of(thread, HELD));
                if (i % 5 == 0 && has[at])
                        keep(address_of(thread, at));
                if (has[at])
                        release(address_of(thread, at));
                else
                        allocate(address_of(thread, at));
                has[at] = !has[at];
        }
        for (uint64_t i = 0; i < HELD; i++)
                if (has[i] && i % 2)
                        release(address_of(thread, i));
        n_running--;
        return NULL;
}

static void handle(int number)
{
        const uint64_t address = (uintptr_t) &own & ~(uintptr_t) 7;

        (void) number;
        allocate(address);
        release(address);
}

/* Samples are left out when nobody reads for 5 s. */
static void run_threads(void (*turn)(void *context), void *context)
{
        const struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
        pthread_t threads[THREADS];

        CHECK(signal(SIGALRM, handle) != SIG_ERR && setitimer(ITIMER_REAL, &often, NULL) == 0);
        n_running = THREADS;
        for (uintptr_t i = 0; i < THREADS; i++)
                CHECK_EQUAL(pthread_create(&threads[i], NULL, work, (void *) i), 0);
        while (n_running) {
                turn(context);
                usleep(500);
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        setitimer(ITIMER_REAL, &never, NULL);
}

/* Runs in a child of fork, which has to be right by itself. */
static void in_child_of_it(void (*body)(void))
{
        const pid_t pid = fork();
        int status;

        if (pid == 0) {
                n_allocated = n_freed = n_nested = 0;
                body();
                _exit(0);
        }
        CHECK_EQUAL(waitpid(pid, &status, 0), pid);
        CHECK_EQUAL(status, 0);
}

/* ---- samples ---- */

static struct {
        uint64_t allocated[MOST], freed[MOST];
        uint32_t n_allocated, n_freed;
} seen;

static void take_block(void *context, const struct infp_ring_block *block)
{
        (void) context;
        CHECK(seen.n_allocated < MOST && block->size >= PAGE && block->size <= 3 * PAGE && block->mean);
        seen.allocated[seen.n_allocated++] = block->id;
}

static void take_free(void *context, uint64_t t_ns, uint64_t id, int32_t tid)
{
        (void) context;
        CHECK(seen.n_freed < MOST && t_ns && tid);
        seen.freed[seen.n_freed++] = id;
}

static int no_row(void *context, const struct infp_row *row)
{
        (void) context;
        (void) row;
        return 0;
}

static void read_ring(void *context)
{
        while (infp_ring_read(context, false, no_row, NULL, NULL) == 1)
                ;
}

static int compare(const void *a, const void *b)
{
        const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return (x > y) - (x < y);
}

/* Each block is there once, and has ended once at most. */
static void check_seen(struct infp_ring *ring)
{
        struct infp_ring_heap heap;
        uint32_t at = 0;

        while (infp_ring_read(ring, true, no_row, NULL, NULL) == 1)
                ;
        CHECK(infp_ring_heap(ring, &heap));
        CHECK_EQUAL(infp_ring_counts(ring)->broken + infp_ring_counts(ring)->unknown, 0);
        CHECK_EQUAL(seen.n_allocated + heap.missed, n_allocated);
        CHECK_EQUAL(seen.n_freed + heap.kept, n_freed);
        CHECK(heap.missed + heap.kept < n_allocated / 100 + 1);
        qsort(seen.allocated, seen.n_allocated, sizeof(uint64_t), compare);
        qsort(seen.freed, seen.n_freed, sizeof(uint64_t), compare);
        for (uint32_t i = 0; i < seen.n_allocated; i++) {
                CHECK(i == 0 || seen.allocated[i] != seen.allocated[i - 1]);
                at += at < seen.n_freed && seen.freed[at] == seen.allocated[i];
        }
        CHECK(at + heap.missed >= seen.n_freed);
}

static struct infp_ring *begin_to_read(void)
{
        struct infp_ring *ring = ring_reader(true);

        memset(&seen, 0, sizeof seen);
        infp_ring_on_heap(ring, &(struct infp_ring_heap_fns){ take_block, take_free, NULL });
        return ring;
}

/* What it frees of its parent's is told, too. */
static void check_samples_of_child(void)
{
        struct infp_ring *ring;

        for (uint64_t i = 0; i < 10; i++)
                allocate(address_of(9, i));
        for (uint64_t i = 0; i < 5; i++)
                release(address_of(9, i));
        atomic_load (&hooks->ended)();
        ring = begin_to_read();
        check_seen(ring);
        CHECK(seen.n_allocated == 10 && seen.n_freed == 5);
        infp_ring_close(ring);
}

static void check_samples(void)
{
        struct infp_ring *ring;

        begin(LEAST, LEAST);
        ring = begin_to_read();
        run_threads(read_ring, ring);
        atomic_load (&hooks->ended)(); /* those that waited for tables */
        check_seen(ring);
        CHECK(n_allocated > THREADS * ROUNDS / 2 && n_freed < n_allocated);
        infp_ring_close(ring);
        in_child_of_it(check_samples_of_child);
}

static void test_samples(void **state)
{
        (void) state;
        in_child(directory, check_samples);
}

/* ---- every block ---- */

static void next_window(void *context)
{
        static uint32_t n;

        n++;
        infp_ring_begin_window(context, n, n / 2);
}

static void check_sums(struct infp_ring *ring)
{
        uint64_t allocated = 0, allocations = 0, freed = 0, frees = 0, missed;
        struct infp_ring_site site;
        struct infp_ring_heap heap;

        CHECK(infp_ring_heap(ring, &heap) && heap.is_exact);
        for (uint32_t id = (uint32_t) heap.sites; id; id = site.previous) {
                CHECK_EQUAL(infp_ring_site(ring, id, &site), 0);
                allocated += site.allocated;
                allocations += site.allocations;
                freed += site.freed;
                frees += site.frees;
        }
        missed = heap.missed + atomic_load(&hooks->nested);
        CHECK_EQUAL(allocations + missed, n_allocated + n_nested);
        CHECK_EQUAL(frees, n_freed);
        CHECK_EQUAL(allocated, SIZE * allocations);
        CHECK_EQUAL(freed, SIZE * frees);
        /* Of handlers: in the middle of another one, or as their thread ends. */
        CHECK(missed >= n_nested && missed - n_nested <= ring_head()->dropped_busy);
}

static void check_sums_of_child(void)
{
        struct infp_ring *ring;

        for (uint64_t i = 0; i < HELD; i++) /* its parent's */
                release(address_of(0, i));
        CHECK_EQUAL(n_freed, 0);
        for (uint64_t i = 0; i < 10; i++)
                allocate(address_of(0, i));
        for (uint64_t i = 0; i < 5; i++)
                release(address_of(0, i));
        ring = ring_reader(true);
        check_sums(ring);
        infp_ring_close(ring);
}

static void check_exact(void)
{
        const pid_t ended = fork();
        struct infp_ring *ring;

        if (ended == 0)
                _exit(0);
        waitpid(ended, NULL, 0);
        begin(INFP_WIRE_HEAP_EXACT, (uint64_t) ended); /* it does not wait for tables of one that is not there */
        ring = ring_reader(true);
        infp_ring_begin_window(ring, 0, 0); /* it reads */
        run_threads(next_window, ring);
        check_sums(ring);
        infp_ring_close(ring);
        in_child_of_it(check_sums_of_child);
}

static void test_exact(void **state)
{
        (void) state;
        in_child(directory, check_exact);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_samples), cmocka_unit_test(test_exact) };

        return cmocka_run_group_tests(tests, setup, teardown);
}
