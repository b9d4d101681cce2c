/* Server-sent events as they come over the wire, in pieces of any size: what stands in their `data` fields. Lines end in LF, CR
 * or CRLF, lines of one event are joined by LF, comments and other fields are left aside. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum { INFP_SSE_MAX = 4 << 20 }; /* of one event */

struct infp_sse {
        struct infp_str line; /* its beginning, while the rest has not come */
        struct infp_str data;
        bool has_data;
        bool is_after_cr;
        bool has_begun; /* a byte order mark may stand before the first line alone */
};

/* data is borrowed for the call and need not end in 0. Non-zero ends the feeding with that r. */
typedef int infp_sse_event(void *context, const char *data, size_t size);

/* 0, -EMSGSIZE (an event above INFP_SSE_MAX), -ENOMEM, or what `event` said. */
int infp_sse_feed(struct infp_sse *sse, const char *bytes, size_t size, infp_sse_event *event, void *context);
/* The stream is over: an event that lacks only its empty line counts. */
int infp_sse_end(struct infp_sse *sse, infp_sse_event *event, void *context);
void infp_sse_done(struct infp_sse *sse);
