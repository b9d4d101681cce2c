/* The rings: which CPUs there are, and how much memory may be locked for them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/rights.h"
#include "sampler/perf/inner.h"

enum {
        MAX_CPUS = 4096,
        MIN_RING_BYTES = 32 * 1024,
        MOST_BYTES = 64 << 20,    /* of all rings together ... */
        LEAST_OF_A_CPU = 1 << 20, /* ... but so much each */
        /* Of a record beside its stack: head, thread, time, 127 frames of the kernel, registers. */
        RECORD_REST = 2048,
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
                perf->cpus[i] = (struct perf_cpu){ .number = numbers[i], .fd = { -1, -1 } };
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

        cpu->fd[kind] = infp_perf_event(&attr, 0, cpu->number, -1);
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

void infp_perf_unmap_rings(struct infp_perf *perf)
{
        for (unsigned i = 0; i < perf->n_cpus * perf->n_kinds; i++) {
                struct perf_cpu *cpu = &perf->cpus[i / perf->n_kinds];
                const unsigned kind = i % perf->n_kinds;

                infp_perf_ring_done(&perf->rings[i]);
                if (cpu->map[kind])
                        munmap(cpu->map[kind], cpu->map_size);
                cpu->map[kind] = NULL;
                cpu->fd[kind] = infp_close(cpu->fd[kind]);
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
                infp_perf_unmap_rings(perf);
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

int infp_perf_map_rings(struct infp_perf *perf, const char **ret_fix, struct infp_err *err)
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
                return infp_perf_explain(r, ret_fix, err);
        perf->ring_bytes = (uint32_t) size;
        fit_stacks(perf);
        return 0;
}
