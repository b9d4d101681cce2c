/* Samples of programs at work, as a profiler gets them, unwound by us and by elfutils from the same registers and bytes.
 *
 *   test_unwind_samples                       the programs below, as tests
 *   test_unwind_samples NAME HZ N COMMAND...  N samples of one command: figures alone (tests/bench)
 *   test_unwind_samples NAME HZ N --pid TID   the same of a thread that runs already */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "skip_because.h"

#ifdef HAVE_LIBDW
#include "perf_samples.h"
#include "unwind_theirs.h"
#include "unwind_traced.h"

enum { N_SAMPLES = 1500, SAMPLE_HZ = 2000, WORK_MS = 300, MAX_SECONDS = 60, MAX_SHOWN = 10 };

static struct perf_moment *moments;

struct figures {
        unsigned n, n_full, n_full_guessing, n_truncated, n_truncated_guessing, n_equal, n_longer, n_untabled, n_shown;
        uint64_t n_frames, n_equal_frames;
};

static void take_all(struct perf_ring *ring, pid_t pid, unsigned wanted, unsigned *ret_n)
{
        const struct timespec pause = { 0, 10000000 };

        *ret_n = 0;
        for (unsigned i = 0; *ret_n < wanted && i < MAX_SECONDS * 100 && kill(pid, 0) == 0; i++) {
                nanosleep(&pause, NULL);
                *ret_n += perf_take(ring, moments + *ret_n, wanted - *ret_n);
        }
}

static void compare_one(Dwfl *dwfl, pid_t pid, const struct unwind_self *self, const struct perf_moment *moment,
                        struct theirs *theirs, struct figures *figures)
{
        static struct infp_unwind_frame frames[THEIRS_FRAMES];
        const uint64_t begin = moment->values[INFP_RSP];
        /* The kernel stops at the size that was asked for, and at the first page that is not in memory: those of a large
         * buffer that nobody has written yet lie within the stack. */
        const struct infp_unwind_dump dump = { moment->stack, begin, moment->size,
                                               begin + moment->size < self->stack_end };
        struct infp_unwind_start start = { &self->space, &dump, 1, false, moment->values, 0 };
        struct infp_unwind_result result;
        bool has_end;
        unsigned k = 0;

        infp_unwind(&start, NULL, frames, THEIRS_FRAMES, &result);
        has_end = theirs_unwind(dwfl, pid, theirs, &dump, moment->values);
        while (k < theirs->n && k < result.n_frames && frames[k].pc == theirs->pcs[k])
                k++;
        figures->n++;
        figures->n_full += result.end == INFP_UNWIND_COMPLETE;
        figures->n_truncated += result.end == INFP_UNWIND_TRUNCATED;
        figures->n_equal_frames += k;
        if (k == result.n_frames && k == theirs->n) {
                figures->n_equal++;
                figures->n_frames += k;
        } else if ((!has_end || k == theirs->n) && result.end == INFP_UNWIND_COMPLETE) {
                figures->n_longer++; /* elfutils stops in some epilogues, or ends there: no frames to compare with */
                figures->n_frames += k;
        } else if (result.end == INFP_UNWIND_NO_TABLE && k == result.n_frames) {
                figures->n_untabled++; /* elfutils goes on by the frame pointer: a guess, which it does not call so */
                figures->n_frames += k;
        } else {
                figures->n_frames += theirs->n > result.n_frames ? theirs->n : result.n_frames;
                if (figures->n_shown++ < MAX_SHOWN)
                        print_message("  %u frames, %s at %#" PRIx64 "; elfutils %u, equal %u\n", result.n_frames,
                                      infp_unwind_end_name(result.end), result.address, theirs->n, k);
        }
        /* As the sampler does it: across code without tables (hand-written, or made at run time). */
        start.may_guess = true;
        infp_unwind(&start, NULL, frames, THEIRS_FRAMES, &result);
        figures->n_full_guessing += result.end == INFP_UNWIND_COMPLETE;
        figures->n_truncated_guessing += result.end == INFP_UNWIND_TRUNCATED;
}

