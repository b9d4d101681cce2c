#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool digit(char c)
{
        return c >= '0' && c <= '9';
}

int infp_parse_u64(const char *text, size_t size, uint64_t *ret)
{
        uint64_t v = 0;

        if (size == 0)
                return -EBADMSG;
        for (size_t i = 0; i < size; i++) {
                if (!digit(text[i]))
                        return -EBADMSG;
        }
        for (size_t i = 0; i < size; i++) {
                if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
                    __builtin_add_overflow(v, (uint64_t) (text[i] - '0'), &v))
                        return -ERANGE;
        }
        *ret = v;
        return 0;
}

int infp_parse_i64(const char *text, size_t size, int64_t *ret)
{
        bool negative = size > 0 && text[0] == '-';
        uint64_t v;
        int r = infp_parse_u64(text + negative, size - negative, &v);

        if (r < 0)
                return r;
        if (v > (uint64_t) INT64_MAX + negative)
                return -ERANGE;
        *ret = negative ? (int64_t) (0 - v) : (int64_t) v;
        return 0;
}

/* [-] digits [. digits] [e [+-] digits], with at least one digit before or after the point: strtod alone would also take
 * blanks, hexadecimal, "inf", "nan". */
static bool is_decimal(const char *s, size_t size)
{
        size_t i = 0, digits = 0;

        if (i < size && s[i] == '-')
                i++;
        for (; i < size && digit(s[i]); i++)
                digits++;
        if (i < size && s[i] == '.') {
                for (i++; i < size && digit(s[i]); i++)
                        digits++;
        }
        if (digits == 0)
                return false;
        if (i < size && (s[i] == 'e' || s[i] == 'E')) {
                i++;
                if (i < size && (s[i] == '+' || s[i] == '-'))
                        i++;
                if (i == size)
                        return false;
                while (i < size && digit(s[i]))
                        i++;
        }
        return i == size;
}

int infp_parse_f64(const char *text, size_t size, double *ret)
{
        /* 17 digits tell any double; what is longer than this is not a number that anybody wrote. */
        char copy[1200];
        double v;

        if (size >= sizeof(copy) || !is_decimal(text, size))
                return -EBADMSG;
        memcpy(copy, text, size);
        copy[size] = 0;
        /* The C locale object is static in glibc and musl: nothing is allocated and nothing needs to be freed. */
        v = strtod_l(copy, NULL, newlocale(LC_ALL_MASK, "C", (locale_t) 0));
        if (!isfinite(v))
                return -ERANGE;
        *ret = v;
        return 0;
}

/* digits [. digits] x multiplier, exactly, rounded down. */
static int scaled(const char *text, size_t digits, uint64_t multiplier, uint64_t *ret)
{
        const char *point = memchr(text, '.', digits);
        size_t whole_size = point ? (size_t) (point - text) : digits;
        size_t part_size = point ? digits - whole_size - 1 : 0;
        uint64_t whole = 0, part = 0, divisor = 1, sum;

        if (whole_size + part_size == 0)
                return -EBADMSG;
        if (whole_size > 0) {
                int r = infp_parse_u64(text, whole_size, &whole);

                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < part_size; i++) {
                if (!digit(point[1 + i]))
                        return -EBADMSG;
                if (i < 18) { /* further digits are below one unit of every multiplier */
                        part = part * 10 + (uint64_t) (point[1 + i] - '0');
                        divisor *= 10;
                }
        }
        part = (uint64_t) ((unsigned __int128) part * multiplier / divisor);
        if (__builtin_mul_overflow(whole, multiplier, &sum) || __builtin_add_overflow(sum, part, &sum))
                return -ERANGE;
        *ret = sum;
        return 0;
}

struct suffix {
        const char *text;
        uint64_t multiplier;
};

static int parse_scaled(const char *text, const struct suffix *suffixes, size_t n, uint64_t *ret)
{
        size_t digits = strspn(text, "0123456789.");

        for (size_t i = 0; i < n; i++) {
                if (strcmp(text + digits, suffixes[i].text) == 0)
                        return scaled(text, digits, suffixes[i].multiplier, ret);
        }
        return -EBADMSG;
}

int infp_parse_duration(const char *text, uint64_t *ret_ns)
{
        static const struct suffix suffixes[] = {
                { "", UINT64_C(1000000000) },
                { "s", UINT64_C(1000000000) },
                { "ms", UINT64_C(1000000) },
                { "us", UINT64_C(1000) },
                { "ns", UINT64_C(1) },
                { "m", UINT64_C(60000000000) },
                { "min", UINT64_C(60000000000) },
                { "h", UINT64_C(3600000000000) },
                { "d", UINT64_C(86400000000000) },
        };

        return parse_scaled(text, suffixes, sizeof(suffixes) / sizeof(suffixes[0]), ret_ns);
}

int infp_parse_size(const char *text, uint64_t *ret_bytes)
{
        static const struct suffix suffixes[] = {
                { "", 1 },
                { "B", 1 },
                { "K", UINT64_C(1) << 10 },
                { "k", UINT64_C(1) << 10 },
                { "KiB", UINT64_C(1) << 10 },
                { "M", UINT64_C(1) << 20 },
                { "m", UINT64_C(1) << 20 },
                { "MiB", UINT64_C(1) << 20 },
                { "G", UINT64_C(1) << 30 },
                { "g", UINT64_C(1) << 30 },
                { "GiB", UINT64_C(1) << 30 },
                { "T", UINT64_C(1) << 40 },
                { "TiB", UINT64_C(1) << 40 },
        };

        return parse_scaled(text, suffixes, sizeof(suffixes) / sizeof(suffixes[0]), ret_bytes);
}
