/* Tables that read without script: functions, modules of PyTorch, spans of programs, what happened between labels. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/flame/top.h"
#include "view/flame/trust.h"
#include "view/flame/words.h"
#include "view/html/parts.h"
#include "view/report/parts.h"

enum {
        FUNCTIONS = 10,
        LONG_NAME = 100,
        SPANS = 50,
        SHOWN = 50,
        PLACES = 8,
        LABELS = 200,
        MODULES = 20,
        CLASSES = 8,
        GROWTHS = 5
};

static void begin_section(struct infp_str *out, const char *id, const char *title)
{
        infp_str_printf(out,
                        "<section id=\"%s\" aria-labelledby=\"%s-title\"><h2 id=\"%s-title\">%s</h2>\n"
                        "<div class=\"card wide\">",
                        id, id, id, title);
}

static void end_section(struct infp_str *out)
{
        infp_str_puts(out, "</div></section>\n");
}

/* texts, numbers: heads of columns, up to a NULL. */
static void begin_table(struct infp_str *out, const char *label, const char *const *texts, const char *const *numbers)
{
        infp_str_puts(out, "\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: ");
        infp_html_text(out, label);
        infp_str_puts(out, "\"><table><thead><tr>");
        for (; *texts; texts++)
                infp_str_printf(out, "<th scope=\"col\">%s</th>", *texts);
        for (; *numbers; numbers++)
                infp_str_printf(out, "<th scope=\"col\" class=\"number\">%s</th>", *numbers);
        infp_str_puts(out, "</tr></thead><tbody>");
}

static void begin_row(struct infp_str *out, const char *name)
{
        infp_str_puts(out, "\n<tr><th scope=\"row\">");
        infp_html_text(out, name);
        infp_str_puts(out, "</th>");
}

static void put_text(struct infp_str *out, const char *text)
{
        infp_str_puts(out, "<td>");
        infp_html_text(out, text);
        infp_str_puts(out, "</td>");
}

/* The begin of a row: "worker (4242)", and its process. */
static void begin_thread(struct infp_str *out, const char *name, int64_t tid, const char *process)
{
        infp_autostr struct infp_str words = { 0 };

        infp_str_printf(&words, "%s (%lld)", name, (long long) tid);
        begin_row(out, words.data ? words.data : "");
        put_text(out, process);
}

static void put_cell(struct infp_str *out, const char *text)
{
        infp_str_puts(out, "<td class=\"number\">");
        infp_html_text(out, text);
        infp_str_puts(out, "</td>");
}

static void put_function(struct infp_str *out, const struct infp_flame *flame, const struct infp_flame_function *f,
                         bool by_total)
{
        const struct infp_flame_share self = infp_flame_share(flame, f->self_weight),
                                      total = infp_flame_share(flame, f->total_weight);
        infp_autostr struct infp_str name = { 0 };
        char cell[80];

        infp_flame_top_words(&name, f, strlen(f->name) > LONG_NAME);
        begin_row(out, name.data ? name.data : "");
        snprintf(cell, sizeof(cell), "%s %%", infp_fixed(self.percent, 2).text);
        put_cell(out, cell);
        snprintf(cell, sizeof(cell), "%s %%", infp_fixed(total.percent, 2).text);
        put_cell(out, cell);
        snprintf(cell, sizeof(cell), "%s to %s %%", infp_fixed(by_total ? total.low : self.low, 2).text,
                 infp_fixed(by_total ? total.high : self.high, 2).text);
        put_cell(out, cell);
        infp_str_puts(out, "</tr>");
}

static int put_functions(struct infp_str *out, const struct infp_flame *flame, bool by_total)
{
        static const char *const self[] = { "self", "total", "95 % of self", NULL };
        static const char *const total[] = { "self", "total", "95 % of total", NULL };
        infp_autofree uint32_t *top = calloc(infp_flame_top_room(FUNCTIONS), sizeof(*top));
        infp_autostr struct infp_str rest = { 0 };
        uint32_t n, all, n_passages;

        if (!top)
                return -ENOMEM;
        n = infp_flame_top_list(flame, by_total, FUNCTIONS, top, &all, &n_passages);
        begin_table(out, by_total ? "functions and what they call" : "functions",
                    (const char *const[]){ by_total ? "function and what it calls" : "function", NULL },
                    by_total ? total : self);
        for (uint32_t i = 0; i < n; i++)
                put_function(out, flame, &flame->functions[top[i]], by_total);
        infp_str_puts(out, "\n</tbody></table></div>");
        infp_flame_top_rest(&rest, flame, all - n, top + n, n_passages);
        if (rest.size) {
                infp_str_puts(out, "<p class=\"note\">... ");
                infp_html_text(out, rest.data);
                infp_str_puts(out, "</p>");
        }
        return 0;
}

