/* JSON of any shape within a bound of memory: two bytes of text ("[]") can become a hundred in memory. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

/* path: for messages. The caller gives the value back to infp_import_json_free. One at a time, and no other thread uses jansson
 * meanwhile: its allocator belongs to the process. */
int infp_import_json_load(const char *path, const char *data, size_t size, size_t max_bytes, json_t **ret,
                          struct infp_err *err);
void infp_import_json_free(json_t *json);
