/* Times of waits, by records and readings whose answers are known by hand. */
#include <math.h>
#include <sys/syscall.h>

#include "sampled_rows.h"

#include "base/time.h"
#include "sampler/waits/off_cpu_cost.h"
#include "sampler/waits/off_cpu_waits.h"

#define MS INFP_NS_PER_MS
#define BEGIN (UINT64_C(100) * INFP_NS_PER_S)
enum { TID = 77, OTHER = 78 };

struct world {
        struct sampled sampled;
        struct infp_off_cpu_waits waits;
        int32_t pid;
};

static void open_world(struct world *w)
{
        memset(w, 0, sizeof(*w));
        w->sampled = sampled_open();
        w->pid = getpid();
        infp_off_cpu_waits_init(&w->waits, w->sampled.stacks, MS / 10);
        w->waits.told_ns = BEGIN;
}

static void close_world(struct world *w)
{
        infp_stacks_end(w->sampled.stacks, 0);
        infp_off_cpu_waits_done(&w->waits);
        assert_int_equal(w->waits.n_waits, 0);
        assert_int_equal(w->waits.copied_bytes, 0);
        sampled_close(&w->sampled);
}

static void out(struct world *w, uint64_t at_ns, int32_t tid, bool is_preempted)
{
        infp_off_cpu_run(&w->waits, BEGIN + at_ns, w->pid, tid, false, is_preempted);
}

static void in(struct world *w, uint64_t at_ns, int32_t tid)
{
        infp_off_cpu_run(&w->waits, BEGIN + at_ns, w->pid, tid, true, false);
}

static void turn(struct world *w, uint64_t at_ns)
{
        infp_off_cpu_turn(&w->waits, BEGIN + at_ns);
}

static void read_at(struct world *w, uint64_t at_ns, int32_t tid, char letter, int64_t call)
{
        const struct infp_wall_message message = {
                .kind = INFP_WALL_MESSAGE_MOMENT,
                .pid = w->pid,
                .tid = tid,
                .moment = { .t_ns = BEGIN + at_ns, .letter = letter, .has_call = letter != 'R', .call = call },
        };

        infp_off_cpu_take(&w->waits, &message);
}

static void test_times(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        out(&w, 0, TID, false);
        in(&w, 500 * MS, TID);
        out(&w, 510 * MS, TID, true);
        in(&w, 530 * MS, TID);
        out(&w, 600 * MS, TID, false);
        turn(&w, 700 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.5, 1, 1);
        sampled_check(&w.sampled, TID, "runnable", 0.02, 1, 1);
        /* Still there at the end. */
        infp_off_cpu_end(&w.waits, BEGIN + 900 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.8, 2, 2);
        close_world(&w);
}

static void test_short(void **state)
{
        struct world w;
        char text[64];

        (void) state;
        open_world(&w);
        for (unsigned i = 0; i < 50; i++) {
                out(&w, i * MS, TID, i % 2);
                in(&w, i * MS + 99 * 1000, TID);
        }
        turn(&w, 60 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0, 0, 0);
        turn(&w, 1001 * MS);
        sampled_check(&w.sampled, TID, "blocked", 25 * 99e-6, 25, 1);
        sampled_check(&w.sampled, TID, "runnable", 25 * 99e-6, 25, 1);
        assert_string_equal(sampled_leaf(&w.sampled, TID, text, sizeof(text)), "[waits below 100 us]");
        assert_int_equal(w.waits.n_short, 50);
        /* The sums of a thread that ends are told before it is forgotten. */
        out(&w, 1100 * MS, TID, false);
        in(&w, 1100 * MS + 10000, TID);
        infp_off_cpu_exit(&w.waits, BEGIN + 1101 * MS, TID);
        sampled_check(&w.sampled, TID, "blocked", 25 * 99e-6 + 10e-6, 26, 2);
        /* Its last switch comes behind its end and is none. */
        out(&w, 1101 * MS + 1, TID, false);
        infp_off_cpu_end(&w.waits, BEGIN + 9000 * MS);
        sampled_check(&w.sampled, TID, "blocked", 25 * 99e-6 + 10e-6, 26, 2);
        close_world(&w);
}

