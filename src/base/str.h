/* A growing byte string. Zero-initialised is empty. A failed allocation makes it `failed`: later appends do nothing, and
 * the caller checks once at the end. Numbers are written without any locale. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct infp_str {
        char *data; /* size bytes and a 0 after them; NULL while empty */
        size_t size, cap;
        bool failed;
};

void infp_str_done(struct infp_str *s);
#define infp_autostr __attribute__((cleanup(infp_str_done)))

void infp_str_clear(struct infp_str *s); /* keeps the memory */
char *infp_str_take(struct infp_str *s); /* the caller frees; NULL when failed; "" is a real string */
bool infp_str_reserve(struct infp_str *s, size_t more);

void infp_str_put(struct infp_str *s, const void *data, size_t size);
void infp_str_puts(struct infp_str *s, const char *text);
void infp_str_putc(struct infp_str *s, char c);
void infp_str_printf(struct infp_str *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void infp_str_vprintf(struct infp_str *s, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
void infp_str_i64(struct infp_str *s, int64_t v);
void infp_str_u64(struct infp_str *s, uint64_t v);
/* The shortest decimal text that reads back as the same double ("0.1", "1.0", "1e+300"; an integral value keeps ".0", so
 * that a reader sees a float). Not finite: "nan", "inf", "-inf". */
void infp_str_f64(struct infp_str *s, double v);
