#include "store/arrow_share.h"

#include <stdbool.h>
#include <string.h>

#include "base/hash.h"
#include "store/arrow_flatbuf.h"

enum {
        SMALL = 1024, /* larger ones are hardly ever equal */
        SLOTS = 512,  /* more than twice the buffers of our widest table; of a wider one the rest is not shared */
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

/* The slot of its equal, or a free one; NULL: there is no room for another. */
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

/* Where the buffer stands in the new body, which never grows beyond what was read of the old one. */
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

/* As the encoder lays them: one after the other, each padded to 8 bytes. */
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

void infp_arrow_share(struct ArrowBuffer *head, struct ArrowBuffer *body)
{
        fb(Message_table_t) message = fb(Message_as_root)(head->data + HEAD_PREFIX);
        fb(RecordBatch_table_t) batch = (fb(RecordBatch_table_t)) fb(Message_header)(message);
        fb(Buffer_vec_t) buffers = fb(RecordBatch_buffers)(batch);
        struct sharing s = { .body = body->data };

        if (!is_plain(buffers, body->size_bytes))
                return;
        for (size_t i = 0; i < fb(Buffer_vec_len)(buffers); i++) {
                /* The head is ours and its structs lie in it as they are in memory, on all machines that infprof runs on. */
                fb(Buffer_t) *buffer = (fb(Buffer_t) *) (uintptr_t) fb(Buffer_vec_at)(buffers, i);

                buffer->offset = place(&s, buffer->offset, buffer->length);
        }
        *(int64_t *) (uintptr_t) fb(Message_bodyLength_get_ptr)(message) = s.size;
        body->size_bytes = s.size;
}
