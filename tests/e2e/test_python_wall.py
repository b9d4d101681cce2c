"""Python frames of threads that wait and run: record --wall and --off-cpu; and who holds the GIL."""
import collections
import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

import waits
from namespaces import unshare
from parked import by_faulthandler, parked, start  # noqa: F401 (fixtures)
from program import query, run
from pythons import FREE, PYTHONS, WHY_NOT_FREE, with_gil
from refuse import BPF, PERF_EVENT_OPEN, refused
from waiting import wait_for

ONE = "system" if "system" in PYTHONS else next(iter(PYTHONS), None)
SOME = [name for name in PYTHONS if name == ONE or name in FREE or re.match(r"3\.(8|10|12|13)\.|sid", name)]
pytestmark = pytest.mark.skipif(not PYTHONS, reason="no Python to record")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# Threads that burn, or do what releases the GIL, or wait for what is no GIL; and what each says of itself: wall-clock time, CPU time, and
# the time that it was runnable without a CPU, which is no waiting for the GIL.
WORK = '''\
import json, sys, threading, time, zlib

data = bytes(range(256)) * 4000
seconds = float(sys.argv[1])
said = []

def burn(end):
    x = 0
    while time.perf_counter() < end:
        for i in range(2000):
            x = (x * 5 + i) & 0xffff

def compress(end):
    while time.perf_counter() < end:
        zlib.compress(data, 9)

def nap(end):
    while time.perf_counter() < end:
        time.sleep(0.05)

def run(work):
    begun = time.perf_counter()
    work(begun + seconds)
    wall = time.perf_counter() - begun
    tid = threading.get_native_id()
    with open(f"/proc/self/task/{tid}/schedstat") as file:
        cpu_ns, runnable_ns, n = map(int, file.read().split())
    said.append({"kind": work.__name__, "tid": tid, "wall": wall, "cpu": cpu_ns / 1e9, "runnable": runnable_ns / 1e9})

threads = [threading.Thread(target=run, args=(globals()[name],), name=f"a thread named {name}") for name in sys.argv[2:]]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(said))
'''


def last(recorded, mode="wall"):
    return [row for row in recorded.table("sampler") if row["mode"] == mode][-1]


def trust(infprof, recorded, mode):
    """How well it went, in words, on one line."""
    return " ".join(run([infprof, "flamegraph", "--top", "--mode", mode, "-r", recorded.path]).stdout.split())


def python_stacks(recorded, mode):
    """{tid: {stack: seconds}} of Python frames as faulthandler would say them, innermost first: (file, line, function)."""
    named = {row["frame"]: (row["sFile"], row["sLine"], row["sName"].rsplit(".", 1)[-1]) for row in recorded.table("symbols")}
    python = {row["id"] for row in recorded.table("frames") if row["fKind"] == "python"}
    nodes = {row["id"]: row for row in recorded.table("stacks")}
    found = collections.defaultdict(collections.Counter)
    for row in recorded.table("stack_samples"):
        if row["mode"] != mode:
            continue
        stack, node = [], row["stack"]
        while node is not None:
            if nodes[node]["frame"] in python:
                stack.append(named.get(nodes[node]["frame"], ("", 0, "")))  # code that was gone before it was named has no name
            node = nodes[node]["parent"]
        found[row["tid"]][tuple(stack)] += row["weight"]
    return found


def check_parked(recorded, mode, wanted):
    """Each thread has the stack that faulthandler says, for all the time since its Python was known."""
    found = python_stacks(recorded, mode)
    assert sorted(max(stacks, key=lambda stack: (len(stack) > 0, stacks[stack])) for stacks in found.values()) == wanted
    for stacks in found.values():
        assert len([stack for stack in stacks if stack]) == 1, stacks
    sampler = last(recorded, mode)
    assert sampler["python_merged"] >= len(wanted), sampler
    assert sampler["python_unmerged"] + sampler["python_torn"] + sampler["python_alone"] == 0, sampler


