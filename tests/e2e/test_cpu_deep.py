"""Stacks deeper than the kernel's copy: read whole in the interrupt of the sample (BPF), completed just after it, or cut and said so."""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

import waits
from program import run
from stacks import Profile

SOURCE = pathlib.Path(__file__).with_name("cpu_deep.c")
HZ = 497
COMPILERS = {
    "glibc": ["gcc", "-O2", "-g", "-pthread"],
    "frame pointers": ["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-pthread"],
    "musl": ["musl-gcc", "-O2", "-g", "-pthread"],
    "static musl": ["musl-gcc", "-O2", "-g", "-static", "-pthread"],
}
# (its arguments, what of it is deeper than the copy)
PROGRAMS = {
    "frames of 100 KB": ("-f", 100000),
    "frames of 100 KB, written": ("-f", 100000, "-w"),
    "frames of 1 MiB": ("-f", 1 << 20),
    "recursion above a frame": ("-r", 350, "-f", 150000),
    "threads": ("-t", 3, "-k", 1 << 20, "-f", 300000),
    "an alternate stack": ("-a",),
    "an alternate stack of threads": ("-a", "-t", 2),
}


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("deep"), {}

    def call(compiler):
        if compiler not in made:
            words = COMPILERS[compiler]
            if not shutil.which(words[0]):
                pytest.skip(f"{words[0]} is not installed: no program of its to sample")
            made[compiler] = folder / compiler.replace(" ", "_")
            subprocess.run([*words, "-o", str(made[compiler]), str(SOURCE)], check=True)
        return made[compiler]

    return call


@pytest.fixture
def sample(record, build):
    """sample(way, arguments...): the profile, rows of stack_samples, and counts of the last row of table sampler."""
    def call(way, *arguments, compiler="glibc", hz=HZ, seconds=0.8):
        program = build(compiler)
        done = record(f"--cpu={hz}", f"--deep-stacks={way}", "--no-snapshots", command=[program, *arguments, seconds])
        return found_in(done, program)

    return call


def found_in(done, program):
    assert done.returncode == 0, done.stderr
    found = Profile(done.run, {program.name: program})
    found.rows = [row for row in done.run.table("stack_samples") if row["mode"] == "cpu"]
    found.counts = [row for row in found.sampler if row["mode"] == "cpu"][-1]
    found.bpf = has_bpf(found.counts)
    return found


def has_bpf(sampler):
    return "BPF" in (sampler["python_method"] or "")


def callers(found, rows=None):
    """Of the samples in a leaf: right, wrong, or cut below the caller."""
    return collections.Counter(what for what, _ in judged(found, rows))


def judged(found, rows=None):
    """(what callers() counts, thread) of each sample, in order of time."""
    for one, row in sorted(zip(found.samples, found.rows), key=lambda pair: pair[1]["t_ns"]):
        leaf = [name for name in one.names if re.fullmatch(r"leaf_\d", name)]
        if not leaf or (rows and not rows(row)):
            continue
        caller = [name for name in one.names if re.fullmatch(r"caller_\d", name)]
        yield "cut" if not caller else "right" if caller[-1][-1] == leaf[-1][-1] else "wrong", row["tid"]


def count_late_cuts(found):
    """Cut ones that came after a right one of their thread. Of a stack larger than what is read at once the kernel is told which pages to
    read when some were missing."""
    heard, n = set(), 0
    for what, tid in judged(found):
        n += what == "cut" and tid in heard
        if what == "right":
            heard.add(tid)
    return n


def check_all_right(found):
    if not found.bpf:
        pytest.skip("no BPF program is permitted here: stacks are completed after their samples, if at all")
    counts = callers(found)
    assert counts["wrong"] == 0 and counts["right"] >= 0.1 * HZ, counts
    assert count_late_cuts(found) <= 0.02 * counts["right"] + 3, counts
    assert found.counts["deep"] >= 0.9 * counts["right"], found.counts


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_the_interrupt(sample, name):
    found = sample("auto", *PROGRAMS[name])
    check_all_right(found)
    assert found.counts["truncated"] <= 0.02 * len(found.rows) + 3, found.counts


STOPS_ITS_RECORDER = """"$0" "$@" & for i in 1 2 3; do sleep 0.2; kill -STOP $PPID; sleep 0.2; kill -CONT $PPID; done; wait"""


def test_the_recorder_has_no_cpu(record, build):
    """For 0.2 s three times: what is read of stacks waits for it. Pages that were never touched would fill its room in 0.06 s."""
    program = build("glibc")
    done = record(f"--cpu={HZ}", "--no-snapshots", command=["sh", "-c", STOPS_ITS_RECORDER, program, "-a", "-t", "2", "1.6"])
    check_all_right(found_in(done, program))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_programs_of_compilers(sample, compiler):
    check_all_right(sample("auto", "-f", 100000, compiler=compiler))
    check_all_right(sample("auto", "-f", 300000, "-t", 2, "-k", 1 << 20, compiler=compiler))


