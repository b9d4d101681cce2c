/* What this version writes, and reads of each kind. */
#include <stddef.h>

#include "ring/wire.h"

#define FIELD(struct_, member_, as)                                                            \
        {                                                                                      \
                .name = #member_, .offset = (uint8_t) offsetof(struct_, member_), .type = (as) \
        }
#define TEXT(struct_, member_) FIELD(struct_, member_, INFP_WIRE_TEXT_FIELD)
#define BYTES(struct_, member_) FIELD(struct_, member_, INFP_WIRE_BYTES_FIELD)
#define U32(struct_, member_) FIELD(struct_, member_, INFP_WIRE_U32)
#define U64(struct_, member_) FIELD(struct_, member_, INFP_WIRE_U64)

/* The head that all records share (size, kind, flags, tid, t_ns) is not repeated. */
const struct infp_wire_kind infp_wire_kinds[INFP_WIRE_OUR_KINDS] = {
        { .name = "mark",
          .kind = INFP_WIRE_MARK,
          .class = INFP_WIRE_KEEP,
          .size = sizeof(struct infp_wire_mark),
          .n_fields = 1,
          .fields = { TEXT(struct infp_wire_mark, text) } },
        { .name = "span_begin",
          .kind = INFP_WIRE_SPAN_BEGIN,
          .class = INFP_WIRE_KEEP,
          .size = sizeof(struct infp_wire_span_begin),
          .n_fields = 3,
          .fields = { U64(struct infp_wire_span_begin, id), U64(struct infp_wire_span_begin, parent),
                      TEXT(struct infp_wire_span_begin, name) } },
        { .name = "span_attr",
          .kind = INFP_WIRE_SPAN_ATTR,
          .class = INFP_WIRE_KEEP,
          .size = sizeof(struct infp_wire_span_attr),
          .n_fields = 5,
          .fields = { U64(struct infp_wire_span_attr, id), TEXT(struct infp_wire_span_attr, key),
                      TEXT(struct infp_wire_span_attr, text), U64(struct infp_wire_span_attr, value),
                      U32(struct infp_wire_span_attr, type) } },
        { .name = "span_end",
          .kind = INFP_WIRE_SPAN_END,
          .class = INFP_WIRE_KEEP,
          .size = sizeof(struct infp_wire_span_end),
          .n_fields = 6,
          .fields = { U64(struct infp_wire_span_end, id), U64(struct infp_wire_span_end, parent),
                      U64(struct infp_wire_span_end, begin_ns), TEXT(struct infp_wire_span_end, name),
                      U32(struct infp_wire_span_end, begin_tid), U32(struct infp_wire_span_end, status) } },
        { .name = "value",
          .kind = INFP_WIRE_VALUE,
          .class = INFP_WIRE_RECENT,
          .size = sizeof(struct infp_wire_value),
          .n_fields = 2,
          .fields = { FIELD(struct infp_wire_value, value, INFP_WIRE_F64), U32(struct infp_wire_value, metric) } },
        { .name = "thread",
          .kind = INFP_WIRE_THREAD,
          .class = INFP_WIRE_KEEP,
          .size = sizeof(struct infp_wire_mark),
          .n_fields = 1,
          .fields = { TEXT(struct infp_wire_mark, text) } },
        { .name = "stack",
          .kind = INFP_WIRE_STACK,
          .class = INFP_WIRE_STAY,
          .size = sizeof(struct infp_wire_stack),
          .n_fields = 3,
          .fields = { U32(struct infp_wire_stack, epoch), BYTES(struct infp_wire_stack, native),
                      BYTES(struct infp_wire_stack, python) } },
        { .name = "code",
          .kind = INFP_WIRE_CODE,
          .class = INFP_WIRE_STAY,
          .size = sizeof(struct infp_wire_code),
          .n_fields = 3,
          .fields = { U32(struct infp_wire_code, line), TEXT(struct infp_wire_code, file),
                      TEXT(struct infp_wire_code, function) } },
        { .name = "sample",
          .kind = INFP_WIRE_SAMPLE,
          .class = INFP_WIRE_RECENT,
          .size = sizeof(struct infp_wire_sample),
          .n_fields = 6,
          .fields = { U32(struct infp_wire_sample, cpu), U32(struct infp_wire_sample, periods),
                      U64(struct infp_wire_sample, epoch), U32(struct infp_wire_sample, tid),
                      BYTES(struct infp_wire_sample, native), BYTES(struct infp_wire_sample, python) } },
};
