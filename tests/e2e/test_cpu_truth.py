"""busy_split of ../shared/truth against what --cpu says of it, built in each way in which programs are built."""
import collections
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from program import query, run
from stacks import UNSEEN, Profile, folded, is_share, pprof

TOP = pathlib.Path(__file__).resolve().parents[2]
TRUTH = TOP.parent / "shared" / "truth"
PLAIN = ["gcc", "-O2", "-g", "-fomit-frame-pointer", "-pthread"]
VARIANTS = {
    "plain": PLAIN,
    "fp": ["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-pthread"],
    "clang": ["clang-14", "-Wno-unknown-attributes", "-O2", "-g", "-fomit-frame-pointer", "-pthread"],
    "stripped": PLAIN,
    "static": [*PLAIN, "-static"],
    "static_pie": [*PLAIN, "-static-pie", "-fPIE"],
    "no_header": [*PLAIN, "-Wl,--no-eh-frame-hdr"],
    "debug_frame": [*PLAIN, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"],
    "musl": ["musl-gcc", "-O2", "-g", "-fomit-frame-pointer", "-static"],
    "musl_dynamic": ["musl-gcc", "-O2", "-g", "-fomit-frame-pointer"],
}
WORK = "work_(30|70)"


@pytest.fixture(scope="session")
def score():
    """The rules of ../shared/truth/score.py."""
    spec = importlib.util.spec_from_file_location("score", TRUTH / "score.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """build(variant): the program, and the same with its symbols."""
    folder, made = tmp_path_factory.mktemp("busy_split"), {}

    def call(variant):
        if variant not in made:
            compiler = VARIANTS[variant][0]
            if not shutil.which(compiler):
                pytest.skip(f"{compiler} is not installed: no program of its to sample")
            program, twin = folder / variant, folder / f"{variant}.full"
            # Its own name says the variant; gnu17 and _GNU_SOURCE as its Makefile has them.
            words = [*VARIANTS[variant], "-std=gnu17", "-D_GNU_SOURCE", str(TRUTH / "busy_split.c"), "-o", str(twin), "-lm"]
            subprocess.run(words, check=True)
            shutil.copy(twin, program)
            if variant == "stripped":
                subprocess.run(["strip", str(program)], check=True)
            made[variant] = program, twin
        return made[variant]

    return call


@pytest.fixture
def sample(record, build, stolen):
    """sample(variant, hz, arguments...): records a run: its own line, its profile, how many samples the totals may be off. Up to three runs:
    a host that stops this machine's CPUs takes samples, and does not always tell it."""
    def call(variant, hz, *arguments):
        program, twin = build(variant)
        for attempt in range(3):
            truth, profile, slack = once(program, twin, hz, arguments)
            wanted = profile.counter("wanted")
            if wanted - profile.counter("taken") <= 0.02 * wanted + slack:
                break
        return truth, profile, slack

    def once(program, twin, hz, arguments):
        before = stolen.now()  # what the compiler lost does not count
        done = record(f"--cpu={hz}", "--no-snapshots", command=[program, *arguments])
        if "perf_event_open" in done.stderr and "refused" in done.stderr:
            pytest.skip("perf_event_open is refused here: no samples to compare")
        assert done.returncode == 0, done.stderr
        truth = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"program"')))
        return truth, Profile(done.run, {program.name: twin}), stolen(before) * hz + truth["threads"] * os.cpu_count()

    return call


def check_split(profile, truth, extra=0.01):
    seen = profile.last(WORK)
    n = seen["work_30"] + seen["work_70"]
    p = truth["measured"]
    assert n > 0, profile.samples[:3]
    assert is_share(seen["work_30"], n, p, extra), (seen, p)


def check_total(profile, truth, hz, slack):
    """Not more samples than CPU time, nor fewer than of the time at work. A normal user's samples lack what the kernel needs then."""
    most, least = truth["cpu_s"] * hz, (truth["work_30"]["cpu_s"] + truth["work_70"]["cpu_s"]) * hz
    kernel = max(0.02, UNSEEN)
    seen = sum(profile.last(WORK).values())
    assert seen >= (1 - kernel) * least - slack and len(profile.samples) <= 1.02 * most + slack, (seen, least, len(profile.samples), most, slack)


def check_stacks(profile, truth):
    """No stack that no run can have: of both functions, out of order, of another depth."""
    for one in profile.samples:
        work = [name for name in one.names if re.fullmatch(WORK, name)]
        if not work or one.is_guessed:
            continue
        assert len(set(work)) == 1, one
        # Nothing stands between its frames, and worker calls the first, by way of run where that is not inlined.
        first = one.names.index(work[0])
        assert one.names[first:first + len(work)] == tuple(work), one
        if not one.is_truncated:
            assert len(work) <= truth["depth"] + 1
            assert "worker" in one.names[max(0, first - 2):first] and one.names[first - 1] in ("worker", "run"), one
    deep = [one for one in profile.samples if one.names and re.fullmatch(WORK, one.names[-1])]
    whole = [one for one in deep if not one.is_truncated]
    # In its first and last instructions a function is not as deep: those of its loop are what most samples are at.
    at = collections.Counter((one.names[-1], one.address) for one in deep)
    assert len(whole) >= 0.98 * len(deep)
    looping = [one for one in whole if at[one.names[-1], one.address] >= 0.02 * len(deep)]
    assert len(looping) >= 0.8 * len(deep), (len(looping), len(whole), len(deep))
    for one in looping:
        assert one.names.count(one.names[-1]) == truth["depth"] + 1, one


@pytest.mark.parametrize("hz, seconds", [(99, 3), (250, 2), (1000, 1.5)])
def test_rates(sample, hz, seconds):
    truth, profile, slack = sample("plain", hz, "-s", seconds)
    check_split(profile, truth)
    check_total(profile, truth, hz, slack)
    check_stacks(profile, truth)
    assert abs(sum(one.weight for one in profile.samples) - len(profile.samples) / hz) <= 0.001 * len(profile.samples) / hz
    # The run says itself how true it is.
    last = profile.sampler[-1]
    assert last["mode"] == "cpu" and last["rate_hz"] == hz, last
    assert profile.counter("taken") == len(profile.samples)
    assert abs(profile.counter("wanted") - truth["cpu_s"] * hz) <= 0.02 * truth["cpu_s"] * hz + 1 + slack  # of clocks, not of ticks
    assert profile.counter("lost") == profile.counter("dropped") == 0


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "plain"])
def test_variants(sample, variant):
    truth, profile, slack = sample(variant, 1000, "-s", 0.8)
    check_split(profile, truth)
    check_total(profile, truth, 1000, slack)
    check_stacks(profile, truth)
    outermost = [one.names[0] for one in profile.samples if re.fullmatch(WORK, one.names[-1] if one.names else "")]
    if not variant.startswith("musl"):  # whose start has no unwind table
        assert outermost.count("_start") >= 0.995 * len(outermost)


