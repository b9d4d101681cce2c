"""Python frames in recordings: truth programs, names and lines, processes that come late, and what is said where they cannot be read."""
import collections
import importlib.util
import json
import os
import pathlib
import re
import subprocess

import pytest

import waits
from program import query, run
from pythons import FREE, PYTHONS, WHY_NOT_FREE
from stacks import folded, is_share, pprof

TOP = pathlib.Path(__file__).resolve().parents[2]
TRUTH = TOP.parent / "shared" / "truth"
HZ = 499
ONE = "system" if "system" in PYTHONS else next(iter(PYTHONS), None)
SOME = [name for name in PYTHONS if name == ONE or name in FREE or re.match(r"3\.(8|13)\.", name)]
pytestmark = pytest.mark.skipif(not PYTHONS, reason="no Python to record")

SPIN = '''\
import sys, time

class Model:
    def forward(self, seconds):
        end = time.process_time() + seconds
        while time.process_time() < end:
            self.step(
                200)
    def step(self, n):
        x = 0
        for i in range(n):
            x = (x * 5 + i) & 0xffff
        return x

if __name__ == "__main__":
    Model().forward(float(sys.argv[1]))
'''


# Functions that are made, run and freed: each has the addresses of the one before, those of its texts too.
GENERATED_S = 0.15  # of CPU time, each function
GENERATED = '''\
import gc, time

SOURCE = """
def g%d(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
"""
for i in range(9):
    names = {"time": time}
    exec(compile(SOURCE % i, "/tmp/file%d.py" % i, "exec"), names)
    names[f"g{i}"](SECONDS)
    time.sleep(0.4)  # what is freed before it was named has no name
    del names
    gc.collect()
'''


@pytest.fixture(scope="session")
def score():
    """The rules of ../shared/truth/score.py."""
    spec = importlib.util.spec_from_file_location("score", TRUTH / "score.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recording:
    """What a recording says: its folded stacks, and the last row of how the sampling went."""

    def __init__(self, infprof, done):
        self.done, self.run = done, done.run
        self.sources = [row for row in self.run.table("sources") if row["collector"] == "sampler" and row["instance"] == "python"]
        self.sampler = [row for row in self.run.table("sampler") if row["mode"] == "cpu"][-1]
        text = run([infprof, "flamegraph", "-r", self.run.path, "--folded", "-o", "-"])
        assert text.returncode == 0, text.stderr
        self.stacks = folded(text.stdout)

    def python_frames(self):
        """{(function, file): lines} of Python frames."""
        kinds = {row["id"]: row for row in self.run.table("frames") if row["fKind"] == "python"}
        found = collections.defaultdict(set)
        for row in self.run.table("symbols"):
            if row["frame"] in kinds:
                found[row["sName"], row["sFile"]].add(row["sLine"])
        return found

    def check_merged(self):
        """At least 99.5 percent of stacks in which Python was at work have its frames, as soon as one has: until then the interpreter is
        being found. A few of a short run may be at the wrong moment."""
        bad = {name: self.sampler[f"python_{name}"] for name in ("unmerged", "torn", "missed")}
        whole = self.sampler["python_merged"] + sum(bad.values())
        assert self.sampler["python_merged"] > 0, self.sampler
        rows = waits.rows(self.run, "cpu")
        found_ns = min((row.t_ns for row in rows if has_python(row)), default=0)
        early = min(bad["missed"], sum(row.t_ns < found_ns for row in rows))
        assert early <= 0.005 * whole + 4, (bad, early, whole)
        assert sum(bad.values()) - early <= 0.005 * whole + 4, (bad, early, whole)
        assert bad["torn"] <= 0.005 * whole + 1, (bad, whole)


def has_python(row):
    return any(frame.kind == "python" for frame in row.frames)


@pytest.fixture
def sample(infprof, record):
    """sample(command, options...): a recording with Python frames; skips where the kernel does not let us read them."""
    def call(command, *options, **arguments):
        done = record(f"--cpu={HZ}", "--no-snapshots", *options, command=command, **arguments)
        assert done.returncode == 0, done.stderr
        found = Recording(infprof, done)
        state = found.sources[-1] if found.sources else {"state": "absent", "reason": done.stderr}
        if state["state"] != "ok":
            pytest.skip(f"Python frames cannot be read here: {state['reason']}")
        return found

    return call


@pytest.fixture(scope="session")
def extension(tmp_path_factory):
    """extension(name): the folder with mixed.py's extension for that Python."""
    folder = tmp_path_factory.mktemp("mixed")

    def call(name):
        words, environment = PYTHONS[name]
        question = "import sysconfig as s; print(s.get_path('include')); print(s.get_config_var('EXT_SUFFIX'))"
        include, suffix = run([*words, "-c", question], env=environment).stdout.split()
        if not (pathlib.Path(include) / "Python.h").exists():
            pytest.skip(f"{include} has no Python.h: the extension of mixed.py cannot be built")
        target = folder / f"mixed_ext{suffix}"
        if not target.exists():
            subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", "-fPIC", "-shared", f"-I{include}",
                            str(TRUTH / "mixed_ext.c"), "-o", str(target)], check=True)
        return folder

    return call