/* The accuracy, and the command for the flame graph. */
static void put_notes(struct infp_str *out, const struct infp_report *report, const struct infp_flame *flame)
{
        infp_autostr struct infp_str words = { 0 };

        infp_sampling_words(&words, flame,
                            infp_sampling_find(&report->functions.sampling, infp_stack_mode_of(flame->mode)));
        infp_str_puts(out, "\n<p class=\"note\">");
        infp_html_text(out, words.data ? words.data : "");
        infp_str_puts(out, "</p>\n<p class=\"note\">As a flame graph: <code>infprof flamegraph -r ");
        infp_html_text(out, report->run->info.uuid);
        if (strcspn(flame->mode, " \t'\"\\$`;&|<>()*?") == strlen(flame->mode) && *flame->mode) {
                infp_str_puts(out, " --mode ");
                infp_html_text(out, flame->mode);
        }
        infp_str_puts(out, " --html -o flame.html</code></p>\n");
}

static void put_folded(struct infp_str *out, const struct infp_flame *flame)
{
        infp_autostr struct infp_str words = { 0 };

        infp_flame_top_folded(&words, flame);
        if (!words.size)
                return;
        infp_str_puts(out, "<p class=\"note\">");
        infp_html_text(out, words.data);
        infp_str_puts(out, "</p>");
}

int infp_html_functions(struct infp_str *out, const struct infp_report *report, const struct infp_html_code *code)
{
        if (!report->functions.n)
                return 0;
        infp_str_puts(out, "<section id=\"functions\" aria-labelledby=\"functions-title\">"
                           "<h2 id=\"functions-title\">Functions</h2>\n");
        for (unsigned i = 0; i < report->functions.n; i++) {
                const struct infp_flame *flame = &report->functions.flames[i];
                infp_autostr struct infp_str title = { 0 };

                infp_str_puts(out, "<div class=\"card wide\"><h3>");
                infp_report_functions_title(&title, "Functions", flame->mode, report->functions.part);
                infp_html_text(out, title.data ? title.data : "");
                infp_str_puts(out, "</h3>");
                infp_html_code_place(out, code, i);
                infp_str_puts(out, "<div class=\"plain\">"); /* the script hides it where it shows the graph */
                put_folded(out, flame);
                INFP_TRY(put_functions(out, flame, false));
                INFP_TRY(put_functions(out, flame, true));
                infp_str_puts(out, "</div>");
                put_notes(out, report, flame);
                infp_str_puts(out, "</div>\n");
        }
        infp_str_puts(out, "</section>\n");
        return 0;
}

static void put_gil_thread(struct infp_str *out, const struct infp_gil_thread *thread)
{
        static const enum infp_gil shown[] = { INFP_GIL_WAITED, INFP_GIL_HELD };
        char text[64];

        begin_thread(out, thread->name ? thread->name : "-", thread->tid, thread->process ? thread->process : "-");
        for (unsigned i = 0; i < INFP_COUNT(shown); i++) {
                snprintf(text, sizeof(text), "%s %%", infp_fixed(infp_gil_share(thread, shown[i]), 1).text);
                put_cell(out, text);
        }
        put_cell(out, infp_report_seconds(thread->known_s).text);
        infp_str_puts(out, "</tr>");
}

