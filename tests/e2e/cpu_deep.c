/* A program whose stacks are deeper than the kernel's copy, and whose functions say who called them: leaf_N is called by way of caller_N
 * alone, with RECURSE calls of `recurse`, `frame`, which has SIZE bytes, and INNER calls of `inner` between. Works for SECONDS of CPU time.
 *
 * With -n it does that many calls of equal work instead, and prints its CPU time.
 *
 * cpu_deep [-n CALLS] [-f SIZE] [-r RECURSE] [-i INNER] [-u MICROSECONDS of each call] [-t THREADS, each with a stack of -k BYTES] [-a: leaves run on an
 * alternate stack, in the handler of a signal] [-m: unmaps its stack while it goes on on another] [-w: writes all of the frame] [-z: leaves sleep for -u instead]
 * SECONDS */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NO_INLINE __attribute__((noinline, noclone))

static size_t frame_bytes, thread_bytes;
static unsigned recursion, n_inner, call_us = 1000, n_threads;
static unsigned long n_calls;
static int on_alternate, unmaps, writes, sleeps;
static double seconds;
static __thread volatile unsigned long sink;
static __thread int chosen;

static double used(void)
{
        return (double) clock() / CLOCKS_PER_SEC;
}

static double since(const struct timespec *then)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double) (now.tv_sec - then->tv_sec) + (double) (now.tv_nsec - then->tv_nsec) / 1e9;
}

#define LEAF(n)                                                   \
        static NO_INLINE void leaf_##n(void)                      \
        {                                                         \
                struct timespec then;                             \
                                                                  \
                if (sleeps) {                                     \
                        usleep(call_us);                          \
                        sink++;                                   \
                        return;                                   \
                }                                                 \
                clock_gettime(CLOCK_MONOTONIC, &then);            \
                for (unsigned k = 0; n_calls && k < call_us; k++) \
                        for (int i = 0; i < 500; i++)             \
                                sink += (unsigned long) i * (n);  \
                while (!n_calls && since(&then) * 1e6 < call_us)  \
                        for (int i = 0; i < 2000; i++)            \
                                sink += (unsigned long) i * (n);  \
        }
LEAF(0)
LEAF(1)
LEAF(2)
LEAF(3)
static void (*const leaves[])(void) = { leaf_0, leaf_1, leaf_2, leaf_3 };

static void on_signal(int number)
{
        (void) number;
        leaves[chosen]();
        sink++;
}

static NO_INLINE void inner(unsigned left, int n)
{
        if (left)
                inner(left - 1, n);
        else
                leaves[n]();
        sink++;
}

static NO_INLINE void frame(int n)
{
        char *bytes = alloca(frame_bytes + 16);

        bytes[0] = 1;
        if (writes)
                memset(bytes, n, frame_bytes);
        __asm__ volatile("" : : "r"(bytes) : "memory");
        chosen = n;
        if (on_alternate)
                raise(SIGUSR1);
        else
                inner(n_inner, n);
        sink += (unsigned char) bytes[0];
}

static NO_INLINE void recurse(unsigned left, int n)
{
        if (left)
                recurse(left - 1, n);
        else
                frame(n);
        sink++;
}

#define CALLER(n)                              \
        static NO_INLINE void caller_##n(void) \
        {                                      \
                recurse(recursion, n);         \
                sink++;                        \
        }
CALLER(0)
CALLER(1)
CALLER(2)
CALLER(3)
static void (*const callers[])(void) = { caller_0, caller_1, caller_2, caller_3 };

static void take_signals(void)
{
        const size_t size = 1 << 18;
        const stack_t stack = { .ss_sp = malloc(size), .ss_size = size };
        struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

        sigaltstack(&stack, NULL);
        sigaction(SIGUSR1, &action, NULL);
}

static NO_INLINE void *run(void *unused)
{
        unsigned long random = (unsigned long) pthread_self() >> 12;

        if (on_alternate)
                take_signals();
        for (unsigned long i = 0; n_calls ? i < n_calls : used() < seconds; i++) {
                random = random * 6364136223846793005 + 1442695040888963407;
                callers[random >> 62]();
        }
        sink++;
        return unused;
}

static NO_INLINE void run_once(void)
{
        callers[sink & 3]();
        sink++;
}

/* Each time on a stack of its own, which is gone right after: of the samples in it nothing can be read any more. */
static void run_and_unmap(void)
{
        const size_t size = frame_bytes + (1 << 20);
        while (used() < seconds) {
                char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

                if (stack == MAP_FAILED)
                        abort();
                __asm__ volatile("mov %%rsp, %%rbx; mov %0, %%rsp; call *%1; mov %%rbx, %%rsp"
                                 :
                                 : "r"(stack + size), "r"(run_once)
                                 : "rbx", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
                munmap(stack, size);
        }
}

int main(int argc, char **argv)
{
        pthread_t threads[64];
        pthread_attr_t attributes;

        for (int option; (option = getopt(argc, argv, "n:f:r:i:u:t:k:amwz")) != -1;) {
                if (option == 'f')
                        frame_bytes = strtoul(optarg, NULL, 0);
                else if (option == 'r')
                        recursion = (unsigned) atoi(optarg);
                else if (option == 'n')
                        n_calls = strtoul(optarg, NULL, 0);
                else if (option == 'i')
                        n_inner = (unsigned) atoi(optarg);
                else if (option == 'u')
                        call_us = (unsigned) atoi(optarg);
                else if (option == 't')
                        n_threads = (unsigned) atoi(optarg);
                else if (option == 'k')
                        thread_bytes = strtoul(optarg, NULL, 0);
                on_alternate |= option == 'a';
                unmaps |= option == 'm';
                writes |= option == 'w';
                sleeps |= option == 'z';
        }
        seconds = optind < argc ? atof(argv[optind]) : 0;
        pthread_attr_init(&attributes);
        if (thread_bytes)
                pthread_attr_setstacksize(&attributes, thread_bytes);
        for (unsigned i = 0; i < n_threads && i < 64; i++)
                if (pthread_create(&threads[i], &attributes, run, NULL) != 0)
                        abort();
        if (unmaps)
                run_and_unmap();
        else if (!n_threads)
                run(NULL);
        for (unsigned i = 0; i < n_threads && i < 64; i++)
                pthread_join(threads[i], NULL);
        if (n_calls)
                printf("{\"program\": \"cpu_deep\", \"cpu_s\": %.6f}\n", used());
        return 0;
}
