/* Server-sent events as they come over the wire, in pieces of any size: what stands in their `data` fields, and their type. Lines
 * end in LF, CR or CRLF, lines of one event are joined by LF, comments and other fields are left aside. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

enum { INFP_SSE_MAX = 4 << 20, INFP_SSE_BARE_MAX = 64 << 10 }; /* of one event; of what is outside of them */

struct infp_sse {
        struct infp_str line; /* its beginning, while the rest has not come */
        struct infp_str data;
        struct infp_str type; /* of the event that is being read: "" where it names none */
        /* JSON that stands in the stream without `data:`, which is no event: servers that fail write their error so. From its first
         * line that begins with '{' to the end of the stream, INFP_SSE_BARE_MAX bytes at most. */
        struct infp_str bare;
        bool has_data;
        bool is_after_cr;
        bool has_begun; /* a byte order mark may stand before the first line alone */
};

/* type and data are borrowed for the call; data need not end in 0. Non-zero ends the feeding with that r. */
typedef int infp_sse_event(void *context, const char *type, const char *data, size_t size);

/* 0, -EMSGSIZE (an event above INFP_SSE_MAX), -ENOMEM, or what `event` said. */
int infp_sse_feed(struct infp_sse *sse, const char *bytes, size_t size, infp_sse_event *event, void *context);
/* The stream is over: an event that lacks only its empty line counts. */
int infp_sse_end(struct infp_sse *sse, infp_sse_event *event, void *context);
void infp_sse_done(struct infp_sse *sse);