def test_threads(sample):
    truth, profile, slack = sample("plain", 1000, "-s", 0.4, "-t", 8)
    check_total(profile, truth, 1000, slack)
    check_stacks(profile, truth)
    tids = {one.tid for one in profile.samples}
    assert len(tids) == 8
    p = truth["measured"]
    for tid in tids:
        names = [one.names[-1] for one in profile.samples if one.tid == tid and one.names and re.fullmatch(WORK, one.names[-1])]
        # Each has the same work, at a speed that may change: its split is nearly that of all.
        assert is_share(names.count("work_30"), len(names), p, 0.02), (tid, names.count("work_30"), len(names))


@pytest.mark.parametrize("variant", ["plain", "fp", "debug_frame"])
def test_recursion(sample, variant):
    truth, profile, slack = sample(variant, 1000, "-s", 0.8, "-r", 300)
    check_split(profile, truth)
    check_total(profile, truth, 1000, slack)
    check_stacks(profile, truth)


def test_fixed_rounds(sample):
    """A sampler with a fixed period must not beat against a program with one."""
    truth, profile, _ = sample("plain", 1000, "-s", 1.5, "-k", 1)
    check_split(profile, truth, 0.02)
    check_stacks(profile, truth)


def test_small_copies(record, build):
    """A stack that is cut says so; what it has is the inner part of the whole."""
    program, twin = build("plain")
    done = record("--cpu=1000", "--stack-size", "1024", "--deep-stacks=off", "--no-snapshots", command=[program, "-s", 0.4, "-r", 300])
    assert done.returncode == 0, done.stderr
    profile = Profile(done.run, {program.name: twin})
    cut = [one for one in profile.samples if one.names and re.fullmatch(WORK, one.names[-1])]
    assert len(cut) > 100
    # In its first calls it is not deep yet: all of the stack, or its caller, too, may be in the copy.
    whole = [one for one in cut if not one.is_truncated]
    shallow = [one for one in cut if one.is_truncated and set(one.names) != {one.names[-1]}]
    assert len(whole) + len(shallow) <= 0.02 * len(cut), (whole[:3], shallow[:3])
    for one in shallow:  # then each caller is the right one
        callers = [name for name in one.names if name != one.names[-1]]
        assert one.names == (*callers, *[one.names[-1]] * (len(one.names) - len(callers))), one
        assert re.fullmatch(r"(((_start;)?libc\S*;)?(libc\S*;)?main;)?worker;(run;)?|run;", ";".join(callers) + ";"), one
    assert profile.counter("truncated") >= len(cut) - len(whole)


