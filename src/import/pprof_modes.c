/* What the values of a pprof profile's samples mean: which is a weight, and which says how many samples it stands for. */
#include <errno.h>
#include <string.h>

#include "import/pprof_parts.h"
#include "import/unit.h"

struct type {
        struct infp_import_text type, unit;
        bool is_count, is_used;
};

/* "alloc_objects" and "alloc_space" are of one kind. */
static struct infp_import_text stem(struct infp_import_text type)
{
        const char *bar = infp_import_last(type, '_');

        return (struct infp_import_text){ type.data, bar ? (size_t) (bar - type.data) : 0 };
}

static bool same(struct infp_import_text a, struct infp_import_text b)
{
        return a.size && a.size == b.size && !memcmp(a.data, b.data, a.size);
}

/* The count that goes with a weight: of the same stem, else the nearest before it that has none. */
static int count_of(const struct type *types, int weight, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                if (types[i].is_count && same(stem(types[i].type), stem(types[weight].type)))
                        return (int) i;
        for (int i = weight - 1; i >= 0; i--)
                if (types[i].is_count && !stem(types[i].type).size)
                        return i;
        return -1;
}

static struct pprof_mode *add(struct pprof *p, int weight, int samples)
{
        struct pprof_mode *mode = &p->modes[p->n_modes++];

        mode->weight = weight;
        mode->samples = samples;
        return mode;
}

/* Samples of a clock whose period is known stand for a period each: perf's converters and parca write them so. */
static void weigh_by_period(const struct pprof *p, struct pprof_mode *mode, const struct type *type,
                            const struct type *period)
{
        char name[INFP_IMPORT_MODE_TEXT];
        double factor;

        if (p->period <= 0 || !infp_import_is(type->type, "samples") || infp_import_seconds(period->unit) <= 0)
                return;
        factor = infp_import_mode(period->type, period->unit, name);
        if (strchr(name, '/')) /* a time of which nobody knows what it is */
                return;
        strcpy(mode->mode, name);
        mode->factor = factor * (double) p->period;
}

static int read_types(const struct pprof *p, struct type *types, struct type *period, struct infp_err *err)
{
        for (unsigned i = 0; i < p->n_types; i++) {
                INFP_TRY(pprof_string(p, p->types[i].type, p->begin, &types[i].type, err));
                INFP_TRY(pprof_string(p, p->types[i].unit, p->begin, &types[i].unit, err));
                types[i].is_count = infp_import_is(types[i].unit, "count");
        }
        INFP_TRY(pprof_string(p, p->period_type.type, p->begin, &period->type, err));
        return pprof_string(p, p->period_type.unit, p->begin, &period->unit, err);
}

int pprof_choose_modes(struct pprof *p, struct infp_err *err)
{
        struct type types[PPROF_MAX_TYPES] = { 0 }, period = { 0 };

        if (!p->n_types)
                return pprof_broken(p, p->begin, "no sample type is given", err);
        INFP_TRY(read_types(p, types, &period, err));
        for (unsigned i = 0; i < p->n_types; i++) {
                struct pprof_mode *mode;
                int count;

                if (types[i].is_count)
                        continue;
                count = count_of(types, (int) i, p->n_types);
                mode = add(p, (int) i, count);
                mode->factor = infp_import_mode(types[i].type, types[i].unit, mode->mode);
                if (count >= 0)
                        types[count].is_used = true;
        }
        for (unsigned i = 0; i < p->n_types; i++) {
                struct pprof_mode *mode;

                if (!types[i].is_count || types[i].is_used)
                        continue;
                mode = add(p, (int) i, (int) i);
                mode->factor = infp_import_mode(types[i].type, types[i].unit, mode->mode);
                weigh_by_period(p, mode, &types[i], &period);
        }
        return 0;
}
