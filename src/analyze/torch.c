#include "analyze/torch.h"

#include <errno.h>
#include <stdlib.h>

#include "analyze/scan_some.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"
#include "model/python_tables.h"

enum { MOST_MODULES = 65536 };
static const char *const stage_names[INFP_TORCH_STAGES] = { "forward", "backward", "step" };

enum { MODULE, STAGE, CLASS, DURATION, SELF, GROWTH };
static const char *const trace_columns[] = { "module", "stage", "class", "duration", "self_duration", "growth", NULL };
enum { STEP, PHASE, SHAPE, KIND, STEP_DURATION, GC, DATA, NOTE };
static const char *const step_columns[] = { "step", "phase", "shape", "kind", "duration", "gc", "data", "note", NULL };
enum { PROCESS, PAIRS, EVERY, HOOKS, HOOKS_LOW, HOOKS_HIGH, OWN, OVERHEAD, LOW, HIGH };
static const char *const overhead_columns[] = { "process", "pairs",    "every", "hooks", "hooks_low", "hooks_high",
                                                "own",     "overhead", "low",   "high",  NULL };
enum { GC_DURATION, GC_SHORT, GC_SHORT_DURATION };
static const char *const gc_columns[] = { "duration", "short", "short_duration", NULL };

/* Rows are a program's, which may write anything. */
enum { MOST_COUNT = 1 << 30 };

static int64_t count_of(double number)
{
        return number >= 0 && number <= MOST_COUNT ? (int64_t) number : 0;
}

struct reading {
        struct infp_torch_report *ret;
        struct infp_map modules, classes; /* name and class, class: index */
};

const char *infp_torch_stage_name(enum infp_torch_stage stage)
{
        return stage_names[stage];
}

/* 0 for no text. */
static int keep(struct infp_torch_report *ret, const struct infp_batch *batch, int column, uint32_t row,
                uint32_t *number)
{
        size_t size;
        const char *text = infp_cell_str(batch, column, row, &size);

        return infp_strings_add(&ret->strings, text, size, number);
}

static void add_time(struct infp_torch_time *time, double seconds, double self_s)
{
        time->calls++;
        time->seconds += seconds;
        time->self_s += self_s; /* NAN stays */
}

/* NULL: no memory, or *is_full. */
static struct infp_torch_module *module_of(struct reading *reading, uint32_t name, uint32_t cls, bool *is_full)
{
        struct infp_torch_report *ret = reading->ret;
        const uint64_t key = ((uint64_t) name << 32) | cls;
        const uint64_t *at = infp_map_get(&reading->modules, key);

        if (at)
                return &ret->modules[*at];
        *is_full = ret->n >= MOST_MODULES;
        if (*is_full || !INFP_MAKE_ROOM(ret->modules, ret->n, ret->cap, 64) ||
            infp_map_put(&reading->modules, key, ret->n) < 0)
                return NULL;
        ret->modules[ret->n] = (struct infp_torch_module){ .name = name, .cls = cls };
        return &ret->modules[ret->n++];
}

static struct infp_torch_class *class_of(struct reading *reading, uint32_t name)
{
        struct infp_torch_report *ret = reading->ret;
        const uint64_t *at = infp_map_get(&reading->classes, name);

        if (at)
                return &ret->classes[*at];
        if (!INFP_MAKE_ROOM(ret->classes, ret->n_classes, ret->classes_cap, 16) ||
            infp_map_put(&reading->classes, name, ret->n_classes) < 0)
                return NULL;
        ret->classes[ret->n_classes] = (struct infp_torch_class){ .name = name };
        return &ret->classes[ret->n_classes++];
}

static int take_call(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct reading *reading = context;
        const double seconds = infp_cell_number(batch, at[DURATION], row),
                     self_s = infp_cell_number(batch, at[SELF], row), growth = infp_cell_number(batch, at[GROWTH], row);
        struct infp_torch_module *module;
        struct infp_torch_class *cls;
        unsigned stage = 0;
        uint32_t name, cls_name;
        bool is_full = false;

        while (stage < INFP_TORCH_STAGES && !infp_cell_is(batch, at[STAGE], row, stage_names[stage]))
                stage++;
        if (stage == INFP_TORCH_STAGES)
                return 0;
        INFP_TRY(keep(reading->ret, batch, at[MODULE], row, &name));
        INFP_TRY(keep(reading->ret, batch, at[CLASS], row, &cls_name));
        module = module_of(reading, name, cls_name, &is_full);
        if (!module) {
                reading->ret->n_calls_left_out += is_full;
                return is_full ? 0 : -ENOMEM;
        }
        cls = class_of(reading, cls_name);
        if (!cls)
                return -ENOMEM;
        if (!isnan(growth)) {
                module->growths++;
                module->growth_mib += growth;
        }
        if (!infp_torch_is_time(seconds))
                return 0;
        add_time(&module->of[stage], seconds, self_s);
        add_time(&module->all, seconds, self_s);
        add_time(&cls->all, seconds, self_s);
        add_time(&reading->ret->stages[stage], seconds, self_s);
        return 0;
}

