#include "query/engine_window.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"

enum window_part { WINDOW_OTHER, WINDOW_BUCKET, WINDOW_SUM, WINDOW_COUNT };

struct window_series {
        enum window_part part;
        uint32_t engine, group; /* numbers; OTHER has no group */
        double le;
};

/* One histogram: the series of an engine that differ only in their edge. */
struct window_group {
        uint32_t engine;
        char *metric, *family;
        struct window_edge {
                double le, now, total; /* now: NAN when it is not on the page; total: within the window */
        } * edges;                     /* by le */
        size_t n_edges;
        struct infp_bucket *before; /* settled; room for n_edges */
        size_t n_before;
        double sum, count, before_sum, before_count, total_sum, total_count; /* NAN: not known */
        bool is_seen;                                                        /* before_ holds a page */
        bool is_pending;                                                     /* values of the page at t_ns were read */
        uint64_t t_ns;
};

struct window {
        uint64_t t0;
        struct window_engine {
                uint64_t id, first_t_ns; /* of its first page; 0: none yet */
        } * engines;
        struct window_series *series;
        struct window_group *groups;
        uint32_t n_engines, n_series, n_groups;
        struct infp_map series_of, group_of; /* id, hash -> number */
        const struct window_group **order;   /* groups of one metric and family side by side */
        struct infp_bucket *after;           /* scratch: twice the edges of the largest group */
        size_t max_edges;
};

/* Groups of one metric and family lie side by side. */
static int compare(const struct window_group *x, const struct window_group *y)
{
        int order = (x->engine > y->engine) - (x->engine < y->engine);

        if (!order)
                order = strcmp(x->metric, y->metric);
        return order ? order : strcmp(x->family, y->family);
}

static int by_metric(const void *a, const void *b)
{
        return compare(*(const struct window_group *const *) a, *(const struct window_group *const *) b);
}

/* When all series are known: scratch memory, and the order of the groups. -ENOMEM. */
static int ready(struct window *w)
{
        for (uint32_t i = 0; i < w->n_groups; i++) {
                struct window_group *g = &w->groups[i];

                w->max_edges = g->n_edges > w->max_edges ? g->n_edges : w->max_edges;
                g->before = calloc(g->n_edges + 1, sizeof(*g->before));
                if (!g->before)
                        return -ENOMEM;
        }
        w->order = calloc((size_t) w->n_groups + 1, sizeof(*w->order));
        w->after = calloc(2 * w->max_edges + 1, sizeof(*w->after));
        if (!w->order || !w->after)
                return -ENOMEM;
        for (uint32_t i = 0; i < w->n_groups; i++)
                w->order[i] = &w->groups[i];
        infp_sort(w->order, w->n_groups, sizeof(*w->order), by_metric);
        return 0;
}

/* Adds the increase from `before` to `now`; is_new: all of `now`. counts: the page is in the window. What no page has reported
 * stays unknown; once reported it starts at 0. */
static void add_increase(double *total, double now, double before, bool is_new, bool counts)
{
        if (isnan(now))
                return;
        if (isnan(*total))
                *total = 0;
        if (counts)
                *total += is_new || isnan(before) ? now : now - before;
}

static void add_buckets(struct window *w, struct window_group *g, const struct infp_bucket *after, size_t n,
                        bool is_new)
{
        struct infp_bucket *more = w->after + w->max_edges;
        size_t from = 0;

        infp_buckets_between(g->before, is_new ? 0 : g->n_before, after, n, more);
        for (size_t i = 0; i < g->n_edges; i++)
                g->edges[i].total += infp_buckets_at(more, n, g->edges[i].le, &from);
}

/* The page is complete: adds what came since the previous page. */
static void flush(struct window *w, struct window_group *g)
{
        struct infp_bucket *after = w->after;
        bool is_first = !g->is_seen && g->t_ns == w->engines[g->engine].first_t_ns, is_new, counts;
        size_t n = 0;

        g->is_pending = false;
        for (size_t i = 0; i < g->n_edges; i++)
                if (!isnan(g->edges[i].now))
                        after[n++] = (struct infp_bucket){ g->edges[i].le, g->edges[i].now };
        if (n == 0 && isnan(g->count) && isnan(g->sum))
                return;
        n = infp_buckets_settle(after, n);
        is_new = !g->is_seen || infp_buckets_fell(g->before, g->n_before, after, n) || g->count < g->before_count;
        counts = !is_first && g->t_ns >= w->t0;
        if (counts)
                add_buckets(w, g, after, n, is_new);
        add_increase(&g->total_sum, g->sum, g->before_sum, is_new, counts);
        add_increase(&g->total_count, g->count, g->before_count, is_new, counts);
        memcpy(g->before, after, n * sizeof(*after));
        g->n_before = n;
        if (!isnan(g->sum))
                g->before_sum = g->sum;
        if (!isnan(g->count))
                g->before_count = g->count;
        g->is_seen = true;
}

