#include "query/engine_quantiles.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/builder.h"
#include "query/engine_window.h"
#include "query/joins.h"

/* The columns of a window stand before the others; without windows they are not there. */
enum { T_NS, TIME, OF_WINDOWS };
enum { ENGINE, URL, MAKE, MODEL, METRIC, QUANTILE, LOW, ESTIMATE, HIGH, N, MEAN, WIDTH };

// clang-format off
static const struct infp_column all_columns[] = {
        INFP_COLUMN(t_ns, I64, LABEL, ns, DERIVED, NO, NULL, 0, NULL, "CLOCK_MONOTONIC at the start of the window."),
        INFP_COLUMN(time, TS_NS, LABEL, none, DERIVED, NO, NULL, 0, NULL, "UTC of t_ns."),
        INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine."),
        INFP_COLUMN(url, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its page."),
        INFP_COLUMN(make, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Its make."),
        INFP_COLUMN(model, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Models served."),
        INFP_COLUMN(metric, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "What was observed, with its unit as suffix."),
        INFP_COLUMN(quantile, F64, LABEL, none, DERIVED, NO, NULL, 0, NULL, "0.5, 0.9, 0.95, 0.99."),
        INFP_COLUMN(low, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "The quantile is above this edge."),
        INFP_COLUMN(estimate, F64, GAUGE, none, ESTIMATED, NO, NULL, 0, NULL, "Interpolated between the edges; the lower edge if there is no upper one."),
        INFP_COLUMN(high, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "The quantile is at most this edge; null: above the last edge."),
        INFP_COLUMN(n, I64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "Observations."),
        INFP_COLUMN(mean, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "Exact mean of the same observations."),
};
// clang-format on
static const struct infp_column *const columns = all_columns + OF_WINDOWS;
const struct infp_table infp_engine_quantiles_table = {
        .name = INFP_QUANTILES_VIEW,
        .help = "Percentiles of what engines observed, from the buckets of their histograms.",
        .columns = all_columns + OF_WINDOWS,
        .n_columns = WIDTH,
        .plain = true,
};
const struct infp_table infp_engine_quantiles_by_table = {
        .name = INFP_QUANTILES_STEPS,
        .help = "The same for consecutive windows of some seconds.",
        .columns = all_columns,
        .n_columns = OF_WINDOWS + WIDTH,
        .plain = true,
};

struct infp_engine_quantiles {
        struct infp_engine_windows *windows; /* that are still to come; NULL: there is one window */
        struct infp_engine_window found;     /* the window that rows are made of */
        uint64_t t_ns;
        int64_t unix_ns;
        struct infp_entities *engines; /* NULL: none are known */
        struct infp_builder *builder;
        unsigned at; /* metric and quantile of the next row */
};

struct infp_engine_quantiles *infp_engine_quantiles_close(struct infp_engine_quantiles *quantiles)
{
        if (quantiles) {
                infp_engine_windows_close(quantiles->windows);
                infp_engine_window_done(&quantiles->found);
                infp_entities_free(quantiles->engines);
                infp_builder_free(quantiles->builder);
                free(quantiles);
        }
        return NULL;
}

static void close_ptr(struct infp_engine_quantiles **quantiles)
{
        infp_engine_quantiles_close(*quantiles);
}

static int make(const struct infp_table *table, struct infp_run *run, const struct infp_catalog *catalog,
                struct infp_engine_quantiles **ret, struct infp_err *err)
{
        infp_cleanup(close_ptr) struct infp_engine_quantiles *q = calloc(1, sizeof(*q));
        int r;

        if (!q)
                return infp_fail(err, -ENOMEM, "out of memory");
        q->builder = infp_builder_new(table, INFP_BATCH_ROWS);
        if (!q->builder)
                return infp_fail(err, -ENOMEM, "out of memory");
        r = infp_entities_load(run, "engines", catalog, &q->engines, err);
        if (r < 0 && r != -ENOENT)
                return r;
        *ret = INFP_TAKE(q);
        return 0;
}

int infp_engine_quantiles_open(struct infp_run *run, uint64_t t0, uint64_t t1, const struct infp_catalog *catalog,
                               struct infp_engine_quantiles **ret, struct infp_err *err)
{
        infp_cleanup(close_ptr) struct infp_engine_quantiles *q = NULL;

        *ret = NULL;
        INFP_TRY(make(&infp_engine_quantiles_table, run, catalog, &q, err));
        INFP_TRY(infp_engine_window_read(run, t0, t1, catalog, &q->found, err));
        *ret = INFP_TAKE(q);
        return 0;
}

int infp_engine_quantiles_open_by(struct infp_run *run, uint64_t step_ns, const struct infp_catalog *catalog,
                                  struct infp_engine_quantiles **ret, struct infp_err *err)
{
        infp_cleanup(close_ptr) struct infp_engine_quantiles *q = NULL;

        *ret = NULL;
        INFP_TRY(make(&infp_engine_quantiles_by_table, run, catalog, &q, err));
        INFP_TRY(infp_engine_windows_open(run, step_ns, catalog, &q->windows, err));
        *ret = INFP_TAKE(q);
        return 0;
}

static void set_attribute(const struct infp_engine_quantiles *q, unsigned first, unsigned column, uint64_t engine)
{
        int at = q->engines ? infp_entities_column(q->engines, columns[column].name) : -1;
        const struct infp_value *value = at >= 0 ? infp_entities_value(q->engines, engine, (unsigned) at) : NULL;

        if (value)
                infp_builder_set(q->builder, first + column, (union infp_cell){ 0 }, value->text, value->size);
}

/* One row; -ENOSPC. */
static int put(const struct infp_engine_quantiles *q, const struct infp_window_metric *m, double quantile)
{
        const unsigned first = q->windows ? OF_WINDOWS : 0;
        struct infp_builder *b = q->builder;
        struct infp_quantile at;

        if (!infp_window_quantile(m, quantile, &at))
                return 0;
        INFP_TRY(infp_builder_row_begin(b, 0, 0));
        if (first) {
                infp_builder_set(b, T_NS, (union infp_cell){ .i64 = (int64_t) q->t_ns }, NULL, 0);
                infp_builder_set(b, TIME, (union infp_cell){ .i64 = q->unix_ns }, NULL, 0);
        }
        infp_builder_set(b, first + ENGINE, (union infp_cell){ .u64 = m->engine }, NULL, 0);
        set_attribute(q, first, URL, m->engine);
        set_attribute(q, first, MAKE, m->engine);
        set_attribute(q, first, MODEL, m->engine);
        infp_builder_set_text(b, first + METRIC, m->metric);
        infp_builder_set_f64(b, first + QUANTILE, quantile);
        infp_builder_set_f64(b, first + LOW, at.low);
        infp_builder_set_f64(b, first + ESTIMATE, at.estimate);
        infp_builder_set_f64(b, first + HIGH, at.high);
        infp_builder_set(b, first + N, (union infp_cell){ .i64 = llround(m->buckets[m->n_buckets - 1].count) }, NULL,
                         0);
        if (m->count > 0)
                infp_builder_set_f64(b, first + MEAN, m->sum / m->count);
        return infp_builder_row_end(b);
}

static int next_window(struct infp_engine_quantiles *q, struct infp_err *err)
{
        infp_engine_window_done(&q->found);
        q->at = 0;
        return q->windows ? infp_engine_windows_next(q->windows, &q->t_ns, &q->unix_ns, &q->found, err) : 0;
}

int infp_engine_quantiles_next(struct infp_engine_quantiles *q, struct infp_batch *ret, struct infp_err *err)
{
        int r = 1;

        infp_builder_reset(q->builder);
        while (r > 0) {
                if (q->at == q->found.n * INFP_QUANTILES_N)
                        r = next_window(q, err);
                else if (put(q, &q->found.metrics[q->at / INFP_QUANTILES_N],
                             infp_quantiles_shown[q->at % INFP_QUANTILES_N]) == 0)
                        q->at++;
                else if (infp_builder_rows(q->builder) > 0)
                        break;
                else if (infp_builder_grow(q->builder, 1 << 20) < 0)
                        return infp_fail(err, -ENOMEM, "out of memory");
        }
        *ret = infp_builder_batch(q->builder, 0);
        return r < 0 ? r : ret->n_rows > 0;
}
