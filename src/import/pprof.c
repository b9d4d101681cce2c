/* pprof: profile.proto, plain or packed by gzip, as Go, gperftools' converters, Rust, Java, Node and parca write it. Samples are sums
 * without times: all of them lie at the profile's begin. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"
#include "base/time.h"
#include "import/format.h"
#include "import/name.h"
#include "import/protobuf.h"
#include "import/unit.h"

enum {
        PPROF_MAX = 256 << 20,      /* bytes of content */
        PPROF_MAX_THINGS = 4000000, /* strings, functions, locations */
        PPROF_MAX_MAPPINGS = 100000,
        PPROF_MAX_TYPES = 64,
        PPROF_MESSAGES = 15, /* numbers of fields of Profile end below it */
};

/* Fields of Profile. */
enum {
        PPROF_SAMPLE_TYPE = 1,
        PPROF_SAMPLE,
        PPROF_MAPPING,
        PPROF_LOCATION,
        PPROF_FUNCTION,
        PPROF_STRING,
        PPROF_DROP_FRAMES,
        PPROF_KEEP_FRAMES,
        PPROF_TIME,
        PPROF_DURATION,
        PPROF_PERIOD_TYPE,
        PPROF_PERIOD,
        PPROF_COMMENT,
        PPROF_DEFAULT_TYPE,
};

struct pprof_function {
        uint64_t name, system_name, file; /* strings */
        int64_t line;
};

struct pprof_location {
        uint64_t mapping, address;
        struct infp_proto message; /* its lines are read when a sample names it */
        uint64_t frame;            /* 0: not yet made */
};

struct pprof_mapping {
        uint64_t id, start, end, offset, path, build_id;
};

struct pprof_type {
        uint64_t type, unit; /* strings */
};

/* How values of a sample become a row. */
struct pprof_mode {
        char mode[INFP_IMPORT_MODE_TEXT];
        int weight, samples; /* positions; samples -1: the file has no such count */
        double factor;       /* of the weight */
        bool is_heap;        /* its count is of blocks, not of samples */
};

struct pprof {
        struct infp_import_input *input;
        struct infp_import_writer *writer;
        const uint8_t *begin; /* of the content, for messages */
        struct infp_proto all;
        struct infp_import_text *strings;
        size_t n_strings, cap_strings;
        struct pprof_function *functions;
        size_t n_functions, cap_functions;
        struct pprof_location *locations;
        size_t n_locations, cap_locations;
        struct pprof_mapping *mappings;
        size_t n_mappings, cap_mappings;
        struct infp_map function_by_id, location_by_id, mapping_by_id;
        struct pprof_type types[PPROF_MAX_TYPES], period_type;
        unsigned n_types;
        int64_t period, time_ns, duration_ns;
        double mean; /* bytes from one sampled block to the next, on average; 0: not known; 1: each block was counted */
        struct pprof_mode modes[PPROF_MAX_TYPES];
        unsigned n_modes;
        struct infp_import_place place;
        struct infp_str name; /* of a place without a function */
};

/* -EBADMSG: names the file and the byte where `at` lies. */
static int broken(const struct pprof *p, const void *at, const char *why, struct infp_err *err)
{
        return infp_fail(err, -EBADMSG, "%s is not a complete pprof profile: near byte %zu of its content %s",
                         infp_import_path(p->input), (size_t) ((const uint8_t *) at - p->begin), why);
}

/* A string by number; -EBADMSG beyond the table. */
static int string_at(const struct pprof *p, uint64_t number, const void *at, struct infp_import_text *ret,
                     struct infp_err *err)
{
        if (number >= p->n_strings && number)
                return broken(p, at, "a name lies beyond the table of strings", err);
        *ret = p->n_strings ? p->strings[number] : infp_import_text("");
        return 0;
}

/* Room for one more. */
static int grow(void *array, size_t *cap, size_t n, size_t size, size_t max, const struct pprof *p,
                struct infp_err *err)
{
        void **at = array, *grown;
        size_t wanted = *cap ? 2 * *cap : 256;

