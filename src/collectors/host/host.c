#include "collectors/host/host.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/number.h"
#include "collectors/allowed.h"
#include "collectors/fields.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

enum { INFP_CACHE_KINDS = HOST_L3 - HOST_L1D + 1 };

struct infp_host_caches {
        uint64_t bytes[INFP_CACHE_KINDS]; /* L1d, L1i, L2, L3 */
        bool is_known[INFP_CACHE_KINDS];
};

/* The first processor of /proc/cpuinfo fits; reading no more of it spares the kernel the others. */
enum { CPUINFO_HEAD = 8192 };

static struct infp_span read_file(const struct infp_env *env, const char *path, char *text, size_t cap)
{
        ssize_t n = infp_read_at(env->root_fd, path, text, cap);

        return n <= 0 ? (struct infp_span){ "", 0 } : infp_span_trim((struct infp_span){ text, (size_t) n });
}

/* Kernels without /sys, and fixture trees: the lines "cpuN" of /proc/stat. */
static int online_by_stat(const struct infp_env *env, struct infp_procfile *stat, struct infp_cpus *cpus)
{
        int r = infp_procfile_read(stat, env->root_fd, "proc/stat");
        struct infp_span text = infp_procfile_text(stat), line;
        uint64_t cpu;

        memset(cpus, 0, sizeof(*cpus));
        while (infp_span_line(&text, &line) && infp_span_starts(line, "cpu")) {
                struct infp_span word = infp_span_word(&line);

                word.at += 3;
                word.size -= 3;
                if (infp_span_u64(word, &cpu) || cpu >= INFP_CPUS_MAX || infp_cpus_has(cpus, (unsigned) cpu))
                        continue;
                cpus->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
                cpus->n++;
        }
        return r < 0 ? r : cpus->n ? 0 : -ENOENT;
}

int infp_host_online(const struct infp_env *env, struct infp_procfile *stat, struct infp_cpus *cpus)
{
        char text[1024];
        struct infp_span list = read_file(env, "sys/devices/system/cpu/online", text, sizeof(text));

        if (list.size && !infp_cpus_parse(cpus, list) && cpus->n)
                return 0;
        return online_by_stat(env, stat, cpus);
}

static int kind_of_cache(uint64_t level, struct infp_span type)
{
        switch (level) {
        case 1:
                return infp_span_is(type, "Instruction") ? 1 : 0;
        case 2:
        case 3:
                return (int) level;
        default:
                return -1;
        }
}

/* One cacheN/indexN directory. False when there is none. */
static bool add_cache(const struct infp_env *env, unsigned cpu, unsigned index, struct infp_map *seen,
                      struct infp_host_caches *ret)
{
        char path[96], level_text[16], type_text[32], map_text[4096], size_text[32];
        struct infp_span map;
        uint64_t level, bytes, id;
        int kind;

#define READ(file, text)                                                                               \
        (snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%u/cache/index%u/" file, cpu, index), \
         read_file(env, path, text, sizeof(text)))
        if (infp_span_u64(READ("level", level_text), &level))
                return false;
        kind = kind_of_cache(level, READ("type", type_text));
        if (kind < 0)
                return true;
        map = READ("shared_cpu_map", map_text);
        if (!map.size)
                map = READ("shared_cpu_list", map_text);
        /* Without a map it counts as the core's own. */
        id = infp_hash64(map.at, map.size, (uint64_t) kind + (map.size ? 0 : 16 * (cpu + 1)));
        if (infp_map_get(seen, id))
                return true;
        if (infp_map_put(seen, id, 1) < 0)
                return false;
        READ("size", size_text);
#undef READ
        size_text[strcspn(size_text, "\n")] = 0;
        if (infp_parse_size(size_text, &bytes) || !bytes)
                return true;
        ret->is_known[kind] = !__builtin_add_overflow(ret->bytes[kind], bytes, &ret->bytes[kind]);
        return true;
}

static void read_caches(const struct infp_env *env, const struct infp_cpus *cpus, struct infp_host_caches *ret)
{
        enum { MOST_INDEXES = 16 };
        struct infp_map seen = { 0 };

        *ret = (struct infp_host_caches){ 0 };
        for (unsigned cpu = 0; cpu < INFP_CPUS_MAX; cpu++) {
                unsigned index = 0;

                while (infp_cpus_has(cpus, cpu) && index < MOST_INDEXES && add_cache(env, cpu, index, &seen, ret))
                        index++;
        }
        infp_map_done(&seen);
}

/* The value of a line "name : value" of /proc/cpuinfo. */
static struct infp_span cpuinfo(struct infp_span text, const char *name)
{
        struct infp_span line, value;

