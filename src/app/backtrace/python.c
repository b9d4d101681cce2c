/* The interpreter of one process: its threads, their frames, and the code that these run. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "app/backtrace/parts.h"
#include "base/mem.h"
#include "base/time.h"
#include "unwind/python/thread_names.h"

enum {
        MOST_CODES = 65536,
        TRIES = 5, /* of a running thread */
};

int infp_backtrace_python_open(struct infp_backtraces *b, pid_t pid, pid_t tid, struct infp_backtrace_python *ret,
                               struct infp_err *err)
{
        int r;

        *ret = (struct infp_backtrace_python){ .b = b, .tid = tid, .memory = infp_python_process_memory(tid) };
        r = infp_python_find(b->env.root_fd, pid, &ret->found, err);
        if (r < 0)
                return r;
        ret->scratch = malloc(sizeof(*ret->scratch));
        ret->threads = malloc(INFP_BACKTRACE_THREADS * sizeof(*ret->threads)); /* untouched memory costs nothing */
        if (!ret->scratch || !ret->threads) {
                infp_backtrace_python_done(ret);
                return infp_fail(err, -ENOMEM, "no memory for the Python threads of process %d", (int) pid);
        }
        ret->values = (struct infp_python_values){ .layout = &ret->found.layout,
                                                   .memory = ret->memory,
                                                   .keep_secrets = b->options.keep_secrets };
        infp_backtrace_python_list(ret);
        return 0;
}

void infp_backtrace_python_forget(struct infp_backtrace_python *python)
{
        for (uint32_t i = 0; i < python->n_codes; i++)
                free(python->codes[i].line_table);
        python->n_codes = 0;
        infp_map_done(&python->by_code);
}

void infp_backtrace_python_done(struct infp_backtrace_python *python)
{
        infp_backtrace_python_forget(python);
        free(python->codes);
        free(python->threads);
        free(python->scratch);
        infp_map_done(&python->by_pthread);
        *python = (struct infp_backtrace_python){ 0 };
}

void infp_backtrace_python_list(struct infp_backtrace_python *python)
{
        infp_map_done(&python->by_pthread);
        python->n_threads = infp_python_threads(&python->found.layout, &python->memory, python->found.runtime,
                                                python->threads, INFP_BACKTRACE_THREADS, &python->is_whole);
        for (uint32_t i = python->n_threads; i-- > 0;) /* the first of several is the one that lives */
                infp_map_put(&python->by_pthread, python->threads[i].pthread, i);
}

/* The thread state of a thread that is stopped. One that began since the list was made is in a newer one. */
static const struct infp_python_thread *find(struct infp_backtrace_python *python, uint64_t pthread)
{
        for (unsigned try = 0; try < 2; try++) {
                const uint64_t *at = infp_map_get(&python->by_pthread, pthread);
                const struct infp_python_thread *thread = at ? &python->threads[*at] : NULL;

                if (thread && infp_python_thread_is_there(&python->found.layout, &python->memory, thread))
                        return thread;
                if (try || (!thread && python->is_whole &&
                            infp_python_threads_are_newest(&python->found.layout, &python->memory,
                                                           python->found.runtime, python->threads, python->n_threads)))
                        return NULL;
                infp_backtrace_python_list(python);
        }
        return NULL;
}

/* What stays of a code object. */
static bool keep_code(struct infp_backtrace_python *python, struct infp_backtrace_code *ret)
{
        const struct infp_python_lines *lines = &python->scratch->lines;

        ret->func = infp_strings_keep(&python->b->texts, python->scratch->function);
        ret->file = infp_strings_keep(&python->b->texts, python->scratch->file);
        ret->lines = *lines;
        ret->line_table = malloc(lines->table_size + 1);
        if (ret->line_table && lines->table)
                ret->lines.table = memcpy(ret->line_table, lines->table, lines->table_size);
        return ret->line_table != NULL;
}

/* The number of a code object; UINT32_MAX: it cannot be read. */
static uint32_t code_of(struct infp_backtrace_python *python, uint64_t address)
{
        const uint64_t *known = infp_map_get(&python->by_code, address);

        if (known)
                return (uint32_t) *known;
        if (python->n_codes >= MOST_CODES || !INFP_MAKE_ROOM(python->codes, python->n_codes, python->cap_codes, 64) ||
            infp_python_code_read(&python->found.layout, &python->memory, python->found.code_type, address,
                                  python->scratch) < 0 ||
            !keep_code(python, &python->codes[python->n_codes]))
                return UINT32_MAX;
        if (infp_map_put(&python->by_code, address, python->n_codes) < 0) {
                free(python->codes[python->n_codes].line_table);
                return UINT32_MAX;
        }
        return python->n_codes++;
}

