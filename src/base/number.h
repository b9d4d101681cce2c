/* Numbers in text: exact, bounded, without locale. All return 0, -EBADMSG (no number, rubbish after it) or -ERANGE. */
#pragma once

#include <stddef.h>
#include <stdint.h>

int infp_parse_u64(const char *text, size_t size, uint64_t *ret);
int infp_parse_i64(const char *text, size_t size, int64_t *ret);
int infp_parse_f64(const char *text, size_t size, double *ret); /* decimal point only; nan and inf are -EBADMSG */

/* A duration as people write it: "500ms", "30s", "5m", "2h", plain seconds "1.5"; ns. */
int infp_parse_duration(const char *text, uint64_t *ret_ns);
/* A size: "512", "64K", "16M", "1G" (binary multiples); bytes. */
int infp_parse_size(const char *text, uint64_t *ret_bytes);
