#include "sampler/inside/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/number.h"
#include "base/procfile.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "ring/wire.h"
#include "sampler/inside/exact.h"
#include "sampler/inside/heap.h"
#include "sampler/inside/heap_doubts.h"
#include "sampler/inside/tables.h"
#include "sampler/inside/weight.h"
#include "sampler/python/finder.h"

enum {
        MOST_PROCESSES = 1024,
        MOST_THREADS = 16384,
        MOST_FRAMES = 65536, /* that are known of a process, then all are forgotten */
        TEXT = INFP_WIRE_MAX_RECORD,
};
static const uint64_t turn_ns = 50 * INFP_NS_PER_MS, alive_ns = INFP_NS_PER_S, most_pause_ns = INFP_NS_PER_S,
                      refresh_ns = 5 * INFP_NS_PER_S, grace_ns = INFP_NS_PER_S, most_tick_ns = 20 * INFP_NS_PER_MS,
                      patience_ns = 3 * INFP_NS_PER_S; /* for tables, and for the Python to be found */

struct process {
        struct infp_inside_ring own;
        struct infp_ring *ring;
        uint64_t cookie, look_ns, ready_ns; /* ready: all that its samples may name was known */
        bool is_found;                      /* the finder has answered */
        struct infp_python *python;         /* NULL: not known */
        struct infp_map silent;             /* tid -> samples of perf since the last of its own */
        struct infp_map tids;               /* as the process sees them -> as we do */
        uint64_t listed_ns;                 /* in the turn of which they were read */
        struct infp_map frames;             /* code and line -> id of the named frame */
        uint64_t number, version;           /* of the tables that were offered; 0: none yet */
        bool is_stale;                /* it has mapped something that its tables do not have, or closed a library */
        uint64_t n_closed;            /* of these when its mappings were read last */
        uint64_t reread_ns, pause_ns; /* when its mappings may be read again */
        uint64_t offered_ns, from_ns; /* its samples count from here on: those of before were perf's */
        bool has_sampled, is_over;
        uint32_t said_state;
        uint64_t read_ns, newest_ns; /* when it was read last, and of its newest sample */
        struct infp_ring_sampler counts;
        struct infp_inside_weights weights;
        uint64_t n_broken; /* samples with more CPU time than can be */
        struct infp_inside_heap heap;
        struct infp_inside_exact exact;
        struct infp_ring_heap heap_counts;
        struct infp_inside_heap_said said_heap;
};

struct infp_inside {
        struct infp_inside_options options;
        struct infp_python_finder *finder;
        int directory; /* of tables; -1: not opened yet */
        struct process *processes;
        unsigned n;
        uint64_t last_cookie, begin_ns, pid_ns; /* pid_ns: our own */
        bool said_rate;

        pthread_mutex_t lock;
        struct infp_inside_ring *given; /* under the lock */
        unsigned n_given;

        struct infp_inside_counts ended; /* of processes that are no longer listed */
        uint64_t n_replaced, n_unnamed, n_unknown, n_pythons;
        /* Of the sample that is at work. */
        uint64_t now_ns;
        struct process *process;
        struct infp_python_frame frames[INFP_WIRE_FRAMES];
        uint64_t ids[INFP_WIRE_FRAMES];
};

int infp_inside_new(const struct infp_inside_options *options, struct infp_inside **ret, struct infp_err *err)
{
        struct infp_inside *inside = calloc(1, sizeof(*inside));
        struct stat status;
        int r;

        if (!inside)
                return infp_fail(err, -ENOMEM, "no memory for samplers inside processes");
        inside->options = *options;
        inside->directory = -1;
        inside->begin_ns = infp_clock_ns(CLOCK_MONOTONIC);
        if (fstatat(options->env->root_fd, "proc/self/ns/pid", &status, 0) == 0)
                inside->pid_ns = status.st_ino;
        pthread_mutex_init(&inside->lock, NULL);
        r = infp_python_finder_new(options->env->root_fd, options->wake_fd, &inside->finder);
        if (r < 0) {
                infp_inside_free(inside);
                return infp_fail(err, r, "no memory for samplers inside processes");
        }
        *ret = inside;
        return 0;
}