@pytest.mark.parametrize("name", PYTHONS)
def test_parked_threads(record, parked, name):  # noqa: F811
    """Nothing of the process runs: all is read of threads that sleep, in a process that was there before."""
    process = parked(name)
    done = record("--wall", "--no-snapshots", "--pid", process.pid, "--duration", "1.5")
    assert done.returncode == 0, done.stderr
    check_parked(done.run, "wall", by_faulthandler(process))


@needs_root
def test_parked_threads_off_cpu(record, parked):  # noqa: F811
    process = parked(ONE)
    done = record("--off-cpu", "--no-snapshots", "--pid", process.pid, "--duration", "5")
    assert done.returncode == 0, done.stderr
    check_parked(done.run, "off-cpu", by_faulthandler(process))


@pytest.fixture
def work(record, tmp_path):
    """work(kinds..., name=, options=): a recording of these threads, what they say of themselves, and {tid: {gil: seconds}}."""
    program = tmp_path / "work.py"
    program.write_text(WORK)

    def call(*kinds, name=ONE, options=("--gil",), seconds=2.5, gil=True, **arguments):
        words, environment = (with_gil if gil else PYTHONS.get)(name)
        done = record(*options, "--no-snapshots", command=[*words, program, seconds, *kinds], env={**os.environ, **environment}, **arguments)
        assert done.returncode == 0, done.stderr
        found = collections.defaultdict(collections.Counter)
        for row in done.run.table("stack_samples"):
            if row["mode"] == "wall":
                found[row["tid"]][row["gil"]] += row["weight"]
        done.said = json.loads(done.stdout)
        assert sorted(one["kind"] for one in done.said) == sorted(kinds)
        return done, done.said, found

    return call


def shares(one, found):
    """Of the thread's samples: what it held the GIL, what it waited for it; and what it says of itself."""
    own = found[one["tid"]]
    total = sum(own.values())
    n = total * 20
    assert total > 0.5 * one["wall"], (one, own)
    slept = max(0, one["wall"] - one["cpu"] - one["runnable"]) / one["wall"]
    return own["holds"] / total, own["waits"] / total, slept, 4 * (0.25 / n) ** 0.5 + 0.03


@pytest.mark.parametrize("name", SOME)
def test_two_that_burn(infprof, work, name):
    """They take turns: each waits for the GIL for as long as it neither had a CPU nor was runnable, and some of that, too."""
    done, said, found = work("burn", "burn", name=name)
    for one in said:
        held, waited, slept, error = shares(one, found)
        assert slept - error < waited < slept + one["runnable"] / one["wall"] + error, (one, found[one["tid"]])
        assert abs(held - one["cpu"] / one["wall"]) < error + one["runnable"] / one["wall"], (one, found[one["tid"]])
        assert None not in found[one["tid"]] or found[one["tid"]][None] < 0.5
    assert sum(found[one["tid"]]["holds"] for one in said) < 1.1 * max(one["wall"] for one in said) + 0.1
    told = json.loads(run([infprof, "report", "--json", "-r", done.run.path]).stdout)["gil"]
    assert told["not_known"] is None and told["threads_left_out"] == 0
    by_tid = {thread["tid"]: thread for thread in told["threads"]}
    assert set(by_tid) >= {one["tid"] for one in said}
    for tid, thread in by_tid.items():
        own = found[tid]
        assert (thread["waits_s"], thread["holds_s"]) == pytest.approx((own["waits"], own["holds"]))
        assert thread["sampled_s"] == pytest.approx(sum(own.values()) - own[None])
        assert thread["process"].startswith(("python", "ld-")) and thread["pid"] == min(found), thread
    text = run([infprof, "report", "gil", "-r", done.run.path]).stdout
    for one in said:
        thread = by_tid[one["tid"]]
        assert re.search(rf"^ +{one['tid']} a thread named {one['kind']} .* {100 * thread['waits_s'] / thread['sampled_s']:.1f} % ", text, re.M), text
    assert sum(found[one["tid"]]["holds"] for one in said) > 0.5 * max(one["wall"] for one in said)


