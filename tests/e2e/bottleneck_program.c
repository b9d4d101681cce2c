/* bottleneck_program KIND SECONDS: a program with one known bottleneck.
 * burn: one thread computes. convoy: four threads compute, one at a time, since they hold a lock. spin: two threads spin for a lock until a
 * third one has used SECONDS of CPU time. calm: computes for a millisecond ten times a second. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile double sink;
static pthread_spinlock_t spin;
static double seconds, until;

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static double own_cpu(void)
{
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* For so much CPU time of its own. */
__attribute__((noinline)) void compute(double cpu_s)
{
        const double end = own_cpu() + cpu_s;

        while (own_cpu() < end)
                for (int i = 0; i < 2000; i++)
                        sink += i;
}

__attribute__((noinline)) void update_the_table(void)
{
        pthread_mutex_lock(&lock);
        compute(0.002);
        pthread_mutex_unlock(&lock);
}

static void *convoy(void *unused)
{
        while (now() < until)
                update_the_table();
        return unused;
}

static void *spin_for_it(void *unused)
{
        pthread_spin_lock(&spin);
        pthread_spin_unlock(&spin);
        return unused;
}

static void run(void *(*function)(void *), int n)
{
        pthread_t threads[8];

        pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
        pthread_spin_lock(&spin);
        for (int i = 0; i < n; i++)
                if (pthread_create(&threads[i], NULL, function, NULL))
                        exit(1);
        if (function == spin_for_it) {
                compute(seconds);
                pthread_spin_unlock(&spin);
        }
        for (int i = 0; i < n; i++)
                pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
        if (argc != 3)
                return 2;
        seconds = atof(argv[2]);
        until = now() + seconds;
        if (!strcmp(argv[1], "convoy"))
                run(convoy, 4);
        else if (!strcmp(argv[1], "spin"))
                run(spin_for_it, 2);
        else if (!strcmp(argv[1], "burn"))
                while (now() < until)
                        compute(0.01);
        else
                while (now() < until) {
                        const struct timespec tenth = { .tv_nsec = 100000000 };

                        compute(0.001);
                        nanosleep(&tenth, NULL);
                }
        return 0;
}
