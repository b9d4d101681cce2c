#include "analyze/requests.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/human.h"
#include "base/mem.h"
#include "model/tables.h"

static const uint64_t late_ns = 10 * UINT64_C(1000000);

struct text {
        const char *at;
        size_t size;
};

/* One row, wherever it comes from. Negative: absent. */
struct seen {
        uint64_t t_ns;
        bool ok;
        int64_t send_ns, first_ns, last_ns, end_ns, prompt, cached, output, pieces, gap_max_ns;
        struct text failure, error, finish, gaps, load;
};

void infp_requests_done(struct infp_requests *requests)
{
        infp_samples_done(&requests->send);
        infp_samples_done(&requests->ttft);
        infp_samples_done(&requests->tpot);
        infp_samples_done(&requests->e2e);
        for (unsigned i = 0; i < requests->n_loads; i++)
                infp_samples_done(&requests->loads[i].ttft);
        *requests = (struct infp_requests){ 0 };
}

static bool is(struct text text, const char *word)
{
        return text.size == strlen(word) && !memcmp(text.at, word, text.size);
}

static void copy(char *ret, size_t cap, struct text text)
{
        snprintf(ret, cap, "%.*s", (int) (text.size < cap ? text.size : cap - 1), text.size ? text.at : "");
}

static void count_kind(struct infp_requests_kind *kinds, unsigned *n, struct text name, struct text example)
{
        for (unsigned i = 0; i < *n; i++)
                if (is(name, kinds[i].name)) {
                        kinds[i].n++;
                        return;
                }
        if (*n == INFP_REQUESTS_KINDS) {
                strcpy(kinds[*n - 1].name, "others");
                kinds[*n - 1].n++;
                return;
        }
        copy(kinds[*n].name, sizeof(kinds[*n].name), name);
        copy(kinds[*n].example, sizeof(kinds[*n].example), example);
        kinds[(*n)++].n = 1;
}

/* NULL beyond the bound. */
static struct infp_requests_load *find_load(struct infp_requests *requests, struct text name)
{
        struct infp_requests_load *load;
        char wanted[sizeof(load->name)];

        copy(wanted, sizeof(wanted), name);
        for (unsigned i = 0; i < requests->n_loads; i++)
                if (!strcmp(requests->loads[i].name, wanted))
                        return &requests->loads[i];
        if (requests->n_loads == INFP_REQUESTS_LOADS) /* bound: its requests are counted in n_other_loads */
                return NULL;
        load = &requests->loads[requests->n_loads++];
        strcpy(load->name, wanted);
        return load;
}

/* Time per output token; negative if unknown, or with a single token. */
static double tpot_ns(const struct seen *seen)
{
        if (seen->output < 2 || seen->first_ns < 0 || seen->last_ns < seen->first_ns)
                return -1;
        return (double) (seen->last_ns - seen->first_ns) / (double) (seen->output - 1);
}

/* An unknown value misses a goal. A single token has no time between tokens. */
static bool is_good(const struct infp_requests_goals *goals, const struct seen *seen)
{
        const double tpot = tpot_ns(seen);

        if (goals->ttft_ns && !(seen->first_ns >= 0 && (uint64_t) seen->first_ns <= goals->ttft_ns))
                return false;
        if (goals->tpot_ns && seen->output != 1 && !(tpot >= 0 && tpot <= (double) goals->tpot_ns))
                return false;
        return !goals->e2e_ns || (seen->end_ns >= 0 && (uint64_t) seen->end_ns <= goals->e2e_ns);
}

static void add_tokens(struct infp_requests *requests, const struct seen *seen)
{
        if (seen->output < 0)
                return;
        requests->n_counted++;
        requests->output_tokens += (uint64_t) seen->output;
        requests->prompt_tokens += seen->prompt > 0 ? (uint64_t) seen->prompt : 0;
        if (seen->cached >= 0) {
                requests->n_cached++;
                requests->cached_tokens += (uint64_t) seen->cached;
        }
        if (seen->pieces > 0) {
                requests->n_streams++;
                requests->n_pieces += (uint64_t) seen->pieces;
                requests->piece_tokens += (uint64_t) seen->output;
        }
}

