/* What an unwind costs, in CPU ns a frame, and what tables cost to build.
 *
 *   bench_unwind [FACTOR [FILE...]]     exit code 1 when a warm frame takes more than FACTOR (2) times 40 ns
 *
 * The stacks are moments of a Python program and of a recursion without frame pointers. Cold: no cache, each frame is looked up
 * in its table; warm: through a cache of 16,384 rules that has seen the stacks before. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../unit/unwind_traced.h"

enum { N_MOMENTS = 400, MAX_FRAMES = 1024, ROUNDS = 7, DEPTH = 300 };
#define BUDGET_NS 40.0

static struct traced_moment moments[N_MOMENTS];
static struct infp_unwind_frame frames[MAX_FRAMES];
static struct infp_unwind_cached cached[16384];
static volatile long sink;

static double cpu_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (double) now.tv_sec * 1e9 + (double) now.tv_nsec;
}

static void build(const char *path)
{
        double best = 1e18, begin, ns = 0;
        struct unwind_file file;

        for (unsigned i = 0; i < 3; i++) {
                begin = cpu_ns();
                if (unwind_open(&file, path) < 0)
                        return;
                ns = cpu_ns() - begin;
                best = ns < best ? ns : best;
                if (i == 2)
                        break;
                munmap((void *) (uintptr_t) file.table, file.room);
                munmap((void *) (uintptr_t) file.bytes, file.size);
        }
        printf("%-60s %8.1f ms %9u rows %5.1f B/row %7u functions %5u rules\n", path, best / 1e6, file.table->n_rows,
               (double) file.table->size / file.table->n_rows, file.table->n_functions, file.table->n_rules);
        munmap((void *) (uintptr_t) file.table, file.room);
        munmap((void *) (uintptr_t) file.bytes, file.size);
}

/* Best of the rounds; ns a frame. */
static double walk(const struct infp_unwind_space *space, unsigned n_moments, struct infp_unwind_cache *cache,
                   double *ret_depth, double *ret_complete)
{
        double best = 1e18;

        for (unsigned round = 0; round < ROUNDS; round++) {
                uint64_t n_frames = 0, n_complete = 0;
                const double begin = cpu_ns();

                for (unsigned repeat = 0; repeat < 20; repeat++) {
                        for (unsigned i = 0; i < n_moments; i++) {
                                struct infp_unwind_start start = { space, &moments[i].dump, 1, true,
                                                                   moments[i].values };
                                struct infp_unwind_result result;

                                infp_unwind(&start, cache, frames, MAX_FRAMES, &result);
                                n_frames += result.n_frames;
                                n_complete += result.end == INFP_UNWIND_COMPLETE;
                        }
                }
                {
                        const double ns = (cpu_ns() - begin) / (double) n_frames;

                        best = ns < best ? ns : best;
                }
                *ret_depth = (double) n_frames / n_moments / 20;
                *ret_complete = 100.0 * (double) n_complete / n_moments / 20;
        }
        return best;
}

static int measure(const char *what, pid_t pid, unsigned wanted, double factor)
{
        static struct unwind_self self;
        struct infp_unwind_cache cache;
        const struct timespec pause = { 0, 2000000 };
        double cold, warm, depth, complete;
        unsigned n = 0;

        while (n < wanted && traced_take(pid, &moments[n])) {
                n++;
                nanosleep(&pause, NULL);
        }
        unwind_process(&self, pid);
        traced_end(pid);
        if (n == 0)
                return 1;
        infp_unwind_cache_init(&cache, cached, 16384);
        cold = walk(&self.space, n, NULL, &depth, &complete);
        warm = walk(&self.space, n, &cache, &depth, &complete);
        printf("%-30s %4u stacks, %6.1f frames each, %6.2f %% complete: %6.1f ns a frame cold, %6.1f warm%s\n", what, n,
               depth, complete, cold, warm, warm > BUDGET_NS ? "  above" : "");
        return warm > BUDGET_NS * factor;
}

__attribute__((noinline)) static long recurse(long n)
{
        long below = n > 0 ? recurse(n - 1) : 0;

        while (n == 0)
                sink++;
        return below + sink;
}

int main(int argc, char **argv)
{
        static const char *const paths[] = { "/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/python3",
                                             "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
                                             "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
                                             "/usr/lib/firefox-esr/libxul.so" };
        char *python[] = { (char *) "/usr/bin/python3", (char *) "-c", (char *) TRACED_PYTHON, NULL };
        const double factor = argc > 1 ? atof(argv[1]) : 2;
        int is_over = 0;
        pid_t pid;

        printf("Tables (CPU time, best of 3; the file is in the page cache)\n");
        for (int i = 2; i < argc; i++)
                build(argv[i]);
        for (unsigned i = 0; argc <= 2 && i < sizeof(paths) / sizeof(paths[0]); i++)
                build(paths[i]);
        printf("Stacks (CPU time, best of %d rounds; budget %.0f ns a warm frame)\n", ROUNDS, BUDGET_NS);
        fflush(stdout);
        pid = traced_begin(python, 500);
        if (pid < 0) {
                printf("ptrace is refused here: no stacks to unwind\n");
                return 0;
        }
        is_over |= measure("python3", pid, N_MOMENTS, factor);
        pid = fork();
        if (pid == 0) {
                recurse(DEPTH);
                _exit(0);
        }
        if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0)
                is_over |= measure("recursion of 300", pid, 20, factor);
        return is_over;
}
