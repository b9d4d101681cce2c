/* A program whose memory is known. memory_program FILE what...:
 *   hold SECONDS       FILE (32 MiB) mapped and read, 16 MiB of named anonymous memory, a memfd of 8 MiB, four threads with 1 MiB of stack
 *   grow STEPS         8 MiB more each 0.3 s
 *   many N STEPS       N mappings of a page each, then 40 MiB more each second
 *   blocks MIB SECONDS blocks of 64 KiB by malloc, touched
 *   joined SECONDS     as kernels before 6.7 lay it out: a guard page, and in one mapping a stack of 8 MiB with 1 MiB in use and 16 MiB of data
 * Says "ready" when all is there. */
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { MIB = 1 << 20, PAGE = 4096, THREADS = 4 };

static void *need(void *at)
{
        if (at == MAP_FAILED || !at) {
                perror("memory_program");
                exit(1);
        }
        return at;
}

static void wait_for(double seconds)
{
        puts("ready");
        fflush(stdout);
        usleep((useconds_t) (seconds * 1e6));
}

static pthread_barrier_t are_touched;

static void *use_stack(void *argument)
{
        volatile char *at = alloca(MIB);

        for (int i = 0; i < MIB; i += PAGE)
                at[i] = 1;
        pthread_barrier_wait(&are_touched);
        pause();
        return argument;
}

static void hold(const char *path, double seconds)
{
        const int file = open(path, O_RDONLY), memory = memfd_create("truth of\nlines", 0);
        volatile char *mapped = need(mmap(NULL, 32 * MIB, PROT_READ, MAP_SHARED, file, 0));
        char *own = need(mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        pthread_attr_t attributes;
        pthread_t thread;
        char *shared;
        int sum = 0;

        if (ftruncate(memory, 8 * MIB))
                need(NULL);
        shared = need(mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
        prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, own, 16 * MIB, "truth");
        for (int i = 0; i < 32 * MIB; i += PAGE)
                sum += mapped[i];
        memset(own, 1, 16 * MIB);
        memset(shared, 1, 8 * MIB);
        pthread_barrier_init(&are_touched, NULL, THREADS + 1);
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 2 * MIB);
        for (int i = 0; i < THREADS; i++)
                if (pthread_create(&thread, &attributes, use_stack, NULL))
                        need(NULL);
        pthread_barrier_wait(&are_touched);
        wait_for(seconds);
        exit(sum == 1);
}

static void grow(int steps)
{
        for (int i = 0; i < steps; i++) {
                memset(need(mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), 1,
                       8 * MIB);
                usleep(300000);
        }
}

/* Every second page is read-only, so that no two are one mapping. */
static void many(int n, int steps)
{
        char *at = need(mmap(NULL, (size_t) n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

        memset(at, 1, (size_t) n * PAGE);
        for (int i = 0; i < n; i += 2)
                if (mprotect(at + (size_t) i * PAGE, PAGE, PROT_READ))
                        need(NULL);
        for (wait_for(1); steps > 0; steps--, usleep(1000000))
                memset(need(mmap(NULL, 40 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), 1,
                       40 * MIB);
}

static void blocks(int mib, double seconds)
{
        for (int i = 0; i < mib * 16; i++)
                memset(need(malloc(65536)), 1, 65536);
        wait_for(seconds);
}

static void joined(double seconds)
{
        const size_t stack = 8 * MIB, data = 16 * MIB;
        char *at = need(mmap(NULL, PAGE + stack + data, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

        if (mprotect(at + PAGE, stack + data, PROT_READ | PROT_WRITE))
                need(NULL);
        memset(at + PAGE + stack - MIB, 1, MIB + data);
        wait_for(seconds);
}

int main(int argc, char **argv)
{
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
        if (argc == 4 && !strcmp(argv[2], "hold"))
                hold(argv[1], atof(argv[3]));
        else if (argc == 4 && !strcmp(argv[2], "grow"))
                grow(atoi(argv[3]));
        else if (argc == 4 && !strcmp(argv[2], "joined"))
                joined(atof(argv[3]));
        else if (argc == 5 && !strcmp(argv[2], "many"))
                many(atoi(argv[3]), atoi(argv[4]));
        else if (argc == 5 && !strcmp(argv[2], "blocks"))
                blocks(atoi(argv[3]), atof(argv[4]));
        else
                return 2;
        return 0;
}
