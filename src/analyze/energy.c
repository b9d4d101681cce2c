#include "analyze/energy.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/gpus.h"
#include "analyze/scan_some.h"
#include "base/mem.h"
#include "model/rate.h"

enum { DOMAIN, SOURCE, JOULES, PART_OF, SAME_AS, IS_COUNTED, QUALITY, MEASURED };
static const char *const columns[] = { "domain",     "eSource",  "eJoules",    "ePartOf", "eSameAs",
                                       "eIsCounted", "eQuality", "eMeasuredS", NULL };

/* The readings just outside the range are needed too; energy is read at least every 30 s. */
static const uint64_t margin_ns = UINT64_C(61000000000);

struct track {
        struct infp_energy_domain domain;
        uint64_t t_ns;    /* of the reading before; 0: none */
        double at;        /* its joules */
        double counted_s; /* seconds that they cover; NAN in runs of older versions */
        double idle_j, idle_s;
        double tokens_j, tokens_s;  /* of the time in which tokens were counted */
        uint64_t first_ns, last_ns; /* covered in the range */
        bool has;                   /* a row in the range */
        bool is_new;                /* its last row describes it in the range */
};

struct tracks {
        struct track *list;
        unsigned n;
        uint64_t tokens_t0, tokens_t1;
        bool is_interpolated;
};

/* A reading: joules NAN: the counter has not moved yet; counted_s: see infp_batch_counted_s. */
struct energy_reading {
        uint64_t t_ns;
        double joules, counted_s;
};

/* What rows are read into. */
struct reading {
        struct tracks *tracks;
        const struct infp_range *range;
        const struct infp_baseline *baseline;
        const char *table; /* of the GPUs that are read */
};

static const struct infp_energy_tokens no_tokens = {
        .generated = NAN, .prompt = NAN, .requests = NAN, .joules = NAN, .gpu_joules = NAN, .seconds = NAN
};

static const double rounding = 1e-12;

static void domain_done(struct infp_energy_domain *d)
{
        free(d->name);
        free(d->source);
        free(d->part_of);
        free(d->same_as);
}

static void tracks_done(struct tracks *tracks)
{
        for (unsigned i = 0; i < tracks->n; i++)
                domain_done(&tracks->list[i].domain);
        free(tracks->list);
}

void infp_energy_done(struct infp_energy *energy)
{
        for (unsigned i = 0; i < energy->n; i++)
                domain_done(&energy->list[i]);
        free(energy->list);
        energy->list = NULL;
        energy->n = 0;
}

/* Replaces *ret by the cell; NULL if the cell is empty. */
static int keep_text(char **ret, const struct infp_batch *batch, int column, uint32_t row)
{
        size_t size;
        const char *t = infp_cell_str(batch, column, row, &size);

        if (*ret && strlen(*ret) == size && !memcmp(*ret, t, size))
                return 0;
        free(*ret);
        *ret = size ? strndup(t, size) : NULL;
        return size && !*ret ? -ENOMEM : 0;
}

static struct track *find(struct tracks *tracks, const char *name, size_t size)
{
        struct track *more;

        for (unsigned i = 0; i < tracks->n; i++) {
                struct track *t = &tracks->list[i];

                if (strlen(t->domain.name) == size && !memcmp(t->domain.name, name, size))
                        return t;
        }
        more = reallocarray(tracks->list, tracks->n + 1, sizeof(*more));
        if (!more)
                return NULL;
        tracks->list = more;
        more += tracks->n;
        *more = (struct track){ .domain.name = strndup(name, size) };
        if (!more->domain.name)
                return NULL;
        tracks->n++;
        return more;
}

/* What lies between two readings: joules, and the seconds that they cover, which may be fewer than those between. */
struct interval {
        uint64_t from, to;
        double joules, seconds;
};

/* The part of it within a time, assuming constant power. False: no part. */
static bool part_of(const struct interval *interval, uint64_t t0, uint64_t t1, struct interval *ret)
{
        double share;

        *ret = *interval;
        ret->from = interval->from > t0 ? interval->from : t0;
        ret->to = interval->to < t1 ? interval->to : t1;
        if (ret->to <= ret->from)
                return false;
        share = (double) (ret->to - ret->from) / (double) (interval->to - interval->from);
        ret->joules *= share;
        ret->seconds *= share;
        return true;
}

