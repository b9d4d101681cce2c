/* One scan: followed processes are read again, new ones for the first time, and these find their place.
 *
 * In the tree are the roots, processes with a parent in the tree, and in mode RUN those reparented to us, since we are the
 * subreaper of all that we start. A process stays in the tree even when its parents end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "collect/target_inner.h"

static int make_room(struct infp_entry **entries, size_t *cap, size_t n)
{
        struct infp_entry *grown;

        if (n <= *cap)
                return 0;
        n += n / 2;
        grown = realloc(*entries, n * sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        *entries = grown;
        *cap = n;
        return 0;
}

/* Still listed. On procfs an inode stays with its process, but a process may get several in turn. */
static void keep(struct infp_target *target, struct infp_entry *e, const struct infp_listed *listed)
{
        bool is_same = target->list.is_procfs && e->ino == listed->ino;

        if (!is_same && e->state == INFP_ENTRY_SETTLED) {
                e->state = INFP_ENTRY_CHECK;
                target->has_unsettled = true;
        }
        e->ino = listed->ino;
}

static struct infp_entry *find_entry(struct infp_target *target, int32_t pid)
{
        return infp_find_i32(target->entries, target->n_entries, sizeof(*target->entries), pid);
}

/* Merges the list with the entries from `first` on into target->merged; returns their number. */
static size_t merge_part(struct infp_target *target, size_t first)
{
        const struct infp_process_list *list = &target->list;
        struct infp_entry *in = target->entries, *out = target->merged;
        size_t n = 0, i = first, j = 0;

        while (i < target->n_entries || j < list->n) {
                if (j == list->n || (i < target->n_entries && in[i].pid < list->items[j].pid)) {
                        in[i].is_ended = target->has_ended = true;
                        out[n++] = in[i++];
                } else if (i == target->n_entries || in[i].pid > list->items[j].pid) {
                        out[n++] = (struct infp_entry){ .pid = list->items[j].pid, .ino = list->items[j].ino };
                        target->has_unsettled = true;
                        j++;
                } else {
                        keep(target, &in[i], &list->items[j++]);
                        out[n++] = in[i++];
                }
        }
        return n;
}

int infp_target_merge(struct infp_target *target)
{
        const struct infp_process_list *list = &target->list;
        size_t first, n;

        if (list->from == INT32_MAX)
                return 0;
        first = infp_first_i32(target->entries, target->n_entries, sizeof(*target->entries), list->from);
        n = target->n_entries - first + list->n;
        if (!n)
                return 0;
        INFP_TRY(make_room(&target->merged, &target->cap_merged, n));
        INFP_TRY(make_room(&target->entries, &target->cap_entries, first + n));
        n = merge_part(target, first);
        memcpy(target->entries + first, target->merged, n * sizeof(*target->entries));
        target->n_entries = first + n;
        return 0;
}

void infp_target_sweep(struct infp_target *target)
{
        size_t n = 0;

        if (!target->has_ended)
                return;
        target->has_ended = false;
        for (size_t i = 0; i < target->n_entries; i++) {
                const struct infp_entry *e = &target->entries[i];

                if (e->is_ended && !e->process)
                        continue;
                target->has_ended |= e->is_ended;
                target->entries[n++] = *e;
        }
        target->n_entries = n;
}

enum { MAX_TRIES = 3, STAT_BUFFER = 2048 };

/* stat of a process that has not run changes only by what others do to it: its parent, priority, memory reclaimed. So where
 * the CPU clock stands still, stat is read only this often; for processes outside the tree (8 to 15 s) not all at the same
 * tick. */
#define STAT_OF_TREE_NS (900 * INFP_NS_PER_MS)
#define STAT_OF_OTHERS_NS(pid) ((8 + ((uint64_t) (pid) &7)) * INFP_NS_PER_S)

static bool has_ended(ssize_t r)
{
        return r == -ESRCH || r == -ENOENT;
}

/* Gone: moved from its entry to those that ended at this tick. */
static int let_go(struct infp_target *target, struct infp_entry *e)
{
        struct infp_process *p = e->process;

        e->process = NULL;
        e->in_tree = false;
        p->is_gone = true;
        p->is_new = p->is_changed = p->is_found = false;
        infp_target_take_last(target, p);
        INFP_TRY(infp_target_follow(target, p));
        target->n_gone = target->n_followed;
        infp_process_files_close(&target->keeper, p->files);
        return 0;
}

