#include "view/flame/top.h"
#include "view/flame/trust.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/profile.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/text.h"
#include "view/flame/words.h"
#include "view/report/parts.h"

enum { FIGURES_WIDTH = 47, SHORT_WIDTH = 23, NARROWEST = 24, MOST_PASSAGES = 64, MOST_ALIKE = 64 };

/* The share that is guessed, unless all is. */
static void put_name(struct infp_str *out, const struct infp_flame_function *f, bool is_short)
{
        if (is_short)
                infp_flame_short_name(out, f->name);
        else
                infp_str_puts(out, f->name);
        if (f->guessed_samples && f->guessed_samples >= f->total_samples)
                infp_str_puts(out, " (guessed)");
        else if (infp_flame_is_guessed(f))
                infp_str_printf(out, " (%s %% guessed)",
                                infp_fixed(100.0 * (double) f->guessed_samples / (double) f->total_samples, 0).text);
        else if (f->is_inlined)
                infp_str_puts(out, " (inlined)");
}

static void put_place(struct infp_str *out, const struct infp_flame_function *f)
{
        if (f->line > 0 && f->file)
                infp_str_printf(out, "%s:%lld  ", infp_base_name(f->file), (long long) f->line);
        else
                infp_str_puts(out, "[no line]  ");
}

void infp_flame_top_words(struct infp_str *out, const struct infp_flame_function *f, bool is_short)
{
        if (f->is_line)
                put_place(out, f);
        put_name(out, f, is_short);
        /* Python's object is its file. */
        if (f->object && !f->is_unnamed && !(f->file && !strcmp(f->object, infp_base_name(f->file))))
                infp_str_printf(out, "  %s", f->object);
        if (f->file && !f->is_line)
                infp_str_printf(out, "  %s", infp_base_name(f->file));
        if (f->file && f->line > 0 && !f->is_line)
                infp_str_printf(out, ":%lld", (long long) f->line);
}

static unsigned room_of(unsigned width)
{
        return width > FIGURES_WIDTH + NARROWEST ? width - FIGURES_WIDTH : UINT_MAX;
}

/* Another one of the list has the same short name: it is of the same template, with other arguments. */
static bool is_like_another(const struct infp_flame *flame, const uint32_t *top, uint32_t n, const char *name)
{
        infp_autostr struct infp_str mine = { 0 }, other = { 0 };

        infp_flame_short_name(&mine, name);
        /* bound: a list of all functions is not compared name by name; what is alike further down keeps its short name */
        for (uint32_t i = 0; i < n && i < MOST_ALIKE; i++) {
                infp_str_clear(&other);
                infp_flame_short_name(&other, flame->functions[top[i]].name);
                if (strcmp(flame->functions[top[i]].name, name) && mine.data && other.data &&
                    !strcmp(mine.data, other.data))
                        return true;
        }
        return false;
}

/* Falls back to the short name, then to that without its file, then without its object: a whole name is worth more than half a path.
 * Of those that are alike the full name stays; the caller cuts it. */
static void put_fitting(struct infp_str *out, struct infp_flame_function f, bool is_alike, unsigned room)
{
        static const char anonymous[] = "(anonymous namespace)::";

        infp_flame_top_words(out, &f, false);
        for (unsigned i = 0; i < 3 && infp_text_width(out->data ? out->data : "", out->size) > room; i++) {
                infp_str_clear(out);
                if (is_alike && !strncmp(f.name, anonymous, strlen(anonymous)))
                        f.name += strlen(anonymous);
                infp_flame_top_words(out, &f, !is_alike);
                *(i || f.is_line ? &f.object : &f.file) = NULL;
        }
}

