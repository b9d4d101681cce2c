/* Threads that burn CPU time in user mode: each so many seconds of its own clock. Each prints "TID SECONDS" at its end; the last line
 * is what all took together.
 *
 *   cpu_spin SECONDS [THREADS [LATE [IDLE]]]    LATE more threads begin when half of that has gone, IDLE ones wait */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 4096, LOOPS = 2000000 };

static double seconds;
static volatile uint64_t sink;

static double now(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* The clock of a thread is a system call: it is asked seldom. */
__attribute__((noinline)) static void spin(double until)
{
        while (now(CLOCK_THREAD_CPUTIME_ID) < until)
                for (unsigned i = 0; i < LOOPS; i++)
                        sink = sink * 6364136223846793005u + 1;
}

static void say(void)
{
        printf("%ld %f\n", syscall(SYS_gettid), now(CLOCK_THREAD_CPUTIME_ID));
}

static void *run(void *arg)
{
        (void) arg;
        spin(seconds);
        say();
        return NULL;
}

static void *idle(void *arg)
{
        pause();
        return arg;
}

int main(int argc, char **argv)
{
        const int n = argc > 2 ? atoi(argv[2]) : 1, late = argc > 3 ? atoi(argv[3]) : 0;
        const int n_idle = argc > 4 ? atoi(argv[4]) : 0;
        pthread_t waiting;
        static pthread_t threads[MAX_THREADS];

        seconds = argc > 1 ? atof(argv[1]) : 1;
        if (n + late > MAX_THREADS)
                return 2;
        for (int i = 0; i < n_idle; i++)
                if (pthread_create(&waiting, NULL, idle, NULL))
                        return 1;
        for (int i = 1; i < n; i++)
                if (pthread_create(&threads[i], NULL, run, NULL))
                        return 1;
        spin(seconds / 2);
        for (int i = n; i < n + late; i++)
                if (pthread_create(&threads[i], NULL, run, NULL))
                        return 1;
        spin(seconds);
        say();
        for (int i = 1; i < n + late; i++)
                pthread_join(threads[i], NULL);
        printf("%f\n", now(CLOCK_PROCESS_CPUTIME_ID));
        return 0;
}
