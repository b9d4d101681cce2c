/* Threads that wait in known ways, and say at their end how long: "NAME TID LIFE_NS CPU_NS WAITED_NS ERRORS EDGE_NS".
 * EDGE_NS are before and after that life, in which it may wait for a CPU, too: from its making to its first look at its clocks, and from
 * the last one until the first thread saw that the kernel has no such thread any more.
 * cpu_waiter SECONDS [KIND...]: nap lock read busy; a kind may come again. "forever" in place of SECONDS: until killed, in silence. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 16, NAP_MS = 100, HOLD_MS = 80, PAUSE_MS = 15, BEAT_US = 3000 };

struct thread {
        const char *kind;
        pthread_t id;
        long tid;
        uint64_t made_ns, begin_ns, end_ns, gone_ns, cpu_ns, waited_ns;
        unsigned n_errors;
        int pipe[2];
};

static atomic_bool is_over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static int nap(unsigned us)
{
        const struct timespec t = { us / 1000000, us % 1000000 * 1000 };

        return clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

#define WAIT(thread, statement)                                        \
        do {                                                           \
                const uint64_t before_ = now(CLOCK_MONOTONIC);         \
                statement;                                             \
                (thread)->waited_ns += now(CLOCK_MONOTONIC) - before_; \
        } while (0)

static __attribute__((noinline)) void wait_nap(struct thread *thread)
{
        WAIT(thread, thread->n_errors += nap(NAP_MS * 1000) != 0);
}

static __attribute__((noinline)) void wait_lock(struct thread *thread)
{
        WAIT(thread, thread->n_errors += pthread_mutex_lock(&lock) != 0);
        pthread_mutex_unlock(&lock);
}

static __attribute__((noinline)) void wait_read(struct thread *thread)
{
        char c;

        WAIT(thread, thread->n_errors += read(thread->pipe[0], &c, 1) < 0);
}

static __attribute__((noinline)) void spin(void)
{
        for (volatile unsigned i = 0; i < 200000; i++)
                ;
}

static void *holder(void *unused)
{
        prctl(PR_SET_NAME, "holder");
        while (!is_over) {
                pthread_mutex_lock(&lock);
                nap(HOLD_MS * 1000);
                pthread_mutex_unlock(&lock);
                nap(PAUSE_MS * 1000);
        }
        return unused;
}

static void *beater(void *context)
{
        const struct thread *thread = context;

        prctl(PR_SET_NAME, "beater");
        while (!is_over) {
                nap(BEAT_US);
                if (write(thread->pipe[1], "x", 1) != 1)
                        break;
        }
        close(thread->pipe[1]);
        return NULL;
}

static void *work(void *context)
{
        struct thread *thread = context;

        thread->begin_ns = now(CLOCK_MONOTONIC);
        thread->tid = syscall(SYS_gettid);
        prctl(PR_SET_NAME, thread->kind);
        while (!is_over) {
                if (!strcmp(thread->kind, "nap"))
                        wait_nap(thread);
                else if (!strcmp(thread->kind, "lock"))
                        wait_lock(thread), nap(20000);
                else if (!strcmp(thread->kind, "read"))
                        wait_read(thread);
                else
                        spin();
        }
        do { /* of one moment: it may lose its CPU between two looks */
                thread->end_ns = now(CLOCK_MONOTONIC);
                thread->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
        } while (now(CLOCK_MONOTONIC) > thread->end_ns + 100000);
        return NULL;
}

/* Looks which of them are still there, until none is. */
static void wait_for_all(struct thread *threads, int n)
{
        for (int n_gone = 0; n_gone < n; nap(500))
                for (int i = 0; i < n; i++)
                        if (!threads[i].gone_ns && syscall(SYS_tgkill, getpid(), threads[i].tid, 0) != 0) {
                                threads[i].gone_ns = now(CLOCK_MONOTONIC);
                                pthread_join(threads[i].id, NULL);
                                n_gone++;
                        }
}

static void print(const struct thread *thread)
{
        printf("%s %ld %llu %llu %llu %u %llu\n", thread->kind, thread->tid,
               (unsigned long long) (thread->end_ns - thread->begin_ns), (unsigned long long) thread->cpu_ns,
               (unsigned long long) thread->waited_ns, thread->n_errors,
               (unsigned long long) (thread->begin_ns - thread->made_ns + thread->gone_ns - thread->end_ns));
}

int main(int argc, char **argv)
{
        static struct thread threads[MAX_THREADS];
        pthread_t helpers[MAX_THREADS];
        int n = 0, n_helpers = 0;

        if (argc < 2)
                return 2;
        if (getenv("CPU_WAITER_HIDES"))
                prctl(PR_SET_DUMPABLE, 0);
        for (int i = 2; i < argc && n < MAX_THREADS; i++, n++) {
                threads[n].kind = argv[i];
                if (!strcmp(argv[i], "lock"))
                        pthread_create(&helpers[n_helpers++], NULL, holder, NULL);
                if (!strcmp(argv[i], "read") && pipe(threads[n].pipe) == 0)
                        pthread_create(&helpers[n_helpers++], NULL, beater, &threads[n]);
                threads[n].made_ns = now(CLOCK_MONOTONIC);
                pthread_create(&threads[n].id, NULL, work, &threads[n]);
        }
        printf("ready\n");
        fflush(stdout);
        while (!strcmp(argv[1], "forever"))
                pause();
        nap((unsigned) (atof(argv[1]) * 1e6));
        is_over = true;
        wait_for_all(threads, n);
        for (int i = 0; i < n; i++)
                print(&threads[i]);
        for (int i = 0; i < n_helpers; i++)
                pthread_join(helpers[i], NULL);
        return 0;
}