static void put_row(struct infp_out *out, const struct infp_flame *flame, const struct infp_flame_function *f,
                    bool by_total, bool is_alike, unsigned width)
{
        const struct infp_flame_share self = infp_flame_share(flame, f->self_weight);
        const struct infp_flame_share total = infp_flame_share(flame, f->total_weight);
        const struct infp_flame_share *by = by_total ? &total : &self;
        const unsigned room = room_of(width);
        infp_autostr struct infp_str words = { 0 }, weight = { 0 };

        infp_flame_figure(&weight, by_total ? f->total_weight : f->self_weight, flame->unit);
        put_fitting(&words, *f, is_alike, room);
        infp_report_put(out, "  %6s %%  %6s %%  %6s to %6s  %9s  ", infp_fixed(self.percent, 2).text,
                        infp_fixed(total.percent, 2).text, infp_fixed(by->low, 2).text, infp_fixed(by->high, 2).text,
                        weight.data ? weight.data : "");
        infp_report_put_padded(out, words.data ? words.data : "", room, true);
        infp_report_end(out);
}

/* "+1.20" */
static void put_points(struct infp_str *out, double points)
{
        if (points >= 0)
                infp_str_putc(out, '+');
        infp_str_puts(out, infp_fixed(points, 2).text);
}

/* A difference's function: its share before and after, and by how many points it changed. */
static void put_change(struct infp_out *out, const struct infp_flame *flame, const struct infp_flame_function *f,
                       bool by_total, bool is_alike, unsigned width)
{
        const struct infp_flame_change change = infp_flame_change(flame, f, by_total);
        const unsigned room = room_of(width);
        infp_autostr struct infp_str words = { 0 }, points = { 0 }, interval = { 0 };

        put_fitting(&words, *f, is_alike, room);
        put_points(&points, change.points.percent);
        put_points(&interval, change.points.low);
        infp_str_puts(&interval, " to ");
        put_points(&interval, change.points.high);
        infp_report_put(out, "  %6s %%  %6s %%  %7s  %16s  ", infp_fixed(change.before.percent, 2).text,
                        infp_fixed(change.now.percent, 2).text, points.data, interval.data);
        infp_report_put_padded(out, words.data ? words.data : "", room, true);
        infp_report_end(out);
}

/* Nearly every stack, or every stack of a process or thread, passes through it, and it has no self time: its total is of no
 * interest. */
static bool is_passage(const struct infp_flame *flame, const struct infp_flame_function *f)
{
        static const char *const beginnings[] = { "_start",
                                                  "__libc_start_main",
                                                  "__libc_start_call_main",
                                                  "main",
                                                  "clone",
                                                  "clone3",
                                                  "__clone",
                                                  "__clone3",
                                                  "start_thread",
                                                  "thread_start",
                                                  "runtime.goexit",
                                                  "ret_from_fork",
                                                  "ret_from_fork_asm" };
        const size_t size = strcspn(f->name, "@"); /* of a symbol's version */
        bool is_beginning = false;

        if (flame->base || f->self_weight >= 0.01 * flame->weight)
                return false;
        for (unsigned i = 0; i < INFP_COUNT(beginnings); i++)
                is_beginning |= strlen(beginnings[i]) == size && !memcmp(beginnings[i], f->name, size);
        return is_beginning || f->total_weight > 0.95 * flame->weight;
}

/* Moves passages after the others of a list of n, and leaves `most` of those at most. Returns how many passages there are. */
static uint32_t drop_passages(const struct infp_flame *flame, uint32_t *top, uint32_t *n, uint32_t most)
{
        uint32_t passages[MOST_PASSAGES], kept = 0, dropped = 0;

        for (uint32_t i = 0; i < *n; i++)
                if (dropped < MOST_PASSAGES && is_passage(flame, &flame->functions[top[i]]))
                        passages[dropped++] = top[i];
                else if (kept < most)
                        top[kept++] = top[i];
        memcpy(top + kept, passages, dropped * sizeof(*top));
        *n = kept;
        return dropped;
}

uint32_t infp_flame_top_room(uint32_t most)
{
        return most + MOST_PASSAGES + 1;
}

uint32_t infp_flame_top_list(const struct infp_flame *flame, bool by_total, uint32_t most, uint32_t *ret,
                             uint32_t *ret_all, uint32_t *ret_passages)
{
        uint32_t n = infp_flame_top(flame, by_total, most + (by_total ? MOST_PASSAGES : 0), ret, ret_all);

        *ret_passages = by_total ? drop_passages(flame, ret, &n, most) : 0;
        return n;
}

