/* The data of the page: one JSON object, as web/report/README.md describes it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/json/text.h"
#include "base/mem.h"
#include "base/time.h"
#include "view/html/parts.h"
#include "view/report/parts.h"

/* The values of a series. They are most of the page, so each has only the digits that a picture shows: a four-hundredth of the
 * series' range or better, in the shortest text. */
/* At least twice the height of a chart in pixels. */
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

/* value x 10^places as a whole number, with the point inserted afterwards. */
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

/* Whether min, max and mean are equal, except in the few buckets where a sample came early. */
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
        if (is_plain(series->buckets, n, is_downsampled || series->is_of_events)) {
                put_array(json, "v", series->buckets, n, MEAN, places);
                return;
        }
        put_array(json, "min", series->buckets, n, MIN, places);
        put_array(json, "max", series->buckets, n, MAX, places);
        put_array(json, "mean", series->buckets, n, MEAN, places);
}

enum { MACHINE_BYTES = 256 * 1024, COARSENED_AT_MOST = 4 };

/* How much of each list of the report goes into the page. */
enum { INSTANCES = 8, CONTAINERS = 32, ABSENCES = 250, GPUS = 32, LABELS = 200, MODULES = 200 };

static unsigned bounded(unsigned n, unsigned most)
{
        return n < most ? n : most;
}

void infp_html_json(struct infp_str *out, const char *json, size_t size)
{
        for (size_t i = 0; i < size;) {
                const char *at = memchr(json + i, '<', size - i);
                const size_t plain = at ? (size_t) (at - json) - i : size - i;

                infp_str_put(out, json + i, plain);
                i += plain;
                if (at) {
                        infp_str_puts(out, "\\u003c");
                        i++;
                }
        }
}

static void put_step(struct infp_json *json, const char *key, uint64_t step_ns)
{
        infp_json_key(json, key);
        infp_html_number(json, (double) step_ns / 1e6, 1e-3);
}

static void put_text(struct infp_json *json, const char *key, const char *text)
{
        infp_json_member_str(json, key, text && *text ? text : NULL);
}

/* The static record of the machine, from the run's own file. */
static void put_machine(struct infp_json *json, const struct infp_report *report)
{
        infp_autofree char *text = NULL;
        char name[64];
        ssize_t size;

        infp_json_key(json, "machine");
        snprintf(name, sizeof(name), "static_%.36s.json", report->run->info.uuid);
        size = infp_read_all_at(report->run->output_fd, name, MACHINE_BYTES, &text);
        if (size > 0 && infp_json_is_valid(text, (size_t) size))
                infp_json_text(json, text, (size_t) size);
        else
                infp_json_null(json);
}

/* A metric of one of the later instances of a table: "container12_cMemoryUsed". */
static bool is_of_many(const struct infp_report_metric *metric)
{
        unsigned number = 0;

        for (size_t i = 0; i + 1 < metric->prefix_size; i++)
                if (metric->name[i] >= '0' && metric->name[i] <= '9')
                        number = number * 10 + (unsigned) (metric->name[i] - '0');
        return metric->prefix_size && number >= INSTANCES;
}

/* Cuts a list and adds a note. */
static int cut(struct infp_timeline *timeline, unsigned *n, unsigned most, const char *what)
{
        const unsigned given = *n;

        if (given <= most)
                return 0;
        *n = most;
        return infp_timeline_note(timeline, "This page has %u of %u %s; infprof report --json has all of them.", most,
                                  given, what);
}

/* The report with its lists cut for the page. Its members are the report's own, except the array of metrics, which the caller
 * frees. */
static int bound_report(struct infp_report *report, struct infp_timeline *timeline)
{
        const struct infp_report given = *report;
        unsigned n_metrics = given.n_metrics;

        report->metrics = calloc(given.n_metrics + 1, sizeof(*report->metrics));
        report->n_metrics = 0;
        if (!report->metrics)
                return -ENOMEM;
        for (unsigned i = 0; i < given.n_metrics; i++)
                if (!is_of_many(&given.metrics[i]))
                        report->metrics[report->n_metrics++] = given.metrics[i];
        INFP_TRY(cut(timeline, &n_metrics, report->n_metrics, "metrics: those of the first 8 of each kind of thing"));
        INFP_TRY(cut(timeline, &report->containers.n, CONTAINERS, "containers"));
        INFP_TRY(cut(timeline, &report->absences.n, ABSENCES, "absent sources"));
        INFP_TRY(cut(timeline, &report->gpus.n, GPUS, "GPUs"));
        INFP_TRY(cut(timeline, &report->torch.n, MODULES, "modules of PyTorch"));
        INFP_TRY(cut(timeline, &report->labels.n, LABELS, "labels"));
        report->spans.n = bounded(given.spans.n, LABELS);
        return 0;
}

