#include "collectors/energy/energy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time.h"

/* The machine's total counts each joule once. Cores and uncore are parts of a package, psys contains packages, the MMIO view
 * is the same meter again. So it is all packages and all memory; else, where no package can be read, the best single meter. */

static bool works(const struct energy_domain *d)
{
        return !d->is_gone && d->r == 0 && d->n_reads && !d->is_dead;
}

/* Another view counts only where the first one does not work. */
static bool is_first_view(const struct energy *e, const struct energy_domain *d)
{
        return d->twin == ENERGY_NONE || !works(e->domains[d->twin]);
}

static unsigned mark_counted(struct energy *e, enum energy_source source, enum energy_kind kind)
{
        unsigned n = 0;

        for (int i = 0; i < e->n; i++) {
                struct energy_domain *d = e->domains[i];

                if (d->source != source || d->kind != kind || !works(d) || !is_first_view(e, d))
                        continue;
                d->is_counted = true;
                n++;
        }
        return n;
}

static void unmark_all(struct energy *e)
{
        for (int i = 0; i < e->n; i++)
                e->domains[i]->is_counted = false;
}

static void choose_counted(struct energy *e)
{
        unmark_all(e);
        if (mark_counted(e, ENERGY_POWERCAP, ENERGY_PACKAGE)) {
                mark_counted(e, ENERGY_POWERCAP, ENERGY_DRAM);
                return;
        }
        /* psys holds the memory too. */
        if (mark_counted(e, ENERGY_POWERCAP, ENERGY_PSYS) || mark_counted(e, ENERGY_HWMON, ENERGY_PACKAGE))
                return;
        if (mark_counted(e, ENERGY_HWMON, ENERGY_METER) == 1)
                return;
        unmark_all(e); /* with several meters at the supply it is unknown whether one contains another */
        if (mark_counted(e, ENERGY_BATTERY, ENERGY_CELL))
                return;
        mark_counted(e, ENERGY_POWERCAP, ENERGY_DRAM);
}

/* Adds a domain to a round: ns is the least of its domains', end_ns the latest. */
static void add_to_round(struct energy_sum *round, const struct energy_domain *d)
{
        round->ns = !round->any || d->more_ns < round->ns ? d->more_ns : round->ns;
        round->end_ns = d->t_ns > round->end_ns ? d->t_ns : round->end_ns;
        round->uj += d->more_uj;
        round->j += d->more_j;
        round->has |= d->has_moved;
        round->any = true;
}

static void end_round(struct energy_sum *sum, const struct energy_sum *round)
{
        const uint64_t begin_ns = round->end_ns - round->ns;

        sum->any |= round->any;
        sum->has |= round->has;
        if (!round->ns)
                return;
        /* Two batteries may be read in turn: their time counts once. */
        sum->ns += round->end_ns - (begin_ns > sum->end_ns ? begin_ns : sum->end_ns);
        sum->end_ns = round->end_ns;
        sum->uj += round->uj;
        sum->j += round->j;
}

static void sum_meters(struct energy *e)
{
        struct energy_sum machine = { 0 }, kinds[ENERGY_OTHER + 1] = { 0 };

        choose_counted(e);
        for (int i = 0; i < e->n; i++) {
                const struct energy_domain *d = e->domains[i];

                if (!d->was_read)
                        continue;
                if (d->source == ENERGY_POWERCAP && is_first_view(e, d))
                        add_to_round(&kinds[d->kind], d);
                if (d->is_counted)
                        add_to_round(&machine, d);
        }
        end_round(&e->machine, &machine);
        for (unsigned kind = 0; kind <= ENERGY_OTHER; kind++)
                end_round(&e->kinds[kind], &kinds[kind]);
}

/* Why energy is missing: a domain of many, or all of it. */

static const char denied_reason[] =
        "the energy counters of /sys/class/powercap may be read by root alone (since Linux 5.10, CVE-2020-8694)";
static const char denied_fix[] =
        "getent group power || sudo groupadd power; sudo usermod -aG power $USER; put the line `z "
        "/sys/class/powercap/intel-rapl:*/energy_uj 0444 root power -` into /etc/tmpfiles.d/intel-rapl.conf; sudo "
        "systemd-tmpfiles --create (or give infprof CAP_DAC_READ_SEARCH)";
static const char dead_reason[] =
        "the counter is there, but does not move: it measures nothing here and is not counted";

