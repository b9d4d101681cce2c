/* Pages of histograms become increases, increases sums, and sums of label sets one histogram a metric. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "query/engine_window_parts.h"

int infp_window_ready(struct window *w)
{
        for (uint32_t i = 0; i < w->n_groups; i++) {
                struct window_group *g = &w->groups[i];

                w->max_edges = g->n_edges > w->max_edges ? g->n_edges : w->max_edges;
                g->before = calloc(g->n_edges + 1, sizeof(*g->before));
                if (!g->before)
                        return -ENOMEM;
        }
        w->after = calloc(2 * w->max_edges + 1, sizeof(*w->after));
        return w->after ? 0 : -ENOMEM;
}

/* Adds what `now` has more than `before`; is_new: all of it. counts: the page lies in the window. What no page has told stays
 * unknown; what one has is 0 until there is more. */
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

/* The page is complete: what came since the one before it. */
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

void infp_window_take(struct window *w, const struct window_series *series, uint64_t t_ns, double value)
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

/* Keeps of `m` the edges that the group has, too, and adds its counts there. */
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

/* A metric that begins with one group. */
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

static bool is_same_metric(const struct infp_window_metric *a, const struct infp_window_metric *b)
{
        return a->engine == b->engine && strcmp(a->metric, b->metric) == 0;
}

/* Of two families of one metric the one with more observations; the other is let go. */
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

int infp_window_end(struct window *w, struct infp_engine_window *ret)
{
        infp_autofree const struct window_group **order = calloc((size_t) w->n_groups + 1, sizeof(*order));
        const struct window_group *last = NULL;

        for (uint32_t i = 0; order && i < w->n_groups; i++) {
                if (w->groups[i].is_pending)
                        flush(w, &w->groups[i]);
                order[i] = &w->groups[i];
        }
        ret->metrics = calloc((size_t) w->n_groups + 1, sizeof(*ret->metrics));
        if (!ret->metrics || !order)
                return -ENOMEM;
        infp_sort(order, w->n_groups, sizeof(*order), by_metric);
        for (uint32_t i = 0; i < w->n_groups; i++) {
                const struct window_group *g = order[i];

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

void infp_window_again(struct window *w)
{
        for (uint32_t i = 0; i < w->n_groups; i++) {
                struct window_group *g = &w->groups[i];

                /* 0 of a label set that is known: it may add nothing to this window. */
                g->total_sum = isnan(g->total_sum) ? NAN : 0;
                g->total_count = isnan(g->total_count) ? NAN : 0;
                for (size_t k = 0; k < g->n_edges; k++)
                        g->edges[k].total = 0;
        }
}
