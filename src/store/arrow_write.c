#include "store/arrow.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "nanoarrow/nanoarrow_ipc.h"
#include "store/arrow_flatbuf.h"
#include "store/arrow_schema.h"
#include "store/arrow_sum.h"

enum {
        SMALL = 1024, /* larger ones are rarely equal */
        SLOTS = 512,  /* more than twice the buffers of our widest table; in a wider one the rest is not shared */
        HEAD_PREFIX = 8,
};

struct shared {
        uint64_t hash;
        int64_t offset, length; /* in the new body; length 0: a free slot */
};

struct sharing {
        struct shared slots[SLOTS];
        unsigned n;
        uint8_t *body;
        int64_t size; /* of the new body so far */
};

/* The slot of an equal buffer, or a free one; NULL: full. */
static struct shared *find(struct sharing *s, const uint8_t *data, int64_t length)
{
        uint64_t hash = infp_hash64(data, (size_t) length, 0);

        for (uint64_t i = hash;; i++) {
                struct shared *slot = &s->slots[i % SLOTS];

                if (!slot->length) {
                        slot->hash = hash;
                        return s->n < SLOTS / 2 ? slot : NULL;
                }
                if (slot->hash == hash && slot->length == length &&
                    !memcmp(s->body + slot->offset, data, (size_t) length))
                        return slot;
        }
}

/* The offset of the buffer in the new body, which never grows past the part of the old one that was read. */
static int64_t place(struct sharing *s, int64_t offset, int64_t length)
{
        int64_t padded = (length + 7) & ~INT64_C(7), at = s->size;
        struct shared *slot = length && length <= SMALL ? find(s, s->body + offset, length) : NULL;

        if (slot && slot->length)
                return slot->offset;
        if (slot) {
                slot->offset = at;
                slot->length = length;
                s->n++;
        }
        memmove(s->body + at, s->body + offset, (size_t) padded);
        s->size += padded;
        return at;
}

/* Laid out as by the encoder: one after the other, each padded to 8 bytes. */
static bool is_plain(fb(Buffer_vec_t) buffers, int64_t body_size)
{
        int64_t at = 0;

        for (size_t i = 0; i < fb(Buffer_vec_len)(buffers); i++) {
                fb(Buffer_struct_t) buffer = fb(Buffer_vec_at)(buffers, i);

                if (fb(Buffer_offset)(buffer) != at)
                        return false;
                at += (fb(Buffer_length)(buffer) + 7) & ~INT64_C(7);
        }
        return at == body_size;
}

/* Equal buffers of a message are stored once. At one row a second and a flush each 5 s most buffers are a few bytes, and many of
 * them the same: columns without a value, counters at 0, bitmaps. Arrow does not ask buffers to lie apart, only in the body.
 * Of a message with rows that was just encoded: head (with its 8 bytes in front) and body, which is shortened in place. */
static void share_equal(struct ArrowBuffer *head, struct ArrowBuffer *body)
{
        fb(Message_table_t) message = fb(Message_as_root)(head->data + HEAD_PREFIX);
        fb(RecordBatch_table_t) batch = (fb(RecordBatch_table_t)) fb(Message_header)(message);
        fb(Buffer_vec_t) buffers = fb(RecordBatch_buffers)(batch);
        struct sharing s = { .body = body->data };

        if (!is_plain(buffers, body->size_bytes))
                return;
        for (size_t i = 0; i < fb(Buffer_vec_len)(buffers); i++) {
                /* The head is ours, and its structs have their in-memory layout on all machines that infprof runs on. */
                fb(Buffer_t) *buffer = (fb(Buffer_t) *) (uintptr_t) fb(Buffer_vec_at)(buffers, i);

                buffer->offset = place(&s, buffer->offset, buffer->length);
        }
        *(int64_t *) (uintptr_t) fb(Message_bodyLength_get_ptr)(message) = s.size;
        body->size_bytes = s.size;
}

struct infp_arrow_encoder {
        struct ArrowIpcEncoder encoder;
        struct ArrowBuffer head, body;
        flatcc_builder_t sums; /* of headers with a checksum */
        char *scratch;         /* bitmaps and offsets of slices */
        size_t scratch_cap, scratch_size;
};

struct infp_arrow_writer {
        const struct infp_table *table;
        struct infp_arrow_encoder *encoder, *own_encoder;
        unsigned width;
        struct ArrowArrayView view;
        /* The batch wrapped as Arrow arrays: pointers into its memory, nothing copied but what a slice makes necessary. */
        struct ArrowArray root, *arrays, **children;
        const void *(*buffers)[3], *root_buffer;
};

