"""What `infprof heap` says of programs whose heaps are known: what leaks and what does not, what is freed soon, sizes; windows of time."""
import collections
import json
import math
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from program import run
from pythons import PYTHONS
from waiting import wait_for_rows

TRUTH = pathlib.Path(__file__).resolve().parents[3] / "shared" / "truth"
ONE = "system" if "system" in PYTHONS else next(iter(PYTHONS), None)
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
MEAN = 4096

# What is allocated follows the clock, so that a busy machine makes it late and not less. The counts are those of the program itself.
PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#define NOINLINE __attribute__((noinline))
enum { SLOTS = 1000 };
static long leaked, cached, pooled, scratched;
static void *volatile lost;
static void *cache[100000], *slots[SLOTS];
static double now(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec + t.tv_nsec / 1e9;
}
NOINLINE void leak_here(void) { lost = malloc(4000); leaked++; }
NOINLINE void fill_cache(void) { cache[cached++] = malloc(9000); }
NOINLINE void use_pool(int i) { free(slots[i]); slots[i] = malloc(600); pooled++; }
NOINLINE void scratch(void) { lost = malloc(100); free(lost); scratched++; }
int main(int argc, char **argv)
{
        const double begin = now(), seconds = argc > 1 ? atof(argv[1]) : 1;
        for (double at = 0; at < seconds; at = now() - begin) {
                const double filling = at < 0.4 * seconds ? at : 0.4 * seconds;
                while (leaked < 200 * at)
                        leak_here();
                while (cached < 200 * filling)
                        fill_cache();
                while (pooled < SLOTS + 500 * at)
                        use_pool(pooled < SLOTS ? pooled : rand() % SLOTS);
                while (scratched < 20000 * at)
                        scratch();
                nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
        }
        printf("{\\"leak_here\\": %ld, \\"fill_cache\\": %ld, \\"use_pool\\": %ld, \\"scratch\\": %ld}\\n", leaked, cached, pooled, scratched);
        return 0;
}
"""
SIZES = {"leak_here": 4000, "fill_cache": 9000, "use_pool": 600, "scratch": 100}


@pytest.fixture
def program(tmp_path):
    source = tmp_path / "program.c"
    source.write_text(PROGRAM)
    done = run(["gcc", "-O1", "-g", "-fno-builtin", source, "-o", tmp_path / "program"])
    assert done.returncode == 0, done.stderr
    return tmp_path / "program"


def heap(infprof, recorded, *words):
    done = run([infprof, "heap", *words, "--json", "-r", recorded.path])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def holds(interval, truth, slack=0):
    """A 95 % interval, made as wide as one that a right build misses in one of 20 million runs."""
    margin = 5.5 / 1.96 * (interval["high"] - interval["estimate"]) + slack
    return abs(interval["estimate"] - truth) <= margin + 1e-6 * truth


def by_function(rows):
    found = collections.defaultdict(list)
    for row in rows:
        found[row["function"]].append(row)
    return found


@needs_gcc
def test_known_program(infprof, record, program):
    done = record(f"--heap={MEAN}", "--no-snapshots", command=[program, 10])
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout)
    leaks = heap(infprof, done.run, "leaks")
    leak, = [row for row in leaks["leaks"] if row["verdict"] == "leak"]
    assert leak["function"] == "leak_here" and leak["stack"][0]["function"] == "leak_here", leak
    assert [frame["function"] for frame in leak["stack"]][:2] == ["leak_here", "main"], leak
    assert holds(leak["bytes"], 4000 * truth["leak_here"]), leak
    assert holds(leak["bytes_per_s"], 4000 * 200, slack=80000), leak  # what comes late grows faster or slower
    assert leaks["judged"] >= 3 and leaks["false_alarm_rate"] == 0.001, leaks

    report = heap(infprof, done.run)
    memory = report["memory"]
    assert [process["pid"] for process in report["processes"]] == [memory["pid"]]
    spots = by_function(memory["hotspots"])
    assert spots["fill_cache"][0]["verdict"] == "cache", spots["fill_cache"]
    held = {"leak_here": truth["leak_here"], "fill_cache": truth["fill_cache"], "use_pool": 1000}
    for name, blocks in held.items():
        assert holds(spots[name][0]["bytes"], blocks * SIZES[name]), (name, spots[name], truth)
    assert memory["hotspots"][0]["function"] in ("leak_here", "fill_cache") and memory["sample_bytes"] == MEAN
    total = sum(truth[name] * size for name, size in SIZES.items())
    assert holds(memory["allocated_bytes"], total, slack=65536), (memory, truth)
    assert 0.8 < memory["allocations"] / sum(truth.values()) < 1.2
    assert holds(memory["end_bytes"], sum(blocks * SIZES[name] for name, blocks in held.items()), slack=65536), memory
    assert memory["peak_mb"] >= 0.95 * memory["end_bytes"]["estimate"] / (1 << 20)
    assert memory["leaked_mb"] == pytest.approx(leak["bytes"]["estimate"] / (1 << 20))

    soon, = by_function(heap(infprof, done.run, "temporary")["temporary"])["scratch"]
    assert holds(soon["bytes"], 100 * truth["scratch"]) and holds(soon["blocks"], truth["scratch"]), (soon, truth)
    assert soon["median_life_s"] < 0.1
    sizes = {row["up_to"]: row for row in heap(infprof, done.run, "sizes")["sizes"]}
    for name, up_to in {"leak_here": 4096, "fill_cache": 16384, "use_pool": 1024, "scratch": 128}.items():
        assert holds(sizes[up_to]["blocks"], truth[name], slack=20), (name, sizes[up_to], truth)
        assert holds(sizes[up_to]["bytes"], truth[name] * SIZES[name], slack=20 * up_to), (name, sizes[up_to], truth)
    assert holds(sizes[4096]["bytes_in_use"], 4000 * truth["leak_here"], slack=8192), sizes[4096]

    check_page(infprof, done.run, memory, leak)
    for what, words in {"report": ["Heap of program", "leak_here", "1 that leak, "], "leaks": ["leak_here", "called by main", "1 in 1,000"],
                        "temporary": ["scratch", "freed within a second"], "sizes": ["4.00 KiB", "in use"]}.items():
        text = run([infprof, "heap", what, "-r", done.run.path]).stdout
        assert all(word in text for word in words), (what, text)
    check_windows(done.run)


def check_page(infprof, recorded, memory, leak):
    """Growth by stack and the peak, in report --html."""
    page = recorded.path.parent / "page.html"
    assert run([infprof, "report", "-r", recorded.path, "--html", "-o", page]).returncode == 0
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S)[1])
    (panel,) = [panel for panel in data["panels"] if panel["id"] == "heap-stacks"]
    assert panel["kind"] == "stack" and [limit["name"] for limit in panel["limits"]] == ["peak"]
    assert panel["limits"][0]["value"] == pytest.approx(memory["peak_bytes"]["estimate"], rel=0.01)
    series = {one["name"]: [v for v in one.get("v", one.get("mean")) if v is not None] for one in panel["series"]}
    (grows,) = [values for name, values in series.items() if re.fullmatch(r"leak_here program\.c:\d+: leak, .*/s", name)]
    assert max(grows) == pytest.approx(leak["bytes"]["estimate"], rel=0.05) and grows[0] < 0.2 * grows[-1]
    (cache,) = [values for name, values in series.items() if re.fullmatch(r"fill_cache program\.c:\d+", name)]
    assert cache[len(cache) // 2] > 0.95 * max(cache)  # which it had filled at two fifths
    assert sum(max(values) for values in series.values()) < 1.3 * panel["limits"][0]["value"], series
    assert "after the start: infprof flamegraph --mode heap-peak" in panel["note"] and all(one["quality"] == "estimated" for one in panel["series"])


def check_windows(recorded, ends=True):
    """Windows follow each other, but for some in which nothing has changed, and add up to the samples."""
    rows = recorded.table("heap_windows")
    windows = sorted({(row["t_ns"], row["seconds"]) for row in rows})
    for (before, _), (t_ns, seconds) in zip(windows, windows[1:]):
        assert (t_ns - before) / 1e9 > seconds - 1e-6, (before, t_ns, seconds)
    assert all(row["low"] <= row["live"] * (1 + 1e-9) + 1e-3 and row["old"] <= row["live"] * (1 + 1e-9) + 1e-3 for row in rows)
    assert all((row["oldest_ns"] is not None) == (row["blocks"] > 0) and (row["live"] > 0) == (row["blocks"] > 0) for row in rows)
    if ends:
        assert {row["t_ns"] for row in rows if row["is_last"]} == {windows[-1][0]}
        samples = recorded.table("heap_samples")
        assert sum(row["samples"] for row in rows) == len(samples)
        assert sum(row["allocated"] for row in rows) == pytest.approx(sum(row["weight"] for row in samples))
        live = sum(row["weight"] for row in samples if row["freed_ns"] is None)
        assert live == pytest.approx(sum(row["live"] for row in last_rows(rows).values()))
    return windows


def last_rows(rows):
    found = {}
    for row in sorted(rows, key=lambda row: row["t_ns"]):
        found[row["process"], row["stack"]] = row
    return found


SERVE = """\
import time
kept, cache = [], {}