/* Tokens are counted between scrapes of an engine, which rarely coincide with the ends of the range. */
static void take_tokens_interval(const struct tracks *tracks, struct track *t, const struct interval *interval)
{
        struct interval part;

        if (!part_of(interval, tracks->tokens_t0, tracks->tokens_t1, &part))
                return;
        t->tokens_j += part.joules;
        t->tokens_s += part.seconds;
}

/* Nothing was counted where the meter was missing or reset, or the battery was not in use. */
static void take_interval(const struct reading *r, struct track *t, const struct energy_reading *reading)
{
        const struct infp_baseline *baseline = r->baseline;
        const struct interval interval = {
                .from = t->t_ns,
                .to = reading->t_ns,
                .joules = infp_increase_f64(INFP_RESET_GAP, t->at, reading->joules, 0),
                .seconds = infp_counted_seconds(t->t_ns, reading->t_ns, t->counted_s, reading->counted_s),
        };
        struct interval part;

        if (interval.seconds <= 0)
                return;
        if (baseline->t1 && interval.from >= baseline->t0 && interval.to <= baseline->t1) {
                t->idle_j += interval.joules;
                t->idle_s += interval.seconds;
        }
        take_tokens_interval(r->tracks, t, &interval);
        if (!part_of(&interval, r->range->t0, r->range->t1, &part))
                return;
        t->domain.joules += part.joules;
        t->domain.seconds += part.seconds;
        t->first_ns = t->first_ns ? t->first_ns : part.from;
        t->last_ns = part.to;
        r->tracks->is_interpolated |= part.to - part.from < interval.to - interval.from;
}

/* A reading of a domain. NULL: no memory. */
static struct track *take_reading(const struct reading *r, const char *name, size_t size,
                                  const struct energy_reading *reading)
{
        struct track *t = find(r->tracks, name, size);

        if (!t)
                return NULL;
        if (t->t_ns && !isnan(reading->joules))
                take_interval(r, t, reading);
        t->t_ns = reading->t_ns;
        t->at = isnan(reading->joules) ? 0 : reading->joules;
        t->counted_s = reading->counted_s;
        t->is_new = t->t_ns < r->range->t1 || !t->has;
        if (t->is_new)
                t->has = t->t_ns >= r->range->t0 && t->t_ns < r->range->t1;
        return t;
}

static int add_row(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct energy_reading reading = {
                .t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                .joules = infp_cell_number(batch, at[JOULES], row),
                .counted_s = infp_cell_number(batch, at[MEASURED], row),
        };
        size_t size;
        const char *name = infp_cell_str(batch, at[DOMAIN], row, &size);
        struct track *t = take_reading(context, name, size, &reading);

        if (!t)
                return -ENOMEM;
        if (!t->is_new)
                return 0;
        t->domain.is_counted = infp_cell_bool(batch, at[IS_COUNTED], row);
        t->domain.is_estimated = infp_cell_is(batch, at[QUALITY], row, "estimated");
        INFP_TRY(keep_text(&t->domain.source, batch, at[SOURCE], row));
        INFP_TRY(keep_text(&t->domain.part_of, batch, at[PART_OF], row));
        return keep_text(&t->domain.same_as, batch, at[SAME_AS], row);
}

/* From before the range and the baseline to after them. */
static struct infp_scan_options span_of(const struct infp_energy_options *options, const struct infp_baseline *baseline)
{
        const struct infp_range *range = options->range;
        uint64_t from = range->t0 > margin_ns ? range->t0 - margin_ns : 0;

        if (baseline->t1 && baseline->t0 < from)
                from = baseline->t0;
        return (struct infp_scan_options){ .catalog = options->scan->catalog,
                                           .t0 = from,
                                           .t1 = (range->t1 > baseline->t1 ? range->t1 : baseline->t1) + margin_ns };
}

enum { G_INDEX, G_JOULES, G_SOURCE, G_QUALITY, G_MEASURED };
static const char *const gpu_columns[] = { "gGpuIndex",      "gEnergyJoules",    "gEnergySource",
                                           "gEnergyQuality", "gEnergyMeasuredS", NULL };

/* GPUs are domains too: their joules as their collector has them, by a counter or integrated from power. A row without joules is no
 * reading: the GPU was lost, or its meter did not answer. */
