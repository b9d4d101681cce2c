/* static_<uuid>.json: what the machine is, from a row of the table `host`.
 *
 * {"uuid", "vId", "host": {"vHostname", ..., "vCpuCache": {"L1d": bytes, ...}, ...}}: the columns of the row in their order,
 * but for vId, which stands outside, and the caches, which stand together. What is absent is null. */
#pragma once

#include "base/str.h"
#include "model/batch.h"

/* host_row: the first row of the batch is taken; a batch without rows makes every field null. A line feed ends the text. */
void infp_static_json(struct infp_str *out, const char *uuid, const struct infp_batch *host_row);