/* A long wait has a row now and then; all of them together are one. */
static void test_long(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        out(&w, 0, TID, false);
        for (uint64_t s = 1; s <= 35; s++) {
                if (s == 2)
                        read_at(&w, 2 * INFP_NS_PER_S, TID, 'S', SYS_futex);
                turn(&w, s * INFP_NS_PER_S);
        }
        assert_true(sampled_sum(&w.sampled, TID, "sleeping in futex").weight >= 30);
        in(&w, 40 * INFP_NS_PER_S, TID);
        turn(&w, 41 * INFP_NS_PER_S);
        sampled_check(&w.sampled, TID, "sleeping in futex", 40, 1, 4);
        close_world(&w);
}

/* Each reading belongs to the wait during which it was made, whenever records and readings come. */
static void test_readings(void **state)
{
        struct world w;
        char text[64];

        (void) state;
        open_world(&w);
        out(&w, 10 * MS, TID, false);
        read_at(&w, 15 * MS, TID, 'S', SYS_read); /* of the open one */
        in(&w, 20 * MS, TID);
        out(&w, 30 * MS, TID, false);
        in(&w, 40 * MS, TID);
        read_at(&w, 35 * MS, TID, 'S', SYS_futex); /* of one that is over */
        out(&w, 50 * MS, TID, false);
        in(&w, 60 * MS, TID);
        read_at(&w, 75 * MS, TID, 'S', SYS_poll); /* of one whose records are still to come */
        turn(&w, 80 * MS);
        out(&w, 70 * MS, TID, false);
        in(&w, 80 * MS, TID);
        turn(&w, 90 * MS);
        sampled_check(&w.sampled, TID, "sleeping in read", 0.01, 1, 1);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.01, 1, 1);
        sampled_check(&w.sampled, TID, "blocked", 0.01, 1, 1);
        sampled_check(&w.sampled, TID, "sleeping in poll", 0.01, 1, 1);
        assert_string_equal(sampled_leaf(&w.sampled, TID, text, sizeof(text)), "sys_poll");
        /* A reading before the wait says nothing of it, and none of a wait says anything of being preempted. */
        read_at(&w, 95 * MS, TID, 'S', SYS_nanosleep);
        out(&w, 100 * MS, TID, false);
        in(&w, 110 * MS, TID);
        out(&w, 120 * MS, TID, true);
        read_at(&w, 125 * MS, TID, 'S', SYS_nanosleep);
        in(&w, 130 * MS, TID);
        turn(&w, 140 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.02, 2, 2);
        sampled_check(&w.sampled, TID, "runnable", 0.01, 1, 1);
        assert_string_equal(sampled_leaf(&w.sampled, TID, text, sizeof(text)), "[waits for a CPU]");
        close_world(&w);
}

/* Threads that wait since before the recording, and threads that perf does not see. */
static void test_without_records(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        read_at(&w, 50 * MS, TID, 'S', SYS_futex);
        read_at(&w, 50 * MS, OTHER, 'S', SYS_read);
        in(&w, 850 * MS, TID);
        turn(&w, 900 * MS);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.8, 1, 1);
        infp_off_cpu_end(&w.waits, BEGIN + 1050 * MS);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.8, 1, 1);
        sampled_check(&w.sampled, OTHER, "sleeping in read", 1.0, 1, 1);
        close_world(&w);
}

static void test_lost(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        out(&w, 0, TID, false);
        out(&w, 800 * MS, TID, false); /* when it got a CPU between was lost: how long it waited is not known */
        in(&w, 900 * MS, TID);
        in(&w, 950 * MS, TID);
        turn(&w, 960 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.1, 1, 1);
        assert_int_equal(w.waits.n_lost, 1);
        close_world(&w);
}

/* Stacks of perf: kept while the wait may be short, and the state of one that was read is that of all with the same stack. */
static void test_stacks(void **state)
{
        static const uint64_t kernel[] = { UINT64_C(0xffffffff81000010), UINT64_C(0xffffffff81000020) };
        struct world w;
        struct infp_perf_sample sample = {
                .tid = TID, .is_switch = true, .is_in_kernel = true, .kernel = kernel, .n_kernel = 2
        };
        struct infp_stacks_counts counts;

        (void) state;
        open_world(&w);
        sample.pid = w.pid;
        for (unsigned i = 0; i < 3; i++) {
                const uint64_t at_ns = 100 * i * MS;

                sample.t_ns = BEGIN + at_ns;
                infp_off_cpu_moved(&w.waits, &sample);
                out(&w, at_ns, TID, false);
                if (i == 1)
                        read_at(&w, at_ns + MS, TID, 'S', SYS_futex);
                in(&w, at_ns + 20 * MS, TID);
                turn(&w, at_ns + 30 * MS);
        }
        sampled_check(&w.sampled, TID, "blocked", 0.02, 1, 1);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.04, 2, 2);
        for (unsigned i = 0; i < 2000; i++) { /* a ping-pong makes no stacks */
                sample.t_ns = BEGIN + 400 * MS + i * 1000;
                infp_off_cpu_moved(&w.waits, &sample);
                out(&w, 400 * MS + i * 1000, TID, false);
                in(&w, 400 * MS + i * 1000 + 500, TID);
        }
        infp_stacks_counts(w.sampled.stacks, &counts);
        assert_int_equal(counts.n_stack_rows, 2);
        assert_int_equal(w.waits.n_short, 2000);
        close_world(&w);
}

