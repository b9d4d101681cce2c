/* What the tests of ring files record: ring_program MODE [NUMBER]. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "infprof/infprof.h"

static int usage(void)
{
        fprintf(stderr, "ring_program spans|storm|threads|fork|exec|wait|long|cut [NUMBER]\n");
        return 2;
}

/* N steps of 1 ms in a span, with all that a program can say. */
static int spans(int n)
{
        infp_metric *tokens = infp_counter("tokens", "tokens", "tokens so far"),
                    *queue = infp_gauge("queue", "1", NULL);
        infp_span all;

        infp_thread_name("main loop");
        infp_mark("begin");
        all = infp_span_start("whole", NULL);
        for (int i = 0; i < n; i++) {
                infp_span step = infp_span_begin("step");

                infp_span_int(&step, "i", i);
                infp_span_text(&step, INFP_GEN_AI_REQUEST_MODEL, "a \"model\" \\ \xc3\xa9");
                infp_span_double(&step, "share", 0.5);
                infp_span_bool(&step, "is_odd", i & 1);
                infp_add(tokens, 3);
                infp_set(queue, n - i);
                usleep(1000);
                if (i == 1)
                        infp_span_fail(&step, "timeout");
                else
                        infp_span_end(&step);
        }
        infp_span_end(&all);
        infp_mark("end");
        return 0;
}

/* Marks m0, m1 ... as fast as they come, and a counter, until it is killed or NUMBER are out. */
static int storm(int n)
{
        infp_metric *count = infp_counter("marks", "1", NULL);
        char tag[64];

        for (uint32_t i = 0; n == 0 || i < (uint32_t) n; i++) {
                snprintf(tag, sizeof(tag), "m%u:%08x", i, i * 2654435761u);
                infp_mark(tag);
                infp_add(count, 1);
                if (n == 0)
                        usleep(20);
        }
        return 0;
}

static void *one_thread(void *number)
{
        char name[32];
        infp_span span;

        snprintf(name, sizeof(name), "worker %d", (int) (intptr_t) number);
        infp_thread_name(name);
        span = infp_span_begin("work");
        infp_span_int(&span, "number", (int) (intptr_t) number);
        infp_span_end(&span);
        return NULL;
}

static int threads(int n)
{
        pthread_t all[50];

        for (int i = 0; i < n; i += 50) {
                for (int k = 0; k < 50; k++)
                        if (pthread_create(&all[k], NULL, one_thread, (void *) (intptr_t) (i + k)) != 0)
                                return 1;
                for (int k = 0; k < 50; k++)
                        pthread_join(all[k], NULL);
        }
        return 0;
}

/* Children that live for a moment only, one after the other. */
static int forks(int n)
{
        infp_mark("parent");
        for (int i = 0; i < n; i++) {
                pid_t pid = fork();

                if (pid == 0) {
                        char tag[32];

                        snprintf(tag, sizeof(tag), "child %d", i);
                        infp_mark(tag);
                        exit(0);
                }
                waitpid(pid, NULL, 0);
        }
        infp_mark("parent again");
        return 0;
}

/* Begins, says so, and ends when standard input does. */
static int waits(int n)
{
        infp_span span = infp_span_begin("waiting");
        char c;

        infp_span_int(&span, "number", n);
        infp_mark("ready");
        puts("ready");
        fflush(stdout);
        for (int i = 0; n == 0 || i < n; i++) {
                ssize_t got = read(STDIN_FILENO, &c, 1);

                if (got <= 0)
                        break;
                infp_mark(c == 'm' ? "asked" : "other");
                puts("done");
                fflush(stdout);
        }
        infp_span_end(&span);
        infp_mark("over");
        return 0;
}

/* Makes its own file shorter, as no library does. */
static int cut(const char *directory)
{
        char command[512];

        infp_mark("before");
        usleep(500000);
        snprintf(command, sizeof(command), "for f in %s/*.ring; do : > $f; done", directory);
        if (system(command) != 0)
                return 1;
        usleep(500000);
        _exit(0); /* the library's end would touch what is not there any more */
}

int main(int argc, char **argv)
{
        const char *mode = argc > 1 ? argv[1] : "";
        const int n = argc > 2 ? atoi(argv[2]) : 0;

        if (strcmp(mode, "spans") == 0)
                return spans(n);
        if (strcmp(mode, "storm") == 0)
                return storm(n);
        if (strcmp(mode, "threads") == 0)
                return threads(n);
        if (strcmp(mode, "fork") == 0)
                return forks(n);
        if (strcmp(mode, "wait") == 0)
                return waits(n);
        if (strcmp(mode, "cut") == 0)
                return cut(argc > 2 ? argv[2] : "");
        if (strcmp(mode, "exec") == 0) {
                infp_mark("before exec");
                infp_span_begin("cut off by exec");
                usleep(300000);
                execl("/proc/self/exe", argv[0], "spans", "2", (char *) NULL);
                return 1;
        }
        return usage();
}