/* Of equal names ("_start" of each program) the object says which. */
static void put_passage(struct infp_str *out, const struct infp_flame *flame, const uint32_t *passages, uint32_t n,
                        uint32_t i)
{
        const struct infp_flame_function *f = &flame->functions[passages[i]];
        bool is_alone = true;

        for (uint32_t k = 0; k < n; k++)
                is_alone &= k == i || strcmp(flame->functions[passages[k]].name, f->name) != 0;
        infp_flame_short_name(out, f->name);
        if (!is_alone && f->object)
                infp_str_printf(out, " (%s)", f->object);
}

void infp_flame_top_rest(struct infp_str *out, const struct infp_flame *flame, uint32_t n, const uint32_t *passages,
                         uint32_t n_passages)
{
        if (!n)
                return;
        infp_str_printf(out, "and %u more", n);
        if (n_passages)
                infp_str_printf(out, "; %u that nearly every stack passes through %s left out: ", n_passages,
                                n_passages == 1 ? "is" : "are");
        for (uint32_t i = 0; i < n_passages; i++) {
                infp_str_puts(out, i ? ", " : "");
                put_passage(out, flame, passages, n_passages, i);
        }
}

static void put_rest(struct infp_out *out, const struct infp_flame *flame, uint32_t n, const uint32_t *passages,
                     uint32_t n_passages)
{
        infp_autostr struct infp_str text = { 0 };

        infp_flame_top_rest(&text, flame, n, passages, n_passages);
        if (!text.size)
                return;
        infp_report_put(out, "  ... ");
        infp_report_wrap(out, text.data, 6, 6);
}

int infp_flame_top_table(struct infp_out *out, const struct infp_flame *flame, bool by_total, uint32_t most,
                         unsigned width)
{
        infp_autofree uint32_t *top = calloc(infp_flame_top_room(most), sizeof(*top));
        const char *what = flame->is_by_line ? by_total ? "line and what it calls" : "line"
                           : by_total        ? "function and what it calls"
                                             : "function";
        uint32_t n, all, n_passages;

        if (!top)
                return -ENOMEM;
        n = infp_flame_top_list(flame, by_total, most, top, &all, &n_passages);
        if (flame->base)
                infp_report_put(out, "  %8s  %8s  %7s  %16s  %s", "before", "after", "points", "95 % of points", what);
        else
                infp_report_put(out, "  %8s  %8s  %16s  %9s  %s", "self", "total",
                                by_total ? "95 % of total" : "95 % of self", flame->unit, what);
        infp_report_end(out);
        for (uint32_t i = 0; i < n; i++)
                (flame->base ? put_change : put_row)(out, flame, &flame->functions[top[i]], by_total,
                                                     is_like_another(flame, top, n, flame->functions[top[i]].name),
                                                     width);
        put_rest(out, flame, all - n, top + n, n_passages);
        return 0;
}

int infp_flame_top_short(struct infp_out *out, const struct infp_flame *flame, uint32_t most, unsigned width)
{
        infp_autofree uint32_t *top = calloc((size_t) most + 1, sizeof(*top));
        uint32_t n;

        if (!top)
                return -ENOMEM;
        n = infp_flame_top(flame, false, most, top, NULL);
        infp_report_put(out, "  %8s  %8s  %s", "self", "total", "function");
        infp_report_end(out);
        for (uint32_t i = 0; i < n; i++) {
                const struct infp_flame_function *f = &flame->functions[top[i]];
                infp_autostr struct infp_str words = { 0 };

                put_fitting(&words, *f, is_like_another(flame, top, n, f->name), width - SHORT_WIDTH);
                infp_report_put(out, "  %6s %%  %6s %%  ",
                                infp_fixed(infp_flame_share(flame, f->self_weight).percent, 2).text,
                                infp_fixed(infp_flame_share(flame, f->total_weight).percent, 2).text);
                infp_report_put_padded(out, words.data ? words.data : "", width - SHORT_WIDTH, true);
                infp_report_end(out);
        }
        return 0;
}

