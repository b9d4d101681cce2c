/* Functions as JSON: the names of the mission's report (name, samples, percent, file, line) by self, and all that we know besides. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "view/flame/top.h"

static void put_part(struct infp_json *json, const char *key, const struct infp_flame *flame, uint64_t samples,
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
static void put_change(struct infp_json *json, const char *key, const struct infp_flame *flame,
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

static void put_function(struct infp_json *json, const struct infp_flame *flame, const struct infp_flame_function *f,
                         bool by_total)
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
        put_part(json, "self", flame, f->self_samples, f->self_weight);
        put_part(json, "total", flame, f->total_samples, f->total_weight);
        if (flame->base) {
                put_change(json, "self_change", flame, f, false);
                put_change(json, "total_change", flame, f, true);
        }
        infp_json_object_end(json);
}

static int put_functions(struct infp_json *json, const struct infp_flame_top_view *view, const char *key, bool by_total)
{
        infp_autofree uint32_t *top = calloc((size_t) view->most + 1, sizeof(*top));
        uint32_t n;

        if (!top)
                return -ENOMEM;
        n = infp_flame_top(view->flame, by_total, view->most, top, NULL);
        infp_json_key(json, key);
        infp_json_array(json);
        for (uint32_t i = 0; i < n; i++)
                put_function(json, view->flame, &view->flame->functions[top[i]], by_total);
        infp_json_array_end(json);
        return 0;
}

/* Not a number: null. Whole numbers whole. */
static void put_number(struct infp_json *json, const char *key, double v)
{
        if (v >= 0 && v < 1e15 && v == floor(v))
                infp_json_member_u64(json, key, (uint64_t) v);
        else
                infp_json_member_f64(json, key, v);
}

static void put_sampling(struct infp_json *json, const struct infp_sampling_mode *s)
{
        infp_json_key(json, "sampling");
        if (!s) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_str(json, "method", *s->method ? s->method : NULL);
        put_number(json, "rate_hz", s->rate_hz);
        put_number(json, "wanted", s->wanted);
        put_number(json, "taken", s->taken);
        put_number(json, "lost", s->lost);
        put_number(json, "throttled", s->throttled);
        put_number(json, "dropped", s->dropped);
        put_number(json, "truncated", s->truncated);
        put_number(json, "incomplete", s->incomplete);
        put_number(json, "frames", s->frames);
        put_number(json, "guessed_frames", s->guessed_frames);
        put_number(json, "skipped_threads", s->skipped_threads);
        infp_json_member_f64(json, "own_cpu_seconds", s->own_cpu_s);
        infp_json_object_end(json);
}

/* Waits of threads that did little else: they are in no list and no total. */
static void put_folded(struct infp_json *json, const struct infp_flame_folded *folded)
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
        const struct infp_sampling_mode *s = view->sampling ? infp_sampling_find(view->sampling, f->mode) : NULL;

        infp_json_member_str(json, "mode", f->mode);
        infp_json_member_str(json, "unit", f->unit);
        infp_json_member_u64(json, "total_samples", f->samples);
        infp_json_member_u64(json, "all_samples", f->all_samples);
        infp_json_member_f64(json, "total_weight", f->weight);
        put_folded(json, &f->folded);
        if (f->base) {
                infp_json_member_u64(json, "before_total_samples", f->base_samples);
                infp_json_member_f64(json, "before_total_weight", f->base_weight);
                infp_json_member_u64(json, "before_truncated_samples", f->base_truncated_samples);
        }
        INFP_TRY(put_functions(json, view, "top_functions", false));
        INFP_TRY(put_functions(json, view, "top_functions_total", true));
        infp_json_member_u64(json, "truncated_samples", f->truncated_samples);
        infp_json_member_u64(json, "cut_samples", f->cut_samples);
        infp_json_member_u64(json, "guessed_samples", f->guessed_samples);
        infp_json_member_u64(json, "unnamed_samples", f->unnamed_samples);
        put_sampling(json, s);
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
