/* Chrome's Trace Event format ("Trace Event Format", JSON object form), which Perfetto, Speedscope and chrome://tracing open: a track
 * a thread. A sample stands for a stretch of time of its weight; a frame that neighbouring stretches share is one slice, so that
 * slices of a track are strictly nested. Times are microseconds from a base, for doubles lose nanoseconds beyond 2^53; the base
 * is in metadata.
 *
 * Slices of one moment stand outermost first, as viewers nest them; they have no arguments, which Speedscope takes for a part of
 * the name. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"
#include "view/profile/profile_formats.h"

enum { FIRST_MADE_UP_TID = 1 << 30, MOST_SLICES = 5000000 };

struct slice {
        uint32_t name;
        uint64_t begin, end;
};

/* One thread at a time, with its samples together. */
struct writer {
        const struct infp_profile *profile;
        struct infp_out *out;
        struct infp_json json;
        struct infp_map track_of_thread;
        uint32_t *tracks; /* of each thread: number */
        struct order {
                uint32_t track, time;
        } * order;
        struct slice *slices; /* in the order of their begins, not yet written */
        uint32_t n_slices, cap_slices;
        uint32_t *open; /* of slices: outermost first */
        uint32_t n_open, cap_open;
        uint32_t *path,
                *names; /* of a sample: stack nodes, innermost first; strings, outermost first, 0: [truncated] */
        uint32_t n_names, cap_names;
        uint64_t base, last; /* end of what was written of the track */
        double scale;        /* weight to nanoseconds */
        uint32_t n_all;      /* slices */
        bool failed;
};

static void writer_done(struct writer *w)
{
        infp_map_done(&w->track_of_thread);
        free(w->tracks);
        free(w->order);
        free(w->slices);
        free(w->open);
        free(w->path);
        free(w->names);
}

