#include "base/human.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static int decimals_of(double v)
{
        return fabs(v) >= 99.95 ? 0 : fabs(v) >= 9.995 ? 1 : 2;
}

static const double too_large = 1e15; /* grouped digits of what is larger say nothing */

/* 1234567.8 by one decimal: "1,234,567.8". |v| < too_large, at most nine decimals. Does not allocate. */
static struct human grouped(double v, int decimals)
{
        const double scaled = fabs(v) * pow(10, decimals);
        uint64_t rest = scaled < 9e18 ? (uint64_t) llround(scaled) : 0;
        struct human ret = { "" };
        char text[sizeof(ret.text)]; /* from its end */
        size_t at = sizeof(text);
        const bool is_negative = v < 0 && rest;

        text[--at] = 0;
        for (int i = -decimals; i <= 0 || rest; i++) {
                if (i == 0 && decimals)
                        text[--at] = '.';
                else if (i > 0 && i % 3 == 0)
                        text[--at] = ',';
                text[--at] = (char) ('0' + rest % 10);
                rest /= 10;
        }
        if (is_negative)
                text[--at] = '-';
        memcpy(ret.text, text + at, sizeof(text) - at);
        return ret;
}

static void put_grouped(struct infp_str *out, double v, int decimals)
{
        infp_str_puts(out, infp_fixed(v, decimals).text);
}

void infp_human_bytes(struct infp_str *out, double bytes)
{
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
        unsigned i = 0;

        while (fabs(bytes) >= 1023.5 && i + 1 < INFP_COUNT(units)) {
                bytes /= 1024;
                i++;
        }
        put_grouped(out, bytes, i ? decimals_of(bytes) : 0);
        infp_str_printf(out, " %s", units[i]);
}

static void put_long(struct infp_str *out, double seconds)
{
        const unsigned long long s = (unsigned long long) (fabs(seconds) + 0.5);

        infp_str_puts(out, seconds < 0 ? "-" : "");
        if (s >= 3600)
                infp_str_printf(out, "%llu h %02llu min %02llu s", s / 3600, s / 60 % 60, s % 60);
        else
                infp_str_printf(out, "%llu min %02llu s", s / 60, s % 60);
}

void infp_human_seconds(struct infp_str *out, double seconds)
{
        const double a = fabs(seconds);

        if (a >= 599.995 && a < 1e9) {
                put_long(out, seconds);
        } else if (a >= 0.9995 || a == 0) {
                put_grouped(out, seconds, a >= 1e9 || a == 0 ? 0 : 2);
                infp_str_puts(out, " s");
        } else if (a >= 0.9995e-3) {
                infp_str_printf(out, "%.*f ms", decimals_of(seconds * 1e3), seconds * 1e3);
        } else {
                infp_str_printf(out, "%.*f us", decimals_of(seconds * 1e6), seconds * 1e6);
        }
}

/* Three digits that matter of what is below 1; nobody reads more than nine decimals. */
static int decimals_of_small(double a)
{
        const int n = a > 0 ? 2 - (int) floor(log10(a)) : 0;

        return n > 9 ? 9 : n;
}

struct human infp_number(double v)
{
        const double a = fabs(v);

        if (rint(v) == v)
                return infp_fixed(v, 0);
        return infp_fixed(v, a >= 999.95 ? 0 : a >= 99.995 ? 1 : a >= 0.9995 ? 2 : decimals_of_small(a));
}

void infp_human_number(struct infp_str *out, double v)
{
        infp_str_puts(out, infp_number(v).text);
}

static void put_percent(struct infp_str *out, double ratio)
{
        const double v = 100 * ratio;

        put_grouped(out, v, fabs(v) < 0.95 && v != 0 ? 2 : 1);
        infp_str_puts(out, " %");
}

/* Of a column's width: from a million on, and of tokens, which have a long unit, from ten thousand on, by a thousand. */
static void put_rate(struct infp_str *out, double v, const char *of)
{
        static const char *const units[] = { "", "k", "M", "G", "T" };
        unsigned i = 0;

        if (fabs(v) < (*of ? 9999.5 : 999999.5)) {
                infp_human_number(out, v);
                infp_str_puts(out, *of ? " " : "");
        } else {
                for (; fabs(v) >= 999.5 && i + 1 < INFP_COUNT(units); i++)
                        v /= 1000;
                put_grouped(out, v, decimals_of(v));
                infp_str_printf(out, " %s", units[i]);
        }
        infp_str_printf(out, "%s/s", of);
}

void infp_human_value(struct infp_str *out, double v, const char *base, const char *unit, bool rate)
{
        if (!isfinite(v)) {
                infp_str_putc(out, '-');
        } else if (!strcmp(base, "seconds")) {
                if (rate)
                        put_percent(out, v);
                else
                        infp_human_seconds(out, v);
        } else if (!strcmp(unit, "%")) {
                put_percent(out, v);
        } else if (!strcmp(base, "bytes")) {
                infp_human_bytes(out, v);
                infp_str_puts(out, rate ? "/s" : "");
        } else if (!strcmp(base, "hertz")) {
                infp_human_number(out, v / 1e6);
                infp_str_puts(out, " MHz");
        } else if (rate && !strcmp(base, "tokens")) {
                put_rate(out, v, "tok");
        } else if (rate && !strcmp(base, "joules")) {
                infp_human_value(out, v, "watts", "W", false);
        } else if (!strcmp(base, "watts") || !strcmp(base, "joules") || !strcmp(base, "celsius")) {
                infp_human_number(out, v);
                infp_str_printf(out, " %c%s", base[0] == 'c' ? 'C' : base[0] - 'a' + 'A', rate ? "/s" : "");
        } else if (rate) { /* of things that are counted the name says what they are */
                put_rate(out, v, "");
        } else {
                infp_human_number(out, v);
        }
}

/* By three digits and an exponent. */
static struct human extreme(double v)
{
        infp_autostr struct infp_str text = { 0 };
        struct human ret = { "-" };

        infp_str_printf(&text, "%.3g", v);
        if (!text.failed)
                snprintf(ret.text, sizeof(ret.text), "%s", text.data);
        return ret;
}

struct human infp_fixed(double v, int decimals)
{
        if (!isfinite(v))
                return (struct human){ "-" };
        return fabs(v) >= too_large || (decimals == 9 && v != 0 && fabs(v) < 1e-7) ? extreme(v) : grouped(v, decimals);
}

struct human infp_count(uint64_t n)
{
        return infp_number((double) n); /* no count of ours comes to 2^53 */
}

struct human infp_human(double v, const char *base, const char *unit, bool rate)
{
        infp_autostr struct infp_str text = { 0 };
        struct human ret = { "-" };

        infp_human_value(&text, v, base, unit, rate);
        if (!text.failed && text.data)
                snprintf(ret.text, sizeof(ret.text), "%s", text.data);
        return ret;
}
