/* The collector `pressure` on trees. */
#include "machine.h"

static const struct infp_collector *pressure(void)
{
        return infp_collector_find("pressure");
}

static void figures(void **state)
{
        struct machine *m;
        char top[64], reason[256];

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
        assert_int_equal(machine_count(m, "pressure"), 1);
        EXPECT(m, F64("pressure", NULL, "vPressureCpuSomeAvg10", 12.34),
               F64("pressure", NULL, "vPressureCpuSomeAvg60", 1), F64("pressure", NULL, "vPressureCpuSomeAvg300", 0.5),
               I64("pressure", NULL, "vPressureCpuSome", 1234567000), I64("pressure", NULL, "vPressureCpuFull", 0),
               I64("pressure", NULL, "vPressureIoSome", 7000), F64("pressure", NULL, "vPressureIoFullAvg10", 0),
               ABSENT("pressure", NULL, "vPressureIoFullAvg60"), /* the text was cut behind it */
               ABSENT("pressure", NULL, "vPressureIoFull"), ABSENT("pressure", NULL, "vPressureMemorySomeAvg10"),
               ABSENT("pressure", NULL, "vPressureMemorySome"), ABSENT("pressure", NULL, "vPressureMemoryFull"),
               ABSENT("pressure", NULL, "vPressureIrqFull"));
        assert_string_equal(machine_state(m, "pressure", "vPressureIrqFull", reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "Linux 6.1"));
        assert_string_equal(machine_state(m, "pressure", "vPressureIrqFullAvg300", NULL, 0), "absent");
        assert_string_equal(machine_state(m, "pressure", "vPressureIoFull", reason, sizeof(reason)), "absent");
        assert_non_null(strstr(reason, "does not provide it"));
        /* It comes later. */
        tree_put(top, "proc/pressure/irq", "full avg10=0.50 avg60=0.00 avg300=0.00 total=3\n");
        assert_int_equal(machine_sample(m, pressure()), 0);
        EXPECT(m, I64("pressure", NULL, "vPressureIrqFull", 3000), F64("pressure", NULL, "vPressureIrqFullAvg10", 0.5));
        assert_string_equal(machine_state(m, "pressure", "vPressureIrqFull", NULL, 0), "ok");
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
