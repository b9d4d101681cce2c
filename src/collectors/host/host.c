/* What this machine is: one row at the start and one whenever it changes (a core goes offline, a limit is set, the clock is
 * put right). `static_<uuid>.json` is made from the same row. */
#include "collectors/host/host.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "collectors/fields.h"

// clang-format off
static const struct infp_column host_columns[] = {
        [HOST_ID] = INFP_COLUMN(vId, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Identity of the machine: product_uuid of its firmware (root only), else /etc/machine-id, else unavailable."),
        [HOST_NAME] = INFP_COLUMN(vHostname, STR, LABEL, none, MEASURED, NO, "proc/sys/kernel/hostname", 0, NULL, "Host name."),
        [HOST_KERNEL] = INFP_COLUMN(vKernel, STR, LABEL, none, MEASURED, NO, "proc/version", 0, NULL, "Text of /proc/version."),
        [HOST_BOOT_TIME] = INFP_COLUMN(vBootTime, I64, GAUGE, unix_s, MEASURED, NO, "stat:btime", 0, "infprof_host_boot_time_seconds", "When the machine was started."),
        [HOST_PROCESSORS] = INFP_COLUMN(vNumProcessors, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_host_cpus", "CPUs that are online."),
        [HOST_CPU_TYPE] = INFP_COLUMN(vCpuType, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Model of the CPU."),
        [HOST_L1D] = INFP_COLUMN(vCpuCacheL1d, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "First-level data caches of all CPUs together; a shared one counts once."),
        [HOST_L1I] = INFP_COLUMN(vCpuCacheL1i, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "First-level instruction caches of all CPUs together."),
        [HOST_L2] = INFP_COLUMN(vCpuCacheL2, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Second-level caches of all CPUs together."),
        [HOST_L3] = INFP_COLUMN(vCpuCacheL3, I64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Third-level caches of all CPUs together."),
        [HOST_KERNEL_INFO] = INFP_COLUMN(vKernelInfo, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "System, release, build and architecture of the kernel, as uname -srvm."),
        [HOST_MEMORY] = INFP_COLUMN(vMemoryTotalBytes, I64, GAUGE, bytes, MEASURED, NO, "meminfo:MemTotal", 1024, NULL, "Memory that the kernel manages."),
        [HOST_SWAP] = INFP_COLUMN(vSwapTotalBytes, I64, GAUGE, bytes, MEASURED, NO, "meminfo:SwapTotal", 1024, NULL, "Swap space."),
        [HOST_ARCHITECTURE] = INFP_COLUMN(vArchitecture, STR, LABEL, none, MEASURED, NO, "proc/sys/kernel/arch", 0, NULL, "Architecture of the kernel."),
        [HOST_OS] = INFP_COLUMN(vOs, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Distribution: PRETTY_NAME of /etc/os-release."),
        [HOST_MACHINE] = INFP_COLUMN(vMachine, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Maker and product, as the firmware says."),
        [HOST_HYPERVISOR] = INFP_COLUMN(vHypervisor, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Hypervisor below this machine; none on bare metal, unknown for one that does not say its name."),
        [HOST_CLOCK_SOURCE] = INFP_COLUMN(vClockSource, STR, LABEL, none, MEASURED, NO, "sys/devices/system/clocksource/clocksource0/current_clocksource", 0, NULL, "What the kernel reads the time from (tsc, kvm-clock, hpet ...)."),
        [HOST_TIME_SYNCED] = INFP_COLUMN(vTimeSynced, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, "infprof_host_time_synced", "The wall clock is kept right by a daemon."),
        [HOST_TIME_OFFSET] = INFP_COLUMN(vTimeOffset, I64, GAUGE, ns, MEASURED, NO, NULL, 0, "infprof_host_time_offset_seconds", "Offset of the wall clock that is still being slewed away."),
        [HOST_TIME_MAX_ERROR] = INFP_COLUMN(vTimeMaxError, I64, GAUGE, us, MEASURED, NO, NULL, 0, "infprof_host_time_max_error_seconds", "Largest error of the wall clock as the kernel estimates it."),
        [HOST_CGROUP_MODE] = INFP_COLUMN(vCgroupMode, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Control groups: v1, v2 or hybrid."),
        [HOST_CGROUP_QUOTA] = INFP_COLUMN(vCgroupCpuQuota, F64, GAUGE, count, DERIVED, NO, NULL, 0, "infprof_host_cgroup_quota_cpus", "CPUs that the quota of infprof's own cgroup or a parent allows; absent without one."),
        [HOST_CGROUP_CPUS] = INFP_COLUMN(vCgroupCpusetCpus, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_host_cgroup_cpuset_cpus", "CPUs in the effective cpuset of infprof's own cgroup."),
        [HOST_CGROUP_MEMORY] = INFP_COLUMN(vCgroupMemoryLimit, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, "infprof_host_cgroup_memory_limit_bytes", "Smallest memory limit of infprof's own cgroup and its parents; absent without one."),
        [HOST_AFFINITY] = INFP_COLUMN(vAffinityCpus, I64, GAUGE, count, MEASURED, NO, NULL, 0, "infprof_host_affinity_cpus", "CPUs that infprof, and so what it starts, may run on."),
        [HOST_EFFECTIVE_CPUS] = INFP_COLUMN(vEffectiveCpus, F64, GAUGE, count, DERIVED, NO, NULL, 0, "infprof_host_effective_cpus", "CPUs that are available: online, in affinity and cpuset, within the quota."),
        [HOST_PAGE_SIZE] = INFP_COLUMN(vPageSize, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "Page size."),
        [HOST_TICKS] = INFP_COLUMN(vUserHz, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Ticks a second of the kernel's CPU times (USER_HZ)."),
        [HOST_GOVERNOR] = INFP_COLUMN(vCpuGovernor, STR, LABEL, none, MEASURED, NO, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", 0, NULL, "Frequency governor of the first CPU."),
        [HOST_MAX_MHZ] = INFP_COLUMN(vCpuMaxMhz, F64, GAUGE, mhz, MEASURED, NO, NULL, 0, "infprof_host_cpu_frequency_limit_hertz", "Highest frequency of the first CPU."),
        [HOST_SMT] = INFP_COLUMN(vCpuSmt, BOOL, GAUGE, none, MEASURED, NO, "sys/devices/system/cpu/smt/active", 0, NULL, "Several CPUs share a core (hyper-threading)."),
        [HOST_NUMA_NODES] = INFP_COLUMN(vNumaNodes, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "NUMA nodes that are online."),
        [HOST_THP] = INFP_COLUMN(vTransparentHugePages, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Transparent huge pages: always, madvise or never."),
        [HOST_SWAPPINESS] = INFP_COLUMN(vSwappiness, I64, GAUGE, none, MEASURED, NO, "proc/sys/vm/swappiness", 0, NULL, "How readily the kernel swaps instead of dropping page cache."),
        [HOST_BOOT_ID] = INFP_COLUMN(vBootId, STR, LABEL, none, MEASURED, NO, "proc/sys/kernel/random/boot_id", 0, NULL, "Identity of this start of the machine."),
};
// clang-format on

static const struct infp_table host_table = {
        .name = "host",
        .help = "What the machine is and how much of it may be used; a row at the start and at each change.",
        .columns = host_columns,
        .n_columns = HOST_N,
        .on_change = true,
        .section = "host",
};

struct host {
        struct infp_procfile stat;
        struct infp_fields mem_fields;
        bool has_row;
        uint64_t hash; /* of the row that was written last, without what moves by itself */
        int64_t boot_time;
        struct infp_cpus online, cached_for;
        struct infp_host_caches caches;
        struct infp_cgroups cgroups;
};

static int host_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct host *host = state;

        (void) err;
        /* Not kept open: it is read at the start, and when the wall clock was set. */
        host->stat = (struct infp_procfile){ .fd = -1, .reopen = true };
        infp_fields_init(&host->mem_fields, &host_table, "meminfo", "/proc/meminfo", 0);
        infp_cgroups_find(env, &host->cgroups);
        return 0;
}

static void explain_file(struct infp_emit *emit, unsigned cell, const char *path, int r)
{
        char reason[192];

        if (r < 0)
                snprintf(reason, sizeof(reason), "/%s: %s", path, strerror(-r));
        else
                snprintf(reason, sizeof(reason), "/%s does not say it", path);
        infp_emit_source(emit, &host_table, (int) cell, NULL, r < 0 ? infp_source_state_of(r) : INFP_ABSENT, reason,
                         NULL);
}

static void set_from_text(struct infp_row *row, unsigned cell, struct infp_span value)
{
        uint64_t v;

        switch (host_columns[cell].type) {
        case INFP_STR:
                if (value.size)
                        infp_row_bytes(row, cell, value.at, value.size);
                break;
        case INFP_BOOL:
                if (!infp_span_u64(value, &v) && v <= 1)
                        infp_row_bool(row, cell, v);
                break;
        default:
                if (!infp_span_u64(value, &v))
                        infp_row_raw(row, cell, v);
        }
}

/* Columns whose key is a path hold what that file says: adding one is one line of the table. */
static void set_from_files(const struct infp_env *env, struct infp_emit *emit)
{
        char text[1024];

        for (unsigned i = 0; i < HOST_N; i++) {
                const char *path = host_columns[i].key;
                ssize_t n;

                if (!path || !strchr(path, '/'))
                        continue;
                n = infp_read_at(env->root_fd, path, text, sizeof(text));
                if (n > 0)
                        set_from_text(&emit->row, i, infp_span_trim((struct infp_span){ text, (size_t) n }));
                if (!infp_row_has(&emit->row, i))
                        explain_file(emit, i, path, n < 0 ? (int) n : 0);
        }
}

/* /proc/stat says it, but of a machine with hundreds of cores it is long: read again only when the wall clock was set. */
static bool read_boot_time(struct host *host, const struct infp_env *env, int64_t *ret)
{
        struct infp_span text, line;

        if (infp_procfile_read(&host->stat, env->root_fd, "proc/stat") < 0)
                return false;
        text = infp_whole_words(infp_procfile_text(&host->stat));
        while (infp_span_line(&text, &line))
                if (infp_span_starts(line, "btime ")) {
                        infp_span_word(&line);
                        return !infp_span_i64(infp_span_word(&line), ret);
                }
        return false;
}

static bool is_near(int64_t a, int64_t b)
{
        return a - b <= 2 && b - a <= 2;
}

static void set_boot_time(struct host *host, const struct infp_env *env, struct infp_row *row)
{
        struct timespec real, boot;
        int64_t t = host->boot_time;

        if (host->has_row && env->is_live && !clock_gettime(CLOCK_REALTIME, &real) &&
            !clock_gettime(CLOCK_BOOTTIME, &boot) && is_near(real.tv_sec - boot.tv_sec, t)) {
                infp_row_i64(row, HOST_BOOT_TIME, t);
                return;
        }
        if (!read_boot_time(host, env, &t))
                return;
        /* It is computed from two clocks and wavers by a second. */
        host->boot_time = host->has_row && is_near(t, host->boot_time) ? host->boot_time : t;
        infp_row_i64(row, HOST_BOOT_TIME, host->boot_time);
}

static void set_memory(const struct host *host, const struct infp_env *env, struct infp_row *row)
{
        char text[8192];
        ssize_t n = infp_read_at(env->root_fd, "proc/meminfo", text, sizeof(text));
        struct infp_span all = infp_whole_words((struct infp_span){ text, n > 0 ? (size_t) n : 0 }), line;

        while (infp_span_line(&all, &line))
                infp_fields_named(&host->mem_fields, row, line);
}

static void set_cpus(struct host *host, const struct infp_env *env, struct infp_row *row)
{
        char text[64];
        uint64_t khz;

        if (infp_host_online(env, &host->stat, &host->online) < 0)
                host->online.n = 0;
        if (host->online.n) {
                infp_row_i64(row, HOST_PROCESSORS, host->online.n);
                if (memcmp(&host->online, &host->cached_for, sizeof(host->online)) != 0) {
                        infp_host_caches(env, &host->online, &host->caches);
                        host->cached_for = host->online;
                }
        }
        for (unsigned i = 0; i < INFP_CACHE_KINDS; i++)
                if (host->caches.is_known[i])
                        infp_row_raw(row, HOST_L1D + i, host->caches.bytes[i]);
        infp_host_cpu_type(env, row);
        infp_host_hypervisor(env, row);
        if (!infp_span_u64(
                    infp_host_read(env, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", text, sizeof(text)),
                    &khz) &&
            khz)
                infp_row_f64(row, HOST_MAX_MHZ, (double) khz / 1000);
}

/* What the row says, without the figures that move all the time. */
static uint64_t hash_of(const struct infp_row *row)
{
        uint64_t h = 0;
        size_t size;

        for (unsigned i = 0; i < HOST_N; i++) {
                if (!infp_row_has(row, i) || i == HOST_TIME_OFFSET || i == HOST_TIME_MAX_ERROR)
                        continue;
                h = infp_hash64(&i, sizeof(i), h);
                if (host_columns[i].type == INFP_STR) {
                        const char *text = infp_row_text(row, i, &size);

                        h = infp_hash64(text, size, h);
                } else if (host_columns[i].type == INFP_BOOL) {
                        h = infp_hash64(&row->cell[i].b, sizeof(row->cell[i].b), h);
                } else {
                        h = infp_hash64(&row->cell[i].i64, sizeof(row->cell[i].i64), h);
                }
        }
        return h;
}

static int host_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct host *host = state;
        struct infp_row *row = infp_emit_begin(emit, &host_table, env->now_ns(env));
        uint64_t hash;

        (void) err;
        set_from_files(env, emit);
        set_boot_time(host, env, row);
        set_cpus(host, env, row);
        set_memory(host, env, row);
        infp_host_facts(env, emit);
        infp_host_limits(env, emit, &host->online, &host->cgroups);
        hash = hash_of(row);
        if (host->has_row && hash == host->hash)
                return 0;
        host->has_row = true;
        host->hash = hash;
        infp_emit_commit(emit);
        return 0;
}

static void host_close(void *state)
{
        infp_procfile_done(&((struct host *) state)->stat);
}

static const struct infp_table *const host_tables[] = { &host_table, NULL };

const struct infp_collector infp_collector_host = {
        .name = "host",
        .help = "What the machine is: CPU, caches, memory, kernel, hypervisor, clock, limits.",
        .tables = host_tables,
        .floor_ms = 10000,
        .state_size = sizeof(struct host),
        .open = host_open,
        .sample = host_sample,
        .close = host_close,
};
