/* The tree of stacks: every figure computed by hand (stack_rows.h). */
#include "stack_rows.h"

#include <math.h>

#include "analyze/profile/flame.h"
#include "analyze/profile/flame_top.h"
#include "analyze/profile/sampling.h"
#include "base/str.h"

/* "main 13 1\n work 9 6\n": name, total, self; a blank a level. */
static char *show(const struct infp_flame *f)
{
        struct infp_str out = { 0 };

        for (uint32_t i = 1; i < f->n_nodes; i++) {
                const struct infp_flame_node *n = &f->nodes[i];
                const struct infp_flame_function *function = &f->functions[n->function];

                assert_true(n->parent < i);
                assert_int_equal(n->depth, f->nodes[n->parent].depth + 1);
                for (unsigned d = 1; d < n->depth; d++)
                        infp_str_putc(&out, ' ');
                infp_str_printf(&out, "%s%s", function->name, n->is_inlined ? "*" : "");
                if (function->is_line && function->line)
                        infp_str_printf(&out, ":%d", (int) function->line);
                infp_str_printf(&out, " %d %d", (int) n->total_samples, (int) n->self_samples);
                if (f->base)
                        infp_str_printf(&out, " was %d %d", (int) f->base[i].total_samples,
                                        (int) f->base[i].self_samples);
                infp_str_putc(&out, '\n');
        }
        infp_str_puts(&out, "");
        return infp_str_take(&out);
}

static void expect(struct sample_run *s, const struct infp_flame_options *options, const char *tree)
{
        struct infp_flame f;
        char *text;

        sample_check(s, infp_flame_read(s->run, options, &f, &s->err));
        text = show(&f);
        assert_string_equal(text, tree);
        free(text);
        infp_flame_done(&f);
}

static struct sample_run *known(void)
{
        struct sample_run *s = stack_begin();

        put_known(s);
        sample_end(s);
        return s;
}

static const struct infp_flame_function *find(const struct infp_flame *f, const char *name)
{
        for (uint32_t i = 0; i < f->n_functions; i++)
                if (!strcmp(f->functions[i].name, name))
                        return &f->functions[i];
        fail_msg("no function %s", name);
        return NULL;
}

static void expect_function(const struct infp_flame *f, const char *name, uint64_t guessed, uint64_t self,
                            uint64_t total)
{
        const struct infp_flame_function *function = find(f, name);

        assert_int_equal(function->guessed_samples, guessed);
        assert_int_equal(function->self_samples, self);
        assert_int_equal(function->total_samples, total);
        assert_true(fabs(function->self_weight - 0.01 * (double) self) < 1e-9);
        assert_true(fabs(function->total_weight - 0.01 * (double) total) < 1e-9);
}

static void test_tree(void **state)
{
        static const struct infp_flame_options options = { 0 };
        struct sample_run *s = known();
        struct infp_flame f;

        (void) state;
        expect(s, &options,
               "[truncated] 1 0\n"
               " main 1 1\n"
               "main 12 0\n"
               " [lib.so+0x180] 1 1\n"
               " [lib.so] 1 1\n"
               " work 10 3\n"
               "  helper* 3 3\n"
               "  work 4 4\n");
        sample_check(s, infp_flame_read(s->run, &options, &f, &s->err));
        assert_string_equal(f.mode, "cpu");
        assert_string_equal(f.unit, "seconds");
        assert_int_equal(f.samples, 13);
        assert_int_equal(f.all_samples, 13);
        assert_true(fabs(f.weight - 0.13) < 1e-9);
        assert_int_equal(f.truncated_samples, 1);
        assert_int_equal(f.cut_samples, 0);
        assert_int_equal(f.unnamed_samples, 2);
        assert_int_equal(f.guessed_samples, 1);
        /* Of main;work;work each sample counts once for work. */
        expect_function(&f, "main", 0, 1, 13);
        expect_function(&f, "work", 1, 7, 10); /* also that whose frame was guessed */
        expect_function(&f, "helper", 0, 3, 3);
        expect_function(&f, "[lib.so]", 0, 1, 1);
        assert_true(find(&f, "helper")->is_inlined);
        assert_false(find(&f, "work")->is_inlined);
        assert_true(find(&f, "[lib.so+0x180]")->is_unnamed);
        assert_true(find(&f, "[truncated]")->is_group);
        assert_int_equal(find(&f, "work")->line, 15);
        assert_string_equal(find(&f, "helper")->file, "/src/help.h");
        assert_string_equal(find(&f, "[lib.so]")->object, "lib.so");
        infp_flame_done(&f);
        sample_free(s);
}

