/* The machine's total: each joule once. Cores and uncore are parts of a package, psys contains packages, the MMIO view is the
 * same meter again. So it is all packages and all memory; else, where no package can be read, the best that there is alone. */
#include "collectors/energy/energy.h"

#include <string.h>

static bool works(const struct energy_domain *d)
{
        return !d->is_gone && d->r == 0 && d->n_reads && !d->is_dead;
}

/* Another view counts only where the first one does not work. */
static bool is_first_view(const struct energy *e, const struct energy_domain *d)
{
        return d->twin == ENERGY_NONE || !works(e->domains[d->twin]);
}

static unsigned mark(struct energy *e, enum energy_source source, enum energy_kind kind)
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

static void choose(struct energy *e)
{
        unmark_all(e);
        if (mark(e, ENERGY_POWERCAP, ENERGY_PACKAGE)) {
                mark(e, ENERGY_POWERCAP, ENERGY_DRAM);
                return;
        }
        /* psys holds the memory too. */
        if (mark(e, ENERGY_POWERCAP, ENERGY_PSYS) || mark(e, ENERGY_HWMON, ENERGY_PACKAGE))
                return;
        if (mark(e, ENERGY_HWMON, ENERGY_METER) == 1)
                return;
        unmark_all(e); /* of several meters at the supply nobody says whether one contains another */
        if (mark(e, ENERGY_BATTERY, ENERGY_CELL))
                return;
        mark(e, ENERGY_POWERCAP, ENERGY_DRAM);
}

/* What a round adds to a sum: ns is the least of its domains', end_ns the latest. */
static void add(struct energy_sum *round, const struct energy_domain *d)
{
        round->ns = !round->any || d->more_ns < round->ns ? d->more_ns : round->ns;
        round->end_ns = d->t_ns > round->end_ns ? d->t_ns : round->end_ns;
        round->uj += d->more_uj;
        round->j += d->more_j;
        round->has |= d->has_moved;
        round->any = true;
}

static void end(struct energy_sum *sum, const struct energy_sum *round)
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

void infp_meters_sum(struct energy *e)
{
        struct energy_sum machine = { 0 }, kinds[ENERGY_OTHER + 1] = { 0 };

        choose(e);
        for (int i = 0; i < e->n; i++) {
                const struct energy_domain *d = e->domains[i];

                if (!d->was_read)
                        continue;
                if (d->source == ENERGY_POWERCAP && is_first_view(e, d))
                        add(&kinds[d->kind], d);
                if (d->is_counted)
                        add(&machine, d);
        }
        end(&e->machine, &machine);
        for (unsigned kind = 0; kind <= ENERGY_OTHER; kind++)
                end(&e->kinds[kind], &kinds[kind]);
}
