"""`infprof flamegraph`: every format against the programs that read it, and all sums against SQL. The run and its answers: tests/unit/stack_rows.h."""
import collections
import errno
import gzip
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import xml.dom.minidom

import pytest

from browser import find_chromium
from program import PPROF
from refuse import BPF, PERF_EVENT_OPEN, PROCESS_VM_READV, PTRACE, refused
from speedscope import FOLDER as SPEEDSCOPE, Speedscope, total
from waiting import wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
# Samples of mode cpu by stack, the outermost function first.
STACKS = {"main;work;helper": 3, "main;work": 2 + 1, "main;work;work": 4, "main;[lib.so]": 1, "main;[lib.so+0x180]": 1, "[truncated];main": 1}


def stack_tool():
    build = pathlib.Path(os.environ.get("INFPROF", TOP / "build-gcc" / "infprof")).resolve().parent
    for folder in (build, TOP / "build-gcc"):
        if (folder / "tests" / "unit" / "stack_tool").exists():
            return folder / "tests" / "unit" / "stack_tool"
    raise FileNotFoundError(f"{build}/tests/unit/stack_tool is not there: build the tests (tools/build build-gcc)")


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    path = tmp_path_factory.mktemp("known") / "out"
    subprocess.run([stack_tool(), path], check=True)
    return path


@pytest.fixture(scope="module")
def speedscope(tmp_path_factory):
    if not find_chromium() or not SPEEDSCOPE.exists():
        pytest.skip("needs chromium and Speedscope (tools/setup check)")
    page = Speedscope(tmp_path_factory.mktemp("speedscope"))
    yield page
    page.close()


