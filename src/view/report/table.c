#include <errno.h>
#include <math.h>

#include "model/builder.h"
#include "view/report/report.h"

enum { METRIC, TABLE, MEAN, STD, MIN, MAX, TOTAL, UNIT, KIND, QUALITY, SAMPLES, N };

// clang-format off
static const struct infp_column columns[] = {
        [METRIC] = INFP_COLUMN(metric, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name."),
        [TABLE] = INFP_COLUMN(table, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Table."),
        [MEAN] = INFP_COLUMN(mean, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "Mean; of a counter its rate."),
        [STD] = INFP_COLUMN(std, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "Standard deviation of the population."),
        [MIN] = INFP_COLUMN(min, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "Smallest."),
        [MAX] = INFP_COLUMN(max, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "Largest."),
        [TOTAL] = INFP_COLUMN(total, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "Increase of a counter, in its own unit."),
        [UNIT] = INFP_COLUMN(unit, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Unit; of counters a second."),
        [KIND] = INFP_COLUMN(kind, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Kind."),
        [QUALITY] = INFP_COLUMN(quality, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Quality."),
        [SAMPLES] = INFP_COLUMN(n, U64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "Samples, or intervals of a counter."),
};
// clang-format on

static const struct infp_table shape = { .name = "report", .columns = columns, .n_columns = N, .plain = true };

static int fill(struct infp_builder *b, const struct infp_report_metric *m)
{
        const bool is_counter = m->column.kind == INFP_COUNTER;
        infp_autostr struct infp_str unit = { 0 };

        infp_str_printf(&unit, "%s%s", m->unit, is_counter ? "/s" : "");
        if (unit.failed)
                return -ENOMEM;
        infp_builder_reset(b);
        INFP_TRY(infp_builder_row_begin(b, 0, 0));
        infp_builder_set_text(b, METRIC, m->name);
        infp_builder_set_text(b, TABLE, m->table);
        infp_builder_set_f64(b, MEAN, infp_stat_mean(&m->stat));
        infp_builder_set_f64(b, STD, infp_stat_std(&m->stat));
        infp_builder_set_f64(b, MIN, m->stat.n ? m->stat.min : NAN);
        infp_builder_set_f64(b, MAX, m->stat.n ? m->stat.max : NAN);
        infp_builder_set_f64(b, TOTAL, is_counter ? infp_stat_total(&m->stat, &m->column) : NAN);
        infp_builder_set_text(b, UNIT, unit.size ? unit.data : "");
        infp_builder_set_text(b, KIND, infp_kind_name(m->column.kind));
        infp_builder_set_text(b, QUALITY, infp_quality_name(m->column.quality));
        infp_builder_set(b, SAMPLES, (union infp_cell){ .u64 = m->stat.n }, NULL, 0);
        return infp_builder_row_end(b);
}

int infp_report_table(struct infp_out *out, const struct infp_report *report, const struct infp_format *format)
{
        /* Room for the longest names of one row: 32 bytes a row and text column. */
        struct infp_builder *b = infp_builder_new(&shape, 64);
        int r = b ? format->begin(out, &shape) : -ENOMEM;

        for (unsigned i = 0; i < report->n_metrics && r >= 0; i++) {
                r = fill(b, &report->metrics[i]);
                if (r >= 0) {
                        const struct infp_batch batch = infp_builder_batch(b, 0);

                        r = format->batch(out, &batch);
                }
        }
        if (r >= 0)
                r = format->end(out, &shape);
        infp_builder_free(b);
        return r;
}
