/* All threads of one process: each is stopped, read, let go, and then unwound. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/backtrace/parts.h"
#include "app/record_info.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/number.h"
#include "base/procfile.h"
#include "base/rights.h"
#include "base/sort.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "sampler/stopped/stop.h"
#include "sampler/waits/wall_proc.h"

enum {
        UNKNOWN_STACK_BYTES = 64 << 10, /* of a stack whose end is not known: another one than the thread's own */
        MOST_STACK = 64 << 20,
        MOST_WAITS = 50, /* each of patience_ms, in a process */
        TABLES_S = 10,   /* for tables of code that is seen for the first time */
};

/* A process while its threads are read. Only one thread touches it at a time. */
struct taking {
        struct infp_backtraces *b;
        struct infp_backtrace_process *process;
        struct infp_backtrace_raws *raws;
        pid_t *tids;
        uint64_t *pthreads; /* of the threads by their place in tids; 0: not known */
        struct infp_map by_pthread;
        unsigned n_waits;    /* for threads that took long to stop */
        uint64_t main_stack; /* where the stack of the first thread begins; 0: not known */
        bool has_python;
        struct infp_backtrace_python python;
        struct infp_backtrace_walked walked;
        uint8_t stack[INFP_BACKTRACE_STACK_BYTES];
        uint32_t stack_size;
        bool is_cut;
        struct infp_stack_frame native[INFP_BACKTRACE_FRAMES];
        uint32_t native_places[INFP_BACKTRACE_FRAMES];
        uint32_t n_native;
        enum infp_unwind_end end;
};

static bool wants_native(const struct infp_backtraces *b)
{
        return !b->options.python_only && !b->options.no_block;
}

/* ---- which threads there are ---- */

static int compare_tids(const void *left, const void *right)
{
        const pid_t a = *(const pid_t *) left, b = *(const pid_t *) right;

        return a < b ? -1 : a > b;
}

static int list_threads(const struct infp_backtraces *b, pid_t pid, pid_t **ret, unsigned *ret_n, struct infp_err *err)
{
        struct infp_names names;
        infp_autoclose int fd = -1;
        const char *name;
        char path[48];
        unsigned cap = 0;
        uint64_t tid;

        snprintf(path, sizeof(path), "proc/%d/task", (int) pid);
        fd = openat(b->env.root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return infp_fail_errno(err, errno == ENOENT ? -ESRCH : -errno, "cannot list the threads of process %d",
                                       (int) pid);
        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)) && *ret_n < INFP_BACKTRACE_THREADS) {
                if (infp_parse_u64(name, strlen(name), &tid) < 0 || (b->options.tid && (pid_t) tid != b->options.tid))
                        continue;
                if (!INFP_MAKE_ROOM(*ret, *ret_n, cap, 32))
                        return infp_fail(err, -ENOMEM, "no memory for the threads of process %d", (int) pid);
                (*ret)[(*ret_n)++] = (pid_t) tid;
        }
        if (!*ret_n && b->options.tid)
                return infp_fail(err, -ESRCH, "process %d has no thread %d", (int) pid, (int) b->options.tid);
        if (!*ret_n)
                return infp_fail(err, -ESRCH, "process %d has ended", (int) pid);
        infp_sort(*ret, *ret_n, sizeof(**ret), compare_tids);
        return 0;
}

/* Its name and state, before it is stopped. */
static void meet(struct infp_backtraces *b, pid_t pid, struct infp_backtrace_thread *thread)
{
        struct infp_process stat;
        char path[64], text[1024];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/task/%d/stat", (int) pid, (int) thread->tid);
        n = infp_read_at(b->env.root_fd, path, text, sizeof(text));
        if (n <= 0 || infp_process_stat_parse(text, (size_t) n, &stat) < 0)
                return;
        thread->name = infp_backtrace_printf(b, "%.*s", stat.comm_size, stat.comm);
        thread->state = stat.state;
}

/* Fields of /proc/PID/stat, as proc(5) numbers them. */
enum { STAT_FLAGS = 9, STAT_START_STACK = 28, STAT_AFTER_NAME = 3 };
enum { KERNEL_THREAD = 0x00200000 }; /* of the flags */

