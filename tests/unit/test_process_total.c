/* Totals of a tree whose processes come and go: each time counts once, whoever waits for whom, and when. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collect/last_look.h"
#include "collectors/process/total.h"

enum { US = 100 };

/* A process by the fields that matter: ticks and faults of its own, and of the children that it waited for. */
struct line {
        int pid, ppid;
        int64_t ticks, faults, child_ticks, child_faults, io, switches;
        bool is_final; /* of the ended: read at its end */
        uint64_t start;
};

static struct process_total total;
static struct process_gain gains[16];
static struct infp_reaped reaped;

static void begin(bool is_run)
{
        process_total_done(&total);
        memset(&total, 0, sizeof(total));
        memset(gains, 0, sizeof(gains));
        reaped = (struct infp_reaped){ 0 };
        total.ticks_per_s = 100;
        total.is_ours_known = is_run;
}

static struct process_share share_of(const struct line *l)
{
        return (struct process_share){ .v = {
                                               [COUNTER_USER] = l->ticks + l->child_ticks,
                                               [COUNTER_CPU_NS] = (l->ticks + l->child_ticks) * 10000000,
                                               [COUNTER_MINOR_FAULTS] = l->faults + l->child_faults,
                                               [COUNTER_READ_BYTES] = l->io,
                                               [COUNTER_VOLUNTARY] = l->switches,
                                       } };
}

static struct infp_process process_of(const struct line *l)
{
        static struct infp_last_look look;

        return (struct infp_process){ .last = l->is_final ? &look : NULL,
                                      .pid = l->pid,
                                      .ppid = l->ppid,
                                      .start_ticks = l->start,
                                      .minor_faults = (uint64_t) l->faults,
                                      .child_minor_faults = (uint64_t) l->child_faults,
                                      .cutime = l->child_ticks };
}

/* One tick: the live by pid, ended by 0, then the ended. */
static struct process_share tick(const struct line *live, const struct line *ended)
{
        struct process_share result;

        process_total_begin(&total, &reaped);
        for (; ended && ended->pid; ended++) {
                struct infp_process p = process_of(ended);
                struct process_share share = share_of(ended);

                assert_int_equal(process_total_ended(&total, &p, &gains[ended->pid], &share), 0);
        }
        for (; live && live->pid; live++) {
                struct infp_process p = process_of(live);
                struct process_share share = share_of(live);

                assert_int_equal(process_total_live(&total, &p, &gains[live->pid], &share), 0);
        }
        process_total_end(&total, &result);
        return result;
}

#define LINES(...)            \
        (const struct line[]) \
        {                     \
                __VA_ARGS__,  \
                {             \
                        0     \
                }             \
        }
#define CHECK(result, user, io, switches)                            \
        do {                                                         \
                struct process_share r_ = (result);                  \
                assert_int_equal(r_.v[COUNTER_USER], user);          \
                assert_int_equal(r_.v[COUNTER_READ_BYTES], io);      \
                assert_int_equal(r_.v[COUNTER_VOLUNTARY], switches); \
        } while (0)

static void a_parent_that_waits(void **state)
{
        (void) state;
        begin(false);
        CHECK(tick(LINES({ 1, 0, 10, 50, 0, 0, 5, 1 }, { 2, 1, 30, 70, 0, 0, 100, 9 }), NULL), 40, 105, 10);
        /* Its io shows as the parent's own, its switches nowhere. It used 3 ticks and 4 bytes more before its end. */
        CHECK(tick(LINES({ 1, 0, 10, 50, 33, 80, 109, 1 }), LINES({ 2, 1, 30, 70, 0, 0, 100, 9 })), 43, 109, 10);
        CHECK(tick(LINES({ 1, 0, 11, 50, 33, 80, 109, 2 }), NULL), 44, 109, 11);
        assert_false(total.has_lost);
        assert_int_equal(total.n_ended, 0);
}