/* NULL: there are too many, which no program has. */
static struct infp_torch_phase *phase_of(struct infp_torch_report *ret, uint32_t name)
{
        for (unsigned i = 0; i < ret->n_phases; i++)
                if (ret->phases[i].name == name)
                        return &ret->phases[i];
        if (ret->n_phases == INFP_TORCH_PHASES) /* bound: four are written */
                return NULL;
        ret->phases[ret->n_phases] = (struct infp_torch_phase){ .name = name };
        return &ret->phases[ret->n_phases++];
}

static void keep_slowest(struct infp_torch_phase *phase, const struct infp_torch_step *step)
{
        unsigned i = phase->n_slowest < INFP_TORCH_SLOWEST ? phase->n_slowest++ : INFP_TORCH_SLOWEST;

        for (; i && phase->slowest[i - 1].seconds < step->seconds; i--)
                if (i < INFP_TORCH_SLOWEST)
                        phase->slowest[i] = phase->slowest[i - 1];
        if (i < INFP_TORCH_SLOWEST)
                phase->slowest[i] = *step;
}

static int take_note(struct infp_torch_report *ret, const struct infp_batch *batch, const int *at, uint32_t row)
{
        uint32_t note;

        INFP_TRY(keep(ret, batch, at[NOTE], row, &note));
        for (unsigned i = 0; i < ret->n_notes; i++)
                if (ret->notes[i] == note)
                        return 0;
        if (note && ret->n_notes < INFP_TORCH_NOTES) /* bound: there are a few texts */
                ret->notes[ret->n_notes++] = note;
        return 0;
}

static int take_step(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_torch_report *ret = context;
        struct infp_torch_step step = { .step = -1 };
        const bool is_hooked =
                infp_cell_is(batch, at[KIND], row, "hooked") || infp_cell_is(batch, at[KIND], row, "first");
        struct infp_torch_phase *phase;
        uint32_t name;

        step.seconds = infp_cell_number(batch, at[STEP_DURATION], row);
        if (!infp_torch_is_time(step.seconds))
                return take_note(ret, batch, at, row);
        INFP_TRY(keep(ret, batch, at[PHASE], row, &name));
        INFP_TRY(keep(ret, batch, at[SHAPE], row, &step.shape));
        INFP_TRY(keep(ret, batch, at[NOTE], row, &step.note));
        if (infp_cell_has(batch, at[STEP], row))
                step.step = infp_batch_i64(batch, (unsigned) at[STEP], row);
        step.gc_s = infp_cell_number(batch, at[GC], row);
        step.data_s = infp_cell_number(batch, at[DATA], row);
        ret->n_steps++;
        ret->n_hooked += is_hooked;
        phase = phase_of(ret, name);
        if (!phase)
                return 0;
        phase->n_hooked += is_hooked;
        infp_samples_add(&phase->durations, (uint64_t) (step.seconds * 1e9));
        keep_slowest(phase, &step);
        return 0;
}

static int take_overhead(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_torch_report *ret = context;
        struct infp_torch_overhead *last = ret->overheads;
        const uint64_t process =
                infp_cell_has(batch, at[PROCESS], row) ? infp_batch_u64(batch, (unsigned) at[PROCESS], row) : 0;

        while (last < ret->overheads + ret->n_overheads && last->process_id != process)
                last++;
        if (last == ret->overheads + INFP_TORCH_PROCESSES) /* bound: more processes are not shown */
                return 0;
        if (last == ret->overheads + ret->n_overheads)
                ret->n_overheads++;
        else if (infp_cell_number(batch, at[PAIRS], row) < (double) last->pairs)
                return 0; /* rows need not lie in order */
        *last = (struct infp_torch_overhead){
                .process_id = process,
                .pairs = count_of(infp_cell_number(batch, at[PAIRS], row)),
                .every = count_of(infp_cell_number(batch, at[EVERY], row)),
                .hooks = infp_cell_number(batch, at[HOOKS], row),
                .hooks_low = infp_cell_number(batch, at[HOOKS_LOW], row),
                .hooks_high = infp_cell_number(batch, at[HOOKS_HIGH], row),
                .own = infp_cell_number(batch, at[OWN], row),
                .overhead = infp_cell_number(batch, at[OVERHEAD], row),
                .low = infp_cell_number(batch, at[LOW], row),
                .high = infp_cell_number(batch, at[HIGH], row),
        };
        return 0;
}

static int take_collection(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_torch_report *ret = context;
        const double seconds = infp_cell_number(batch, at[GC_DURATION], row),
                     n_short = infp_cell_number(batch, at[GC_SHORT], row),
                     short_s = infp_cell_number(batch, at[GC_SHORT_DURATION], row);

        if (!infp_torch_is_time(seconds))
                return 0;
        ret->n_collections += 1 + (uint64_t) count_of(n_short);
        ret->collections_s += seconds + (infp_torch_is_time(short_s) ? short_s : 0);
        if (seconds > ret->longest_collection_s)
                ret->longest_collection_s = seconds;
        return 0;
}

