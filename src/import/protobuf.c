#include "import/protobuf.h"

#include <errno.h>

struct infp_proto infp_proto(const void *data, size_t size)
{
        const uint8_t *bytes = data;

        return (struct infp_proto){ bytes, size ? bytes + size : bytes };
}

struct infp_proto infp_proto_message(const struct infp_proto_field *field)
{
        return infp_proto(field->bytes, field->type == INFP_PROTO_BYTES ? field->size : 0);
}

/* At most ten bytes; the tenth has one bit of the 64. */
static int varint(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
        uint64_t v = 0;

        for (unsigned shift = 0; *at < end && shift < 64; shift += 7) { /* bound: 64 bits; more is refused */
                const uint8_t byte = *(*at)++;

                if (shift == 63 && byte > 1)
                        return -EBADMSG;
                v |= (uint64_t) (byte & 0x7f) << shift;
                if (byte < 0x80) {
                        *ret = v;
                        return 0;
                }
        }
        return -EBADMSG;
}

static int fixed(struct infp_proto *proto, unsigned size, uint64_t *ret)
{
        if ((size_t) (proto->end - proto->at) < size)
                return -EBADMSG;
        *ret = 0;
        for (unsigned i = 0; i < size; i++)
                *ret |= (uint64_t) proto->at[i] << (8 * i);
        proto->at += size;
        return 1;
}

int infp_proto_next(struct infp_proto *proto, struct infp_proto_field *ret)
{
        uint64_t key, size;

        if (proto->at == proto->end)
                return 0;
        if (varint(&proto->at, proto->end, &key) < 0 || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3)
                return -EBADMSG;
        *ret = (struct infp_proto_field){ .number = (uint32_t) (key >> 3), .type = (enum infp_proto_type)(key & 7) };
        switch (key & 7) {
        case INFP_PROTO_VARINT:
                return varint(&proto->at, proto->end, &ret->value) < 0 ? -EBADMSG : 1;
        case INFP_PROTO_FIXED64:
                return fixed(proto, 8, &ret->value);
        case INFP_PROTO_FIXED32:
                return fixed(proto, 4, &ret->value);
        case INFP_PROTO_BYTES:
                if (varint(&proto->at, proto->end, &size) < 0 || size > (size_t) (proto->end - proto->at))
                        return -EBADMSG;
                ret->bytes = proto->at;
                ret->size = (size_t) size;
                proto->at += size;
                return 1;
        default:
                return -EBADMSG;
        }
}

int infp_proto_packed(const struct infp_proto_field *field, size_t *at, uint64_t *ret)
{
        const uint8_t *byte;

        if (field->type == INFP_PROTO_VARINT) {
                *ret = field->value;
                return (*at)++ == 0;
        }
        if (field->type != INFP_PROTO_BYTES)
                return -EBADMSG;
        if (*at == field->size)
                return 0;
        byte = field->bytes + *at;
        if (varint(&byte, field->bytes + field->size, ret) < 0)
                return -EBADMSG;
        *at = (size_t) (byte - field->bytes);
        return 1;
}