/* The parent was read before it waited: its gain shows at the next tick. */
static void a_parent_read_too_early(void **state)
{
        (void) state;
        begin(false);
        CHECK(tick(LINES({ 1, 0, 10, 50, 0, 0, 5, 1 }, { 2, 1, 30, 70, 0, 0, 100, 9 }), NULL), 40, 105, 10);
        CHECK(tick(LINES({ 1, 0, 10, 50, 0, 0, 5, 1 }), LINES({ 2, 1, 30, 70, 0, 0, 100, 9 })), 40, 105, 10);
        CHECK(tick(LINES({ 1, 0, 10, 50, 30, 70, 105, 1 }), NULL), 40, 105, 10);
        assert_false(total.has_lost);
}

/* The child was read, then waited for, then the parent was read: the total then waits. */
static void a_parent_read_too_late(void **state)
{
        (void) state;
        begin(false);
        CHECK(tick(LINES({ 1, 0, 10, 50, 0, 0, 0, 1 }, { 2, 1, 30, 70, 0, 0, 0, 9 }), NULL), 40, 0, 10);
        CHECK(tick(LINES({ 1, 0, 10, 50, 30, 70, 0, 1 }, { 2, 1, 30, 70, 0, 0, 0, 9 }), NULL), 70, 0, 10);
        for (int i = 0; i < 5; i++)
                CHECK(tick(LINES({ 1, 0, 10 + 6 * i, 50, 30, 70, 0, 1 }),
                           i ? NULL : LINES({ 2, 1, 30, 70, 0, 0, 0, 9 })),
                      70, 0, 10);
        CHECK(tick(LINES({ 1, 0, 45, 50, 30, 70, 0, 1 }), NULL), 75, 0, 10);
        assert_false(total.has_lost);
        assert_int_equal(total.lost.v[COUNTER_USER], 0);
}

/* The command was read at its end, and has what its children used by then: those of a child that it waited for, and of a grandchild
 * whose parent it had waited for. Nobody waited for process 4. */
static void all_end_between_two_ticks(void **state)
{
        (void) state;
        begin(true);
        total.self_pid = US;
        CHECK(tick(LINES({ 1, US, 10, 50, 0, 0, 5, 1 }, { 2, 1, 30, 70, 0, 0, 100, 9 }, { 3, 2, 20, 60, 0, 0, 0, 2 },
                         { 4, 1, 7, 200, 0, 0, 0, 0 }),
                   NULL),
              67, 105, 12);
        reaped.user_ns = 66 * UINT64_C(10000000);
        reaped.minor_faults = 190;
        for (int i = 0; i < 3; i++)
                CHECK(tick(NULL, i ? NULL
                                   : LINES({ 1, US, 12, 60, 54, 130, 105, 1, true }, { 2, 1, 30, 70, 0, 0, 100, 9 },
                                           { 3, 2, 20, 60, 0, 0, 0, 2 }, { 4, 1, 7, 200, 0, 0, 0, 0 })),
                      73, 105, 12);
        assert_int_equal(total.n_ended, 0);
}

static void a_parent_that_ignores_sigchld(void **state)
{
        (void) state;
        begin(true);
        total.self_pid = US;
        CHECK(tick(LINES({ 1, US, 10, 50, 0, 0, 5, 1 }, { 2, 1, 30, 70, 0, 0, 100, 9 }), NULL), 40, 105, 10);
        for (int i = 0; i < 4; i++) /* what it used last stays */
                CHECK(tick(LINES({ 1, US, 10, 50, 0, 0, 5, 1 }), i ? NULL : LINES({ 2, 1, 30, 70, 0, 0, 100, 9 })), 40,
                      105, 10);
        CHECK(tick(LINES({ 1, US, 12, 50, 0, 0, 6, 1 }), NULL), 42, 106, 10);
        assert_true(total.has_lost);
}

static void what_we_wait_for(void **state)
{
        (void) state;
        begin(true);
        CHECK(tick(LINES({ 1, US, 10, 50, 5, 6, 7, 8 }), NULL), 15, 7, 8);
        /* Ended with a tick more than we saw. */
        reaped = (struct infp_reaped){ .user_ns = 160000000, .n = 1, .minor_faults = 60 };
        CHECK(tick(NULL, LINES({ 1, US, 10, 50, 5, 6, 7, 8 })), 16, 7, 8);
        CHECK(tick(NULL, NULL), 16, 7, 8);
        assert_false(total.has_lost);
}