static uint64_t stat_field(const struct infp_backtraces *b, pid_t pid, unsigned field)
{
        struct infp_span words[STAT_START_STACK - STAT_AFTER_NAME + 1], rest;
        char path[48], text[1024];
        uint64_t ret = 0;
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/stat", (int) pid);
        n = infp_read_at(b->env.root_fd, path, text, sizeof(text));
        infp_span_cut_last((struct infp_span){ text, n > 0 ? (size_t) n : 0 }, ')', &rest);
        infp_span_words(rest, words, INFP_COUNT(words));
        infp_span_u64(words[field - STAT_AFTER_NAME], &ret);
        return ret;
}

/* ---- while it is stopped ---- */

/* Where the stack with this pointer ends; 0: not known. glibc and musl put the thread's descriptor at its end. */
static uint64_t end_of(const struct taking *t, const struct infp_stopped *stopped, uint64_t sp)
{
        if (stopped->fs_base > sp && stopped->fs_base - sp < MOST_STACK)
                return stopped->fs_base;
        if (t->main_stack > sp && t->main_stack - sp < MOST_STACK)
                return t->main_stack;
        return 0;
}

static void copy_stack(struct taking *t, const struct infp_stopped *stopped)
{
        const uint64_t sp = stopped->registers[INFP_RSP], end = end_of(t, stopped, sp),
                       wanted = end ? end - sp : UNKNOWN_STACK_BYTES;
        const uint32_t cap = wanted < sizeof(t->stack) ? (uint32_t) wanted : sizeof(t->stack);
        const ssize_t n = infp_wall_read_stack(stopped->tid, sp, t->stack, cap);

        t->stack_size = n > 0 ? (uint32_t) n & ~UINT32_C(7) : 0;
        t->is_cut = n == (ssize_t) cap && (!end || wanted > cap);
}

static void run(void *context, unsigned index, const struct infp_stopped *stopped)
{
        struct taking *t = context;

        t->pthreads[index] = stopped->fs_base;
        if (wants_native(t->b))
                copy_stack(t, stopped);
        if (t->has_python)
                infp_backtrace_python_walk(&t->python, stopped->fs_base, &t->walked);
}

/* A thread that only waits for a CPU will stop when it gets one. */
static bool may_wait(void *context, unsigned index)
{
        struct taking *t = context;
        struct infp_backtrace_thread now = { .tid = t->tids[index] };

        meet(t->b, t->process->pid, &now);
        t->process->threads[index].state = now.state;
        return now.state && now.state != 'D' && ++t->n_waits <= MOST_WAITS;
}

/* ---- when it runs again ---- */

static void found(void *context, uint64_t cookie, const struct infp_stack_found *moment)
{
        struct taking *t = context;

        (void) cookie;
        (void) moment;
        t->n_native = infp_stacks_frames(t->b->stacks, t->native, INFP_BACKTRACE_FRAMES, &t->end);
        for (uint32_t i = 0; i < t->n_native; i++)
                t->native_places[i] = infp_backtrace_place(t->b, t->process->pid, &t->native[i]);
}

static void unwind(struct taking *t, const struct infp_stopped *stopped)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_perf_sample sample = { .t_ns = now,
                                           .pid = stopped->pid,
                                           .tid = stopped->tid,
                                           .cpu = -1,
                                           .has_registers = true,
                                           .stack = t->stack,
                                           .stack_size = t->stack_size,
                                           .is_cut = t->is_cut };

        memcpy(sample.registers, stopped->registers, sizeof(sample.registers));
        t->n_native = 0;
        t->end = INFP_UNWIND_BROKEN;
        infp_stacks_take(t->b->stacks, &sample, INFP_STACK_WALL, found, t, 0);
        infp_stacks_end(t->b->stacks, now + TABLES_S * INFP_NS_PER_S);
}

static struct infp_backtrace_raw *new_raws(uint32_t n)
{
        return n ? calloc(n, sizeof(struct infp_backtrace_raw)) : NULL;
}