        if (n < *cap)
                return 0;
        if (n >= max)
                return infp_fail(err, -E2BIG,
                                 "%s has more than %zu strings, functions or locations: too many for a profile",
                                 infp_import_path(p->input), max);
        grown = realloc(*at, wanted * size);
        if (!grown)
                return infp_fail(err, -ENOMEM, "not enough memory to read %s", infp_import_path(p->input));
        *at = grown;
        *cap = wanted;
        return 0;
}

/* Numbers of a message by their fields, up to number 15; what is not a number is left out. */
static int read_numbers(const struct pprof *p, struct infp_proto message, uint64_t ret[PPROF_MESSAGES + 1],
                        struct infp_err *err)
{
        struct infp_proto_field field;
        int r;

        memset(ret, 0, (PPROF_MESSAGES + 1) * sizeof(*ret));
        while ((r = infp_proto_next(&message, &field)) > 0)
                if (field.type == INFP_PROTO_VARINT && field.number <= PPROF_MESSAGES)
                        ret[field.number] = field.value;
        return r < 0 ? broken(p, message.at, "a message is broken", err) : 0;
}

static int add_id(const struct pprof *p, struct infp_map *map, uint64_t id, size_t at, const void *where,
                  struct infp_err *err)
{
        if (!id)
                return broken(p, where, "an entry has id 0", err);
        if (infp_map_get(map, id))
                return broken(p, where, "two entries have the same id", err);
        return infp_map_put(map, id, at) < 0
                       ? infp_fail(err, -ENOMEM, "not enough memory to read %s", infp_import_path(p->input))
                       : 0;
}

static int add_string(struct pprof *p, const struct infp_proto_field *field, struct infp_err *err)
{
        INFP_TRY(grow(&p->strings, &p->cap_strings, p->n_strings, sizeof(*p->strings), PPROF_MAX_THINGS, p, err));
        p->strings[p->n_strings++] = (struct infp_import_text){ (const char *) field->bytes, field->size };
        return 0;
}

static int add_function(struct pprof *p, const struct infp_proto_field *field, struct infp_err *err)
{
        uint64_t v[PPROF_MESSAGES + 1];

        INFP_TRY(read_numbers(p, infp_proto_message(field), v, err));
        INFP_TRY(grow(&p->functions, &p->cap_functions, p->n_functions, sizeof(*p->functions), PPROF_MAX_THINGS, p,
                      err));
        INFP_TRY(add_id(p, &p->function_by_id, v[1], p->n_functions, field->bytes, err));
        p->functions[p->n_functions++] = (struct pprof_function){ v[2], v[3], v[4], (int64_t) v[5] };
        return 0;
}

static int add_location(struct pprof *p, const struct infp_proto_field *field, struct infp_err *err)
{
        uint64_t v[PPROF_MESSAGES + 1];

        INFP_TRY(read_numbers(p, infp_proto_message(field), v, err));
        INFP_TRY(grow(&p->locations, &p->cap_locations, p->n_locations, sizeof(*p->locations), PPROF_MAX_THINGS, p,
                      err));
        INFP_TRY(add_id(p, &p->location_by_id, v[1], p->n_locations, field->bytes, err));
        p->locations[p->n_locations++] =
                (struct pprof_location){ .mapping = v[2], .address = v[3], .message = infp_proto_message(field) };
        return 0;
}

static int add_mapping(struct pprof *p, const struct infp_proto_field *field, struct infp_err *err)
{
        uint64_t v[PPROF_MESSAGES + 1];

        INFP_TRY(read_numbers(p, infp_proto_message(field), v, err));
        INFP_TRY(grow(&p->mappings, &p->cap_mappings, p->n_mappings, sizeof(*p->mappings), PPROF_MAX_MAPPINGS, p, err));
        INFP_TRY(add_id(p, &p->mapping_by_id, v[1], p->n_mappings, field->bytes, err));
        p->mappings[p->n_mappings++] = (struct pprof_mapping){ v[1], v[2], v[3], v[4], v[5], v[6] };
        return 0;
}