static struct window_edge *find_edge(struct window_group *g, double le)
{
        size_t low = 0, high = g->n_edges;

        while (low + 1 < high) {
                size_t middle = low + (high - low) / 2;

                if (g->edges[middle].le <= le)
                        low = middle;
                else
                        high = middle;
        }
        return &g->edges[low];
}

static void take(struct window *w, const struct window_series *series, uint64_t t_ns, double value)
{
        struct window_engine *engine = &w->engines[series->engine];
        struct window_group *g;

        if (!engine->first_t_ns)
                engine->first_t_ns = t_ns;
        if (series->part == WINDOW_OTHER)
                return;
        g = &w->groups[series->group];
        if (g->is_pending && g->t_ns != t_ns)
                flush(w, g);
        g->is_pending = true;
        g->t_ns = t_ns;
        if (series->part == WINDOW_BUCKET)
                find_edge(g, series->le)->now = value;
        else if (series->part == WINDOW_SUM)
                g->sum = value;
        else
                g->count = value;
}

/* Observations of a group in the window. */
static double observations(const struct window_group *g)
{
        if (!isnan(g->total_count))
                return g->total_count;
        return g->n_edges ? g->edges[g->n_edges - 1].total : NAN;
}

/* Keeps the edges of `m` that the group has as well, and adds its counts there. */
static void add_up(struct infp_window_metric *m, const struct window_group *g)
{
        size_t n = 0;

        for (size_t i = 0, k = 0; i < m->n_buckets; i++) {
                while (k < g->n_edges && g->edges[k].le < m->buckets[i].le)
                        k++;
                if (k < g->n_edges && g->edges[k].le == m->buckets[i].le)
                        m->buckets[n++] =
                                (struct infp_bucket){ m->buckets[i].le, m->buckets[i].count + g->edges[k].total };
        }
        m->n_buckets = n;
        m->count += observations(g);
        m->sum += g->total_sum;
}

/* Starts a metric with one group. */
static int begin_metric(const struct window *w, const struct window_group *g, struct infp_window_metric *ret)
{
        *ret = (struct infp_window_metric){
                .engine = w->engines[g->engine].id,
                .metric = strdup(g->metric),
                .family = strdup(g->family),
                .buckets = calloc(g->n_edges + 1, sizeof(*ret->buckets)),
                .n_buckets = g->n_edges,
                .count = observations(g),
                .sum = g->total_sum,
        };
        if (!ret->metric || !ret->family || !ret->buckets)
                return -ENOMEM;
        for (size_t i = 0; i < g->n_edges; i++)
                ret->buckets[i] = (struct infp_bucket){ g->edges[i].le, g->edges[i].total };
        return 0;
}

static bool is_same_metric(const struct infp_window_metric *a, const struct infp_window_metric *b)
{
        return a->engine == b->engine && strcmp(a->metric, b->metric) == 0;
}

/* Keeps the family with more observations where two stand for one metric. */
static void choose(struct infp_engine_window *ret)
{
        struct infp_window_metric *last = &ret->metrics[ret->n - 1], *before = last - 1, kept;

        if (ret->n < 2 || !is_same_metric(before, last))
                return;
        if (last->count > before->count || (isnan(before->count) && !isnan(last->count))) {
                kept = *before;
                *before = *last;
                *last = kept;
        }
        free(last->metric);
        free(last->family);
        free(last->buckets);
        ret->n--;
}

/* The last pages, then the result. -ENOMEM. */
static int end_window(struct window *w, struct infp_engine_window *ret)
{
        const struct window_group *last = NULL;

        for (uint32_t i = 0; i < w->n_groups; i++)
                if (w->groups[i].is_pending)
                        flush(w, &w->groups[i]);
        ret->metrics = calloc((size_t) w->n_groups + 1, sizeof(*ret->metrics));
        if (!ret->metrics)
                return -ENOMEM;
        for (uint32_t i = 0; i < w->n_groups; i++) {
                const struct window_group *g = w->order[i];

                if (!g->is_seen)
                        continue;
                if (last && compare(last, g) == 0) {
                        add_up(&ret->metrics[ret->n - 1], g);
                        last = g;
                        continue;
                }
                if (last)
                        choose(ret);
                INFP_TRY(begin_metric(w, g, &ret->metrics[ret->n++]));
                last = g;
        }
        if (last)
                choose(ret);
        return 0;
}

