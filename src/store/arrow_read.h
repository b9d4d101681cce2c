/* Checks what nanoarrow's decoder assumes and a hostile file may violate: missing parts of a message, negative lengths, buffers
 * outside the body, counts that do not match. Run after the flatbuffer was verified, before decoding. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "model/batch.h"
#include "store/arrow_schema.h"

/* Refuses column types that the reader does not convert, by name. */
int infp_arrow_check_schema(const uint8_t *message, struct infp_err *err);

struct infp_arrow_message {
        int64_t body_size, max_rows;
        int64_t n_nodes, n_buffers; /* required by the schema */
};
int infp_arrow_check_records(const uint8_t *message, const struct infp_arrow_message *want, struct infp_err *err);

/* The same for a dictionary message, whose requirements depend on its id. */
int infp_arrow_dictionary_id(const uint8_t *message, int64_t *ret_id);
int infp_arrow_check_dictionary(const uint8_t *message, const struct infp_arrow_message *want, struct infp_err *err);

/* Columns of a decoded message as vectors of ours: in place where the layout is the same, else converted. */

/* Memory of one converted column, kept from slice to slice. Zero-initialised is empty. */
struct infp_arrow_scratch {
        uint8_t *valid;
        void *values; /* 8 bytes a row; bits for bools */
        int32_t *offsets;
        struct infp_str bytes;
        uint32_t cap_rows;
};
void infp_arrow_scratch_done(struct infp_arrow_scratch *scratch);

/* Rows start .. start + n - 1 of a validated view (start is a multiple of 8). 0, -ENOMEM, -EOVERFLOW (more text than a batch
 * can hold) or -EBADMSG (gaps without a bitmap). What does not fit the target (a time beyond the year 2262) is absent. */
int infp_arrow_vector(const struct infp_arrow_source *source, const struct ArrowArrayView *view, int64_t start,
                      uint32_t n, struct infp_arrow_scratch *scratch, struct infp_vector *ret);
