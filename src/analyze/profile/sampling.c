#include "analyze/profile/sampling.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/mem.h"

enum { MODE, METHOD, PYTHON_METHOD, RATE, SKIPPED, OWN_CPU, COUNTERS };
enum { N_COUNTERS = 19 };
static const char *const columns[] = {
        [MODE] = "mode",
        [METHOD] = "method",
        [PYTHON_METHOD] = "python_method",
        [RATE] = "rate_hz",
        [SKIPPED] = "skipped_threads",
        [OWN_CPU] = "own_cpu_ns",
        [COUNTERS] = "wanted",
        "taken",
        "lost",
        "throttled",
        "dropped",
        "truncated",
        "incomplete",
        "frames",
        "guessed_frames",
        "python_merged",
        "python_unmerged",
        "python_torn",
        "python_missed",
        "python_alone",
        "python_unknown",
        "python_rejected",
        "deep",
        "completed",
        "moved",
        NULL,
};
enum { N_COLUMNS = COUNTERS + N_COUNTERS };

/* Counters are sums since sampling began: a range has the last row in it minus the last row before it. */
struct counted {
        double before[N_COUNTERS + 1], last[N_COUNTERS + 1]; /* the last one: own CPU, ns */
};

static double *counter_of(struct infp_sampling_mode *m, unsigned i)
{
        double *const counters[N_COUNTERS] = {
                &m->wanted,          &m->taken,       &m->lost,          &m->throttled,      &m->dropped,
                &m->truncated,       &m->incomplete,  &m->frames,        &m->guessed_frames, &m->python_merged,
                &m->python_unmerged, &m->python_torn, &m->python_missed, &m->python_alone,   &m->python_unknown,
                &m->python_rejected, &m->deep,        &m->completed,     &m->moved
        };

        return counters[i];
}

static void begin(struct infp_sampling_mode *m, enum infp_stack_mode mode, struct counted *counted)
{
        *m = (struct infp_sampling_mode){
                .is_known = true, .mode = mode, .rate_hz = NAN, .skipped_threads = NAN, .own_cpu_s = NAN
        };
        for (unsigned i = 0; i <= N_COUNTERS; i++)
                counted->before[i] = 0, counted->last[i] = NAN;
}

static void copy_text(const struct infp_batch *batch, int column, uint32_t row, char *ret, size_t cap)
{
        const char *text;
        size_t size;

        if (!infp_cell_has(batch, column, row))
                return;
        text = infp_cell_str(batch, column, row, &size);
        size = size < cap ? size : cap - 1;
        memcpy(ret, text, size);
        ret[size] = 0;
}

static void add_row(struct infp_sampling *s, struct counted *counted, const struct infp_batch *batch, const int *at,
                    uint32_t row, uint64_t t0)
{
        const bool is_before = (uint64_t) infp_batch_i64(batch, 0, row) < t0;
        struct infp_sampling_mode *m;
        size_t size;
        const char *text = infp_cell_str(batch, at[MODE], row, &size);
        const enum infp_stack_mode mode = infp_stack_mode_by_name(text, size);

        if (mode == INFP_STACK_MODES)
                return;
        m = &s->modes[mode];
        if (!m->is_known)
                begin(m, mode, &counted[mode]);
        for (unsigned c = 0; c <= N_COUNTERS; c++) {
                const double v = infp_cell_number(batch, c < N_COUNTERS ? at[COUNTERS + c] : at[OWN_CPU], row);

                if (!isnan(v))
                        *(is_before ? &counted[mode].before[c] : &counted[mode].last[c]) = v;
        }
        if (is_before)
                return;
        if (infp_cell_has(batch, at[RATE], row))
                m->rate_hz = infp_cell_number(batch, at[RATE], row);
        m->skipped_threads = fmax(m->skipped_threads, infp_cell_number(batch, at[SKIPPED], row));
        copy_text(batch, at[METHOD], row, m->method, sizeof(m->method));
        copy_text(batch, at[PYTHON_METHOD], row, m->python_method, sizeof(m->python_method));
}

int infp_sampling_read(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_sampling *ret, struct infp_err *err)
{
        infp_cleanup(infp_catalog_done) struct infp_catalog catalog = { 0 };
        struct infp_scan_options options = { .t1 = t1, .catalog = &catalog };
        struct counted counted[INFP_STACK_MODES];
        struct infp_scan *scan;
        struct infp_batch batch;
        int at[N_COLUMNS], r;

        *ret = (struct infp_sampling){ 0 };
        INFP_TRY(infp_catalog_read(run, &catalog, err));
        r = infp_scan_some(run, "sampler", columns, &options, &scan, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (unsigned i = 0; i < N_COLUMNS; i++) {
                const struct infp_table *table = infp_scan_table(scan);

                at[i] = infp_table_find(table, columns[i]);
                if (at[i] >= 0 && (infp_table_column(table, (unsigned) at[i])->type == INFP_STR) !=
                                          (i == MODE || i == METHOD || i == PYTHON_METHOD))
                        at[i] = -1; /* a foreign run's */
        }
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        add_row(ret, counted, &batch, at, row, t0);
        infp_scan_close(scan);
        for (unsigned i = 0; i < INFP_STACK_MODES; i++) {
                if (!ret->modes[i].is_known)
                        continue;
                for (unsigned c = 0; c < N_COUNTERS; c++)
                        *counter_of(&ret->modes[i], c) = counted[i].last[c] - counted[i].before[c];
                ret->modes[i].own_cpu_s = (counted[i].last[N_COUNTERS] - counted[i].before[N_COUNTERS]) / 1e9;
        }
        return r;
}

const struct infp_sampling_mode *infp_sampling_find(const struct infp_sampling *sampling, enum infp_stack_mode mode)
{
        return mode < INFP_STACK_MODES && sampling->modes[mode].is_known ? &sampling->modes[mode] : NULL;
}