def grow():
    kept.append(bytes(16384))  # the leak

def fill():
    cache[len(cache)] = bytes(16000)

def serve():
    begin = time.monotonic()
    while (at := time.monotonic() - begin) < SECONDS:
        while len(kept) < 64 * at:
            grow()
        while len(cache) < 64 * min(at, 0.4 * SECONDS):
            fill()
        len([bytes(2000) for _ in range(50)])
        time.sleep(0.005)

serve()
"""


@pytest.mark.skipif(not PYTHONS, reason="no Python to record")
def test_python_leak(infprof, record, tmp_path):
    """A list that grows by 1 MiB/s is named with its line; a cache that fills and stops is not called a leak, nor is anything else."""
    path = tmp_path / "serve.py"
    path.write_text(SERVE.replace("SECONDS", "10"))
    done = record("--heap", "--no-snapshots", command=[*PYTHONS[ONE][0], path])
    assert done.returncode == 0, done.stderr
    found = heap(infprof, done.run, "leaks")["leaks"]
    line = 1 + SERVE.splitlines().index("    kept.append(bytes(16384))  # the leak")
    assert [(row["function"], pathlib.Path(row["file"]).name, row["line"]) for row in found if row["verdict"] == "leak"] == [("grow", "serve.py", line)], found
    assert 0.7 < found[0]["bytes_per_s"]["estimate"] / (1 << 20) < 1.4, found[0]
    spots = by_function(heap(infprof, done.run)["memory"]["hotspots"])
    assert spots["fill"][0]["verdict"] in ("cache", "steady"), spots["fill"]  # of some 60 samples
    text = run([infprof, "heap", "leaks", "-r", done.run.path]).stdout
    assert f"serve.py:{line}" in text, text


@needs_gcc
@pytest.mark.skipif(not TRUTH.is_dir(), reason=f"{TRUTH} is not there")
def test_storm(infprof, record, tmp_path):
    """Blocks that are always replaced are no leak; what is lost at the very end, in one moment, does not grow over time."""
    made = run(["gcc", "-O2", "-g", "-std=gnu17", "-D_GNU_SOURCE", TRUTH / "malloc_storm.c", "-o", tmp_path / "malloc_storm", "-pthread"])
    assert made.returncode == 0, made.stderr
    done = record("--heap", "--no-snapshots", command=[tmp_path / "malloc_storm", "-n", 4000000])
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["functions"]
    assert [row for row in heap(infprof, done.run, "leaks")["leaks"] if row["verdict"] == "leak"] == []
    report = heap(infprof, done.run)
    memory, text = report["memory"], run([infprof, "heap", "-r", done.run.path]).stdout
    if report["lost_samples"]:  # infprof had no CPU for so long that the ring was full: that is said, and the figures are too low
        assert "so all bytes are too low by about" in text and memory["allocated_bytes"]["estimate"] < sum(row["bytes"] for row in said.values()), text
    else:
        assert "no sample was lost" in text, text
        assert holds(memory["allocated_bytes"], sum(row["bytes"] for row in said.values()), slack=65536), (memory, said)
        assert holds(memory["end_bytes"], sum(row["live_bytes"] for row in said.values()), slack=65536), (memory, said)
    check_windows(done.run)


@needs_gcc
def test_while_it_is_recorded_and_killed(infprof, run_dir, program):
    recorder = subprocess.Popen([infprof, "record", f"--heap={MEAN}", "--no-snapshots", "-o", run_dir, "--", program, "100"], stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
    try:
        wait_for_rows(infprof, run_dir, 12, "(SELECT DISTINCT t_ns FROM heap_windows)")
        query = [infprof, "query", "-r", run_dir, "-f", "json", "SELECT sum(live) AS live, sum(blocks) AS blocks, max(t_ns) AS t_ns FROM heap_live"]
        living = json.loads(run(query).stdout)[0]
        assert living["blocks"] > 100 and living["live"] > 400_000, living
        seen = heap(infprof, run_dir.run())
        assert seen["memory"]["has_ended"] is False and seen["memory"]["end_bytes"]["estimate"] > 400_000, seen
    finally:
        child = pathlib.Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        recorder.send_signal(signal.SIGKILL)
        recorder.wait()
        for pid in child:
            run(["kill", "-9", pid])
    recorded = run_dir.run()
    windows = check_windows(recorded, ends=False)
    assert len(windows) >= 12 and windows[-1][0] >= living["t_ns"]
    rows = last_rows(recorded.table("heap_windows"))
    killed = json.loads(run(query).stdout)[0]
    assert killed["live"] == pytest.approx(sum(row["live"] for row in rows.values()))
    assert killed["blocks"] == sum(row["blocks"] for row in rows.values())
    text = run([infprof, "heap", "sizes", "-r", recorded.path]).stdout
    assert "was killed, or goes on" in text, text


EXECS = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
static void *volatile kept[4096];
NOINLINE void hold(int kib) { for (int i = 0; i < kib; i++) memset(kept[i] = malloc(1024), 1, 1024); }
int main(int argc, char **argv)
{
        hold(atoi(argv[1]));
        usleep(600000);
        if (argc > 2)
                execv(argv[0], (char *[]){ argv[0], argv[2], NULL });
        return 0;
}
"""


