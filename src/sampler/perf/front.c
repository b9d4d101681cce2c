#include "sampler/perf/front.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/rights.h"
#include "base/time.h"
#include "sampler/perf/inner.h"

/* ---- what events are asked for, and what this kernel lets us have ---- */

/* Through the flag an event writes into the ring of another from its first moment on. */
int infp_perf_open_event(struct perf_event_attr *attr, pid_t pid, int cpu, int output_fd)
{
        const unsigned long flags =
                PERF_FLAG_FD_CLOEXEC | (output_fd < 0 ? 0 : PERF_FLAG_FD_OUTPUT | PERF_FLAG_FD_NO_GROUP);
        const long fd = syscall(SYS_perf_event_open, attr, pid, cpu, output_fd, flags);

        return fd < 0 ? -errno : (int) fd;
}

void infp_perf_attribute(const struct infp_perf *perf, enum perf_kind kind, struct perf_event_attr *ret)
{
        const struct infp_perf_options *options = &perf->options;
        const bool is_clock = kind == PERF_KIND_CLOCK;

        *ret = (struct perf_event_attr){
                .size = sizeof(*ret),
                .type = PERF_TYPE_SOFTWARE,
                .config = is_clock ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_CONTEXT_SWITCHES,
                .sample_type = INFP_PERF_SAMPLE_TYPE | (perf->may.kernel ? PERF_SAMPLE_CALLCHAIN : 0),
                .sample_regs_user = INFP_PERF_REGISTERS,
                .sample_stack_user =
                        is_clock || !options->switch_stack_bytes ? options->stack_bytes : options->switch_stack_bytes,
                .read_format = perf->has_lost_format ? PERF_FORMAT_LOST : 0,
                .exclude_kernel = !perf->may.kernel,
                .exclude_hv = 1,
                .exclude_idle = 1,
                .exclude_callchain_user = 1,
                .sample_id_all = 1,
                .use_clockid = 1,
                .clockid = CLOCK_MONOTONIC,
                .watermark = 1, /* else each sample would wake us up */
                .inherit = 1,
        };
        if (!is_clock && perf->filter_fd >= 0) {
                ret->sample_type &=
                        ~(uint64_t) (PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER);
                ret->sample_regs_user = ret->sample_stack_user = 0;
                ret->exclude_callchain_user = 0;
        }
        /* A period rather than a frequency: the kernel refuses high ones of those, and would adapt to them slowly. Without a rate the
         * event only counts. */
        if (!is_clock)
                ret->sample_period = INFP_PERF_SWITCH_PERIOD;
        else if (options->hz > 0)
                ret->sample_period = (uint64_t) ((double) INFP_NS_PER_S / options->hz + 0.5);
        if (!is_clock)
                return;
        ret->mmap = ret->mmap2 = ret->comm = ret->comm_exec = ret->task = 1;
        ret->build_id = perf->may.build_ids;
        ret->context_switch = options->switch_records && perf->filter_fd < 0;
}

static bool is_filtered(void)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char text[8192];
        const char *line;

        if (infp_read_at(root_fd, "proc/self/status", text, sizeof(text)) <= 0)
                return false;
        line = strstr(text, "\nSeccomp:\t");
        return line && line[sizeof("\nSeccomp:\t") - 1] == '2';
}

static int paranoid(void)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        char text[32];
        int level;

        if (infp_read_at(root_fd, "proc/sys/kernel/perf_event_paranoid", text, sizeof(text)) <= 0 ||
            sscanf(text, "%d", &level) != 1)
                return 2;
        return level;
}

