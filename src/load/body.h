/* The body of one request. */
#pragma once

#include "load/load.h"

/* Request `number` of the load; depends on the options and the number alone. Appends to out (check out->failed); *ret_max_tokens:
 * output tokens that it asks for. */
void infp_load_body(const struct infp_load_options *options, uint64_t number, struct infp_str *out,
                    int64_t *ret_max_tokens);
