#include <errno.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include "base/fd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/number.h"
#include "collectors/host/host.h"

/* The first processor of /proc/cpuinfo fits; reading no more of it spares the kernel the others. */
enum { CPUINFO_HEAD = 8192 };

struct infp_span infp_host_read(const struct infp_env *env, const char *path, char *text, size_t cap)
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
        struct infp_span list = infp_host_read(env, "sys/devices/system/cpu/online", text, sizeof(text));

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
         infp_host_read(env, path, text, sizeof(text)))
        if (infp_span_u64(READ("level", level_text), &level))
                return false;
        kind = kind_of_cache(level, READ("type", type_text));
        if (kind < 0)
                return true;
        map = READ("shared_cpu_map", map_text);
        if (!map.size)
                map = READ("shared_cpu_list", map_text);
        /* Without a map it is taken for the core's own. */
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

void infp_host_caches(const struct infp_env *env, const struct infp_cpus *cpus, struct infp_host_caches *ret)
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

void infp_host_cpu_type(const struct infp_env *env, struct infp_row *row)
{
        /* x86 and RISC-V boards, MIPS, POWER, RISC-V; the last is what old ARM kernels say. */
        static const char *const names[] = { "model name", "cpu model", "cpu", "uarch", "Processor" };
        char text[CPUINFO_HEAD], arm[64];
        struct infp_span all = infp_host_read(env, "proc/cpuinfo", text, sizeof(text)), vendor, part;

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

/* What the hypervisor calls itself, asked by the instruction made for it. "" = no name. */
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

void infp_host_hypervisor(const struct infp_env *env, struct infp_row *row)
{
        static const char *const files[] = { "sys/hypervisor/type", "sys/class/dmi/id/sys_vendor",
                                             "proc/device-tree/hypervisor/compatible" };
        char text[CPUINFO_HEAD], file_text[256], said[13];
        struct infp_span flags = cpuinfo(infp_host_read(env, "proc/cpuinfo", text, sizeof(text)), "flags");
        bool has_flag = has_word(flags, "hypervisor");
        const char *name = NULL;

        /* An x86 CPU without the flag runs nobody's guest, whatever the board's maker (EC2 metal) or Xen's dom0 files say. */
        if (flags.size && !has_flag) {
                infp_row_str(row, HOST_HYPERVISOR, "none");
                return;
        }
        if (has_flag && env->is_live) {
                name_by_cpuid(said);
                name = friendly((struct infp_span){ said, strlen(said) });
        }
        for (size_t i = 0; !name && i < INFP_COUNT(files); i++) {
                struct infp_span value = infp_host_read(env, files[i], file_text, sizeof(file_text));

                name = value.size ? friendly(value) : NULL;
        }
        if (name || has_flag)
                infp_row_str(row, HOST_HYPERVISOR, name ? name : "unknown");
}
