/* Speedscope's own JSON (https://www.speedscope.app/file-format-schema.json): sampled profiles, one a thread (or process, state,
 * mode). Samples stand in order of time, one by one, as long as the file stays small enough for a browser; else stacks are
 * summed up, which its views "Left Heavy" and "Sandwich" show alike. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/json/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"
#include "view/profile/profile_formats.h"

enum { MOST_NUMBERS = 6000000 }; /* of frames in stacks: about 40 MB of text */

struct profile {
        char name[512];
        uint32_t number;
        double weight;
};

struct writer {
        const struct infp_profile *profile;
        struct infp_out *out;
        const struct infp_profile_about *about;
        struct infp_json json;
        uint32_t *frames; /* of each level: number in shared.frames */
        uint32_t n_frames;
        struct infp_map frame_of_key, profile_of_name;
        struct profile *profiles;
        uint32_t n_profiles, cap_profiles;
        uint32_t *profile_of; /* of each sum */
        uint32_t *path;
};

static void writer_done(struct writer *w)
{
        infp_map_done(&w->frame_of_key);
        infp_map_done(&w->profile_of_name);
        free(w->frames);
        free(w->profiles);
        free(w->profile_of);
        free(w->path);
}

static void put_frame(struct writer *w, const char *name, const char *file, int64_t line)
{
        infp_json_object(&w->json);
        infp_json_member_str(&w->json, "name", name);
        if (file)
                infp_json_member_str(&w->json, "file", file);
        if (line > 0)
                infp_json_member_i64(&w->json, "line", line);
        infp_json_object_end(&w->json);
        infp_out_drain(w->out);
        w->n_frames++;
}

/* Functions, each once. Frame 0 is "[truncated]". */
static int put_frames(struct writer *w)
{
        const struct infp_profile *s = w->profile;

        w->frames = calloc((size_t) s->n_levels + 1, sizeof(*w->frames));
        if (!w->frames)
                return -ENOMEM;
        infp_json_key(&w->json, "shared");
        infp_json_object(&w->json);
        infp_json_key(&w->json, "frames");
        infp_json_array(&w->json);
        put_frame(w, "[truncated]", NULL, 0);
        for (uint32_t i = 0; i < s->n_levels; i++) {
                const struct infp_profile_level *level = &s->levels[i];
                const uint64_t parts[] = { level->name, level->file, (uint64_t) level->function_line };
                const uint64_t key = infp_hash64(parts, sizeof(parts), 0);
                const uint64_t *known = infp_map_get(&w->frame_of_key, key);

                w->frames[i] = known ? (uint32_t) *known : w->n_frames;
                if (known)
                        continue;
                if (infp_map_put(&w->frame_of_key, key, w->n_frames) < 0)
                        return -ENOMEM;
                put_frame(w, infp_profile_str(s, level->name), infp_profile_str(s, level->file), level->function_line);
        }
        infp_json_array_end(&w->json);
        infp_json_object_end(&w->json);
        return 0;
}

static void name_profile(const struct writer *w, const struct infp_profile_sum *sum, char *ret, size_t size)
{
        const struct infp_profile *s = w->profile;

        switch (w->about->by) {
        case INFP_FLAME_BY_PROCESS:
                infp_profile_process_label(s, sum->process, true, ret, size);
                break;
        case INFP_FLAME_BY_STATE:
                snprintf(ret, size, "%.500s", sum->state ? infp_profile_str(s, sum->state) : "running");
                break;
        case INFP_FLAME_BY_MODE:
                snprintf(ret, size, "%.500s", sum->mode ? infp_profile_str(s, sum->mode) : "[no mode]");
                break;
        case INFP_FLAME_BY_TASK:
                infp_profile_task_label(s, sum, ret, size);
                break;
        default:
                if (!s->threads[sum->thread].id && !s->threads[sum->thread].tid) { /* an import that knows none */
                        snprintf(ret, size, "%.500s", w->about->name);
                        break;
                }
                infp_profile_thread_label(s, sum->thread, true, ret, size);
        }
}

static int profile_of(struct writer *w, const struct infp_profile_sum *sum, uint32_t *ret)
{
        char name[512];
        const uint64_t *known;
        uint64_t key;

        name_profile(w, sum, name, sizeof(name));
        key = infp_hash64(name, strlen(name), 0);
        known = infp_map_get(&w->profile_of_name, key);
        if (known) {
                *ret = (uint32_t) *known;
                return 0;
        }
        if (!INFP_MAKE_ROOM(w->profiles, w->n_profiles, w->cap_profiles, 16))
                return -ENOMEM;
        if (infp_map_put(&w->profile_of_name, key, w->n_profiles) < 0)
                return -ENOMEM;
        w->profiles[w->n_profiles] = (struct profile){ .number = w->n_profiles };
        memcpy(w->profiles[w->n_profiles].name, name, sizeof(name));
        *ret = w->n_profiles++;
        return 0;
}

static int by_weight(const void *a, const void *b)
{
        const struct profile *x = a, *y = b;

        if (x->weight != y->weight)
                return x->weight > y->weight ? -1 : 1;
        return (x->number > y->number) - (x->number < y->number);
}