static void ring_done(struct infp_inside_ring *ring)
{
        infp_close(ring->file);
        infp_close(ring->dir_fd);
}

static void process_done(struct process *process)
{
        infp_ring_close(process->ring);
        ring_done(&process->own);
        infp_map_done(&process->frames);
        infp_map_done(&process->silent);
        infp_map_done(&process->tids);
        infp_inside_weights_done(&process->weights);
        infp_inside_heap_done(&process->heap);
        infp_inside_exact_done(&process->exact);
        free(process->python);
}

struct infp_inside *infp_inside_free(struct infp_inside *inside)
{
        if (!inside)
                return NULL;
        for (unsigned i = 0; i < inside->n; i++)
                process_done(&inside->processes[i]);
        for (unsigned i = 0; i < inside->n_given; i++)
                ring_done(&inside->given[i]);
        infp_python_finder_free(inside->finder);
        infp_close(inside->directory);
        pthread_mutex_destroy(&inside->lock);
        free(inside->processes);
        free(inside->given);
        free(inside);
        return NULL;
}

void infp_inside_take(struct infp_inside *inside, const struct infp_inside_ring *ring)
{
        const uint64_t one = 1;
        struct infp_inside_ring own = *ring;

        pthread_mutex_lock(&inside->lock);
        if (inside->n_given < MOST_PROCESSES && INFP_ONE_MORE(inside->given, inside->n_given)) {
                inside->given[inside->n_given++] = own;
                own.file = own.dir_fd = -1;
        }
        pthread_mutex_unlock(&inside->lock);
        ring_done(&own);
        (void) !write(inside->options.wake_fd, &one, sizeof(one));
}

__attribute__((format(printf, 4, 5))) static void say(const struct infp_inside *inside, const char *instance, int r,
                                                      const char *format, ...)
{
        char text[512];
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        infp_explain_problem(inside->options.explain, instance, r, text);
}

/* ---- samples ---- */

/* The id of a frame's name, which its process has written. */
static uint64_t frame_id(struct infp_inside *inside, struct process *process, const struct infp_ring_python *frame)
{
        const uint64_t key = ((uint64_t) frame->code << 32 | frame->line) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        const uint64_t *at = infp_map_get(&process->frames, key);
        char function[TEXT], file[TEXT];
        struct infp_ring_code code;
        struct infp_python_name name;
        uint64_t id;

        if (at)
                return *at;
        if (!frame->code || infp_ring_code(process->ring, frame->code, &code) < 0) {
                inside->n_unnamed++;
                return infp_python_names_add_unnamed(inside->options.names, process->own.owner.process, 0);
        }
        snprintf(function, sizeof(function), "%.*s", (int) code.function_size, code.function);
        snprintf(file, sizeof(file), "%.*s", (int) code.file_size, code.file);
        name = (struct infp_python_name){ .function = infp_python_names_text(inside->options.names, function),
                                          .file = infp_python_names_text(inside->options.names, file),
                                          .line = frame->line,
                                          .first_line = code.line };
        if (!name.function || !name.file)
                return 0;
        id = infp_python_names_add(inside->options.names, &name);
        if (process->frames.n >= MOST_FRAMES)
                infp_map_done(&process->frames);
        infp_map_put(&process->frames, key, id);
        return id;
}

