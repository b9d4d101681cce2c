#include "collectors/process/delays.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/procfile.h"

void process_delays_init(struct process_delays *delays, bool may_keep)
{
        struct rlimit limit;
        unsigned few;

        *delays = (struct process_delays){ 0 };
        /* A quarter: the target keeps files of processes, the sampler events. Of few the store needs all. */
        if (may_keep && !infp_fds_are_few(&few) && getrlimit(RLIMIT_NOFILE, &limit) >= 0)
                delays->most_kept = limit.rlim_cur / 4 > PROCESS_DELAY_THREADS ? PROCESS_DELAY_THREADS
                                                                               : (uint32_t) (limit.rlim_cur / 4);
}

void process_delays_done(struct process_delays *delays)
{
        for (uint32_t i = 0; i < delays->n; i++)
                infp_close(delays->threads[i].fd);
        free(delays->threads);
        *delays = (struct process_delays){ 0 };
}

/* 0; 1: it has run, so that the kernel counts (without CONFIG_SCHEDSTATS all is 0); or a negative errno. */
static int parse(int fd, int64_t *ret_ns)
{
        char text[96];
        const ssize_t n = pread(fd, text, sizeof(text), 0);
        struct infp_span line = { text, n > 0 ? (size_t) n : 0 };
        int64_t ran_ns;

        if (n <= 0)
                return n < 0 ? -errno : -ENOENT;
        if (infp_span_i64(infp_span_word(&line), &ran_ns) < 0 || infp_span_i64(infp_span_word(&line), ret_ns) < 0 ||
            *ret_ns < 0)
                return -EBADMSG;
        return ran_ns > 0;
}

