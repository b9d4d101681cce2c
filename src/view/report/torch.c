/* What PyTorch programs spent in their modules and steps: in the text report and in its JSON. */
#include <math.h>
#include <string.h>

#include "base/human.h"
#include "base/sort.h"
#include "view/report/parts.h"

enum { SHOWN = 16, CLASSES_SHOWN = 5, GROWTHS_SHOWN = 3, NAME_WIDTH = 34, CLASS_WIDTH = 20, MOST_JSON = 4096 };

/* A step that was long, and how long those of its phase are. */
struct long_step {
        const struct infp_torch_step *step;
        const struct infp_torch_phase *phase;
        double median_s;
};

static double median_s(struct infp_torch_phase *phase)
{
        struct infp_quantile at;

        return infp_samples_quantile(&phase->durations, 0.5, &at) ? at.estimate : NAN;
}

static struct human percent(double share)
{
        return infp_number(100 * share);
}

static void put_time(struct infp_out *out, double seconds)
{
        infp_report_put(out, " %9s", isnan(seconds) ? "-" : infp_report_seconds(seconds).text);
}

static void put_module(struct infp_out *out, const struct infp_torch_report *torch,
                       const struct infp_torch_module *module)
{
        infp_report_put(out, "  ");
        infp_report_put_padded(out, infp_report_string(&torch->strings, module->name), NAME_WIDTH, false);
        infp_report_put(out, " %7s", infp_count(module->all.calls).text);
        put_time(out, module->all.self_s);
        put_time(out, module->all.seconds);
        infp_report_put(out, "  ");
        infp_report_put_padded(out, infp_report_string(&torch->strings, module->cls), CLASS_WIDTH, true);
        infp_report_end(out);
}

static void put_modules(struct infp_out *out, const struct infp_torch_report *torch)
{
        if (!torch->n)
                return;
        infp_report_title(out, "Modules of PyTorch                     calls      self     total  class");
        for (uint32_t i = 0; i < torch->n && i < SHOWN; i++) /* bound: the rest is counted below */
                put_module(out, torch, &torch->modules[i]);
        if (torch->n > SHOWN)
                infp_report_line(out, "", "%s more; `infprof query \"FROM python.torch_trace\"` has each call",
                                 infp_count(torch->n - SHOWN).text);
}

static void put_sums(struct infp_out *out, const struct infp_torch_report *torch)
{
        infp_autostr struct infp_str stages = { 0 }, classes = { 0 };
        double all = 0;

        for (unsigned i = 0; i < INFP_TORCH_STAGES; i++)
                all += torch->stages[i].calls ? torch->stages[i].self_s : 0;
        if (!(all > 0)) /* also where own times are not known */
                return;
        for (unsigned i = 0; i < INFP_TORCH_STAGES; i++)
                if (torch->stages[i].calls)
                        infp_str_printf(&stages, "%s%s %s", stages.size ? ", " : "", infp_torch_stage_name(i),
                                        infp_report_seconds(torch->stages[i].self_s).text);
        for (uint32_t i = 0; i < torch->n_classes && i < CLASSES_SHOWN; i++) /* bound: those that take most */
                infp_str_printf(&classes, "%s%s %s %%", classes.size ? ", " : "",
                                infp_report_string(&torch->strings, torch->classes[i].name),
                                infp_fixed(100 * torch->classes[i].all.self_s / all, 1).text);
        infp_report_line(out, "stages", "%s, in the steps that were sampled", stages.data ? stages.data : "");
        infp_report_line(out, "classes", "%s", classes.data ? classes.data : "");
}

static int by_growth(const void *a, const void *b)
{
        const double x = (*(const struct infp_torch_module *const *) a)->growth_mib,
                     y = (*(const struct infp_torch_module *const *) b)->growth_mib;

        return x > y ? -1 : x < y;
}