/* The sentence for what perf_event_open answered. Returns r. */
static int explain(int r, const char **ret_fix, struct infp_err *err)
{
        static const char allow[] = "allow perf_event_open in the container's seccomp profile (docker run --cap-add "
                                    "PERFMON, or --security-opt seccomp=PROFILE)";

        *ret_fix = NULL;
        if (r == -EMFILE || r == -ENFILE) {
                *ret_fix = "ulimit -n 1024";
                return infp_fail(err, r, "no file descriptors are left for perf events");
        }
        if ((r == -EPERM || r == -EACCES || r == -ENOSYS) && is_filtered()) {
                *ret_fix = allow;
                return infp_fail_errno(err, r, "a seccomp filter of this container refuses perf_event_open");
        }
        if (r == -ENOSYS)
                return infp_fail(err, r, "this kernel has no perf_event_open");
        if (r == -EACCES && paranoid() > 2) {
                *ret_fix = "sysctl kernel.perf_event_paranoid=2, or setcap cap_perfmon+ep infprof";
                return infp_fail(err, r, "kernel.perf_event_paranoid is %d: perf_event_open needs CAP_PERFMON",
                                 paranoid());
        }
        if (r == -EPERM || r == -EACCES) {
                *ret_fix = "setcap cap_perfmon+ep infprof, or run it as the user of the target";
                return infp_fail_errno(err, r, "perf_event_open is refused");
        }
        return infp_fail_errno(err, r, "perf_event_open fails");
}

int infp_perf_refused(int r, struct infp_err *err)
{
        struct infp_err why = { "" };
        const char *fix;

        explain(r, &fix, &why);
        return fix ? infp_fail(err, r, "%s (%s would help)", why.text, fix) : infp_fail(err, r, "%s", why.text);
}

static int try_self(const struct infp_perf *perf)
{
        struct perf_event_attr attr;

        infp_perf_attribute(perf, PERF_KIND_CLOCK, &attr);
        attr.disabled = 1;
        return infp_perf_open_event(&attr, 0, -1, -1);
}

static bool may_machine(const struct infp_perf *perf)
{
        struct perf_event_attr attr;
        int fd;

        infp_perf_attribute(perf, PERF_KIND_CLOCK, &attr);
        attr.disabled = 1;
        attr.inherit = 0;
        fd = infp_perf_open_event(&attr, -1, 0, -1);
        infp_close(fd);
        return fd >= 0;
}

/* From all that we would like to have to what is allowed. */
static int probe(struct infp_perf *perf, const char **ret_fix, struct infp_err *err)
{
        int fd;

        perf->may = (struct infp_perf_may){ .kernel = true, .build_ids = true };
        perf->has_lost_format = true; /* Linux 6.0 */
        fd = try_self(perf);
        if (fd == -EACCES || fd == -EPERM) {
                perf->may.kernel = false;
                fd = try_self(perf);
        }
        if (fd == -EINVAL) {
                perf->has_lost_format = false;
                fd = try_self(perf);
        }
        if (fd == -EINVAL) { /* Linux 5.12 */
                perf->may.build_ids = false;
                fd = try_self(perf);
        }
        if (fd < 0)
                return explain(fd, ret_fix, err);
        infp_close(fd);
        perf->may.machine = perf->may.kernel && may_machine(perf);
        /* Switches happen in the kernel: who may not look there gets none of them. */
        perf->may.switch_samples = perf->may.kernel;
        return 0;
}

/* ---- rings: which CPUs there are, and how much memory may be locked for them ---- */

enum {
        MAX_CPUS = 4096,
        MIN_RING_BYTES = 32 * 1024,
        MOST_BYTES = 64 << 20,    /* of all rings together ... */
        LEAST_OF_A_CPU = 1 << 20, /* ... but so much each */
        /* Of a record beside its stack: head, thread, time, 127 frames of the kernel, registers. */
        RECORD_REST = 2048,
        MOST_COPIED = INFP_PERF_RECORD_BYTES - RECORD_REST,
        LARGE_RING_BYTES = 2 << 20, /* smaller ones hold no half second of samples with large stacks */
        SMALL_STACK_BYTES = 32 * 1024,
};

static const double room_s = 0.05;

/* "0-3,8-11". Returns how many there are, at most cap. */
static unsigned read_cpus(const char *text, int *ret, unsigned cap)
{
        unsigned n = 0;

        while (*text >= '0' && *text <= '9') {
                char *end;
                unsigned long first = strtoul(text, &end, 10), last = first;

                if (*end == '-')
                        last = strtoul(end + 1, &end, 10);
                for (; first <= last && n < cap; first++)
                        ret[n++] = (int) first;
                text = *end == ',' ? end + 1 : "";
        }
        return n;
}

