/* What stands at a place of a metrics page; for promtext.c alone. Each returns the end of what it reads, or NULL when it is not there. */
#pragma once

#include "base/promtext/promtext.h"

static inline const char *infp_prom_skip_blanks(const char *at, const char *end)
{
        while (at < end && (*at == ' ' || *at == '\t'))
                at++;
        return at;
}

/* The end of the characters of a metric's or a label's name (a digit in front is no name: returns `at`). */
const char *infp_prom_name_end(const char *at, const char *end);
const char *infp_prom_label_end(const char *at, const char *end);
/* A quoted text: `at` after the opening quote. ret: without the quotes, escapes in it. */
const char *infp_prom_quoted(const char *at, const char *end, struct infp_prom_text *ret, bool *ret_has_escapes);
/* A number that ends at `end`, at a blank or at a tab. Never rounds wrongly. */
const char *infp_prom_number(const char *at, const char *end, double *ret);
/* A time stamp: whole milliseconds, or (openmetrics) decimal seconds. */
const char *infp_prom_time(const char *at, const char *end, bool openmetrics, int64_t *ret_ns);