static int open_thread(int root_fd, int32_t pid, int32_t tid)
{
        char path[64];
        int fd;

        snprintf(path, sizeof(path), "proc/%d/task/%d/schedstat", (int) pid, (int) tid);
        fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

/* As parse; -ENOENT or -ESRCH: it has ended. */
static int read_thread(struct process_delays *delays, int root_fd, int32_t pid, struct thread_delay *thread)
{
        const int fd = thread->fd >= 0 ? thread->fd : open_thread(root_fd, pid, thread->tid);
        int64_t ns;
        int r;

        if (fd < 0)
                return fd == -EMFILE || fd == -ENFILE ? 0 : fd; /* its last value stays */
        r = parse(fd, &ns);
        if (thread->fd < 0 && r >= 0 && delays->n_kept < delays->most_kept) {
                thread->fd = fd;
                delays->n_kept++;
        } else if (thread->fd < 0) {
                infp_close(fd);
        }
        if (r >= 0 && ns < thread->ns) /* another thread has its number by now */
                r = -ESRCH;
        if (r >= 0)
                thread->ns = ns;
        return r;
}

static void release(struct process_delays *delays, uint32_t at)
{
        struct thread_delay *thread = &delays->threads[at];

        delays->n_kept -= thread->fd >= 0;
        thread->fd = infp_close(thread->fd);
        thread->next = delays->free;
        delays->free = at + 1;
        delays->n_used--;
}

/* 0: no memory; else the place and 1 more. */
static uint32_t take(struct process_delays *delays)
{
        uint32_t ret = delays->free;

        if (ret) {
                delays->free = delays->threads[ret - 1].next;
        } else {
                if (!INFP_MAKE_ROOM(delays->threads, delays->n, delays->cap, 64))
                        return 0;
                ret = ++delays->n;
        }
        delays->n_used++;
        return ret;
}

static void drop_ended(struct process_delays *delays, struct process_delay *delay)
{
        for (uint32_t *link = &delay->first; *link;) {
                const uint32_t at = *link - 1;
                struct thread_delay *thread = &delays->threads[at];

                if (thread->is_listed) {
                        link = &thread->next;
                        continue;
                }
                delay->ended_ns += thread->ns;
                delay->n--;
                *link = thread->next;
                release(delays, at);
        }
}

static uint32_t next_of(const struct process_delays *delays, const struct process_delay *delay, uint32_t place)
{
        return place ? delays->threads[place - 1].next : delay->first;
}

/* The place of a thread and 1 more; 0: it is new. Listed in the kernel's order, which is ours, it is the one after `before`. */
static uint32_t find(const struct process_delays *delays, const struct process_delay *delay, uint32_t before,
                     int32_t tid)
{
        uint32_t at = next_of(delays, delay, before);

        if (at && delays->threads[at - 1].tid == tid)
                return at;
        for (at = delay->first; at && delays->threads[at - 1].tid != tid;)
                at = delays->threads[at - 1].next;
        return at;
}

/* *before: the thread listed before it, and then this one. 1: there is no room for it. */
static int add_thread(struct process_delays *delays, struct process_delay *delay, uint32_t *before, int32_t tid)
{
        uint32_t place = find(delays, delay, *before, tid);

        if (!place) {
                if (delays->n_used >= PROCESS_DELAY_THREADS)
                        return 1;
                place = take(delays);
                if (!place)
                        return -ENOMEM;
                delays->threads[place - 1] =
                        (struct thread_delay){ .next = next_of(delays, delay, *before), .tid = tid, .fd = -1 };
                *(*before ? &delays->threads[*before - 1].next : &delay->first) = place;
                delay->n++;
        }
        delays->threads[place - 1].is_listed = true;
        *before = place;
        return 0;
}

void process_delay_forget(struct process_delays *delays, struct process_delay *delay)
{
        for (uint32_t at = delay->first; at; at = delays->threads[at - 1].next)
                delays->threads[at - 1].is_listed = false;
        drop_ended(delays, delay);
}

/* The threads as they are now. 0; 1: they are too many; or a negative errno. */
static int list_threads(struct process_delays *delays, int root_fd, int32_t pid, struct process_delay *delay)
{
        infp_autoclose int fd = -1;
        const char *name;
        uint32_t before = 0;
        char path[64];
        int r = 0;

        snprintf(path, sizeof(path), "proc/%d/task", (int) pid);
        fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        for (uint32_t at = delay->first; at; at = delays->threads[at - 1].next)
                delays->threads[at - 1].is_listed = false;
        infp_names_begin(&delays->names, fd);
        while (r == 0 && (name = infp_names_next(&delays->names))) {
                const long tid = strtol(name, NULL, 10);

                if (*name >= '1' && *name <= '9' && tid <= INT32_MAX)
                        r = add_thread(delays, delay, &before, (int32_t) tid);
        }
        drop_ended(delays, delay);
        return r;
}

/* Its own file: that of its first thread. */
static int read_leader(int root_fd, int32_t pid, int64_t *ret_ns)
{
        infp_autoclose int fd = open_thread(root_fd, pid, pid);

        return fd < 0 ? fd : parse(fd, ret_ns);
}

/* Reads all that are known. 1: some have ended. */
static bool read_all(struct process_delays *delays, int root_fd, int32_t pid, struct process_delay *delay,
                     int64_t *ret_ns)
{
        bool any_ended = false;

        *ret_ns = delay->ended_ns;
        for (uint32_t at = delay->first; at; at = delays->threads[at - 1].next) {
                struct thread_delay *thread = &delays->threads[at - 1];
                const int r = read_thread(delays, root_fd, pid, thread);

                any_ended |= r < 0;
                delay->is_known |= r > 0;
                *ret_ns += thread->ns;
        }
        return any_ended;
}

/* Its threads are too many: from here on the first one counts, beside what is known so far. */
static int count_leader(struct process_delays *delays, int root_fd, int32_t pid, struct process_delay *delay)
{
        int64_t leader_ns;
        const int r = read_leader(root_fd, pid, &leader_ns);

        if (r < 0)
                return r;
        process_delay_forget(delays, delay);
        if (delay->is_known)
                delay->ended_ns -= leader_ns;
        delay->is_known |= r > 0;
        delay->is_by_leader = delays->is_cut = true;
        return 0;
}

int process_delay_read(struct process_delays *delays, int root_fd, int32_t pid, int32_t n_threads,
                       struct process_delay *delay, int64_t *ret_ns)
{
        int64_t leader_ns = 0;
        int r = 0;

        if (!delay->is_by_leader && (delay->n != n_threads || read_all(delays, root_fd, pid, delay, ret_ns))) {
                r = list_threads(delays, root_fd, pid, delay);
                r = r > 0 ? count_leader(delays, root_fd, pid, delay) : r;
                if (r >= 0 && !delay->is_by_leader)
                        read_all(delays, root_fd, pid, delay, ret_ns);
        }
        if (r >= 0 && delay->is_by_leader) {
                r = read_leader(root_fd, pid, &leader_ns);
                *ret_ns = delay->ended_ns + leader_ns;
        }
        return r < 0 ? r : delay->is_known ? 0 : -ENOENT;
}
