/* What nanoarrow's decoder takes for granted and a hostile file may not keep: absent parts of a message, negative lengths,
 * buffers outside the body, counts that do not match. Run on a message whose flatbuffer has been verified, before decoding. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Refuses column types that the reader does not convert, by name. */
int infp_arrow_check_schema(const uint8_t *message, struct infp_err *err);

struct infp_arrow_message {
        int64_t body_size, max_rows;
        int64_t n_nodes, n_buffers; /* what the schema demands */
};
int infp_arrow_check_records(const uint8_t *message, const struct infp_arrow_message *want, struct infp_err *err);

/* The same of a dictionary message, whose demands depend on its id. */
int infp_arrow_dictionary_id(const uint8_t *message, int64_t *ret_id);
int infp_arrow_check_dictionary(const uint8_t *message, const struct infp_arrow_message *want, struct infp_err *err);
