/* Block devices: /proc/diskstats.
 *
 * Lines have 14 words, 18 since Linux 4.18 and 20 since 5.5; more may come, so each column is optional. The sum is over whole
 * disks only: partitions, device-mapper, md, loop and zram devices would count the same bytes twice. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "collect/collector.h"
#include "collectors/fields.h"

/* A smaller value is not a restart here: the sum falls when a disk is removed, and the kernel cuts the times of each disk to
 * 32 bits, so that they wrap after 49.7 days of I/O. Either way the true increase of that interval is 0. */
// clang-format off
static const struct infp_column disk_columns[] = {
        INFP_COLUMN(vDiskReadBytes, I64, COUNTER, bytes, MEASURED, NONE, "diskstats:5", 512, "infprof_host_disk_read_bytes_total", "Bytes read."),
        INFP_COLUMN(vDiskWriteBytes, I64, COUNTER, bytes, MEASURED, NONE, "diskstats:9", 512, "infprof_host_disk_written_bytes_total", "Bytes written."),
        INFP_COLUMN(vDiskSuccessfulReads, I64, COUNTER, count, MEASURED, NONE, "diskstats:3", 0, "infprof_host_disk_reads_total", "Reads completed."),
        INFP_COLUMN(vDiskSuccessfulWrites, I64, COUNTER, count, MEASURED, NONE, "diskstats:7", 0, "infprof_host_disk_writes_total", "Writes completed."),
        INFP_COLUMN(vDiskReadTime, I64, COUNTER, ms, MEASURED, NONE, "diskstats:6", 0, "infprof_host_disk_read_time_seconds_total", "Time of all reads together, a sum over requests in flight: it may exceed the elapsed time."),
        INFP_COLUMN(vDiskWriteTime, I64, COUNTER, ms, MEASURED, NONE, "diskstats:10", 0, "infprof_host_disk_write_time_seconds_total", "Time of all writes together, a sum over requests in flight: it may exceed the elapsed time."),
        INFP_COLUMN(vDiskIOTime, I64, COUNTER, ms, MEASURED, NONE, "diskstats:12", 0, "infprof_host_disk_io_time_seconds_total", "Time in which the disk had work; the sum adds it up over disks."),
        INFP_COLUMN(vDiskIOInProgress, I64, GAUGE, count, MEASURED, NO, "diskstats:11", 0, "infprof_host_disk_io_in_progress", "Requests in flight."),
        INFP_COLUMN(vDiskSectorReads, I64, COUNTER, sectors, MEASURED, NONE, "diskstats:5", 0, NULL, "Sectors of 512 bytes read."),
        INFP_COLUMN(vDiskSectorWrites, I64, COUNTER, sectors, MEASURED, NONE, "diskstats:9", 0, NULL, "Sectors of 512 bytes written."),
        INFP_COLUMN(vDiskMergedReads, I64, COUNTER, count, MEASURED, NONE, "diskstats:4", 0, "infprof_host_disk_reads_merged_total", "Reads that were joined with a neighbour before the disk saw them."),
        INFP_COLUMN(vDiskMergedWrites, I64, COUNTER, count, MEASURED, NONE, "diskstats:8", 0, "infprof_host_disk_writes_merged_total", "Writes that were joined with a neighbour before the disk saw them."),
        INFP_COLUMN(vDiskWeightedIOTime, I64, COUNTER, ms, MEASURED, NONE, "diskstats:13", 0, "infprof_host_disk_weighted_io_time_seconds_total", "Time with work times the requests in flight, so it may exceed the elapsed time: its rate is the mean queue length."),
        INFP_COLUMN(vDiskDiscards, I64, COUNTER, count, MEASURED, NONE, "diskstats:14", 0, "infprof_host_disk_discards_total", "Discards completed (since Linux 4.18)."),
        INFP_COLUMN(vDiskMergedDiscards, I64, COUNTER, count, MEASURED, NONE, "diskstats:15", 0, "infprof_host_disk_discards_merged_total", "Discards that were joined with a neighbour."),
        INFP_COLUMN(vDiskDiscardBytes, I64, COUNTER, bytes, MEASURED, NONE, "diskstats:16", 512, "infprof_host_disk_discarded_bytes_total", "Bytes discarded."),
        INFP_COLUMN(vDiskDiscardTime, I64, COUNTER, ms, MEASURED, NONE, "diskstats:17", 0, "infprof_host_disk_discard_time_seconds_total", "Time of all discards together."),
        INFP_COLUMN(vDiskFlushes, I64, COUNTER, count, MEASURED, NONE, "diskstats:18", 0, "infprof_host_disk_flushes_total", "Flushes completed (since Linux 5.5)."),
        INFP_COLUMN(vDiskFlushTime, I64, COUNTER, ms, MEASURED, NONE, "diskstats:19", 0, "infprof_host_disk_flush_time_seconds_total", "Time of all flushes together."),
};

