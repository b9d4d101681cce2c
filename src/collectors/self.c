/* What infprof itself costs, and what it dropped. */
#include <sys/resource.h>

#include "base/mem.h"
#include "base/time.h"
#include "collect/collector.h"
#include "collect/target.h"
#include "collectors/fields.h"

enum self_cell {
        SELF_CPU_NS,
        SELF_USER_NS,
        SELF_SYSTEM_NS,
        SELF_RSS,
        SELF_RSS_PEAK,
        SELF_THREADS,
        SELF_VOLUNTARY,
        SELF_INVOLUNTARY,
        SELF_MINOR_FAULTS,
        SELF_MAJOR_FAULTS,
        SELF_ROWS,
        SELF_ROWS_DROPPED,
        SELF_BYTES_WRITTEN,
        SELF_BATCHES,
        SELF_TICKS_MISSED,
        SELF_ERRORS,
        SELF_NOTICES,
        SELF_SCANS,
        SELF_LISTS,
        SELF_TAILS,
        SELF_STAT_READS,
        SELF_DESCRIPTORS,
        SELF_ROWS_LOST,
        SELF_WRITE_ERRORS,
        SELF_SNAPSHOTS_SKIPPED,
        SELF_RING_ROWS,
        SELF_RING_DROPPED,
        SELF_N,
};

