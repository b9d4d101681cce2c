"""The heap, sampled by functions in front of the allocator's: record --heap."""
import collections
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

import waits
from program import PPROF, query, run
from pythons import FREE, PYTHONS
from waiting import wait_for

TRUTH = pathlib.Path(__file__).resolve().parents[3] / "shared" / "truth"
ONE = "system" if "system" in PYTHONS else next(iter(PYTHONS), None)
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
MEAN = 4096


@pytest.fixture
def build(tmp_path):
    """build(text, words...): a program of C."""
    def call(text, *words, name="program"):
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        done = run([*(words or ("gcc", "-O1", "-g", "-fno-builtin")), source, "-o", tmp_path / name, "-pthread"])
        if done.returncode != 0 and words:
            pytest.skip(f"{' '.join(words)} cannot build a program here")
        assert done.returncode == 0, done.stderr
        return tmp_path / name

    return call


def by_function(recorded, mode, names):
    """{function: (bytes, samples)} of a mode: rows in whose stacks it is."""
    found = collections.defaultdict(lambda: [0, 0])
    for row in waits.rows(recorded, mode):
        for name in {frame.name for frame in row.frames} & set(names):
            found[name][0] += row.weight
            found[name][1] += row.samples
    return found


def sources(recorded):
    return {row["instance"]: (row["state"], row["reason"]) for row in recorded.table("sources") if row["collector"] == "sampler"}


# ---- truth ----

SIZES = {"leak_small": 1024, "keep_reachable": 4096, "churn": 64, "zero_calloc": 512, "hand_over": 128, "die_with_thread": 2048, "leak_big": 1 << 20}


@needs_gcc
@pytest.mark.skipif(not TRUTH.is_dir(), reason=f"{TRUTH} is not there")
@pytest.mark.serial  # beside others the recorder comes late, and says so: samples of a burst are lost or have short stacks
def test_truth(record, tmp_path):
    """Bytes that each function has allocated, and those that are in use at the end, as the program counts them: within 5.5 standard
    deviations of a binomial, which the sizes give. All of a thread that frees what another one allocated, and a child."""
    made = run(["gcc", "-O2", "-g", "-std=gnu17", "-D_GNU_SOURCE", TRUTH / "alloc_truth.c", "-o", tmp_path / "alloc_truth", "-pthread"])
    assert made.returncode == 0, made.stderr
    done = record(f"--heap={MEAN}", "--no-snapshots", command=[tmp_path / "alloc_truth"])
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    found, live = (by_function(done.run, mode, [*said["functions"], "in_child"]) for mode in ("heap-allocated", "heap"))
    for name, size in SIZES.items():
        truth = said["functions"][name]
        missing = (1 - (p := 1 - math.exp(-size / MEAN))) / p  # of the variance of each block's weight, in squares of its size
        for bytes_true, n, (estimated, _) in ((truth["bytes"], truth["allocs"], found[name]), (truth["live_bytes"], truth["live"], live[name])):
            assert abs(estimated - bytes_true) <= 5.5 * size * math.sqrt(n * missing) + 1, (name, estimated, truth)
    assert found["big_block"] == [pytest.approx(64 << 20), 1] and "big_block" not in live
    assert 0.9 < sum(row.weight for row in waits.rows(done.run, "heap-peak")) / ((64 << 20) + 6625280) < 1.1
    rows = done.run.table("heap_samples")
    assert {row["size"] for row in rows} >= set(SIZES.values()) and all(row["address"] for row in rows)
    assert all(row["freed_ns"] is None or row["freed_ns"] > row["t_ns"] for row in rows)
    assert sum(row["weight"] for row in rows) == pytest.approx(sum(row.weight for row in waits.rows(done.run, "heap-allocated")))
    assert sum(row["weight"] for row in rows if row["freed_ns"] is None) == pytest.approx(sum(row.weight for row in waits.rows(done.run, "heap")))
    parent = next(row["process"] for row in rows if row["size"] == 1 << 20)
    p = 1 - math.exp(-512 / MEAN)
    in_child = sum(row["weight"] for row in rows if row["process"] != parent and row["size"] == 512)  # it may end before its stacks can be named
    assert abs(in_child - 512_000) <= 5.5 * 512 * math.sqrt(1000 * (1 - p) / p), in_child
    sampler = [row for row in done.run.table("sampler") if row["mode"] == "heap-allocated"][-1]
    assert sampler["taken"] == len(rows) and sampler["lost"] == 0, sampler
    assert all(row["stack"] for row in rows if row["process"] == parent)