static int list_cpus(struct infp_perf *perf, struct infp_err *err)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        infp_autofree int *numbers = calloc(MAX_CPUS, sizeof(*numbers));
        char text[4096];
        unsigned n = 0;

        if (!numbers)
                return infp_fail(err, -ENOMEM, "no memory for the list of CPUs");
        if (infp_read_at(root_fd, "sys/devices/system/cpu/online", text, sizeof(text)) > 0)
                n = read_cpus(text, numbers, MAX_CPUS);
        for (long i = 0; !n && i < sysconf(_SC_NPROCESSORS_ONLN) && i < MAX_CPUS; i++)
                numbers[i] = (int) i, n = (unsigned) i + 1;
        perf->cpus = calloc(n, sizeof(*perf->cpus));
        perf->rings = calloc((size_t) n * perf->n_kinds, sizeof(*perf->rings));
        if (!perf->cpus || !perf->rings)
                return infp_fail(err, -ENOMEM, "no memory for the buffers of %u CPUs", n);
        for (unsigned i = 0; i < n; i++)
                perf->cpus[i] = (struct perf_cpu){ .number = numbers[i], .fd = { -1, -1 }, .output_fd = { -1, -1 } };
        perf->n_cpus = n;
        return 0;
}

static uint64_t floor_power(uint64_t v)
{
        return v ? UINT64_C(1) << (63 - __builtin_clzll(v)) : 0;
}

/* What perf lets each user lock a CPU, and what the user may lock anyway. */
static uint64_t budget_bytes(unsigned n_cpus)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct rlimit limit = { 0 };
        char text[32];
        uint64_t per_cpu = 516;

        if (infp_read_at(root_fd, "proc/sys/kernel/perf_event_mlock_kb", text, sizeof(text)) > 0)
                per_cpu = strtoul(text, NULL, 10);
        if (infp_has_capability(CAP_IPC_LOCK) || getrlimit(RLIMIT_MEMLOCK, &limit) < 0 ||
            limit.rlim_cur == RLIM_INFINITY)
                return UINT64_MAX;
        return per_cpu * 1024 * n_cpus + limit.rlim_cur;
}

static uint64_t first_size(const struct infp_perf *perf)
{
        const unsigned n_rings = perf->n_cpus * perf->n_kinds;
        const uint64_t budget = budget_bytes(perf->n_cpus) / n_rings;
        uint64_t most = MOST_BYTES / n_rings, size = perf->options.ring_bytes;

        if (most < LEAST_OF_A_CPU)
                most = LEAST_OF_A_CPU;
        if (!size)
                size = INFP_PERF_RING_BYTES < most ? INFP_PERF_RING_BYTES : most;
        size = floor_power(size < budget ? size : budget);
        return size < MIN_RING_BYTES ? MIN_RING_BYTES : size;
}

/* How full a ring is when we are woken, which costs as much as 40 samples: half where the rest then holds what comes until a busy machine
 * lets us run. Switches come in storms. */
static uint32_t watermark(const struct infp_perf *perf, unsigned kind, size_t size)
{
        const double bytes_per_s = perf->options.hz * (perf->options.stack_bytes + RECORD_REST);

        return (uint32_t) size / (kind == PERF_KIND_CLOCK && (double) size / 2 >= room_s * bytes_per_s ? 2 : 4);
}

static int map_ring(struct infp_perf *perf, unsigned i, unsigned kind, size_t size)
{
        const size_t page = (size_t) sysconf(_SC_PAGESIZE);
        struct perf_cpu *cpu = &perf->cpus[i];
        struct perf_event_attr attr = {
                .size = sizeof(attr),
                .type = PERF_TYPE_SOFTWARE,
                .config = PERF_COUNT_SW_DUMMY,
                .disabled = 1,
                .exclude_kernel = 1,
                .use_clockid = 1,
                .clockid = CLOCK_MONOTONIC, /* as those that write into its ring */
                .watermark = 1,
                .wakeup_watermark = watermark(perf, kind, size),
        };

        cpu->fd[kind] = infp_perf_open_event(&attr, 0, cpu->number, -1);
        if (cpu->fd[kind] < 0)
                return cpu->fd[kind];
        cpu->map_size = page + size;
        cpu->map[kind] = mmap(NULL, cpu->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu->fd[kind], 0);
        if (cpu->map[kind] == MAP_FAILED) {
                cpu->map[kind] = NULL;
                return -errno;
        }
        return infp_perf_ring_init(&perf->rings[i * perf->n_kinds + kind], cpu->map[kind], page, size);
}