@needs_gcc
@pytest.mark.serial  # as test_truth of test_heap.py
def test_programs_of_one_process(infprof, record, tmp_path):
    """A shell becomes a program with 4 MiB, and that another one with 1 MiB: the peak is the greatest, and in use at the end is what the last one holds."""
    (tmp_path / "execs.c").write_text(EXECS)
    done = run(["gcc", "-O1", "-g", "-fno-builtin", tmp_path / "execs.c", "-o", tmp_path / "execs"])
    assert done.returncode == 0, done.stderr
    done = record("--heap=1K", "--no-snapshots", command=["sh", "-c", f"exec {tmp_path}/execs 4096 1024"])
    assert done.returncode == 0, done.stderr
    report = heap(infprof, done.run)
    first, second = report["processes"][:2]
    assert first["pid"] == second["pid"] and (first["is_replaced"], second["is_replaced"]) == (True, False)
    for process, mib in ((first, 4), (second, 1)):
        assert holds(process["peak_bytes"], mib << 20, slack=0.06 * (mib << 20)) and process["hotspots"][0]["function"] == "hold", process
    assert report["memory"] == first
    sizes = {row["up_to"]: row for row in heap(infprof, done.run, "sizes")["sizes"]}
    assert holds(sizes[1024]["bytes_in_use"], 1 << 20, slack=4096) and holds(sizes[1024]["bytes"], 5 << 20, slack=4096), sizes[1024]
    for mode, mib in (("heap-peak", 4), ("heap", 1), ("heap-allocated", 5)):
        lines = run([infprof, "flamegraph", "--folded", "--mode", mode, "-r", done.run.path]).stdout.splitlines()
        found = sum(int(line.rsplit(" ", 1)[1]) for line in lines if ";hold" in line)
        assert 0.87 * (mib << 20) < found < 1.13 * (mib << 20), (mode, lines)  # 1 MiB has a standard deviation of 2.4 %
    assert "as it became another program" in run([infprof, "heap", "-r", done.run.path]).stdout


