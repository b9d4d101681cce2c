#include "query/engine_window.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "query/engine_window_parts.h"

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
        if ((w->n_engines & (w->n_engines - 1)) == 0) {
                struct window_engine *more =
                        reallocarray(w->engines, w->n_engines ? 2 * (size_t) w->n_engines : 1, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                w->engines = more;
        }
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
        struct window_group *more;

        if (known) {
                *ret = (uint32_t) *known;
                return 0;
        }
        if ((w->n_groups & (w->n_groups - 1)) == 0) {
                more = reallocarray(w->groups, w->n_groups ? 2 * (size_t) w->n_groups : 1, sizeof(*more));
                if (!more)
                        return -ENOMEM;
                w->groups = more;
        }
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

/* The edge of a group, made at its place. */
static int add_edge(struct window_group *g, double le)
{
        size_t at = g->n_edges;

        while (at && g->edges[at - 1].le >= le)
                at--;
        if (at < g->n_edges && g->edges[at].le == le)
                return 0;
        if ((g->n_edges & (g->n_edges - 1)) == 0) {
                struct window_edge *more = reallocarray(g->edges, g->n_edges ? 2 * g->n_edges : 1, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                g->edges = more;
        }
        memmove(g->edges + at + 1, g->edges + at, (g->n_edges - at) * sizeof(*g->edges));
        g->edges[at] = (struct window_edge){ .le = le, .now = NAN };
        g->n_edges++;
        return 0;
}

static int add_series(struct window *w, const struct infp_batch *batch, const int *c, uint32_t row)
{
        uint64_t id = infp_batch_u64(batch, (unsigned) c[SERIES_ID], row);
        struct window_series series = { .part = part_of(batch, c, row), .le = INFINITY };
        struct window_series *more;

        if (!id || infp_map_get(&w->series_of, id))
                return 0;
        INFP_TRY(page_of(w, infp_batch_u64(batch, (unsigned) c[SERIES_ENGINE], row), &series.engine));
        if (series.part != WINDOW_OTHER)
                INFP_TRY(group_of(w, batch, c, row, series.engine, &series.group));
        if (infp_batch_has(batch, (unsigned) c[SERIES_LE], row))
                series.le = infp_batch_f64(batch, (unsigned) c[SERIES_LE], row);
        if (series.part == WINDOW_BUCKET)
                INFP_TRY(add_edge(&w->groups[series.group], series.le));
        if ((w->n_series & (w->n_series - 1)) == 0) {
                more = reallocarray(w->series, w->n_series ? 2 * (size_t) w->n_series : 1, sizeof(*more));
                if (!more)
                        return -ENOMEM;
                w->series = more;
        }
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
        free(w->after);
        infp_map_done(&w->series_of);
        infp_map_done(&w->group_of);
}

/* Samples as far as they are read. */
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
        if (infp_window_ready(&s->w) < 0)
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

/* Sees to it that there is a row: 1, 0 or a negative errno. */
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

                infp_window_again(&s->w);
                s->is_open = true;
                s->t_ns = t_ns > since ? t_ns - since : 0; /* it may begin before the machine did */
                s->end_ns = t_ns + (s->step_ns - since);
                s->unix_ns = unix_ns - (int64_t) since;
        }
        if (known)
                infp_window_take(&s->w, &s->w.series[*known], t_ns,
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
        r = infp_window_end(&s->w, ret);
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