static int read_type(const struct pprof *p, const struct infp_proto_field *field, struct pprof_type *ret,
                     struct infp_err *err)
{
        uint64_t v[PPROF_MESSAGES + 1];

        INFP_TRY(read_numbers(p, infp_proto_message(field), v, err));
        *ret = (struct pprof_type){ v[1], v[2] };
        return 0;
}

static int add_type(struct pprof *p, const struct infp_proto_field *field, struct infp_err *err)
{
        if (p->n_types == PPROF_MAX_TYPES)
                return broken(p, field->bytes, "are more than 64 sample types", err);
        return read_type(p, field, &p->types[p->n_types++], err);
}

static int take(struct pprof *p, const struct infp_proto_field *field, struct infp_err *err)
{
        static int (*const messages[PPROF_MESSAGES])(struct pprof *, const struct infp_proto_field *,
                                                     struct infp_err *) = {
                [PPROF_SAMPLE_TYPE] = add_type,  [PPROF_MAPPING] = add_mapping, [PPROF_LOCATION] = add_location,
                [PPROF_FUNCTION] = add_function, [PPROF_STRING] = add_string,
        };

        if (field->number < PPROF_MESSAGES && messages[field->number] && field->type == INFP_PROTO_BYTES)
                return messages[field->number](p, field, err);
        if (field->number == PPROF_PERIOD_TYPE && field->type == INFP_PROTO_BYTES)
                return read_type(p, field, &p->period_type, err);
        if (field->type != INFP_PROTO_VARINT)
                return 0;
        if (field->number == PPROF_TIME)
                p->time_ns = (int64_t) field->value;
        else if (field->number == PPROF_DURATION)
                p->duration_ns = (int64_t) field->value;
        else if (field->number == PPROF_PERIOD)
                p->period = (int64_t) field->value;
        return 0;
}

/* Reads all but the samples. */
static int read_tables(struct pprof *p, struct infp_err *err)
{
        struct infp_proto all = p->all;
        struct infp_proto_field field;
        int r;

        while ((r = infp_proto_next(&all, &field)) > 0)
                INFP_TRY(take(p, &field, err));
        return r < 0 ? broken(p, all.at, "it ends or is damaged", err) : 0;
}

static void done(struct pprof *p)
{
        free(p->strings);
        free(p->functions);
        free(p->locations);
        free(p->mappings);
        infp_map_done(&p->function_by_id);
        infp_map_done(&p->location_by_id);
        infp_map_done(&p->mapping_by_id);
        infp_str_done(&p->name);
}

enum { LOCATION_LINE = 4, LINE_FUNCTION = 1, LINE_LINE = 2 };

/* A function at a place: its name, or what there is instead. */
static int read_function(const struct pprof *p, uint64_t id, const void *at, struct infp_import_level *ret,
                         struct infp_err *err)
{
        const uint64_t *number = infp_map_get(&p->function_by_id, id);
        const struct pprof_function *function;

        if (!number)
                return id ? broken(p, at, "a line refers to a missing function", err) : 0;
        function = &p->functions[*number];
        INFP_TRY(string_at(p, function->name, at, &ret->name, err));
        INFP_TRY(string_at(p, function->system_name, at, &ret->mangled, err));
        INFP_TRY(string_at(p, function->file, at, &ret->file, err));
        if (!ret->name.size)
                ret->name = ret->mangled;
        if (ret->mangled.size == ret->name.size && !memcmp(ret->mangled.data, ret->name.data, ret->name.size))
                ret->mangled = infp_import_text(NULL);
        ret->function_line = function->line;
        return 0;
}

static int read_line(const struct pprof *p, const struct infp_proto_field *line, struct infp_import_level *ret,
                     struct infp_err *err)
{
        struct infp_proto message = infp_proto_message(line);
        struct infp_proto_field field;
        uint64_t function = 0;
        int r;

