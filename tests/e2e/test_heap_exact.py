"""The heap, counted block by block: record --heap=exact. All that programs say of themselves is met to the byte."""
import collections
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

import waits
from program import query, run
from pythons import PYTHONS
from waiting import wait_for, wait_for_rows

TRUTH = pathlib.Path(__file__).resolve().parents[3] / "shared" / "truth"
ONE = "system" if "system" in PYTHONS else next(iter(PYTHONS), None)
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
needs_truth = pytest.mark.skipif(not TRUTH.is_dir(), reason=f"{TRUTH} is not there")


@pytest.fixture
def build(tmp_path):
    def call(text, *words, name="program"):
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        done = run(["gcc", "-O1", "-g", "-fno-builtin", *words, source, "-o", tmp_path / name, "-pthread"])
        assert done.returncode == 0, done.stderr
        return tmp_path / name

    return call


def exact(record, *command, words=(), **options):
    done = record("--heap=exact", "--no-snapshots", *words, command=command, **options)
    assert done.returncode == 0, done.stderr
    return done


def by_function(recorded, mode, names):
    """{function: [bytes, blocks]}: rows in whose stacks it is."""
    found = collections.defaultdict(lambda: [0, 0])
    for row in waits.rows(recorded, mode):
        for name in {frame.name.split("(")[0] for frame in row.frames if frame.name} & set(names):
            found[name][0] += row.weight
            found[name][1] += row.samples
    return found


def check_ledger(recorded, said):
    allocated, live = (by_function(recorded, mode, said["functions"]) for mode in ("heap-allocated", "heap"))
    for name, truth in said["functions"].items():
        assert allocated[name] == [truth["bytes"], truth["allocs"]], (name, allocated[name], truth)
        assert live.get(name, [0, 0]) == [truth["live_bytes"], truth["live"]], (name, live.get(name), truth)
    assert set(name for name, (_, blocks) in live.items() if blocks) == {name for name, truth in said["functions"].items() if truth["live"]}
    return allocated


def sampler(recorded):
    return [row for row in recorded.table("sampler") if row["mode"] == "heap-allocated"][-1]


def heap(infprof, recorded, *words):
    done = run([infprof, "heap", *words, "--json", "-r", recorded.path])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compile_truth(tmp_path, name, compiler="gcc", standard="gnu17"):
    made = run([compiler, "-O2", "-g", f"-std={standard}", "-D_GNU_SOURCE", TRUTH / name, "-o", tmp_path / "truth", "-pthread"])
    assert made.returncode == 0, made.stderr
    return tmp_path / "truth"


@needs_gcc
@needs_truth
@pytest.mark.parametrize("factor", [1, 5])
def test_truth(infprof, record, tmp_path, factor):
    """Each function's blocks and bytes, allocated and in use at the end; the peak within 5 %; nothing of the child in its parent."""
    done = exact(record, compile_truth(tmp_path, "alloc_truth.c"), "-x", factor)
    said = json.loads(done.stdout)
    check_ledger(done.run, said)
    peak = (64 << 20) + said["live_bytes"]
    memory = heap(infprof, done.run)["memory"]
    assert 0.95 * peak <= memory["peak_bytes"]["estimate"] <= 1.001 * peak, (memory, peak)
    assert 0.95 * peak <= by_function(done.run, "heap-peak", ["main"])["main"][0] - 512_000 * factor <= 1.001 * peak
    windows = done.run.table("heap_windows")
    assert all(row["variance"] == 0 == row["allocated_variance"] and row["mean_bytes"] == 0 for row in windows)
    parent = {row["process"] for row in windows if row["live"] >= 4 << 20}
    assert len(parent) == 1 and {row["process"] for row in windows} > parent
    child = [row for row in windows if row["process"] not in parent]
    assert sum(row["allocated"] for row in child) == 512_000 * factor and sum(row["allocations"] for row in child) == 1000 * factor, child
    assert sum(row["allocated"] - row["freed"] for row in windows) == sum(row["live"] for row in windows if row["is_last"])
    assert done.run.table("heap_samples") == []
    row = sampler(done.run)
    assert (row["lost"], row["dropped"], row["incomplete"]) == (0, 0, 0) and row["method"].startswith("exact"), row
    assert row["taken"] == sum(row["samples"] for row in windows)


