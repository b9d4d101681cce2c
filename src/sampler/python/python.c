#include "sampler/python/python.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/thread.h"
#include "base/time.h"
#include "sampler/perf/front.h"
#include "sampler/python/bpf.h"
#include "sampler/python/codes.h"
#include "sampler/python/deep.h"
#include "sampler/python/finder.h"
#include "sampler/python/join.h"

enum {
        RECORD_BYTES = 4096, /* of 170 frames: most stacks have less than a quarter of that */
        LEAST_RING_BYTES = 256 << 10,
        MOST_RING_BYTES = 16 << 20,
        MOST_PROCESSES = 65536,
        SWEEP_S = 2,
        NEW_S = 1, /* since a program began, or was about to */
        FIRST_PAUSE_MS = 50,
        KEEP_S = 10, /* an interpreter that nobody runs any more: samples that wait for tables may name it */
};

#define LAST_PAUSE_NS (10 * INFP_NS_PER_S)

const char *infp_python_way_name(enum infp_python_way way)
{
        static const char *const names[INFP_PYTHON_WAYS] = { "auto", "outside", "inside", "off" };

        return names[way];
}

/* A Python at its place in memory, shared by processes that have forked. */
struct interpreter {
        uint32_t n_refs;
        uint64_t unused_ns; /* since when nobody has it */
        struct infp_frames_process frames;
        struct infp_python python;
        struct interpreter *next;
};

enum state {
        NEW,   /* nothing points to a Python */
        ASKED, /* the finder looks */
        AGAIN, /* and there is news since */
        KNOWN, /* its interpreter is, or it has none */
};

struct process {
        pid_t pid;
        uint64_t id; /* of this program in it */
        enum state state;
        struct interpreter *interpreter;
        uint64_t ended_ns;           /* 0: its first thread has not ended */
        uint64_t again_ns, pause_ns; /* without records: when to look again whether it runs Python */
};

struct infp_pythons {
        struct infp_pythons_options options;
        struct infp_bpf *bpf; /* NULL: not loaded, or reads no frames */
        struct {
                pthread_t thread;
                bool has_thread;
                atomic_bool is_done; /* then the rest is there */
                uint32_t ring_bytes, deep_bytes;
                struct infp_bpf *bpf;
                int r;
                const char *fix;
                struct infp_err err;
                uint64_t cpu_ns;
        } load;
        struct infp_python_finder *finder;
        struct infp_python_codes *codes;
        struct infp_python_join join;
        struct infp_deep *deep; /* NULL: the rest of stacks is not read */
        struct infp_deep_wants wants;
        uint64_t deep_ns; /* when its ring was last about to fill */
        struct infp_unwind_dump rest[INFP_DEEP_DUMPS];
        struct infp_perf_handler next;
        struct infp_map by_pid;
        struct interpreter *interpreters;
        uint64_t new_ns; /* when a program began last */
        uint64_t last_id, swept_ns, n_unknown, n_known;
        struct infp_map said; /* problems, by the hash of their text */
        /* Of the sample that is at work. */
        struct infp_python_moment moment;
        struct infp_python_frame frames[INFP_FRAMES_MOST];
        uint64_t ids[INFP_FRAMES_MOST];
};

/* ---- processes ---- */

static uint64_t key_of(pid_t pid)
{
        return (uint64_t) (uint32_t) pid * UINT64_C(0x9e3779b97f4a7c15);
}

static struct process *find(const struct infp_pythons *pythons, pid_t pid)
{
        const uint64_t *at = infp_map_get(&pythons->by_pid, key_of(pid));

        return at ? (struct process *) (uintptr_t) *at : NULL;
}

/* The process runs another program now, or none. */
static void leave(struct infp_pythons *pythons, struct process *process)
{
        if (!process->interpreter)
                return;
        if (pythons->bpf)
                infp_bpf_drop(pythons->bpf, process->pid);
        if (pythons->options.known)
                pythons->options.known(pythons->options.context, process->pid, process->id, NULL);
        if (--process->interpreter->n_refs == 0)
                process->interpreter->unused_ns = infp_clock_ns(CLOCK_MONOTONIC);
        process->interpreter = NULL;
}