int infp_arrow_encoder_new(struct infp_arrow_encoder **ret, struct infp_err *err)
{
        struct infp_arrow_encoder *encoder = calloc(1, sizeof(*encoder));

        if (!encoder || flatcc_builder_init(&encoder->sums) != 0 ||
            ArrowIpcEncoderInit(&encoder->encoder) != NANOARROW_OK) {
                free(encoder);
                return infp_fail(err, -ENOMEM, "not enough memory for an Arrow encoder");
        }
        ArrowBufferInit(&encoder->head);
        ArrowBufferInit(&encoder->body);
        *ret = encoder;
        return 0;
}

struct infp_arrow_encoder *infp_arrow_encoder_free(struct infp_arrow_encoder *encoder)
{
        if (!encoder)
                return NULL;
        if (encoder->encoder.private_data)
                ArrowIpcEncoderReset(&encoder->encoder);
        ArrowBufferReset(&encoder->head);
        ArrowBufferReset(&encoder->body);
        flatcc_builder_clear(&encoder->sums);
        free(encoder->scratch);
        free(encoder);
        return NULL;
}

static void release_nothing(struct ArrowArray *array)
{
        array->release = NULL;
}

static int n_buffers(enum infp_type type)
{
        return type == INFP_STR ? 3 : 2;
}

static int make_arrays(struct infp_arrow_writer *writer)
{
        unsigned width = writer->width;

        writer->arrays = calloc(width + 1, sizeof(*writer->arrays));
        writer->children = calloc(width + 1, sizeof(*writer->children));
        writer->buffers = calloc(width + 1, sizeof(*writer->buffers));
        if (!writer->arrays || !writer->children || !writer->buffers)
                return -ENOMEM;
        for (unsigned i = 0; i < width; i++) {
                writer->arrays[i].n_buffers = n_buffers(infp_table_column(writer->table, i)->type);
                writer->arrays[i].buffers = writer->buffers[i];
                writer->arrays[i].release = release_nothing;
                writer->children[i] = &writer->arrays[i];
        }
        writer->root.n_buffers = 1;
        writer->root.buffers = &writer->root_buffer;
        writer->root.n_children = width;
        writer->root.children = writer->children;
        writer->root.release = release_nothing;
        return 0;
}

static int make_view(struct infp_arrow_writer *writer, struct infp_err *err)
{
        struct ArrowSchema schema;
        struct ArrowError error = { { 0 } };
        int code;

        INFP_TRY(infp_arrow_schema_of(writer->table, &schema, err));
        code = ArrowArrayViewInitFromSchema(&writer->view, &schema, &error);
        ArrowSchemaRelease(&schema);
        return code == NANOARROW_OK ? 0 : infp_arrow_fail(err, code, &error, "cannot make an Arrow writer");
}

int infp_arrow_writer_new(const struct infp_table *table, struct infp_arrow_encoder *encoder,
                          struct infp_arrow_writer **ret, struct infp_err *err)
{
        struct infp_arrow_writer *writer = calloc(1, sizeof(*writer));
        int r = 0;

        if (!writer)
                return infp_fail(err, -ENOMEM, "not enough memory for an Arrow writer");
        writer->table = table;
        writer->width = infp_table_width(table);
        ArrowArrayViewInitFromType(&writer->view, NANOARROW_TYPE_UNINITIALIZED);
        writer->encoder = encoder;
        if (!encoder)
                r = infp_arrow_encoder_new(&writer->own_encoder, err);
        if (!encoder && r == 0)
                writer->encoder = writer->own_encoder;
        if (r == 0 && make_arrays(writer) < 0)
                r = infp_fail(err, -ENOMEM, "not enough memory for an Arrow writer");
        if (r == 0)
                r = make_view(writer, err);
        if (r < 0) {
                infp_arrow_writer_free(writer);
                return r;
        }
        *ret = writer;
        return 0;
}

struct infp_arrow_writer *infp_arrow_writer_free(struct infp_arrow_writer *writer)
{
        if (!writer)
                return NULL;
        ArrowArrayViewReset(&writer->view);
        infp_arrow_encoder_free(writer->own_encoder);
        free(writer->arrays);
        free(writer->children);
        free(writer->buffers);
        free(writer);
        return NULL;
}