static const struct infp_column device_keys[] = {
        INFP_COLUMN(device, STR, LABEL, none, MEASURED, NO, "diskstats:2", 0, NULL, "Name of the device."),
};
// clang-format on

static const struct infp_table disk_table = {
        .name = "disk",
        .help = "Sums over the whole disks (sd, hd, vd, xvd, nvme, mmcblk); no partitions, no layers above disks.",
        .columns = disk_columns,
        .n_columns = INFP_COUNT(disk_columns),
        .section = "disk",
        .series = "",
};

static const struct infp_table device_table = {
        .name = "disk_device",
        .help = "Each whole disk, and each other block device that was used, partitions excepted.",
        .keys = device_keys,
        .n_keys = 1,
        .columns = disk_columns,
        .n_columns = INFP_COUNT(disk_columns),
        .section = "disk_device",
};

/* Before Linux 2.6.25 partitions had seven words, with other meanings. */
enum { WORD_NAME = 2, WORD_READS = 3, WORD_WRITES = 7, WORD_IN_FLIGHT = 11, FEWEST_WORDS = 14 };

struct disk {
        struct infp_procfile file;
        struct infp_fields sum_fields, device_fields;
        struct infp_sums sums;
        struct infp_span words[INFP_FIELD_WORDS];
};

static int disk_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct disk *disk = state;
        int r;

        disk->file = (struct infp_procfile) INFP_PROCFILE_INIT;
        infp_fields_init(&disk->sum_fields, &disk_table, "diskstats", "/proc/diskstats", 0);
        infp_fields_init(&disk->device_fields, &device_table, "diskstats", "/proc/diskstats", 0);
        r = infp_procfile_open(&disk->file, env->root_fd, "proc/diskstats", !env->is_live);
        if (r < 0)
                return infp_fail_errno(err, r == -ENOENT ? -ENODEV : r, "/proc/diskstats cannot be opened");
        return 0;
}

/* Removes letters, or digits, from the front; returns their number. */
static size_t skip(struct infp_span *s, int (*is)(int))
{
        size_t n = 0;

        while (n < s->size && isascii((unsigned char) s->at[n]) && is((unsigned char) s->at[n]))
                n++;
        s->at += n;
        s->size -= n;
        return n;
}

static bool take(struct infp_span *s, const char *prefix)
{
        if (!infp_span_starts(*s, prefix))
                return false;
        s->at += strlen(prefix);
        s->size -= strlen(prefix);
        return true;
}

/* ^(sd[a-z]+|hd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+)$ */
static bool is_whole_disk(struct infp_span name)
{
        static const char *const lettered[] = { "sd", "hd", "vd", "xvd" };

        for (size_t i = 0; i < INFP_COUNT(lettered); i++)
                if (take(&name, lettered[i]))
                        return skip(&name, islower) && !name.size;
        if (take(&name, "mmcblk"))
                return skip(&name, isdigit) && !name.size;
        return take(&name, "nvme") && skip(&name, isdigit) && take(&name, "n") && skip(&name, isdigit) && !name.size;
}

