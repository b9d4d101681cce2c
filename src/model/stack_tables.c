#include "model/stack_tables.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"

// clang-format off
static const struct infp_column mapping_columns[] = {
        [INFP_MAPPINGS_ID] = INFP_COLUMN(id, ID64, LABEL, none, DERIVED, NO, "", 0, NULL, "Mapping: a row each time that it was met again after long."),
        [INFP_MAPPINGS_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process that has it."),
        [INFP_MAPPINGS_START] = INFP_COLUMN(mStart, U64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "First address."),
        [INFP_MAPPINGS_END] = INFP_COLUMN(mEnd, U64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "First address after it."),
        [INFP_MAPPINGS_OFFSET] = INFP_COLUMN(mOffset, U64, LABEL, bytes, MEASURED, NO, NULL, 0, NULL, "Where in the file it begins."),
        [INFP_MAPPINGS_PATH] = INFP_COLUMN(mPath, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "File as the process sees it, or [vdso], [anon], memfd:NAME."),
        [INFP_MAPPINGS_BUILD_ID] = INFP_COLUMN(mBuildId, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Build id, hexadecimal; null = the file has none, or could not be read."),
        [INFP_MAPPINGS_IS_DELETED] = INFP_COLUMN(mIsDeleted, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The file was removed or replaced since it was mapped."),
};

static const struct infp_column frame_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, DERIVED, NO, "", 0, NULL, "Frame."),
};
static const struct infp_column frame_columns[] = {
        [INFP_FRAMES_KIND - 1] = INFP_COLUMN(fKind, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "native, c++ runtime, kernel, python, go, jit, vdso, unknown."),
        [INFP_FRAMES_OBJECT - 1] = INFP_COLUMN(fObject, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Path of the object, or the module."),
        [INFP_FRAMES_BUILD_ID - 1] = INFP_COLUMN(fBuildId, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Build id of the object, hexadecimal."),
        [INFP_FRAMES_ADDRESS - 1] = INFP_COLUMN(fAddress, U64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Address in the object (of an ELF file as in its headers); of a caller that of the call, not of the return. null = the frame has a name alone."),
        [INFP_FRAMES_IS_GUESSED - 1] = INFP_COLUMN(fIsGuessed, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Found by looking for a return address on the stack, where no table says how to unwind."),
};

static const struct infp_column symbol_columns[] = {
        [INFP_SYMBOLS_FRAME] = INFP_COLUMN(frame, ID64, LABEL, none, MEASURED, NO, "frames", 0, NULL, "Frame that is named."),
        [INFP_SYMBOLS_LEVEL] = INFP_COLUMN(sLevel, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "0: the function as it was compiled; 1, 2 ...: inlined into the one before."),
        [INFP_SYMBOLS_NAME] = INFP_COLUMN(sName, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Name, demangled."),
        [INFP_SYMBOLS_MANGLED] = INFP_COLUMN(sMangled, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name as the object has it, where that differs."),
        [INFP_SYMBOLS_FILE] = INFP_COLUMN(sFile, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Source file."),
        [INFP_SYMBOLS_LINE] = INFP_COLUMN(sLine, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Line of the address, or of the inlined call."),
        [INFP_SYMBOLS_FUNCTION_LINE] = INFP_COLUMN(sFunctionLine, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Line where the function begins."),
        [INFP_SYMBOLS_FROM] = INFP_COLUMN(sFrom, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Who says it: symtab, dynsym, debugdata, gopclntab, dwarf, perf map, jitdump, kallsyms, proc (system calls and wait channels of blocked threads), range (no name: the function's extent by its unwind table), code (the same, and what its instructions do is known: OpenMP wait), import."),
};

static const struct infp_column stack_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, DERIVED, NO, "", 0, NULL, "Node: a frame, and all frames that called it."),
};
static const struct infp_column stack_columns[] = {
        [INFP_STACKS_PARENT - 1] = INFP_COLUMN(parent, ID64, LABEL, none, MEASURED, NO, "stacks", 0, NULL, "Node of the caller; null = this is the root."),
        [INFP_STACKS_FRAME - 1] = INFP_COLUMN(frame, ID64, LABEL, none, MEASURED, NO, "frames", 0, NULL, "Its frame."),
        [INFP_STACKS_DEPTH - 1] = INFP_COLUMN(depth, I64, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Callers above it; 0 = the root."),
};

static const struct infp_column thread_keys[] = {
        INFP_COLUMN(id, ID64, LABEL, none, DERIVED, NO, "", 0, NULL, "Thread."),
};
static const struct infp_column thread_columns[] = {
        [INFP_THREADS_PROCESS - 1] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Its process."),
        [INFP_THREADS_TID - 1] = INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its number."),
        [INFP_THREADS_NAME - 1] = INFP_COLUMN(tName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name."),
        [INFP_THREADS_PID - 1] = INFP_COLUMN(tPid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Number of its process, also of one that lived between two looks at the processes and has no row in process."),
        [INFP_THREADS_PYTHON_NAME - 1] = INFP_COLUMN(tPythonName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name that Python has for it (its threading.Thread); null = Python did not start it, or its name is not known."),
};

static const struct infp_column sample_columns[] = {
        [INFP_STACK_SAMPLES_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process."),
        [INFP_STACK_SAMPLES_TID] = INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread."),
        [INFP_STACK_SAMPLES_THREAD] = INFP_COLUMN(thread, ID64, LABEL, none, DERIVED, NO, "threads", 0, NULL, "The thread under the name that it had then."),
        [INFP_STACK_SAMPLES_CPU] = INFP_COLUMN(cpu, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "CPU that it ran on."),
        [INFP_STACK_SAMPLES_STACK] = INFP_COLUMN(stack, ID64, LABEL, none, MEASURED, NO, "stacks", 0, NULL, "Innermost node."),
        [INFP_STACK_SAMPLES_WEIGHT] = INFP_COLUMN(weight, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "What the row stands for: seconds of modes cpu, wall, off-cpu, python, async and lag, bytes of heap, else the unit that mode names."),
        [INFP_STACK_SAMPLES_SAMPLES] = INFP_COLUMN(samples, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Samples in the row: 1 of our own, more of imported sums."),
        [INFP_STACK_SAMPLES_STATE] = INFP_COLUMN(state, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What the thread, or the task, waited for, or did; null = it was running."),
        [INFP_STACK_SAMPLES_MODE] = INFP_COLUMN(mode, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "How it was taken: cpu, wall, off-cpu, python (Python frames alone, of threads that have a CPU), async (tasks of asyncio), lag (threads whose event loop one callback held for 100 ms or more; rows of one follow each other without a gap), heap; of an imported profile TYPE/UNIT as it says."),
        [INFP_STACK_SAMPLES_IS_TRUNCATED] = INFP_COLUMN(is_truncated, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Outer frames are missing: the stack was deeper than what could be read."),
        [INFP_STACK_SAMPLES_GIL] = INFP_COLUMN(gil, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Modes wall and lag: what the thread had of its Python interpreter's GIL: holds, waits, none; null = not known, or it is no thread of Python."),
        [INFP_STACK_SAMPLES_IS_COMPLETED] = INFP_COLUMN(is_completed, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The outer frames were read from memory just after the sample: the thread was still in the same call, as far as can be seen."),
        [INFP_STACK_SAMPLES_CUT_BYTES] = INFP_COLUMN(cut_bytes, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "How deep a stack got that is_truncated: bytes from its stack pointer to the first one that was missing; null = it is whole, or it was not memory that was missing."),
        [INFP_STACK_SAMPLES_TASK] = INFP_COLUMN(task, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Mode async: name of the asyncio task, whose loop the thread runs."),
        [INFP_STACK_SAMPLES_OBJECTS] = INFP_COLUMN(objects, F64, GAUGE, count, DERIVED, NO, NULL, 0, NULL, "Modes of the heap: blocks that the row stands for, of sampled ones an estimate; null = not known."),
};

static const struct infp_column heap_columns[] = {
        [INFP_HEAP_SAMPLES_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process. t_ns of the row is when it allocated the block."),
        [INFP_HEAP_SAMPLES_TID] = INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread that allocated it."),
        [INFP_HEAP_SAMPLES_THREAD] = INFP_COLUMN(thread, ID64, LABEL, none, DERIVED, NO, "threads", 0, NULL, "The thread under the name that it had then."),
        [INFP_HEAP_SAMPLES_ADDRESS] = INFP_COLUMN(address, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its address."),
        [INFP_HEAP_SAMPLES_SIZE] = INFP_COLUMN(size, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "Bytes that were asked for."),
        [INFP_HEAP_SAMPLES_WEIGHT] = INFP_COLUMN(weight, F64, GAUGE, bytes, DERIVED, NO, NULL, 0, NULL, "Bytes that it stands for: size / (1 - e^(-size / mean)), mean being the bytes between two samples on average."),
        [INFP_HEAP_SAMPLES_STACK] = INFP_COLUMN(stack, ID64, LABEL, none, MEASURED, NO, "stacks", 0, NULL, "Innermost node of the stack that allocated it."),
        [INFP_HEAP_SAMPLES_FREED_NS] = INFP_COLUMN(freed_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "When it was freed, as t_ns; null = it was in use as the recording, or its process, ended. Of a recording that was killed such blocks are missing."),
        [INFP_HEAP_SAMPLES_FREED_TID] = INFP_COLUMN(freed_tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread that freed it, or gave it to realloc."),
        [INFP_HEAP_SAMPLES_ALLOCATOR] = INFP_COLUMN(allocator, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "malloc; python: an allocator of Python's own, for objects; mmap: the program has mapped it itself."),
};

static const struct infp_column heap_window_columns[] = {
        [INFP_HEAP_WINDOWS_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process. t_ns of the row is the end of the window."),
        [INFP_HEAP_WINDOWS_STACK] = INFP_COLUMN(stack, ID64, LABEL, none, MEASURED, NO, "stacks", 0, NULL, "Innermost node of the stack that allocates; null = stacks that are not known, and those beyond 65,536 of a process."),
        [INFP_HEAP_WINDOWS_SECONDS] = INFP_COLUMN(seconds, F64, GAUGE, s, MEASURED, NO, NULL, 0, NULL, "Length of the window: a sixteenth of the time since the first sample of the process, at least 0.25, at most 60."),
        [INFP_HEAP_WINDOWS_ALLOCATED] = INFP_COLUMN(allocated, F64, GAUGE, bytes, ESTIMATED, NO, NULL, 0, NULL, "Bytes allocated in the window: the sum of the weights of its samples, as in heap_samples."),
        [INFP_HEAP_WINDOWS_ALLOCATED_VARIANCE] = INFP_COLUMN(allocated_variance, F64, GAUGE, none, ESTIMATED, NO, NULL, 0, NULL, "Variance of allocated by sampling, in bytes squared: the sum of weight * (weight - size)."),
        [INFP_HEAP_WINDOWS_ALLOCATIONS] = INFP_COLUMN(allocations, F64, GAUGE, count, ESTIMATED, NO, NULL, 0, NULL, "Blocks allocated in the window: the sum of weight / size."),
        [INFP_HEAP_WINDOWS_SAMPLES] = INFP_COLUMN(samples, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Blocks allocated in the window that were sampled."),
        [INFP_HEAP_WINDOWS_FREED] = INFP_COLUMN(freed, F64, GAUGE, bytes, ESTIMATED, NO, NULL, 0, NULL, "Bytes freed in the window."),
        [INFP_HEAP_WINDOWS_TEMPORARY] = INFP_COLUMN(temporary, F64, GAUGE, bytes, ESTIMATED, NO, NULL, 0, NULL, "Of freed: what was allocated in the same window."),
        [INFP_HEAP_WINDOWS_LIVE] = INFP_COLUMN(live, F64, GAUGE, bytes, ESTIMATED, NO, NULL, 0, NULL, "Bytes in use at the end of the window."),
        [INFP_HEAP_WINDOWS_VARIANCE] = INFP_COLUMN(variance, F64, GAUGE, none, ESTIMATED, NO, NULL, 0, NULL, "Variance of live by sampling, in bytes squared: the sum of weight * (weight - size) of the samples in use (Horvitz and Thompson, for a chance of size / weight). The 95 % interval is live +- 1.96 * sqrt(variance)."),
        [INFP_HEAP_WINDOWS_LOW] = INFP_COLUMN(low, F64, GAUGE, bytes, ESTIMATED, NO, NULL, 0, NULL, "Least bytes that were in use in the window."),
        [INFP_HEAP_WINDOWS_OLD] = INFP_COLUMN(old, F64, GAUGE, bytes, ESTIMATED, NO, NULL, 0, NULL, "Of live: blocks that are older than half of the time since the first sample of the process."),
        [INFP_HEAP_WINDOWS_BLOCKS] = INFP_COLUMN(blocks, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Sampled blocks in use at the end of the window."),
        [INFP_HEAP_WINDOWS_OLDEST_NS] = INFP_COLUMN(oldest_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "When the oldest of them was allocated, as t_ns."),
        [INFP_HEAP_WINDOWS_MEAN_BYTES] = INFP_COLUMN(mean_bytes, I64, GAUGE, bytes, MEASURED, NO, NULL, 0, NULL, "Bytes between two samples on average, at least: of a thread whose samples would take too long they are more (weight of heap_samples has them). 0: every block was counted (--heap=exact), nothing is estimated."),
        [INFP_HEAP_WINDOWS_IS_LAST] = INFP_COLUMN(is_last, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "The process ended in this window, ran another program, or the recording ended."),
};

static const struct infp_column sampler_columns[] = {
        [INFP_SAMPLER_MODE] = INFP_COLUMN(mode, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "cpu, wall, off-cpu, python, async, lag: as in stack_samples."),
        [INFP_SAMPLER_METHOD] = INFP_COLUMN(method, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "How samples are taken: perf events of a tree, of threads, of CPUs, reading /proc, stops."),
        [INFP_SAMPLER_RATE] = INFP_COLUMN(rate_hz, F64, GAUGE, none, MEASURED, NO, NULL, 0, NULL, "Samples that are asked for a second of what the mode measures."),
        [INFP_SAMPLER_WANTED] = INFP_COLUMN(wanted, I64, COUNTER, count, DERIVED, ZERO, NULL, 0, NULL, "Samples that the time measured by the kernel's own clock asks for at this rate."),
        [INFP_SAMPLER_TAKEN] = INFP_COLUMN(taken, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples that became rows of stack_samples."),
        [INFP_SAMPLER_LOST] = INFP_COLUMN(lost, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Records that the kernel had no room for in its buffer; samples of rounds of mode wall that came too late; of mode async reads of tasks beyond the bound, and those that were put off to bound the cost, of mode lag looks at event loops whose callbacks cannot be read; of --blocking stops that took too long, and those that were left out after them."),
        [INFP_SAMPLER_THROTTLED] = INFP_COLUMN(throttled, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Times that the kernel paused the sampling, since it took too long."),
        [INFP_SAMPLER_DROPPED] = INFP_COLUMN(dropped, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples that were taken, and dropped by us for want of room."),
        [INFP_SAMPLER_TRUNCATED] = INFP_COLUMN(truncated, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples whose stack was larger than its copy, or deeper than the limit: outer frames are missing."),
        [INFP_SAMPLER_INCOMPLETE] = INFP_COLUMN(incomplete, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples whose unwinding ended for any other reason before the outermost frame."),
        [INFP_SAMPLER_FRAMES] = INFP_COLUMN(frames, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "User frames of all samples."),
        [INFP_SAMPLER_GUESSED_FRAMES] = INFP_COLUMN(guessed_frames, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Those of them that were guessed."),
        [INFP_SAMPLER_SKIPPED_THREADS] = INFP_COLUMN(skipped_threads, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Threads of the target that are not sampled, since a limit does not let us."),
        [INFP_SAMPLER_OWN_CPU_NS] = INFP_COLUMN(own_cpu_ns, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, NULL, "CPU time of the threads that do it."),
        [INFP_SAMPLER_TORN] = INFP_COLUMN(torn, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples without a stack, since the thread moved while it was read (modes that read threads which they do not stop)."),
        [INFP_SAMPLER_PYTHON_METHOD] = INFP_COLUMN(python_method, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "How Python frames are read; null = they are not."),
        [INFP_SAMPLER_PYTHON_MERGED] = INFP_COLUMN(python_merged, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples whose stacks have their Python frames in the places of the interpreter's own."),
        [INFP_SAMPLER_PYTHON_UNMERGED] = INFP_COLUMN(python_unmerged, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples whose Python frames do not fit their native frames: their stacks are native."),
        [INFP_SAMPLER_PYTHON_TORN] = INFP_COLUMN(python_torn, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples whose Python frames could not be read whole: they changed meanwhile, or their memory was not there. Their stacks are native."),
        [INFP_SAMPLER_PYTHON_MISSED] = INFP_COLUMN(python_missed, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples in which Python was at work, whose Python frames were not read: their stacks are native."),
        [INFP_SAMPLER_PYTHON_UNNAMED] = INFP_COLUMN(python_unnamed, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Code objects that were gone before their names were read."),
        [INFP_SAMPLER_PYTHON_PROCESSES] = INFP_COLUMN(python_processes, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Programs whose Python was found."),
        [INFP_SAMPLER_PYTHON_UNKNOWN] = INFP_COLUMN(python_unknown, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Programs with a Python that is not known, or that may not be read."),
        [INFP_SAMPLER_REPLACED] = INFP_COLUMN(replaced, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples of perf that were left out, since their processes sample themselves (--python=inside)."),
        [INFP_SAMPLER_HANDLER_NS] = INFP_COLUMN(handler_ns, I64, COUNTER, ns, MEASURED, ZERO, NULL, 0, NULL, "CPU time that the samplers inside processes took there, without the kernel's delivery of signals; of mode heap-allocated the time that samples took there."),
        [INFP_SAMPLER_PYTHON_ALONE] = INFP_COLUMN(python_alone, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples with Python frames alone: of threads that ran, read without a stop until they were the same twice; and of threads whose native stack cannot be read."),
        [INFP_SAMPLER_PYTHON_REJECTED] = INFP_COLUMN(python_rejected, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Reads of Python frames that were thrown away, since the thread had moved on meanwhile (each sample of mode python, whose threads are not stopped, is tried five times) or had lost its CPU. Above a tenth of all reads the profile is biased: functions that make few calls are seen too often."),
        [INFP_SAMPLER_DEEP] = INFP_COLUMN(deep, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples whose stack is deeper than perf's copy, and was read further by a BPF program in the same interrupt."),
        [INFP_SAMPLER_COMPLETED] = INFP_COLUMN(completed, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples whose outer frames were read from memory just after them (is_completed)."),
        [INFP_SAMPLER_MOVED] = INFP_COLUMN(moved, I64, COUNTER, count, MEASURED, ZERO, NULL, 0, NULL, "Samples whose outer frames could not be read any more just after them: the thread had gone on, or a millisecond had passed, in which it may have."),
};

static const struct infp_column stop_columns[] = {
        [INFP_THREAD_STOPS_PROCESS] = INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process."),
        [INFP_THREAD_STOPS_TID] = INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread."),
        [INFP_THREAD_STOPS_WAIT_NS] = INFP_COLUMN(wait_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "From the request until it was seen to be stopped: it ran, or waited for a CPU, for most of that."),
        [INFP_THREAD_STOPS_STOP_NS] = INFP_COLUMN(stop_ns, I64, GAUGE, ns, MEASURED, NO, NULL, 0, NULL, "From then until it was let go."),
};
// clang-format on

const struct infp_table infp_table_mappings = {
        .name = "mappings",
        .bulk = true,
        .help = "Files and memory that processes executed from.",
        .columns = mapping_columns,
        .n_columns = INFP_MAPPINGS_N,
};
const struct infp_table infp_table_frames = {
        .name = "frames",
        .bulk = true,
        .help = "Places in code that stacks name.",
        .keys = frame_keys,
        .n_keys = 1,
        .columns = frame_columns,
        .n_columns = INFP_FRAMES_N - 1,
        .entity = true,
};
const struct infp_table infp_table_symbols = {
        .name = "symbols",
        .bulk = true,
        .help = "Names of frames, a row a function that was compiled or inlined there.",
        .columns = symbol_columns,
        .n_columns = INFP_SYMBOLS_N,
};
const struct infp_table infp_table_stacks = {
        .name = "stacks",
        .bulk = true,
        .help = "Nodes of the tree of all stacks.",
        .keys = stack_keys,
        .n_keys = 1,
        .columns = stack_columns,
        .n_columns = INFP_STACKS_N - 1,
        .entity = true,
};
const struct infp_table infp_table_threads = {
        .name = "threads",
        .bulk = true,
        .help = "Threads of stacks, a row a name that they had.",
        .keys = thread_keys,
        .n_keys = 1,
        .columns = thread_columns,
        .n_columns = INFP_THREADS_N - 1,
        .entity = true,
};
const struct infp_table infp_table_thread_stops = {
        .name = "thread_stops",
        .bulk = true,
        .help = "Each stop of a thread by record --blocking.",
        .columns = stop_columns,
        .n_columns = INFP_THREAD_STOPS_N,
};
const struct infp_table infp_table_heap_samples = {
        .name = "heap_samples",
        .bulk = true,
        .help = "Blocks of the heap that record --heap has sampled, by bytes.",
        .columns = heap_columns,
        .n_columns = INFP_HEAP_SAMPLES_N,
};
const struct infp_table infp_table_heap_windows = {
        .name = "heap_windows",
        .bulk = true,
        .help = "What each stack had allocated, freed and in use in each window of time, estimated from heap_samples, "
                "or counted (--heap=exact): a row where that has changed in the window, or something is in use in the "
                "last.",
        .columns = heap_window_columns,
        .n_columns = INFP_HEAP_WINDOWS_N,
};
const struct infp_table infp_table_sampler = {
        .name = "sampler",
        .help = "How well stacks were sampled, a row a mode each second.",
        .columns = sampler_columns,
        .n_columns = INFP_SAMPLER_N,
};
const struct infp_table infp_table_stack_samples = {
        .name = "stack_samples",
        .bulk = true,
        .help = "Samples of stacks, a row each.",
        .columns = sample_columns,
        .n_columns = INFP_STACK_SAMPLES_N,
};

const struct infp_stack_mode_is infp_stack_modes[INFP_STACK_MODES] = {
        [INFP_STACK_CPU] = { "cpu", "seconds", "CPU", "by CPU time", .others = "cpu-time\0cpu_time\0" },
        [INFP_STACK_PYTHON] = { "python", "seconds", "Python",
                                "by CPU time, of Python frames that were read beside the native stacks" },
        [INFP_STACK_WALL] = { "wall", "seconds", "Wall-clock", "by wall-clock time of all threads", true,
                              "wall-time\0wall_time\0" },
        [INFP_STACK_OFF_CPU] = { "off-cpu", "seconds", "Off-CPU", "by time that threads waited", true,
                                 "off_cpu\0offcpu\0" },
        [INFP_STACK_ASYNC] = { "async", "seconds", "Asyncio", "by time of all tasks of asyncio", true },
        [INFP_STACK_LAG] = { "lag", "seconds", "Event loop lag", "by time that a callback held an event loop", true },
        [INFP_STACK_HEAP] = { "heap", "bytes", "Heap", "by bytes of the heap that were in use at the end",
                              .others = "heap-live\0inuse_space\0", .space = "inuse_space",
                              .objects = "inuse_objects" },
        [INFP_STACK_HEAP_PEAK] = { "heap-peak", "bytes", "Heap peak",
                                   "by bytes of the heap that were in use when each process had the most",
                                   .others = "peak_space\0", .space = "peak_space", .objects = "peak_objects" },
        [INFP_STACK_HEAP_ALLOCATED] = { "heap-allocated", "bytes", "Allocated", "by bytes that were allocated",
                                        .others = "alloc_space\0", .space = "alloc_space", .objects = "alloc_objects" },
};

static bool is_name(const char *of, const char *name, size_t size)
{
        return strlen(of) == size && !memcmp(of, name, size);
}

static bool is_called(const struct infp_stack_mode_is *mode, const char *name, size_t size)
{
        if (is_name(mode->name, name, size))
                return true;
        for (const char *other = mode->others; other && *other; other += strlen(other) + 1)
                if (is_name(other, name, size))
                        return true;
        return false;
}

enum infp_stack_mode infp_stack_mode_by_name(const char *name, size_t size)
{
        unsigned i = 0;

        while (i < INFP_STACK_MODES && !is_called(&infp_stack_modes[i], name, size))
                i++;
        return (enum infp_stack_mode) i;
}

enum infp_stack_mode infp_stack_mode_of(const char *name)
{
        return name ? infp_stack_mode_by_name(name, strlen(name)) : INFP_STACK_MODES;
}

enum infp_stack_mode infp_stack_mode_of_objects(const char *name)
{
        unsigned i = 0;

        while (i < INFP_STACK_MODES && (!infp_stack_modes[i].objects || strcmp(infp_stack_modes[i].objects, name) != 0))
                i++;
        return (enum infp_stack_mode) i;
}

double infp_heap_objects(double size_bytes, double mean_bytes)
{
        return size_bytes > 0 ? -1 / expm1(-size_bytes / mean_bytes) : 0;
}

uint64_t infp_heap_window_ns(uint64_t age_ns)
{
        static const uint64_t least_ns = INFP_NS_PER_S / 4, most_ns = 60 * INFP_NS_PER_S;
        const uint64_t part_ns = age_ns / 16;

        return part_ns < least_ns ? least_ns : part_ns > most_ns ? most_ns : part_ns;
}

static const char *const gils[INFP_GILS] = {
        [INFP_GIL_NONE] = "none",
        [INFP_GIL_HELD] = "holds",
        [INFP_GIL_WAITED] = "waits",
};

const char *infp_gil_name(enum infp_gil gil)
{
        return gils[gil];
}

enum infp_gil infp_gil_by_name(const char *name, size_t size)
{
        for (unsigned i = INFP_GIL_NONE; i < INFP_GILS; i++)
                if (strlen(gils[i]) == size && !memcmp(gils[i], name, size))
                        return (enum infp_gil) i;
        return INFP_GIL_UNKNOWN;
}

static const char *const kinds[INFP_FRAME_KINDS] = {
        [INFP_FRAME_NATIVE] = "native", [INFP_FRAME_CXX_RUNTIME] = "c++ runtime",
        [INFP_FRAME_KERNEL] = "kernel", [INFP_FRAME_PYTHON] = "python",
        [INFP_FRAME_GO] = "go",         [INFP_FRAME_JIT] = "jit",
        [INFP_FRAME_VDSO] = "vdso",     [INFP_FRAME_UNKNOWN] = "unknown",
};

const char *infp_frame_kind_name(enum infp_frame_kind kind)
{
        return kinds[kind];
}

int infp_frame_kind_by_name(const char *name, size_t size)
{
        for (unsigned i = 0; i < INFP_FRAME_KINDS; i++)
                if (strlen(kinds[i]) == size && !memcmp(kinds[i], name, size))
                        return (int) i;
        return -ENOENT;
}

bool infp_frame_is_in_file(enum infp_frame_kind kind, const char *object, size_t size)
{
        if (kind == INFP_FRAME_JIT || kind == INFP_FRAME_PYTHON || kind == INFP_FRAME_UNKNOWN)
                return false;
        return kind == INFP_FRAME_KERNEL || (size && *object == '/') || (size == 6 && !memcmp(object, "[vdso]", 6));
}

/* Wheels of Python have copies with a hash after the name: libgcc_s-a0b1c2d3.so.1. */
bool infp_is_cxx_runtime(const char *name, size_t size)
{
        static const char *const libraries[] = { "libstdc++", "libc++", "libc++abi", "libgcc_s", "libunwind" };

        for (unsigned i = 0; i < INFP_COUNT(libraries); i++) {
                const size_t n = strlen(libraries[i]);

                if (size > n && !memcmp(name, libraries[i], n) && (name[n] == '.' || name[n] == '-'))
                        return true;
        }
        return false;
}

static uint64_t never_0(uint64_t id)
{
        return id ? id : 1;
}

uint64_t infp_frame_id(enum infp_frame_kind kind, const void *object, size_t size, uint64_t address, bool is_guessed)
{
        const uint64_t parts[] = { (uint64_t) kind, address, is_guessed, infp_hash64(object, size, 0) };

        return never_0(infp_hash64(parts, sizeof(parts), 0x6672616d65)); /* "frame" */
}

uint64_t infp_named_frame_id(enum infp_frame_kind kind, const char *object, const char *name, const char *file,
                             int64_t line)
{
        const uint64_t parts[] = { (uint64_t) kind, infp_hash64(object, strlen(object), 0),
                                   infp_hash64(name, strlen(name), 0), infp_hash64(file, strlen(file), 0),
                                   (uint64_t) line };

        return never_0(infp_hash64(parts, sizeof(parts), 0x6e616d6564)); /* "named" */
}

uint64_t infp_thread_id(uint64_t process, int32_t tid, const char *name)
{
        const uint64_t parts[] = { process, (uint64_t) tid, infp_hash64(name, strlen(name), 0) };

        return never_0(infp_hash64(parts, sizeof(parts), 0x746872656164)); /* "thread" */
}

uint64_t infp_stack_id(uint64_t parent, uint64_t frame)
{
        const uint64_t parts[] = { parent, frame };

        return never_0(infp_hash64(parts, sizeof(parts), 0x737461636b)); /* "stack" */
}
