#include "store/arrow_schema.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "nanoarrow/nanoarrow_ipc.h"

int infp_arrow_fail(struct infp_err *err, int code, const struct ArrowError *error, const char *what)
{
        /* nanoarrow returns EINVAL or ENOTSUP for any malformed or unknown input. */
        int r = code == ENOMEM ? -ENOMEM : -EBADMSG;

        return infp_fail(err, r, "%s: %s", what, error && error->message[0] ? error->message : "not enough memory");
}

const char *infp_arrow_show(const char *name, char ret[65])
{
        size_t i;

        for (i = 0; i < 64 && name && name[i]; i++)
                ret[i] = (unsigned char) name[i] < ' ' || name[i] == 0x7f ? '?' : name[i];
        ret[i] = 0;
        return ret;
}

static int set_type(struct ArrowSchema *schema, enum infp_type type)
{
        switch (type) {
        case INFP_I64:
                return ArrowSchemaSetType(schema, NANOARROW_TYPE_INT64);
        case INFP_U64:
        case INFP_ID64:
                return ArrowSchemaSetType(schema, NANOARROW_TYPE_UINT64);
        case INFP_F64:
                return ArrowSchemaSetType(schema, NANOARROW_TYPE_DOUBLE);
        case INFP_BOOL:
                return ArrowSchemaSetType(schema, NANOARROW_TYPE_BOOL);
        case INFP_STR:
                return ArrowSchemaSetType(schema, NANOARROW_TYPE_STRING);
        case INFP_TS_NS:
                return ArrowSchemaSetTypeDateTime(schema, NANOARROW_TYPE_TIMESTAMP, NANOARROW_TIME_UNIT_MICRO, "UTC");
        }
        return EINVAL;
}

struct pairs {
        struct ArrowBuffer buffer;
        int code;
};

static void add(struct pairs *pairs, const char *key, const char *value)
{
        if (pairs->code == NANOARROW_OK && value && *value)
                pairs->code = ArrowMetadataBuilderAppend(&pairs->buffer, ArrowCharView(key), ArrowCharView(value));
}

static int set_metadata(struct pairs *pairs, struct ArrowSchema *schema)
{
        if (pairs->code == NANOARROW_OK)
                pairs->code = ArrowSchemaSetMetadata(schema, (const char *) pairs->buffer.data);
        ArrowBufferReset(&pairs->buffer);
        return pairs->code;
}

static int describe_column(const struct infp_column *column, struct ArrowSchema *schema)
{
        struct pairs pairs = { .code = NANOARROW_OK };

        pairs.code = ArrowMetadataBuilderInit(&pairs.buffer, NULL);
        add(&pairs, "unit", column->unit ? column->unit->name : NULL);
        add(&pairs, "kind", infp_kind_name(column->kind));
        add(&pairs, "quality", infp_quality_name(column->quality));
        add(&pairs, "reset", infp_reset_name(column->reset));
        if (column->type == INFP_ID64) {
                add(&pairs, "type", infp_type_name(INFP_ID64));
                add(&pairs, "entity", column->key);
        }
        add(&pairs, "help", column->help);
        return set_metadata(&pairs, schema);
}

static int describe_table(const struct infp_table *table, struct ArrowSchema *schema)
{
        struct pairs pairs = { .code = NANOARROW_OK };
        char n_keys[16];

        snprintf(n_keys, sizeof(n_keys), "%u", table->n_keys);
        pairs.code = ArrowMetadataBuilderInit(&pairs.buffer, NULL);
        add(&pairs, "infprof.table", table->name);
        add(&pairs, "infprof.keys", n_keys);
        add(&pairs, "infprof.entity", table->entity ? "1" : NULL);
        add(&pairs, "infprof.version", INFP_VERSION);
        add(&pairs, "help", table->help);
        return set_metadata(&pairs, schema);
}

static int fill_column(const struct infp_table *table, unsigned index, struct ArrowSchema *schema)
{
        const struct infp_column *column = infp_table_column(table, index);
        bool is_stamp = !table->plain && index < INFP_FIXED_COLUMNS;

        NANOARROW_RETURN_NOT_OK(set_type(schema, column->type));
        NANOARROW_RETURN_NOT_OK(ArrowSchemaSetName(schema, column->name));
        if (is_stamp)
                schema->flags &= ~ARROW_FLAG_NULLABLE;
        return describe_column(column, schema);
}

int infp_arrow_schema_of(const struct infp_table *table, struct ArrowSchema *ret, struct infp_err *err)
{
        unsigned width = infp_table_width(table);
        struct ArrowSchema schema;
        int code;

        ArrowSchemaInit(&schema);
        code = ArrowSchemaSetTypeStruct(&schema, width);
        for (unsigned i = 0; code == NANOARROW_OK && i < width; i++)
                code = fill_column(table, i, schema.children[i]);
        if (code == NANOARROW_OK)
                code = describe_table(table, &schema);
        if (code != NANOARROW_OK) {
                ArrowSchemaRelease(&schema);
                return infp_fail(err, code == ENOMEM ? -ENOMEM : -EINVAL, "cannot make the Arrow schema of table %s",
                                 table->name);
        }
        schema.flags = 0;
        ArrowSchemaMove(&schema, ret);
        return 0;
}