static struct infp_backtrace_raw native_raw(const struct taking *t, uint32_t i)
{
        return (struct infp_backtrace_raw){ .place = t->native_places[i],
                                            .frame = { .is_guessed = t->native[i].is_guessed } };
}

static void put_python(struct taking *t, struct infp_backtrace_raws *raws)
{
        raws->frames = new_raws(t->walked.n);
        for (uint32_t i = 0; i < t->walked.n && raws->frames; i++) {
                struct infp_backtrace_raw *raw = &raws->frames[raws->n_frames];

                raw->place = UINT32_MAX;
                raws->n_frames += infp_backtrace_python_frame(&t->python, &t->walked, i, &raw->frame);
        }
}

static void put_native(struct taking *t, struct infp_backtrace_raw **ret, uint32_t *ret_n)
{
        *ret = new_raws(t->n_native);
        for (uint32_t i = 0; i < t->n_native && *ret; i++)
                (*ret)[(*ret_n)++] = native_raw(t, i);
}

/* False: the two do not fit, or Python's are torn. */
static bool put_merged(struct taking *t, struct infp_backtrace_raws *raws)
{
        const struct infp_python *found = &t->python.found;
        uint64_t pcs[INFP_BACKTRACE_FRAMES];
        bool exact[INFP_BACKTRACE_FRAMES];
        uint32_t order[2 * INFP_BACKTRACE_FRAMES], n;

        if (t->walked.end != INFP_PYTHON_WHOLE && t->walked.end != INFP_PYTHON_TOO_DEEP)
                return false;
        for (uint32_t i = 0; i < t->n_native; i++) {
                pcs[i] = t->native[i].pc;
                exact[i] = t->native[i].is_exact;
        }
        n = infp_python_merge(pcs, exact, t->n_native, t->end != INFP_UNWIND_COMPLETE, found->ranges, found->n_ranges,
                              t->walked.frames, t->walked.n, t->walked.end == INFP_PYTHON_TOO_DEEP, order,
                              INFP_COUNT(order));
        raws->frames = new_raws(n);
        for (uint32_t i = 0; i < n && raws->frames; i++) {
                struct infp_backtrace_raw *raw = &raws->frames[raws->n_frames];

                if (order[i] & INFP_PYTHON_IS_PYTHON) {
                        raw->place = UINT32_MAX;
                        raws->n_frames += infp_backtrace_python_frame(&t->python, &t->walked,
                                                                      order[i] & ~INFP_PYTHON_IS_PYTHON, &raw->frame);
                } else {
                        *raw = native_raw(t, order[i]);
                        raws->n_frames++;
                }
        }
        return n > 0;
}

static const char *why_incomplete(struct infp_backtraces *b, enum infp_unwind_end end)
{
        if (end == INFP_UNWIND_TRUNCATED)
                return "its outer frames are not in the part of the stack that was copied";
        if (end == INFP_UNWIND_TOO_DEEP)
                return infp_backtrace_printf(b, "it has more than %d frames", INFP_BACKTRACE_FRAMES);
        return infp_backtrace_printf(b, "its outer frames cannot be unwound: %s", infp_unwind_end_name(end));
}

static void judge_python(struct taking *t, struct infp_backtrace_thread *thread)
{
        if (t->walked.end == INFP_PYTHON_TOO_DEEP) {
                thread->is_incomplete = true;
                thread->why = infp_backtrace_printf(t->b, "it has more than %d Python frames", INFP_BACKTRACE_FRAMES);
        } else if (t->walked.end != INFP_PYTHON_WHOLE) {
                thread->stack = INFP_BACKTRACE_TORN;
                thread->why = t->walked.end == INFP_PYTHON_CYCLE ? "its Python frames form a cycle"
                              : thread->was_stopped ? "its Python frames changed, or cannot be read: it was about to "
                                                      "begin or to end"
                                                    : "its Python frames changed while they were read: try again, or "
                                                      "without --no-block";
        }
}

