/* Attaching to what runs already: its threads one by one, or where these are too many the CPUs, or its busiest threads. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/sort.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "sampler/perf/inner.h"

enum {
        MAX_ROUNDS = 8,     /* of listing threads, while new ones appear */
        MANY_EVENTS = 4096, /* more than that take the kernel longer to open than those of all CPUs */
        FIRST_THREADS = 256,
        MAX_THREADS = 1 << 20,
};

static const uint64_t patience_ns = 2 * INFP_NS_PER_S;

struct thread {
        int32_t pid, tid;
        uint64_t used_ns; /* of a CPU, since it began */
};

struct threads {
        struct thread *list;
        size_t n, cap;
};

static int add(struct threads *threads, int32_t pid, int32_t tid)
{
        if (threads->n >= MAX_THREADS || !INFP_MAKE_ROOM(threads->list, threads->n, threads->cap, FIRST_THREADS))
                return -ENOMEM;
        threads->list[threads->n++] = (struct thread){ .pid = pid, .tid = tid };
        return 0;
}

/* Those of the process that are not known. One that has gone meanwhile has none. */
static int list_new(struct infp_perf *perf, int32_t pid, struct threads *ret)
{
        const struct dirent *entry;
        char path[32];
        DIR *dir;
        int r = 0;

        snprintf(path, sizeof(path), "/proc/%d/task", pid);
        dir = opendir(path);
        while (dir && r >= 0 && (entry = readdir(dir))) {
                uint64_t tid;

                if (infp_parse_u64(entry->d_name, strlen(entry->d_name), &tid) == 0 && tid <= INT32_MAX &&
                    !infp_map_get(&perf->known, perf_key((int32_t) tid)))
                        r = add(ret, pid, (int32_t) tid);
        }
        if (dir)
                closedir(dir);
        return r;
}

static int list_all(struct infp_perf *perf, const int32_t *pids, size_t n, struct threads *ret)
{
        ret->n = 0;
        for (size_t i = 0; i < n; i++)
                INFP_TRY(list_new(perf, pids[i], ret));
        return 0;
}

static void read_used(int root_fd, struct thread *thread)
{
        char path[64], text[128];

        /* By its own number every thread can be reached, though only the first of a process is listed. */
        snprintf(path, sizeof(path), "proc/%d/task/%d/schedstat", thread->tid, thread->tid);
        if (infp_read_at(root_fd, path, text, sizeof(text)) > 0)
                thread->used_ns = strtoull(text, NULL, 10);
}

static int by_use(const void *a, const void *b)
{
        const uint64_t x = ((const struct thread *) a)->used_ns, y = ((const struct thread *) b)->used_ns;

        return (x < y) - (x > y);
}

static void busiest_first(struct threads *threads, uint64_t end_ns)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        for (size_t i = 0; i < threads->n && infp_clock_ns(CLOCK_MONOTONIC) < end_ns; i++)
                read_used(root_fd, &threads->list[i]);
        infp_sort(threads->list, threads->n, sizeof(*threads->list), by_use);
}

static int note_pids(struct infp_perf *perf, const int32_t *pids, size_t n)
{
        for (size_t i = 0; i < n; i++)
                INFP_TRY(infp_map_put(&perf->known, perf_key(pids[i]), 1));
        return 0;
}

static int open_cpus(struct infp_perf *perf, enum infp_perf_method method)
{
        unsigned group;

        if (perf->method == method)
                return 0;
        INFP_TRY(infp_perf_group_open(perf, -1, false, &group));
        perf->method = method;
        return 0;
}

static void note_refused(struct infp_perf *perf, int32_t pid)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct infp_perf_refused *refused = &perf->refused;
        char path[32];

        if (refused->pid)
                return;
        refused->pid = pid;
        snprintf(path, sizeof(path), "proc/%d/comm", pid);
        if (infp_read_at(root_fd, path, refused->name, sizeof(refused->name)) > 0)
                refused->name[strcspn(refused->name, "\n")] = 0;
}

/* Opens what it can: -EMFILE when there is room for no more, -ETIME when it takes too long (thousands that run, on few CPUs), else
 * the error of the last that could not be opened, if none could. */
