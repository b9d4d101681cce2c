/* The files of a container: where they are, and whether they must be read again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "collectors/container/state.h"

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

enum infp_controller container_controller(const struct container *c, enum container_file file)
{
        return c->version == 2 ? files[file].v2_at : files[file].v1_at;
}

const char *container_file_name(const struct container *c, enum container_file file)
{
        enum infp_controller at = container_controller(c, file);

        /* Hybrid: a controller of its own may be in the other version. */
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
 * the limits has all read again. How many tasks it has and how much memory is always read: what is moved into it from outside need
 * not run, and memory is taken from it by others. */
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
        case FILE_MEMORY_EVENTS: /* the end of a killed process takes time of it */
        case FILE_PIDS_EVENTS:
                return true;
        case FILE_MEMORY_FAILS: /* others charge it as well, but nothing fails without a limit */
                return !c->limits.memory && !c->limits.r_memory;
        case FILE_IO: /* what it gave to a loop device or a volume may reach the disk when it sleeps already */
        case FILE_IO_CALLS:
                return c->n_still > 2;
        case FILE_MEMORY_PEAK:
        case FILE_MEMORY_STAT: /* the most expensive file: the kernel adds up what all CPUs have counted */
        case FILE_MEMORY_KERNEL:
                return c->n_same_memory > 2;
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

void container_see_whether_it_ran(struct containers *s, const struct infp_env *env, struct container *c)
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
        if (r == -ENODEV) /* what a file of a cgroup that was removed says */
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
