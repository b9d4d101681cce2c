/* Figures of the host, the target, engines and GPUs: values as they were recorded, and what they are over a window. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/watch/parts.h"
#include "base/mem.h"
#include "base/time.h"
#include "model/rate.h"

static int put(struct infp_watch *watch, enum watch_figure figure, unsigned instance, uint64_t t_ns, double v)
{
        struct watch_series *s = &watch->series[figure][instance];

        if (!isfinite(v))
                return 0;
        if (s->first > s->n / 2 && s->first > 64) {
                s->n -= s->first;
                memmove(s->points, s->points + s->first, s->n * sizeof(*s->points));
                s->first = 0;
        }
        if (!INFP_MAKE_ROOM(s->points, s->n, s->cap, 64))
                return -ENOMEM;
        s->points[s->n++] = (struct watch_point){ t_ns, v };
        return 0;
}

static double number(const struct watch_batch *b, unsigned column, uint32_t row)
{
        return b->at[column] >= 0 ? infp_batch_number(&b->batch, (unsigned) b->at[column], row) : NAN;
}

/* The first n wanted columns are figures from `first` on. */
static int put_columns(struct infp_watch *watch, const struct watch_batch *b, uint32_t row, unsigned column,
                       enum watch_figure first, unsigned n, unsigned instance)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(&b->batch, 0, row);

        for (unsigned i = 0; i < n; i++)
                INFP_TRY(put(watch, (enum watch_figure)(first + i), instance, t_ns, number(b, column + i, row)));
        return 0;
}

int watch_take_cpu(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        return put_columns(watch, b, row, 0, WATCH_CPU_USER, WATCH_CPU_STEAL - WATCH_CPU_USER + 1, 0);
}

int watch_take_mem(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        return put_columns(watch, b, row, 0, WATCH_MEM_TOTAL, 2, 0);
}

int watch_take_tree(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        return put_columns(watch, b, row, 0, WATCH_TREE_CPU, 4, 0);
}

/* The place of a thing among those that are shown, or -1: there are too many. */
static int instance_of(uint64_t *ids, unsigned *n, uint64_t id)
{
        for (unsigned i = 0; i < *n; i++)
                if (ids[i] == id)
                        return (int) i;
        if (*n >= WATCH_INSTANCES)
                return -1;
        ids[*n] = id;
        return (int) (*n)++;
}

int watch_take_vllm(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        const int instance = instance_of(watch->engines, &watch->n_engines, watch_id(b, 0, row));

        return instance < 0 ? 0 : put_columns(watch, b, row, 1, WATCH_RUNNING, 6, (unsigned) instance);
}

int watch_take_nvidia(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        const int instance = instance_of(watch->gpus, &watch->n_gpus, (uint64_t) watch_i64(b, 0, row));

        return instance < 0 ? 0 : put_columns(watch, b, row, 1, WATCH_GPU_PERCENT, 3, (unsigned) instance);
}

int watch_take_engine(struct infp_watch *watch, const struct watch_batch *b, uint32_t row)
{
        const uint64_t id = watch_id(b, W_ENGINE_ID, row);
        unsigned i = 0;

        while (i < watch->n_known_engines && watch->known_engines[i].id != id)
                i++;
        if (i == INFP_WATCH_ENGINES) /* bound: as many as are shown */
                return 0;
        watch->n_known_engines += i == watch->n_known_engines;
        watch->known_engines[i].id = id;
        INFP_TRY(watch_text(watch, b, W_ENGINE_MAKE, row, &watch->known_engines[i].make));
        return watch_text(watch, b, W_ENGINE_MODEL, row, &watch->known_engines[i].model);
}

void watch_trim_series(struct infp_watch *watch)
{
        const uint64_t from = watch->newest_ns > watch->history_ns ? watch->newest_ns - watch->history_ns : 0;

        for (unsigned figure = 0; figure < WATCH_FIGURES; figure++)
                for (unsigned instance = 0; instance < WATCH_INSTANCES; instance++) {
                        struct watch_series *s = &watch->series[figure][instance];

                        while (s->first < s->n && s->points[s->first].t_ns < from)
                                s->first++;
                }
}

/* The window, and what of a figure lies in it. */
struct look {
        struct infp_watch *watch;
        uint64_t t0_ns, t1_ns;
};

/* How long a last value counts as the one of now. */
static const uint64_t fresh_ns = 10 * INFP_NS_PER_S;

static double latest(const struct look *look, enum watch_figure figure, unsigned instance)
{
        const struct watch_series *s = &look->watch->series[figure][instance];

        for (uint32_t i = s->n; i-- > s->first;)
                if (s->points[i].t_ns <= look->t1_ns)
                        return s->points[i].t_ns + fresh_ns >= look->t1_ns ? s->points[i].v : NAN;
        return NAN;
}