@pytest.mark.parametrize("way", ["auto", "off"])
@pytest.mark.parametrize("arguments", [("-f", 100000), ("-t", 2, "-k", 1 << 20, "-f", 300000), ("-f", 1000)], ids=["first thread", "threads", "shallow"])
def test_waits(record, build, way, arguments):
    """Where the kernel times waits, stacks of --off-cpu are read whole, too; else they are cut, and say how deep they got."""
    program = build("glibc")
    done = record("--off-cpu", f"--deep-stacks={way}", "--no-snapshots", command=[program, *arguments, "-z", "-u", 10000, "-n", 100, 1])
    assert done.returncode == 0, done.stderr
    [*_, counts] = [row for row in done.run.table("sampler") if row["mode"] == "off-cpu"]
    rows = [(row, [frame.name or "" for frame in row.frames]) for row in waits.rows(done.run, "off-cpu", {program.name: program})]
    rows = [(row, names) for row, names in rows if any(name.startswith("leaf_") for name in names)]
    assert len(rows) > 20, counts  # without BPF of those that were read while they lasted
    found = collections.Counter()
    for row, names in rows:
        callers = [name[-1] for name in names if re.fullmatch(r"caller_\d", name)]
        leaf = next(name[-1] for name in names if re.fullmatch(r"leaf_\d", name))
        found["cut" if not callers else "right" if callers[-1] == leaf else "wrong"] += 1
        assert row.is_truncated != bool(callers), (row, names)
    is_deep = arguments[-1] > 32768
    assert not found["wrong"] and (way == "auto" or not counts["deep"]), (found, counts)
    if not is_deep:
        assert not found["cut"] and not counts["deep"], (found, counts)
    elif not counts["method"].startswith("BPF"):
        pytest.skip("the kernel does not time waits here: the rest of their stacks is not read, or all of them beside them")
    elif way == "off":
        assert not found["right"], (found, counts)
    else:
        assert found["right"] > 0.5 * len(rows) and counts["deep"] >= found["right"], (found, counts)  # a busy machine reads them late


def test_what_is_not_deep_is_not_read(sample):
    """Small stacks of threads; and a deep one with stacks that fit."""
    for arguments in (("-t", 4, "-k", 32768, "-f", 4000), ("-f", 20000, "-w"), ("-r", 200)):
        found = sample("auto", *arguments)
        # The page that a thread's stack grows into is missing in a sample of just then.
        assert found.counts["deep"] <= 0.02 * len(found.rows) + 1, (arguments, found.counts)
        assert found.counts["completed"] == 0 and found.counts["moved"] == 0, (arguments, found.counts)
        counts = callers(found)
        assert counts["wrong"] == 0 and counts["cut"] <= 3 and counts["right"] > 0.1 * HZ, counts


def test_words_of_waits(record, infprof, build):
    """Stacks of --wall are not its samples: their share would be more than all of them."""
    done = record(f"--cpu={HZ}", "--wall", "--no-snapshots", command=[build("glibc"), "-f", "100000", "1"])
    top = json.loads(run([infprof, "flamegraph", "-r", done.run.path, "--top", "--json", "--mode", "wall", "-o", "-"]).stdout)["wall"]
    if not top["sampling"]["deep"]:
        pytest.skip("no BPF program is permitted here: nothing is read at the same moment")
    assert f"read further at the same moment: {top['sampling']['deep']:,}. " in top["trust"], top["trust"]


def test_off(sample, infprof, run_dir):
    """Stacks are cut, and say how deep they got: in their rows, in the words of the flame graph, in JSON."""
    found = sample("off", "-f", 100000)
    counts = callers(found)
    assert counts["cut"] >= 0.1 * HZ and counts["cut"] >= 0.95 * sum(counts.values()), counts
    cut = [row["cut_bytes"] for row in found.rows if row["is_truncated"] and row["cut_bytes"] is not None]
    assert len(cut) >= 0.9 * counts["cut"] and all(100000 <= size <= 101000 for size in cut), cut[:5]
    assert not any(row["is_completed"] for row in found.rows)
    assert found.counts["deep"] == found.counts["completed"] == 0 and found.counts["truncated"] >= len(cut)
    top = json.loads(run([infprof, "flamegraph", "-r", run_dir, "--top", "--json", "-o", "-"]).stdout)["cpu"]
    assert (top["cut_bytes_least"], top["cut_bytes_most"]) == (min(cut), max(cut)) and top["completed_samples"] == 0, top
    assert "(too deep: read for " in top["trust"], top["trust"]