/* Those of the frames that are there now: another code object may have the place of one that was read before. False: not all could be
 * read. */
static bool read_codes(struct infp_backtrace_python *python, struct infp_backtrace_walked *walked)
{
        bool is_whole = true;

        infp_backtrace_python_forget(python);
        for (uint32_t i = 0; i < walked->n; i++) {
                walked->codes[i] = walked->frames[i].code ? code_of(python, walked->frames[i].code) : UINT32_MAX;
                is_whole &= !walked->frames[i].code || walked->codes[i] != UINT32_MAX;
        }
        return is_whole;
}

struct locals {
        struct infp_backtraces *b;
        struct infp_backtrace_local *all;
        unsigned n;
        uint64_t until_ns;
};

static bool take_local(void *context, const char *name, const char *value)
{
        struct locals *locals = context;

        if (INFP_ONE_MORE(locals->all, locals->n))
                locals->all[locals->n++] = (struct infp_backtrace_local){ infp_strings_keep(&locals->b->texts, name),
                                                                          infp_strings_keep(&locals->b->texts, value) };
        return infp_clock_ns(CLOCK_MONOTONIC) < locals->until_ns;
}

static void read_locals(struct infp_backtrace_python *python, struct infp_backtrace_walked *walked)
{
        const uint64_t until_ns = infp_clock_ns(CLOCK_MONOTONIC) + INFP_BACKTRACE_LOCALS_MS * INFP_NS_PER_MS;
        struct infp_backtraces *b = python->b;

        memset(walked->locals, 0, sizeof(walked->locals));
        memset(walked->n_locals, 0, sizeof(walked->n_locals));
        for (walked->n_with_locals = 0; walked->n_with_locals < walked->n;) {
                const uint32_t i = walked->n_with_locals;
                struct locals locals = { .b = b, .until_ns = until_ns };

                infp_python_locals(&python->values, &walked->frames[i], take_local, &locals);
                if (locals.all && !INFP_ONE_MORE(b->locals, b->n_locals)) {
                        free(locals.all);
                        return;
                }
                if (locals.all)
                        b->locals[b->n_locals++] = locals.all;
                walked->locals[i] = locals.all;
                walked->n_locals[i] = locals.n;
                if (infp_clock_ns(CLOCK_MONOTONIC) >= until_ns)
                        return;
                walked->n_with_locals++;
        }
}

static void walk(const struct infp_backtrace_python *python, struct infp_backtrace_walked *walked)
{
        walked->n = infp_python_walk(&python->found.layout, &python->memory, walked->thread->state, walked->frames,
                                     INFP_BACKTRACE_FRAMES, &walked->end);
}

/* A thread that runs one interpreter from within another has a state of each: the newer interpreter's frames are the inner ones. States
 * of a thread that has ended have no frames. */
static void walk_outer(const struct infp_backtrace_python *python, uint64_t pthread,
                       struct infp_backtrace_walked *walked)
{
        for (uint32_t i = (uint32_t) (walked->thread - python->threads) + 1; i < python->n_threads; i++) {
                const struct infp_python_thread *thread = &python->threads[i];
                enum infp_python_end end;
                uint32_t n;

                if (thread->pthread != pthread || walked->end != INFP_PYTHON_WHOLE ||
                    walked->n == INFP_BACKTRACE_FRAMES)
                        continue;
                n = infp_python_walk(&python->found.layout, &python->memory, thread->state, walked->frames + walked->n,
                                     INFP_BACKTRACE_FRAMES - walked->n, &end);
                if (end == INFP_PYTHON_WHOLE || end == INFP_PYTHON_TOO_DEEP) {
                        walked->n += n;
                        walked->end = end;
                }
        }
}

bool infp_backtrace_python_gil_is_off(const struct infp_backtrace_python *python, uint64_t interpreter)
{
        struct infp_python_gil gil = { 0 };

        infp_python_gil_read(&python->found.layout, &python->memory, python->found.runtime, interpreter, &gil);
        return gil.is_off;
}

static bool holds_gil(const struct infp_backtrace_python *python, const struct infp_python_thread *thread)
{
        return infp_python_gil_holder(&python->found.layout, &python->memory, python->found.runtime,
                                      thread->interpreter) == thread->state;
}

