/* A sentence for a person that is no error: what could not be done and what was done instead. Libraries give it to a callback and
 * print nothing; the command line prints it. */
#pragma once

#include <stdint.h>

struct infp_notices {
        void (*say)(void *context, const char *text); /* one sentence without newline; NULL: only counted */
        void *context;
        uint64_t *n; /* counts them, atomically; may be NULL */
        /* What a long work is at, as often as it likes: one line that takes the place of the one before. May be NULL. */
        void (*progress)(void *context, const char *text);
};

/* notices may be NULL. */
void infp_progress(const struct infp_notices *notices, const char *format, ...) __attribute__((format(printf, 2, 3)));
void infp_notice(const struct infp_notices *notices, const char *format, ...) __attribute__((format(printf, 2, 3)));
