#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "collectors/container/state.h"
#include "collectors/fields.h"

/* The files of a container: where they are, and whether they must be read again. */

static const struct file_names {
        const char *v2, *v1, *v1_else; /* NULL: that version has no such file */
        enum infp_controller v2_at, v1_at;
} files[FILE_N] = {
        [FILE_CPU_STAT] = { "cpu.stat", "cpu.stat", NULL, INFP_CG_CPU, INFP_CG_CPU },
        [FILE_CPU_USAGE] = { NULL, "cpuacct.usage", NULL, INFP_CG_CPUACCT, INFP_CG_CPUACCT },
        [FILE_CPU_USER] = { NULL, "cpuacct.usage_user", NULL, INFP_CG_CPUACCT, INFP_CG_CPUACCT },
        [FILE_CPU_SYSTEM] = { NULL, "cpuacct.usage_sys", NULL, INFP_CG_CPUACCT, INFP_CG_CPUACCT },
        [FILE_CPU_TICKS] = { NULL, "cpuacct.stat", NULL, INFP_CG_CPUACCT, INFP_CG_CPUACCT },
        [FILE_CPU_EACH] = { NULL, "cpuacct.usage_percpu", NULL, INFP_CG_CPUACCT, INFP_CG_CPUACCT },
        [FILE_MEMORY] = { "memory.current", "memory.usage_in_bytes", NULL, INFP_CG_MEMORY, INFP_CG_MEMORY },
        [FILE_MEMORY_PEAK] = { "memory.peak", "memory.max_usage_in_bytes", NULL, INFP_CG_MEMORY, INFP_CG_MEMORY },
        [FILE_MEMORY_STAT] = { "memory.stat", "memory.stat", NULL, INFP_CG_MEMORY, INFP_CG_MEMORY },
        [FILE_MEMORY_EVENTS] = { "memory.events", "memory.oom_control", NULL, INFP_CG_MEMORY, INFP_CG_MEMORY },
        [FILE_MEMORY_FAILS] = { NULL, "memory.failcnt", NULL, INFP_CG_MEMORY, INFP_CG_MEMORY },
        [FILE_MEMORY_KERNEL] = { NULL, "memory.kmem.usage_in_bytes", NULL, INFP_CG_MEMORY, INFP_CG_MEMORY },
        [FILE_SWAP] = { "memory.swap.current", NULL, NULL, INFP_CG_MEMORY, INFP_CG_MEMORY },
        [FILE_IO] = { "io.stat", "blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes",
                      INFP_CG_IO, INFP_CG_IO },
        [FILE_IO_CALLS] = { NULL, "blkio.throttle.io_serviced_recursive", "blkio.throttle.io_serviced", INFP_CG_IO,
                            INFP_CG_IO },
        [FILE_PIDS] = { "pids.current", "pids.current", NULL, INFP_CG_PIDS, INFP_CG_PIDS },
        [FILE_PIDS_EVENTS] = { "pids.events", "pids.events", NULL, INFP_CG_PIDS, INFP_CG_PIDS },
        /* PSI belongs to the unified hierarchy, even where the controllers are in v1. */
        [FILE_PSI_CPU] = { "cpu.pressure", "cpu.pressure", NULL, INFP_CG_UNIFIED, INFP_CG_UNIFIED },
        [FILE_PSI_MEMORY] = { "memory.pressure", "memory.pressure", NULL, INFP_CG_UNIFIED, INFP_CG_UNIFIED },
        [FILE_PSI_IO] = { "io.pressure", "io.pressure", NULL, INFP_CG_UNIFIED, INFP_CG_UNIFIED },
        [FILE_PSI_IRQ] = { "irq.pressure", "irq.pressure", NULL, INFP_CG_UNIFIED, INFP_CG_UNIFIED },
};

enum infp_controller container_controller(const struct container *c, enum container_file file)
{
        return c->version == 2 ? files[file].v2_at : files[file].v1_at;
}

const char *container_file_name(const struct container *c, enum container_file file)
{
        enum infp_controller at = container_controller(c, file);

        /* Hybrid: one controller may be in the other version. */
        return c->dir[at] && c->is_v2[at] ? files[file].v2 : files[file].v1;
}

