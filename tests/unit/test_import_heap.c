/* Heap profiles of heaptrack, jemalloc, tcmalloc, memray and pprof: contents made by hand, sums by hand. */
#include "import_text.h"

#include <math.h>

#define STRINGS "v 10400 3\nX ./t\ns 4 /a/t\ns 4 main\ns 3 f.c\ns 1 g\ns 1b operator new(unsigned long)\n"
/* main; g inlined into main; operator new; code of t without a name. */
#define PLACES "i 1000 1 2 3 a\ni 1010 1 4 3 14 2 3 b\ni 2000 1 5 0 0\ni 3000 1\ni 4000 1 2\n"
#define TRACES "t 1 0\nt 2 1\nt 3 2\nt 4 1\n"
#define KINDS "a 64 3\na a 4\na 7 1\n"
#define HEAPTRACK STRINGS PLACES TRACES KINDS

/* 217 bytes are the most; later 100 of them are freed and taken again, 10 are freed. */
static void test_heaptrack(void **state)
{
        struct imported *i = import_text(HEAPTRACK "+ 2\nc 5\n+ 0\n+ 0\n+ 1\nc a\nR 10\n- 0\n+ 1\n- 1\n- 1\n+ 0\n"
                                                   "# strings: 5\n# ips: 4\n");

        (void) state;
        assert_string_equal(i->found.format, "heaptrack");
        assert_string_equal(i->found.by, "heaptrack 1.4.0");
        import_expect(i, "heap-allocated", "main 7\nmain;[t] 20\nmain;main;g 300\n");
        import_expect(i, "heap-peak", "main 7\nmain;[t] 10\nmain;main;g 200\n");
        import_expect(i, "heap", "main 7\nmain;main;g 200\n");
        import_expect(i, "alloc_space", "main 7\nmain;[t] 20\nmain;main;g 300\n");
        import_expect(i, "alloc_objects", "main 1\nmain;[t] 2\nmain;main;g 3\n");
        import_expect(i, "inuse_objects", "main 1\nmain;main;g 2\n");
        import_expect(i, "heap-live", "main 7\nmain;main;g 200\n");
        assert_int_equal(i->found.duration_ns, 10000000);
        assert_int_equal(i->found.last_t_ns - i->found.first_t_ns, 10000000);
        assert_int_equal(i->found.n_skips, 0);
        import_done(i);
        i = import_text(HEAPTRACK "+ 0\n");
        assert_non_null(import_skip(i, "ends that are missing"));
        import_done(i);
        /* Version 1 has no sizes before texts. */
        i = import_text("v 10100 1\ns main\ni 1 0 1 0 0\nt 1 0\na 3 1\n+ 0\n# ips: 1\n");
        import_expect(i, "heap", "main 3\n");
        import_done(i);
}

static void test_heaptrack_refused(void **state)
{
        static const struct {
                const char *text, *part;
        } cases[] = {
                { "v 10500 4\n", "version 4 of heaptrack's format, and versions 1 to 3" },
                { "v 10000 0\n", "version 0 of heaptrack's format" },
                { STRINGS "s 5 four\n", "line 8: a text is shorter" },
                { STRINGS "s 3 four\n", "line 8: a text is shorter" },
                { STRINGS "i 1 9\n", "line 8: the module of a place" },
                { STRINGS "i 1 1 2 3\n", "line 8: a function of a place" },
                { STRINGS "i 1 1 9\n", "line 8: a function of a place is not among" },
                { STRINGS "i 1 1 2 9 1\n", "line 8: a function of a place" },
                { STRINGS "i 1 1 2 3 1 x\n", "line 8: a place ends in" },
                { STRINGS "t 1 0\n", "line 8: a stack names a place" },
                { STRINGS PLACES "t 1 1\n", "line 13: a stack names a place or a caller" },
                { STRINGS PLACES TRACES "a 5 5\n", "line 17: a block names a stack" },
                { HEAPTRACK "+ 3\n", "line 20: a block is allocated or freed" },
                { HEAPTRACK "- 0\n", "line 20: a block is freed that was not" },
                { HEAPTRACK "+ 1\n- 0\n", "line 21: a block is freed that was not" },
                { HEAPTRACK "+\n", "line 20: a block is allocated or freed" },
                { HEAPTRACK "c 5\nc 4\n", "line 21: its time" },
                { HEAPTRACK "a 7fffffffffffffff 1\n+ 3\n+ 3\n", "line 22: the sizes add up" },
                { HEAPTRACK "? 4\n", "line 20: this is not a line" },
                { STRINGS "m 1 0\n", "heaptrack --raw" },
                { HEAPTRACK, "no sample" },
        };

        (void) state;
        for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                import_refused(import_text(cases[i].text), cases[i].part);
        import_refused(import_bytes("s 1 a\n", 6, "heaptrack"), "line 1: the line with the version");
}