def check_truth(score, found, line, error=0.01):
    """Shares as declared, and no stack that no run can have. Stacks that stayed native say so: check_merged counts them. So do stacks of
    mixed.py that were not read whole, in its extension, whose unwind table comes a moment later: C's frames are missing in them."""
    python = {name for name, _ in found.python_frames()}
    stacks = [(names, count) for names, count in found.stacks if python.intersection(names)]
    truth = score.score_cpu(line, [(";".join(names), n) for names, n in stacks])
    early = [(names, count) for names, count in stacks if names[0] == "[truncated]"] if line["program"] == "mixed.py" else []
    judged = score.score_cpu(line, [(";".join(names), n) for names, n in stacks if (names, n) not in early])
    assert judged["impossible_share"] == 0 and sum(count for _, count in early) <= 0.005 * truth["weight"] + 2, (judged, early)
    n = sum(count for names, count in stacks if score.NAME.search(";".join(names)))
    assert is_share(round(truth["split"] * n), n, truth["truth"], error), truth
    if "share_error" in truth:
        assert truth["sees"] == ["py", "c", "cb"], truth
        for name, share in line["share"].items():
            own = sum(count for names, count in stacks if score.NAME.findall(";".join(names))[-1:] == [tuple(name.split("_"))])
            assert is_share(own, n, share, error), (name, own, n, share)


@pytest.mark.skipif(not TRUTH.exists(), reason="no ../shared/truth here")
@pytest.mark.parametrize("name", PYTHONS)
def test_mixed(sample, score, extension, name):
    words, environment = PYTHONS[name]
    done = sample([*words, TRUTH / "mixed.py", "-s", "1.2", "-t", "2", "-n", "3"],
                  env={**os.environ, **environment, "MIXED_EXT_DIR": str(extension(name))})
    check_truth(score, done, json.loads(done.done.stdout))
    done.check_merged()


@pytest.mark.skipif(not TRUTH.exists(), reason="no ../shared/truth here")
@pytest.mark.parametrize("mode", ["plain", "recursion", "generator", "asyncio", "flip"])
@pytest.mark.parametrize("name", SOME)
def test_busy_split(sample, score, name, mode):
    words, environment = PYTHONS[name]
    done = sample([*words, TRUTH / "busy_split.py", "-s", "1", "-m", mode], env={**os.environ, **environment})
    check_truth(score, done, json.loads(done.done.stdout))
    done.check_merged()


@pytest.fixture
def spin(tmp_path):
    path = tmp_path / "spin.py"
    path.write_text(SPIN)
    return path


def check_spin(found, path, version):
    """Names, files and lines of SPIN, and the order of its stacks, of which half are in its innermost function."""
    frames = found.python_frames()
    qualified = "Model." if version >= (3, 11) else ""
    assert frames[qualified + "step", str(path)] <= {9, 10, 11, 12, 13}, frames
    assert frames[qualified + "step", str(path)] & {11, 12}, frames
    assert frames[qualified + "forward", str(path)] <= {5, 6, 7, 8}, frames
    order = ["<module>", qualified + "forward", qualified + "step"]
    whole = [count for names, count in found.stacks if [one for one in names if one in order] == order]
    assert sum(whole) > 0.5 * sum(count for _, count in found.stacks), found.stacks[:5]
    for names, _ in found.stacks:
        seen = [one for one in names if one in order[1:]]  # modules are imported by modules
        assert seen == order[1:len(seen) + 1], names


