/* Numbers as people read them, the one place that writes them: never by the locale, since reports are compared and copied into
 * tickets; thousands are grouped; no exponent where it can be helped. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

void infp_human_bytes(struct infp_str *out, double bytes);     /* "0 B", "1.25 GiB" */
void infp_human_seconds(struct infp_str *out, double seconds); /* "12.3 us", "58.32 s", "24 h 00 min 03 s" */
void infp_human_number(struct infp_str *out, double v); /* three or four digits that matter; whole numbers whole */

/* A value in its base unit (model/unit.h); `unit` is its own: a percentage is shown as one, a plain ratio is not. rate: per
 * second; seconds a second are shares of the time: "97.1 %". Not a number: "-". */
void infp_human_value(struct infp_str *out, double base_value, const char *base, const char *unit, bool rate);

/* The same by value, for the arguments of a printf. Not a number: "-". number, count and fixed allocate nothing below 10^15. */
struct human {
        char text[32];
};
struct human infp_human(double base_value, const char *base, const char *unit, bool rate);
struct human infp_number(double v);              /* infp_human_number */
struct human infp_count(uint64_t n);             /* "1,234,567" */
struct human infp_fixed(double v, int decimals); /* for columns: as many decimals in each row */
