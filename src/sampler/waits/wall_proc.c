#include "sampler/waits/wall_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/procfile.h"
#include "base/time.h"
#include "sampler/waits/syscall_names.h"

/* ---- texts of /proc, and the words for them ---- */

/* The arguments of a system call, in their order. */
static const uint8_t argument_registers[] = { INFP_RDI, INFP_RSI, INFP_RDX, INFP_R10, INFP_R8, INFP_R9 };

#define ALL_REGISTERS ((UINT32_C(1) << INFP_N_REGISTERS) - 1)

static bool parse_hex(struct infp_span s, uint64_t *ret)
{
        uint64_t v = 0;

        if (s.size < 3 || s.size > 18 || s.at[0] != '0' || s.at[1] != 'x')
                return false;
        for (size_t i = 2; i < s.size; i++) {
                const char c = s.at[i];
                const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

                if (digit < 0)
                        return false;
                v = v << 4 | (uint64_t) digit;
        }
        *ret = v;
        return true;
}

static void know(struct infp_wall_moment *moment, unsigned r, uint64_t value)
{
        moment->registers[r] = value;
        moment->unknown &= ~(UINT32_C(1) << r);
}

/* "202 0x7ffd... (six arguments) SP PC", or "-1 SP PC". */
int infp_wall_parse_call(const char *text, size_t size, struct infp_wall_moment *ret)
{
        enum { N_ARGUMENTS = sizeof(argument_registers), MOST = N_ARGUMENTS + 4 };
        struct infp_span words[MOST], line;
        uint64_t values[MOST] = { 0 };
        size_t n;

        line = infp_span_trim((struct infp_span){ text, size });
        ret->letter = 0;
        ret->has_call = ret->has_registers = false;
        ret->unknown = ALL_REGISTERS;
        if (infp_span_is(line, "running")) {
                ret->letter = 'R';
                return 0;
        }
        n = infp_span_words(line, words, MOST);
        if ((n != 3 && n != N_ARGUMENTS + 3) || infp_span_i64(words[0], &ret->call) < 0)
                return -EBADMSG;
        for (size_t i = 1; i < n; i++)
                if (!parse_hex(words[i], &values[i]))
                        return -EBADMSG;
        /* A thread that is about to end has no stack in the kernel, and so neither; numbers of 32-bit programs are others. */
        if (values[n - 2] == 0 || values[n - 2] <= UINT32_MAX)
                return 0;
        ret->has_call = ret->has_registers = true;
        know(ret, INFP_RSP, values[n - 2]);
        know(ret, INFP_RIP, values[n - 1]);
        for (size_t i = 0; n > 3 && i < N_ARGUMENTS; i++)
                know(ret, argument_registers[i], values[i + 1]);
        return 0;
}

char infp_wall_parse_letter(const char *text, size_t size)
{
        const char *close = size ? memrchr(text, ')', size) : NULL;

        return close && text + size - close > 2 && close[1] == ' ' ? close[2] : 0;
}

/* "se.exec_start  :  199597.414698", in ms. */
static bool parse_ms(struct infp_span value, uint64_t *ret)
{
        struct infp_span rest;
        const struct infp_span whole = infp_span_cut(value, '.', &rest);
        uint64_t ms, ns;

        if (rest.size != 6 || infp_span_u64(whole, &ms) < 0 || infp_span_u64(rest, &ns) < 0)
                return false;
        *ret = ms * INFP_NS_PER_MS + ns;
        return true;
}

int infp_wall_parse_turns(const char *text, size_t size, struct infp_wall_turns *ret)
{
        struct infp_span left = { text, size }, line, value;
        bool has_counted = false, has_ended = false;

        while (infp_span_line(&left, &line)) {
                const struct infp_span name = infp_span_trim(infp_span_cut(line, ':', &value));

                if (infp_span_is(name, "se.exec_start"))
                        has_counted = parse_ms(infp_span_trim(value), &ret->counted_ns);
                else if (infp_span_is(name, "nr_switches"))
                        has_ended = infp_span_u64(infp_span_trim(value), &ret->n_ended) == 0;
        }
        return has_counted && has_ended ? 0 : -EBADMSG;
}