static void say_domain(struct infp_emit *emit, const struct energy_domain *d)
{
        char text[ENERGY_PATH + 128];

        if (d->r == -ENODATA && d->source == ENERGY_BATTERY)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_ABSENT,
                                 "the battery delivers no power: the machine runs on external power", NULL);
        else if (d->r == -ENODATA && *d->gpu)
                infp_emit_source(
                        emit, &infp_table_energy, -1, d->name, INFP_ABSENT,
                        "the kernel may put this GPU to sleep, and a reading would keep it awake: its own table has it",
                        NULL);
        else if ((d->r == -EACCES || d->r == -EPERM) && d->source == ENERGY_POWERCAP)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_DENIED, denied_reason, denied_fix);
        else if (d->r < 0) {
                snprintf(text, sizeof(text), "/%s: %s", d->path,
                         d->r == -EBADMSG  ? "not a number"
                         : d->r == -ERANGE ? "more than 30 kW, which is impossible"
                                           : strerror(-d->r));
                infp_emit_source(emit, &infp_table_energy, -1, d->name, infp_source_state_of(d->r), text, NULL);
        } else if (d->is_dead)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_ABSENT, dead_reason, NULL);
        else if (d->is_lost)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_BROKEN,
                                 d->range_uj ? "the counter was reset: what was drawn between two readings is not "
                                               "counted"
                                             : "the counter fell, and its range is not known: what was drawn between "
                                               "two readings is not counted",
                                 NULL);
        else if (d->is_late)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_LATE,
                                 "it was not read for so long that it may have wrapped more than once: the sum may be "
                                 "too small",
                                 NULL);
        else
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_OK, NULL, NULL);
}

static void say_meters(const struct energy *e, struct infp_emit *emit)
{
        bool any_works = false, any_denied = false, any_dead = false;

        for (int i = 0; i < e->n; i++) {
                const struct energy_domain *d = e->domains[i];

                say_domain(emit, d);
                any_works |= d->r == 0 && !d->is_dead;
                any_dead |= d->r == 0 && d->is_dead;
                any_denied |= (d->r == -EACCES || d->r == -EPERM) && d->source == ENERGY_POWERCAP;
        }
        if (any_works)
                infp_emit_source(emit, NULL, -1, NULL, INFP_OK, NULL, NULL);
        else if (any_denied)
                infp_emit_source(emit, NULL, -1, NULL, INFP_DENIED, denied_reason, denied_fix);
        else
                infp_emit_source(emit, NULL, -1, NULL, INFP_ABSENT,
                                 any_dead ? "the energy counters are there, but do not move: nothing is measured here"
                                          : "no energy meter can be read now",
                                 NULL);
}

/* Energy: RAPL zones (powercap, Intel and AMD), hwmon sensors, batteries. In a thread of its own: ACPI meters take seconds. */

static const uint64_t find_period_ns = 10 * INFP_NS_PER_S;
/* RAPL at 1 kHz costs much of a core, and shows mostly the hardware's own steps. */
enum { FLOOR_MS = 100 };
/* The smallest range is 65 kJ: a zone of 1 kW wraps in 65 s, and a second wrap would not be seen. */
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
                return infp_fail_errno(err, r, "cannot look for energy meters");
        if (!e->n)
                return infp_fail(err, -ENODEV,
                                 "this machine shows no energy: no zone in /sys/class/powercap, no sensor in "
                                 "/sys/class/hwmon, no battery (usual in virtual machines; a container needs -v "
                                 "/sys/class/powercap:/sys/class/powercap:ro)");
        e->found_ns = env->now_ns(env);
        e->suspended_ns = suspended_ns();
        return 0;
}

/* While the machine sleeps counters may stop, continue, wrap or restart: what was drawn is not known. */
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
                infp_row_foreign(row, cell, e->domains[index]->name);
}

static void emit_domain(const struct energy *e, struct infp_emit *emit, const struct energy_domain *d)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_energy, d->t_ns);
        char path[ENERGY_PATH + 1] = "/";

        infp_row_foreign(row, ENERGY_DOMAIN, d->name);
        infp_row_str(row, ENERGY_SOURCE, infp_energy_sources[d->source]);
        memcpy(path + 1, d->path, strlen(d->path));
        infp_row_foreign(row, ENERGY_PATH_CELL, path);
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
        infp_row_foreign(row, ENERGY_SAME_AS, d->gpu);
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

/* The row shows what this machine has, `energy` each meter, and `sources` those that cannot be read. */
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
                infp_meters_find(e, env); /* on failure the known ones stay; it is tried again */
        }
        if (env->is_live)
                look_for_sleep(e);
        for (int i = 0; i < e->n; i++)
                if (!e->domains[i]->is_gone)
                        infp_meter_read(e->domains[i], env);
                else
                        e->domains[i]->was_read = false;
        sum_meters(e);
        for (int i = 0; i < e->n; i++)
                if (e->domains[i]->was_read) {
                        emit_domain(e, emit, e->domains[i]);
                        t_ns = e->domains[i]->t_ns;
                        any = true;
                }
        if (any)
                emit_total(e, emit, t_ns);
        say_meters(e, emit);
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
