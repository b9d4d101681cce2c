#include "collectors/energy/tables.h"

// clang-format off
static const struct infp_column energy_keys[] = {
        INFP_COLUMN(domain, STR, LABEL, none, DERIVED, NO, NULL, 0, "domain", "What is metered: package-0, package-0/core, dram-0, psys, mmio-package-0, battery-BAT0, CHIP/SENSOR of hwmon."),
};
static const struct infp_column energy_columns[] = {
        [ENERGY_SOURCE - 1] = INFP_COLUMN(eSource, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Source: powercap, hwmon, battery."),
        [ENERGY_PATH_CELL - 1] = INFP_COLUMN(ePath, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "File, or directory of a battery."),
        [ENERGY_LABEL - 1] = INFP_COLUMN(eName, STR, LABEL, none, MEASURED, NO, "name", 0, NULL, "As the source calls it."),
        [ENERGY_RAW - 1] = INFP_COLUMN(eRawUj, U64, COUNTER, uj, MEASURED, WRAP, "energy_uj", 0, "infprof_energy_raw_joules_total", "Counter as the file holds it; it wraps at eRangeUj."),
        [ENERGY_RANGE - 1] = INFP_COLUMN(eRangeUj, U64, LABEL, uj, MEASURED, NO, "max_energy_range_uj", 0, NULL, "Range of the counter; it then restarts at 0."),
        [ENERGY_JOULES - 1] = INFP_COLUMN(eJoules, F64, COUNTER, joules, DERIVED, GAP, "eMeasuredS", 0, "infprof_energy_joules_total", "Since its first reading in this recording, wraps counted; absent until the counter has moved, since one that never moves measures nothing; eQuality says whether it was counted or integrated."),
        [ENERGY_POWER - 1] = INFP_COLUMN(ePowerW, F64, GAUGE, watts, MEASURED, NO, "power_now", 0, "infprof_energy_power_watts", "Power, where the source gives that instead of energy."),
        [ENERGY_PART_OF - 1] = INFP_COLUMN(ePartOf, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Domain that contains this one."),
        [ENERGY_SAME_AS - 1] = INFP_COLUMN(eSameAs, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Domain that is the same meter, read by another way; of a GPU's sensor that GPU, as driver and PCI address: its own table has the energy."),
        [ENERGY_IS_COUNTED - 1] = INFP_COLUMN(eIsCounted, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "It is in the machine's total: parts, second views and what contains others are not."),
        [ENERGY_QUALITY - 1] = INFP_COLUMN(eQuality, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Of eJoules: measured (a counter) or estimated (power, integrated by the trapezoid rule)."),
        [ENERGY_WRAPS - 1] = INFP_COLUMN(eWraps, I64, COUNTER, count, DERIVED, ZERO, NULL, 0, NULL, "Times that the counter fell back while we watched."),
        [ENERGY_MEASURED - 1] = INFP_COLUMN(eMeasuredS, F64, COUNTER, s, DERIVED, ZERO, NULL, 0, NULL, "Seconds that eJoules covers: not those in which its source could not be read or was reset, of which nothing is known. Mean watts are the increase of eJoules by the increase of this."),
};
static const struct infp_column total_columns[] = {
        [ENERGY_TOTAL_JOULES] = INFP_COLUMN(eMachineJoules, F64, COUNTER, joules, DERIVED, GAP, "eMachineMeasuredS", 0, "infprof_energy_machine_joules_total", "Of the machine since the recording began: the sum over eMachineDomains."),
        [ENERGY_TOTAL_PACKAGE] = INFP_COLUMN(ePackageJoules, F64, COUNTER, joules, DERIVED, GAP, "ePackageMeasuredS", 0, "infprof_energy_package_joules_total", "Of all sockets since the recording began."),
        [ENERGY_TOTAL_DRAM] = INFP_COLUMN(eDramJoules, F64, COUNTER, joules, DERIVED, GAP, "eDramMeasuredS", 0, "infprof_energy_dram_joules_total", "Of all memory since the recording began."),
        [ENERGY_TOTAL_CORE] = INFP_COLUMN(eCoreJoules, F64, COUNTER, joules, DERIVED, GAP, "eCoreMeasuredS", 0, "infprof_energy_core_joules_total", "Of all cores since the recording began: a part of ePackageJoules."),
        [ENERGY_TOTAL_PSYS] = INFP_COLUMN(ePsysJoules, F64, COUNTER, joules, DERIVED, GAP, "ePsysMeasuredS", 0, "infprof_energy_psys_joules_total", "Of the platform since the recording began: it contains packages and more."),
        [ENERGY_TOTAL_DOMAINS] = INFP_COLUMN(eMachineDomains, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Domains that eMachineJoules adds up, separated by commas."),
        [ENERGY_TOTAL_QUALITY] = INFP_COLUMN(eMachineQuality, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Of eMachineJoules: measured (counters) or estimated (integrated power)."),
        [ENERGY_TOTAL_MEASURED] = INFP_COLUMN(eMachineMeasuredS, F64, COUNTER, s, DERIVED, ZERO, NULL, 0, NULL, "Seconds that eMachineJoules covers: those in which each domain of eMachineDomains was measured."),
        [ENERGY_TOTAL_MEASURED_PACKAGE] = INFP_COLUMN(ePackageMeasuredS, F64, COUNTER, s, DERIVED, ZERO, NULL, 0, NULL, "Seconds that ePackageJoules covers."),
        [ENERGY_TOTAL_MEASURED_DRAM] = INFP_COLUMN(eDramMeasuredS, F64, COUNTER, s, DERIVED, ZERO, NULL, 0, NULL, "Seconds that eDramJoules covers."),
        [ENERGY_TOTAL_MEASURED_CORE] = INFP_COLUMN(eCoreMeasuredS, F64, COUNTER, s, DERIVED, ZERO, NULL, 0, NULL, "Seconds that eCoreJoules covers."),
        [ENERGY_TOTAL_MEASURED_PSYS] = INFP_COLUMN(ePsysMeasuredS, F64, COUNTER, s, DERIVED, ZERO, NULL, 0, NULL, "Seconds that ePsysJoules covers."),
};
// clang-format on

const struct infp_table infp_table_energy = {
        .name = "energy",
        .help = "Each meter of energy that can be read.",
        .keys = energy_keys,
        .n_keys = 1,
        .columns = energy_columns,
        .n_columns = ENERGY_N - 1,
        .section = "energy",
};
const struct infp_table infp_table_energy_total = {
        .name = "energy_total",
        .help = "Energy of the machine, and sums of like domains.",
        .columns = total_columns,
        .n_columns = ENERGY_TOTAL_N,
        .section = "energy_total",
        .series = "",
};

const char *const infp_energy_sources[] = {
        [ENERGY_POWERCAP] = "powercap",
        [ENERGY_HWMON] = "hwmon",
        [ENERGY_BATTERY] = "battery",
};