static void remember_text(struct infp_process_files *files, const char *text, size_t size)
{
        files->text_size = size <= sizeof(files->text) ? (uint16_t) size : 0;
        memcpy(files->text, text, files->text_size);
}

/* Reads stat of a followed process. 0, -ESRCH when the process has ended or the pid has a new owner, else a negative errno. */
static int read_stat(struct infp_target *target, struct infp_process *p, uint64_t start_ticks, uint64_t now_ns)
{
        char text[STAT_BUFFER];
        ssize_t n = infp_target_read(target, p, INFP_FILE_STAT, text, sizeof(text));
        struct infp_process fresh;

        target->n_stat_reads++;
        if (n < 0)
                return has_ended(n) ? -ESRCH : (int) n;
        p->t_ns = p->files->stat_ns = now_ns;
        if (n > 0 && (size_t) n == p->files->text_size && !memcmp(text, p->files->text, (size_t) n)) {
                p->is_changed = false;
                return 0;
        }
        fresh = *p;
        INFP_TRY(infp_process_stat_parse(text, (size_t) n, &fresh));
        if (fresh.start_ticks != start_ticks || fresh.pid != p->pid)
                return -ESRCH;
        fresh.is_changed = true;
        *p = fresh;
        remember_text(p->files, text, (size_t) n);
        return 0;
}

/* CPU time of a process by its own clock: a tenth of the cost of stat, and any user may read it. -1: none. */
int64_t infp_process_clock(int32_t pid)
{
        enum { CPUCLOCK_SCHED = 2 }; /* of the kernel's, as glibc builds it in clock_getcpuclockid */
        struct timespec t;

        if (clock_gettime((clockid_t) (~(uint32_t) pid << 3 | CPUCLOCK_SCHED), &t) < 0)
                return -1;
        return (int64_t) t.tv_sec * (int64_t) INFP_NS_PER_S + t.tv_nsec;
}

static int64_t read_clock(const struct infp_target *target, int32_t pid)
{
        return target->list.is_own ? infp_process_clock(pid) : -1;
}

/* The clock is read before stat: if it shows the same the next time, the process has not run since stat was read. */
static bool has_stood_still(const struct infp_target *target, struct infp_process *p, uint64_t now)
{
        int64_t before = p->cpu_ns;
        uint64_t limit = p->in_tree ? STAT_OF_TREE_NS : STAT_OF_OTHERS_NS(p->pid);

        p->cpu_ns = read_clock(target, p->pid);
        if (p->cpu_ns < 0 || p->cpu_ns != before || now - p->files->stat_ns >= limit)
                return false;
        p->t_ns = now;
        return true;
}

static int reread(struct infp_target *target, const struct infp_env *env, struct infp_entry *e)
{
        struct infp_process *p = e->process;
        bool is_due = p->in_tree || target->is_full || e->state == INFP_ENTRY_CHECK;
        uint64_t now;
        int r;

        e->read_number = target->n_refreshes;
        p->is_new = p->is_found = false;
        if (e->is_ended)
                return let_go(target, e);
        now = env->now_ns(env);
        if (!is_due || (e->state != INFP_ENTRY_CHECK && has_stood_still(target, p, now))) {
                p->is_changed = false;
                return 0;
        }
        r = read_stat(target, p, e->start_ticks, now);
        if (r == -ESRCH) {
                /* The process has ended, unless the list or another start time has shown a successor. */
                infp_process_files_close(&target->keeper, p->files);
                e->is_ended = target->list.is_procfs && e->state != INFP_ENTRY_CHECK;
                e->state = INFP_ENTRY_FRESH;
                target->has_unsettled = target->has_ended = true;
                e->is_excluded = false;
                e->n_tries = 0;
                return let_go(target, e);
        }
        if (r < 0) /* there, but unreadable now: the last known values stay */
                p->is_changed = false;
        else if (e->state == INFP_ENTRY_CHECK)
                e->state = INFP_ENTRY_SETTLED;
        return r == -ENOMEM ? r : 0;
}