static void test_by(void **state)
{
        struct sample_run *s = known();

        (void) state;
        expect(s, &(const struct infp_flame_options){ .by = INFP_FLAME_BY_THREAD },
               "server (42) 9 0\n"
               " main 9 0\n"
               "  [lib.so+0x180] 1 1\n"
               "  [lib.so] 1 1\n"
               "  work 7 0\n"
               "   helper* 3 3\n"
               "   work 4 4\n"
               "worker (43) 4 0\n"
               " [truncated] 1 0\n"
               "  main 1 1\n"
               " main 3 0\n"
               "  work 3 3\n");
        expect(s, &(const struct infp_flame_options){ .by = INFP_FLAME_BY_LINE, .filter = "^work$" },
               "main:10 10 0\n"
               " work:20 3 0\n"
               "  helper*:7 3 3\n"
               " work:22 7 3\n"
               "  work:22 4 4\n");
        /* Calls within a module are one node. */
        expect(s, &(const struct infp_flame_options){ .by = INFP_FLAME_BY_MODULE },
               "[truncated] 1 0\n"
               " a.out 1 1\n"
               "a.out 12 10\n"
               " lib.so 2 2\n");
        /* Both modes have seconds. */
        expect(s, &(const struct infp_flame_options){ .by = INFP_FLAME_BY_MODE, .filter = "nothing" }, "");
        expect(s, &(const struct infp_flame_options){ .by = INFP_FLAME_BY_MODE, .t0 = 6 * S },
               "cpu 1 0\n"
               " [truncated] 1 0\n"
               "  main 1 1\n"
               "wall 1 0\n"
               " main 1 1\n");
        expect(s, &(const struct infp_flame_options){ .by = INFP_FLAME_BY_STATE, .mode = "wall" },
               "futex 1 0\n"
               " main 1 1\n");
        expect(s, &(const struct infp_flame_options){ .by = INFP_FLAME_BY_PROCESS, .t0 = 3 * S, .t1 = 4 * S },
               "server (42) 2 0\n"
               " main 2 0\n"
               "  work 2 2\n");
        sample_free(s);
}

static void test_reverse(void **state)
{
        struct sample_run *s = known();
        struct infp_flame f;

        (void) state;
        expect(s, &(const struct infp_flame_options){ .reverse = true },
               "[lib.so+0x180] 1 0\n"
               " main 1 1\n"
               "[lib.so] 1 0\n"
               " main 1 1\n"
               "helper* 3 0\n"
               " work 3 0\n"
               "  main 3 3\n"
               "main 1 0\n"
               " [truncated] 1 1\n"
               "work 7 0\n"
               " main 3 3\n"
               " work 4 0\n"
               "  main 4 4\n");
        /* What functions have does not depend on the way that the tree is read. */
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ .reverse = true }, &f, &s->err));
        expect_function(&f, "work", 1, 7, 10);
        expect_function(&f, "main", 0, 1, 13);
        infp_flame_done(&f);
        sample_free(s);
}

static void test_filter(void **state)
{
        struct sample_run *s = known();
        struct infp_flame f;

        (void) state;
        expect(s, &(const struct infp_flame_options){ .filter = "^(helper|\\[lib.so\\])$" },
               "main 4 0\n"
               " [lib.so] 1 1\n"
               " work 3 0\n"
               "  helper* 3 3\n");
        expect(s, &(const struct infp_flame_options){ .no_inlined = true, .t1 = 3 * S },
               "main 3 0\n"
               " work 3 3\n");
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ .filter = "helper" }, &f, &s->err));
        assert_int_equal(f.samples, 3);
        assert_int_equal(f.all_samples, 13);
        infp_flame_done(&f);
        assert_int_equal(infp_flame_read(s->run, &(const struct infp_flame_options){ .filter = "a(" }, &f, &s->err),
                         -EINVAL);
        assert_non_null(strstr(s->err.text, "'a(' is not a regular expression: "));
        sample_free(s);
}

