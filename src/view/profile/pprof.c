/* pprof's profile.proto (github.com/google/pprof), gzip. Two values a sample: samples/count, and what the mode measures; of the heap
 * those of each of its modes that are there, as Go has them: alloc_objects, alloc_space, inuse_objects, inuse_space, of the peak as well.
 * Addresses are those in the object, so that each mapping begins at 0. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "view/profile/profile_formats.h"
#include "view/profile/protobuf.h"

enum {
        P_SAMPLE_TYPE = 1,
        P_SAMPLE,
        P_MAPPING,
        P_LOCATION,
        P_FUNCTION,
        P_STRING,
        P_TIME = 9,
        P_DURATION,
        P_PERIOD_TYPE,
        P_PERIOD,
        P_COMMENT,
        P_DEFAULT_TYPE
};
enum { GZIP = 15 + 16, BLOCK = 64 * 1024 };

struct writer {
        const struct infp_profile *profile;
        struct infp_out *out;
        z_stream zip;
        struct infp_str raw;            /* not yet packed */
        struct infp_str message, inner; /* scratch */
        struct infp_strings strings;    /* number = place in the string table; 0 is "" */
        struct infp_map functions;
        uint32_t n_functions;
        uint32_t *mappings; /* of each frame: id, 0 none */
        double scale;       /* weight to the integer that stands in the file */
        uint32_t n_values;
        struct heap {
                enum infp_stack_mode mode;
                bool has_objects;
        } heaps[INFP_STACK_MODES]; /* of a profile of the heap: its modes */
        unsigned n_heaps;
        bool failed;
};

static void writer_done(struct writer *w)
{
        deflateEnd(&w->zip);
        infp_str_done(&w->raw);
        infp_str_done(&w->message);
        infp_str_done(&w->inner);
        infp_strings_done(&w->strings);
        infp_map_done(&w->functions);
        free(w->mappings);
}

static void pack(struct writer *w, int flush)
{
        unsigned char block[BLOCK];

        w->zip.next_in = (unsigned char *) w->raw.data;
        w->zip.avail_in = (unsigned) w->raw.size;
        do {
                w->zip.next_out = block;
                w->zip.avail_out = sizeof(block);
                deflate(&w->zip, flush);
                infp_str_put(&w->out->text, block, sizeof(block) - w->zip.avail_out);
        } while (!w->zip.avail_out);
        infp_out_drain(w->out);
        infp_str_clear(&w->raw);
}

/* A message that is whole goes into the file. */
static void put(struct writer *w, unsigned field)
{
        infp_protobuf_str(&w->raw, field, &w->message);
        w->failed |= w->raw.failed || w->message.failed || w->inner.failed;
        infp_str_clear(&w->message);
        if (w->raw.size >= BLOCK)
                pack(w, Z_NO_FLUSH);
}

static uint64_t string(struct writer *w, const char *text)
{
        uint32_t number = 0;

        if (text && infp_strings_add(&w->strings, text, strlen(text), &number) < 0)
                w->failed = true;
        return number;
}

static void put_type(struct writer *w, unsigned field, const char *type, const char *unit)
{
        infp_protobuf_u64(&w->message, 1, string(w, type));
        infp_protobuf_u64(&w->message, 2, string(w, unit));
        put(w, field);
}

/* Whether any sample is of the mode, and whether any says how many blocks it stands for. */
static void find_heap(struct writer *w, enum infp_stack_mode mode)
{
        const struct infp_profile *s = w->profile;
        struct heap *heap = &w->heaps[w->n_heaps];
        bool is_any = false;

        *heap = (struct heap){ .mode = mode };
        for (uint32_t i = 0; i < s->n_sums; i++)
                if (infp_stack_mode_of(infp_profile_str(s, s->sums[i].mode)) == mode) {
                        is_any = true;
                        heap->has_objects |= s->sums[i].objects > 0;
                }
        w->n_heaps += is_any;
}

static void put_period(struct writer *w, const char *type, const char *unit, uint64_t period)
{
        put_type(w, P_PERIOD_TYPE, type, unit);
        infp_protobuf_u64(&w->raw, P_PERIOD, period);
}

