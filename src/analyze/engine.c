#include "analyze/engine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/mem.h"
#include "base/sort.h"

const char *const infp_engine_columns[] = {
        [INFP_ENGINE_FINISHED] = "requests_finished_total",
        [INFP_ENGINE_ABORTED] = "requests_aborted_total",
        [INFP_ENGINE_ERRORED] = "requests_errored_total",
        [INFP_ENGINE_PROMPT] = "tokens_prompt_total",
        [INFP_ENGINE_GENERATED] = "tokens_generation_total",
        [INFP_ENGINE_LIVE] = "tokens_generation_live_total",
        [INFP_ENGINE_PREEMPTIONS] = "system_preemptions_total",
        [INFP_ENGINE_PREFIX_HITS] = "cache_prefix_hits",
        [INFP_ENGINE_PREFIX_QUERIES] = "cache_prefix_queries",
        [INFP_ENGINE_SPEC_DRAFTED] = "spec_draft_tokens_total",
        [INFP_ENGINE_SPEC_ACCEPTED] = "spec_accepted_tokens_total",
        [INFP_ENGINE_COUNTERS + INFP_ENGINE_RUNNING] = "system_requests_running",
        [INFP_ENGINE_COUNTERS + INFP_ENGINE_WAITING] = "system_requests_waiting",
        [INFP_ENGINE_COUNTERS + INFP_ENGINE_KV] = "cache_kv_usage_percent",
        "engine",
        NULL,
};
enum { ROW_ENGINE = INFP_ENGINE_COUNTERS + INFP_ENGINE_GAUGES, ROW_N };

static const char *const about_columns[] = { "id", "number", "url", "make", "version", "model", "max_num_seqs", NULL };
enum { ABOUT_ID, ABOUT_NUMBER, ABOUT_URL, ABOUT_MAKE, ABOUT_VERSION, ABOUT_MODEL, ABOUT_MAX_SEQS };
static const char *const scrape_columns[] = { "engine", "ok", "reason", "engine_restarts", NULL };
enum { SCRAPE_ENGINE, SCRAPE_OK, SCRAPE_REASON, SCRAPE_RESTARTS, SCRAPE_N };

/* What is kept of an engine while its rows stream by. */
struct state {
        uint64_t row_t_ns, scrape_t_ns; /* of its last row; 0: none yet */
        double last[INFP_ENGINE_COUNTERS];
        double restarts;   /* NAN: not yet known */
        bool has_come;     /* it answered, perhaps before the range */
        uint64_t n_failed; /* in the range, since the last answer */
        double down_s;
};

struct reading {
        struct infp_report_engines *engines;
        struct state *states;
        uint64_t t0;
};

static void free_texts(const struct infp_report_engine *e)
{
        free(e->url);
        free(e->make);
        free(e->version);
        free(e->model);
        free(e->reason);
        free(e->reason_between);
}

void infp_engines_done(struct infp_report_engines *engines)
{
        for (unsigned i = 0; i < engines->n; i++)
                free_texts(&engines->list[i]);
        free(engines->list);
        infp_engine_window_done(&engines->window);
        *engines = (struct infp_report_engines){ 0 };
}