void infp_backtrace_python_walk(struct infp_backtrace_python *python, uint64_t pthread,
                                struct infp_backtrace_walked *ret)
{
        ret->thread = find(python, pthread);
        ret->n = 0;
        ret->end = INFP_PYTHON_WHOLE;
        if (!ret->thread)
                return;
        walk(python, ret);
        walk_outer(python, pthread, ret);
        ret->holds_gil = holds_gil(python, ret->thread);
        if (!read_codes(python, ret) && ret->end == INFP_PYTHON_WHOLE)
                ret->end = INFP_PYTHON_TORN;
        if (python->b->options.locals)
                read_locals(python, ret);
}

/* The same frames, whatever instructions they have come to. */
static bool is_same(const struct infp_backtrace_walked *walked, const struct infp_python_frame *frames, uint32_t n)
{
        if (walked->n != n)
                return false;
        for (uint32_t i = 0; i < n; i++)
                if (walked->frames[i].address != frames[i].address || walked->frames[i].code != frames[i].code ||
                    (i && walked->frames[i].instruction != frames[i].instruction))
                        return false;
        return true;
}

bool infp_backtrace_python_walk_running(struct infp_backtrace_python *python, const struct infp_python_thread *thread,
                                        struct infp_backtrace_walked *ret)
{
        infp_autofree struct infp_python_frame *before = malloc(sizeof(ret->frames));
        bool is_sure = false;

        ret->thread = thread;
        walk(python, ret);
        for (unsigned try = 0; before && try < TRIES && !is_sure; try++) {
                const uint32_t n = ret->n;
                const bool is_read = read_codes(python, ret); /* between the two: they are of frames that are there */

                memcpy(before, ret->frames, n * sizeof(*before));
                walk(python, ret);
                is_sure = is_read && ret->end == INFP_PYTHON_WHOLE && is_same(ret, before, n);
        }
        ret->holds_gil = holds_gil(python, thread);
        if (!is_sure) {
                read_codes(python, ret);
                if (ret->end == INFP_PYTHON_WHOLE)
                        ret->end = INFP_PYTHON_TORN;
        }
        return is_sure;
}

void infp_backtrace_python_names(struct infp_backtrace_python *python,
                                 void (*take)(void *context, uint64_t pthread, const char *name), void *context)
{
        infp_autofree struct infp_python_task_layout *layout = malloc(sizeof(*layout));
        infp_autofree struct infp_python_objects *objects = calloc(1, sizeof(*objects));
        infp_autofree struct infp_python_item *items = malloc(INFP_PYTHON_NAMED_THREADS * sizeof(*items));
        uint64_t last = 0;

        if (!layout || !objects || !items ||
            infp_python_tasks_problem(&python->found, &python->memory, layout)) /* objects are not known */
                return;
        *objects = (struct infp_python_objects){ .layout = &python->found.layout,
                                                 .tasks = layout,
                                                 .memory = python->memory };
        for (uint32_t i = 0; i < python->n_threads; i++) {
                const uint64_t interpreter = python->threads[i].interpreter;

                if (interpreter != last)
                        infp_python_thread_names(objects, interpreter, items, take, context);
                last = interpreter;
        }
}

int32_t infp_backtrace_python_number(const struct infp_backtrace_python *python,
                                     const struct infp_python_thread *thread)
{
        return thread->native_id ? (int32_t) thread->native_id : infp_python_thread_number(&python->memory, thread);
}

static void show_code(const struct infp_backtrace_python *python, uint32_t i, const struct infp_python_frame *frame,
                      struct infp_backtrace_frame *ret)
{
        const struct infp_backtrace_code *code = &python->codes[i];

        ret->func = code->func;
        ret->file = code->file;
        ret->lineno = infp_python_code_line(&python->found.layout, &code->lines, frame->instruction);
}

bool infp_backtrace_python_frame(const struct infp_backtrace_python *python, const struct infp_backtrace_walked *walked,
                                 uint32_t i, struct infp_backtrace_frame *ret)
{
        const struct infp_python_frame *frame = &walked->frames[i];

        *ret = (struct infp_backtrace_frame){ .kind = INFP_BACKTRACE_PYTHON };
        if (python->b->options.locals) {
                ret->locals = walked->locals[i];
                ret->n_locals = walked->n_locals[i];
        }
        if (!frame->code)
                return false;
        if (walked->codes[i] == UINT32_MAX)
                return true;
        show_code(python, walked->codes[i], frame, ret);
        return true;
}

bool infp_backtrace_python_any_frame(struct infp_backtrace_python *python, const struct infp_python_frame *frame,
                                     struct infp_backtrace_frame *ret)
{
        const uint32_t code = frame->code ? code_of(python, frame->code) : UINT32_MAX;

        *ret = (struct infp_backtrace_frame){ .kind = INFP_BACKTRACE_PYTHON };
        if (code == UINT32_MAX)
                return false;
        show_code(python, code, frame, ret);
        return true;
}