HOLES = """\
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { N = 40000 };
static void *blocks[N];
int main(void)
{
        for (int i = 0; i < N; i++)
                memset(blocks[i] = malloc(1000), 1, 1000);
        for (int i = 0; i < N; i += 2)
                free(blocks[i]);
        sleep(4);
        return blocks[1] == blocks[3];
}
"""


@needs_gcc
@pytest.mark.serial  # as test_truth: what waits for unwind tables is in RAM, too
def test_fragmentation(infprof, record, tmp_path):
    """Every second of 40,000 blocks is free, and none of the pages between them: of what is in RAM half is not in use."""
    (tmp_path / "holes.c").write_text(HOLES)
    done = run(["gcc", "-O1", "-fno-builtin", tmp_path / "holes.c", "-o", tmp_path / "holes"])
    assert done.returncode == 0, done.stderr
    done = record(f"--heap={MEAN}", "--no-snapshots", command=[tmp_path / "holes"])
    assert done.returncode == 0, done.stderr
    report = heap(infprof, done.run)
    resident = report["memory"]["resident"]
    assert 40e6 < resident["bytes"] < 57e6  # with some 7 MiB of the agent's own, and up to 16
    assert holds(resident["in_use_bytes"], 20e6, slack=65536), resident
    assert resident["rest_bytes"] == pytest.approx(resident["bytes"] - resident["in_use_bytes"]["estimate"])
    assert 45 < resident["rest_percent"] < 70
    # The mission's names of what it asks for.
    assert report["profile_id"] == report["run"] and 4 < report["duration_seconds"] < 60
    assert {"peak_mb", "allocations", "leaked_mb", "hotspots"} <= set(report["memory"])
    assert 36e6 < report["memory"]["peak_mb"] * (1 << 20) < 42.2e6 and report["memory"]["leaked_mb"] == 0
    assert 0.9 * 40000 < report["memory"]["allocations"] < 1.2 * 40000 and report["memory"]["hotspots"][0]["function"] == "main"
    text = " ".join(run([infprof, "heap", "-r", done.run.path]).stdout.split())
    assert re.search(r"in RAM \d\d\.\d MiB of heap and anonymous memory, by the account at \d\.\d s; blocks in use then: \d\d\.\d MiB .* at least are free "
                     r"blocks that the allocator keeps \(fragmentation\)", text), text


