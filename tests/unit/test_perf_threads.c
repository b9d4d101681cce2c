/* Who is sampled by which events, as the kernel tells of threads and processes that begin and end. */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "sampler/perf/inner.h"
#include "skip_because.h"

enum { CPUS = 2, GROUPS = 3 };

/* Three threads, 101 to 103, whose events are /dev/null. */
struct world {
        struct infp_perf perf;
        struct perf_group groups[GROUPS];
        struct perf_fd fds[GROUPS * CPUS];
};

static void open_world(struct world *world, enum infp_perf_method method)
{
        *world = (struct world){ .perf = { .method = method,
                                           .n_cpus = CPUS,
                                           .n_kinds = 1,
                                           .per_group = CPUS,
                                           .n_groups = GROUPS,
                                           .cap_groups = GROUPS,
                                           .n_events = GROUPS * CPUS } };
        world->perf.groups = world->groups;
        world->perf.fds = world->fds;
        for (unsigned i = 0; i < GROUPS * CPUS; i++)
                world->fds[i].fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        for (unsigned i = 0; i < GROUPS; i++) {
                world->groups[i].tid = 101 + (int32_t) i;
                assert_int_equal(infp_map_put(&world->perf.known, perf_key(101 + (int32_t) i), i), 0);
        }
}

static void close_world(struct world *world)
{
        for (unsigned i = 0; i < GROUPS; i++)
                infp_perf_group_close(&world->perf, i);
        infp_map_done(&world->perf.known);
}

static bool is_open(const struct world *world, unsigned group)
{
        return world->groups[group].tid && fcntl(world->fds[group * CPUS].fd, F_GETFD) >= 0;
}

static uint64_t *known(const struct world *world, int32_t number)
{
        return infp_map_get(&world->perf.known, perf_key(number));
}

/* A listing found thread 102; then the kernel says that a sampled thread has started it: it has inherited events. */
static void test_nobody_is_sampled_twice(void **state)
{
        struct world world;

        (void) state;
        open_world(&world, INFP_PERF_THREADS);
        infp_perf_note_task(&world.perf, 1, true, 101, 102, 101);
        assert_true(is_open(&world, 0) && is_open(&world, 2));
        assert_false(is_open(&world, 1));
        assert_int_equal(world.perf.n_events, 2 * CPUS);
        assert_int_equal(*known(&world, 102), PERF_INHERITED);
        /* Its place is the next one's. */
        infp_perf_note_task(&world.perf, 1, true, 101, 110, 101);
        assert_int_equal(*known(&world, 110), PERF_INHERITED);
        infp_perf_note_task(&world.perf, 1, false, 101, 110, 101);
        assert_null(known(&world, 110));
        close_world(&world);
}

/* Events of a thread that has ended stay open: those that it started have theirs by them. */
static void test_heirs_keep_their_events(void **state)
{
        struct world world;

        (void) state;
        open_world(&world, INFP_PERF_THREADS);
        infp_perf_note_task(&world.perf, 1, false, 101, 103, 101);
        assert_true(is_open(&world, 2));
        assert_true(world.groups[2].is_ended);
        assert_null(known(&world, 103));    /* the number may be given out again */
        infp_perf_groups_reap(&world.perf); /* /dev/null does not hang up */
        assert_true(is_open(&world, 2));
        close_world(&world);
}

/* A pipe whose other end is closed hangs up, as the kernel does when the last heir has gone. */
static void test_events_of_the_gone_are_closed(void **state)
{
        struct world world;

        (void) state;
        open_world(&world, INFP_PERF_THREADS);
        for (unsigned i = 0; i < CPUS; i++) {
                int ends[2];

                close(world.fds[2 * CPUS + i].fd);
                assert_int_equal(pipe(ends), 0);
                close(ends[1]);
                world.fds[2 * CPUS + i].fd = ends[0];
        }
        infp_perf_groups_reap(&world.perf);
        assert_true(is_open(&world, 2)); /* nobody has said that it ended */
        infp_perf_note_task(&world.perf, 1, false, 101, 103, 101);
        infp_perf_groups_reap(&world.perf);
        assert_false(is_open(&world, 2));
        assert_true(is_open(&world, 0) && is_open(&world, 1));
        close_world(&world);
}

