/* Errors: a function returns 0 (or a count) or a negative errno; the text travels in a caller-owned struct infp_err.
 *
 * The lowest function that knows the name (path, device, URL, option) writes the sentence; callers pass it on. A sentence
 * says what could not be done, to what, why, and what would help. `err` may always be NULL. */
#pragma once

#include <stddef.h>

struct infp_err {
        char text[512]; /* one sentence, no newline at its end; "" when nothing was written */
};

/* What helps against -EMFILE. */
const char *infp_more_fds(void);

/* Writes the text and returns `r` (a negative errno): return infp_fail(err, -ENOENT, "..."). */
int infp_fail(struct infp_err *err, int r, const char *format, ...) __attribute__((format(printf, 3, 4), cold));

/* Appends ": <strerror of r>" to the formatted text, and what helps where that is the same everywhere (-EMFILE); returns `r`. */
int infp_fail_errno(struct infp_err *err, int r, const char *format, ...) __attribute__((format(printf, 3, 4), cold));

#define INFP_TRY(expression)               \
        do {                               \
                int try_r_ = (expression); \
                if (try_r_ < 0)            \
                        return try_r_;     \
        } while (0)