@needs_gcc
def test_the_first_blocks(infprof, record, tmp_path):
    """What a program allocates at first is sampled as all else: 64 KiB, of which a sample of each KiB finds 41 blocks, with a deviation of 4."""
    (tmp_path / "execs.c").write_text(EXECS)
    assert run(["gcc", "-O1", "-g", "-fno-builtin", tmp_path / "execs.c", "-o", tmp_path / "execs"]).returncode == 0
    done = record("--heap=1K", "--no-snapshots", command=[tmp_path / "execs", "64"])
    assert done.returncode == 0, done.stderr
    assert holds(heap(infprof, done.run)["processes"][0]["peak_bytes"], 64 << 10, slack=1024)


RANGES = """\
import time
kept = []

def early():
    blocks = []
    for _ in range(80):
        blocks.append(bytes(100_000))
    return blocks

def late():
    kept.append(bytes(40_000))

def soon():
    for _ in range(4):
        len(bytes(50_000))

held = early()
time.sleep(2)
print(f"measure_label-freed: {time.time()}", flush=True)
time.sleep(0.5)  # a window of time and more
held = None
end = time.monotonic() + 4
while time.monotonic() < end:
    late()
    soon()
    time.sleep(0.02)
print(f"measure_label-still: {time.time()}", flush=True)
time.sleep(2)
"""


