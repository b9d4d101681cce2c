/* Events of CPUs by which a program in the kernel has perf write samples of waits (waits/switches.bpf.h). */
#include <errno.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sampler/perf/front.h"
#include "sampler/perf/inner.h"
#include "sampler/waits/switches.h"

void infp_perf_close_outputs(struct perf_cpu *cpu)
{
        for (unsigned i = 0; i < INFP_COUNT(cpu->output_fd); i++)
                cpu->output_fd[i] = infp_close(cpu->output_fd[i]);
}

static int open_output(const struct infp_perf *perf, const struct perf_cpu *cpu, bool is_shallow)
{
        struct perf_event_attr attr;

        infp_perf_attribute(perf, PERF_KIND_SWITCH, &attr);
        attr.config = PERF_COUNT_SW_BPF_OUTPUT;
        attr.sample_type |= PERF_SAMPLE_RAW;
        attr.inherit = 0;
        if (is_shallow && attr.sample_stack_user > INFP_SWITCH_SHALLOW_BYTES)
                attr.sample_stack_user = INFP_SWITCH_SHALLOW_BYTES;
        return infp_perf_open_event(&attr, -1, cpu->number, cpu->fd[PERF_KIND_SWITCH]);
}

int infp_perf_filter_switches(struct infp_perf *perf, int program_fd, infp_perf_put_event_fn *put, void *context)
{
        int r = perf->n_kinds == PERF_KINDS && !perf->n_events ? 0 : -EBUSY;

        for (unsigned i = 0; i < perf->n_cpus && r >= 0; i++) {
                struct perf_cpu *cpu = &perf->cpus[i];

                for (unsigned k = 0; k < INFP_COUNT(cpu->output_fd) && cpu->fd[PERF_KIND_SWITCH] >= 0 && r >= 0; k++) {
                        cpu->output_fd[k] = open_output(perf, cpu, k);
                        r = cpu->output_fd[k] < 0 ? cpu->output_fd[k] : put(context, cpu->number, cpu->output_fd[k], k);
                }
        }
        for (unsigned i = 0; i < perf->n_cpus && r < 0; i++)
                infp_perf_close_outputs(&perf->cpus[i]);
        if (r < 0)
                return r;
        perf->filter_fd = program_fd;
        perf->reader.has_waits = true;
        return 0;
}
