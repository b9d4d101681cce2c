/* The values of a series. They are most of the page, so each has only the digits that a picture shows: a four-hundredth of the
 * series' range or better, in the shortest text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "view/html/parts.h"

/* Twice as many as a chart is pixels high, at least. */
static const double steps_of_range = 400;

static bool range_of(const struct infp_bucket_stat *buckets, unsigned n, double *ret_low, double *ret_high)
{
        bool any = false;

        for (unsigned i = 0; i < n; i++) {
                if (!(buckets[i].weight > 0))
                        continue;
                *ret_low = any ? fmin(*ret_low, buckets[i].min) : buckets[i].min;
                *ret_high = any ? fmax(*ret_high, buckets[i].max) : buckets[i].max;
                any = true;
        }
        return any;
}

/* Decimal places: negative for whole tens, hundreds ... What hardly moves has six digits, what does not move five. */
static int places_of(double low, double high)
{
        const double most = fmax(fabs(low), fabs(high)), size = fmax(high - low, most * (high > low ? 1e-3 : 0.04));

        return size > 0 ? -(int) floor(log10(size / steps_of_range)) : 0;
}

/* value x 10^places as a whole number, then the point is put back: no text of a float is parted anywhere. */
static void put_number(struct infp_str *out, double value, int places)
{
        char digits[32];
        const double whole = places > 300 || places < -300 ? NAN : nearbyint(value * pow(10, places));
        size_t n, zeros = 0;

        if (!isfinite(whole) || fabs(whole) >= 1e15) {
                if (isfinite(value))
                        infp_str_f64(out, value);
                else
                        infp_str_puts(out, "null");
                return;
        }
        if (whole == 0) {
                infp_str_putc(out, '0');
                return;
        }
        if (whole < 0)
                infp_str_putc(out, '-');
        snprintf(digits, sizeof(digits), "%llu", (unsigned long long) fabs(whole));
        n = strlen(digits);
        while (zeros + 1 < n && digits[n - 1 - zeros] == '0')
                zeros++;
        n -= zeros;
        places -= (int) zeros;
        if (places > 0 && (size_t) places < n) {
                infp_str_put(out, digits, n - (size_t) places);
                infp_str_putc(out, '.');
                infp_str_put(out, digits + n - (size_t) places, (size_t) places);
        } else if (places > 0 && (size_t) places < n + 3) {
                infp_str_put(out, "0.000", 2 + (size_t) places - n);
                infp_str_put(out, digits, n);
        } else {
                infp_str_put(out, digits, n);
                if (places < 0 && places >= -2)
                        infp_str_put(out, "00", (size_t) -places);
                else if (places)
                        infp_str_printf(out, "e%d", -places);
        }
}

enum which { MIN, MAX, MEAN };

static double value_of(const struct infp_bucket_stat *bucket, enum which which)
{
        return which == MIN ? bucket->min : which == MAX ? bucket->max : bucket->sum / bucket->weight;
}

static void put_array(struct infp_json *json, const char *key, const struct infp_bucket_stat *buckets, unsigned n,
                      enum which which, int places)
{
        struct infp_str *out = json->out;

        infp_json_key(json, key);
        infp_json_raw(json, "[", 1);
        for (unsigned i = 0; i < n; i++) {
                if (i)
                        infp_str_putc(out, ',');
                if (buckets[i].weight > 0)
                        put_number(out, value_of(&buckets[i], which), places);
                else
                        infp_str_puts(out, "null");
        }
        infp_str_putc(out, ']');
}

/* Whether min, max and mean are one number, but for the few buckets of a grid of samples where one came early. */
static bool is_plain(const struct infp_bucket_stat *buckets, unsigned n, bool is_downsampled)
{
        unsigned n_wide = 0;

        for (unsigned i = 0; i < n; i++)
                n_wide += buckets[i].weight > 0 && buckets[i].min != buckets[i].max;
        return n_wide <= (is_downsampled ? 0 : 1 + n / 20);
}

/* Weights by which the page makes a mean of buckets, with three digits. */
static void put_weights(struct infp_json *json, const struct infp_bucket_stat *buckets, unsigned n)
{
        infp_json_key(json, "weight");
        infp_json_raw(json, "[", 1);
        for (unsigned i = 0; i < n; i++) {
                const double weight = buckets[i].weight;

                if (i)
                        infp_str_putc(json->out, ',');
                put_number(json->out, weight, 2 - (int) floor(log10(weight > 0 ? weight : 1)));
        }
        infp_str_putc(json->out, ']');
}

void infp_html_number(struct infp_json *json, double value, double step)
{
        infp_json_raw(json, "", 0);
        put_number(json->out, value, -(int) floor(log10(step)));
}

void infp_html_series(struct infp_json *json, const struct infp_timeline_series *series, unsigned n,
                      bool is_downsampled)
{
        double low = 0, high = 0;
        int places;

        range_of(series->buckets, n, &low, &high);
        if (series->is_ratio)
                put_weights(json, series->buckets, n);
        places = places_of(low, high);
        if (is_plain(series->buckets, n, is_downsampled)) {
                put_array(json, "v", series->buckets, n, MEAN, places);
                return;
        }
        put_array(json, "min", series->buckets, n, MIN, places);
        put_array(json, "max", series->buckets, n, MAX, places);
        put_array(json, "mean", series->buckets, n, MEAN, places);
}