@pytest.mark.parametrize("name", [name for name in SOME if name == ONE or re.match(r"3\.12\.|sid.*3\.14", name)])
def test_those_that_have_given_it_away(work, name):
    """Beside processes that take their CPUs: threads that only compute hold the GIL or wait for it, and nothing else. Seen for 0.3 % of
    their time were others; more than 5 % of 500 looks at that are one case in a million. One that does without the GIL waits no more."""
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * os.cpu_count())]
    try:
        done, said, found = work("burn", "burn", "burn", "compress", name=name, options=("--wall=100", "--no-finish"), seconds=2)
    finally:
        for process in load:
            process.kill()
            process.wait()
    burning = sum((found[one["tid"]] for one in said if one["kind"] == "burn"), collections.Counter())
    assert burning["none"] + burning[None] < 0.05 * sum(burning.values()), burning
    other = found[next(one["tid"] for one in said if one["kind"] == "compress")]
    assert other["none"] > 0, other


@pytest.mark.skipif(not FREE, reason=WHY_NOT_FREE)
def test_gil_that_is_off(infprof, work):
    """There is none to hold or to wait for, and that is said; threads that wait for something else do not wait for it."""
    done, said, found = work("burn", "burn", "nap", name=FREE[0], gil=False)
    assert {gil for own in found.values() for gil in own} == {None}, found
    told = json.loads(run([infprof, "report", "--json", "-r", done.run.path]).stdout)["gil"]
    assert told["threads"] == [] and re.fullmatch(r"Python in process \d+ is free-threaded, and its GIL is off: .*", told["not_known"]), told
    assert "is free-threaded, and its GIL is off" in " ".join(run([infprof, "report", "gil", "-r", done.run.path]).stdout.split())


def test_those_that_release_it(work):
    """They do not wait for the GIL, nor hold it, though they use their CPU."""
    done, said, found = work("compress", "compress", "nap")
    for one in said:
        held, waited, slept, error = shares(one, found)
        assert waited < 0.1 and held < 0.15, (one, found[one["tid"]])
    states = collections.Counter()
    for row in done.run.table("stack_samples"):
        states[row["state"], row["gil"]] += row["weight"]
    assert states["sleeping in clock_nanosleep", "none"] > 1, states


def test_waiting_for_the_gil_is_a_state(work):
    done, said, found = work("burn", "burn")
    rows = [row for row in done.run.table("stack_samples") if row["gil"] == "waits"]
    assert rows and {row["state"] for row in rows} == {"waiting for the GIL"}
    assert not [row for row in done.run.table("stack_samples") if row["state"] == "waiting for the GIL" and row["gil"] != "waits"]


def test_running_without_a_program_in_the_kernel(infprof, work):
    """Python frames alone of the threads that run, read without a stop; of those that sleep, merged."""
    done, said, found = work("burn", "burn", "nap", options=("--wall=100",), preexec_fn=refused([BPF], errno.EPERM))
    stacks = waits.rows(done.run, "wall")
    burn = [one["tid"] for one in said if one["kind"] == "burn"]
    running = [row for row in stacks if row.tid in burn and row.state is None]
    alone = [row for row in running if row.frames and {frame.kind for frame in row.frames} == {"python"}]
    assert sum(row.weight for row in alone) > 0.8 * sum(row.weight for row in running)
    assert sum(row.weight for row in alone if "burn" in [frame.name for frame in row.frames]) > 0.8 * sum(row.weight for row in alone)
    sampler = last(done.run)
    assert sampler["python_alone"] > 50 and sampler["python_merged"] > 50, sampler
    assert sampler["python_torn"] <= 0.03 * sampler["python_alone"] + 2, sampler
    assert sampler["python_method"] == "reading the memory of threads"
    assert f"by reading the memory of threads; {sampler['python_alone']:,} of them have no native frames" in trust(infprof, done.run, "wall")
    nap = next(one["tid"] for one in said if one["kind"] == "nap")
    merged = [row for row in stacks if row.tid == nap and row.state == "sleeping in clock_nanosleep"]
    assert merged and all({"python", "native", "kernel"} <= {frame.kind for frame in row.frames} for row in merged), merged[:3]
    for one in said:
        held, waited, slept, error = shares(one, found)
        least, most = (slept, slept + one["runnable"] / one["wall"]) if one["kind"] == "burn" else (0, 0.05)
        assert least - error - 0.05 < waited < most + error + 0.05, (one, found[one["tid"]])


