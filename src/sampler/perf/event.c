/* What events are asked for, and what this kernel lets us have. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "sampler/perf/inner.h"

/* Through the flag an event writes into the ring of another from its first moment on. */
int infp_perf_event(struct perf_event_attr *attr, pid_t pid, int cpu, int output_fd)
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
        ret->context_switch = options->switch_records;
}

static int try_self(const struct infp_perf *perf)
{
        struct perf_event_attr attr;

        infp_perf_attribute(perf, PERF_KIND_CLOCK, &attr);
        attr.disabled = 1;
        return infp_perf_event(&attr, 0, -1, -1);
}

static bool may_machine(const struct infp_perf *perf)
{
        struct perf_event_attr attr;
        int fd;

        infp_perf_attribute(perf, PERF_KIND_CLOCK, &attr);
        attr.disabled = 1;
        attr.inherit = 0;
        fd = infp_perf_event(&attr, -1, 0, -1);
        infp_close(fd);
        return fd >= 0;
}

/* From all that we would like to have to what is allowed. */
int infp_perf_probe(struct infp_perf *perf, const char **ret_fix, struct infp_err *err)
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
                return infp_perf_explain(fd, ret_fix, err);
        infp_close(fd);
        perf->may.machine = perf->may.kernel && may_machine(perf);
        /* Switches happen in the kernel: who may not look there gets none of them. */
        perf->may.switch_samples = perf->may.kernel;
        return 0;
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

int infp_perf_explain(int r, const char **ret_fix, struct infp_err *err)
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

        infp_perf_explain(r, &fix, &why);
        return fix ? infp_fail(err, r, "%s (%s would help)", why.text, fix) : infp_fail(err, r, "%s", why.text);
}