/* A stack that is read again while the first reading waits for its tables: the first is found last of all, and freed with it. */
static void test_read_again(void **state)
{
        const uint64_t sp = (uint64_t) (uintptr_t) __builtin_frame_address(0);
        union {
                struct infp_wall_message is;
                char bytes[sizeof(struct infp_wall_message) + 8];
        } message = { .is = { .kind = INFP_WALL_MESSAGE_MOMENT, .tid = TID, .is_whole = true, .stack_size = 8 } };
        struct infp_stacks_counts counts;
        struct world w;

        (void) state;
        open_world(&w);
        in(&w, 0, TID);
        message.is.pid = w.pid;
        message.is.moment.letter = 'S';
        message.is.moment.has_registers = true;
        message.is.moment.registers[INFP_RIP] = (uint64_t) (uintptr_t) test_read_again + 1;
        message.is.moment.registers[INFP_RSP] = message.is.moment.registers[INFP_RBP] = sp;
        for (unsigned i = 1; i <= 2; i++) {
                message.is.moment.t_ns = BEGIN + i * MS;
                infp_off_cpu_take(&w.waits, &message.is);
        }
        infp_stacks_counts(w.sampled.stacks, &counts);
        assert_int_equal(counts.n_waiting, 2);
        assert_int_equal(w.waits.n_places, 2);
        infp_stacks_end(w.sampled.stacks, infp_clock_ns(CLOCK_MONOTONIC) + 10 * INFP_NS_PER_S);
        infp_stacks_counts(w.sampled.stacks, &counts);
        assert_int_equal(counts.n_waiting, 0);
        assert_int_equal(counts.modes[INFP_STACK_OFF_CPU].truncated, 2);
        assert_int_equal(w.waits.n_places, 1);
        infp_off_cpu_end(&w.waits, BEGIN + 5 * MS);
        close_world(&w);
}

/* Threads without end are bounded, and what they hold is given back. */
static void test_many(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        w.sampled.machine->is_full = true; /* what the rows are is not asked here */
        for (int32_t tid = 1; tid <= 100000; tid++) {
                out(&w, (uint64_t) tid * 1000, tid + 1000, false);
                if (tid % 2)
                        continue;
                infp_off_cpu_exit(&w.waits, BEGIN + (uint64_t) tid * 1000, tid + 1000);
        }
        assert_true(w.waits.threads.n <= INFP_OFF_CPU_MAX_THREADS);
        assert_true(w.waits.n_waits <= INFP_OFF_CPU_MAX_WAITS);
        assert_true(w.waits.n_refused > 0);
        infp_off_cpu_end(&w.waits, BEGIN + 10 * INFP_NS_PER_S);
        assert_int_equal(w.waits.threads.n, 0);
        close_world(&w);
}

/* Readings of tens of thousands of waits that ended in one turn: each is looked for among those of its own thread. */
static void test_many_closed(void **state)
{
        enum { THREADS = 60000 };
        struct world w;
        uint64_t used;
        double us;

        (void) state;
        open_world(&w);
        w.sampled.machine->is_full = true;
        for (int32_t tid = 1; tid <= THREADS; tid++) {
                out(&w, MS, tid, true);
                in(&w, 2 * MS, tid);
        }
        assert_int_equal(w.waits.n_waits, THREADS);
        used = infp_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        for (int32_t tid = 1; tid <= THREADS; tid++)
                read_at(&w, MS + MS / 2, tid, 'S', SYS_read);
        us = (double) (infp_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - used) / 1e3 / THREADS;
        print_message("%.2f us a reading\n", us);
        assert_true(us < 50);
        assert_int_equal(w.waits.n_places, 0); /* each was of its wait */
        infp_off_cpu_end(&w.waits, BEGIN + 10 * MS);
        close_world(&w);
}

