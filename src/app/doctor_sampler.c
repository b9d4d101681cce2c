/* What infprof may do here to sample stacks: asked of the kernel itself, by the events that `record --cpu` would open. */
#include "app/doctor.h"
#include "base/human.h"
#include "sampler/perf/front.h"
#include "sampler/sampler.h"

static void add(struct infp_findings *findings, const char *name, bool is_allowed, const char *text, const char *fix)
{
        infp_findings_add(findings, "sampling", name, is_allowed ? "ok" : "denied", false, text, fix);
}

static void add_buffers(struct infp_findings *findings, const struct infp_perf *perf)
{
        const bool is_enough = infp_perf_stack_bytes(perf) == INFP_SAMPLER_MAX_STACK_BYTES;
        infp_autostr struct infp_str text = { 0 };

        infp_human_bytes(&text, infp_perf_ring_bytes(perf));
        infp_str_puts(&text, " may be locked for the buffer of each CPU");
        if (!is_enough) {
                infp_str_puts(&text, ": only ");
                infp_human_bytes(&text, infp_perf_stack_bytes(perf));
                infp_str_puts(&text, " of each stack can be copied");
        }
        add(findings, "buffers", is_enough, text.data, is_enough ? NULL : "ulimit -l 8192");
}

void infp_doctor_sampler(struct infp_findings *findings)
{
        const struct infp_perf_options options = {
                .hz = INFP_SAMPLER_DEFAULT_HZ,
                .stack_bytes = INFP_SAMPLER_MAX_STACK_BYTES,
        };
        static const char capability[] = "setcap cap_perfmon+ep infprof, or sysctl kernel.perf_event_paranoid=1";
        struct infp_perf_may may;
        struct infp_err err = { "" };
        struct infp_perf *perf;
        const char *fix;

        if (infp_perf_open(&options, &perf, &fix, &err) < 0) {
                add(findings, "CPU sampling", false, err.text, fix);
                return;
        }
        may = infp_perf_may(perf);
        add(findings, "CPU sampling", true,
            "perf_event_open is permitted: record --cpu samples stacks of this user's processes", NULL);
        add(findings, "kernel frames", may.kernel,
            may.kernel ? "kernel stacks and time in the kernel are sampled too"
                       : "kernel stacks are not permitted: kernel frames, and time in the kernel, are not sampled",
            may.kernel ? NULL : capability);
        add(findings, "blocked time", may.switch_samples,
            may.switch_samples ? "record --off-cpu has the stacks of threads that wait"
                               : "record --off-cpu measures how long threads wait, but not their stacks",
            may.switch_samples ? NULL : capability);
        add(findings, "whole machine", may.machine,
            may.machine ? "record --cpu without a target samples all processes"
                        : "record --cpu needs a command, --pid, --name or --port: events of whole CPUs are not allowed",
            may.machine ? NULL : "setcap cap_perfmon+ep infprof, or sysctl kernel.perf_event_paranoid=0");
        add_buffers(findings, perf);
        infp_perf_free(perf);
}