/* wait4 has taken it from /proc, its usage comes a moment later. */
static void what_we_wait_for_is_told_late(void **state)
{
        (void) state;
        begin(true);
        CHECK(tick(LINES({ 1, US, 10, 50, 0, 0, 7, 8 }), NULL), 10, 7, 8);
        CHECK(tick(NULL, LINES({ 1, US, 10, 50, 0, 0, 7, 8 })), 10, 7, 8);
        reaped = (struct infp_reaped){ .user_ns = 100000000, .n = 1, .minor_faults = 50 };
        CHECK(tick(NULL, NULL), 10, 7, 8);
        assert_int_equal(total.n_ended, 0);
}

/* Never told: then its last known times stay. */
static void nobody_tells(void **state)
{
        (void) state;
        begin(true);
        tick(LINES({ 1, US, 10, 50, 0, 0, 7, 8 }), NULL);
        for (int i = 0; i < 4; i++)
                CHECK(tick(NULL, i ? NULL : LINES({ 1, US, 10, 50, 0, 0, 7, 8 })), 10, 7, 8);
        assert_true(total.has_lost);
}

static void an_attached_tree_ends(void **state)
{
        (void) state;
        begin(false);
        CHECK(tick(LINES({ 1, 9, 10, 50, 0, 0, 1, 1 }, { 2, 1, 20, 60, 0, 0, 2, 2 }), NULL), 30, 3, 3);
        for (int i = 0; i < 4; i++)
                CHECK(tick(NULL, i ? NULL : LINES({ 1, 9, 10, 50, 0, 0, 1, 1 }, { 2, 1, 20, 60, 0, 0, 2, 2 })), 30, 3,
                      3);
        assert_true(total.has_lost);
}

/* Grandchild and child end in one tick: the child had waited, the root waited for the child. */
static void two_generations_at_once(void **state)
{
        (void) state;
        begin(false);
        CHECK(tick(LINES({ 1, 9, 1, 1, 0, 0, 0, 0 }, { 2, 1, 20, 60, 0, 0, 0, 0 }, { 3, 2, 40, 90, 0, 0, 0, 0 }), NULL),
              61, 0, 0);
        for (int i = 0; i < 4; i++)
                CHECK(tick(LINES({ 1, 9, 1, 1, 60, 150, 0, 0 }),
                           i ? NULL : LINES({ 2, 1, 20, 60, 0, 0, 0, 0 }, { 3, 2, 40, 90, 0, 0, 0, 0 })),
                      61, 0, 0);
        assert_false(total.has_lost);
}

/* The child did not wait: the grandchild came to us. */
static void an_orphan_that_ends_at_once(void **state)
{
        (void) state;
        begin(true);
        CHECK(tick(LINES({ 1, US, 1, 1, 0, 0, 0, 0 }, { 2, 1, 20, 60, 0, 0, 0, 0 }, { 3, 2, 40, 90, 0, 0, 3, 0 }),
                   NULL),
              61, 3, 0);
        reaped = (struct infp_reaped){ .user_ns = 400000000, .n = 1, .minor_faults = 90 };
        for (int i = 0; i < 4; i++)
                CHECK(tick(LINES({ 1, US, 1, 1, 20, 60, 0, 0 }),
                           i ? NULL : LINES({ 2, 1, 20, 60, 0, 0, 0, 0 }, { 3, 2, 40, 90, 0, 0, 3, 0 })),
                      61, 3, 0);
        assert_false(total.has_lost);
}

/* The parent ended, its pid went to a child of ours, and its own child, which came to us, ended in the same tick: the new owner of the pid is not
 * its parent, and has not got its time. */
