/* A checksum in each message with rows: XXH64 of its header and body, as 16 hexadecimal digits in the message's metadata (key
 * "infprof.xxh64"), which other Arrow readers ignore. The digits are zeros while it is computed. */
#pragma once

#include "nanoarrow/nanoarrow.h"

struct flatcc_builder;
/* Rebuilds the header of a record batch with the checksum. head: complete, with its 8-byte prefix. 0 or -ENOMEM. */
int infp_arrow_put_sum(struct flatcc_builder *builder, struct ArrowBuffer *head, const struct ArrowBuffer *body);

enum infp_arrow_sum {
        INFP_ARROW_NO_SUM, /* foreign, or older than checksums */
        INFP_ARROW_SUM_RIGHT,
        INFP_ARROW_SUM_WRONG,
};
/* Of a message whose header was verified, with its prefix; 8-byte aligned. */
enum infp_arrow_sum infp_arrow_check_sum(const uint8_t *message, size_t header_size, size_t body_size);