// clang-format off
static const struct infp_column self_columns[] = {
        [SELF_CPU_NS] = INFP_COLUMN(self_cpu_ns, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_self_cpu_seconds_total", "CPU time of infprof, all its threads."),
        [SELF_USER_NS] = INFP_COLUMN(self_cpu_user_ns, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_self_cpu_user_seconds_total", "CPU time of infprof in user mode (getrusage)."),
        [SELF_SYSTEM_NS] = INFP_COLUMN(self_cpu_system_ns, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, "infprof_self_cpu_system_seconds_total", "CPU time of infprof in kernel mode (getrusage)."),
        [SELF_RSS] = INFP_COLUMN(self_rss_bytes, I64, GAUGE, bytes, MEASURED, NO, "statm:2", 0, "infprof_self_resident_memory_bytes", "Memory of infprof in RAM."),
        [SELF_RSS_PEAK] = INFP_COLUMN(self_rss_peak_bytes, I64, GAUGE, bytes, MEASURED, NO, NULL, 1024, "infprof_self_resident_memory_peak_bytes", "Most memory of infprof in RAM so far (ru_maxrss; a fresh program inherits its starter's)."),
        [SELF_THREADS] = INFP_COLUMN(self_threads, I64, GAUGE, count, MEASURED, NO, "status:Threads", 0, "infprof_self_threads", "Threads of infprof."),
        [SELF_VOLUNTARY] = INFP_COLUMN(self_voluntary_switches, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_voluntary_context_switches_total", "Context switches of infprof because it waited."),
        [SELF_INVOLUNTARY] = INFP_COLUMN(self_involuntary_switches, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_involuntary_context_switches_total", "Context switches of infprof because another was to run."),
        [SELF_MINOR_FAULTS] = INFP_COLUMN(self_minor_faults, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_minor_page_faults_total", "Page faults of infprof that needed no disk."),
        [SELF_MAJOR_FAULTS] = INFP_COLUMN(self_major_faults, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_major_page_faults_total", "Page faults of infprof that waited for a disk."),
        [SELF_ROWS] = INFP_COLUMN(self_rows, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_rows_total", "Rows that the recorder took."),
        [SELF_ROWS_DROPPED] = INFP_COLUMN(self_rows_dropped, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_rows_dropped_total", "Rows that found no room."),
        [SELF_BYTES_WRITTEN] = INFP_COLUMN(self_bytes_written, I64, COUNTER, bytes, MEASURED, ZERO, NULL, 0, "infprof_self_written_bytes_total", "Bytes written to the run's files."),
        [SELF_BATCHES] = INFP_COLUMN(self_batches, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_batches_total", "Batches of rows given to the files and views."),
        [SELF_TICKS_MISSED] = INFP_COLUMN(self_ticks_missed, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_ticks_missed_total", "Ticks left out because an earlier one took too long."),
        [SELF_ERRORS] = INFP_COLUMN(self_errors, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_errors_total", "Samples of sources that failed."),
        [SELF_NOTICES] = INFP_COLUMN(self_notices, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_notices_total", "Messages to the user."),
        [SELF_SCANS] = INFP_COLUMN(self_scans, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_process_scans_total", "Refreshes of the process table."),
        [SELF_LISTS] = INFP_COLUMN(self_proc_lists, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_proc_lists_total", "Times that all of /proc was listed."),
        [SELF_TAILS] = INFP_COLUMN(self_proc_tails, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_proc_tails_total", "Times that only the new end of /proc was listed."),
        [SELF_STAT_READS] = INFP_COLUMN(self_stat_reads, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_stat_reads_total", "Reads of /proc/PID/stat."),
        [SELF_DESCRIPTORS] = INFP_COLUMN(self_kept_descriptors, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_self_kept_descriptors", "Files of processes that are kept open."),
        [SELF_ROWS_LOST] = INFP_COLUMN(self_rows_lost, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_rows_lost_total", "Rows that could not be written into the run's files."),
        [SELF_WRITE_ERRORS] = INFP_COLUMN(self_write_errors, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_write_errors_total", "Writes of the run's files that failed."),
        [SELF_SNAPSHOTS_SKIPPED] = INFP_COLUMN(self_snapshots_skipped, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_snapshots_skipped_total", "Snapshots left out because the recorder was behind."),
        [SELF_RING_ROWS] = INFP_COLUMN(self_ring_rows, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_ring_rows_total", "Rows of marks, spans, counters and tables of Python that were taken from ring files of programs."),
        [SELF_RING_DROPPED] = INFP_COLUMN(self_ring_dropped, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, "infprof_self_ring_dropped_total", "Records of spans and marks that found no room in ring files of programs while this recording read them."),
};
// clang-format on

static const struct infp_table self_table = {
        .name = "self",
        .help = "What infprof itself costs, and what it dropped.",
        .columns = self_columns,
        .n_columns = SELF_N,
        .section = "self",
};

struct self {
        struct infp_procfile statm, status;
        struct infp_fields fields;
};

static int self_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct self *s = state;

        (void) env;
        (void) err;
        s->statm = s->status = (struct infp_procfile) INFP_PROCFILE_INIT;
        infp_fields_init(&s->fields, &self_table, "status", "/proc/self/status", 0);
        return 0;
}

static int64_t ns_of(struct timeval t)
{
        return (int64_t) t.tv_sec * (int64_t) INFP_NS_PER_S + t.tv_usec * 1000;
}

static void fill_usage(struct infp_row *row)
{
        struct rusage usage;

        infp_row_i64(row, SELF_CPU_NS, (int64_t) infp_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
        if (getrusage(RUSAGE_SELF, &usage) < 0)
                return;
        infp_row_i64(row, SELF_USER_NS, ns_of(usage.ru_utime));
        infp_row_i64(row, SELF_SYSTEM_NS, ns_of(usage.ru_stime));
        infp_row_raw(row, SELF_RSS_PEAK, (uint64_t) usage.ru_maxrss);
        infp_row_i64(row, SELF_VOLUNTARY, usage.ru_nvcsw);
        infp_row_i64(row, SELF_INVOLUNTARY, usage.ru_nivcsw);
        infp_row_i64(row, SELF_MINOR_FAULTS, usage.ru_minflt);
        infp_row_i64(row, SELF_MAJOR_FAULTS, usage.ru_majflt);
}

/* Our own files are below the root only when that is this machine's. */
static void fill_memory(struct self *s, const struct infp_env *env, struct infp_row *row)
{
        struct infp_span text, line;
        uint64_t pages;

        if (!env->is_live)
                return;
        if (infp_procfile_read(&s->statm, env->root_fd, "proc/self/statm") >= 0) {
                text = infp_procfile_text(&s->statm);
                infp_span_word(&text);
                if (!infp_span_u64(infp_span_word(&text), &pages) && pages < UINT64_C(1) << 40)
                        infp_row_raw(row, SELF_RSS, pages * env->page_size);
        }
        if (infp_procfile_read(&s->status, env->root_fd, "proc/self/status") < 0)
                return;
        text = infp_procfile_text(&s->status);
        while (infp_span_line(&text, &line))
                infp_fields_named(&s->fields, row, line);
}

static void fill_stats(struct infp_row *row, const struct infp_stats *stats)
{
        const struct {
                enum self_cell cell;
                const uint64_t *counter;
        } all[] = {
                { SELF_ROWS, &stats->rows },
                { SELF_ROWS_DROPPED, &stats->rows_dropped },
                { SELF_BYTES_WRITTEN, &stats->bytes_written },
                { SELF_BATCHES, &stats->batches },
                { SELF_TICKS_MISSED, &stats->ticks_missed },
                { SELF_ERRORS, &stats->errors },
                { SELF_NOTICES, &stats->notices },
                { SELF_ROWS_LOST, &stats->rows_lost },
                { SELF_WRITE_ERRORS, &stats->write_errors },
                { SELF_SNAPSHOTS_SKIPPED, &stats->snapshots_skipped },
                { SELF_RING_ROWS, &stats->ring_rows },
                { SELF_RING_DROPPED, &stats->ring_dropped },
        };

        for (size_t i = 0; i < INFP_COUNT(all); i++)
                infp_row_raw(row, all[i].cell, __atomic_load_n(all[i].counter, __ATOMIC_RELAXED));
}

static void fill_work(struct infp_row *row, struct infp_target_work work)
{
        infp_row_raw(row, SELF_SCANS, work.n_refreshes);
        infp_row_raw(row, SELF_LISTS, work.n_lists);
        infp_row_raw(row, SELF_TAILS, work.n_tails);
        infp_row_raw(row, SELF_STAT_READS, work.n_stat_reads);
        infp_row_raw(row, SELF_DESCRIPTORS, work.n_kept);
}

static void explain(const struct infp_env *env, struct infp_emit *emit)
{
        static const char elsewhere[] = "the root is not this machine's own";
        static const char no_recording[] = "nothing is being recorded";

        if (!env->is_live) {
                infp_emit_source(emit, &self_table, SELF_RSS, NULL, INFP_ABSENT, elsewhere, NULL);
                infp_emit_source(emit, &self_table, SELF_THREADS, NULL, INFP_ABSENT, elsewhere, NULL);
        }
        for (int cell = SELF_ROWS; !env->stats && cell < SELF_N; cell++)
                if (cell <= SELF_NOTICES || cell >= SELF_ROWS_LOST)
                        infp_emit_source(emit, &self_table, cell, NULL, INFP_ABSENT, no_recording, NULL);
}

static int self_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct infp_row *row = infp_emit_begin(emit, &self_table, env->now_ns(env));

        (void) err;
        fill_usage(row);
        fill_memory(state, env, row);
        if (env->stats)
                fill_stats(row, env->stats);
        if (env->target)
                fill_work(row, infp_target_work(env->target));
        explain(env, emit);
        infp_emit_commit(emit);
        return 0;
}

static void self_close(void *state)
{
        struct self *s = state;

        infp_procfile_done(&s->statm);
        infp_procfile_done(&s->status);
}

static const struct infp_table *const tables[] = { &self_table, NULL };

const struct infp_collector infp_collector_self = {
        .name = "self",
        .help = "What infprof itself costs: CPU, memory, rows, what it dropped.",
        .tables = tables,
        .state_size = sizeof(struct self),
        .open = self_open,
        .sample = self_sample,
        .close = self_close,
};
