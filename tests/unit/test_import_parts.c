/* Parts of the importers: lines of perf script, names, units, messages of Protocol Buffers, sets of ids. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/ids.h"
#include "base/mem.h"
#include "import/name.h"
#include "import/perf_line.h"
#include "import/protobuf.h"
#include "import/unit.h"

static void expect_text(struct infp_import_text text, const char *wanted)
{
        assert_int_equal(text.size, strlen(wanted));
        assert_memory_equal(text.size ? text.data : "", wanted, text.size);
}

static void test_heads(void **state)
{
        static const struct {
                const char *line, *comm, *event, *rest;
                int pid, tid, cpu;
                uint64_t t_ns, period;
        } cases[] = {
                { "Web 7 C  6000/6001  [001] 88123.476789:   10101010 cpu-clock:ppp: ", "Web 7 C", "cpu-clock", "",
                  6000, 6001, 1, 88123476789000, 10101010 },
                { "my worker 1 16707 13391.804561:    2004008 cpu-clock: ", "my worker 1", "cpu-clock", "", 0, 16707,
                  -1, 13391804561000, 2004008 },
                { "swapper     0 [000] 1.000000001:     1 cycles:  ffffffff810 a+0x4 ([kernel.kallsyms])", "swapper",
                  "cycles", "ffffffff810 a+0x4 ([kernel.kallsyms])", 0, 0, 0, 1000000001, 1 },
                { "java 12 [007] 5.25: sched:sched_switch: prev_comm=a b: 7", "java", "sched:sched_switch",
                  "prev_comm=a b: 7", 0, 12, 7, 5250000000, 0 },
                { "a:b c 3/4 1.5: cpu_core/cycles/Pu:", "a:b c", "cpu_core/cycles/", "", 3, 4, -1, 1500000000, 0 },
                { "noperiod 3/4 [001] 1.5: 99 ", "noperiod", "", "99", 3, 4, 1, 1500000000, 0 },
                { "notime 3/4 [001] instructions:u: ", "notime", "instructions", "", 3, 4, 1, 0, 0 },
                { "only 7 100 cycles: ", "only", "cycles", "", 0, 7, -1, 0, 100 },
                { "nothread 1.5: 5 cycles:", "nothread", "cycles", "", 0, 0, -1, 1500000000, 5 },
                { "gone -1/-1 1.5: 5 cycles:", "gone", "cycles", "", 0, 0, -1, 1500000000, 5 },
        };
        static const char *const others[] = { "",        "java",       "a;b;c 5", "\t 55aa main+0x1 (/usr/bin/web)",
                                              "a b c d", "x 1.2.3: y", "# 1.5: z" };

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_perf_head head;

                assert_true(infp_perf_head(infp_import_text(cases[i].line), &head));
                expect_text(head.comm, cases[i].comm);
                expect_text(head.event, cases[i].event);
                expect_text(head.rest, cases[i].rest);
                assert_int_equal(head.pid, cases[i].pid);
                assert_int_equal(head.tid, cases[i].tid);
                assert_int_equal(head.cpu, cases[i].cpu);
                assert_int_equal(head.has_time, cases[i].t_ns != 0);
                assert_int_equal(head.t_ns, cases[i].t_ns);
                assert_int_equal(head.has_period, cases[i].period != 0);
                assert_int_equal(head.period, cases[i].period);
        }
        for (unsigned i = 0; i < INFP_COUNT(others) - 1; i++) {
                struct infp_perf_head head;

                assert_false(infp_perf_head(infp_import_text(others[i]), &head));
        }
}

static void test_frames(void **state)
{
        static const struct {
                const char *line, *name, *object;
                uint64_t address;
                bool is_inlined, is_deleted;
        } cases[] = {
                { "\t    55aa00001000 ns::(anonymous namespace)::Run(int (*)(char, long)) const+0x4 (/usr/bin/web)",
                  "ns::(anonymous namespace)::Run(int (*)(char, long)) const", "/usr/bin/web", 0x55aa00001000, 0, 0 },
                { "\t 1 step+0x20 (/opt/my app/bin/serve (v2))", "step", "/opt/my app/bin/serve (v2)", 1, 0, 0 },
                { "\t 1 start+0x2f3 (/usr/lib/libc.so.6 (deleted))", "start", "/usr/lib/libc.so.6", 1, 0, 1 },
                { "\t 8d40a1c8 java.util.HashMap.getNode ([JIT app cache])", "java.util.HashMap.getNode",
                  "[JIT app cache]", 0x8d40a1c8, 0, 0 },
                { "\t 2 std::thread::spawn (inlined)", "std::thread::spawn", "", 2, 1, 0 },
                { "\tffffffff9c807ad3 [unknown] ([kernel.kallsyms])", "", "[kernel.kallsyms]", 0xffffffff9c807ad3, 0,
                  0 },
                { "\t 3 [unknown] ([unknown])", "", "", 3, 0, 0 },
                { "\t 4 f+0x1 (/lib/x.so+0x1234)", "f", "/lib/x.so", 4, 0, 0 },
                { "\t 5 f+0x1 (/tmp/a)b)", "f", "/tmp/a)b", 5, 0, 0 },
                { "\t 6 operator()(int)", "operator()(int)", "", 6, 0, 0 },
                { "\t 7", "", "", 7, 0, 0 },
                { "\t 8 (/usr/bin/x)", "", "/usr/bin/x", 8, 0, 0 },
        };
        static const char *const others[] = { "", "\t", "  t.c:9", "\txyz f (/a)", "\t 12345678901234567 f (/a)" };

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++) {
                struct infp_perf_frame frame;

                assert_true(infp_perf_frame(infp_import_text(cases[i].line), &frame));
                expect_text(frame.name, cases[i].name);
                expect_text(frame.object, cases[i].object);
                assert_int_equal(frame.address, cases[i].address);
                assert_int_equal(frame.is_inlined, cases[i].is_inlined);
                assert_int_equal(frame.is_deleted, cases[i].is_deleted);
        }
        for (unsigned i = 0; i < INFP_COUNT(others); i++) {
                struct infp_perf_frame frame;

                assert_false(infp_perf_frame(infp_import_text(others[i]), &frame));
        }
}

static void test_names(void **state)
{
        static const struct {
                const char *text, *name, *file, *object;
                int line;
                enum infp_frame_kind kind;
                bool is_unnamed;
        } cases[] = {
                { "run (server.py:12)", "run", "server.py", "", 12, INFP_FRAME_PYTHON, false },
                { "<module> (a b.py)", "<module>", "a b.py", "", 0, INFP_FRAME_PYTHON, false },
                { "/x/server.py:run:12", "run", "/x/server.py", "", 12, INFP_FRAME_PYTHON, false },
                { "f (int)", "f (int)", "", "", 0, INFP_FRAME_NATIVE, false },
                { "std::a:b:12", "std::a:b:12", "", "", 0, INFP_FRAME_NATIVE, false },
                { "[unknown]", "[unknown]", "", "", 0, INFP_FRAME_UNKNOWN, true },
                { "[libfoo.so+0x1200]", "[libfoo.so+0x1200]", "", "libfoo.so", 0, INFP_FRAME_UNKNOWN, true },
                { "[kernel.kallsyms]", "[kernel.kallsyms]", "", "kernel.kallsyms", 0, INFP_FRAME_KERNEL, true },
        };
        static struct infp_import_place place;

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++) {
                infp_import_name(infp_import_text(cases[i].text), &place);
                assert_int_equal(place.n_levels, 1);
                expect_text(place.levels[0].name, cases[i].name);
                expect_text(place.levels[0].file, cases[i].file);
                expect_text(place.object, cases[i].object);
                assert_int_equal(place.levels[0].line, cases[i].line);
                assert_int_equal(place.kind, cases[i].kind);
                assert_int_equal(place.is_unnamed, cases[i].is_unnamed);
        }
}

static void test_objects(void **state)
{
        static const struct {
                const char *object;
                enum infp_frame_kind kind;
        } cases[] = {
                { "[kernel.kallsyms]", INFP_FRAME_KERNEL },
                { "/lib/modules/6.1/kernel/net/nf.ko.xz", INFP_FRAME_KERNEL },
                { "[nf_tables]", INFP_FRAME_KERNEL },
                { "[vdso]", INFP_FRAME_VDSO },
                { "[heap]", INFP_FRAME_NATIVE },
                { "[python]", INFP_FRAME_PYTHON },
                { "/tmp/perf-12.map", INFP_FRAME_JIT },
                { "/usr/lib/libstdc++.so.6", INFP_FRAME_CXX_RUNTIME },
                { "/usr/bin/python3", INFP_FRAME_NATIVE },
                { "", INFP_FRAME_UNKNOWN },
        };

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++)
                assert_int_equal(infp_import_kind_of_object(infp_import_text(cases[i].object)), cases[i].kind);
}

static void test_modes(void **state)
{
        static const struct {
                const char *type, *unit, *mode;
                double factor;
        } cases[] = {
                { "cpu", "nanoseconds", "cpu", 1e-9 },
                { "cpu-time", "us", "cpu", 1e-6 },
                { "wall", "milliseconds", "wall", 1e-3 },
                { "offcpu", "ns", "off-cpu", 1e-9 },
                { "async", "nanoseconds", "async", 1e-9 },
                { "heap", "nanoseconds", "heap/nanoseconds", 1 },
                { "delay", "nanoseconds", "delay/nanoseconds", 1 },
                { "inuse_space", "bytes", "heap", 1 },
                { "alloc_space", "bytes", "heap-allocated", 1 },
                { "inuse_space", "count", "inuse_space/count", 1 },
                { "cpu", "count", "cpu/count", 1 },
                { "", "", "value/none", 1 },
                { "a\nb\xff", "count", "a?b?/count", 1 },
        };

        (void) state;
        for (unsigned i = 0; i < INFP_COUNT(cases); i++) {
                char mode[INFP_IMPORT_MODE_TEXT];

                assert_true(infp_import_mode(infp_import_text(cases[i].type), infp_import_text(cases[i].unit), mode) ==
                            cases[i].factor);
                assert_string_equal(mode, cases[i].mode);
        }
}

/* 08 96 01 is field 1 = 150; 12 03 abc is field 2; 22 04 03 8E 02 9E are 3, 270 and a number that does not end. */
static void test_protobuf(void **state)
{
        static const uint8_t good[] = "\x08\x96\x01\x12\x03"
                                      "abc"
                                      "\x22\x03\x03\x8e\x02\x25\x01\x02\x03\x04";
        static const char *const bad[] = { "\x08",
                                           "\x08\x96",
                                           "\x12\x05\x61\x62\x63",
                                           "\x0b",
                                           "\x25\x01",
                                           "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
                                           "\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" };
        struct infp_proto proto = infp_proto(good, sizeof(good) - 1);
        struct infp_proto_field field;
        uint64_t v;
        size_t at = 0;

        (void) state;
        assert_int_equal(infp_proto_next(&proto, &field), 1);
        assert_int_equal(field.number, 1);
        assert_int_equal(field.value, 150);
        assert_int_equal(infp_proto_packed(&field, &at, &v), 1);
        assert_int_equal(infp_proto_packed(&field, &at, &v), 0);
        assert_int_equal(infp_proto_next(&proto, &field), 1);
        assert_int_equal(field.size, 3);
        assert_memory_equal(field.bytes, "abc", 3);
        assert_int_equal(infp_proto_next(&proto, &field), 1);
        at = 0;
        assert_int_equal(infp_proto_packed(&field, &at, &v), 1);
        assert_int_equal(v, 3);
        assert_int_equal(infp_proto_packed(&field, &at, &v), 1);
        assert_int_equal(v, 270);
        assert_int_equal(infp_proto_packed(&field, &at, &v), 0);
        assert_int_equal(infp_proto_next(&proto, &field), 1);
        assert_int_equal(field.value, 0x04030201);
        assert_int_equal(infp_proto_next(&proto, &field), 0);
        for (unsigned i = 0; i < INFP_COUNT(bad); i++) {
                proto = infp_proto(bad[i], strlen(bad[i]));
                assert_int_equal(infp_proto_next(&proto, &field), -EBADMSG);
        }
        proto = infp_proto("\x22\x02\x03\x8e", 4);
        assert_int_equal(infp_proto_next(&proto, &field), 1);
        at = 0;
        assert_int_equal(infp_proto_packed(&field, &at, &v), 1);
        assert_int_equal(infp_proto_packed(&field, &at, &v), -EBADMSG);
}

static void test_ids(void **state)
{
        struct infp_ids ids;

        (void) state;
        infp_ids_init(&ids, 5000);
        for (uint64_t id = 1; id <= 5000; id++)
                assert_int_equal(infp_ids_add(&ids, id << 32), 1);
        for (uint64_t id = 1; id <= 5000; id++)
                assert_int_equal(infp_ids_add(&ids, id << 32), 0);
        assert_int_equal(infp_ids_add(&ids, 7), -ENOSPC);
        infp_ids_clear(&ids);
        assert_int_equal(infp_ids_add(&ids, 7), 1);
        infp_ids_done(&ids);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_heads),   cmocka_unit_test(test_frames), cmocka_unit_test(test_names),
                cmocka_unit_test(test_objects), cmocka_unit_test(test_modes),  cmocka_unit_test(test_protobuf),
                cmocka_unit_test(test_ids),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