static void the_pid_of_the_parent_is_used_again(void **state)
{
        (void) state;
        begin(true);
        CHECK(tick(LINES({ 1, US, 1, 1, 0, 0, 0, 0, false, 5 }, { 2, 1, 20, 60, 0, 0, 0, 0, false, 6 },
                         { 3, 2, 40, 90, 0, 0, 3, 0, false, 7 }),
                   NULL),
              61, 3, 0);
        reaped = (struct infp_reaped){ .user_ns = 400000000, .n = 1, .minor_faults = 90 };
        for (int i = 0; i < 4; i++)
                CHECK(tick(LINES({ 1, US, 1, 1, 20, 60, 0, 0, false, 5 }, { 2, 1, 2, 9, 0, 0, 0, 0, false, 8 }),
                           i ? NULL
                             : LINES({ 2, 1, 20, 60, 0, 0, 0, 0, false, 6 }, { 3, 2, 40, 90, 0, 0, 3, 0, false, 7 })),
                      63, 3, 0);
        assert_false(total.has_lost);
        assert_int_equal(total.n_ended, 0);
}

/* The parent's pid went to another process long before, whose children's times are not those of the orphan that we have waited for. */
static void the_pid_of_an_old_parent_is_used_again(void **state)
{
        (void) state;
        begin(true);
        CHECK(tick(LINES({ 2, US, 5, 5, 0, 0, 0, 0, false, 9 }, { 3, 2, 40, 90, 0, 0, 3, 0, false, 7 }), NULL), 45, 3,
              0);
        reaped = (struct infp_reaped){ .user_ns = 400000000, .n = 1, .minor_faults = 90 };
        for (int i = 0; i < 4; i++)
                CHECK(tick(LINES({ 2, US, 5, 5, 0, 0, 0, 0, false, 9 }),
                           i ? NULL : LINES({ 3, 2, 40, 90, 0, 0, 3, 0, false, 7 })),
                      45, 3, 0);
        assert_false(total.has_lost);
}

/* A fall that nothing explains is bridged; what comes after it counts. */
static void never_falls(void **state)
{
        (void) state;
        begin(false);
        CHECK(tick(LINES({ 1, 9, 50, 1, 0, 0, 0, 0 }), NULL), 50, 0, 0);
        for (int i = 0; i < 5; i++)
                CHECK(tick(LINES({ 1, 9, 20, 1, 0, 0, 0, 0 }), NULL), 50, 0, 0);
        CHECK(tick(LINES({ 1, 9, 23, 1, 0, 0, 0, 0 }), NULL), 53, 0, 0);
}

/* Many short-lived children: what the parent gains by those that nobody saw is not taken for the one that was seen. */
static void a_gain_is_matched_once(void **state)
{
        (void) state;
        begin(false);
        CHECK(tick(LINES({ 1, 9, 0, 1, 0, 0, 0, 0 }, { 2, 1, 5, 10, 0, 0, 0, 0 }, { 3, 1, 5, 10, 0, 0, 0, 0 }), NULL),
              10, 0, 0);
        /* Only one of two equal ones was waited for yet. */
        CHECK(tick(LINES({ 1, 9, 0, 1, 5, 10, 0, 0 }), LINES({ 2, 1, 5, 10, 0, 0, 0, 0 }, { 3, 1, 5, 10, 0, 0, 0, 0 })),
              10, 0, 0);
        CHECK(tick(LINES({ 1, 9, 0, 1, 10, 20, 0, 0 }), NULL), 10, 0, 0);
        assert_false(total.has_lost);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_parent_that_waits),
                cmocka_unit_test(a_parent_read_too_early),
                cmocka_unit_test(a_parent_read_too_late),
                cmocka_unit_test(all_end_between_two_ticks),
                cmocka_unit_test(a_parent_that_ignores_sigchld),
                cmocka_unit_test(what_we_wait_for),
                cmocka_unit_test(what_we_wait_for_is_told_late),
                cmocka_unit_test(nobody_tells),
                cmocka_unit_test(an_attached_tree_ends),
                cmocka_unit_test(two_generations_at_once),
                cmocka_unit_test(an_orphan_that_ends_at_once),
                cmocka_unit_test(never_falls),
                cmocka_unit_test(the_pid_of_the_parent_is_used_again),
                cmocka_unit_test(the_pid_of_an_old_parent_is_used_again),
                cmocka_unit_test(a_gain_is_matched_once),
        };
        int failed = cmocka_run_group_tests_name("process_total", tests, NULL, NULL);

        process_total_done(&total);
        return failed;
}