/* A thread that changed its name is one track. */
static int find_tracks(struct writer *w)
{
        const struct infp_profile *s = w->profile;

        w->tracks = calloc((size_t) s->n_threads + 1, sizeof(*w->tracks));
        if (!w->tracks)
                return -ENOMEM;
        for (uint32_t i = 0; i < s->n_threads; i++) {
                const struct infp_profile_thread *t = &s->threads[i];
                const uint64_t parts[] = { t->process, (uint64_t) t->tid, t->tid ? 0 : i + 1 };
                const uint64_t key = infp_hash64(parts, sizeof(parts), 0),
                               *known = infp_map_get(&w->track_of_thread, key);

                w->tracks[i] = known ? (uint32_t) *known : i;
                if (!known && infp_map_put(&w->track_of_thread, key, i) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int by_track(const void *a, const void *b)
{
        const struct order *x = a, *y = b;

        if (x->track != y->track)
                return x->track < y->track ? -1 : 1;
        return (x->time > y->time) - (x->time < y->time); /* times are sorted */
}

static int64_t tid_of(const struct infp_profile *s, uint32_t thread)
{
        return s->threads[thread].tid ? s->threads[thread].tid : FIRST_MADE_UP_TID + (int64_t) thread;
}

static void put_us(struct infp_json *json, const char *key, uint64_t ns)
{
        infp_autostr struct infp_str text = { 0 };

        infp_str_printf(&text, "%llu.%03u", (unsigned long long) (ns / 1000), (unsigned) (ns % 1000));
        infp_json_key(json, key);
        infp_json_raw(json, text.data, text.size);
}

static void put_name(struct writer *w, uint32_t thread, const char *what, const char *name)
{
        const struct infp_profile *s = w->profile;

        infp_json_object(&w->json);
        infp_json_member_str(&w->json, "ph", "M");
        infp_json_member_str(&w->json, "name", what);
        infp_json_member_i64(&w->json, "pid", s->processes[s->threads[thread].process].pid);
        infp_json_member_i64(&w->json, "tid", tid_of(s, thread));
        infp_json_key(&w->json, "args");
        infp_json_object(&w->json);
        infp_json_member_str(&w->json, "name", name);
        infp_json_object_end(&w->json);
        infp_json_object_end(&w->json);
}

static void put_names(struct writer *w, uint32_t track)
{
        const struct infp_profile *s = w->profile;
        const char *process = infp_profile_str(s, s->processes[s->threads[track].process].name), *thread = NULL;

        for (uint32_t i = 0; i < s->n_threads; i++)
                if (w->tracks[i] == track && s->threads[i].name)
                        thread = infp_profile_str(s, s->threads[i].name);
        if (process)
                put_name(w, track, "process_name", process);
        if (thread)
                put_name(w, track, "thread_name", thread);
}

static void put_slice(struct writer *w, uint32_t track, const struct slice *slice)
{
        const struct infp_profile *s = w->profile;

        infp_json_object(&w->json);
        infp_json_member_str(&w->json, "ph", "X");
        infp_json_member_str(&w->json, "name", slice->name ? infp_profile_str(s, slice->name) : "[truncated]");
        infp_json_member_str(&w->json, "cat", *s->mode ? s->mode : "samples");
        infp_json_member_i64(&w->json, "pid", s->processes[s->threads[track].process].pid);
        infp_json_member_i64(&w->json, "tid", tid_of(s, track));
        put_us(&w->json, "ts", slice->begin - w->base);
        put_us(&w->json, "dur", slice->end - slice->begin);
        infp_json_object_end(&w->json);
        infp_out_drain(w->out);
}

/* Ends all slices deeper than n; what is complete then is written. */
static void close_to(struct writer *w, uint32_t track, uint32_t n)
{
        while (w->n_open > n)
                w->slices[w->open[--w->n_open]].end = w->last;
        if (w->n_open)
                return;
        for (uint32_t i = 0; i < w->n_slices; i++)
                put_slice(w, track, &w->slices[i]);
        w->n_slices = 0;
}

static void push_name(struct writer *w, uint32_t name)
{
        if (INFP_MAKE_ROOM(w->names, w->n_names, w->cap_names, 256))
                w->names[w->n_names++] = name;
        else
                w->failed = true;
}

static void find_names(struct writer *w, const struct infp_profile_sum *sum)
{
        const struct infp_profile *s = w->profile;
        uint32_t n = 0;

        w->n_names = 0;
        for (uint32_t i = sum->node; i != INFP_PROFILE_NONE; i = s->nodes[i].parent)
                w->path[n++] = i;
        if (infp_profile_is_truncated(s, sum))
                push_name(w, 0);
        while (n) {
                const struct infp_profile_frame *frame = &s->frames[s->nodes[w->path[--n]].frame];

                for (uint32_t level = 0; level < frame->n_levels; level++)
                        push_name(w, s->levels[frame->first_level + level].name);
        }
}

static void open_slice(struct writer *w, uint32_t name, uint64_t begin)
{
        const bool has_room = INFP_MAKE_ROOM(w->slices, w->n_slices, w->cap_slices, 256) &&
                              INFP_MAKE_ROOM(w->open, w->n_open, w->cap_open, 256);

        w->failed |= !has_room;
        if (++w->n_all > MOST_SLICES || !has_room) /* bound: the writing ends with an error that says so */
                return;
        w->open[w->n_open++] = w->n_slices;
        w->slices[w->n_slices++] = (struct slice){ name, begin, begin };
}

/* What a row of stack_samples stands for in time: what begins at its moment, or what ended there. A gap before it that is shorter
 * than half a sample is the unevenness of sampling (waits are not sampled, and have none). Imported profiles without times lie at one
 * moment: there stretches follow each other. */
struct stretch {
        uint64_t begin, end, slack;
};

static struct stretch stretch_of(const struct writer *w, const struct infp_profile_time *time, uint64_t last)
{
        const struct infp_profile *s = w->profile;
        const enum infp_stack_mode mode = infp_stack_mode_of(infp_profile_str(s, s->sums[time->sum].mode));
        const bool is_after = mode < INFP_STACK_MODES && infp_stack_modes[mode].is_begin;
        const uint64_t length = (uint64_t) llround(fmin(fabs(time->weight) * w->scale, 1e18)), t = time->t_ns;
        struct stretch ret = { .slack = mode == INFP_STACK_OFF_CPU ? 0
                                                                   : length / (time->samples ? time->samples : 1) / 2 };

        ret.begin = s->first_t_ns == s->last_t_ns ? last : is_after ? t : t - (length < t ? length : t);
        ret.end = ret.begin + length;
        return ret;
}

static void put_sample(struct writer *w, uint32_t track, const struct infp_profile_time *time)
{
        struct stretch at = stretch_of(w, time, w->last);
        uint32_t same = 0;

        if (at.begin < w->last || (w->n_open && at.begin - w->last <= at.slack))
                at.begin = w->last;
        find_names(w, &w->profile->sums[time->sum]);
        if (at.begin == w->last)
                while (same < w->n_open && same < w->n_names && w->slices[w->open[same]].name == w->names[same])
                        same++;
        close_to(w, track, same);
        for (uint32_t i = same; i < w->n_names && !w->failed; i++)
                open_slice(w, w->names[i], at.begin);
        w->last = at.end > at.begin ? at.end : at.begin;
}

static int put_tracks(struct writer *w)
{
        const struct infp_profile *s = w->profile;
        uint32_t track = INFP_PROFILE_NONE;

        w->order = calloc((size_t) s->n_times + 1, sizeof(*w->order));
        w->path = calloc(INFP_PROFILE_DEEPEST + 1, sizeof(*w->path));
        if (!w->order || !w->path)
                return -ENOMEM;
        for (uint32_t i = 0; i < s->n_times; i++)
                w->order[i] = (struct order){ w->tracks[s->sums[s->times[i].sum].thread], i };
        infp_sort(w->order, s->n_times, sizeof(*w->order), by_track);
        /* bound: more is an error */
        for (uint32_t i = 0; i < s->n_times && !w->out->error && !w->failed && w->n_all <= MOST_SLICES; i++) {
                if (w->order[i].track != track) {
                        close_to(w, track, 0);
                        track = w->order[i].track;
                        put_names(w, track);
                        w->last = w->base;
                }
                put_sample(w, track, &s->times[w->order[i].time]);
        }
        close_to(w, track, 0);
        return w->failed ? -ENOMEM : 0;
}

/* Where the first stretch begins. */
static uint64_t find_base(const struct writer *w)
{
        const struct infp_profile *s = w->profile;
        uint64_t base = s->first_t_ns;

        for (uint32_t i = 0; i < s->n_times; i++) {
                const struct stretch at = stretch_of(w, &s->times[i], s->first_t_ns);

                base = at.begin < base ? at.begin : base;
        }
        return base;
}

int infp_chrome_write(struct infp_out *out, const struct infp_profile *s, const struct infp_profile_about *about,
                      struct infp_err *err)
{
        infp_cleanup(writer_done) struct writer w = { .profile = s, .out = out };
        int r;

        w.scale = !strcmp(s->unit, "seconds") ? 1e9 : !strcmp(s->unit, "nanoseconds") ? 1 : 0;
        if (w.scale == 0)
                return infp_fail(
                        err, -EINVAL,
                        "a trace has times, and samples of mode '%s' stand for %s: take --speedscope or --pprof",
                        s->mode, s->unit);
        if (infp_stack_mode_of(s->mode) == INFP_STACK_ASYNC)
                return infp_fail(err, -EINVAL,
                                 "a trace has a track for each thread, and tasks of asyncio overlap in it: take "
                                 "--speedscope or --pprof");
        w.base = find_base(&w);
        infp_json_begin(&w.json, &out->text, 0);
        infp_json_object(&w.json);
        infp_json_key(&w.json, "traceEvents");
        infp_json_array(&w.json);
        r = find_tracks(&w);
        if (r >= 0)
                r = put_tracks(&w);
        infp_json_array_end(&w.json);
        infp_json_member_str(&w.json, "displayTimeUnit", "ms");
        infp_json_key(&w.json, "metadata");
        infp_json_object(&w.json);
        infp_json_member_str(&w.json, "run", about->run);
        infp_json_member_str(&w.json, "name", about->name);
        infp_json_member_u64(&w.json, "baseTimeNanoseconds", w.base); /* CLOCK_MONOTONIC */
        if (about->begin_unix_ns > 0)
                infp_json_member_i64(&w.json, "baseUnixNanoseconds", about->begin_unix_ns + (int64_t) (w.base - s->t0));
        infp_json_object_end(&w.json);
        infp_json_object_end(&w.json);
        infp_str_putc(&out->text, '\n');
        if (r >= 0 && w.n_all > MOST_SLICES)
                return infp_fail(
                        err, -E2BIG,
                        "the trace has more than %d slices, which no viewer opens; --from and --to take a part of "
                        "the run, --pprof and --speedscope all of it",
                        MOST_SLICES);
        return r < 0 || out->text.failed ? infp_fail(err, -ENOMEM, "no memory for the trace") : 0;
}
