/* Messages of Protocol Buffers, field by field: bounded, without a schema, nothing is copied. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum infp_proto_type { INFP_PROTO_VARINT, INFP_PROTO_FIXED64, INFP_PROTO_BYTES, INFP_PROTO_FIXED32 = 5 };

struct infp_proto {
        const uint8_t *at, *end;
};

struct infp_proto_field {
        uint32_t number;
        enum infp_proto_type type;
        uint64_t value; /* not of BYTES; signed ones in two's complement */
        const uint8_t *bytes;
        size_t size;
};

struct infp_proto infp_proto(const void *data, size_t size);
struct infp_proto infp_proto_message(const struct infp_proto_field *field); /* of BYTES: what is in it */

/* 1; 0: the end; -EBADMSG: not a message (a length beyond its end, a number of more than 64 bits, a group). */
int infp_proto_next(struct infp_proto *proto, struct infp_proto_field *ret);

/* A repeated number: of a packed field all of them, of another its one. Begins at *at = 0. 1; 0: the end; -EBADMSG. */
int infp_proto_packed(const struct infp_proto_field *field, size_t *at, uint64_t *ret);
