/* Numbers as people read them. Never by the locale: reports are compared, and copied into tickets. */
#pragma once

#include <stdbool.h>

#include "base/str.h"

void infp_human_bytes(struct infp_str *out, double bytes);     /* "0 B", "1.25 GiB" */
void infp_human_seconds(struct infp_str *out, double seconds); /* "12.3 us", "58.32 s", "24 h 00 min 03 s" */
void infp_human_number(struct infp_str *out, double v);        /* up to four digits that matter, whole numbers whole */

/* A value in its base unit (model/unit.h); `unit` is its own: a percentage is shown as one, a plain ratio is not. rate: per
 * second; seconds a second are shares of the time: "97.1 %". Not a number: "-". */
void infp_human_value(struct infp_str *out, double base_value, const char *base, const char *unit, bool rate);