/* Samples of a process that goes on: its mappings are read behind them. */
static void compare(pid_t pid, const struct unwind_self *self, unsigned n, struct figures *ret)
{
        static struct theirs theirs;
        Dwfl *dwfl = theirs_open(pid, &theirs);

        *ret = (struct figures){ 0 };
        for (unsigned i = 0; i < n; i++)
                compare_one(dwfl, pid, self, &moments[i], &theirs, ret);
        dwfl_end(dwfl);
}

static double percent(uint64_t part, uint64_t whole)
{
        return whole ? 100.0 * (double) part / (double) whole : 0;
}

static void say(const char *what, const struct figures *f, uint64_t n_lost)
{
        print_message("%s: %u stacks, %.1f frames each: %.2f %% full (%.2f %% with guesses), %.2f %% truncated; %.3f "
                      "%% of frames, %.2f %% of "
                      "stacks equal to elfutils', %.2f %% longer (full, where elfutils stopped), %.2f %% in code "
                      "without a table, %" PRIu64 " lost\n",
                      what, f->n, f->n ? (double) f->n_frames / f->n : 0.0, percent(f->n_full, f->n),
                      percent(f->n_full_guessing, f->n), percent(f->n_truncated, f->n),
                      percent(f->n_equal_frames, f->n_frames), percent(f->n_equal, f->n), percent(f->n_longer, f->n),
                      percent(f->n_untabled, f->n), n_lost);
}

static int sample(const char *what, char *const *command, pid_t attached, unsigned hz, unsigned wanted,
                  struct figures *ret)
{
        static struct unwind_self self;
        pid_t pid = attached ? attached : fork();
        struct perf_ring ring;
        unsigned n;
        int r;

        if (pid == 0) {
                const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

                prctl(PR_SET_PDEATHSIG, SIGKILL);
                dup2(null, 1);
                execvp(command[0], command);
                _exit(127);
        }
        if (!attached)
                traced_wait(pid, WORK_MS);
        moments = calloc(wanted, sizeof(*moments));
        r = moments ? perf_open(&ring, pid, hz) : -ENOMEM;
        if (r == 0) {
                take_all(&ring, pid, wanted, &n);
                unwind_process(&self, pid);
                compare(pid, &self, n, ret);
                say(what, ret, ring.n_lost);
                perf_close(&ring);
        }
        free(moments);
        moments = NULL;
        if (!attached)
                traced_end(pid);
        return r;
}

/* The bounds of a healthy build, in percent of the stacks: that end (or are cut), and that do so without a guess. */
static void check(const char *what, char *const *command, double least_full, double least_exact)
{
        struct figures f;

        if (access(command[0], X_OK) != 0)
                SKIP_BECAUSE("the program to look at is not installed");
        if (sample(what, command, 0, SAMPLE_HZ, N_SAMPLES, &f) < 0)
                SKIP_BECAUSE("perf_event_open is refused here: no samples to unwind");
        assert_true(f.n * 10 >= N_SAMPLES * 9u); /* or the program ended too early */
        assert_true(percent(f.n_full_guessing, f.n) >= least_full);
        assert_true(percent(f.n_full_guessing + f.n_truncated_guessing, f.n) >= 99.9);
        assert_true(percent(f.n_full + f.n_truncated, f.n) >= least_exact);
        assert_true(percent(f.n_equal_frames, f.n_frames) >= 99.9);
        assert_true(percent(f.n_equal + f.n_longer + f.n_untabled, f.n) >= 99.9);
        /* 5 of 1,500 stacks of numpy fall into those epilogues: by Poisson 22 are one chance in ten million. */
        assert_true(percent(f.n_longer, f.n) <= 1.5);
}

