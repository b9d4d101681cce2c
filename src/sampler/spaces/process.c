#include "sampler/spaces/process.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "model/id.h"
#include "model/stack_tables.h"

enum {
        MAX_PROCESSES = 65536,
        MAX_THREADS = 262144,
        MAPS_BYTES = 16 << 20, /* of text: 65,530 mappings with long paths */
        FREE_MOVES = 16,
        SWEEP_S = 2, /* a thread that ends is sampled after it has said so, and records of other CPUs may be late */
};
static const uint64_t first_pause_ns = INFP_NS_PER_S, last_pause_ns = 60 * INFP_NS_PER_S;

struct infp_space_process *infp_processes_find(const struct infp_processes *all, int32_t pid)
{
        const uint64_t *at = infp_map_get(&all->by_pid, (uint32_t) pid);

        return at ? (struct infp_space_process *) (uintptr_t) *at : NULL;
}

static void free_process(struct infp_space_process *process)
{
        infp_space_unref(process->space);
        free(process->jitdump);
        free(process);
}

/* space: consumed. */
static struct infp_space_process *add_process(struct infp_processes *all, int32_t pid, struct infp_space *space)
{
        struct infp_space_process *process = infp_processes_find(all, pid);

        if (!space)
                return NULL;
        if (process) { /* its number was given to another one */
                infp_space_unref(process->space);
                free(process->jitdump);
        } else {
                process = all->by_pid.n < MAX_PROCESSES ? malloc(sizeof(*process)) : NULL;
                if (!process || infp_map_put(&all->by_pid, (uint32_t) pid, (uintptr_t) process) < 0) {
                        free(process);
                        infp_space_unref(space);
                        return NULL;
                }
        }
        *process = (struct infp_space_process){ .pid = pid, .space = space, .lost = all->lost };
        return process;
}

/* The thread of that number. is_new, or another process had it: it has begun since. Where there is no room, the spare one. */
static struct infp_space_thread *thread_of(struct infp_processes *all, int32_t pid, int32_t tid, bool is_new)
{
        const uint64_t *at = infp_map_get(&all->by_tid, (uint32_t) tid);
        struct infp_space_thread *thread = at ? (struct infp_space_thread *) (uintptr_t) *at : NULL;

        if (thread && thread->pid == pid && !is_new)
                return thread;
        if (!thread && all->by_tid.n < MAX_THREADS)
                thread = malloc(sizeof(*thread));
        if (!at && thread && infp_map_put(&all->by_tid, (uint32_t) tid, (uintptr_t) thread) < 0) {
                free(thread);
                thread = NULL;
        }
        if (!thread)
                thread = &all->spare;
        *thread = (struct infp_space_thread){ .pid = pid, .tid = tid };
        return thread;
}

static void drop_thread(struct infp_processes *all, int32_t tid)
{
        const uint64_t *at = infp_map_get(&all->by_tid, (uint32_t) tid);

        if (at)
                free((void *) (uintptr_t) *at);
        infp_map_delete(&all->by_tid, (uint32_t) tid);
}

static void set_name(struct infp_space_thread *thread, const char *name)
{
        if (thread->is_named && strncmp(thread->name, name, sizeof(thread->name) - 1) == 0)
                return;
        snprintf(thread->name, sizeof(thread->name), "%s", name);
        thread->is_named = true;
        thread->id = 0;
}

/* The name that /proc has now: no record said it, so the thread was there before. */
static void read_name(struct infp_space_thread *thread, int root_fd)
{
        char path[64], name[INFP_THREAD_NAME];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/task/%d/comm", (int) thread->pid, (int) thread->tid);
        n = infp_read_at(root_fd, path, name, sizeof(name));
        if (n > 0 && name[n - 1] == '\n')
                name[n - 1] = 0;
        set_name(thread, n > 0 ? name : "");
}

int infp_processes_init(struct infp_processes *all, const struct infp_env *env, struct infp_objects *objects)
{
        *all = (struct infp_processes){ .env = env, .objects = objects };
        all->boottime_offset_ns = (int64_t) (infp_clock_ns(CLOCK_BOOTTIME) - infp_clock_ns(CLOCK_MONOTONIC));
        return 0;
}