/* In the order that Go has: allocated, then in use. */
static void put_heap_types(struct writer *w, enum infp_stack_mode chosen, uint64_t mean_bytes)
{
        for (unsigned i = INFP_STACK_MODES; i-- > 0;)
                if (infp_stack_modes[i].space)
                        find_heap(w, (enum infp_stack_mode) i);
        for (unsigned i = 0; i < w->n_heaps; i++) {
                const struct infp_stack_mode_is *is = &infp_stack_modes[w->heaps[i].mode];

                if (w->heaps[i].has_objects)
                        put_type(w, P_SAMPLE_TYPE, is->objects, "count");
                put_type(w, P_SAMPLE_TYPE, is->space, is->unit);
        }
        infp_protobuf_u64(&w->raw, P_DEFAULT_TYPE, string(w, infp_stack_modes[chosen].space));
        if (mean_bytes)
                put_period(w, "space", "bytes", mean_bytes);
}

/* "cpu" and seconds become cpu/nanoseconds; TYPE/UNIT of an imported profile is as it was. */
static void put_types(struct writer *w, const struct infp_profile_about *about)
{
        const struct infp_profile *s = w->profile;
        const bool is_seconds = !strcmp(s->unit, "seconds"), is_ns = is_seconds || !strcmp(s->unit, "nanoseconds");
        const char *unit = is_seconds ? "nanoseconds" : s->unit, *slash = strrchr(s->mode, '/');
        const enum infp_stack_mode own = infp_stack_mode_of(s->mode);
        char type[sizeof(s->mode)];

        if (own < INFP_STACK_MODES && infp_stack_modes[own].space) {
                put_heap_types(w, own, about->heap_bytes);
                return;
        }
        snprintf(type, sizeof(type), "%.*s", slash ? (int) (slash - s->mode) : (int) sizeof(type), s->mode);
        w->scale = is_seconds ? 1e9 : 1;
        w->n_values = !strcmp(unit, "samples") || !strcmp(s->mode, "samples/count") ? 1 : 2;
        put_type(w, P_SAMPLE_TYPE, "samples", "count");
        if (w->n_values < 2)
                return;
        put_type(w, P_SAMPLE_TYPE, type, unit);
        infp_protobuf_u64(&w->raw, P_DEFAULT_TYPE, string(w, type));
        if (is_ns && about->rate_hz > 0)
                put_period(w, type, unit, (uint64_t) llround(1e9 / about->rate_hz));
}

/* An object is a mapping; all that is in it was named by us, so that pprof does not try. */
static int put_mapping(struct writer *w, struct infp_map *known, uint32_t frame, uint64_t limit)
{
        const struct infp_profile_frame *f = &w->profile->frames[frame];
        const uint64_t key = (uint64_t) f->object << 32 | f->build_id;
        const uint64_t *at = infp_map_get(known, key);
        const uint64_t id = at ? *at : known->n + 1;

        w->mappings[frame] = (uint32_t) id;
        if (at)
                return 0;
        if (infp_map_put(known, key, id) < 0)
                return -ENOMEM;
        infp_protobuf_u64(&w->message, 1, id);
        infp_protobuf_u64(&w->message, 3, limit);
        infp_protobuf_u64(&w->message, 5, string(w, infp_profile_str(w->profile, f->object)));
        infp_protobuf_u64(&w->message, 6, string(w, infp_profile_str(w->profile, f->build_id)));
        for (unsigned has = 7; has <= 10; has++) /* functions, file names, line numbers, inlined ones */
                infp_protobuf_u64(&w->message, has, 1);
        put(w, P_MAPPING);
        return 0;
}