void infp_html_gil(struct infp_str *out, const struct infp_report *report)
{
        static const char *const texts[] = { "thread", "process", NULL }, *const numbers[] = { "waits", "holds",
                                                                                               "sampled", NULL };
        const struct infp_gil_report *gil = &report->gil;
        uint32_t n = 0;

        if (!gil->n || !infp_gil_was_used(&gil->list[0]))
                return;
        begin_section(out, "gil", "GIL of Python");
        begin_table(out, "GIL of Python, by thread", texts, numbers);
        for (; n < gil->n && n < SHOWN && infp_gil_was_used(&gil->list[n]); n++) /* bound: the rest is counted below */
                put_gil_thread(out, &gil->list[n]);
        infp_str_puts(out,
                      "\n</tbody></table></div>\n<p class=\"note\">Shares of each thread's time in the whole report: "
                      "estimates from samples of --wall.");
        if (n < gil->n)
                infp_str_printf(out, " %s more thread%s of Python used it less, or not at all.",
                                infp_count(gil->n - n).text, gil->n - n == 1 ? "" : "s");
        infp_str_puts(out, "</p>");
        end_section(out);
}

/* A cell with each place in a line, and its time. whole: a share of it in place of the time; 0: none. */
static void put_places(struct infp_str *out, const struct infp_strings *strings,
                       const struct infp_profile_places *places, double whole)
{
        infp_str_puts(out, "<td>");
        for (uint32_t i = 0; i < places->n && i < PLACES; i++) { /* bound: figures beside them have all */
                const struct infp_profile_place *place = &places->list[i];
                infp_autostr struct infp_str words = { 0 };

                infp_report_place(&words, strings, place);
                if (whole > 0)
                        infp_str_printf(&words, ", %s %%", infp_fixed(100 * place->seconds / whole, 1).text);
                else
                        infp_str_printf(&words, ", %s", infp_report_seconds(place->seconds).text);
                infp_str_puts(out, i ? "<br>" : "");
                infp_html_text(out, words.data ? words.data : "");
        }
        infp_str_puts(out, "</td>");
}

static void put_held(struct infp_str *out, const struct infp_lag_report *lag, const struct infp_lag_thread *thread)
{
        begin_thread(out, infp_report_string(&lag->strings, thread->name), thread->tid,
                     infp_report_string(&lag->strings, thread->process));
        put_places(out, &lag->strings, &thread->places, 0);
        put_cell(out, infp_count(thread->n).text);
        put_cell(out, infp_report_seconds(thread->seconds).text);
        put_cell(out, infp_report_seconds(thread->longest_s).text);
        infp_str_puts(out, "</tr>");
}

static void put_note(void *context, const char *label, const char *text)
{
        struct infp_str *out = context;

        infp_str_printf(out, "\n<p class=\"note\">%s: ", label);
        infp_html_text(out, text);
        infp_str_puts(out, "</p>");
}

void infp_html_lag(struct infp_str *out, const struct infp_report *report)
{
        static const char *const texts[] = { "thread", "process", "where", NULL }, *const numbers[] = {
                "times", "in all", "longest", NULL
        };
        const struct infp_lag_report *lag = &report->lag;

        if (!infp_report_lag_was_sought(report))
                return;
        begin_section(out, "lag", "Event loops held by a callback");
        if (lag->n)
                begin_table(out, "event loops held by a callback, by thread", texts, numbers);
        for (uint32_t i = 0; i < lag->n && i < SHOWN; i++) /* bound: the rest is counted below */
                put_held(out, lag, &lag->list[i]);
        infp_str_puts(out, lag->n ? "\n</tbody></table></div>" : "");
        if (lag->n > SHOWN)
                infp_str_printf(out, "\n<p class=\"note\">%s more.</p>", infp_count(lag->n - SHOWN).text);
        infp_report_lag_notes(report, put_note, out);
        end_section(out);
}

static void put_task(struct infp_str *out, const struct infp_tasks *tasks, const struct infp_task *task)
{
        char text[64];

        begin_row(out, infp_report_string(&tasks->strings, task->name));
        put_text(out, infp_report_string(&tasks->strings, task->process));
        put_places(out, &tasks->strings, &task->places, task->total_s);
        put_cell(out, infp_report_seconds(task->total_s).text);
        for (unsigned i = 0; i < INFP_TASK_DOES; i++) {
                snprintf(text, sizeof(text), "%s %%", infp_report_task_share(task, task->seconds[i]).text);
                put_cell(out, text);
        }
        infp_str_puts(out, "</tr>");
}

