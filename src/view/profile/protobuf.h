/* Protocol buffers, as far as a writer needs them: fields of varints and of bytes, into a string. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/str.h"

static inline void infp_protobuf_varint(struct infp_str *out, uint64_t v)
{
        for (; v > 127; v >>= 7)
                infp_str_putc(out, (char) (v | 128));
        infp_str_putc(out, (char) v);
}

/* 0 is the default of a field: not written. */
static inline void infp_protobuf_u64(struct infp_str *out, unsigned field, uint64_t v)
{
        if (!v)
                return;
        infp_protobuf_varint(out, (uint64_t) field << 3);
        infp_protobuf_varint(out, v);
}

static inline void infp_protobuf_bytes(struct infp_str *out, unsigned field, const void *data, size_t size)
{
        infp_protobuf_varint(out, (uint64_t) field << 3 | 2);
        infp_protobuf_varint(out, size);
        if (size)
                infp_str_put(out, data, size);
}

static inline void infp_protobuf_str(struct infp_str *out, unsigned field, const struct infp_str *message)
{
        infp_protobuf_bytes(out, field, message->data, message->size);
}
