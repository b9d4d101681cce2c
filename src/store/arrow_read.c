#include "store/arrow_read.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "store/arrow_flatbuf.h"
#include "store/arrow_schema.h"

/* nanoarrow calls strlen on both. */
static bool pairs_are_whole(fb(KeyValue_vec_t) pairs)
{
        for (size_t i = 0; i < fb(KeyValue_vec_len)(pairs); i++) {
                fb(KeyValue_table_t) pair = fb(KeyValue_vec_at)(pairs, i);

                if (!fb(KeyValue_key)(pair) || !fb(KeyValue_value)(pair))
                        return false;
        }
        return true;
}

static bool type_is_read(fb(Field_table_t) field)
{
        switch (fb(Field_type_type)(field)) {
        case fb(Type_Null):
        case fb(Type_Int):
        case fb(Type_Utf8):
        case fb(Type_LargeUtf8):
        case fb(Type_Bool):
        case fb(Type_Timestamp):
                return true;
        case fb(Type_FloatingPoint):
                return fb(FloatingPoint_precision)((fb(FloatingPoint_table_t)) fb(Field_type)(field)) !=
                       fb(Precision_HALF);
        default:
                return false;
        }
}

static int check_field(fb(Field_table_t) field, struct infp_err *err)
{
        char shown[65];
        const char *name = infp_arrow_show(fb(Field_name)(field), shown);
        const char *type = fb(Type_type_name)(fb(Field_type_type)(field));
        fb(DictionaryEncoding_table_t) dictionary = fb(Field_dictionary)(field);

        if (fb(Field_vec_len)(fb(Field_children)(field)) > 0 || !fb(Field_type)(field) || !type_is_read(field))
                return infp_fail(err, -EBADMSG,
                                 "column '%s' has the Arrow type %.*s, which infprof does not read: write it as a "
                                 "number, a text, a bool or a timestamp",
                                 name, (int) strcspn(type, "_"), type); /* "Struct_" is C's word */
        if (dictionary && !fb(DictionaryEncoding_indexType)(dictionary))
                return infp_fail(err, -EBADMSG, "column '%s' has a dictionary without an index type", name);
        if (!pairs_are_whole(fb(Field_custom_metadata)(field)))
                return infp_fail(err, -EBADMSG, "column '%s' has metadata without a key or a value", name);
        return 0;
}

int infp_arrow_check_schema(const uint8_t *message, struct infp_err *err)
{
        fb(Schema_table_t) schema = (fb(Schema_table_t)) fb(Message_header)(fb(Message_as_root)(message));
        fb(Field_vec_t) fields;
        size_t n;

        if (!schema)
                return infp_fail(err, -EBADMSG, "the schema message is empty");
        fields = fb(Schema_fields)(schema);
        n = fb(Field_vec_len)(fields);
        if (n == 0 || n > INFP_ARROW_MAX_COLUMNS)
                return infp_fail(err, -EBADMSG, "it has %zu columns; 1 to %d are read", n, INFP_ARROW_MAX_COLUMNS);
        if (fb(Schema_endianness)(schema) != fb(Endianness_Little))
                return infp_fail(err, -EBADMSG, "its numbers are big-endian, which infprof does not read");
        for (size_t i = 0; i < n; i++)
                INFP_TRY(check_field(fb(Field_vec_at)(fields, i), err));
        if (!pairs_are_whole(fb(Schema_custom_metadata)(schema)))
                return infp_fail(err, -EBADMSG, "the schema has metadata without a key or a value");
        return 0;
}

