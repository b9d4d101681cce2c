/* A checksum in each message with rows: XXH64 of its header and its body, as 16 hexadecimal digits in the message's own metadata
 * (key "infprof.xxh64"), where other readers of Arrow pass it by. While it is computed the digits are zeros. */
#pragma once

#include "nanoarrow/nanoarrow.h"

struct flatcc_builder;
/* Makes the header of a record batch anew, with the checksum. head: whole, with its 8 bytes of prefix. 0 or -ENOMEM. */
int infp_arrow_put_sum(struct flatcc_builder *builder, struct ArrowBuffer *head, const struct ArrowBuffer *body);

enum infp_arrow_sum {
        INFP_ARROW_NO_SUM, /* other people's, or before there were checksums */
        INFP_ARROW_SUM_RIGHT,
        INFP_ARROW_SUM_WRONG,
};
/* Of a message whose header was verified, with its prefix; 8-byte aligned. */
enum infp_arrow_sum infp_arrow_check_sum(const uint8_t *message, size_t header_size, size_t body_size);
