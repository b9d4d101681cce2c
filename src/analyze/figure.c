#include "analyze/figure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/rate.h"
#include "query/instances.h"

void infp_figure_done(struct infp_figure *figure)
{
        for (unsigned i = 0; i < figure->n; i++) {
                free(figure->list[i].name);
                free(figure->list[i].unit);
                free(figure->list[i].base);
                free(figure->list[i].help);
                free(figure->list[i].points);
        }
        infp_labels_done(&figure->marks);
        *figure = (struct infp_figure){ 0 };
}

double infp_figure_mean(const struct infp_figure_series *series)
{
        double sum = 0, weight = 0;

        for (size_t i = 0; i < series->n; i++) {
                sum += series->points[i].value * series->points[i].weight;
                weight += series->points[i].weight;
        }
        return sum / weight;
}

static bool is_of_series(const struct infp_table *table)
{
        return !table->entity && !table->plain && table->series;
}

/* "container12_" of a name that ends in the column's; 0: it is not this column. */
static bool splits(const struct infp_table *table, const struct infp_column *c, const char *name, size_t *ret_prefix)
{
        const size_t size = strlen(name), column = strlen(c->name), series = strlen(table->series);

        if (size < column || strcmp(name + size - column, c->name))
                return false;
        *ret_prefix = size - column;
        if (!*table->series || !table->n_keys)
                return *ret_prefix == 0;
        return *ret_prefix > series + 1 && !strncmp(name, table->series, series) &&
               strspn(name + series, "0123456789") == *ret_prefix - series - 1 && name[*ret_prefix - 1] == '_';
}

static const struct infp_table *find_column(const struct infp_catalog *catalog, const char *name, unsigned *ret_column,
                                            size_t *ret_prefix)
{
        for (unsigned k = 0; k < catalog->n_tables; k++) {
                const struct infp_table *table = &catalog->tables[k];

                for (unsigned i = INFP_FIXED_COLUMNS; is_of_series(table) && i < infp_table_width(table); i++)
                        if (infp_column_is_metric(infp_table_column(table, i)) &&
                            splits(table, infp_table_column(table, i), name, ret_prefix)) {
                                *ret_column = i;
                                return table;
                        }
        }
        return NULL;
}

/* The number of the counter NAME_count beside NAME_sum; -ENOENT: the column is no sum of a histogram. */
static int count_of(const struct infp_table *table, unsigned column)
{
        static const char sum[] = "_sum";
        const struct infp_column *c = infp_table_column(table, column);
        const size_t size = strlen(c->name), end = sizeof(sum) - 1;
        char count[128];

        if (c->kind != INFP_COUNTER || size <= end || strcmp(c->name + size - end, sum))
                return -ENOENT;
        snprintf(count, sizeof(count), "%.*s_count", (int) (size - end), c->name);
        return infp_table_find(table, count);
}

/* A mean: by the name without "_sum". */
static const struct infp_table *find_mean(const struct infp_catalog *catalog, const char *name, unsigned *ret_column,
                                          const struct infp_column **ret_per, size_t *ret_prefix)
{
        char sum[256];
        const struct infp_table *table;
        int per;

        if (snprintf(sum, sizeof(sum), "%s_sum", name) >= (int) sizeof(sum))
                return NULL;
        table = find_column(catalog, sum, ret_column, ret_prefix);
        per = table ? count_of(table, *ret_column) : -ENOENT;
        if (per < 0)
                return NULL;
        *ret_per = infp_table_column(table, (unsigned) per);
        return table;
}

struct reading {
        const struct infp_figure_options *options;
        struct infp_figure_series *series;
        const struct infp_column *column, *per; /* per: of a mean, what its increase is divided by; else NULL */
        double factor;
        size_t cap;
        bool has_last, is_after_gap;
        uint64_t last_t_ns, last_raw, last_per_raw;
        double last, last_per, last_counted_s;
};

static int add_point(struct reading *r, uint64_t t_ns, double value, double weight, bool is_first)
{
        struct infp_figure_series *series = r->series;

        if (series->n == INFP_FIGURE_POINTS) {
                series->left_out++;
                return 0;
        }
        if (!INFP_MAKE_ROOM(series->points, series->n, r->cap, 1024))
                return -ENOMEM;
        series->points[series->n++] =
                (struct infp_figure_point){ .t_ns = t_ns, .value = value, .weight = weight, .is_first = is_first };
        return 0;
}