/* sda1, nvme0n1p2: digits after a whole disk, with a p before them where the disk's name ends in a digit. */
static bool is_partition(struct infp_span name)
{
        size_t size = name.size;

        while (name.size && isdigit((unsigned char) name.at[name.size - 1]))
                name.size--;
        if (name.size == size || !name.size)
                return false;
        if (is_whole_disk(name))
                return true;
        name.size--;
        return name.at[name.size] == 'p' && is_whole_disk(name);
}

static bool is_unused(const struct infp_span *words)
{
        return infp_span_is(words[WORD_READS], "0") && infp_span_is(words[WORD_WRITES], "0");
}

/* Some kernels count down requests that they had not counted up: -1, or that in 32 bits. */
static void drop_bogus(struct infp_span *words)
{
        uint64_t v;

        if (!infp_span_u64(words[WORD_IN_FLIGHT], &v) && v > INT32_MAX)
                words[WORD_IN_FLIGHT].size = 0;
}

static void emit_device(struct disk *disk, struct infp_emit *emit, size_t n, uint64_t t_ns)
{
        struct infp_row *row = infp_emit_begin(emit, &device_table, t_ns);

        infp_row_bytes(row, 0, disk->words[WORD_NAME].at, disk->words[WORD_NAME].size);
        infp_fields_words(&disk->device_fields, row, disk->words, n);
        infp_emit_commit(emit);
}

static void take_line(struct disk *disk, struct infp_emit *emit, struct infp_span line, uint64_t t_ns)
{
        size_t n = infp_span_words(line, disk->words, INFP_FIELD_WORDS);
        bool is_whole = is_whole_disk(disk->words[WORD_NAME]);

        infp_sums_line(&disk->sums, n);
        if (!is_whole && (n < FEWEST_WORDS || is_partition(disk->words[WORD_NAME]) || is_unused(disk->words)))
                return;
        drop_bogus(disk->words);
        emit_device(disk, emit, n, t_ns);
        if (is_whole)
                infp_sums_add(&disk->sums, &disk->sum_fields, disk->words, n);
}

static int disk_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct disk *disk = state;
        uint64_t t_ns = env->now_ns(env);
        int r = infp_procfile_read(&disk->file, env->root_fd, "proc/diskstats");
        struct infp_span text = infp_whole_words(infp_procfile_text(&disk->file)), line;
        struct infp_row *row;
        bool is_cut;

        if (r < 0)
                return infp_fail_errno(err, r, "/proc/diskstats cannot be read");
        disk->sums = (struct infp_sums){ 0 };
        while (infp_span_line(&text, &line))
                take_line(disk, emit, line, t_ns);
        /* With nothing to add up there is no sum, not 0. */
        if (!disk->sums.n) {
                infp_emit_source(emit, &disk_table, -1, NULL, INFP_ABSENT, "/proc/diskstats shows no whole disk", NULL);
                return 0;
        }
        infp_emit_source(emit, &disk_table, -1, NULL, INFP_OK, NULL, NULL);
        row = infp_emit_begin(emit, &disk_table, t_ns);
        is_cut = infp_sums_is_cut(&disk->sums, infp_procfile_text(&disk->file), FEWEST_WORDS);
        infp_sums_row(&disk->sums, &disk->sum_fields, is_cut, row);
        infp_fields_explain(&disk->sum_fields, emit, 0);
        infp_emit_commit(emit);
        return 0;
}

static void disk_close(void *state)
{
        infp_procfile_done(&((struct disk *) state)->file);
}

static const struct infp_table *const disk_tables[] = { &disk_table, &device_table, NULL };

const struct infp_collector infp_collector_disk = {
        .name = "disk",
        .help = "Reads, writes, discards and flushes of disks.",
        .tables = disk_tables,
        .state_size = sizeof(struct disk),
        .open = disk_open,
        .sample = disk_sample,
        .close = disk_close,
};
