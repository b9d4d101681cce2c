/* Rows of engines for the tests of what reads them: the tables of src/collectors/engine/tables.c with the columns that matter. */
#pragma once

#include <math.h>

#include "query_sample.h"

// clang-format off
static const struct infp_column engines_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Engine."),
};
static const struct infp_column engines_columns[] = {
        INFP_COLUMN(number, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number."),
        INFP_COLUMN(url, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Page."),
        INFP_COLUMN(make, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Make."),
        INFP_COLUMN(version, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Version."),
        INFP_COLUMN(model, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Model."),
};
static const struct infp_column series_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, MEASURED, NO, "", 0, NULL, "Series."),
};
static const struct infp_column series_columns[] = {
        INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine."),
        INFP_COLUMN(labels, STR, LABEL, json, MEASURED, NO, NULL, 0, NULL, "Labels."),
        INFP_COLUMN(family, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Family."),
        INFP_COLUMN(part, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Part."),
        INFP_COLUMN(le, F64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Edge."),
        INFP_COLUMN(metric, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Metric."),
};
static const struct infp_column samples_keys[] = {
        INFP_COLUMN(series, ID64, LABEL, none, MEASURED, NO, "series", 0, NULL, "Series."),
};
static const struct infp_column samples_columns[] = {
        INFP_COLUMN(value, F64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Value."),
};
// clang-format on
static const struct infp_table engines_table = { .name = "engines",
                                                 .help = "Of the tests.",
                                                 .keys = engines_keys,
                                                 .n_keys = 1,
                                                 .columns = engines_columns,
                                                 .n_columns = 5,
                                                 .entity = true };
static const struct infp_table series_table = { .name = "series",
                                                .help = "Of the tests.",
                                                .keys = series_keys,
                                                .n_keys = 1,
                                                .columns = series_columns,
                                                .n_columns = 6,
                                                .entity = true };
static const struct infp_table samples_table = { .name = "engine_samples",
                                                 .help = "Of the tests.",
                                                 .keys = samples_keys,
                                                 .n_keys = 1,
                                                 .columns = samples_columns,
                                                 .n_columns = 1,
                                                 .on_change = true };

static inline void put_engine(struct sample_run *s, uint64_t id, int64_t number, const char *url, const char *make,
                              const char *model)
{
        struct infp_row *row = sample_row(s, &engines_table, 1);

        infp_row_id(row, 0, id);
        infp_row_i64(row, 1, number);
        infp_row_str(row, 2, url);
        if (make) { /* NULL: it never answered */
                infp_row_str(row, 3, make);
                infp_row_str(row, 4, "1.0");
                infp_row_str(row, 5, model);
        }
        sample_put(s);
}

static inline void put_series(struct sample_run *s, uint64_t id, uint64_t engine, const char *labels,
                              const char *family, const char *part, double le, const char *metric)
{
        struct infp_row *row = sample_row(s, &series_table, 1);

        infp_row_id(row, 0, id);
        infp_row_id(row, 1, engine);
        infp_row_str(row, 2, labels);
        infp_row_str(row, 3, family);
        infp_row_str(row, 4, part);
        infp_row_f64(row, 5, le); /* not where it is infinite */
        if (metric)
                infp_row_str(row, 6, metric);
        sample_put(s);
}

static inline void put_value(struct sample_run *s, uint64_t t_ns, uint64_t series, double value)
{
        struct infp_row *row = sample_row(s, &samples_table, t_ns);

        infp_row_id(row, 0, series);
        infp_row_f64(row, 1, value);
        sample_put(s);
}

/* A histogram of three edges, 1, 2 and +Inf: series id .. id + 4 (the last two: sum, count). */
static inline void put_histogram(struct sample_run *s, uint64_t id, uint64_t engine, const char *labels,
                                 const char *family, const char *metric)
{
        put_series(s, id, engine, labels, family, "bucket", 1, metric);
        put_series(s, id + 1, engine, labels, family, "bucket", 2, metric);
        put_series(s, id + 2, engine, labels, family, "bucket", INFINITY, metric);
        put_series(s, id + 3, engine, labels, family, "sum", NAN, metric);
        put_series(s, id + 4, engine, labels, family, "count", NAN, metric);
}

/* A page's values of it; a negative one has not changed. */
static inline void put_counts(struct sample_run *s, uint64_t t_ns, uint64_t id, double one, double two, double all,
                              double sum)
{
        const double values[] = { one, two, all, sum, all };

        for (unsigned i = 0; i < 5; i++)
                if (!(values[i] < 0))
                        put_value(s, t_ns, id + i, values[i]);
}
