#include <inttypes.h>
#include <stdio.h>

#include "view/backtrace/backtrace.h"

const char *infp_backtrace_kind_name(enum infp_backtrace_kind kind)
{
        static const char *const names[] = { "Python", "Native", "Kernel", "JIT" };

        return names[kind];
}

const char *infp_backtrace_stack_name(enum infp_backtrace_stack stack)
{
        static const char *const names[INFP_BACKTRACE_STACKS] = { "none",   "native",   "python",
                                                                  "merged", "unmerged", "torn" };

        return names[stack];
}

const char *infp_backtrace_task_state_name(enum infp_backtrace_task_state state)
{
        static const char *const names[INFP_BACKTRACE_TASK_STATES] = { "created", "ready",  "running",   "waiting",
                                                                       "done",    "failed", "cancelled", "unknown" };

        return names[state];
}

static void put_line(struct infp_json *json, const struct infp_backtrace_frame *frame)
{
        if (frame->lineno)
                infp_json_member_i64(json, "lineno", frame->lineno);
        else {
                infp_json_key(json, "lineno");
                infp_json_null(json);
        }
}

static void put_locals(struct infp_json *json, const struct infp_backtrace_frame *frame)
{
        infp_json_key(json, "locals");
        infp_json_object(json);
        for (unsigned i = 0; i < frame->n_locals; i++)
                if (frame->locals[i].name)
                        infp_json_member_str(json, frame->locals[i].name, frame->locals[i].value);
        infp_json_object_end(json);
}

static void put_frames(struct infp_json *json, const char *key, const struct infp_backtrace_frame *frames, uint32_t n)
{
        infp_json_key(json, key);
        infp_json_array(json);
        for (uint32_t i = 0; i < n; i++) {
                infp_json_object(json);
                infp_json_member_str(json, "func", frames[i].func);
                infp_json_member_str(json, "file", frames[i].file);
                put_line(json, &frames[i]);
                infp_json_member_i64(json, "depth", i);
                infp_json_member_str(json, "frame_type", infp_backtrace_kind_name(frames[i].kind));
                if (frames[i].kind != INFP_BACKTRACE_PYTHON) {
                        infp_json_member_str(json, "object", frames[i].object);
                        if (frames[i].address)
                                infp_json_member_u64(json, "address", frames[i].address);
                        if (frames[i].is_inlined)
                                infp_json_member_bool(json, "inlined", true);
                        if (frames[i].is_guessed)
                                infp_json_member_bool(json, "guessed", true);
                }
                if (frames[i].locals)
                        put_locals(json, &frames[i]);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_thread(struct infp_json *json, const struct infp_backtrace_process *process,
                       const struct infp_backtrace_thread *thread)
{
        const char state[] = { thread->state, 0 };

        infp_json_object(json);
        infp_json_member_i64(json, "pid", process->pid);
        infp_json_member_i64(json, "tid", thread->tid);
        infp_json_member_str(json, "name", thread->name);
        infp_json_member_str(json, "state", *state ? state : NULL);
        infp_json_member_str(json, "command", process->command);
        infp_json_member_str(json, "python", process->python);
        infp_json_member_str(json, "problem", process->problem);
        infp_json_member_str(json, "stack", infp_backtrace_stack_name(thread->stack));
        infp_json_member_bool(json, "incomplete", thread->is_incomplete);
        infp_json_member_str(json, "why", thread->why);
        if (thread->has_python) {
                infp_json_member_i64(json, "interpreter", thread->interpreter);
                infp_json_member_bool(json, "holds_gil", thread->holds_gil);
                infp_json_member_str(json, "python_name", thread->python_name);
        }
        if (thread->was_stopped) {
                infp_json_member_f64(json, "stop_us", thread->stop_us);
                infp_json_member_f64(json, "wait_us", thread->wait_us);
        }
        put_frames(json, "frames", thread->frames, thread->n_frames);
        if (thread->n_native)
                put_frames(json, "native_frames", thread->native, thread->n_native);
        infp_json_object_end(json);
}

/* As a text: readers of JSON round numbers of 64 bits. */
static void put_address(struct infp_json *json, const char *key, uint64_t address)
{
        char text[24];

        snprintf(text, sizeof(text), "0x%" PRIx64, address);
        infp_json_member_str(json, key, address ? text : NULL);
}

static void put_loop(struct infp_json *json, const struct infp_backtrace_loop *loop)
{
        infp_json_key(json, "loop");
        infp_json_object(json);
        put_address(json, "address", loop->address);
        infp_json_member_str(json, "type", loop->type);
        if (loop->tid)
                infp_json_member_i64(json, "tid", loop->tid);
        infp_json_member_i64(json, "interpreter", loop->interpreter);
        infp_json_object_end(json);
}

static void put_relations(struct infp_json *json, const struct infp_backtrace_tasks *tasks,
                          const struct infp_backtrace_task *task)
{
        infp_json_member_str(json, "waits_for", task->waits_for);
        if (task->waits_for_task != UINT32_MAX)
                put_address(json, "waits_for_task", tasks->tasks[task->waits_for_task].address);
        infp_json_key(json, "awaited_by");
        infp_json_array(json);
        for (uint32_t i = 0; i < task->n_awaited_by; i++) {
                const struct infp_backtrace_task *by = &tasks->tasks[task->awaited_by[i]];

                infp_json_object(json);
                put_address(json, "task", by->address);
                infp_json_member_str(json, "name", by->name);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_task(struct infp_json *json, const struct infp_backtrace_process *process,
                     const struct infp_backtrace_task *task)
{
        infp_json_object(json);
        infp_json_member_i64(json, "pid", process->pid);
        put_address(json, "task", task->address);
        infp_json_member_str(json, "name", task->name);
        infp_json_member_str(json, "state", infp_backtrace_task_state_name(task->state));
        infp_json_member_str(json, "command", process->command);
        infp_json_member_str(json, "python", process->python);
        if (task->loop < process->tasks.n_loops)
                put_loop(json, &process->tasks.loops[task->loop]);
        if (task->tid)
                infp_json_member_i64(json, "tid", task->tid);
        put_relations(json, &process->tasks, task);
        infp_json_member_bool(json, "incomplete", task->is_incomplete);
        infp_json_member_str(json, "why", task->why);
        put_frames(json, "frames", task->frames, task->n_frames);
        infp_json_object_end(json);
}

void infp_backtrace_put_json(struct infp_json *json, const struct infp_backtrace *backtrace)
{
        infp_json_array(json);
        for (unsigned i = 0; i < backtrace->n_processes; i++) {
                const struct infp_backtrace_process *process = &backtrace->processes[i];

                for (unsigned k = 0; k < process->n_threads; k++)
                        put_thread(json, process, &process->threads[k]);
                for (uint32_t k = 0; k < process->tasks.n_tasks; k++)
                        put_task(json, process, &process->tasks.tasks[k]);
        }
        infp_json_array_end(json);
}
