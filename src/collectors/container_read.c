/* What the files of a container say. A file that is half there gives what it has; one that is not there leaves its cells empty. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "collectors/container_state.h"
#include "collectors/fields.h"

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
        /* PSI is of the unified hierarchy, also where the controllers are still in v1. */
        [FILE_PSI_CPU] = { "cpu.pressure", "cpu.pressure", NULL, INFP_CG_UNIFIED, INFP_CG_UNIFIED },
        [FILE_PSI_MEMORY] = { "memory.pressure", "memory.pressure", NULL, INFP_CG_UNIFIED, INFP_CG_UNIFIED },
        [FILE_PSI_IO] = { "io.pressure", "io.pressure", NULL, INFP_CG_UNIFIED, INFP_CG_UNIFIED },
        [FILE_PSI_IRQ] = { "irq.pressure", "irq.pressure", NULL, INFP_CG_UNIFIED, INFP_CG_UNIFIED },
};

enum { V1 = 1, V2 = 2, BOTH = V1 | V2, TICKS = 0 };

/* A number of a file: behind `name` at the start of a line, or the whole text. times / by: to the cell's unit; by TICKS: ticks
 * of USER_HZ to cs. Of v1's memory.stat the lines total_... come later and win: they count the cgroups below as well, as
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

static enum infp_controller controller_of(const struct container *c, enum container_file file)
{
        return c->version == 2 ? files[file].v2_at : files[file].v1_at;
}

static const char *name_of(const struct container *c, enum container_file file)
{
        enum infp_controller at = controller_of(c, file);

        /* Hybrid: a controller of its own may be in the other version. */
        return c->dir[at] && c->is_v2[at] ? files[file].v2 : files[file].v1;
}

static int open_file(const struct infp_env *env, struct container *c, enum container_file file, bool second)
{
        enum infp_controller at = controller_of(c, file);
        const char *name = second ? files[file].v1_else : name_of(c, file);
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

/* The kernel writes these files by one call each: a read that fills less than its room and ends a line has got all. The read
 * that would only show the end is spared, which is half of them. */
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

/* In v1 each figure is a file of its own, and reading them is what this collector costs. One that moves only while a process of
 * the container runs is not read again while its CPU time stands still: most containers do nothing most of the time. A look at
 * the limits has all read again, so that what is moved into it from outside and does not run shows as well. */
static bool is_still(const struct container *c, enum container_file file)
{
        if (file == FILE_CPU_USAGE)
                return c->has_usage;
        if (!c->has_usage || !c->n_still)
                return false;
        switch (file) {
        case FILE_CPU_USER:
        case FILE_CPU_SYSTEM:
        case FILE_CPU_TICKS:
        case FILE_CPU_EACH:
        case FILE_MEMORY_EVENTS: /* the end of a killed process takes time of it */
        case FILE_PIDS:
        case FILE_PIDS_EVENTS:
                return true;
        case FILE_MEMORY_FAILS: /* others charge it as well, but nothing fails without a limit */
                return !c->limits.memory && !c->limits.r_memory;
        case FILE_IO: /* what it gave to a loop device or a volume may reach the disk when it sleeps already */
        case FILE_IO_CALLS:
                return c->n_still > 2;
        case FILE_CPU_STAT: /* periods and throttling; they go on for a while after it has run */
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
        case FILE_MEMORY:
        case FILE_MEMORY_PEAK:
        case FILE_MEMORY_STAT:
        case FILE_MEMORY_KERNEL:
        case FILE_SWAP:
                return false;
        default:
                return file < FILE_PSI_CPU;
        }
}

/* Reads its CPU time before all else: what is read later is at least as new. */
static void see_whether_it_ran(struct containers *s, const struct infp_env *env, struct container *c)
{
        struct infp_span text, line = { "", 0 };
        uint64_t usage_ns;
        bool had_usage = c->has_usage;

        c->has_usage = false;
        if (c->version != 1 || !env->is_live || container_read_file(s, env, c, FILE_CPU_USAGE, &text) ||
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
                return 0;
        }
        if (c->fd[file] < 0)
                r = open_file(env, c, file, false);
        if (!r) {
                n = read_whole(c->fd[file], s->text, sizeof(s->text));
                r = n < 0 ? (int) n : 0;
        }
        if (c->fd[file] >= 0 && (r || !env->is_live || c->is_scarce[file]))
                c->fd[file] = infp_close(c->fd[file]);
        if (r == -ENODEV) /* what a file of a cgroup that was removed says */
                c->is_gone = true;
        c->is_hopeless[file] = r && r != -ENODEV && r != -EMFILE && r != -ENFILE;
        c->r[file] = r;
        if (!r)
                *ret = (struct infp_span){ s->text, (size_t) n };
        if (env->is_live && !c->is_v2[controller_of(c, file)] && is_worth_keeping(file))
                keep(&c->kept[file], s->text, r ? 0 : (size_t) n);
        return r;
}

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
        return c->is_v2[controller_of(c, file)] ? V2 : V1;
}

