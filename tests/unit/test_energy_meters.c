/* Meters that stand still, come and go, tell nonsense or give watts. Expected values were added up by hand. */
#include "energy_machine.h"

static void what_never_moves_is_not_counted(void **state)
{
        const char *words[2];
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        zone(top, "intel-rapl:0", "psys\n", "0\n", "262143328850\n");
        m = begin(top);
        for (int i = 0; i < 4; i++)
                assert_int_equal(later(m, 1), 0);
        assert_true(joules(m, "psys") < 0);
        assert_true(machine_joules(m) < 0);
        assert_false(counted(m, "psys"));
        assert_string_equal(said(m, "psys", words), "absent");
        assert_non_null(strstr(words[0], "does not move"));
        assert_string_equal(said(m, NULL, NULL), "absent");
        EXPECT(m, I64("energy", "psys", "eRawUj", 0), ABSENT("energy_total", NULL, "eMachineDomains"));
        /* Beside one that lives it does not matter. */
        zone(top, "intel-rapl:1", "package-0\n", "7\n", "262143328850\n");
        assert_int_equal(later(m, 10), 0);
        counter(top, "intel-rapl:1", "3000007\n");
        assert_int_equal(later(m, 1), 0);
        near(machine_joules(m), 3, 1e-9);
        assert_string_equal(said(m, NULL, NULL), "ok");
        /* It was only slow. */
        counter(top, "intel-rapl:0", "9000000\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "psys"), 9, 1e-9);
        assert_string_equal(said(m, "psys", NULL), "ok");
        end(m);
        tree_remove(top);
}

static void zones_come_and_go(void **state)
{
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        zone(top, "intel-rapl:0", "package-0\n", "0\n", "262143328850\n");
        zone(top, "intel-rapl:1", "package-1\n", "0\n", "262143328850\n");
        m = begin(top);
        counter(top, "intel-rapl:0", "5000000\n");
        counter(top, "intel-rapl:1", "6000000\n");
        assert_int_equal(later(m, 1), 0);
        tree_command("rm -r '%s/" CAP "intel-rapl:1'", top);
        counter(top, "intel-rapl:0", "8000000\n");
        assert_int_equal(later(m, 1), 0);
        near(machine_joules(m), 14, 1e-9); /* what it drew stays drawn */
        assert_string_equal(said(m, "package-1", NULL), "absent");
        expect_text(m, "energy_total", NULL, "eMachineDomains", "package-0");
        /* Back with another value: no difference to the old one. */
        zone(top, "intel-rapl:1", "package-1\n", "100000000\n", "262143328850\n");
        assert_int_equal(later(m, 10), 0);
        counter(top, "intel-rapl:1", "101000000\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "package-1"), 7, 1e-9);
        near(machine_joules(m), 15, 1e-9);
        assert_string_equal(said(m, "package-1", NULL), "ok");
        end(m);
        tree_remove(top);
}

static void nonsense_is_no_number(void **state)
{
        static const char *const nonsense[] = { "", "\n", "abc\n", "-5\n", "12 34\n", "99999999999999999999999\n" };
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        zone(top, "intel-rapl:0", "package-0\n", "1000000\n", "garbage\n");
        zone(top, "intel-rapl:0:0", "", "1\n", NULL);
        zone(top, "intel-rapl:1", "\x01\xff\n", "1\n", "1\n");
        m = begin(top);
        for (size_t i = 0; i < INFP_COUNT(nonsense); i++) {
                counter(top, "intel-rapl:0", nonsense[i]);
                assert_int_equal(later(m, 1), 0);
                assert_string_equal(said(m, "package-0", NULL), "broken");
        }
        counter(top, "intel-rapl:0", "3000000\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "package-0"), 2, 1e-9);
        /* It fell, and its range is not known: nothing is made up. */
        counter(top, "intel-rapl:0", "5\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "package-0"), 2, 1e-9);
        assert_string_equal(said(m, "package-0", NULL), "broken");
        end(m);
        tree_remove(top);
}

static void a_counter_that_is_set_anew_counts_on_from_there(void **state)
{
        const char *words[2];
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        zone(top, "intel-rapl:0", "package-0\n", "100000000000\n", "262143328850\n");
        m = begin(top);
        counter(top, "intel-rapl:0", "100040000000\n");
        assert_int_equal(later(m, 1), 0);
        /* Its driver was loaded again. Taken for a wrap this would be 162 kJ. */
        counter(top, "intel-rapl:0", "5000000\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "package-0"), 40, 1e-9);
        assert_string_equal(said(m, "package-0", words), "broken");
        assert_non_null(strstr(words[0], "was reset"));
        counter(top, "intel-rapl:0", "35000000\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "package-0"), 70, 1e-9);
        assert_string_equal(said(m, "package-0", NULL), "ok");
        /* 150 kJ in a second. */
        counter(top, "intel-rapl:0", "150035000000\n");
        assert_int_equal(later(m, 1), 0);
        near(machine_joules(m), 70, 1e-9);
        assert_string_equal(said(m, "package-0", NULL), "broken");
        /* The same after ten minutes may be. */
        counter(top, "intel-rapl:0", "150065000000\n");
        assert_int_equal(later(m, 1), 0);
        counter(top, "intel-rapl:0", "230065000000\n");
        assert_int_equal(later(m, 600), 0);
        near(machine_joules(m), 80100, 1e-9);
        end(m);
        tree_remove(top);
}

static void too_long_a_pause_is_said(void **state)
{
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        zone(top, "intel-rapl:0", "package-0\n", "1000000\n", "65532610987\n");
        m = begin(top);
        counter(top, "intel-rapl:0", "2000000\n");
        assert_int_equal(later(m, 30), 0);
        assert_string_equal(said(m, "package-0", NULL), "");
        counter(top, "intel-rapl:0", "3000000\n");
        assert_int_equal(later(m, 600), 0);
        assert_string_equal(said(m, "package-0", NULL), "late");
        counter(top, "intel-rapl:0", "4000000\n");
        assert_int_equal(later(m, 1), 0);
        assert_string_equal(said(m, "package-0", NULL), "ok");
        end(m);
        tree_remove(top);
}

static void battery_is_integrated_while_it_feeds(void **state)
{
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        tree_put(top, "sys/class/power_supply/BAT0/type", "Battery\n");
        tree_put(top, "sys/class/power_supply/BAT0/status", "Discharging\n");
        tree_put(top, "sys/class/power_supply/BAT0/power_now", "10000000\n");
        tree_put(top, "sys/class/power_supply/BAT1/type", "Battery\n");
        tree_put(top, "sys/class/power_supply/BAT1/status", "Discharging\n");
        tree_put(top, "sys/class/power_supply/BAT1/current_now", "-500000\n");
        tree_put(top, "sys/class/power_supply/BAT1/voltage_now", "12000000\n");
        tree_put(top, "sys/class/power_supply/mouse/type", "Battery\n");
        tree_put(top, "sys/class/power_supply/mouse/scope", "Device\n");
        tree_put(top, "sys/class/power_supply/mouse/power_now", "1\n");
        tree_put(top, "sys/class/hwmon/hwmon0/name", "BAT0\n");
        tree_put(top, "sys/class/hwmon/hwmon0/power1_input", "10000000\n");
        m = begin(top);
        assert_null(machine_row(m, "energy", "battery-mouse"));
        assert_null(machine_row(m, "energy", "BAT0/power1"));
        assert_true(joules(m, "battery-BAT0") < 0);
        EXPECT(m, F64("energy", "battery-BAT0", "ePowerW", 10.0), F64("energy", "battery-BAT1", "ePowerW", 6.0),
               ABSENT("energy", "battery-BAT0", "eRawUj"));
        tree_put(top, "sys/class/power_supply/BAT0/power_now", "20000000\n");
        assert_int_equal(later(m, 2), 0);
        near(joules(m, "battery-BAT0"), 30, 1e-9); /* (10 + 20) / 2 W for 2 s */
        near(joules(m, "battery-BAT1"), 12, 1e-9);
        near(machine_joules(m), 42, 1e-9);
        expect_text(m, "energy", "battery-BAT0", "eQuality", "estimated");
        expect_text(m, "energy_total", NULL, "eMachineQuality", "estimated");
        /* Plugged in: what the machine draws is not known; unplugged: it is not guessed for the time between. */
        tree_put(top, "sys/class/power_supply/BAT0/status", "Charging\n");
        tree_put(top, "sys/class/power_supply/BAT1/status", "Charging\n");
        assert_int_equal(later(m, 5), -EAGAIN);
        assert_string_equal(said(m, "battery-BAT0", NULL), "absent");
        tree_put(top, "sys/class/power_supply/BAT0/status", "Discharging\n");
        assert_int_equal(later(m, 5), 0);
        near(joules(m, "battery-BAT0"), 30, 1e-9);
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "battery-BAT0"), 50, 1e-9);
        near(machine_joules(m), 62, 1e-9);
        end(m);
        tree_remove(top);
}

static void sensors_of_hwmon(void **state)
{
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        tree_put(top, "sys/class/hwmon/hwmon1/name", "amd_energy\n");
        tree_put(top, "sys/class/hwmon/hwmon1/energy1_input", "1000000\n");
        tree_put(top, "sys/class/hwmon/hwmon1/energy1_label", "Ecore000\n");
        tree_put(top, "sys/class/hwmon/hwmon1/energy2_input", "1000000\n");
        tree_put(top, "sys/class/hwmon/hwmon1/energy2_label", "Esocket0\n");
        tree_put(top, "sys/class/hwmon/hwmon2/name", "power_meter\n");
        tree_put(top, "sys/class/hwmon/hwmon2/power1_average", "200000000\n");
        tree_put(top, "sys/class/hwmon/hwmon3/name", "card\n");
        tree_put(top, "sys/class/hwmon/hwmon3/power1_average", "1\n");
        tree_put(top, "sys/class/hwmon/hwmon3/power1_input", "50000000\n");
        tree_put(top, "sys/class/hwmon/hwmon3/power1_label", "PPT\n");
        tree_put(top, "sys/class/hwmon/hwmon3/power1_cap", "90000000\n");
        m = begin(top);
        tree_put(top, "sys/class/hwmon/hwmon1/energy2_input", "31000000\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "amd_energy/Esocket0"), 30, 1e-9);
        near(joules(m, "power_meter/power1"), 200, 1e-9);
        near(joules(m, "card/PPT"), 50, 1e-9);
        assert_null(machine_row(m, "energy", "amd_energy/Ecore000"));
        assert_int_equal(machine_count(m, "energy"), 6);
        assert_true(counted(m, "amd_energy/Esocket0"));
        assert_false(counted(m, "power_meter/power1") || counted(m, "card/PPT"));
        near(machine_joules(m), 30, 1e-9);
        expect_text(m, "energy", "amd_energy/Esocket0", "eQuality", "measured");
        /* Without the sockets, the meter at the supply. */
        tree_command("rm -r '%s/sys/class/hwmon/hwmon1'", top);
        assert_int_equal(later(m, 1), 0);
        assert_true(counted(m, "power_meter/power1"));
        expect_text(m, "energy_total", NULL, "eMachineQuality", "estimated");
        end(m);
        tree_remove(top);
}

static double seconds(const struct machine *m, const char *table, const char *domain, const char *column)
{
        const struct kept *k = machine_need(m, table, domain);

        return k->cell[kept_cell(k, column)].f64;
}

/* 100 W at each reading are 100 W, whatever could not be read between: the seconds say how long that was measured. */
static void a_gap_is_no_time(void **state)
{
        const char *words[2];
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        tree_put(top, "sys/class/hwmon/hwmon2/name", "power_meter\n");
        tree_put(top, "sys/class/hwmon/hwmon2/power1_average", "100000000\n");
        m = begin(top);
        assert_int_equal(later(m, 1), 0);
        tree_put(top, "sys/class/hwmon/hwmon2/power1_average", "unreadable\n");
        assert_int_equal(later(m, 0.5), -EAGAIN);
        tree_put(top, "sys/class/hwmon/hwmon2/power1_average", "2000000000000\n"); /* 2 MW */
        assert_int_equal(later(m, 0.5), -EAGAIN);
        assert_string_equal(said(m, "power_meter/power1", words), "broken");
        assert_non_null(strstr(words[0], "impossible"));
        tree_put(top, "sys/class/hwmon/hwmon2/power1_average", "100000000\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "power_meter/power1"), 100, 1e-9);
        near(seconds(m, "energy", "power_meter/power1", "eMeasuredS"), 1, 1e-9);
        assert_int_equal(later(m, 2), 0);
        near(machine_joules(m), 300, 1e-9);
        near(seconds(m, "energy_total", NULL, "eMachineMeasuredS"), 3, 1e-9);
        end(m);
        tree_remove(top);
}

/* Of a second in which one of two sockets was not measured the sum of both is not known. */
static void a_gap_of_one_is_one_of_the_sum(void **state)
{
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        zone(top, "intel-rapl:0", "package-0\n", "1000000\n", "262143328850\n");
        zone(top, "intel-rapl:1", "package-1\n", "200000000000\n", "262143328850\n");
        m = begin(top);
        counter(top, "intel-rapl:0", "51000000\n");
        counter(top, "intel-rapl:1", "1000000\n"); /* set anew */
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "package-0"), 50, 1e-9);
        near(seconds(m, "energy", "package-1", "eMeasuredS"), 0, 1e-9);
        near(seconds(m, "energy_total", NULL, "eMachineMeasuredS"), 0, 1e-9);
        counter(top, "intel-rapl:0", "101000000\n");
        counter(top, "intel-rapl:1", "31000000\n");
        assert_int_equal(later(m, 1), 0);
        near(machine_joules(m), 80, 1e-9);
        near(seconds(m, "energy_total", NULL, "eMachineMeasuredS"), 1, 1e-9);
        near(seconds(m, "energy_total", NULL, "ePackageMeasuredS"), 1, 1e-9);
        end(m);
        tree_remove(top);
}

/* Whatever the interval of a run, zones are read before they can have gone round twice. */
static void the_period_is_bounded(void **state)
{
        const struct infp_collector *energy = infp_collector_find("energy");

        (void) state;
        assert_non_null(energy);
        assert_int_equal(infp_collector_period_ms(energy, 10), 100);
        assert_int_equal(infp_collector_period_ms(energy, 1000), 1000);
        assert_int_equal(infp_collector_period_ms(energy, 3600 * 1000), 30000);
        assert_true(energy->flags & INFP_MAY_BLOCK);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_never_moves_is_not_counted),
                cmocka_unit_test(zones_come_and_go),
                cmocka_unit_test(nonsense_is_no_number),
                cmocka_unit_test(a_counter_that_is_set_anew_counts_on_from_there),
                cmocka_unit_test(too_long_a_pause_is_said),
                cmocka_unit_test(battery_is_integrated_while_it_feeds),
                cmocka_unit_test(sensors_of_hwmon),
                cmocka_unit_test(a_gap_is_no_time),
                cmocka_unit_test(a_gap_of_one_is_one_of_the_sum),
                cmocka_unit_test(the_period_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