static void unmap_rings(struct infp_perf *perf)
{
        for (unsigned i = 0; i < perf->n_cpus * perf->n_kinds; i++) {
                struct perf_cpu *cpu = &perf->cpus[i / perf->n_kinds];
                const unsigned kind = i % perf->n_kinds;

                infp_perf_ring_done(&perf->rings[i]);
                if (cpu->map[kind])
                        munmap(cpu->map[kind], cpu->map_size);
                cpu->map[kind] = NULL;
                cpu->fd[kind] = infp_close(cpu->fd[kind]);
                infp_perf_close_outputs(cpu);
        }
}

/* A CPU that has gone meanwhile is left out. */
static int map_all(struct infp_perf *perf, size_t size)
{
        unsigned n = 0;
        int r = 0;

        for (unsigned i = 0; i < perf->n_cpus * perf->n_kinds && r >= 0; i++) {
                r = map_ring(perf, i / perf->n_kinds, i % perf->n_kinds, size);
                if (r >= 0)
                        n++;
                else if (r == -ENODEV)
                        r = 0;
        }
        if (r < 0)
                unmap_rings(perf);
        return r < 0 ? r : n ? 0 : -ENODEV;
}

/* Rings should hold several records, and what comes while they are not read: where they cannot, copies of stacks are smaller,
 * since a sample without its outer frames is better than none. */
static void fit_stacks(struct infp_perf *perf)
{
        const uint32_t half = perf->ring_bytes / 2 - RECORD_REST;
        const uint32_t most =
                perf->ring_bytes < LARGE_RING_BYTES && half > SMALL_STACK_BYTES ? SMALL_STACK_BYTES : half;

        if (perf->options.stack_bytes > most)
                perf->options.stack_bytes = most & ~7u;
        if (perf->options.switch_stack_bytes > most)
                perf->options.switch_stack_bytes = most & ~7u;
}

static int map_rings(struct infp_perf *perf, const char **ret_fix, struct infp_err *err)
{
        size_t size;
        int r;

        INFP_TRY(list_cpus(perf, err));
        size = first_size(perf);
        do
                r = map_all(perf, size);
        while ((r == -EPERM || r == -ENOMEM) && (size /= 2) >= MIN_RING_BYTES);
        if (r == -EPERM || r == -ENOMEM) {
                *ret_fix = "ulimit -l 8192, or sysctl kernel.perf_event_mlock_kb=516";
                return infp_fail(err, r, "not even %d KiB per CPU may be locked for perf buffers",
                                 MIN_RING_BYTES / 1024);
        }
        if (r < 0)
                return explain(r, ret_fix, err);
        perf->ring_bytes = (uint32_t) size;
        fit_stacks(perf);
        return 0;
}

/* ---- the events of threads: opened, read and closed together ---- */

/* Counts that are read at each call, of thousands of events: a reading of one that runs interrupts its CPU. */
enum { READ_AT_ONCE = 512, FIRST_GROUPS = 8 };

static struct perf_fd *fds_of(const struct infp_perf *perf, unsigned group)
{
        return &perf->fds[(size_t) group * perf->per_group];
}

static int new_group(struct infp_perf *perf, unsigned *ret)
{
        for (unsigned i = 0; i < perf->n_groups; i++)
                if (!perf->groups[i].tid) {
                        *ret = i;
                        return 0;
                }
        if (perf->n_groups == perf->cap_groups) {
                const unsigned cap = perf->cap_groups ? 2 * perf->cap_groups : FIRST_GROUPS;
                struct perf_group *groups = reallocarray(perf->groups, cap, sizeof(*groups));
                struct perf_fd *fds;

                if (!groups)
                        return -ENOMEM;
                perf->groups = groups;
                fds = reallocarray(perf->fds, (size_t) cap * perf->per_group, sizeof(*fds));
                if (!fds)
                        return -ENOMEM;
                perf->fds = fds;
                perf->cap_groups = cap;
        }
        *ret = perf->n_groups++;
        return 0;
}