/* A copy that the table owns; NULL without memory. */
static const char *keep(struct infp_arrow_table *t, const char *text, size_t size)
{
        char *copy = strndup(text, size);

        if (copy)
                t->texts[t->n_texts++] = copy;
        return copy;
}

/* An empty view when the key is not there. */
static struct ArrowStringView look_up(const struct ArrowSchema *schema, const char *key)
{
        struct ArrowStringView value = { NULL, 0 };

        if (ArrowMetadataGetValue(schema->metadata, ArrowCharView(key), &value) != NANOARROW_OK || !value.data)
                value = (struct ArrowStringView){ "", 0 };
        return value;
}

static int enumerator(const struct ArrowSchema *schema, const char *key, int (*by_name)(const char *name),
                      int otherwise)
{
        struct ArrowStringView value = look_up(schema, key);
        char name[32];
        int r;

        if (value.size_bytes == 0 || (size_t) value.size_bytes >= sizeof(name))
                return otherwise;
        memcpy(name, value.data, (size_t) value.size_bytes);
        name[value.size_bytes] = 0;
        r = by_name(name);
        return r < 0 ? otherwise : r;
}

static const struct infp_unit *find_unit(struct infp_arrow_table *t, const struct ArrowSchema *schema)
{
        struct ArrowStringView value = look_up(schema, "unit");
        const struct infp_unit *unit;
        const char *name;

        if (value.size_bytes == 0)
                return &infp_unit_none;
        name = keep(t, value.data, (size_t) value.size_bytes);
        if (!name)
                return NULL;
        unit = infp_unit_by_name(name);
        if (unit)
                return unit;
        /* A unit of a newer infprof is shown as it is, never converted. */
        t->units[t->n_units] = (struct infp_unit){ .name = name, .base = "", .factor = 1 };
        return &t->units[t->n_units++];
}

static enum infp_type target_type(const struct ArrowSchema *schema, enum ArrowType type)
{
        switch (type) {
        case NANOARROW_TYPE_INT8:
        case NANOARROW_TYPE_INT16:
        case NANOARROW_TYPE_INT32:
        case NANOARROW_TYPE_INT64:
                return INFP_I64;
        case NANOARROW_TYPE_UINT8:
        case NANOARROW_TYPE_UINT16:
        case NANOARROW_TYPE_UINT32:
                return INFP_U64;
        case NANOARROW_TYPE_UINT64:
                return enumerator(schema, "type", infp_type_by_name, INFP_U64) == INFP_ID64 ? INFP_ID64 : INFP_U64;
        case NANOARROW_TYPE_FLOAT:
        case NANOARROW_TYPE_DOUBLE:
                return INFP_F64;
        case NANOARROW_TYPE_BOOL:
                return INFP_BOOL;
        case NANOARROW_TYPE_TIMESTAMP:
                return INFP_TS_NS;
        default: /* texts; a column of type null is shown as an empty text */
                return INFP_STR;
        }
}

static bool is_direct(enum ArrowType type, enum infp_type target, enum ArrowTimeUnit unit)
{
        switch (type) {
        case NANOARROW_TYPE_INT64:
                return target == INFP_I64;
        case NANOARROW_TYPE_UINT64:
                return target == INFP_U64 || target == INFP_ID64;
        case NANOARROW_TYPE_DOUBLE:
        case NANOARROW_TYPE_BOOL:
        case NANOARROW_TYPE_STRING:
                return true;
        case NANOARROW_TYPE_TIMESTAMP:
                return unit == NANOARROW_TIME_UNIT_NANO;
        default:
                return false;
        }
}

static int64_t nanoseconds(enum ArrowTimeUnit unit)
{
        switch (unit) {
        case NANOARROW_TIME_UNIT_SECOND:
                return 1000000000;
        case NANOARROW_TIME_UNIT_MILLI:
                return 1000000;
        case NANOARROW_TIME_UNIT_MICRO:
                return 1000;
        default:
                return 1;
        }
}

static int describe_source(const struct ArrowSchema *schema, struct infp_arrow_source *ret, struct infp_err *err)
{
        const struct ArrowSchema *values = schema->dictionary ? schema->dictionary : schema;
        struct ArrowSchemaView view;
        struct ArrowError error = { { 0 } };

        if (ArrowSchemaViewInit(&view, values, &error) != NANOARROW_OK)
                return infp_arrow_fail(err, EINVAL, &error, "cannot read the type of a column");
        ret->type = view.type;
        ret->is_dictionary = schema->dictionary != NULL;
        ret->ns_per_unit = view.type == NANOARROW_TYPE_TIMESTAMP ? nanoseconds(view.time_unit) : 1;
        ret->target = target_type(schema, view.type);
        ret->is_direct = !ret->is_dictionary && is_direct(view.type, ret->target, view.time_unit);
        return 0;
}