KEEPS = """
#include <stdlib.h>
static void *kept[1000];
__attribute__((noinline)) void keep(int i) { kept[i] = malloc(1000); }
__attribute__((noinline)) void churn(void) { char *volatile p = malloc(1000); p[0] = 1; free(p); }
int main(void)
{
        for (int i = 0; i < 1000; i++) {
                keep(i);
                churn();
        }
        return 0;
}
"""


@needs_gcc
def test_pprof_and_blocks(infprof, record, build, tmp_path):
    """One file has all modes, with bytes and blocks: of 2,000 and 1,000 blocks within 5.5 standard deviations."""
    done = record(f"--heap={MEAN}", "--no-snapshots", command=[build(KEEPS)])
    assert done.returncode == 0, done.stderr
    sums = collections.defaultdict(lambda: [0, 0])
    for row in done.run.table("stack_samples"):
        sums[row["mode"]][0] += row["weight"]
        sums[row["mode"]][1] += row["objects"]
    p = 1 - math.exp(-1000 / MEAN)
    for mode, n in (("heap-allocated", 2000), ("heap", 1000), ("heap-peak", 1000)):
        assert abs(sums[mode][1] - n) <= 5.5 * math.sqrt(n * (1 - p) / p) + 100, (mode, sums)  # libc has blocks of its own
    path = tmp_path / "heap.pb.gz"
    assert run([infprof, "flamegraph", "-r", done.run.path, "--mode", "inuse_space", "--pprof", "-o", path]).returncode == 0
    said = json.loads(run([infprof, "import", path, "-o", tmp_path / "again", "--json"]).stdout)
    assert {mode["mode"] for mode in said["modes"]} == set(sums)
    for mode in said["modes"]:
        assert mode["weight"] == pytest.approx(sums[mode["mode"]][0], rel=1e-3)
    sampled = collections.Counter(row["mode"] for row in done.run.table("stack_samples") for _ in range(row["samples"] or 1))
    for mode in said["modes"]:  # it is the distance between two samples, as in Go's files
        assert mode["samples"] == pytest.approx(sampled[mode["mode"]], rel=0.02, abs=2), (mode, sampled)
    if PPROF:
        raw = run([PPROF, "-raw", path])
        assert f"PeriodType: space bytes\nPeriod: {MEAN}\n" in raw.stdout, raw
    for row in query(infprof, tmp_path / "again", "select mode, sum(objects) as objects from stack_samples group by mode"):
        assert row["objects"] == pytest.approx(sums[row["mode"]][1], rel=0.02)
    folded = run([infprof, "flamegraph", "-r", done.run.path, "--mode", "alloc_objects", "--folded"]).stdout
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == pytest.approx(sums["heap-allocated"][1], rel=0.01)


LEAK = """\
import json
kept = []

def grow():
    kept.append(bytearray(100_000))

def churn():
    return json.dumps([str(i) * 20 for i in range(2000)])

for i in range(200):
    churn()
    grow()
"""


