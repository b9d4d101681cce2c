/* What PyTorch programs spent in their modules and steps: in the text report and in its JSON. */
#include <math.h>
#include <string.h>

#include "base/human.h"
#include "view/report/parts.h"

enum { SHOWN = 16, CLASSES_SHOWN = 5, GROWTHS_SHOWN = 3, NAME_WIDTH = 34, CLASS_WIDTH = 20, MOST_JSON = 4096 };

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
        const double all = infp_torch_own_s(torch);

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

static void put_growths(struct infp_out *out, const struct infp_torch_report *torch)
{
        const struct infp_torch_module *modules[GROWTHS_SHOWN];
        infp_autostr struct infp_str words = { 0 };

        for (unsigned i = 0, n = infp_torch_growths(torch, modules, GROWTHS_SHOWN); i < n; i++)
                infp_str_printf(&words, "%s%s %s a call", words.size ? ", " : "",
                                infp_report_string(&torch->strings, modules[i]->name),
                                infp_report_bytes(infp_torch_growth_bytes(modules[i])).text);
        if (words.size)
                infp_report_line(out, "growth", "memory of the device after a call, more than before it: %s",
                                 words.data);
}

const char *infp_report_torch_phase(const struct infp_torch_report *torch, const struct infp_torch_phase *phase,
                                    const char *otherwise)
{
        return phase->name ? infp_report_string(&torch->strings, phase->name) : otherwise;
}

static void put_phases(struct infp_out *out, const struct infp_torch_report *torch)
{
        infp_autostr struct infp_str words = { 0 };

        for (unsigned i = 0; i < torch->n_phases; i++) {
                struct infp_torch_phase *phase = &torch->phases[i];
                const uint64_t n = phase->durations.stat.n;

                infp_str_printf(&words, "%s%s %s of %s (median; longest %s)", i ? ", " : "", infp_count(n).text,
                                infp_report_torch_phase(torch, phase, "steps"),
                                infp_report_seconds(infp_torch_median_s(phase)).text,
                                infp_report_seconds(phase->durations.stat.max / 1e9).text);
        }
        if (words.size)
                infp_report_line(out, "steps", "%s; hooks stood on %s of %s", words.data,
                                 infp_count(torch->n_hooked).text, infp_count(torch->n_steps).text);
}

void infp_report_torch_why(struct infp_str *words, const struct infp_torch_report *torch,
                           const struct infp_torch_long_step *is)
{
        const double excess = is->step->seconds - is->median_s;
        const char *phase = infp_report_torch_phase(torch, is->phase, "");

        if (is->step->note)
                infp_str_puts(words, infp_report_string(&torch->strings, is->step->note));
        if (is->step->gc_s > 0.2 * excess)
                infp_str_printf(words, "%s%s of garbage collection", words->size ? ", " : "",
                                infp_report_seconds(is->step->gc_s).text);
        /* Loading is within steps that follow each other without a gap alone. */
        if (is->step->data_s > 0.2 * excess && !strcmp(phase, "train"))
                infp_str_printf(words, "%s%s of data loading", words->size ? ", " : "",
                                infp_report_seconds(is->step->data_s).text);
}

static void put_slowest(struct infp_out *out, const struct infp_torch_report *torch)
{
        struct infp_torch_long_step steps[INFP_TORCH_SLOWEST];
        const unsigned n = infp_torch_long_steps(torch, steps);

        for (unsigned i = 0; i < n; i++) {
                const struct infp_torch_step *step = steps[i].step;
                infp_autostr struct infp_str why = { 0 };

                infp_report_torch_why(&why, torch, &steps[i]);
                infp_report_line(out, i ? "" : "slowest", "step %lld (%s%s%s): %s, %s more than the median%s%s",
                                 (long long) step->step, infp_report_torch_phase(torch, steps[i].phase, "step"),
                                 step->shape ? " " : "",
                                 step->shape ? infp_report_string(&torch->strings, step->shape) : "",
                                 infp_report_seconds(step->seconds).text,
                                 infp_report_seconds(step->seconds - steps[i].median_s).text, why.size ? ": " : "",
                                 why.size ? why.data : "");
        }
}

void infp_report_torch_overhead(struct infp_str *words, const struct infp_torch_overhead *overhead)
{
        if (isnan(overhead->overhead))
                infp_str_printf(words, "not known yet: %s pairs of steps with and without hooks, 6 are needed",
                                infp_count((uint64_t) overhead->pairs).text);
        else
                infp_str_printf(
                        words,
                        "%s %% of the time of steps [95 %%: %s to %s], of which %s %% beside steps; by %s pairs of "
                        "steps with and without hooks. Hooks on all steps would add %s %% [%s to %s]; they stand on "
                        "one in %s",
                        percent(overhead->overhead).text, percent(overhead->low).text, percent(overhead->high).text,
                        percent(overhead->own).text, infp_count((uint64_t) overhead->pairs).text,
                        percent(overhead->hooks).text, percent(overhead->hooks_low).text,
                        percent(overhead->hooks_high).text, infp_count((uint64_t) overhead->every).text);
}

static void put_overhead(struct infp_out *out, const struct infp_torch_overhead *overhead, bool is_first)
{
        infp_autostr struct infp_str words = { 0 };

        infp_report_torch_overhead(&words, overhead);
        infp_report_line(out, is_first ? "overhead" : "", "%s", words.data ? words.data : "");
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
        const double all = infp_torch_own_s(torch);

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
        infp_json_member_f64(json, "median_s", infp_torch_median_s(phase));
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
