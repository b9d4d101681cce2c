/* Text in HTML and XML: pages and figures share it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* The escape of a character between tags and within quotes ("&lt;"); NULL: none needed. */
const char *infp_markup_reference(char c);

/* Text between tags or within quotes, at most so many bytes of it and an ellipsis: & < > " ' as references; what is not UTF-8, what XML
 * forbids, control characters and those that turn text around become U+FFFD, since a name of a process or a function may be anything.
 * keeps_lines: line ends and tabs stay. NULL is "". */
void infp_markup_text(struct infp_str *out, const char *text, size_t most, bool keeps_lines);
