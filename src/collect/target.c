#include "collect/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "collect/target_inner.h"
#include "model/id.h"

int infp_target_new(enum infp_mode mode, bool all, struct infp_target **ret, struct infp_err *err)
{
        struct infp_target *target = calloc(1, sizeof(*target));

        if (!target)
                return infp_fail(err, -ENOMEM, "no memory for the table of processes");
        target->mode = mode;
        target->all = all;
        target->list.proc_fd = target->list.loadavg_fd = -1;
        pthread_mutex_init(&target->lock, NULL);
        *ret = target;
        return 0;
}

struct infp_process *infp_process_new(const struct infp_env *env, int32_t pid, uint64_t start_ticks)
{
        struct both {
                struct infp_process process;
                struct infp_process_files files;
        } *both = calloc(1, sizeof(*both));

        if (!both)
                return NULL;
        both->process.files = &both->files;
        both->process.pid = pid;
        both->process.id = infp_process_id(env->boot_id, pid, start_ticks);
        infp_process_files_init(&both->files);
        return &both->process;
}

void infp_process_end(struct infp_target *target, struct infp_process *process)
{
        infp_process_files_close(&target->keeper, process->files);
        free(process->user);
        free(process->last);
        free(process);
}

static void drop_gone(struct infp_target *target)
{
        for (size_t i = 0; i < target->n_gone; i++)
                infp_process_end(target, target->followed[i]);
        target->n_gone = target->n_followed = 0;
}

struct infp_target *infp_target_free(struct infp_target *target)
{
        if (!target)
                return NULL;
        drop_gone(target);
        for (size_t i = 0; i < target->n_entries; i++)
                if (target->entries[i].process)
                        infp_process_end(target, target->entries[i].process);
        infp_process_list_done(&target->list);
        while (target->looks) {
                struct infp_last_look *next = target->looks->next;

                free(target->looks);
                target->looks = next;
        }
        free(target->entries);
        free(target->merged);
        free(target->followed);
        free(target->members);
        pthread_mutex_destroy(&target->lock);
        free(target);
        return NULL;
}

static void request(struct infp_pid_requests *requests, int32_t pid)
{
        if (requests->n == INFP_TARGET_ROOTS) { /* the oldest has had its time */
                memmove(requests->pid, requests->pid + 1, sizeof(requests->pid) - sizeof(*requests->pid));
                memmove(requests->age, requests->age + 1, sizeof(requests->age) - sizeof(*requests->age));
                requests->n--;
        }
        requests->age[requests->n] = 0;
        requests->pid[requests->n++] = pid;
}

void infp_target_set_root(struct infp_target *target, const pid_t *pids, size_t n)
{
        pthread_mutex_lock(&target->lock);
        for (size_t i = 0; i < n; i++)
                request(&target->asked_roots, pids[i]);
        pthread_mutex_unlock(&target->lock);
}

void infp_target_exclude(struct infp_target *target, pid_t pid)
{
        pthread_mutex_lock(&target->lock);
        request(&target->asked_excluded, pid);
        pthread_mutex_unlock(&target->lock);
}

enum infp_mode infp_target_mode(const struct infp_target *target)
{
        return target->mode;
}

bool infp_target_all(const struct infp_target *target)
{
        return target->all;
}

bool infp_target_is_full(const struct infp_target *target)
{
        return target->is_full;
}

size_t infp_target_count(const struct infp_target *target)
{
        return target->n_followed;
}

struct infp_process *infp_target_at(struct infp_target *target, size_t index)
{
        return target->followed[index];
}

int infp_target_follow(struct infp_target *target, struct infp_process *process)
{
        if (!INFP_MAKE_ROOM(target->followed, target->n_followed, target->cap_followed, 64))
                return -ENOMEM;
        target->followed[target->n_followed++] = process;
        return 0;
}

static void take_requests(struct infp_pid_requests *to, struct infp_pid_requests *from)
{
        for (unsigned i = 0; i < from->n; i++)
                request(to, from->pid[i]);
        from->n = 0;
}

/* Takes the requests of other threads since the last refresh. The reaped are noted before anything is read: a process that is
 * waited for during the scan then counts once, among the live. */
static void take_notes(struct infp_target *target)
{
        pthread_mutex_lock(&target->lock);
        target->reaped_at_refresh = target->reaped;
        target->has_new_roots = target->asked_roots.n > 0;
        target->has_roots |= target->has_new_roots;
        take_requests(&target->roots, &target->asked_roots);
        take_requests(&target->excluded, &target->asked_excluded);
        pthread_mutex_unlock(&target->lock);
}