static bool is_requested(const struct infp_pid_requests *requests, int32_t pid)
{
        for (unsigned i = 0; i < requests->n; i++)
                if (requests->pid[i] == pid)
                        return true;
        return false;
}

static void fulfil(struct infp_pid_requests *requests, int32_t pid)
{
        for (unsigned i = 0; i < requests->n; i++)
                if (requests->pid[i] == pid)
                        requests->age[i] = UINT8_MAX;
}

/* NVIDIA's library starts it in the thread of the collector that loads the library. */
static bool is_drivers_helper(const struct infp_process *p)
{
        static const char name[] = "nvidia-modprobe";

        return p->comm_size == sizeof(name) - 1 && !memcmp(p->comm, name, p->comm_size);
}

/* The command before its exec: a fork of us with our name. */
static bool is_at_gate(const struct infp_target *target, const struct infp_process *p)
{
        char name[sizeof(p->comm)];
        ssize_t n;

        if (target->mode != INFP_MODE_RUN || target->has_roots || p->ppid != target->list.self_pid || p->ppid <= 0)
                return false;
        n = infp_pid_file_read(target->list.proc_fd, p->ppid, "comm", name, sizeof(name)); /* with a line feed */
        return n == p->comm_size + 1 && !memcmp(name, p->comm, p->comm_size);
}

/* Reads stat of a pid whose place is not known. */
static void look_at(struct infp_target *target, struct infp_entry *e)
{
        char text[STAT_BUFFER];
        struct infp_process p = { 0 };
        ssize_t n = infp_pid_file_read(target->list.proc_fd, e->pid, "stat", text, sizeof(text));

        target->n_stat_reads++;
        if (has_ended(n)) {
                e->is_ended = target->has_ended = true;
                return;
        }
        if (n < 0 || infp_process_stat_parse(text, (size_t) n, &p) < 0 || p.pid != e->pid) {
                target->has_unsettled = true; /* looked at again next time */
                return;
        }
        if (e->state == INFP_ENTRY_CHECK && p.start_ticks == e->start_ticks) {
                e->state = INFP_ENTRY_SETTLED;
                return;
        }
        if (e->state == INFP_ENTRY_CHECK) {
                e->n_tries = 0;
                e->is_excluded = false;
        }
        e->start_ticks = p.start_ticks;
        e->ppid = p.ppid;
        e->is_excluded |= p.ppid == target->list.self_pid && is_drivers_helper(&p);
        e->is_at_gate = is_at_gate(target, &p);
        e->is_candidate = true;
}

static bool belongs(struct infp_target *target, const struct infp_entry *e)
{
        const struct infp_entry *parent;

        if (e->is_excluded)
                return false;
        if (is_requested(&target->roots, e->pid))
                return true;
        if (target->mode == INFP_MODE_RUN && target->has_roots && e->ppid == target->list.self_pid && e->ppid > 0)
                return true;
        parent = find_entry(target, e->ppid);
        return parent && parent->in_tree && !parent->is_ended;
}

/* In an attached tree: a root, or a descendant of one that is found at this same refresh. A child of a known process was born
 * since, and all its use counts. */
static bool was_there(struct infp_target *target, const struct infp_entry *e)
{
        const struct infp_entry *parent;

        if (target->mode != INFP_MODE_PID)
                return false;
        parent = find_entry(target, e->ppid);
        return is_requested(&target->roots, e->pid) || (parent && parent->in_tree && parent->is_found);
}

/* Children may come before their parents. */
static void grow_tree(struct infp_target *target)
{
        for (bool has_grown = true; has_grown;) {
                has_grown = false;
                for (size_t i = 0; i < target->n_entries; i++) {
                        struct infp_entry *e = &target->entries[i];

                        if (!e->is_candidate || e->in_tree || !belongs(target, e))
                                continue;
                        e->in_tree = has_grown = true;
                        e->is_found = was_there(target, e);
                }
        }
}

