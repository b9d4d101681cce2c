/* Stacks of programs at work, against elfutils' own unwinder on the same registers and memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "skip_because.h"

#ifdef HAVE_LIBDW
#include "unwind_theirs.h"
#include "unwind_traced.h"

enum { N_MOMENTS = 150 };

static struct traced_moment moments[N_MOMENTS];

/* A machine that is slow, or busy, is still loading the program: the loader's first function has no unwind table. */
static bool is_in_loader(const struct unwind_self *self, const struct infp_unwind_frame *frames, uint32_t n)
{
        for (unsigned i = 0; n && i < self->space.n_mappings; i++)
                if (frames[n - 1].pc >= self->mappings[i].begin && frames[n - 1].pc < self->mappings[i].end)
                        return strstr(self->files[i].path, "/ld-linux");
        return false;
}

/* Only moments that both reach the end of are compared: what a dump of 64 KiB cuts is counted as truncated. */
static void compare(const char *what, char *const *command, unsigned cpu_ms)
{
        static struct unwind_self self;
        static struct theirs theirs;
        static struct infp_unwind_frame frames[THEIRS_FRAMES];
        const struct timespec pause = { 0, 3000000 };
        unsigned n = 0, n_equal = 0, n_complete = 0, n_truncated = 0, n_loading = 0, n_frames = 0;
        pid_t pid;
        Dwfl *dwfl;

        if (access(command[0], X_OK) != 0)
                SKIP_BECAUSE("the program to look at is not installed");
        pid = traced_begin(command, cpu_ms);
        if (pid < 0)
                SKIP_BECAUSE("ptrace is refused here: no stacks to unwind");
        while (n < N_MOMENTS && traced_take(pid, &moments[n])) {
                n++;
                nanosleep(&pause, NULL);
        }
        unwind_process(&self, pid);
        dwfl = theirs_open(pid, &theirs);
        for (unsigned i = 0; i < n; i++) {
                const struct infp_unwind_start start = { &self.space, &moments[i].dump, 1, false, moments[i].values };
                struct infp_unwind_result result;
                bool is_equal;

                infp_unwind(&start, NULL, frames, THEIRS_FRAMES, &result);
                if (is_in_loader(&self, frames, result.n_frames)) {
                        n_loading++;
                        continue;
                }
                n_frames += result.n_frames;
                n_complete += result.end == INFP_UNWIND_COMPLETE;
                n_truncated += result.end == INFP_UNWIND_TRUNCATED;
                if (result.end == INFP_UNWIND_TRUNCATED)
                        continue;
                theirs_unwind(dwfl, pid, &theirs, &moments[i].dump, moments[i].values);
                is_equal = theirs.n == result.n_frames;
                for (unsigned k = 0; is_equal && k < theirs.n; k++)
                        is_equal = frames[k].pc == theirs.pcs[k];
                n_equal += is_equal;
                if (!is_equal)
                        print_message("  %u frames, %s; elfutils %u\n", result.n_frames,
                                      infp_unwind_end_name(result.end), theirs.n);
        }
        dwfl_end(dwfl);
        traced_end(pid);
        print_message("%u stacks of %s, %.1f frames each: %u in the loader, %u complete, %u truncated, %u of the "
                      "others equal to "
                      "elfutils'\n",
                      n, what, n ? (double) n_frames / n : 0.0, n_loading, n_complete, n_truncated, n_equal);
        assert_int_equal(n, N_MOMENTS);
        assert_int_equal(n_loading + n_complete + n_truncated, n);
        assert_true(n_complete * 2 > n);
        assert_true(n_equal + 2 >= n_complete); /* elfutils itself stops in some epilogues */
}

static void test_python(void **state)
{
        char *command[] = { (char *) "/usr/bin/python3", (char *) "-c", (char *) TRACED_PYTHON, NULL };

        (void) state;
        compare("python3", command, 400);
}

/* C++ of two large libraries, deep: a compiler at work on a file that keeps it busy. */
static void test_compiler(void **state)
{
        char path[] = "/tmp/infprof-unwind-XXXXXX.c";
        char *command[] = { (char *) "/usr/bin/clang-14", (char *) "-O2", (char *) "-S", (char *) "-o",
                            (char *) "/dev/null",         path,           NULL };

        (void) state;
        if (access(command[0], X_OK) != 0)
                SKIP_BECAUSE("clang-14 is not installed: no compiler to look at");
        traced_write_source(path);
        compare("clang", command, 300);
        unlink(path);
}
#else
static void test_python(void **state)
{
        (void) state;
        SKIP_BECAUSE("libdw-dev is not installed: no unwinder to compare with");
}

static void test_compiler(void **state)
{
        (void) state;
        SKIP_BECAUSE("libdw-dev is not installed: no unwinder to compare with");
}
#endif

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_python), cmocka_unit_test(test_compiler) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