static void judge_locals(struct taking *t, struct infp_backtrace_thread *thread)
{
        uint32_t n_shown = 0; /* of them: not the shims */

        if (!t->b->options.locals || !thread->has_python || t->walked.n_with_locals >= t->walked.n)
                return;
        for (uint32_t i = 0; i < t->walked.n_with_locals; i++)
                n_shown += t->walked.frames[i].code != 0;
        thread->why = infp_backtrace_printf(t->b,
                                            "%s%sonly the variables of its inner %u frames were read: it had to run "
                                            "again after %d ms",
                                            thread->why ? thread->why : "", thread->why ? "; " : "", n_shown,
                                            INFP_BACKTRACE_LOCALS_MS);
}

/* From what was read of the thread to what is shown. */
static void conclude(struct taking *t, struct infp_backtrace_thread *thread, struct infp_backtrace_raws *raws)
{
        const bool has_native = wants_native(t->b);

        thread->has_python = t->has_python && t->walked.thread;
        if (thread->has_python) {
                thread->interpreter = t->walked.thread->interpreter_id;
                thread->holds_gil = t->walked.holds_gil;
        }
        if (has_native && t->end != INFP_UNWIND_COMPLETE) {
                thread->is_incomplete = true;
                thread->why = why_incomplete(t->b, t->end);
        }
        if (!thread->has_python || (!t->walked.n && has_native)) {
                thread->stack = has_native ? INFP_BACKTRACE_NATIVE_ALONE : INFP_BACKTRACE_NONE;
                put_native(t, &raws->frames, &raws->n_frames);
                if (!has_native)
                        thread->why = "it runs no Python";
                if (thread->has_python)
                        judge_python(t, thread);
                return;
        }
        thread->stack = INFP_BACKTRACE_PYTHON_ALONE;
        if (has_native && put_merged(t, raws)) {
                thread->stack = INFP_BACKTRACE_MERGED;
        } else {
                put_python(t, raws);
                if (has_native) {
                        thread->stack = INFP_BACKTRACE_UNMERGED;
                        thread->why = "its interpreter loops and its Python frames do not fit each other";
                        put_native(t, &raws->native, &raws->n_native);
                }
        }
        judge_python(t, thread);
}

/* ---- threads that cannot be stopped ---- */

/* Its frames in the kernel, as root may see them: "[<0>] futex_wait+0x7a/0x120 [module]". */
static void put_kernel(struct infp_backtraces *b, pid_t pid, pid_t tid, struct infp_backtrace_raws *raws)
{
        struct infp_span all, line;
        char path[64], text[8192];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/task/%d/stack", (int) pid, (int) tid);
        n = infp_read_at(b->env.root_fd, path, text, sizeof(text));
        all = (struct infp_span){ text, n > 0 ? (size_t) n : 0 };
        raws->frames = new_raws(INFP_BACKTRACE_FRAMES / 8);
        while (raws->frames && raws->n_frames < INFP_BACKTRACE_FRAMES / 8 && infp_span_line(&all, &line)) {
                struct infp_span name;

                infp_span_word(&line);
                name = infp_span_cut(infp_span_word(&line), '+', &(struct infp_span){ 0 });
                if (!name.size)
                        continue;
                raws->frames[raws->n_frames++] = (struct infp_backtrace_raw){
                        .place = UINT32_MAX,
                        .frame = { .func = infp_backtrace_printf(b, "%.*s", (int) name.size, name.at),
                                   .object = "[kernel]",
                                   .kind = INFP_BACKTRACE_KERNEL }
                };
        }
}

static void explain(struct taking *t, struct infp_backtrace_thread *thread, struct infp_backtrace_raws *raws,
                    const struct infp_stopped *stopped)
{
        char fix[INFP_RIGHTS_TEXT];

        switch (stopped->result) {
        case INFP_STOP_DENIED:
                thread->why = infp_backtrace_printf(t->b, "it may not be stopped: %s",
                                                    infp_rights_stop_fix(t->b->env.root_fd, stopped->pid, stopped->tid,
                                                                         "backtrace", fix, sizeof(fix)));
                break;
        case INFP_STOP_LATE:
                put_kernel(t->b, stopped->pid, stopped->tid, raws);
                thread->why = infp_backtrace_printf(t->b,
                                                    "it did not stop within %u ms: it waits in the kernel and cannot "
                                                    "be interrupted (state %c)",
                                                    t->b->options.patience_ms, thread->state ? thread->state : '?');
                break;
        case INFP_STOP_GONE:
                thread->why = "it has ended";
                break;
        case INFP_STOP_OTHER_CODE:
                thread->why = "it runs code for another machine than x86-64, whose stacks cannot be read";
                break;
        default:
                thread->why = infp_backtrace_printf(t->b, "it cannot be read: %s", strerror(stopped->error));
        }
}