/* Begins the next window where the one before ended. */
static void begin_window(struct window *w)
{
        for (uint32_t i = 0; i < w->n_groups; i++) {
                struct window_group *g = &w->groups[i];

                /* 0, not unknown, for a known label set that may add nothing to this window. */
                g->total_sum = isnan(g->total_sum) ? NAN : 0;
                g->total_count = isnan(g->total_count) ? NAN : 0;
                for (size_t k = 0; k < g->n_edges; k++)
                        g->edges[k].total = 0;
        }
}

static int out_of_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "out of memory for the histograms of engines");
}

/* Columns of the tables with their types: a run may be another program's. */
enum { SERIES_ID, SERIES_ENGINE, SERIES_LABELS, SERIES_FAMILY, SERIES_PART, SERIES_LE, SERIES_METRIC, SERIES_N };
static const char *const series_columns[] = { "id", "engine", "labels", "family", "part", "le", "metric", NULL };
static const enum infp_type series_types[] = { INFP_ID64, INFP_ID64, INFP_STR, INFP_STR, INFP_STR, INFP_F64, INFP_STR };
enum { SAMPLE_SERIES, SAMPLE_VALUE, SAMPLE_N };
static const char *const sample_columns[] = { "series", "value", NULL };
static const enum infp_type sample_types[] = { INFP_ID64, INFP_F64 };

/* Opens a scan of these columns. 0: the run has no such table, or one without them; 1. */
static int open_scan(struct infp_run *run, const char *table, const char *const *columns, const enum infp_type *types,
                     const struct infp_scan_options *range, struct infp_scan **ret, int *ret_columns,
                     struct infp_err *err)
{
        struct infp_scan_options options = *range;
        const struct infp_table *found;
        int r;

        options.columns = columns;
        r = infp_scan_open(run, table, &options, ret, err);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        found = infp_scan_table(*ret);
        for (unsigned i = 0; columns[i]; i++) {
                ret_columns[i] = infp_table_find(found, columns[i]);
                if (found->plain || ret_columns[i] < 0 ||
                    infp_table_column(found, (unsigned) ret_columns[i])->type != types[i]) {
                        *ret = infp_scan_close(*ret);
                        return 0;
                }
        }
        return 1;
}

static bool text_is(const struct infp_batch *batch, int column, uint32_t row, const char *word)
{
        size_t size;
        const char *text = infp_batch_str(batch, (unsigned) column, row, &size);

        return size == strlen(word) && memcmp(text, word, size) == 0;
}

static enum window_part part_of(const struct infp_batch *batch, const int *c, uint32_t row)
{
        if (!infp_batch_has(batch, (unsigned) c[SERIES_METRIC], row))
                return WINDOW_OTHER;
        if (text_is(batch, c[SERIES_PART], row, "bucket"))
                return WINDOW_BUCKET;
        if (text_is(batch, c[SERIES_PART], row, "sum"))
                return WINDOW_SUM;
        return text_is(batch, c[SERIES_PART], row, "count") ? WINDOW_COUNT : WINDOW_OTHER;
}

static int page_of(struct window *w, uint64_t engine, uint32_t *ret)
{
        for (*ret = 0; *ret < w->n_engines; ++*ret)
                if (w->engines[*ret].id == engine)
                        return 0;
        if (!INFP_ONE_MORE(w->engines, w->n_engines))
                return -ENOMEM;
        w->engines[w->n_engines++] = (struct window_engine){ .id = engine };
        return 0;
}

static int group_of(struct window *w, const struct infp_batch *batch, const int *c, uint32_t row, uint32_t engine,
                    uint32_t *ret)
{
        size_t n_labels, n_family, n_metric;
        const char *labels = infp_batch_str(batch, (unsigned) c[SERIES_LABELS], row, &n_labels),
                   *family = infp_batch_str(batch, (unsigned) c[SERIES_FAMILY], row, &n_family),
                   *metric = infp_batch_str(batch, (unsigned) c[SERIES_METRIC], row, &n_metric);
        uint64_t key = infp_hash64(metric, n_metric,
                                   infp_hash64(labels, n_labels, infp_hash64(family, n_family, w->engines[engine].id)));
        const uint64_t *known = infp_map_get(&w->group_of, key);

        if (known) {
                *ret = (uint32_t) *known;
                return 0;
        }
        if (!INFP_ONE_MORE(w->groups, w->n_groups))
                return -ENOMEM;
        *ret = w->n_groups;
        w->groups[w->n_groups++] = (struct window_group){
                .engine = engine,
                .metric = strndup(metric, n_metric),
                .family = strndup(family, n_family),
                .sum = NAN,
                .count = NAN,
                .before_sum = NAN,
                .before_count = NAN,
                .total_sum = NAN,
                .total_count = NAN,
        };
        if (!w->groups[*ret].metric || !w->groups[*ret].family)
                return -ENOMEM;
        return infp_map_put(&w->group_of, key, *ret);
}