static int put_report(struct infp_json *json, const struct infp_report *report, struct infp_timeline *timeline)
{
        struct infp_report shown = *report;
        const int r = bound_report(&shown, timeline);

        infp_json_key(json, "report");
        infp_json_object(json);
        infp_report_json_members(json, &shown);
        put_machine(json, report);
        infp_json_object_end(json);
        free(shown.metrics);
        return r;
}

static void put_series(struct infp_json *json, const struct infp_timeline_series *series,
                       const struct infp_timeline *timeline)
{
        infp_json_object(json);
        infp_json_member_str(json, "name", series->name);
        infp_json_member_str(json, "metric", series->metric);
        infp_json_member_str(json, "table_name", series->table);
        infp_json_member_str(json, "instance", series->instance);
        infp_json_member_str(json, "quality", infp_quality_name(series->quality));
        infp_json_member_bool(json, "is_rate", series->is_rate);
        put_text(json, "help", series->help);
        infp_html_series(json, series, timeline->grid.n, timeline->is_downsampled);
        infp_json_object_end(json);
}

static void put_panel(struct infp_json *json, const struct infp_timeline_panel *panel,
                      const struct infp_timeline *timeline)
{
        infp_json_object(json);
        infp_json_member_str(json, "id", panel->id);
        infp_json_member_str(json, "group", panel->group);
        infp_json_member_str(json, "title", panel->title);
        infp_json_member_str(json, "unit", panel->unit);
        infp_json_member_str(json, "kind", panel->kind);
        infp_json_member_str(json, "note", panel->note);
        infp_json_member_f64(json, "max", panel->max);
        infp_json_member_u64(json, "left_out", panel->left_out);
        infp_json_key(json, "limits");
        infp_json_array(json);
        for (unsigned i = 0; i < panel->n_limits; i++) {
                infp_json_object(json);
                infp_json_member_str(json, "name", panel->limits[i].name);
                infp_json_member_f64(json, "value", panel->limits[i].value);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_key(json, "series");
        infp_json_array(json);
        for (unsigned i = 0; i < panel->n_series; i++)
                put_series(json, &panel->series[i], timeline);
        infp_json_array_end(json);
        infp_json_object_end(json);
}

static bool is_other(const struct infp_timeline_panel *panel)
{
        return !strcmp(panel->group, "all");
}

/* The named panels, then the other metrics as long as there is room; returns how many of them were left out. */
static unsigned put_panels(struct infp_str *text, const struct infp_timeline *timeline, size_t room)
{
        struct infp_json json;
        unsigned n_left_out = 0;

        infp_json_begin(&json, text, 0);
        infp_json_array(&json);
        for (unsigned i = 0; i < timeline->n_panels; i++)
                if (!is_other(&timeline->panels[i]))
                        put_panel(&json, &timeline->panels[i], timeline);
        for (unsigned i = 0; i < timeline->n_panels; i++) {
                const struct infp_json before = json;
                const size_t size = text->size;

                if (!is_other(&timeline->panels[i]))
                        continue;
                put_panel(&json, &timeline->panels[i], timeline);
                if (text->size > room) {
                        n_left_out++;
                        json = before;
                        text->size = size;
                }
        }
        infp_json_array_end(&json);
        return n_left_out;
}

/* Joins as few buckets as makes the named panels fit. Each second turn is needed where nulls and short numbers lie unevenly. */
static unsigned fit_panels(struct infp_str *text, struct infp_timeline *timeline, size_t room)
{
        for (unsigned turn = 0;; turn++) {
                unsigned n_left_out;

                infp_str_clear(text);
                n_left_out = put_panels(text, timeline, room);
                if (text->size <= room || turn == COARSENED_AT_MOST || timeline->grid.n < 64 || text->failed)
                        return n_left_out;
                infp_timeline_coarsen(timeline, room ? (unsigned) fmin((double) (text->size / room + 1), 8) : 8);
        }
}

static void put_cores(struct infp_json *json, const struct infp_timeline_cores *cores)
{
        infp_json_key(json, "cores");
        if (!cores->n) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_key(json, "names");
        infp_json_array(json);
        for (unsigned i = 0; i < cores->n; i++)
                infp_json_str(json, cores->names[i]);
        infp_json_array_end(json);
        infp_json_member_u64(json, "n", cores->grid.n);
        put_step(json, "step_ms", cores->grid.step_ns);
        infp_json_member_str(json, "note", cores->note);
        infp_json_key(json, "v");
        infp_json_array(json);
        for (unsigned i = 0; i < cores->n; i++) {
                infp_json_array(json);
                for (unsigned k = 0; k < cores->grid.n; k++)
                        infp_html_number(json, cores->cells ? (double) cores->cells[i * cores->grid.n + k] : NAN, 1);
                infp_json_array_end(json);
        }
        infp_json_array_end(json);
        infp_json_object_end(json);
}

static void put_counts(struct infp_json *json, const struct infp_timeline *timeline)
{
        infp_json_member_u64(json, "processes_left_out", timeline->processes_left_out);
        put_step(json, "spark_step_ms", timeline->spark.step_ns);
        infp_json_member_u64(json, "spark_n", timeline->spark.n);
        infp_json_member_u64(json, "requests_left_out", timeline->requests_left_out);
        infp_json_member_u64(json, "marks_left_out", timeline->marks_left_out);
        infp_json_member_u64(json, "spans_left_out", timeline->spans_left_out);
}

static void put_notes(struct infp_json *json, const struct infp_timeline *timeline, unsigned n_metrics_left_out)
{
        infp_json_key(json, "notes");
        infp_json_array(json);
        for (unsigned i = 0; i < timeline->n_notes; i++)
                infp_json_str(json, timeline->notes[i]);
        if (n_metrics_left_out) {
                infp_autostr struct infp_str text = { 0 };

                infp_str_printf(&text,
                                "%u more metrics changed and are not drawn here: infprof plot draws any of them, the "
                                "table of all metrics has their figures.",
                                n_metrics_left_out);
                infp_json_str(json, text.data ? text.data : "");
        }
        infp_json_array_end(json);
}

static void put_grid(struct infp_json *json, const struct infp_timeline *timeline)
{
        infp_json_member_i64(json, "start_ms", infp_unix_ms(timeline->start_unix_ns));
        put_step(json, "step_ms", timeline->grid.step_ns);
        infp_json_member_u64(json, "n", timeline->grid.n);
        infp_json_member_u64(json, "sampled_ms", timeline->period_ms);
        infp_json_member_bool(json, "is_downsampled", timeline->is_downsampled);
}

int infp_html_data(struct infp_str *out, const struct infp_report *report, struct infp_timeline *timeline, size_t room)
{
        infp_autostr struct infp_str text = { 0 }, panels = { 0 };
        unsigned n_left_out;
        struct infp_json json;
        int r;

        infp_json_begin(&json, &text, 0);
        infp_json_object(&json);
        infp_json_member_i64(&json, "version", 1);
        infp_json_member_str(&json, "made_by", "infprof " INFP_VERSION);
        infp_json_member_i64(&json, "made_ms", infp_unix_ms((int64_t) infp_clock_ns(CLOCK_REALTIME)));
        r = put_report(&json, report, timeline);
        put_cores(&json, &timeline->cores);
        infp_html_events(&json, timeline);
        put_counts(&json, timeline);
        n_left_out = fit_panels(&panels, timeline, room > text.size ? room - text.size : 0);
        put_grid(&json, timeline);
        put_notes(&json, timeline, n_left_out);
        infp_json_key(&json, "panels");
        infp_json_raw(&json, panels.data ? panels.data : "[]", panels.data ? panels.size : 2);
        infp_json_object_end(&json);
        if (r < 0 || text.failed || panels.failed)
                return -ENOMEM;
        infp_html_json(out, text.data, text.size);
        return out->failed ? -ENOMEM : 0;
}