def version_of(name):
    words, environment = PYTHONS[name]
    return tuple(map(int, run([*words, "-c", "import sys; print(*sys.version_info[:2])"], env=environment).stdout.split()))


@pytest.mark.parametrize("name", PYTHONS)
def test_names_and_lines(sample, spin, name):
    words, environment = PYTHONS[name]
    found = sample([*words, spin, "0.7"], env={**os.environ, **environment})
    check_spin(found, spin, version_of(name))
    assert "a BPF program" in found.sampler["python_method"] and found.sampler["python_processes"] == 1


# Threads that run at once where there is no GIL, in calls, generators and C code that calls Python, each for a second of CPU time.
AT_ONCE = '''\
import sys, threading, time

def leaf(n):
    x = 0
    for i in range(n):
        x = (x * 5 + i) & 0xffff
    return x

def deep(n):
    return deep(n - 1) if n else leaf(200)

def generate():
    for i in range(20):
        yield leaf(20)

def calls(end):
    while time.thread_time() < end: deep(10)

def generators(end):
    while time.thread_time() < end: sum(generate())

def objects(end):
    while time.thread_time() < end: sorted([threading.local() for i in range(50)], key=lambda one: leaf(3))

threads = [threading.Thread(target=work, args=(1,)) for work in (calls, generators, objects)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sys._is_gil_enabled())
'''


@pytest.mark.parametrize("name", FREE or [pytest.param(None, marks=pytest.mark.skip(WHY_NOT_FREE))])
def test_threads_that_run_at_once(sample, tmp_path, name):
    """What they write beside each other is read as well as with a GIL: 99.5 percent of stacks are whole, and each thread has its own."""
    program = tmp_path / "at_once.py"
    program.write_text(AT_ONCE)
    words, environment = PYTHONS[name]
    found = sample([*words, program], env={**os.environ, **environment})
    assert found.done.stdout == "False\n"
    found.check_merged()
    seconds = collections.defaultdict(collections.Counter)
    for row in waits.rows(found.run, "cpu"):
        for function in {frame.name for frame in row.frames} & {"calls", "generators", "objects"}:
            seconds[function][row.tid] += row.weight
    assert set(seconds) == {"calls", "generators", "objects"} and all(len(own) == 1 for own in seconds.values()), seconds
    assert all(0.9 < sum(own.values()) < 1.05 for own in seconds.values()), seconds


@pytest.fixture
def generated(tmp_path):
    path = tmp_path / "generated.py"
    path.write_text(GENERATED.replace("SECONDS", str(GENERATED_S)))
    return path


def check_generated(found):
    """Each function has its time, none has that of another one, and each has its own file. A sample stands for the time since the one
    before: the first one of a function also for the end of what ran before it, and that after its last one for its own end. What has no
    sample, or one without Python frames, may be its time, too."""
    rows = sorted(waits.rows(found.run, "cpu"), key=lambda row: row.t_ns)
    unseen = max(found.sampler["wanted"] / found.sampler["rate_hz"] - sum(row.weight for row in rows), 0)
    generated = {f"g{i}" for i in range(9)}
    whose = [next((frame.name for frame in row.frames if frame.name in generated), None) for row in rows]
    for i in range(1, 9):
        mine = [k for k, name in enumerate(whose) if name == f"g{i}"]
        assert mine, (i, whose, found.sampler)
        first, last = mine[0], mine[-1]
        begin = max((k for k in range(first) if whose[k]), default=-1) + 1
        end = next((k for k in range(last + 1, len(rows)) if whose[k]), len(rows))
        nameless = sum(row.weight for row in rows[begin:end] if not has_python(row))
        after = rows[last + 1].weight if last + 1 < len(rows) else max(row.weight for row in rows)  # the end has no sample
        error = sum(rows[k].weight for k in mine) - GENERATED_S
        assert -unseen - nameless - after - 0.005 < error < rows[first].weight + 0.005, \
            (i, error, unseen, nameless, [(name, row.weight) for name, row in zip(whose, rows)], found.sampler)
    files = {names[0]: names[1] for names in found.python_frames() if names[0] in {f"g{i}" for i in range(1, 9)}}
    assert files == {f"g{i}": f"/tmp/file{i}.py" for i in range(1, 9)}, files