def test_after_the_sample(sample, infprof, run_dir):
    """Of calls that take 100 ms, hardly one has ended in the millisecond within which its rest is read. On a busy machine the recorder
    may have no CPU in the first millisecond after any sample of a run: then there is another one."""
    all_completed, end = collections.Counter(), time.monotonic() + 120
    while all_completed["right"] < 3:
        assert time.monotonic() < end, (all_completed, found.counts)
        found = sample("after", "-f", 100000, "-i", 4, "-u", 100000, seconds=2)
        completed = callers(found, lambda row: row["is_completed"])
        rest = callers(found, lambda row: not row["is_completed"])
        all_completed += completed
        assert rest["wrong"] == 0 and rest["right"] <= 3, rest  # nothing else reaches the caller
        n = sum(row["is_completed"] for row in found.rows)
        assert found.counts["completed"] == n and found.counts["deep"] == 0
        assert found.counts["completed"] + found.counts["moved"] >= 0.9 * sum((completed + rest).values())
    assert all_completed["wrong"] <= 0.1 * all_completed["right"] + 1 and all_completed["cut"] <= 3, (all_completed, found.counts)
    top = json.loads(run([infprof, "flamegraph", "-r", run_dir, "--top", "--json", "-o", "-"]).stdout)["cpu"]
    assert top["completed_samples"] == top["sampling"]["completed"] == n and "completed from memory" in top["trust"], top


def test_calls_that_have_ended_are_not_joined(sample, infprof, run_dir):
    """Calls of 50 us, whose only witness is what the innermost function has written."""
    found = sample("after", "-f", 100000, "-u", 50)
    trust = json.loads(run([infprof, "flamegraph", "-r", run_dir, "--top", "--json", "-o", "-"]).stdout)["cpu"]["trust"]
    assert ("the thread had moved on" in trust) == (found.counts["moved"] > 0), trust
    completed = callers(found, lambda row: row["is_completed"])
    assert completed["wrong"] <= 2, (completed, found.counts)
    assert found.counts["moved"] >= 0.5 * len(found.rows), found.counts


@pytest.mark.parametrize("way", ["auto", "after"])
def test_a_stack_that_is_unmapped_meanwhile(sample, way):
    found = sample(way, "-m", "-f", 100000, "-u", 300)
    counts = callers(found)
    assert sum(counts.values()) >= 0.1 * HZ and counts["wrong"] <= 1, counts


@pytest.mark.parametrize("kernels", ["this CPU's", "Haswell"])
def test_numpy(record, tmp_path, monkeypatch, kernels):
    """OpenBLAS has frames of half a megabyte, one above the other. What earlier samples lacked is read with the next ones. Its kernels of
    Haswell have no table, and 28 KiB that they align."""
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if kernels == "Haswell":
        if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
            pytest.skip("this CPU has no AVX2, which OpenBLAS's kernels of Haswell need")
        monkeypatch.setenv("OPENBLAS_CORETYPE", kernels)
    if subprocess.run([sys.executable, "-c", "import numpy"], check=False).returncode:
        pytest.skip("numpy is not installed")
    program = tmp_path / "solve.py"
    program.write_text("import numpy, threading, time\nend = time.monotonic() + 4\n"
                       "def work():\n    a = numpy.random.rand(400, 400) + 400 * numpy.eye(400)\n    while time.monotonic() < end: numpy.linalg.solve(a, a)\n"
                       "threads = [threading.Thread(target=work) for _ in range(2)]\n[one.start() for one in threads]\n[one.join() for one in threads]\n")
    done = record(f"--cpu={HZ}", "--no-snapshots", command=[sys.executable, program])
    assert done.returncode == 0, done.stderr
    if not has_bpf([row for row in done.run.table("sampler") if row["mode"] == "cpu"][-1]):
        pytest.skip("no BPF program is permitted here")
    rows = [row for row in done.run.table("stack_samples") if row["mode"] == "cpu"]
    later = rows[len(rows) // 2:]
    cut = [row["cut_bytes"] for row in later if row["is_truncated"]]
    assert not any(row["is_completed"] for row in rows)  # where the same moment can be read, no later one is
    assert len(rows) > 0.5 * HZ and len(cut) <= 0.1 * len(later), (len(rows), len(later), cut[:10])
    last = [row for row in done.run.table("sampler") if row["mode"] == "cpu"][-1]
    assert last["deep"] > 0.1 * len(rows), last


@pytest.mark.parametrize("options, says", [
    (["--cpu", "--deep-stacks=all"], "--deep-stacks all: auto, after or off"),
    (["--wall", "--deep-stacks=off"], "--deep-stacks needs --cpu or --off-cpu"),
    (["--off-cpu", "--deep-stacks=after"], "--deep-stacks=after needs --cpu"),
])
def test_wrong_options(record, options, says):
    done = record(*options, command=["true"])
    assert done.returncode == 125 and says in done.stderr, done.stderr
