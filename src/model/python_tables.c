#include "model/python_tables.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

// clang-format off
#define WRITTEN_BY \
        INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process that wrote it."), \
        INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread that wrote it."), \
        INFP_COLUMN(thread, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name that the program gave this thread.")

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
        INFP_COLUMN(self_duration, F64, GAUGE, s, DERIVED, NO, NULL, 0, NULL, "duration without that of the modules that it called."),
        INFP_COLUMN(class, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Class of the module."),
        INFP_COLUMN(device, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Device as PyTorch names it: cpu, cuda:0."),
        INFP_COLUMN(rank, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number of the process in its distributed job; null = there is none."),
        INFP_COLUMN(span, I64, LABEL, none, MEASURED, NO, "id", 0, NULL, "Span of the thread around it, as in spans; null = none."),
};

static const struct infp_column backtrace_columns[] = {
        [INFP_BACKTRACE_PID] = INFP_COLUMN(pid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Process."),
        [INFP_BACKTRACE_TID] = INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread."),
        [INFP_BACKTRACE_THREAD] = INFP_COLUMN(thread, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name: Python's where it has one, else the system's."),
        [INFP_BACKTRACE_SAMPLE] = INFP_COLUMN(sample, I64, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Number of the stack in the run, from 0: its frames have the same one."),
        [INFP_BACKTRACE_DEPTH] = INFP_COLUMN(depth, I64, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Frames inside this one; 0 = the innermost."),
        [INFP_BACKTRACE_IP] = INFP_COLUMN(ip, U64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Address in its object, as in frames; null = a frame of Python."),
        [INFP_BACKTRACE_FILE] = INFP_COLUMN(file, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its source file."),
        [INFP_BACKTRACE_FUNC] = INFP_COLUMN(func, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Function, inlined ones too; [object+0xaddress] where nothing names it."),
        [INFP_BACKTRACE_LINENO] = INFP_COLUMN(lineno, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Line that was executed."),
        [INFP_BACKTRACE_FRAME_TYPE] = INFP_COLUMN(frame_type, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Python, Native, Kernel; JIT: code that was made at run time."),
        [INFP_BACKTRACE_MODE] = INFP_COLUMN(mode, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As in stack_samples; null = it was read at once."),
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
const struct infp_table infp_table_torch_trace = {
        .name = "torch_trace",
        .schema = INFP_PYTHON_SCHEMA,
        .bulk = true,
        .help = "What each call of a module of PyTorch cost, on the steps that were sampled.",
        .columns = torch_trace_columns,
        .n_columns = INFP_COUNT(torch_trace_columns),
};

const struct infp_table *const infp_python_tables[] = { &infp_table_torch_trace, NULL };

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