static int check_batch(fb(RecordBatch_table_t) batch, const struct infp_arrow_message *want, struct infp_err *err)
{
        fb(FieldNode_vec_t) nodes;
        fb(Buffer_vec_t) buffers;

        if (!batch)
                return infp_fail(err, -EBADMSG, "a message holds no rows");
        if (fb(RecordBatch_compression_is_present)(batch))
                return infp_fail(
                        err, -EBADMSG,
                        "its batches are compressed, which infprof does not read: write it without compression");
        if (fb(RecordBatch_length)(batch) < 0 || fb(RecordBatch_length)(batch) > want->max_rows)
                return infp_fail(err, -EBADMSG, "a message claims an impossible number of rows");
        nodes = fb(RecordBatch_nodes)(batch);
        buffers = fb(RecordBatch_buffers)(batch);
        if ((int64_t) fb(FieldNode_vec_len)(nodes) != want->n_nodes ||
            (int64_t) fb(Buffer_vec_len)(buffers) != want->n_buffers)
                return infp_fail(err, -EBADMSG, "a message does not have the columns that the schema names");
        for (size_t i = 0; i < (size_t) want->n_nodes; i++) {
                fb(FieldNode_struct_t) node = fb(FieldNode_vec_at)(nodes, i);

                if (fb(FieldNode_length)(node) < 0 || fb(FieldNode_length)(node) > want->max_rows ||
                    fb(FieldNode_null_count)(node) < -1 || fb(FieldNode_null_count)(node) > fb(FieldNode_length)(node))
                        return infp_fail(err, -EBADMSG, "a column claims an impossible number of rows");
        }
        for (size_t i = 0; i < (size_t) want->n_buffers; i++) {
                fb(Buffer_struct_t) buffer = fb(Buffer_vec_at)(buffers, i);
                int64_t offset = fb(Buffer_offset)(buffer), length = fb(Buffer_length)(buffer);

                /* Arrow requires 8-byte alignment, and numbers are read in place. */
                if (offset < 0 || length < 0 || offset % 8 != 0 || offset > want->body_size ||
                    length > want->body_size - offset)
                        return infp_fail(err, -EBADMSG, "a column lies outside of its message");
        }
        return 0;
}

int infp_arrow_check_records(const uint8_t *message, const struct infp_arrow_message *want, struct infp_err *err)
{
        return check_batch((fb(RecordBatch_table_t)) fb(Message_header)(fb(Message_as_root)(message)), want, err);
}

int infp_arrow_dictionary_id(const uint8_t *message, int64_t *ret_id)
{
        fb(DictionaryBatch_table_t) batch =
                (fb(DictionaryBatch_table_t)) fb(Message_header)(fb(Message_as_root)(message));

        if (!batch)
                return -EBADMSG;
        *ret_id = fb(DictionaryBatch_id)(batch);
        return 0;
}

int infp_arrow_check_dictionary(const uint8_t *message, const struct infp_arrow_message *want, struct infp_err *err)
{
        fb(DictionaryBatch_table_t) batch =
                (fb(DictionaryBatch_table_t)) fb(Message_header)(fb(Message_as_root)(message));

        return check_batch(batch ? fb(DictionaryBatch_data)(batch) : NULL, want, err);
}

enum { MAX_TEXT = 256 << 20 };

void infp_arrow_scratch_done(struct infp_arrow_scratch *scratch)
{
        free(scratch->valid);
        free(scratch->values);
        free(scratch->offsets);
        infp_str_done(&scratch->bytes);
}

static int reserve(struct infp_arrow_scratch *scratch, uint32_t n)
{
        if (n > scratch->cap_rows) {
                uint8_t *valid = realloc(scratch->valid, n / 8 + 1);
                void *values = valid ? realloc(scratch->values, (size_t) n * 8) : NULL;
                int32_t *offsets = values ? realloc(scratch->offsets, ((size_t) n + 1) * sizeof(*offsets)) : NULL;

                scratch->valid = valid ? valid : scratch->valid;
                scratch->values = values ? values : scratch->values;
                scratch->offsets = offsets ? offsets : scratch->offsets;
                if (!offsets)
                        return -ENOMEM;
                scratch->cap_rows = n;
        }
        memset(scratch->valid, 0, n / 8 + 1);
        memset(scratch->values, 0, (size_t) n * 8);
        infp_str_clear(&scratch->bytes);
        return 0;
}

static bool put_integer(const struct infp_arrow_source *source, const struct ArrowArrayView *values, int64_t at,
                        int64_t *ret)
{
        if (source->type == NANOARROW_TYPE_UINT64 && ArrowArrayViewGetUIntUnsafe(values, at) > INT64_MAX)
                return false;
        return !__builtin_mul_overflow(ArrowArrayViewGetIntUnsafe(values, at), source->ns_per_unit, ret);
}

