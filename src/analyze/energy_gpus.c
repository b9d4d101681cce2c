/* GPUs among the domains of energy: their joules as their collector has them, by a counter or integrated from power. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/energy_parts.h"
#include "analyze/gpus.h"
#include "analyze/report_scan.h"
#include "base/mem.h"

enum { INDEX, JOULES, SOURCE, QUALITY, MEASURED, N_COLUMNS };
static const char *const columns[] = { "gGpuIndex",      "gEnergyJoules",    "gEnergySource",
                                       "gEnergyQuality", "gEnergyMeasuredS", NULL };

static int out_of_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "no memory for the energy of the run");
}

/* A row without joules is no reading: the GPU was lost, or its meter did not answer. */
static int add_row(struct tracks *tracks, const char *table, const struct infp_batch *batch, const int *at,
                   uint32_t row, const struct infp_range *range, const struct infp_baseline *baseline)
{
        char name[48];
        size_t size;
        const char *quality;
        struct energy_reading reading;
        struct track *t;

        if (!infp_batch_has(batch, (unsigned) at[JOULES], row))
                return 0;
        snprintf(name, sizeof(name), "%s%lld", table, (long long) infp_batch_i64(batch, (unsigned) at[INDEX], row));
        reading.t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        reading.joules = infp_batch_f64(batch, (unsigned) at[JOULES], row);
        reading.counted_s = at[MEASURED] >= 0 ? infp_batch_number(batch, (unsigned) at[MEASURED], row) : NAN;
        t = infp_energy_reading(tracks, name, strlen(name), &reading, range, baseline);
        if (!t)
                return -ENOMEM;
        t->domain.is_gpu = true;
        if (!t->is_new || at[QUALITY] < 0 || !infp_batch_has(batch, (unsigned) at[QUALITY], row))
                return 0;
        quality = infp_batch_str(batch, (unsigned) at[QUALITY], row, &size);
        t->domain.is_estimated |= size == strlen("estimated") && !memcmp(quality, "estimated", size);
        return at[SOURCE] < 0 ? 0 : infp_energy_text(&t->domain.source, batch, at[SOURCE], row);
}

static int read_table(struct infp_run *run, const char *table, const struct infp_energy_options *options,
                      const struct infp_baseline *baseline, struct tracks *tracks, struct infp_err *err)
{
        const struct infp_scan_options scan_options = infp_energy_span(options, baseline);
        struct infp_scan *scan;
        struct infp_batch batch;
        int at[N_COLUMNS], r = infp_report_scan(run, table, columns, &scan_options, &scan, err);

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < N_COLUMNS; i++)
                at[i] = infp_table_find(infp_scan_table(scan), columns[i]);
        while (at[INDEX] >= 0 && at[JOULES] >= 0 && r >= 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (add_row(tracks, table, &batch, at, row, options->range, baseline) < 0)
                                r = out_of_memory(err);
        infp_scan_close(scan);
        return r;
}

/* What stands at the supply of the machine holds its GPUs as well. */
static const struct track *meter_of_all(const struct tracks *tracks)
{
        for (unsigned i = 0; i < tracks->n; i++) {
                const struct infp_energy_domain *d = &tracks->list[i].domain;
                const bool is_supply =
                        d->source && (!strcmp(d->source, "battery") ||
                                      (!strcmp(d->source, "hwmon") && strncmp(d->name, "amd_energy", 10)));

                if (!d->is_gpu && d->is_counted && is_supply)
                        return &tracks->list[i];
        }
        return NULL;
}

/* psys is all of a laptop and half of a server: nobody says whether a GPU is in it. */
static bool counts_platform(const struct tracks *tracks)
{
        for (unsigned i = 0; i < tracks->n; i++)
                if (tracks->list[i].domain.is_counted && !strncmp(tracks->list[i].domain.name, "psys", 4))
                        return true;
        return false;
}

/* The sensor of a card that the machine's own meters show too ("amdgpu/PPT", eSameAs) never counts. */
static int count(struct tracks *tracks)
{
        const struct track *all = meter_of_all(tracks);
        const bool is_unknown = counts_platform(tracks);

        for (unsigned i = 0; i < tracks->n; i++) {
                struct infp_energy_domain *d = &tracks->list[i].domain;

                if (!d->is_gpu)
                        continue;
                d->is_counted = !all && !is_unknown;
                d->part_of = all ? strdup(all->domain.name) : NULL;
                if (all && !d->part_of)
                        return -ENOMEM;
        }
        return 0;
}

int infp_energy_gpus(struct infp_run *run, const struct infp_energy_options *options,
                     const struct infp_baseline *baseline, struct tracks *tracks, const char **ret_table,
                     struct infp_err *err)
{
        for (unsigned i = 0; infp_gpu_tables[i]; i++) {
                *ret_table = infp_gpu_tables[i];
                INFP_TRY(read_table(run, infp_gpu_tables[i], options, baseline, tracks, err));
        }
        return count(tracks) < 0 ? out_of_memory(err) : 0;
}