static int by_weight(double x, double y, uint32_t a, uint32_t b)
{
        return x > y ? -1 : x < y ? 1 : a < b ? -1 : a > b;
}

static int by_module(const void *a, const void *b)
{
        const struct infp_torch_module *x = a, *y = b;

        return by_weight(infp_torch_weight(&x->all), infp_torch_weight(&y->all), x->name, y->name);
}

static int by_class(const void *a, const void *b)
{
        const struct infp_torch_class *x = a, *y = b;

        return by_weight(infp_torch_weight(&x->all), infp_torch_weight(&y->all), x->name, y->name);
}

static int read_tables(struct infp_run *run, const struct infp_scan_options *options, struct reading *reading,
                       struct infp_err *err)
{
        struct infp_torch_report *ret = reading->ret;

        INFP_TRY(infp_scan_rows(run, infp_table_torch_trace.name, trace_columns, options, take_call, reading, err));
        INFP_TRY(infp_scan_rows(run, infp_table_torch_steps.name, step_columns, options, take_step, ret, err));
        INFP_TRY(infp_scan_rows(run, infp_table_torch_overhead.name, overhead_columns, options, take_overhead, ret,
                                err));
        return infp_scan_rows(run, infp_table_gc.name, gc_columns, options, take_collection, ret, err);
}

int infp_torch_read(struct infp_run *run, const struct infp_scan_options *options, struct infp_torch_report *ret,
                    struct infp_err *err)
{
        struct reading reading = { .ret = ret };
        int r;

        *ret = (struct infp_torch_report){ .phases = calloc(INFP_TORCH_PHASES, sizeof(*ret->phases)) };
        if (!ret->phases)
                return infp_fail(err, -ENOMEM, "no memory for the report");
        r = read_tables(run, options, &reading, err);
        infp_map_done(&reading.modules);
        infp_map_done(&reading.classes);
        infp_sort(ret->modules, ret->n, sizeof(*ret->modules), by_module);
        infp_sort(ret->classes, ret->n_classes, sizeof(*ret->classes), by_class);
        return r;
}

void infp_torch_done(struct infp_torch_report *torch)
{
        for (unsigned i = 0; i < torch->n_phases; i++)
                infp_samples_done(&torch->phases[i].durations);
        free(torch->phases);
        free(torch->modules);
        free(torch->classes);
        infp_strings_done(&torch->strings);
        *torch = (struct infp_torch_report){ 0 };
}

double infp_torch_own_s(const struct infp_torch_report *torch)
{
        double ret = 0;

        for (unsigned i = 0; i < INFP_TORCH_STAGES; i++)
                ret += torch->stages[i].calls ? torch->stages[i].self_s : 0;
        return ret;
}

double infp_torch_median_s(struct infp_torch_phase *phase)
{
        struct infp_quantile at;

        return infp_samples_quantile(&phase->durations, 0.5, &at) ? at.estimate : NAN;
}

double infp_torch_growth_bytes(const struct infp_torch_module *module)
{
        return module->growths ? module->growth_mib / (double) module->growths * 1048576 : NAN;
}

static int by_growth(const void *a, const void *b)
{
        const double x = (*(const struct infp_torch_module *const *) a)->growth_mib,
                     y = (*(const struct infp_torch_module *const *) b)->growth_mib;

        return x > y ? -1 : x < y;
}

unsigned infp_torch_growths(const struct infp_torch_report *torch, const struct infp_torch_module **ret, unsigned most)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < torch->n; i++) {
                const struct infp_torch_module *module = &torch->modules[i];

                if (!module->growths || !(module->growth_mib > 0))
                        continue;
                if (n == most && ret[n - 1]->growth_mib >= module->growth_mib) /* bound: the most are kept */
                        continue;
                ret[n < most ? n++ : n - 1] = module;
                infp_sort(ret, n, sizeof(*ret), by_growth);
        }
        return n;
}

static int by_excess(const void *a, const void *b)
{
        const struct infp_torch_long_step *x = a, *y = b;
        const double p = x->step->seconds - x->median_s, q = y->step->seconds - y->median_s;

        return p > q ? -1 : p < q;
}

unsigned infp_torch_long_steps(const struct infp_torch_report *torch,
                               struct infp_torch_long_step ret[INFP_TORCH_SLOWEST])
{
        struct infp_torch_long_step all[INFP_TORCH_PHASES * INFP_TORCH_SLOWEST];
        unsigned n = 0, n_long = 0;

        for (unsigned i = 0; i < torch->n_phases; i++)
                for (unsigned k = 0; k < torch->phases[i].n_slowest; k++)
                        all[n++] = (struct infp_torch_long_step){ &torch->phases[i].slowest[k], &torch->phases[i],
                                                                  infp_torch_median_s(&torch->phases[i]) };
        infp_sort(all, n, sizeof(*all), by_excess);
        /* bound: the slowest; those that are hardly slower than the others of their kind are not */
        while (n_long < n && n_long < INFP_TORCH_SLOWEST && all[n_long].step->seconds > 1.5 * all[n_long].median_s) {
                ret[n_long] = all[n_long];
                n_long++;
        }
        return n_long;
}
