#include "sampler/python/thread_names.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/number.h"
#include "base/procfile.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"
#include "sampler/fifo.h"
#include "unwind/python/thread_names.h"

enum {
        MOST_PROCESSES = 4096,
        MOST_WAITING = 65536, /* answers */
        MOST_THREADS = INFP_PYTHON_NAMED_THREADS,
        COST = 50, /* a process is left alone for so many times as long as its reading took */
};
static const uint64_t first_pause_ns = 100 * INFP_NS_PER_MS, last_pause_ns = INFP_NS_PER_S,
                      again_ns = 10 * INFP_NS_PER_S; /* names may change without a new thread */

struct process {
        pid_t pid;
        struct infp_python python;
        struct infp_python_task_layout layout;
        bool has_layout, has_own_numbers;    /* has_own_numbers: it is in another pid namespace */
        bool has_unknown;                    /* a thread was not in threading's list when it was read last */
        uint64_t threads;                    /* hash of its thread states */
        uint64_t next_ns, pause_ns, full_ns; /* full: when all names were read last; 0: they are to be read again */
        struct infp_map named;               /* tid -> hash of the name that was told */
        struct process *next;
};

struct news {
        struct infp_fifo_item item;
        pid_t pid;
        bool is_python; /* else it has none any more */
        struct infp_python python;
};

struct infp_thread_names {
        int root_fd;
        pthread_mutex_t lock;
        pthread_cond_t changed;
        struct infp_fifo news;    /* of struct news */
        struct infp_fifo answers; /* of struct infp_thread_name */
        uint64_t cpu_ns;
        bool is_stopping;
        /* Of the thread. */
        struct process *processes;
        uint32_t n_processes;
        struct infp_python_objects objects;
        struct infp_python_item *items;
        struct infp_python_thread *threads;
};

static struct process *process_free(struct process *process)
{
        infp_map_done(&process->named);
        free(process);
        return NULL;
}

static void destroy(struct infp_thread_names *names)
{
        for (struct process *at = names->processes, *next; at; at = next) {
                next = at->next;
                process_free(at);
        }
        infp_fifo_done(&names->answers);
        infp_fifo_done(&names->news);
        infp_close(names->root_fd);
        free(names->items);
        free(names->threads);
        pthread_cond_destroy(&names->changed);
        pthread_mutex_destroy(&names->lock);
        free(names);
}

/* ---- a reading ---- */

struct reading {
        struct infp_thread_names *names;
        struct process *process;
        struct infp_map by_pthread; /* index in names->threads */
        struct infp_map tids;       /* as the process has them -> as we do; where they differ */
        struct infp_map named;      /* as process->named */
        uint32_t n_known;           /* threads of threading's list that have a state */
        bool is_broken;             /* not all could be read, or kept */
};

static void copy_name(char ret[INFP_THREAD_NAME], const char *text)
{
        const size_t n = infp_utf8_cut(text, strlen(text), INFP_THREAD_NAME - 1);

        memcpy(ret, text, n);
        ret[n] = 0;
}

static bool tell(struct infp_thread_names *names, pid_t pid, int32_t tid, const char *name)
{
        struct infp_thread_name *answer = calloc(1, sizeof(*answer));
        bool has_room;

        if (!answer)
                return false;
        answer->pid = pid;
        answer->tid = tid;
        copy_name(answer->name, name);
        pthread_mutex_lock(&names->lock);
        has_room = names->answers.n < MOST_WAITING;
        if (has_room)
                infp_fifo_put(&names->answers, &answer->item);
        pthread_mutex_unlock(&names->lock);
        if (!has_room)
                free(answer);
        return has_room;
}

static void list_numbers(struct reading *reading)
{
        const int root_fd = reading->names->root_fd;
        infp_autoclose int fd = -1;
        struct infp_names names;
        const char *name;
        char path[48];
        uint64_t tid;

        snprintf(path, sizeof(path), "proc/%d/task", (int) reading->process->pid);
        fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return;
        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)) && reading->tids.n < MOST_THREADS)
                if (infp_parse_u64(name, strlen(name), &tid) == 0)
                        infp_map_put(
                                &reading->tids,
                                (uint32_t) infp_proc_own_number(root_fd, "proc/", reading->process->pid, (int32_t) tid),
                                tid);
}

/* 0: not known. */
static int32_t tid_of(struct reading *reading, const struct infp_python_thread *thread)
{
        const struct infp_python_memory *memory = &reading->names->objects.memory;
        /* What Python keeps is its parent's in a child that was forked. */
        const int32_t own = reading->process->python.has_glibc ? infp_python_thread_number(memory, thread)
                                                               : (int32_t) thread->native_id;
        const uint64_t *at;

        if (!reading->process->has_own_numbers)
                return own;
        if (!reading->tids.n)
                list_numbers(reading);
        at = infp_map_get(&reading->tids, (uint32_t) own);
        return at ? (int32_t) *at : 0;
}

