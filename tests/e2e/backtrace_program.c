/* Threads that wait or work in functions of known names, for test_backtrace.py: N threads (argument 1), each outer > middle > inner.
 * Prints "ready" when all are there. Mode "busy" (argument 2): they count, and report each line read from standard input by the sum. Mode
 * "vfork": one more thread waits for its vforked child, which nothing can interrupt. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_ulong count, signals;
static atomic_uint n_ready;
static int is_busy;

__attribute__((noinline)) void inner(void)
{
        atomic_fetch_add(&n_ready, 1);
        if (!is_busy)
                pause();
        for (;;)
                atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
}

__attribute__((noinline)) void middle(void)
{
        inner();
        __asm__ volatile("");
}

__attribute__((noinline)) void outer(void)
{
        middle();
        __asm__ volatile("");
}

static void *start(void *context)
{
        (void) context;
        outer();
        return NULL;
}

static void *wait_for_child(void *context)
{
        const pid_t parent = getpid();

        (void) context;
        if (vfork() == 0) {
                while (getppid() == parent)
                        usleep(10000);
                _exit(0);
        }
        return NULL;
}

static void on_signal(int number)
{
        (void) number;
        atomic_fetch_add(&signals, 1);
}

int main(int argc, char **argv)
{
        const unsigned n = argc > 1 ? (unsigned) atoi(argv[1]) : 1;
        struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
        pthread_attr_t attributes;
        char line[64];

        is_busy = argc > 2 && !strcmp(argv[2], "busy");
        sigaction(SIGUSR1, &action, NULL);
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 64 << 10);
        for (unsigned i = 0; i < n; i++) {
                pthread_t thread;

                if (pthread_create(&thread, &attributes, start, NULL) != 0)
                        return 1;
        }
        if (argc > 2 && !strcmp(argv[2], "vfork")) {
                pthread_t thread;

                if (pthread_create(&thread, NULL, wait_for_child, NULL) != 0)
                        return 1;
        }
        while (atomic_load(&n_ready) < n)
                usleep(1000);
        puts("ready");
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                printf("%lu %lu\n", atomic_load(&count), atomic_load(&signals));
                fflush(stdout);
        }
        return 0;
}