@pytest.fixture
def flamegraph(infprof, known):
    """flamegraph(options...): standard output, as bytes where it is no text."""
    def call(*words, run=known, text=True, fails=None):
        done = subprocess.run([infprof, "flamegraph", "-r", str(run), *map(str, words)], capture_output=True, text=text, timeout=60)
        if fails is not None:
            assert done.returncode == fails, done
            return done.stderr
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@pytest.fixture(scope="module")
def imported(infprof, known, tmp_path_factory):
    """The same samples as another program would hand them over: sums without times."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "a.folded").write_text("".join(f"{stack} {n}\n" for stack, n in STACKS.items()))
    subprocess.run([infprof, "import", folder / "a.folded", "-o", folder / "out"], check=True, capture_output=True)
    return folder / "out"


def sql(infprof, run, text):
    return json.loads(subprocess.run([infprof, "query", "-r", str(run), "--json", text], check=True, capture_output=True, text=True).stdout)


def parse_folded(text):
    stacks = collections.Counter()
    for line in text.splitlines():
        stack, n = line.rsplit(" ", 1)
        stacks[stack] += int(n)
    return stacks


def pprof(path, *words):
    if not PPROF:
        pytest.skip("needs golang-1.19-go (tools/setup check)")
    return subprocess.run([PPROF, *words, path], check=True, capture_output=True, text=True,
                          env={**os.environ, "PPROF_TMPDIR": str(path.parent), "HOME": str(path.parent)}).stdout


@pytest.mark.san
def test_folded(flamegraph):
    text = flamegraph("--folded")
    assert parse_folded(text) == STACKS
    names = [line.rsplit(" ", 1)[0] for line in text.splitlines()]
    assert len(names) == len(set(names))  # also where one sample's frame was guessed and the others' were not
    assert names == sorted(names, key=lambda name: name.split(";"))
    assert parse_folded(flamegraph("--folded", "--reverse"))["helper;work;main"] == 3
    assert parse_folded(flamegraph("--folded", "--by", "thread"))["server (42);main;work;helper"] == 3
    assert parse_folded(flamegraph("--folded", "--by", "line"))["main (main.c:10);work (work.c:20);helper (help.h:7)"] == 3
    assert parse_folded(flamegraph("--folded", "--by", "module")) == {"a.out": 10, "a.out;lib.so": 2, "[truncated];a.out": 1}
    assert parse_folded(flamegraph("--folded", "--mode", "wall", "--by", "state")) == {"futex;main": 1}
    assert parse_folded(flamegraph("--folded", "--filter", "^hel", "--no-inlined")) == {}
    assert parse_folded(flamegraph("--folded", "--from", "+1s", "--to", "+2s")) == {"main;work;helper": 3}
    assert parse_folded(flamegraph("--folded", "--pid", "42")) == STACKS
    assert "no stack samples of process 43" in flamegraph("--folded", "--pid", "43", fails=1)


@pytest.mark.parametrize("name", ["a.folded", "a.pb.gz", "a.speedscope.json", "a.perf"])
def test_what_is_written_can_be_imported(infprof, flamegraph, tmp_path, name):
    flamegraph("-o", tmp_path / name)
    subprocess.run([infprof, "import", tmp_path / name, "-o", tmp_path / "out"], check=True, capture_output=True)
    assert parse_folded(flamegraph("--folded", run=tmp_path / "out")) == STACKS
    top = json.loads(flamegraph("--json", run=tmp_path / "out"))
    [mode] = set(top) - {"profile_id", "duration_seconds"}
    assert abs(top[mode]["total_weight"] - (13 if name == "a.folded" else 0.13)) < 1e-9


def test_names_that_would_break_a_line(infprof, flamegraph, tmp_path):
    """The field writes ':' for ';'. A name that ends in a number is bound to it: two counts mean a difference (reports/29)."""
    (tmp_path / "a.folded").write_text("main;operator new 5 7\nmain;k_[k] 2\n")
    subprocess.run([infprof, "import", tmp_path / "a.folded", "-o", tmp_path / "out"], check=True, capture_output=True)
    assert flamegraph("--folded", run=tmp_path / "out") == "main;k_[k] 2\nmain;operator new_5 7\n"


@pytest.mark.san
def test_pprof(flamegraph, tmp_path):
    path = tmp_path / "cpu.pb.gz"
    flamegraph("-o", path)  # by its name
    raw = pprof(path, "-raw")
    assert "samples/count cpu/nanoseconds[dflt]" in raw and "Period: 10000000" in raw and "Duration: 6.00" in raw
    rows = re.findall(r"^ +(\d+) +(\d+):", raw.split("Samples:")[1].split("Locations")[0], re.M)
    assert sum(int(n) for n, _ in rows) == 13 and sum(int(ns) for _, ns in rows) == 130_000_000
    assert re.search(r"helper /src/help.h:7 s=3\n +work /src/work.c:20 s=15", raw)  # inlined: the innermost first
    assert re.search(r"/usr/bin/a.out 00ff \[FN\]", raw) and re.search(r"/lib/lib.so 11ee \[FN\]", raw)
    assert "process:[server] thread:[worker]" in raw and "pid:[42] tid:[43]" in raw
    top = {line.split(None, 5)[5]: line.split()[:5] for line in pprof(path, "-top", "-sample_index=0").splitlines() if re.match(r" +\d+ +[\d.]+%", line)}
    assert top["work"][0] == "7" and top["work"][3] == "10" and top["helper (inline)"][0] == "3" and top["main"][3] == "13"
    assert pprof(path, "-top", "-tagfocus=thread=worker", "-sample_index=0").count("[truncated]") == 1


def test_sums_are_those_of_sql(infprof, known, flamegraph, tmp_path, speedscope):
    want = sql(infprof, known, "SELECT sum(samples)::BIGINT AS n, sum(weight) AS s FROM samples_named WHERE mode = 'cpu'")[0]
    assert want["n"] == 13 and abs(want["s"] - 0.13) < 1e-9
    assert {row["stack_text"]: row["n"] for row in
            sql(infprof, known, "SELECT stack_text, count(*) AS n FROM samples_named WHERE mode = 'cpu' GROUP BY 1")} == STACKS
    assert sum(parse_folded(flamegraph("--folded")).values()) == want["n"]
    top = json.loads(flamegraph("--json"))["cpu"]
    assert top["total_samples"] == want["n"] == sum(row["samples"] for row in top["top_functions"])
    perf = flamegraph("--perf-script")
    assert len(re.findall(r"^\S.*:$", perf, re.M)) == want["n"]
    mine = json.loads(flamegraph("--speedscope"))
    assert sum(len(profile["samples"]) for profile in mine["profiles"]) == want["n"] and abs(total(mine) - want["s"]) < 1e-9
    path = tmp_path / "a.pb.gz"
    path.write_bytes(flamegraph("--pprof", text=False))
    assert abs(sum(profile["endValue"] for profile in speedscope.open(path)["profiles"]) - want["s"] * 1e9) < 1


def own_times(saved):
    """Of a profile as Speedscope saves it: seconds that each function was innermost."""
    scale = {"microseconds": 1e-6, "nanoseconds": 1e-9}
    times = collections.Counter()
    for profile in saved["profiles"]:
        open_, last = [], profile["startValue"]
        for event in profile["events"]:
            if open_:
                times[saved["shared"]["frames"][open_[-1]]["name"]] += (event["at"] - last) * scale.get(profile["unit"], 1)
            last = event["at"]
            if event["type"] == "O":
                open_.append(event["frame"])
            else:
                assert open_.pop() == event["frame"], "slices that are not nested"
        assert not open_
    return {name: round(time, 6) for name, time in times.items() if time > 0}


SELF = {"helper": 0.03, "work": 0.07, "[lib.so]": 0.01, "[lib.so+0x180]": 0.01, "main": 0.01}


def test_speedscope(flamegraph, tmp_path, speedscope):
    import jsonschema

    path = tmp_path / "cpu.speedscope.json"
    flamegraph("-o", path)
    profile = json.loads(path.read_text())
    jsonschema.validate(profile, json.loads((SPEEDSCOPE / "file-format-schema.json").read_text()))
    assert [p["name"] for p in profile["profiles"]] == ["server (42)", "worker (43)"]  # the busiest first
    assert all(len(p["samples"]) == len(p["weights"]) and p["startValue"] <= p["endValue"] for p in profile["profiles"])
    saved = speedscope.open(path)
    assert [p["name"] for p in saved["profiles"]] == ["server (42)", "worker (43)"] and saved["profiles"][0]["unit"] == "seconds"
    assert own_times(saved) == SELF
    assert {frame["name"]: frame.get("line") for frame in saved["shared"]["frames"]}["work"] == 15
    profile = json.loads(flamegraph("--speedscope", "--by", "process"))
    assert [p["name"] for p in profile["profiles"]] == ["server (42)"]


def test_speedscope_reads_the_others(flamegraph, tmp_path, speedscope):
    for name, words in (("cpu.folded", []), ("cpu.perf", []), ("cpu.pb.gz", [])):
        flamegraph("-o", tmp_path / name, *words)
        saved = speedscope.open(tmp_path / name)
        assert saved and saved["profiles"], name
        assert {"main", "work"} <= {frame["name"] for frame in saved["shared"]["frames"]}, name


def check_trace(trace):
    """The rules that Perfetto drops slices by. Returns nanoseconds of outermost slices by track."""
    assert set(trace) <= {"traceEvents", "displayTimeUnit", "metadata"} and trace["metadata"]["baseTimeNanoseconds"] > 0
    sums, tracks = collections.Counter(), collections.defaultdict(list)
    for event in trace["traceEvents"]:
        assert event["ph"] in "MX" and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "X":
            assert event["ts"] >= 0 and event["dur"] >= 0 and event["name"]
            tracks[event["pid"], event["tid"]].append((round(event["ts"] * 1000), round(event["dur"] * 1000)))
    for track, slices in tracks.items():
        open_ = []
        assert slices == sorted(slices, key=lambda s: (s[0], -s[1])), "slices in another order than viewers nest them in"
        for begin, duration in slices:
            while open_ and open_[-1] <= begin:
                open_.pop()
            assert not open_ or begin + duration <= open_[-1], "a slice reaches beyond the one that it lies in"
            if not open_:
                sums[track] += duration
            open_.append(begin + duration)
    return sums


def test_chrome(flamegraph, tmp_path, speedscope):
    path = tmp_path / "cpu.trace.json"
    flamegraph("-o", path)
    trace = json.loads(path.read_text())
    # Three samples of A of one moment are one slice of 10 ms; so are its moments of 4 and 5 s; of B 3, 5 and 6 s.
    assert check_trace(trace) == {(42, 42): 30_000_000, (42, 43): 30_000_000}
    names = {(event["name"], event["tid"]): event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"}
    assert names["thread_name", 43] == "worker" and names["process_name", 42] == "server"
    saved = speedscope.open(path)
    assert [p["name"] for p in saved["profiles"]] == ["server (pid 42), server (tid 42)", "server (pid 42), worker (tid 43)"]
    assert own_times(saved)["helper"] == 0.01 and own_times(saved)["main"] == 0.01


@pytest.mark.san
def test_chrome_of_steady_samples(infprof, flamegraph, tmp_path):
    """A thread that is sampled each 10 ms is one slice as long as the samples stand for."""
    run = tmp_path / "steady"
    subprocess.run([stack_tool(), run, "2000", "300"], check=True)
    trace = json.loads(flamegraph("--chrome", run=run))
    sums = check_trace(trace)
    assert len(sums) == 4 and all(2_000_000_000 - 10_000_000 <= n <= 2_010_000_000 for n in sums.values())
    assert sum(parse_folded(flamegraph("--folded", run=run)).values()) == 2000
    want = collections.Counter()
    for row in sql(infprof, run, "SELECT stack_text, count(*) AS n FROM samples_named GROUP BY 1"):
        want[row["stack_text"]] += row["n"]
    assert parse_folded(flamegraph("--folded", run=run)) == want


@pytest.mark.san
def test_perf_script(flamegraph):
    blocks = flamegraph("--perf-script").strip("\n").split("\n\n")
    assert len(blocks) == 13
    assert blocks[0].splitlines() == ["server 42/42 2.000000:   10000000 cpu-clock:", "\t              20 helper (inlined)",
                                      "\t              20 work (/usr/bin/a.out)", "\t              10 main (/usr/bin/a.out)"]
    assert blocks[-1].splitlines()[-1].split() == ["0", "[truncated]", "([unknown])"]


@pytest.mark.san
def test_top(flamegraph):
    text = flamegraph("--top=2")
    assert "Mode cpu: 13 samples, 130 ms" in text and "... and 3 more" in text
    row = next(line for line in text.splitlines() if "work.c:15" in line)
    # 7 of 13 by Wilson's score: 29.1 to 76.8 %. One of them has a guessed frame: a part of the function's, and said of the whole.
    assert row.split()[:7] == ["53.85", "%", "76.92", "%", "29.14", "to", "76.79"]
    assert "guessed)" not in row and "Samples with a guessed frame: 7.7 %" in " ".join(text.split())
    assert "Taken: 13 samples of 14 wanted (92.9 %) at 100 Hz by perf events of a tree. Missing: 1 record lost by the kernel." in " ".join(text.split())
    data = json.loads(flamegraph("--top", "--json"))
    assert data["profile_id"] and abs(data["duration_seconds"] - 6) < 1e-6
    first = data["cpu"]["top_functions"][0]
    assert (first["name"], first["samples"], round(first["percent"], 2), first["file"], first["line"]) == ("work", 7, 53.85, "/src/work.c", 15)
    assert first["total"]["samples"] == 10 and round(first["self"]["percent_low"], 2) == 29.14
    assert (first["guessed"], first["guessed_samples"], data["cpu"]["guessed_samples"]) == (False, 1, 1)
    assert data["cpu"]["sampling"]["wanted"] == 14 and data["cpu"]["sampling"]["lost"] == 1
    assert data["cpu"]["top_functions_total"][0]["name"] == "main"
    # Within a range the counters are what they grew by.
    part = json.loads(flamegraph("--json", "--from", "+3s"))["cpu"]
    assert part["sampling"]["wanted"] == 14 - 8 and part["total_samples"] == 8


def test_report(infprof, known, imported):
    def report(run, *words):
        return subprocess.run([infprof, "report", "--full", "-r", str(run), *words], check=True, capture_output=True, text=True).stdout

    functions = json.loads(report(known, "--json"))["functions"]
    assert set(functions) == {"cpu", "wall"} and functions["cpu"]["top_functions"][0]["name"] == "work"
    text = report(known)
    assert "Functions by CPU time" in text and "Functions by wall-clock time of all threads" in text and "1 record lost by the kernel" in " ".join(text.split())
    assert "Functions of the imported profile" in report(imported)
    assert json.loads(report(imported, "--json"))["functions"]["samples/count"]["total_samples"] == 13


SPIN = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); end = time.time() + 20\nwhile time.time() < end: sum(range(1000))"


def test_a_run_that_is_recorded_and_one_that_was_killed(infprof, flamegraph, run_dir, tmp_path):
    process = subprocess.Popen([infprof, "record", "--cpu", "-o", run_dir, "--no-finish", "--", "python3", "-c", SPIN, tmp_path / "pid"], stderr=subprocess.PIPE)

    def samples():
        done = subprocess.run([infprof, "flamegraph", "-r", run_dir, "--json"], capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout)["cpu"]["total_samples"] if done.returncode == 0 else 0

    try:
        wait_for(lambda: (tmp_path / "pid").exists() and list(run_dir.glob("*.infprof")), "a run", 20)
        wait_for(lambda: samples() > 20 or any(row["collector"] == "sampler" and row["state"] == "denied" for row in run_dir.run().table("sources")),
                 "samples", 20)
        first = samples()
        if not first:
            pytest.skip("perf_event_open is not allowed here")
        process.kill()
        process.wait()
        folded = parse_folded(flamegraph("--folded", run=run_dir))
        assert sum(folded.values()) >= first and any("python" in stack for stack in folded)
    finally:
        process.kill()
        process.wait()
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_no_samples_and_why(flamegraph, record, run_dir):
    """Where perf events are refused, /proc is read instead: a program that is over before that has no samples."""
    def unseen():
        shutil.rmtree(run_dir, ignore_errors=True)
        done = record("--cpu", "--no-finish", command=["true"], preexec_fn=refused([PERF_EVENT_OPEN, PTRACE, BPF, PROCESS_VM_READV], errno.EPERM))
        assert done.returncode == 0
        return not done.run.table("stack_samples") and done

    done = wait_for(unseen, "a recording of a program that nobody saw")
    assert "no stack samples: a seccomp filter of this container refuses perf_event_open" in flamegraph(run=done.run.output, fails=1)


def test_no_samples_of_a_target_that_waits(flamegraph, record):
    done = record("--cpu=1", "--no-finish", command=["sleep", "0.3"])
    assert done.returncode == 0
    assert "expected from the target's CPU time: it waited" in flamegraph(run=done.run.output, fails=1)


def test_pictures(flamegraph, known, tmp_path):
    page = flamegraph("--title", "A title", "--colors", "hot", "--min-width-percent", "0.1")
    assert page.startswith("<!doctype html>") or page.lower().startswith("<!doctype html>")
    assert "A title" in page and "1 record lost by the kernel" in page
    picture = flamegraph("--svg")
    assert picture.lstrip().startswith("<?xml") or picture.lstrip().startswith("<svg")
    assert "helper" in picture and "6.00 s, 100 Hz" in picture
    assert "100 Hz" not in flamegraph("--svg", "--mode", "wall")  # which is the rate of cpu
    assert flamegraph("--svg", "--diff", known) != picture
    flamegraph("-o", tmp_path / "a.svg")
    assert "helper" in (tmp_path / "a.svg").read_text()


def folded_run(infprof, folder, text):
    subprocess.run([infprof, "import", "-", "-o", folder], input=text.encode(), check=True, capture_output=True)
    return folder


def wilson(k, n, z=1.959963985):
    p, d = k / n, 1 + z * z / n
    half = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5 / d
    return (p + z * z / (2 * n)) / d - half, (p + z * z / (2 * n)) / d + half


def test_functions_that_changed(infprof, flamegraph, tmp_path):
    """By function, in points of shares: twice as long a run has changed nothing, and cuts move frames alone."""
    old = folded_run(infprof, tmp_path / "old", "main;a 300\nmain;b 100\nmain;gone 100\n")
    new = folded_run(infprof, tmp_path / "new", "[truncated];a 700\nmain;b 300\n")
    done = subprocess.run([infprof, "flamegraph", "-r", new, "--diff", old, "--top"], capture_output=True, text=True, check=True)
    assert "Incomplete stacks: 0.0 % before, 70.0 % after" in done.stderr and "compare functions" in done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    [head] = [i for i, words in enumerate(rows) if words[:2] == ["before", "after"] and words[-1] == "function"]
    assert [(row[0], row[2], row[4], row[8]) for row in rows[head + 1:head + 4]] == [
        ("20.00", "0.00", "-20.00", "gone"), ("60.00", "70.00", "+10.00", "a"), ("20.00", "30.00", "+10.00", "b")]
    (al, ah), (bl, bh) = wilson(300, 500), wilson(700, 1000)
    low, high = 0.1 - ((0.7 - bl) ** 2 + (ah - 0.6) ** 2) ** 0.5, 0.1 + ((bh - 0.7) ** 2 + (0.6 - al) ** 2) ** 0.5
    assert rows[head + 2][5:8] == [f"{100 * low:+.2f}", "to", f"{100 * high:+.2f}"]
    found = json.loads(flamegraph("--diff", old, "--top", "--json", run=new))["samples/count"]
    assert (found["total_samples"], found["before_total_samples"], found["before_truncated_samples"]) == (1000, 500, 0)
    change = {one["name"]: one["self_change"] for one in found["top_functions"]}["a"]
    assert (change["before_samples"], change["before_percent"], change["points"]) == (300, pytest.approx(60), pytest.approx(10))
    assert (change["points_low"], change["points_high"]) == (pytest.approx(100 * low), pytest.approx(100 * high))
    for option in ("--html", "--svg"):
        assert "Incomplete stacks: 0.0 % before, 70.0 % after" in flamegraph(option, "--diff", old, run=new)
    same = folded_run(infprof, tmp_path / "same", "main;a 600\nmain;b 200\nmain;gone 200\n")
    done = subprocess.run([infprof, "flamegraph", "-r", same, "--diff", old, "--top"], capture_output=True, text=True, check=True)
    assert "Incomplete stacks" not in done.stderr and "+0.00" in done.stdout and "-20.00" not in done.stdout


def test_what_nearly_all_samples_pass_fills_no_table(infprof, flamegraph, tmp_path):
    run = folded_run(infprof, tmp_path / "run", "_start;main;run;work;a 60\n_start;main;run;work;b 35\n_start;main;run;idle 5\n")
    text = flamegraph("--top=3", run=run)
    rows = [line.split() for line in text.split("function and what it calls\n")[1].splitlines()]
    assert [row[-1] for row in rows[:3]] == ["work", "a", "b"]
    assert "... and 4 more; 3 that nearly every stack passes through are left out: _start, main, run" in " ".join(text.split())
    page = subprocess.run([infprof, "report", "--html", "-r", str(run), "-o", "-"], capture_output=True, text=True, check=True).stdout
    assert "... and 3 more; 3 that nearly every stack passes through are left out: _start, main, run</p>" in page
    top = json.loads(flamegraph("--top=3", "--json", run=run))["samples/count"]
    assert [one["name"] for one in top["top_functions_total"]] == ["_start", "main", "run"]


def test_where_threads_begin_fills_no_table(infprof, flamegraph, tmp_path):
    """Of 60 % each begins a thread, of 40 % the process; a function of that share that is no beginning stays."""
    run = folded_run(infprof, tmp_path / "run", "clone3;start_thread;pool;work 60\n_start;__libc_start_main@@GLIBC_2.34;main;idle 40\n")
    text = flamegraph("--top=3", run=run)
    rows = [line.split() for line in text.split("function and what it calls\n")[1].splitlines()]
    assert [row[-1] for row in rows[:3]] == ["work", "pool", "idle"]
    assert "5 that nearly every stack passes through are left out: clone3, start_thread, " in " ".join(text.split())


def test_heat_is_the_self_time_of_a_function(infprof, flamegraph, tmp_path):
    """f has 4 + 7 % in two frames, which alone would be two colours less hot."""
    run = folded_run(infprof, tmp_path / "run", "x;f 40\nx;g;f 70\nx;b 80\nx;c 30\nx;d 15\nx;e 10\nx;rest 755\n")
    picture = flamegraph("--svg", "--colors", "heat", run=run)
    rules = dict(re.findall(r"\.(c\d+)\{fill:(#[0-9a-f]{6})\}", picture))
    found = {name: {rules[colour] for other, colour in re.findall(r'<title>(\w+)\n[^<]*</title><rect class="(c\d+)"', picture) if other == name}
             for name in ("x", "f", "g", "b", "c", "d", "e", "rest")}
    red, orange, amber, gold, yellow = "#ff3030", "#ff8000", "#ffaa00", "#ffcc00", "#ffff00"
    assert found == {"x": {yellow}, "f": {red}, "g": {yellow}, "b": {orange}, "c": {amber}, "d": {gold}, "e": {yellow}, "rest": {red}}
    assert ">self time above 10 %<" in picture


def test_a_narrow_frame_has_the_short_name(infprof, flamegraph, tmp_path):
    name = "(anonymous namespace)::Q0<int, float>::gemm(long, long)"
    picture = flamegraph("--svg", run=folded_run(infprof, tmp_path / "run", f"main;{name} 10\nmain;b 90\n"))
    assert ">Q0::gemm</text>" in picture and name.replace("<", "&lt;").replace(">", "&gt;") in picture
    assert "function shortName" in picture  # by which zooming labels frames


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_steps_of_change_of_the_page():
    """As src/view/flame/palette.c steps: tests/unit/test_flame_view.c reads the same file."""
    top = pathlib.Path(__file__).resolve().parents[2]
    lines = (top / "tests/fixtures/flame/change_steps.tsv").read_text().splitlines()
    cases = [[int(cell) for cell in line.split("\t")[:6]] for line in lines if not line.startswith("#")]
    step = re.search(r"^function changeStep\(.*?^}$", (top / "web/flame/colors.js").read_text(), re.M | re.S).group()
    script = f"const STEPS = 5; {step}; console.log(JSON.stringify(JSON.parse(process.argv[1]).map((c) => changeStep(...c) + 0)))"
    done = subprocess.run(["node", "-e", script, json.dumps([case[:5] for case in cases])], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [case[5] for case in cases]


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_short_names_of_the_page():
    """As src/view/flame/look.c shortens them: tests/unit/test_flame_view.c reads the same file."""
    top = pathlib.Path(__file__).resolve().parents[2]
    cases = [line.split("\t") for line in (top / "tests/fixtures/flame/short_names.tsv").read_text().splitlines()]
    script = (top / "web/flame/short_name.js").read_text() + "console.log(JSON.stringify(JSON.parse(process.argv[1]).map(shortName)))"
    done = subprocess.run(["node", "-e", script, json.dumps([name for name, short in cases])], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [short for name, short in cases]


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_whose_time_a_wait_is_on_the_page():
    """As src/analyze/profile/flame.c counts: tests/unit/test_flame.c reads the same file."""
    top = pathlib.Path(__file__).resolve().parents[2]
    lines = (top / "tests/fixtures/flame/waits.tsv").read_text().splitlines()
    cases = [line.split("\t") for line in lines if not line.startswith("#")]
    owner_of = re.search(r"^function ownerOf\(.*?^}$", (top / "web/flame/tree.js").read_text(), re.M | re.S).group()
    script = owner_of + """
        const owner = ([wait, whole, isLeafFirst]) => {
          const groups = whole.filter((kind) => kind === 'group'), rest = whole.slice(groups.length);
          const kinds = isLeafFirst ? [...groups, ...rest.reverse()] : whole;
          const fn = [-1, ...kinds.keys()], parent = [0, ...kinds.keys()], isWait = fn.map((_, i) => i === kinds.length && wait);
          const functions = { isKernel: kinds.map((kind) => kind === 'kernel'), isGroup: kinds.map((kind) => kind === 'group') };
          const found = ownerOf({ fn, parent, isWait }, functions, kinds.length, isLeafFirst) - 1;
          return isLeafFirst ? groups.length + kinds.length - 1 - found : found;
        };
        console.log(JSON.stringify(JSON.parse(process.argv[1]).map(owner)));"""
    for is_leaf_first in (False, True):
        asked = [[wait == "1", kinds.split(","), is_leaf_first] for _, _, wait, kinds, _ in cases]
        done = subprocess.run(["node", "-e", script, json.dumps(asked)], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout) == [int(case[-1]) for case in cases] and len(cases) == 13


def test_diff_refuses_other_modes(flamegraph, imported):
    assert "they cannot be compared" in flamegraph("--svg", "--diff", imported, fails=1)


def test_a_terminal_gets_a_file(infprof, known):
    primary, secondary = pty.openpty()
    done = subprocess.run([infprof, "flamegraph", "-r", str(known), "--svg"], stdout=secondary, stderr=subprocess.PIPE, timeout=30)
    os.close(secondary)
    said = os.read(primary, 10000).decode().strip()
    os.close(primary)
    assert done.returncode == 0 and said.endswith("_flamegraph.svg") and pathlib.Path(said).read_text().count("helper")


@pytest.mark.parametrize("words, said", [
    (["--svg", "--html"], "one format at a time"), (["--python-only", "--native-only"], "not both"), (["--pprof", "--json"], "--json is the table"), (["--by", "colour"], "--by colour"),
    (["--colors", "pink"], "--colors pink"), (["--folded", "--title", "x"], "--title is for --html and --svg"), (["--pprof", "--reverse"], "--reverse is for"),
    (["--chrome", "--by", "thread"], "--by is not for --chrome"), (["--speedscope", "--by", "line"], "--by is not for --speedscope"),
    (["--folded", "--diff", "x"], "--diff is for"), (["--top=0"], "--top=0"), (["--min-width-percent", "200"], "--min-width-percent 200"),
    (["--pid", "x"], "--pid x"), (["extra"], "no operand 'extra'"), (["--top", "5"], "--top takes its value after an equals sign: --top=5"),
    (["-o", "x.png"], "x.png: unknown extension; .html is a page")])
def test_usage(flamegraph, words, said):
    assert said in flamegraph(*words, fails=2)


def test_failures(flamegraph, infprof, imported, tmp_path, run_dir):
    assert "'a(' is not a regular expression" in flamegraph("--folded", "--filter", "a(", fails=1)
    for large, why in (("a{255}{255}{255}{255}", "repetitions multiply"), ("(" * 50000 + ")" * 50000, "1,000 parentheses"), (r"(.*)x\1", "back-reference")):
        assert why in flamegraph("--folded", "--filter", large, fails=1)
    assert "no samples of mode 'heap' there; it has: cpu, wall" in flamegraph("--folded", "--mode", "heap", fails=1)
    assert "a trace has times" in flamegraph("--chrome", run=imported, fails=1)
    subprocess.run([infprof, "record", "-o", run_dir, "--no-finish", "--", "true"], check=True, capture_output=True)
    assert "no stack samples; `infprof record --cpu` takes them" in flamegraph("--folded", run=run_dir, fails=1)
    assert "no stack samples in this time" in flamegraph("--folded", "--from", "+5.5s", fails=1)
    assert f"--diff {run_dir}: the run has no stack samples; `infprof record --cpu` takes them" in " ".join(
        flamegraph("--top", "--diff", run_dir, run=imported, fails=1).split())
    assert f"--diff {run_dir}:" not in flamegraph("--top", "--diff", imported, run=run_dir, fails=1)
    assert not list(tmp_path.glob("*.part"))


def test_hostile_run(infprof, flamegraph, tmp_path, speedscope):
    """Names that break formats, circles of nodes, stacks without parents or frames, 5,000 frames: said, never a hang (stack_tool.c)."""
    run = tmp_path / "hostile"
    subprocess.run([stack_tool(), run, "hostile"], check=True)
    folded = parse_folded(flamegraph("--folded", run=run))
    assert sum(folded.values()) == 18 and sum(n for stack, n in folded.items() if stack.startswith("[truncated]")) == 6
    assert not any(ord(c) < 32 for c in "".join(folded)) and "semi:colon" in folded
    data = json.loads(flamegraph("--json", run=run))["cpu"]
    assert data["total_samples"] == 18 and data["cut_samples"] == 6 and "because the run's tables are damaged: 33.3 %" in data["trust"]
    check_trace(json.loads(flamegraph("--chrome", run=run)))
    xml.dom.minidom.parseString(flamegraph("--svg", run=run))
    assert "<script><!--" not in flamegraph("--html", run=run)
    assert len(re.findall(r"^\S.*:$", flamegraph("--perf-script", run=run), re.M)) == 18
    assert "\x1b" not in flamegraph("--top", run=run)
    flamegraph("-o", tmp_path / "a.speedscope.json", run=run)
    assert sum(len(p["samples"]) for p in json.loads((tmp_path / "a.speedscope.json").read_text())["profiles"]) == 18
    assert "semi;colon" in {frame["name"] for frame in speedscope.open(tmp_path / "a.speedscope.json")["shared"]["frames"]}
    flamegraph("-o", tmp_path / "a.pb.gz", run=run)
    assert "semi;colon" in pprof(tmp_path / "a.pb.gz", "-top", "-nodefraction=0", "-edgefraction=0")
    assert sql(infprof, run, "SELECT count(*)::BIGINT AS n FROM samples_named WHERE stack_text LIKE '[truncated]%'")[0]["n"] >= 6


def test_finished_runs_say_the_same(infprof, known, flamegraph, tmp_path):
    """Parquet as Arrow."""
    shutil.copytree(known, tmp_path / "copy")
    subprocess.run([infprof, "finish", "-r", tmp_path / "copy"], check=True, capture_output=True)
    assert list(tmp_path.glob("copy/*.infprof/stack_samples/*.parquet"))
    assert flamegraph("--folded", run=tmp_path / "copy") == flamegraph("--folded")
    assert gzip.decompress(flamegraph("--pprof", run=tmp_path / "copy", text=False))