static void done(void *context, unsigned index, const struct infp_stopped *stopped)
{
        struct taking *t = context;
        struct infp_backtrace_thread *thread = &t->process->threads[index];

        thread->stop_us = (double) stopped->stopped_ns / 1e3;
        thread->wait_us = (double) stopped->waited_ns / 1e3;
        thread->was_stopped = stopped->result == INFP_STOP_STOPPED;
        if (!thread->was_stopped) {
                explain(t, thread, &t->raws[index], stopped);
                return;
        }
        if (wants_native(t->b))
                unwind(t, stopped);
        conclude(t, thread, &t->raws[index]);
        judge_locals(t, thread);
}

/* ---- the whole process ---- */

/* The kernel's own threads have no memory, and zombies have none any more. */
static bool has_user_code(struct infp_backtraces *b, pid_t pid, struct infp_backtrace_thread *thread,
                          struct infp_backtrace_raws *raws)
{
        if (thread->state == 'Z' || thread->state == 'X') {
                thread->why = "it has ended and is a zombie: it has no stack, and stays until its parent waits for it";
                return false;
        }
        if (!(stat_field(b, pid, STAT_FLAGS) & KERNEL_THREAD))
                return true;
        put_kernel(b, pid, thread->tid, raws);
        if (!raws->n_frames)
                thread->why = "it is a thread of the kernel, whose stack root alone may see";
        return false;
}

/* The Python threads of a process that nobody stops, each for the thread that runs it. */
static void take_running(struct taking *t)
{
        for (unsigned i = 0; i < t->process->n_threads; i++) {
                /* As its own pid namespace has it. */
                const int32_t number = infp_proc_own_number(t->b->env.root_fd, "proc/", t->process->pid, t->tids[i]);

                t->walked.thread = NULL;
                t->walked.n = 0;
                t->walked.end = INFP_PYTHON_WHOLE;
                for (uint32_t k = 0; k < t->python.n_threads; k++)
                        if (infp_backtrace_python_number(&t->python, &t->python.threads[k]) == number) {
                                infp_backtrace_python_walk_running(&t->python, &t->python.threads[k], &t->walked);
                                t->pthreads[i] = t->python.threads[k].pthread;
                                break;
                        }
                conclude(t, &t->process->threads[i], &t->raws[i]);
        }
}

static int32_t tid_of(const struct taking *t, uint64_t pthread)
{
        for (unsigned i = 0; i < t->process->n_threads; i++)
                if (t->pthreads[i] == pthread)
                        return t->tids[i];
        return 0;
}

static void put_name(void *context, uint64_t pthread, const char *name)
{
        struct taking *t = context;
        const uint64_t *at = infp_map_get(&t->by_pthread, pthread);

        if (at && t->process->threads[*at].has_python)
                t->process->threads[*at].python_name = infp_strings_keep(&t->b->texts, name);
}

static void note_names(struct taking *t)
{
        for (unsigned i = 0; i < t->process->n_threads; i++)
                if (t->pthreads[i])
                        infp_map_put(&t->by_pthread, t->pthreads[i], i);
        infp_backtrace_python_names(&t->python, put_name, t);
        infp_map_done(&t->by_pthread);
}

