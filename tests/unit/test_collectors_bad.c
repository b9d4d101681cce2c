/* Texts that no kernel should write, and files that are not there: what can be read is read, what cannot is absent with a
 * reason, nothing is made up, and the other collectors go on. */
#include "machine.h"

#include "collect/collector.h"

#include <fcntl.h>

static const char *const names[] = { "cpu", "cpu_clock", "mem", "disk", "net", "host" };
enum { N = sizeof(names) / sizeof(names[0]) };

/* Every file that these collectors read, so that each can be spoilt. */
static const char *const files[] = {
        "proc/stat",
        "proc/loadavg",
        "proc/meminfo",
        "proc/vmstat",
        "proc/diskstats",
        "proc/net/dev",
        "proc/cpuinfo",
        "proc/version",
        "proc/self/cgroup",
        "proc/self/status",
        "proc/sys/kernel/hostname",
        "sys/devices/system/cpu/online",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
        "sys/devices/system/cpu/cpu0/cache/index0/size",
        "sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_map",
        "sys/kernel/mm/transparent_hugepage/enabled",
        "etc/os-release",
        "etc/machine-id",
        "sys/fs/cgroup/cpuset.cpus.effective",
        "sys/fs/cgroup/user.slice/cpu.max",
};
enum { N_FILES = sizeof(files) / sizeof(files[0]) };

static void copy_machine(char top[64])
{
        tree_command("cp -r --no-dereference --no-preserve=mode '%s/.' '%s'", fixture("bare-metal"), tree_new(top));
}

static void remove_file(const char *top, const char *name)
{
        tree_command("rm -rf '%s/%s'", top, name);
}

/* Opens all on a healthy machine, spoils, samples twice. No sample may fail but for the one whose only file it is. */
static void spoil_and_sample(const char *top, void (*spoil)(const char *top, const char *name), const char *name)
{
        static struct infp_collector_state s[N];
        struct machine *m = machine_open(top);

        for (unsigned i = 0; i < N; i++)
                assert_int_equal(
                        infp_collector_open(&s[i], infp_collector_find(names[i]), &m->env, &m->emit, machine_notice, m),
                        0);
        spoil(top, name);
        for (int turn = 0; turn < 2; turn++) {
                m->clock_ns += UINT64_C(100000000000);
                for (unsigned i = 0; i < N; i++) {
                        int r = infp_collector_sample(&s[i], &m->env, &m->emit, machine_notice, m);

                        if (r && strcmp(name, "proc/diskstats") && strcmp(name, "proc/net/dev"))
                                fail_msg("%s fails (%d) because of %s", names[i], r, name);
                }
        }
        for (unsigned i = 0; i < N; i++)
                infp_collector_close(&s[i]);
        /* The rest is there. */
        if (strcmp(name, "proc/stat") && strcmp(name, "proc/loadavg"))
                EXPECT(m, I64("cpu", NULL, "vCpuTime", 5655542 + 910938), F64("cpu", NULL, "vLoadAvg", 1.31));
        if (strcmp(name, "proc/meminfo"))
                EXPECT(m, I64("mem", NULL, "vMemoryTotal", 65758240LL * 1024));
        if (strcmp(name, "proc/diskstats"))
                EXPECT(m, I64("disk", NULL, "vDiskSuccessfulReads", 816666));
        if (strcmp(name, "proc/net/dev"))
                EXPECT(m, I64("net", NULL, "vNetworkErrorsRecvd", 3));
        machine_close(m);
}

static void be_empty(const char *top, const char *name)
{
        tree_put(top, name, "");
}

static void be_binary(const char *top, const char *name)
{
        unsigned char noise[5000];
        uint32_t x = 12345;

        for (size_t i = 0; i < sizeof(noise); i++) {
                x = x * 1664525 + 1013904223;
                noise[i] = (unsigned char) (x >> 24);
        }
        tree_put_bytes(top, name, noise, sizeof(noise));
}

static void be_huge(const char *top, const char *name)
{
        tree_command("truncate -s 64M '%s/%s'", top, name);
}

