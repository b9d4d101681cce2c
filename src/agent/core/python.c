#include "agent/core/python.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/machine.h"

static struct infp_python_layout layout;
static uint64_t runtime, code_type, loop_begin, loop_end;
static struct infp_python_check code_check;

/* "3.11.2 (main, ...": 0x030b */
static uint32_t version_of(const char *text)
{
        uint32_t part[2] = { 0, 0 };

        for (unsigned i = 0; i < 2; i++) {
                for (; *text >= '0' && *text <= '9'; text++)
                        part[i] = part[i] * 10 + (uint32_t) (*text - '0');
                if (i == 0 && *text++ != '.')
                        return 0;
        }
        return part[0] << 8 | part[1];
}

static void find_loop(void)
{
        const ElfW(Sym) *symbol = NULL;
        void *at = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
        Dl_info info;

        if (!at || !dladdr1(at, &info, (void **) &symbol, RTLD_DL_SYMENT) || !symbol)
                return;
        loop_begin = (uint64_t) (uintptr_t) at;
        loop_end = loop_begin + symbol->st_size;
}

int infp_agent_python_find(uint32_t *ret_version)
{
        const char *(*get_version)(void);
        uint8_t bytes[INFP_PYTHON_DEBUG_OFFSETS];
        uint32_t found = 0;
        ssize_t n;

        *(void **) &get_version = dlsym(RTLD_DEFAULT, "Py_GetVersion");
        runtime = (uint64_t) (uintptr_t) dlsym(RTLD_DEFAULT, "_PyRuntime");
        code_type = (uint64_t) (uintptr_t) dlsym(RTLD_DEFAULT, "PyCode_Type");
        if (!get_version)
                return -ENOENT;
        *ret_version = version_of(get_version());
        find_loop();
        if (!runtime || !loop_begin)
                return -ENOTSUP;
        n = infp_agent_memory_copy(runtime, bytes, sizeof(bytes));
        if (!infp_python_layout_of((uint16_t) *ret_version, &layout) &&
            (n <= 0 || !infp_python_layout_of_runtime(bytes, (size_t) n, &layout, &found)))
                return -ENOTSUP;
        infp_python_check_of(&layout, &code_check);
        return 0;
}

bool infp_agent_python_is_free_threaded(void)
{
        return layout.is_free_threaded;
}

bool infp_agent_python_is_loop(uint64_t pc)
{
        return pc >= loop_begin && pc < loop_end;
}

/* ---- whose frames ---- */

struct own {
        uint64_t state; /* the thread's PyThreadState, when it was found last */
        uint32_t misses, calls;
};
static _Thread_local struct own own __attribute__((tls_model("initial-exec")));

static bool is_ours(struct infp_agent_memory *memory, uint64_t state, uint64_t self)
{
        uint64_t pthread;

        return state && infp_agent_memory_read(memory, state + layout.thread_pthread, &pthread, sizeof(pthread)) == 0 &&
               pthread == self;
}

/* One that runs Python code comes before one that does not: a thread may have a state in several interpreters. */
static uint64_t search(struct infp_agent_python *python, const struct infp_python_memory *memory, uint64_t self)
{
        uint64_t found = 0, frame;
        bool is_whole;
        uint32_t n =
                infp_python_threads(&layout, memory, runtime, python->threads, INFP_AGENT_PYTHON_THREADS, &is_whole);

        for (uint32_t i = 0; i < n; i++) {
                const uint64_t state = python->threads[i].state;

                if (python->threads[i].pthread != self)
                        continue;
                if (memory->read(memory->context, state + layout.thread_frame, &frame, sizeof(frame)) == 0 && frame)
                        return state;
                found = state;
        }
        return found;
}

/* Threads without a state are many (of BLAS, of runtimes): it is looked for more and more rarely. */
static bool may_have_state(bool must_have)
{
        return own.state || must_have || own.calls++ >= (own.misses < 6 ? UINT32_C(1) << own.misses : 64);
}

static uint64_t own_state(struct infp_agent_python *python, const struct infp_python_memory *memory)
{
        const uint64_t self = infp_agent_thread_pointer();

        if (is_ours(&python->memory, own.state, self))
                return own.state;
        own.calls = 0;
        own.state = search(python, memory, self);
        own.misses = own.state ? 0 : own.misses + 1;
        return own.state;
}

/* ---- names ---- */

enum { CACHED = 4096, RECENT = 64 };

/* Written by one thread at a time, read by any: a reader that finds `sequence` odd or changed does without. */
struct cached {
        _Atomic uint32_t sequence, file_number, id, line, check;
        _Atomic uint64_t code, instruction;
};
static struct cached cache[CACHED];

static struct cached *cached_at(uint64_t code, uint64_t instruction)
{
        return &cache[(code * UINT64_C(0x9e3779b97f4a7c15) ^ instruction * UINT64_C(0xc2b2ae3d27d4eb4f)) >> 52];
}

