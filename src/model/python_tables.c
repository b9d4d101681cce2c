#include "model/python_tables.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

// clang-format off
#define WRITTEN_BY \
        INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process that wrote it."), \
        INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread that wrote it."), \
        INFP_COLUMN(thread, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name that the program gave this thread.")

#define RANK INFP_COLUMN(rank, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number of the process in its distributed job; null = it is part of no job.")

/* t_ns: when the call began. Names of the mission; memory is MiB, as upstream computes what it calls MB. */
static const struct infp_column torch_trace_columns[] = {
        WRITTEN_BY,
        INFP_COLUMN(step, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Step of the program: an iteration of training, or of the engine."),
        INFP_COLUMN(seq, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Place in the step, in the order in which the calls began."),
        INFP_COLUMN(module, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name of the module in its model's tree; of stage step that of the optimizer or of the step."),
        INFP_COLUMN(stage, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "forward, backward, step."),
        INFP_COLUMN(allocated, F64, GAUGE, mib, MEASURED, NO, NULL, 0, NULL, "Memory of the device in tensors at the end; null = the device has no caching allocator, as the CPU."),
        INFP_COLUMN(max_allocated, F64, GAUGE, mib, MEASURED, NO, NULL, 0, NULL, "The most of it so far, as the allocator counts."),
        INFP_COLUMN(cached, F64, GAUGE, mib, MEASURED, NO, NULL, 0, NULL, "Memory of the device that the caching allocator holds at the end, with what is free in it."),
        INFP_COLUMN(max_cached, F64, GAUGE, mib, MEASURED, NO, NULL, 0, NULL, "The most of it so far, as the allocator counts."),
        INFP_COLUMN(duration, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Time of the call, with what it called: of the device where there is one, else by CLOCK_MONOTONIC; null = it had not ended."),
        INFP_COLUMN(self_duration, F64, GAUGE, s, DERIVED, NO, NULL, 0, NULL, "duration without that of the modules that it called; null = not all of these were sampled."),
        INFP_COLUMN(class, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Class of the module."),
        INFP_COLUMN(device, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Device as PyTorch names it: cpu, cuda:0."),
        RANK,
        INFP_COLUMN(span, I64, LABEL, none, MEASURED, NO, "id", 0, NULL, "Span of the thread around it, as in spans; null = none."),
        INFP_COLUMN(growth, F64, GAUGE, mib, DERIVED, NO, NULL, 0, NULL, "Memory of the device in tensors at the end, less what was in them at the beginning."),
        INFP_COLUMN(cpu_duration, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Time of the call by CLOCK_MONOTONIC, where duration is that of the device; null = it is not."),
};

static const struct infp_column backtrace_columns[] = {
        [INFP_BACKTRACE_PID] = INFP_COLUMN(pid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Process."),
        [INFP_BACKTRACE_TID] = INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread."),
        [INFP_BACKTRACE_THREAD] = INFP_COLUMN(thread, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name: Python's where it has one, else the system's."),
        [INFP_BACKTRACE_SAMPLE] = INFP_COLUMN(sample, I64, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Number of the stack in the run: its frames have the same one. From 0; from -1 down of those that a program took of itself."),
        [INFP_BACKTRACE_DEPTH] = INFP_COLUMN(depth, I64, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Frames inside this one; 0 = the innermost."),
        [INFP_BACKTRACE_IP] = INFP_COLUMN(ip, U64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Address in its object, as in frames; null = a frame of Python."),
        [INFP_BACKTRACE_FILE] = INFP_COLUMN(file, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its source file."),
        [INFP_BACKTRACE_FUNC] = INFP_COLUMN(func, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Function, inlined ones too; [object+0xaddress] where nothing names it."),
        [INFP_BACKTRACE_LINENO] = INFP_COLUMN(lineno, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Line that was executed."),
        [INFP_BACKTRACE_FRAME_TYPE] = INFP_COLUMN(frame_type, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Python, Native, Kernel; JIT: code that was made at run time."),
        [INFP_BACKTRACE_MODE] = INFP_COLUMN(mode, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As in stack_samples; null = it was read at once, or the program took it."),
        [INFP_BACKTRACE_TRIGGER] = INFP_COLUMN(trigger, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As in own_stacks; null = infprof took it from outside."),
        [INFP_BACKTRACE_CAUSE] = INFP_COLUMN(cause, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As in own_stacks."),
};

#define TRIGGER INFP_COLUMN(trigger, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "periodic, module, step, exception, signal: what it was taken for.")
#define OF_WHOM \
        INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process."), \
        INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread."), \
        INFP_COLUMN(thread, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name that Python has for it.")

static const struct infp_column own_stacks_columns[] = {
        OF_WHOM,
        TRIGGER,
        INFP_COLUMN(cause, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The module or step and how long it took, the class of the exception, the signal; null = periodic."),
        INFP_COLUMN(sample, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number of the stack in its process, from 1: its frames have the same one."),
        INFP_COLUMN(depth, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Frames inside this one; 0 = the innermost."),
        INFP_COLUMN(func, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Function, with its class from Python 3.11 on."),
        INFP_COLUMN(file, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its source file."),
        INFP_COLUMN(lineno, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Line that was executed."),
};

static const struct infp_column variables_columns[] = {
        OF_WHOM,
        TRIGGER,
        INFP_COLUMN(step, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As in torch_steps; null = of no step."),
        INFP_COLUMN(scope, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The module, as in torch_trace, or the function that has the variable."),
        INFP_COLUMN(name, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name; of a module that of an argument or an attribute, or output."),
        INFP_COLUMN(type, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Class of its value."),
        INFP_COLUMN(value, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its value as Python writes it, cut; of a tensor shape, type and device; of other objects class and address; *** = a secret."),
        INFP_COLUMN(sample, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Stack that was taken with it, as in own_stacks; null = none."),
        INFP_COLUMN(depth, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its frame in that stack."),
};

/* t_ns: when the step began. */
static const struct infp_column torch_steps_columns[] = {
        WRITTEN_BY,
        INFP_COLUMN(step, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number of the step, from 0; of very short steps only some have a row."),
        INFP_COLUMN(model, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Outermost module that was called, or the engine's class."),
        INFP_COLUMN(phase, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "prefill, decode: by the shape of the token ids (one token a sequence is decoding); train; forward: the shape does not say."),
        INFP_COLUMN(shape, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Of the first tensor of the call: 4x512 is 4 sequences of 512 tokens."),
        INFP_COLUMN(kind, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "hooked: hooks stood; shadow: bare, and compared with a hooked one; bare; first: that the model was found by, with hooks; none: no step has hooks, note says why."),
        INFP_COLUMN(duration, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Time of the step by CLOCK_MONOTONIC."),
        INFP_COLUMN(own, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Time that the profiler took beside it: before it began and after it ended."),
        INFP_COLUMN(gc, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Of duration, in collections of garbage."),
        INFP_COLUMN(data, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Time in the data loader's iterator, in this thread since its step before."),
        INFP_COLUMN(wait, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "From the end of the model's previous step to the begin of this one; null = this is its first."),
        INFP_COLUMN(calls, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Calls of modules that were recorded."),
        INFP_COLUMN(note, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "first call, raised, or why there are no hooks; a row without a step says it of the process."),
        RANK,
};

/* t_ns: when the second step of the pair had ended. Shares are of the time that steps take without the profiler. */
static const struct infp_column torch_overhead_columns[] = {
        WRITTEN_BY,
        INFP_COLUMN(step, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Step of the pair that had hooks."),
        INFP_COLUMN(shadow, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Step of the pair that had none."),
        INFP_COLUMN(phase, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "As in torch_steps."),
        INFP_COLUMN(shape, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As in torch_steps, of the step with hooks."),
        INFP_COLUMN(hooked, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Duration of the step with hooks."),
        INFP_COLUMN(bare, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Duration of the step without."),
        INFP_COLUMN(every, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "From here on one step in so many is sampled."),
        INFP_COLUMN(pairs, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Pairs so far."),
        INFP_COLUMN(hooks, F64, GAUGE, ratio, ESTIMATED, NO, NULL, 0, NULL, "What hooks on all steps would add; null = there are too few pairs, as in what follows."),
        INFP_COLUMN(hooks_low, F64, GAUGE, ratio, ESTIMATED, NO, NULL, 0, NULL, "Lower end of its 95 % interval."),
        INFP_COLUMN(hooks_high, F64, GAUGE, ratio, ESTIMATED, NO, NULL, 0, NULL, "Upper end of its 95 % interval."),
        INFP_COLUMN(own, F64, GAUGE, ratio, MEASURED, NO, NULL, 0, NULL, "What the profiler did beside steps, so far."),
        INFP_COLUMN(overhead, F64, GAUGE, ratio, ESTIMATED, NO, NULL, 0, NULL, "What hooks have added to this process's steps so far, and own."),
        INFP_COLUMN(low, F64, GAUGE, ratio, ESTIMATED, NO, NULL, 0, NULL, "Lower end of its 95 % interval."),
        INFP_COLUMN(high, F64, GAUGE, ratio, ESTIMATED, NO, NULL, 0, NULL, "Upper end of its 95 % interval."),
        RANK,
};

/* t_ns: when the collection began. */
static const struct infp_column gc_columns[] = {
        WRITTEN_BY,
        INFP_COLUMN(generation, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Oldest generation that was collected: 0, 1 or 2."),
        INFP_COLUMN(duration, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Time of the collection, in which no other code of Python runs."),
        INFP_COLUMN(collected, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Objects that were freed."),
        INFP_COLUMN(uncollectable, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Objects that could not be."),
        INFP_COLUMN(short, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Collections of young objects since the row before, each below 0.1 ms, that have no row."),
        INFP_COLUMN(short_duration, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Time of those."),
};
// clang-format on

const struct infp_table infp_table_backtrace = {
        .name = "backtrace",
        .schema = INFP_PYTHON_SCHEMA,
        .bulk = true,
        .help = "Samples of stacks, a row a frame.",
        .columns = backtrace_columns,
        .n_columns = INFP_BACKTRACE_N,
};
const struct infp_table infp_table_stacks_now = {
        .name = "stacks_now",
        .schema = INFP_PYTHON_SCHEMA,
        .bulk = true,
        .help = "What the threads of a process do now, a row a frame.",
        .columns = backtrace_columns,
        .n_columns = INFP_BACKTRACE_N,
};
const struct infp_table infp_table_own_stacks = {
        .name = "own_stacks",
        .schema = INFP_PYTHON_SCHEMA,
        .bulk = true,
        .help = "Stacks that Python programs took of themselves, a row a frame.",
        .columns = own_stacks_columns,
        .n_columns = INFP_COUNT(own_stacks_columns),
};
static const struct infp_table variables_table = {
        .name = "variables",
        .schema = INFP_PYTHON_SCHEMA,
        .bulk = true,
        .help = "Variables of Python programs that were asked for by name.",
        .columns = variables_columns,
        .n_columns = INFP_COUNT(variables_columns),
};
const struct infp_table infp_table_torch_trace = {
        .name = "torch_trace",
        .schema = INFP_PYTHON_SCHEMA,
        .bulk = true,
        .help = "What each call of a module of PyTorch cost, on the steps that were sampled.",
        .columns = torch_trace_columns,
        .n_columns = INFP_COUNT(torch_trace_columns),
};

const struct infp_table infp_table_torch_steps = {
        .name = "torch_steps",
        .schema = INFP_PYTHON_SCHEMA,
        .bulk = true,
        .help = "Steps of programs with PyTorch: calls of a model, or iterations of training.",
        .columns = torch_steps_columns,
        .n_columns = INFP_COUNT(torch_steps_columns),
};
const struct infp_table infp_table_torch_overhead = {
        .name = "torch_overhead",
        .schema = INFP_PYTHON_SCHEMA,
        .help = "What the hooks of PyTorch cost, by pairs of steps with and without them.",
        .columns = torch_overhead_columns,
        .n_columns = INFP_COUNT(torch_overhead_columns),
};
const struct infp_table infp_table_gc = {
        .name = "gc",
        .schema = INFP_PYTHON_SCHEMA,
        .help = "Collections of garbage of Python processes whose PyTorch modules are profiled.",
        .columns = gc_columns,
        .n_columns = INFP_COUNT(gc_columns),
};

const struct infp_table *const infp_python_tables[] = { &infp_table_torch_trace,
                                                        &infp_table_torch_steps,
                                                        &infp_table_torch_overhead,
                                                        &infp_table_gc,
                                                        &infp_table_own_stacks,
                                                        &variables_table,
                                                        NULL };

const struct infp_table *infp_python_table_find(const char *name)
{
        for (const struct infp_table *const *t = infp_python_tables; *t; t++)
                if (!strcmp((*t)->name, name))
                        return *t;
        return NULL;
}

const char *infp_python_bare_name(const char *name)
{
        static const char schema[] = INFP_PYTHON_SCHEMA ".";

        return strncmp(name, schema, strlen(schema)) ? name : name + strlen(schema);
}