@pytest.mark.skipif(not PYTHONS, reason="no Python to record")
def test_a_part_of_a_run(infprof, record, tmp_path):
    """In use at its end, allocated and at the peak in it, verdicts by what happened in it; marks name its ends."""
    path = tmp_path / "ranges.py"
    path.write_text(RANGES)
    done = record(f"--heap={MEAN}", "--no-snapshots", "--capture", command=[*PYTHONS[ONE][0], path])
    assert done.returncode == 0, done.stderr

    def part(*words, what="report"):
        return heap(infprof, done.run, what, *words)

    def spots(said):
        return {name: row[0]["bytes"]["estimate"] for name, row in by_function(said["memory"]["hotspots"]).items()}

    whole, first, then, last = part(), part("--to", "freed"), part("--from", "freed", "--to", "still"), part("--from", "still")
    assert whole["range"] is None and abs(then["range"]["to_s"] - then["range"]["from_s"] - 4.5) < 0.5, then["range"]
    assert abs(spots(first)["early"] - 8e6) < 0.1 * 8e6 and "late" not in spots(first), first
    kept = spots(then)["late"]
    assert "early" not in spots(then) and 1e6 < kept < 40_040 * 200, spots(then)
    for said, other in ((first, then), (then, last)):
        assert abs(said["memory"]["to_s"] - other["memory"]["from_s"]) < 1e-6  # the same windows
        assert said["memory"]["has_ended"] is False
    allocated = [said["memory"]["allocated_bytes"]["estimate"] for said in (first, then, last)]
    assert sum(allocated) == pytest.approx(whole["memory"]["allocated_bytes"]["estimate"], rel=1e-6)
    assert allocated[1] > 5 * kept and allocated[2] < 0.2 * allocated[1], allocated
    assert first["memory"]["peak_mb"] >= 7 and then["memory"]["peak_mb"] > 7 > 0, (first["memory"], then["memory"])
    assert last["memory"]["peak_mb"] == pytest.approx(kept / (1 << 20), rel=0.4)

    leaks = part("--from", "freed", "--to", "still", what="leaks")["leaks"]
    assert [row["function"] for row in leaks if row["verdict"] == "leak"] == ["late"], leaks
    assert [row["function"] for row in part("--from", "still", what="leaks")["leaks"] if row["function"] == "late"] == []
    assert by_function(part("--to", "freed", what="temporary")["temporary"]).get("soon") is None
    soon = by_function(part("--from", "freed", what="temporary")["temporary"])["soon"]
    assert sum(row["bytes"]["estimate"] for row in soon) > 2 * kept
    at_first, after = ([row["bytes_in_use"]["estimate"] for row in part(*words, what="sizes")["sizes"] if row["up_to"] == 131072]
                       for words in (("--to", "freed"), ("--from", "still")))
    assert sum(at_first) - sum(after) == pytest.approx(80 * 100_033, rel=0.03), (at_first, after)
    text = run([infprof, "heap", "--from", "freed", "--to", "still", "-r", done.run.path]).stdout
    assert "in use at the end of the range" not in text and "at the end of the range, in" in text and "range from" in " ".join(text.split()), text
    said = run([infprof, "heap", "--from", "+1h", "-r", done.run.path])
    assert said.returncode == 1 and "outside of the run" in said.stderr, said


def test_without_a_heap(infprof, record):
    done = record("--no-snapshots", command=["true"])
    for words in ([], ["leaks"], ["temporary"], ["sizes", "--json"]):
        said = run([infprof, "heap", *words, "-r", done.run.path])
        assert said.returncode == 1 and "has no samples of the heap: record it with `infprof record --heap -- COMMAND`" in said.stderr, said
        assert said.stdout == ""


@pytest.mark.parametrize("words, sentence", [
    (["leak"], "did you mean leaks?"), (["leaks", "sizes"], "at a time"), (["--pid", "0"], "the number of a process"), (["--pid", "x"], "the number of a process"),
])
def test_refused(infprof, words, sentence):
    said = run([infprof, "heap", *words])
    assert said.returncode == 2 and sentence in said.stderr, said
