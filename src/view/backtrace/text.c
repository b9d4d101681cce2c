#include <inttypes.h>
#include <limits.h>
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
        if (thread->python_name && (!thread->name || strcmp(thread->name, thread->python_name) != 0))
                infp_report_put(out, ", in Python \"%s\"", thread->python_name);
        infp_report_style(out, "0");
        infp_report_put(out, "  %s", state_words(thread->state));
        if (thread->holds_gil)
                infp_report_put(out, ", holds the GIL");
        if (thread->was_stopped)
                infp_report_put(out, ", was stopped for %s", infp_report_seconds(thread->stop_us / 1e6).text);
        infp_report_end(out);
        if (thread->why) {
                infp_report_put(out, "  %s%s: %s", infp_backtrace_stack_name(thread->stack),
                                thread->is_incomplete ? ", incomplete" : "", thread->why);
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
                if (gil->is_off)
                        infp_report_put(out, ": off (free-threaded)");
                else if (gil->tid)
                        infp_report_put(out, ": held by thread %d", gil->tid);
                else
                        infp_report_put(out, gil->is_held ? ": held by a thread that is not shown" : ": free");
                infp_report_end(out);
        }
}

/* ---- tasks of asyncio ---- */

enum { MOST_AWAITERS = 8 }; /* that are named */

static void put_name(struct infp_out *out, const struct infp_backtrace_task *task)
{
        if (task->name)
                infp_report_put(out, "\"%s\"", task->name);
        else
                infp_report_put(out, "0x%" PRIx64, task->address);
}

static void put_awaiters(struct infp_out *out, const struct infp_backtrace_tasks *tasks,
                         const struct infp_backtrace_task *task)
{
        /* bound: the rest is counted */
        for (uint32_t i = 0; i < task->n_awaited_by && i < MOST_AWAITERS; i++) {
                infp_report_put(out, i ? ", " : ", awaited by ");
                put_name(out, &tasks->tasks[task->awaited_by[i]]);
        }
        if (task->n_awaited_by > MOST_AWAITERS)
                infp_report_put(out, " and %s more", infp_count(task->n_awaited_by - MOST_AWAITERS).text);
}

static void put_task(struct infp_out *out, const struct infp_backtrace_tasks *tasks,
                     const struct infp_backtrace_task *task)
{
        infp_report_end(out);
        infp_report_style(out, "1");
        infp_report_put(out, "Task ");
        put_name(out, task);
        infp_report_style(out, "0");
        infp_report_put(out, "  %s", infp_backtrace_task_state_name(task->state));
        if (task->tid)
                infp_report_put(out, " on thread %d", task->tid);
        if (task->waits_for_task != UINT32_MAX) {
                infp_report_put(out, " for task ");
                put_name(out, &tasks->tasks[task->waits_for_task]);
        } else if (task->waits_for) {
                infp_report_put(out, " for %s", task->waits_for);
        }
        put_awaiters(out, tasks, task);
        infp_report_end(out);
        if (task->why) {
                infp_report_put(out, "  %s%s", task->is_incomplete ? "incomplete: " : "", task->why);
                infp_report_end(out);
        }
        put_frames(out, task->frames, task->n_frames);
        infp_out_drain(out);
}

static void put_loop(struct infp_out *out, const struct infp_backtrace_tasks *tasks, unsigned index)
{
        const struct infp_backtrace_loop *loop = index < tasks->n_loops ? &tasks->loops[index] : NULL;
        uint32_t n = 0;

        for (uint32_t i = 0; i < tasks->n_tasks; i++)
                n += tasks->tasks[i].loop == index;
        if (!n)
                return;
        infp_report_end(out);
        infp_report_style(out, "1");
        infp_report_put(out, loop ? "Event loop" : "Tasks whose event loop is not known");
        infp_report_style(out, "0");
        if (loop && loop->type)
                infp_report_put(out, "  %s", loop->type);
        if (loop && loop->tid)
                infp_report_put(out, " in thread %d", loop->tid);
        infp_report_put(out, ": %s task%s", infp_count(n).text, n == 1 ? "" : "s");
        infp_report_end(out);
        for (uint32_t i = 0; i < tasks->n_tasks; i++)
                if (tasks->tasks[i].loop == index)
                        put_task(out, tasks, &tasks->tasks[i]);
}

static void put_tasks(struct infp_out *out, const struct infp_backtrace_tasks *tasks)
{
        infp_report_end(out);
        if (tasks->problem) {
                infp_report_put(out, "  no tasks of asyncio: %s", tasks->problem);
                infp_report_end(out);
                return;
        }
        infp_report_put(out, "  asyncio: %s task%s", infp_count(tasks->n_tasks).text, tasks->n_tasks == 1 ? "" : "s");
        if (tasks->was_stopped)
                infp_report_put(out, ", read while all threads were stopped for %s",
                                infp_report_seconds(tasks->stop_us / 1e6).text);
        if (tasks->n_running)
                infp_report_put(out, " (%u could not be stopped)", tasks->n_running);
        infp_report_end(out);
        for (unsigned i = 0; i < tasks->n_loops; i++)
                put_loop(out, tasks, i);
        put_loop(out, tasks, UINT_MAX);
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
        if (process->has_tasks)
                put_tasks(out, &process->tasks);
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