void infp_html_tasks(struct infp_str *out, const struct infp_report *report)
{
        static const char *const texts[] = { "task", "process", "where it waits", NULL }, *const numbers[] = {
                "time", "awaits", "ready", "runs", NULL
        };
        const struct infp_tasks *tasks = &report->tasks;

        if (!tasks->n)
                return;
        begin_section(out, "tasks", "Tasks of asyncio");
        begin_table(out, "tasks of asyncio, by name", texts, numbers);
        for (uint32_t i = 0; i < tasks->n && i < SHOWN; i++) /* bound: the rest is counted below */
                put_task(out, tasks, &tasks->list[i]);
        infp_str_puts(out, "\n</tbody></table></div>");
        if (tasks->n > SHOWN)
                infp_str_printf(out, "\n<p class=\"note\">Tasks of %s more name%s.</p>",
                                infp_count(tasks->n - SHOWN).text, tasks->n - SHOWN == 1 ? "" : "s");
        put_note(out, "estimated", infp_report_tasks_note);
        end_section(out);
}

static void put_seconds(struct infp_str *out, double seconds)
{
        put_cell(out, isnan(seconds) ? "-" : infp_report_seconds(seconds).text);
}

/* Calls, their own time, and its share of `all`. */
static void put_torch_own(struct infp_str *out, const struct infp_torch_time *time, double all)
{
        char text[64] = "-";

        put_cell(out, infp_count(time->calls).text);
        put_seconds(out, time->self_s);
        if (time->self_s / all >= 0) /* false of NAN */
                snprintf(text, sizeof(text), "%s %%", infp_fixed(100 * time->self_s / all, 1).text);
        put_cell(out, text);
}

static void end_row(struct infp_str *out, double seconds)
{
        put_seconds(out, seconds);
        infp_str_puts(out, "</tr>");
}

static void put_torch_modules(struct infp_str *out, const struct infp_torch_report *torch)
{
        static const char *const texts[] = { "module", "class", NULL }, *const numbers[] = { "calls", "self", "share",
                                                                                             "total", NULL };
        const double all = infp_torch_own_s(torch);

        if (!torch->n)
                return;
        infp_str_puts(out, "<h3>Modules</h3>");
        begin_table(out, "modules of PyTorch", texts, numbers);
        for (uint32_t i = 0; i < torch->n && i < MODULES; i++) { /* bound: the rest is counted below */
                begin_row(out, infp_report_string(&torch->strings, torch->modules[i].name));
                put_text(out, infp_report_string(&torch->strings, torch->modules[i].cls));
                put_torch_own(out, &torch->modules[i].all, all);
                end_row(out, torch->modules[i].all.seconds);
        }
        infp_str_puts(out, "\n</tbody></table></div>\n<p class=\"note\">On the steps that were sampled.");
        if (torch->n > MODULES)
                infp_str_printf(out, " %s more modules; infprof report torch has more of them.",
                                infp_count(torch->n - MODULES).text);
        infp_str_puts(out, "</p>");
}

static void put_torch_sums(struct infp_str *out, const struct infp_torch_report *torch)
{
        static const char *const numbers[] = { "calls", "self", "share", "total", NULL };
        const double all = infp_torch_own_s(torch);

        if (!torch->n)
                return;
        infp_str_puts(out, "\n<h3>Classes and stages</h3>");
        begin_table(out, "classes of modules", (const char *const[]){ "class", NULL }, numbers);
        for (uint32_t i = 0; i < torch->n_classes && i < CLASSES; i++) { /* bound: those that take most */
                begin_row(out, infp_report_string(&torch->strings, torch->classes[i].name));
                put_torch_own(out, &torch->classes[i].all, all);
                end_row(out, torch->classes[i].all.seconds);
        }
        infp_str_puts(out, "\n</tbody></table></div>");
        begin_table(out, "stages of modules", (const char *const[]){ "stage", NULL },
                    (const char *const[]){ "calls", "self", "share", NULL });
        for (unsigned i = 0; i < INFP_TORCH_STAGES; i++) {
                if (!torch->stages[i].calls)
                        continue;
                begin_row(out, infp_torch_stage_name(i));
                put_torch_own(out, &torch->stages[i], all);
                infp_str_puts(out, "</tr>");
        }
        infp_str_puts(out, "\n</tbody></table></div>");
}

