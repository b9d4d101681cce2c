/* burst N ROUNDS: N threads that wait for one word, and all go on at once, each second. */
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 64 * 1024 };

static _Atomic int now;
static int rounds;

__attribute__((noinline)) static void wait_round(int seen)
{
        while (now <= seen)
                syscall(SYS_futex, &now, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void *worker(void *unused)
{
        for (int seen = 0; seen < rounds; seen++)
                wait_round(seen);
        return unused;
}

int main(int argc, char **argv)
{
        const int n = argc > 2 ? atoi(argv[1]) : 1;
        pthread_t *threads = calloc((size_t) n, sizeof(*threads));
        pthread_attr_t attributes;

        rounds = argc > 2 ? atoi(argv[2]) : 1;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        for (int i = 0; i < n; i++)
                if (pthread_create(&threads[i], &attributes, worker, NULL) != 0)
                        return 1;
        for (int i = 0; i < rounds; i++) {
                nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
                now++;
                syscall(SYS_futex, &now, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
        }
        for (int i = 0; i < n; i++)
                pthread_join(threads[i], NULL);
        return 0;
}