/* main calls Python's serve, that calls matmul, that calls Python's hook. */
static void test_parts(void **state)
{
        static const struct {
                const char *name;
                enum infp_frame_kind kind;
        } calls[] = { { "main", INFP_FRAME_NATIVE },
                      { "serve", INFP_FRAME_PYTHON },
                      { "matmul", INFP_FRAME_NATIVE },
                      { "hook", INFP_FRAME_PYTHON } };
        struct sample_run *s = stack_begin();
        struct stack_sample is = { .t_ns = 2 * S, .tid = 42, .mode = "cpu", .weight = 0.01 };
        struct infp_flame f;

        (void) state;
        is.process = put_process(s, 42, "server");
        is.thread = put_thread(s, is.process, 42, "server");
        for (unsigned i = 0; i < 4; i++) {
                const uint64_t frame = put_frame(s, calls[i].kind, "/srv/it", i + 1, false);

                put_symbol(s, frame, 0, calls[i].name, "/srv/it", 1, 1, "python");
                is.stack = put_stack(s, is.stack, frame);
                put_samples(s, &is, i + 1);
        }
        sample_end(s);
        expect(s, &(const struct infp_flame_options){ 0 },
               "main 10 1\n"
               " serve 9 2\n"
               "  matmul 7 3\n"
               "   hook 4 4\n");
        expect(s, &(const struct infp_flame_options){ .part = INFP_PROFILE_PYTHON },
               "serve 9 5\n"
               " hook 4 4\n");
        expect(s, &(const struct infp_flame_options){ .part = INFP_PROFILE_NATIVE },
               "main 10 3\n"
               " matmul 7 7\n");
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ .part = INFP_PROFILE_PYTHON }, &f,
                                        &s->err));
        assert_int_equal(f.samples, 9); /* one had no Python */
        assert_int_equal(f.all_samples, 10);
        infp_flame_done(&f);
        sample_free(s);
}

static enum infp_frame_kind kind_by_name(const char *name)
{
        for (int kind = 0; kind <= INFP_FRAME_UNKNOWN; kind++)
                if (!strcmp(infp_frame_kind_name((enum infp_frame_kind) kind), name))
                        return (enum infp_frame_kind) kind;
        fail_msg("no kind %s", name);
        return INFP_FRAME_UNKNOWN;
}

/* One sample of a stack of such frames, which are functions f0, f1 ...; the first may be the group of its thread. */
static void expect_owner(const char *mode, const char *state, char *kinds, unsigned owner, bool is_wait)
{
        const bool has_group = !strncmp(kinds, "group,", 6);
        struct sample_run *s = stack_begin();
        struct stack_sample is = { .t_ns = 2 * S, .tid = 42, .mode = mode, .weight = 0.01, .state = state };
        struct infp_flame f;
        char name[16], *rest = NULL;
        unsigned n = 0;

        is.process = put_process(s, 42, "server");
        is.thread = put_thread(s, is.process, 42, "server");
        for (const char *kind = strtok_r(kinds, ",", &rest); kind; kind = strtok_r(NULL, ",", &rest), n++) {
                uint64_t frame;

                if (!n && has_group)
                        continue;
                frame = put_frame(s, kind_by_name(kind), "/srv/it", n + 1, false);
                snprintf(name, sizeof(name), "f%u", n);
                put_symbol(s, frame, 0, name, "/srv/it.c", 1, 1, "test");
                is.stack = put_stack(s, is.stack, frame);
        }
        put_samples(s, &is, 1);
        sample_end(s);
        sample_check(s, infp_flame_read(s->run,
                                        &(const struct infp_flame_options){ .by = has_group ? INFP_FLAME_BY_THREAD
                                                                                            : INFP_FLAME_BY_NOTHING },
                                        &f, &s->err));
        for (unsigned i = has_group; i < n; i++) {
                snprintf(name, sizeof(name), "f%u", i);
                assert_int_equal(find(&f, name)->self_samples, i == owner);
        }
        /* The tree shows where it waited, and says so to the page. */
        assert_int_equal(f.nodes[n].self_samples, 1);
        assert_int_equal(f.nodes[n].is_wait, owner != n - 1);
        assert_true(is_wait || !f.nodes[n].is_wait);
        assert_int_equal(f.wait_samples, owner != n - 1);
        infp_flame_done(&f);
        sample_free(s);
}

