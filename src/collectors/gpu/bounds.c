#include "collectors/gpu/bounds.h"

#include <math.h>
#include <stdio.h>

#include "base/human.h"
#include "base/mem.h"
#include "collectors/gpu/table.h"

static const double limit_times = 4, most_watts = 10000, least_celsius = -80, most_celsius = 300, most_mhz = 50000;
/* Chips that count by sampling show shares a little above 100; fans may be set to more than their nominal speed. */
static const double most_percent = 101, most_fan = 200;

static double value_of(const struct infp_row *row, unsigned cell)
{
        if (!infp_row_has(row, cell))
                return NAN;
        switch (infp_table_column(row->table, INFP_FIXED_COLUMNS + cell)->type) {
        case INFP_F64:
                return row->cell[cell].f64;
        case INFP_U64:
                return (double) row->cell[cell].u64;
        case INFP_I64:
                return (double) row->cell[cell].i64;
        default:
                return NAN;
        }
}

static double highest_limit(const struct infp_row *row)
{
        static const unsigned limits[] = { GPU_POWER_LIMIT, GPU_POWER_LIMIT_ENFORCED, GPU_POWER_LIMIT_DEFAULT,
                                           GPU_POWER_LIMIT_MAX };
        double most = NAN;

        for (size_t i = 0; i < INFP_COUNT(limits); i++)
                if (value_of(row, limits[i]) <= most_watts)
                        most = fmax(most, value_of(row, limits[i])); /* NAN is ignored */
        return most;
}

/* NAN: no bound is known. */
static double most_of(const struct infp_row *row, unsigned cell, const struct infp_unit *unit)
{
        static const struct {
                unsigned first, last, all;
        } parts[] = {
                { GPU_MEMORY_USED_MB, GPU_MEMORY_RESERVED_MB, GPU_MEMORY_TOTAL_MB },
                { GPU_MEMORY_USED_BYTES, GPU_MEMORY_RESERVED_BYTES, GPU_MEMORY_TOTAL_BYTES },
                { GPU_BAR1_USED_MB, GPU_BAR1_FREE_MB, GPU_BAR1_TOTAL_MB },
        };
        const double limit = highest_limit(row);

        for (size_t i = 0; i < INFP_COUNT(parts); i++)
                if (cell >= parts[i].first && cell <= parts[i].last)
                        return value_of(row, parts[i].all);
        if (cell == GPU_ENERGY_MJ)
                return (double) INFP_GPU_MOST_MJ;
        if (cell >= GPU_POWER_LIMIT && cell <= GPU_POWER_LIMIT_MAX)
                return most_watts;
        if (unit == &infp_unit_watts)
                return limit > 0 ? limit_times * limit : most_watts;
        if (unit == &infp_unit_percent)
                return cell == GPU_FAN_SPEED ? most_fan : most_percent;
        return unit == &infp_unit_celsius ? most_celsius : unit == &infp_unit_mhz ? most_mhz : NAN;
}

void infp_gpu_bound(struct infp_emit *emit, const char *instance)
{
        struct infp_row *row = &emit->row;

        for (unsigned cell = 0; cell < GPU_N; cell++) {
                const struct infp_unit *unit = infp_table_column(row->table, INFP_FIXED_COLUMNS + cell)->unit;
                const double v = value_of(row, cell), most = isnan(v) ? NAN : most_of(row, cell, unit),
                             least = unit == &infp_unit_celsius ? least_celsius : 0;
                char reason[160];

                if (isnan(most))
                        continue;
                if (v >= least && v <= most) {
                        infp_emit_source(emit, row->table, (int) cell, instance, INFP_OK, NULL, NULL);
                        continue;
                }
                snprintf(reason, sizeof(reason), "the driver reports %s %s, which is impossible: this GPU has %s to %s",
                         infp_number(v).text, unit->name, infp_number(least).text, infp_number(most).text);
                row->valid[cell / 64] &= ~(UINT64_C(1) << cell % 64);
                infp_emit_source(emit, row->table, (int) cell, instance, INFP_BROKEN, reason, NULL);
        }
}

void infp_gpu_say_memory(struct infp_emit *emit, const struct infp_table *table, const char *instance,
                         uint64_t refused_bytes)
{
        char reason[160];

        snprintf(reason, sizeof(reason),
                 "the driver reports %s GiB for a process, which is impossible: the GPU has less",
                 infp_number((double) refused_bytes / (1 << 30)).text);
        infp_emit_source(emit, table, GPU_PROCESS_MEMORY_BYTES, instance, refused_bytes ? INFP_BROKEN : INFP_OK,
                         refused_bytes ? reason : NULL, NULL);
}