/* A thread that Python did not start, and that has asked it for its name: "Dummy-1". */
static bool is_foreign(const char *name)
{
        return !strncmp(name, "Dummy-", 6) && name[6] && strspn(name + 6, "0123456789") == strlen(name + 6);
}

static void take(void *context, uint64_t pthread, const char *name)
{
        struct reading *reading = context;
        struct process *process = reading->process;
        const uint64_t *place = infp_map_get(&reading->by_pthread, pthread), *known;
        const int32_t tid = place && *name ? tid_of(reading, &reading->names->threads[*place]) : 0;
        uint64_t hash;

        reading->n_known += place != NULL;
        if (tid <= 0 || tid == process->pid || is_foreign(name))
                return;
        hash = infp_hash64(name, strlen(name), 0);
        known = infp_map_get(&process->named, (uint32_t) tid);
        if ((known && *known == hash) || tell(reading->names, process->pid, tid, name))
                reading->is_broken |= infp_map_put(&reading->named, (uint32_t) tid, hash) < 0;
}

/* Those that had a name, and have none now. */
static void end_names(struct reading *reading)
{
        struct infp_map *old = &reading->process->named;

        for (size_t i = 0; i < old->cap; i++)
                if (old->slots[i].key && !infp_map_get(&reading->named, old->slots[i].key) &&
                    !tell(reading->names, reading->process->pid, (int32_t) old->slots[i].key, ""))
                        infp_map_put(&reading->named, old->slots[i].key, old->slots[i].value);
        infp_map_done(old);
        *old = reading->named;
        reading->named = (struct infp_map){ .n = 0 };
}

/* False: not all could be read, or kept. */
static bool read_names(struct infp_thread_names *names, struct process *process, uint32_t n)
{
        struct reading reading = { .names = names, .process = process };
        uint64_t last = 0;
        int r;

        for (uint32_t i = 0; i < n; i++)
                reading.is_broken |= infp_map_put(&reading.by_pthread, names->threads[i].pthread, i) < 0;
        for (uint32_t i = 0; i < n && !reading.is_broken; i++) {
                const uint64_t interpreter = names->threads[i].interpreter;

                if (interpreter == last)
                        continue;
                r = infp_python_thread_names(&names->objects, interpreter, names->items, take, &reading);
                reading.is_broken |= r < 0 && r != -ENOENT; /* -ENOENT: threading was not imported */
                last = interpreter;
        }
        if (!reading.is_broken)
                end_names(&reading);
        process->has_unknown = reading.n_known < n;
        infp_map_done(&reading.by_pthread);
        infp_map_done(&reading.tids);
        infp_map_done(&reading.named);
        return !reading.is_broken;
}

static bool is_readable(struct infp_thread_names *names, struct process *process)
{
        if (!process->has_layout)
                process->has_layout =
                        !infp_python_tasks_problem(&process->python, &names->objects.memory, &process->layout);
        return process->has_layout;
}

