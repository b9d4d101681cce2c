/* Buckets: puts samples of any rate on one grid. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyze/timeline/parts.h"

int infp_grid_bucket(const struct infp_grid *grid, uint64_t t_ns)
{
        if (t_ns < grid->t0 || (t_ns - grid->t0) / grid->step_ns >= grid->n)
                return -1;
        return (int) ((t_ns - grid->t0) / grid->step_ns);
}

void infp_bucket_add(struct infp_bucket_stat *bucket, double value, double weight)
{
        bucket->min = bucket->weight > 0 ? fmin(bucket->min, value) : value;
        bucket->max = bucket->weight > 0 ? fmax(bucket->max, value) : value;
        bucket->sum += value * weight;
        bucket->weight += weight;
}

void infp_buckets_hold(const struct infp_grid *grid, struct infp_bucket_stat *buckets, uint64_t from, uint64_t to,
                       double value)
{
        for (int at; from < to && (at = infp_grid_bucket(grid, from)) >= 0;) {
                const uint64_t edge = grid->t0 + (uint64_t) (at + 1) * grid->step_ns, end = edge < to ? edge : to;

                infp_bucket_add(&buckets[at], value, (double) (end - from) / 1e9);
                from = end;
        }
}

double infp_buckets_mean(const struct infp_bucket_stat *buckets, unsigned n)
{
        double sum = 0, weight = 0;

        for (unsigned i = 0; buckets && i < n; i++) {
                sum += buckets[i].sum;
                weight += buckets[i].weight;
        }
        return weight > 0 ? sum / weight : NAN;
}

static int have_buckets(struct infp_track *track, const struct infp_grid *grid)
{
        if (!track->buckets)
                track->buckets = calloc(grid->n, sizeof(*track->buckets));
        return track->buckets ? 0 : -ENOMEM;
}

int infp_track_level(struct infp_track *track, const struct infp_grid *grid, uint64_t t_ns, double value,
                     uint64_t gap_ns)
{
        const int at = infp_grid_bucket(grid, t_ns);

        INFP_TRY(have_buckets(track, grid));
        if (track->has_last && t_ns >= track->last_t_ns && t_ns - track->last_t_ns <= gap_ns) {
                const int before = infp_grid_bucket(grid, track->last_t_ns);

                for (int i = before + 1; before >= 0 && i < at; i++)
                        infp_bucket_add(&track->buckets[i], track->last, 1);
        }
        if (at >= 0)
                infp_bucket_add(&track->buckets[at], value, 1);
        track->has_last = true;
        track->last = value;
        track->last_t_ns = t_ns;
        return 0;
}

int infp_track_between(struct infp_track *track, const struct infp_grid *grid, uint64_t from, uint64_t t_ns,
                       double value, double weight)
{
        const int at = infp_grid_bucket(grid, t_ns), before = infp_grid_bucket(grid, from);

        INFP_TRY(have_buckets(track, grid));
        /* Fills buckets without a reading, for a source slower than the grid. */
        for (int i = before + 1; before >= 0 && i < at; i++)
                infp_bucket_add(&track->buckets[i], value, weight);
        if (at >= 0)
                infp_bucket_add(&track->buckets[at], value, weight);
        return 0;
}

static void coarsen(struct infp_bucket_stat *buckets, unsigned n, unsigned k)
{
        for (unsigned i = 0; i < n; i++) {
                struct infp_bucket_stat *to = &buckets[i / k];
                const struct infp_bucket_stat from = buckets[i];

                if (i % k == 0) {
                        *to = from;
                } else if (from.weight > 0) {
                        to->min = to->weight > 0 ? fmin(to->min, from.min) : from.min;
                        to->max = to->weight > 0 ? fmax(to->max, from.max) : from.max;
                        to->sum += from.sum;
                        to->weight += from.weight;
                }
        }
}

void infp_timeline_coarsen(struct infp_timeline *timeline, unsigned k)
{
        if (k < 2)
                return;
        for (unsigned i = 0; i < timeline->n_panels; i++)
                for (unsigned j = 0; j < timeline->panels[i].n_series; j++)
                        coarsen(timeline->panels[i].series[j].buckets, timeline->grid.n, k);
        timeline->grid.n = (timeline->grid.n + k - 1) / k;
        timeline->grid.step_ns *= k;
        timeline->is_downsampled = true;
}
