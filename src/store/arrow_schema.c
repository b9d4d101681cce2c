#include "store/arrow_schema.h"

#include <errno.h>
#include <stdio.h>

#include "nanoarrow/nanoarrow_ipc.h"

int infp_arrow_fail(struct infp_err *err, int code, const struct ArrowError *error, const char *what)
{
        /* EINVAL and ENOTSUP are what nanoarrow says of every malformed or unknown input. */
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