static bool cache_get(const struct infp_python_frame *frame, uint32_t check, struct infp_wire_python *ret)
{
        struct cached *at = cached_at(frame->code, frame->instruction);
        const uint32_t sequence = atomic_load_explicit(&at->sequence, memory_order_acquire);
        const bool is_it = atomic_load_explicit(&at->code, memory_order_relaxed) == frame->code &&
                           atomic_load_explicit(&at->instruction, memory_order_relaxed) == frame->instruction &&
                           atomic_load_explicit(&at->check, memory_order_relaxed) == check &&
                           atomic_load_explicit(&at->file_number, memory_order_relaxed) == infp_writer_file_number();

        *ret = (struct infp_wire_python){ atomic_load_explicit(&at->id, memory_order_relaxed),
                                          atomic_load_explicit(&at->line, memory_order_relaxed) };
        atomic_thread_fence(memory_order_acquire);
        return is_it && !(sequence & 1) && atomic_load_explicit(&at->sequence, memory_order_relaxed) == sequence;
}

static void cache_put(const struct infp_python_frame *frame, uint32_t check, struct infp_wire_python value)
{
        struct cached *at = cached_at(frame->code, frame->instruction);
        uint32_t sequence = atomic_load_explicit(&at->sequence, memory_order_relaxed);

        if (sequence & 1 || !atomic_compare_exchange_strong_explicit(&at->sequence, &sequence, sequence + 1,
                                                                     memory_order_acquire, memory_order_relaxed))
                return;
        atomic_thread_fence(memory_order_release);
        atomic_store_explicit(&at->code, frame->code, memory_order_relaxed);
        atomic_store_explicit(&at->instruction, frame->instruction, memory_order_relaxed);
        atomic_store_explicit(&at->check, check, memory_order_relaxed);
        atomic_store_explicit(&at->file_number, infp_writer_file_number(), memory_order_relaxed);
        atomic_store_explicit(&at->id, value.code, memory_order_relaxed);
        atomic_store_explicit(&at->line, value.line, memory_order_relaxed);
        atomic_store_explicit(&at->sequence, sequence + 2, memory_order_release);
}

/* The code objects of all frames, each about once: recursion has few. */
static void list_codes(struct infp_agent_python *python, uint32_t n)
{
        uint16_t recent[RECENT] = { 0 }; /* frames by their code: number + 1 */

        python->checks.n = 0;
        for (uint32_t i = 0; i < n; i++) {
                const uint64_t code = python->frames[i].code;
                uint16_t *at = &recent[code / 16 % RECENT];

                if (!code)
                        continue;
                if (*at && python->frames[*at - 1].code == code) {
                        python->copies[i] = python->copies[*at - 1];
                        continue;
                }
                python->copies[i] = (uint16_t) python->checks.n;
                python->checks.codes[python->checks.n++] = code;
                *at = (uint16_t) (i + 1);
        }
}

static struct infp_wire_python name_of(struct infp_agent_python *python, struct infp_writer_thread *thread,
                                       const struct infp_python_frame *frame)
{
        const struct infp_python_memory memory = { infp_agent_memory_read_once, NULL };
        struct infp_wire_python ret = { 0, 0 };

        if (infp_python_code_read(&layout, &memory, code_type, frame->code, &python->code) < 0)
                return ret;
        ret.code = infp_writer_code(thread, python->code.file, python->code.function, python->code.lines.first_line);
        ret.line = infp_python_code_line(&layout, &python->code.lines, frame->instruction);
        if (ret.line & INFP_WIRE_ENTRY)
                ret.line = 0;
        return ret;
}

static void name_all(struct infp_agent_python *python, struct infp_writer_thread *thread, uint32_t n,
                     struct infp_wire_python *ret)
{
        uint32_t n_checked;

        list_codes(python, n);
        python->checks.gather = infp_agent_memory_gather;
        python->checks.context = &python->memory;
        n_checked = infp_python_checks_make(&python->checks, &layout, &code_check);
        for (uint32_t i = 0; i < n; i++) {
                const struct infp_python_frame *frame = &python->frames[i];
                const uint32_t at = python->copies[i];
                uint32_t check;

                ret[i] = (struct infp_wire_python){ INFP_WIRE_SHIM, frame->is_entry ? INFP_WIRE_ENTRY : 0 };
                if (!frame->code)
                        continue;
                check = at < n_checked ? python->checks.ret[at] : 0;
                if (at >= n_checked || !cache_get(frame, check, &ret[i])) {
                        ret[i] = name_of(python, thread, frame);
                        if (at < n_checked && (ret[i].code || infp_writer_is_full())) /* else it is read each time */
                                cache_put(frame, check, ret[i]);
                }
                if (frame->is_entry)
                        ret[i].line |= INFP_WIRE_ENTRY;
        }
}

uint32_t infp_agent_python_frames(struct infp_agent_python *python, struct infp_writer_thread *thread, bool must_have,
                                  struct infp_wire_python *ret, uint8_t *flags)
{
        const struct infp_python_memory memory = { infp_agent_memory_read, &python->memory };
        enum infp_python_end end = INFP_PYTHON_WHOLE;
        uint64_t state;
        uint32_t n;

        if (!may_have_state(must_have))
                return 0;
        infp_agent_memory_begin(&python->memory);
        state = own_state(python, &memory);
        if (!state)
                return 0;
        n = infp_python_walk(&layout, &memory, state, python->frames, INFP_WIRE_FRAMES, &end);
        if (end != INFP_PYTHON_WHOLE)
                *flags |= INFP_WIRE_PYTHON_INCOMPLETE;
        if (end != INFP_PYTHON_WHOLE && end != INFP_PYTHON_TOO_DEEP)
                return 0;
        name_all(python, thread, n, ret);
        return n;
}