/* Finds or inserts the edge of a group, in order. */
static int add_edge(struct window_group *g, double le)
{
        size_t at = g->n_edges;

        while (at && g->edges[at - 1].le >= le)
                at--;
        if (at < g->n_edges && g->edges[at].le == le)
                return 0;
        if (!INFP_ONE_MORE(g->edges, g->n_edges))
                return -ENOMEM;
        memmove(g->edges + at + 1, g->edges + at, (g->n_edges - at) * sizeof(*g->edges));
        g->edges[at] = (struct window_edge){ .le = le, .now = NAN };
        g->n_edges++;
        return 0;
}

static int add_series(struct window *w, const struct infp_batch *batch, const int *c, uint32_t row)
{
        uint64_t id = infp_batch_u64(batch, (unsigned) c[SERIES_ID], row);
        struct window_series series = { .part = part_of(batch, c, row), .le = INFINITY };

        if (!id || infp_map_get(&w->series_of, id))
                return 0;
        INFP_TRY(page_of(w, infp_batch_u64(batch, (unsigned) c[SERIES_ENGINE], row), &series.engine));
        if (series.part != WINDOW_OTHER)
                INFP_TRY(group_of(w, batch, c, row, series.engine, &series.group));
        if (infp_batch_has(batch, (unsigned) c[SERIES_LE], row))
                series.le = infp_batch_f64(batch, (unsigned) c[SERIES_LE], row);
        if (series.part == WINDOW_BUCKET)
                INFP_TRY(add_edge(&w->groups[series.group], series.le));
        if (!INFP_ONE_MORE(w->series, w->n_series))
                return -ENOMEM;
        w->series[w->n_series] = series;
        return infp_map_put(&w->series_of, id, w->n_series++);
}

static int read_series(struct window *w, struct infp_run *run, const struct infp_catalog *catalog, struct infp_err *err)
{
        struct infp_scan *scan;
        struct infp_batch batch;
        int c[SERIES_N], r = open_scan(run, "series", series_columns, series_types,
                                       &(struct infp_scan_options){ .catalog = catalog }, &scan, c, err);

        if (r <= 0)
                return r;
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (add_series(w, &batch, c, row) < 0)
                                r = -ENOMEM;
        infp_scan_close(scan);
        return r == -ENOMEM ? out_of_memory(err) : r;
}

static void window_done(struct window *w)
{
        for (uint32_t i = 0; i < w->n_groups; i++) {
                free(w->groups[i].metric);
                free(w->groups[i].family);
                free(w->groups[i].edges);
                free(w->groups[i].before);
        }
        free(w->groups);
        free(w->series);
        free(w->engines);
        free(w->order);
        free(w->after);
        infp_map_done(&w->series_of);
        infp_map_done(&w->group_of);
}

/* How far the samples were read. */
struct infp_engine_windows {
        struct window w;
        struct infp_scan *scan; /* NULL: there is no more */
        struct infp_batch batch;
        uint32_t row; /* of the batch: the next */
        int c[SAMPLE_N];
        uint64_t step_ns; /* 0: all is one window */
        bool is_open;
        uint64_t t_ns, end_ns; /* of the open window */
        int64_t unix_ns;
};

static int open_windows(struct infp_engine_windows *s, struct infp_run *run, uint64_t t1,
                        const struct infp_catalog *catalog, struct infp_err *err)
{
        int r;

        INFP_TRY(read_series(&s->w, run, catalog, err));
        if (ready(&s->w) < 0)
                return out_of_memory(err);
        r = open_scan(run, "engine_samples", sample_columns, sample_types,
                      &(struct infp_scan_options){ .t1 = t1, .catalog = catalog }, &s->scan, s->c, err);
        return r < 0 ? r : 0;
}

static void windows_done(struct infp_engine_windows *s)
{
        infp_scan_close(s->scan);
        window_done(&s->w);
}