/* As web/flame/tree.js counts: tests/e2e/test_flamegraph.py reads the same file. */
static void test_waits(void **state)
{
        const char *fixtures = getenv("INFP_FIXTURES");
        char path[4096], line[512];
        unsigned n = 0;
        FILE *file;

        (void) state;
        snprintf(path, sizeof(path), "%s/flame/waits.tsv", fixtures ? fixtures : "tests/fixtures");
        file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
                char mode[32], of[64], kinds[256];
                unsigned is_wait, owner;

                if (line[0] == '#')
                        continue;
                assert_int_equal(
                        sscanf(line, "%31[^\t]\t%63[^\t]\t%u\t%255[^\t]\t%u", mode, of, &is_wait, kinds, &owner), 5);
                expect_owner(mode, strcmp(of, "-") ? of : NULL, kinds, owner, is_wait);
                n++;
        }
        fclose(file);
        assert_int_equal(n, 13);
}

static void test_modes(void **state)
{
        struct sample_run *s = known();
        struct infp_flame f;

        (void) state;
        expect(s, &(const struct infp_flame_options){ .mode = "wall" }, "main 1 1\n");
        assert_int_equal(infp_flame_read(s->run, &(const struct infp_flame_options){ .mode = "heap" }, &f, &s->err),
                         -ENOENT);
        assert_non_null(strstr(s->err.text, "no samples of mode 'heap' there; it has: cpu, wall"));
        assert_int_equal(infp_flame_read(s->run, &(const struct infp_flame_options){ .t0 = 99 * S }, &f, &s->err),
                         -ENODATA);
        sample_free(s);
        s = stack_begin();
        put_samples(s, &(const struct stack_sample){ .t_ns = S, .mode = "space/bytes", .weight = 8 }, 1);
        put_samples(s, &(const struct stack_sample){ .t_ns = S, .mode = "objects/count", .weight = 1 }, 1);
        sample_end(s);
        assert_int_equal(infp_flame_read(s->run, &(const struct infp_flame_options){ 0 }, &f, &s->err), -EINVAL);
        assert_non_null(strstr(s->err.text, "none of them cpu; choose one with --mode: space/bytes, objects/count"));
        sample_check(s,
                     infp_flame_read(s->run, &(const struct infp_flame_options){ .mode = "space/bytes" }, &f, &s->err));
        assert_string_equal(f.unit, "bytes");
        infp_flame_done(&f);
        sample_free(s);
}

/* [1 s, 7 s) in three: samples at 2 s, then 3 and 4 s, then 5 and 6 s. */
static void test_moments(void **state)
{
        static const struct infp_flame_options options = { .t0 = S, .t1 = 7 * S, .n_buckets = 3 };
        struct sample_run *s = known();
        uint64_t sums[3] = { 0 };
        struct infp_flame f;

        (void) state;
        sample_check(s, infp_flame_read(s->run, &options, &f, &s->err));
        assert_int_equal(f.n_buckets, 3);
        for (uint32_t i = 0; i < f.n_moments; i++) {
                const struct infp_flame_moment *m = &f.moments[i];

                assert_in_range(m->bucket, 0, 2);
                sums[m->bucket] += m->samples;
                if (i)
                        assert_true(m->bucket > m[-1].bucket || (m->bucket == m[-1].bucket && m->node > m[-1].node));
        }
        assert_int_equal(sums[0], 3);
        assert_int_equal(sums[1], 6);
        assert_int_equal(sums[2], 4);
        assert_string_equal(f.functions[f.nodes[f.moments[0].node].function].name, "helper");
        infp_flame_done(&f);
        sample_free(s);
}

/* 13 samples of 10 ms: what has less than 35 ms is its caller's; two buckets become one. */
static void test_prune(void **state)
{
        static const struct infp_flame_options options = { .t0 = S, .t1 = 7 * S, .n_buckets = 6 };
        struct sample_run *s = known();
        uint64_t sums[3] = { 0 }, of_main = 0;
        struct infp_flame f;
        char *text;

        (void) state;
        sample_check(s, infp_flame_read(s->run, &options, &f, &s->err));
        sample_check(s, infp_flame_prune(&f, 0.035, &s->err));
        infp_flame_coarsen(&f, 2);
        text = show(&f);
        assert_string_equal(text, "main 12 2\n"
                                  " work 10 6\n"
                                  "  work 4 4\n");
        free(text);
        assert_int_equal(f.nodes[0].total_samples, 13); /* [truncated] is the root's own */
        assert_int_equal(f.n_functions, 2);
        assert_int_equal(find(&f, "work")->total_samples, 10);
        assert_int_equal(f.n_buckets, 3);
        for (uint32_t i = 0; i < f.n_moments; i++) {
                sums[f.moments[i].bucket] += f.moments[i].samples;
                of_main += f.moments[i].node == 1 ? f.moments[i].samples : 0;
                assert_true(!i || f.moments[i].bucket > f.moments[i - 1].bucket ||
                            f.moments[i].node > f.moments[i - 1].node);
        }
        assert_int_equal(sums[0], 3);
        assert_int_equal(sums[1], 6);
        assert_int_equal(sums[2], 4);
        assert_int_equal(of_main, 2);
        infp_flame_done(&f);
        sample_free(s);
}