/* A failed encoding leaves the flatbuffer builder inside a message: only a new one is clean. */
static void renew_encoder(struct infp_arrow_encoder *encoder)
{
        if (encoder->encoder.private_data)
                ArrowIpcEncoderReset(&encoder->encoder);
        if (ArrowIpcEncoderInit(&encoder->encoder) != NANOARROW_OK)
                encoder->encoder.private_data = NULL;
}

static int put_message(struct infp_arrow_encoder *encoder, int code, const struct ArrowError *error, bool is_batch,
                       struct infp_str *out, struct infp_err *err)
{
        size_t before = out->size;

        encoder->head.size_bytes = 0;
        if (code == NANOARROW_OK)
                code = ArrowIpcEncoderFinalizeBuffer(&encoder->encoder, 1, &encoder->head);
        if (code != NANOARROW_OK) {
                renew_encoder(encoder);
                return infp_arrow_fail(err, code, error, "cannot encode an Arrow message");
        }
        if (encoder->body.size_bytes > 0)
                share_equal(&encoder->head, &encoder->body);
        if (is_batch && infp_arrow_put_sum(&encoder->sums, &encoder->head, &encoder->body) < 0)
                return infp_fail(err, -ENOMEM, "not enough memory for an Arrow message");
        infp_str_put(out, encoder->head.data, (size_t) encoder->head.size_bytes);
        if (encoder->body.size_bytes > 0)
                infp_str_put(out, encoder->body.data, (size_t) encoder->body.size_bytes);
        if (out->failed) {
                out->size = before;
                return infp_fail(err, -ENOMEM, "not enough memory for an Arrow message");
        }
        return 0;
}

static int ready(struct infp_arrow_encoder *encoder, struct infp_err *err)
{
        if (!encoder->encoder.private_data)
                renew_encoder(encoder);
        if (!encoder->encoder.private_data)
                return infp_fail(err, -ENOMEM, "not enough memory for an Arrow message");
        encoder->body.size_bytes = 0;
        return 0;
}

int infp_arrow_put_schema(struct infp_arrow_writer *writer, struct infp_str *out, struct infp_err *err)
{
        struct infp_arrow_encoder *encoder = writer->encoder;
        struct ArrowSchema schema;
        struct ArrowError error = { { 0 } };
        int code;

        INFP_TRY(ready(encoder, err));
        INFP_TRY(infp_arrow_schema_of(writer->table, &schema, err));
        code = ArrowIpcEncoderEncodeSchema(&encoder->encoder, &schema, &error);
        ArrowSchemaRelease(&schema);
        return put_message(encoder, code, &error, false, out, err);
}

static void *scratch(struct infp_arrow_encoder *encoder, size_t size)
{
        void *at = encoder->scratch + encoder->scratch_size;

        encoder->scratch_size += (size + 7) & ~(size_t) 7;
        return at;
}

/* The offsets of a text slice must begin at 0 on disk. */
static bool moves_offsets(const struct infp_arrow_writer *writer, const struct infp_batch *batch, unsigned column)
{
        const int32_t *offsets = batch->columns[column].offsets;

        return infp_table_column(writer->table, column)->type == INFP_STR && offsets && offsets[batch->first] != 0;
}

/* Reserves all memory before the first pointer into it: two bitmaps per column, offsets of text slices, times. */
static int reserve_scratch(struct infp_arrow_writer *writer, const struct infp_batch *batch)
{
        struct infp_arrow_encoder *encoder = writer->encoder;
        size_t need = 0, n = batch->n_rows;
        char *grown;

        for (unsigned i = 0; i < writer->width; i++)
                need += 2 * (n / 8 + 16) + (moves_offsets(writer, batch, i) ? 4 * n + 16 : 0) +
                        (infp_table_column(writer->table, i)->type == INFP_TS_NS ? 8 * n + 16 : 0);
        encoder->scratch_size = 0;
        if (need <= encoder->scratch_cap)
                return 0;
        grown = realloc(encoder->scratch, need);
        if (!grown)
                return -ENOMEM;
        encoder->scratch = grown;
        encoder->scratch_cap = need;
        return 0;
}

/* A copy that begins at bit 0 and ends in zeros, so that equal rows make equal files. */
static const uint8_t *slice_bits(struct infp_arrow_encoder *encoder, const uint8_t *bits, uint32_t first, uint32_t n)
{
        uint8_t *ret = scratch(encoder, (n + 7) / 8);

        if (first % 8 == 0) {
                memcpy(ret, bits + first / 8, (n + 7) / 8);
                if (n % 8)
                        ret[n / 8] &= (uint8_t) ((1u << (n % 8)) - 1);
                return ret;
        }
        memset(ret, 0, (n + 7) / 8);
        for (uint32_t i = 0; i < n; i++)
                ret[i / 8] |= (uint8_t) ((bits[(first + i) / 8] >> ((first + i) % 8) & 1) << (i % 8));
        return ret;
}

