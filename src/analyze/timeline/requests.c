/* Requests for a scatter plot: all of them, or from each slice of time the first one, the slowest by TTFT and by end-to-end
 * time, and a failed one. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"
#include "base/sort.h"

enum { FIRST, SLOWEST_FIRST, SLOWEST_END, FAILED, KINDS, SLICES = INFP_TIMELINE_REQUESTS / KINDS, MOST_NAMES = 64 };

static const char *const columns[] = { "load", "ok", "failure", "first_token_ns", "end_ns", "output_tokens", NULL };
enum { LOAD, OK, FAILURE, FIRST_NS, END_NS, TOKENS };

struct gathering {
        struct infp_timeline *timeline;
        uint64_t t0, t1, n;
        struct infp_timeline_request *slices; /* SLICES x KINDS, t_ns 0: none; NULL as long as all fit */
};

static void gathering_done(struct gathering *g)
{
        free(g->slices);
}

/* The number of a name; the last number stands for all names beyond the bound. */
static int name_number(char ***names, unsigned *n, const char *text, size_t size, unsigned *ret)
{
        char **more;

        for (*ret = 0; *ret < *n; ++*ret)
                if (strlen((*names)[*ret]) == size && !memcmp((*names)[*ret], text, size))
                        return 0;
        if (*n == MOST_NAMES) {
                *ret = MOST_NAMES - 1;
                return 0;
        }
        more = reallocarray(*names, *n + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        *names = more;
        more[*n] = *n + 1 == MOST_NAMES ? strdup("others") : strndup(text, size);
        return more[*n] ? (void) ++*n, 0 : -ENOMEM;
}

static int read_request(struct infp_timeline *timeline, const struct infp_batch *batch, const int *at, uint32_t row,
                        struct infp_timeline_request *ret)
{
        size_t size;
        const char *failure, *load;

        *ret = (struct infp_timeline_request){
                .t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                .ttft_s = infp_cell_number(batch, at[FIRST_NS], row) * 1e-9,
                .e2e_s = infp_cell_number(batch, at[END_NS], row) * 1e-9,
                .tokens = infp_cell_number(batch, at[TOKENS], row),
                .ok = infp_cell_bool(batch, at[OK], row),
        };
        load = infp_cell_str(batch, at[LOAD], row, &size);
        INFP_TRY(name_number(&timeline->loads, &timeline->n_loads, load, size, &ret->load));
        failure = infp_cell_str(batch, at[FAILURE], row, &size);
        if (!ret->ok && infp_cell_is(batch, at[FAILURE], row, "cut off"))
                ret->ok = -1;
        return name_number(&timeline->failures, &timeline->n_failures, failure, size, &ret->failure);
}

static void keep(struct gathering *g, const struct infp_timeline_request *request)
{
        const uint64_t slice = (request->t_ns - g->t0) / ((g->t1 - g->t0) / SLICES + 1);
        struct infp_timeline_request *of = g->slices + slice * KINDS;

        if (!of[FIRST].t_ns)
                of[FIRST] = *request;
        if (isfinite(request->ttft_s) && (!of[SLOWEST_FIRST].t_ns || request->ttft_s > of[SLOWEST_FIRST].ttft_s))
                of[SLOWEST_FIRST] = *request;
        if (isfinite(request->e2e_s) && (!of[SLOWEST_END].t_ns || request->e2e_s > of[SLOWEST_END].e2e_s))
                of[SLOWEST_END] = *request;
        if (request->ok != 1 && !of[FAILED].t_ns)
                of[FAILED] = *request;
}

static int add(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct gathering *g = context;
        struct infp_timeline *timeline = g->timeline;
        struct infp_timeline_request request;

        INFP_TRY(read_request(timeline, batch, at, row, &request));
        g->n++;
        if (!g->slices && timeline->n_requests < INFP_TIMELINE_REQUESTS) {
                timeline->requests[timeline->n_requests++] = request;
                return 0;
        }
        if (!g->slices) {
                g->slices = calloc((size_t) SLICES * KINDS, sizeof(*g->slices));
                if (!g->slices)
                        return -ENOMEM;
                for (unsigned i = 0; i < timeline->n_requests; i++)
                        keep(g, &timeline->requests[i]);
        }
        keep(g, &request);
        return 0;
}

static int by_arrival(const void *a, const void *b)
{
        const struct infp_timeline_request *x = a, *y = b;

        return (x->t_ns > y->t_ns) - (x->t_ns < y->t_ns);
}

static bool is_same(const struct infp_timeline_request *a, const struct infp_timeline_request *b)
{
        return a->t_ns == b->t_ns && a->load == b->load && a->ok == b->ok &&
               (a->e2e_s == b->e2e_s || (isnan(a->e2e_s) && isnan(b->e2e_s)));
}

static void conclude(struct gathering *g)
{
        struct infp_timeline *timeline = g->timeline;

        if (g->slices) {
                timeline->n_requests = 0;
                for (unsigned slice = 0; slice < SLICES; slice++)
                        for (unsigned i = 0; i < KINDS; i++) {
                                const struct infp_timeline_request *of = g->slices + slice * KINDS;
                                bool is_new = of[i].t_ns > 0;

                                for (unsigned k = 0; k < i; k++)
                                        is_new &= !is_same(&of[k], &of[i]);
                                if (is_new)
                                        timeline->requests[timeline->n_requests++] = of[i];
                        }
        }
        infp_sort(timeline->requests, timeline->n_requests, sizeof(*timeline->requests), by_arrival);
        timeline->requests_left_out = g->n - timeline->n_requests;
}

int infp_timeline_requests(struct infp_timeline_reading *reading, struct infp_err *err)
{
        struct infp_timeline *timeline = reading->timeline;
        infp_cleanup(gathering_done) struct gathering g = { timeline, reading->scan->t0, reading->scan->t1, 0, NULL };

        reading->table = "requests";
        timeline->requests = calloc(INFP_TIMELINE_REQUESTS, sizeof(*timeline->requests));
        if (!timeline->requests)
                return -ENOMEM;
        INFP_TRY(infp_scan_rows(reading->run, "requests", columns, reading->scan, add, &g, err));
        conclude(&g);
        return 0;
}