static double difference(const struct infp_column *c, double before, double value, uint64_t raw_before, uint64_t raw)
{
        if (c->kind != INFP_COUNTER)
                return value - before;
        return c->type == INFP_I64 || c->type == INFP_U64 ? (double) infp_increase_u64(c->reset, raw_before, raw, 0)
                                                          : infp_increase_f64(c->reset, before, value, 0);
}

/* No observations, no mean: the line has a gap. */
static int take_mean(struct reading *r, uint64_t t_ns, double value, double per, uint64_t raw, uint64_t per_raw)
{
        int done = 0;

        if (r->has_last) {
                const double n = difference(r->per, r->last_per, per, r->last_per_raw, per_raw);
                const double more = difference(r->column, r->last, value, r->last_raw, raw);

                if (n > 0)
                        done = add_point(r, t_ns, more * r->factor / n, n,
                                         r->is_after_gap || t_ns > r->last_t_ns + r->options->gap_ns || !r->series->n);
                r->is_after_gap = !(n > 0);
        }
        r->has_last = true;
        r->last_t_ns = t_ns;
        r->last = value;
        r->last_per = per;
        r->last_raw = raw;
        r->last_per_raw = per_raw;
        return done;
}

static int take(struct reading *r, uint64_t t_ns, double counted_s, double value, uint64_t raw)
{
        const enum infp_figure_mode mode = r->options->mode;
        const bool is_difference =
                mode == INFP_FIGURE_DELTA || (mode == INFP_FIGURE_RATE && r->column->kind == INFP_COUNTER);
        const bool is_gap = r->has_last && t_ns > r->last_t_ns + r->options->gap_ns;
        const double seconds = r->has_last ? infp_counted_seconds(r->last_t_ns, t_ns, r->last_counted_s, counted_s) : 0;
        int done = 0;

        if (!is_difference)
                done = add_point(r, t_ns, value * r->factor, 1, is_gap || !r->has_last);
        else if (seconds > 0) {
                const double by = mode == INFP_FIGURE_RATE ? seconds : 1;

                /* What was counted over a gap is somewhere in it: the rate is right, the place is not known. */
                done = add_point(r, t_ns, difference(r->column, r->last, value, r->last_raw, raw) * r->factor / by, by,
                                 is_gap || r->is_after_gap);
                r->is_after_gap = false;
        } else
                r->is_after_gap = true;
        r->has_last = true;
        r->last_t_ns = t_ns;
        r->last_counted_s = counted_s;
        r->last = value;
        r->last_raw = raw;
        return done;
}

/* False: the row has no value. */
static bool read_value(const struct infp_batch *batch, int at, uint32_t row, const struct infp_column *c,
                       double *ret_value, uint64_t *ret_raw)
{
        const unsigned column = (unsigned) at;

        *ret_raw = 0;
        if (at < 0 || !infp_batch_has(batch, column, row))
                return false;
        *ret_value = infp_batch_number(batch, column, row);
        if (c->type == INFP_U64)
                *ret_raw = infp_batch_u64(batch, column, row);
        else if (c->type == INFP_I64)
                *ret_raw = (uint64_t) infp_batch_i64(batch, column, row);
        return isfinite(*ret_value);
}

static int take_batch(struct reading *r, struct infp_instances *instances, int wanted, const struct infp_batch *batch)
{
        const int at = infp_table_find(batch->table, r->column->name);
        const int at_per = r->per ? infp_table_find(batch->table, r->per->name) : -1;

        for (uint32_t row = 0; row < batch->n_rows; row++) {
                const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
                double value, per;
                uint64_t raw, per_raw;

                if (!read_value(batch, at, row, r->column, &value, &raw) ||
                    (batch->table->n_keys && infp_instances_of(instances, batch, row) != wanted))
                        continue;
                if (!r->per)
                        INFP_TRY(take(r, t_ns, infp_batch_counted_s(batch, r->column, row), value, raw));
                else if (read_value(batch, at_per, row, r->per, &per, &per_raw))
                        INFP_TRY(take_mean(r, t_ns, value, per, raw, per_raw));
        }
        return 0;
}

static int read_series(struct reading *r, struct infp_run *run, const struct infp_table *table,
                       struct infp_instances *instances, int wanted, struct infp_err *err)
{
        infp_autofree const char **names = calloc(table->n_keys + 4, sizeof(*names));
        struct infp_scan_options scanned = { .t0 = r->options->range->t0,
                                             .t1 = r->options->range->t1,
                                             .columns = names,
                                             .catalog = r->options->catalog };
        struct infp_scan *scan;
        struct infp_batch batch;
        unsigned n = 0;
        int done;