/* The first mapping is the program, by the field's custom: the first object that is no library. */
static int put_mappings(struct writer *w)
{
        const struct infp_profile *s = w->profile;
        infp_cleanup(infp_map_done) struct infp_map known = { 0 };
        uint64_t limit = 1;
        int r = 0;

        w->mappings = calloc((size_t) s->n_frames + 1, sizeof(*w->mappings));
        if (!w->mappings)
                return -ENOMEM;
        for (uint32_t i = 0; i < s->n_frames; i++)
                if (s->frames[i].address >= limit)
                        limit = s->frames[i].address + 1 ? s->frames[i].address + 1 : UINT64_MAX;
        for (uint32_t i = 0; i < s->n_frames; i++) {
                const char *object = infp_profile_str(s, s->frames[i].object);

                if (object && *object == '/' && !strstr(infp_base_name(object), ".so")) {
                        r = put_mapping(w, &known, i, limit);
                        break;
                }
        }
        for (uint32_t i = 0; i < s->n_frames && r >= 0; i++)
                if (s->frames[i].object)
                        r = put_mapping(w, &known, i, limit);
        return r;
}

static uint64_t function(struct writer *w, const char *name, const struct infp_profile_level *level)
{
        const uint64_t parts[] = { level ? level->name : 0, level ? level->mangled : 0, level ? level->file : 0,
                                   level ? (uint64_t) level->function_line : 0 };
        const uint64_t key = infp_hash64(parts, sizeof(parts), 0);
        const uint64_t *known = infp_map_get(&w->functions, key);
        const char *mangled = level ? infp_profile_str(w->profile, level->mangled) : NULL;

        if (known)
                return *known;
        if (infp_map_put(&w->functions, key, ++w->n_functions) < 0)
                w->failed = true;
        infp_protobuf_u64(&w->message, 1, w->n_functions);
        infp_protobuf_u64(&w->message, 2, string(w, name));
        infp_protobuf_u64(&w->message, 3, string(w, mangled ? mangled : name));
        infp_protobuf_u64(&w->message, 4, level ? string(w, infp_profile_str(w->profile, level->file)) : 0);
        infp_protobuf_u64(&w->message, 5, level && level->function_line > 0 ? (uint64_t) level->function_line : 0);
        put(w, P_FUNCTION);
        return w->n_functions;
}

/* Location i + 1 is frame i; its lines are innermost first. */
static void put_location(struct writer *w, uint32_t i)
{
        const struct infp_profile_frame *f = &w->profile->frames[i];
        uint64_t functions[INFP_PROFILE_LEVELS];

        for (uint32_t level = 0; level < f->n_levels; level++) {
                const struct infp_profile_level *is = &w->profile->levels[f->first_level + level];

                functions[level] = function(w, infp_profile_str(w->profile, is->name), is);
        }
        infp_protobuf_u64(&w->message, 1, (uint64_t) i + 1);
        infp_protobuf_u64(&w->message, 2, w->mappings[i]);
        infp_protobuf_u64(&w->message, 3, f->has_address ? f->address : 0);
        for (uint32_t level = f->n_levels; level-- > 0;) {
                const struct infp_profile_level *is = &w->profile->levels[f->first_level + level];

                infp_protobuf_u64(&w->inner, 1, functions[level]);
                infp_protobuf_u64(&w->inner, 2, is->line > 0 ? (uint64_t) is->line : 0);
                infp_protobuf_str(&w->message, 4, &w->inner);
                infp_str_clear(&w->inner);
        }
        put(w, P_LOCATION);
}

/* What outer frames that are missing stand after. */
static void put_truncated(struct writer *w)
{
        const uint64_t id = function(w, "[truncated]", NULL);

        infp_protobuf_u64(&w->message, 1, (uint64_t) w->profile->n_frames + 1);
        infp_protobuf_u64(&w->inner, 1, id);
        infp_protobuf_str(&w->message, 4, &w->inner);
        infp_str_clear(&w->inner);
        put(w, P_LOCATION);
}

static void put_label(struct writer *w, const char *key, const char *text, int64_t number)
{
        if (!text && !number)
                return;
        infp_protobuf_u64(&w->inner, 1, string(w, key));
        infp_protobuf_u64(&w->inner, 2, string(w, text));
        infp_protobuf_u64(&w->inner, 3, (uint64_t) number);
        infp_protobuf_str(&w->message, 3, &w->inner);
        infp_str_clear(&w->inner);
}