/* Makes sure that there is a row: 1; 0 at the end; a negative errno. */
static int need_row(struct infp_engine_windows *s, struct infp_err *err)
{
        int r = 1;

        while (s->scan && s->row >= s->batch.n_rows && r > 0) {
                s->row = 0;
                s->batch.n_rows = 0;
                r = infp_scan_next(s->scan, &s->batch, err);
        }
        if (r <= 0)
                s->scan = infp_scan_close(s->scan);
        return r < 0 ? r : s->scan != NULL;
}

/* False: the row is of a later window. */
static bool take_row(struct infp_engine_windows *s)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(&s->batch, 0, s->row),
                       *known = infp_map_get(&s->w.series_of,
                                             infp_batch_u64(&s->batch, (unsigned) s->c[SAMPLE_SERIES], s->row));
        const int64_t unix_ns = infp_batch_i64(&s->batch, 1, s->row);

        if (s->is_open && s->step_ns && t_ns >= s->end_ns)
                return false;
        if (!s->is_open) {
                const uint64_t since = s->step_ns ? (uint64_t) unix_ns % s->step_ns : 0;

                begin_window(&s->w);
                s->is_open = true;
                s->t_ns = t_ns > since ? t_ns - since : 0; /* it may start before the machine booted */
                s->end_ns = t_ns + (s->step_ns - since);
                s->unix_ns = unix_ns - (int64_t) since;
        }
        if (known)
                take(&s->w, &s->w.series[*known], t_ns,
                     infp_batch_f64(&s->batch, (unsigned) s->c[SAMPLE_VALUE], s->row));
        s->row++;
        return true;
}

static int read_window(struct infp_engine_windows *s, struct infp_engine_window *ret, struct infp_err *err)
{
        int r;

        *ret = (struct infp_engine_window){ 0 };
        while ((r = need_row(s, err)) > 0 && take_row(s))
                ;
        if (r < 0)
                return r;
        r = end_window(&s->w, ret);
        s->is_open = false;
        if (r == 0)
                return 0;
        infp_engine_window_done(ret);
        return out_of_memory(err);
}

double infp_window_observations(const struct infp_window_metric *metric)
{
        return metric->n_buckets ? metric->buckets[metric->n_buckets - 1].count : metric->count;
}

bool infp_window_quantile(const struct infp_window_metric *m, double q, struct infp_quantile *ret)
{
        if (!infp_quantile_of(m->buckets, m->n_buckets, q, ret))
                return false;
        if (m->count > 0 && fabs(m->count - infp_window_observations(m)) < 0.5)
                infp_quantile_within_mean(m->buckets, m->n_buckets, q, m->sum / m->count, ret);
        return true;
}

void infp_engine_window_done(struct infp_engine_window *window)
{
        for (unsigned i = 0; i < window->n; i++) {
                free(window->metrics[i].metric);
                free(window->metrics[i].family);
                free(window->metrics[i].buckets);
        }
        free(window->metrics);
        *window = (struct infp_engine_window){ 0 };
}

int infp_engine_window_read(struct infp_run *run, uint64_t t0, uint64_t t1, const struct infp_catalog *catalog,
                            struct infp_engine_window *ret, struct infp_err *err)
{
        infp_cleanup(windows_done) struct infp_engine_windows s = { .w.t0 = t0 };

        *ret = (struct infp_engine_window){ 0 };
        INFP_TRY(open_windows(&s, run, t1, catalog, err));
        return read_window(&s, ret, err);
}

int infp_engine_windows_open(struct infp_run *run, uint64_t step_ns, const struct infp_catalog *catalog,
                             struct infp_engine_windows **ret, struct infp_err *err)
{
        struct infp_engine_windows *s = calloc(1, sizeof(*s));
        int r;

        *ret = NULL;
        if (!s)
                return out_of_memory(err);
        s->step_ns = step_ns;
        r = open_windows(s, run, 0, catalog, err);
        if (r < 0)
                infp_engine_windows_close(s);
        else
                *ret = s;
        return r;
}

int infp_engine_windows_next(struct infp_engine_windows *windows, uint64_t *ret_t_ns, int64_t *ret_unix_ns,
                             struct infp_engine_window *ret, struct infp_err *err)
{
        int r = need_row(windows, err);

        if (r <= 0)
                return r;
        INFP_TRY(read_window(windows, ret, err));
        *ret_t_ns = windows->t_ns;
        *ret_unix_ns = windows->unix_ns;
        return 1;
}

struct infp_engine_windows *infp_engine_windows_close(struct infp_engine_windows *windows)
{
        if (windows)
                windows_done(windows);
        free(windows);
        return NULL;
}
