/* Energy: RAPL zones (powercap, Intel and AMD), hwmon sensors, batteries. In a thread of its own: ACPI meters take seconds. */
#include "collectors/energy/energy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "base/time.h"

static const uint64_t find_period_ns = 10 * INFP_NS_PER_S;
/* RAPL at 1 kHz costs much of a core, and the hardware's own steps are then most of what is seen. */
enum { FLOOR_MS = 100 };
/* The smallest range is 65 kJ: a zone of 1 kW is round in 65 s, and a second round would not be seen. */
enum { CEILING_MS = 30000 };

static int64_t suspended_ns(void)
{
        return (int64_t) infp_clock_ns(CLOCK_BOOTTIME) - (int64_t) infp_clock_ns(CLOCK_MONOTONIC);
}

static int energy_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct energy *e = state;
        int r = infp_meters_find(e, env);

        if (r < 0)
                return infp_fail_errno(err, r, "the meters of energy cannot be looked for");
        if (!e->n)
                return infp_fail(err, -ENODEV,
                                 "this machine shows no energy: no zone in /sys/class/powercap, no sensor in "
                                 "/sys/class/hwmon, no battery (usual in virtual machines; a container needs -v "
                                 "/sys/class/powercap:/sys/class/powercap:ro)");
        e->found_ns = env->now_ns(env);
        e->suspended_ns = suspended_ns();
        return 0;
}

/* While the machine sleeps counters may stand, go on, wrap or begin anew: what was drawn is not known. */
static void look_for_sleep(struct energy *e)
{
        const int64_t now = suspended_ns();

        if (now - e->suspended_ns > (int64_t) INFP_NS_PER_S)
                for (int i = 0; i < e->n; i++)
                        infp_meter_forget(e->domains[i]);
        e->suspended_ns = now;
}

static void put_name(struct infp_row *row, unsigned cell, const struct energy *e, int index)
{
        if (index != ENERGY_NONE)
                infp_row_bytes(row, cell, e->domains[index]->name, strlen(e->domains[index]->name));
}

static void emit_domain(const struct energy *e, struct infp_emit *emit, const struct energy_domain *d)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_energy, d->t_ns);
        char path[ENERGY_PATH + 1] = "/";

        infp_row_bytes(row, ENERGY_DOMAIN, d->name, strlen(d->name));
        infp_row_str(row, ENERGY_SOURCE, infp_energy_sources[d->source]);
        memcpy(path + 1, d->path, strlen(d->path));
        infp_row_bytes(row, ENERGY_PATH_CELL, path, strlen(path));
        infp_row_bytes(row, ENERGY_LABEL, d->label, strlen(d->label));
        if (d->is_power) {
                infp_row_f64(row, ENERGY_POWER, d->power_w);
        } else {
                infp_row_u64(row, ENERGY_RAW, d->raw_uj);
                infp_row_i64(row, ENERGY_WRAPS, (int64_t) d->n_wraps);
        }
        if (d->range_uj)
                infp_row_u64(row, ENERGY_RANGE, d->range_uj);
        infp_row_f64(row, ENERGY_MEASURED, (double) d->sum_ns / 1e9);
        if (d->has_moved)
                infp_row_f64(row, ENERGY_JOULES, infp_meter_joules(d));
        put_name(row, ENERGY_PART_OF, e, d->parent);
        put_name(row, ENERGY_SAME_AS, e, d->twin);
        if (*d->gpu)
                infp_row_bytes(row, ENERGY_SAME_AS, d->gpu, strlen(d->gpu));
        infp_row_bool(row, ENERGY_IS_COUNTED, d->is_counted);
        infp_row_str(row, ENERGY_QUALITY, infp_quality_name(d->is_power ? INFP_ESTIMATED : INFP_MEASURED));
        infp_emit_commit(emit);
}

static void put_sum(struct infp_row *row, unsigned cell, const struct energy_sum *sum)
{
        if (sum->any)
                infp_row_f64(row, ENERGY_TOTAL_MEASURED + cell, (double) sum->ns / 1e9);
        if (sum->has)
                infp_row_f64(row, cell, (double) sum->uj / 1e6 + sum->j);
}

static void put_domains(const struct energy *e, struct infp_row *row)
{
        char text[4096];
        size_t used = 0;
        bool is_estimated = false;

        for (int i = 0; i < e->n; i++) {
                const struct energy_domain *d = e->domains[i];
                const size_t size = strlen(d->name);

                if (!d->is_counted || used + size + 2 > sizeof(text))
                        continue;
                if (used) {
                        memcpy(text + used, ", ", 2);
                        used += 2;
                }
                memcpy(text + used, d->name, size);
                used += size;
                is_estimated |= d->is_power;
        }
        if (!used)
                return;
        infp_row_bytes(row, ENERGY_TOTAL_DOMAINS, text, used);
        infp_row_str(row, ENERGY_TOTAL_QUALITY, infp_quality_name(is_estimated ? INFP_ESTIMATED : INFP_MEASURED));
}

/* The row itself shows what this machine has, `energy` each meter, and `sources` those that cannot be read. */
static void emit_total(const struct energy *e, struct infp_emit *emit, uint64_t t_ns)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_energy_total, t_ns);

        put_sum(row, ENERGY_TOTAL_JOULES, &e->machine);
        put_sum(row, ENERGY_TOTAL_PACKAGE, &e->kinds[ENERGY_PACKAGE]);
        put_sum(row, ENERGY_TOTAL_DRAM, &e->kinds[ENERGY_DRAM]);
        put_sum(row, ENERGY_TOTAL_CORE, &e->kinds[ENERGY_CORE]);
        put_sum(row, ENERGY_TOTAL_PSYS, &e->kinds[ENERGY_PSYS]);
        put_domains(e, row);
        for (unsigned cell = 0; cell < ENERGY_TOTAL_N; cell++)
                infp_emit_quiet(emit, cell);
        infp_emit_commit(emit);
}

static int energy_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct energy *e = state;
        uint64_t t_ns = env->now_ns(env);
        bool any = false;

        (void) err;
        if (t_ns - e->found_ns >= find_period_ns) {
                e->found_ns = t_ns;
                infp_meters_find(e, env); /* when it fails those that are known go on, and it is tried again */
        }
        if (env->is_live)
                look_for_sleep(e);
        for (int i = 0; i < e->n; i++)
                if (!e->domains[i]->is_gone)
                        infp_meter_read(e->domains[i], env);
                else
                        e->domains[i]->was_read = false;
        infp_meters_sum(e);
        for (int i = 0; i < e->n; i++)
                if (e->domains[i]->was_read) {
                        emit_domain(e, emit, e->domains[i]);
                        t_ns = e->domains[i]->t_ns;
                        any = true;
                }
        if (any)
                emit_total(e, emit, t_ns);
        infp_meters_say(e, emit);
        return any ? 0 : -EAGAIN;
}

static void energy_close(void *state)
{
        struct energy *e = state;

        for (int i = 0; i < e->n; i++) {
                infp_procfile_done(&e->domains[i]->file);
                free(e->domains[i]);
        }
        free(e->domains);
}

static const struct infp_table *const energy_tables[] = { &infp_table_energy, &infp_table_energy_total, NULL };

const struct infp_collector infp_collector_energy = {
        .name = "energy",
        .help = "Energy of the machine: RAPL zones, sensors, batteries.",
        .tables = energy_tables,
        .floor_ms = FLOOR_MS,
        .ceiling_ms = CEILING_MS,
        .flags = INFP_MAY_BLOCK,
        .state_size = sizeof(struct energy),
        .open = energy_open,
        .sample = energy_sample,
        .close = energy_close,
};