        while (infp_span_line(&text, &line))
                if (infp_span_is(infp_span_trim(infp_span_cut(line, ':', &value)), name) && value.size)
                        return infp_span_trim(value);
        return (struct infp_span){ "", 0 };
}

static void put_cpu_type(const struct infp_env *env, struct infp_row *row)
{
        /* x86 and RISC-V boards, MIPS, POWER, RISC-V; the last is for old ARM kernels. */
        static const char *const names[] = { "model name", "cpu model", "cpu", "uarch", "Processor" };
        char text[CPUINFO_HEAD], arm[64];
        struct infp_span all = read_file(env, "proc/cpuinfo", text, sizeof(text)), vendor, part;

        for (size_t i = 0; i < INFP_COUNT(names); i++) {
                struct infp_span value = cpuinfo(all, names[i]);

                if (value.size) {
                        infp_row_bytes(row, HOST_CPU_TYPE, value.at, value.size);
                        return;
                }
        }
        /* 64-bit ARM names its cores by numbers only. */
        vendor = cpuinfo(all, "CPU implementer");
        part = cpuinfo(all, "CPU part");
        if (vendor.size && part.size) {
                int n = snprintf(arm, sizeof(arm), "ARM implementer %.*s part %.*s", (int) (vendor.size % 16),
                                 vendor.at, (int) (part.size % 16), part.at);

                infp_row_bytes(row, HOST_CPU_TYPE, arm, (size_t) n);
        }
}

static bool has_word(struct infp_span text, const char *word)
{
        while (text.size)
                if (infp_span_is(infp_span_word(&text), word))
                        return true;
        return false;
}

/* The hypervisor's name, by the instruction made for it. "" = no name. */
static void name_by_cpuid(char name[13])
{
        name[0] = 0;
#if defined(__x86_64__) || defined(__i386__)
        unsigned a, words[3];

        __cpuid(0x40000000u, a, words[0], words[1], words[2]);
        memcpy(name, words, 12);
        name[12] = 0;
#endif
}

static const char *friendly(struct infp_span said)
{
        static const struct {
                const char *starts, *name;
        } known[] = {
                { "KVMKVMKVM", "kvm" },
                { "Microsoft Hv", "hyperv" },
                { "VMwareVMware", "vmware" },
                { "XenVMMXenVMM", "xen" },
                { "TCGTCGTCGTCG", "qemu" },
                { "bhyve bhyve", "bhyve" },
                { "ACRNACRNACRN", "acrn" },
                { "QEMU", "qemu" },
                { "VMware", "vmware" },
                { "Microsoft", "hyperv" },
                { "Xen", "xen" },
                { "xen", "xen" },
                { "innotek", "virtualbox" },
                { "Parallels", "parallels" },
                { "Amazon EC2", "amazon" },
                { "Google", "google" },
                { "DigitalOcean", "digitalocean" },
                { "linux,kvm", "kvm" },
                { "Alibaba", "alibaba" },
                { "OpenStack", "openstack" },
        };

        for (size_t i = 0; i < INFP_COUNT(known); i++)
                if (infp_span_starts(said, known[i].starts))
                        return known[i].name;
        return NULL;
}

static void put_hypervisor(const struct infp_env *env, struct infp_row *row)
{
        static const char *const files[] = { "sys/hypervisor/type", "sys/class/dmi/id/sys_vendor",
                                             "proc/device-tree/hypervisor/compatible" };
        char text[CPUINFO_HEAD], file_text[256], said[13];
        struct infp_span flags = cpuinfo(read_file(env, "proc/cpuinfo", text, sizeof(text)), "flags");
        bool has_flag = has_word(flags, "hypervisor");
        const char *name = NULL;

        /* An x86 CPU without the flag is no guest, whatever the board's maker (EC2 metal) or Xen's dom0 files say. */
        if (flags.size && !has_flag) {
                infp_row_str(row, HOST_HYPERVISOR, "none");
                return;
        }
        if (has_flag && env->is_live) {
                name_by_cpuid(said);
                name = friendly((struct infp_span){ said, strlen(said) });
        }
        for (size_t i = 0; !name && i < INFP_COUNT(files); i++) {
                struct infp_span value = read_file(env, files[i], file_text, sizeof(file_text));

                name = value.size ? friendly(value) : NULL;
        }
        if (name || has_flag)
                infp_row_str(row, HOST_HYPERVISOR, name ? name : "unknown");
}

/* Names, versions and settings of the machine, each from a small file or a system call of its own. */

static void set_id(const struct infp_env *env, struct infp_row *row)
{
        static const char *const paths[] = { "sys/class/dmi/id/product_uuid", "etc/machine-id" };
        char text[128];

        for (size_t i = 0; i < INFP_COUNT(paths); i++) {
                struct infp_span value = read_file(env, paths[i], text, sizeof(text));
                size_t n = value.size;

                /* Boards whose maker forgot it have all 0 or all F. */
                while (n && strchr("0Ff-", value.at[n - 1]))
                        n--;
                if (n && !memchr(value.at, '\n', value.size)) {
                        infp_row_bytes(row, HOST_ID, value.at, value.size);
                        return;
                }
        }
        infp_row_str(row, HOST_ID, "unavailable");
}

static void set_kernel(const struct infp_env *env, struct infp_row *row)
{
        static const char *const parts[] = { "ostype", "osrelease", "version", "arch" };
        char path[64], text[1024], all[2048];
        size_t n = 0;
        struct utsname name;

        /* The file exists since Linux 6.1. */
        if (!infp_row_has(row, HOST_ARCHITECTURE) && env->is_live && !uname(&name))
                infp_row_str(row, HOST_ARCHITECTURE, name.machine);
        for (size_t i = 0; i < INFP_COUNT(parts); i++) {
                struct infp_span value;

                snprintf(path, sizeof(path), "proc/sys/kernel/%s", parts[i]);
                value = read_file(env, path, text, sizeof(text));
                if (!value.size && i == 3 && infp_row_has(row, HOST_ARCHITECTURE))
                        value.at = infp_row_text(row, HOST_ARCHITECTURE, &value.size);
                if (!value.size || n + value.size + 1 > sizeof(all))
                        continue;
                if (n)
                        all[n++] = ' ';
                memcpy(all + n, value.at, value.size);
                n += value.size;
        }
        if (n)
                infp_row_bytes(row, HOST_KERNEL_INFO, all, n);
}

/* The word in brackets of "always [madvise] never". */
static void set_thp(const struct infp_env *env, struct infp_row *row)
{
        char text[128];
        struct infp_span all = read_file(env, "sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text)), word;

        while ((word = infp_span_word(&all)).size)
                if (word.size > 2 && word.at[0] == '[' && word.at[word.size - 1] == ']')
                        infp_row_bytes(row, HOST_THP, word.at + 1, word.size - 2);
}

static void set_os(const struct infp_env *env, struct infp_row *row)
{
        char text[4096];
        struct infp_span all = read_file(env, "etc/os-release", text, sizeof(text)), line, value;

        while (infp_span_line(&all, &line)) {
                if (!infp_span_starts(line, "PRETTY_NAME="))
                        continue;
                infp_span_cut(line, '=', &value);
                while (value.size && strchr("\"'", value.at[0]))
                        value.at++, value.size--;
                while (value.size && strchr("\"'", value.at[value.size - 1]))
                        value.size--;
                if (value.size)
                        infp_row_bytes(row, HOST_OS, value.at, value.size);
        }
}

static void set_machine(const struct infp_env *env, struct infp_row *row)
{
        char vendor[128], product[128], both[260];
        struct infp_span v = read_file(env, "sys/class/dmi/id/sys_vendor", vendor, sizeof(vendor));
        struct infp_span p = read_file(env, "sys/class/dmi/id/product_name", product, sizeof(product));
        int n = snprintf(both, sizeof(both), "%.*s%s%.*s", (int) v.size, v.at, v.size && p.size ? " " : "",
                         (int) p.size, p.at);

        if (n > 0)
                infp_row_bytes(row, HOST_MACHINE, both, (size_t) n);
}

static void set_settings(const struct infp_env *env, struct infp_row *row)
{
        struct infp_cpus nodes;
        char text[256];

        set_thp(env, row);
        set_os(env, row);
        set_machine(env, row);
        if (!infp_cpus_parse(&nodes, read_file(env, "sys/devices/system/node/online", text, sizeof(text))) && nodes.n)
                infp_row_i64(row, HOST_NUMA_NODES, nodes.n);
        /* Assumed for the files of another machine. */
        if (env->is_live) {
                infp_row_i64(row, HOST_PAGE_SIZE, env->page_size);
                infp_row_i64(row, HOST_TICKS, env->ticks_per_s);
        }
}

static void no_time(struct infp_emit *emit, int r, const char *reason)
{
        for (unsigned cell = HOST_TIME_SYNCED; cell <= HOST_TIME_MAX_ERROR; cell++)
                infp_emit_source(emit, emit->row.table, (int) cell, NULL, r < 0 ? infp_source_state_of(r) : INFP_ABSENT,
                                 reason, NULL);
}

/* Only the running kernel can be asked, by a system call that a sandbox may refuse. */
static void set_time_sync(const struct infp_env *env, struct infp_emit *emit)
{
        struct timex t = { 0 };
        int state;

        if (!env->is_live) {
                no_time(emit, 0, "available only on the running machine");
                return;
        }
        state = adjtimex(&t);
        if (state < 0) {
                no_time(emit, -errno, "the kernel refuses adjtimex");
                return;
        }
        infp_row_bool(&emit->row, HOST_TIME_SYNCED, state != TIME_ERROR && !(t.status & STA_UNSYNC));
        infp_row_i64(&emit->row, HOST_TIME_OFFSET, t.status & STA_NANO ? t.offset : t.offset * 1000);
        infp_row_i64(&emit->row, HOST_TIME_MAX_ERROR, t.maxerror);
}

static void put_facts(const struct infp_env *env, struct infp_emit *emit)
{
        set_id(env, &emit->row);
        set_kernel(env, &emit->row);
        set_settings(env, &emit->row);
        set_time_sync(env, emit);
}

/* How much of the machine infprof itself may use; the collector `limits` has it for the target. */

static void none(struct infp_emit *emit, unsigned cell, const char *reason)
{
        infp_emit_source(emit, emit->row.table, (int) cell, NULL, INFP_ABSENT, reason, NULL);
}

static void put_limits(const struct infp_env *env, struct infp_emit *emit, const struct infp_cpus *online,
                       const struct infp_cgroups *cgroups)
{
        struct infp_allowed ours;
        struct infp_cpus allowed = { .n = 0 }, cpuset;
        struct infp_row *row = &emit->row;
        const bool has_allowed = infp_allowed_affinity(env, 0, &allowed);
        bool has_cpuset;
        uint64_t memory;
        double quota, cpus;

        infp_allowed_find(env, cgroups, 0, &ours);
        has_cpuset = infp_allowed_cpuset(env, &ours, &cpuset);
        quota = infp_allowed_quota(env, &ours);
        memory = infp_allowed_memory(env, &ours);
        if (ours.mode)
                infp_row_str(row, HOST_CGROUP_MODE, ours.mode);
        if (quota > 0)
                infp_row_f64(row, HOST_CGROUP_QUOTA, quota);
        else if (ours.mode)
                none(emit, HOST_CGROUP_QUOTA, "no quota is set");
        if (memory)
                infp_row_raw(row, HOST_CGROUP_MEMORY, memory);
        else if (ours.mode)
                none(emit, HOST_CGROUP_MEMORY, "no limit is set");
        if (has_cpuset)
                infp_row_i64(row, HOST_CGROUP_CPUS, cpuset.n);
        if (has_allowed)
                infp_row_i64(row, HOST_AFFINITY, allowed.n);
        cpus = infp_allowed_cpus(online, has_allowed ? &allowed : NULL, has_cpuset ? &cpuset : NULL, quota);
        if (cpus > 0)
                infp_row_f64(row, HOST_EFFECTIVE_CPUS, cpus);
}

/* What this machine is: one row at the start and one whenever it changes (a core goes offline, a limit is set, the clock is
 * adjusted). `static_<uuid>.json` is made from the same row. */

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
        [HOST_MACHINE] = INFP_COLUMN(vMachine, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Maker and product, as the firmware reports."),
        [HOST_HYPERVISOR] = INFP_COLUMN(vHypervisor, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Hypervisor below this machine; none on bare metal, unknown for one without a known name."),
        [HOST_CLOCK_SOURCE] = INFP_COLUMN(vClockSource, STR, LABEL, none, MEASURED, NO, "sys/devices/system/clocksource/clocksource0/current_clocksource", 0, NULL, "What the kernel reads the time from (tsc, kvm-clock, hpet ...)."),
        [HOST_TIME_SYNCED] = INFP_COLUMN(vTimeSynced, BOOL, GAUGE, none, MEASURED, NO, NULL, 0, "infprof_host_time_synced", "A daemon keeps the wall clock synchronised."),
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
        uint64_t hash; /* of the last row, without values that move by themselves */
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
                snprintf(reason, sizeof(reason), "/%s does not report it", path);
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

/* A column whose key is a path is filled from that file: adding one is one line of the table. */
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

/* /proc/stat has it, but is long on machines with hundreds of cores: read again only when the wall clock was set. */
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
        /* It is computed from two clocks and varies by a second. */
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
                        read_caches(env, &host->online, &host->caches);
                        host->cached_for = host->online;
                }
        }
        for (unsigned i = 0; i < INFP_CACHE_KINDS; i++)
                if (host->caches.is_known[i])
                        infp_row_raw(row, HOST_L1D + i, host->caches.bytes[i]);
        put_cpu_type(env, row);
        put_hypervisor(env, row);
        if (!infp_span_u64(read_file(env, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", text, sizeof(text)),
                           &khz) &&
            khz)
                infp_row_f64(row, HOST_MAX_MHZ, (double) khz / 1000);
}

/* The row without the figures that move all the time. */
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
        put_facts(env, emit);
        put_limits(env, emit, &host->online, &host->cgroups);
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
