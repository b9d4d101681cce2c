/* Folded stacks and the text of perf script: stacks and sums by hand. */
#include "import_text.h"

#include <math.h>

static void test_folded(void **state)
{
        struct imported *i = import_text("main;run;copy_[k] 10\r\n"
                                         "\n"
                                         "# a comment\n"
                                         "main;run;std::sort(std::pair<int, int>*) 5\n"
                                         "main;run;copy_[k] 2\n"
                                         "main;java.equals(Ljava/lang/Object;I)Z_[j] 3\n"
                                         "main 4");

        (void) state;
        assert_string_equal(i->found.format, "folded");
        assert_int_equal(i->found.rows, 5);
        assert_int_equal(i->found.samples, 24);
        assert_int_equal(i->found.n_modes, 1);
        assert_string_equal(i->found.modes[0].mode, "samples/count");
        assert_int_equal(import_skip(i, "comments")->n, 1);
        assert_int_equal(import_skip(i, "comments")->where, 3);
        /* The writer of folded text has a colon for a semicolon within a name. */
        import_expect(i, NULL,
                      "main 4\n"
                      "main;java.equals(Ljava/lang/Object:I)Z_[j] 3\n"
                      "main;run;copy_[k] 12\n"
                      "main;run;std::sort(std::pair<int, int>*) 5\n");
        import_done(i);
}

/* Brackets that do not close tell nothing of semicolons. */
static void test_folded_brackets(void **state)
{
        struct imported *i = import_text("a;operator(;b 1\na;struct { int x; int y };b 2\n");

        (void) state;
        import_expect(i, NULL, "a;operator(;b 1\na;struct { int x: int y };b 2\n");
        import_done(i);
}

static void test_folded_counts(void **state)
{
        struct imported *i = import_text("a;b\na;b 2.5\na;c 3.0\na;d 0\n 7\na;;e 1\n");

        (void) state;
        assert_int_equal(i->found.rows, 4);
        assert_int_equal(i->found.samples, 1 + 1 + 3 + 1); /* how many samples 2.5 were nobody says */
        assert_true(fabs(i->found.modes[0].weight - (1 + 2.5 + 3 + 1)) < 1e-12);
        assert_int_equal(import_skip(i, "without a count")->where, 1);
        assert_int_equal(import_skip(i, "counted 0 times")->where, 4);
        assert_int_equal(import_skip(i, "without a stack")->where, 5);
        assert_int_equal(import_skip(i, "blank names")->where, 6);
        import_expect(i, NULL, "a;[unknown];e 1\na;b 2\na;c 3\n");
        import_done(i);
}

static void test_folded_owners(void **state)
{
        struct imported *i = import_text("my tool-7/8;a 1\nP12;T0:34;b (x.py:3) 1\n[truncated];c 1\nThread-1;d 1\n"
                                         "process 5:\"python a b\";thread (6): My thread;e (a.py:1) 1\n"
                                         "thread (0x7F0012345678);f 1\nthread (9);g 1\nthread (9)h;i 1\n");

        (void) state;
        assert_int_equal(i->found.truncated, 1);
        import_expect(i, NULL, "Thread-1;d 1\n[truncated];c 1\na 1\nb 1\ne 1\nf 1\ng 1\nthread (9)h;i 1\n");
        import_done(i);
}

/* What is inlined belongs to the place before it, and is a function of its own in the tree. */
static void test_folded_inlined(void **state)
{
        struct imported *i = import_text("main;f;g_[i];h_[i];leaf 2\n");

        (void) state;
        assert_int_equal(i->found.frames, 3);
        import_expect(i, NULL, "main;f;g;h;leaf 2\n");
        import_done(i);
}

static void test_folded_refused(void **state)
{
        static char long_line[5 << 20];

        (void) state;
        import_refused(import_text("a;b 1\na;b -3\n"), "line 2");
        import_refused(import_text("a;b 99999999999999999999\n"), "line 1");
        import_refused(import_text("a;b nan\n"), "not a number");
        import_refused(import_text("a;b 9223372036854775807\na;b 1\n"), "more than 2^63");
        import_refused(import_bytes("a;b 1\na\0b 1\n", 12, "folded"), "line 2: a NUL byte");
        import_refused(import_text(""), "is empty");
        import_refused(import_text("hello world\n"), "unrecognised profile format");
        import_refused(import_bytes("# x\n", 4, "folded"), "no sample");
        memset(long_line, 'a', sizeof(long_line));
        import_refused(import_bytes(long_line, sizeof(long_line), "folded"), "longer than 4 MiB");
        import_refused(import_text("PERFILE2xxxx"), "perf script");
        import_refused(import_text("INFO 2026 starting: the server\nINFO 2026 ready: at last\n"),
                       "unrecognised profile format");
}

/* A byte that is no UTF-8 is shown as \xHH, a backslash stays one. */
static void test_bytes(void **state)
{
        struct imported *i = import_text("\xef\xbb\xbf"
                                         "a\xff;C:\\x 1\n");

        (void) state;
        import_expect(i, NULL, "a\\xFF;C:\\x 1\n");
        import_done(i);
}