static void put_labels(struct writer *w, const struct infp_profile_sum *sum)
{
        const struct infp_profile *s = w->profile;
        const struct infp_profile_process *process = &s->processes[sum->process];
        const struct infp_profile_thread *thread = &s->threads[sum->thread];
        char task[512];

        put_label(w, "process", infp_profile_str(s, process->name), 0);
        put_label(w, "pid", NULL, process->pid);
        put_label(w, "thread", infp_profile_str(s, thread->name), 0);
        put_label(w, "tid", NULL, thread->tid);
        put_label(w, "state", infp_profile_str(s, sum->state), 0);
        if (!sum->task)
                return;
        infp_profile_task_label(s, sum, task, sizeof(task));
        put_label(w, "task", task, 0);
}

/* Of the heap: zero but of its own mode. */
static void put_values(struct writer *w, const struct infp_profile_sum *sum)
{
        const enum infp_stack_mode mode = infp_stack_mode_of(infp_profile_str(w->profile, sum->mode));

        for (unsigned i = 0; i < w->n_heaps; i++) {
                const bool is_own = w->heaps[i].mode == mode;

                if (w->heaps[i].has_objects)
                        infp_protobuf_varint(&w->inner, is_own ? (uint64_t) llround(sum->objects) : 0);
                infp_protobuf_varint(&w->inner, is_own ? (uint64_t) llround(sum->weight) : 0);
        }
        if (w->n_heaps)
                return;
        infp_protobuf_varint(&w->inner, sum->samples);
        if (w->n_values > 1)
                infp_protobuf_varint(&w->inner, (uint64_t) llround(sum->weight * w->scale));
}

static void put_sample(struct writer *w, const struct infp_profile_sum *sum)
{
        const struct infp_profile *s = w->profile;

        for (uint32_t i = sum->node; i != INFP_PROFILE_NONE; i = s->nodes[i].parent)
                infp_protobuf_varint(&w->inner, (uint64_t) s->nodes[i].frame + 1);
        if (infp_profile_is_truncated(s, sum))
                infp_protobuf_varint(&w->inner, (uint64_t) s->n_frames + 1);
        infp_protobuf_str(&w->message, 1, &w->inner);
        infp_str_clear(&w->inner);
        put_values(w, sum);
        infp_protobuf_str(&w->message, 2, &w->inner);
        infp_str_clear(&w->inner);
        put_labels(w, sum);
        put(w, P_SAMPLE);
}

static void put_strings(struct writer *w)
{
        infp_protobuf_bytes(&w->raw, P_STRING, "", 0);
        for (uint32_t i = 1; i <= w->strings.n; i++) {
                const char *text = infp_strings_get(&w->strings, i);

                infp_protobuf_bytes(&w->raw, P_STRING, text, strlen(text));
                if (w->raw.size >= BLOCK)
                        pack(w, Z_NO_FLUSH);
        }
}

int infp_pprof_write(struct infp_out *out, const struct infp_profile *s, const struct infp_profile_about *about,
                     struct infp_err *err)
{
        infp_cleanup(writer_done) struct writer w = { .profile = s, .out = out };
        char comment[128];

        if (deflateInit2(&w.zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK)
                return infp_fail(err, -ENOMEM, "no memory to pack the profile");
        put_types(&w, about);
        if (put_mappings(&w) < 0)
                return infp_fail(err, -ENOMEM, "no memory for the profile");
        for (uint32_t i = 0; i < s->n_frames && !out->error; i++)
                put_location(&w, i);
        put_truncated(&w);
        for (uint32_t i = 0; i < s->n_sums && !out->error; i++)
                put_sample(&w, &s->sums[i]);
        snprintf(comment, sizeof(comment), "infprof run %s", about->run);
        infp_protobuf_u64(&w.raw, P_COMMENT, string(&w, comment));
        infp_protobuf_u64(&w.raw, P_TIME, (uint64_t) (about->begin_unix_ns > 0 ? about->begin_unix_ns : 0));
        infp_protobuf_u64(&w.raw, P_DURATION, s->t1 - s->t0);
        put_strings(&w);
        w.failed |= w.raw.failed;
        pack(&w, Z_FINISH);
        return w.failed || out->text.failed ? infp_fail(err, -ENOMEM, "no memory for the profile") : 0;
}