static void put_torch_growths(struct infp_str *out, const struct infp_torch_report *torch)
{
        static const char *const texts[] = { "module", "class", NULL }, *const numbers[] = { "calls", "growth",
                                                                                             "a call", NULL };
        const struct infp_torch_module *modules[GROWTHS];
        const unsigned n = infp_torch_growths(torch, modules, GROWTHS);

        if (!n)
                return;
        infp_str_puts(out,
                      "\n<h3>Growth of memory</h3>\n<p class=\"note\">Memory of the device after a call, more than "
                      "before it.</p>");
        begin_table(out, "growth of memory by module", texts, numbers);
        for (unsigned i = 0; i < n; i++) {
                begin_row(out, infp_report_string(&torch->strings, modules[i]->name));
                put_text(out, infp_report_string(&torch->strings, modules[i]->cls));
                put_cell(out, infp_count(modules[i]->growths).text);
                put_cell(out, infp_report_bytes(modules[i]->growth_mib * 1048576).text);
                put_cell(out, infp_report_bytes(infp_torch_growth_bytes(modules[i])).text);
                infp_str_puts(out, "</tr>");
        }
        infp_str_puts(out, "\n</tbody></table></div>");
}

static void put_torch_steps(struct infp_str *out, const struct infp_torch_report *torch)
{
        static const char *const numbers[] = { "steps", "with hooks", "median", "longest", NULL };

        if (!torch->n_phases)
                return;
        infp_str_puts(out, "\n<h3>Steps</h3>");
        begin_table(out, "steps by phase", (const char *const[]){ "phase", NULL }, numbers);
        for (unsigned i = 0; i < torch->n_phases; i++) {
                struct infp_torch_phase *phase = &torch->phases[i];

                begin_row(out, infp_report_torch_phase(torch, phase, "steps"));
                put_cell(out, infp_count(phase->durations.stat.n).text);
                put_cell(out, infp_count(phase->n_hooked).text);
                put_seconds(out, infp_torch_median_s(phase));
                end_row(out, phase->durations.stat.max / 1e9);
        }
        infp_str_puts(out, "\n</tbody></table></div>");
}

static void put_torch_slowest(struct infp_str *out, const struct infp_torch_report *torch)
{
        static const char *const texts[] = { "step", "phase", "shape", "why", NULL }, *const numbers[] = {
                "time", "more than the median", NULL
        };
        struct infp_torch_long_step steps[INFP_TORCH_SLOWEST];
        const unsigned n = infp_torch_long_steps(torch, steps);

        if (!n)
                return;
        infp_str_puts(out, "\n<h3>Slowest steps</h3>");
        begin_table(out, "slowest steps", texts, numbers);
        for (unsigned i = 0; i < n; i++) {
                const struct infp_torch_step *step = steps[i].step;
                infp_autostr struct infp_str why = { 0 };
                char number[24];

                infp_report_torch_why(&why, torch, &steps[i]);
                snprintf(number, sizeof(number), "%lld", (long long) step->step);
                begin_row(out, step->step < 0 ? "-" : number);
                put_text(out, infp_report_torch_phase(torch, steps[i].phase, "-"));
                put_text(out, infp_report_string(&torch->strings, step->shape));
                put_text(out, why.size ? why.data : "not known");
                put_seconds(out, step->seconds);
                end_row(out, step->seconds - steps[i].median_s);
        }
        infp_str_puts(out, "\n</tbody></table></div>");
}

void infp_html_torch(struct infp_str *out, const struct infp_report *report)
{
        const struct infp_torch_report *torch = &report->torch;

        if (!infp_torch_has(torch))
                return;
        begin_section(out, "torch", "PyTorch");
        put_torch_modules(out, torch);
        put_torch_sums(out, torch);
        put_torch_growths(out, torch);
        put_torch_steps(out, torch);
        put_torch_slowest(out, torch);
        for (unsigned i = 0; i < torch->n_overheads; i++) {
                infp_autostr struct infp_str words = { 0 };

                infp_report_torch_overhead(&words, &torch->overheads[i]);
                put_note(out, "overhead", words.data ? words.data : "");
        }
        for (unsigned i = 0; i < torch->n_notes; i++)
                put_note(out, "no hooks", infp_report_string(&torch->strings, torch->notes[i]));
        end_section(out);
}