@pytest.mark.skipif(not PYTHONS, reason="no Python to record")
@pytest.mark.parametrize("name", PYTHONS)
def test_python(infprof, record, tmp_path, name):
    """Functions of Python stand in their places between those of the interpreter; what Python frees as it ends was in use at the peak."""
    program = tmp_path / "leak.py"
    program.write_text(LEAK)
    words, environment = PYTHONS[name]
    done = record("--heap=64K", "--no-snapshots", command=[*words, program], env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    peak = by_function(done.run, "heap-peak", ["grow"])["grow"]
    assert abs(peak[0] - 200 * 100_000) < 5.5 * 100_000 * math.sqrt(200 * math.exp(-100 / 64)) + 0.05 * 20_000_000, peak
    for row in waits.rows(done.run, "heap-allocated"):
        names = [frame.name for frame in row.frames]
        assert not any("infprof" in (frame.object or "") for frame in row.frames), names
        if "grow" in names:
            assert "<module>" in names[:names.index("grow")] and row.frames[names.index("grow")].kind == "python", names
    sampler = [row for row in done.run.table("sampler") if row["mode"] == "heap-allocated"][-1]
    bad = sampler["python_unmerged"] + sampler["python_torn"] + sampler["python_missed"]
    assert sampler["python_merged"] > 100 and bad <= 0.005 * sampler["python_merged"] + 1, sampler
    folded = run([infprof, "flamegraph", "--folded", "--mode", "heap-peak", "-r", done.run.path]).stdout
    assert any(int(line.rsplit(" ", 1)[1]) > 10_000_000 for line in folded.splitlines() if "grow" in line), folded


@pytest.mark.skipif(not PYTHONS, reason="no Python to record")
@pytest.mark.skipif(not TRUTH.is_dir(), reason=f"{TRUTH} is not there")
@pytest.mark.parametrize("name", PYTHONS)
def test_small_objects_of_python(record, name):
    """Objects that Python does not ask malloc for, with the function that made them; 200,000 of one size within 5.5 standard deviations."""
    words, environment = PYTHONS[name]
    done = record("--heap=16K", "--no-snapshots", command=[*words, TRUTH / "alloc_truth.py"], env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout)["functions"]["leak_small"]
    size = truth["live_bytes"] / truth["allocs"]
    p = 1 - math.exp(-size / (16 << 10))
    margin = 5.5 * size * math.sqrt(truth["allocs"] * (1 - p) / p)
    rows = done.run.table("heap_samples")
    of_size = [row for row in rows if row["size"] == size and row["allocator"] == "python"]
    assert abs(sum(row["weight"] for row in of_size) - truth["live_bytes"]) < margin, (truth, len(of_size))
    # Its list of them is one that malloc gave.
    assert abs(by_function(done.run, "heap-peak", ["leak_small"])["leak_small"][0] - truth["live_bytes"] - 8 * truth["allocs"]) < 1.2 * margin + 400_000
    big = [row for row in rows if row["size"] > 1 << 20]
    assert big and {row["allocator"] for row in big} == {"python" if name in FREE else "malloc"}, big  # without a GIL malloc has none of them


@needs_gcc
@pytest.mark.parametrize("option, is_bounded", [("--heap", True), ("--heap=64K", False)])
def test_cost_is_bounded(record, build, option, is_bounded):
    """Of a program that does little but allocate: fewer samples once they have taken 0.05 s, which stand for more. Their sum stays right."""
    path = build("#include <stdlib.h>\nint main(void) { for (int i = 0; i < 20000000; i++) { char *volatile p = malloc(2000); free(p); } return 0; }\n")
    done = record(option, "--no-snapshots", command=[path])
    assert done.returncode == 0, done.stderr
    rows = [row for row in done.run.table("heap_samples") if row["size"] == 2000]
    means = sorted({round(-2000 / math.log(1 - 2000 / row["weight"])) for row in rows})
    variance = sum(row["weight"] * (row["weight"] - 2000) for row in rows)
    lost = [row["lost"] + row["dropped"] for row in done.run.table("sampler") if row["mode"] == "heap-allocated"][-1]
    missing, margin = 4e10 - sum(row["weight"] for row in rows), 5.5 * math.sqrt(variance)
    # On a busy machine infprof may have no CPU for too long: what was lost stood for some of the distances.
    fewest, most = (lost * 2000 / (1 - math.exp(-2000 / mean)) for mean in (means[0], means[-1]))
    assert fewest - margin < missing < most + margin, (len(rows), means, lost, missing)
    assert means == [64 << 10 << i for i in range(len(means))] and (len(means) > 1) == is_bounded and means[-1] <= 4 << 20, means


@needs_gcc
def test_freed_by_another_thread(record, build):
    path = build("""\
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile blocks[1000];
void *make(void *p) { for (int i = 0; i < 1000; i++) blocks[i] = malloc(3000); return p; }
void *drop(void *p) { for (int i = 0; i < 1000; i++) free(blocks[i]); return p; }
static void run(void *(*function)(void *)) { pthread_t thread; pthread_create(&thread, NULL, function, NULL); pthread_join(thread, NULL); }
int main(void) { printf("%d", getpid()); run(make); run(drop); make(NULL); drop(NULL); return 0; }
""")
    done = record("--heap=1K", "--no-snapshots", command=[path])
    assert done.returncode == 0, done.stderr
    rows = [row for row in done.run.table("heap_samples") if row["size"] == 3000]
    main = int(done.stdout)
    pairs = collections.Counter((row["tid"] == main, row["freed_tid"] == main, row["tid"] == row["freed_tid"]) for row in rows)
    assert set(pairs) == {(False, False, False), (True, True, True)} and all(900 < n < 1000 for n in pairs.values()), pairs


@pytest.mark.skipif(not PYTHONS, reason="no Python to record")
@pytest.mark.parametrize("allocator", ["debug", "malloc", "pymalloc"])
def test_python_with_another_allocator(record, tmp_path, allocator):
    """The program's wish stands: its objects are then malloc's, or are not seen."""
    program = tmp_path / "small.py"
    program.write_text("kept = [b'%0100d' % i for i in range(50000)]\nprint(len(kept))\n")
    done = record("--heap=16K", "--no-snapshots", command=[*PYTHONS[ONE][0], program], env={**os.environ, "PYTHONMALLOC": allocator})
    assert (done.returncode, done.stdout) == (0, "50000\n"), done.stderr
    of_size = collections.Counter(row["allocator"] for row in done.run.table("heap_samples") if row["size"] == 133)
    assert set(of_size) == ({"malloc"} if allocator == "malloc" else set()), of_size


@pytest.mark.skipif(not PYTHONS, reason="no Python to record")
def test_beside_samples_of_the_cpu(record, tmp_path):
    """Both ways of reading Python's frames."""
    program = tmp_path / "leak.py"
    program.write_text(LEAK.replace("range(200)", "range(600)"))  # long enough for the interpreter to be found on a busy machine
    for way in ("auto", "inside"):
        done = record("--heap=64K", "--cpu=500", f"--python={way}", "--no-snapshots", command=[*PYTHONS[ONE][0], program])
        assert done.returncode == 0, done.stderr
        assert by_function(done.run, "heap-peak", ["grow"])["grow"][1] > 100
        assert by_function(done.run, "cpu", ["churn"])["churn"][1] > 5
        shutil.rmtree(done.run.path)


# Each has a frame of its own size, so that the rules of the other one lead nowhere.
PLUGIN = """\
#include <stdlib.h>
__attribute__((noinline)) void *NAME_inner(int n) { char room[ROOM]; void *p; __asm__ volatile("" : : "r"(room) : "memory"); p = malloc(40000); __asm__ volatile("" : "+r"(p) : "r"(room)); return n ? p : room; }
__attribute__((noinline)) void *NAME_outer(int n) { char room[2 * ROOM]; void *p; __asm__ volatile("" : : "r"(room) : "memory"); p = NAME_inner(n); __asm__ volatile("" : "+r"(p) : "r"(room)); return p; }
void take(int n) { for (int i = 0; i < n; i++) { void *volatile p = NAME_outer(1); free(p); } }
"""
OPENS = """\
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static unsigned long newest(void)
{
        DIR *tables = opendir(getenv("INFPROF_AGENT_TABLES"));
        unsigned long most = 0, number;
        char own[32];
        snprintf(own, sizeof own, ".sampler-%d-", getpid());
        for (struct dirent *entry; (entry = readdir(tables));)
                if (!strncmp(entry->d_name, own, strlen(own)) && (number = strtoul(strrchr(entry->d_name, '-') + 1, NULL, 10)) > most)
                        most = number;
        closedir(tables);
        return most;
}
/* Until infprof has looked at what is mapped, and nothing has changed for 0.3 s. */
static void wait_for_tables(unsigned long before)
{
        unsigned long last = before;
        for (int i = 0, still = 0; i < 4000 && (last == before || still < 60); i++, usleep(5000)) {
                const unsigned long now = newest();
                still = now == last ? still + 1 : 0;
                last = now;
        }
}
int main(int argc, char **argv)
{
        wait_for_tables(0);
        for (int i = 1; i < argc; i++) {
                const unsigned long before = newest();
                void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
                void (*take)(int) = (void (*)(int)) dlsym(library, "take");
                printf("%lx\\n", (unsigned long) take >> 12);
                take(20);
                wait_for_tables(before);
                take(180);
                dlclose(library);
        }
        return 0;
}
"""


@needs_gcc
@pytest.mark.parametrize("option", ["--heap=1K", "--heap=exact"])
@pytest.mark.parametrize("order", ["abab", "aaa"])
def test_libraries_that_take_each_others_place(record, build, tmp_path, order, option):
    """Stacks of a library that is opened where another one was are its own, also of the same one anew; --heap=exact has some that are not whole."""
    for name, room in (("a", 64), ("b", 4096)):
        build(PLUGIN.replace("NAME", name).replace("ROOM", str(room)), "gcc", "-O1", "-g", "-fno-builtin", "-fomit-frame-pointer", "-fno-optimize-sibling-calls",
              "-shared", "-fPIC", name=f"{name}.so")
    path = build(OPENS, "gcc", "-O1", "-g", "-fno-builtin", "-fomit-frame-pointer", "-D_GNU_SOURCE")
    done = record(option, "--no-snapshots", command=[path, *(tmp_path / f"{name}.so" for name in order)])
    assert done.returncode == 0, done.stderr
    assert len(set(done.stdout.split())) == 1, done.stdout
    found = collections.Counter()
    for row in waits.rows(done.run, "heap-allocated"):
        if row.weight == 40000 * row.samples:
            found[tuple(frame.name for frame in row.frames)[-4:]] += row.samples
    whole = {name: ("main", "take", f"{name}_outer", f"{name}_inner") for name in set(order)}
    assert {name: found[whole[name]] + (found[whole[name][-1:]] if option == "--heap=exact" else 0) for name in whole} == {
        name: 200 * order.count(name) for name in whole}, found
    assert sum(found.values()) == 200 * len(order), found


# ---- harm ----

CALLS = """\
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
        void *volatile p, *q = NULL;
        (void) argv;
        errno = 0;
        p = malloc(PTRDIFF_MAX);
        printf("%d %d\\n", p == NULL, errno == ENOMEM);
        errno = 0;
        p = calloc(SIZE_MAX / 2, 4);
        printf("%d %d\\n", p == NULL, errno == ENOMEM);
        p = malloc(100000);
        memset(p, 7, 100000);
        q = realloc(p, PTRDIFF_MAX);
        printf("%d %d\\n", q == NULL, ((char *) p)[99999]);
        p = realloc(p, 300000);
        printf("%d\\n", ((char *) p)[99999]);
        free(p);
        p = realloc(NULL, 70000);
        free(p);
        free(NULL);
        q = NULL;
        printf("%d\\n", posix_memalign(&q, 3, 8) == EINVAL);
        printf("%d %d\\n", posix_memalign(&q, 4096, 100000), (int) ((uintptr_t) q % 4096));
        free(q);
        p = memalign(256, 100000);
        printf("%d %d\\n", (int) ((uintptr_t) p % 256), malloc_usable_size(p) >= 100000);
        free(p);
        p = aligned_alloc(64, 128000);
        errno = 99;
        free(p);
        printf("%d\\n", errno);
        for (int i = 0; i < 100000; i++) {
                p = calloc(1, 500);
                if (((char *) p)[499])
                        return 1;
                free(p);
        }
        return argc == 2 ? 7 : 0;
}
"""


@needs_gcc
@pytest.mark.parametrize("kind, words", [
    ("glibc", ["gcc"]), ("musl", ["musl-gcc"]), ("musl-static", ["musl-gcc", "-static"]), ("static", ["gcc", "-static"]), ("32-bit", ["gcc", "-m32"]),
])
def test_programs_run_as_before(record, build, kind, words):
    if not shutil.which(words[0]):
        pytest.skip(f"no {words[0]} here")
    path = build(CALLS, *words, "-fno-builtin")
    alone = run([path, "word"])
    done = record(f"--heap={MEAN}", "--no-finish", command=[path, "word"])
    assert alone.returncode == 7, alone
    assert (done.returncode, done.stdout) == (7, alone.stdout), done.stderr
    assert (len(done.run.table("heap_samples")) > 1000) == (kind == "glibc"), done.stderr


@needs_gcc
def test_an_allocator_of_its_own(record, build):
    """That is said, and is no heap of 0 bytes."""
    path = build("""\
#include <stddef.h>
#include <stdio.h>
static _Alignas(16) char heap[1 << 24];
static size_t used;
void *malloc(size_t n) { void *p = heap + used; used += (n + 31) & ~(size_t) 15; return p; }
void free(void *p) { (void) p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { (void) p; return malloc(n); }
int main(void) { for (int i = 0; i < 100; i++) malloc(100000); return 0; }
""", "gcc", "-fno-builtin")
    done = record("--heap", command=[path])
    assert done.returncode == 0
    sentence = "is not recorded: its program has an allocator of its own"
    assert sentence in done.stderr and any(sentence in (reason or "") for _, reason in sources(done.run).values()), done.stderr
    assert done.run.table("heap_samples") == []


@needs_gcc
@pytest.mark.serial  # as test_truth
@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
def test_an_allocator_that_is_preloaded(record, build, library):
    found = [path for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu") for path in pathlib.Path(folder).glob(library)]
    if not found:
        pytest.skip(f"no {library} here")
    path = build("#include <stdlib.h>\n#include <string.h>\nvoid keep(void) { memset(malloc(1000), 1, 1000); }\nint main(void) { for (int i = 0; i < 20000; i++) keep(); return 0; }\n")
    done = record(f"--heap={MEAN}", command=[path], env={**os.environ, "LD_PRELOAD": str(found[0])})
    assert done.returncode == 0, done.stderr
    live = by_function(done.run, "heap", ["keep"])["keep"]
    assert abs(live[0] - 20_000_000) < 5.5 * 1000 * math.sqrt(20000 * math.exp(-1000 / MEAN) / (1 - math.exp(-1000 / MEAN))), live


@needs_gcc
def test_after_the_recorder_is_killed(infprof, build, run_dir):
    path = build("#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint main(void) { puts(\"begun\"); fflush(stdout); getchar();"
                 " for (int i = 0; i < 100000; i++) { char *p = malloc(5000); p[0] = 1; free(p); } puts(\"done\"); return 0; }\n")
    recorder = subprocess.Popen([infprof, "record", "--heap", "-o", run_dir, "--", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)
    assert recorder.stdout.readline() == "begun\n"
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()
    recorder.stdin.write("\n")
    recorder.stdin.close()
    assert recorder.stdout.read() == "done\n"


def test_a_process_that_runs_already(record):
    target = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        done = record("--heap", "--duration", "0.3", "--pid", target.pid)
    finally:
        target.communicate(b"\n")
    assert done.returncode == 0 and "stacks of the heap need a command that is started by record" in done.stderr, done.stderr
    assert sources(done.run)["heap-allocated"][0] == "absent", sources(done.run)


@pytest.mark.parametrize("value", ["0", "1023", "2G", "x", "-5"])
def test_refused(record, value):
    done = record(f"--heap={value}", command=["true"])
    assert done.returncode == 125 and f"--heap={value}: a sample each 1K to 1G bytes" in done.stderr, done