/* Modules that have allocated more than they freed, the most first; at most GROWTHS_SHOWN. */
static unsigned find_growths(const struct infp_torch_report *torch, const struct infp_torch_module **ret)
{
        unsigned n = 0;

        for (uint32_t i = 0; i < torch->n; i++) {
                const struct infp_torch_module *module = &torch->modules[i];

                if (!module->growths || !(module->growth_mib > 0))
                        continue;
                if (n == GROWTHS_SHOWN && ret[n - 1]->growth_mib >= module->growth_mib) /* bound: the most are kept */
                        continue;
                ret[n < GROWTHS_SHOWN ? n++ : n - 1] = module;
                infp_sort(ret, n, sizeof(*ret), by_growth);
        }
        return n;
}

static void put_growths(struct infp_out *out, const struct infp_torch_report *torch)
{
        const struct infp_torch_module *modules[GROWTHS_SHOWN];
        infp_autostr struct infp_str words = { 0 };

        for (unsigned i = 0, n = find_growths(torch, modules); i < n; i++)
                infp_str_printf(
                        &words, "%s%s %s a call", words.size ? ", " : "",
                        infp_report_string(&torch->strings, modules[i]->name),
                        infp_report_bytes(modules[i]->growth_mib / (double) modules[i]->growths * 1048576).text);
        if (words.size)
                infp_report_line(out, "growth", "memory of the device after a call, more than before it: %s",
                                 words.data);
}

static void put_phases(struct infp_out *out, const struct infp_torch_report *torch)
{
        infp_autostr struct infp_str words = { 0 };

        for (unsigned i = 0; i < torch->n_phases; i++) {
                struct infp_torch_phase *phase = &torch->phases[i];
                const uint64_t n = phase->durations.stat.n;

                infp_str_printf(&words, "%s%s %s of %s (median; longest %s)", i ? ", " : "", infp_count(n).text,
                                phase->name ? infp_report_string(&torch->strings, phase->name) : "steps",
                                infp_report_seconds(median_s(phase)).text,
                                infp_report_seconds(phase->durations.stat.max / 1e9).text);
        }
        if (words.size)
                infp_report_line(out, "steps", "%s; hooks stood on %s of %s", words.data,
                                 infp_count(torch->n_hooked).text, infp_count(torch->n_steps).text);
}

static int by_excess(const void *a, const void *b)
{
        const struct long_step *x = a, *y = b;
        const double p = x->step->seconds - x->median_s, q = y->step->seconds - y->median_s;

        return p > q ? -1 : p < q;
}

/* What is known of why: "" for nothing. */
static void put_why(struct infp_str *words, const struct infp_torch_report *torch, const struct long_step *is)
{
        const double excess = is->step->seconds - is->median_s;
        const char *phase = is->phase->name ? infp_report_string(&torch->strings, is->phase->name) : "";

        if (is->step->note)
                infp_str_printf(words, ": %s", infp_report_string(&torch->strings, is->step->note));
        if (is->step->gc_s > 0.2 * excess)
                infp_str_printf(words, "%s %s of garbage collection", words->size ? "," : ":",
                                infp_report_seconds(is->step->gc_s).text);
        /* Loading is within steps that follow each other without a gap alone. */
        if (is->step->data_s > 0.2 * excess && !strcmp(phase, "train"))
                infp_str_printf(words, "%s %s of data loading", words->size ? "," : ":",
                                infp_report_seconds(is->step->data_s).text);
}

static void put_slowest(struct infp_out *out, const struct infp_torch_report *torch)
{
        struct long_step steps[INFP_TORCH_PHASES * INFP_TORCH_SLOWEST];
        unsigned n = 0;

        for (unsigned i = 0; i < torch->n_phases; i++)
                for (unsigned k = 0; k < torch->phases[i].n_slowest; k++)
                        steps[n++] = (struct long_step){ &torch->phases[i].slowest[k], &torch->phases[i],
                                                         median_s(&torch->phases[i]) };
        infp_sort(steps, n, sizeof(*steps), by_excess);
        /* bound: the slowest; those that are hardly slower than the others of their kind are not */
        for (unsigned i = 0; i < n && i < INFP_TORCH_SLOWEST && steps[i].step->seconds > 1.5 * steps[i].median_s; i++) {
                infp_autostr struct infp_str why = { 0 };

                put_why(&why, torch, &steps[i]);
                infp_report_line(
                        out, i ? "" : "slowest", "step %lld (%s%s%s): %s, %s more than the median%s",
                        (long long) steps[i].step->step,
                        steps[i].phase->name ? infp_report_string(&torch->strings, steps[i].phase->name) : "step",
                        steps[i].step->shape ? " " : "",
                        steps[i].step->shape ? infp_report_string(&torch->strings, steps[i].step->shape) : "",
                        infp_report_seconds(steps[i].step->seconds).text,
                        infp_report_seconds(steps[i].step->seconds - steps[i].median_s).text, why.data ? why.data : "");
        }
}