static const char *word_of(char letter)
{
        switch (letter) {
        case 'S':
        case 'I':
                return "sleeping";
        case 'D':
                return "uninterruptible";
        case 'T':
                return "stopped";
        case 't':
                return "traced";
        case 'P':
                return "parked";
        default:
                return "blocked";
        }
}

void infp_wall_call_name(const struct infp_wall_moment *moment, char *ret, size_t cap)
{
        const char *call = NULL;

        *ret = 0;
        if (!moment->has_call || moment->call < 0)
                return;
        call = infp_syscall_name(moment->call);
        if (call)
                snprintf(ret, cap, "sys_%s", call);
        else
                snprintf(ret, cap, "sys_%lld", (long long) moment->call);
}

void infp_wall_state(const struct infp_wall_moment *moment, char *ret, size_t cap)
{
        const char *word = word_of(moment->letter), *call = NULL;

        if (moment->has_call && moment->call >= 0)
                call = infp_syscall_name(moment->call);
        if (call)
                snprintf(ret, cap, "%s in %s", word, call);
        else if (moment->has_call && moment->call >= 0)
                snprintf(ret, cap, "%s in system call %lld", word, (long long) moment->call);
        else if (*moment->wchan)
                snprintf(ret, cap, "%s in %s", word, moment->wchan);
        else
                snprintf(ret, cap, "%s", word);
}

enum { MAX_WORDS = 4096 }; /* names of calls and of functions of the kernel: some hundred */

const char *infp_wall_word(struct infp_map *words, const char *text)
{
        const uint64_t key = infp_hash64(text, strlen(text), 1) | 1;
        const uint64_t *known = infp_map_get(words, key);
        char *copy;

        if (known)
                return (const char *) (uintptr_t) *known;
        if (words->n >= MAX_WORDS || !(copy = strdup(text)))
                return NULL;
        if (infp_map_put(words, key, (uint64_t) (uintptr_t) copy) < 0) {
                free(copy);
                return NULL;
        }
        return copy;
}

void infp_wall_words_done(struct infp_map *words)
{
        for (size_t i = 0; i < words->cap; i++)
                if (words->slots[i].key)
                        free((void *) (uintptr_t) words->slots[i].value);
        infp_map_done(words);
}

/* ---- reading one thread: cheap while it has not run, whole when it has ---- */

enum { OFTEN = 3, PATH_SIZE = 64, TRIES = 2, PAGE = 4096, MAX_PIECES = 256, TURNS_TEXT = 4096, TURNS_TRIES = 3 };

void infp_wall_thread_init(struct infp_wall_thread *thread, int32_t pid, int32_t tid, uint32_t stack_bytes)
{
        *thread = (struct infp_wall_thread){ .pid = pid, .tid = tid, .stack_bytes = stack_bytes };
        for (unsigned i = 0; i < INFP_WALL_FILES; i++)
                thread->fd[i] = -1;
}

static void drop(struct infp_wall_keeper *keeper, int *fd)
{
        if (*fd < 0)
                return;
        *fd = infp_close(*fd);
        keeper->n_kept--;
}

void infp_wall_thread_close(struct infp_wall_keeper *keeper, struct infp_wall_thread *thread)
{
        for (unsigned i = 0; i < INFP_WALL_FILES; i++)
                drop(keeper, &thread->fd[i]);
}