/* A program that has just begun. NULL: no memory, or too many. */
static struct process *begin(struct infp_pythons *pythons, pid_t pid)
{
        struct process *process = find(pythons, pid);

        if (process) {
                leave(pythons, process);
        } else {
                process = pythons->by_pid.n < MOST_PROCESSES ? calloc(1, sizeof(*process)) : NULL;
                if (!process || infp_map_put(&pythons->by_pid, key_of(pid), (uintptr_t) process) < 0) {
                        free(process);
                        return NULL;
                }
        }
        *process = (struct process){ .pid = pid, .id = ++pythons->last_id };
        pythons->new_ns = infp_clock_ns(CLOCK_MONOTONIC);
        return process;
}

static void ask(struct infp_pythons *pythons, struct process *process)
{
        if (process->interpreter)
                return;
        if (process->state == ASKED || process->state == AGAIN)
                process->state = AGAIN;
        else if (infp_python_finder_ask(pythons->finder, process->pid, process->id) == 0)
                process->state = ASKED;
}

static void run(struct infp_pythons *pythons, struct process *process, struct interpreter *interpreter)
{
        const int r = pythons->bpf ? infp_bpf_put(pythons->bpf, process->pid, &interpreter->frames) : 0;

        process->state = KNOWN;
        if (r < 0) {
                infp_debug("python: process %d is one too many for the kernel's map", process->pid);
                return;
        }
        interpreter->n_refs++;
        process->interpreter = interpreter;
        pythons->n_known++;
        if (pythons->options.known)
                pythons->options.known(pythons->options.context, process->pid, process->id, &interpreter->python);
}

static struct interpreter *add_interpreter(struct infp_pythons *pythons, const struct infp_python *python)
{
        struct interpreter *interpreter = calloc(1, sizeof(*interpreter));

        if (!interpreter)
                return NULL;
        interpreter->python = *python;
        interpreter->frames = infp_bpf_process(python);
        interpreter->next = pythons->interpreters;
        pythons->interpreters = interpreter;
        return interpreter;
}

static void say_problem(struct infp_pythons *pythons, const struct infp_python_found *found)
{
        const uint64_t key = infp_hash64(found->err.text, strlen(found->err.text), 0);

        pythons->n_unknown++;
        if (infp_map_get(&pythons->said, key) || pythons->said.n >= 64)
                return;
        infp_map_put(&pythons->said, key, 1);
        pythons->options.problem(pythons->options.context, found->r, found->err.text);
}

static void take_found(struct infp_pythons *pythons, const struct infp_python_found *found)
{
        struct process *process = find(pythons, found->pid);
        struct interpreter *interpreter;
        bool has_news;

        if (!process || process->id != found->cookie)
                return;
        has_news = process->state == AGAIN;
        process->state = KNOWN;
        if (found->r == 0) {
                interpreter = add_interpreter(pythons, &found->python);
                if (interpreter)
                        run(pythons, process, interpreter);
                infp_debug("python: process %d runs %s, version %x", found->pid, found->python.object,
                           found->python.version);
        } else if (has_news) {
                ask(pythons, process);
        } else if (found->r != -ENOENT && found->r != -ESRCH) {
                say_problem(pythons, found);
        }
}

/* Its first thread may end before the others. A deletion moves others: what has come into its place is looked at again. */
static void sweep(struct infp_pythons *pythons, uint64_t now_ns)
{
        for (size_t i = 0; i < pythons->by_pid.cap; i++) {
                const struct infp_map_slot slot = pythons->by_pid.slots[i];
                struct process *process = (struct process *) (uintptr_t) slot.value;

                if (!slot.key || (pythons->options.has_records && !process->ended_ns) ||
                    now_ns < process->ended_ns + SWEEP_S * INFP_NS_PER_S || kill(process->pid, 0) == 0 ||
                    errno != ESRCH)
                        continue;
                leave(pythons, process);
                infp_map_delete(&pythons->by_pid, slot.key);
                free(process);
                i--;
        }
        for (struct interpreter **at = &pythons->interpreters; *at;) {
                struct interpreter *interpreter = *at;

                if (interpreter->n_refs || now_ns < interpreter->unused_ns + KEEP_S * INFP_NS_PER_S) {
                        at = &interpreter->next;
                        continue;
                }
                *at = interpreter->next;
                free(interpreter);
        }
}

