#include "base/str.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"

void infp_str_done(struct infp_str *s)
{
        free(s->data);
        *s = (struct infp_str){ 0 };
}

void infp_str_clear(struct infp_str *s)
{
        s->size = 0;
        s->failed = false;
        if (s->data)
                s->data[0] = 0;
}

bool infp_str_reserve(struct infp_str *s, size_t more)
{
        size_t need, cap = s->cap ? s->cap : 64;
        char *grown;

        if (s->failed)
                return false;
        if (__builtin_add_overflow(s->size, more, &need) || need >= SIZE_MAX / 2) {
                s->failed = true;
                return false;
        }
        need++; /* the 0 at the end */
        if (need <= s->cap)
                return true;
        while (cap < need)
                cap *= 2;
        grown = realloc(s->data, cap);
        if (!grown) {
                s->failed = true;
                return false;
        }
        s->data = grown;
        s->cap = cap;
        s->data[s->size] = 0;
        return true;
}

char *infp_str_take(struct infp_str *s)
{
        char *data;

        if (!infp_str_reserve(s, 0)) {
                infp_str_done(s);
                return NULL;
        }
        data = INFP_TAKE(s->data);
        *s = (struct infp_str){ 0 };
        return data;
}

void infp_str_put(struct infp_str *s, const void *data, size_t size)
{
        if (size == 0 || !infp_str_reserve(s, size))
                return;
        memcpy(s->data + s->size, data, size);
        s->size += size;
        s->data[s->size] = 0;
}

void infp_str_puts(struct infp_str *s, const char *text)
{
        infp_str_put(s, text, strlen(text));
}

void infp_str_putc(struct infp_str *s, char c)
{
        infp_str_put(s, &c, 1);
}

/* A library must not call setlocale, and the process may have set one (ncurses programs must). The C locale object is static
 * in glibc and musl, so this costs no allocation and is not freed. */
static locale_t enter_c_locale(void)
{
        return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t) 0));
}

void infp_str_vprintf(struct infp_str *s, const char *format, va_list ap)
{
        locale_t outer = enter_c_locale();
        va_list again;
        int n;

        va_copy(again, ap);
        n = vsnprintf(NULL, 0, format, ap);
        if (n < 0) {
                s->failed = true;
        } else if (infp_str_reserve(s, (size_t) n)) {
                vsnprintf(s->data + s->size, (size_t) n + 1, format, again);
                s->size += (size_t) n;
        }
        va_end(again);
        uselocale(outer);
}

void infp_str_printf(struct infp_str *s, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        infp_str_vprintf(s, format, ap);
        va_end(ap);
}

/* Two digits a division: numbers are most of what snapshots are made of. */
void infp_str_u64(struct infp_str *s, uint64_t v)
{
        char digits[20];
        size_t at = sizeof(digits);

        for (; v >= 100; v /= 100) {
                const unsigned pair = (unsigned) (v % 100);

                digits[--at] = (char) ('0' + pair % 10);
                digits[--at] = (char) ('0' + pair / 10);
        }
        if (v >= 10)
                digits[--at] = (char) ('0' + v % 10);
        digits[--at] = (char) ('0' + (v >= 10 ? v / 10 : v));
        infp_str_put(s, digits + at, sizeof(digits) - at);
}

void infp_str_i64(struct infp_str *s, int64_t v)
{
        if (v < 0)
                infp_str_putc(s, '-');
        infp_str_u64(s, v < 0 ? 0 - (uint64_t) v : (uint64_t) v);
}

/* Most measured values are integers or have few decimals. The quotient of two exact doubles is rounded once, as reading the
 * decimal text is: when it equals v, at most 15 digits tell v, and no other text of 15 digits does. */
static bool put_short(struct infp_str *s, double v)
{
        double a = fabs(v), thousandths;
        uint64_t n;

        if (a >= 1e12 || (a < 1e-3 && a != 0.0))
                return false;
        thousandths = rint(a * 1e3);
        if (thousandths / 1e3 != a)
                return false;
        if (signbit(v))
                infp_str_putc(s, '-');
        n = (uint64_t) thousandths;
        infp_str_u64(s, n / 1000);
        n %= 1000;
        char digits[4] = { '.', (char) ('0' + n / 100), (char) ('0' + n / 10 % 10), (char) ('0' + n % 10) };
        infp_str_put(s, digits, n % 10 ? 4 : n % 100 ? 3 : 2);
        return true;
}

void infp_str_f64(struct infp_str *s, double v)
{
        char text[40];
        locale_t outer;
        double back;

        if (!isfinite(v)) {
                infp_str_puts(s, isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
                return;
        }
        if (put_short(s, v))
                return;
        outer = enter_c_locale();
        /* A normal number that 15 digits tell is told by no fewer than %.15g leaves of them; subnormal ones have less. */
        for (int digits = fabs(v) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
                snprintf(text, sizeof(text), "%.*g", digits, v);
                if (infp_parse_f64(text, strlen(text), &back) == 0 && back == v)
                        break;
        }
        uselocale(outer);
        infp_str_puts(s, text);
        if (!strpbrk(text, ".e"))
                infp_str_puts(s, ".0");
}