static void test_processes_of_the_target(void **state)
{
        struct world world;
        struct infp_perf *perf = &world.perf;

        (void) state;
        open_world(&world, INFP_PERF_CPUS);
        assert_true(infp_perf_is_of_target(perf, 101, 500));
        assert_false(infp_perf_is_of_target(perf, 200, 200));
        infp_perf_note_task(perf, 1, true, 200, 200, 101); /* a child */
        infp_perf_note_task(perf, 1, true, 201, 201, 200); /* its child */
        infp_perf_note_task(perf, 1, true, 300, 300, 299); /* somebody else's */
        assert_true(infp_perf_is_of_target(perf, 200, 200) && infp_perf_is_of_target(perf, 201, 201));
        assert_false(infp_perf_is_of_target(perf, 300, 300));
        infp_perf_note_task(perf, 1, true, 101, 202, 101); /* a thread: its number is no process */
        assert_false(infp_perf_is_of_target(perf, 202, 202));
        infp_perf_note_task(perf, 1, true, 200, 200, 299); /* the number was given out again */
        assert_false(infp_perf_is_of_target(perf, 200, 200));
        close_world(&world);
}

/* After an end of which the kernel told late: the number may be somebody else's by then. */
static void test_who_has_the_number_now(void **state)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        const pid_t child = fork();

        (void) state;
        if (!child)
                for (;;)
                        pause();
        assert_true(infp_perf_was_there(getpid(), now));
        assert_true(infp_perf_was_there(child, now + INFP_NS_PER_S));
        assert_false(infp_perf_was_there(child, now - INFP_NS_PER_S));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        assert_false(infp_perf_was_there(child, now + INFP_NS_PER_S));
}

static void ignore_sample(void *context, const struct infp_perf_sample *sample)
{
        (void) sample;
        ++*(unsigned *) context;
}

/* Uses all the CPU that it gets. Its own event, which counts as those of samples do and has no timer, says for how many ns in a row it did
 * not run though its clock did: the host had the CPU, or an interrupt. One timer's expiry then stands for all periods of that time. */
static void spin(uint64_t *ret_held_ns)
{
        struct perf_event_attr attr = { .size = sizeof(attr),
                                        .type = PERF_TYPE_SOFTWARE,
                                        .config = PERF_COUNT_SW_CPU_CLOCK,
                                        .exclude_kernel = 1,
                                        .exclude_hv = 1 };
        const int fd = (int) syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
        uint64_t before = 0, now;

        for (; read(fd, &now, sizeof(now)) == sizeof(now); before = now) {
                if (now > before + 500000 && before)
                        *ret_held_ns += now - before;
                for (unsigned i = 0; i < 1000; i++)
                        __asm__ volatile("pause");
        }
}

/* A child that spins, attached to for 100 ms of its CPU time. */
static void test_live(void **state)
{
        const struct infp_perf_options options = { .hz = 1000, .stack_bytes = 4096 };
        unsigned n = 0;
        const struct infp_perf_handler handler = { .context = &n, .sample = ignore_sample };
        struct infp_perf_counts counts = { 0 };
        struct infp_err err = { "" };
        struct infp_perf *perf;
        uint64_t *held_ns, ran_ns;
        const char *fix;
        int32_t pid;
        pid_t child;

        (void) state;
        if (infp_perf_open(&options, &perf, &fix, &err) < 0)
                SKIP_BECAUSE("perf events are refused here");
        held_ns = mmap(NULL, sizeof(*held_ns), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(held_ns, MAP_FAILED);
        child = fork();
        if (!child) {
                spin(held_ns);
                _exit(1);
        }
        pid = child;
        assert_int_equal(infp_perf_attach(perf, &pid, 1, &err), 0);
        assert_int_equal(infp_perf_attach(perf, &pid, 1, &err), 0); /* known: nothing new is opened */
        for (unsigned i = 0; i < 500 && counts.clock_ns < 100000000; i++) {
                usleep(20000);
                infp_perf_counts(perf, &counts);
                infp_perf_drain(perf, &handler, INFP_NS_PER_MS);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        infp_perf_stop(perf);
        infp_perf_drain(perf, &handler, 0);
        infp_perf_counts(perf, &counts);
        assert_int_equal(counts.method, INFP_PERF_THREADS);
        assert_int_equal(counts.n_broken, 0);
        assert_int_equal(counts.n_samples, n);
        assert_int_equal(counts.n_events, 0); /* the kernel has hung up */
        assert_true(counts.has_clock && counts.clock_ns >= 100000000);
        ran_ns = counts.clock_ns - *held_ns;
        /* One a ms; each CPU may begin with a part of one. */
        assert_true(n <= counts.clock_ns / 1000000 + 2 && n + 5 + ran_ns / 20000000 >= ran_ns / 1000000);
        assert_true(infp_perf_attach(perf, &pid, 1, &err) == 0); /* gone: no error */
        infp_perf_free(perf);
        munmap(held_ns, sizeof(*held_ns));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nobody_is_sampled_twice),       cmocka_unit_test(test_heirs_keep_their_events),
                cmocka_unit_test(test_events_of_the_gone_are_closed), cmocka_unit_test(test_processes_of_the_target),
                cmocka_unit_test(test_who_has_the_number_now),        cmocka_unit_test(test_live),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