static int add_gpu_row(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const struct reading *r = context;
        char name[48];
        struct energy_reading reading;
        struct track *t;

        if (at[G_INDEX] < 0 || !infp_cell_has(batch, at[G_JOULES], row))
                return 0;
        snprintf(name, sizeof(name), "%s%lld", r->table,
                 (long long) infp_batch_i64(batch, (unsigned) at[G_INDEX], row));
        reading = (struct energy_reading){
                .t_ns = (uint64_t) infp_batch_i64(batch, 0, row),
                .joules = infp_cell_number(batch, at[G_JOULES], row),
                .counted_s = infp_cell_number(batch, at[G_MEASURED], row),
        };
        t = take_reading(r, name, strlen(name), &reading);
        if (!t)
                return -ENOMEM;
        t->domain.is_gpu = true;
        if (!t->is_new || !infp_cell_has(batch, at[G_QUALITY], row))
                return 0;
        t->domain.is_estimated |= infp_cell_is(batch, at[G_QUALITY], row, "estimated");
        return at[G_SOURCE] < 0 ? 0 : keep_text(&t->domain.source, batch, at[G_SOURCE], row);
}

/* A meter at the machine's supply includes its GPUs. */
static const struct track *meter_of_all(const struct tracks *tracks)
{
        for (unsigned i = 0; i < tracks->n; i++) {
                const struct infp_energy_domain *d = &tracks->list[i].domain;
                const bool is_supply =
                        d->source && (!strcmp(d->source, "battery") ||
                                      (!strcmp(d->source, "hwmon") && strncmp(d->name, "amd_energy", 10)));

                if (!d->is_gpu && d->is_counted && is_supply)
                        return &tracks->list[i];
        }
        return NULL;
}

/* psys is a whole laptop but half a server, and nothing documents whether a GPU is included. */
static bool counts_platform(const struct tracks *tracks)
{
        for (unsigned i = 0; i < tracks->n; i++)
                if (tracks->list[i].domain.is_counted && !strncmp(tracks->list[i].domain.name, "psys", 4))
                        return true;
        return false;
}

/* A card's sensor that the machine's meters also show ("amdgpu/PPT", eSameAs) never counts. */
static int count_gpus(struct tracks *tracks)
{
        const struct track *all = meter_of_all(tracks);
        const bool is_unknown = counts_platform(tracks);

        for (unsigned i = 0; i < tracks->n; i++) {
                struct infp_energy_domain *d = &tracks->list[i].domain;

                if (!d->is_gpu)
                        continue;
                d->is_counted = !all && !is_unknown;
                d->part_of = all ? strdup(all->domain.name) : NULL;
                if (all && !d->part_of)
                        return -ENOMEM;
        }
        return 0;
}

/* GPUs come last: whether they count depends on the other domains. */
static int read_domains(struct infp_run *run, const struct infp_energy_options *options,
                        const struct infp_baseline *baseline, struct tracks *tracks, const char **ret_table,
                        struct infp_err *err)
{
        const struct infp_scan_options span = span_of(options, baseline);
        struct reading reading = { tracks, options->range, baseline, NULL };

        *ret_table = "energy";
        INFP_TRY(infp_scan_rows(run, "energy", columns, &span, add_row, &reading, err));
        for (unsigned i = 0; infp_gpu_tables[i]; i++) {
                *ret_table = reading.table = infp_gpu_tables[i];
                INFP_TRY(infp_scan_rows(run, reading.table, gpu_columns, &span, add_gpu_row, &reading, err));
        }
        return count_gpus(tracks) < 0 ? infp_fail(err, -ENOMEM, "no memory for the energy of the run") : 0;
}

static void add_tokens(struct infp_energy *e, const struct track *t)
{
        if (t->tokens_s <= 0)
                return;
        if (t->domain.is_gpu)
                e->tokens_gpu_joules = (isnan(e->tokens_gpu_joules) ? 0 : e->tokens_gpu_joules) + t->tokens_j;
        if (!t->domain.is_counted)
                return;
        e->tokens_joules = (isnan(e->tokens_joules) ? 0 : e->tokens_joules) + t->tokens_j;
        e->tokens_s = fmin(isnan(e->tokens_s) ? INFINITY : e->tokens_s, t->tokens_s);
}

/* GPUs and the rest, separately: a part of a meter that counts is in the total under that meter's name. */
static void add_to_side(struct infp_energy *e, const struct infp_energy_domain *d, double idle)
{
        if (d->is_gpu) {
                e->gpu_joules = (isnan(e->gpu_joules) ? 0 : e->gpu_joules) + d->joules;
                e->gpu_is_estimated |= d->is_estimated;
        }
        if (d->is_counted && !d->is_gpu)
                e->has_host = true;
        if (!d->is_gpu || !(d->is_counted || d->part_of))
                return;
        e->gpu_inside_joules += d->joules;
        e->gpu_inside_idle_joules += fmin(idle, d->joules);
}

