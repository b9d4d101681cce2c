/* speedscope's own JSON: profiles of samples, or of frames that open and close, with one list of frames. Profiles become threads.
 * What has a unit of time lies where the file says, counted from the least of its begins. */
#include <errno.h>
#include <jansson.h>
#include <malloc.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/time.h"
#include "import/format.h"
#include "import/name.h"
#include "import/unit.h"

static size_t used, most;
static bool is_full;

static void *take(size_t size)
{
        void *ret = used + size <= most ? malloc(size) : NULL;

        is_full |= used + size > most;
        if (ret)
                used += malloc_usable_size(ret);
        return ret;
}

static void give(void *memory)
{
        if (memory)
                used -= malloc_usable_size(memory);
        free(memory);
}

/* Within a bound of memory: two bytes of text ("[]") can become a hundred in memory. No other thread uses jansson meanwhile: its
 * allocator belongs to the process. */
static int load_bounded(const char *path, const char *data, size_t size, size_t max_bytes, json_t **ret,
                        struct infp_err *err)
{
        json_malloc_t old_take;
        json_free_t old_give;
        json_error_t error;

        json_get_alloc_funcs(&old_take, &old_give);
        used = 0;
        most = max_bytes;
        is_full = false;
        json_set_alloc_funcs(take, give);
        *ret = json_loadb(data, size, 0, &error);
        json_set_alloc_funcs(old_take, old_give); /* both are malloc: what was taken may be given to either */
        if (*ret)
                return 0;
        if (is_full)
                return infp_fail(err, -EFBIG, "%s is too large: in memory it takes more than %zu MiB", path,
                                 max_bytes >> 20);
        return infp_fail(err, -EBADMSG, "%s, line %d: not JSON: %.160s", path, error.line, error.text);
}

enum {
        SPEEDSCOPE_MAX = 64 << 20,   /* of text */
        SPEEDSCOPE_MEMORY = 1 << 30, /* its numbers take ten times that */
        DEPTH_MAX = 100000,          /* frames that are open at once */
        NAME_MAX_ = 80,
};

static const double most_seconds = 100.0 * 366 * 86400; /* a century: more means broken numbers */

struct speedscope {
        struct infp_import_input *input;
        struct infp_import_writer *writer;
        json_t *all;
        uint64_t *frames; /* ids of the list */
        size_t n_frames;
        const char *own_mode; /* of a file that we wrote; else NULL */
        bool is_ours;
        long double start; /* least startValue of profiles in time, in seconds */
        /* The current profile. */
        const char *name;
        char shown[NAME_MAX_ + 1]; /* its name, for messages */
        char mode[INFP_IMPORT_MODE_TEXT];
        double seconds; /* of one of its unit; 0: no time */
        struct infp_import_sample sample;
        uint64_t *stack;
        int64_t *open; /* the same as numbers of frames */
        size_t n_stack, cap_stack;
};

static int broken(const struct speedscope *s, const char *what, struct infp_err *err)
{
        return infp_fail(err, -EBADMSG, "%s is not a complete speedscope profile: %s%s%s%s", infp_import_path(s->input),
                         what, *s->shown ? " (profile '" : "", s->shown, *s->shown ? "')" : "");
}

static int no_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "not enough memory to import");
}

/* Of a member, or of `json` itself without a name. Not finite cannot be. A double has no nanoseconds since 1970. */
static bool number(const json_t *json, const char *member, long double *ret)
{
        const json_t *value = member ? json_object_get(json, member) : json;

        if (!json_is_number(value))
                return false;
        *ret = json_is_integer(value) ? (long double) json_integer_value(value) : (long double) json_real_value(value);
        return true;
}

static struct infp_import_text text(const json_t *json, const char *member)
{
        const json_t *value = json_object_get(json, member);

        return (struct infp_import_text){ json_string_value(value), json_string_length(value) };
}

static int make_frame(struct speedscope *s, const json_t *frame, struct infp_import_place *place, uint64_t *ret,
                      struct infp_err *err)
{
        struct infp_import_text name = text(frame, "name"), file = text(frame, "file");
        const int64_t line = json_integer_value(json_object_get(frame, "line"));

