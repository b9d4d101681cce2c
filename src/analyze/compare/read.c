#include "analyze/compare/read.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/compare/parts.h"
#include "analyze/figure.h"
#include "analyze/gpus.h"
#include "analyze/metrics.h"
#include "base/mem.h"

enum { MOST_GPUS = 64 };

struct infp_compare_run *infp_compare_run_free(struct infp_compare_run *run)
{
        if (!run)
                return NULL;
        free(run->items);
        free(run->functions);
        free(run->gaps);
        for (unsigned i = 0; i < INFP_REQUEST_KINDS; i++)
                free(run->requests[i].list);
        for (unsigned i = 0; i < run->n_steps; i++) {
                free(run->steps[i]->list);
                free(run->steps[i]);
        }
        infp_strings_done(&run->strings);
        free(run);
        return NULL;
}

const struct infp_compare_item *infp_compare_item_find(const struct infp_compare_run *run,
                                                       enum infp_compare_section section, const char *name)
{
        for (unsigned i = 0; i < run->n; i++)
                if (run->items[i].section == section && !strcmp(run->items[i].name, name))
                        return &run->items[i];
        return NULL;
}

unsigned infp_compare_block(const struct infp_compare_run *run, uint64_t t_ns)
{
        const uint64_t length = run->range.t1 - run->range.t0, at = t_ns > run->range.t0 ? t_ns - run->range.t0 : 0;

        return at >= length ? run->n_blocks - 1 : (unsigned) ((double) at / (double) length * run->n_blocks);
}

int infp_compare_value_add(struct infp_compare_values *values, double value, unsigned block)
{
        if (!isfinite(value))
                return 0;
        if (!INFP_MAKE_ROOM(values->list, values->n, values->cap, 256))
                return -ENOMEM;
        values->list[values->n++] = (struct infp_compare_value){ value, block };
        return 0;
}

struct infp_compare_series infp_compare_ratio(const struct infp_compare_run *run, const double *sum,
                                              const double *weight)
{
        struct infp_compare_series ret = { .kind = INFP_COMPARE_RATIO };

        for (unsigned i = 0; i < run->n_blocks; i++)
                if (weight[i] > 0) {
                        ret.sum[ret.n] = sum[i];
                        ret.weight[ret.n++] = weight[i];
                }
        return ret;
}

struct infp_compare_series infp_compare_mean(const struct infp_compare_run *run,
                                             const struct infp_compare_values *values)
{
        double sum[INFP_COMPARE_BLOCKS] = { 0 }, weight[INFP_COMPARE_BLOCKS] = { 0 };

        for (size_t i = 0; i < values->n; i++) {
                sum[values->list[i].block] += values->list[i].value;
                weight[values->list[i].block]++;
        }
        return infp_compare_ratio(run, sum, weight);
}

int infp_compare_item_add(struct infp_compare_run *run, const struct infp_compare_item *item)
{
        const char *name = infp_strings_keep(&run->strings, item->name);

        if (!name || !INFP_MAKE_ROOM(run->items, run->n, run->cap, 64))
                return -ENOMEM;
        run->items[run->n] = *item;
        run->items[run->n++].name = name;
        return 0;
}

static int no_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "no memory for the comparison");
}

static int add_number(struct infp_compare_reading *reading, const struct infp_compare_number *number,
                      const struct infp_compare_series *series, struct infp_err *err)
{
        const struct infp_compare_item item = {
                .section = INFP_COMPARE_NUMBERS, .name = number->name, .number = number, .series = *series
        };

        return infp_compare_item_add(reading->ret, &item) < 0 ? no_memory(err) : 0;
}

/* Adds a metric of the time series. -ENOENT: the run has none of that name; 0 also where it has no value. */
static int add_track(struct infp_compare_reading *reading, const char *name, struct infp_compare_track *ret,
                     struct infp_err *err)
{
        const struct infp_figure_options options = { .range = &reading->ret->range,
                                                     .catalog = reading->options.catalog,
                                                     .mode = INFP_FIGURE_RATE,
                                                     .gap_ns = UINT64_MAX / 2 };
        infp_cleanup(infp_figure_done) struct infp_figure figure = { 0 };
        const int r = infp_figure_add(&figure, reading->run, name, &options, err);

        if (r < 0)
                return r == -ENODATA ? 0 : r;
        for (size_t i = 0; i < figure.list[0].n; i++) {
                const struct infp_figure_point *point = &figure.list[0].points[i];
                const unsigned block = infp_compare_block(reading->ret, point->t_ns);

                ret->sum[block] += point->value * point->weight;
                ret->weight[block] += point->weight;
                ret->has[block] = ret->has_any = true;
        }
        return 0;
}