        if (!names)
                return infp_fail(err, -ENOMEM, "no memory for the values of %s", r->series->name);
        for (unsigned i = 0; i < table->n_keys; i++)
                names[n++] = table->keys[i].name;
        names[n++] = r->column->name;
        if (r->per)
                names[n++] = r->per->name;
        if (r->column->reset == INFP_RESET_GAP && r->column->key)
                names[n] = r->column->key;
        INFP_TRY(infp_scan_open(run, table->name, &scanned, &scan, err));
        while ((done = infp_scan_next(scan, &batch, err)) > 0)
                if ((done = take_batch(r, instances, wanted, &batch)) < 0) {
                        infp_fail(err, done, "no memory for the values of %s", r->series->name);
                        break;
                }
        infp_scan_close(scan);
        return done;
}

static int describe(struct infp_figure_series *series, const char *name, const struct infp_column *c,
                    struct infp_err *err)
{
        *series = (struct infp_figure_series){ .name = strdup(name),
                                               .unit = strdup(infp_column_is_share(c) ? "%" : c->unit->name),
                                               .base = strdup(c->unit->base),
                                               .help = strdup(c->help ? c->help : ""),
                                               .kind = c->kind,
                                               .quality = c->quality };
        return series->name && series->unit && series->base && series->help
                       ? 0
                       : infp_fail(err, -ENOMEM, "no memory for the figure");
}

int infp_figure_add(struct infp_figure *figure, struct infp_run *run, const char *name,
                    const struct infp_figure_options *options, struct infp_err *err)
{
        infp_cleanup(infp_instances_done) struct infp_instances instances = { 0 };
        unsigned column;
        size_t prefix;
        const struct infp_table *table = find_column(options->catalog, name, &column, &prefix);
        struct reading reading = { .options = options };
        int wanted = -1, r;

        if (!table)
                table = find_mean(options->catalog, name, &column, &reading.per, &prefix);
        if (!table)
                return -ENOENT;
        if (reading.per && options->mode != INFP_FIGURE_RATE)
                return infp_fail(err, -EINVAL,
                                 "%s is the mean of what was observed between two samples: --delta and --raw draw "
                                 "%s_sum and %s_count",
                                 name, name, name);
        if (figure->n == INFP_FIGURE_SERIES)
                return infp_fail(err, -E2BIG, "more than %d metrics in one figure cannot be told apart",
                                 INFP_FIGURE_SERIES);
        r = infp_instances_find(run, table, options->catalog, &instances, err);
        if (r < 0)
                return r == -ENOENT ? -ENODATA : r;
        for (unsigned i = 0; i < instances.n && wanted < 0; i++)
                if (strlen(instances.list[i].prefix) == prefix && !strncmp(instances.list[i].prefix, name, prefix))
                        wanted = (int) i;
        if (table->n_keys && wanted < 0)
                return *table->series ? -ENOENT : -ENODATA;
        figure->mode = options->mode;
        figure->t0 = options->range->t0;
        figure->t1 = options->range->t1;
        reading.series = &figure->list[figure->n++];
        reading.column = infp_table_column(table, column);
        reading.factor = reading.column->unit->factor;
        INFP_TRY(describe(reading.series, name, reading.column, err));
        if (reading.per) {
                reading.series->is_mean = true;
                reading.series->kind = INFP_GAUGE;
                reading.series->quality = INFP_DERIVED;
        }
        r = read_series(&reading, run, table, &instances, wanted, err);
        if (r == -ENOENT || (r >= 0 && !reading.series->n))
                return -ENODATA;
        return r < 0 ? r : 0;
}

int infp_figure_names(struct infp_run *run, const struct infp_catalog *catalog,
                      void (*each)(void *context, const char *table, const char *name), void *context,
                      struct infp_err *err)
{
        for (unsigned k = 0; k < catalog->n_tables; k++) {
                const struct infp_table *table = &catalog->tables[k];
                infp_cleanup(infp_instances_done) struct infp_instances instances = { 0 };
                int r;

                if (!is_of_series(table))
                        continue;
                r = infp_instances_find(run, table, catalog, &instances, err);
                if (r < 0 && r != -ENOENT)
                        return r;
                for (unsigned n = 0; n < instances.n; n++)
                        for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(table); i++) {
                                char name[256];

                                if (!infp_column_is_metric(infp_table_column(table, i)))
                                        continue;
                                snprintf(name, sizeof(name), "%s%s", instances.list[n].prefix,
                                         infp_table_column(table, i)->name);
                                each(context, table->name, name);
                                if (count_of(table, i) >= 0) { /* the mean has the name without "_sum" */
                                        name[strlen(name) - 4] = 0;
                                        each(context, table->name, name);
                                }
                        }
        }
        return 0;
}