void infp_processes_done(struct infp_processes *all)
{
        for (size_t i = 0; i < all->by_pid.cap; i++)
                if (all->by_pid.slots[i].key)
                        free_process((struct infp_space_process *) (uintptr_t) all->by_pid.slots[i].value);
        for (size_t i = 0; i < all->by_tid.cap; i++)
                if (all->by_tid.slots[i].key)
                        free((void *) (uintptr_t) all->by_tid.slots[i].value);
        infp_map_done(&all->by_pid);
        infp_map_done(&all->by_tid);
}

/* One mapping into the process's space. */
static void map(struct infp_processes *all, struct infp_space_process *process, const struct infp_perf_mapping *mapping)
{
        struct infp_object *object = infp_objects_get(all->objects, mapping);

        if (!object) {
                all->n_mappings_missed++;
                return;
        }
        if (object->is_jitdump && !process->jitdump)
                process->jitdump = strdup(object->name);
        if (infp_space_map(&process->space, mapping->begin, mapping->begin + mapping->size, mapping->offset, object) <
            0)
                all->n_mappings_missed++;
}

static void map_line(struct infp_processes *all, struct infp_space_process *process, const struct infp_maps_line *line,
                     uint64_t now_ns)
{
        const struct infp_perf_mapping mapping = {
                .t_ns = now_ns,
                .pid = process->pid,
                .begin = line->begin,
                .size = line->end - line->begin,
                .offset = line->offset,
                .major = line->major,
                .minor = line->minor,
                .inode = line->inode,
                .path = line->path,
        };

        map(all, process, &mapping);
}

/* Takes the process's mappings as they are now. */
static void read_maps(struct infp_processes *all, struct infp_space_process *process)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        infp_autofree char *text = NULL; /* also of a process without any: it ends, or is the kernel's */
        char path[40], *at;
        struct infp_maps_line lines[3] = { 0 }; /* the last is the next one */
        struct infp_space *space;
        bool is_more = true;

        snprintf(path, sizeof(path), "proc/%d/maps", (int) infp_proc_thread(all->env->root_fd, "proc/", process->pid));
        process->asked_ns = now;
        process->lost = all->lost;
        if (infp_read_all_at(all->env->root_fd, path, MAPS_BYTES, &text) <= 0)
                return;
        space = infp_space_new();
        if (space) {
                process->read_ns = now;
                infp_space_unref(process->space);
                process->space = space;
                at = text;
                while (is_more) {
                        lines[0] = lines[1];
                        lines[1] = lines[2];
                        is_more = infp_maps_next(&at, &lines[2]);
                        if (!is_more)
                                lines[2] = (struct infp_maps_line){ .path = "" };
                        if (!lines[1].is_executable)
                                continue;
                        if (lines[0].path)
                                infp_maps_fill_hole(&lines[1], &lines[0], &lines[2]);
                        map_line(all, process, &lines[1], now);
                }
        }
}

static struct infp_space_process *read_process(struct infp_processes *all, int32_t pid)
{
        struct infp_space_process *process = add_process(all, pid, infp_space_new());

        if (process)
                read_maps(all, process);
        return process;
}

/* Memory in the place of a file's code: a copy of that, or something else after the file was unmapped, which nothing reports. All
 * mappings together say which. A process that does it all the time is asked once a second. */
static bool may_be_moved_code(struct infp_space_process *process, const struct infp_perf_mapping *mapping)
{
        const struct infp_space_mapping *old = infp_space_find(process->space, mapping->begin);

        return old && old->object->is_file && infp_object_is_memory(mapping->path) &&
               (process->n_moves++ < FREE_MOVES || mapping->t_ns > process->asked_ns + first_pause_ns);
}

void infp_processes_map(struct infp_processes *all, const struct infp_perf_mapping *mapping)
{
        struct infp_space_process *process = infp_processes_find(all, mapping->pid);

        if (!process) {
                read_process(all, mapping->pid);
                return;
        }
        if (mapping->t_ns < process->read_ns || mapping->begin + mapping->size <= mapping->begin)
                return;
        if (may_be_moved_code(process, mapping)) {
                read_maps(all, process);
                if (process->read_ns > mapping->t_ns)
                        return;
        }
        map(all, process, mapping);
}

/* Its old code is gone; records of what it has now follow. */
static void begin_exec(struct infp_processes *all, struct infp_space_process *process, uint64_t t_ns)
{
        struct infp_space *space;

        if (t_ns < process->read_ns)
                return;
        space = infp_space_new();
        if (!space)
                return;
        infp_space_unref(process->space);
        process->space = space;
        process->lost = all->lost;
        process->exec_ns = t_ns;
        process->ended_ns = 0;
        free(process->jitdump);
        process->jitdump = NULL;
}