void infp_flame_top_folded(struct infp_str *out, const struct infp_flame *flame)
{
        const struct infp_flame_folded *folded = &flame->folded;
        uint64_t rest = folded->samples;

        if (!folded->threads)
                return;
        infp_trust_count(out, (double) folded->samples, "sample", "samples");
        infp_str_puts(out, " (");
        infp_trust_share(out, (double) folded->samples, (double) (folded->samples + flame->samples));
        infp_str_puts(out, ") of ");
        infp_trust_count(out, folded->threads, "thread", "threads");
        infp_str_puts(out, " that waited at least 95 % of their time are folded: ");
        for (unsigned i = 0; i < INFP_FLAME_FOLDED_STATES && folded->states[i].state; i++) {
                infp_str_puts(out, i ? ", " : "");
                infp_human_number(out, (double) folded->states[i].samples);
                infp_str_printf(out, " %s", folded->states[i].state);
                rest -= folded->states[i].samples;
        }
        if (rest) {
                infp_str_puts(out, ", ");
                infp_human_number(out, (double) rest);
                infp_str_puts(out, " others");
        }
        infp_str_puts(out, ". Percentages are of the other samples.");
}

static double lineless_weight(const struct infp_flame *flame)
{
        double ret = 0;

        for (uint32_t i = 0; i < flame->n_functions; i++)
                if (flame->functions[i].is_line && !flame->functions[i].line)
                        ret += flame->functions[i].self_weight;
        return ret;
}

void infp_flame_top_lineless(struct infp_str *out, const struct infp_flame *flame)
{
        const double weight = flame->is_by_line ? lineless_weight(flame) : 0;

        if (!(weight > 0))
                return;
        infp_trust_share(out, weight, flame->weight);
        infp_str_puts(out, " of self time is in code whose lines are not known: the kernel's, and what has no debug "
                           "information (`infprof symbolize --debug-dir`)");
}

static const struct infp_sampling_mode *sampling_of(const struct infp_flame_top_view *view)
{
        return view->sampling ? infp_sampling_find(view->sampling, infp_stack_mode_of(view->flame->mode)) : NULL;
}

int infp_flame_top_text(struct infp_out *out, const struct infp_flame_top_view *view)
{
        const struct infp_flame *f = view->flame;
        infp_autostr struct infp_str words = { 0 }, head = { 0 }, folded = { 0 };

        infp_str_printf(&head, "Mode %s: ", *f->mode ? f->mode : "unknown");
        infp_trust_count(&head, (double) f->samples, "sample", "samples");
        if (f->all_samples > f->samples) {
                infp_str_puts(&head, " of ");
                infp_human_number(&head, (double) f->all_samples);
        }
        if (strcmp(f->unit, "samples") != 0) {
                infp_str_puts(&head, ", ");
                infp_flame_weight(&head, f->weight, f->unit);
        }
        if (f->base) {
                infp_str_puts(&head, "; before ");
                infp_trust_count(&head, (double) f->base_samples, "sample", "samples");
        }
        infp_report_put(out, "%s", head.data ? head.data : "");
        infp_report_end(out);
        infp_flame_top_folded(&folded, f);
        if (folded.size)
                infp_report_wrap(out, folded.data, 0, 0);
        infp_report_end(out);
        INFP_TRY(infp_flame_top_table(out, f, false, view->most, out->width));
        infp_report_end(out);
        INFP_TRY(infp_flame_top_table(out, f, true, view->most, out->width));
        infp_report_end(out);
        infp_flame_top_lineless(&words, f);
        infp_str_puts(&words, words.size ? ". " : "");
        infp_sampling_words(&words, f, sampling_of(view));
        infp_report_wrap(out, words.data ? words.data : "", 0, 0);
        return head.failed || words.failed || out->text.failed ? -ENOMEM : 0;
}

/* Functions as JSON: the members of the mission's report (name, samples, percent, file, line) by self, and further ones. */
static void put_part_json(struct infp_json *json, const char *key, const struct infp_flame *flame, uint64_t samples,
                          double weight)
{
        const struct infp_flame_share share = infp_flame_share(flame, weight);

        infp_json_key(json, key);
        infp_json_object(json);
        infp_json_member_u64(json, "samples", samples);
        infp_json_member_f64(json, "weight", weight);
        infp_json_member_f64(json, "percent", share.percent);
        infp_json_member_f64(json, "percent_low", share.low);
        infp_json_member_f64(json, "percent_high", share.high);
        infp_json_object_end(json);
}