static uint64_t larger(uint64_t max, int64_t v)
{
        return v >= 0 && (uint64_t) v > max ? (uint64_t) v : max;
}

static void add_gaps(struct infp_requests *requests, struct infp_requests_load *load, const struct seen *seen)
{
        if (!seen->gaps.size)
                return;
        if (infp_log_take(&requests->gaps, seen->gaps.at, seen->gaps.size) < 0) {
                requests->n_broken++;
                return;
        }
        if (load) {
                infp_log_take(&load->gaps, seen->gaps.at, seen->gaps.size);
                load->gap_max_ns = larger(load->gap_max_ns, seen->gap_max_ns);
        }
        if (seen->first_ns >= 0 && seen->last_ns >= seen->first_ns)
                requests->gap_sum_s += (double) (seen->last_ns - seen->first_ns) / 1e9;
        requests->gap_max_ns = larger(requests->gap_max_ns, seen->gap_max_ns);
}

static double seconds(int64_t ns)
{
        return ns >= 0 ? (double) ns / 1e9 : NAN;
}

static void show(const struct infp_requests *requests, const struct seen *seen)
{
        const double tpot = tpot_ns(seen);
        const struct infp_request_times one = {
                .t_ns = seen->t_ns,
                .ttft_s = seconds(seen->first_ns),
                .tpot_s = tpot >= 0 ? tpot / 1e9 : NAN,
                .e2e_s = seconds(seen->end_ns),
                .gaps_s = seen->first_ns >= 0 && seen->last_ns >= seen->first_ns
                                  ? (double) (seen->last_ns - seen->first_ns) / 1e9
                                  : NAN,
                .output_tokens = seen->output,
                .gaps = seen->gaps.at,
                .gaps_size = seen->gaps.size,
        };

        requests->each(requests->each_context, &one);
}

static void add_ok(struct infp_requests *requests, struct infp_requests_load *load, const struct seen *seen)
{
        const double tpot = tpot_ns(seen);

        if (requests->each)
                show(requests, seen);
        requests->n_ok++;
        requests->n_good += is_good(&requests->goals, seen);
        if (seen->finish.size)
                count_kind(requests->finishes, &requests->n_finishes, seen->finish, (struct text){ 0 });
        add_tokens(requests, seen);
        add_gaps(requests, load, seen);
        if (seen->first_ns >= 0)
                infp_samples_add(&requests->ttft, (uint64_t) seen->first_ns);
        if (tpot >= 0)
                infp_samples_add(&requests->tpot, (uint64_t) llround(tpot));
        if (seen->end_ns >= 0)
                infp_samples_add(&requests->e2e, (uint64_t) seen->end_ns);
        if (!load)
                return;
        load->n_ok++;
        load->output_tokens += seen->output > 0 ? (uint64_t) seen->output : 0;
        if (seen->first_ns >= 0)
                infp_samples_add(&load->ttft, (uint64_t) seen->first_ns);
}

static void widen(uint64_t *first, uint64_t *last, bool is_first, const struct seen *seen)
{
        const uint64_t end = seen->t_ns + (seen->end_ns > 0 ? (uint64_t) seen->end_ns : 0);

        if (is_first || seen->t_ns < *first)
                *first = seen->t_ns;
        if (is_first || end > *last)
                *last = end;
}

static void add(struct infp_requests *requests, const struct seen *seen)
{
        struct infp_requests_load *load = find_load(requests, seen->load);

        widen(&requests->first_t_ns, &requests->last_t_ns, requests->n++ == 0, seen);
        requests->n_other_loads += !load;
        if (load)
                widen(&load->first_t_ns, &load->last_t_ns, load->n++ == 0, seen);
        if (seen->send_ns >= 0) {
                infp_samples_add(&requests->send, (uint64_t) seen->send_ns);
                requests->n_late += (uint64_t) seen->send_ns > late_ns;
        }
        if (seen->ok)
                add_ok(requests, load, seen);
        else {
                requests->n_failed += !is(seen->failure, "cut off");
                count_kind(requests->failures, &requests->n_failures, seen->failure, seen->error);
        }
}

