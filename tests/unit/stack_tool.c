/* Runs with known stacks, on disk, for tests that drive the binary (tests/e2e) and for benches.
 *
 *   stack_tool DIR               the run of stack_rows.h
 *   stack_tool DIR python        Python and native frames, and a wait (put_python)
 *   stack_tool DIR hostile       names that break formats, circles, missing parents, frames, stacks, threads; a stack 5,000 deep
 *   stack_tool DIR SAMPLES NODES as many samples (1 ms apart, 10 ms each) over a tree of so many nodes, 40 deep */
#include <stdio.h>

#include "stack_rows.h"

enum { DEPTH = 40, THREADS = 4, FUNCTIONS = 2000 };

/* Node i + 1 hangs below a node that came shortly before, so that the tree is as deep as real ones; the order is always the same. */
static void put_large(struct sample_run *s, unsigned samples, unsigned nodes)
{
        const uint64_t process = put_process(s, 42, "server");
        uint64_t threads[THREADS], frames[FUNCTIONS], *ids = calloc(nodes, sizeof(*ids)), random = 1;
        unsigned *depths = calloc(nodes, sizeof(*depths));
        char name[64];

        assert(ids && depths);
        for (unsigned i = 0; i < THREADS; i++)
                threads[i] = put_thread(s, process, (int32_t) (42 + i), "worker");
        for (unsigned i = 0; i < FUNCTIONS; i++) {
                snprintf(name, sizeof(name), "ns::function_%u(int, char const*)", i);
                frames[i] =
                        put_frame(s, INFP_FRAME_NATIVE, i % 3 ? "/usr/bin/a.out" : "/lib/lib.so", 16 * i + 16, false);
                put_symbol(s, frames[i], 0, name, "/src/a.c", 10, 5, "dwarf");
        }
        for (unsigned i = 0; i < nodes; i++) {
                unsigned parent = 0;

                random = random * 6364136223846793005U + 1442695040888963407U;
                if (i) {
                        parent = i - 1 - (unsigned) (random >> 33) % (i < 8 ? i : 8);
                        while (depths[parent] >= DEPTH)
                                parent /= 2;
                        depths[i] = depths[parent] + 1;
                }
                ids[i] = put_stack(s, i ? ids[parent] : 0, frames[(random >> 40) % FUNCTIONS]);
                if (i % 4096 == 4095)
                        sample_flush(s);
        }
        for (unsigned i = 0; i < samples; i++) {
                const struct stack_sample is = { .t_ns = S + i * UINT64_C(1000000),
                                                 .process = process,
                                                 .thread = threads[i % THREADS],
                                                 .tid = 42 + i % THREADS,
                                                 .stack = ids[(i * UINT64_C(2654435761)) % nodes],
                                                 .mode = "cpu",
                                                 .weight = 0.01 };

                put_samples(s, &is, 1);
                if (i % 4096 == 4095)
                        sample_flush(s);
        }
        free(ids);
        free(depths);
}

/* Of mode cpu: main 1, main;serve 2, main;serve;matmul 3, main;serve;matmul;hook 4; of off-cpu: main;serve;matmul;schedule 5. serve
 * and hook are Python's, schedule the kernel's; matmul has no line. */
static void put_python(struct sample_run *s)
{
        static const struct {
                const char *name, *file;
                enum infp_frame_kind kind;
                int line;
        } calls[] = { { "main", "/src/main.c", INFP_FRAME_NATIVE, 10 },
                      { "serve", "/srv/serve.py", INFP_FRAME_PYTHON, 20 },
                      { "matmul", NULL, INFP_FRAME_NATIVE, 0 },
                      { "hook", "/srv/serve.py", INFP_FRAME_PYTHON, 31 } };
        const uint64_t schedule = put_frame(s, INFP_FRAME_KERNEL, "[kernel]", 0x900, false);
        struct stack_sample is = { .t_ns = 2 * S, .tid = 42, .mode = "cpu", .weight = 0.01 };

        is.process = put_process(s, 42, "server");
        is.thread = put_thread(s, is.process, 42, "server");
        put_symbol(s, schedule, 0, "schedule", NULL, 0, 0, "proc");
        for (unsigned i = 0; i < 4; i++) {
                const uint64_t frame =
                        put_frame(s, calls[i].kind, calls[i].file ? calls[i].file : "/lib/lib.so", i + 1, false);

                put_symbol(s, frame, 0, calls[i].name, calls[i].file, calls[i].line, 5, "test");
                is.stack = put_stack(s, is.stack, frame);
                put_samples(s, &is, i + 1);
                if (i == 2) {
                        struct stack_sample wait = is;

                        wait.mode = "off-cpu";
                        wait.state = "blocked";
                        wait.stack = put_stack(s, is.stack, schedule);
                        put_samples(s, &wait, 5);
                }
        }
}