static void be_unreadable(const char *top, const char *name)
{
        remove_file(top, name);
        /* Its first page was never mapped: EIO, also for root. */
        tree_command("ln -s /proc/self/mem '%s/%s'", top, name);
}

static void be_a_directory(const char *top, const char *name)
{
        remove_file(top, name);
        tree_command("mkdir '%s/%s'", top, name);
}

static void be_a_fifo(const char *top, const char *name)
{
        remove_file(top, name);
        tree_command("mkfifo '%s/%s'", top, name);
}

static void any_file_may_be_anything(void **state)
{
        static void (*const ways[])(const char *, const char *) = { remove_file,   be_empty,       be_binary, be_huge,
                                                                    be_unreadable, be_a_directory, be_a_fifo };
        char top[64];

        (void) state;
        copy_machine(top);
        for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
                for (unsigned i = 0; i < N_FILES; i++) {
                        spoil_and_sample(top, ways[w], files[i]);
                        tree_command("rm -rf '%s/%s' && cp '%s/%s' '%s/%s'", top, files[i], fixture("bare-metal"),
                                     files[i], top, files[i]);
                }
        tree_remove(top);
}

static struct kept whole[64];
static size_t n_whole;

static bool has_same_key(const struct kept *a, const struct kept *b)
{
        if (a->table != b->table || !a->table->n_keys)
                return a->table == b->table;
        if (a->table->keys[0].type == INFP_I64)
                return a->cell[0].i64 == b->cell[0].i64;
        return a->cell[0].text.size == b->cell[0].text.size && !memcmp(a->text, b->text, a->cell[0].text.size);
}

/* Each cell of the row has the value of the whole text, or none. */
static void check_cut_row(const struct kept *k, const char *file, size_t at)
{
        const struct kept *w = NULL;

        for (size_t i = 0; i < n_whole && !w; i++)
                w = has_same_key(k, &whole[i]) ? &whole[i] : NULL;
        if (!w)
                fail_msg("%s cut at %zu: a row of %s that is not there", file, at, k->table->name);
        for (unsigned c = k->table->n_keys; c < k->table->n_keys + k->table->n_columns; c++)
                if (kept_has(k, c) && (!kept_has(w, c) || k->cell[c].i64 != w->cell[c].i64))
                        fail_msg("%s cut at %zu: %s of %s is another number", file, at,
                                 infp_table_column(k->table, INFP_FIXED_COLUMNS + c)->name, k->table->name);
}

/* Between two lines, in the last word of one, or far in the first one, which may have 14 words or more: no sum can know that
 * there was more. */
static bool is_at_a_seam(const char *text, size_t at)
{
        if (!at || text[at - 1] == '\n' || (at > 80 && !memchr(text, '\n', at)))
                return true;
        at += strspn(text + at, " ");
        at += strcspn(text + at, " \n");
        return text[at] == '\n';
}

static void cut_one_file(struct machine *m, const char *top, const char *collector, const char *file)
{
        static char text[(1 << 16) + 1];
        char path[256];
        size_t size;
        int fd;

        snprintf(path, sizeof(path), "%s/%s", top, file);
        fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        size = (size_t) read(fd, text, sizeof(text) - 1);
        text[size] = 0;
        close(fd);
        for (size_t at = 0; at < size; at++) {
                tree_put_bytes(top, file, text, at);
                m->n = 0;
                infp_emit_init(&m->emit, machine_keep, m);
                machine_sample(m, infp_collector_find(collector));
                for (size_t i = 0; i < m->n; i++) {
                        const struct infp_table *table = m->rows[i].table;
                        bool is_sum = !strcmp(table->name, "disk") || !strcmp(table->name, "net");

                        if (table != &infp_table_sources && !(is_sum && is_at_a_seam(text, at)))
                                check_cut_row(&m->rows[i], file, at);
                }
        }
        tree_put_bytes(top, file, text, size);
}

