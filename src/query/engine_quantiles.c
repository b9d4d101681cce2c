#include "query/engine_quantiles.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "model/builder.h"
#include "query/engine_window.h"
#include "query/joins.h"

enum { ENGINE, URL, MAKE, MODEL, METRIC, QUANTILE, LOW, ESTIMATE, HIGH, N, MEAN, WIDTH };

// clang-format off
static const struct infp_column columns[] = {
        [ENGINE] = INFP_COLUMN(engine, ID64, LABEL, none, MEASURED, NO, "engines", 0, NULL, "Engine."),
        [URL] = INFP_COLUMN(url, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its page."),
        [MAKE] = INFP_COLUMN(make, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Its make."),
        [MODEL] = INFP_COLUMN(model, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Models that it serves."),
        [METRIC] = INFP_COLUMN(metric, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "What was observed; its unit stands at the end."),
        [QUANTILE] = INFP_COLUMN(quantile, F64, LABEL, none, DERIVED, NO, NULL, 0, NULL, "0.5, 0.9, 0.95, 0.99."),
        [LOW] = INFP_COLUMN(low, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "The quantile is above this edge."),
        [ESTIMATE] = INFP_COLUMN(estimate, F64, GAUGE, none, ESTIMATED, NO, NULL, 0, NULL, "Between the edges in proportion; the lower edge where there is no upper one."),
        [HIGH] = INFP_COLUMN(high, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "The quantile is not above this edge; null: above the last edge."),
        [N] = INFP_COLUMN(n, I64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "Observations."),
        [MEAN] = INFP_COLUMN(mean, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "Exact mean of the same observations."),
};
// clang-format on
const struct infp_table infp_engine_quantiles_table = {
        .name = INFP_QUANTILES_VIEW,
        .help = "Percentiles of what engines observed, from the buckets of their histograms.",
        .columns = columns,
        .n_columns = WIDTH,
        .plain = true,
};

struct infp_engine_quantiles {
        struct infp_engine_window window;
        struct infp_entities *engines; /* NULL: none are known */
        struct infp_builder *builder;
        unsigned at; /* metric and quantile of the next row */
};

struct infp_engine_quantiles *infp_engine_quantiles_close(struct infp_engine_quantiles *quantiles)
{
        if (quantiles) {
                infp_engine_window_done(&quantiles->window);
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

int infp_engine_quantiles_open(struct infp_run *run, uint64_t t0, uint64_t t1, const struct infp_catalog *catalog,
                               struct infp_engine_quantiles **ret, struct infp_err *err)
{
        infp_cleanup(close_ptr) struct infp_engine_quantiles *q = calloc(1, sizeof(*q));
        int r;

        *ret = NULL;
        if (!q)
                return infp_fail(err, -ENOMEM, "out of memory");
        q->builder = infp_builder_new(&infp_engine_quantiles_table, INFP_BATCH_ROWS);
        if (!q->builder)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(infp_engine_window_read(run, t0, t1, catalog, &q->window, err));
        r = infp_entities_load(run, "engines", catalog, &q->engines, err);
        if (r < 0 && r != -ENOENT)
                return r;
        *ret = INFP_TAKE(q);
        return 0;
}

static void set_attribute(const struct infp_engine_quantiles *q, unsigned column, uint64_t engine)
{
        int at = q->engines ? infp_entities_column(q->engines, columns[column].name) : -1;
        const struct infp_value *value = at >= 0 ? infp_entities_value(q->engines, engine, (unsigned) at) : NULL;

        if (value)
                infp_builder_set(q->builder, column, (union infp_cell){ 0 }, value->text, value->size);
}

/* One row; -ENOSPC. */
static int put(const struct infp_engine_quantiles *q, const struct infp_window_metric *m, double quantile)
{
        struct infp_builder *b = q->builder;
        struct infp_quantile at;

        if (!infp_quantile_of(m->buckets, m->n_buckets, quantile, &at))
                return 0;
        INFP_TRY(infp_builder_row_begin(b, 0, 0));
        infp_builder_set(b, ENGINE, (union infp_cell){ .u64 = m->engine }, NULL, 0);
        set_attribute(q, URL, m->engine);
        set_attribute(q, MAKE, m->engine);
        set_attribute(q, MODEL, m->engine);
        infp_builder_set_text(b, METRIC, m->metric);
        infp_builder_set_f64(b, QUANTILE, quantile);
        infp_builder_set_f64(b, LOW, at.low);
        infp_builder_set_f64(b, ESTIMATE, at.estimate);
        infp_builder_set_f64(b, HIGH, at.high);
        infp_builder_set(b, N, (union infp_cell){ .i64 = llround(m->buckets[m->n_buckets - 1].count) }, NULL, 0);
        if (m->count > 0)
                infp_builder_set_f64(b, MEAN, m->sum / m->count);
        return infp_builder_row_end(b);
}

int infp_engine_quantiles_next(struct infp_engine_quantiles *q, struct infp_batch *ret, struct infp_err *err)
{
        infp_builder_reset(q->builder);
        while (q->at < q->window.n * INFP_QUANTILES_N) {
                int r = put(q, &q->window.metrics[q->at / INFP_QUANTILES_N],
                            infp_quantiles_shown[q->at % INFP_QUANTILES_N]);

                if (r == 0)
                        q->at++;
                else if (infp_builder_rows(q->builder) > 0)
                        break;
                else if (infp_builder_grow(q->builder, 1 << 20) < 0)
                        return infp_fail(err, -ENOMEM, "out of memory");
        }
        *ret = infp_builder_batch(q->builder, 0);
        return ret->n_rows > 0;
}