static struct infp_python_moment moment_of(struct infp_inside *inside, struct process *process,
                                           const struct infp_ring_stack *stack)
{
        for (uint32_t i = 0; i < stack->n_python; i++) {
                const struct infp_ring_python *frame = &stack->python[i];

                inside->frames[i] = (struct infp_python_frame){
                        .code = !frame->is_shim,
                        .owner = frame->is_shim ? INFP_PYTHON_OWNER_SHIM : INFP_PYTHON_OWNER_THREAD,
                        .is_entry = frame->is_entry,
                };
                inside->ids[i] = frame->is_shim ? 0 : frame_id(inside, process, frame);
        }
        return (struct infp_python_moment){
                .ranges = process->python->ranges,
                .n_ranges = process->python->n_ranges,
                .has_frames = stack->n_python || stack->is_python_incomplete,
                .n = stack->n_python,
                .frames = inside->frames,
                .ids = inside->ids,
                .end = !stack->is_python_incomplete ? INFP_PYTHON_WHOLE
                       : stack->n_python            ? INFP_PYTHON_TOO_DEEP
                                                    : INFP_PYTHON_TORN,
        };
}

/* Threads that block SIGPROF never sample themselves: after so many of perf's samples these count again. */
static uint64_t patience_of(const struct infp_inside *inside)
{
        return (uint64_t) (inside->options.hz / 2) + 2;
}

static void hear(struct infp_inside *inside, struct process *process, int32_t tid)
{
        uint64_t *n = infp_map_get(&process->silent, (uint32_t) tid);

        if (!n)
                return;
        if (*n > patience_of(inside)) /* what is on its way was perf's, too */
                process->from_ns = inside->now_ns;
        *n = 0;
}

static bool is_silent(struct infp_inside *inside, struct process *process, int32_t tid)
{
        uint64_t *n = infp_map_get(&process->silent, (uint32_t) tid);

        if (n)
                return ++*n > patience_of(inside);
        if (process->silent.n >= MOST_THREADS)
                infp_map_done(&process->silent);
        infp_map_put(&process->silent, (uint32_t) tid, 1);
        return false;
}

/* The number of each thread of a process, by the one that it has in its own pid namespace. */
static void list_numbers(const struct infp_inside *inside, struct process *process)
{
        const int root_fd = inside->options.env->root_fd;
        struct infp_names names;
        infp_autoclose int fd = -1;
        const char *name;
        char path[48];
        uint64_t tid;

        snprintf(path, sizeof(path), "proc/%d/task", (int) process->own.pid);
        fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return;
        infp_map_done(&process->tids);
        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)) && process->tids.n < MOST_THREADS)
                if (infp_parse_u64(name, strlen(name), &tid) == 0)
                        infp_map_put(&process->tids,
                                     (uint32_t) infp_proc_own_number(root_fd, "proc/", process->own.pid, (int32_t) tid),
                                     tid);
}

/* Our number of a thread that its process calls `own`. 0: it was not there any more when it was looked for. */
static int32_t number_of(struct infp_inside *inside, struct process *process, int32_t own)
{
        const uint64_t *at;

        if (!process->own.pid || process->own.owner.pid_ns == inside->pid_ns)
                return own;
        if (own == process->own.owner.pid)
                return process->own.pid;
        at = infp_map_get(&process->tids, (uint32_t) own);
        if (!at && inside->now_ns != process->listed_ns) {
                process->listed_ns = inside->now_ns;
                list_numbers(inside, process);
                at = infp_map_get(&process->tids, (uint32_t) own);
        }
        return at ? (int32_t) *at : 0;
}

static int32_t pid_of(const struct process *process)
{
        return process->own.pid ? process->own.pid : process->own.owner.pid;
}

/* The stack that a process has walked itself. False: some of its code is not known yet. */
static bool find_stack(struct infp_inside *inside, uint64_t t_ns, int32_t cpu, int32_t tid,
                       const struct infp_ring_stack *stack, enum infp_stack_mode mode, struct infp_stack_found *ret)
{
        struct process *process = inside->process;
        struct infp_python_moment moment;
        struct infp_stack_taken taken = {
                .t_ns = t_ns,
                .cpu = cpu,
                .addresses = stack->addresses,
                .n = stack->n_addresses,
                .end = stack->is_truncated    ? INFP_UNWIND_TRUNCATED
                       : stack->is_incomplete ? INFP_UNWIND_NO_TABLE
                                              : INFP_UNWIND_COMPLETE,
        };

        if (process->python && !inside->options.is_python_off) {
                moment = moment_of(inside, process, stack);
                taken.python = &moment;
        }
        if (infp_stacks_find_taken(inside->options.stacks, &taken, pid_of(process), tid, mode, ret))
                return true;
        process->is_stale = true;
        return false;
}