/* Those of a file stand together. */
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

static void read_picks(struct containers *s, const struct infp_env *env, struct container *c, enum container_file file,
                       struct infp_row *row)
{
        static const char limit[] = "hierarchical_memory_limit ";
        struct infp_span text, line;
        uint8_t version = version_bit(c, file);
        size_t from, to;

        if (container_read_file(s, env, c, file, &text))
                return;
        picks_of(file, &from, &to);
        text = infp_whole_words(text); /* the last number of a text that was cut may be the start of another */
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

        if (container_read_file(s, env, c, pressures[index].file, &text))
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

        if (container_read_file(s, env, c, FILE_CPU_EACH, &text))
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

/* The emitter has one row at a time, so those of devices and CPUs, whose sums the row needs, go before. */
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
        container_network(s, env, c, row);
        derive(c, row, n_cpus);
        if (c->is_gone)
                return -ENODEV;
        return 0;
}

static const char *why_of_errno(const struct container *c, enum container_file file, int r, char *reason, size_t cap)
{
        static const char enable[] = "enable the controller in cgroup.subtree_control of the cgroup above it";
        const char *name = name_of(c, file);

        if (r == WHY_MACHINE)
                snprintf(reason, cap, "it is in the root of that hierarchy, which counts the whole machine");
        else if (r == WHY_NO_CONTROLLER)
                snprintf(reason, cap, "no hierarchy with its controller can be seen");
        else if (r == WHY_OTHER_CGROUP)
                snprintf(reason, cap, "that controller counts it together with others, in another cgroup");
        else if (r == WHY_OTHER_VERSION)
                snprintf(reason, cap, "version %d of control groups does not tell", c->version);
        else if (r == -EOPNOTSUPP)
                snprintf(reason, cap, "%s is not kept for a threaded cgroup", name ? name : "it");
        else if (r == -ENOENT && file == FILE_PSI_IRQ)
                snprintf(reason, cap, "%s is not there: since Linux 6.1 with CONFIG_IRQ_TIME_ACCOUNTING",
                         name ? name : "it");
        else if (r == -ENOENT && controller_of(c, file) == INFP_CG_UNIFIED)
                snprintf(reason, cap, "%s is not there: the kernel keeps no pressure figures", name ? name : "it");
        else if (r == -ENOENT)
                snprintf(reason, cap, "%s is not there: the kernel is older, or the controller is not enabled",
                         name ? name : "it");
        else
                snprintf(reason, cap, "%s: %s", name ? name : "it", strerror(-r));
        return r == -ENOENT && controller_of(c, file) != INFP_CG_UNIFIED && c->version == 2 ? enable : NULL;
}

static bool file_of_cell(const struct container *c, unsigned cell, enum container_file *ret)
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

bool container_why(const struct container *c, unsigned cell, char *reason, size_t cap, const char **ret_fix,
                   int *ret_state)
{
        enum container_file file;

        *ret_fix = NULL;
        *ret_state = INFP_ABSENT;
        if (!file_of_cell(c, cell, &file))
                return false;
        if (!c->r[file]) {
                snprintf(reason, cap, "%s gives no number for it", name_of(c, file));
                return true;
        }
        if (c->r[file] != -EOPNOTSUPP && c->r[file] != WHY_MACHINE && c->r[file] != WHY_NO_CONTROLLER &&
            c->r[file] != WHY_OTHER_VERSION && c->r[file] != WHY_OTHER_CGROUP)
                *ret_state = infp_source_state_of(c->r[file]);
        *ret_fix = why_of_errno(c, file, c->r[file], reason, cap);
        return true;
}