/* ---- records ---- */

static bool is_pythons_name(const char *path)
{
        const char *base = strrchr(path, '/');

        return strcasestr(base ? base + 1 : path, "python") != NULL;
}

static void on_mapping(void *context, const struct infp_perf_mapping *mapping)
{
        struct infp_pythons *pythons = context;
        struct process *process;

        if (is_pythons_name(mapping->path)) {
                process = find(pythons, mapping->pid);
                if (!process)
                        process = begin(pythons, mapping->pid);
                if (process)
                        ask(pythons, process);
        }
        pythons->next.mapping(pythons->next.context, mapping);
}

static void on_name(void *context, uint64_t t_ns, int32_t pid, int32_t tid, const char *name, bool is_exec)
{
        struct infp_pythons *pythons = context;

        if (is_exec)
                begin(pythons, pid);
        pythons->next.name(pythons->next.context, t_ns, pid, tid, name, is_exec);
}

/* The child has its parent's memory. The kernel's program knows that already, if it has run in the child. */
static void on_fork(void *context, uint64_t t_ns, int32_t pid, int32_t tid, int32_t parent_pid, int32_t parent_tid)
{
        struct infp_pythons *pythons = context;

        if (pid != parent_pid) {
                const struct process *parent = find(pythons, parent_pid);
                struct process *process = parent ? begin(pythons, pid) : find(pythons, pid);

                if (parent && process && parent->interpreter)
                        run(pythons, process, parent->interpreter);
                else if (process && parent && parent->state != NEW)
                        ask(pythons, process);
        }
        pythons->next.fork(pythons->next.context, t_ns, pid, tid, parent_pid, parent_tid);
}

static void on_exit_(void *context, uint64_t t_ns, int32_t pid, int32_t tid)
{
        struct infp_pythons *pythons = context;
        struct process *process = pid == tid ? find(pythons, pid) : NULL;

        if (process)
                process->ended_ns = t_ns;
        pythons->next.exit(pythons->next.context, t_ns, pid, tid);
}

/* ---- samples ---- */

static void put(void *context, const struct infp_frames_record *record)
{
        struct infp_pythons *pythons = context;

        infp_python_join_put(&pythons->join, record);
}

void infp_pythons_drain(struct infp_pythons *pythons)
{
        if (pythons && pythons->bpf)
                infp_bpf_drain(pythons->bpf, put, pythons);
}

/* The record of the same interrupt. It may have come since the last drain. */
static const struct infp_frames_record *record_of(struct infp_pythons *pythons, const struct infp_perf_sample *sample)
{
        const struct infp_frames_record *record = infp_python_join_take(&pythons->join, sample);

        if (record)
                return record;
        infp_pythons_drain(pythons);
        return infp_python_join_take(&pythons->join, sample);
}

static void name_frames(struct infp_pythons *pythons, const struct process *process,
                        const struct infp_frames_one *frames, uint32_t n)
{
        const struct infp_python_process own = { .id = process->id,
                                                 .pid = process->pid,
                                                 .python = &process->interpreter->python,
                                                 .frames = &process->interpreter->frames };

        const uint64_t unread = infp_python_codes_unread(pythons->codes);

        for (uint32_t i = 0; i < n; i++) {
                const struct infp_frames_one *one = &frames[i];

                pythons->frames[i] = (struct infp_python_frame){
                        .code = one->code,
                        .instruction = one->instruction,
                        .owner = one->owner,
                        .is_entry = one->is_entry,
                };
                pythons->ids[i] = one->code ? infp_python_codes_frame(pythons->codes, &own, one) : 0;
        }
        if (infp_python_codes_unread(pythons->codes) != unread) /* code is freed faster than it is named */
                pythons->new_ns = infp_clock_ns(CLOCK_MONOTONIC);
}

static void begin_moment(struct infp_pythons *pythons, const struct process *process)
{
        pythons->moment = (struct infp_python_moment){
                .ranges = process->interpreter->python.ranges,
                .n_ranges = process->interpreter->python.n_ranges,
                .frames = pythons->frames,
                .ids = pythons->ids,
        };
}