@pytest.mark.parametrize("name", PYTHONS)
def test_code_in_the_place_of_other_code(sample, generated, name):
    words, environment = PYTHONS[name]
    check_generated(sample([*words, generated], env={**os.environ, **environment}))


def test_views_have_file_and_line(infprof, sample, spin, tmp_path):
    found = sample([*PYTHONS[ONE][0], spin, "0.7"])
    rows = query(infprof, found.run.path, "select function, fKind, file, line from samples_named where fKind = 'python'")
    assert rows and all(row["file"] == str(spin) and row["line"] for row in rows if "step" in row["function"]), rows[:3]
    profile = tmp_path / "profile.pb.gz"
    assert run([infprof, "flamegraph", "-r", found.run.path, "-o", profile]).returncode == 0
    assert any("step" in name for names, _ in pprof(profile.read_bytes()) for name in names)
    speedscope = run([infprof, "flamegraph", "-r", found.run.path, "--speedscope", "-o", "-"])
    frames = json.loads(speedscope.stdout)["shared"]["frames"]
    assert any("step" in frame["name"] and frame["file"] == str(spin) and frame["line"] for frame in frames), frames[:5]
    top = run([infprof, "flamegraph", "-r", found.run.path, "--top", "-o", "-"]).stdout
    assert re.search(r"step +spin\.py", top), top
    assert re.search(r"Python frames: \d", top.replace("\n", " ")), top
    sampling = json.loads(run([infprof, "flamegraph", "-r", found.run.path, "--top", "--json", "-o", "-"]).stdout)["cpu"]["sampling"]
    assert sampling["python_merged"] == found.sampler["python_merged"] and "BPF" in sampling["python_method"], sampling


def test_forked_workers(sample, tmp_path):
    """A pool's workers have their parent's interpreter, and frames from their first sample on."""
    program = tmp_path / "pool.py"
    program.write_text("import multiprocessing, os, time\n"
                       "def work(n):\n    end = time.process_time() + 0.4\n    while time.process_time() < end: pass\n    return os.getpid()\n"
                       "if __name__ == '__main__':\n"
                       "    with multiprocessing.get_context('fork').Pool(2) as pool: print(*set(pool.map(work, range(4), chunksize=2)))\n")
    found = sample([*PYTHONS[ONE][0], program], "-t", "60000")  # nobody looks at the processes while the workers live
    workers = set(map(int, found.done.stdout.split()))
    assert len(workers) == 2
    rows = query_stacks(found)
    for worker in workers:
        mine = [names for pid, names in rows if pid == worker]
        assert len(mine) > 0.4 * HZ, (workers, collections.Counter(pid for pid, _ in rows), found.sampler)
        assert sum("work" in names for names in mine) > 0.9 * len(mine), mine[:5]
    found.check_merged()


def query_stacks(found, mode="cpu"):
    """(pid, names root first) of each sample."""
    infprof = os.environ.get("INFPROF", str(TOP / "build" / "infprof"))
    rows = query(infprof, found.run.path, f"select pId as pid, stack_text from samples_named where mode = '{mode}'")
    return [(row["pid"], (row["stack_text"] or "").split(";")) for row in rows]


def test_a_python_that_starts_late(sample, spin):
    """Behind a shell that waits, and then as another program in the same process."""
    python = PYTHONS[ONE][0][0]
    found = sample(["sh", "-c", f"sleep 1.5; {python} {spin} 0.6; exec {python} {spin} 0.6"])
    check_spin(found, spin, version_of(ONE))
    assert found.sampler["python_processes"] == 2
    found.check_merged()


def test_attach(infprof, sample, spin):
    """To a Python that runs already: all its frames have names, also those of before."""
    with subprocess.Popen([*PYTHONS[ONE][0], str(spin), "100"]) as process:
        try:
            found = sample((), "--pid", process.pid, "--duration", "1.2s")
        finally:
            process.kill()
    check_spin(found, spin, version_of(ONE))
    found.check_merged()


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
@pytest.mark.parametrize("who", ["target", "both"])
def test_pid_namespaces(infprof, sample, spin, run_dir, who):
    """The target in a pid namespace of its own, and infprof with it: numbers differ from the kernel's."""
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--"]
    python = [*PYTHONS[ONE][0], str(spin), "0.8"]
    if who == "target":
        found = sample([*words, *python])
    else:
        done = run([*words, infprof, "record", f"--cpu={HZ}", "-o", run_dir, "--", *python])
        assert done.returncode == 0, done.stderr
        done.run = run_dir.run()
        found = Recording(infprof, done)
        if found.sources[-1]["state"] != "ok":
            pytest.skip(f"Python frames cannot be read here: {found.sources[-1]['reason']}")
    check_spin(found, spin, version_of(ONE))
    found.check_merged()