static void take_sample(void *context, const struct infp_ring_sample *sample)
{
        struct infp_inside *inside = context;
        struct process *process = inside->process;
        struct infp_stack_found found;
        const uint64_t weight_ns = sample->periods * process->counts.period_ns;
        const int32_t tid = number_of(inside, process, sample->tid);

        if (!infp_inside_weight_fits(&process->weights, tid, sample->t_ns, infp_clock_ns(CLOCK_MONOTONIC), weight_ns)) {
                if (!process->n_broken++)
                        say(inside, "python", -EBADMSG,
                            "process %d says that a thread had more CPU time than has passed: such samples are left "
                            "out",
                            pid_of(process));
                return;
        }
        hear(inside, process, tid);
        if (sample->t_ns < process->from_ns)
                return;
        find_stack(inside, sample->t_ns, sample->cpu, tid, &sample->stack, INFP_STACK_CPU, &found);
        infp_stacks_put(inside->options.stacks, &found, (double) weight_ns / 1e9, NULL);
        process->has_sampled = true;
        process->newest_ns = sample->t_ns > process->newest_ns ? sample->t_ns : process->newest_ns;
}

static const struct infp_ring_stack none = { .is_incomplete = true };

static void take_block(void *context, const struct infp_ring_block *block)
{
        struct infp_inside *inside = context;
        struct process *process = inside->process;
        struct infp_stack_found found;

        find_stack(inside, block->t_ns, -1, number_of(inside, process, block->tid), block->stack ? block->stack : &none,
                   INFP_STACK_HEAP_ALLOCATED, &found);
        infp_inside_heap_block(&process->heap, inside->options.stacks, &found, block);
}

static void take_free(void *context, uint64_t t_ns, uint64_t id, int32_t tid)
{
        struct infp_inside *inside = context;

        infp_inside_heap_free(&inside->process->heap, inside->options.stacks, t_ns, id,
                              number_of(inside, inside->process, tid));
}

static bool find_stack_of_site(void *context, uint64_t t_ns, int32_t tid, const struct infp_ring_stack *stack,
                               struct infp_stack_found *ret)
{
        struct infp_inside *inside = context;

        return find_stack(inside, t_ns, -1, number_of(inside, inside->process, tid), stack ? stack : &none,
                          INFP_STACK_HEAP_ALLOCATED, ret);
}

static struct infp_inside_exact_reader exact_reader(struct infp_inside *inside, struct process *process)
{
        inside->process = process;
        return (struct infp_inside_exact_reader){
                process->ring, &process->heap_counts, inside->options.stacks, find_stack_of_site,
                inside,        process->is_stale
        };
}

static void turn_heap(struct infp_inside *inside, struct process *process, uint64_t now_ns)
{
        const struct infp_inside_exact_reader reader = exact_reader(inside, process);

        if (process->heap_counts.is_exact)
                infp_inside_exact_turn(&process->exact, &process->heap.sites, &reader, now_ns);
        else
                infp_inside_heap_turn(&process->heap, inside->options.stacks, now_ns, process->heap_counts.mean_bytes);
}

static void end_heap(struct infp_inside *inside, struct process *process, uint64_t t_ns)
{
        const struct infp_inside_exact_reader reader = exact_reader(inside, process);

        if (process->heap_counts.is_exact)
                infp_inside_exact_end(&process->exact, &process->heap.sites, &reader, t_ns);
        else
                infp_inside_heap_end(&process->heap, inside->options.stacks, t_ns, process->heap_counts.mean_bytes);
}

