/* What stands at a place of a metrics page: a name, a quoted text, a number, a time stamp.
 * Numbers are exact: nearly all have at most 19 digits and a small exponent, for which 128-bit arithmetic gives the nearest double
 * without tables; the rest goes the long way (base/number.h). */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/promtext/scan.h"

enum { NAME = 1, DIGIT = 2, COLON = 4 };

/* Bytes of names; a table, because ranges cost a branch each and a page is mostly names. */
static const unsigned char kinds[256] = {
        ['0' ... '9'] = DIGIT, ['a' ... 'z'] = NAME, ['A' ... 'Z'] = NAME, ['_'] = NAME, [':'] = COLON,
};

const char *infp_prom_name_end(const char *at, const char *end)
{
        if (at < end && kinds[(unsigned char) *at] & DIGIT)
                return at;
        while (at < end && kinds[(unsigned char) *at])
                at++;
        return at;
}

const char *infp_prom_label_end(const char *at, const char *end)
{
        if (at < end && kinds[(unsigned char) *at] & DIGIT)
                return at;
        while (at < end && kinds[(unsigned char) *at] & (NAME | DIGIT))
                at++;
        return at;
}

/* The first quote or backslash, or `end`. Eight bytes at a time: values are what pages are long by. */
static const char *find_special(const char *at, const char *end)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
        const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);

        for (; end - at >= 8; at += 8) {
                uint64_t word, quote, backslash, found;

                memcpy(&word, at, 8);
                quote = word ^ ones * '"';
                backslash = word ^ ones * '\\';
                /* The top bit of each byte that became 0; those after the first may be wrong, which does not matter. */
                found = (((quote - ones) & ~quote) | ((backslash - ones) & ~backslash)) & tops;
                if (found)
                        return at + (__builtin_ctzll(found) >> 3);
        }
#endif
        while (at < end && *at != '"' && *at != '\\')
                at++;
        return at;
}

const char *infp_prom_quoted(const char *at, const char *end, struct infp_prom_text *ret, bool *ret_has_escapes)
{
        const char *start = at;

        *ret_has_escapes = false;
        for (;;) {
                at = find_special(at, end);
                if (at == end)
                        return NULL;
                if (*at == '"')
                        break;
                *ret_has_escapes = true;
                if (end - at < 2)
                        return NULL;
                at += 2;
        }
        ret->at = start;
        ret->size = (size_t) (at - start);
        return at + 1;
}

static bool ends(const char *at, const char *end)
{
        return at == end || *at == ' ' || *at == '\t';
}

static bool is_digit(char c)
{
        return (unsigned char) (c - '0') < 10;
}

static const uint64_t ten_to[20] = {
        1,
        10,
        100,
        1000,
        10000,
        100000,
        1000000,
        10000000,
        100000000,
        1000000000,
        10000000000,
        100000000000,
        1000000000000,
        10000000000000,
        100000000000000,
        1000000000000000,
        10000000000000000,
        100000000000000000,
        1000000000000000000,
        10000000000000000000u,
};

/* 2^-n, 0 <= n <= 127. */
static double half_to(unsigned n)
{
        uint64_t bits = (uint64_t) (1023 - n) << 52;
        double v;

        memcpy(&v, &bits, sizeof(v));
        return v;
}

/* digits x 10^exponent, nearest double; false: not in reach. */
static bool scale(uint64_t digits, int exponent, double *ret)
{
        if (digits == 0) {
                *ret = 0;
                return true;
        }
        if (exponent >= 20 || exponent <= -20)
                return false;
        if (exponent >= 0) {
                *ret = (double) ((unsigned __int128) digits * ten_to[exponent]);
                return true;
        }
#if FLT_EVAL_METHOD == 0
        /* Both exact in a double (10^19 is 2^19 x 5^19, 45 bits): one rounding. */
        if (digits <= UINT64_C(1) << 53) {
                *ret = (double) digits / (double) ten_to[-exponent];
                return true;
        }
#endif
        /* At least 63 bits of quotient and whether anything is left behind them: the conversion rounds as if it saw all. */
        unsigned shift = 64 + (unsigned) __builtin_clzll(digits);
        unsigned __int128 dividend = (unsigned __int128) digits << shift;
        unsigned __int128 quotient = dividend / ten_to[-exponent];

        quotient |= quotient * ten_to[-exponent] != dividend;
        *ret = (double) quotient * half_to(shift);
        return true;
}