static int open_threads(struct infp_perf *perf, const struct threads *threads, uint64_t end_ns, unsigned *ret_opened)
{
        int r = 0;

        for (size_t i = 0; i < threads->n; i++) {
                unsigned group;
                int own = infp_clock_ns(CLOCK_MONOTONIC) > end_ns
                                  ? -ETIME
                                  : infp_perf_group_open(perf, threads->list[i].tid, false, &group);

                if (own == -EMFILE || own == -ENFILE || own == -ENOMEM || own == -ETIME) {
                        perf->n_skipped += threads->n - i;
                        perf->was_late |= own == -ETIME;
                        for (; i < threads->n; i++) /* not tried again at each look */
                                infp_map_put(&perf->known, perf_key(threads->list[i].tid), PERF_INHERITED);
                        return own;
                }
                if (own >= 0) {
                        (*ret_opened)++;
                        own = infp_map_put(&perf->known, perf_key(threads->list[i].tid), group);
                }
                if (own == -EACCES || own == -EPERM) {
                        note_refused(perf, threads->list[i].pid);
                        infp_map_put(&perf->known, perf_key(threads->list[i].tid), PERF_INHERITED);
                } else if (own < 0 && own != -ESRCH)
                        r = own;
        }
        return *ret_opened ? 0 : r;
}

/* Where the events of all threads do not fit, or are very many. */
static bool is_too_many(const struct infp_perf *perf, size_t n)
{
        const uint64_t events = n * perf->per_group;

        return events > perf->max_events - perf->n_events || (perf->may.machine && events > MANY_EVENTS);
}

static int attach_threads(struct infp_perf *perf, const int32_t *pids, size_t n, struct threads *threads)
{
        const uint64_t end_ns = infp_clock_ns(CLOCK_MONOTONIC) + patience_ns;
        unsigned opened = 0;

        for (unsigned round = 0; round < MAX_ROUNDS; round++) {
                INFP_TRY(list_all(perf, pids, n, threads));
                if (!threads->n)
                        return 0;
                if (is_too_many(perf, threads->n)) {
                        if (perf->may.machine && perf->method != INFP_PERF_THREADS) {
                                INFP_TRY(note_pids(perf, pids, n));
                                return open_cpus(perf, INFP_PERF_CPUS);
                        }
                        busiest_first(threads, end_ns - patience_ns / 2);
                }
                perf->method = INFP_PERF_THREADS;
                INFP_TRY(open_threads(perf, threads, end_ns, &opened));
        }
        return 0;
}

int infp_perf_attach(struct infp_perf *perf, const int32_t *pids, size_t n, struct infp_err *err)
{
        struct threads threads = { 0 };
        int r;

        if (perf->method == INFP_PERF_CPUS)
                r = note_pids(perf, pids, n);
        else
                r = attach_threads(perf, pids, n, &threads);
        free(threads.list);
        if (r == -EMFILE || r == -ENFILE)
                return infp_fail(err, r, "only %u descriptors are left for perf events: %s threads are not sampled",
                                 perf->max_events, infp_count(perf->n_skipped).text);
        if (r == -ETIME)
                return infp_fail(err, r, "the events of %s threads could not be opened in time",
                                 infp_count(perf->n_skipped).text);
        return r < 0 ? infp_perf_refused(r, err) : 0;
}

int infp_perf_attach_machine(struct infp_perf *perf, struct infp_err *err)
{
        int r;

        if (!perf->may.machine)
                return infp_fail(err, -EACCES,
                                 "sampling the stacks of the whole machine is not permitted: name a command, --pid, "
                                 "--name or --port, or setcap cap_perfmon+ep infprof");
        r = open_cpus(perf, INFP_PERF_MACHINE);
        return r < 0 ? infp_perf_refused(r, err) : 0;
}

/* THREADS: a thread that a listing has found may have inherited events from the one that started it. The kernel reports the start
 * of those alone: then its own events would count everything twice. */
static void note_thread(struct infp_perf *perf, bool is_fork, int32_t tid)
{
        const uint64_t key = perf_key(tid);
        const uint64_t *group = infp_map_get(&perf->known, key);

        if (group && *group != PERF_INHERITED && is_fork)
                infp_perf_group_close(perf, (unsigned) *group);
        else if (group && *group != PERF_INHERITED)
                perf->groups[*group].is_ended = true;
        if (is_fork)
                infp_map_put(&perf->known, key, PERF_INHERITED);
        else
                infp_map_delete(&perf->known, key);
}