static void put_overhead(struct infp_out *out, const struct infp_torch_overhead *overhead, bool is_first)
{
        if (isnan(overhead->overhead))
                infp_report_line(out, is_first ? "overhead" : "",
                                 "not known yet: %s pairs of steps with and without hooks, 6 are needed",
                                 infp_count((uint64_t) overhead->pairs).text);
        else
                infp_report_line(
                        out, is_first ? "overhead" : "",
                        "%s %% of the time of steps [95 %%: %s to %s], of which %s %% beside steps; by %s pairs of "
                        "steps with and without hooks. Hooks on all steps would add %s %% [%s to %s]; they stand on "
                        "one in %s",
                        percent(overhead->overhead).text, percent(overhead->low).text, percent(overhead->high).text,
                        percent(overhead->own).text, infp_count((uint64_t) overhead->pairs).text,
                        percent(overhead->hooks).text, percent(overhead->hooks_low).text,
                        percent(overhead->hooks_high).text, infp_count((uint64_t) overhead->every).text);
}

void infp_report_torch(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_torch_report *torch = &report->torch;

        if (!infp_torch_has(torch))
                return;
        put_modules(out, torch);
        if (!torch->n)
                infp_report_title(out, "Steps of PyTorch");
        put_sums(out, torch);
        put_growths(out, torch);
        put_phases(out, torch);
        put_slowest(out, torch);
        if (torch->n_collections)
                infp_report_line(out, "garbage", "%s collections took %s, the longest %s",
                                 infp_count(torch->n_collections).text, infp_report_seconds(torch->collections_s).text,
                                 infp_report_seconds(torch->longest_collection_s).text);
        for (unsigned i = 0; i < torch->n_overheads; i++)
                put_overhead(out, &torch->overheads[i], !i);
        for (unsigned i = 0; i < torch->n_notes; i++)
                infp_report_line(out, i ? "" : "no hooks", "%s", infp_report_string(&torch->strings, torch->notes[i]));
}

void infp_report_torch_short(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_torch_report *torch = &report->torch;
        const struct infp_torch_module *most = torch->modules;
        double all = 0;

        for (unsigned i = 0; i < INFP_TORCH_STAGES; i++)
                all += torch->stages[i].calls ? torch->stages[i].self_s : 0;
        if (!torch->n || !(all > 0))
                return;
        infp_report_title(out, "PyTorch");
        infp_report_line(out, "modules",
                         "%s (%s) takes most, %s %% of the time in modules by %s of %s steps: `infprof report torch`",
                         infp_report_string(&torch->strings, most->name),
                         infp_report_string(&torch->strings, most->cls),
                         infp_fixed(100 * most->all.self_s / all, 1).text, infp_count(torch->n_hooked).text,
                         infp_count(torch->n_steps).text);
}

static void json_text(struct infp_json *json, const char *key, const struct infp_torch_report *torch, uint32_t number)
{
        infp_json_member_str(json, key, infp_strings_get(&torch->strings, number));
}

static void json_time(struct infp_json *json, const struct infp_torch_time *time)
{
        infp_json_member_u64(json, "calls", time->calls);
        infp_json_member_f64(json, "total_s", time->seconds);
        infp_json_member_f64(json, "self_s", time->self_s);
}

