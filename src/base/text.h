/* Bytes from outside as UTF-8 that can be turned back: every byte that is not part of valid UTF-8 becomes \xHH, a backslash
 * becomes two. Control characters stay; each output format escapes those in its own way. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes at most cap bytes (whole escapes and whole characters only), returns the number written. Worst case 4 x size. */
size_t infp_text_escape(const char *bytes, size_t size, char *ret, size_t cap);

/* The reverse; returns the number of bytes, or -EBADMSG for a malformed escape. cap >= size is always enough. */
ssize_t infp_text_unescape(const char *text, size_t size, char *ret, size_t cap);

/* What follows the last slash of a path; all of it where nothing does. */
const char *infp_base_name(const char *path);

/* True of a character, `length` bytes at `s`, that a terminal or a reader of lines does not show as what it is: C0 with line
 * ends and tabs, DEL, C1, the line and paragraph separators, and the bidirectional controls that turn a line around. */
bool infp_utf8_is_control(const char *s, unsigned length);

/* Length of the valid UTF-8 character at `s` (1 to 4), 0 if there is none. */
unsigned infp_utf8_length(const char *s, size_t size);

/* How much of a text to keep so that it has at most `max` bytes and does not end within a character. */
size_t infp_utf8_cut(const char *s, size_t size, size_t max);
