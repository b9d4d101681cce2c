/* Internals of a segment's reader, for segment.c and mend.c. */
#pragma once

#include "nanoarrow/nanoarrow_ipc.h"
#include "store/arrow_read.h"
#include "store/arrow_schema.h"
#include "store/arrow_sum.h"
#include "store/store.h"

struct infp_segment {
        int fd;
        char *path;
        uint64_t size;   /* when it was opened: a recorder may append meanwhile */
        uint64_t offset; /* of the message to come */
        uint64_t good;   /* end of the last whole message */
        struct infp_segment_damage damage;
        enum infp_arrow_sum sum; /* of the current message */
        uint64_t damaged_tail;   /* bytes of the damage that reaches to the end */
        bool has_sums;           /* then a message without one is damaged */
        uint8_t *window;         /* what was read of the file: window_size bytes from window_at on */
        size_t window_cap, window_size;
        uint64_t window_at;
        struct ArrowIpcDecoder decoder;
        struct ArrowSchema schema;
        struct ArrowIpcDictionaryEncodings encodings;
        struct ArrowIpcDictionaries dictionaries;
        bool has_schema;
        struct infp_arrow_table columns;
        struct infp_arrow_message want;
        struct ArrowArrayView *view; /* of the current message, in the window */
        int64_t row, n_rows;         /* of it: the next one to hand out, and how many */
        struct infp_vector *vectors;
        struct infp_arrow_scratch *scratch;
        uint64_t n_messages, n_batches;
        bool is_end, is_torn, has_marker; /* has_marker: the end-of-stream marker was read */
        int error;                        /* sticky */
};
