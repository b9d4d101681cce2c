#include <inttypes.h>
#include <string.h>

#include "base/human.h"
#include "base/text.h"
#include "view/backtrace/backtrace.h"
#include "view/flame/words.h"
#include "view/report/parts.h"

static const char *state_words(char state)
{
        switch (state) {
        case 'R':
                return "running";
        case 'S':
                return "sleeping";
        case 'D':
                return "waiting in the kernel";
        case 'T':
                return "stopped by a signal";
        case 't':
                return "stopped by a debugger";
        case 'Z':
        case 'X':
                return "ended";
        case 'I':
                return "idle";
        default:
                return "in an unknown state";
        }
}

static void put_place(struct infp_out *out, const struct infp_backtrace_frame *frame)
{
        if (frame->file && frame->lineno)
                infp_report_put(out, "  %s:%" PRId64, frame->file, frame->lineno);
        else if (frame->file)
                infp_report_put(out, "  %s", frame->file);
        if (frame->object && (!frame->file || frame->kind != INFP_BACKTRACE_NATIVE))
                infp_report_put(out, "  %s", frame->object[0] == '/' ? infp_base_name(frame->object) : frame->object);
        if (frame->is_inlined)
                infp_report_put(out, "  (inlined)");
        if (frame->is_guessed)
                infp_report_put(out, "  (guessed)");
}

/* Python's functions stand out on a terminal. */
static void put_frame(struct infp_out *out, uint32_t depth, const struct infp_backtrace_frame *frame)
{
        infp_autostr struct infp_str name = { 0 };

        infp_report_put(out, "%5u  %-6s  ", depth, infp_backtrace_kind_name(frame->kind));
        infp_report_style(out, frame->kind == INFP_BACKTRACE_PYTHON ? "1" : "0");
        if (frame->func && frame->kind == INFP_BACKTRACE_NATIVE) /* without the arguments of templates */
                infp_flame_short_name(&name, frame->func);
        if (name.size && !name.failed)
                infp_report_put(out, "%s", name.data);
        else if (frame->func)
                infp_report_put(out, "%s", frame->func);
        else
                infp_report_put(out, "0x%" PRIx64, frame->address);
        infp_report_style(out, "0");
        put_place(out, frame);
        infp_report_end(out);
        for (unsigned i = 0; i < frame->n_locals; i++) {
                infp_report_put(out, "                 %s = %s", frame->locals[i].name, frame->locals[i].value);
                infp_report_end(out);
        }
}

static void put_frames(struct infp_out *out, const struct infp_backtrace_frame *frames, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                put_frame(out, i, &frames[i]);
}

static void put_thread(struct infp_out *out, const struct infp_backtrace_thread *thread)
{
        infp_report_end(out);
        infp_report_style(out, "1");
        infp_report_put(out, "Thread %d", thread->tid);
        if (thread->name)
                infp_report_put(out, " \"%s\"", thread->name);
        infp_report_style(out, "0");
        infp_report_put(out, "  %s", state_words(thread->state));
        if (thread->holds_gil)
                infp_report_put(out, ", holds the GIL");
        if (thread->was_stopped)
                infp_report_put(out, ", was stopped for %s", infp_report_seconds(thread->stop_us / 1e6).text);
        infp_report_end(out);
        if (thread->why) {
                infp_report_put(out, "  %s%s: %s", infp_backtrace_stack_name(thread->stack),
                                thread->is_truncated ? ", incomplete" : "", thread->why);
                infp_report_end(out);
        }
        put_frames(out, thread->frames, thread->n_frames);
        if (thread->n_native) {
                infp_report_put(out, "  native frames");
                infp_report_end(out);
                put_frames(out, thread->native, thread->n_native);
        }
        infp_out_drain(out);
}

static void put_gils(struct infp_out *out, const struct infp_backtrace_process *process)
{
        for (unsigned i = 0; i < process->n_gils; i++) {
                const struct infp_backtrace_gil *gil = &process->gils[i];

                infp_report_put(out, "  GIL");
                if (process->n_gils > 1)
                        infp_report_put(out, " of interpreter %" PRId64, gil->interpreter);
                if (gil->is_absent)
                        infp_report_put(out, ": there is none (free-threaded)");
                else if (gil->tid)
                        infp_report_put(out, ": held by thread %d", gil->tid);
                else
                        infp_report_put(out, gil->is_held ? ": held by a thread that is not shown" : ": free");
                infp_report_end(out);
        }
}

static void put_process(struct infp_out *out, const struct infp_backtrace_process *process)
{
        infp_report_style(out, "1");
        infp_report_put(out, "Process %d", process->pid);
        infp_report_style(out, "0");
        if (process->command)
                infp_report_put(out, "  %s", process->command);
        infp_report_end(out);
        if (process->python) {
                infp_report_put(out, "  Python %s", process->python);
                infp_report_end(out);
        }
        put_gils(out, process);
        if (process->problem) {
                infp_report_put(out, "  no Python frames: %s", process->problem);
                infp_report_end(out);
        }
        for (unsigned i = 0; i < process->n_threads; i++)
                put_thread(out, &process->threads[i]);
}

void infp_backtrace_put_text(struct infp_out *out, const struct infp_backtrace *backtrace)
{
        if (backtrace->is_no_block) {
                infp_report_put(out, "Nothing was stopped: frames are Python's alone, each read until it was the same "
                                     "twice.");
                infp_report_end(out);
                infp_report_end(out);
        }
        for (unsigned i = 0; i < backtrace->n_processes; i++) {
                if (i)
                        infp_report_end(out);
                put_process(out, &backtrace->processes[i]);
        }
}