/* "nan", "inf", "infinity" in any case, "nan(...)" as C libraries print payloads. */
static const char *not_finite(const char *at, const char *end, double *ret)
{
        static const struct {
                const char *word;
                size_t size;
                double value;
        } words[] = { { "infinity", 8, INFINITY }, { "inf", 3, INFINITY }, { "nan", 3, NAN } };

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                size_t n = 0;

                while (n < words[i].size && at + n < end && (at[n] | 0x20) == words[i].word[n])
                        n++;
                if (n < words[i].size)
                        continue;
                *ret = words[i].value;
                if (ends(at + n, end))
                        return at + n;
                if (i == 2 && at[n] == '(') {
                        const char *close = memchr(at + n, ')', (size_t) (end - at) - n);

                        return close && ends(close + 1, end) ? close + 1 : NULL;
                }
        }
        return NULL;
}

static const char *long_way(const char *at, const char *end, bool negative, double *ret)
{
        const char *stop = at;
        double v;
        int r;

        while (!ends(stop, end))
                stop++;
        if (*at == '-' || *at == '+')
                return NULL;
        r = infp_parse_f64(at, (size_t) (stop - at), &v);
        if (r == -ERANGE)
                v = INFINITY;
        else if (r < 0)
                return NULL;
        *ret = negative ? -v : v;
        return stop;
}

/* Up to three digits of an exponent; NULL: none, or more than a double has. */
static const char *read_exponent(const char *at, const char *end, int *ret)
{
        bool negative = at < end && *at == '-';
        int v = 0, n = 0;

        if (at < end && (*at == '-' || *at == '+'))
                at++;
        for (; at < end && is_digit(*at) && n < 4; at++, n++)
                v = v * 10 + (*at - '0');
        *ret = negative ? -v : v;
        return n == 0 || n == 4 ? NULL : at;
}

const char *infp_prom_number(const char *at, const char *end, double *ret)
{
        bool negative = at < end && *at == '-';
        const char *start, *point = NULL, *digits_from;
        uint64_t digits = 0;
        int exponent = 0;
        double v = NAN;

        if (at < end && (*at == '-' || *at == '+'))
                at++;
        start = at;
        if (at == end)
                return NULL;
        if (!is_digit(*at) && *at != '.') {
                at = not_finite(at, end, &v);
                *ret = negative ? -v : v;
                return at;
        }
        while (at < end && *at == '0')
                at++;
        digits_from = at;
        for (; at < end; at++) {
                if (is_digit(*at))
                        digits = digits * 10 + (uint64_t) (*at - '0');
                else if (*at == '.' && !point)
                        point = at;
                else
                        break;
        }
        /* 20 digits may have overflown. */
        if (at - digits_from > 19 + (point != NULL) || (at == start + 1 && point))
                return long_way(start, end, negative, ret);
        if (point)
                exponent = (int) (point + 1 - at);
        if (at < end && (*at == 'e' || *at == 'E')) {
                int e;

                at = read_exponent(at + 1, end, &e);
                if (!at)
                        return long_way(start, end, negative, ret);
                exponent += e;
        }
        if (!ends(at, end))
                return NULL;
        if (!scale(digits, exponent, &v))
                return long_way(start, end, negative, ret);
        *ret = negative ? -v : v;
        return at;
}

const char *infp_prom_time(const char *at, const char *end, bool openmetrics, int64_t *ret_ns)
{
        bool negative = at < end && *at == '-';
        uint64_t whole = 0, unit = openmetrics ? 1000000000 : 1000000, part = 0;
        unsigned n = 0;
        double seconds;
        const char *start = at;

        at += negative;
        for (; at < end && is_digit(*at); at++, n++)
                if (__builtin_mul_overflow(whole, UINT64_C(10), &whole) ||
                    __builtin_add_overflow(whole, (uint64_t) (*at - '0'), &whole))
                        return NULL;
        if (openmetrics && at < end && *at == '.') {
                uint64_t digit_unit = 100000000; /* what is below a nanosecond is left out */

                for (at++; at < end && is_digit(*at); at++, n++) {
                        part += digit_unit * (uint64_t) (*at - '0');
                        digit_unit /= 10;
                }
        }
        if (n == 0)
                return NULL;
        if (openmetrics && at < end && (*at == 'e' || *at == 'E')) {
                /* Nobody writes more than a double's digits so. */
                at = infp_prom_number(start, end, &seconds);
                if (!at || !(fabs(seconds) < 9.2e9))
                        return NULL;
                *ret_ns = (int64_t) llround(seconds * 1e9);
                return at;
        }
        if (!ends(at, end) || __builtin_mul_overflow(whole, unit, &whole) ||
            __builtin_add_overflow(whole, part, &whole) || whole > INT64_MAX)
                return NULL;
        *ret_ns = negative ? -(int64_t) whole : (int64_t) whole;
        return at;
}
