/* A machine with meters of energy that a test turns by hand. For several test programs. */
#pragma once

#include "machine.h"

#include "base/mem.h"

#define CAP "sys/class/powercap/"

static struct infp_collector_state meters;

static inline struct machine *begin(const char *root)
{
        struct machine *m = machine_open(root);

        assert_int_equal(
                infp_collector_open(&meters, infp_collector_find("energy"), &m->env, &m->emit, machine_notice, m), 0);
        assert_int_equal(infp_collector_sample(&meters, &m->env, &m->emit, machine_notice, m), 0);
        return m;
}

static inline int later(struct machine *m, double seconds)
{
        m->clock_ns += (uint64_t) (seconds * 1e9);
        return infp_collector_sample(&meters, &m->env, &m->emit, machine_notice, m);
}

static inline void end(struct machine *m)
{
        infp_collector_close(&meters);
        machine_close(m);
}

static inline void zone(const char *top, const char *name, const char *label, const char *uj, const char *range)
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

static inline void counter(const char *top, const char *name, const char *uj)
{
        char path[128];

        snprintf(path, sizeof(path), CAP "%s/energy_uj", name);
        tree_put(top, path, uj);
}

static inline double joules(const struct machine *m, const char *domain)
{
        const struct kept *k = machine_need(m, "energy", domain);
        const unsigned cell = kept_cell(k, "eJoules");

        return kept_has(k, cell) ? k->cell[cell].f64 : -1;
}

static inline double machine_joules(const struct machine *m)
{
        const struct kept *k = machine_need(m, "energy_total", NULL);
        const unsigned cell = kept_cell(k, "eMachineJoules");

        return kept_has(k, cell) ? k->cell[cell].f64 : -1;
}

static inline bool counted(const struct machine *m, const char *domain)
{
        const struct kept *k = machine_need(m, "energy", domain);

        return k->cell[kept_cell(k, "eIsCounted")].b;
}

static inline void expect_text(const struct machine *m, const char *table, const char *key, const char *column,
                               const char *right)
{
        const struct kept *k = machine_need(m, table, key);
        char text[512];

        assert_true(kept_has(k, kept_cell(k, column)));
        assert_string_equal(kept_text(k, kept_cell(k, column), text, sizeof(text)), right);
}

static inline void near(double value, double right, double by)
{
        if (!(value >= right - by && value <= right + by))
                fail_msg("%.9g is not %.9g", value, right);
}

/* What `sources` said last of an instance. */
static inline const char *said(const struct machine *m, const char *instance, const char *ret[2])
{
        static char words[3][1024];

        for (size_t i = m->n; i-- > 0;) {
                const struct kept *k = &m->rows[i];
                bool has;

                if (k->table != &infp_table_sources)
                        continue;
                has = kept_has(k, INFP_SOURCES_INSTANCE);
                if (has != (instance != NULL) ||
                    (has && instance &&
                     strcmp(kept_text(k, INFP_SOURCES_INSTANCE, words[0], sizeof(words[0])), instance)))
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