/* Cut at any byte no figure may come out that the whole text does not have: a number cut in its middle is another number. */
static void cut_texts_give_no_other_number(void **state)
{
        static const char *const cut[][2] = { { "cpu", "proc/stat" },       { "cpu", "proc/loadavg" },
                                              { "mem", "proc/meminfo" },    { "mem", "proc/vmstat" },
                                              { "disk", "proc/diskstats" }, { "net", "proc/net/dev" } };
        struct machine *m;
        char top[64];

        (void) state;
        copy_machine(top);
        m = machine_open(top);
        for (unsigned i = 0; i < N; i++)
                machine_sample(m, infp_collector_find(names[i]));
        n_whole = 0;
        for (size_t i = 0; i < m->n; i++)
                if (m->rows[i].table != &infp_table_sources)
                        whole[n_whole++] = m->rows[i];
        for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++)
                cut_one_file(m, top, cut[i][0], cut[i][1]);
        machine_close(m);
        tree_remove(top);
}

static void numbers_out_of_range(void **state)
{
        struct machine *m;
        char top[64], reason[256];

        (void) state;
        tree_new(top);
        tree_put(top, "proc/stat",
                 "cpu  9223372036854775807 -5 1 9223372036854775808 18446744073709551615 18446744073709551616 1e3 0x10 "
                 "+1\n"
                 "cpu0 1 0 1 5 0 0 0 0 0 0\ncpu18446744073709551616 7 7 7 7 7 7 7 7\ncpux 1 2 3\nctxt "
                 "9223372036854775808\nprocs_running -1\n");
        tree_put(top, "proc/loadavg", "nan inf -0.5 1/2/3 x\n");
        tree_put(top, "proc/meminfo",
                 "MemTotal: 9223372036854775807 kB\nMemFree: 18014398509481984 kB\nMemAvailable: 9007199254740991 "
                 "kB\nSwapTotal: 10 kB\nSwapFree: 20 kB\n");
        tree_put(top, "proc/vmstat", "pgfault 5\npgmajfault 6\noom_kill -1\n");
        tree_put(top, "proc/diskstats",
                 "8 0 sda 1 0 9223372036854775807 0 1 0 36028797018963967 0 -1 7 8\n8 16 sdb 1 0 1 0 1 0 1 0 "
                 "4294967295 7 8\n");
        tree_put(top, "proc/net/dev",
                 "  a: 9223372036854775807 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n  b: 1 18446744073709551615 0 0 0 0 0 0 1 1 "
                 "0 0 0 0 0 0\n");
        m = machine_open(top);
        for (unsigned i = 0; i < N; i++)
                machine_sample(m, infp_collector_find(names[i]));
        EXPECT(m, I64("cpu", NULL, "vCpuTimeUserMode", INT64_MAX), ABSENT("cpu", NULL, "vCpuNice"),
               I64("cpu", NULL, "vCpuTimeKernelMode", 1), ABSENT("cpu", NULL, "vCpuTime"),
               ABSENT("cpu", NULL, "vCpuIdleTime"), ABSENT("cpu", NULL, "vCpuTimeIOWait"),
               ABSENT("cpu", NULL, "vCpuTimeIntSrvc"), ABSENT("cpu", NULL, "vCpuTimeSoftIntSrvc"),
               ABSENT("cpu", NULL, "vCpuSteal"), ABSENT("cpu", NULL, "vCpuGuest"),
               ABSENT("cpu", NULL, "vCpuContextSwitches"), ABSENT("cpu", NULL, "vProcessesRunning"),
               ABSENT("cpu", NULL, "vLoadAvg"), ABSENT("cpu", NULL, "vLoadAvg5"), ABSENT("cpu", NULL, "vThreads"),
               ABSENT("mem", NULL, "vMemoryTotal"), ABSENT("mem", NULL, "vMemoryUnused"),
               I64("mem", NULL, "vMemoryFree", 9223372036854774784), ABSENT("mem", NULL, "vMemoryUsed"),
               ABSENT("mem", NULL, "vMemoryPercent"), ABSENT("mem", NULL, "vSwapUsed"), ABSENT("mem", NULL, "vPgFault"),
               I64("mem", NULL, "vMajorPageFault", 6), ABSENT("mem", NULL, "vOomKill"),
               I64("disk_device", "sda", "vDiskSectorReads", INT64_MAX), ABSENT("disk_device", "sda", "vDiskReadBytes"),
               ABSENT("disk_device", "sda", "vDiskIOInProgress"), ABSENT("disk_device", "sdb", "vDiskIOInProgress"),
               ABSENT("disk", NULL, "vDiskIOInProgress"), ABSENT("disk", NULL, "vDiskSectorReads"),
               ABSENT("disk", NULL, "vDiskReadBytes"), I64("disk", NULL, "vDiskSectorWrites", 36028797018963968),
               ABSENT("disk", NULL, "vDiskWriteBytes"), I64("disk", NULL, "vDiskSuccessfulReads", 2),
               I64("net_interface", "a", "vNetworkBytesRecvd", INT64_MAX), ABSENT("net", NULL, "vNetworkBytesRecvd"),
               ABSENT("net_interface", "b", "vNetworkPacketsRecvd"), ABSENT("net", NULL, "vNetworkPacketsRecvd"),
               I64("net", NULL, "vNetworkBytesSent", 2));
        assert_int_equal(machine_count(m, "cpu_core"), 1);
        assert_string_equal(machine_state(m, "net", "vNetworkBytesRecvd", reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "/proc/net/dev has no number for it");
        machine_close(m);
        tree_remove(top);
}

/* A whole text whose last line feed is missing loses nothing that counts. */
static void without_the_last_line_feed(void **state)
{
        static const char *const cut[] = { "proc/stat",   "proc/loadavg",   "proc/meminfo",
                                           "proc/vmstat", "proc/diskstats", "proc/net/dev" };
        struct machine *m;
        char top[64];

        (void) state;
        copy_machine(top);
        for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++)
                tree_command("truncate -s -1 '%s/%s'", top, cut[i]);
        m = machine_open(top);
        for (unsigned i = 0; i < N; i++)
                assert_int_equal(machine_sample(m, infp_collector_find(names[i])), 0);
        EXPECT(m, I64("cpu", NULL, "vCpuContextSwitches", 1623456789), I64("cpu", NULL, "vSoftInterrupts", 301234567),
               I64("mem", NULL, "vMemoryTotal", 65758240LL * 1024), I64("mem", NULL, "vThpSplitPage", 94),
               I64("disk", NULL, "vDiskSuccessfulReads", 816666), I64("disk", NULL, "vDiskFlushTime", 12340),
               I64("net", NULL, "vNetworkBytesRecvd", 12346678902), I64("net", NULL, "vNetworkCarrierErrors", 6));
        machine_close(m);
        tree_remove(top);
}