def test_waits(sample, tmp_path):
    """--off-cpu: which line waits for what, in a thread and in the first one."""
    program = tmp_path / "waits.py"
    program.write_text("import queue, threading, time\nitems = queue.Queue()\n"
                       "def worker():\n    while items.get() is not None: time.sleep(0.002)\n"
                       "def feed():\n    for i in range(200): items.put(i); time.sleep(0.004)\n    items.put(None)\n"
                       "thread = threading.Thread(target=worker)\nthread.start()\nfeed()\nthread.join()\n")
    found = sample([*PYTHONS[ONE][0], program], "--off-cpu")
    last = [row for row in found.run.table("sampler") if row["mode"] == "off-cpu"][-1]
    if not last["method"].startswith("BPF"):
        pytest.skip("the kernel does not time waits here: those that last have the stack that was read meanwhile")
    assert last["python_merged"] > 400 and last["python_unmerged"] + last["python_torn"] <= 0.005 * last["python_merged"] + 4, last
    rows = query_stacks(found, "off-cpu")
    waits = collections.Counter(tuple(name.split(".")[-1] for name in names if name.split(".")[-1] in ("feed", "worker", "get", "wait"))
                                for _, names in rows)
    assert waits["feed",] >= 190 and waits["worker",] >= 190 and waits["worker", "get", "wait"] >= 50, waits


def test_deep_recursion_says_that_it_was_cut(sample, tmp_path):
    """More Python frames than are read: the innermost are there, and the stack is marked."""
    program = tmp_path / "deep.py"
    program.write_text("import sys, time\nsys.setrecursionlimit(5000)\n"
                       "def down(n):\n    if n: return down(n - 1)\n    end = time.process_time() + 0.7\n    while time.process_time() < end: pass\n"
                       "down(900)\n")
    found = sample([*PYTHONS[ONE][0], program])
    deep = [row for row in found.run.table("stack_samples") if row["is_truncated"]]
    assert len(deep) > 0.2 * HZ
    deepest = max(found.stacks, key=lambda row: row[0].count("down"))[0]
    assert deepest.count("down") >= 256, len(deepest)


def test_off(infprof, record, spin):
    done = record(f"--cpu={HZ}", "--no-snapshots", "--python=off", command=[*PYTHONS[ONE][0], spin, "0.4"])
    assert done.returncode == 0, done.stderr
    found = Recording(infprof, done)
    assert not found.python_frames() and not found.sources
    assert found.sampler["python_method"] is None and found.sampler["python_merged"] is None


@pytest.mark.parametrize("words, says", [
    (["--cpu", "--python=maybe"], "--python=maybe: auto, outside, inside or off"),
    (["--python=outside"], "--python=outside needs --cpu, --wall or --off-cpu"),
])
def test_wrong_words(record, words, says):
    done = record(*words, command=["true"])
    assert done.returncode == 125 and says in done.stderr, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="rights are taken from root")
def test_without_the_right(infprof, run_dir, spin):
    """Nothing is missing but Python frames, and it is said which right is."""
    words = ["setpriv", "--bounding-set=-bpf,-sys_admin", infprof]
    done = run([*words, "record", f"--cpu={HZ}", "--python=outside", "-o", run_dir, "--", *PYTHONS[ONE][0], spin, "0.4"])
    assert done.returncode == 0, done.stderr
    assert "CAP_BPF" in done.stderr and "--cap-add BPF" in done.stderr, done.stderr
    done.run = run_dir.run()
    found = Recording(infprof, done)
    assert found.sources[-1]["state"] == "denied" and "CAP_BPF" in found.sources[-1]["reason"], found.sources
    assert not found.python_frames() and any("_PyEval_EvalFrameDefault" in names for names, _ in found.stacks)
    doctor = run([*words, "doctor"])
    assert "CAP_BPF" in doctor.stdout, doctor.stdout
    assert "mode python" in " ".join(doctor.stdout.split()), doctor.stdout