/* The increase of a counter within the window, and the seconds between its first and last value there. NAN: fewer than two. */
static double increase(const struct look *look, enum watch_figure figure, unsigned instance, double *ret_seconds)
{
        const struct watch_series *s = &look->watch->series[figure][instance];
        const struct watch_point *first = NULL, *before = NULL;
        double sum = 0;

        for (uint32_t i = s->first; i < s->n && s->points[i].t_ns <= look->t1_ns; i++) {
                const struct watch_point *at = &s->points[i];

                /* One tick earlier counts as well: a window of one second has two ends. */
                if (at->t_ns + INFP_NS_PER_S / 10 < look->t0_ns)
                        continue;
                if (before)
                        sum += infp_increase_f64(INFP_RESET_ZERO, before->v, at->v, 0);
                first = first ? first : at;
                before = at;
        }
        if (!before || before == first)
                return NAN;
        *ret_seconds = (double) (before->t_ns - first->t_ns) / (double) INFP_NS_PER_S;
        return sum;
}

static double rate(const struct look *look, enum watch_figure figure, unsigned instance)
{
        double seconds = 0, sum = increase(look, figure, instance, &seconds);

        return seconds > 0 ? sum / seconds : NAN;
}

static double or_zero(double v)
{
        return isnan(v) ? 0 : v;
}

static double add(double sum, double v)
{
        return isnan(v) ? sum : or_zero(sum) + v;
}

static void host(const struct look *look, struct infp_watch_figures *ret)
{
        static const double ticks_per_s = 100;
        double all = rate(look, WATCH_CPU_USER, 0);

        for (int figure = WATCH_CPU_KERNEL; figure <= WATCH_CPU_SOFTIRQ; figure++)
                all += or_zero(rate(look, (enum watch_figure) figure, 0));
        ret->host_cores = all / ticks_per_s;
        for (int figure = WATCH_CPU_IDLE; figure <= WATCH_CPU_STEAL; figure++)
                all += or_zero(rate(look, (enum watch_figure) figure, 0));
        ret->cores = all / ticks_per_s;
        ret->tree_cores = rate(look, WATCH_TREE_CPU, 0) / (double) INFP_NS_PER_S;
        ret->memory_total = latest(look, WATCH_MEM_TOTAL, 0);
        ret->memory_available = latest(look, WATCH_MEM_AVAILABLE, 0);
        ret->tree_rss = latest(look, WATCH_TREE_RSS, 0);
        ret->processes = latest(look, WATCH_TREE_PROCESSES, 0);
        ret->threads = latest(look, WATCH_TREE_THREADS, 0);
}

static bool has_answered(const struct look *look, unsigned instance)
{
        for (int figure = WATCH_RUNNING; figure <= WATCH_LIVE; figure++)
                if (!isnan(latest(look, (enum watch_figure) figure, instance)))
                        return true;
        return false;
}

static void name_engine(const struct infp_watch *watch, uint64_t id, struct infp_watch_figures *ret)
{
        for (unsigned i = 0; i < watch->n_known_engines; i++)
                if (watch->known_engines[i].id == id) {
                        ret->engine = watch_string(watch, watch->known_engines[i].make);
                        ret->model = watch_string(watch, watch->known_engines[i].model);
                }
}

static void engines(const struct look *look, struct infp_watch_figures *ret)
{
        for (unsigned i = 0; i < look->watch->n_engines; i++) {
                double live, kv;

                if (!has_answered(look, i))
                        continue;
                if (ret->n_engines++ == 0)
                        name_engine(look->watch, look->watch->engines[i], ret);
                live = rate(look, WATCH_LIVE, i);
                ret->tokens_s = add(ret->tokens_s, isnan(live) ? rate(look, WATCH_GENERATED, i) : live);
                ret->prompt_tokens_s = add(ret->prompt_tokens_s, rate(look, WATCH_PROMPT, i));
                ret->running = add(ret->running, latest(look, WATCH_RUNNING, i));
                ret->waiting = add(ret->waiting, latest(look, WATCH_WAITING, i));
                kv = latest(look, WATCH_KV, i);
                if (!isnan(kv) && !(ret->kv_share >= kv))
                        ret->kv_share = kv;
        }
}

void infp_watch_figures(struct infp_watch *watch, uint64_t t1_ns, uint64_t window_ns, struct infp_watch_figures *ret)
{
        struct look look = { watch, 0, t1_ns ? t1_ns : watch->newest_ns };

        look.t0_ns = look.t1_ns > window_ns ? look.t1_ns - window_ns : 0;
        *ret = (struct infp_watch_figures){ .tokens_s = NAN,
                                            .prompt_tokens_s = NAN,
                                            .running = NAN,
                                            .waiting = NAN,
                                            .kv_share = NAN,
                                            .n_gpus = watch->n_gpus };
        host(&look, ret);
        engines(&look, ret);
        for (unsigned i = 0; i < watch->n_gpus; i++)
                ret->gpus[i] =
                        (struct infp_watch_gpu){ latest(&look, WATCH_GPU_PERCENT, i), latest(&look, WATCH_GPU_USED, i),
                                                 latest(&look, WATCH_GPU_TOTAL, i) };
}