        *ret = (struct infp_import_level){ .name = { NULL, 0 } };
        while ((r = infp_proto_next(&message, &field)) > 0) {
                if (field.number == LINE_FUNCTION && field.type == INFP_PROTO_VARINT)
                        function = field.value;
                else if (field.number == LINE_LINE && field.type == INFP_PROTO_VARINT)
                        ret->line = (int64_t) field.value;
        }
        if (r < 0)
                return broken(p, message.at, "a line is broken", err);
        INFP_TRY(read_function(p, function, line->bytes, ret, err));
        if (!ret->name.size)
                ret->name = infp_import_text("[unknown]");
        return 0;
}

/* Lines stand innermost first, our levels outermost first. */
static int read_lines(struct pprof *p, const struct pprof_location *location, struct infp_err *err)
{
        struct infp_import_place *place = &p->place;
        struct infp_proto message = location->message;
        struct infp_proto_field field;
        size_t n = 0, skipped;

        while (infp_proto_next(&message, &field) > 0) /* whole: it was read before */
                n += field.number == LOCATION_LINE && field.type == INFP_PROTO_BYTES;
        skipped = n > INFP_IMPORT_MAX_LEVELS ? n - INFP_IMPORT_MAX_LEVELS : 0;
        infp_import_skip(p->writer, "inlined functions beyond the 64th of an address", skipped, 0);
        place->n_levels = 0;
        message = location->message;
        for (size_t left = n; infp_proto_next(&message, &field) > 0;) {
                if (field.number != LOCATION_LINE || field.type != INFP_PROTO_BYTES)
                        continue;
                if (--left >= INFP_IMPORT_MAX_LEVELS)
                        continue;
                INFP_TRY(read_line(p, &field, &place->levels[left], err));
                place->n_levels++;
        }
        return 0;
}

/* "[libfoo.so+0x1200]": the offset in the file where the mapping reports it. */
static void name_by_address(struct pprof *p, const struct pprof_location *location, const struct pprof_mapping *mapping)
{
        uint64_t address = location->address;

        if (mapping && address >= mapping->start && (!mapping->end || address < mapping->end))
                address = address - mapping->start + mapping->offset;
        p->place.is_unnamed = true;
        p->place.n_levels = 1;
        p->place.levels[0] =
                (struct infp_import_level){ .name = infp_import_place_name(&p->name, p->place.object, &address) };
}

static bool has_name(const struct infp_import_place *place)
{
        for (unsigned i = 0; i < place->n_levels; i++)
                if (place->levels[i].name.data[0] != '[' || place->levels[i].function_line)
                        return true;
        return false;
}

static int make_place(struct pprof *p, const struct pprof_location *location, struct infp_err *err)
{
        const uint64_t *number = infp_map_get(&p->mapping_by_id, location->mapping);
        const struct pprof_mapping *mapping = number ? &p->mappings[*number] : NULL;
        struct infp_import_place *place = &p->place;

        if (location->mapping && !mapping)
                return broken(p, location->message.at, "a location refers to a missing mapping", err);
        place->object = place->build_id = infp_import_text(NULL);
        place->is_unnamed = false;
        if (mapping) {
                INFP_TRY(string_at(p, mapping->path, location->message.at, &place->object, err));
                INFP_TRY(string_at(p, mapping->build_id, location->message.at, &place->build_id, err));
                infp_import_cut(&place->object, " (deleted)");
        }
        INFP_TRY(read_lines(p, location, err));
        if (!place->n_levels)
                name_by_address(p, location, mapping);
        else
                place->is_unnamed = !has_name(place);
        place->kind = infp_import_kind_of_object(place->object);
        if (place->kind == INFP_FRAME_UNKNOWN && !place->is_unnamed)
                place->kind = INFP_FRAME_NATIVE; /* named, but without its object */
        if (place->kind == INFP_FRAME_NATIVE)
                place->kind = infp_import_kind_of_file(place->levels[0].file, place->kind);
        return p->name.failed ? infp_fail(err, -ENOMEM, "not enough memory to import") : 0;
}

/* The frame of a location. */
static int frame_of(struct pprof *p, uint64_t location, const void *at, uint64_t *ret, struct infp_err *err)
{
        const uint64_t *number = infp_map_get(&p->location_by_id, location);
        struct pprof_location *place = number ? &p->locations[*number] : NULL;

        if (!place)
                return broken(p, at, "a sample refers to a missing location", err);
        if (!place->frame) {
                INFP_TRY(make_place(p, place, err));
                INFP_TRY(infp_import_frame(p->writer, &p->place, &place->frame, err));
        }
        *ret = place->frame;
        return 0;
}