static uint32_t count_nulls(const uint8_t *bits, uint32_t n)
{
        uint32_t set = 0;

        for (uint32_t i = 0; i < (n + 7) / 8; i++)
                set += (uint32_t) __builtin_popcount(bits[i]);
        return n - set;
}

static void wrap_text(struct infp_arrow_encoder *encoder, const struct infp_vector *vector, uint32_t first, uint32_t n,
                      const void **buffers)
{
        const int32_t *offsets = vector->offsets + first;
        int32_t base = offsets[0];

        if (base != 0) {
                int32_t *moved = scratch(encoder, sizeof(*moved) * ((size_t) n + 1));

                for (uint32_t i = 0; i <= n; i++)
                        moved[i] = offsets[i] - base;
                offsets = moved;
        }
        buffers[1] = offsets;
        buffers[2] = vector->values ? (const char *) vector->values + base : NULL;
}

/* In microseconds, the finest unit with a time zone that DuckDB writes to Parquet, so that both files have one type. t_ns keeps
 * the nanoseconds. */
static const int64_t *times(struct infp_arrow_encoder *encoder, const int64_t *ns, uint32_t n)
{
        int64_t *ret = scratch(encoder, sizeof(*ret) * (size_t) n);

        for (uint32_t i = 0; i < n; i++)
                ret[i] = infp_floor_us(ns[i]);
        return ret;
}

static int wrap_column(struct infp_arrow_writer *writer, const struct infp_batch *batch, unsigned i)
{
        const struct infp_vector *vector = &batch->columns[i];
        struct infp_arrow_encoder *encoder = writer->encoder;
        struct ArrowArray *array = &writer->arrays[i];
        const void **buffers = writer->buffers[i];
        uint32_t first = batch->first, n = batch->n_rows;
        enum infp_type type = infp_table_column(writer->table, i)->type;
        const uint8_t *valid = vector->valid ? slice_bits(encoder, vector->valid, first, n) : NULL;

        if (infp_table_column(batch->table, i)->type != type || (type == INFP_STR ? !vector->offsets : !vector->values))
                return -EINVAL;
        array->length = n;
        array->null_count = valid ? count_nulls(valid, n) : 0;
        buffers[0] = array->null_count ? valid : NULL; /* a column without gaps needs no bitmap on disk */
        if (type == INFP_STR)
                wrap_text(encoder, vector, first, n, buffers);
        else if (type == INFP_BOOL)
                buffers[1] = slice_bits(encoder, vector->values, first, n);
        else if (type == INFP_TS_NS)
                buffers[1] = times(encoder, (const int64_t *) vector->values + first, n);
        else
                buffers[1] = (const int64_t *) vector->values + first;
        return 0;
}

int infp_arrow_put_batch(struct infp_arrow_writer *writer, const struct infp_batch *batch, struct infp_str *out,
                         struct infp_err *err)
{
        struct infp_arrow_encoder *encoder = writer->encoder;
        struct ArrowError error = { { 0 } };
        int code;

        if (batch->n_rows == 0)
                return 0;
        INFP_TRY(ready(encoder, err));
        if (infp_table_width(batch->table) != writer->width)
                return infp_fail(err, -EINVAL, "a batch of table %s does not have the columns of table %s",
                                 batch->table->name, writer->table->name);
        if (reserve_scratch(writer, batch) < 0)
                return infp_fail(err, -ENOMEM, "not enough memory for an Arrow message");
        for (unsigned i = 0; i < writer->width; i++)
                if (wrap_column(writer, batch, i) < 0)
                        return infp_fail(err, -EINVAL, "column %s of a batch of table %s has another type or no memory",
                                         infp_table_column(writer->table, i)->name, writer->table->name);
        writer->root.length = batch->n_rows;
        code = ArrowArrayViewSetArray(&writer->view, &writer->root, &error);
        if (code == NANOARROW_OK)
                code = ArrowIpcEncoderEncodeSimpleRecordBatch(&encoder->encoder, &writer->view, &encoder->body, &error);
        return put_message(encoder, code, &error, true, out, err);
}

void infp_arrow_put_end(struct infp_str *out)
{
        static const uint8_t marker[8] = { 0xff, 0xff, 0xff, 0xff };

        infp_str_put(out, marker, sizeof(marker));
}
