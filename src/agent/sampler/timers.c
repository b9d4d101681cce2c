#include "agent/sampler/timers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
        MOST_THREADS = 8192,
        SLOTS = 2 * MOST_THREADS, /* of the index: a power of 2 */
        ENTRIES = 8192,           /* bytes of directory entries at a time */
        LOOK_FIRST_NS = 8000000,  /* between looks at the threads ... */
        LOOK_MOST_NS = 128000000, /* ... when nothing was new for long */
};

struct thread {
        int32_t tid;
        int timer; /* the kernel's number */
        uint32_t seen;
};

struct entry { /* as the kernel gives it: readdir would need the heap */
        uint64_t inode;
        int64_t offset;
        uint16_t size;
        uint8_t type;
        char name[];
};

/* All under the lock, which nobody waits for. */
static _Atomic uint32_t lock;
static struct thread threads[MOST_THREADS];
static uint16_t slots[SLOTS]; /* number of a thread + 1 */
static unsigned n_threads;
static uint32_t look;
static uint64_t period, look_ns;
static _Atomic uint64_t due_ns; /* of the next look */
static _Atomic bool is_wanted;  /* a look, or the end */
static _Alignas(struct entry) char entries[ENTRIES];

static _Atomic bool is_over;

/* Signals of our timers carry its address; the program's do not. */
static char of_thread;

bool infp_agent_timer_is_ours(const siginfo_t *info)
{
        return info->si_code == SI_TIMER && info->si_value.sival_ptr == &of_thread;
}

static void set(int timer, uint64_t first_ns, uint64_t interval_ns)
{
        const struct itimerspec times = {
                .it_value = { (time_t) (first_ns / 1000000000), (long) (first_ns % 1000000000) },
                .it_interval = { (time_t) (interval_ns / 1000000000), (long) (interval_ns % 1000000000) },
        };

        syscall(SYS_timer_settime, timer, 0, &times, NULL);
}

/* libc's functions may use the heap. */
static int make_timer(int32_t tid)
{
        const clockid_t clock =
                (clockid_t) (~(uint32_t) tid << 3 | 6); /* as the kernel names the clock of another thread */
        struct sigevent event;
        int timer;

        memset(&event, 0, sizeof(event));
        event.sigev_signo = SIGPROF;
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_value.sival_ptr = &of_thread;
        event._sigev_un._tid = tid;
        return syscall(SYS_timer_create, clock, &event, &timer) < 0 ? -errno : timer;
}

int infp_agent_timers_begin(uint64_t period_ns)
{
        const int32_t tid = (int32_t) syscall(SYS_gettid);
        const int timer = make_timer(tid);

        if (timer < 0)
                return timer;
        period = period_ns;
        look_ns = LOOK_FIRST_NS;
        atomic_store(&due_ns, 0);
        threads[n_threads++] = (struct thread){ tid, timer, look };
        set(timer, LOOK_FIRST_NS, period);
        return 0;
}

bool infp_agent_timers_are_due(uint64_t now_ns)
{
        uint64_t due = atomic_load_explicit(&due_ns, memory_order_relaxed);

        return now_ns >= due && atomic_compare_exchange_strong(&due_ns, &due, now_ns + LOOK_FIRST_NS);
}

static uint32_t slot_of(int32_t tid)
{
        return (uint32_t) tid * UINT32_C(2654435769) >> 18 & (SLOTS - 1);
}

static void index_threads(void)
{
        memset(slots, 0, sizeof(slots));
        for (unsigned i = 0; i < n_threads; i++) {
                uint32_t slot = slot_of(threads[i].tid);

                while (slots[slot])
                        slot = (slot + 1) & (SLOTS - 1);
                slots[slot] = (uint16_t) (i + 1);
        }
}

static struct thread *find(int32_t tid)
{
        for (uint32_t slot = slot_of(tid); slots[slot]; slot = (slot + 1) & (SLOTS - 1))
                if (threads[slots[slot] - 1].tid == tid)
                        return &threads[slots[slot] - 1];
        return NULL;
}