static int put_mappings(struct pprof *p, struct infp_err *err)
{
        for (size_t i = 0; i < p->n_mappings; i++) {
                const struct pprof_mapping *from = &p->mappings[i];
                struct infp_import_mapping mapping = { .has_range = from->end > from->start,
                                                       .start = from->start,
                                                       .end = from->end,
                                                       .offset = from->offset };

                INFP_TRY(string_at(p, from->path, p->begin, &mapping.path, err));
                INFP_TRY(string_at(p, from->build_id, p->begin, &mapping.build_id, err));
                mapping.is_deleted = infp_import_cut(&mapping.path, " (deleted)");
                INFP_TRY(infp_import_mapping(p->writer, &mapping, err));
        }
        return 0;
}

/* What the values of samples mean: which is a weight, and which says how many samples it stands for. */
struct type {
        struct infp_import_text type, unit;
        bool is_count, is_used;
};

/* "alloc_objects" and "alloc_space" are of one kind. */
static struct infp_import_text stem(struct infp_import_text type)
{
        const char *bar = infp_import_last(type, '_');

        return (struct infp_import_text){ type.data, bar ? (size_t) (bar - type.data) : 0 };
}

static bool same(struct infp_import_text a, struct infp_import_text b)
{
        return a.size && a.size == b.size && !memcmp(a.data, b.data, a.size);
}

/* The count that goes with a weight: of the same stem, else the nearest before it that has none. */
static int count_of(const struct type *types, int weight, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                if (types[i].is_count && same(stem(types[i].type), stem(types[weight].type)))
                        return (int) i;
        for (int i = weight - 1; i >= 0; i--)
                if (types[i].is_count && !stem(types[i].type).size)
                        return i;
        return -1;
}

static struct pprof_mode *add(struct pprof *p, const struct type *type, int weight, int samples)
{
        struct pprof_mode *mode = &p->modes[p->n_modes++];

        mode->weight = weight;
        mode->samples = samples;
        mode->factor = infp_import_mode(type->type, type->unit, mode->mode);
        return mode;
}

/* Each sample of a clock with a known period stands for one period: perf's converters and parca write them this way. */
static void weigh_by_period(const struct pprof *p, struct pprof_mode *mode, const struct type *type,
                            const struct type *period)
{
        char name[INFP_IMPORT_MODE_TEXT];
        double factor;

        if (p->period <= 0 || !infp_import_is(type->type, "samples") || infp_import_seconds(period->unit) <= 0)
                return;
        factor = infp_import_mode(period->type, period->unit, name);
        if (strchr(name, '/')) /* a time of unknown meaning */
                return;
        strcpy(mode->mode, name);
        mode->factor = factor * (double) p->period;
}

static int read_types(const struct pprof *p, struct type *types, struct type *period, struct infp_err *err)
{
        for (unsigned i = 0; i < p->n_types; i++) {
                INFP_TRY(string_at(p, p->types[i].type, p->begin, &types[i].type, err));
                INFP_TRY(string_at(p, p->types[i].unit, p->begin, &types[i].unit, err));
                types[i].is_count = infp_import_is(types[i].unit, "count");
        }
        INFP_TRY(string_at(p, p->period_type.type, p->begin, &period->type, err));
        return string_at(p, p->period_type.unit, p->begin, &period->unit, err);
}

