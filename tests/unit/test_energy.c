/* Meters of energy: wraps, parts and second views, several sockets, meters that cannot be read, that stand still or come and go.
 * Expected values were added up by hand. */
#include "machine.h"

#include "base/mem.h"

#define CAP "sys/class/powercap/"

static struct infp_collector_state meters;

static struct machine *begin(const char *root)
{
        struct machine *m = machine_open(root);

        assert_int_equal(
                infp_collector_open(&meters, infp_collector_find("energy"), &m->env, &m->emit, machine_notice, m), 0);
        assert_int_equal(infp_collector_sample(&meters, &m->env, &m->emit, machine_notice, m), 0);
        return m;
}

static int later(struct machine *m, double seconds)
{
        m->clock_ns += (uint64_t) (seconds * 1e9);
        return infp_collector_sample(&meters, &m->env, &m->emit, machine_notice, m);
}

static void end(struct machine *m)
{
        infp_collector_close(&meters);
        machine_close(m);
}

static void zone(const char *top, const char *name, const char *label, const char *uj, const char *range)
{
        char path[128];

        snprintf(path, sizeof(path), CAP "%s/name", name);
        tree_put(top, path, label);
        snprintf(path, sizeof(path), CAP "%s/energy_uj", name);
        tree_put(top, path, uj);
        snprintf(path, sizeof(path), CAP "%s/max_energy_range_uj", name);
        if (range)
                tree_put(top, path, range);
}

static void counter(const char *top, const char *name, const char *uj)
{
        char path[128];

        snprintf(path, sizeof(path), CAP "%s/energy_uj", name);
        tree_put(top, path, uj);
}

static double joules(const struct machine *m, const char *domain)
{
        const struct kept *k = machine_need(m, "energy", domain);
        const unsigned cell = kept_cell(k, "eJoules");

        return kept_has(k, cell) ? k->cell[cell].f64 : -1;
}

static double machine_joules(const struct machine *m)
{
        const struct kept *k = machine_need(m, "energy_total", NULL);
        const unsigned cell = kept_cell(k, "eMachineJoules");

        return kept_has(k, cell) ? k->cell[cell].f64 : -1;
}

static bool counted(const struct machine *m, const char *domain)
{
        const struct kept *k = machine_need(m, "energy", domain);

        return k->cell[kept_cell(k, "eIsCounted")].b;
}

static void expect_text(const struct machine *m, const char *table, const char *key, const char *column,
                        const char *right)
{
        const struct kept *k = machine_need(m, table, key);
        char text[512];

        assert_true(kept_has(k, kept_cell(k, column)));
        assert_string_equal(kept_text(k, kept_cell(k, column), text, sizeof(text)), right);
}

static void near(double value, double right, double by)
{
        if (!(value >= right - by && value <= right + by))
                fail_msg("%.9g is not %.9g", value, right);
}

/* What `sources` said last of an instance. */
static const char *said(const struct machine *m, const char *instance, const char *ret[2])
{
        static char words[3][1024];

        for (size_t i = m->n; i-- > 0;) {
                const struct kept *k = &m->rows[i];
                bool has;

                if (k->table != &infp_table_sources)
                        continue;
                has = kept_has(k, INFP_SOURCES_INSTANCE);
                if (has != (instance != NULL) ||
                    (has && strcmp(kept_text(k, INFP_SOURCES_INSTANCE, words[0], sizeof(words[0])), instance)))
                        continue;
                words[1][0] = words[2][0] = 0;
                if (kept_has(k, INFP_SOURCES_REASON))
                        kept_text(k, INFP_SOURCES_REASON, words[1], sizeof(words[1]));
                if (kept_has(k, INFP_SOURCES_FIX))
                        kept_text(k, INFP_SOURCES_FIX, words[2], sizeof(words[2]));
                if (ret) {
                        ret[0] = words[1];
                        ret[1] = words[2];
                }
                return kept_text(k, INFP_SOURCES_STATE, words[0], sizeof(words[0]));
        }
        return "";
}

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
        tree_command("cp -a '%s/.' '%s'", report_root(root), top);
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
        tree_command("chmod 444 '%s'/" CAP "*/energy_uj", top);
        assert_int_equal(later(m, 1), 0);
        counter(top, "intel-rapl:0", "2000001\n");
        assert_int_equal(later(m, 1), 0);
        near(machine_joules(m), 2, 1e-9);
        assert_string_equal(said(m, "package-0", NULL), "ok");
        assert_string_equal(said(m, NULL, NULL), "ok");
        end(m);
        tree_remove(top);
}

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
                cmocka_unit_test(zones_wrap_at_their_own_ranges),
                cmocka_unit_test(overlapping_domains_count_once),
                cmocka_unit_test(sockets_and_dies_by_name),
                cmocka_unit_test(amd_has_package_and_core),
                cmocka_unit_test(psys_or_the_second_view_alone),
                cmocka_unit_test(nothing_here),
                cmocka_unit_test(unreadable_is_denied_with_the_fix),
                cmocka_unit_test(what_never_moves_is_not_counted),
                cmocka_unit_test(zones_come_and_go),
                cmocka_unit_test(nonsense_is_no_number),
                cmocka_unit_test(too_long_a_pause_is_said),
                cmocka_unit_test(battery_is_integrated_while_it_feeds),
                cmocka_unit_test(sensors_of_hwmon),
                cmocka_unit_test(the_period_is_bounded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