/* A thread that lives. False: it got no timer. *ret_is_new: it was not known. */
static bool meet(int32_t tid, bool *ret_is_new)
{
        struct thread *thread = find(tid);
        int timer;

        if (thread) {
                thread->seen = look;
                return true;
        }
        if (n_threads == MOST_THREADS)
                return false;
        timer = make_timer(tid);
        if (timer < 0)
                return timer == -EINVAL || timer == -ESRCH; /* it has just ended */
        set(timer, period, period);
        threads[n_threads++] = (struct thread){ tid, timer, look };
        *ret_is_new = true;
        return true;
}

static int32_t number_of(const char *text)
{
        int32_t number = 0;

        for (; *text >= '0' && *text <= '9'; text++)
                number = number * 10 + (*text - '0');
        return number;
}

/* Whether /proc has the numbers of our pid namespace: who makes one does not always mount /proc again. */
static bool is_proc_ours(void)
{
        char text[16] = "";

        return syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", text, sizeof(text) - 1) > 0 &&
               number_of(text) == getpid();
}

/* Without /proc: the calling thread, and those that are known and live. */
static unsigned meet_known(bool *ret_is_new)
{
        for (unsigned i = 0; i < n_threads; i++)
                if (syscall(SYS_tgkill, getpid(), threads[i].tid, 0) == 0)
                        threads[i].seen = look;
        return !meet((int32_t) syscall(SYS_gettid), ret_is_new);
}

/* Returns how many got no timer. */
static unsigned meet_all(bool *ret_is_new)
{
        const int fd = is_proc_ours() ? open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        unsigned skipped = 0;
        long n;

        if (fd < 0)
                return meet_known(ret_is_new);
        while ((n = syscall(SYS_getdents64, fd, entries, sizeof(entries))) > 0)
                for (long at = 0; at < n;) {
                        const struct entry *entry = (const struct entry *) (void *) (entries + at);
                        const int32_t tid = number_of(entry->name);

                        at += entry->size;
                        if (tid)
                                skipped += !meet(tid, ret_is_new);
                }
        close(fd);
        return skipped;
}

static void drop_unseen(void)
{
        for (unsigned i = 0; i < n_threads;) {
                if (threads[i].seen == look) {
                        i++;
                        continue;
                }
                syscall(SYS_timer_delete, threads[i].timer);
                threads[i] = threads[--n_threads];
        }
}

static bool try_lock(void)
{
        return !atomic_exchange_explicit(&lock, 1, memory_order_acquire);
}

static void unlock(void)
{
        atomic_store(&lock, 0); /* before is_wanted is read */
}

static void delete_all(void)
{
        for (unsigned i = 0; i < n_threads; i++)
                syscall(SYS_timer_delete, threads[i].timer);
        n_threads = 0;
}

/* Under the lock. Where threads come and go it looks often. */
static unsigned look_once(uint64_t now_ns)
{
        bool is_new = false;
        unsigned skipped;

        look++;
        index_threads();
        skipped = meet_all(&is_new);
        drop_unseen();
        look_ns = is_new ? LOOK_FIRST_NS : look_ns < LOOK_MOST_NS ? 2 * look_ns : LOOK_MOST_NS;
        atomic_store(&due_ns, now_ns + look_ns);
        return skipped;
}

/* Who finds the lock taken may not wait: its holder does what is wanted, after it has let the lock go. */
static unsigned serve(uint64_t now_ns)
{
        unsigned skipped = 0;

        while (atomic_load(&is_wanted) && try_lock()) {
                atomic_store(&is_wanted, false);
                if (atomic_load(&is_over))
                        delete_all();
                else
                        skipped = look_once(now_ns);
                unlock();
        }
        return skipped;
}

unsigned infp_agent_timers_look(uint64_t now_ns)
{
        atomic_store(&is_wanted, true);
        return serve(now_ns);
}

void infp_agent_timers_add(int32_t tid, uint64_t now_ns)
{
        bool is_new;

        if (tid && try_lock()) {
                index_threads();
                if (!atomic_load(&is_over))
                        meet(tid, &is_new);
                unlock();
        } else {
                atomic_store(&is_wanted, true);
        }
        serve(now_ns);
}

void infp_agent_timers_end(void)
{
        atomic_store(&is_over, true);
        atomic_store(&is_wanted, true);
        serve(0);
}

void infp_agent_timers_reset(void)
{
        n_threads = 0;
        atomic_store(&is_over, false);
        atomic_store(&is_wanted, false);
        unlock();
}
