/* Stacks of programs at work, against elfutils' own unwinder on the same registers and memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "skip_because.h"

#ifdef HAVE_LIBDW
#include <elfutils/libdwfl.h>

#include "unwind_traced.h"

enum { N_MOMENTS = 150, MAX_FRAMES = 512 };

static struct traced_moment moments[N_MOMENTS];

/* What elfutils reads, and what it finds. */
struct theirs {
        const struct traced_moment *moment;
        uint64_t pcs[MAX_FRAMES];
        unsigned n;
};

static pid_t next_thread(Dwfl *dwfl, void *context, void **ret)
{
        if (*ret)
                return 0;
        *ret = context;
        return dwfl_pid(dwfl);
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *ret, void *context)
{
        const struct infp_unwind_dump *dump = &((struct theirs *) context)->moment->dump;

        (void) dwfl;
        if (address < dump->begin || address - dump->begin > dump->size - 8)
                return false;
        memcpy(ret, dump->bytes + (address - dump->begin), 8);
        return true;
}

static bool set_registers(Dwfl_Thread *thread, void *context)
{
        const struct theirs *theirs = context;
        Dwarf_Word values[INFP_N_REGISTERS];

        memcpy(values, theirs->moment->values, sizeof(values));
        return dwfl_thread_state_registers(thread, 0, INFP_N_REGISTERS, values);
}

static int take_frame(Dwfl_Frame *frame, void *context)
{
        struct theirs *theirs = context;
        Dwarf_Addr pc;

        if (!dwfl_frame_pc(frame, &pc, NULL) || theirs->n == MAX_FRAMES)
                return DWARF_CB_ABORT;
        theirs->pcs[theirs->n++] = pc;
        return DWARF_CB_OK;
}

/* Only moments that both reach the end of are compared: what a dump of 64 KiB cuts is counted as truncated. */
static void compare(const char *what, char *const *command, unsigned cpu_ms)
{
        static const Dwfl_Callbacks find = { .find_elf = dwfl_linux_proc_find_elf,
                                             .find_debuginfo = dwfl_standard_find_debuginfo };
        static const Dwfl_Thread_Callbacks callbacks = { .next_thread = next_thread,
                                                         .memory_read = read_memory,
                                                         .set_initial_registers = set_registers };
        static struct unwind_self self;
        static struct theirs theirs;
        static struct infp_unwind_frame frames[MAX_FRAMES];
        const struct timespec pause = { 0, 3000000 };
        unsigned n = 0, n_equal = 0, n_complete = 0, n_truncated = 0, n_frames = 0;
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
        dwfl = dwfl_begin(&find);
        assert_non_null(dwfl);
        assert_int_equal(dwfl_linux_proc_report(dwfl, pid), 0);
        assert_int_equal(dwfl_report_end(dwfl, NULL, NULL), 0);
        assert_true(dwfl_attach_state(dwfl, NULL, pid, &callbacks, &theirs));
        for (unsigned i = 0; i < n; i++) {
                const struct infp_unwind_start start = { &self.space, &moments[i].dump, 1, false, moments[i].values };
                struct infp_unwind_result result;
                bool is_equal;

                infp_unwind(&start, NULL, frames, MAX_FRAMES, &result);
                n_frames += result.n_frames;
                n_complete += result.end == INFP_UNWIND_COMPLETE;
                n_truncated += result.end == INFP_UNWIND_TRUNCATED;
                if (result.end == INFP_UNWIND_TRUNCATED)
                        continue;
                theirs.moment = &moments[i];
                theirs.n = 0;
                dwfl_getthread_frames(dwfl, pid, take_frame, &theirs);
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
        print_message(
                "%u stacks of %s, %.1f frames each: %u complete, %u truncated, %u of the others equal to elfutils'\n",
                n, what, n ? (double) n_frames / n : 0.0, n_complete, n_truncated, n_equal);
        assert_int_equal(n, N_MOMENTS);
        assert_int_equal(n_complete + n_truncated, n);
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
        FILE *file;
        int fd;

        (void) state;
        if (access(command[0], X_OK) != 0)
                SKIP_BECAUSE("clang-14 is not installed: no compiler to look at");
        fd = mkstemps(path, 2);
        assert_true(fd >= 0);
        file = fdopen(fd, "w");
        assert_non_null(file);
        for (int i = 0; i < 4000; i++)
                fprintf(file,
                        "int f%d(int *a, int n) { int s = %d; for (int i = 0; i < n; i++) { if (a[i] > %d) s += a[i] * "
                        "%d; "
                        "else s ^= a[i] / (n + %d); a[i] = s; } return s; }\n",
                        i, i, i % 7, i % 13, i % 5 + 1);
        fclose(file);
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