/* 127,000 switches a second at 4.5 us are 57 % of a CPU; 10,000 are 4.5 %. */
static void test_cost(void **state)
{
        struct infp_off_cpu_cost cost = { 0 };
        uint64_t n = 500000, at = BEGIN; /* what was before the first look is no rate */
        double cpu_s = 9;

        (void) state;
        assert_false(infp_off_cpu_is_costly(&cost, 0, 0, 0));
        assert_false(infp_off_cpu_is_costly(&cost, n, cpu_s, at));
        assert_false(infp_off_cpu_is_costly(&cost, n += 10000, cpu_s += 0.045, at += INFP_NS_PER_S));
        assert_false(infp_off_cpu_is_costly(&cost, n += 127000, cpu_s += 0.5715, at + INFP_NS_PER_S - 1));
        assert_true(infp_off_cpu_is_costly(&cost, n += 127000, cpu_s += 0.5715, at += 2 * INFP_NS_PER_S));
        assert_true(cost.rate == 127000);
        assert_true(fabs(cost.share - 0.5715) < 1e-9);
        assert_false(infp_off_cpu_is_costly(&cost, n += 150000, cpu_s += 0.675, at += INFP_NS_PER_S));
        assert_true(infp_off_cpu_is_costly(&cost, n += 200000, cpu_s += 0.9, at += INFP_NS_PER_S));
        assert_false(infp_off_cpu_is_costly(&cost, n, cpu_s, at += INFP_NS_PER_S));
}

/* Threads that lost a CPU, not those that got one. */
static void test_switches_are_counted(void **state)
{
        struct world w;

        (void) state;
        open_world(&w);
        out(&w, 1 * MS, TID, false);
        infp_off_cpu_run(&w.waits, BEGIN + 2 * MS, w.pid, TID, true, false);
        out(&w, 3 * MS, TID, true);
        infp_off_cpu_run(&w.waits, BEGIN + 4 * MS, w.pid, TID, true, false);
        assert_int_equal(w.waits.n_switches, 2);
        infp_off_cpu_end(&w.waits, BEGIN + 5 * MS);
        close_world(&w);
}

/* Each wait for which there is no room is counted once, however often the room is missed. */
static void test_refused(void **state)
{
        struct infp_perf_sample sample = { .t_ns = BEGIN, .tid = TID };
        const uint32_t places = INFP_OFF_CPU_MAX_WAITS + INFP_OFF_CPU_MAX_THREADS;
        struct world w;

        (void) state;
        open_world(&w);
        sample.pid = w.pid;
        w.waits.n_places += places; /* none for a stack */
        infp_off_cpu_moved(&w.waits, &sample);
        out(&w, 0, TID, false);
        for (uint64_t i = 1; i < 20; i++)
                turn(&w, i * 50 * MS);
        assert_int_equal(w.waits.n_refused, 0); /* there may yet be room */
        in(&w, 1000 * MS, TID);
        turn(&w, 1001 * MS);
        assert_int_equal(w.waits.n_refused, 1);
        w.waits.n_places -= places;

        w.waits.n_waits += INFP_OFF_CPU_MAX_WAITS;
        for (uint64_t i = 0; i < 20; i++)
                read_at(&w, (1100 + i) * MS, OTHER, 'S', SYS_read); /* it waits since before the recording */
        assert_int_equal(w.waits.n_refused, 2);
        out(&w, 1200 * MS, TID, false);
        in(&w, 1300 * MS, TID);
        assert_int_equal(w.waits.n_refused, 3);
        w.waits.n_waits -= INFP_OFF_CPU_MAX_WAITS;

        const size_t n_threads = w.waits.threads.n;

        w.waits.threads.n = INFP_OFF_CPU_MAX_THREADS;
        sample.tid = OTHER + 1;
        infp_off_cpu_moved(&w.waits, &sample);
        out(&w, 1400 * MS, OTHER + 1, false);
        read_at(&w, 1450 * MS, OTHER + 1, 'S', SYS_read);
        in(&w, 1500 * MS, OTHER + 1);
        assert_int_equal(w.waits.n_refused, 4);
        w.waits.threads.n = n_threads;
        infp_off_cpu_end(&w.waits, BEGIN + 2000 * MS);
        close_world(&w);
}

