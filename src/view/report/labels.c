/* What happened between labels: one span in full, or two lines for each pair of neighbours; both as JSON. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "model/builder.h"
#include "view/report/parts.h"
#include "view/report/report.h"

enum { NAME_WIDTH = 22, ALL_CORES = 16 };

static struct human percent(double v)
{
        return infp_human(v / 100, "ratio", "%", false);
}

static struct human with_unit(double v, int decimals, const char *unit)
{
        struct human ret = infp_fixed(v, decimals);

        if (isfinite(v))
                strncat(ret.text, unit, sizeof(ret.text) - strlen(ret.text) - 1);
        return ret;
}

static struct human celsius(double v)
{
        return with_unit(v, 1, " C");
}

static struct human joules(double v)
{
        return with_unit(v, fabs(v) < 1000, " J");
}

static void put_stat(struct infp_out *out, const char *label, const struct infp_stat *stat,
                     struct human (*show)(double v))
{
        if (!stat->n)
                return;
        infp_report_put(out, "  %-28s %11s %11s %11s %11s", label, show(infp_stat_mean(stat)).text,
                        show(infp_stat_sample_std(stat)).text, show(stat->min).text, show(stat->max).text);
        infp_report_end(out);
}

static void put_energy(struct infp_out *out, const struct infp_report *report, const struct infp_labelled_span *span)
{
        if (isnan(infp_span_joules(span)))
                infp_report_line(out, "energy", "not measured between the labels%s",
                                 span->energy_j.n     ? ": there is one sample of it"
                                 : report->absences.n ? "; `infprof report absent` says why"
                                                      : "");
        else
                infp_report_line(out, "energy",
                                 "%s of the machine in %s (%s W)%s; since the recording began %s at the first sample, "
                                 "%s at the last",
                                 joules(infp_span_joules(span)).text, infp_report_seconds(span->energy_s).text,
                                 infp_fixed(infp_span_watts(span), 2).text,
                                 span->energy_is_estimated ? ", estimated from power" : "",
                                 joules(span->energy_j.min).text, joules(span->energy_j.max).text);
}

static void put_cores(struct infp_out *out, const struct infp_cores *cores)
{
        char label[32];

        put_stat(out, "CPU, mean of the cores", &cores->average, percent);
        /* bound: of more cores a line says how many */
        for (unsigned i = 0; i < cores->n && cores->n <= ALL_CORES; i++) {
                snprintf(label, sizeof(label), "core %lld", (long long) cores->cores[i].number);
                put_stat(out, label, &cores->cores[i].stat, percent);
        }
        if (cores->n > ALL_CORES)
                infp_report_line(out, "cores", "%u: each of them is in --json", cores->n);
        if (cores->disparity.n)
                infp_report_line(out, "imbalance",
                                 "%s %% (Gini of the cores' loads; 0 = even), mean of %s intervals with any load",
                                 infp_fixed(infp_stat_mean(&cores->disparity), 1).text,
                                 infp_count(cores->disparity.n).text);
        if (cores->n > 1 && cores->average.n)
                infp_report_line(
                        out, "dominant",
                        "one core was 70 points above all others in %s of %s intervals; the core changed %s times",
                        infp_count(cores->n_dominated).text, infp_count(cores->average.n).text,
                        infp_count(cores->n_dominant_changes).text);
}

void infp_report_spans(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_labelled_span *span = report->spans.list;
        infp_autostr struct infp_str name = { 0 };
        char title[160];

        if (!report->spans.n)
                return;
        infp_str_printf(&name, "%s to %s", report->from_label ? report->from_label : "the start",
                        report->to_label ? report->to_label : "the end");
        snprintf(title, sizeof(title), "%-30s %11s %11s %11s %11s", "Between labels", "mean", "std", "least", "most");
        infp_report_title(out, title);
        infp_report_put(out, "  ");
        infp_report_put_padded(out, name.data ? name.data : "", infp_report_width(out) - 2, true);
        infp_report_end(out);
        put_stat(out, "CPU of the tree, of all CPUs", &span->cpu_percent, percent);
        put_stat(out, "in RAM (RSS)", &span->rss_bytes, infp_report_bytes);
        put_stat(out, "address space (VMS)", &span->vms_bytes, infp_report_bytes);
        put_stat(out, "in swap", &span->swap_bytes, infp_report_bytes);
        put_stat(out, "CPU temperature", &span->temperature_c, celsius);
        put_cores(out, &span->cores);
        put_energy(out, report, span);
        infp_report_line(out, "samples", "%s in %s; std is that of the sample (n - 1)", infp_count(span->n).text,
                         infp_report_seconds(span->seconds).text);
}