        if (!name.data)
                return broken(s, "a frame has no name", err);
        infp_import_name(name.size ? name : infp_import_text("[unknown]"), place);
        if (file.size) {
                place->levels[0].file = file;
                place->levels[0].line = line > 0 ? line : 0;
                place->kind = infp_import_kind_of_file(file, place->kind);
        }
        return infp_import_frame(s->writer, place, ret, err);
}

static int make_frames(struct speedscope *s, struct infp_err *err)
{
        const json_t *frames = json_object_get(json_object_get(s->all, "shared"), "frames");
        infp_autofree struct infp_import_place *place = calloc(1, sizeof(*place));

        if (!json_is_array(frames))
                return broken(s, "it has no shared.frames", err);
        s->n_frames = json_array_size(frames);
        s->frames = calloc(s->n_frames + 1, sizeof(*s->frames));
        if (!place || !s->frames)
                return no_memory(err);
        for (size_t i = 0; i < s->n_frames; i++)
                INFP_TRY(make_frame(s, json_array_get(frames, i), place, &s->frames[i], err));
        return 0;
}

/* Opens a frame on the stack in hand. */
static int push(struct speedscope *s, const json_t *frame, struct infp_err *err)
{
        const json_int_t i = json_is_integer(frame) ? json_integer_value(frame) : -1;
        size_t cap = s->cap_stack;

        if (i < 0 || (size_t) i >= s->n_frames)
                return broken(s, "a frame is not in the list of frames", err);
        if (s->n_stack == DEPTH_MAX)
                return broken(s, "a stack has more than 100,000 frames", err);
        if (!INFP_MAKE_ROOM(s->open, s->n_stack, cap, 256) || !INFP_MAKE_ROOM(s->stack, s->n_stack, s->cap_stack, 256))
                return no_memory(err);
        s->open[s->n_stack] = i;
        s->stack[s->n_stack++] = s->frames[i];
        return 0;
}

/* The stack in hand for `weight` of the profile's unit, from `at` on. */
static int put(struct speedscope *s, long double at, long double weight, struct infp_err *err)
{
        const long double seconds = s->seconds > 0 ? at * s->seconds - s->start : 0;

        if (!(weight >= 0))
                return broken(s, "a weight is negative", err);
        if (!(seconds >= 0 && seconds < most_seconds))
                return broken(s, "a time lies before the start, or a century after it", err);
        s->sample.t_ns = infp_import_begin_t_ns(s->writer) + (uint64_t) (seconds * 1e9 + 0.5);
        s->sample.weight = (double) (weight * (s->seconds > 0 ? s->seconds : 1));
        s->sample.samples = 1;
        /* A mode that counts samples: so many, where we said so ourselves. */
        if (s->own_mode && !strcmp(s->own_mode, "samples/count") && weight < 0x1p53L && weight == floorl(weight))
                s->sample.samples = (int64_t) weight;
        INFP_TRY(infp_import_stack(s->writer, s->stack, s->n_stack, false, &s->sample.stack, &s->sample.is_truncated,
                                   err));
        return infp_import_sample(s->writer, &s->sample, err);
}

static int take_sampled(struct speedscope *s, const json_t *profile, struct infp_err *err)
{
        const json_t *samples = json_object_get(profile, "samples"), *weights = json_object_get(profile, "weights");
        long double at;

        if (!json_is_array(samples) || !json_is_array(weights))
                return broken(s, "a sampled profile has no samples or no weights", err);
        if (json_array_size(samples) != json_array_size(weights))
                return broken(s, "it has fewer or more weights than samples", err);
        if (!number(profile, "startValue", &at))
                at = 0;
        for (size_t i = 0; i < json_array_size(samples); i++) {
                const json_t *stack = json_array_get(samples, i);
                long double weight;

                if (!json_is_array(stack) || !number(json_array_get(weights, i), NULL, &weight))
                        return broken(s, "a sample is not a list of frames, or its weight is not a number", err);
                s->n_stack = 0;
                for (size_t k = 0; k < json_array_size(stack); k++)
                        INFP_TRY(push(s, json_array_get(stack, k), err));
                INFP_TRY(put(s, at, weight, err));
                at += weight;
        }
        return 0;
}