/* Nodes in a chain, each called by the one before it, and a block of the last one. The caller frees. */
static char *chain(unsigned depth)
{
        struct infp_str text = { 0 };

        infp_str_puts(&text, "v 10400 3\ns 4 main\ni 1 0 1 0 0\n");
        for (unsigned i = 0; i < depth; i++)
                infp_str_printf(&text, "t 1 %x\n", i);
        infp_str_printf(&text, "a 64 %x\n+ 0\n", depth);
        return infp_str_take(&text);
}

static void test_heaptrack_depth(void **state)
{
        char *deepest = chain(4096), *deeper = chain(4097);
        struct imported *i = import_text(deepest);

        (void) state;
        if (i->r < 0)
                fail_msg("%s", i->err.text);
        assert_int_equal(i->found.stacks, 4096);
        assert_int_equal(i->found.truncated, 0);
        import_done(i);
        import_refused(import_text(deeper), "line 4100: a stack is deeper than 4,096 functions");
        free(deepest);
        free(deeper);
}

/* Ends an import that is in what follows the last read: asked by the read that finds the end it says no, then yes. */
struct stop {
        int fd;
        off_t size;
        unsigned n_at_end;
};

static bool stop_at_end(void *context)
{
        struct stop *stop = context;

        return lseek(stop->fd, 0, SEEK_CUR) == stop->size && stop->n_at_end++ > 0;
}

static void expect_stop(struct infp_str *text)
{
        int pair[2];
        struct stop stop = { .size = (off_t) text->size };
        struct infp_import_options options = { .path = "FILE", .is_stop = stop_at_end, .context = &stop };

        assert_true(text->size > 128 << 10); /* the end is found by one read alone */
        assert_int_equal(pipe(pair), 0);
        assert_int_equal(write(pair[1], "x", 1), 1);
        options.stop_fd = pair[0];
        options.fd = stop.fd = import_file(text->data, text->size);
        import_refused(import_with(&options), "was stopped; nothing was kept");
        assert_int_equal(stop.n_at_end, 2);
        close(pair[0]);
        close(pair[1]);
        infp_str_done(text);
}

static void test_stopped_after_the_last_read(void **state)
{
        struct infp_str heaptrack = { 0 }, jemalloc = { 0 };

        (void) state;
        infp_str_puts(&heaptrack, HEAPTRACK);
        infp_str_puts(&jemalloc, "heap_v2/1000\n");
        for (unsigned i = 0; i < 20000; i++) {
                infp_str_puts(&heaptrack, "+ 0\n- 0\n+ 0\n");
                infp_str_puts(&jemalloc, "@ 0x5\n t*: 1: 2 [0: 0]\n");
        }
        expect_stop(&heaptrack);
        expect_stop(&jemalloc);
}

#define MAPS                                                            \
        "\nMAPPED_LIBRARIES:\n"                                         \
        "00400000-00401000 r-xp 00000000 fe:00 1   /a/prog\n"           \
        "7f0000000000-7f0000001000 r--p 00000000 fe:00 2  /a/li b.so\n" \
        "7f0000001000-7f0000002000 r-xp 00001000 fe:00 2  /a/li b.so\n" \
        "7f0000002000-7f0000003000 rw-p 00000000 00:00 0 \n"            \
        "7f0000004000-7f0000005000 r-xp 00000000 fe:00 2  /a/libjemalloc.so.2 (deleted)\n"

