#include "view/human.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

static int decimals_of(double v)
{
        return fabs(v) >= 99.95 ? 0 : fabs(v) >= 9.995 ? 1 : 2;
}

void infp_human_bytes(struct infp_str *out, double bytes)
{
        static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
        unsigned i = 0;

        while (fabs(bytes) >= 1023.5 && i + 1 < INFP_COUNT(units)) {
                bytes /= 1024;
                i++;
        }
        infp_str_printf(out, "%.*f %s", i ? decimals_of(bytes) : 0, bytes, units[i]);
}

static void put_long(struct infp_str *out, double seconds)
{
        const unsigned long long s = (unsigned long long) (seconds + 0.5);

        if (s >= 3600)
                infp_str_printf(out, "%llu h %02llu min %02llu s", s / 3600, s / 60 % 60, s % 60);
        else
                infp_str_printf(out, "%llu min %02llu s", s / 60, s % 60);
}

void infp_human_seconds(struct infp_str *out, double seconds)
{
        const double a = fabs(seconds);

        if (a >= 600 && a < 1e12)
                put_long(out, seconds);
        else if (a >= 1 || a == 0)
                infp_str_printf(out, "%.*f s", a == 0 ? 0 : 2, seconds);
        else if (a >= 1e-3)
                infp_str_printf(out, "%.*f ms", decimals_of(seconds * 1e3), seconds * 1e3);
        else
                infp_str_printf(out, "%.*f us", decimals_of(seconds * 1e6), seconds * 1e6);
}

void infp_human_number(struct infp_str *out, double v)
{
        const double a = fabs(v);

        if (a < 1e15 && rint(v) == v)
                infp_str_printf(out, "%.0f", v);
        else if (a >= 1e6 || a < 1e-3)
                infp_str_printf(out, "%.3g", v);
        else
                infp_str_printf(out, "%.*f", a >= 1000 ? 0 : a >= 100 ? 1 : a >= 1 ? 2 : 3, v);
}

static void put_percent(struct infp_str *out, double ratio)
{
        const double v = 100 * ratio;

        infp_str_printf(out, "%.*f %%", fabs(v) < 0.95 && v != 0 ? 2 : 1, v);
}

/* In eleven characters at most. */
static void put_tokens_a_second(struct infp_str *out, double v)
{
        if (fabs(v) >= 999500)
                infp_str_printf(out, "%.*f Mtok/s", decimals_of(v / 1e6), v / 1e6);
        else if (fabs(v) >= 99999.5)
                infp_str_printf(out, "%.0f ktok/s", v / 1e3);
        else {
                infp_human_number(out, v);
                infp_str_puts(out, " tok/s");
        }
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
                put_tokens_a_second(out, v);
        } else if (rate && !strcmp(base, "joules")) {
                infp_human_value(out, v, "watts", "W", false);
        } else {
                infp_human_number(out, v);
                /* Of things that are counted the name says what they are. */
                if (!strcmp(base, "watts") || !strcmp(base, "joules") || !strcmp(base, "celsius"))
                        infp_str_printf(out, " %c", base[0] == 'c' ? 'C' : base[0] - 'a' + 'A');
                infp_str_puts(out, rate ? "/s" : "");
        }
}
