/* Writes JSON into a string: commas, quotes and escapes are its business; reading is jansson's. Strings are UTF-8 already
 * (text.h); a byte that is not is written as U+FFFD, so that the output is always valid. No allocation but the string's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct infp_json {
        struct infp_str *out; /* borrowed */
        unsigned indent;      /* spaces a level; 0 = one line */
        unsigned depth;
        bool first[32];
        bool after_key;
};

void infp_json_begin(struct infp_json *json, struct infp_str *out, unsigned indent);
void infp_json_object(struct infp_json *json);
void infp_json_object_end(struct infp_json *json);
void infp_json_array(struct infp_json *json);
void infp_json_array_end(struct infp_json *json);
void infp_json_key(struct infp_json *json, const char *key);
void infp_json_str(struct infp_json *json, const char *text);
void infp_json_strn(struct infp_json *json, const char *text, size_t size);
void infp_json_i64(struct infp_json *json, int64_t v);
void infp_json_u64(struct infp_json *json, uint64_t v);
void infp_json_f64(struct infp_json *json, double v); /* not finite: null */
void infp_json_bool(struct infp_json *json, bool v);
void infp_json_null(struct infp_json *json);
/* A key and its value. str: NULL is null. */
void infp_json_member_str(struct infp_json *json, const char *key, const char *text);
void infp_json_member_i64(struct infp_json *json, const char *key, int64_t v);
void infp_json_member_u64(struct infp_json *json, const char *key, uint64_t v);
void infp_json_member_f64(struct infp_json *json, const char *key, double v);
void infp_json_member_bool(struct infp_json *json, const char *key, bool v);
/* A value that is JSON already, as it is. */
void infp_json_raw(struct infp_json *json, const char *text, size_t size);

/* Only the quoted and escaped string, for writers of other shapes. */
void infp_json_quote(struct infp_str *out, const char *text, size_t size);