/* The machine's figures are sums over the domains that count. */
static void add_up(struct infp_energy *e, struct track *t)
{
        struct infp_energy_domain *d = &t->domain;
        const double idle = d->idle_watts * d->seconds;

        add_to_side(e, d, idle);
        add_tokens(e, t);
        if (!d->is_counted)
                return;
        e->joules = (isnan(e->joules) ? 0 : e->joules) + d->joules;
        e->watts = (isnan(e->watts) ? 0 : e->watts) + d->watts;
        e->seconds = fmin(isnan(e->seconds) ? INFINITY : e->seconds, d->seconds);
        e->is_estimated |= d->is_estimated;
        e->t0 = !e->t0 || t->first_ns < e->t0 ? t->first_ns : e->t0;
        e->t1 = t->last_ns > e->t1 ? t->last_ns : e->t1;
        e->baseline_s = fmin(e->baseline_s, t->idle_s);
        /* One unknown makes the sum unknown. */
        e->idle_watts += d->idle_watts;
        e->idle_joules += fmin(idle, d->joules);
        e->dynamic_joules += fmax(d->joules - idle, 0);
        if (isnan(idle))
                e->idle_joules = e->dynamic_joules = NAN;
}

static int conclude(struct infp_energy *e, struct tracks *tracks, struct infp_err *err)
{
        e->has_rows = tracks->n > 0;
        e->is_interpolated = tracks->is_interpolated;
        e->list = calloc(tracks->n ? tracks->n : 1, sizeof(*e->list));
        if (!e->list)
                return infp_fail(err, -ENOMEM, "no memory for the energy of the run");
        e->baseline_s = INFINITY;
        e->idle_watts = e->idle_joules = e->dynamic_joules = 0;
        for (unsigned i = 0; i < tracks->n; i++) {
                struct track *t = &tracks->list[i];
                struct infp_energy_domain *d = &t->domain;

                if (d->seconds <= 0)
                        continue;
                d->watts = d->joules / d->seconds;
                d->idle_watts = t->idle_s > 0 ? t->idle_j / t->idle_s : NAN;
                add_up(e, t);
                e->list[e->n++] = *d;
                *d = (struct infp_energy_domain){ 0 }; /* its texts have moved */
        }
        if (isnan(e->joules))
                e->idle_watts = e->idle_joules = e->dynamic_joules = NAN;
        if (isinf(e->baseline_s))
                e->baseline_s = 0;
        return 0;
}

/* A command that waits for its baseline makes no tokens. */
static void set_tokens_time(struct tracks *tracks, const struct infp_energy_options *options,
                            const struct infp_baseline *baseline)
{
        tracks->tokens_t0 = options->tokens_t1 ? options->tokens_t0 : options->range->t0;
        tracks->tokens_t1 = options->tokens_t1 ? options->tokens_t1 : options->range->t1;
        if (options->is_command && tracks->tokens_t0 < baseline->t1)
                tracks->tokens_t0 = baseline->t1;
}

int infp_energy_read(struct infp_run *run, const struct infp_energy_options *options, struct infp_energy *ret,
                     const char **ret_table, struct infp_err *err)
{
        infp_cleanup(tracks_done) struct tracks tracks = { 0 };
        int r;

        *ret = (struct infp_energy){ .joules = NAN,
                                     .seconds = NAN,
                                     .watts = NAN,
                                     .split_joules = NAN,
                                     .machine_cpu_s = NAN,
                                     .tree_joules = NAN,
                                     .others_joules = NAN,
                                     .residual_joules = NAN,
                                     .gpu_joules = NAN,
                                     .gpu_j_per_generated = NAN,
                                     .tokens_joules = NAN,
                                     .tokens_gpu_joules = NAN,
                                     .tokens_s = NAN,
                                     .j_per_generated = NAN,
                                     .j_per_token = NAN,
                                     .j_per_request = NAN,
                                     .baseline_is_before = options->is_command };
        ret->tokens = no_tokens;
        *ret_table = "marks";
        INFP_TRY(infp_baseline_find(run, &ret->baseline, err));
        set_tokens_time(&tracks, options, &ret->baseline);
        INFP_TRY(read_domains(run, options, &ret->baseline, &tracks, ret_table, err));
        r = conclude(ret, &tracks, err);
        if (r < 0) {
                infp_energy_done(ret);
                ret->joules = NAN;
                return r;
        }
        return 0;
}