static int choose_modes(struct pprof *p, struct infp_err *err)
{
        struct type types[PPROF_MAX_TYPES] = { 0 }, period = { 0 };

        if (!p->n_types)
                return broken(p, p->begin, "no sample type is given", err);
        INFP_TRY(read_types(p, types, &period, err));
        if (p->period > 0 && infp_import_is(period.type, "space") && infp_import_is(period.unit, "bytes"))
                p->mean = (double) p->period;
        for (unsigned i = 0; i < p->n_types; i++) {
                int count;

                if (types[i].is_count)
                        continue;
                count = count_of(types, (int) i, p->n_types);
                add(p, &types[i], (int) i, count)->is_heap = infp_import_heap(types[i].type, types[i].unit) != NULL;
                if (count >= 0)
                        types[count].is_used = true;
        }
        for (unsigned i = 0; i < p->n_types; i++)
                if (types[i].is_count && !types[i].is_used)
                        weigh_by_period(p, add(p, &types[i], (int) i, (int) i), &types[i], &period);
        return 0;
}

enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_STRING, LABEL_NUMBER };

static const int64_t max_duration_ns =
        INT64_C(100) * 366 * 86400 * 1000000000; /* a century: more means a broken field */

struct sample {
        const uint8_t *at;
        uint64_t frames[INFP_IMPORT_MAX_DEPTH + 1];
        size_t n_frames; /* including outer ones that have no room */
        int64_t values[PPROF_MAX_TYPES];
        unsigned n_values;
        struct infp_import_sample row;
};

static int take_locations(struct pprof *p, struct sample *s, const struct infp_proto_field *field, struct infp_err *err)
{
        uint64_t id;
        size_t at = 0;
        int r;

        while ((r = infp_proto_packed(field, &at, &id)) > 0) {
                size_t n = s->n_frames < INFP_IMPORT_MAX_DEPTH ? s->n_frames : INFP_IMPORT_MAX_DEPTH;

                INFP_TRY(frame_of(p, id, s->at, &s->frames[n], err));
                s->n_frames++;
        }
        return r < 0 ? broken(p, s->at, "the stack of a sample is broken", err) : 0;
}

static int take_values(const struct pprof *p, struct sample *s, const struct infp_proto_field *field,
                       struct infp_err *err)
{
        uint64_t value;
        size_t at = 0;
        int r;

        while ((r = infp_proto_packed(field, &at, &value)) > 0) {
                if (s->n_values == p->n_types)
                        return broken(p, s->at, "a sample has more values than there are sample types", err);
                if ((int64_t) value < 0)
                        return broken(p, s->at,
                                      "a value is negative, as in a difference of two profiles; import both, "
                                      "and compare them with `infprof flamegraph --diff`",
                                      err);
                s->values[s->n_values++] = (int64_t) value;
        }
        return r < 0 ? broken(p, s->at, "the values of a sample are broken", err) : 0;
}

static bool is_one_of(struct infp_import_text text, const char *words)
{
        for (const char *word = words; *word; word += strlen(word) + 1)
                if (text.size == strlen(word) && !memcmp(text.data, word, text.size))
                        return true;
        return false;
}

static int32_t number_of(struct infp_import_text text, int64_t number)
{
        if (text.size && infp_parse_i64(text.data, text.size, &number) < 0)
                return 0;
        return number > 0 && number <= INT32_MAX ? (int32_t) number : 0;
}

/* Labels that identify process and thread; others are the program's own. */
static bool use_label(struct infp_import_sample *row, struct infp_import_text key, struct infp_import_text text,
                      int64_t number)
{
        if (is_one_of(key, "pid\0process_id\0process id\0"))
                row->pid = number_of(text, number);
        else if (is_one_of(key, "tid\0thread_id\0thread id\0"))
                row->tid = number_of(text, number);
        else if (is_one_of(key, "thread\0thread_name\0thread name\0comm\0"))
                row->thread = text;
        else if (is_one_of(key, "process\0process_name\0process name\0"))
                row->process = text;
        else if (is_one_of(key, "state\0"))
                row->state = text;
        else if (is_one_of(key, "cpu\0") && !text.size)
                row->cpu = number >= 0 && number <= INT32_MAX ? (int32_t) number : -1;
        else
                return false;
        return true;
}

