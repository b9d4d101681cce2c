/* Records of Python frames and samples of perf: which of them are of one interrupt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/time.h"
#include "sampler/python/join.h"

enum { PID = 70, TID = 71, BYTES = 1 << 16 };
static const uint64_t t0 = 5 * INFP_NS_PER_S, period_ns = 10 * INFP_NS_PER_MS;

static struct infp_frames_record record_of(int32_t tid, uint64_t t_ns, uint64_t address, uint32_t n)
{
        struct infp_frames_record record = { .t_ns = t_ns, .address = address, .pid = PID, .tid = tid, .n = n };

        for (uint32_t i = 0; i < n; i++)
                record.frames[i].code = t_ns + i;
        return record;
}

static void put(struct infp_python_join *join, int32_t tid, uint64_t t_ns, uint64_t address)
{
        const struct infp_frames_record record = record_of(tid, t_ns, address, 3);

        infp_python_join_put(join, &record);
}

static uint64_t take(struct infp_python_join *join, int32_t tid, uint64_t t_ns, uint64_t address)
{
        struct infp_perf_sample sample = {
                .t_ns = t_ns, .pid = PID, .tid = tid, .period = period_ns, .has_registers = true
        };
        const struct infp_frames_record *record;

        sample.registers[INFP_RIP] = address;
        record = infp_python_join_take(join, &sample);
        if (!record)
                return 0;
        assert_int_equal(record->n, 3);
        assert_int_equal(record->frames[2].code, record->t_ns + 2);
        return record->t_ns;
}

static void the_nearest_of_the_same_thread_and_address(void **state)
{
        struct infp_python_join join;

        (void) state;
        assert_int_equal(infp_python_join_init(&join, BYTES), 0);
        put(&join, TID, t0 + 5000, 0x40);
        put(&join, TID + 1, t0 + 6000, 0x40);
        put(&join, TID, t0 + period_ns + 3000, 0x40);
        put(&join, TID, t0 + 2 * period_ns - 1000, 0x48); /* stamped before its sample, as old kernels do */
        assert_int_equal(take(&join, TID, t0, 0x44), 0);  /* another place: another moment */
        assert_int_equal(take(&join, TID, t0, 0x40), t0 + 5000);
        assert_int_equal(take(&join, TID, t0, 0x40), 0); /* each is given once */
        assert_int_equal(take(&join, TID + 1, t0 + 1, 0x40), t0 + 6000);
        assert_int_equal(take(&join, TID + 2, t0 + 1, 0x40), 0);
        assert_int_equal(take(&join, TID, t0 + period_ns, 0x40), t0 + period_ns + 3000);
        assert_int_equal(take(&join, TID, t0 + 2 * period_ns, 0x48), t0 + 2 * period_ns - 1000);
        infp_python_join_done(&join);
}

/* A sample whose record was dropped does not get that of the next. */
static void a_missing_record_is_not_replaced(void **state)
{
        struct infp_python_join join;

        (void) state;
        assert_int_equal(infp_python_join_init(&join, BYTES), 0);
        put(&join, TID, t0 + period_ns + 3000, 0x40);
        assert_int_equal(take(&join, TID, t0, 0x40), 0);
        assert_int_equal(take(&join, TID, t0 + period_ns, 0x40), t0 + period_ns + 3000);
        infp_python_join_done(&join);
}

static void in_the_kernel_its_address_counts(void **state)
{
        static const uint64_t kernel[] = { 0xffffffff81000040, 0xffffffff81000080 };
        const struct infp_perf_sample sample = { .t_ns = t0,
                                                 .pid = PID,
                                                 .tid = TID,
                                                 .period = period_ns,
                                                 .is_in_kernel = true,
                                                 .kernel = kernel,
                                                 .n_kernel = 2 };
        struct infp_python_join join;

        (void) state;
        assert_int_equal(infp_python_join_init(&join, BYTES), 0);
        put(&join, TID, t0 + 100, kernel[1]);
        put(&join, TID, t0 + 200, kernel[0]);
        assert_int_equal(infp_python_join_take(&join, &sample)->t_ns, t0 + 200);
        infp_python_join_done(&join);
}

/* Samples that were lost leave records behind: the oldest go, and nothing else. */
static void old_records_make_room(void **state)
{
        enum { N = 10000 };
        struct infp_python_join join;

        (void) state;
        assert_int_equal(infp_python_join_init(&join, BYTES), 0);
        for (uint64_t i = 0; i < N; i++)
                put(&join, TID, t0 + i * period_ns, 0x40);
        assert_int_equal(take(&join, TID, t0, 0x40), 0);
        assert_int_equal(take(&join, TID, t0 + (N - 1) * period_ns, 0x40), t0 + (N - 1) * period_ns);
        infp_python_join_done(&join);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_nearest_of_the_same_thread_and_address),
                cmocka_unit_test(a_missing_record_is_not_replaced),
                cmocka_unit_test(in_the_kernel_its_address_counts),
                cmocka_unit_test(old_records_make_room),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
