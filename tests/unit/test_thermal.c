/* thermal: which sensor is the CPU's, on trees made here. */
#include "machine.h"

#include "base/fd.h"
#include "base/mem.h"
#include "collect/collector.h"

struct file {
        const char *path, *text;
};

static void make_directories(const char *root, const char *path)
{
        char whole[PATH_MAX];

        for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
                snprintf(whole, sizeof(whole), "%s/%.*s", root, (int) (slash - path), path);
                assert_true(mkdir(whole, 0700) == 0 || errno == EEXIST);
        }
}

static void remove_tree(const char *root)
{
        char command[PATH_MAX + 16];

        snprintf(command, sizeof(command), "rm -rf '%s'", root);
        assert_int_equal(system(command), 0);
}

/* What one sample of a machine with these files says: degrees, or what open or sample returned where there is no row. */
static double sample(const struct file *files, size_t n, int *ret)
{
        char root[] = "/tmp/test_thermal-XXXXXX";
        double degrees = -1;
        const struct kept *row;
        struct machine *m;

        assert_non_null(mkdtemp(root));
        for (size_t i = 0; i < n; i++) {
                char whole[PATH_MAX];
                FILE *file;

                make_directories(root, files[i].path);
                snprintf(whole, sizeof(whole), "%s/%s", root, files[i].path);
                file = fopen(whole, "w");
                assert_non_null(file);
                fputs(files[i].text, file);
                fclose(file);
        }
        m = machine_open(root);
        *ret = machine_sample(m, infp_collector_find("thermal"));
        row = machine_row(m, "thermal", NULL);
        if (row)
                degrees = row->cell[kept_cell(row, "vCpuTemperature")].f64;
        machine_close(m);
        remove_tree(root);
        return degrees;
}

#define ZONE(n, type, temp)                                      \
        { "sys/class/thermal/thermal_zone" n "/type", type },    \
        {                                                        \
                "sys/class/thermal/thermal_zone" n "/temp", temp \
        }
#define CHECK(wanted, ...)                                                              \
        do {                                                                            \
                static const struct file files_[] = { __VA_ARGS__ };                    \
                int r_;                                                                 \
                double v_ = sample(files_, INFP_COUNT(files_), &r_);                    \
                if (v_ != (wanted) || r_ != 0)                                          \
                        fail_msg("line %d: %g (%d), not %g", __LINE__, v_, r_, wanted); \
        } while (0)

static void test_sensors(void **state)
{
        (void) state;
        /* The package before the mainboard; the hotter of two. */
        CHECK(61.5, ZONE("0", "acpitz\n", "27800\n"), ZONE("1", "x86_pkg_temp\n", "60000\n"),
              ZONE("2", "x86_pkg_temp\n", "61500\n"));
        /* Gaps between the numbers. */
        CHECK(33.0, ZONE("7", "x86_pkg_temp\n", "33000\n"));
        /* A zone of the mainboard is not the CPU: its chip is. */
        CHECK(45.0, ZONE("0", "acpitz\n", "90000\n"), { "sys/class/hwmon/hwmon3/name", "coretemp\n" },
              { "sys/class/hwmon/hwmon3/temp1_label", "Package id 0\n" },
              { "sys/class/hwmon/hwmon3/temp1_input", "45000\n" }, { "sys/class/hwmon/hwmon3/temp2_label", "Core 0\n" },
              { "sys/class/hwmon/hwmon3/temp2_input", "99000\n" }, { "sys/class/hwmon/hwmon0/name", "nvme\n" },
              { "sys/class/hwmon/hwmon0/temp1_input", "80000\n" });
        /* Tctl may lie above the die's temperature on purpose, but is all that newer chips have. */
        CHECK(52.25, { "sys/class/hwmon/hwmon0/name", "k10temp\n" }, { "sys/class/hwmon/hwmon0/temp1_label", "Tctl\n" },
              { "sys/class/hwmon/hwmon0/temp1_input", "52250\n" }, { "sys/class/hwmon/hwmon0/temp3_label", "Tccd1\n" },
              { "sys/class/hwmon/hwmon0/temp3_input", "70000\n" });
        CHECK(-3.5, ZONE("0", "cpu-thermal\n", "-3500\n"));
        /* A broken sensor beside one that works. */
        CHECK(50.0, ZONE("0", "x86_pkg_temp\n", "-273150\n"), ZONE("1", "x86_pkg_temp\n", "50000\n"));
}

static void test_absent(void **state)
{
        static const struct file none[] = { { "proc/stat", "" }, ZONE("0", "acpitz\n", "27800\n") };
        static const struct file broken[] = { ZONE("0", "x86_pkg_temp\n", "hot\n") };
        static const struct file empty[] = { ZONE("0", "x86_pkg_temp\n", "") };
        int r;

        (void) state;
        assert_true(sample(none, INFP_COUNT(none), &r) == -1);
        assert_int_equal(r, -ENODEV);
        assert_true(sample(broken, INFP_COUNT(broken), &r) == -1);
        assert_int_equal(r, 0);
        assert_true(sample(empty, INFP_COUNT(empty), &r) == -1);
        assert_int_equal(r, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sensors),
                cmocka_unit_test(test_absent),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