@needs_gcc
@needs_truth
@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
def test_truth_of_cxx(record, tmp_path):
    done = exact(record, compile_truth(tmp_path, "alloc_truth_cpp.cc", "g++", "gnu++17"))
    check_ledger(done.run, json.loads(done.stdout))


@needs_gcc
@needs_truth
def test_storm(infprof, record, tmp_path):
    """Threads that free each other's blocks."""
    done = exact(record, compile_truth(tmp_path, "malloc_storm.c"), "-n", 300_000, "-t", 4)
    said = json.loads(done.stdout)
    check_ledger(done.run, said)
    shown = heap(infprof, done.run)
    memory = shown["memory"]
    assert (shown["estimated"], shown["method"], shown["quality"], memory["sample_bytes"]) == (False, "exact", "measured", None)
    for name in ("allocated_bytes", "end_bytes", "held_bytes", "peak_bytes"):
        assert memory[name]["low"] == memory[name]["high"] == memory[name]["estimate"], memory[name]
    assert memory["allocated_bytes"]["estimate"] - said["bytes"] < 20_000 > memory["end_bytes"]["estimate"] - said["live_bytes"] >= 0  # libc's own
    assert 0.95 * said["live_bytes"] < memory["peak_bytes"]["estimate"] < 1.05 * said["live_bytes"]
    text = run([infprof, "heap", "-r", done.run.path]).stdout
    assert "exact: every block since before main was counted" in text and "95 %" not in text and "sampled" not in text, text
    top = json.loads(run([infprof, "flamegraph", "--mode", "heap", "--top", "--json", "-r", done.run.path]).stdout)
    leak = next(row for row in top["heap"]["top_functions"] if row["name"] == "storm_leak")
    assert leak["self"]["percent_low"] == leak["self"]["percent"] == leak["self"]["percent_high"], leak
    for what in ("sizes", "temporary"):
        refused = run([infprof, "heap", what, "-r", done.run.path])
        assert refused.returncode == 1 and "no single blocks (--heap=exact)" in refused.stderr and not refused.stdout, refused


SMALL = """\
import sys
kept = []

def keep():
    kept.extend([b"%0100d" % i for i in range(20000)])

def big():
    kept.append(bytearray(5_000_000))

keep()
big()
print(sum(map(sys.getsizeof, kept[:20000])))
"""


@pytest.mark.skipif(not PYTHONS, reason="no Python to record")
@pytest.mark.parametrize("name", PYTHONS)
def test_python(record, tmp_path, name):
    """Objects of Python's own allocator and of malloc, with the function that made them: each of 20,000, to the byte."""
    program = tmp_path / "small.py"
    program.write_text(SMALL)
    words, environment = PYTHONS[name]
    done = exact(record, *words, "-I", "-S", program, env={**os.environ, **environment})
    small = [row for row in waits.rows(done.run, "heap-peak") if {"keep", "<listcomp>"} & {frame.name for frame in row.frames}]
    size = int(done.stdout) // 20000
    assert sum(row.samples for row in small if row.weight == size * row.samples) == 20000, small
    assert 5_000_000 <= by_function(done.run, "heap-peak", ["big"])["big"][0] < 5_001_000
    row = sampler(done.run)
    bad = row["python_unmerged"] + row["python_torn"] + row["python_missed"]
    assert row["python_merged"] > 100 and bad <= 0.005 * row["python_merged"] + 1 and row["lost"] == 0, row