/* A later set of a frame's rows replaces the earlier one. */
static void test_symbolized_later(void **state)
{
        const uint64_t frame = infp_frame_id(INFP_FRAME_NATIVE, "/usr/bin/a.out", 14, 0x20, false);
        struct sample_run *s = stack_begin();

        (void) state;
        put_known(s);
        sample_rotate(s, 2);
        put_symbol(s, frame, 0, "better", NULL, 0, 0, "symtab");
        sample_end(s);
        expect(s, &(const struct infp_flame_options){ .t1 = 3 * S },
               "main 3 0\n"
               " better 3 3\n");
        sample_free(s);
}

static void test_diff(void **state)
{
        struct sample_run *s = known();
        struct infp_flame older, newer, f;

        (void) state;
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ .t1 = 5 * S }, &older, &s->err));
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ .t0 = 4 * S }, &newer, &s->err));
        sample_check(s, infp_flame_diff(&older, &newer, &f, &s->err));
        {
                char *text = show(&f);

                assert_string_equal(text, "[truncated] 1 0 was 0 0\n"
                                          " main 1 1 was 0 0\n"
                                          "main 7 0 was 9 0\n"
                                          " [lib.so+0x180] 1 1 was 0 0\n"
                                          " [lib.so] 1 1 was 0 0\n"
                                          " work 5 1 was 9 2\n"
                                          "  helper* 0 0 was 3 3\n"
                                          "  work 4 4 was 4 4\n");
                free(text);
        }
        assert_int_equal(f.samples, 8);
        assert_int_equal(f.base_samples, 9);
        assert_true(fabs(f.base_weight - 0.09) < 1e-9);
        infp_flame_done(&f);
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ 0 }, &older, &s->err));
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ .mode = "wall" }, &newer, &s->err));
        assert_int_equal(infp_flame_diff(&older, &newer, &f, &s->err), -EINVAL);
        sample_free(s);
}

/* Nodes in a circle, without parents, without frames; samples without stacks: cut, counted, never a hang. */
static void test_hostile(void **state)
{
        struct sample_run *s = stack_begin();
        const uint64_t frame = put_frame(s, INFP_FRAME_NATIVE, "/x", 1, false);
        struct stack_sample is = { .t_ns = S, .mode = "cpu", .weight = 0.01 };
        struct infp_flame f;

        (void) state;
        put_symbol(s, frame, 0, "f", NULL, 0, 0, "symtab");
        put_symbol(s, frame, 1000000, "far too deep", NULL, 0, 0, "symtab");
        put_symbol(s, frame, -1, "too high", NULL, 0, 0, "symtab");
        put_node(s, 10, 11, frame); /* a circle of two */
        put_node(s, 11, 10, frame);
        put_node(s, 12, 12, frame);  /* of one */
        put_node(s, 13, 999, frame); /* no such parent */
        put_node(s, 14, 0, 999);     /* no such frame */
        put_node(s, 15, 0, 0);       /* none at all */
        for (uint64_t i = 10; i <= 15; i++)
                is.stack = i, put_samples(s, &is, 1);
        is.stack = 777, put_samples(s, &is, 1); /* no such stack */
        is.stack = 0, put_samples(s, &is, 1);
        sample_end(s);
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ 0 }, &f, &s->err));
        {
                char *text = show(&f);

                assert_string_equal(text, "[truncated] 6 2\n"
                                          " f 4 3\n"
                                          "  f 1 1\n"
                                          "[unknown] 2 2\n");
                free(text);
        }
        assert_int_equal(f.cut_samples, 6);
        assert_int_equal(f.truncated_samples, 6);
        assert_int_equal(f.unnamed_samples, 2);
        infp_flame_done(&f);
        sample_free(s);
}