static void json_module(struct infp_json *json, const struct infp_torch_report *torch,
                        const struct infp_torch_module *module)
{
        infp_json_object(json);
        json_text(json, "name", torch, module->name);
        json_text(json, "class", torch, module->cls);
        json_time(json, &module->all);
        for (unsigned i = 0; i < INFP_TORCH_STAGES; i++) {
                if (!module->of[i].calls)
                        continue;
                infp_json_key(json, infp_torch_stage_name(i));
                infp_json_object(json);
                json_time(json, &module->of[i]);
                infp_json_object_end(json);
        }
        infp_json_member_f64(json, "growth_mib", module->growths ? module->growth_mib : NAN);
        infp_json_object_end(json);
}

static void json_phase(struct infp_json *json, const struct infp_torch_report *torch, struct infp_torch_phase *phase)
{
        infp_json_object(json);
        json_text(json, "phase", torch, phase->name);
        infp_json_member_u64(json, "steps", phase->durations.stat.n);
        infp_json_member_u64(json, "hooked", phase->n_hooked);
        infp_json_member_f64(json, "median_s", median_s(phase));
        infp_json_member_f64(json, "max_s", phase->durations.stat.max / 1e9);
        infp_json_key(json, "slowest");
        infp_json_array(json);
        for (unsigned i = 0; i < phase->n_slowest; i++) {
                const struct infp_torch_step *step = &phase->slowest[i];

                infp_json_object(json);
                infp_json_member_i64(json, "step", step->step);
                json_text(json, "shape", torch, step->shape);
                infp_json_member_f64(json, "duration_s", step->seconds);
                infp_json_member_f64(json, "gc_s", step->gc_s);
                infp_json_member_f64(json, "data_s", step->data_s);
                json_text(json, "note", torch, step->note);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_object_end(json);
}

static void json_overhead(struct infp_json *json, const struct infp_torch_overhead *overhead)
{
        infp_json_object(json);
        infp_json_member_i64(json, "pairs", overhead->pairs);
        infp_json_member_i64(json, "every", overhead->every);
        infp_json_member_f64(json, "overhead", overhead->overhead);
        infp_json_member_f64(json, "low", overhead->low);
        infp_json_member_f64(json, "high", overhead->high);
        infp_json_member_f64(json, "own", overhead->own);
        infp_json_member_f64(json, "hooks", overhead->hooks);
        infp_json_member_f64(json, "hooks_low", overhead->hooks_low);
        infp_json_member_f64(json, "hooks_high", overhead->hooks_high);
        infp_json_object_end(json);
}

/* null: nothing was profiled. */
void infp_report_json_torch(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_torch_report *torch = &report->torch;

        infp_json_key(json, "torch");
        if (!infp_torch_has(torch)) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_u64(json, "steps", torch->n_steps);
        infp_json_member_u64(json, "hooked", torch->n_hooked);
        infp_json_key(json, "modules");
        infp_json_array(json);
        for (uint32_t i = 0; i < torch->n && i < MOST_JSON; i++) /* bound: the rest is counted below */
                json_module(json, torch, &torch->modules[i]);
        infp_json_array_end(json);
        infp_json_member_u64(json, "modules_left_out", torch->n > MOST_JSON ? torch->n - MOST_JSON : 0);
        infp_json_member_u64(json, "calls_left_out", torch->n_calls_left_out);
        infp_json_key(json, "phases");
        infp_json_array(json);
        for (unsigned i = 0; i < torch->n_phases; i++)
                json_phase(json, torch, &torch->phases[i]);
        infp_json_array_end(json);
        infp_json_key(json, "overhead");
        infp_json_array(json);
        for (unsigned i = 0; i < torch->n_overheads; i++)
                json_overhead(json, &torch->overheads[i]);
        infp_json_array_end(json);
        infp_json_member_u64(json, "collections", torch->n_collections);
        infp_json_member_f64(json, "collections_s", torch->collections_s);
        infp_json_key(json, "notes");
        infp_json_array(json);
        for (unsigned i = 0; i < torch->n_notes; i++)
                infp_json_str(json, infp_strings_get(&torch->strings, torch->notes[i]));
        infp_json_array_end(json);
        infp_json_object_end(json);
}
