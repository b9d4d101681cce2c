/* Strings, functions, locations, mappings of a pprof profile. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "import/pprof_parts.h"

int pprof_broken(const struct pprof *p, const void *at, const char *why, struct infp_err *err)
{
        return infp_fail(err, -EBADMSG, "%s is not a complete pprof profile: near byte %zu of its content %s",
                         infp_import_path(p->input), (size_t) ((const uint8_t *) at - p->begin), why);
}

int pprof_string(const struct pprof *p, uint64_t number, const void *at, struct infp_import_text *ret,
                 struct infp_err *err)
{
        if (number >= p->n_strings && number)
                return pprof_broken(p, at, "a name lies beyond the table of strings", err);
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
        return r < 0 ? pprof_broken(p, message.at, "a message is broken", err) : 0;
}

static int add_id(const struct pprof *p, struct infp_map *map, uint64_t id, size_t at, const void *where,
                  struct infp_err *err)
{
        if (!id)
                return pprof_broken(p, where, "an entry has id 0", err);
        if (infp_map_get(map, id))
                return pprof_broken(p, where, "two entries have the same id", err);
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

int pprof_read_type(const struct pprof *p, const struct infp_proto_field *field, struct pprof_type *ret,
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
                return pprof_broken(p, field->bytes, "are more than 64 sample types", err);
        return pprof_read_type(p, field, &p->types[p->n_types++], err);
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
                return pprof_read_type(p, field, &p->period_type, err);
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

int pprof_read_tables(struct pprof *p, struct infp_err *err)
{
        struct infp_proto all = p->all;
        struct infp_proto_field field;
        int r;

        while ((r = infp_proto_next(&all, &field)) > 0)
                INFP_TRY(take(p, &field, err));
        return r < 0 ? pprof_broken(p, all.at, "it ends or is damaged", err) : 0;
}

void pprof_done(struct pprof *p)
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