@pytest.mark.skipif(not ONE, reason="no Python to record")
@pytest.mark.parametrize("words", [["--heap=exact"], ["--heap=64K"]])
def test_beside_the_sampler(record, tmp_path, words):
    """The sampler inside Python makes the ring file, whose head has to say what the heap's agent does."""
    program = tmp_path / "small.py"
    program.write_text(SMALL)
    python, environment = PYTHONS[ONE]
    done = record(*words, "--cpu", "--python=inside", "--no-snapshots", command=[*python, "-I", "-S", program], env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    windows = done.run.table("heap_windows")
    assert sum(row["allocated"] for row in windows) > 6_000_000
    assert {row["mean_bytes"] for row in windows} == ({0} if words == ["--heap=exact"] else {64 << 10}), windows[:3]


# ---- ends ----

KEEPS = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) void keep(void) { static void *volatile last; for (int i = 0; i < 1234; i++) last = malloc(100); }
__attribute__((noinline)) void keep_more(void) { static void *volatile last; for (int i = 0; i < 77; i++) last = malloc(1000); }
int main(int argc, char **argv)
{
        keep();
        if (argc > 2)
                execl(argv[0], argv[0], argv[2], NULL);
        keep_more();
        if (!strcmp(argv[1], "wait")) {
                puts("begun");
                fflush(stdout);
                pause();
        }
        if (!strcmp(argv[1], "abort"))
                abort();
        _exit(0);
}
"""


@needs_gcc
@pytest.mark.parametrize("way", ["exit", "exec", "abort"])
def test_ends(record, build, way):
    """Nothing is missing of what a process did just before its _exit, exec or abort."""
    path = build(KEEPS)
    command = [path, "x", "y"] if way == "exec" else [path, way]
    done = record("--heap=exact", "--no-snapshots", command=command)
    twice = 2 if way == "exec" else 1
    assert by_function(done.run, "heap-allocated", ["keep", "keep_more"]) == {"keep": [twice * 123_400, twice * 1234], "keep_more": [77_000, 77]}
    assert by_function(done.run, "heap", ["keep_more"])["keep_more"] == [77_000, 77]


@needs_gcc
def test_target_is_killed(infprof, run_dir, build):
    """The sums are in the ring file, which outlives the process: of a killed one nothing is missing."""
    path = build(KEEPS)
    recorder = subprocess.Popen([infprof, "record", "--heap=exact", "--no-snapshots", "-o", run_dir, "--", path, "wait"], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)
    assert recorder.stdout.readline() == "begun\n"
    child, = pathlib.Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGKILL)
    recorder.wait()
    recorded = run_dir.run()
    assert by_function(recorded, "heap", ["keep", "keep_more"]) == {"keep": [123_400, 1234], "keep_more": [77_000, 77]}


@needs_gcc
def test_recorder_is_killed(infprof, run_dir, build):
    """The windows that were written are there, and the program goes on."""
    path = build("#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
                 "int main(void) { for (long i = 1; getchar() == 'x'; i++) { char *p = malloc(5000); p[0] = 1; printf(\"%ld\\n\", i); fflush(stdout); }"
                 " puts(\"done\"); return 0; }\n")
    recorder = subprocess.Popen([infprof, "record", "--heap=exact", "--no-snapshots", "-o", run_dir, "--", path], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def allocate():
        recorder.stdin.write("x")
        recorder.stdin.flush()
        return int(recorder.stdout.readline())

    assert allocate() == 1
    wait_for_rows(infprof, run_dir, 1, "heap_windows")
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()
    assert [allocate() for _ in range(100)] == list(range(2, 102))
    recorder.stdin.close()
    assert recorder.stdout.read() == "done\n"
    recorded = run_dir.run()
    shown = heap(infprof, recorded)["memory"]
    assert shown["has_ended"] is False and shown["end_bytes"]["estimate"] >= 5000, shown


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_programs_do_not_wait_for_a_recorder_that_cannot_come(infprof, run_dir, number):
    """One that was killed, which nobody has waited for yet, or that was stopped."""
    recorder = subprocess.Popen([infprof, "record", "--heap=exact", "--no-snapshots", "-o", run_dir, "--", "sh", "-c",
                                 "while read line; do /bin/echo $line; done"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                text=True)

    def begin_one():
        began = time.monotonic()
        recorder.stdin.write("x\n")
        recorder.stdin.flush()
        assert recorder.stdout.readline() == "x\n"
        return time.monotonic() - began

    begin_one()
    recorder.send_signal(number)
    os.waitid(os.P_PID, recorder.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
    took = [begin_one() for _ in range(3)]
    recorder.stdin.close()
    if number == signal.SIGSTOP:
        recorder.send_signal(signal.SIGCONT)
    recorder.wait()
    assert min(took) < 2, took  # the wait for tables ends after 3 s


@needs_gcc
def test_forks(record, build):
    """Each child has its own sums, and begins with none: what its parent had is not its own when it frees it."""
    path = build("""\
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *kept[100];
__attribute__((noinline)) void of_parent(void) { for (int i = 0; i < 100; i++) kept[i] = malloc(700); }
__attribute__((noinline)) void of_child(void) { for (int i = 0; i < 10; i++) { kept[i] = malloc(300); if (i % 2) free(kept[i]); } }
int main(void)
{
        of_parent();
        for (int i = 0; i < 100; i++) {
                pid_t child = fork();
                if (!child) {
                        for (int k = 50; k < 100; k++)
                                free(kept[k]);
                        of_child();
                        _exit(0);
                }
                waitpid(child, NULL, 0);
        }
        return 0;
}
""")
    done = exact(record, path)
    assert by_function(done.run, "heap-allocated", ["of_parent", "of_child"]) == {"of_parent": [70_000, 100], "of_child": [300_000, 1000]}
    assert by_function(done.run, "heap", ["of_parent", "of_child"]) == {"of_parent": [70_000, 100], "of_child": [150_000, 500]}
    windows = done.run.table("heap_windows")
    assert len({row["process"] for row in windows}) == 101 and min(row["live"] for row in windows) >= 0


# ---- bounds ----

MANY = """\
#include <stdlib.h>
static void *volatile last;
#define F(n) __attribute__((noinline)) void f##n(int depth) { if (depth) { (depth & 1 ? f##n : g##n)(depth >> 1); __asm__ volatile(""); } else last = malloc(10); }
__attribute__((noinline)) void g0(int depth);
F(0)
void g0(int depth) { if (depth) { (depth & 1 ? f0 : g0)(depth >> 1); __asm__ volatile(""); } else last = malloc(10); }
int main(void) { for (int i = 0; i < 20000; i++) f0(i + (1 << 15)); return 0; }
"""


@needs_gcc
def test_more_stacks_than_fit(infprof, record, build):
    """The rest is one stack, which says so; the sums stay what they are."""
    done = exact(record, build(MANY, "-fno-optimize-sibling-calls"), env={**os.environ, "INFPROF_RING_BYTES": "1M"})
    assert "allocates from more stacks than its ring file has room for" in done.stderr, done.stderr
    assert by_function(done.run, "heap", ["[other stacks]", "f0"])["[other stacks]"][1] > 1000
    windows = done.run.table("heap_windows")
    assert sum(row["allocations"] for row in windows) == 20_000 and sum(row["allocated"] for row in windows) == 200_000
    assert sampler(done.run)["lost"] == 0


@needs_gcc
def test_in_signal_handlers(infprof, record, build):
    """A block that a handler takes in the middle of another one is in no sum, and is counted as lost. It allocates while the agent is at work
    alone: the allocator itself bears no more."""
    path = build("""\
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
static volatile unsigned long begin, end;
static void *volatile kept;
static long n;
static volatile long handled;
__attribute__((noinline)) void in_handler(void) { kept = malloc(77); handled++; }
static void handle(int number, siginfo_t *info, void *context)
{
        const unsigned long at = ((ucontext_t *) context)->uc_mcontext.gregs[REG_RIP];
        (void) number;
        (void) info;
        if (at >= begin && at < end)
                in_handler();
}
__attribute__((noinline)) void in_program(void) { free(malloc(50)); n++; }
int main(void)
{
        FILE *maps = fopen("/proc/self/maps", "r");
        unsigned long from, to;
        char line[4096];
        while (fgets(line, sizeof line, maps))
                if (strstr(line, "r-xp") && strstr(line, "libinfprof-agent") && sscanf(line, "%lx-%lx", &from, &to) == 2) {
                        begin = from;
                        end = to;
                }
        sigaction(SIGALRM, &(struct sigaction){ .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART }, NULL);
        setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 300 }, { 0, 300 } }, NULL);
        while (handled < 300)
                in_program();
        setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 0 }, { 0, 0 } }, NULL);
        in_program();
        printf("[%ld, %ld]\\n", n, handled);
        return 0;
}
""", "-D_GNU_SOURCE")
    done = exact(record, path)
    program, handler = json.loads(done.stdout)
    allocated = by_function(done.run, "heap-allocated", ["in_handler"])["in_handler"]
    lost = sampler(done.run)["lost"]
    assert 0 < lost <= handler == allocated[1] + lost and allocated[0] == 77 * allocated[1], (handler, allocated, lost)
    names = [({frame.name for frame in row.frames}, row.samples) for row in waits.rows(done.run, "heap-allocated")]
    assert sum(n for found, n in names if "in_program" in found and "in_handler" not in found) == program
    assert f"but for {lost} blocks" in run([infprof, "heap", "-r", done.run.path]).stdout


@needs_gcc
def test_many_threads(record, build):
    """More threads than the agent has work areas, on one CPU: those that have none wait."""
    path = build("""\
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
static pthread_barrier_t all;
__attribute__((noinline)) void leak(void) { static void *volatile last; last = malloc(64); }
__attribute__((noinline)) void use(int depth) { if (depth) { use(depth - 1); __asm__ volatile(""); } else free(malloc(32)); }
static void *work(void *context)
{
        pthread_barrier_wait(&all);
        for (int i = 0; i < 40000; i++) {
                use(i % 30);
                if (i % 100 == 0)
                        leak();
        }
        return context;
}
int main(void)
{
        static pthread_t threads[300];
        cpu_set_t one;
        sched_getaffinity(0, sizeof one, &one);
        for (int i = 0, n = 0; i < CPU_SETSIZE; i++)
                if (CPU_ISSET(i, &one) && n++)
                        CPU_CLR(i, &one);
        sched_setaffinity(0, sizeof one, &one);
        pthread_barrier_init(&all, NULL, 300);
        for (int i = 0; i < 300; i++)
                if (pthread_create(&threads[i], NULL, work, NULL))
                        return 1;
        for (int i = 0; i < 300; i++)
                pthread_join(threads[i], NULL);
        return 0;
}
""", "-D_GNU_SOURCE", "-fno-optimize-sibling-calls")
    done = exact(record, path)
    assert by_function(done.run, "heap-allocated", ["leak", "use"]) == {"leak": [300 * 400 * 64, 300 * 400], "use": [12_000_000 * 32, 12_000_000]}
    assert by_function(done.run, "heap", ["leak", "use"]) == {"leak": [300 * 400 * 64, 300 * 400]}
    assert sampler(done.run)["lost"] == 0


# ---- leaks ----

@needs_gcc
def test_leak(infprof, record, build):
    """Verdicts from exact windows: the leak alone, at its rate; a cache that fills, and a pool that is replaced, are none."""
    path = build("""\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define NOINLINE __attribute__((noinline))
