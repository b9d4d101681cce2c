/* A library that burns CPU, in two kinds (-DKIND=a, b) whose code and frames differ: for tests of dlopen and dlclose. */
#include <stdint.h>
#include <time.h>

#define NAME_(kind) burn_##kind
#define NAME(kind) NAME_(kind)

static double cpu_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

__attribute__((noinline)) static uint64_t inner(unsigned n, volatile uint64_t *room)
{
        uint64_t x = room[0];

        for (unsigned i = 0; i < n; i++) {
                x = x * 6364136223846793005u + 1442695040888963407u;
                __asm__ volatile("" : "+r"(x));
        }
        room[ROOM - 1] = x;
        return x;
}

/* Exported; the frame has the size that the kind asks for. */
void NAME(KIND)(unsigned ms, double *ret_cpu)
{
        volatile uint64_t room[ROOM];
        const double begin = cpu_now();

        room[0] = 1;
        while (cpu_now() - begin < ms / 1e3)
                inner(100000, room);
        *ret_cpu = cpu_now() - begin;
}