/* Who held the GIL of each interpreter when its threads were listed. */
static void note_gils(struct taking *t)
{
        struct infp_backtrace_process *process = t->process;

        for (uint32_t i = t->python.n_threads; i-- > 0;) { /* the newest interpreter is the first of the list */
                const struct infp_python_thread *thread = &t->python.threads[i];
                struct infp_backtrace_gil *gil = NULL;

                for (unsigned k = 0; k < process->n_gils; k++)
                        if (process->gils[k].interpreter == thread->interpreter_id)
                                gil = &process->gils[k];
                if (!gil) {
                        if (!INFP_ONE_MORE(process->gils, process->n_gils))
                                return;
                        gil = &process->gils[process->n_gils++];
                        *gil = (struct infp_backtrace_gil){
                                .interpreter = thread->interpreter_id,
                                .is_off = infp_backtrace_python_gil_is_off(&t->python, thread->interpreter),
                        };
                }
                if (thread->holds_gil) {
                        gil->is_held = true;
                        gil->tid = tid_of(t, thread->pthread);
                }
        }
}

static void open_python(struct taking *t, pid_t pid)
{
        struct infp_err err = { "" };
        int r;

        if (t->b->options.native_only)
                return;
        r = infp_backtrace_python_open(t->b, pid, infp_proc_thread(t->b->env.root_fd, "proc/", pid), &t->python, &err);
        t->has_python = r == 0;
        if (r == 0)
                t->process->python = infp_backtrace_printf(t->b, "%u.%u.%u", t->python.found.version >> 24,
                                                           t->python.found.version >> 16 & 0xff,
                                                           t->python.found.version >> 8 & 0xff);
        else if (r != -ENOENT)
                t->process->problem = infp_strings_keep(&t->b->texts, err.text);
}

/* What of its threads can be stopped and read. */
static int take_threads(struct taking *t, struct infp_err *err)
{
        struct infp_backtrace_process *process = t->process;
        const struct infp_stop_each each = { .tids = t->tids,
                                             .n = process->n_threads,
                                             .pid = process->pid,
                                             .patience_ms = t->b->options.patience_ms,
                                             .may_wait = may_wait,
                                             .run = run,
                                             .done = done,
                                             .context = t };
        int r;

        t->main_stack = stat_field(t->b, process->pid, STAT_START_STACK);
        open_python(t, process->pid);
        if (wants_native(t->b))
                infp_stacks_seed(t->b->stacks, process->pid);
        if (t->b->options.no_block) {
                take_running(t);
                r = 0;
        } else {
                r = infp_stop_each(&each);
        }
        if (t->has_python) {
                note_gils(t);
                note_names(t);
                if (t->b->options.tasks)
                        infp_backtrace_tasks_take(&t->python, process, t->tids, t->pthreads);
                infp_backtrace_python_done(&t->python);
        }
        return r < 0 ? infp_fail_errno(err, r, "cannot start a thread that stops those of process %d",
                                       (int) process->pid)
                     : 0;
}

int infp_backtrace_process_take(struct infp_backtraces *b, pid_t pid, struct infp_backtrace_process *ret,
                                struct infp_backtrace_raws **ret_raws, struct infp_err *err)
{
        infp_autofree struct taking *t = calloc(1, sizeof(*t));
        infp_autofree uint64_t *pthreads = NULL;
        infp_autofree pid_t *tids = NULL;
        infp_autofree char *command = infp_record_command_of(&b->env, pid, b->options.keep_secrets);
        unsigned n = 0;

        if (!t)
                return infp_fail(err, -ENOMEM, "no memory for the stacks of process %d", (int) pid);
        INFP_TRY(list_threads(b, pid, &tids, &n, err));
        pthreads = calloc(n, sizeof(*pthreads));
        ret->threads = calloc(n, sizeof(*ret->threads));
        *ret_raws = calloc(n, sizeof(**ret_raws));
        if (!pthreads || !ret->threads || !*ret_raws)
                return infp_fail(err, -ENOMEM, "no memory for the stacks of process %d", (int) pid);
        ret->pid = pid;
        ret->n_threads = n;
        ret->command = command ? infp_strings_keep(&b->texts, command) : NULL;
        for (unsigned i = 0; i < n; i++) {
                ret->threads[i].tid = tids[i];
                meet(b, pid, &ret->threads[i]);
        }
        t->b = b;
        t->process = ret;
        t->raws = *ret_raws;
        t->tids = tids;
        t->pthreads = pthreads;
        return has_user_code(b, pid, &ret->threads[0], *ret_raws) ? take_threads(t, err) : 0;
}