/* False: the cell is absent. */
static bool put_cell(const struct infp_arrow_source *source, const struct ArrowArrayView *values, int64_t at,
                     uint32_t row, struct infp_arrow_scratch *scratch)
{
        struct ArrowStringView text;

        switch (source->target) {
        case INFP_I64:
        case INFP_TS_NS:
                return put_integer(source, values, at, (int64_t *) scratch->values + row);
        case INFP_U64:
        case INFP_ID64:
                ((uint64_t *) scratch->values)[row] = ArrowArrayViewGetUIntUnsafe(values, at);
                return true;
        case INFP_F64:
                ((double *) scratch->values)[row] = ArrowArrayViewGetDoubleUnsafe(values, at);
                return true;
        case INFP_BOOL:
                if (ArrowArrayViewGetIntUnsafe(values, at))
                        ((uint8_t *) scratch->values)[row / 8] |= (uint8_t) (1u << (row % 8));
                return true;
        case INFP_STR:
                text = ArrowArrayViewGetStringUnsafe(values, at);
                if (text.size_bytes > 0)
                        infp_str_put(&scratch->bytes, text.data, (size_t) text.size_bytes);
                return true;
        }
        return false;
}

static int convert(const struct infp_arrow_source *source, const struct ArrowArrayView *view, int64_t start, uint32_t n,
                   struct infp_arrow_scratch *scratch)
{
        for (uint32_t i = 0; i < n; i++) {
                const struct ArrowArrayView *values = view;
                int64_t at = start + i;
                bool has = !ArrowArrayViewIsNull(view, at);

                if (has && source->is_dictionary) {
                        at = ArrowArrayViewGetIntUnsafe(view, at);
                        values = view->dictionary;
                        if (at < 0 || at >= values->length)
                                return -EBADMSG;
                        has = !ArrowArrayViewIsNull(values, at);
                }
                scratch->offsets[i] = (int32_t) scratch->bytes.size;
                if (has && put_cell(source, values, at, i, scratch))
                        scratch->valid[i / 8] |= (uint8_t) (1u << (i % 8));
                if (scratch->bytes.size > MAX_TEXT)
                        return -EOVERFLOW;
        }
        scratch->offsets[n] = (int32_t) scratch->bytes.size;
        return scratch->bytes.failed ? -ENOMEM : 0;
}

static void point(const struct infp_arrow_source *source, const struct ArrowArrayView *view, int64_t start,
                  struct infp_vector *ret)
{
        const uint8_t *valid = view->buffer_views[0].data.as_uint8;

        *ret = (struct infp_vector){ .valid = valid ? valid + start / 8 : NULL };
        if (source->target == INFP_STR) {
                ret->offsets = view->buffer_views[1].data.as_int32 + start;
                ret->values = view->buffer_views[2].data.data ? view->buffer_views[2].data.data : "";
        } else if (source->target == INFP_BOOL) {
                ret->values = view->buffer_views[1].data.as_uint8 + start / 8;
        } else {
                ret->values = view->buffer_views[1].data.as_int64 + start;
        }
}

int infp_arrow_vector(const struct infp_arrow_source *source, const struct ArrowArrayView *view, int64_t start,
                      uint32_t n, struct infp_arrow_scratch *scratch, struct infp_vector *ret)
{
        if (view->null_count > 0 && source->type != NANOARROW_TYPE_NA && !view->buffer_views[0].data.data)
                return -EBADMSG;
        if (source->is_direct) {
                point(source, view, start, ret);
                return 0;
        }
        INFP_TRY(reserve(scratch, n));
        INFP_TRY(convert(source, view, start, n, scratch));
        ret->valid = scratch->valid;
        ret->offsets = source->target == INFP_STR ? scratch->offsets : NULL;
        ret->values = source->target != INFP_STR ? scratch->values : scratch->bytes.data ? scratch->bytes.data : "";
        return 0;
}