def test_one_count_everywhere(sample, infprof, run_dir, tmp_path, score):
    """Flame graph, SQL, pprof and the tables say the same, by score.py's rules too."""
    truth, profile, _ = sample("plain", 1000, "-s", 0.8, "-r", 3)
    text = run([infprof, "flamegraph", "--folded", "-r", run_dir])
    assert text.returncode == 0, text.stderr
    stacks = folded(text.stdout)
    assert sum(count for _, count in stacks) == len(profile.samples)
    result = score.score_cpu(truth, [(";".join(names), count) for names, count in stacks])
    assert result["impossible_share"] == 0, result
    check_split(profile, truth)
    seen = profile.last(WORK)
    assert abs(result["split"] - seen["work_30"] / sum(seen.values())) < 1e-4, (result, seen)

    def leaves(rows):
        counts = {"work_30": 0, "work_70": 0}
        for names, count in rows:
            work = [name for name in names if name in counts]
            if work:
                counts[work[-1]] += count
        return counts

    right = dict(profile.last(WORK))
    assert leaves(stacks) == right
    done = run([infprof, "flamegraph", "--pprof", "-r", run_dir, "-o", tmp_path / "out.pb.gz"])
    assert done.returncode == 0, done.stderr
    rows = pprof((tmp_path / "out.pb.gz").read_bytes())
    assert sum(count for _, count in rows) == len(profile.samples)
    assert leaves(rows) == right
    total = query(infprof, run_dir, "SELECT count(*) AS n, sum(samples) AS s FROM stack_samples WHERE mode = 'cpu'")[0]
    assert total["n"] == total["s"] == len(profile.samples)
    named = query(infprof, run_dir, "WITH RECURSIVE up AS (SELECT stack AS leaf, stack AS node, count(*) AS n FROM stack_samples "
                                    "WHERE mode = 'cpu' GROUP BY stack UNION ALL SELECT up.leaf, s.parent, up.n FROM up JOIN "
                                    "stacks s ON s.id = up.node WHERE s.parent IS NOT NULL) "
                                    "SELECT y.sName AS name, sum(n) AS n FROM (SELECT DISTINCT up.leaf, up.n, y.sName FROM up JOIN "
                                    "stacks s ON s.id = up.node JOIN symbols y ON y.frame = s.frame) y "
                                    "WHERE y.sName IN ('work_30', 'work_70') GROUP BY ALL")
    assert {row["name"]: row["n"] for row in named} == right
