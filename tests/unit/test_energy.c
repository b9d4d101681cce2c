/* Zones of RAPL: wraps, parts and second views, several sockets, what cannot be read. Expected values were added up by hand. */
#include "energy_machine.h"

/* Copies a report's tree and plays its ticks.tsv up to and including `tick`. */
static void play(const char *top, const char *report, int tick)
{
        char line[256], path[PATH_MAX];
        FILE *file;

        snprintf(path, sizeof(path), "%s", report_root(report));
        snprintf(path + strlen(path), sizeof(path) - strlen(path), "/ticks.tsv");
        file = fopen(path, "r");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
                char name[128], value[64];
                int at;

                if (sscanf(line, "%d %127s %63s", &at, name, value) == 3 && at == tick) {
                        strcat(value, "\n");
                        tree_put(top, name, value);
                }
        }
        fclose(file);
}

static struct machine *begin_report(char top[64], const char *report)
{
        char root[128];

        snprintf(root, sizeof(root), "%s/root", report);
        tree_new(top);
        tree_command("cp -r --no-dereference --no-preserve=mode '%s/.' '%s'", report_root(root), top);
        return begin(top);
}

static void zones_wrap_at_their_own_ranges(void **state)
{
        static const char report[] = "08-each-zone-wraps-at-its-own-range";
        static const int64_t raw[] = { 262100000000, 262140000000, 36671150 };
        char top[64];
        struct machine *m = begin_report(top, report);

        (void) state;
        assert_true(joules(m, "package-0") < 0); /* nothing has moved yet: absent, not 0 */
        assert_true(machine_joules(m) < 0);
        for (int tick = 1; tick <= 3; tick++) {
                play(top, report, tick);
                assert_int_equal(later(m, 1), 0);
                near(joules(m, "package-0"), 40.0 * tick, 0.001);
                near(joules(m, "dram-0"), 6.0 * tick, 0.001);
                near(machine_joules(m), 46.0 * tick, 0.001);
                assert_int_equal(machine_need(m, "energy", "package-0")
                                         ->cell[kept_cell(machine_need(m, "energy", "package-0"), "eRawUj")]
                                         .u64,
                                 raw[tick - 1]);
        }
        EXPECT(m, I64("energy", "package-0", "eWraps", 1), I64("energy", "dram-0", "eWraps", 1),
               I64("energy", "package-0", "eRangeUj", 262143328850), I64("energy", "dram-0", "eRangeUj", 65712999613),
               YES("energy", "package-0", "eIsCounted"), YES("energy", "dram-0", "eIsCounted"),
               ABSENT("energy", "package-0", "ePowerW"), ABSENT("energy", "dram-0", "ePartOf"));
        expect_text(m, "energy", "package-0", "eQuality", "measured");
        expect_text(m, "energy", "dram-0", "ePath", "/sys/class/powercap/intel-rapl:0:0/energy_uj");
        end(m);
        tree_remove(top);
}

static void overlapping_domains_count_once(void **state)
{
        static const char report[] = "09-overlapping-energy-domains";
        static const struct {
                const char *domain;
                double joules;
                bool counted;
        } right[] = {
                { "package-0", 30.0, true }, { "package-0/core", 18.0, false }, { "package-0/uncore", 4.0, false },
                { "dram-0", 5.0, true },     { "psys", 52.0, false },           { "mmio-package-0", 30.1, false }
        };
        char top[64];
        struct machine *m = begin_report(top, report);

        (void) state;
        play(top, report, 1);
        assert_int_equal(later(m, 1), 0);
        for (size_t i = 0; i < INFP_COUNT(right); i++) {
                near(joules(m, right[i].domain), right[i].joules, 1e-9);
                assert_int_equal(counted(m, right[i].domain), right[i].counted);
        }
        near(machine_joules(m), 35.0, 1e-9);
        EXPECT(m, F64("energy_total", NULL, "ePackageJoules", 30.0), F64("energy_total", NULL, "eDramJoules", 5.0),
               F64("energy_total", NULL, "eCoreJoules", 18.0), F64("energy_total", NULL, "ePsysJoules", 52.0));
        expect_text(m, "energy", "mmio-package-0", "eSameAs", "package-0");
        expect_text(m, "energy", "package-0/core", "ePartOf", "package-0");
        expect_text(m, "energy_total", NULL, "eMachineDomains", "package-0, dram-0");
        expect_text(m, "energy_total", NULL, "eMachineQuality", "measured");
        end(m);
        tree_remove(top);
}