static void put_span(struct infp_str *out, struct infp_program_span *span)
{
        const struct infp_program_span_times times = infp_program_span_times(span);
        char name[64] = "";

        begin_row(out, span->name);
        put_cell(out, infp_count(span->n).text);
        put_cell(out, infp_report_seconds(times.total_s).text);
        put_cell(out, infp_report_seconds(times.mean_s).text);
        put_cell(out, infp_report_seconds(times.p50_s).text);
        put_cell(out, infp_report_seconds(times.p99_s).text);
        if (span->n_errors)
                snprintf(name, sizeof(name), "%s", infp_count(span->n_errors).text);
        put_cell(out, name);
        infp_str_puts(out, "</tr>");
}

void infp_html_program_spans(struct infp_str *out, const struct infp_report *report)
{
        static const char *const heads[] = { "count", "total", "mean", "p50", "p99", "with an error", NULL };
        const struct infp_program_spans *spans = &report->program_spans;
        uint64_t n_shown = 0;

        if (!spans->n)
                return;
        begin_section(out, "program-spans", "Spans of programs, by name");
        begin_table(out, "spans of programs", (const char *const[]){ "name", NULL }, heads);
        for (unsigned i = 0; i < spans->n && i < SPANS; i++) { /* bound: the rest is counted below */
                put_span(out, &spans->list[i]);
                n_shown += spans->list[i].n;
        }
        infp_str_puts(out, "\n</tbody></table></div>");
        if (n_shown < spans->n_rows)
                infp_str_printf(out, "\n<p class=\"note\">%s more of other names.</p>",
                                infp_count(spans->n_rows - n_shown).text);
        end_section(out);
}

/* Mean and deviation of a figure; "-" where it has no samples. */
static void put_stat(struct infp_str *out, const struct infp_stat *stat, const char *base, const char *unit)
{
        char text[128] = "-";

        if (stat->n > 1)
                snprintf(text, sizeof(text), "%s ± %s", infp_human(infp_stat_mean(stat), base, unit, false).text,
                         infp_human(infp_stat_sample_std(stat), base, unit, false).text);
        else if (stat->n)
                snprintf(text, sizeof(text), "%s", infp_human(infp_stat_mean(stat), base, unit, false).text);
        put_cell(out, text);
}

static void put_row(struct infp_str *out, const struct infp_labelled_span *span, const char *from, const char *to)
{
        char text[160] = "-";

        begin_row(out, from);
        put_text(out, to);
        put_cell(out, infp_human(span->seconds, "seconds", "s", false).text);
        put_stat(out, &span->cpu_percent, "", "");
        put_stat(out, &span->rss_bytes, "bytes", "bytes");
        put_stat(out, &span->cores.average, "", "");
        if (isfinite(infp_span_joules(span)))
                snprintf(text, sizeof(text), "%s, %s%s", infp_human(infp_span_joules(span), "joules", "J", false).text,
                         infp_human(infp_span_watts(span), "watts", "W", false).text,
                         span->energy_is_estimated ? " (estimated)" : "");
        put_cell(out, text);
        infp_str_puts(out, "</tr>");
}

void infp_html_labels(struct infp_str *out, const struct infp_report *report)
{
        static const char *const heads[] = {
                "time", "CPU of the target, % of all CPUs", "memory of the target", "load of the machine, %", "energy",
                NULL
        };
        const struct infp_labels *labels = &report->labels;
        const unsigned n = report->spans.n < LABELS ? report->spans.n : LABELS;

        if (!n)
                return;
        begin_section(out, "labels", "Between labels");
        infp_str_puts(out, "<p class=\"note\">Means of the samples between them, and their deviation.");
        if (n < report->spans.n)
                infp_str_printf(out, " The first %u of %u; infprof report --labels --csv has all.", n, report->spans.n);
        infp_str_puts(out, "</p>");
        begin_table(out, "between labels", (const char *const[]){ "from", "to", NULL }, heads);
        for (unsigned i = 0; i < n; i++)
                put_row(out, &report->spans.list[i], report->lists_labels ? labels->list[i].tag : report->from_label,
                        report->lists_labels ? labels->list[i + 1].tag : report->to_label);
        infp_str_puts(out, "\n</tbody></table></div>");
        end_section(out);
}