static int open_file(const struct infp_env *env, struct container *c, enum container_file file, bool second)
{
        enum infp_controller at = container_controller(c, file);
        const char *name = second ? files[file].v1_else : container_file_name(c, file);
        char path[INFP_CGROUP_PATH + 64];

        if (!name)
                return WHY_OTHER_VERSION;
        if (!c->dir[at])
                return c->why[at];
        snprintf(path, sizeof(path), "%s/%s", c->dir[at], name);
        c->fd[file] = openat(env->root_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        c->is_scarce[file] = c->fd[file] >= 0 && infp_fd_is_scarce(c->fd[file]);
        if (c->fd[file] >= 0)
                return 0;
        return errno == ENOENT && !second && files[file].v1_else && !c->is_v2[at] ? open_file(env, c, file, true)
                                                                                  : -errno;
}

/* The kernel writes these files by one call each: a read that leaves room and ends a line has all of it. That spares the read
 * that would only show the end, half of them. */
static ssize_t read_whole(int fd, char *text, size_t cap)
{
        size_t size = 0;

        while (size + 1 < cap) {
                ssize_t n = pread(fd, text + size, cap - 1 - size, (off_t) size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t) n;
                if (text[size - 1] == '\n')
                        break;
        }
        text[size] = 0;
        return (ssize_t) size;
}

/* In v1 each figure is a file of its own, and reading them is what this collector costs. A file that changes only while a
 * process of the container runs is not read again while its CPU time stands still: most containers are idle most of the time.
 * A look at the limits has all read again. The number of tasks and the memory are always read: tasks that move in need not
 * run, and others take memory from it. */
static bool is_still(const struct container *c, enum container_file file)
{
        if (file == FILE_CPU_USAGE)
                return c->has_usage;
        if (!c->has_usage || !c->n_still || c->is_all_read)
                return false;
        switch (file) {
        case FILE_CPU_USER:
        case FILE_CPU_SYSTEM:
        case FILE_CPU_TICKS:
        case FILE_CPU_EACH:
        case FILE_MEMORY_EVENTS: /* the end of a killed process takes CPU time */
        case FILE_PIDS_EVENTS:
                return true;
        case FILE_MEMORY_FAILS: /* others charge it as well, but nothing fails without a limit */
                return !c->limits.memory && !c->limits.r_memory;
        case FILE_IO: /* what it wrote to a loop device or a volume may reach the disk while it sleeps */
        case FILE_IO_CALLS:
                return c->n_still > 2;
        case FILE_MEMORY_PEAK:
        case FILE_MEMORY_STAT: /* the most expensive file: the kernel adds up what all CPUs have counted */
        case FILE_MEMORY_KERNEL:
                return c->n_same_memory > 2;
        case FILE_CPU_STAT: /* periods and throttling; they continue for a while after it has run */
                return !c->limits.quota_us && !c->limits.r_cpu;
        default:
                return false;
        }
}

static void keep(struct container_text *kept, const char *text, size_t size)
{
        if (size > kept->cap) {
                free(kept->at);
                kept->at = malloc(size);
                kept->cap = kept->at ? size : 0;
        }
        kept->size = kept->at ? size : 0;
        if (kept->size)
                memcpy(kept->at, text, size);
}

static bool is_worth_keeping(enum container_file file)
{
        switch (file) {
        case FILE_SWAP:
                return false;
        default:
                return file < FILE_PSI_CPU;
        }
}

static void count_same_memory(struct container *c, const char *text, size_t size)
{
        const struct container_text *before = &c->kept[FILE_MEMORY];

        if (size && before->size == size && memcmp(before->at, text, size) == 0)
                c->n_same_memory++;
        else
                c->n_same_memory = 0;
}

static void see_whether_it_ran(struct containers *s, const struct infp_env *env, struct container *c)
{
        struct infp_span text, line = { "", 0 };
        uint64_t usage_ns;
        bool had_usage = c->has_usage;

        c->has_usage = false;
        if (c->version != 1 || !env->is_live || container_read_file(s, env, c, FILE_CPU_USAGE, &text) < 0 ||
            !infp_span_line(&text, &line) || infp_span_u64(line, &usage_ns))
                return;
        c->n_still = had_usage && usage_ns == c->usage_ns ? c->n_still + 1 : 0;
        c->usage_ns = usage_ns;
        c->has_usage = true;
}

int container_read_file(struct containers *s, const struct infp_env *env, struct container *c, enum container_file file,
                        struct infp_span *ret)
{
        ssize_t n = 0;
        int r = 0;

        *ret = (struct infp_span){ "", 0 };
        if (c->is_hopeless[file])
                return c->r[file];
        if (c->kept[file].size && is_still(c, file)) {
                *ret = (struct infp_span){ c->kept[file].at, c->kept[file].size };
                return file != FILE_CPU_USAGE; /* which was read within this sample */
        }
        if (c->fd[file] < 0)
                r = open_file(env, c, file, false);
        if (!r) {
                n = read_whole(c->fd[file], s->text, sizeof(s->text));
                r = n < 0 ? (int) n : 0;
        }
        if (c->fd[file] >= 0 && (r || !env->is_live || c->is_scarce[file]))
                c->fd[file] = infp_close(c->fd[file]);
        if (r == -ENODEV) /* the error of a file of a removed cgroup */
                c->is_gone = true;
        c->is_hopeless[file] = r && r != -ENODEV && r != -EMFILE && r != -ENFILE;
        c->r[file] = r;
        if (!r)
                *ret = (struct infp_span){ s->text, (size_t) n };
        if (file == FILE_MEMORY)
                count_same_memory(c, s->text, r ? 0 : (size_t) n);
        if (env->is_live && !c->is_v2[container_controller(c, file)] && is_worth_keeping(file))
                keep(&c->kept[file], s->text, r ? 0 : (size_t) n);
        return r;
}

/* The network of a container: /proc/PID/net/dev of one of its processes. An open file of /proc/PID/net would keep the
 * namespace alive, and with it the interfaces of a removed container: it is opened each time. The directory of the process is
 * kept: it fails once the process has ended, even if another process has its pid now. */

/* The number in "net:[4026531833]" (or another kind), the text of the link; trees without links have it in a file. 0: not
 * available, errno. */
static uint64_t net_of(const struct infp_env *env, int dir_fd, const char *path)
{
        char text[64];
        ssize_t n = readlinkat(dir_fd, path, text, sizeof(text) - 1);
        struct infp_span rest = { "", 0 };
        uint64_t ret = 0;

        if (n < 0 && errno == EINVAL && !env->is_live)
                n = infp_read_at(dir_fd, path, text, sizeof(text));
        if (n <= 0)
                return 0;
        infp_span_cut((struct infp_span){ text, (size_t) n }, '[', &rest);
        return infp_span_u64(infp_span_cut(rest, ']', &rest), &ret) ? 0 : ret;
}

/* Physical cards have a device, a virtual machine's as well; interfaces that a runtime makes for a container have none. By
 * the names that /proc shows, since /sys may have been mounted in another namespace. False also when nothing is known. */
static bool is_without_hardware(struct containers *s, const struct infp_env *env)
{
        ssize_t n = infp_read_at(env->root_fd, "proc/self/net/dev", s->text, sizeof(s->text));
        struct infp_span text = { s->text, n > 0 ? (size_t) n : 0 }, line, rest;
        unsigned n_names = 0;
        char path[64];

        while (infp_span_line(&text, &line)) {
                struct infp_span name = infp_span_trim(infp_span_cut_last(line, ':', &rest));

                if (!name.size || name.size == line.size || name.size > 32)
                        continue; /* the heading */
                n_names++;
                snprintf(path, sizeof(path), "sys/class/net/%.*s/device", (int) name.size, name.at);
                if (faccessat(env->root_fd, path, F_OK, 0) == 0)
                        return false;
        }
        return n_names > 0;
}

/* Inside a container process 1 is the container's: what looks like the machine's namespace is its own, unless it was given
 * the machine's, whose interfaces it then sees. For cgroups below the container's it is shared by all. */
static bool is_own_of_our_container(struct containers *s, const struct infp_env *env, const struct container *c)
{
        static const uint64_t pids_of_machine = 0xeffffffc; /* the kernel's PROC_PID_INIT_INO */
        const uint64_t pids = net_of(env, env->root_fd, "proc/self/ns/pid");
        const bool is_ours = !strcmp(c->path, "/") || (c->has_infprof && strncmp(c->cid, "in-", 3) != 0);

        return is_ours && pids && pids != pids_of_machine && is_without_hardware(s, env);
}

/* Looked up once a sample, when needed. */
static uint64_t net_of_machine(struct containers *s, const struct infp_env *env)
{
        if (s->net_of_machine && s->net_of_machine_ns == s->now_ns)
                return s->net_of_machine;
        s->net_of_machine_ns = s->now_ns;
        s->net_of_machine = net_of(env, env->root_fd, "proc/1/ns/net");
        if (!s->net_of_machine)
                s->net_of_machine = net_of(env, env->root_fd, "proc/self/ns/net");
        return s->net_of_machine;
}

void container_find_network(struct containers *s, const struct infp_env *env, struct container *c)
{
        char path[32];
        uint64_t net;

        c->network = NETWORK_NO_MEMBER;
        if (!c->pid)
                return;
        snprintf(path, sizeof(path), "proc/%d", (int) c->pid);
        c->pid_fd = openat(env->root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->pid_fd < 0)
                return;
        net = net_of(env, c->pid_fd, "ns/net");
        if (!net)
                c->network = errno == EACCES || errno == EPERM ? NETWORK_DENIED : NETWORK_UNKNOWN;
        else
                c->network = net == net_of_machine(s, env) && !is_own_of_our_container(s, env, c) ? NETWORK_HOST
                                                                                                  : NETWORK_OWN;
}

/* "  eth0: 1 2 3 ...", after the last colon, since names may contain one: bytes and packets are words 0, 1 (received) and 8,
 * 9 (sent). */
static bool add_line(struct infp_span line, uint64_t sums[4])
{
        static const unsigned at[] = { 0, 1, 8, 9 };
        struct infp_span rest = { "", 0 }, name = infp_span_trim(infp_span_cut_last(line, ':', &rest)), words[16];
        size_t n = infp_span_words(rest, words, 16);
        uint64_t v;

        if (!n || !name.size || infp_span_is(name, "lo"))
                return true;
        for (unsigned i = 0; i < 4; i++)
                if (n < 16 || infp_span_u64(words[at[i]], &v) || __builtin_add_overflow(sums[i], v, &sums[i]))
                        return false;
        return true;
}

static void put_network(struct containers *s, const struct infp_env *env, struct container *c, struct infp_row *row)
{
        static const unsigned cells[] = { C_NET_RECEIVED, C_NET_PACKETS_RECEIVED, C_NET_SENT, C_NET_PACKETS_SENT };
        struct infp_span text, line;
        uint64_t sums[4] = { 0 };
        ssize_t n;

        (void) env;
        if (c->network != NETWORK_OWN || c->pid_fd < 0)
                return;
        n = infp_read_at(c->pid_fd, "net/dev", s->text, sizeof(s->text));
        if (n < 0) { /* the process has ended: another one is looked for at once */
                c->procs_ns = 0;
                return;
        }
        text = (struct infp_span){ s->text, (size_t) n };
        if (!text.size || text.at[text.size - 1] != '\n')
                return; /* half of it: a sum without the rest would look like one that fell */
        while (infp_span_line(&text, &line))
                if (!add_line(line, sums))
                        return;
        for (unsigned i = 0; i < 4; i++)
                infp_row_raw(row, cells[i], sums[i]);
}

/* The figures in a container's files. A partial file gives what it has; a missing one leaves its cells empty. */

enum { V1 = 1, V2 = 2, BOTH = V1 | V2, TICKS = 0 };

/* A number of a file: after `name` at the start of a line, or the whole text. times / by: to the cell's unit; by TICKS: ticks
 * of USER_HZ to cs. In v1's memory.stat the lines total_... come later and win: they include the cgroups below, as
 * memory.usage_in_bytes does. */
static const struct pick {
        enum container_file file;
        uint8_t versions, cell;
        const char *name;
        uint32_t times, by;
} picks[] = {
        { FILE_CPU_STAT, V2, C_CPU_TIME, "usage_usec", 1000, 1 },
        { FILE_CPU_STAT, V2, C_CPU_USER, "user_usec", 1, 10000 },
        { FILE_CPU_STAT, V2, C_CPU_USER_NS, "user_usec", 1000, 1 },
        { FILE_CPU_STAT, V2, C_CPU_KERNEL, "system_usec", 1, 10000 },
        { FILE_CPU_STAT, V2, C_CPU_KERNEL_NS, "system_usec", 1000, 1 },
        { FILE_CPU_STAT, BOTH, C_PERIODS, "nr_periods", 1, 1 },
        { FILE_CPU_STAT, BOTH, C_THROTTLED, "nr_throttled", 1, 1 },
        { FILE_CPU_STAT, V2, C_THROTTLED_NS, "throttled_usec", 1000, 1 },
        { FILE_CPU_STAT, V1, C_THROTTLED_NS, "throttled_time", 1, 1 },
        { FILE_CPU_USAGE, V1, C_CPU_TIME, NULL, 1, 1 },
        { FILE_CPU_USER, V1, C_CPU_USER_NS, NULL, 1, 1 },
        { FILE_CPU_SYSTEM, V1, C_CPU_KERNEL_NS, NULL, 1, 1 },
        { FILE_CPU_TICKS, V1, C_CPU_USER, "user", 1, TICKS },
        { FILE_CPU_TICKS, V1, C_CPU_KERNEL, "system", 1, TICKS },
        { FILE_MEMORY, BOTH, C_MEMORY_USED, NULL, 1, 1 },
        { FILE_MEMORY_PEAK, BOTH, C_MEMORY_PEAK, NULL, 1, 1 },
        { FILE_MEMORY_STAT, V2, C_MEMORY_ANON, "anon", 1, 1 },
        { FILE_MEMORY_STAT, V2, C_MEMORY_FILE, "file", 1, 1 },
        { FILE_MEMORY_STAT, V2, C_MEMORY_KERNEL, "kernel", 1, 1 },
        { FILE_MEMORY_STAT, BOTH, C_MEMORY_SHMEM, "shmem", 1, 1 },
        { FILE_MEMORY_STAT, BOTH, C_MEMORY_INACTIVE_FILE, "inactive_file", 1, 1 },
        { FILE_MEMORY_STAT, BOTH, C_MAJOR_FAULTS, "pgmajfault", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_ANON, "rss", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_FILE, "cache", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_SWAP_USED, "swap", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_ANON, "total_rss", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_FILE, "total_cache", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_SHMEM, "total_shmem", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MEMORY_INACTIVE_FILE, "total_inactive_file", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_MAJOR_FAULTS, "total_pgmajfault", 1, 1 },
        { FILE_MEMORY_STAT, V1, C_SWAP_USED, "total_swap", 1, 1 },
        { FILE_MEMORY_EVENTS, V2, C_MEMORY_HIGH_HITS, "high", 1, 1 },
        { FILE_MEMORY_EVENTS, V2, C_MEMORY_LIMIT_HITS, "max", 1, 1 },
        { FILE_MEMORY_EVENTS, BOTH, C_OOM_KILLS, "oom_kill", 1, 1 },
        { FILE_MEMORY_FAILS, V1, C_MEMORY_LIMIT_HITS, NULL, 1, 1 },
        { FILE_MEMORY_KERNEL, V1, C_MEMORY_KERNEL, NULL, 1, 1 },
        { FILE_SWAP, V2, C_SWAP_USED, NULL, 1, 1 },
        { FILE_PIDS, BOTH, C_PIDS, NULL, 1, 1 },
        { FILE_PIDS_EVENTS, BOTH, C_PIDS_LIMIT_HITS, "max", 1, 1 },
};

static const struct {
        enum container_file file;
        uint8_t some, full; /* cells; 0: none */
} pressures[] = {
        { FILE_PSI_CPU, C_CPU_SOME, C_CPU_FULL },
        { FILE_PSI_MEMORY, C_MEMORY_SOME, C_MEMORY_FULL },
        { FILE_PSI_IO, C_IO_SOME, C_IO_FULL },
        { FILE_PSI_IRQ, 0, C_IRQ_FULL },
};

static void set(const struct infp_env *env, struct infp_row *row, const struct pick *pick, struct infp_span word)
{
        uint64_t v;

        if (infp_span_u64(word, &v))
                return;
        if (pick->by == TICKS) {
                if (!__builtin_mul_overflow(v, 100u, &v))
                        infp_row_raw(row, pick->cell, v / env->ticks_per_s);
        } else if (!__builtin_mul_overflow(v, pick->times, &v)) {
                infp_row_raw(row, pick->cell, v / pick->by);
        }
}

static uint8_t version_bit(const struct container *c, enum container_file file)
{
        return c->is_v2[container_controller(c, file)] ? V2 : V1;
}

/* Those of one file are adjacent. */
static void picks_of(enum container_file file, size_t *ret_from, size_t *ret_to)
{
        size_t i = 0;

        while (i < INFP_COUNT(picks) && picks[i].file != file)
                i++;
        *ret_from = i;
        while (i < INFP_COUNT(picks) && picks[i].file == file)
                i++;
        *ret_to = i;
}

static void pick_line(const struct infp_env *env, struct infp_row *row, const struct pick *from, const struct pick *to,
                      uint8_t version, struct infp_span line)
{
        struct infp_span name = infp_span_word(&line);

        for (const struct pick *p = from; p < to; p++) {
                struct infp_span rest = line;

                /* The first letter spares most of the comparisons: memory.stat has sixty lines. */
                if (p->name && name.size && p->name[0] == name.at[0] && p->versions & version &&
                    infp_span_is(name, p->name))
                        set(env, row, p, infp_span_word(&rest));
        }
}

/* The values of the sample before: most containers are idle most of the time, and their texts need not be parsed again. */
static void pick_again(const struct container *c, struct infp_row *row, const struct pick *from, const struct pick *to)
{
        for (const struct pick *p = from; p < to; p++)
                if (c->last_valid[p->cell / 64] >> p->cell % 64 & 1)
                        infp_row_raw(row, p->cell, c->last[p->cell].u64);
}

static void keep_cells(struct container *c, const struct infp_row *row)
{
        c->last_valid[0] = row->valid[0];
        c->last_valid[1] = row->valid[1];
        memcpy(c->last, row->cell, sizeof(c->last));
}

static void read_picks(struct containers *s, const struct infp_env *env, struct container *c, enum container_file file,
                       struct infp_row *row)
{
        static const char limit[] = "hierarchical_memory_limit ";
        struct infp_span text, line;
        uint8_t version = version_bit(c, file);
        size_t from, to;
        int r = container_read_file(s, env, c, file, &text);

        if (r < 0)
                return;
        picks_of(file, &from, &to);
        if (r > 0) {
                pick_again(c, row, picks + from, picks + to);
                return;
        }
        text = infp_whole_words(text); /* the last number of a cut text may be the start of another */
        if (from < to && !picks[from].name) {
                if (infp_span_line(&text, &line))
                        for (; from < to; from++)
                                set(env, row, &picks[from], infp_span_word(&(struct infp_span){ line.at, line.size }));
                return;
        }
        while (infp_span_line(&text, &line)) {
                if (file == FILE_MEMORY_STAT && line.size && line.at[0] == 'h' && infp_span_starts(line, limit)) {
                        infp_span_word(&line);
                        c->limits.memory_hierarchy = infp_cgroup_limit(infp_span_word(&line));
                        continue;
                }
                pick_line(env, row, picks + from, picks + to, version, line);
        }
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345" */
static void read_pressure(struct containers *s, const struct infp_env *env, struct container *c, size_t index,
                          struct infp_row *row)
{
        struct infp_span text, line;

        if (container_read_file(s, env, c, pressures[index].file, &text) < 0)
                return;
        text = infp_whole_words(text);
        while (infp_span_line(&text, &line)) {
                struct infp_span what = infp_span_word(&line), word;
                unsigned cell = infp_span_is(what, "some")   ? pressures[index].some
                                : infp_span_is(what, "full") ? pressures[index].full
                                                             : 0;
                uint64_t us;

                while (cell && (word = infp_span_word(&line)).size) {
                        struct infp_span value = { "", 0 }, name = infp_span_cut(word, '=', &value);

                        if (infp_span_is(name, "total") && !infp_span_u64(value, &us) &&
                            !__builtin_mul_overflow(us, 1000u, &us))
                                infp_row_raw(row, cell, us);
                }
        }
}

static unsigned emit_cpus(struct containers *s, const struct infp_env *env, struct infp_emit *emit, struct container *c)
{
        uint64_t t_ns = env->now_ns(env), v;
        struct infp_span text, line = { "", 0 }, word;
        unsigned n = 0;

        if (container_read_file(s, env, c, FILE_CPU_EACH, &text) < 0)
                return 0;
        text = infp_whole_words(text);
        infp_span_line(&text, &line);
        while ((word = infp_span_word(&line)).size && !infp_span_u64(word, &v)) {
                struct infp_row *row = infp_emit_begin(emit, &infp_table_container_cpu, t_ns);

                infp_row_id(row, CPU_OF, c->id);
                infp_row_i64(row, CPU_NUMBER, n++);
                infp_row_raw(row, CPU_TIME_NS, v);
                infp_emit_commit(emit);
        }
        return n;
}

static void derive(const struct container *c, struct infp_row *row, unsigned n_cpus)
{
        if (infp_row_has(row, C_MEMORY_USED) && infp_row_has(row, C_MEMORY_INACTIVE_FILE) &&
            row->cell[C_MEMORY_USED].i64 >= row->cell[C_MEMORY_INACTIVE_FILE].i64)
                infp_row_i64(row, C_MEMORY_WORKING_SET,
                             row->cell[C_MEMORY_USED].i64 - row->cell[C_MEMORY_INACTIVE_FILE].i64);
        if (!infp_row_has(row, C_PROCESSORS) && n_cpus)
                infp_row_i64(row, C_PROCESSORS, n_cpus);
        infp_row_bool(row, C_IS_TARGET, c->is_target);
        if (c->is_target && c->procs_ns)
                infp_row_i64(row, C_OTHERS, c->n_others);
}

/* The emitter has one row at a time, so rows of devices and CPUs, whose sums the row needs, come first. */
int container_sample(struct containers *s, const struct infp_env *env, struct infp_emit *emit, struct container *c)
{
        struct infp_row sums = { .table = NULL }, *row;
        unsigned n_cpus;

        see_whether_it_ran(s, env, c);
        n_cpus = emit_cpus(s, env, emit, c);

        infp_row_begin(&sums, &infp_table_containers, s->now_ns);
        container_devices(s, env, emit, c, &sums);
        row = infp_emit_begin(emit, &infp_table_containers, env->now_ns(env));
        infp_row_id(row, C_CONTAINER, c->id);
        for (unsigned cell = C_READ_BYTES; cell < C_N; cell++)
                if (infp_row_has(&sums, cell))
                        infp_row_i64(row, cell, sums.cell[cell].i64);
        for (enum container_file file = 0; file < FILE_PSI_CPU; file++)
                if (file != FILE_CPU_EACH && file != FILE_IO && file != FILE_IO_CALLS)
                        read_picks(s, env, c, file, row);
        for (size_t i = 0; i < INFP_COUNT(pressures); i++)
                read_pressure(s, env, c, i, row);
        container_fill_limits(c, row);
        put_network(s, env, c, row);
        derive(c, row, n_cpus);
        keep_cells(c, row);
        c->is_all_read = false;
        if (c->is_gone)
                return -ENODEV;
        return 0;
}

bool container_file_of_cell(const struct container *c, unsigned cell, enum container_file *ret)
{
        for (size_t i = 0; i < INFP_COUNT(pressures); i++)
                if (cell == pressures[i].some || cell == pressures[i].full) {
                        *ret = pressures[i].file;
                        return true;
                }
        if (cell == C_READ_BYTES || cell == C_WRITE_BYTES || cell == C_READS || cell == C_WRITES) {
                bool calls = (cell == C_READS || cell == C_WRITES) && c->version == 1;

                *ret = calls ? FILE_IO_CALLS : FILE_IO;
                return true;
        }
        if (cell == C_MEMORY_WORKING_SET)
                cell = C_MEMORY_INACTIVE_FILE;
        for (size_t i = 0; i < INFP_COUNT(picks); i++)
                if (picks[i].cell == cell && picks[i].versions & version_bit(c, picks[i].file)) {
                        *ret = picks[i].file;
                        return true;
                }
        return false;
}