/* The number of a zone is not that of a socket, and psys may stand between them. */
static void sockets_and_dies_by_name(void **state)
{
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        zone(top, "intel-rapl:0", "package-1\n", "1000000\n", "262143328850\n");
        zone(top, "intel-rapl:0:0", "dram\n", "1000000\n", "65712999613\n");
        zone(top, "intel-rapl:1", "psys\n", "1000000\n", "262143328850\n");
        zone(top, "intel-rapl:2", "package-0-die-1\n", "1000000\n", "262143328850\n");
        zone(top, "intel-rapl:2:0", "dram\n", "1000000\n", "65712999613\n");
        zone(top, "intel-rapl:10", "package-0-die-0\n", "1000000\n", "262143328850\n");
        tree_command("mkdir -p '%s/" CAP "intel-rapl'", top); /* the control type */
        m = begin(top);
        counter(top, "intel-rapl:0", "3000000\n");
        counter(top, "intel-rapl:0:0", "1500000\n");
        counter(top, "intel-rapl:1", "101000000\n");
        counter(top, "intel-rapl:2", "11000000\n");
        counter(top, "intel-rapl:2:0", "1250000\n");
        counter(top, "intel-rapl:10", "21000000\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "package-1"), 2, 1e-9);
        near(joules(m, "dram-1"), 0.5, 1e-9);
        near(joules(m, "package-0-die-1"), 10, 1e-9);
        near(joules(m, "dram-0-die-1"), 0.25, 1e-9);
        near(joules(m, "package-0-die-0"), 20, 1e-9);
        near(joules(m, "psys"), 100, 1e-9);
        near(machine_joules(m), 32.75, 1e-9);
        expect_text(m, "energy_total", NULL, "eMachineDomains",
                    "package-1, dram-1, package-0-die-1, dram-0-die-1, package-0-die-0");
        end(m);
        tree_remove(top);
}

/* AMD: package and core under Intel's names, no memory. */
static void amd_has_package_and_core(void **state)
{
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        zone(top, "intel-rapl:0", "package-0\n", "65530000000\n", "65532610987\n");
        zone(top, "intel-rapl:0:0", "core\n", "5\n", "65532610987\n");
        m = begin(top);
        counter(top, "intel-rapl:0", "7389013\n"); /* 2610987 to the end, and 7389013 behind it */
        counter(top, "intel-rapl:0:0", "4000005\n");
        assert_int_equal(later(m, 1), 0);
        near(joules(m, "package-0"), 10, 1e-9);
        near(joules(m, "package-0/core"), 4, 1e-9);
        near(machine_joules(m), 10, 1e-9);
        EXPECT(m, ABSENT("energy_total", NULL, "eDramJoules"), F64("energy_total", NULL, "eCoreJoules", 4.0));
        assert_string_equal(machine_state(m, "energy_total", "eDramJoules", NULL, 0), "");
        end(m);
        tree_remove(top);
}

static void psys_or_the_second_view_alone(void **state)
{
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        zone(top, "intel-rapl:0", "psys\n", "0\n", "262143328850\n");
        m = begin(top);
        counter(top, "intel-rapl:0", "52000000\n");
        assert_int_equal(later(m, 1), 0);
        near(machine_joules(m), 52, 1e-9);
        expect_text(m, "energy_total", NULL, "eMachineDomains", "psys");
        end(m);
        tree_remove(top);

        tree_new(top);
        zone(top, "intel-rapl-mmio:0", "package-0\n", "0\n", "262143328850\n");
        m = begin(top);
        counter(top, "intel-rapl-mmio:0", "30000000\n");
        assert_int_equal(later(m, 1), 0);
        near(machine_joules(m), 30, 1e-9);
        expect_text(m, "energy_total", NULL, "eMachineDomains", "mmio-package-0");
        assert_false(kept_has(machine_need(m, "energy", "mmio-package-0"),
                              kept_cell(machine_need(m, "energy", "mmio-package-0"), "eSameAs")));
        end(m);
        tree_remove(top);
}

static void nothing_here(void **state)
{
        char top[64];
        struct machine *m;
        struct infp_collector_state s;

        (void) state;
        tree_new(top);
        tree_put(top, CAP "intel-rapl/enabled", "1\n"); /* a control type without zones */
        tree_put(top, "sys/class/hwmon/hwmon0/name", "coretemp\n");
        tree_put(top, "sys/class/hwmon/hwmon0/temp1_input", "45000\n");
        tree_put(top, "sys/class/power_supply/AC/type", "Mains\n");
        m = machine_open(top);
        assert_int_equal(infp_collector_open(&s, infp_collector_find("energy"), &m->env, &m->emit, machine_notice, m),
                         -ENODEV);
        assert_int_equal(m->n_notices, 0);
        assert_int_equal(machine_count(m, "energy") + machine_count(m, "energy_total"), 0);
        assert_string_equal(machine_state(m, "*", NULL, NULL, 0), "absent");
        infp_collector_close(&s);
        machine_close(m);
        tree_remove(top);
}

/* 0400, read as another user. Root may read all: then this is somebody else for a while. */
static void unreadable_is_denied_with_the_fix(void **state)
{
        const bool is_root = geteuid() == 0;
        const char *words[2];
        char top[64];
        struct machine *m;

        (void) state;
        tree_new(top);
        tree_command("chmod 755 '%s'", top);
        zone(top, "intel-rapl:0", "package-0\n", "1\n", "262143328850\n");
        zone(top, "intel-rapl:0:0", "core\n", "1\n", "262143328850\n");
        tree_command("chmod %s '%s'/" CAP "*/energy_uj", is_root ? "400" : "0", top);
        m = machine_open(top);
        assert_int_equal(
                infp_collector_open(&meters, infp_collector_find("energy"), &m->env, &m->emit, machine_notice, m), 0);
        assert_int_equal(is_root ? seteuid(65534) : 0, 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(later(m, 1), -EAGAIN);
        assert_int_equal(is_root ? seteuid(0) : 0, 0);
        assert_int_equal(machine_count(m, "energy") + machine_count(m, "energy_total"), 0);
        for (int i = 0; i < 3; i++) {
                static const char *const instances[] = { "package-0", "package-0/core", NULL };

                assert_string_equal(said(m, instances[i], words), "denied");
                assert_non_null(strstr(words[0], "root alone"));
                assert_non_null(strstr(words[1], "z /sys/class/powercap/intel-rapl:*/energy_uj 0444 root power -"));
                assert_non_null(strstr(words[1], "usermod -aG power"));
                assert_non_null(strstr(words[1], "systemd-tmpfiles --create"));
        }
        assert_int_equal(m->n_notices, 0);
        /* Said once, not at each tick. */
        assert_int_equal(machine_count(m, "sources"), 4);
        /* Somebody has applied the fix. */
        tree_command("chmod 644 '%s'/" CAP "*/energy_uj", top); /* the test writes it too */
        assert_int_equal(later(m, 1), 0);
        counter(top, "intel-rapl:0", "2000001\n");
        assert_int_equal(later(m, 1), 0);
        near(machine_joules(m), 2, 1e-9);
        assert_string_equal(said(m, "package-0", NULL), "ok");
        assert_string_equal(said(m, NULL, NULL), "ok");
        end(m);
        tree_remove(top);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(zones_wrap_at_their_own_ranges),    cmocka_unit_test(overlapping_domains_count_once),
                cmocka_unit_test(sockets_and_dies_by_name),          cmocka_unit_test(amd_has_package_and_core),
                cmocka_unit_test(psys_or_the_second_view_alone),     cmocka_unit_test(nothing_here),
                cmocka_unit_test(unreadable_is_denied_with_the_fix),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
