#include "analyze/compare/group.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/compare/student.h"
#include "analyze/stat.h"
#include "base/mem.h"

void infp_group_done(struct infp_group *group)
{
        free(group->rows);
        *group = (struct infp_group){ 0 };
}

struct variant {
        struct infp_stat values, logs;
};

static struct variant read_variant(const struct infp_compare_side *side, const char *name)
{
        struct variant ret = { .values = { 0 } };

        for (unsigned i = 0; i < side->n; i++) {
                const struct infp_compare_item *item =
                        infp_compare_item_find(side->runs[i], INFP_COMPARE_NUMBERS, name);
                const double v = item ? infp_compare_value(&item->series, NULL) : NAN;

                if (isfinite(v))
                        infp_stat_add_value(&ret.values, v, 1);
                if (isfinite(v) && v > 0)
                        infp_stat_add_value(&ret.logs, log(v), 1);
        }
        return ret;
}

static void set_ratio(struct infp_group_row *row, double log_ratio, double error, double df)
{
        const double wide = infp_student_quantile(0.975, df) * error;

        row->ratio = exp(log_ratio);
        row->low = exp(log_ratio - wide);
        row->high = exp(log_ratio + wide);
}

static void compare_with(struct infp_group_row *row, const struct variant *first, const struct variant *one)
{
        const struct infp_stat *a = &first->logs, *b = &one->logs;
        const double va = pow(infp_stat_sample_std(a), 2) / (double) a->n,
                     vb = pow(infp_stat_sample_std(b), 2) / (double) b->n, all = va + vb;
        const double df = all > 0 ? all * all / (va * va / (double) (a->n - 1) + vb * vb / (double) (b->n - 1))
                                  : (double) (a->n + b->n) - 2;

        if (a->n < first->values.n || b->n < one->values.n) /* a value of 0 has no ratio */
                return;
        set_ratio(row, infp_stat_mean(b) - infp_stat_mean(a), sqrt(all), df);
}

static int add_row(struct infp_group *group, const struct infp_group_row *row)
{
        if (!INFP_MAKE_ROOM(group->rows, group->n, group->cap, 64))
                return -ENOMEM;
        group->rows[group->n++] = *row;
        return 0;
}

static struct infp_group_row row_of(const struct infp_compare_item *item, unsigned side)
{
        return (struct infp_group_row){ .number = item->number,
                                        .name = item->name,
                                        .side = side,
                                        .mean = NAN,
                                        .std = NAN,
                                        .min = NAN,
                                        .max = NAN,
                                        .normalised = NAN,
                                        .ratio = NAN,
                                        .low = NAN,
                                        .high = NAN };
}

static int add_number(struct infp_group *group, const struct infp_compare_side *sides, unsigned n,
                      const struct infp_compare_item *item)
{
        struct variant all[INFP_COMPARE_SIDES];
        struct infp_stat ratios = { 0 };
        struct infp_group_row over = row_of(item, n);
        double least = INFINITY;

        for (unsigned k = 0; k < n; k++) {
                all[k] = read_variant(&sides[k], item->name);
                least = all[k].values.n ? fmin(least, infp_stat_mean(&all[k].values)) : least;
        }
        for (unsigned k = 0; k < n; k++) {
                const struct infp_stat *values = &all[k].values;
                struct infp_group_row row = row_of(item, k);

                row.n = (unsigned) values->n;
                if (values->n) {
                        row.mean = infp_stat_mean(values);
                        row.std = infp_stat_sample_std(values);
                        row.min = values->min;
                        row.max = values->max;
                        row.normalised = least > 0 ? row.mean / least : NAN;
                }
                if (k)
                        compare_with(&row, &all[0], &all[k]);
                if (isfinite(row.ratio) && row.ratio > 0)
                        infp_stat_add_value(&ratios, log(row.ratio), 1);
                INFP_TRY(add_row(group, &row));
        }
        if (n < 3 || ratios.n + 1 < n)
                return 0;
        over.n = (unsigned) ratios.n;
        set_ratio(&over, infp_stat_mean(&ratios), infp_stat_sample_std(&ratios) / sqrt((double) ratios.n),
                  (double) ratios.n - 1);
        return add_row(group, &over);
}

static bool is_listed(const struct infp_group *group, const char *name)
{
        for (unsigned i = 0; i < group->n; i++)
                if (!strcmp(group->rows[i].name, name))
                        return true;
        return false;
}

int infp_group_make(const struct infp_compare_side *sides, unsigned n, struct infp_group *ret)
{
        *ret = (struct infp_group){ 0 };
        for (unsigned i = 0; i < infp_compare_numbers_n; i++)
                for (unsigned k = 0; k < n; k++)
                        for (unsigned j = 0; j < sides[k].n; j++)
                                for (unsigned m = 0; m < sides[k].runs[j]->n; m++) {
                                        const struct infp_compare_item *item = &sides[k].runs[j]->items[m];

                                        if (item->number != &infp_compare_numbers[i] || is_listed(ret, item->name))
                                                continue;
                                        if (add_number(ret, sides, n, item) < 0) {
                                                infp_group_done(ret);
                                                return -ENOMEM;
                                        }
                                }
        return 0;
}
