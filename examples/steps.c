/* A training-like loop in C: steps, spans within spans, a counter and a gauge.
 *
 *      cc -std=c99 steps.c -o steps $(pkg-config --cflags --libs infprof)
 *      infprof record -- ./steps 200          or: INFPROF_RING=1 ./steps 200, and meanwhile infprof query --pid PID 'FROM spans' */
#include <infprof/infprof.h>

#include <stdio.h>
#include <stdlib.h>

/* Stands for work: some milliseconds of arithmetic. */
static double work(unsigned thousands)
{
        volatile double sum = 0;
        unsigned i;

        for (i = 0; i < thousands * 1000; i++)
                sum += 1.0 / (1 + i);
        return sum;
}

int main(int argc, char **argv)
{
        unsigned n = argc > 1 ? (unsigned) strtoul(argv[1], NULL, 10) : 100, i;
        infp_metric *tokens = infp_counter("train.tokens", "tokens", "tokens that were trained on");
        infp_metric *loss = infp_gauge("train.loss", NULL, "loss of the newest step");

        infp_thread_name("trainer");
        infp_mark("warm-up ends");
        for (i = 0; i < n; i++) {
                infp_span step = infp_span_begin("step"), part;

                infp_span_int(&step, "step", (int64_t) infp_step());
                part = infp_span_begin("load batch");
                work(100);
                infp_span_end(&part);
                part = infp_span_begin("forward");
                work(600);
                infp_span_end(&part);
                part = infp_span_begin("backward");
                work(1200);
                infp_span_end(&part);
                infp_add(tokens, 4096);
                infp_set(loss, 4.0 / (1 + i) + 1);
                infp_span_end(&step);
        }
        infp_mark("done");
        printf("%u steps, %s\n", n, infp_is_recording() ? "recorded" : "not recorded");
        return 0;
}
