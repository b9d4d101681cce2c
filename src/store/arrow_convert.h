/* Columns of a decoded Arrow message as vectors of ours: in place where the layout is the same, else converted. */
#pragma once

#include "base/str.h"
#include "model/batch.h"
#include "store/arrow_schema.h"

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