static int open_list(struct infp_target *target, const struct infp_env *env, struct infp_err *err)
{
        if (target->is_open)
                return 0;
        infp_process_list_done(&target->list);
        INFP_TRY(infp_process_list_open(&target->list, env, err));
        /* A file of a fixture tree can be replaced by another: it is opened at each read. */
        infp_keeper_init(&target->keeper, target->list.is_procfs);
        target->is_open = true;
        return 0;
}

/* Other processes are read once a second at most: on a grid, so that a refresh a little early does not wait for the next. */
static bool is_full_due(struct infp_target *target, const struct infp_env *env)
{
        uint64_t now = env->now_ns(env), period = (uint64_t) env->period_ms * INFP_NS_PER_MS;
        const uint64_t full = INFP_TARGET_OTHERS_MS * INFP_NS_PER_MS;
        uint64_t slack = period < full ? period / 2 : full / 2;

        if (now + slack < target->next_full_ns)
                return false;
        target->next_full_ns += full;
        if (target->next_full_ns <= now)
                target->next_full_ns = now + full;
        return true;
}

/* The followed, live ones by pid after the gone, and the tree's members for other threads. */
static int publish(struct infp_target *target)
{
        size_t n = 0;

        for (size_t i = 0; i < target->n_entries; i++)
                if (target->entries[i].process)
                        INFP_TRY(infp_target_follow(target, target->entries[i].process));
        pthread_mutex_lock(&target->lock);
        target->n_members = 0;
        if (target->cap_members < target->n_followed) {
                struct infp_target_member *grown = realloc(target->members, target->cap_followed * sizeof(*grown));

                if (!grown) {
                        pthread_mutex_unlock(&target->lock);
                        return -ENOMEM;
                }
                target->members = grown;
                target->cap_members = target->cap_followed;
        }
        for (int roots = 1; roots >= 0; roots--)
                for (size_t i = target->n_gone; i < target->n_followed; i++) {
                        const struct infp_process *p = target->followed[i];

                        if (p->in_tree && p->files->is_root == (roots == 1))
                                target->members[n++] = (struct infp_target_member){
                                        .pid = p->pid, .id = p->id, .start_ticks = p->start_ticks, .image = p->image
                                };
                }
        target->n_members = n;
        pthread_mutex_unlock(&target->lock);
        return 0;
}

static void forget_old_requests(struct infp_pid_requests *requests)
{
        unsigned n = 0;

        for (unsigned i = 0; i < requests->n; i++)
                if (requests->age[i] < 2) {
                        requests->pid[n] = requests->pid[i];
                        requests->age[n++] = (uint8_t) (requests->age[i] + 1);
                }
        requests->n = n;
}

int infp_target_refresh(struct infp_target *target, const struct infp_env *env, struct infp_err *err)
{
        int r;

        drop_gone(target);
        take_notes(target);
        target->n_refreshes++;
        if (target->mode == INFP_MODE_HOST && !target->all)
                return 0;
        INFP_TRY(open_list(target, env, err));
        INFP_TRY(infp_process_list_read(&target->list, env, target->has_new_roots, err));
        target->is_full = !target->all || is_full_due(target, env);
        r = infp_target_merge(target);
        if (r >= 0)
                r = infp_target_scan(target, env);
        infp_target_sweep(target);
        if (r >= 0)
                r = publish(target);
        forget_old_requests(&target->roots);
        forget_old_requests(&target->excluded);
        return r < 0 ? infp_fail_errno(err, r, "the table of processes cannot be read") : 0;
}

/* Closes some kept descriptors, and keeps no more than now: other parts of the program need them. */
static void give_back(struct infp_target *target)
{
        uint32_t goal = target->keeper.n_kept > 16 ? target->keeper.n_kept - 16 : 0;

        for (size_t i = 0; i < target->n_entries && target->keeper.n_kept > goal; i++)
                if (target->entries[i].process)
                        infp_process_files_close(&target->keeper, target->entries[i].process->files);
        target->keeper.cap = target->keeper.n_kept;
}

ssize_t infp_target_read(struct infp_target *target, struct infp_process *process, enum infp_process_file file,
                         char *buffer, size_t cap)
{
        ssize_t n = infp_process_file_read(&target->keeper, target->list.proc_fd, process, file, buffer, cap);

        if ((n == -EMFILE || n == -ENFILE) && target->keeper.n_kept > 0) {
                give_back(target);
                n = infp_process_file_read(&target->keeper, target->list.proc_fd, process, file, buffer, cap);
        }
        return n;
}