static void look(struct infp_thread_names *names, struct process *process, uint64_t now_ns)
{
        const uint64_t begin_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        bool is_whole, is_due, is_new = false;
        uint64_t hash = 0, cost_ns;
        uint32_t n;

        names->objects = (struct infp_python_objects){ .layout = &process->python.layout,
                                                       .tasks = &process->layout,
                                                       .memory = infp_python_process_memory(process->pid) };
        if (is_readable(names, process)) {
                n = infp_python_threads(&process->python.layout, &names->objects.memory, process->python.runtime,
                                        names->threads, MOST_THREADS, &is_whole);
                for (uint32_t i = 0; i < n; i++) {
                        const uint64_t parts[] = { names->threads[i].state, names->threads[i].pthread };

                        hash = infp_hash64(parts, sizeof(parts), hash);
                }
                is_new = hash != process->threads;
                is_whole |= n == MOST_THREADS; /* those that are left out have no names */
                /* By a list that changed while it was read threads would lose their names: the next look tries again. A thread has a state
                 * before it has the GIL, with which it enters threading's list: the next looks try again, but not for ever, since
                 * threads that Python did not start never do. */
                is_due = is_new || now_ns >= process->full_ns + again_ns ||
                         (process->has_unknown && process->pause_ns < last_pause_ns);
                if (n && is_due)
                        process->full_ns = is_whole && read_names(names, process, n) ? now_ns : 0;
                process->threads = hash;
        }
        process->pause_ns = is_new || !process->pause_ns ? first_pause_ns : 2 * process->pause_ns;
        process->pause_ns = process->pause_ns < last_pause_ns ? process->pause_ns : last_pause_ns;
        cost_ns = COST * (infp_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
        process->next_ns = now_ns + (process->pause_ns > cost_ns ? process->pause_ns : cost_ns);
}

/* ---- the thread ---- */

static void forget(struct infp_thread_names *names, pid_t pid)
{
        for (struct process **at = &names->processes; *at; at = &(*at)->next) {
                struct process *process = *at;

                if (process->pid != pid)
                        continue;
                *at = process->next;
                process_free(process);
                names->n_processes--;
                return;
        }
}

static void add(struct infp_thread_names *names, const struct news *news)
{
        struct process *process = names->n_processes < MOST_PROCESSES ? calloc(1, sizeof(*process)) : NULL;

        if (!process)
                return;
        process->pid = news->pid;
        process->python = news->python;
        process->has_own_numbers = infp_proc_own_number(names->root_fd, "proc/", news->pid, news->pid) != news->pid;
        process->next = names->processes;
        names->processes = process;
        names->n_processes++;
}

/* Under the lock, as when it is called. */
static void take_news(struct infp_thread_names *names)
{
        struct news *news = infp_fifo_take(&names->news);

        pthread_mutex_unlock(&names->lock);
        forget(names, news->pid);
        if (news->is_python)
                add(names, news);
        free(news);
        pthread_mutex_lock(&names->lock);
}

/* The same. Returns when the next one is due. */
static uint64_t look_at_all(struct infp_thread_names *names)
{
        uint64_t due_ns = UINT64_MAX;

        pthread_mutex_unlock(&names->lock);
        for (struct process *process = names->processes; process; process = process->next) {
                const uint64_t now_ns = infp_clock_ns(CLOCK_MONOTONIC);

                if (now_ns >= process->next_ns)
                        look(names, process, now_ns);
                due_ns = process->next_ns < due_ns ? process->next_ns : due_ns;
        }
        pthread_mutex_lock(&names->lock);
        names->cpu_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        return due_ns;
}

static void *run(void *context)
{
        struct infp_thread_names *names = context;

        pthread_mutex_lock(&names->lock);
        while (!names->is_stopping) {
                struct timespec until;
                uint64_t due_ns;

                if (names->news.n) {
                        take_news(names);
                        continue;
                }
                due_ns = look_at_all(names);
                if (names->is_stopping || names->news.n)
                        continue;
                if (due_ns == UINT64_MAX) {
                        pthread_cond_wait(&names->changed, &names->lock);
                        continue;
                }
                until = infp_timespec(due_ns);
                pthread_cond_timedwait(&names->changed, &names->lock, &until);
        }
        pthread_mutex_unlock(&names->lock);
        destroy(names);
        return NULL;
}

/* ---- the other side ---- */

int infp_thread_names_new(int root_fd, struct infp_thread_names **ret)
{
        struct infp_thread_names *names = calloc(1, sizeof(*names));
        int r;

        if (!names)
                return -ENOMEM;
        names->root_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
        r = names->root_fd < 0 ? -errno : 0;
        names->items = malloc(INFP_PYTHON_NAMED_THREADS * sizeof(*names->items)); /* untouched memory costs nothing */
        names->threads = malloc(MOST_THREADS * sizeof(*names->threads));
        pthread_mutex_init(&names->lock, NULL);
        infp_cond_init(&names->changed);
        if (r == 0)
                r = names->items && names->threads ? infp_thread_start(NULL, "infprof-names", 0, run, names) : -ENOMEM;
        if (r < 0) {
                destroy(names);
                return r;
        }
        *ret = names;
        return 0;
}

struct infp_thread_names *infp_thread_names_free(struct infp_thread_names *names)
{
        if (!names)
                return NULL;
        pthread_mutex_lock(&names->lock);
        names->is_stopping = true;
        pthread_cond_signal(&names->changed);
        pthread_mutex_unlock(&names->lock);
        return NULL;
}

void infp_thread_names_know(struct infp_thread_names *names, pid_t pid, const struct infp_python *python)
{
        struct news *news = calloc(1, sizeof(*news));

        bool has_room;

        if (!news)
                return;
        news->pid = pid;
        news->is_python = python;
        if (python)
                news->python = *python;
        pthread_mutex_lock(&names->lock);
        has_room = names->news.n < MOST_PROCESSES; /* else the thread hangs */
        if (has_room)
                infp_fifo_put(&names->news, &news->item);
        pthread_cond_signal(&names->changed);
        pthread_mutex_unlock(&names->lock);
        if (!has_room)
                free(news);
}

struct infp_thread_name *infp_thread_names_take(struct infp_thread_names *names)
{
        struct infp_thread_name *answer;

        pthread_mutex_lock(&names->lock);
        answer = infp_fifo_take(&names->answers);
        pthread_mutex_unlock(&names->lock);
        return answer;
}

uint64_t infp_thread_names_cpu_ns(struct infp_thread_names *names)
{
        uint64_t ret;

        pthread_mutex_lock(&names->lock);
        ret = names->cpu_ns;
        pthread_mutex_unlock(&names->lock);
        return ret;
}