/* 1 / (1 - e^-0.1) = 10.5083, 1 / (1 - e^-5) = 1.00678. Calls lie before the return addresses; the allocator's are left out. */
static void test_jemalloc(void **state)
{
        struct imported *i =
                import_text("heap_v2/1000\n  t*: 3: 5200 [4: 400]\n  t0: 3: 5200 [4: 400]\n"
                            "@ 0x7f0000004101 0x400101 0x400201\n  t*: 2: 200 [4: 400]\n  t0: 2: 200 [4: 400]\n"
                            "@ 0x7f0000001101 0x400201\n  t*: 1: 5000 [0: 0]\n  t0: 1: 5000 [0: 0]\n" MAPS);

        (void) state;
        assert_string_equal(i->found.format, "heap-text");
        import_expect(i, "heap", "[prog+0x400200];[li b.so+0x1100] 5034\n[prog+0x400200];[prog+0x400100] 2102\n");
        import_expect(i, "inuse_objects", "[prog+0x400200];[li b.so+0x1100] 1\n[prog+0x400200];[prog+0x400100] 21\n");
        import_expect(i, "heap-allocated", "[prog+0x400200];[prog+0x400100] 4203\n");
        assert_int_equal(i->found.samples, 2 + 4 + 1);
        assert_int_equal(import_skip(i, "in the allocator")->n, 1);
        import_done(i);
}

static void test_tcmalloc(void **state)
{
        struct imported *i = import_text("heap profile:     50:   410000 [   310:  1022800] @ heapprofile\n"
                                         "    40:   400000 [   100:  1000000] @ 0x400101 0x400201\n"
                                         "     0:        0 [   200:    12800] @ 0x400301 0x400201\n" MAPS);

        (void) state;
        import_expect(i, "heap", "[prog+0x400200];[prog+0x400100] 400000\n");
        import_expect(i, "heap-allocated",
                      "[prog+0x400200];[prog+0x400100] 1000000\n[prog+0x400200];[prog+0x400300] 12800\n");
        import_done(i);
        i = import_text("heap profile: 2: 200 [ 2: 200] @ heap_v2/1000\n 2: 200 [ 2: 200] @ 0x400101\n");
        import_expect(i, "heap", "[0x400100] 2102\n");
        assert_int_equal(i->found.n_modes, 1); /* the brackets repeat what is in use */
        assert_non_null(import_skip(i, "MAPPED_LIBRARIES"));
        import_done(i);
        i = import_text("heap profile: 2: 2 [ 3: 3] @ heap_v2/1\n 2: 2 [ 3: 3] @ 0x400101\n");
        import_expect(i, "heap", "[0x400100] 2\n"); /* each block is sampled */
        import_expect(i, "heap-allocated", "[0x400100] 3\n");
        import_done(i);
}

static void test_heap_text_refused(void **state)
{
        static const struct {
                const char *text, *part;
        } cases[] = {
                { "heap_v2/\n", "line 1: the bytes from one sample" },
                { "heap_v2/0\n", "line 1: the bytes from one sample" },
                { "heap profile: 1: 2 [3: 4\n", "line 1: the sums" },
                { "heap profile: 1: 2 [3: 4] @ growthz\n", "line 1: this kind of profile" },
                { "heap profile: 1: 2 [3: 4] @ heapprofile\n 1: x [1: 2] @ 0x1\n", "line 2: counts of a stack" },
                { "heap profile: 1: 2 [3: 4] @ heapprofile\n 1: 2 [1: 2]\n", "line 2: a stack is missing" },
                { "heap profile: 1: 2 [3: 4] @ heapprofile\n -1: 2 [1: 2] @ 0x5\n", "line 2: counts of a stack" },
                { "heap_v2/1000\n@ 0x1 zz\n", "line 2: an address" },
                { "heap_v2/1000\n@ 0x11111111111111111\n", "line 2: an address" },
                { "heap_v2/1000\n@ 0x5\n@ 0x6\n", "line 3: the stack before it" },
                { "heap_v2/1000\n@ 0x5\n", "line 2: it ends before the counts" },
                { "heap_v2/1000\n@ 0x5\n t*: 1: 2 [0\n", "line 3: counts of a stack" },
                { "heap_v2/1000\n@ 0x5\n t*\n", "line 3: counts of a stack" },
                { "heap_v2/1000\n@ 0x5\nt*: 1: 9223372036854775808 [0: 0]\n", "line 3: counts of a stack" },
                { "heap_v2/1000\nwhat\n", "line 2: this is neither" },
                { "heap_v2/1000\n" MAPS, "no sample" },
        };

        (void) state;
        for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                import_refused(import_text(cases[i].text), cases[i].part);
        import_refused(import_bytes("@ 0x5\n", 6, "heap-text"), "line 1: the line that such profiles begin with");
}