/* Those of all GPUs; their seconds are those of one, so that the sum by second is the power of all. */
static int add_gpus(struct infp_compare_reading *reading, struct infp_compare_track *ret, struct infp_err *err)
{
        for (unsigned k = 0; infp_gpu_tables[k]; k++)
                for (unsigned i = 0; i < MOST_GPUS; i++) {
                        struct infp_compare_track one = { .has_any = false };
                        char name[64];
                        int r;

                        snprintf(name, sizeof(name), "%s%u_%s", infp_gpu_tables[k], i, infp_compare_gpu_joules);
                        r = add_track(reading, name, &one, err);
                        if (r == -ENOENT)
                                break;
                        INFP_TRY(r);
                        for (unsigned b = 0; b < INFP_COMPARE_BLOCKS; b++) {
                                ret->sum[b] += one.sum[b];
                                ret->weight[b] = fmax(ret->weight[b], one.weight[b]);
                                ret->has[b] |= one.has[b];
                        }
                        ret->has_any |= one.has_any;
                }
        return 0;
}

static int read_track(struct infp_compare_reading *reading, const char *column, struct infp_compare_track *ret,
                      struct infp_err *err)
{
        int r;

        *ret = (struct infp_compare_track){ .has_any = false };
        if (column == infp_compare_gpu_joules)
                return add_gpus(reading, ret, err);
        r = add_track(reading, column, ret, err);
        return r == -ENOENT ? 0 : r;
}

static struct infp_compare_series total_of(double value)
{
        return (struct infp_compare_series){ .kind = INFP_COMPARE_TOTAL, .sum = { value } };
}

/* What it did until its first sample counts where it began with the run. */
static int read_tree(struct infp_compare_reading *reading, double *ret_cpu_s, double *ret_rss, struct infp_err *err)
{
        const struct infp_table *tree = infp_catalog_find(reading->options.catalog, "tree");
        const bool from_zero =
                !strcmp(reading->run->info.mode, "run") && reading->ret->range.t0 == reading->ret->range.start;
        struct infp_report_metric *metrics = NULL;
        unsigned n = 0;
        int r;

        *ret_cpu_s = *ret_rss = NAN;
        if (!tree)
                return 0;
        r = infp_metrics_read(reading->run, tree, &reading->options, &metrics, &n, err);
        for (unsigned i = 0; r >= 0 && i < n; i++) {
                if (!strcmp(metrics[i].name, "tree_cpu_ns"))
                        *ret_cpu_s = infp_metric_increase(&metrics[i], from_zero);
                if (!strcmp(metrics[i].name, "tree_rss_bytes") && metrics[i].stat.n)
                        *ret_rss = metrics[i].stat.max * metrics[i].factor;
        }
        infp_metrics_done(metrics, n);
        return r;
}

static double sum_of(const struct infp_compare_track *track)
{
        double ret = 0;

        for (unsigned i = 0; i < INFP_COMPARE_BLOCKS; i++)
                ret += track->sum[i];
        return track->has_any ? ret : NAN;
}

static int add_wholes(struct infp_compare_reading *reading, struct infp_err *err)
{
        const struct infp_compare_run *ret = reading->ret;
        const bool ends_by_itself = !strcmp(reading->run->info.mode, "run") && !ret->is_part;
        struct infp_compare_track joules;
        double values[4];

        INFP_TRY(read_tree(reading, &values[INFP_WHOLE_CPU], &values[INFP_WHOLE_RSS], err));
        INFP_TRY(read_track(reading, "eMachineJoules", &joules, err));
        values[INFP_WHOLE_JOULES] = sum_of(&joules);
        values[INFP_WHOLE_WALL] = ends_by_itself ? ret->wall_s : NAN;
        for (unsigned i = 0; i < infp_compare_numbers_n; i++) {
                const struct infp_compare_number *number = &infp_compare_numbers[i];
                const struct infp_compare_series series = total_of(values[number->what]);

                if (number->from == INFP_NUMBER_OF_RUN && isfinite(values[number->what]))
                        INFP_TRY(add_number(reading, number, &series, err));
        }
        return 0;
}

/* Blocks in which both were measured. */
static struct infp_compare_series per_token(const struct infp_compare_track *track,
                                            const struct infp_compare_track *tokens)
{
        struct infp_compare_series ret = { .kind = INFP_COMPARE_RATIO };

        for (unsigned i = 0; i < INFP_COMPARE_BLOCKS; i++)
                if (track->has[i] && tokens->has[i]) {
                        ret.sum[ret.n] = track->sum[i];
                        ret.weight[ret.n++] = tokens->sum[i];
                }
        return ret;
}

static int add_series(struct infp_compare_reading *reading, const struct infp_compare_number *number,
                      struct infp_err *err)
{
        struct infp_compare_track track = reading->tokens;
        struct infp_compare_series series;
        char mean[128] = "";

