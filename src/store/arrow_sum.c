#include "store/arrow_sum.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "store/arrow_flatbuf.h"

enum { PREFIX = 8, DIGITS = 16 };
static const char key[] = "infprof.xxh64", zeros[] = "0000000000000000";

/* The digits in the message; NULL: it has no checksum. */
static const char *digits_of(fb(Message_table_t) message)
{
        fb(KeyValue_vec_t) pairs = fb(Message_custom_metadata)(message);

        for (size_t i = 0; i < fb(KeyValue_vec_len)(pairs); i++) {
                fb(KeyValue_table_t) pair = fb(KeyValue_vec_at)(pairs, i);
                const char *name = fb(KeyValue_key)(pair), *value = fb(KeyValue_value)(pair);

                if (name && value && !strcmp(name, key) && strlen(value) == DIGITS)
                        return value;
        }
        return NULL;
}

static void sum_of(const uint8_t *head, size_t head_size, const char *digits, const uint8_t *body, size_t body_size,
                   char ret[DIGITS + 1])
{
        const size_t before = (size_t) ((const uint8_t *) digits - head);
        uint64_t sum = infp_hash64(head, before, 0);

        sum = infp_hash64(zeros, DIGITS, sum);
        sum = infp_hash64(head + before + DIGITS, head_size - before - DIGITS, sum);
        sum = infp_hash64(body, body_size, sum);
        snprintf(ret, DIGITS + 1, "%016llx", (unsigned long long) sum);
}

enum infp_arrow_sum infp_arrow_check_sum(const uint8_t *message, size_t header_size, size_t body_size)
{
        const char *digits = digits_of(fb(Message_as_root)(message + PREFIX));
        char sum[DIGITS + 1];

        if (!digits)
                return INFP_ARROW_NO_SUM;
        sum_of(message, header_size, digits, message + header_size, body_size, sum);
        return memcmp(sum, digits, DIGITS) ? INFP_ARROW_SUM_WRONG : INFP_ARROW_SUM_RIGHT;
}

static int build(flatcc_builder_t *b, fb(RecordBatch_table_t) batch, int64_t body_size)
{
        fb(FieldNode_vec_t) nodes = fb(RecordBatch_nodes)(batch);
        fb(Buffer_vec_t) buffers = fb(RecordBatch_buffers)(batch);

        return fb(Message_start_as_root)(b) || fb(Message_version_add)(b, fb(MetadataVersion_V5)) ||
               fb(Message_header_RecordBatch_start)(b) ||
               fb(RecordBatch_length_add)(b, fb(RecordBatch_length)(batch)) ||
               fb(RecordBatch_nodes_create)(b, nodes, fb(FieldNode_vec_len)(nodes)) ||
               fb(RecordBatch_buffers_create)(b, buffers, fb(Buffer_vec_len)(buffers)) ||
               fb(Message_header_RecordBatch_end)(b) || fb(Message_bodyLength_add)(b, body_size) ||
               fb(Message_custom_metadata_start)(b) || fb(Message_custom_metadata_push_start)(b) ||
               fb(KeyValue_key_create_str)(b, key) || fb(KeyValue_value_create_str)(b, zeros) ||
               !fb(Message_custom_metadata_push_end)(b) || fb(Message_custom_metadata_end)(b) ||
               !fb(Message_end_as_root)(b);
}

int infp_arrow_put_sum(flatcc_builder_t *builder, struct ArrowBuffer *head, const struct ArrowBuffer *body)
{
        fb(Message_table_t) message = fb(Message_as_root)(head->data + PREFIX);
        size_t size, padded;
        uint32_t prefix[2] = { 0xffffffff, 0 };
        char sum[DIGITS + 1];
        const char *digits;

        flatcc_builder_reset(builder);
        if (build(builder, (fb(RecordBatch_table_t)) fb(Message_header)(message), body->size_bytes))
                return -ENOMEM;
        size = flatcc_builder_get_buffer_size(builder);
        padded = (size + 7) & ~(size_t) 7;
        if (ArrowBufferResize(head, (int64_t) (PREFIX + padded), 0) != NANOARROW_OK)
                return -ENOMEM;
        prefix[1] = (uint32_t) padded;
        memcpy(head->data, prefix, PREFIX);
        memset(head->data + PREFIX + size, 0, padded - size);
        if (!flatcc_builder_copy_buffer(builder, head->data + PREFIX, size))
                return -ENOMEM;
        digits = digits_of(fb(Message_as_root)(head->data + PREFIX));
        sum_of(head->data, PREFIX + padded, digits, body->data, (size_t) body->size_bytes, sum);
        memcpy((char *) (uintptr_t) digits, sum, DIGITS);
        return 0;
}