static int64_t cell_of(const struct infp_row *row, unsigned cell)
{
        return infp_row_has(row, cell) ? row->cell[cell].i64 : -1;
}

static struct text text_of(const struct infp_row *row, unsigned cell)
{
        struct text ret;

        ret.at = infp_row_text(row, cell, &ret.size);
        return ret;
}

void infp_requests_add_row(struct infp_requests *requests, const struct infp_row *row)
{
        const struct seen seen = {
                .t_ns = row->t_ns,
                .ok = infp_row_has(row, INFP_REQUESTS_OK) && row->cell[INFP_REQUESTS_OK].b,
                .send_ns = cell_of(row, INFP_REQUESTS_SEND_NS),
                .first_ns = cell_of(row, INFP_REQUESTS_FIRST_NS),
                .last_ns = cell_of(row, INFP_REQUESTS_LAST_NS),
                .end_ns = cell_of(row, INFP_REQUESTS_END_NS),
                .prompt = cell_of(row, INFP_REQUESTS_PROMPT_TOKENS),
                .cached = cell_of(row, INFP_REQUESTS_CACHED_TOKENS),
                .output = cell_of(row, INFP_REQUESTS_OUTPUT_TOKENS),
                .pieces = cell_of(row, INFP_REQUESTS_CHUNKS),
                .gap_max_ns = cell_of(row, INFP_REQUESTS_GAP_MAX_NS),
                .failure = text_of(row, INFP_REQUESTS_FAILURE),
                .error = text_of(row, INFP_REQUESTS_ERROR),
                .finish = text_of(row, INFP_REQUESTS_FINISH),
                .gaps = text_of(row, INFP_REQUESTS_GAPS),
                .load = text_of(row, INFP_REQUESTS_LOAD),
        };

        add(requests, &seen);
}

/* The columns that are read. */
static const unsigned cells[] = {
        INFP_REQUESTS_OK,     INFP_REQUESTS_SEND_NS,       INFP_REQUESTS_FIRST_NS,      INFP_REQUESTS_LAST_NS,
        INFP_REQUESTS_END_NS, INFP_REQUESTS_PROMPT_TOKENS, INFP_REQUESTS_CACHED_TOKENS, INFP_REQUESTS_OUTPUT_TOKENS,
        INFP_REQUESTS_CHUNKS, INFP_REQUESTS_GAP_MAX_NS,    INFP_REQUESTS_FAILURE,       INFP_REQUESTS_ERROR,
        INFP_REQUESTS_FINISH, INFP_REQUESTS_GAPS,          INFP_REQUESTS_LOAD,
};

static int64_t number_at(const struct infp_batch *batch, int column, uint32_t row)
{
        return infp_cell_has(batch, column, row) ? infp_batch_i64(batch, (unsigned) column, row) : -1;
}

static struct text text_at(const struct infp_batch *batch, int column, uint32_t row)
{
        struct text ret;

        ret.at = infp_cell_str(batch, column, row, &ret.size);
        return ret;
}

static void add_batch(struct infp_requests *requests, const struct infp_batch *batch, const int *columns, uint32_t row)
{
        const struct seen seen = {
                .t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                .ok = infp_cell_bool(batch, columns[INFP_REQUESTS_OK], row),
                .send_ns = number_at(batch, columns[INFP_REQUESTS_SEND_NS], row),
                .first_ns = number_at(batch, columns[INFP_REQUESTS_FIRST_NS], row),
                .last_ns = number_at(batch, columns[INFP_REQUESTS_LAST_NS], row),
                .end_ns = number_at(batch, columns[INFP_REQUESTS_END_NS], row),
                .prompt = number_at(batch, columns[INFP_REQUESTS_PROMPT_TOKENS], row),
                .cached = number_at(batch, columns[INFP_REQUESTS_CACHED_TOKENS], row),
                .output = number_at(batch, columns[INFP_REQUESTS_OUTPUT_TOKENS], row),
                .pieces = number_at(batch, columns[INFP_REQUESTS_CHUNKS], row),
                .gap_max_ns = number_at(batch, columns[INFP_REQUESTS_GAP_MAX_NS], row),
                .failure = text_at(batch, columns[INFP_REQUESTS_FAILURE], row),
                .error = text_at(batch, columns[INFP_REQUESTS_ERROR], row),
                .finish = text_at(batch, columns[INFP_REQUESTS_FINISH], row),
                .gaps = text_at(batch, columns[INFP_REQUESTS_GAPS], row),
                .load = text_at(batch, columns[INFP_REQUESTS_LOAD], row),
        };

        add(requests, &seen);
}