/* In points of percent. */
static void put_change_json(struct infp_json *json, const char *key, const struct infp_flame *flame,
                            const struct infp_flame_function *f, bool by_total)
{
        const struct infp_flame_change change = infp_flame_change(flame, f, by_total);

        infp_json_key(json, key);
        infp_json_object(json);
        infp_json_member_u64(json, "before_samples", by_total ? f->base_total_samples : f->base_self_samples);
        infp_json_member_f64(json, "before_percent", change.before.percent);
        infp_json_member_f64(json, "points", change.points.percent);
        infp_json_member_f64(json, "points_low", change.points.low);
        infp_json_member_f64(json, "points_high", change.points.high);
        infp_json_object_end(json);
}

static void put_function_json(struct infp_json *json, const struct infp_flame *flame,
                              const struct infp_flame_function *f, bool by_total)
{
        infp_json_object(json);
        infp_json_member_str(json, "name", f->name);
        infp_json_member_u64(json, "samples", by_total ? f->total_samples : f->self_samples);
        infp_json_member_f64(json, "percent",
                             infp_flame_share(flame, by_total ? f->total_weight : f->self_weight).percent);
        infp_json_member_str(json, "file", f->file);
        infp_json_key(json, "line");
        if (f->line > 0)
                infp_json_i64(json, f->line);
        else
                infp_json_null(json);
        infp_json_member_str(json, "object", f->object);
        infp_json_member_str(json, "kind", infp_frame_kind_name(f->kind));
        infp_json_member_bool(json, "guessed", infp_flame_is_guessed(f));
        infp_json_member_u64(json, "guessed_samples", f->guessed_samples);
        infp_json_member_bool(json, "inlined", f->is_inlined);
        infp_json_member_bool(json, "named", !f->is_unnamed);
        put_part_json(json, "self", flame, f->self_samples, f->self_weight);
        put_part_json(json, "total", flame, f->total_samples, f->total_weight);
        if (flame->base) {
                put_change_json(json, "self_change", flame, f, false);
                put_change_json(json, "total_change", flame, f, true);
        }
        infp_json_object_end(json);
}

static int put_functions_json(struct infp_json *json, const struct infp_flame_top_view *view, const char *key,
                              bool by_total)
{
        infp_autofree uint32_t *top = calloc((size_t) view->most + 1, sizeof(*top));
        uint32_t n;

        if (!top)
                return -ENOMEM;
        n = infp_flame_top(view->flame, by_total, view->most, top, NULL);
        infp_json_key(json, key);
        infp_json_array(json);
        for (uint32_t i = 0; i < n; i++)
                put_function_json(json, view->flame, &view->flame->functions[top[i]], by_total);
        infp_json_array_end(json);
        return 0;
}

/* Not a number: null. Whole numbers whole. */
static void put_number_json(struct infp_json *json, const char *key, double v)
{
        if (v >= 0 && v < 1e15 && v == floor(v))
                infp_json_member_u64(json, key, (uint64_t) v);
        else
                infp_json_member_f64(json, key, v);
}

static void put_sampling_json(struct infp_json *json, const struct infp_sampling_mode *s)
{
        infp_json_key(json, "sampling");
        if (!s) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_str(json, "method", *s->method ? s->method : NULL);
        put_number_json(json, "rate_hz", s->rate_hz);
        put_number_json(json, "wanted", s->wanted);
        put_number_json(json, "taken", s->taken);
        put_number_json(json, "lost", s->lost);
        put_number_json(json, "throttled", s->throttled);
        put_number_json(json, "dropped", s->dropped);
        put_number_json(json, "truncated", s->truncated);
        put_number_json(json, "incomplete", s->incomplete);
        put_number_json(json, "deep", s->deep);
        put_number_json(json, "completed", s->completed);
        put_number_json(json, "moved", s->moved);
        put_number_json(json, "frames", s->frames);
        put_number_json(json, "guessed_frames", s->guessed_frames);
        put_number_json(json, "skipped_threads", s->skipped_threads);
        infp_json_member_str(json, "python_method", *s->python_method ? s->python_method : NULL);
        put_number_json(json, "python_merged", s->python_merged);
        put_number_json(json, "python_unmerged", s->python_unmerged);
        put_number_json(json, "python_torn", s->python_torn);
        put_number_json(json, "python_missed", s->python_missed);
        put_number_json(json, "python_alone", s->python_alone);
        put_number_json(json, "python_unknown", s->python_unknown);
        put_number_json(json, "python_rejected", s->python_rejected);
        infp_json_member_f64(json, "own_cpu_seconds", s->own_cpu_s);
        infp_json_object_end(json);
}