static int take_event(struct speedscope *s, const json_t *event, long double *at, struct infp_err *err)
{
        const char *type = json_string_value(json_object_get(event, "type"));
        const json_t *frame = json_object_get(event, "frame");
        long double next;

        if (!type || !number(event, "at", &next) || (strcmp(type, "O") != 0 && strcmp(type, "C") != 0))
                return broken(s, "an event has no type O or C, or no time", err);
        if (next < *at)
                return broken(s, "its events run backwards", err);
        if (s->n_stack && next > *at)
                INFP_TRY(put(s, *at, next - *at, err));
        *at = next;
        if (*type == 'O')
                return push(s, frame, err);
        if (!s->n_stack || !json_is_integer(frame) || s->open[s->n_stack - 1] != json_integer_value(frame))
                return broken(s, "a frame is closed that is not the innermost open one", err);
        s->n_stack--;
        return 0;
}

/* Frames that are open at the end end there. */
static int take_evented(struct speedscope *s, const json_t *profile, struct infp_err *err)
{
        const json_t *events = json_object_get(profile, "events");
        long double at, end;

        if (!json_is_array(events))
                return broken(s, "an evented profile has no events", err);
        if (!number(profile, "startValue", &at))
                at = 0;
        s->n_stack = 0;
        for (size_t i = 0; i < json_array_size(events); i++)
                INFP_TRY(take_event(s, json_array_get(events, i), &at, err));
        if (s->n_stack && number(profile, "endValue", &end) && end > at)
                INFP_TRY(put(s, at, end - at, err));
        return 0;
}

static bool take_number(struct speedscope *s, const char *begin, const char *end)
{
        uint64_t tid;

        if (infp_parse_u64(begin, (size_t) (end - begin), &tid) < 0 || tid > INT32_MAX)
                return false;
        s->sample.tid = (int32_t) tid;
        return true;
}

/* py-spy: Thread 1234 "NAME". */
static bool take_pyspy(struct speedscope *s, struct infp_import_text name)
{
        const char *end, *quote;

        if (name.size < 11 || memcmp(name.data, "Thread ", 7) != 0 || name.data[name.size - 1] != '"')
                return false;
        end = name.data + name.size;
        quote = memchr(name.data, '"', name.size);
        if (quote == end - 1 || quote < name.data + 9 || quote[-1] != ' ' || !take_number(s, name.data + 7, quote - 1))
                return false;
        s->sample.thread = (struct infp_import_text){ quote + 1, (size_t) (end - 1 - (quote + 1)) };
        return true;
}

/* "NAME (TID)" is how we write it ourselves. */
static void take_thread(struct speedscope *s, struct infp_import_text name)
{
        const char *open = name.size > 3 && name.data[name.size - 1] == ')' ? infp_import_last(name, '(') : NULL;

        s->sample.thread = name;
        if (take_pyspy(s, name) || !s->is_ours || !open || open - name.data < 2 || open[-1] != ' ')
                return;
        if (take_number(s, open + 1, name.data + name.size - 1))
                s->sample.thread.size = (size_t) (open - 1 - name.data);
}

static void take_unit(struct speedscope *s, const json_t *profile)
{
        const struct infp_import_text unit = text(profile, "unit");

        s->seconds = infp_import_seconds(unit);
        if (s->own_mode)
                strncpy(s->mode, s->own_mode, sizeof(s->mode) - 1);
        else if (s->seconds > 0)
                strcpy(s->mode, "time/seconds");
        else if (infp_import_is(unit, "bytes") && infp_import_wanted(s->writer, NULL))
                strcpy(s->mode, infp_import_wanted(s->writer, NULL));
        else
                infp_import_mode(infp_import_text("weight"), unit, s->mode);
        if (s->own_mode && strchr(s->own_mode, '/'))
                s->seconds = 0; /* the unit is kept */
}

static void show_name(struct speedscope *s, struct infp_import_text name)
{
        size_t n = 0;

        for (; n < name.size && n < NAME_MAX_; n++) /* bound: shortened, for a message */
                s->shown[n] = (unsigned char) name.data[n] < ' ' ? ' ' : name.data[n];
        s->shown[n] = 0;
}