/* Of disks and interfaces: none is no sum, and a text that is cut has no sum either. */
static void nothing_to_add_up(void **state)
{
        struct machine *m;
        char top[64], reason[256];

        (void) state;
        tree_new(top);
        tree_put(top, "proc/diskstats", "7 0 loop0 5 0 8 1 0 0 0 0 0 1 1\n");
        tree_put(top, "proc/net/dev", "  lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n");
        m = machine_open(top);
        assert_int_equal(machine_sample(m, infp_collector_find("disk")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("net")), 0);
        assert_null(machine_row(m, "disk", NULL));
        assert_null(machine_row(m, "net", NULL));
        assert_int_equal(machine_count(m, "disk_device"), 1);
        assert_string_equal(machine_state(m, "disk", NULL, reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "/proc/diskstats shows no whole disk");
        assert_string_equal(machine_state(m, "net", NULL, reason, sizeof(reason)), "absent");
        assert_string_equal(reason, "/proc/net/dev shows no interface but lo");
        machine_close(m);
        tree_put(top, "proc/diskstats", "8 0 sda 5 0 8 1 0 0 0 0 0 1 1\n8 16 sdb 7 0 8");
        m = machine_open(top);
        assert_int_equal(machine_sample(m, infp_collector_find("disk")), 0);
        EXPECT(m, ABSENT("disk", NULL, "vDiskSuccessfulReads"), I64("disk_device", "sda", "vDiskSuccessfulReads", 5),
               I64("disk_device", "sdb", "vDiskSuccessfulReads", 7), ABSENT("disk_device", "sdb", "vDiskSectorReads"));
        machine_close(m);
        tree_remove(top);
}

static void names_from_outside(void **state)
{
        struct machine *m;
        char top[64];

        (void) state;
        tree_new(top);
        tree_put(top, "proc/diskstats",
                 "8 0 sd\xff 5 0 8 1 0 0 0 0 0 1 1\n8 1 sda 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n8 2 sda1x 2 0 0 0 0 0 0 0 0 0 "
                 "0 0 0 0\n8 "
                 "3 sdA 3 0 0 0 0 0 0 0 0 0 0\n"
                 "8 4 nvme0n1 4 0 0 0 0 0 0 0 0 0 0 0 0 0\n8 5 nvme0c0n1 5 0 0 0 0 0 0 0 0 0 0 0 0 0\n8 6 xvdaa 6 0 0 "
                 "0 0 0 0 0 0 "
                 "0 0\n"
                 "8 7 nvme0n1p12 7 0 0 0 0 0 0 0 0 0 0 0 0 0\n8 8 vd 8 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
        tree_put(top, "proc/net/dev",
                 " we\\ird: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n : 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\nveth:\n"
                 "eth0.7:1: 40960 10 0 0 0 0 0 0 8192 4 0 0 0 0 0 0\neth0.7:2:5 6 0 0 0 0 0 0 7 8 0 0 0 0 0 0\n");
        tree_put(top, "proc/sys/kernel/hostname", "h\xe9te\n");
        m = machine_open(top);
        assert_int_equal(machine_sample(m, infp_collector_find("disk")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("net")), 0);
        assert_int_equal(machine_sample(m, infp_collector_find("host")), 0);
        EXPECT(m, I64("disk", NULL, "vDiskSuccessfulReads", 1 + 4 + 6),
               I64("disk_device", "sd\\xFF", "vDiskSuccessfulReads", 5),
               I64("disk_device", "sda1x", "vDiskSuccessfulReads", 2),
               I64("disk_device", "nvme0c0n1", "vDiskSuccessfulReads", 5),
               I64("net_interface", "we\\\\ird", "vNetworkBytesRecvd", 1),
               I64("net_interface", "eth0.7:1", "vNetworkBytesRecvd", 40960),
               I64("net_interface", "eth0.7:1", "vNetworkPacketsSent", 4),
               I64("net_interface", "eth0.7:2", "vNetworkBytesRecvd", 5), I64("net", NULL, "vNetworkBytesRecvd", 40966),
               TEXT("host", NULL, "vHostname", "h\\xE9te"));
        assert_null(machine_row(m, "disk_device", "nvme0n1p12"));
        assert_int_equal(machine_count(m, "net_interface"), 3);
        machine_close(m);
        tree_remove(top);
}

/* An empty root: none of them is on this machine, except for host, which has at least its page size to say. */
static void no_machine_at_all(void **state)
{
        struct machine *m;
        char top[64];

        (void) state;
        m = machine_open(tree_new(top));
        for (unsigned i = 0; i < N; i++)
                assert_int_equal(machine_sample(m, infp_collector_find(names[i])),
                                 strcmp(names[i], "host") && strcmp(names[i], "cpu_clock") ? -ENODEV : 0);
        assert_int_equal(m->n_notices, 0);
        EXPECT(m, TEXT("host", NULL, "vId", "unavailable"), ABSENT("host", NULL, "vHostname"),
               ABSENT("host", NULL, "vEffectiveCpus"), ABSENT("host", NULL, "vNumProcessors"));
        machine_close(m);
        tree_remove(top);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(any_file_may_be_anything), cmocka_unit_test(cut_texts_give_no_other_number),
                cmocka_unit_test(numbers_out_of_range),     cmocka_unit_test(without_the_last_line_feed),
                cmocka_unit_test(nothing_to_add_up),        cmocka_unit_test(names_from_outside),
                cmocka_unit_test(no_machine_at_all),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