/* 100,000 nodes one below the other: 4,096 at most are one stack. */
static void test_deep(void **state)
{
        struct sample_run *s = stack_begin();
        const uint64_t frame = put_frame(s, INFP_FRAME_NATIVE, "/x", 1, false);
        uint64_t node = 0;
        struct infp_flame f;

        (void) state;
        for (unsigned i = 0; i < 100000; i++) {
                put_node(s, i + 1, node, frame);
                node = i + 1;
                if (i % 4096 == 4095)
                        sample_flush(s);
        }
        put_samples(s, &(const struct stack_sample){ .t_ns = S, .stack = node, .mode = "cpu", .weight = 0.01 }, 1);
        sample_end(s);
        for (int reverse = 0; reverse < 2; reverse++) {
                sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ .reverse = reverse }, &f,
                                                &s->err));
                assert_in_range(f.n_nodes, 1000, 4096 + 3);
                assert_int_equal(f.nodes[0].total_samples, 1);
                assert_int_equal(f.cut_samples, 1);
                infp_flame_done(&f);
        }
        sample_free(s);
}

/* Wilson's interval by hand: n = 100, k = 50: 50 +- 9.6; no share has a lower end below 0 or an upper one above 100. */
static void test_interval(void **state)
{
        double low, high;

        (void) state;
        infp_flame_interval(50, 100, &low, &high);
        assert_true(fabs(low - 40.383) < 0.001 && fabs(high - 59.617) < 0.001);
        infp_flame_interval(0, 100, &low, &high);
        assert_true(low == 0 && fabs(high - 3.6994) < 0.001);
        infp_flame_interval(100, 100, &low, &high);
        assert_true(fabs(low - 96.3006) < 0.001 && high == 100);
        infp_flame_interval(0, 0, &low, &high);
        assert_true(low == 0 && high == 100);
}

/* Weights 1, 1 and 2 say as much as (1 + 1 + 2)^2 / (1 + 1 + 4) = 2.67 samples of one weight. */
static void test_top(void **state)
{
        struct sample_run *s = known();
        struct infp_flame_share share;
        struct infp_flame f;
        uint32_t top[3], all;

        (void) state;
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ 0 }, &f, &s->err));
        assert_true(fabs(f.effective_samples - 13) < 1e-9);
        assert_int_equal(infp_flame_top(&f, false, 3, top, &all), 3);
        assert_int_equal(all, 5);
        assert_string_equal(f.functions[top[0]].name, "work");
        assert_string_equal(f.functions[top[1]].name, "helper");
        assert_string_equal(f.functions[top[2]].name,
                            "main"); /* of those with one sample the one with the larger total */
        assert_int_equal(infp_flame_top(&f, true, 2, top, NULL), 2);
        assert_string_equal(f.functions[top[0]].name, "main");
        assert_string_equal(f.functions[top[1]].name, "work");
        share = infp_flame_share(&f, 0.06);
        assert_true(fabs(share.percent - 46.1538) < 1e-3 && fabs(share.low - 23.2060) < 1e-2);
        infp_flame_done(&f);
        sample_free(s);
        s = stack_begin();
        put_samples(s, &(const struct stack_sample){ .t_ns = S, .mode = "space/bytes", .weight = 1 }, 2);
        put_samples(s, &(const struct stack_sample){ .t_ns = S, .mode = "space/bytes", .weight = 2 }, 1);
        sample_end(s);
        sample_check(s, infp_flame_read(s->run, &(const struct infp_flame_options){ 0 }, &f, &s->err));
        assert_true(fabs(f.effective_samples - 16.0 / 6) < 1e-9);
        assert_true(fabs(infp_flame_share(&f, 2).percent - 50) < 1e-9);
        infp_flame_done(&f);
        sample_free(s);
}

/* Counters of the sampler within a range are what they grew by. */
static void test_sampling(void **state)
{
        struct sample_run *s = known();
        struct infp_sampling all, part;
        const struct infp_sampling_mode *cpu;

        (void) state;
        sample_check(s, infp_sampling_read(s->run, 0, 0, &all, &s->err));
        sample_check(s, infp_sampling_read(s->run, 4 * S, 0, &part, &s->err));
        cpu = infp_sampling_find(&all, INFP_STACK_CPU);
        assert_non_null(cpu);
        assert_true(cpu->wanted == 14 && cpu->taken == 13 && cpu->lost == 1 && cpu->rate_hz == 100);
        assert_true(isnan(cpu->throttled) && isnan(cpu->skipped_threads)); /* absent is not zero */
        cpu = infp_sampling_find(&part, INFP_STACK_CPU);
        assert_true(cpu->wanted == 6 && cpu->taken == 6 && cpu->lost == 0);
        assert_null(infp_sampling_find(&all, INFP_STACK_WALL));
        sample_free(s);
}