static void test_python(void **state)
{
        char *command[] = { (char *) "/usr/bin/python3", (char *) "-c", (char *) TRACED_PYTHON, NULL };

        (void) state;
        check("python3", command, 99.9, 99.9);
}

/* Its extension modules are of two compilers; OpenBLAS's innermost loops are hand-written, some without a table. Those of Haswell have a
 * frame of 28 KiB, and where a page of it was never written the copy ends (4 % of the stacks here). */
static void test_numpy(void **state)
{
        char program[] = "import numpy as np\n"
                         "r = np.random.default_rng(1)\n"
                         "while True:\n"
                         "    a = r.normal(size=(120, 120))\n"
                         "    np.linalg.svd(a)\n"
                         "    np.sort(np.exp(a) @ a, axis=0).astype('f4').cumsum().astype(str)\n"
                         "    np.fft.fft(a); np.einsum('ij,jk->ik', a, a); np.unique(a.round(2))\n";
        char path[1024];
        char *command[] = { path, (char *) "-c", program, NULL };

        (void) state;
        snprintf(path, sizeof(path), "%s/../../.deps/venv/bin/python", getenv("INFP_FIXTURES") ?: "tests/fixtures");
        setenv("OPENBLAS_NUM_THREADS", "1", 1); /* one thread is sampled */
        check("numpy", command, 93, 93);
}

/* A compiler at work on a file that keeps it busy: two large libraries of C++, deep stacks of scattered code. How many of them are
 * deeper than the copy depends on the pass that a machine samples: 3 to 16 % were seen. */
static void test_cxx(void **state)
{
        char path[] = "/tmp/infprof-unwind-XXXXXX.c";
        char *command[] = { (char *) "/usr/bin/clang-14", (char *) "-O2", (char *) "-S", (char *) "-o",
                            (char *) "/dev/null",         path,           NULL };

        (void) state;
        if (access(command[0], X_OK) != 0)
                SKIP_BECAUSE("clang-14 is not installed: no compiler to look at");
        traced_write_source(path);
        check("C++ (clang)", command, 60, 99.9);
        unlink(path);
}

static void test_rust(void **state)
{
        char *command[] = { (char *) "/usr/bin/rg",
                            (char *) "-j1",
                            (char *) "-c",
                            (char *) "--no-mmap",
                            (char *) "(foo|b[aeiou]r)+[0-9]{2,}x?(\\w+)\\s\\p{Greek}",
                            (char *) "-r",
                            (char *) "$1",
                            (char *) "/dev/urandom",
                            NULL };

        (void) state;
        if (access(command[0], X_OK) != 0)
                SKIP_BECAUSE("ripgrep is not installed: no Rust program to look at");
        check("Rust (ripgrep)", command, 99.9, 99.9);
}

static int figures_of(char **argv)
{
        const bool is_attached = strcmp(argv[4], "--pid") == 0;
        struct figures f;
        int r = sample(argv[1], argv + 4, is_attached ? atoi(argv[5]) : 0, (unsigned) atoi(argv[2]),
                       (unsigned) atoi(argv[3]), &f);

        if (r < 0) {
                fprintf(stderr, "perf_event_open is refused here: %s\n", strerror(-r));
                return 77;
        }
        return percent(f.n_equal_frames, f.n_frames) < 99.9;
}
#else
static void test_python(void **state)
{
        (void) state;
        SKIP_BECAUSE("libdw-dev is not installed: no unwinder to compare with");
}
#define test_numpy test_python
#define test_cxx test_python
#define test_rust test_python

static int figures_of(char **argv)
{
        (void) argv;
        return 77;
}
#endif

int main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_python), cmocka_unit_test(test_numpy),
                                            cmocka_unit_test(test_cxx), cmocka_unit_test(test_rust) };

        if (argc > 4 && !(argc == 5 && argv[4][0] == '-'))
                return figures_of(argv);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