static int take_profile(struct speedscope *s, const json_t *profile, struct infp_err *err)
{
        const char *type = json_string_value(json_object_get(profile, "type"));
        const struct infp_import_text name = text(profile, "name");

        show_name(s, name);
        s->sample = (struct infp_import_sample){ .cpu = -1, .mode = s->mode };
        take_thread(s, name);
        take_unit(s, profile);
        if (type && !strcmp(type, "sampled"))
                return take_sampled(s, profile, err);
        if (type && !strcmp(type, "evented"))
                return take_evented(s, profile, err);
        return broken(s, "a profile is neither sampled nor evented", err);
}

static void find_start(struct speedscope *s, const json_t *profiles)
{
        bool is_first = true;

        s->start = 0;
        for (size_t i = 0; i < json_array_size(profiles); i++) {
                const json_t *profile = json_array_get(profiles, i);
                const double seconds = infp_import_seconds(text(profile, "unit"));
                long double start;

                if (seconds <= 0)
                        continue;
                infp_import_found(s->writer)->has_times = true;
                if (!number(profile, "startValue", &start))
                        start = 0;
                if (is_first || start * seconds < s->start)
                        s->start = start * seconds;
                is_first = false;
        }
}

static void take_exporter(struct speedscope *s)
{
        const struct infp_import_text exporter = text(s->all, "exporter"), mode = text(s->all, "infprof_mode");
        struct infp_imported *found = infp_import_found(s->writer);
        size_t n = exporter.size < sizeof(found->by) ? exporter.size : sizeof(found->by) - 1;

        if (n)
                memcpy(found->by, exporter.data, n);
        found->by[n] = 0;
        s->is_ours = n > 8 && !memcmp(found->by, "infprof@", 8);
        if (s->is_ours && mode.size && mode.size < INFP_IMPORT_MODE_TEXT)
                s->own_mode = mode.data;
}

static int take_all(struct speedscope *s, struct infp_err *err)
{
        const json_t *profiles = json_object_get(s->all, "profiles");

        if (!json_is_array(profiles))
                return broken(s, "it has no profiles", err);
        INFP_TRY(infp_import_begin_now(s->writer, err));
        take_exporter(s);
        INFP_TRY(make_frames(s, err));
        find_start(s, profiles);
        for (size_t i = 0; i < json_array_size(profiles); i++)
                INFP_TRY(take_profile(s, json_array_get(profiles, i), err));
        return 0;
}

static int read_json(struct speedscope *s, struct infp_err *err)
{
        const char *data;
        size_t size;

        INFP_TRY(infp_import_all(s->input, SPEEDSCOPE_MAX, &data, &size, err));
        INFP_TRY(load_bounded(infp_import_path(s->input), data, size, SPEEDSCOPE_MEMORY, &s->all, err));
        return take_all(s, err);
}

static int read_speedscope(struct infp_import_input *input, struct infp_import_writer *writer, struct infp_err *err)
{
        struct speedscope *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return no_memory(err);
        s->input = input;
        s->writer = writer;
        r = read_json(s, err);
        json_decref(s->all);
        free(s->frames);
        free(s->stack);
        free(s->open);
        free(s);
        return r;
}

static enum infp_import_sure look(const char *head, size_t size)
{
        size_t at = 0;

        while (at < size && strchr(" \t\r\n", head[at]))
                at++;
        if (at == size || head[at] != '{' || memchr(head, 0, size))
                return INFP_IMPORT_NO;
        if (memmem(head, size, "speedscope", 10) ||
            (memmem(head, size, "\"shared\"", 8) && memmem(head, size, "\"frames\"", 8)))
                return INFP_IMPORT_SURE;
        return INFP_IMPORT_NO;
}

const struct infp_import_format infp_import_speedscope = {
        .name = "speedscope",
        .help = "speedscope's own JSON, sampled or evented (py-spy, rbspy, Austin, 0x, speedscope.app)",
        .takes_mode = true,
        .look = look,
        .read = read_speedscope,
};
