#include "query/sql_views.h"

#include <string.h>

#include "query/engine_quantiles.h"
#include "query/samples_named.h"

// clang-format off
static const struct infp_column watts_columns[] = {
        INFP_COLUMN(t_ns, I64, LABEL, ns, MEASURED, NO, NULL, 0, NULL, "CLOCK_MONOTONIC at the end of the interval."),
        INFP_COLUMN(time, TS_NS, LABEL, none, DERIVED, NO, NULL, 0, NULL, "UTC of t_ns."),
        INFP_COLUMN(domain, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Meter."),
        INFP_COLUMN(eIsCounted, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "It counts in the total of the machine."),
        INFP_COLUMN(eQuality, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "measured or estimated."),
        INFP_COLUMN(joules, F64, GAUGE, joules, DERIVED, NO, NULL, 0, NULL, "Energy of the interval, wraps included; absent if none of it was measured."),
        INFP_COLUMN(seconds, F64, GAUGE, s, DERIVED, NO, NULL, 0, NULL, "Seconds of the interval that were measured: 0 in a gap."),
        INFP_COLUMN(watts, F64, GAUGE, watts, DERIVED, NO, NULL, 0, NULL, "Mean power in those seconds."),
};
// clang-format on
static const struct infp_table watts_table = {
        .name = "energy_watts",
        .help = "Watts of each meter of energy between two readings.",
        .columns = watts_columns,
        .n_columns = sizeof(watts_columns) / sizeof(*watts_columns),
        .plain = true,
};

/* Watts are not stored: this is the one way to have them by SQL. */
static const char watts[] =
        "SELECT t_ns, time, domain, eIsCounted, eQuality, CASE WHEN seconds > 0 THEN joules END AS joules, seconds, "
        "joules / nullif(seconds, 0) AS watts FROM (SELECT t_ns, time, domain, eIsCounted, eQuality, "
        "infp_increase('gap', lag(coalesce(eJoules, 0.0)) OVER w, eJoules) AS joules, "
        "eMeasuredS - lag(eMeasuredS) OVER w AS seconds FROM energy "
        "WINDOW w AS (PARTITION BY domain ORDER BY t_ns)) WHERE joules IS NOT NULL";

const struct infp_sql_view_def infp_sql_views[INFP_SQL_VIEWS] = {
        { &infp_engine_quantiles_table, "engine_samples", "SELECT * FROM " INFP_QUANTILES_FUNCTION "(NULL, NULL)",
          false },
        { &watts_table, "energy", watts, true },
        { &infp_samples_named_table, "stack_samples", infp_samples_named_sql, true },
};

const struct infp_sql_view_def *infp_sql_view_find(const char *name)
{
        for (unsigned i = 0; i < INFP_SQL_VIEWS; i++)
                if (!strcmp(infp_sql_views[i].table->name, name))
                        return &infp_sql_views[i];
        return NULL;
}