static int take_label(struct pprof *p, struct sample *s, const struct infp_proto_field *from, struct infp_err *err)
{
        struct infp_proto message = infp_proto_message(from);
        struct infp_proto_field field;
        uint64_t key = 0, string = 0, number = 0;
        struct infp_import_text name = { 0 }, text = { 0 };
        int r;

        while ((r = infp_proto_next(&message, &field)) > 0) {
                if (field.type != INFP_PROTO_VARINT)
                        continue;
                *(field.number == LABEL_KEY      ? &key
                  : field.number == LABEL_STRING ? &string
                                                 : &number) = field.number <= LABEL_NUMBER ? field.value : number;
        }
        if (r < 0)
                return broken(p, s->at, "a label is broken", err);
        INFP_TRY(string_at(p, key, s->at, &name, err));
        INFP_TRY(string_at(p, string, s->at, &text, err));
        if (!use_label(&s->row, name, text, (int64_t) number))
                infp_import_skip(p->writer, "labels of samples that have no column here", 1, 0);
        return 0;
}

static int take_field(struct pprof *p, struct sample *s, const struct infp_proto_field *field, struct infp_err *err)
{
        switch (field->number) {
        case SAMPLE_LOCATION:
                return take_locations(p, s, field, err);
        case SAMPLE_VALUE:
                return take_values(p, s, field, err);
        case SAMPLE_LABEL:
                return take_label(p, s, field, err);
        default:
                return 0;
        }
}

/* Of the heap the count is of blocks, as their writer has estimated them from samples: how many of these, the mean says, else one at least. */
static void count_blocks(const struct pprof *p, struct infp_import_sample *row)
{
        const double blocks = (double) row->samples,
                     each = blocks > 0 && p->mean > 1 ? infp_heap_objects(row->weight / blocks, p->mean) : 0;

        row->objects = blocks;
        if (!(p->mean > 0))
                row->samples = row->weight > 0 || blocks > 0;
        else if (each > 0)
                row->samples = (int64_t) fmax(1, floor(blocks / each + 0.5));
}

/* A row for each kind of value that is not zero. */
static int put_rows(struct pprof *p, struct sample *s, struct infp_err *err)
{
        for (unsigned i = 0; i < p->n_modes; i++) {
                const struct pprof_mode *mode = &p->modes[i];
                const int64_t value = s->values[mode->weight];

                s->row.samples = mode->samples >= 0 ? s->values[mode->samples] : value > 0;
                s->row.weight = (double) value * mode->factor;
                s->row.mode = mode->mode;
                s->row.objects = 0;
                if (mode->is_heap && mode->samples >= 0)
                        count_blocks(p, &s->row);
                if (value || s->row.samples)
                        INFP_TRY(infp_import_sample(p->writer, &s->row, err));
        }
        return 0;
}

static int take_sample(struct pprof *p, struct sample *s, const struct infp_proto_field *from, struct infp_err *err)
{
        struct infp_proto message = infp_proto_message(from);
        struct infp_proto_field field;
        bool is_cut;
        int r;

        s->at = from->bytes;
        s->n_frames = s->n_values = 0;
        s->row = (struct infp_import_sample){ .t_ns = infp_import_begin_t_ns(p->writer), .cpu = -1 };
        while ((r = infp_proto_next(&message, &field)) > 0)
                INFP_TRY(take_field(p, s, &field, err));
        if (r < 0)
                return broken(p, s->at, "a sample is broken", err);
        if (s->n_values != p->n_types)
                return broken(p, s->at, "a sample has fewer values than there are sample types", err);
        INFP_TRY(infp_import_stack(p->writer, s->frames,
                                   s->n_frames < INFP_IMPORT_MAX_DEPTH ? s->n_frames : INFP_IMPORT_MAX_DEPTH, true,
                                   &s->row.stack, &is_cut, err));
        s->row.is_truncated = is_cut || s->n_frames > INFP_IMPORT_MAX_DEPTH;
        return put_rows(p, s, err);
}

static int read_samples(struct pprof *p, struct infp_err *err)
{
        infp_autofree struct sample *sample = malloc(sizeof(*sample));
        struct infp_proto all = p->all;
        struct infp_proto_field field;
        uint64_t n = 0;

        if (!sample)
                return infp_fail(err, -ENOMEM, "not enough memory to import");
        while (infp_proto_next(&all, &field) > 0) /* whole: it was read before */
                if (field.number == PPROF_SAMPLE && field.type == INFP_PROTO_BYTES) {
                        INFP_TRY(infp_import_stopped(p->input, n++, err));
                        INFP_TRY(take_sample(p, sample, &field, err));
                }
        return 0;
}