/* 0 or a negative errno. */
static int run_program(const struct infp_perf *perf, int fd, enum perf_kind kind)
{
        const int program_fd = kind == PERF_KIND_SWITCH && perf->filter_fd >= 0 ? perf->filter_fd : perf->program_fd;

        if (fd < 0 || program_fd < 0 || ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd) == 0)
                return 0;
        infp_debug("perf: an event takes no BPF program: %s", strerror(errno));
        return -errno;
}

static int open_one(const struct infp_perf *perf, pid_t pid, const struct perf_cpu *cpu, enum perf_kind kind,
                    bool on_exec)
{
        struct perf_event_attr attr;
        int fd, r;

        infp_perf_attribute(perf, kind, &attr);
        attr.disabled = attr.enable_on_exec = on_exec;
        attr.inherit = pid != -1;
        fd = infp_perf_open_event(&attr, pid, cpu->number, cpu->fd[kind]);
        r = run_program(perf, fd, kind);
        if (r < 0 && kind == PERF_KIND_SWITCH && perf->filter_fd >= 0) {
                infp_close(fd);
                return r;
        }
        if (fd < 0 || !infp_fd_is_scarce(fd))
                return fd;
        infp_close(fd);
        return -EMFILE;
}

void infp_perf_group_close(struct infp_perf *perf, unsigned group)
{
        struct perf_fd *fds = fds_of(perf, group);

        for (unsigned i = 0; i < perf->per_group; i++) {
                perf->n_events -= fds[i].fd >= 0;
                fds[i].fd = infp_close(fds[i].fd);
        }
        perf->groups[group] = (struct perf_group){ 0 };
}

/* pid -1: of the CPUs. A CPU that has gone is left out. */
int infp_perf_group_open(struct infp_perf *perf, pid_t pid, bool on_exec, unsigned *ret_group)
{
        const unsigned kinds = perf->n_kinds;
        struct perf_fd *fds;
        unsigned group, n = 0;
        int r = new_group(perf, &group);

        if (r < 0)
                return r;
        fds = fds_of(perf, group);
        perf->groups[group] = (struct perf_group){ .tid = pid };
        for (unsigned i = 0; i < perf->per_group; i++)
                fds[i] = (struct perf_fd){ .fd = -1 };
        for (unsigned i = 0; i < perf->per_group && r >= 0; i++) {
                const struct perf_cpu *cpu = &perf->cpus[i / kinds];

                if (cpu->fd[i % kinds] < 0)
                        continue;
                r = perf->n_events < perf->max_events ? open_one(perf, pid, cpu, (enum perf_kind)(i % kinds), on_exec)
                                                      : -EMFILE;
                if (r >= 0) {
                        fds[i].fd = r;
                        perf->n_events++;
                        n++;
                } else if (r == -ENODEV) {
                        r = 0;
                }
        }
        if (r >= 0 && n) {
                *ret_group = group;
                return 0;
        }
        infp_perf_group_close(perf, group);
        return r < 0 ? r : -ENODEV;
}

static void read_one(struct infp_perf *perf, struct perf_fd *fd, bool is_clock)
{
        uint64_t values[2] = { 0, 0 };

        if (fd->fd < 0 || read(fd->fd, values, sizeof(values)) < (ssize_t) sizeof(values[0]))
                return;
        if (is_clock) {
                perf->clock_ns += values[0] - fd->clock_ns;
                fd->clock_ns = values[0];
                perf->n_lost += values[1] - fd->n_lost;
        } else {
                perf->n_lost_switches += values[1] - fd->n_lost;
        }
        fd->n_lost = values[1];
}

static void read_groups(struct infp_perf *perf, bool all)
{
        const unsigned n = perf->n_groups * perf->per_group, kinds = perf->n_kinds;

        for (unsigned i = 0; i < n && (all || i < READ_AT_ONCE); i++) {
                if (perf->next_read >= n)
                        perf->next_read = 0;
                if (perf->groups[perf->next_read / perf->per_group].tid)
                        read_one(perf, &perf->fds[perf->next_read], perf->next_read % kinds == PERF_KIND_CLOCK);
                perf->next_read++;
        }
}

/* The kernel hangs up once the thread, and all that inherited its events, have ended. Closing earlier would take them from those. */
static bool is_over(const struct infp_perf *perf, const struct perf_fd *fds)
{
        for (unsigned i = 0; i < perf->per_group; i++) {
                struct pollfd fd = { .fd = fds[i].fd };

                if (fd.fd >= 0 && (poll(&fd, 1, 0) <= 0 || !(fd.revents & POLLHUP)))
                        return false;
        }
        return true;
}