const struct infp_python_moment *infp_pythons_read(struct infp_pythons *pythons, pid_t pid,
                                                   const struct infp_python_read *read)
{
        const struct process *process = find(pythons, pid);

        if (!process || !process->interpreter || process->id != read->program)
                return NULL;
        begin_moment(pythons, process);
        name_frames(pythons, process, read->frames, read->n);
        pythons->moment.has_frames = read->has_frames;
        pythons->moment.is_alone = read->is_alone;
        pythons->moment.n = read->n;
        pythons->moment.end = read->end;
        return &pythons->moment;
}

void infp_pythons_tell(struct infp_pythons *pythons)
{
        for (size_t i = 0; i < pythons->by_pid.cap; i++) {
                const struct infp_map_slot slot = pythons->by_pid.slots[i];
                const struct process *process = (const struct process *) (uintptr_t) slot.value;

                if (slot.key && process->interpreter && pythons->options.known)
                        pythons->options.known(pythons->options.context, process->pid, process->id,
                                               &process->interpreter->python);
        }
}

void infp_pythons_meet(struct infp_pythons *pythons, pid_t pid, uint64_t now_ns)
{
        struct process *process = find(pythons, pid);

        if (process && (process->interpreter || pythons->options.has_records || process->state != KNOWN ||
                        now_ns < process->again_ns))
                return;
        if (!process)
                process = begin(pythons, pid);
        if (!process)
                return;
        process->pause_ns = !process->pause_ns                  ? FIRST_PAUSE_MS * INFP_NS_PER_MS
                            : process->pause_ns < LAST_PAUSE_NS ? 2 * process->pause_ns
                                                                : process->pause_ns;
        process->again_ns = now_ns + process->pause_ns;
        ask(pythons, process);
}

static const struct infp_python_moment *moment_of(struct infp_pythons *pythons, const struct infp_perf_sample *sample)
{
        struct process *process = find(pythons, sample->pid);
        const struct infp_frames_record *record;

        if (!process) { /* it was there before the records */
                process = begin(pythons, sample->pid);
                if (process)
                        ask(pythons, process);
        }
        if (!process || !process->interpreter || !pythons->bpf)
                return NULL;
        if (process->ended_ns)
                process->ended_ns = sample->t_ns;
        begin_moment(pythons, process);
        record = record_of(pythons, sample);
        if (record) {
                name_frames(pythons, process, record->frames, record->n);
                pythons->moment.n = record->n;
                pythons->moment.has_frames = true;
                pythons->moment.end = record->end;
        }
        return &pythons->moment;
}

const struct infp_perf_sample *infp_pythons_sample(struct infp_pythons *pythons, const struct infp_perf_sample *sample,
                                                   struct infp_perf_sample *ret)
{
        const struct infp_python_moment *moment = moment_of(pythons, sample);
        const uint32_t n_rest = pythons->deep ? infp_deep_take(pythons->deep, sample, pythons->rest) : 0;

        if (!moment && !n_rest)
                return sample;
        *ret = *sample;
        ret->python = moment;
        ret->rest = pythons->rest;
        ret->n_rest = n_rest;
        if (n_rest && infp_deep_is_filling(pythons->deep)) /* a few deep stacks can wait, as all samples do */
                pythons->deep_ns = sample->t_ns;
        return ret;
}

static void on_sample(void *context, const struct infp_perf_sample *sample)
{
        const struct infp_pythons *pythons = context;

        pythons->next.sample(pythons->next.context, sample);
}

struct infp_perf_handler infp_pythons_handler(struct infp_pythons *pythons, const struct infp_perf_handler *next)
{
        pythons->next = *next;
        return (struct infp_perf_handler){
                .context = pythons,
                .sample = on_sample,
                .mapping = on_mapping,
                .name = on_name,
                .fork = on_fork,
                .exit = on_exit_,
        };
}

/* ---- the front ---- */

static uint32_t ring_bytes(const struct infp_perf *perf)
{
        const uint32_t samples =
                perf ? infp_perf_rings(perf) * (infp_perf_ring_bytes(perf) / (infp_perf_stack_bytes(perf) + 1)) : 0;
        uint32_t bytes = LEAST_RING_BYTES;

        while (bytes < MOST_RING_BYTES && bytes / RECORD_BYTES < samples)
                bytes *= 2;
        return bytes;
}