/* A run of another version may lack a column or have it with another type: then it is absent. */
static void find_columns(const struct infp_table *table, int columns[INFP_REQUESTS_N])
{
        for (unsigned i = 0; i < INFP_REQUESTS_N; i++)
                columns[i] = -1;
        for (unsigned i = 0; i < INFP_COUNT(cells); i++) {
                const struct infp_column *wanted = &infp_table_requests.columns[cells[i]];
                const int column = infp_table_find(table, wanted->name);

                if (column >= 0 && infp_table_column(table, (unsigned) column)->type == wanted->type)
                        columns[cells[i]] = column;
        }
}

int infp_requests_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_requests *requests,
                       struct infp_err *err)
{
        const char *names[INFP_COUNT(cells) + 1] = { NULL };
        int columns[INFP_REQUESTS_N], r;
        struct infp_scan *scan;
        struct infp_batch batch;

        for (unsigned i = 0; i < INFP_COUNT(cells); i++)
                names[i] = infp_table_requests.columns[cells[i]].name;
        INFP_TRY(infp_scan_some(run, infp_table_requests.name, names, options, &scan, err));
        find_columns(infp_scan_table(scan), columns);
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        add_batch(requests, &batch, columns, row);
        infp_scan_close(scan);
        if (requests->n_other_loads)
                infp_run_note(
                        run,
                        "%s requests belong to loads beyond the first %d: they count, but those loads are not listed",
                        infp_count(requests->n_other_loads).text, INFP_REQUESTS_LOADS);
        return r;
}

double infp_requests_duration_s(const struct infp_requests *requests)
{
        return requests->n ? (double) (requests->last_t_ns - requests->first_t_ns) / 1e9 : NAN;
}

/* The largest gap is known exactly: no bucket reaches beyond it. */
static bool gap_quantile(const struct infp_log_histogram *gaps, uint64_t max_ns, double q, struct infp_quantile *ret)
{
        const double max = (double) max_ns / 1e9;

        if (!infp_log_quantile(gaps, q, ret))
                return false;
        if (max > 0) {
                ret->high = fmin(ret->high, fmax(max, ret->low));
                ret->estimate = fmin(ret->estimate, ret->high);
        }
        return true;
}

bool infp_requests_itl(const struct infp_requests *requests, double q, struct infp_quantile *ret)
{
        return gap_quantile(&requests->gaps, requests->gap_max_ns, q, ret);
}

bool infp_requests_load_itl(const struct infp_requests_load *load, double q, struct infp_quantile *ret)
{
        return gap_quantile(&load->gaps, load->gap_max_ns, q, ret);
}

double infp_requests_itl_mean_s(const struct infp_requests *requests)
{
        return requests->gaps.n ? requests->gap_sum_s / (double) requests->gaps.n : NAN;
}

double infp_requests_itl_std_s(const struct infp_requests *requests)
{
        struct infp_stat stat = { 0 };

        for (unsigned i = 0; i < INFP_LOG_BUCKETS; i++) {
                const double high = (double) infp_log_edge_ns(i) / 1e9,
                             low = i ? (double) infp_log_edge_ns(i - 1) / 1e9 : 0;

                if (requests->gaps.counts[i])
                        infp_stat_add_value(&stat, i == INFP_LOG_BUCKETS - 1 ? low : (low + high) / 2,
                                            (double) requests->gaps.counts[i]);
        }
        return infp_stat_std(&stat);
}