void infp_processes_name(struct infp_processes *all, uint64_t t_ns, int32_t pid, int32_t tid, const char *name,
                         bool is_exec)
{
        struct infp_space_process *process = infp_processes_find(all, pid);

        if (is_exec && process)
                begin_exec(all, process, t_ns);
        else if (is_exec) {
                process = add_process(all, pid, infp_space_new());
                if (process)
                        process->exec_ns = t_ns;
        }
        set_name(thread_of(all, pid, tid, false), name);
}

void infp_processes_fork(struct infp_processes *all, uint64_t t_ns, int32_t pid, int32_t tid, int32_t parent_pid,
                         int32_t parent_tid)
{
        const uint64_t *at = infp_map_get(&all->by_tid, (uint32_t) parent_tid);
        const struct infp_space_thread *parent_thread = at ? (const void *) (uintptr_t) *at : NULL;
        struct infp_space_process *parent, *process;

        if (pid != parent_pid) {
                parent = infp_processes_find(all, parent_pid);
                if (!parent)
                        parent = read_process(all, parent_pid);
                process = add_process(all, pid, parent ? infp_space_ref(parent->space) : infp_space_new());
                if (process) {
                        process->begin_ns = t_ns;
                        process->lost = parent ? parent->lost : 0;
                }
        }
        /* It has its parent's name. The record of a thread that nobody has asked for costs nothing more. */
        if (parent_thread && parent_thread->is_named) {
                char name[INFP_THREAD_NAME];

                memcpy(name, parent_thread->name, sizeof(name));
                set_name(thread_of(all, pid, tid, true), name);
        } else {
                drop_thread(all, tid);
        }
}

void infp_processes_exit(struct infp_processes *all, uint64_t t_ns, int32_t pid, int32_t tid)
{
        const uint64_t *at = infp_map_get(&all->by_tid, (uint32_t) tid);
        struct infp_space_thread *thread = at ? (struct infp_space_thread *) (uintptr_t) *at : NULL;
        struct infp_space_process *process = infp_processes_find(all, pid);

        if (thread && thread->id)
                thread->ended_ns = t_ns;
        else if (tid != pid)
                drop_thread(all, tid);
        if (tid == pid && process)
                process->ended_ns = t_ns;
}

/* By /proc, or by the record of its fork when it is gone: the kernel notes both within microseconds, ids count in 10 ms. */
static uint64_t process_id(const struct infp_processes *all, const struct infp_space_process *process)
{
        const int64_t ticks_per_s = all->env->ticks_per_s ? all->env->ticks_per_s : 100;
        struct infp_process stat = { 0 };
        char path[40], text[1024];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/stat", (int) process->pid);
        n = infp_read_at(all->env->root_fd, path, text, sizeof(text));
        if (n > 0 && infp_process_stat_parse(text, (size_t) n, &stat) == 0)
                return infp_process_id(all->env->boot_id, process->pid, stat.start_ticks);
        if (!process->begin_ns)
                return infp_process_id(all->env->boot_id, process->pid, 0);
        return infp_process_id(all->env->boot_id, process->pid,
                               (uint64_t) ((int64_t) process->begin_ns + all->boottime_offset_ns) /
                                       (INFP_NS_PER_S / (uint64_t) ticks_per_s));
}

/* The process with its id, and its mappings as far as records were not lost. NULL: no memory. */
static struct infp_space_process *meet(struct infp_processes *all, struct infp_space_process *process, int32_t pid)
{
        if (!process)
                process = infp_processes_find(all, pid);
        if (!process)
                process = read_process(all, pid);
        if (process && process->lost != all->lost)
                read_maps(all, process);
        if (process && !process->id)
                process->id = process_id(all, process);
        return process;
}

void infp_processes_seed(struct infp_processes *all, int32_t pid)
{
        meet(all, NULL, pid);
}

/* Its process, its name and its id. */
static void complete(struct infp_processes *all, struct infp_space_thread *thread)
{
        thread->owner = meet(all, thread->owner, thread->pid);
        if (!thread->owner || thread == &all->spare)
                return;
        if (!thread->is_named)
                read_name(thread, all->env->root_fd);
        thread->process = thread->owner->id;
        thread->id = infp_thread_id(thread->process, thread->tid, thread->name);
}

