#include "sampler/waits/wall_threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/sort.h"
#include "base/time.h"
#include "collect/target.h"

/* Of all descriptors half, two of each thread: perf events, processes and engines need theirs. */
enum { RESERVE = 128, SHARE = 2, MOST_KEPT = 16384, FIRST_MEMBERS = 64, FIRST_TIDS = 64 };
#define LIST_NS INFP_NS_PER_S
#define HINT_NS (3 * INFP_NS_PER_S) /* the target scans once a tick */

static void init_keeper(struct infp_wall_keeper *keeper)
{
        struct rlimit limit;

        *keeper = (struct infp_wall_keeper){ 0 };
        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= RESERVE)
                return;
        keeper->cap = limit.rlim_cur / SHARE < MOST_KEPT ? (uint32_t) limit.rlim_cur / SHARE : MOST_KEPT;
}

int infp_wall_threads_open(struct infp_wall_threads *threads, const struct infp_env *env, struct infp_err *err)
{
        threads->proc_fd = openat(env->root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (threads->proc_fd < 0)
                return infp_fail_errno(err, -errno, "cannot open /proc, by which threads are read");
        init_keeper(&threads->keeper);
        return 0;
}

static void close_process(struct infp_wall_threads *threads, struct infp_wall_process *process)
{
        for (uint32_t i = 0; i < process->n_threads; i++)
                infp_wall_thread_close(&threads->keeper, &process->threads[i]);
        if (process->dir_fd >= 0) {
                process->dir_fd = infp_close(process->dir_fd);
                threads->keeper.n_kept--;
        }
        threads->n_threads -= process->n_threads;
        free(process->threads);
        process->threads = NULL;
        process->n_threads = 0;
}

void infp_wall_threads_close(struct infp_wall_threads *threads)
{
        for (uint32_t i = 0; i < threads->n_processes; i++)
                close_process(threads, &threads->processes[i]);
        free(threads->processes);
        free(threads->members);
        free(threads->tids);
        if (threads->proc_fd > 0)
                infp_close(threads->proc_fd);
        *threads = (struct infp_wall_threads){ .proc_fd = -1 };
}

static void say_gone(struct infp_wall_threads *threads, const struct infp_wall_process *process)
{
        for (uint32_t i = 0; i < process->n_threads; i++)
                threads->gone(threads->gone_context, process->threads[i].tid);
}

void infp_wall_threads_ended(struct infp_wall_threads *threads, struct infp_wall_process *process, uint32_t i)
{
        threads->gone(threads->gone_context, process->threads[i].tid);
        infp_wall_thread_close(&threads->keeper, &process->threads[i]);
        memmove(process->threads + i, process->threads + i + 1,
                (process->n_threads - i - 1) * sizeof(*process->threads));
        process->n_threads--;
        threads->n_threads--;
        process->must_list = true;
}

/* ---- processes ---- */

/* Those of the target by pid. Returns their number. */
static ssize_t read_members(struct infp_wall_threads *threads, const struct infp_env *env)
{
        size_t n;

        for (;;) {
                struct infp_target_member *grown;

                n = infp_target_members(env->target, threads->members, threads->cap_members);
                if (n <= threads->cap_members)
                        break;
                n += n / 2 + FIRST_MEMBERS;
                grown = realloc(threads->members, n * sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                threads->members = grown;
                threads->cap_members = n;
        }
        return (ssize_t) n;
}

static struct infp_wall_process *find_process(const struct infp_wall_threads *threads, int32_t pid)
{
        return infp_find_i32(threads->processes, threads->n_processes, sizeof(*threads->processes), pid);
}

static int add_process(struct infp_wall_threads *threads, int32_t pid, uint64_t start_ticks, uint64_t hinted_ns)
{
        if (!INFP_MAKE_ROOM(threads->processes, threads->n_processes, threads->cap_processes, 16))
                return -ENOMEM;
        threads->processes[threads->n_processes++] = (struct infp_wall_process){
                .pid = pid, .start_ticks = start_ticks, .hinted_ns = hinted_ns, .dir_fd = -1, .is_seen = true
        };
        return 0;
}

void infp_wall_threads_hint(struct infp_wall_threads *threads, int32_t pid, uint64_t now_ns)
{
        if (find_process(threads, pid) || add_process(threads, pid, 0, now_ns) < 0)
                return;
        infp_sort(threads->processes, threads->n_processes, sizeof(*threads->processes), infp_compare_i32);
}

static void sweep_processes(struct infp_wall_threads *threads)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < threads->n_processes; i++) {
                struct infp_wall_process *process = &threads->processes[i];

                if (process->is_seen) {
                        threads->processes[n++] = *process;
                        continue;
                }
                say_gone(threads, process);
                close_process(threads, process);
        }
        threads->n_processes = n;
}

/* Whether the member is a process that we have; another one may have had its pid. */
static bool is_known(struct infp_wall_threads *threads, const struct infp_target_member *member)
{
        struct infp_wall_process *process = find_process(threads, member->pid);

        if (!process || (process->start_ticks && process->start_ticks != member->start_ticks))
                return false;
        process->start_ticks = member->start_ticks;
        return process->is_seen = true;
}

