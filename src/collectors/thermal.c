/* Temperature of the CPU: its package's thermal zone, else its own sensors of hwmon, else the zones of a system on a chip. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/procfile.h"
#include "collect/collector.h"

enum thermal_cell { THERMAL_TEMPERATURE, THERMAL_N };

// clang-format off
static const struct infp_column thermal_columns[] = {
        [THERMAL_TEMPERATURE] = INFP_COLUMN(vCpuTemperature, F64, GAUGE, celsius, MEASURED, NO, NULL, 0, "infprof_host_cpu_temperature_celsius", "Temperature of the CPU, of the hottest package where there are several; at most each second."),
};
// clang-format on

static const struct infp_table thermal_table = {
        .name = "thermal",
        .help = "Temperature of the CPU, at most each second.",
        .columns = thermal_columns,
        .n_columns = THERMAL_N,
        .section = "cpu",
        .series = "",
};

#define ZONES "sys/class/thermal"
#define CHIPS "sys/class/hwmon"
enum { MAX_SENSORS = 64, MAX_NUMBER = 1024, MAX_INPUTS = 16 };
/* No CPU reaches these: a broken sensor shows -273 or 255 degrees, in thousandths. */
enum { COLDEST = -60000, HOTTEST = 200000 };

struct thermal {
        char paths[MAX_SENSORS][64];
        unsigned n;
};

static bool read_word(const struct infp_env *env, const char *path, char *ret, size_t cap)
{
        ssize_t n = infp_read_at(env->root_fd, path, ret, cap);

        if (n <= 0)
                return false;
        ret[strcspn(ret, "\n")] = 0;
        return true;
}

static void add(struct thermal *thermal, const char *path)
{
        if (thermal->n < MAX_SENSORS) /* bound: one of a socket; the hottest of 64 is the hottest */
                snprintf(thermal->paths[thermal->n++], sizeof(thermal->paths[0]), "%s", path);
}

static bool is_package(const char *type)
{
        return strcmp(type, "x86_pkg_temp") == 0;
}

/* "cpu-thermal", "cpu_thermal", "cpu0-thermal", "cpuss0-thermal", "soc_thermal" */
static bool is_on_chip(const char *type)
{
        return strncmp(type, "cpu", 3) == 0 || strncmp(type, "soc", 3) == 0;
}

static void find_zones(struct thermal *thermal, const struct infp_env *env, bool (*is_wanted)(const char *type))
{
        char path[64], type[64];

        for (unsigned i = 0; i < MAX_NUMBER; i++) {
                snprintf(path, sizeof(path), ZONES "/thermal_zone%u/type", i);
                if (!read_word(env, path, type, sizeof(type))) {
                        if (i >= MAX_SENSORS) /* numbers have gaps, but small ones */
                                return;
                        continue;
                }
                snprintf(path, sizeof(path), ZONES "/thermal_zone%u/temp", i);
                if (is_wanted(type))
                        add(thermal, path);
        }
}

/* For an Intel chip the packages, not each core; for an AMD one the die, or what controls the fan where it has no other. */
static bool is_wanted_input(const char *chip, const char *label)
{
        if (strcmp(chip, "coretemp") == 0)
                return strncmp(label, "Package id", 10) == 0 || strncmp(label, "Physical id", 11) == 0;
        return strcmp(label, "Tdie") == 0 || strcmp(label, "Tctl") == 0 || !*label;
}

static void find_inputs(struct thermal *thermal, const struct infp_env *env, unsigned chip, const char *name)
{
        for (unsigned i = 1; i <= MAX_INPUTS; i++) {
                char path[64], label[64] = "";

                snprintf(path, sizeof(path), CHIPS "/hwmon%u/temp%u_label", chip, i);
                read_word(env, path, label, sizeof(label));
                snprintf(path, sizeof(path), CHIPS "/hwmon%u/temp%u_input", chip, i);
                if (faccessat(env->root_fd, path, F_OK, 0) < 0 || !is_wanted_input(name, label))
                        continue;
                add(thermal, path);
                if (strcmp(label, "Tdie") == 0 || !*label)
                        return;
        }
}

static void find_chips(struct thermal *thermal, const struct infp_env *env)
{
        static const char *const names[] = { "coretemp", "k10temp", "zenpower" };

        for (unsigned chip = 0; chip < MAX_SENSORS; chip++) {
                char path[64], name[64];

                snprintf(path, sizeof(path), CHIPS "/hwmon%u/name", chip);
                if (!read_word(env, path, name, sizeof(name)))
                        continue;
                for (size_t i = 0; i < INFP_COUNT(names); i++)
                        if (strcmp(name, names[i]) == 0)
                                find_inputs(thermal, env, chip, name);
        }
}

static int thermal_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct thermal *thermal = state;

        thermal->n = 0;
        find_zones(thermal, env, is_package);
        if (!thermal->n)
                find_chips(thermal, env);
        if (!thermal->n)
                find_zones(thermal, env, is_on_chip);
        if (!thermal->n)
                return infp_fail(err, -ENODEV,
                                 "no sensor of the CPU's temperature in /" ZONES " or /" CHIPS
                                 " (virtual machines and most containers have none)");
        return 0;
}

/* Thousandths of a degree. False: not now, or not a temperature. */
static bool read_temperature(const struct infp_env *env, const char *path, double *ret, int *ret_error)
{
        char text[64];
        int64_t v;
        ssize_t n = infp_read_at(env->root_fd, path, text, sizeof(text));

        if (n < 0)
                *ret_error = (int) n;
        if (n <= 0 || infp_parse_i64(text, strcspn(text, "\n"), &v) < 0 || v < COLDEST || v > HOTTEST)
                return false;
        *ret = (double) v / 1000;
        return true;
}

static int thermal_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        const struct thermal *thermal = state;
        const uint64_t t_ns = env->now_ns(env);
        double hottest = 0, own;
        struct infp_row *row;
        bool has = false;
        int r = 0;

        (void) err;
        for (unsigned i = 0; i < thermal->n; i++) {
                if (!read_temperature(env, thermal->paths[i], &own, &r))
                        continue;
                hottest = !has || own > hottest ? own : hottest;
                has = true;
        }
        if (!has) {
                infp_emit_source(emit, &thermal_table, THERMAL_TEMPERATURE, NULL,
                                 r < 0 ? infp_source_state_of(r) : INFP_BROKEN,
                                 r < 0 ? "its sensor cannot be read" : "its sensor reports no temperature", NULL);
                return 0;
        }
        row = infp_emit_begin(emit, &thermal_table, t_ns);
        infp_row_f64(row, THERMAL_TEMPERATURE, hottest);
        infp_emit_commit(emit);
        return 0;
}

static void thermal_close(void *state)
{
        (void) state;
}

static const struct infp_table *const thermal_tables[] = { &thermal_table, NULL };

const struct infp_collector infp_collector_thermal = {
        .name = "thermal",
        .help = "Temperature of the CPU.",
        .tables = thermal_tables,
        .floor_ms = 1000, /* sensors and drivers take a new reading each second */
        .state_size = sizeof(struct thermal),
        .open = thermal_open,
        .sample = thermal_sample,
        .close = thermal_close,
};