static int take_column(struct infp_arrow_table *t, const struct ArrowSchema *schema, enum infp_type type,
                       struct infp_column *ret)
{
        struct ArrowStringView help = look_up(schema, "help"), entity = look_up(schema, "entity");
        const char *name = schema->name ? schema->name : "";
        bool is_number = type == INFP_I64 || type == INFP_U64 || type == INFP_F64;

        ret->type = type;
        ret->kind = (enum infp_kind) enumerator(schema, "kind", infp_kind_by_name, is_number ? INFP_GAUGE : INFP_LABEL);
        ret->quality = (enum infp_quality) enumerator(schema, "quality", infp_quality_by_name, INFP_MEASURED);
        ret->reset = (enum infp_reset) enumerator(schema, "reset", infp_reset_by_name, 0);
        ret->unit = find_unit(t, schema);
        ret->name = keep(t, name, strlen(name));
        ret->help = keep(t, help.data, (size_t) help.size_bytes);
        ret->key = type == INFP_ID64 ? keep(t, entity.data, (size_t) entity.size_bytes) : NULL;
        return ret->unit && ret->name && ret->help && (type != INFP_ID64 || ret->key) ? 0 : -ENOMEM;
}

/* Our tables begin with t_ns and time; any other table is foreign. */
static bool is_ours(const struct ArrowSchema *schema, struct infp_arrow_table *t)
{
        struct infp_arrow_source *t_ns = &t->sources[0], *time = &t->sources[1];

        if (t->width < INFP_FIXED_COLUMNS || !schema->children[0]->name || !schema->children[1]->name)
                return false;
        if (strcmp(schema->children[0]->name, "t_ns") != 0 || strcmp(schema->children[1]->name, "time") != 0)
                return false;
        if ((t_ns->target != INFP_I64 && t_ns->target != INFP_U64) || time->target != INFP_TS_NS)
                return false;
        if (t_ns->target == INFP_U64) {
                t_ns->target = INFP_I64;
                t_ns->is_direct = false;
        }
        return true;
}

static int take_table(struct infp_arrow_table *t, const struct ArrowSchema *schema, const char *name)
{
        struct ArrowStringView own = look_up(schema, "infprof.table"), keys = look_up(schema, "infprof.keys");
        struct ArrowStringView entity = look_up(schema, "infprof.entity"), help = look_up(schema, "help");
        unsigned first = is_ours(schema, t) ? INFP_FIXED_COLUMNS : 0;
        uint64_t n_keys = 0;

        t->table.plain = first == 0;
        t->table.name = own.size_bytes > 0 ? keep(t, own.data, (size_t) own.size_bytes) : keep(t, name, strlen(name));
        t->table.help = keep(t, help.data, (size_t) help.size_bytes);
        if (!t->table.name || !t->table.help)
                return -ENOMEM;
        if (infp_parse_u64(keys.data, (size_t) keys.size_bytes, &n_keys) < 0 || n_keys > t->width - first)
                n_keys = 0;
        t->table.entity = entity.size_bytes > 0 && n_keys > 0;
        t->table.keys = t->columns + first;
        t->table.n_keys = (uint16_t) n_keys;
        t->table.columns = t->table.keys + n_keys;
        t->table.n_columns = (uint16_t) (t->width - first - n_keys);
        return 0;
}

int infp_arrow_table_of(const struct ArrowSchema *schema, const char *name, struct infp_arrow_table *ret,
                        struct infp_err *err)
{
        size_t width = (size_t) schema->n_children;
        int r = 0;

        *ret = (struct infp_arrow_table){ .width = (unsigned) width };
        ret->sources = calloc(width + INFP_FIXED_COLUMNS, sizeof(*ret->sources));
        ret->columns = calloc(width + 1, sizeof(*ret->columns));
        ret->units = calloc(width + 1, sizeof(*ret->units));
        ret->texts =
                calloc(width * 4 + 2, sizeof(*ret->texts)); /* unit, name, help, entity of each; two of the table */
        if (!ret->sources || !ret->columns || !ret->units || !ret->texts)
                r = infp_fail(err, -ENOMEM, "not enough memory for a table of %zu columns", width);
        for (size_t i = 0; r == 0 && i < width; i++)
                r = describe_source(schema->children[i], &ret->sources[i], err);
        if (r == 0 && take_table(ret, schema, name) < 0)
                r = infp_fail(err, -ENOMEM, "not enough memory for a table of %zu columns", width);
        for (size_t i = 0; r == 0 && i < width; i++)
                if (take_column(ret, schema->children[i], ret->sources[i].target, &ret->columns[i]) < 0)
                        r = infp_fail(err, -ENOMEM, "not enough memory for a table of %zu columns", width);
        if (r < 0)
                infp_arrow_table_done(ret);
        return r;
}

void infp_arrow_table_done(struct infp_arrow_table *table)
{
        for (size_t i = 0; i < table->n_texts; i++)
                free(table->texts[i]);
        free(table->texts);
        free(table->sources);
        free(table->columns);
        free(table->units);
        *table = (struct infp_arrow_table){ 0 };
}