/* The deepest 4,096 frames of 5,000 stay. */
static void test_deep(void **state)
{
        char *text = malloc(5000 * 8), *at = text;
        struct imported *i;

        (void) state;
        for (unsigned n = 0; n < 5000; n++)
                at += sprintf(at, "f%u;", n);
        strcpy(at - 1, " 1\n");
        i = import_text(text);
        assert_int_equal(i->r, 0);
        assert_int_equal(i->found.truncated, 1);
        assert_int_equal(i->found.stacks, 4096);
        import_done(i);
        free(text);
}

static const char perf[] = "tokio worker 3  4711/4720  [003] 88123.456789:   10101010 cpu-clock:ppp: \n"
                           "\t    55d0c0ffee10 step::{{closure}}+0x20 (/opt/my app/serve (v2))\n"
                           "\t    55d0c0ffe000 spawn (inlined)\n"
                           "\t    55d0c0ffe000 thread_start+0x1b (/opt/my app/serve (v2))\n"
                           "\t    7f00deadbeef start_thread+0x2f3 (/usr/lib/libc.so.6 (deleted))\n"
                           "\n"
                           "idle  6100/6100  [002] 88123.466789:   10101010 cpu-clock:ppp: \n"
                           "\n"
                           "task 6100/6100  [002] 88123.466789:   500000000 async: \n"
                           "\t               0 (app.py:3) (app.py)\n"
                           "\n"
                           "t 16705 88123.476789:          7 context-switches: \n"
                           "\tffffffff9c807ad3 [unknown] ([kernel.kallsyms])\n"
                           "\t    7f1200000042 [unknown] ([unknown])";

static void test_perf(void **state)
{
        struct imported *i = import_text(perf);

        (void) state;
        assert_string_equal(i->found.format, "perf-script");
        assert_int_equal(i->found.rows, 4);
        assert_int_equal(i->found.first_t_ns, 88123456789000);
        assert_int_equal(i->found.last_t_ns, 88123476789000);
        assert_int_equal(i->found.n_modes, 3);
        assert_string_equal(i->found.modes[0].mode, "cpu");
        assert_int_equal(i->found.modes[0].samples, 2);
        assert_true(fabs(i->found.modes[0].weight - 0.02020202) < 1e-15);
        assert_string_equal(i->found.modes[1].mode, "async");
        assert_true(i->found.modes[1].weight == 0.5);
        assert_string_equal(i->found.modes[2].mode, "context-switches/count");
        assert_true(i->found.modes[2].weight == 7);
        import_expect(i, "cpu", "[truncated] 1\nstart_thread;thread_start;spawn;step::{{closure}} 1\n");
        import_expect(i, "context-switches/count", "[unknown];[kernel.kallsyms]_[k] 1\n");
        import_done(i);
}

/* Without call chains the frame stands in the line of its sample; records of mappings are none. */
static void test_perf_lines(void **state)
{
        struct imported *i = import_text("# perf version : 6.1\n"
                                         "     my worker 1 16707 13391.804561:    2004008 cpu-clock:      "
                                         "5565cfdde175 heavy+0xc (/tmp/t)\n"
                                         "               t 16705 13391.805: PERF_RECORD_MMAP2 1/1: [0x1(0x2)]\n"
                                         "               t 16705 13391.806:    2004008 cpu-clock:      "
                                         "5565cfdde175 heavy+0x1c (/tmp/t)\n"
                                         "rubbish\n");

        (void) state;
        assert_string_equal(i->found.by, "perf 6.1");
        assert_int_equal(i->found.rows, 2);
        assert_int_equal(import_skip(i, "not samples")->where, 3);
        assert_int_equal(import_skip(i, "neither")->where, 5);
        import_expect(i, NULL, "heavy 2\n");
        import_done(i);
}

static void test_perf_sources(void **state)
{
        struct imported *i = import_text("t 5/5 1.000000: 1 cycles:u: \n"
                                         "\t  1175 inl+0xc\n  t.c:8 (inlined)\n"
                                         "\t  1175 heavy+0xc (/tmp/t)\n  t.c:9\n"
                                         "\t  2304 start_impl+0x84\n  start.c:360 (inlined)\n"
                                         "\t  10a0 _start+0x20 (/tmp/t)\n  ??:0\n"
                                         "\tffffffff821ecc26 sys+0x46 ([kernel.kallsyms])\n"
                                         "  [kernel.kallsyms][ffffffff821ecc26]\n\n");

        (void) state;
        assert_int_equal(i->found.frames, 4); /* start_impl is not inlined into _start: their addresses differ */
        assert_string_equal(i->found.modes[0].mode, "cycles/count");
        assert_int_equal(i->found.n_skips, 0);
        import_expect(i, NULL, "sys_[k];_start;start_impl;heavy;inl 1\n");
        import_done(i);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_folded),         cmocka_unit_test(test_folded_brackets),
                cmocka_unit_test(test_folded_counts),  cmocka_unit_test(test_folded_owners),
                cmocka_unit_test(test_folded_inlined), cmocka_unit_test(test_folded_refused),
                cmocka_unit_test(test_bytes),          cmocka_unit_test(test_deep),
                cmocka_unit_test(test_perf),           cmocka_unit_test(test_perf_lines),
                cmocka_unit_test(test_perf_sources),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