struct infp_space_thread *infp_processes_thread(struct infp_processes *all, int32_t pid, int32_t tid, uint64_t t_ns)
{
        struct infp_space_thread *thread = thread_of(all, pid, tid, false);

        if (!thread->id || thread->process != thread->owner->id || thread->owner->lost != all->lost)
                complete(all, thread);
        if (!thread->owner)
                return NULL;
        thread->t_ns = t_ns;
        if (thread->owner->ended_ns)
                thread->owner->ended_ns = t_ns;
        return thread;
}

bool infp_processes_reread(struct infp_processes *all, struct infp_space_process *process, uint64_t t_ns)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);

        if (process->read_ns > t_ns || now < process->asked_ns + process->pause_ns)
                return false;
        process->pause_ns = process->pause_ns ? process->pause_ns * 2 : first_pause_ns;
        if (process->pause_ns > last_pause_ns)
                process->pause_ns = last_pause_ns;
        read_maps(all, process);
        return true;
}

static bool is_late(uint64_t ended_ns, uint64_t now_ns)
{
        return ended_ns && now_ns > ended_ns + SWEEP_S * INFP_NS_PER_S;
}

/* Its first thread may end before the others; then it is still there. */
static bool has_ended(const struct infp_space_process *process, uint64_t now_ns)
{
        return is_late(process->ended_ns, now_ns) && kill(process->pid, 0) < 0 && errno == ESRCH;
}

/* Records of ends may have been lost. */
static bool is_gone(int32_t tid)
{
        return kill(tid, 0) < 0 && errno == ESRCH;
}

/* A deletion moves others: what has come into its place is looked at again. */
static void sweep_processes(struct infp_processes *all, uint64_t now_ns)
{
        const bool is_many = all->by_pid.n > MAX_PROCESSES / 4 * 3;

        for (size_t i = 0; i < all->by_pid.cap; i++) {
                const struct infp_map_slot slot = all->by_pid.slots[i];
                struct infp_space_process *process = (struct infp_space_process *) (uintptr_t) slot.value;

                if (slot.key && (has_ended(process, now_ns) || (is_many && is_gone(process->pid)))) {
                        infp_map_delete(&all->by_pid, slot.key);
                        free_process(process);
                        i--;
                }
        }
}

/* All of a process that was forgotten, too: they point to it. */
static void sweep_threads(struct infp_processes *all, uint64_t now_ns)
{
        const bool is_many = all->by_tid.n > MAX_THREADS / 4 * 3;

        for (size_t i = 0; i < all->by_tid.cap; i++) {
                const struct infp_map_slot slot = all->by_tid.slots[i];
                const struct infp_space_thread *thread = (const struct infp_space_thread *) (uintptr_t) slot.value;

                if (slot.key && (!infp_processes_find(all, thread->pid) || is_late(thread->ended_ns, now_ns) ||
                                 (is_many && is_gone(thread->tid)))) {
                        drop_thread(all, (int32_t) slot.key);
                        i--;
                }
        }
}

struct infp_space_thread *infp_processes_name_python(struct infp_processes *all, int32_t pid, int32_t tid,
                                                     const char *name, uint64_t t_ns)
{
        const uint64_t *at = infp_map_get(&all->by_tid, (uint32_t) tid);
        struct infp_space_thread *thread = at ? (struct infp_space_thread *) (uintptr_t) *at : NULL;
        const bool is_known = thread && thread->pid == pid;

        /* Python forgets a thread that ends, which keeps its name here: it has samples under it. */
        if (*name ? !is_known && is_gone(tid) : !is_known || thread->ended_ns || is_gone(tid))
                return NULL;
        thread = infp_processes_thread(all, pid, tid, t_ns);
        if (!thread || thread == &all->spare || !strcmp(thread->python_name, name))
                return NULL;
        snprintf(thread->python_name, sizeof(thread->python_name), "%s", name);
        thread->has_news = true;
        return thread;
}

void infp_processes_sweep(struct infp_processes *all, uint64_t now_ns)
{
        if (now_ns < all->swept_ns + SWEEP_S * INFP_NS_PER_S)
                return;
        all->swept_ns = now_ns;
        sweep_processes(all, now_ns);
        sweep_threads(all, now_ns);
}