static int find_profiles(struct writer *w)
{
        const struct infp_profile *s = w->profile;

        w->profile_of = calloc((size_t) s->n_sums + 1, sizeof(*w->profile_of));
        if (!w->profile_of)
                return -ENOMEM;
        for (uint32_t i = 0; i < s->n_sums; i++) {
                INFP_TRY(profile_of(w, &s->sums[i], &w->profile_of[i]));
                w->profiles[w->profile_of[i]].weight += s->sums[i].weight;
        }
        infp_sort(w->profiles, w->n_profiles, sizeof(*w->profiles), by_weight);
        return 0;
}

/* Numbers of shared frames, root first. */
static void put_stack(struct writer *w, const struct infp_profile_sum *sum)
{
        const struct infp_profile *s = w->profile;
        uint32_t n = 0;

        for (uint32_t i = sum->node; i != INFP_PROFILE_NONE; i = s->nodes[i].parent)
                w->path[n++] = i;
        infp_json_array(&w->json);
        if (infp_profile_is_truncated(s, sum))
                infp_json_u64(&w->json, 0);
        while (n) {
                const struct infp_profile_frame *frame = &s->frames[s->nodes[w->path[--n]].frame];

                for (uint32_t level = 0; level < frame->n_levels; level++)
                        infp_json_u64(&w->json, w->frames[frame->first_level + level]);
        }
        infp_json_array_end(&w->json);
        infp_out_drain(w->out);
}

/* Each of a profile's samples, or sums of them. */
static void each(struct writer *w, uint32_t profile, bool in_time, bool is_weight)
{
        const struct infp_profile *s = w->profile;
        const uint32_t n = in_time ? s->n_times : s->n_sums;

        for (uint32_t i = 0; i < n && !w->out->error; i++) {
                const uint32_t sum = in_time ? s->times[i].sum : i;

                if (w->profile_of[sum] != profile)
                        continue;
                if (is_weight)
                        infp_json_f64(&w->json, in_time ? s->times[i].weight : s->sums[i].weight);
                else
                        put_stack(w, &s->sums[sum]);
        }
}

static const char *unit_of(const struct infp_profile *s)
{
        static const char *const known[] = { "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes" };

        for (unsigned i = 0; i < INFP_COUNT(known); i++)
                if (!strcmp(s->unit, known[i]))
                        return known[i];
        return "none";
}

static bool is_small(const struct infp_profile *s)
{
        uint64_t numbers = 0;

        /* bound: more is refused with an error */
        for (uint32_t i = 0; i < s->n_times && numbers <= MOST_NUMBERS; i++) {
                const uint32_t node = s->sums[s->times[i].sum].node;

                numbers += node == INFP_PROFILE_NONE ? 1 : s->nodes[node].depth + 2U;
        }
        return s->n_times && numbers <= MOST_NUMBERS;
}

static void put_profile(struct writer *w, const struct profile *profile, bool in_time)
{
        infp_json_object(&w->json);
        infp_json_member_str(&w->json, "type", "sampled");
        infp_json_member_str(&w->json, "name", profile->name);
        infp_json_member_str(&w->json, "unit", unit_of(w->profile));
        infp_json_member_u64(&w->json, "startValue", 0);
        infp_json_member_f64(&w->json, "endValue", profile->weight);
        infp_json_key(&w->json, "samples");
        infp_json_array(&w->json);
        each(w, profile->number, in_time, false);
        infp_json_array_end(&w->json);
        infp_json_key(&w->json, "weights");
        infp_json_array(&w->json);
        each(w, profile->number, in_time, true);
        infp_json_array_end(&w->json);
        infp_json_object_end(&w->json);
}

static int write_all(struct writer *w)
{
        const bool in_time = is_small(w->profile);

        w->path = calloc(INFP_PROFILE_DEEPEST + 1, sizeof(*w->path));
        if (!w->path)
                return -ENOMEM;
        infp_json_begin(&w->json, &w->out->text, 0);
        infp_json_object(&w->json);
        infp_json_member_str(&w->json, "$schema", "https://www.speedscope.app/file-format-schema.json");
        infp_json_member_str(&w->json, "name", w->about->name);
        infp_json_member_str(&w->json, "exporter", "infprof@" INFP_VERSION);
        infp_json_member_u64(&w->json, "activeProfileIndex", 0);
        if (w->about->by != INFP_FLAME_BY_MODE) /* for infprof import: the format knows units alone */
                infp_json_member_str(&w->json, "infprof_mode", w->profile->mode);
        INFP_TRY(put_frames(w));
        INFP_TRY(find_profiles(w));
        infp_json_key(&w->json, "profiles");
        infp_json_array(&w->json);
        for (uint32_t i = 0; i < w->n_profiles && !w->out->error; i++)
                put_profile(w, &w->profiles[i], in_time);
        infp_json_array_end(&w->json);
        infp_json_object_end(&w->json);
        infp_str_putc(&w->out->text, '\n');
        return w->out->text.failed ? -ENOMEM : 0;
}

int infp_speedscope_write(struct infp_out *out, const struct infp_profile *profile,
                          const struct infp_profile_about *about, struct infp_err *err)
{
        infp_cleanup(writer_done) struct writer w = { .profile = profile, .out = out, .about = about };

        return write_all(&w) < 0 ? infp_fail(err, -ENOMEM, "no memory for the profile") : 0;
}
