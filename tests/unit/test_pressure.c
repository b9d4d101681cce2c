/* The collector `pressure` on trees. */
#include "machine.h"

static const struct infp_collector *pressure(void)
{
        return infp_collector_find("pressure");
}

static void figures(void **state)
{
        struct machine *m;
        char top[64];

        (void) state;
        tree_new(top);
        tree_put(top, "proc/pressure/cpu",
                 "some avg10=12.34 avg60=1.00 avg300=0.50 total=1234567\n"
                 "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
        tree_put(top, "proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 avg60=0.1");
        tree_put(top, "proc/pressure/memory",
                 "some avg10=nonsense avg60=-1.00 future=3 total=18446744073709551615\n"
                 "nobody avg10=1.00 total=5\n");
        m = machine_open(top);
        assert_int_equal(machine_sample(m, pressure()), 0);
        assert_int_equal(machine_count(m, "pressure"), 3);
        EXPECT(m, F64("pressure", "cpu", "vPressureSomeAvg10", 12.34),
               I64("pressure", "cpu", "vPressureSome", 1234567000), I64("pressure", "cpu", "vPressureFull", 0),
               I64("pressure", "io", "vPressureSome", 7000), F64("pressure", "io", "vPressureFullAvg10", 0),
               ABSENT("pressure", "io", "vPressureFullAvg60"), /* the text was cut behind it */
               ABSENT("pressure", "io", "vPressureFull"), ABSENT("pressure", "memory", "vPressureSomeAvg10"),
               ABSENT("pressure", "memory", "vPressureSome"), ABSENT("pressure", "memory", "vPressureFull"));
        assert_string_equal(machine_state(m, "pressure", NULL, NULL, 0), "absent"); /* irq */
        machine_close(m);
        tree_remove(top);
}

static void kernel_without(void **state)
{
        char top[64], reason[256];
        struct machine *m;

        (void) state;
        tree_new(top);
        tree_put(top, "proc/stat", "cpu 1 2 3 4\n");
        m = machine_open(top);
        assert_int_equal(machine_sample(m, pressure()), -ENODEV);
        assert_string_equal(machine_state(m, "*", NULL, reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "psi=1"));
        machine_close(m);
        tree_remove(top);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(figures), cmocka_unit_test(kernel_without) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