ssize_t infp_process_read(struct infp_target *target, const struct infp_env *env, struct infp_process *process,
                          const char *name, char *buffer, size_t cap)
{
        ssize_t n;

        (void) env;
        if (process->last)
                return infp_last_look_read(process->last, name, buffer, cap);
        for (unsigned i = 0; i < INFP_N_KEPT_FILES; i++)
                if (!strcmp(name, infp_process_file_name(i)))
                        return infp_target_read(target, process, i, buffer, cap);
        n = infp_pid_file_read(target->list.proc_fd, process->pid, name, buffer, cap);
        if ((n == -EMFILE || n == -ENFILE) && target->keeper.n_kept > 0) {
                give_back(target);
                n = infp_pid_file_read(target->list.proc_fd, process->pid, name, buffer, cap);
        }
        return n;
}

size_t infp_target_pids(struct infp_target *target, int32_t *ret, size_t cap)
{
        size_t n;

        pthread_mutex_lock(&target->lock);
        n = target->n_members;
        for (size_t i = 0; i < n && i < cap; i++) /* bound: returns how many there are */
                ret[i] = target->members[i].pid;
        pthread_mutex_unlock(&target->lock);
        return n;
}

size_t infp_target_members(struct infp_target *target, struct infp_target_member *ret, size_t cap)
{
        size_t n;

        pthread_mutex_lock(&target->lock);
        n = target->n_members;
        for (size_t i = 0; i < n && i < cap; i++) /* bound: returns how many there are */
                ret[i] = target->members[i];
        pthread_mutex_unlock(&target->lock);
        infp_sort(ret, n < cap ? n : cap, sizeof(*ret), infp_compare_i32);
        return n;
}

static uint64_t ns_of(struct timeval t)
{
        return (uint64_t) t.tv_sec * INFP_NS_PER_S + (uint64_t) t.tv_usec * 1000;
}

void infp_target_add_last(struct infp_target *target, struct infp_last_look *look)
{
        struct infp_last_look *too_many = NULL;

        pthread_mutex_lock(&target->lock);
        if (target->n_looks < INFP_TARGET_LOOKS) {
                look->next = target->looks;
                target->looks = look;
                target->n_looks++;
        } else {
                too_many = look;
        }
        pthread_mutex_unlock(&target->lock);
        free(too_many);
}

void infp_target_take_last(struct infp_target *target, struct infp_process *process)
{
        struct infp_last_look **at, *look = NULL;

        pthread_mutex_lock(&target->lock);
        for (at = &target->looks; *at; at = &(*at)->next)
                if ((*at)->pid == process->pid && (*at)->start_ticks == process->start_ticks) {
                        look = *at;
                        *at = look->next;
                        target->n_looks--;
                        break;
                }
        pthread_mutex_unlock(&target->lock);
        if (!look || infp_process_stat_parse(look->text, (size_t) look->file[INFP_LAST_STAT].size, process) < 0) {
                free(look);
                return;
        }
        process->cpu_ns = look->cpu_ns;
        process->last = look;
}

void infp_target_add_reaped(struct infp_target *target, const struct rusage *usage)
{
        pthread_mutex_lock(&target->lock);
        target->reaped.n++;
        target->reaped.user_ns += ns_of(usage->ru_utime);
        target->reaped.system_ns += ns_of(usage->ru_stime);
        target->reaped.minor_faults += (uint64_t) usage->ru_minflt;
        target->reaped.major_faults += (uint64_t) usage->ru_majflt;
        pthread_mutex_unlock(&target->lock);
}

struct infp_reaped infp_target_reaped(struct infp_target *target)
{
        struct infp_reaped reaped;

        pthread_mutex_lock(&target->lock);
        reaped = target->reaped;
        pthread_mutex_unlock(&target->lock);
        return reaped;
}

struct infp_reaped infp_target_reaped_at_refresh(struct infp_target *target)
{
        return target->reaped_at_refresh;
}

void infp_target_set_missing(struct infp_target *target, bool is_denied, const char *text)
{
        pthread_mutex_lock(&target->lock);
        target->missing.is_denied = is_denied;
        snprintf(target->missing.text, sizeof(target->missing.text), "%s", text);
        pthread_mutex_unlock(&target->lock);
}

struct infp_target_missing infp_target_missing(struct infp_target *target)
{
        struct infp_target_missing missing;

        pthread_mutex_lock(&target->lock);
        missing = target->missing;
        pthread_mutex_unlock(&target->lock);
        return missing;
}

struct infp_target_work infp_target_work(const struct infp_target *target)
{
        return (struct infp_target_work){
                .n_refreshes = target->n_refreshes,
                .n_lists = target->list.n_lists,
                .n_tails = target->list.n_tails,
                .n_stat_reads = target->n_stat_reads,
                .n_kept = target->keeper.n_kept,
        };
}