/* A parent that was not listed, or could not be read, leaves the question open for a few refreshes. */
static void settle(struct infp_target *target, struct infp_entry *e)
{
        const struct infp_entry *parent = find_entry(target, e->ppid);
        bool is_sure = e->in_tree || target->mode == INFP_MODE_HOST || e->ppid <= 0 ||
                       e->ppid == target->list.self_pid ||
                       (parent && !parent->is_ended && (parent->state == INFP_ENTRY_SETTLED || parent->in_tree));

        e->state = is_sure || ++e->n_tries >= MAX_TRIES ? INFP_ENTRY_SETTLED : INFP_ENTRY_OPEN;
        target->has_unsettled |= e->state == INFP_ENTRY_OPEN;
        e->is_candidate = false;
}

static int start_following(struct infp_target *target, const struct infp_env *env, struct infp_entry *e)
{
        struct infp_process *p = infp_process_new(env, e->pid, e->start_ticks);
        uint64_t now = env->now_ns(env);
        int r;

        if (!p)
                return -ENOMEM;
        p->in_tree = e->in_tree;
        p->cpu_ns = read_clock(target, e->pid);
        r = read_stat(target, p, e->start_ticks, now);
        if (r < 0) {
                infp_process_end(target, p);
                e->is_ended = r == -ESRCH && target->list.is_procfs;
                e->state = INFP_ENTRY_FRESH; /* a new owner of the pid, or looked at again */
                target->has_unsettled = target->has_ended = true;
                e->in_tree = false;
                return 0;
        }
        p->is_new = p->is_changed = true;
        e->process = p;
        return 0;
}

/* A process from outside the tree, read up to a second ago: its use since must not count for the tree. If it cannot be read
 * now, the next refresh drops it. */
static void renew(struct infp_target *target, const struct infp_env *env, struct infp_entry *e)
{
        e->process->cpu_ns = read_clock(target, e->pid);
        read_stat(target, e->process, e->start_ticks, env->now_ns(env));
}

static int place(struct infp_target *target, const struct infp_env *env, struct infp_entry *e)
{
        settle(target, e);
        if (!e->process && (e->in_tree || (target->all && !e->is_at_gate)))
                INFP_TRY(start_following(target, env, e));
        if (e->process && e->in_tree && !e->process->in_tree)
                renew(target, env, e);
        if (e->process) {
                e->process->in_tree = e->in_tree;
                e->process->is_found = e->is_found;
        }
        return 0;
}

static void mark_roots(struct infp_target *target)
{
        for (unsigned i = 0; i < target->roots.n; i++) {
                struct infp_entry *e = find_entry(target, target->roots.pid[i]);

                if (!e || !e->process || !e->in_tree)
                        continue;
                e->process->files->is_root = true;
                fulfil(&target->roots, e->pid);
        }
}

/* When the first of the new roots was started, or UINT64_MAX where none was seen yet. */
static uint64_t start_of_roots(struct infp_target *target)
{
        uint64_t start = UINT64_MAX;

        for (unsigned i = 0; i < target->roots.n; i++) {
                const struct infp_entry *e = find_entry(target, target->roots.pid[i]);

                if (e && e->state != INFP_ENTRY_FRESH && e->start_ticks < start)
                        start = e->start_ticks;
        }
        return start;
}

/* New roots: a process that was settled outside the tree may be a root or a descendant of one: the command may have been seen
 * while it was still a fork of us, and its children before we knew that it runs, or its children's orphans, which are ours by
 * now. Children of ours that are older than the command came with us through an exec and are not its children. */
static void reopen_strangers(struct infp_target *target)
{
        uint64_t start = start_of_roots(target);

        for (size_t i = 0; i < target->n_entries; i++) {
                struct infp_entry *e = &target->entries[i];

                if (e->in_tree || e->state == INFP_ENTRY_FRESH ||
                    (target->mode == INFP_MODE_RUN && e->ppid == target->list.self_pid && e->start_ticks <= start &&
                     !is_requested(&target->roots, e->pid)))
                        continue;
                e->state = INFP_ENTRY_OPEN;
                e->n_tries = 0;
                target->has_unsettled = true;
        }
}

/* Helpers; one may have joined the tree because it was seen before it was named. */
static int cast_out(struct infp_target *target)
{
        for (unsigned i = 0; i < target->excluded.n; i++) {
                struct infp_entry *e = find_entry(target, target->excluded.pid[i]);

                if (!e || e->is_ended)
                        continue;
                e->is_excluded = true;
                fulfil(&target->excluded, e->pid);
                if (!e->in_tree)
                        continue;
                e->in_tree = false;
                if (target->all)
                        e->process->in_tree = false;
                else
                        INFP_TRY(let_go(target, e));
        }
        return 0;
}

