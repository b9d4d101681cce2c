/* Equal buffers of a message are stored once. At one row a second and a flush each 5 s most buffers are a few bytes, and many of
 * them the same: columns without a value, counters at 0, bitmaps. Arrow does not ask buffers to lie apart, only in the body. */
#pragma once

#include "base/err.h"
#include "nanoarrow/nanoarrow.h"

/* Of a message with rows that was just encoded: head (with its 8 bytes in front) and body. Shortens the body, in place; what it
 * cannot do something about it leaves as it is. */
void infp_arrow_share(struct ArrowBuffer *head, struct ArrowBuffer *body);