/* The place of the engine with this id, added if it is new. -ENOMEM. */
static int engine_of(struct reading *r, uint64_t id, unsigned *ret)
{
        struct infp_report_engines *engines = r->engines;
        struct infp_report_engine *more;
        struct state *states;

        for (*ret = 0; *ret < engines->n; ++*ret)
                if (engines->list[*ret].id == id)
                        return 0;
        more = reallocarray(engines->list, engines->n + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        engines->list = more;
        states = reallocarray(r->states, engines->n + 1, sizeof(*states));
        if (!states)
                return -ENOMEM;
        r->states = states;
        more[engines->n] = (struct infp_report_engine){ .id = id, .number = INT64_MAX, .max_seqs = NAN };
        states[engines->n] = (struct state){ .restarts = NAN };
        for (unsigned i = 0; i < INFP_ENGINE_COUNTERS; i++)
                more[engines->n].counters[i] = states[engines->n].last[i] = NAN;
        engines->n++;
        return 0;
}

static int take_about(struct reading *r, const struct infp_batch *batch, const int *c, uint32_t row)
{
        struct infp_report_engine *e;
        unsigned at;

        if (!infp_cell_has(batch, c[ABOUT_ID], row))
                return 0;
        INFP_TRY(engine_of(r, infp_batch_u64(batch, (unsigned) c[ABOUT_ID], row), &at));
        e = &r->engines->list[at];
        if (infp_cell_has(batch, c[ABOUT_NUMBER], row))
                e->number = (int64_t) infp_cell_number(batch, c[ABOUT_NUMBER], row);
        if (infp_cell_has(batch, c[ABOUT_MAX_SEQS], row))
                e->max_seqs = infp_cell_number(batch, c[ABOUT_MAX_SEQS], row);
        INFP_TRY(infp_cell_keep(&e->url, batch, c[ABOUT_URL], row));
        INFP_TRY(infp_cell_keep(&e->make, batch, c[ABOUT_MAKE], row));
        INFP_TRY(infp_cell_keep(&e->version, batch, c[ABOUT_VERSION], row));
        return infp_cell_keep(&e->model, batch, c[ABOUT_MODEL], row);
}

/* It answers: classifies the failures before. -ENOMEM. */
static int end_failures(struct infp_report_engine *e, struct state *state)
{
        if (state->n_failed && state->has_come) {
                e->n_failed_between += state->n_failed;
                e->down_between_s += state->down_s;
                free(e->reason_between);
                e->reason_between = e->reason ? strdup(e->reason) : NULL;
                if (e->reason && !e->reason_between)
                        return -ENOMEM;
        } else {
                e->n_failed_before += state->n_failed;
        }
        state->has_come = true;
        state->n_failed = 0;
        state->down_s = 0;
        return 0;
}

static void take_failure(struct infp_report_engine *e, struct state *state, uint64_t t_ns)
{
        const double s =
                state->scrape_t_ns && t_ns > state->scrape_t_ns ? (double) (t_ns - state->scrape_t_ns) / 1e9 : 0;

        e->n_failed++;
        e->down_s += s;
        state->n_failed++;
        state->down_s += s;
}

/* A scrape, answered or failed. */
static int take_scrape(struct reading *r, const struct infp_batch *batch, const int *c, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const bool ok = infp_cell_number(batch, c[SCRAPE_OK], row) == 1;
        const double restarts = infp_cell_number(batch, c[SCRAPE_RESTARTS], row);
        struct infp_report_engine *e;
        struct state *state;
        unsigned at;
        int ret = 0;

        if (c[SCRAPE_ENGINE] < 0)
                return 0;
        INFP_TRY(engine_of(r, infp_batch_u64(batch, (unsigned) c[SCRAPE_ENGINE], row), &at));
        e = &r->engines->list[at];
        state = &r->states[at];
        if (ok)
                ret = end_failures(e, state);
        if (t_ns >= r->t0) {
                e->n_ok += ok;
                if (!ok) {
                        take_failure(e, state, t_ns);
                        ret = infp_cell_keep(&e->reason, batch, c[SCRAPE_REASON], row);
                }
                if (!isnan(restarts) && !isnan(state->restarts))
                        e->n_restarts += (uint64_t) infp_increase_f64(INFP_RESET_ZERO, state->restarts, restarts, 0);
        }
        state->scrape_t_ns = t_ns;
        if (!isnan(restarts))
                state->restarts = restarts;
        return ret;
}

/* Adds the increase since the engine's previous row. has_past: there is one; counts: this row is in the range. */
static void take_counter(double *total, double *last, double now, bool has_past, bool counts)
{
        if (isnan(now))
                return;
        if (has_past && counts) {
                if (isnan(*total))
                        *total = 0;
                /* Earlier scrapes lack it: it started at 0. */
                *total += isnan(*last) ? now : infp_increase_f64(INFP_RESET_ZERO, *last, now, 0);
        }
        *last = now;
}

static bool has_fallen(const struct state *state, const struct infp_batch *batch, const int *c, uint32_t row)
{
        static const enum infp_engine_counter totals[] = { INFP_ENGINE_FINISHED, INFP_ENGINE_PROMPT,
                                                           INFP_ENGINE_GENERATED };

        for (unsigned i = 0; i < INFP_COUNT(totals); i++)
                if (infp_cell_number(batch, c[totals[i]], row) < state->last[totals[i]])
                        return true;
        return false;
}

static int take_row(struct reading *r, const struct infp_batch *batch, const int *c, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const bool is_inside = t_ns >= r->t0;
        const double generated = infp_cell_number(batch, c[INFP_ENGINE_GENERATED], row),
                     live = infp_cell_number(batch, c[INFP_ENGINE_LIVE], row);
        struct infp_report_engine *e;
        struct state *state;
        unsigned at;

        if (c[ROW_ENGINE] < 0)
                return 0;
        INFP_TRY(engine_of(r, infp_batch_u64(batch, (unsigned) c[ROW_ENGINE], row), &at));
        e = &r->engines->list[at];
        state = &r->states[at];
        e->n_falls += is_inside && has_fallen(state, batch, c, row);
        for (unsigned i = 0; i < INFP_ENGINE_COUNTERS; i++)
                take_counter(&e->counters[i], &state->last[i], infp_cell_number(batch, c[i], row), state->row_t_ns != 0,
                             is_inside);
        for (unsigned i = 0; i < INFP_ENGINE_GAUGES && is_inside; i++) {
                const double v = infp_cell_number(batch, c[INFP_ENGINE_COUNTERS + i], row);

                if (isfinite(v))
                        infp_stat_add_value(&e->gauges[i], v, 1);
        }
        if (is_inside && state->row_t_ns && t_ns > state->row_t_ns) {
                e->seconds += (double) (t_ns - state->row_t_ns) / 1e9;
                e->t0 = e->t0 ? e->t0 : state->row_t_ns;
                e->t1 = t_ns;
        }
        e->counts_at_end |= is_inside && !isnan(live) && !isnan(generated) && live != generated;
        state->row_t_ns = t_ns;
        return 0;
}

/* Another program may have written the run: a column of an unexpected type is ignored. Numbers may have any numeric type. */
static int find_column(const struct infp_table *table, const char *name, enum infp_type type)
{
        const int at = infp_table_find(table, name);
        const enum infp_type found = at >= 0 ? infp_table_column(table, (unsigned) at)->type : 0;

        return at >= 0 && (found == type || (type == INFP_F64 && found != INFP_STR && found != INFP_ID64)) ? at : -1;
}

/* The types of the columns; numbers by default. */
static enum infp_type type_of(const char *name)
{
        static const char *const ids[] = { "id", "engine" }, *const texts[] = { "url", "make", "version", "model",
                                                                                "reason" };

        for (unsigned i = 0; i < INFP_COUNT(ids); i++)
                if (!strcmp(name, ids[i]))
                        return INFP_ID64;
        for (unsigned i = 0; i < INFP_COUNT(texts); i++)
                if (!strcmp(name, texts[i]))
                        return INFP_STR;
        return INFP_F64;
}

/* Reads every row up to the end of the range: the first difference needs the rows before its start. */
static int read_table(struct reading *reading, struct infp_run *run, const char *table, const char *const *columns,
                      const struct infp_scan_options *range,
                      int (*take)(struct reading *r, const struct infp_batch *batch, const int *c, uint32_t row),
                      struct infp_err *err)
{
        const struct infp_scan_options options = { .t1 = range->t1, .catalog = range->catalog };
        int c[ROW_N], r;
        struct infp_scan *scan;
        struct infp_batch batch;

        r = infp_scan_some(run, table, columns, &options, &scan, err);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        for (unsigned i = 0; columns[i]; i++)
                c[i] = find_column(infp_scan_table(scan), columns[i], type_of(columns[i]));
        r = !infp_scan_table(scan)->plain; /* plain tables have no times */
        while (r > 0 && (r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (take(reading, &batch, c, row) < 0)
                                r = infp_fail(err, -ENOMEM, "no memory for the report");
        infp_scan_close(scan);
        return r;
}

static int by_number(const void *a, const void *b)
{
        const struct infp_report_engine *x = a, *y = b;

        return (x->number > y->number) - (x->number < y->number);
}

/* The metrics of an engine lie side by side. */
static void share_out(struct infp_report_engines *engines)
{
        const struct infp_engine_window *window = &engines->window;

        for (unsigned i = 0; i < engines->n; i++)
                for (unsigned k = 0; k < window->n; k++) {
                        struct infp_report_engine *e = &engines->list[i];

                        if (window->metrics[k].engine != e->id)
                                continue;
                        if (!e->n_metrics++)
                                e->metrics = &window->metrics[k];
                }
}

/* Drops engines without a scrape in the range. */
static void drop_silent(struct infp_report_engines *engines)
{
        unsigned n = 0;

        for (unsigned i = 0; i < engines->n; i++) {
                struct infp_report_engine *e = &engines->list[i];

                if (e->n_ok || e->n_failed)
                        engines->list[n++] = *e;
                else
                        free_texts(e);
        }
        engines->n = n;
}

static int read_all(struct reading *reading, struct infp_run *run, const struct infp_scan_options *scan,
                    const char **ret_table, struct infp_err *err)
{
        *ret_table = "engines";
        INFP_TRY(read_table(reading, run, *ret_table, about_columns,
                            &(struct infp_scan_options){ .catalog = scan->catalog }, take_about, err));
        *ret_table = "engine_scrapes";
        INFP_TRY(read_table(reading, run, *ret_table, scrape_columns, scan, take_scrape, err));
        for (unsigned i = 0; i < reading->engines->n; i++)
                if (reading->states[i].has_come)
                        reading->engines->list[i].n_failed_after = reading->states[i].n_failed;
        *ret_table = "vllm";
        INFP_TRY(read_table(reading, run, *ret_table, infp_engine_columns, scan, take_row, err));
        *ret_table = "engine_samples";
        return infp_engine_window_read(run, scan->t0, scan->t1, scan->catalog, &reading->engines->window, err);
}

int infp_engines_read(struct infp_run *run, const struct infp_scan_options *scan, struct infp_report_engines *ret,
                      const char **ret_table, struct infp_err *err)
{
        struct reading reading = { .engines = ret, .t0 = scan->t0 };
        int r;

        *ret = (struct infp_report_engines){ 0 };
        r = read_all(&reading, run, scan, ret_table, err);
        free(reading.states);
        if (r < 0) {
                infp_engines_done(ret);
                return r;
        }
        drop_silent(ret);
        infp_sort(ret->list, ret->n, sizeof(*ret->list), by_number);
        share_out(ret);
        return 0;
}

double infp_engine_rate(const struct infp_report_engine *engine, enum infp_engine_counter counter)
{
        return engine->seconds > 0 ? engine->counters[counter] / engine->seconds : NAN;
}

double infp_engine_share(const struct infp_report_engine *engine, enum infp_engine_counter part,
                         enum infp_engine_counter of)
{
        return engine->counters[of] > 0 ? engine->counters[part] / engine->counters[of] : NAN;
}

double infp_engines_total(const struct infp_report_engines *engines, enum infp_engine_counter counter, unsigned *ret_n)
{
        double sum = NAN;

        *ret_n = 0;
        for (unsigned i = 0; i < engines->n; i++) {
                const double v = engines->list[i].counters[counter];

                if (isnan(v))
                        continue;
                sum = (isnan(sum) ? 0 : sum) + v;
                (*ret_n)++;
        }
        return sum;
}
