/* The frames of one Python thread, read from memory that may change meanwhile or be damaged: nothing is believed, all is bounded.
 *
 * No allocation, lock or output, and errno stays, so that it may run in a signal handler; it needs 10 KiB of stack. */
#pragma once

#include "unwind/python/layout.h"

/* Reads all of [address, address + size) of the process: 0 or a negative errno. errno stays as it was. */
struct infp_python_memory {
        int (*read)(void *context, uint64_t address, void *ret_bytes, size_t size);
        void *context;
};

struct infp_python_frame {
        uint64_t code;        /* address of its code object; 0: a shim, which has none */
        uint64_t address;     /* of the frame */
        uint64_t instruction; /* address, or index, as the version keeps it; infp_python_code_line takes it */
        uint32_t bytecode_index;
        uint8_t owner; /* enum infp_python_owner; 0 before 3.11 */
        bool is_entry; /* the interpreter loop that runs it was entered from C for it: the last frame of one loop */
};

enum infp_python_end {
        INFP_PYTHON_WHOLE,    /* the outermost frame was reached */
        INFP_PYTHON_TOO_DEEP, /* more frames than there was room for: the outermost are missing */
        INFP_PYTHON_TORN,     /* memory cannot be read, or what was read is not of one moment */
        INFP_PYTHON_CYCLE,
        INFP_PYTHON_MOVED, /* all was read, and the innermost frame was another one afterwards */
};

/* Fills up to max frames, the innermost first; shims are listed too (infp_python_merge needs them). */
uint32_t infp_python_walk(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                          uint64_t thread, struct infp_python_frame *ret, uint32_t max, enum infp_python_end *ret_end);

/* A thread state of a process. */
struct infp_python_thread {
        uint64_t state;   /* address of its PyThreadState */
        uint64_t pthread; /* its pthread_t, which is its FS base */
        uint64_t interpreter;
        int64_t interpreter_id;
        uint32_t native_id; /* as the process sees it; 0: not known */
        bool holds_gil;
};
/* All thread states of all interpreters, up to max: the newest interpreter first, and in it the newest thread. A thread that runs a
 * subinterpreter has a state in each, whose frames are the callers of those before it. Returns how many; *ret_is_whole is false when there are more, or when one could
 * not be read. */
uint32_t infp_python_threads(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                             uint64_t runtime, struct infp_python_thread *ret, uint32_t max, bool *ret_is_whole);
/* Whether the thread state still is what it was when it was listed. */
bool infp_python_thread_is_there(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                                 const struct infp_python_thread *thread);
/* Whether no thread state has been made since all of them were listed. */
bool infp_python_threads_are_newest(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                                    uint64_t runtime, const struct infp_python_thread *threads, uint32_t n);
/* The number of a thread as its own pid namespace has it, as glibc keeps it; 0: not known. */
int32_t infp_python_thread_number(const struct infp_python_memory *memory, const struct infp_python_thread *thread);

/* An interpreter's GIL as it is now. */
struct infp_python_gil {
        uint64_t begin, end; /* its lock and its condition variables, on which threads wait that want it */
        uint64_t holder;     /* the thread state that has it; 0: none */
        bool is_off;         /* of a free-threaded build, as a rule: nobody holds it or waits for it */
};
/* False: it is off, there is none, or memory cannot be read. */
bool infp_python_gil_read(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                          uint64_t runtime, uint64_t interpreter, struct infp_python_gil *ret);
/* The thread state that holds an interpreter's GIL now; 0: none does, there is no GIL, or memory cannot be read. */
/* Whether a thread that does not hold the GIL, and whose innermost frame this is, wants it back: it stands where the loop gives it away on
 * demand and calls nothing, at a jump backwards or at the begin of a function. False: it may be in C code, or the version is older than
 * 3.11, whose loop gives it away after most instructions. */
bool infp_python_wants_gil(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                           const struct infp_python_frame *frame);
uint64_t infp_python_gil_holder(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                                uint64_t runtime, uint64_t interpreter);