static void find_candidates(struct infp_target *target)
{
        for (size_t i = 0; i < target->n_entries; i++) {
                struct infp_entry *e = &target->entries[i];

                if (e->is_ended || e->state == INFP_ENTRY_SETTLED)
                        continue;
                if (e->process) {
                        e->ppid = e->process->ppid;
                        e->is_candidate = e->state != INFP_ENTRY_CHECK;
                } else {
                        look_at(target, e);
                }
        }
}

static int place_new(struct infp_target *target, const struct infp_env *env)
{
        target->has_unsettled = false;
        for (size_t i = 0; i < target->n_entries; i++)
                target->entries[i].is_found = false;
        find_candidates(target);
        grow_tree(target);
        for (size_t i = 0; i < target->n_entries; i++)
                if (target->entries[i].is_candidate)
                        INFP_TRY(place(target, env, &target->entries[i]));
        return 0;
}

/* The pid and start of an ended process that we have waited for and that no refresh has seen. */
static bool next_unseen(struct infp_target *target, struct infp_process *ret)
{
        bool found = false;

        pthread_mutex_lock(&target->lock);
        for (const struct infp_last_look *look = target->looks; look && !found; look = look->next) {
                const struct infp_entry *e = find_entry(target, look->pid);

                /* Else it has ended since it was read, and the next refresh drops it. */
                found = !e || !e->process || e->start_ticks != look->start_ticks;
                ret->pid = look->pid;
                ret->start_ticks = look->start_ticks;
        }
        pthread_mutex_unlock(&target->lock);
        return found;
}

/* What came and went between two refreshes has ended when it is first seen. */
static int take_unseen(struct infp_target *target, const struct infp_env *env)
{
        struct infp_process is = { 0 };

        while (next_unseen(target, &is)) {
                struct infp_process *p = infp_process_new(env, is.pid, is.start_ticks);

                if (!p)
                        return -ENOMEM;
                p->start_ticks = is.start_ticks;
                p->is_gone = p->in_tree = true;
                p->t_ns = env->now_ns(env);
                infp_target_take_last(target, p);
                if (infp_target_follow(target, p) < 0) {
                        infp_process_end(target, p);
                        return -ENOMEM;
                }
                target->n_gone = target->n_followed;
        }
        return 0;
}

/* The parent, as far as it is followed and was not read yet. NULL: none. It is older, or the pid has been used again. */
static struct infp_entry *unread_parent(struct infp_target *target, const struct infp_entry *e)
{
        struct infp_entry *parent = find_entry(target, e->process->ppid);

        return parent && parent->process && parent->read_number != target->n_refreshes && parent != e &&
                               parent->start_ticks <= e->start_ticks
                       ? parent
                       : NULL;
}

/* Parents first: a child that is waited for between the two reads is in the times of a parent that is read later, and was counted itself.
 * Parents have the lower pid, unless the pids have come to their end and began anew. */
static int reread_with_parents(struct infp_target *target, const struct infp_env *env, struct infp_entry *e)
{
        enum { MAX_GENERATIONS = 64 };

        while (e->process && e->read_number != target->n_refreshes) {
                struct infp_entry *first = e, *parent;
                unsigned n = 0;

                /* bound: of more generations whose pids fall those are read as they come */
                while (n++ < MAX_GENERATIONS && (parent = unread_parent(target, first)) != NULL)
                        first = parent;
                INFP_TRY(reread(target, env, first));
        }
        return 0;
}

/* Processes that began before this refresh are read first: the children that one of them has waited for are in its times only
 * if they are no longer among the live, and nothing counts twice. */
int infp_target_scan(struct infp_target *target, const struct infp_env *env)
{
        for (size_t i = 0; i < target->n_entries; i++)
                INFP_TRY(reread_with_parents(target, env, &target->entries[i]));
        if (target->has_new_roots)
                reopen_strangers(target);
        INFP_TRY(cast_out(target));
        if (target->has_unsettled)
                INFP_TRY(place_new(target, env));
        mark_roots(target);
        return take_unseen(target, env);
}
