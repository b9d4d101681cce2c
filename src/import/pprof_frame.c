/* Places of a pprof profile: a location, its object, the functions that were inlined there. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "import/name.h"
#include "import/pprof_parts.h"

enum { LOCATION_LINE = 4, LINE_FUNCTION = 1, LINE_LINE = 2 };

/* A function at a place: its name, or where nothing names it what there is. */
static int read_function(const struct pprof *p, uint64_t id, const void *at, struct infp_import_level *ret,
                         struct infp_err *err)
{
        const uint64_t *number = infp_map_get(&p->function_by_id, id);
        const struct pprof_function *function;

        if (!number)
                return id ? pprof_broken(p, at, "a line refers to a missing function", err) : 0;
        function = &p->functions[*number];
        INFP_TRY(pprof_string(p, function->name, at, &ret->name, err));
        INFP_TRY(pprof_string(p, function->system_name, at, &ret->mangled, err));
        INFP_TRY(pprof_string(p, function->file, at, &ret->file, err));
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
                return pprof_broken(p, message.at, "a line is broken", err);
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

/* A path as the kernel says it of a file that is gone. */
static struct infp_import_text without_deleted(struct infp_import_text path, bool *ret_is_deleted)
{
        static const char suffix[] = " (deleted)";
        const size_t size = sizeof(suffix) - 1;

        *ret_is_deleted = path.size > size && !memcmp(path.data + path.size - size, suffix, size);
        if (*ret_is_deleted)
                path.size -= size;
        return path;
}

/* "[libfoo.so+0x1200]": the offset in the file where the mapping reports it. */
static void name_by_address(struct pprof *p, const struct pprof_location *location, const struct pprof_mapping *mapping)
{
        const struct infp_import_text object = p->place.object;
        const char *slash = infp_import_last(object, '/');
        const char *base = slash ? slash + 1 : object.data;
        const int size = object.size ? (int) (object.data + object.size - base) : 0;
        uint64_t address = location->address;

        if (mapping && address >= mapping->start && (!mapping->end || address < mapping->end))
                address = address - mapping->start + mapping->offset;
        infp_str_clear(&p->name);
        if (size > 0 && size < 4096)
                infp_str_printf(&p->name, "[%.*s+0x%" PRIx64 "]", size, base, address);
        else
                infp_str_printf(&p->name, "[0x%" PRIx64 "]", address);
        p->place.is_unnamed = true;
        p->place.n_levels = 1;
        p->place.levels[0] = (struct infp_import_level){ .name = { p->name.data, p->name.size } };
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
        bool is_deleted;

        if (location->mapping && !mapping)
                return pprof_broken(p, location->message.at, "a location refers to a missing mapping", err);
        place->object = place->build_id = infp_import_text(NULL);
        place->is_unnamed = false;
        if (mapping) {
                INFP_TRY(pprof_string(p, mapping->path, location->message.at, &place->object, err));
                INFP_TRY(pprof_string(p, mapping->build_id, location->message.at, &place->build_id, err));
                place->object = without_deleted(place->object, &is_deleted);
        }
        INFP_TRY(read_lines(p, location, err));
        if (!place->n_levels)
                name_by_address(p, location, mapping);
        else
                place->is_unnamed = !has_name(place);
        place->kind = infp_import_kind_of_object(place->object);
        if (place->kind == INFP_FRAME_UNKNOWN && !place->is_unnamed)
                place->kind = INFP_FRAME_NATIVE; /* somebody named it, without its object */
        if (place->kind == INFP_FRAME_NATIVE)
                place->kind = infp_import_kind_of_file(place->levels[0].file, place->kind);
        return p->name.failed ? infp_fail(err, -ENOMEM, "not enough memory to import") : 0;
}

int pprof_frame(struct pprof *p, uint64_t location, const void *at, uint64_t *ret, struct infp_err *err)
{
        const uint64_t *number = infp_map_get(&p->location_by_id, location);
        struct pprof_location *place = number ? &p->locations[*number] : NULL;

        if (!place)
                return pprof_broken(p, at, "a sample refers to a missing location", err);
        if (!place->frame) {
                INFP_TRY(make_place(p, place, err));
                INFP_TRY(infp_import_frame(p->writer, &p->place, &place->frame, err));
        }
        *ret = place->frame;
        return 0;
}

int pprof_put_mappings(struct pprof *p, struct infp_err *err)
{
        for (size_t i = 0; i < p->n_mappings; i++) {
                const struct pprof_mapping *from = &p->mappings[i];
                struct infp_import_mapping mapping = { .has_range = from->end > from->start,
                                                       .start = from->start,
                                                       .end = from->end,
                                                       .offset = from->offset };

                INFP_TRY(pprof_string(p, from->path, p->begin, &mapping.path, err));
                INFP_TRY(pprof_string(p, from->build_id, p->begin, &mapping.build_id, err));
                mapping.path = without_deleted(mapping.path, &mapping.is_deleted);
                INFP_TRY(infp_import_mapping(p->writer, &mapping, err));
        }
        return 0;
}