static int begin(struct pprof *p, struct infp_err *err)
{
        struct infp_imported *found = infp_import_found(p->writer);

        if (p->duration_ns > 0 && p->duration_ns < max_duration_ns)
                found->duration_ns = (uint64_t) p->duration_ns;
        if (p->time_ns <= 0 || p->time_ns > INT64_MAX / 2)
                return infp_import_begin_now(p->writer, err);
        found->unix_ns = p->time_ns;
        return infp_import_begin(p->writer, infp_clock_ns(CLOCK_MONOTONIC), p->time_ns, err);
}

static int read_profile(struct pprof *p, struct infp_err *err)
{
        const char *data;
        size_t size;

        INFP_TRY(infp_import_all(p->input, PPROF_MAX, &data, &size, err));
        p->begin = (const uint8_t *) data;
        p->all = infp_proto(data, size);
        INFP_TRY(read_tables(p, err));
        INFP_TRY(choose_modes(p, err));
        INFP_TRY(begin(p, err));
        INFP_TRY(put_mappings(p, err));
        INFP_TRY(read_samples(p, err));
        return infp_import_heap_method(p->writer, "the program that wrote the profile", (uint64_t) p->mean,
                                       p->mean > 0 ? INFP_IMPORT_EXACT
                                                   : "which does not say whether it counted each block or sampled "
                                                     "them: each stack counts as one sample",
                                       err);
}

static int read_pprof(struct infp_import_input *input, struct infp_import_writer *writer, struct infp_err *err)
{
        struct pprof *p = calloc(1, sizeof(*p));
        int r = p ? 0 : infp_fail(err, -ENOMEM, "not enough memory to import");

        if (r < 0)
                return r;
        p->input = input;
        p->writer = writer;
        r = read_profile(p, err);
        done(p);
        free(p);
        return r;
}

static bool is_type(struct infp_proto message)
{
        struct infp_proto_field field;
        int r;

        while ((r = infp_proto_next(&message, &field)) > 0)
                if (field.number > 2 || field.type != INFP_PROTO_VARINT)
                        return false;
        return r == 0;
}

/* Whether the fields are those of a Profile, with the right types. */
static enum infp_import_sure look(const char *head, size_t size)
{
        struct infp_proto all = infp_proto(head, size);
        struct infp_proto_field field;
        unsigned n = 0, n_types = 0;
        int r;

        while ((r = infp_proto_next(&all, &field)) > 0) {
                const bool is_message = field.number <= PPROF_STRING || field.number == PPROF_PERIOD_TYPE;

                if (field.number > PPROF_DEFAULT_TYPE + 1)
                        return INFP_IMPORT_NO;
                if (is_message && field.type != INFP_PROTO_BYTES)
                        return INFP_IMPORT_NO;
                if (!is_message && field.type == INFP_PROTO_BYTES && field.number < PPROF_COMMENT)
                        return INFP_IMPORT_NO;
                if (field.type == INFP_PROTO_FIXED32 || field.type == INFP_PROTO_FIXED64)
                        return INFP_IMPORT_NO;
                if (field.number == PPROF_SAMPLE_TYPE && !is_type(infp_proto_message(&field)))
                        return INFP_IMPORT_NO;
                n_types += field.number == PPROF_SAMPLE_TYPE;
                n++;
        }
        if (!n || (r < 0 && size < INFP_IMPORT_HEAD && !n_types))
                return INFP_IMPORT_NO;
        return n_types ? INFP_IMPORT_SURE : INFP_IMPORT_MAYBE;
}

const struct infp_import_format infp_import_pprof = {
        .name = "pprof",
        .help = "profile.proto, plain or packed by gzip (Go, Rust, parca, google-pprof, async-profiler converters)",
        .look = look,
        .read = read_pprof,
};
