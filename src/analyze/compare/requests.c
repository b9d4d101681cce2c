/* Requests of a run for a comparison: their times one by one, the gaps between pieces as histograms by block. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyze/compare/parts.h"
#include "analyze/requests.h"
#include "base/mem.h"

struct gathering {
        struct infp_compare_run *run;
        double tokens[INFP_COMPARE_BLOCKS]; /* by the block in which their request ended */
        double gaps_s[INFP_COMPARE_BLOCKS];
        bool has_tokens, failed;
};

static void take(void *context, const struct infp_request_times *one)
{
        struct gathering *g = context;
        struct infp_compare_run *run = g->run;
        const unsigned block = infp_compare_block(run, one->t_ns);
        const double times[] = {
                [INFP_REQUEST_TTFT] = one->ttft_s, [INFP_REQUEST_TPOT] = one->tpot_s, [INFP_REQUEST_E2E] = one->e2e_s
        };

        for (unsigned i = 0; i < INFP_COUNT(times); i++)
                g->failed |= infp_compare_value_add(&run->requests[i], times[i], block) < 0;
        if (one->gaps_size && infp_log_take(&run->gaps[block], one->gaps, one->gaps_size) >= 0 && isfinite(one->gaps_s))
                g->gaps_s[block] += one->gaps_s;
        if (one->output_tokens >= 0 && isfinite(one->e2e_s)) {
                g->tokens[infp_compare_block(run, one->t_ns + (uint64_t) (one->e2e_s * 1e9))] +=
                        (double) one->output_tokens;
                g->has_tokens = true;
        }
}

/* Of the time from the first arrival to the last end. */
static void set_tokens(struct infp_compare_reading *reading, const struct gathering *g,
                       const struct infp_requests *requests)
{
        const struct infp_range *range = &reading->ret->range;
        const double length = (double) (range->t1 - range->t0) / 1e9 / reading->ret->n_blocks;

        for (unsigned i = 0; i < reading->ret->n_blocks; i++) {
                const double begin = (double) range->t0 / 1e9 + i * length;
                const double from = fmax(begin, (double) requests->first_t_ns / 1e9),
                             to = fmin(begin + length, (double) requests->last_t_ns / 1e9);

                reading->tokens.sum[i] = g->tokens[i];
                reading->tokens.weight[i] = fmax(to - from, 0);
                reading->tokens.has[i] = to > from;
        }
        reading->tokens.has_any = true;
}

static struct infp_compare_series gaps_mean(const struct gathering *g)
{
        double n[INFP_COMPARE_BLOCKS] = { 0 };

        for (unsigned i = 0; i < g->run->n_blocks; i++)
                n[i] = (double) g->run->gaps[i].n;
        return infp_compare_ratio(g->run, g->gaps_s, n);
}

static struct infp_compare_series series_of(const struct gathering *g, const struct infp_compare_number *number)
{
        const struct infp_compare_run *run = g->run;
        const bool is_itl = number->what == INFP_REQUEST_ITL;

        if (number->q == 0)
                return is_itl ? gaps_mean(g) : infp_compare_mean(run, &run->requests[number->what]);
        return (struct infp_compare_series){ .kind = is_itl ? INFP_COMPARE_HISTOGRAM : INFP_COMPARE_QUANTILE,
                                             .n = run->n_blocks,
                                             .q = number->q,
                                             .values = &run->requests[number->what],
                                             .histograms = run->gaps };
}

static int add_items(const struct gathering *g)
{
        for (unsigned i = 0; i < infp_compare_numbers_n; i++) {
                const struct infp_compare_number *number = &infp_compare_numbers[i];
                struct infp_compare_item item = { .section = INFP_COMPARE_NUMBERS,
                                                  .name = number->name,
                                                  .number = number };

                if (number->from != INFP_NUMBER_OF_REQUEST)
                        continue;
                item.series = series_of(g, number);
                if (!isnan(infp_compare_value(&item.series, NULL)))
                        INFP_TRY(infp_compare_item_add(g->run, &item));
        }
        return 0;
}

int infp_compare_requests(struct infp_compare_reading *reading, struct infp_err *err)
{
        struct infp_compare_run *run = reading->ret;
        struct gathering g = { .run = run };
        infp_autofree struct infp_requests *requests = calloc(1, sizeof(*requests)); /* large */
        int r;

        run->gaps = calloc(INFP_COMPARE_BLOCKS, sizeof(*run->gaps));
        if (!requests || !run->gaps)
                return infp_fail(err, -ENOMEM, "no memory for the requests");
        requests->each = take;
        requests->each_context = &g;
        r = infp_requests_read(reading->run, &reading->options, requests, err);
        if (r >= 0 && g.has_tokens && !reading->tokens.has_any)
                set_tokens(reading, &g, requests);
        infp_requests_done(requests);
        if (r == -ENOENT)
                return 0;
        INFP_TRY(r);
        for (unsigned i = 0; i < INFP_REQUEST_KINDS; i++)
                infp_compare_values_settle(&run->requests[i]);
        return g.failed || add_items(&g) < 0 ? infp_fail(err, -ENOMEM, "no memory for the requests") : 0;
}