def test_without_perf(work):
    """Nothing reports which programs begin: it is found by looking."""
    done, said, found = work("burn", "nap", options=("--wall",), preexec_fn=refused([BPF, PERF_EVENT_OPEN], errno.EPERM))
    stacks = python_stacks(done.run, "wall")
    for one in said:
        own = stacks[one["tid"]]
        assert sum(s for stack, s in own.items() if one["kind"] in [frame[2] for frame in stack]) > 0.6 * sum(own.values()), (one, own)
    assert found[said[0]["tid"]]["holds"] + found[said[1]["tid"]]["holds"] > 1


@needs_root
def test_the_method_is_said_whole(infprof, work):
    done, said, found = work("burn", options=("--wall", "--off-cpu=1"), seconds=1)
    for mode in ("wall", "off-cpu"):
        method = last(done.run, mode)["python_method"]
        assert " and " in method and f" theirs, by {method}" in trust(infprof, done.run, mode), (method, trust(infprof, done.run, mode))


def test_one_thread(infprof, record):
    done = record("--gil", "--no-snapshots", command=[*PYTHONS[ONE][0], "-c", "import time\nend = time.time() + 0.7\nwhile time.time() < end: pass"])
    assert " of 1 thread that used it;" in " ".join(run([infprof, "report", "gil", "-r", done.run.path]).stdout.split())
    thread, = json.loads(run([infprof, "report", "--json", "-r", done.run.path]).stdout)["gil"]["threads"]
    page = run([infprof, "report", "--html", "-o", "-", "-r", done.run.path]).stdout.split('<section id="gil"')[1].split("</section>")[0]
    assert f'>{thread["name"]} ({thread["tid"]})</th>' in page and f'>{100 * thread["holds_s"] / thread["sampled_s"]:.1f} %<' in page, page


# Threads that are there before the recording, one that begins in it, and one that is given another name.
NAMED = '''\
import sys, threading, time

def wait():
    while not is_over.is_set():
        is_over.wait(0.05)

is_over = threading.Event()
threads = [threading.Thread(target=wait, name=name) for name in ("tokenizer", "two words of \u00e9\U0001f40d", "\u00e9" * 100)]
for thread in threads: thread.start()
print("ready", flush=True)
sys.stdin.readline()
threads[0].name = "engine"
threads.append(threading.Thread(target=wait, name="later"))
threads[-1].start()
sys.stdin.readline()
is_over.set()
'''


def threads_of(run_dir):
    """Number of a thread: what Python calls it, of its last row."""
    rows = sorted(run_dir.table("threads"), key=lambda row: row["t_ns"])
    return {row["tid"]: row["tPythonName"] for row in rows}