/* Folded waits of threads that did little else, which are in no list and no total. */
static void put_folded_json(struct infp_json *json, const struct infp_flame_folded *folded)
{
        infp_json_key(json, "folded");
        if (!folded->threads) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_u64(json, "threads", folded->threads);
        infp_json_member_u64(json, "samples", folded->samples);
        infp_json_member_f64(json, "weight", folded->weight);
        infp_json_key(json, "states");
        infp_json_object(json);
        for (unsigned i = 0; i < INFP_FLAME_FOLDED_STATES && folded->states[i].state; i++)
                infp_json_member_u64(json, folded->states[i].state, folded->states[i].samples);
        infp_json_object_end(json);
        infp_json_object_end(json);
}

int infp_flame_top_members(struct infp_json *json, const struct infp_flame_top_view *view)
{
        const struct infp_flame *f = view->flame;
        infp_autostr struct infp_str words = { 0 };
        const struct infp_sampling_mode *s =
                view->sampling ? infp_sampling_find(view->sampling, infp_stack_mode_of(f->mode)) : NULL;

        infp_json_member_str(json, "mode", f->mode);
        infp_json_member_str(json, "unit", f->unit);
        infp_json_member_u64(json, "total_samples", f->samples);
        infp_json_member_u64(json, "all_samples", f->all_samples);
        infp_json_member_f64(json, "total_weight", f->weight);
        put_folded_json(json, &f->folded);
        if (f->base) {
                infp_json_member_u64(json, "before_total_samples", f->base_samples);
                infp_json_member_f64(json, "before_total_weight", f->base_weight);
                infp_json_member_u64(json, "before_truncated_samples", f->base_truncated_samples);
        }
        INFP_TRY(put_functions_json(json, view, "top_functions", false));
        INFP_TRY(put_functions_json(json, view, "top_functions_total", true));
        if (f->is_by_line) {
                infp_json_key(json, "without_line");
                infp_json_f64(json, lineless_weight(f)); /* in the unit */
        }
        infp_json_member_u64(json, "truncated_samples", f->truncated_samples);
        infp_json_member_u64(json, "cut_samples", f->cut_samples);
        infp_json_member_u64(json, "completed_samples", f->completed_samples);
        put_number_json(json, "cut_bytes_least", f->cut.most > 0 ? (double) f->cut.least : NAN);
        put_number_json(json, "cut_bytes_most", f->cut.most > 0 ? (double) f->cut.most : NAN);
        infp_json_member_u64(json, "guessed_samples", f->guessed_samples);
        infp_json_member_u64(json, "unnamed_samples", f->unnamed_samples);
        put_sampling_json(json, s);
        infp_sampling_words(&words, f, s);
        infp_json_member_str(json, "trust", words.data);
        return words.failed ? -ENOMEM : 0;
}

/* {"profile_id", "duration_seconds", "cpu": {...}}: the member is the mode. */
int infp_flame_top_json(struct infp_out *out, const struct infp_flame_top_view *view)
{
        struct infp_json json;

        infp_json_begin(&json, &out->text, 2);
        infp_json_object(&json);
        infp_json_member_str(&json, "profile_id", view->run);
        infp_json_member_f64(&json, "duration_seconds", view->seconds);
        infp_json_key(&json, *view->flame->mode ? view->flame->mode : "unknown");
        infp_json_object(&json);
        INFP_TRY(infp_flame_top_members(&json, view));
        infp_json_object_end(&json);
        infp_json_object_end(&json);
        infp_str_putc(&out->text, '\n');
        return out->text.failed ? -ENOMEM : 0;
}
