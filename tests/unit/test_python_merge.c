/* Native and Python stacks of one moment, joined: a letter a frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "unwind/python/merge.h"

enum { MAX = 64 };

static const struct infp_python_range ranges[] = {
        { 0x1000, 0x2000, false }, { 0x3000, 0x4000, false }, { 0x5000, 0x6000, true }, { 0x6000, 0x7000, true }
};

/* Native frames: E and F the loop's two parts, H a handler of a tail-call interpreter, other letters other code. Python frames: lower
 * case a function, upper case one that is an entry, S a shim (an entry), B the thread state's own. Marks: | the native stack is cut,
 * / the Python stack is. */
static const char *merge(const char *native, const char *python, uint32_t max)
{
        static char text[MAX + 1];
        uint64_t pc[MAX];
        bool exact[MAX] = { true };
        struct infp_python_frame frames[MAX] = { 0 };
        uint32_t ret[MAX], n, n_native = 0, n_frames = 0;
        bool native_is_cut = false, frames_are_cut = false;

        for (; native[n_native] && native[n_native] != '|'; n_native++)
                switch (native[n_native]) {
                case 'E':
                        pc[n_native] = n_native ? 0x2000 : 0x1000; /* the last return address, the first place */
                        break;
                case 'F':
                        pc[n_native] = 0x3fff;
                        break;
                case 'H':
                        pc[n_native] = 0x6100;
                        break;
                default:
                        pc[n_native] = n_native ? 0x1000 : 0x2000; /* just outside */
                }
        native_is_cut = native[n_native] == '|';
        for (; python[n_frames] && python[n_frames] != '/'; n_frames++) {
                const char c = python[n_frames];

                frames[n_frames].code = c == 'S' || c == 'B' ? 0 : 0x100;
                frames[n_frames].is_entry = c >= 'A' && c <= 'Z' && c != 'B';
        }
        frames_are_cut = python[n_frames] == '/';
        n = infp_python_merge(pc, exact, n_native, native_is_cut, ranges, 4, frames, n_frames, frames_are_cut, ret,
                              max);
        for (uint32_t i = 0; i < n; i++)
                text[i] = ret[i] & INFP_PYTHON_IS_PYTHON ? python[ret[i] & ~INFP_PYTHON_IS_PYTHON] : native[ret[i]];
        text[n] = 0;
        return text;
}

static void test_merge(void **state)
{
        static const struct {
                const char *native, *python, *merged; /* merged "": shown apart */
        } cases[] = {
                { "EMEM", "CD", "CMDM" },         /* up to 3.10: one frame each loop */
                { "EEM", "CD", "CDM" },           /* a loop that is called by a loop */
                { "xEMEM", "abCdE", "xabCMdEM" }, /* 3.11: up to the entry */
                { "xFMEM", "abScS", "xabMcM" },   /* 3.12: up to the shim, which is left out */
                { "EM", "SB", "M" },              /* a loop that runs nothing yet */
                { "xEM", "aSB", "xaM" },          /* 3.15: and the thread state's frame */
                { "HEMHFM", "abScS", "abMcM" },   /* tail calls: the handler and the loop's own frame are one */
                { "HMHM", "aScS", "aMcM" },       /* handlers alone */
                { "HHEM", "aSbS", "abM" },        /* a handler that a handler calls is a loop of its own */
                { "H", "aS", "a" },
                { "xM", "", "xM" }, /* no Python */
                { "", "", "" },
                { "EM", "", "" },         /* more loops than entries */
                { "EMEM", "aS", "EMaM" }, /* but the innermost, at its first or last instructions */
                { "EEM", "A", "EAM" },
                { "xEMEM", "aS", "" },
                { "EMEMEM", "aS", "" },
                { "HMEM", "aS", "" },
                { "EM", "aSbS", "" }, /* more entries than loops */
                { "EM", "aSb", "" },  /* frames of no loop */
                { "xM", "aS", "" },
                { "xEM|", "aSbScS", "xaMbc" }, /* the native stack is cut: the rest is outermost */
                { "xM|", "aS", "xMa" },
                { "EMEM|", "aS", "" },
                { "EMEMEM", "aSb/", "aMbMEM" }, /* the Python stack is cut */
                { "EMEM", "aS/", "aMEM" },
                { "EM", "/", "EM" },
        };
        (void) state;

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                assert_string_equal(merge(cases[i].native, cases[i].python, MAX), cases[i].merged);
        /* No room for all: the outermost are missing. */
        assert_string_equal(merge("xEMEM", "abCdE", 4), "xabC");
        assert_string_equal(merge("xEMEM", "abCdE", 0), "");
}

static void test_no_ranges(void **state)
{
        const uint64_t pc[] = { 0x1000, 0x1001 };
        const bool exact[] = { true, false };
        uint32_t ret[2];
        (void) state;

        assert_int_equal(infp_python_merge(pc, exact, 2, false, NULL, 0, NULL, 0, false, ret, 2), 2);
        assert_int_equal(ret[1], 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_merge), cmocka_unit_test(test_no_ranges) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
