/* The inside of a segment's reader, for segment*.c and mend.c. */
#pragma once

#include "nanoarrow/nanoarrow_ipc.h"
#include "store/arrow_check.h"
#include "store/arrow_convert.h"
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
        bool has_sums;           /* a message without one is damaged, then */
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

/* Remembers that it cannot go on; -EBADMSG with the place and why. */
int infp_segment_broken(struct infp_segment *s, struct infp_err *err, const char *why);
/* Makes `size` bytes from offset on stand in memory. 1, 0 when the file ends before, or a negative errno. */
int infp_segment_load(struct infp_segment *s, uint64_t size, struct infp_err *err);
/* The byte at offset, 8-byte aligned; good until the next load. */
const uint8_t *infp_segment_here(const struct infp_segment *s);
struct ArrowBufferView infp_segment_view_of(const uint8_t *data, uint64_t size);
/* Loads the message at offset, verifies its header and looks at its checksum; its size into ret. 1, 0 at the end. */
int infp_segment_message(struct infp_segment *s, uint64_t *ret_size, struct infp_err *err);
/* After offset: to the next message whose checksum is right. False: there is none, and offset stays. */
bool infp_segment_find(struct infp_segment *s);