        if (number->from == INFP_NUMBER_OF_MEAN) /* the time series has the mean under the name without _sum */
                snprintf(mean, sizeof(mean), "%.*s", (int) (strlen(number->column) - strlen("_sum")), number->column);
        if (number->column)
                INFP_TRY(read_track(reading, *mean ? mean : number->column, &track, err));
        series = number->from == INFP_NUMBER_PER_TOKEN ? per_token(&track, &reading->tokens)
                                                       : infp_compare_ratio(reading->ret, track.sum, track.weight);
        return isnan(infp_compare_value(&series, NULL)) ? 0 : add_number(reading, number, &series, err);
}

/* By second; NAN: not measured. */
static int read_rate(struct infp_compare_reading *reading, const char *column, double *ret, struct infp_err *err)
{
        struct infp_compare_track track;
        struct infp_compare_series series;

        INFP_TRY(read_track(reading, column, &track, err));
        series = infp_compare_ratio(reading->ret, track.sum, track.weight);
        *ret = infp_compare_value(&series, NULL);
        return 0;
}

/* Nice time and steal may be unknown; without the target's own time it is not known what is others'. */
static int read_others(struct infp_compare_reading *reading, struct infp_err *err)
{
        static const char *const columns[] = { "vCpuTime", "vCpuNice", "vCpuSteal", "tree_cpu_ns" };
        struct infp_compare_run *run = reading->ret;
        double rates[INFP_COUNT(columns)];

        for (unsigned i = 0; i < INFP_COUNT(columns); i++)
                INFP_TRY(read_rate(reading, columns[i], &rates[i], err));
        run->others =
                (rates[0] + fmax(rates[1], 0) + fmax(rates[2], 0) - rates[3]) / run->n_cpus; /* fmax(NAN, 0) is 0 */
        return 0;
}

static int read_numbers(struct infp_compare_reading *reading, struct infp_err *err)
{
        INFP_TRY(read_track(reading, "tokens_generation_total", &reading->tokens, err));
        if (!(sum_of(&reading->tokens) > 0)) /* llama.cpp and others may count only requests that have ended */
                reading->tokens = (struct infp_compare_track){ .has_any = false };
        INFP_TRY(infp_compare_requests(reading, err));
        reading->ret->has_tokens = sum_of(&reading->tokens) > 0;
        INFP_TRY(add_wholes(reading, err));
        for (unsigned i = 0; i < infp_compare_numbers_n; i++)
                switch (infp_compare_numbers[i].from) {
                case INFP_NUMBER_PER_TOKEN:
                case INFP_NUMBER_OF_SERIES:
                case INFP_NUMBER_OF_MEAN:
                case INFP_NUMBER_OF_TOKENS:
                        INFP_TRY(add_series(reading, &infp_compare_numbers[i], err));
                        break;
                case INFP_NUMBER_OF_RUN:
                case INFP_NUMBER_OF_REQUEST:
                case INFP_NUMBER_OF_STEP:
                        break; /* read by others */
                }
        return 0;
}

/* As many blocks as intervals between samples, at most so many. */
static unsigned blocks_of(const struct infp_run *run, const struct infp_range *range)
{
        const uint64_t period = (uint64_t) run->info.period_ms * 1000000,
                       n = period ? (range->t1 - range->t0) / period : INFP_COMPARE_BLOCKS;

        return n < 1 ? 1 : n > INFP_COMPARE_BLOCKS ? INFP_COMPARE_BLOCKS : (unsigned) n;
}

static int read_all(struct infp_compare_reading *reading, struct infp_err *err)
{
        infp_cleanup(infp_catalog_done) struct infp_catalog catalog = { 0 };

        INFP_TRY(infp_catalog_read(reading->run, &catalog, err));
        reading->options = (struct infp_scan_options){ .t0 = reading->ret->range.t0,
                                                       .t1 = reading->ret->range.t1,
                                                       .catalog = &catalog };
        INFP_TRY(infp_compare_facts(reading, err));
        INFP_TRY(read_others(reading, err));
        INFP_TRY(read_numbers(reading, err));
        INFP_TRY(infp_compare_torch(reading, err));
        return infp_compare_functions(reading, err);
}

int infp_compare_read(struct infp_run *run, const struct infp_compare_part *part, struct infp_compare_run **ret,
                      struct infp_err *err)
{
        struct infp_compare_reading reading = { .run = run, .mode = part->mode, .ret = calloc(1, sizeof(**ret)) };
        struct infp_compare_run *all = reading.ret;
        int r;

        if (!all)
                return no_memory(err);
        all->run = run;
        all->is_part = part->from || part->to;
        r = infp_range_find(run, part->from, part->to, 0, &all->range, err);
        if (r >= 0) {
                all->wall_s = (double) (all->range.t1 - all->range.t0) / 1e9;
                all->n_blocks = blocks_of(run, &all->range);
                r = read_all(&reading, err);
        }
        if (r < 0)
                return infp_compare_run_free(all), r;
        *ret = all;
        return 0;
}
