#include "analyze/lag.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"

#define NEAR_NS 1000 /* rows of one callback follow each other; weights are in seconds */

static uint64_t distance(uint64_t a, uint64_t b)
{
        return a > b ? a - b : b - a;
}

/* Rows of one callback follow each other without a gap; between two callbacks a look at least is missing. */
static int take(const struct infp_profile *profile, const struct infp_profile_time *time,
                struct infp_lag_thread *thread)
{
        if (!thread->n || distance(thread->end_ns, time->t_ns) > NEAR_NS) {
                thread->n++;
                thread->current_s = 0;
        }
        thread->current_s += time->weight;
        thread->longest_s = thread->current_s > thread->longest_s ? thread->current_s : thread->longest_s;
        thread->seconds += time->weight;
        thread->end_ns = time->t_ns + (uint64_t) (time->weight * 1e9 + 0.5);
        return infp_profile_places_add(&thread->places, profile, profile->sums[time->sum].node, time->weight);
}

static int by_seconds(const void *a, const void *b)
{
        const struct infp_lag_thread *x = a, *y = b;

        return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

/* at: the place in the list of each of the profile's threads, and 1 more. */
static int take_all(const struct infp_profile *profile, uint32_t *at, struct infp_lag_report *ret)
{
        for (uint32_t i = 0; i < profile->n_times; i++) {
                const struct infp_profile_time *time = &profile->times[i];
                const uint32_t thread = profile->sums[time->sum].thread;
                const struct infp_profile_thread *is = &profile->threads[thread];

                if (!at[thread]) {
                        if (!INFP_MAKE_ROOM(ret->list, ret->n, ret->cap, 8))
                                return -ENOMEM;
                        ret->list[ret->n] = (struct infp_lag_thread){ .name = is->name,
                                                                      .tid = is->tid,
                                                                      .process = profile->processes[is->process].name,
                                                                      .pid = profile->processes[is->process].pid };
                        at[thread] = ++ret->n;
                }
                INFP_TRY(take(profile, time, &ret->list[at[thread] - 1]));
        }
        for (uint32_t i = 0; i < ret->n; i++)
                infp_profile_places_sort(&ret->list[i].places);
        infp_sort(ret->list, ret->n, sizeof(*ret->list), by_seconds);
        return 0;
}

int infp_lag_read(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_lag_report *ret, struct infp_err *err)
{
        infp_cleanup(infp_profile_done) struct infp_profile profile = { 0 };
        const struct infp_profile_options options = {
                .t0 = t0, .t1 = t1, .mode = infp_stack_modes[INFP_STACK_LAG].name, .keeps_times = true
        };
        infp_autofree uint32_t *at = NULL;
        int r;

        *ret = (struct infp_lag_report){ 0 };
        INFP_TRY(infp_profile_read(run, &options, &profile, err));
        at = calloc((size_t) profile.n_threads + 1, sizeof(*at));
        r = at ? take_all(&profile, at, ret) : -ENOMEM;
        ret->strings = profile.strings;
        profile.strings = (struct infp_strings){ 0 };
        if (r < 0)
                infp_lag_done(ret);
        return r < 0 ? infp_fail(err, r, "no memory for callbacks that held an event loop") : 0;
}

void infp_lag_done(struct infp_lag_report *lag)
{
        for (uint32_t i = 0; i < lag->n; i++)
                infp_profile_places_done(&lag->list[i].places);
        free(lag->list);
        infp_strings_done(&lag->strings);
        *lag = (struct infp_lag_report){ 0 };
}