/* ---- waits that the kernel has timed ---- */

static void waited(struct world *w, uint64_t out_ns, uint64_t in_ns, uint64_t first_ns)
{
        static const uint64_t kernel[] = { UINT64_C(0xffffffff81000000) };
        const struct infp_switch wait = { .out_ns = BEGIN + out_ns,
                                          .in_ns = BEGIN + in_ns,
                                          .first_ns = BEGIN + first_ns };
        const struct infp_perf_sample sample = { .t_ns = BEGIN + in_ns,
                                                 .pid = w->pid,
                                                 .tid = TID,
                                                 .is_switch = true,
                                                 .is_in_kernel = true,
                                                 .kernel = kernel,
                                                 .n_kernel = 1,
                                                 .wait = &wait };

        infp_off_cpu_waited(&w->waits, &sample);
}

static void test_timed_by_kernel(void **state)
{
        struct infp_switch_thread thread = { .start_ns = 1, .first_ns = BEGIN + 5 * MS, .tid = TID };
        struct world w;

        (void) state;
        open_world(&w);
        thread.pid = w.pid;
        /* Over, with its stack. A row each, and none of what lies between. */
        waited(&w, 10 * MS, 30 * MS, 0);
        waited(&w, 40 * MS, 45 * MS, 0);
        turn(&w, 50 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.025, 2, 2);
        /* Sums are told as they grow, by their kind. */
        thread.too_short = (struct infp_switch_sum){ { 100, 10 }, { 2000000, 400000 } };
        infp_off_cpu_look(&w.waits, 9, &thread, 0);
        thread.too_short = (struct infp_switch_sum){ { 150, 10 }, { 3000000, 400000 } };
        thread.no_room = (struct infp_switch_sum){ { 0, 1 }, { 0, 7 * MS } };
        infp_off_cpu_look(&w.waits, 9, &thread, 0);
        assert_int_equal(infp_off_cpu_key(&w.waits, TID), 9);
        assert_int_equal(w.waits.n_filtered, 160);
        turn(&w, 1001 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.028, 152, 3);
        sampled_check(&w.sampled, TID, "runnable", 0.0074, 11, 2);
        /* One that goes on is believed if it began early enough, and its sample ends it. */
        thread.out_ns = BEGIN + 1100 * MS;
        infp_off_cpu_look(&w.waits, 9, &thread, BEGIN + 1100 * MS);
        assert_int_equal(w.waits.n_waits, 0);
        infp_off_cpu_look(&w.waits, 9, &thread, BEGIN + 1200 * MS);
        infp_off_cpu_look(&w.waits, 9, &thread, BEGIN + 1300 * MS);
        assert_int_equal(w.waits.n_waits, 1);
        waited(&w, 1100 * MS, 2100 * MS, 0);
        turn(&w, 2200 * MS);
        sampled_check(&w.sampled, TID, "blocked", 1.028, 153, 4);
        /* Another thread of the same number has sums of its own. */
        thread = (struct infp_switch_thread){
                .start_ns = 2, .pid = w.pid, .tid = TID, .too_short = { { 3, 0 }, { 1000000, 0 } }
        };
        infp_off_cpu_look(&w.waits, 9, &thread, 0);
        infp_off_cpu_exit(&w.waits, BEGIN + 2300 * MS, TID);
        sampled_check(&w.sampled, TID, "blocked", 1.029, 156, 5);
        assert_int_equal(w.waits.n_lost, 0);
        close_world(&w);
}