/* What comes in 50 ms if all stacks are deep, which is twice as long as they wait (infp_pythons_due). */
static uint32_t deep_bytes(const struct infp_pythons_options *options)
{
        const unsigned n_rings = options->perf ? infp_perf_rings(options->perf) : 0;
        const double wanted = options->deep_hz * n_rings / 20 * INFP_DEEP_PIECES * sizeof(struct infp_deep_piece);
        uint32_t bytes = LEAST_RING_BYTES;

        while (bytes < MOST_RING_BYTES && bytes < wanted)
                bytes *= 2;
        return bytes;
}

/* Without it, all but the rest of stacks is there. */
static void open_deep(struct infp_pythons *pythons)
{
        const struct infp_perf *perf = pythons->options.perf;
        const int map = pythons->options.deep_hz > 0
                                ? infp_bpf_begin_deep(pythons->bpf, infp_perf_copied_bytes(perf, false),
                                                      infp_perf_copied_bytes(perf, true))
                                : -ENOENT;
        const int r = map < 0 ? map : infp_deep_open(map, pythons->load.deep_bytes, &pythons->deep);

        if (r < 0)
                infp_debug("python: the rest of stacks is not read in the kernel: %s", strerror(-r));
}

static void *load(void *context)
{
        struct infp_pythons *pythons = context;
        const uint64_t one = 1;

        pythons->load.r =
                infp_bpf_open(pythons->load.ring_bytes, pythons->load.deep_bytes, pythons->options.least_wait_ns,
                              &pythons->load.bpf, &pythons->load.fix, &pythons->load.err);
        pythons->load.cpu_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        atomic_store(&pythons->load.is_done, true);
        (void) !write(pythons->options.wake_fd, &one, sizeof(one));
        return NULL;
}

static void join_loader(struct infp_pythons *pythons)
{
        if (pythons->load.has_thread)
                pthread_join(pythons->load.thread, NULL);
        pythons->load.has_thread = false;
}

int infp_pythons_new(const struct infp_pythons_options *options, struct infp_pythons **ret, struct infp_err *err)
{
        struct infp_pythons *pythons = calloc(1, sizeof(*pythons));
        int r;

        if (!pythons)
                return infp_fail(err, -ENOMEM, "no memory for Python frames");
        pythons->options = *options;
        pythons->new_ns = infp_clock_ns(CLOCK_MONOTONIC);
        pythons->load.ring_bytes = ring_bytes(options->perf);
        pythons->load.deep_bytes = deep_bytes(options);
        pythons->codes = infp_python_codes_new(options->names);
        r = infp_python_join_init(&pythons->join, pythons->load.ring_bytes);
        if (r == 0)
                r = infp_python_finder_new(options->root_fd, options->wake_fd, &pythons->finder);
        if (r < 0 || !pythons->codes)
                r = infp_fail(err, -ENOMEM, "no memory for Python frames");
        if (r == 0 && options->has_program) {
                r = infp_thread_start(&pythons->load.thread, "infprof-bpf", 0, load, pythons);
                pythons->load.has_thread = r == 0;
                if (r < 0)
                        infp_fail_errno(err, r, "cannot start the thread that loads the BPF program");
        }
        if (r < 0) {
                infp_pythons_free(pythons);
                return r;
        }
        *ret = pythons;
        return 0;
}

struct infp_pythons *infp_pythons_free(struct infp_pythons *pythons)
{
        if (!pythons)
                return NULL;
        join_loader(pythons);
        infp_deep_free(pythons->deep);
        infp_python_finder_free(pythons->finder);
        infp_bpf_free(pythons->load.bpf);
        infp_python_codes_free(pythons->codes);
        infp_python_join_done(&pythons->join);
        for (size_t i = 0; i < pythons->by_pid.cap; i++)
                if (pythons->by_pid.slots[i].key)
                        free((void *) (uintptr_t) pythons->by_pid.slots[i].value);
        infp_map_done(&pythons->by_pid);
        infp_map_done(&pythons->said);
        while (pythons->interpreters) {
                struct interpreter *next = pythons->interpreters->next;

                free(pythons->interpreters);
                pythons->interpreters = next;
        }
        free(pythons);
        return NULL;
}