void infp_perf_groups_reap(struct infp_perf *perf)
{
        const unsigned kinds = perf->n_kinds;

        for (unsigned i = 0; i < perf->n_groups; i++) {
                struct perf_fd *fds = fds_of(perf, i);

                if (!perf->groups[i].tid || !perf->groups[i].is_ended || !is_over(perf, fds))
                        continue;
                for (unsigned k = 0; k < perf->per_group; k++)
                        read_one(perf, &fds[k], k % kinds == PERF_KIND_CLOCK);
                infp_perf_group_close(perf, i);
        }
}

/* ---- the front ---- */

/* Descriptors that others may still need. */
enum { SPARE_FDS = 256, MOST_EVENTS = 1 << 17 };

const char *infp_perf_method_name(enum infp_perf_method method)
{
        static const char *const names[] = {
                [INFP_PERF_NONE] = "none",
                [INFP_PERF_TREE] = "perf events of a tree",
                [INFP_PERF_THREADS] = "perf events of threads",
                [INFP_PERF_CPUS] = "perf events of CPUs, the target's alone",
                [INFP_PERF_MACHINE] = "perf events of CPUs",
        };

        return names[method];
}

/* A quarter of a small allowance: the collectors and the store need theirs. */
static uint32_t event_budget(void)
{
        struct rlimit limit;
        uint64_t n;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return SPARE_FDS;
        n = limit.rlim_cur > 2 * SPARE_FDS ? limit.rlim_cur - SPARE_FDS : limit.rlim_cur / 4;
        return n > MOST_EVENTS ? MOST_EVENTS : (uint32_t) n;
}

int infp_perf_open(const struct infp_perf_options *options, struct infp_perf **ret, const char **ret_fix,
                   struct infp_err *err)
{
        struct infp_perf *perf = calloc(1, sizeof(*perf));
        int r;

        *ret_fix = NULL;
        if (!INFP_PERF_REGISTERS) {
                free(perf);
                return infp_fail(err, -ENOTSUP, "stacks are sampled on x86-64 only");
        }
        if (!perf)
                return infp_fail(err, -ENOMEM, "no memory for perf events");
        perf->options = *options;
        perf->program_fd = perf->filter_fd = -1;
        r = probe(perf, ret_fix, err);
        perf->n_kinds = options->switch_samples && perf->may.switch_samples ? PERF_KINDS : 1;
        if (r >= 0)
                r = map_rings(perf, ret_fix, err);
        if (r < 0) {
                infp_perf_free(perf);
                return r;
        }
        perf->max_events = event_budget();
        perf->per_group = perf->n_cpus * perf->n_kinds;
        perf->reader = (struct infp_perf_reader){
                .has_callchain = perf->may.kernel,
                .is_wanted = infp_perf_is_of_target,
                .task = infp_perf_note_task,
                .context = perf,
        };
        *ret = perf;
        return 0;
}

struct infp_perf *infp_perf_free(struct infp_perf *perf)
{
        if (!perf)
                return NULL;
        for (unsigned i = 0; i < perf->n_groups; i++)
                if (perf->groups[i].tid)
                        infp_perf_group_close(perf, i);
        unmap_rings(perf);
        infp_map_done(&perf->known);
        free(perf->groups);
        free(perf->fds);
        free(perf->cpus);
        free(perf->rings);
        free(perf);
        return NULL;
}

struct infp_perf_may infp_perf_may(const struct infp_perf *perf)
{
        return perf->may;
}

uint32_t infp_perf_ring_bytes(const struct infp_perf *perf)
{
        return perf->ring_bytes;
}

uint32_t infp_perf_stack_bytes(const struct infp_perf *perf)
{
        return perf->options.stack_bytes;
}

uint32_t infp_perf_copied_bytes(const struct infp_perf *perf, bool is_switch)
{
        const uint32_t bytes = is_switch ? perf->options.switch_stack_bytes : perf->options.stack_bytes;

        return bytes < MOST_COPIED ? bytes : MOST_COPIED;
}