/* ---- what a sampler unwinds with ---- */

static bool open_directory(struct infp_inside *inside)
{
        if (inside->directory < 0)
                inside->directory =
                        open(inside->options.cache_directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return inside->directory >= 0;
}

static void reread(struct infp_inside *inside, struct process *process, uint64_t now_ns)
{
        const struct infp_inside_exact_reader reader = exact_reader(inside, process);

        /* What was unmapped and replaced shows by nothing. */
        if (now_ns < process->reread_ns || (!process->is_stale && now_ns < process->reread_ns + refresh_ns))
                return;
        infp_ring_heap(process->ring, &process->heap_counts);
        if (process->heap_counts.is_exact)
                infp_inside_exact_find(&process->exact, &process->heap.sites, &reader);
        infp_stacks_reread(inside->options.stacks, process->own.pid, now_ns);
        process->n_closed = process->counts.closed;
        process->is_stale = false;
        /* Code that is made at run time may be new each time. */
        process->pause_ns = process->pause_ns ? 2 * process->pause_ns : turn_ns;
        process->pause_ns = process->pause_ns < most_pause_ns ? process->pause_ns : most_pause_ns;
        process->reread_ns = now_ns + process->pause_ns;
}

/* A new file when what is mapped has changed; the first lets the sampler begin. */
static void offer_tables(struct infp_inside *inside, struct process *process, uint64_t now_ns)
{
        const int32_t pid = process->own.pid;
        /* What it has closed it has forgotten, also where the same library lies there again. */
        const uint64_t mapped = infp_inside_tables_version(inside->options.stacks, pid),
                       version = mapped ^ process->n_closed << 32;
        int r;

        if (!mapped || version == process->version || !open_directory(inside))
                return;
        r = infp_inside_tables_write(inside->options.stacks, pid, inside->directory, &process->own.owner,
                                     process->number + 1);
        if (r < 0) {
                infp_debug("inside: tables of process %d cannot be written: %s", pid, strerror(-r));
                return;
        }
        infp_ring_offer_tables(process->ring, process->number + 1);
        if (process->number)
                infp_inside_tables_remove(inside->directory, &process->own.owner, process->number);
        if (!process->number++)
                process->offered_ns = now_ns;
        process->version = version;
        process->pause_ns = 0;
        infp_debug("inside: process %d has tables %" PRIu64, pid, process->number);
}

/* Whether all that its samples may name is known; for a process that hangs in a file system it is not waited for long. */
static bool prepare(struct infp_inside *inside, struct process *process, uint64_t now_ns)
{
        if (!process->own.pid)
                return true;
        if (!process->is_over)
                reread(inside, process, now_ns);
        if (process->is_found && infp_inside_tables_are_ready(inside->options.stacks, process->own.pid))
                process->ready_ns = now_ns;
        else if (now_ns < process->ready_ns + patience_ns)
                return false;
        if (!process->is_over)
                offer_tables(inside, process, now_ns);
        return true;
}

static void take_found(struct infp_inside *inside)
{
        struct infp_python_found *found;

        while ((found = infp_python_finder_take(inside->finder))) {
                for (unsigned i = 0; i < inside->n; i++) {
                        struct process *process = &inside->processes[i];

                        if (process->cookie != found->cookie)
                                continue;
                        process->is_found = true;
                        inside->n_pythons += found->r == 0;
                        /* It has a heap, and no Python; or it has ended. */
                        if ((found->r == -ENOENT || found->r == -ESRCH) && process->heap_counts.mean_bytes)
                                continue;
                        inside->n_unknown += found->r < 0;
                        if (found->r < 0)
                                say(inside, "python", found->r, "%s", found->err.text);
                        else if ((process->python = malloc(sizeof(*process->python))))
                                *process->python = found->python;
                        if (process->python)
                                infp_stacks_python(inside->options.stacks, process->own.pid, process->python);
                }
                free(found);
        }
}

/* ---- processes ---- */

static bool is_alive(const struct infp_inside *inside, const struct process *process)
{
        struct infp_process stat;

        return process->own.pid && infp_process_stat_read(inside->options.env->root_fd, process->own.pid, &stat) == 0 &&
               stat.start_ticks == process->own.owner.start_ticks && stat.state != 'Z';
}

static void add_counts(struct infp_inside_counts *sum, const struct process *process)
{
        sum->processes += process->has_sampled;
        sum->wanted += process->counts.period_ns ? process->counts.cpu_ns / process->counts.period_ns : 0;
        sum->pythons.dropped += process->counts.busy + process->n_broken;
        sum->skipped += process->counts.skipped;
        sum->handler_ns += process->counts.own_ns;
        sum->heap_missed += process->heap_counts.missed + process->heap.left_out;
        sum->heap_ns += process->heap_counts.own_ns;
}

static void explain_rate(struct infp_inside *inside, const struct infp_ring_sampler *counts)
{
        const double most = counts->period_ns ? 1e9 / (double) counts->period_ns : counts->hz;

        if (inside->said_rate || !(counts->hz > 0) || most > 0.99 * counts->hz)
                return;
        inside->said_rate = true;
        say(inside, "python", -ERANGE,
            "a sampler inside a process takes at most %s samples a CPU-second, one a tick of the kernel's clock, "
            "instead of %s",
            infp_number(most).text, infp_number(counts->hz).text);
}

static void explain_state(struct infp_inside *inside, struct process *process, uint64_t now_ns)
{
        const struct infp_ring_sampler *counts = &process->counts;
        const int32_t pid = pid_of(process);

        if (counts->state == process->said_state)
                return;
        if (counts->state == INFP_WIRE_SAMPLER_WAITS && process->said_state == INFP_WIRE_SAMPLER_RUNS)
                say(inside, "python", -EBUSY,
                    "process %d was not sampled from inside for a part of the last %s s, in which infprof did not "
                    "read its stacks (was infprof stopped?)",
                    pid, infp_fixed((double) (now_ns - process->read_ns) / 1e9, 1).text);
        process->said_state = counts->state;
        if (counts->state == INFP_WIRE_SAMPLER_LEFT)
                say(inside, "python", -EBUSY,
                    "process %d handles SIGPROF itself: it is not sampled from inside, and its Python frames are not "
                    "recorded",
                    pid);
        else if (counts->state == INFP_WIRE_SAMPLER_UNKNOWN)
                say(inside, "python", -ENOTSUP,
                    "process %d runs Python %u.%u, which is not known: its frames are not recorded", pid,
                    counts->python >> 8, counts->python & 255);
        else if (counts->state == INFP_WIRE_SAMPLER_REFUSED)
                say(inside, "python", -EPERM,
                    "process %d cannot be sampled from inside: the kernel (or a seccomp filter) refuses it timers or "
                    "process_vm_writev",
                    pid);
        else if (counts->state == INFP_WIRE_SAMPLER_ALONE)
                say(inside, "python", -EBUSY,
                    "process %d is no longer sampled from inside: it has waited for infprof for a minute (was infprof "
                    "stopped?), the last %s s have few of its stacks or none",
                    pid, infp_fixed((double) (now_ns - process->read_ns) / 1e9, 1).text);
}

void infp_inside_heap_problem(struct infp_inside *inside, int r, int32_t pid, const char *name, const char *why)
{
        say(inside, "heap", r, "the heap of process %d (%s) %s", (int) pid, name, why);
}

static void explain_heap(struct infp_inside *inside, struct process *process)
{
        infp_inside_heap_doubts(&process->said_heap, inside->options.explain, pid_of(process), &process->heap_counts,
                                &process->heap.sites, &process->exact);
}

/* A sampler's ring has samples alone. */
static int no_row(void *context, const struct infp_row *row)
{
        (void) context;
        (void) row;
        return 0;
}

static void read_ring(struct infp_inside *inside, struct process *process, uint64_t now_ns, bool last)
{
        const uint64_t unmapped = process->counts.unmapped, closed = process->counts.closed;
        const uint32_t state = process->counts.state;

        infp_ring_sampler(process->ring, &process->counts);
        infp_ring_heap(process->ring, &process->heap_counts);
        if (inside->options.has_records && state != process->counts.state &&
            process->counts.state == INFP_WIRE_SAMPLER_RUNS && now_ns >= process->offered_ns + grace_ns)
                process->from_ns = now_ns;
        process->is_stale |= process->counts.unmapped != unmapped || process->counts.closed != closed;
        inside->process = process;
        inside->now_ns = now_ns;
        while (infp_ring_read(process->ring, last, no_row, NULL, NULL) == 1)
                ;
        infp_ring_heap(process->ring, &process->heap_counts);
        if (!last) /* drop ends the last window */
                turn_heap(inside, process, now_ns);
        explain_heap(inside, process);
        explain_rate(inside, &process->counts);
        explain_state(inside, process, now_ns);
        process->read_ns = now_ns;
}

/* removes: its process has ended, and nobody else reads the file. */
static void drop(struct infp_inside *inside, unsigned index, bool removes)
{
        struct process *process = &inside->processes[index];
        struct stat status, own;

        end_heap(inside, process, inside->now_ns);
        explain_heap(inside, process);
        if (process->number && inside->directory >= 0)
                infp_inside_tables_remove(inside->directory, &process->own.owner, process->number);
        if (removes && process->own.dir_fd >= 0 && fstat(process->own.file, &own) == 0 &&
            fstatat(process->own.dir_fd, process->own.name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            status.st_ino == own.st_ino)
                unlinkat(process->own.dir_fd, process->own.name, 0);
        add_counts(&inside->ended, process);
        process_done(process);
        inside->processes[index] = inside->processes[--inside->n];
}

/* What perf would report of it. A child of fork may have ended: what it had mapped is what its parent has. */
static void tell_stacks(struct infp_inside *inside, const struct process *process, uint64_t now_ns)
{
        struct infp_ring_head head;
        struct infp_err err;

        if (process->own.owner.pid_ns == inside->pid_ns && infp_ring_head_read(process->own.file, &head, &err) == 0 &&
            head.forked_from > 0)
                infp_stacks_forked(inside->options.stacks, pid_of(process), head.forked_from,
                                   process->own.owner.start_ticks);
        else if (process->own.pid)
                infp_stacks_executed(inside->options.stacks, process->own.pid, now_ns);
}

static void add(struct infp_inside *inside, struct infp_inside_ring *ring, uint64_t now_ns)
{
        struct process process = {
                .own = *ring,
                .cookie = ++inside->last_cookie,
                .ready_ns = now_ns,
                .read_ns = now_ns,
                .is_stale = true,
                .weights = { .begin_ns = inside->begin_ns,
                             .slack_ns = most_tick_ns +
                                         (inside->options.hz > 0 ? (uint64_t) (1e9 / inside->options.hz) : 0) },
        };
        struct infp_err err = { "" };

        for (unsigned i = 0; i < inside->n; i++)
                if (strcmp(inside->processes[i].own.name, ring->name) == 0) {
                        ring_done(ring);
                        return;
                }
        if (inside->n == MOST_PROCESSES || !INFP_ONE_MORE(inside->processes, inside->n) ||
            infp_ring_open(ring->file, &ring->owner, true, &process.ring, &err) < 0) {
                infp_debug("inside: ring file %s: %s", ring->name, err.text);
                ring_done(ring);
                return;
        }
        for (unsigned i = inside->n; ring->pid && i-- > 0;) /* an earlier program of it, before exec */
                if (inside->processes[i].own.pid == ring->pid) {
                        read_ring(inside, &inside->processes[i], now_ns, true);
                        drop(inside, i, true);
                }
        if (!inside->options.has_records)
                tell_stacks(inside, &process, now_ns);
        infp_ring_on_sample(process.ring, take_sample, inside);
        infp_ring_heap(process.ring, &process.heap_counts);
        infp_ring_on_heap(process.ring, &(struct infp_ring_heap_fns){ take_block, take_free, inside });
        process.is_found = !ring->pid || infp_python_finder_ask(inside->finder, ring->pid, process.cookie) < 0;
        inside->processes[inside->n++] = process;
}

static void take_given(struct infp_inside *inside, uint64_t now_ns)
{
        struct infp_inside_ring *given;
        unsigned n;

        pthread_mutex_lock(&inside->lock);
        given = inside->given;
        n = inside->n_given;
        inside->given = NULL;
        inside->n_given = 0;
        pthread_mutex_unlock(&inside->lock);
        for (unsigned i = 0; i < n; i++)
                add(inside, &given[i], now_ns);
        free(given);
}

uint64_t infp_inside_turn(struct infp_inside *inside, uint64_t now_ns)
{
        take_given(inside, now_ns);
        take_found(inside);
        for (unsigned i = inside->n; i-- > 0;) {
                struct process *process = &inside->processes[i];

                if (now_ns >= process->look_ns) {
                        process->look_ns = now_ns + alive_ns;
                        process->is_over = !is_alive(inside, process);
                }
                process->is_over |= infp_ring_has_ended(process->ring);
                if (!prepare(inside, process, now_ns))
                        continue;
                read_ring(inside, process, now_ns, process->is_over);
                if (process->is_over) {
                        if (process->own.pid && !inside->options.has_records)
                                infp_stacks_ended(inside->options.stacks, process->own.pid, now_ns);
                        drop(inside, i, true);
                }
        }
        return inside->n ? now_ns + turn_ns : UINT64_MAX;
}

void infp_inside_end(struct infp_inside *inside)
{
        const uint64_t now_ns = infp_clock_ns(CLOCK_MONOTONIC);

        take_given(inside, now_ns);
        take_found(inside);
        while (inside->n) {
                struct process *process = &inside->processes[inside->n - 1];
                const bool is_over = infp_ring_has_ended(process->ring) || !is_alive(inside, process);

                read_ring(inside, process, now_ns, true);
                drop(inside, inside->n - 1, is_over);
        }
}

/* It begins with its next CPU time; one that blocks SIGPROF in all threads never does. After a pause perf's samples of before it come late. */
static bool samples(const struct process *process, uint64_t t_ns)
{
        if (!process->counts.hz) /* its heap alone */
                return false;
        return process->counts.state == INFP_WIRE_SAMPLER_RUNS || t_ns <= process->newest_ns ||
               (process->counts.state == INFP_WIRE_SAMPLER_WAITS && process->number &&
                t_ns < process->offered_ns + grace_ns);
}

bool infp_inside_replaces(struct infp_inside *inside, int32_t pid, int32_t tid, uint64_t t_ns)
{
        for (unsigned i = 0; i < inside->n; i++)
                if (inside->processes[i].own.pid == pid && samples(&inside->processes[i], t_ns) &&
                    !is_silent(inside, &inside->processes[i], tid)) {
                        inside->n_replaced++;
                        return true;
                }
        return false;
}

struct infp_inside_counts infp_inside_counts(struct infp_inside *inside)
{
        struct infp_inside_counts ret = inside->ended;

        for (unsigned i = 0; i < inside->n; i++)
                add_counts(&ret, &inside->processes[i]);
        ret.has_samplers = inside->options.hz > 0;
        ret.replaced = inside->n_replaced;
        ret.pythons.unread = inside->n_unnamed;
        ret.pythons.unknown = inside->n_unknown;
        ret.pythons.processes = inside->n_pythons;
        ret.pythons.own_cpu_ns = infp_python_finder_cpu_ns(inside->finder);
        return ret;
}
