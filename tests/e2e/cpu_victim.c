/* What a profiler must leave as it was: counts the signals that come, the calls that are interrupted, and how long a fixed piece of
 * work takes. For each line on stdin it prints one of JSON, about the time since the line before; ends with stdin.
 *
 *   cpu_victim [THREADS]     threads besides the first sleep, poll and read */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_UNITS = 1 << 16, LOOPS = 300000 };

static atomic_ulong n_started, n_signals, n_interrupted, n_short, n_calls;
static double units[MAX_UNITS];
static volatile uint64_t sink;

static double now(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void on_signal(int number)
{
        (void) number;
        n_signals++;
}

__attribute__((noinline)) static double unit(void)
{
        const double begin = now(CLOCK_THREAD_CPUTIME_ID);
        uint64_t x = sink;

        for (unsigned i = 0; i < LOOPS; i++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                __asm__ volatile("" : "+r"(x));
        }
        sink = x;
        return now(CLOCK_THREAD_CPUTIME_ID) - begin;
}

static void *sleeper(void *index)
{
        const struct timespec pause = { 0, 5000000 };
        int ends[2];

        if (pipe(ends) < 0)
                abort();
        n_started++;
        for (;;) {
                const double begin = now(CLOCK_MONOTONIC);
                struct pollfd none = { ends[0], POLLIN, 0 };
                const int r = (uintptr_t) index % 2 ? nanosleep(&pause, NULL) : poll(&none, 1, 5);

                if (r < 0 && errno == EINTR)
                        n_interrupted++;
                if (now(CLOCK_MONOTONIC) - begin < 0.004)
                        n_short++;
                n_calls++;
        }
        return NULL;
}

static int compare(const void *a, const void *b)
{
        const double x = *(const double *) a, y = *(const double *) b;

        return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
        const unsigned n_threads = argc > 1 ? (unsigned) atoi(argv[1]) : 2;
        struct pollfd input = { 0, POLLIN, 0 };
        struct sigaction action = { .sa_handler = on_signal };
        sigset_t blocked;
        unsigned n = 0;
        char line[64];

        /* All that can be caught, those apart that other tests send. */
        for (int i = 1; i <= SIGRTMAX; i++)
                if (i != SIGINT && i != SIGTERM && i != SIGSEGV && i != SIGBUS)
                        sigaction(i, &action, NULL);
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGUSR2);
        pthread_sigmask(SIG_BLOCK, &blocked, NULL);
        signal(SIGPIPE, SIG_IGN);
        for (unsigned i = 0; i < n_threads; i++) {
                pthread_t id;

                if (pthread_create(&id, NULL, sleeper, (void *) (uintptr_t) i))
                        return 2;
        }
        while (n_started < n_threads) /* a thread that begins still blocks all signals */
                usleep(1000);
        /* qsort's memory, first mapped by itself, then of the heap: later answers change no map. */
        for (unsigned i = 0; i < 2; i++)
                qsort(units, MAX_UNITS, sizeof(units[0]), compare);
        puts("ready");
        fflush(stdout);
        for (;;) {
                units[n++ % MAX_UNITS] = unit();
                if (poll(&input, 1, 0) <= 0)
                        continue;
                if (!fgets(line, sizeof(line), stdin))
                        return 0;
                n = n < MAX_UNITS ? n : MAX_UNITS;
                qsort(units, n, sizeof(units[0]), compare);
                printf("{\"units\":%u,\"median_us\":%.3f,\"signals\":%lu,\"interrupted\":%lu,\"short\":%lu,\"calls\":%"
                       "lu}\n",
                       n, units[n / 2] * 1e6, n_signals, n_interrupted, n_short, n_calls);
                fflush(stdout);
                n = 0;
        }
}