/* CPUS: who is the target, by its processes' numbers, which are given out again. */
static void note_process(struct infp_perf *perf, bool is_fork, int32_t pid, int32_t parent_pid)
{
        if (is_fork && infp_map_get(&perf->known, perf_key(parent_pid)))
                infp_map_put(&perf->known, perf_key(pid), 1);
        else if (is_fork)
                infp_map_delete(&perf->known, perf_key(pid));
}

bool infp_perf_was_there(int32_t pid, uint64_t t_ns)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        const uint64_t boottime_ns = t_ns + infp_clock_ns(CLOCK_BOOTTIME) - infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_process process = { 0 };
        char path[64], text[2048];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/stat", pid);
        n = infp_read_at(root_fd, path, text, sizeof(text));
        return n > 0 && infp_process_stat_parse(text, (size_t) n, &process) == 0 &&
               process.start_ticks <= boottime_ns / (INFP_NS_PER_S / (uint64_t) sysconf(_SC_CLK_TCK));
}

/* It is there, and has other rights than the one who started it: so much the kernel shows of every process. */
static bool has_own_rights(int32_t pid)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        unsigned uid, euid, gid, egid;
        char path[64], text[1024], state;
        const char *at;
        struct stat st;

        snprintf(path, sizeof(path), "proc/%d", pid);
        if (fstatat(root_fd, path, &st, 0) < 0)
                return false;
        snprintf(path, sizeof(path), "proc/%d/status", pid);
        if (infp_read_at(root_fd, path, text, sizeof(text)) <= 0)
                return false;
        if (!(at = strstr(text, "\nState:\t")) || sscanf(at, " State: %c", &state) != 1 || state == 'Z' || state == 'X')
                return false;
        if (!(at = strstr(text, "\nUid:\t")) || sscanf(at, " Uid: %u %u", &uid, &euid) != 2)
                return false;
        if (!(at = strstr(text, "\nGid:\t")) || sscanf(at, " Gid: %u %u", &gid, &egid) != 2)
                return false;
        /* The directory is root's while others may not look into the process: it has more rights than its user. */
        return uid != euid || gid != egid || st.st_uid != euid;
}

/* When a program takes more rights at its start (setuid, setgid, file capabilities, or a file that its user may not read), the
 * kernel ends the events of its process as if that had ended, and says so. They are opened again where we may. */
static void resume_thread(struct infp_perf *perf, const struct thread *thread)
{
        unsigned group;
        int r = infp_perf_group_open(perf, thread->tid, false, &group);

        if (r == -EACCES || r == -EPERM)
                note_refused(perf, thread->pid);
        if (r >= 0 && perf->method == INFP_PERF_THREADS)
                infp_map_put(&perf->known, perf_key(thread->tid), group);
        if (r >= 0 && perf->method == INFP_PERF_TREE)
                perf->groups[group].is_ended = true; /* closed when the kernel hangs up */
}

static void resume(struct infp_perf *perf, int32_t pid, uint64_t t_ns)
{
        struct threads threads = { 0 };

        if (perf->is_stopped || !has_own_rights(pid) || !infp_perf_was_there(pid, t_ns))
                return;
        list_new(perf, pid, &threads); /* it may have started some since */
        for (size_t i = 0; i < threads.n; i++)
                resume_thread(perf, &threads.list[i]);
        free(threads.list);
}

void infp_perf_note_task(void *context, uint64_t t_ns, bool is_fork, int32_t pid, int32_t tid, int32_t parent_pid)
{
        struct infp_perf *perf = context;

        if (perf->method == INFP_PERF_THREADS)
                note_thread(perf, is_fork, tid);
        else if (perf->method == INFP_PERF_CPUS && pid != parent_pid)
                note_process(perf, is_fork, pid, parent_pid);
        if (!is_fork && pid == tid && (perf->method == INFP_PERF_TREE || perf->method == INFP_PERF_THREADS))
                resume(perf, pid, t_ns);
}

bool infp_perf_is_of_target(void *context, int32_t pid, int32_t tid)
{
        const struct infp_perf *perf = context;

        (void) tid;
        return perf->method != INFP_PERF_CPUS || infp_map_get(&perf->known, perf_key(pid));
}