static int open_file(int proc_fd, const struct infp_wall_thread *thread, const char *name)
{
        char path[PATH_SIZE];
        int fd;

        snprintf(path, sizeof(path), "%d/task/%d/%s", thread->pid, thread->tid, name);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static ssize_t read_once(int fd, char *buffer, size_t cap)
{
        ssize_t n;

        do
                n = pread(fd, buffer, cap, 0);
        while (n < 0 && errno == EINTR);
        return n < 0 ? -errno : n;
}

static const char *name_of(const struct infp_wall_thread *thread, enum infp_wall_file file)
{
        static const char *const names[INFP_WALL_FILES] = { "schedstat", "syscall", "stat", "wchan", "sched" };

        return names[file == INFP_WALL_FILE_CHECK && thread->hides_call ? INFP_WALL_FILE_STAT : file];
}

/* The first two are read each time, and the last one where it hurries, the others only of threads that have run. */
static bool is_worth_keeping(const struct infp_wall_keeper *keeper, const struct infp_wall_thread *thread,
                             enum infp_wall_file file)
{
        if (file <= INFP_WALL_FILE_CHECK || file == INFP_WALL_FILE_SCHED)
                return keeper->n_kept < keeper->cap;
        return thread->n_whole >= OFTEN && keeper->n_kept < keeper->cap / 2;
}

/* A file whose descriptor is kept if there is room. */
static ssize_t read_kept(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread,
                         enum infp_wall_file file, char *buffer, size_t cap)
{
        int *kept = &thread->fd[file], fd = *kept;
        ssize_t n;

        if (fd < 0)
                fd = open_file(proc_fd, thread, name_of(thread, file));
        if (fd < 0)
                return fd;
        n = read_once(fd, buffer, cap);
        if (fd == *kept) {
                if (n < 0)
                        drop(keeper, kept);
        } else if (n >= 0 && is_worth_keeping(keeper, thread, file) && !infp_fd_is_scarce(fd)) {
                *kept = fd;
                keeper->n_kept++;
        } else {
                infp_close(fd);
        }
        return n;
}

static bool is_gone(ssize_t n)
{
        return n == -ESRCH || n == -ENOENT;
}

/* By the thread itself: the process's first one may have ended, and has no memory then. The kernel copies whole pieces only. */
ssize_t infp_wall_read_stack(int32_t tid, uint64_t from, uint8_t *stack, uint32_t cap)
{
        const struct iovec local = { stack, cap };
        struct iovec remote[MAX_PIECES];
        unsigned n = 0;
        uint64_t at = from;
        ssize_t r;

        while (at < from + cap && n < MAX_PIECES) {
                const uint64_t left = from + cap - at, page = PAGE - at % PAGE;

                remote[n++] = (struct iovec){ (void *) at, left < page ? left : page };
                at += remote[n - 1].iov_len;
        }
        r = process_vm_readv(tid, &local, 1, remote, n, 0);
        return r < 0 ? -errno : r;
}

/* The text that changes when a thread leaves its system call; where that is hidden, its state's. */
static ssize_t read_check(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread, char *text,
                          struct infp_wall_refused *refused)
{
        ssize_t n = read_kept(keeper, proc_fd, thread, INFP_WALL_FILE_CHECK, text, INFP_WALL_CALL_TEXT);

        const int why = (int) -n;

        if (n >= 0 || thread->hides_call || n == -ESRCH || n == -EMFILE || n == -ENFILE)
                return n;
        thread->hides_call = true;
        n = read_kept(keeper, proc_fd, thread, INFP_WALL_FILE_CHECK, text, INFP_WALL_CALL_TEXT);
        if (n >= 0) { /* it is there, and the kernel has no such file, or does not let us */
                refused->call = why;
                refused->pid = thread->pid;
        }
        return n;
}

static char read_letter(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread)
{
        char text[512];
        ssize_t n = read_kept(keeper, proc_fd, thread, INFP_WALL_FILE_STAT, text, sizeof(text));

        return n > 0 ? infp_wall_parse_letter(text, (size_t) n) : 0;
}

static int read_schedstat(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread,
                          uint64_t *ret_ns, uint64_t *ret_turns)
{
        char text[INFP_WALL_SCHED_TEXT];
        const ssize_t n = read_kept(keeper, proc_fd, thread, INFP_WALL_FILE_SCHEDSTAT, text, INFP_WALL_SCHED_TEXT);
        struct infp_span line = infp_span_trim((struct infp_span){ text, n > 0 ? (size_t) n : 0 });

        if (n < 0)
                return (int) n;
        if (infp_span_u64(infp_span_word(&line), ret_ns) < 0)
                return -EBADMSG;
        infp_span_word(&line);
        return infp_span_u64(infp_span_word(&line), ret_turns) < 0 ? -EBADMSG : 0;
}

int infp_wall_thread_time(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread,
                          uint64_t *ret_ns, char *ret_letter)
{
        uint64_t n_turns;
        const int r = read_schedstat(keeper, proc_fd, thread, ret_ns, &n_turns);

        *ret_letter = 0;
        if (r < 0)
                return r;
        /* CPU time is counted at ticks, turns as they begin: one that was seen to wait and had no turn since waits still. */
        if (!thread->is_met || n_turns != thread->n_turns || *ret_ns != thread->cpu_ns || thread->letter == 'R')
                *ret_letter = read_letter(keeper, proc_fd, thread);
        thread->n_turns = n_turns;
        thread->letter = *ret_letter;
        return 0;
}

/* Two files: the first is the same before and after the second, or what they say is not of one moment. */
int infp_wall_thread_turns(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread,
                           struct infp_wall_turns *ret)
{
        char text[TURNS_TEXT];
        uint64_t ns, n_before = thread->n_turns;

        for (unsigned i = 0; i < TURNS_TRIES; i++) {
                const ssize_t n = read_kept(keeper, proc_fd, thread, INFP_WALL_FILE_SCHED, text, sizeof(text));
                int r = n < 0 ? (int) n : infp_wall_parse_turns(text, (size_t) n, ret);

                if (r == 0)
                        r = read_schedstat(keeper, proc_fd, thread, &ns, &ret->n_begun);
                if (r < 0 || ret->n_begun == n_before)
                        return r;
                n_before = ret->n_begun;
        }
        return -EAGAIN;
}

static void read_wchan(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread,
                       struct infp_wall_moment *moment)
{
        ssize_t n = read_kept(keeper, proc_fd, thread, INFP_WALL_FILE_WCHAN, moment->wchan, sizeof(moment->wchan) - 1);

        moment->wchan[n > 0 ? n : 0] = 0;
        moment->wchan[strcspn(moment->wchan, "\n")] = 0;
        if (!strcmp(moment->wchan, "0")) /* hidden, or it runs */
                *moment->wchan = 0;
}

/* Each look needs both: schedstat says that a thread has had no CPU since, and syscall that it was not woken: one that waits for a CPU has
 * the same schedstat until it gets it. */
struct texts {
        char sched[INFP_WALL_SCHED_TEXT], check[INFP_WALL_CALL_TEXT];
        ssize_t sched_size, check_size;
};

static bool is_same(const struct infp_wall_thread *thread, const struct texts *now)
{
        return now->sched_size == thread->sched_size && now->check_size == thread->check_size &&
               !memcmp(now->sched, thread->sched, (size_t) now->sched_size) &&
               !memcmp(now->check, thread->check, (size_t) now->check_size);
}

/* Whether the same texts prove that it has not run: kernels that do not count write zeros for ever. */
static bool is_proof(const struct texts *now)
{
        return now->sched_size > 0 && strncmp(now->sched, "0 0 0", 5) != 0;
}

static int read_texts(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread, struct texts *ret,
                      struct infp_wall_refused *refused)
{
        ret->sched_size =
                read_kept(keeper, proc_fd, thread, INFP_WALL_FILE_SCHEDSTAT, ret->sched, INFP_WALL_SCHED_TEXT);
        if (ret->sched_size == -ESRCH || ret->sched_size == -EMFILE || ret->sched_size == -ENFILE)
                return (int) ret->sched_size;
        if (ret->sched_size < 0) /* a kernel without it: each thread is read whole each time */
                ret->sched_size = 0;
        ret->check_size = read_check(keeper, proc_fd, thread, ret->check, refused);
        return ret->check_size < 0 ? (int) ret->check_size : 0;
}

static void remember(struct infp_wall_thread *thread, const struct texts *texts, bool is_blocked)
{
        thread->sched_size = (uint8_t) texts->sched_size;
        thread->check_size = (uint8_t) texts->check_size;
        memcpy(thread->sched, texts->sched, (size_t) texts->sched_size);
        memcpy(thread->check, texts->check, (size_t) texts->check_size);
        thread->is_known = true;
        thread->was_blocked = is_blocked;
}

/* State, system call and registers by the texts. */
static void understand(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread,
                       const struct texts *texts, struct infp_wall_moment *ret)
{
        *ret = (struct infp_wall_moment){ .unknown = ~UINT32_C(0) };
        if (thread->hides_call)
                ret->letter = infp_wall_parse_letter(texts->check, (size_t) texts->check_size);
        else if (infp_wall_parse_call(texts->check, (size_t) texts->check_size, ret) < 0)
                ret->has_call = ret->has_registers = false;
        if (!ret->letter)
                ret->letter = read_letter(keeper, proc_fd, thread);
        if (ret->letter != 'R')
                read_wchan(keeper, proc_fd, thread, ret);
}

/* Where a filter of system calls refuses process_vm_readv: the same by a file. */
static ssize_t read_memory_file(int proc_fd, int32_t tid, uint64_t from, uint8_t *stack, uint32_t cap)
{
        char path[PATH_SIZE];
        infp_autoclose int fd = -1;
        ssize_t n;

        snprintf(path, sizeof(path), "%d/mem", tid);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : pread(fd, stack, cap, (off_t) from);
        return n < 0 ? -errno : n;
}

static uint32_t copy_stack(int proc_fd, struct infp_wall_thread *thread, const struct infp_wall_moment *moment,
                           uint8_t *stack, uint32_t cap, struct infp_wall_refused *refused)
{
        ssize_t n;

        if (!stack || !moment->has_registers || moment->letter == 'R')
                return 0;
        cap = thread->stack_bytes < cap ? thread->stack_bytes : cap;
        n = infp_wall_read_stack(thread->tid, moment->registers[INFP_RSP], stack, cap);
        if (n == -EPERM || n == -EACCES || n == -ENOSYS) {
                const ssize_t by_file = read_memory_file(proc_fd, thread->tid, moment->registers[INFP_RSP], stack, cap);

                n = by_file > 0 ? by_file : n;
        }
        if (n < 0 && !is_gone(n)) {
                refused->stack = (int) -n;
                refused->pid = thread->pid;
        }
        return n > 0 ? (uint32_t) n & ~UINT32_C(7) : 0;
}

enum infp_wall_found infp_wall_thread_read(struct infp_wall_keeper *keeper, int proc_fd,
                                           struct infp_wall_thread *thread, struct infp_wall_moment *ret,
                                           uint8_t *stack, uint32_t cap, uint32_t *ret_size,
                                           const struct infp_wall_also *also, struct infp_wall_refused *refused)
{
        uint64_t t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        struct texts before, after;
        int r = read_texts(keeper, proc_fd, thread, &before, refused);

        *ret_size = 0;
        if (r < 0)
                return is_gone(r) ? INFP_WALL_GONE : INFP_WALL_FAILED;
        if (thread->is_known && thread->was_blocked && is_same(thread, &before) && is_proof(&before))
                return INFP_WALL_IDLE;
        thread->n_whole += thread->n_whole < OFTEN;
        for (unsigned try = 0;; try++) {
                understand(keeper, proc_fd, thread, &before, ret);
                ret->t_ns = t_ns;
                if (ret->letter == 'Z' || ret->letter == 'X')
                        return INFP_WALL_GONE;
                *ret_size = copy_stack(proc_fd, thread, ret, stack, cap, refused);
                if (also && ret->letter != 'R' && is_proof(&before))
                        also->read(also->context, thread, ret);
                remember(thread, &before, ret->letter != 'R');
                if (ret->letter == 'R')
                        return INFP_WALL_CHANGED;
                if (*ret_size == 0 && !ret->has_registers && !also)
                        return INFP_WALL_CHANGED;
                t_ns = infp_clock_ns(CLOCK_MONOTONIC);
                r = read_texts(keeper, proc_fd, thread, &after, refused);
                if (r < 0)
                        return is_gone(r) ? INFP_WALL_GONE : INFP_WALL_FAILED;
                if (is_same(thread, &after))
                        return INFP_WALL_CHANGED;
                if (try + 1 == TRIES)
                        break;
                before = after;
        }
        thread->is_known = false;
        *ret_size = 0;
        ret->has_registers = false;
        return INFP_WALL_TORN;
}
