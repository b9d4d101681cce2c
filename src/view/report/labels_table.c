/* Labels as a table: a row for each pair of neighbours, the columns of the mission's post-processing. */
#include <errno.h>

#include "model/builder.h"
#include "view/report/report.h"

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

/* Mean and std, and after them least and most where wanted. */
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