@pytest.mark.parametrize("name", SOME)
def test_names_of_threads(infprof, run_dir, tmp_path, name):
    """Those that Python has, beside the system's: of threads that it started, not of its first one."""
    words, environment = with_gil(name)
    (tmp_path / "named.py").write_text(NAMED)
    with subprocess.Popen([*words, tmp_path / "named.py"], env={**os.environ, **environment, "PYTHONUTF8": "1"}, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process, \
         subprocess.Popen([infprof, "record", "-o", run_dir, "--gil", "--no-snapshots", "--no-finish", "--pid", str(process.pid)],
                          stderr=subprocess.DEVNULL) as recording:
        def names():
            return set(threads_of(run_dir.run()).values()) if list(run_dir.glob("*.infprof")) else set()

        try:
            assert process.stdout.readline() == "ready\n"
            known = {"tokenizer", "two words of \u00e9\U0001f40d", "\u00e9" * 31}
            wait_for(lambda: names() >= known, "the names of threads")
            process.stdin.write("\n")
            process.stdin.flush()
            wait_for(lambda: names() >= {"engine", "later"}, "what is new")
            engine = next(tid for tid, named in threads_of(run_dir.run()).items() if named == "engine")
            comms = {tid: pathlib.Path(f"/proc/{process.pid}/task/{tid}/comm").read_text()[:-1] for tid in (process.pid, engine)}
        finally:
            recording.send_signal(signal.SIGINT)
            recording.wait(timeout=60)
            process.kill()
    found = threads_of(run_dir.run())
    assert sorted(found.values(), key=str) == sorted([None, "engine", "later", "two words of \u00e9\U0001f40d", "\u00e9" * 31], key=str), found
    assert found[process.pid] is None
    path = run_dir.run().path
    rows = query(infprof, path, f"SELECT DISTINCT tName, tPythonName FROM samples_named WHERE tid = {engine}")
    assert {"tName": comms[engine], "tPythonName": "engine"} in rows, rows
    folded = run([infprof, "flamegraph", "-r", path, "--mode", "wall", "--by", "thread", "--folded"]).stdout
    assert f"\nengine ({engine});" in "\n" + folded and f"\n{comms[process.pid]} ({process.pid});" in "\n" + folded, folded
    told = json.loads(run([infprof, "report", "--json", "-r", path]).stdout)["gil"]["threads"]
    assert {thread["tid"]: thread["name"] for thread in told}[engine] == "engine", told


@pytest.mark.parametrize("words", [["--python=inside", "--cpu"], ["--python=outside", "--cpu"]])
def test_names_of_threads_that_run(infprof, record, words):
    program = ("import threading, time\nend = time.time() + 2\ndef burn():\n  while time.time() < end: pass\n"
               "thread = threading.Thread(target=burn, name='tokenizer')\nthread.start()\nburn()\nthread.join()\n"
               "time.sleep(2)")  # Python forgets the name meanwhile
    done = record(*words, "--no-snapshots", command=[*PYTHONS[ONE][0], "-c", program])
    if words[0] == "--python=outside" and "BPF" not in (last(done.run, "cpu")["python_method"] or ""):
        pytest.skip("no BPF program is permitted here: nobody looks for Python outside")
    assert set(threads_of(done.run).values()) == {None, "tokenizer"}, done.run.table("threads")


@needs_root
def test_names_of_threads_in_a_pid_namespace(infprof, record):
    """They have other numbers there."""
    program = "import threading, time\nthread = threading.Thread(target=time.sleep, args=(2,), name='tokenizer')\nthread.start()\nthread.join()"
    done = record("--wall", "--no-snapshots", command=[*unshare("--pid", "--fork", "--mount-proc"), *PYTHONS[ONE][0], "-c", program])
    assert done.returncode == 0, done.stderr
    assert "tokenizer" in threads_of(done.run).values(), done.run.table("threads")


def test_off(work):
    done, said, found = work("burn", "nap", options=("--wall", "--python=off"), seconds=0.5)
    assert not [row for row in done.run.table("frames") if row["fKind"] == "python"]
    assert {gil for own in found.values() for gil in own} == {None}
    assert last(done.run)["python_method"] is None


def test_the_gil_needs_python(record):
    done = record("--gil", "--python=off", command=["true"])
    assert done.returncode == 125 and "--gil reads Python's threads, which --python=off leaves alone" in done.stderr, done.stderr


def test_a_program_without_python(infprof, record):
    done = record("--gil", "--no-snapshots", command=["sleep", "0.5"])
    assert done.returncode == 0, done.stderr
    assert {row["gil"] for row in done.run.table("stack_samples")} == {None}
    assert json.loads(run([infprof, "report", "--json", "-r", done.run.path]).stdout)["gil"]["threads"] == []
    assert "no Python was seen" in run([infprof, "report", "gil", "-r", done.run.path]).stdout


FORK = '''\
import os, sys, threading, time

def parked():
    time.sleep(2)

def burning():
    end, x = time.monotonic() + 2, 0
    while time.monotonic() < end:
        x = (x * 5 + 1) & 0xffff

def threaded():
    thread = threading.Thread(target=parked)
    thread.start()
    thread.join()

children = []
for work in (parked, burning, threaded):
    children.append(os.fork())
    if not children[-1]:
        work()
        os._exit(0)
for child in children:
    os.waitpid(child, 0)
'''


@pytest.mark.parametrize("name, before", [*((name, []) for name in SOME), (ONE, ["unshare", "--pid", "--fork", "--mount-proc"])])
def test_children_of_a_fork(record, tmp_path, name, before):
    """Each has its own threads, under numbers of its own; in a pid namespace Python knows others than we do."""
    if before and os.geteuid() != 0:
        pytest.skip("needs root")
    program = tmp_path / "fork.py"
    program.write_text(FORK)
    words, environment = with_gil(name)
    done = record("--wall=50", "--no-snapshots", command=[*before, *words, program], env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    gil = collections.defaultdict(collections.Counter)
    for row in done.run.table("stack_samples"):
        gil[row["tid"]][row["gil"]] += row["weight"]
    n_found = collections.Counter()
    for tid, stacks in python_stacks(done.run, "wall").items():
        total, seconds = sum(stacks.values()), collections.Counter()
        for stack, weight in stacks.items():
            for function in {frame[2] for frame in stack} & {"parked", "burning", "join"}:
                seconds[function] += weight
        for function in [function for function, weight in seconds.items() if weight > 0.6 * total > 0.6]:
            n_found[function] += 1
            assert gil[tid]["holds" if function == "burning" else "none"] > 0.6 * total, (function, gil[tid])
    assert n_found == {"parked": 2, "burning": 1, "join": 1}, n_found


def test_top(infprof, start, tmp_path):  # noqa: F811
    """The threads that burn show what they wait and hold, in seconds and in columns; one of C has neither."""
    program = tmp_path / "work.py"
    program.write_text(WORK.replace("seconds = float", "print('ready', flush=True); seconds = float"))
    process = start(*PYTHONS[ONE][0], program, 300, "burn", "burn", "nap", env=PYTHONS[ONE][1])

    def look():
        done = run([infprof, "top", "--json", "-n", "3", process.pid])
        assert done.returncode == 0, done.stderr
        threads = json.loads(done.stdout.splitlines()[-1])["threads"]
        burn = [thread for thread in threads if (thread["gil_holds_s"] or 0) > 0.1 * thread["gil_known_s"] > 0]
        states = {thread["state"] for thread in threads}
        return threads if (len(burn) == 2 and all(thread["gil_waits_s"] > 0 for thread in burn)
                           and states >= {"waiting for the GIL", "sleeping in clock_nanosleep"}) else None

    threads = wait_for(look, "two threads that hold the GIL and wait for it")
    nap = next(thread for thread in threads if thread["state"] == "sleeping in clock_nanosleep")
    assert nap["gil_known_s"] > 0 and nap["gil_holds_s"] < 0.3 * nap["gil_known_s"], nap
    text = run([infprof, "top", "-b", "-n", "2", "--by", "threads", process.pid]).stdout
    assert "gil:wait  held" in text, text
    sleep = start("sh", "-c", "echo; exec sleep 300")
    done = run([infprof, "top", "--json", "-n", "2", sleep.pid])
    (thread,) = json.loads(done.stdout.splitlines()[-1])["threads"]
    assert thread["gil_waits_s"] is None and thread["gil_holds_s"] is None and thread["gil_known_s"] == 0
    assert "gil:wait" not in run([infprof, "top", "-b", "-n", "2", "--by", "threads", sleep.pid]).stdout


# A thread that waits for the GIL, for as long as this asks for, before it can say to threading that it is there.
LATE = '''\
import sys, threading, time

def burn():
    while time.perf_counter() < end:
        pass

sys.setswitchinterval(0.6)
end = time.perf_counter() + 3
threads = [threading.Thread(target=burn, name=name) for name in ("first", "late")]
for thread in threads: thread.start()
for thread in threads: thread.join()
'''


@pytest.mark.parametrize("name", SOME)
def test_name_of_a_thread_that_waits_for_the_gil(record, name):
    words, environment = with_gil(name)
    done = record("--gil", "--no-snapshots", "--no-finish", command=[*words, "-c", LATE], env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert sorted(named for named in threads_of(done.run).values() if named) == ["first", "late"]
