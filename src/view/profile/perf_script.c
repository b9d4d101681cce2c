/* As `perf script` prints samples: a header line, a line a frame from the innermost outwards, an empty line. Readers count
 * blocks: an imported sum of n samples is n of them. The period is the sample's weight in nanoseconds. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "view/profile/profile_formats.h"

static void put_text(struct infp_str *out, const char *text)
{
        for (; *text; text++)
                infp_str_putc(out, (unsigned char) *text < ' ' || *text == 127 ? ' ' : *text);
}

/* perf knows "(inlined)" in the place of the object. */
static void put_frame(struct infp_str *out, const struct infp_profile *s, const struct infp_profile_frame *frame)
{
        const char *object = infp_profile_str(s, frame->object);

        if (frame->kind == INFP_FRAME_KERNEL)
                object = "[kernel.kallsyms]";
        for (uint32_t level = frame->n_levels; level-- > 0;) {
                infp_str_printf(out, "\t%16llx ", (unsigned long long) frame->address);
                put_text(out, infp_profile_str(s, s->levels[frame->first_level + level].name));
                infp_str_puts(out, " (");
                put_text(out, level ? "inlined" : object ? object : "[unknown]");
                infp_str_puts(out, ")\n");
        }
}

static void put_sample(struct infp_str *out, const struct infp_profile *s, const struct infp_profile_time *time)
{
        const struct infp_profile_sum *sum = &s->sums[time->sum];
        const struct infp_profile_thread *thread = &s->threads[sum->thread];
        const struct infp_profile_process *process = &s->processes[sum->process];
        const char *name = infp_profile_str(s, thread->name ? thread->name : process->name);
        const double scale = !strcmp(s->unit, "seconds") ? 1e9 : 1;
        const char *mode = infp_profile_str(s, sum->mode);
        const bool is_cpu = !mode || infp_stack_mode_of(mode) == INFP_STACK_CPU;

        put_text(out, name ? name : "[unknown]");
        infp_str_printf(out, " %lld/%lld %llu.%06llu: %10llu ", (long long) process->pid, (long long) thread->tid,
                        (unsigned long long) (time->t_ns / 1000000000),
                        (unsigned long long) (time->t_ns / 1000 % 1000000),
                        (unsigned long long) llround(fabs(time->weight) * scale / (time->samples ? time->samples : 1)));
        put_text(out, is_cpu ? "cpu-clock" : mode);
        infp_str_puts(out, ":\n");
        for (uint32_t i = sum->node; i != INFP_PROFILE_NONE; i = s->nodes[i].parent)
                put_frame(out, s, &s->frames[s->nodes[i].frame]);
        if (infp_profile_is_truncated(s, sum))
                infp_str_puts(out, "\t               0 [truncated] ([unknown])\n");
        infp_str_putc(out, '\n');
}

int infp_perf_script_write(struct infp_out *out, const struct infp_profile *s, struct infp_err *err)
{
        for (uint32_t i = 0; i < s->n_times; i++)
                for (uint32_t n = 0; n < s->times[i].samples && !out->error; n++) {
                        put_sample(&out->text, s, &s->times[i]);
                        infp_out_drain(out);
                }
        return out->text.failed ? infp_fail(err, -ENOMEM, "no memory for the samples") : 0;
}