/* Waits whose samples found no room in perf's buffer have the stack that the reader saw in them, and each its own time. */
static void test_timed_without_room(void **state)
{
        struct infp_switch_thread thread = { .start_ns = 1, .first_ns = BEGIN + 5 * MS, .tid = TID };
        struct world w;

        (void) state;
        open_world(&w);
        thread.pid = w.pid;
        waited(&w, 10 * MS, 30 * MS, 0);
        turn(&w, 50 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.02, 1, 1);
        read_at(&w, 100 * MS, TID, 'S', SYS_futex);
        thread.no_room = (struct infp_switch_sum){ { 2, 0 }, { 300 * MS, 0 } };
        infp_off_cpu_look(&w.waits, 9, &thread, 0);
        turn(&w, 1051 * MS);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.3, 2, 1);
        /* Read before a wait that has a sample. */
        read_at(&w, 1200 * MS, TID, 'S', SYS_futex);
        waited(&w, 1300 * MS, 1320 * MS, 0);
        thread.no_room = (struct infp_switch_sum){ { 3, 0 }, { 400 * MS, 0 } };
        infp_off_cpu_look(&w.waits, 9, &thread, 0);
        turn(&w, 2060 * MS);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.4, 3, 2);
        /* What went on when it was looked at. */
        thread.out_ns = BEGIN + 2100 * MS;
        infp_off_cpu_look(&w.waits, 9, &thread, BEGIN + 2200 * MS);
        read_at(&w, 2150 * MS, TID, 'S', SYS_futex);
        thread.out_ns = 0;
        thread.no_room = (struct infp_switch_sum){ { 4, 0 }, { 1300 * MS, 0 } };
        infp_off_cpu_look(&w.waits, 9, &thread, 0);
        assert_int_equal(w.waits.n_waits, 0);
        turn(&w, 3070 * MS);
        sampled_check(&w.sampled, TID, "sleeping in futex", 1.3, 4, 3);
        /* Nobody read it; and what was read in a wait that goes on is of that one. */
        thread.no_room = (struct infp_switch_sum){ { 5, 0 }, { 1400 * MS, 0 } };
        thread.out_ns = BEGIN + 3400 * MS;
        read_at(&w, 3500 * MS, TID, 'S', SYS_futex);
        infp_off_cpu_look(&w.waits, 9, &thread, 0);
        turn(&w, 4080 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.14, 3, 3);
        assert_int_equal(w.waits.n_lost, 0);
        close_world(&w);
}

/* A new thread whose waits the kernel sums, and that was read twice before it was looked at: nothing is counted twice. */
static void test_timed_and_read(void **state)
{
        const struct infp_switch_thread thread = {
                .start_ns = 1, .first_ns = BEGIN + 5 * MS, .tid = TID, .too_short = { { 4, 0 }, { 200000, 0 } }
        };
        struct infp_switch_thread seen = thread;
        struct world w;

        (void) state;
        open_world(&w);
        w.waits.is_timed = true;
        seen.pid = w.pid;
        read_at(&w, 20 * MS, TID, 'S', SYS_futex);
        read_at(&w, 70 * MS, TID, 'S', SYS_futex);
        read_at(&w, 120 * MS, TID, 'S', SYS_futex);
        infp_off_cpu_look(&w.waits, TID, &seen, 0);
        infp_off_cpu_exit(&w.waits, BEGIN + 150 * MS, TID);
        turn(&w, 1001 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.0002, 4, 1);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0, 0, 0);
        assert_int_equal(w.waits.n_lost, 0);
        close_world(&w);
}

/* A thread that waited when we came: by what was read of it, until it got a CPU for the first time. */
static void test_timed_since_before(void **state)
{
        struct infp_switch_thread thread = { .start_ns = 1, .first_ns = BEGIN + 300 * MS, .tid = TID };
        struct world w;

        (void) state;
        open_world(&w);
        thread.pid = w.pid;
        read_at(&w, 100 * MS, TID, 'S', SYS_futex);
        infp_off_cpu_look(&w.waits, TID, &thread, 0);
        read_at(&w, 100 * MS, OTHER, 'S', SYS_read);
        turn(&w, 400 * MS);
        sampled_check(&w.sampled, TID, "sleeping in futex", 0.2, 1, 1);
        waited(&w, 500 * MS, 700 * MS, 300 * MS);
        turn(&w, 800 * MS);
        sampled_check(&w.sampled, TID, "blocked", 0.2, 1, 1);
        infp_off_cpu_end(&w.waits, BEGIN + 900 * MS);
        sampled_check(&w.sampled, OTHER, "sleeping in read", 0.8, 1, 1);
        close_world(&w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_times),
                cmocka_unit_test(test_short),
                cmocka_unit_test(test_long),
                cmocka_unit_test(test_readings),
                cmocka_unit_test(test_without_records),
                cmocka_unit_test(test_lost),
                cmocka_unit_test(test_stacks),
                cmocka_unit_test(test_read_again),
                cmocka_unit_test(test_many),
                cmocka_unit_test(test_many_closed),
                cmocka_unit_test(test_cost),
                cmocka_unit_test(test_switches_are_counted),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_timed_by_kernel),
                cmocka_unit_test(test_timed_without_room),
                cmocka_unit_test(test_timed_and_read),
                cmocka_unit_test(test_timed_since_before),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