static void put_hostile(struct sample_run *s)
{
        static const char *const names[] = {
                "semi;colon",
                "two\nlines",
                "tab\tand\x01\x1b[31m",
                "\"quoted\" </script><!-- ]]> & 'x'",
                "\xff\xfe not UTF-8",
                "",
                "\xe2\x80\xa8 separator \xf0\x9f\x94\xa5",
                "a 12",
                "_[k]",
                "[truncated]",
        };
        const uint64_t process = put_process(s, 42, "a;b\n\"c\"");
        const uint64_t thread = put_thread(s, process, 42, "t;\n</script>");
        struct stack_sample is = { .process = process, .thread = thread, .tid = 42, .mode = "cpu", .weight = 0.01 };
        uint64_t node = 0, frame = 0;

        for (unsigned i = 0; i < INFP_COUNT(names); i++) {
                frame = put_frame(s, INFP_FRAME_NATIVE, i % 2 ? names[i] : "/usr/bin/a.out", i + 1, false);
                put_symbol(s, frame, 0, names[i], names[(i + 1) % INFP_COUNT(names)], -7, -7, "dwarf");
                node = put_stack(s, node, frame);
                is.t_ns = S + i, is.stack = node, put_samples(s, &is, 1);
        }
        put_node(s, 10, 11, frame);
        put_node(s, 11, 10, frame);
        put_node(s, 12, 12, frame);
        put_node(s, 13, 999, frame);
        put_node(s, 14, 0, 999);
        put_node(s, 15, 0, 0);
        for (uint64_t i = 10; i <= 16; i++)
                is.t_ns = 2 * S + i, is.stack = i == 16 ? 777 : i, put_samples(s, &is, 1);
        for (unsigned i = 0; i < 5000; i++) {
                put_node(s, 1000 + i, i ? 999 + i : 0, frame);
                if (i % 4096 == 4095)
                        sample_flush(s);
        }
        is.t_ns = 3 * S, is.stack = 5999, put_samples(s, &is, 1);
        is.process = is.thread = is.stack = 0, is.tid = 0;
        is.t_ns = UINT64_C(1) << 62, is.weight = 1e300, put_samples(s, &is, 1);
        is.t_ns = 1, is.weight = 1e-300, put_samples(s, &is, 1);
        is.weight = -1e9, put_samples(s, &is, 1);
        put_sampler(s, 3 * S, INT64_MIN + 1);
}

int main(int argc, char **argv)
{
        struct sample_run *s = stack_begin();

        if (argc < 2 || argc > 4) {
                fprintf(stderr, "usage: stack_tool DIR [python|hostile|SAMPLES NODES]\n");
                return 2;
        }
        if (argc == 2)
                put_known(s);
        else if (argc == 3)
                (!strcmp(argv[2], "python") ? put_python : put_hostile)(s);
        else
                put_large(s, (unsigned) atoi(argv[2]), (unsigned) atoi(argv[3]));
        sample_end(s);
        /* A run's end is behind its last row. */
        s->run->info.started_t_ns = S;
        s->run->info.started_unix_ns = SAMPLE_UNIX + (int64_t) S;
        s->run->info.ended_t_ns = S + (argc < 4 ? 6 * S : (uint64_t) atoi(argv[2]) * 1000000);
        s->run->info.ended_unix_ns = SAMPLE_UNIX + (int64_t) s->run->info.ended_t_ns;
        sample_check(s, infp_run_save(s->run, &s->err));
        if (rename(s->directory, argv[1]) != 0) {
                perror(argv[1]);
                return 1;
        }
        sample_free(s);
        return 0;
}