/* What was found while it was loaded. */
static void put_known(struct infp_pythons *pythons)
{
        for (size_t i = 0; i < pythons->by_pid.cap; i++) {
                const struct infp_map_slot slot = pythons->by_pid.slots[i];
                const struct process *process = (const struct process *) (uintptr_t) slot.value;

                if (slot.key && process->interpreter)
                        infp_bpf_put(pythons->bpf, process->pid, &process->interpreter->frames);
        }
}

bool infp_pythons_have_program(const struct infp_pythons *pythons)
{
        return pythons->bpf != NULL;
}

int infp_pythons_program(struct infp_pythons *pythons, bool is_waiting, const char **ret_fix, struct infp_err *err)
{
        *ret_fix = NULL;
        if (!is_waiting && !atomic_load(&pythons->load.is_done))
                return -EAGAIN;
        join_loader(pythons);
        if (pythons->options.is_filter)
                return -ECANCELED;
        if (pythons->load.r < 0) {
                *ret_fix = pythons->load.fix;
                return infp_fail(err, pythons->load.r, "%s", pythons->load.err.text);
        }
        pythons->bpf = pythons->load.bpf;
        put_known(pythons);
        open_deep(pythons);
        return infp_bpf_program(pythons->bpf);
}

static int put_event(void *bpf, int cpu, int fd, bool is_shallow)
{
        return infp_bpf_put_switch_event(bpf, cpu, fd, is_shallow);
}

struct infp_bpf *infp_pythons_filter(const struct infp_pythons *pythons, struct infp_perf *perf)
{
        struct infp_bpf *bpf = pythons->load.bpf;
        const int program = bpf ? infp_bpf_switch_program(bpf) : -1;
        const int r = program < 0 ? program : infp_perf_filter_switches(perf, program, put_event, bpf);

        if (program >= 0 && r < 0)
                infp_debug("python: waits are not timed in the kernel: %s", strerror(-r));
        return r < 0 ? NULL : bpf;
}

static const uint64_t soon_ns = 4 * INFP_NS_PER_MS, deep_ns = 25 * INFP_NS_PER_MS;

uint64_t infp_pythons_due(const struct infp_pythons *pythons, uint64_t now_ns)
{
        if (!pythons)
                return UINT64_MAX;
        if (now_ns < pythons->new_ns + NEW_S * INFP_NS_PER_S)
                return now_ns + soon_ns;
        return pythons->deep_ns && now_ns < pythons->deep_ns + NEW_S * INFP_NS_PER_S ? now_ns + deep_ns : UINT64_MAX;
}

void infp_pythons_want(void *context, int32_t tid, uint64_t address)
{
        struct infp_pythons *pythons = context;
        const struct infp_deep_wanted *wanted = pythons->deep ? infp_deep_want(&pythons->wants, tid, address) : NULL;

        if (wanted)
                infp_bpf_want(pythons->bpf, tid, wanted);
}

void infp_pythons_turn(struct infp_pythons *pythons, uint64_t now_ns)
{
        struct infp_python_found *found;

        if (!pythons)
                return;
        while ((found = infp_python_finder_take(pythons->finder))) {
                take_found(pythons, found);
                free(found);
        }
        if (now_ns < pythons->swept_ns + SWEEP_S * INFP_NS_PER_S)
                return;
        pythons->swept_ns = now_ns;
        sweep(pythons, now_ns);
}

struct infp_pythons_counts infp_pythons_counts(struct infp_pythons *pythons)
{
        return (struct infp_pythons_counts){
                .dropped = pythons->bpf ? infp_bpf_counts(pythons->bpf).dropped : 0,
                .unread = infp_python_codes_unread(pythons->codes),
                .unknown = pythons->n_unknown,
                .processes = pythons->n_known,
                .own_cpu_ns = infp_python_finder_cpu_ns(pythons->finder) +
                              (atomic_load(&pythons->load.is_done) ? pythons->load.cpu_ns : 0),
        };
}