static void *volatile lost;
static void *cache[100000], *slots[1000];
static long leaked, cached, pooled;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
NOINLINE void leak_here(void) { lost = malloc(400); leaked++; }
NOINLINE void fill_cache(void) { cache[cached++] = malloc(900); }
NOINLINE void use_pool(int i) { free(slots[i]); slots[i] = malloc(600); pooled++; }
int main(void)
{
        const double begin = now();
        for (double at = 0; at < 8; at = now() - begin) {
                while (leaked < 200 * at)
                        leak_here();
                while (cached < 200 * (at < 3 ? at : 3))
                        fill_cache();
                while (pooled < 1000 + 500 * at)
                        use_pool(pooled < 1000 ? pooled : rand() % 1000);
                nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
        }
        printf("[%ld, %ld]\\n", leaked, cached);
        return 0;
}
""")
    done = exact(record, path)
    leaked, cached = json.loads(done.stdout)
    leak, = [row for row in heap(infprof, done.run, "leaks")["leaks"] if row["verdict"] == "leak"]
    assert leak["function"] == "leak_here" and leak["bytes"]["low"] == leak["bytes"]["high"] == 400 * leaked and leak["samples"] == leaked, leak
    assert 0.9 * leak["bytes_per_s"]["low"] < 80_000 < 1.1 * leak["bytes_per_s"]["high"] and leak["oldest_s"] > 5, leak
    spots = {row["function"]: row for row in heap(infprof, done.run)["memory"]["hotspots"]}
    assert spots["fill_cache"]["verdict"] == "cache" and spots["fill_cache"]["bytes"]["estimate"] == 900 * cached, spots["fill_cache"]
    assert spots["use_pool"]["verdict"] in ("steady", "temporary") and spots["use_pool"]["bytes"]["estimate"] == 600_000, spots["use_pool"]
    rows = done.run.table("heap_windows")
    assert all(0 <= row["low"] <= row["live"] and 0 <= row["old"] <= row["live"] and row["temporary"] <= row["freed"] for row in rows)


@pytest.mark.parametrize("value", ["Exact", "exactly", "ex", "exact,64K"])
def test_refused(record, value):
    done = record(f"--heap={value}", command=["true"])
    assert done.returncode == 125 and f"--heap={value}: a sample each 1K to 1G bytes, or exact" in done.stderr, done
