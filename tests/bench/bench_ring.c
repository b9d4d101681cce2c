/* What a call of the public API costs its thread: CPU time in ns, best of several rounds, off and on, in 1, 2 and 4 threads.
 *
 *   bench_ring [FACTOR [CALLS]]     exit code 1 when a call of one thread takes more than FACTOR (2) times its budget */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "infprof/infprof.h"

enum { ROUNDS = 7, MAX_THREADS = 4 };

static unsigned long n_calls = 6000; /* a round: what a fresh file has room for, so that what is measured is written */
static infp_metric *counter, *gauge;
static infp_table *table;

static void mark(void)
{
        infp_mark("request.begin");
}

static void add(void)
{
        infp_add(counter, 1);
}

static void set(void)
{
        infp_set(gauge, 3.5);
}

static void step(void)
{
        infp_step();
}

static void span(void)
{
        infp_span one = infp_span_begin("forward");

        infp_span_end(&one);
}

static void detached(void)
{
        infp_span one = infp_span_start("chat llama-3.2-1b", NULL);

        infp_span_end(&one);
}

static void attribute(void)
{
        static _Thread_local infp_span one;

        if (!one.id)
                one = infp_span_start("chat", NULL);
        infp_span_int(&one, INFP_GEN_AI_USAGE_OUTPUT_TOKENS, 128);
}

/* As torch_trace has it: 15 cells, of which 4 are texts that come again. */
static void row(void)
{
        static _Thread_local infp_cell cells[15];
        static const uint32_t types[15] = { INFP_CELL_INT,    INFP_CELL_INT,    INFP_CELL_TEXT,   INFP_CELL_TEXT,
                                            INFP_CELL_DOUBLE, INFP_CELL_DOUBLE, INFP_CELL_DOUBLE, INFP_CELL_DOUBLE,
                                            INFP_CELL_DOUBLE, INFP_CELL_DOUBLE, INFP_CELL_TEXT,   INFP_CELL_TEXT,
                                            INFP_CELL_INT,    INFP_CELL_INT,    INFP_CELL_NONE };

        for (unsigned i = 0; i < 15; i++)
                cells[i].type = types[i];
        cells[0].value.i++;
        cells[2].value.text = "model.layers.17.self_attn.q_proj";
        cells[3].value.text = "forward";
        cells[8].value.d = 0.0123;
        cells[10].value.text = "Linear";
        cells[11].value.text = "cuda:0";
        infp_row(table, 0, cells, 15);
}

static void clock_alone(void)
{
        infp_now_ns();
}

static const struct call {
        const char *name;
        void (*call)(void);
        double budget_ns; /* when recorded; 0: none */
        unsigned share;   /* calls of the API in it */
} calls[] = {
        { "the clock alone", clock_alone, 0, 1 },
        { "mark", mark, 60, 1 },
        { "counter", add, 60, 1 },
        { "gauge", set, 60, 1 },
        { "step", step, 60, 1 },
        { "span (begin and end)", span, 120, 2 },
        { "detached span", detached, 120, 2 },
        { "attribute", attribute, 0, 1 },
        { "row of 14 values", row, 150, 1 },
};
enum { N_CALLS = sizeof calls / sizeof calls[0] };
#define OFF_BUDGET_NS 5.0

static double cpu_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (double) now.tv_sec * 1e9 + (double) now.tv_nsec;
}

struct work {
        const struct call *call;
        unsigned long n;
        double ns;
        pthread_barrier_t *barrier;
};

static void *work(void *context)
{
        struct work *work = context;
        double begin;

        for (unsigned i = 0; i < 100; i++) /* the thread's first records claim its chunks */
                work->call->call();
        pthread_barrier_wait(work->barrier);
        begin = cpu_ns();
        for (unsigned long i = 0; i < work->n; i++)
                work->call->call();
        work->ns = (cpu_ns() - begin) / (double) work->n;
        return NULL;
}

/* In a child, so that each round has a file of its own. Mean over its threads. */
static double measure(const struct call *call, unsigned n_threads, int is_on)
{
        double *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        double ns = INFINITY;
        pid_t pid;

        if (shared == MAP_FAILED)
                abort();
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                struct work works[MAX_THREADS];
                pthread_t threads[MAX_THREADS];
                pthread_barrier_t barrier;

                if (is_on && infp_enable() < 0)
                        _exit(1);
                counter = infp_counter("tokens", "tokens", NULL);
                gauge = infp_gauge("queue", "requests", NULL);
                table = infp_table_open("torch_trace",
                                        "step seq module stage allocated max_allocated cached max_cached duration "
                                        "self_duration class device rank span later");
                pthread_barrier_init(&barrier, NULL, n_threads);
                for (unsigned i = 0; i < n_threads; i++) {
                        works[i] =
                                (struct work){ call, is_on ? n_calls / call->share / n_threads : 200000, 0, &barrier };
                        pthread_create(&threads[i], NULL, work, &works[i]);
                }
                for (unsigned i = 0; i < n_threads; i++) {
                        pthread_join(threads[i], NULL);
                        *shared += works[i].ns / n_threads;
                }
                exit(0); /* so that its file goes */
        }
        if (pid > 0) {
                int status;

                if (waitpid(pid, &status, 0) == pid && status == 0)
                        ns = *shared;
        }
        munmap(shared, 4096);
        return ns;
}

static double best_of(const struct call *call, unsigned n_threads, int is_on)
{
        double best = INFINITY;

        for (unsigned i = 0; i < ROUNDS; i++)
                best = fmin(best, measure(call, n_threads, is_on));
        return best;
}

int main(int argc, char **argv)
{
        double factor = argc > 1 ? atof(argv[1]) : 2;
        int is_over = 0;

        if (argc > 2)
                n_calls = strtoul(argv[2], NULL, 10);
        unsetenv("INFPROF_RUN"); /* else each file would be kept for its recorder */
        printf("%-22s %8s %8s %8s %8s %8s\n", "CPU ns a call", "off", "1 thread", "2", "4", "budget");
        for (unsigned i = 0; i < N_CALLS; i++) {
                const struct call *call = &calls[i];
                double off = best_of(call, 1, 0) / call->share, on = best_of(call, 1, 1);
                int is_api = call->call != clock_alone;

                printf("%-22s %8.1f %8.1f %8.1f %8.1f", call->name, off, on, best_of(call, 2, 1), best_of(call, 4, 1));
                if (call->budget_ns > 0)
                        printf(" %8.0f", call->budget_ns);
                if ((is_api && off > OFF_BUDGET_NS * factor) ||
                    (call->budget_ns > 0 && on > call->budget_ns * factor)) {
                        printf("  over budget x %g", factor);
                        is_over = 1;
                } else if ((is_api && off > OFF_BUDGET_NS) || (call->budget_ns > 0 && on > call->budget_ns)) {
                        printf("  above");
                }
                printf("\n");
        }
        printf("Not recording: budget %.0f ns a call.\n", OFF_BUDGET_NS);
        return is_over;
}