/* The table of processes as the target's. */
static int take_members(struct infp_wall_threads *threads, const struct infp_env *env, uint64_t now_ns)
{
        const ssize_t n = read_members(threads, env);
        uint32_t n_new = 0;

        if (n < 0)
                return (int) n;
        for (uint32_t i = 0; i < threads->n_processes; i++) {
                struct infp_wall_process *process = &threads->processes[i];

                process->is_seen = !process->start_ticks && now_ns - process->hinted_ns < HINT_NS;
        }
        for (ssize_t i = 0; i < n; i++)
                if (is_known(threads, &threads->members[i]))
                        threads->members[i].pid = -1;
        sweep_processes(threads);
        for (ssize_t i = 0; i < n; i++)
                if (threads->members[i].pid >= 0) {
                        INFP_TRY(add_process(threads, threads->members[i].pid, threads->members[i].start_ticks, 0));
                        n_new++;
                }
        if (n_new)
                infp_sort(threads->processes, threads->n_processes, sizeof(*threads->processes), infp_compare_i32);
        return 0;
}

/* ---- threads of a process ---- */

static int open_tasks(const struct infp_wall_threads *threads, const struct infp_wall_process *process)
{
        char path[32];

        snprintf(path, sizeof(path), "%d/task", process->pid);
        return openat(threads->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Whether its threads may be others than when they were listed: procfs counts them as links of the directory. */
static bool wants_list(struct infp_wall_threads *threads, struct infp_wall_process *process, uint64_t now_ns)
{
        char path[32];
        struct stat s;
        int r;

        if (process->dir_fd >= 0) {
                r = fstat(process->dir_fd, &s);
        } else {
                snprintf(path, sizeof(path), "%d/task", process->pid);
                r = fstatat(threads->proc_fd, path, &s, 0);
        }
        if (r == 0 && s.st_nlink != process->n_links) {
                process->n_links = s.st_nlink;
                return true;
        }
        return !process->is_listed || process->must_list || now_ns - process->listed_ns >= LIST_NS;
}

static int compare_tids(const void *a, const void *b)
{
        const int32_t x = *(const int32_t *) a, y = *(const int32_t *) b;

        return x < y ? -1 : x > y;
}

/* Returns the number of tids, in order, or a negative errno. */
static ssize_t list_tids(struct infp_wall_threads *threads, const struct infp_wall_process *process)
{
        const int fd = open_tasks(threads, process);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;
        size_t n = 0;

        if (!dir) {
                const int r = -errno;

                infp_close(fd);
                return r;
        }
        while ((entry = readdir(dir))) {
                uint64_t tid;

                if (*entry->d_name < '1' || *entry->d_name > '9' ||
                    infp_parse_u64(entry->d_name, strlen(entry->d_name), &tid) < 0 || tid > INT32_MAX)
                        continue;
                if (n == threads->cap_tids) {
                        const size_t cap = n ? 2 * n : FIRST_TIDS;
                        int32_t *grown = realloc(threads->tids, cap * sizeof(*grown));

                        if (!grown) {
                                closedir(dir);
                                return -ENOMEM;
                        }
                        threads->tids = grown;
                        threads->cap_tids = cap;
                }
                threads->tids[n++] = (int32_t) tid;
        }
        closedir(dir);
        infp_sort(threads->tids, n, sizeof(*threads->tids), compare_tids);
        return (ssize_t) n;
}

/* Puts what was listed beside what was known. A tid that was given anew while we did not look is told by its kept descriptors. */
static int merge_tids(struct infp_wall_threads *threads, struct infp_wall_process *process, size_t n)
{
        struct infp_wall_thread *old = process->threads, *merged = malloc((n ? n : 1) * sizeof(*merged));
        uint32_t i = 0;

        if (!merged)
                return -ENOMEM;
        for (size_t j = 0; j < n; j++) {
                for (; i < process->n_threads && old[i].tid < threads->tids[j]; i++) {
                        threads->gone(threads->gone_context, old[i].tid);
                        infp_wall_thread_close(&threads->keeper, &old[i]);
                }
                if (i < process->n_threads && old[i].tid == threads->tids[j])
                        merged[j] = old[i++];
                else
                        infp_wall_thread_init(&merged[j], process->pid, threads->tids[j], threads->stack_bytes);
        }
        for (; i < process->n_threads; i++) {
                threads->gone(threads->gone_context, old[i].tid);
                infp_wall_thread_close(&threads->keeper, &old[i]);
        }
        free(old);
        threads->n_threads += (uint32_t) n - process->n_threads;
        process->threads = merged;
        process->n_threads = (uint32_t) n;
        return 0;
}

static void keep_dir(struct infp_wall_threads *threads, struct infp_wall_process *process)
{
        if (process->dir_fd >= 0 || threads->keeper.n_kept >= threads->keeper.cap)
                return;
        process->dir_fd = open_tasks(threads, process);
        if (process->dir_fd < 0)
                return;
        threads->keeper.n_kept++;
}

int infp_wall_threads_refresh(struct infp_wall_threads *threads, const struct infp_env *env, uint64_t now_ns)
{
        INFP_TRY(take_members(threads, env, now_ns));
        for (uint32_t i = 0; i < threads->n_processes; i++) {
                struct infp_wall_process *process = &threads->processes[i];
                ssize_t n;

                if (!wants_list(threads, process, now_ns))
                        continue;
                n = list_tids(threads, process);
                if (n == -ENOMEM)
                        return (int) n;
                process->is_listed = true;
                process->must_list = n < 0;
                process->listed_ns = now_ns;
                INFP_TRY(merge_tids(threads, process, n < 0 ? 0 : (size_t) n));
                keep_dir(threads, process);
        }
        return 0;
}