double infp_energy_share(const struct infp_energy *e, double cpu_s)
{
        return e->machine_cpu_s > 0 ? e->split_joules * cpu_s / e->machine_cpu_s : NAN;
}

void infp_energy_split(struct infp_energy *e, double tree_cpu_s, double machine_cpu_s)
{
        const double whole = e->has_host ? e->joules - e->gpu_inside_joules : NAN;
        const double idle = isnan(e->idle_joules) ? 0 : e->idle_joules - e->gpu_inside_idle_joules;

        /* CPU time does not measure a GPU. */
        e->split_joules = isnan(e->dynamic_joules) ? whole : whole - idle;
        e->machine_cpu_s = machine_cpu_s;
        e->tree_joules = infp_energy_share(e, tree_cpu_s);
        e->others_joules = infp_energy_share(e, fmax(machine_cpu_s - tree_cpu_s, 0));
        if (isnan(tree_cpu_s))
                e->others_joules = NAN;
        e->split_idle_joules = isnan(e->idle_joules) ? NAN : idle;
        /* Clocks of processes and ticks of the machine do not agree to the last digit. */
        e->residual_joules = whole - idle - e->tree_joules - e->others_joules;
        if (fabs(e->residual_joules) < rounding * e->joules)
                e->residual_joules = 0; /* rounding of the sums above */
}

/* Tokens by the engines' own counters, else by what clients saw: as the report shows. */
static double per(double joules, double n)
{
        return n > 0 ? joules / n : NAN;
}

void infp_energy_tokens_span(const struct infp_report_engines *engines, uint64_t *ret_t0, uint64_t *ret_t1)
{
        *ret_t0 = *ret_t1 = 0;
        for (unsigned i = 0; i < engines->n; i++) {
                const struct infp_report_engine *e = &engines->list[i];

                if (!(e->counters[INFP_ENGINE_GENERATED] > 0))
                        continue;
                *ret_t0 = !*ret_t1 || e->t0 < *ret_t0 ? e->t0 : *ret_t0;
                *ret_t1 = e->t1 > *ret_t1 ? e->t1 : *ret_t1;
        }
}

static struct infp_energy_tokens by_engines(const struct infp_energy *e, const struct infp_report_engines *engines)
{
        struct infp_energy_tokens ret = { .from = INFP_TOKENS_ENGINE,
                                          .joules = e->tokens_joules,
                                          .gpu_joules = e->tokens_gpu_joules,
                                          .seconds = e->tokens_s };
        unsigned n;

        ret.generated = infp_engines_total(engines, INFP_ENGINE_GENERATED, &ret.n_engines);
        ret.prompt = infp_engines_total(engines, INFP_ENGINE_PROMPT, &n);
        ret.requests = infp_engines_total(engines, INFP_ENGINE_FINISHED, &n);
        return ret;
}

static struct infp_energy_tokens by_requests(const struct infp_energy *e, const struct infp_requests *requests)
{
        return (struct infp_energy_tokens){ .from = INFP_TOKENS_REQUESTS,
                                            .generated = (double) requests->output_tokens,
                                            /* 0: the server does not report them. */
                                            .prompt = requests->prompt_tokens ? (double) requests->prompt_tokens : NAN,
                                            .requests = (double) requests->n_ok,
                                            .joules = e->joules,
                                            .gpu_joules = e->gpu_joules,
                                            .seconds = e->seconds };
}

void infp_energy_per_token(struct infp_energy *e, const struct infp_report_engines *engines,
                           const struct infp_requests *requests)
{
        e->tokens = by_engines(e, engines);
        if (!(e->tokens.generated > 0) && requests && requests->output_tokens > 0)
                e->tokens = by_requests(e, requests);
        if (!(e->tokens.generated > 0))
                e->tokens = no_tokens;
        e->j_per_generated = per(e->tokens.joules, e->tokens.generated);
        e->j_per_token = per(e->tokens.joules, e->tokens.generated + e->tokens.prompt);
        e->j_per_request = per(e->tokens.joules, e->tokens.requests);
        e->gpu_j_per_generated = per(e->tokens.gpu_joules, e->tokens.generated);
}