static void put_pair(struct infp_out *out, const struct infp_report *report, unsigned i)
{
        const struct infp_labelled_span *s = &report->spans.list[i];
        infp_autostr struct infp_str name = { 0 };

        infp_str_printf(&name, "%s to %s", report->labels.list[i].tag, report->labels.list[i + 1].tag);
        infp_report_put(out, "  ");
        infp_report_put_padded(out, name.data ? name.data : "", NAME_WIDTH, false);
        infp_report_put(out, " %8s %7s %9s %9s %8s %8s", infp_report_seconds(s->seconds).text,
                        percent(infp_stat_mean(&s->cpu_percent)).text,
                        infp_report_bytes(infp_stat_mean(&s->rss_bytes)).text,
                        infp_report_bytes(infp_stat_mean(&s->vms_bytes)).text,
                        infp_report_bytes(infp_stat_mean(&s->swap_bytes)).text, joules(infp_span_joules(s)).text);
        infp_report_end(out);
        infp_report_put(out, "  %*s %8s %7s %9s %9s %8s", NAME_WIDTH, "", "std",
                        percent(infp_stat_sample_std(&s->cpu_percent)).text,
                        infp_report_bytes(infp_stat_sample_std(&s->rss_bytes)).text,
                        infp_report_bytes(infp_stat_sample_std(&s->vms_bytes)).text,
                        infp_report_bytes(infp_stat_sample_std(&s->swap_bytes)).text);
        infp_report_end(out);
}

/* Labels in the output whose own time was not used. */
static void put_unplaced(struct infp_out *out, const struct infp_labels *labels)
{
        unsigned n = 0;

        for (unsigned i = 0; i < labels->n; i++)
                n += labels->list[i].stamp && strncmp(labels->list[i].stamp, "seen", 4) == 0;
        if (n)
                infp_report_line(out, "note",
                                 "%u label%s without a time within the recording: %s seen (table "
                                 "marks, column stamp)",
                                 n, n == 1 ? " is" : "s are",
                                 n == 1 ? "it counts from when it was" : "they count from when they were");
}

void infp_report_labels(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_labels *labels = &report->labels;
        char title[160];

        if (!report->spans.n) {
                infp_report_title(out, "Between labels");
                infp_report_line(out, "none", "%s",
                                 labels->n ? "there is one label only: two are needed"
                                           : "no label is set in this range (infprof mark TAG sets one, or a line "
                                             "measure_label-TAG: SECONDS in a captured output)");
                return;
        }
        snprintf(title, sizeof(title), "%-24s %8s %7s %9s %9s %8s %8s", "Between labels", "lasted", "CPU", "RSS", "VMS",
                 "swap", "energy");
        infp_report_title(out, title);
        if (labels->filename)
                infp_report_line(out, "named", "%s", labels->filename);
        for (unsigned i = 0; i < report->spans.n; i++)
                put_pair(out, report, i);
        infp_report_line(
                out, "means",
                "of the samples between two labels; CPU of the tree, 100 %% = all CPUs; energy of the machine; "
                "std of the sample (n - 1); cores, disparity and the rest are in --json");
        put_unplaced(out, labels);
        if (labels->n_left_out)
                infp_report_line(out, "note", "%s more labels are left out (--from, --to choose others)",
                                 infp_count(labels->n_left_out).text);
}

static void json_stat(struct infp_json *json, const char *key, const struct infp_stat *stat)
{
        infp_json_key(json, key);
        if (!stat->n) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_f64(json, "mean", infp_stat_mean(stat));
        infp_json_member_f64(json, "std", infp_stat_sample_std(stat));
        infp_json_member_f64(json, "min", stat->min);
        infp_json_member_f64(json, "max", stat->max);
        infp_json_member_u64(json, "n", stat->n);
        infp_json_object_end(json);
}