#define COLUMNS "allocator,num_allocations,size,tid,thread_name,stack_trace\r\n"

/* A line of the longest size that is a name alone, each character of which could end it, takes no longer than its size. */
static void test_memray_long(void **state)
{
        struct infp_str text = { 0 };

        (void) state;
        infp_str_puts(&text, COLUMNS "A,1,2,3,n,f;1x");
        for (unsigned i = 0; i < 4000000; i++)
                infp_str_putc(&text, '|');
        infp_str_puts(&text, "\n");
        import_refused(import_bytes(text.data, text.size, NULL), "line 2: a function of the stack");
        infp_str_done(&text);
}

static void test_memray(void **state)
{
        struct imported *i =
                import_text(COLUMNS "MALLOC,2,300,1,0x1 (MainThread),f;a.py;3|<module>;a.py;9\r\n"
                                    "MMAP,1,10,1,\"0x2 (two \"\"x\"\", y)\",\"operator|(A, B);a.cc;12|main;;0\"\r\n"
                                    "CALLOC,1,5,1,,\r\n");

        (void) state;
        assert_string_equal(i->found.format, "memray");
        import_expect(i, "heap-peak", "<module>;f 300\n[truncated] 5\nmain;operator|(A, B) 10\n");
        import_expect(i, "peak_objects", "<module>;f 2\n[truncated] 1\nmain;operator|(A, B) 1\n");
        import_done(i);
        i = import_text(COLUMNS "M,2,300,1,n,operator|;1x|;a.cc;12|f;b|c;d.cc;3\n");
        import_expect(i, "heap-peak", "f:b|c;operator|:1x| 300\n");
        import_done(i);
        import_refused(import_text(COLUMNS "MALLOC,2\n"), "line 2: it has fewer or more fields");
        import_refused(import_text(COLUMNS "A,1,2,3,n,f;a;1,x\n"), "line 2: it has fewer or more fields");
        import_refused(import_text(COLUMNS "A,1,2,3,\"n,f;a;1\n"), "line 2: a quoted field");
        import_refused(import_text(COLUMNS "A,1,-2,3,n,f;a;1\n"), "line 2: its numbers");
        import_refused(import_text(COLUMNS "A,1,2,3,n,f;a\n"), "line 2: a function of the stack");
        import_refused(import_text(COLUMNS "A,1,2,3,n,f;1\n"), "line 2: a function of the stack");
        import_refused(import_text(COLUMNS), "no sample");
        import_refused(import_bytes("a,b\n1,2\n", 8, "memray"), "line 1: these are not the columns");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_heaptrack),
                cmocka_unit_test(test_heaptrack_refused),
                cmocka_unit_test(test_jemalloc),
                cmocka_unit_test(test_tcmalloc),
                cmocka_unit_test(test_heap_text_refused),
                cmocka_unit_test(test_memray),
                cmocka_unit_test(test_memray_long),
                cmocka_unit_test(test_heaptrack_depth),
                cmocka_unit_test(test_stopped_after_the_last_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
