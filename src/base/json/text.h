/* Texts that are JSON themselves (unit json): embedded as values where they are valid, else as strings. Reading them is
 * jansson's; this only checks, without memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/json/json.h"

/* One value of RFC 8259, at most 64 levels deep, in valid UTF-8. */
bool infp_json_is_valid(const char *text, size_t size);

/* As a value when it is one, on one line (line feeds and tabs between its parts are left out); else as a string. */
void infp_json_text(struct infp_json *json, const char *text, size_t size);