unsigned infp_perf_rings(const struct infp_perf *perf)
{
        return perf->n_cpus * perf->n_kinds;
}

void infp_perf_set_program(struct infp_perf *perf, int fd)
{
        perf->program_fd = fd;
        for (unsigned i = 0; i < perf->n_groups * perf->per_group; i++)
                if (perf->groups[i / perf->per_group].tid)
                        run_program(perf, perf->fds[i].fd, (enum perf_kind)(i % perf->n_kinds));
}

bool infp_perf_is_target(const struct infp_perf *perf, int32_t pid)
{
        return infp_perf_is_of_target((void *) (uintptr_t) perf, pid, 0);
}

int infp_perf_launch(struct infp_perf *perf, pid_t pid, struct infp_err *err)
{
        unsigned group;
        int r = infp_perf_group_open(perf, pid, true, &group);

        if (r < 0)
                return infp_perf_refused(r, err);
        perf->method = INFP_PERF_TREE;
        return 0;
}

unsigned infp_perf_pollfds(const struct infp_perf *perf, struct pollfd *ret, unsigned cap)
{
        unsigned n = 0;

        for (unsigned i = 0; i < perf->n_cpus * perf->n_kinds && n < cap; i++) {
                const int fd = perf->cpus[i / perf->n_kinds].fd[i % perf->n_kinds];

                if (fd >= 0)
                        ret[n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
        }
        return n;
}

uint64_t infp_perf_drain(struct infp_perf *perf, const struct infp_perf_handler *handler, uint64_t settle_ns)
{
        const uint64_t until_ns = settle_ns ? infp_clock_ns(CLOCK_MONOTONIC) - settle_ns : UINT64_MAX;
        const unsigned n_rings = perf->n_cpus * perf->n_kinds;
        struct infp_perf_ring *ring;
        uint64_t n = 0;

        perf->reader.handler = handler;
        for (unsigned i = 0; i < n_rings; i++)
                infp_perf_ring_look(&perf->rings[i]);
        while ((ring = infp_perf_ring_oldest(perf->rings, n_rings, until_ns))) {
                perf->reader.is_of_switches = (unsigned) (ring - perf->rings) % perf->n_kinds == PERF_KIND_SWITCH;
                infp_perf_record_give(&perf->reader, ring->record, ring->record_size);
                infp_perf_ring_pop(ring);
                n++;
        }
        return n;
}

uint64_t infp_perf_lost(const struct infp_perf *perf)
{
        return perf->reader.n_lost;
}

uint64_t infp_perf_lost_switches(const struct infp_perf *perf)
{
        return perf->n_lost_switches > perf->reader.n_lost_switches ? perf->n_lost_switches
                                                                    : perf->reader.n_lost_switches;
}

void infp_perf_stop(struct infp_perf *perf)
{
        if (perf->is_stopped)
                return;
        perf->is_stopped = true;
        for (unsigned i = 0; i < perf->n_groups * perf->per_group; i++)
                if (perf->groups[i / perf->per_group].tid && perf->fds[i].fd >= 0)
                        ioctl(perf->fds[i].fd, PERF_EVENT_IOC_DISABLE, 0);
}

void infp_perf_counts(struct infp_perf *perf, struct infp_perf_counts *ret)
{
        const struct infp_perf_reader *reader = &perf->reader;
        uint64_t n_broken = reader->n_broken;

        infp_perf_groups_reap(perf);
        read_groups(perf, perf->is_stopped);
        for (unsigned i = 0; i < perf->n_cpus * perf->n_kinds; i++)
                n_broken += perf->rings[i].n_broken;
        *ret = (struct infp_perf_counts){
                .method = perf->method,
                .has_clock = perf->method == INFP_PERF_TREE || perf->method == INFP_PERF_THREADS,
                .clock_ns = perf->clock_ns,
                .n_samples = reader->n_samples,
                /* The events count what the records tell only with the next one that finds room. */
                .n_lost = perf->n_lost > reader->n_lost ? perf->n_lost : reader->n_lost,
                .n_throttled = reader->n_throttled,
                .n_broken = n_broken,
                .n_foreign = reader->n_foreign,
                .n_skipped = perf->n_skipped,
                .was_late = perf->was_late,
                .refused = perf->refused,
                .n_events = perf->n_events,
        };
}