static void json_cores(struct infp_json *json, const struct infp_cores *cores)
{
        json_stat(json, "cores_mean_percent", &cores->average);
        infp_json_key(json, "cores");
        infp_json_array(json);
        for (unsigned i = 0; i < cores->n; i++) {
                infp_json_object(json);
                infp_json_member_i64(json, "core", cores->cores[i].number);
                json_stat(json, "load_percent", &cores->cores[i].stat);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_member_f64(json, "core_disparity_percent", infp_stat_mean(&cores->disparity));
        infp_json_member_u64(json, "core_disparity_intervals", cores->disparity.n);
        infp_json_member_u64(json, "dominant_core_changes", cores->n_dominant_changes);
        infp_json_member_u64(json, "dominant_core_intervals", cores->n_dominated);
}

static void json_energy(struct infp_json *json, const struct infp_labelled_span *span)
{
        const bool has = span->energy_j.n > 0;

        infp_json_key(json, "energy");
        infp_json_object(json);
        infp_json_member_f64(json, "joules", infp_span_joules(span));
        infp_json_member_f64(json, "watts", infp_span_watts(span));
        infp_json_member_f64(json, "min_j", has ? span->energy_j.min : NAN);
        infp_json_member_f64(json, "max_j", has ? span->energy_j.max : NAN);
        infp_json_member_u64(json, "n", span->energy_j.n);
        infp_json_member_str(json, "quality", !has ? NULL : span->energy_is_estimated ? "estimated" : "measured");
        infp_json_object_end(json);
}

static void json_span(struct infp_json *json, const struct infp_labelled_span *span, const char *from, const char *to)
{
        infp_json_object(json);
        infp_json_member_str(json, "from", from);
        infp_json_member_str(json, "to", to);
        infp_json_member_f64(json, "seconds", span->seconds);
        infp_json_member_u64(json, "samples", span->n);
        json_stat(json, "cpu_percent", &span->cpu_percent);
        json_stat(json, "rss_bytes", &span->rss_bytes);
        json_stat(json, "vms_bytes", &span->vms_bytes);
        json_stat(json, "swap_bytes", &span->swap_bytes);
        json_stat(json, "temperature_celsius", &span->temperature_c);
        json_cores(json, &span->cores);
        json_energy(json, span);
        infp_json_object_end(json);
}

static void json_label(struct infp_json *json, const struct infp_label_mark *label)
{
        infp_json_object(json);
        infp_json_member_str(json, "tag", label->tag);
        infp_json_member_str(json, "source", label->source);
        infp_json_member_str(json, "stamp", label->stamp);
        infp_json_member_i64(json, "time", infp_unix_ms(label->unix_ns));
        infp_json_member_u64(json, "t_ns", label->t_ns);
        infp_json_object_end(json);
}

void infp_report_json_spans(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_labels *labels = &report->labels;

        if (report->lists_labels) {
                infp_json_key(json, "labels");
                infp_json_array(json);
                for (unsigned i = 0; i < labels->n; i++)
                        json_label(json, &labels->list[i]);
                infp_json_array_end(json);
                infp_json_member_u64(json, "labels_left_out", labels->n_left_out);
                infp_json_member_str(json, "filename", labels->filename);
        } else if (!report->spans.n) {
                return;
        }
        infp_json_key(json, "intervals");
        infp_json_array(json);
        for (unsigned i = 0; i < report->spans.n; i++)
                json_span(json, &report->spans.list[i], report->lists_labels ? labels->list[i].tag : report->from_label,
                          report->lists_labels ? labels->list[i + 1].tag : report->to_label);
        infp_json_array_end(json);
}

/* Labels as a table: a row for each pair of neighbours, the columns of the mission's post-processing. */
enum {
        FROM,
        TO,
        FROM_TIME,
        SECONDS,
        SAMPLES,
        CPU_MEAN,
        CPU_STD,
        CORES_MEAN,
        CORES_STD,
        RSS_MEAN,
        RSS_STD,
        RSS_MIN,
        RSS_MAX,
        VMS_MEAN,
        VMS_STD,
        VMS_MIN,
        VMS_MAX,
        SWAP_MEAN,
        SWAP_STD,
        SWAP_MIN,
        SWAP_MAX,
        TEMPERATURE_MEAN,
        TEMPERATURE_STD,
        ENERGY,
        ENERGY_MIN,
        ENERGY_MAX,
        ENERGY_QUALITY,
        DISPARITY,
        DOMINANT_CHANGES,
        N
};

// clang-format off
static const struct infp_column columns[] = {
        [FROM] = INFP_COLUMN(from_label, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "First label."),
        [TO] = INFP_COLUMN(to_label, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Next label."),
        [FROM_TIME] = INFP_COLUMN(from_time, TS_NS, LABEL, none, MEASURED, NO, NULL, 0, NULL, "When the first label was set."),
        [SECONDS] = INFP_COLUMN(seconds, F64, GAUGE, s, DERIVED, NO, NULL, 0, NULL, "Between them."),
        [SAMPLES] = INFP_COLUMN(samples, U64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "Samples of the tree."),
        [CPU_MEAN] = INFP_COLUMN(cpu_percent_mean, F64, GAUGE, percent, DERIVED, NO, NULL, 0, NULL, "CPU of the tree, of all CPUs."),
        [CPU_STD] = INFP_COLUMN(cpu_percent_std, F64, GAUGE, percent, DERIVED, NO, NULL, 0, NULL, "Its sample standard deviation."),
        [CORES_MEAN] = INFP_COLUMN(cores_percent_mean, F64, GAUGE, percent, DERIVED, NO, NULL, 0, NULL, "Load of the machine, mean of its cores."),
        [CORES_STD] = INFP_COLUMN(cores_percent_std, F64, GAUGE, percent, DERIVED, NO, NULL, 0, NULL, "Its sample standard deviation."),
        [RSS_MEAN] = INFP_COLUMN(rss_bytes_mean, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "RSS of the tree."),
        [RSS_STD] = INFP_COLUMN(rss_bytes_std, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Its sample standard deviation."),
        [RSS_MIN] = INFP_COLUMN(rss_bytes_min, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Its least."),
        [RSS_MAX] = INFP_COLUMN(rss_bytes_max, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Its most."),
        [VMS_MEAN] = INFP_COLUMN(vms_bytes_mean, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Address space of the tree."),
        [VMS_STD] = INFP_COLUMN(vms_bytes_std, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Its sample standard deviation."),
        [VMS_MIN] = INFP_COLUMN(vms_bytes_min, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Its least."),
        [VMS_MAX] = INFP_COLUMN(vms_bytes_max, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Its most."),
        [SWAP_MEAN] = INFP_COLUMN(swap_bytes_mean, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Swap of the tree."),
        [SWAP_STD] = INFP_COLUMN(swap_bytes_std, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Its sample standard deviation."),
        [SWAP_MIN] = INFP_COLUMN(swap_bytes_min, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Its least."),
        [SWAP_MAX] = INFP_COLUMN(swap_bytes_max, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Its most."),
        [TEMPERATURE_MEAN] = INFP_COLUMN(temperature_celsius_mean, F64, GAUGE, celsius, DERIVED, NO, NULL, 0, NULL, "Temperature of the CPU."),
        [TEMPERATURE_STD] = INFP_COLUMN(temperature_celsius_std, F64, GAUGE, celsius, DERIVED, NO, NULL, 0, NULL, "Its sample standard deviation."),
        [ENERGY] = INFP_COLUMN(energy_joules, F64, GAUGE, joules, DERIVED, NO, NULL, 0, NULL, "Of the machine, from the first to the last sample between them."),
        [ENERGY_MIN] = INFP_COLUMN(energy_joules_min, F64, GAUGE, joules, DERIVED, NO, NULL, 0, NULL, "Since the recording began, at the first sample."),
        [ENERGY_MAX] = INFP_COLUMN(energy_joules_max, F64, GAUGE, joules, DERIVED, NO, NULL, 0, NULL, "Since the recording began, at the last sample."),
        [ENERGY_QUALITY] = INFP_COLUMN(energy_quality, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "measured or estimated."),
        [DISPARITY] = INFP_COLUMN(core_disparity_percent, F64, GAUGE, percent, DERIVED, NO, NULL, 0, NULL, "Gini of the cores' loads, normalised."),
        [DOMINANT_CHANGES] = INFP_COLUMN(dominant_core_changes, U64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "Times that another core became dominant."),
};
// clang-format on

static const struct infp_table shape = { .name = "labels", .columns = columns, .n_columns = N, .plain = true };

static void set_count(struct infp_builder *b, unsigned column, uint64_t v)
{
        infp_builder_set(b, column, (union infp_cell){ .u64 = v }, NULL, 0);
}

/* Mean and std, then min and max if wanted. */
static void set_stat(struct infp_builder *b, unsigned column, const struct infp_stat *stat, bool ends)
{
        infp_builder_set_f64(b, column, infp_stat_mean(stat));
        infp_builder_set_f64(b, column + 1, infp_stat_sample_std(stat));
        if (ends && stat->n) {
                infp_builder_set_f64(b, column + 2, stat->min);
                infp_builder_set_f64(b, column + 3, stat->max);
        }
}

static void set_energy(struct infp_builder *b, const struct infp_labelled_span *span)
{
        if (!span->energy_j.n)
                return;
        infp_builder_set_f64(b, ENERGY, infp_span_joules(span));
        infp_builder_set_f64(b, ENERGY_MIN, span->energy_j.min);
        infp_builder_set_f64(b, ENERGY_MAX, span->energy_j.max);
        infp_builder_set_text(b, ENERGY_QUALITY, span->energy_is_estimated ? "estimated" : "measured");
}

static int fill(struct infp_builder *b, const struct infp_report *report, unsigned i)
{
        const struct infp_label_mark *from = &report->labels.list[i], *to = from + 1;
        const struct infp_labelled_span *span = &report->spans.list[i];

        infp_builder_reset(b);
        INFP_TRY(infp_builder_row_begin(b, 0, 0));
        infp_builder_set_text(b, FROM, from->tag);
        infp_builder_set_text(b, TO, to->tag);
        infp_builder_set(b, FROM_TIME, (union infp_cell){ .i64 = from->unix_ns }, NULL, 0);
        infp_builder_set_f64(b, SECONDS, span->seconds);
        set_count(b, SAMPLES, span->n);
        set_stat(b, CPU_MEAN, &span->cpu_percent, false);
        set_stat(b, CORES_MEAN, &span->cores.average, false);
        set_stat(b, RSS_MEAN, &span->rss_bytes, true);
        set_stat(b, VMS_MEAN, &span->vms_bytes, true);
        set_stat(b, SWAP_MEAN, &span->swap_bytes, true);
        set_stat(b, TEMPERATURE_MEAN, &span->temperature_c, false);
        set_energy(b, span);
        infp_builder_set_f64(b, DISPARITY, infp_stat_mean(&span->cores.disparity));
        if (span->cores.average.n)
                set_count(b, DOMINANT_CHANGES, span->cores.n_dominant_changes);
        return infp_builder_row_end(b);
}

int infp_report_labels_table(struct infp_out *out, const struct infp_report *report, const struct infp_format *format)
{
        /* Room for the texts of one row: 32 bytes a row and text column; tags of marks may be as long as a message. */
        struct infp_builder *b = infp_builder_new(&shape, 64);
        int r = b ? format->begin(out, &shape) : -ENOMEM;

        for (unsigned i = 0; i < report->spans.n && r >= 0; i++) {
                r = fill(b, report, i);
                if (r == -ENOSPC) {
                        infp_builder_reset(b);
                        r = infp_builder_grow(b, INFP_ROW_TEXT);
                        r = r < 0 ? r : fill(b, report, i);
                }
                if (r >= 0) {
                        const struct infp_batch batch = infp_builder_batch(b, 0);

                        r = format->batch(out, &batch);
                }
        }
        if (r >= 0)
                r = format->end(out, &shape);
        infp_builder_free(b);
        return r;
}