/* One thread works; two of a pool wait, of which one was once seen as it ran. */
static struct sample_run *pool(void)
{
        struct sample_run *s = stack_begin();
        const uint64_t process = put_process(s, 7, "serve"), worker = put_thread(s, process, 7, "serve"),
                       busy = put_thread(s, process, 8, "pool"), idle = put_thread(s, process, 9, "pool");
        const uint64_t work = put_stack(s, 0, put_frame(s, INFP_FRAME_NATIVE, "/bin/serve", 16, false)),
                       wait = put_stack(s, 0, put_frame(s, INFP_FRAME_NATIVE, "/lib/libc.so", 32, false));
        struct stack_sample sample = { .process = process, .tid = 7, .thread = worker, .mode = "wall", .weight = 0.05 };

        for (unsigned i = 0; i < 4; i++) {
                sample.t_ns = (2 + i) * S;
                sample.stack = i ? work : wait;
                sample.state = i ? NULL : "sleeping in read";
                put_samples(s, &sample, 1);
        }
        sample.stack = wait;
        sample.thread = busy;
        sample.tid = 8;
        for (unsigned i = 0; i < 200; i++) {
                sample.t_ns = 20 * S + i;
                sample.state = i ? "sleeping in futex" : NULL;
                put_samples(s, &sample, 1);
        }
        sample.thread = idle;
        sample.tid = 9;
        sample.state = "sleeping in epoll_wait";
        for (unsigned i = 0; i < 50; i++)
                put_samples(s, &sample, 1);
        sample_end(s);
        return s;
}

static void test_threads_that_wait_are_folded(void **state)
{
        struct sample_run *s = pool();
        struct infp_flame_options options = { .mode = "wall", .fold_waiting = true };
        struct infp_flame f;

        (void) state;
        sample_check(s, infp_flame_read(s->run, &options, &f, &s->err));
        assert_int_equal(f.samples, 5); /* with what the pool did as it ran */
        assert_int_equal(f.all_samples, 254);
        assert_int_equal(f.folded.threads, 2);
        assert_int_equal(f.folded.samples, 249);
        assert_true(fabs(f.folded.weight - 12.45) < 1e-9);
        assert_string_equal(f.folded.states[0].state, "sleeping in futex");
        assert_int_equal(f.folded.states[0].samples, 199);
        assert_string_equal(f.folded.states[1].state, "sleeping in epoll_wait");
        assert_int_equal(f.folded.states[1].samples, 50);
        assert_null(f.folded.states[2].state);
        infp_flame_done(&f);

        options.t0 = 20 * S + 1; /* nothing but those that wait: they are the table */
        sample_check(s, infp_flame_read(s->run, &options, &f, &s->err));
        assert_int_equal(f.samples, 249);
        assert_int_equal(f.folded.threads, 0);
        infp_flame_done(&f);

        options = (struct infp_flame_options){ .mode = "wall" };
        sample_check(s, infp_flame_read(s->run, &options, &f, &s->err));
        assert_int_equal(f.samples, 254);
        assert_int_equal(f.folded.threads, 0);
        infp_flame_done(&f);
        sample_free(s);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tree),
                cmocka_unit_test(test_by),
                cmocka_unit_test(test_reverse),
                cmocka_unit_test(test_filter),
                cmocka_unit_test(test_parts),
                cmocka_unit_test(test_waits),
                cmocka_unit_test(test_modes),
                cmocka_unit_test(test_moments),
                cmocka_unit_test(test_prune),
                cmocka_unit_test(test_diff),
                cmocka_unit_test(test_symbolized_later),
                cmocka_unit_test(test_hostile),
                cmocka_unit_test(test_deep),
                cmocka_unit_test(test_interval),
                cmocka_unit_test(test_top),
                cmocka_unit_test(test_sampling),
                cmocka_unit_test(test_threads_that_wait_are_folded),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
