/* Cells of the tables of energy. The columns are in tables.c. */
#pragma once

#include "model/schema.h"

enum energy_source { ENERGY_POWERCAP, ENERGY_HWMON, ENERGY_BATTERY };

enum energy_cell {
        ENERGY_DOMAIN,
        ENERGY_SOURCE,
        ENERGY_PATH_CELL,
        ENERGY_LABEL,
        ENERGY_RAW,
        ENERGY_RANGE,
        ENERGY_JOULES,
        ENERGY_POWER,
        ENERGY_PART_OF,
        ENERGY_SAME_AS,
        ENERGY_IS_COUNTED,
        ENERGY_QUALITY,
        ENERGY_WRAPS,
        ENERGY_MEASURED,
        ENERGY_N,
};
enum energy_total_cell {
        ENERGY_TOTAL_JOULES,
        ENERGY_TOTAL_PACKAGE,
        ENERGY_TOTAL_DRAM,
        ENERGY_TOTAL_CORE,
        ENERGY_TOTAL_PSYS,
        ENERGY_TOTAL_DOMAINS,
        ENERGY_TOTAL_QUALITY,
        ENERGY_TOTAL_MEASURED, /* of the five sums in their order */
        ENERGY_TOTAL_MEASURED_PACKAGE,
        ENERGY_TOTAL_MEASURED_DRAM,
        ENERGY_TOTAL_MEASURED_CORE,
        ENERGY_TOTAL_MEASURED_PSYS,
        ENERGY_TOTAL_N,
};
extern const struct infp_table infp_table_energy, infp_table_energy_total;
extern const char *const infp_energy_sources[]; /* names, by enum energy_source */
