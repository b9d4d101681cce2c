"""Python processes that run already, where BPF is not permitted: read as they run (mode python, beside the native stacks and never merged
with them), or stopped for each sample (--blocking)."""
import collections
import errno
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import pytest

import proc
from namespaces import unshare
from program import cpu_seconds, run
from pythons import PYTHONS
from refuse import BPF, PERF_EVENT_OPEN, refused
from stacks import folded
from test_cpu import needs_root
from test_python_record import ONE, SOME, TRUTH, Recording, check_spin, check_truth, extension, score, spin, version_of  # noqa: F401 (fixtures)
from waiting import wait_for

HZ = 499
ROUNDS = int(os.environ.get("INFPROF_ATTACH_ROUNDS", 100))
pytestmark = pytest.mark.skipif(not PYTHONS, reason="no Python to record")
needs_truth = pytest.mark.skipif(not TRUTH.exists(), reason="no ../shared/truth here")

# A call or a return each 50 ns, in four trees of functions whose names never mix and whose levels go down one by one.
WORST = '''\
import sys, time
source = ""
for tree in "abcd":
    source += f"def f0_{tree}(): pass\\n"
    for level in range(1, 7):
        source += f"def f{level}_{tree}():\\n" + f"    f{level - 1}_{tree}()\\n" * 2
exec(source)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end: f6_a(); f6_b(); f6_c(); f6_d()
'''


def share_of(part, whole):
    return part / whole if whole else 0


class Attached(Recording):
    """A recording, and what one of its modes says."""

    def __init__(self, infprof, done, mode):
        self.done, self.run = done, done.run
        self.sampler = [row for row in self.run.table("sampler") if row["mode"] == mode][-1]
        text = run([infprof, "flamegraph", "-r", self.run.path, "--folded", "--mode", mode, "-o", "-"])
        assert text.returncode == 0 or "no samples of mode" in text.stderr, text.stderr  # it had no CPU while it was looked at
        self.stacks = folded(text.stdout)
        self.seconds, self.by_thread = collections.Counter(), collections.Counter()
        for row in self.run.table("stack_samples"):
            self.seconds[row["mode"]] += row["weight"]
            self.by_thread[row["mode"], row["tid"]] += row["weight"]

    def rejected(self):
        return share_of(self.sampler["python_rejected"], self.sampler["python_rejected"] + self.sampler["taken"])


@pytest.fixture
def start():
    """start(words, env): a process, ended after the test."""
    processes = []

    def call(words, environment=None, **options):
        processes.append(subprocess.Popen([str(word) for word in words], env={**os.environ, **(environment or {})},
                                          stdout=subprocess.PIPE, text=True, **options))
        return processes[-1]

    yield call
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def attach(infprof, record):
    """attach(pid, options...): without BPF."""
    def call(pid, *options, mode="python", hz=HZ, calls=(BPF,), duration=None, cpus=os.sched_getaffinity(0)):
        refuse = refused(calls, errno.EPERM)

        def prepare():
            refuse()
            os.sched_setaffinity(0, cpus)

        done = record(f"--cpu={hz}", "--no-snapshots", "--pid", pid, *(["--duration", duration] if duration else []), *options, preexec_fn=prepare)
        assert done.returncode == 0, done.stderr
        return Attached(infprof, done, mode)

    return call


def busy(process, seconds=0.2):
    wait_for(lambda: cpu_seconds(process) > seconds, "CPU time of the program")


# ---- as they run ----

@pytest.mark.serial
@needs_truth
@pytest.mark.parametrize("name, mode", [*((name, "plain") for name in SOME), *((ONE, mode) for mode in ("recursion", "generator", "asyncio"))])
def test_running_busy_split(attach, start, score, name, mode):  # noqa: F811
    words, environment = PYTHONS[name]
    process = start([*words, TRUTH / "busy_split.py", "-s", "1.5", "-m", mode], environment)
    busy(process)
    found = attach(process.pid)
    check_truth(score, found, json.loads(process.stdout.read()), 0.01)
    assert found.sampler["python_torn"] <= 0.015 * found.sampler["taken"] + 1, found.sampler
    assert found.sampler["python_processes"] == 1 and found.sampler["python_unnamed"] == 0, found.sampler


@needs_truth
@pytest.mark.parametrize("name", SOME)
def test_running_flip(infprof, attach, start, score, name):  # noqa: F811
    """Calls shorter than a read: no stack that no run can have. Most reads are rejected, more so where the function changes at each
    call, so that the shares are wrong (leaf_30 with 0 of 63 samples was seen): the profile says that it is biased."""
    words, environment = PYTHONS[name]
    process = start([*words, TRUTH / "busy_split.py", "-s", "60", "-m", "flip"], environment)
    busy(process)
    for attempt in range(10):  # whether any read is good is the machine's
        found = attach(process.pid, duration="2s")
        truth = score.score_cpu({"program": "busy_split.py", "declared": 0.3}, [(";".join(names), count) for names, count in found.stacks])
        if truth["split"] is not None:
            break
    assert truth["split"] is not None and truth["impossible_share"] == 0, truth
    words = " ".join(run([infprof, "report", "functions", "-r", found.run.path]).stdout.split())
    assert ("This profile is biased" in words) == (found.rejected() > 0.1), (found.sampler, words)


@pytest.mark.serial
@needs_truth
@pytest.mark.parametrize("name", SOME)
def test_running_mixed(attach, start, score, extension, name):  # noqa: F811
    """Threads, and C between Python: the Python frames alone, of all levels, and none of C."""
    words, environment = PYTHONS[name]
    process = start([*words, TRUTH / "mixed.py", "-s", "1.5", "-t", "2", "-n", "3"],
                    {**environment, "MIXED_EXT_DIR": str(extension(name))})
    busy(process)
    found = attach(process.pid)
    kinds = {row["id"]: row["fKind"] for row in found.run.table("frames")}
    parents = {row["id"]: (row["parent"], row["frame"]) for row in found.run.table("stacks")}
    for row in found.run.table("stack_samples"):
        stack, of_python = row["stack"], row["mode"] == "python"
        while stack:
            stack, frame = parents[stack]
            assert (kinds[frame] == "python") == of_python, (row, kinds[frame])
    named = collections.Counter()
    for names, count in found.stacks:
        own = [name for name in names if score.NAME.fullmatch(name)]
        assert len({name[-2:] for name in own}) <= 1 and {name.split("_")[0] for name in own} <= {"py", "cb"}, names
        assert sum(name.startswith("py_") for name in own) <= 3, names
        named[own[-1][-2:] if own else None] += count
    assert named["30"] and named["70"] > named["30"], named
    # One source of mode cpu: perf's native stacks; Python's are the same time again, in a mode of its own.
    assert 0.75 < found.seconds["python"] / found.seconds["cpu"] < 1.25, found.seconds


@pytest.mark.serial
def test_running_worst_case(infprof, attach, start, tmp_path):
    """Stacks that never were: at most 1.5 %. What had to be thrown away is shown, and the profile called biased."""
    program = tmp_path / "worst.py"
    program.write_text(WORST)
    process = start([*PYTHONS[ONE][0], program, "1000"])
    busy(process)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1:  # on one CPU the program does not run while it is read
        os.sched_setaffinity(process.pid, {cpus[0]})
    good = bad = 0
    for attempt in range(20):  # how many samples there are is the machine's
        found = attach(process.pid, hz=999, duration="3s", cpus=cpus[1:] or cpus)
        for names, count in found.stacks:
            levels = [name for name in names if re.fullmatch(r"f\d_[abcd]", name)]
            good_order = [int(name[1]) for name in levels] == list(range(6, 6 - len(levels), -1))
            if len({name[-1] for name in levels}) <= 1 and good_order:
                good += count
            else:
                bad += count
        if good > 30 and found.stacks:
            break
    assert good > 30 and bad <= 0.015 * (good + bad), (good, bad)
    words = run([infprof, "report", "functions", "-r", found.run.path]).stdout
    assert len(cpus) == 1 or found.rejected() > 0.02, found.sampler
    assert ("This profile is biased" in " ".join(words.split())) == (found.rejected() > 0.1), (found.sampler, words)
    told = json.loads(run([infprof, "flamegraph", "--json", "--mode", "python", "-r", found.run.path]).stdout)
    assert told["python"]["sampling"]["python_rejected"] == found.sampler["python_rejected"], told["python"]["sampling"]


def test_running_is_said(infprof, attach, start, spin):  # noqa: F811
    """What is calm is not called biased; the notice, the words and --python-only."""
    process = start([*PYTHONS[ONE][0], "-c", "import zlib\ndata = bytes(range(256)) * 4096\ndef pack():\n    zlib.compress(data, 9)\nwhile True: pack()"])
    busy(process)
    found = attach(process.pid, duration="2s")
    assert "read without stopping the threads, as a profile of their own" in found.done.stderr, found.done.stderr
    assert found.rejected() < 0.1
    words = " ".join(run([infprof, "report", "functions", "-r", found.run.path]).stdout.split())
    assert "of Python frames that were read beside" in words and "never merged" in words and "biased" not in words, words
    top = json.loads(run([infprof, "flamegraph", "--json", "--python-only", "-r", found.run.path]).stdout)
    assert {"pack"} <= {one["name"] for one in top["python"]["top_functions"]} <= {"pack", "<module>"}, top
    packs = sum(count for names, count in found.stacks if names[-1] == "pack")
    assert packs >= 0.99 * sum(count for _, count in found.stacks) - 1, found.stacks  # else it is between two calls
    native = json.loads(run([infprof, "flamegraph", "--json", "-r", found.run.path]).stdout)
    assert "libz" in json.dumps(native["cpu"]["top_functions"]), native


@pytest.mark.serial
def test_running_keeps_its_rate(attach, start):
    """The samples are the CPU time, on a machine whose CPUs are busy, too; threads that wait have none."""
    process = start([*PYTHONS[ONE][0], "-c", "import threading, time\n"
                     "def spin():\n    while True: pass\n"
                     "def wait():\n    while True: time.sleep(0.01)\n"
                     "for one in spin, wait, wait: threading.Thread(target=one).start()"])
    for _ in range(os.cpu_count()):
        start(["sh", "-c", "while :; do :; done"])
    busy(process, 0)
    found = attach(process.pid, "--no-finish", hz=99, duration="3s")  # which gives way to whoever wants a CPU
    if not found.seconds["cpu"]:
        pytest.skip("perf events are not permitted: nothing to compare with")
    assert 0.6 < found.seconds["python"] / found.seconds["cpu"] < 1.4, found.seconds
    share = sum(count for names, count in found.stacks if "spin" in names) / sum(count for _, count in found.stacks)
    assert share > 0.9, found.stacks


NAPS = """\
import time
def compute():
    for _ in range(60000): pass
def nap():
    time.sleep(0.0005)
def main():
    while True:
        compute()
        nap()
main()
"""


@pytest.mark.serial
@pytest.mark.skipif(not os.path.exists("/proc/self/sched"), reason="the kernel does not tell who has a CPU (CONFIG_SCHED_DEBUG)")
@pytest.mark.parametrize("options, mode", [((), "python"), (("--blocking",), "cpu")])
def test_waits_for_a_cpu(attach, start, options, mode):
    """A program that wakes and waits for a CPU each 3 ms: its time is where it computes, not where it waits (two thirds were)."""
    for _ in range(os.cpu_count()):
        start(["sh", "-c", "while :; do :; done"])
    process = start([*PYTHONS[ONE][0], "-c", NAPS])
    busy(process, 0)
    found = attach(process.pid, "--no-finish", *options, hz=499, duration="5s", mode=mode)
    seconds = collections.Counter()
    for names, count in found.stacks:
        seconds["nap" if "nap" in names else "compute" if "compute" in names else None] += count
    assert seconds["compute"] > 0.7 * sum(seconds.values()), seconds


@needs_root
def test_a_kernel_that_does_not_tell_who_waits(infprof, start, spin, run_dir):  # noqa: F811
    process = start([*PYTHONS[ONE][0], spin, "100"])
    busy(process, 0.05)
    done = run([*unshare(), "sh", "-ec", "mount --bind /dev/null /proc/$0/task/$0/sched; exec \"$@\"", str(process.pid), infprof, "record", f"--cpu={HZ}",
                "--no-snapshots", "-o", run_dir, "--pid", str(process.pid), "--duration", "1s"], preexec_fn=refused((BPF,), errno.EPERM))
    assert done.returncode == 0, done.stderr
    sampler = [row for row in run_dir.run().table("sampler") if row["mode"] == "python"][-1]
    assert sampler["method"] == "reading threads that have a CPU or wait for one, without a stop" and sampler["taken"] > 0, sampler
    assert open(f"/proc/{process.pid}/task/{process.pid}/sched").read(), "the mount is seen outside"


@pytest.mark.serial
def test_without_perf(infprof, attach, start, spin):  # noqa: F811
    """Nothing is permitted but reading memory: the Python profile is there, and is what is shown."""
    process = start([*PYTHONS[ONE][0], spin, "100"])
    busy(process)
    found = attach(process.pid, calls=(BPF, PERF_EVENT_OPEN), duration="2s")
    check_spin(found, spin, version_of(ONE))
    top = json.loads(run([infprof, "flamegraph", "--json", "-r", found.run.path]).stdout)
    assert "python" in top, top.keys()


def test_off(attach, start, spin):  # noqa: F811
    process = start([*PYTHONS[ONE][0], spin, "100"])
    busy(process)
    found = attach(process.pid, "--python=off", mode="cpu", duration="1s")
    assert not found.python_frames() and set(found.seconds) == {"cpu"}


def test_another_program(attach, start, spin, tmp_path, run_dir):  # noqa: F811
    """exec of another Python, once the first one has samples: its memory is elsewhere."""
    words, environment = PYTHONS[SOME[0]]
    goes_on = tmp_path / "goes_on"
    process = start([*PYTHONS[ONE][0], "-c", f"import os\ndef first():\n    while not os.path.exists({str(goes_on)!r}): pass\n"
                     f"first()\nos.execve({words[0]!r}, {[*map(str, words), str(spin), '100']!r}, {{**os.environ, **{environment!r}}})"])
    busy(process, 0.1)

    def go_on():
        wait_for(lambda: list(run_dir.glob("*.infprof/stack_samples/*.arrows")), "samples")
        goes_on.touch()

    threading.Thread(target=go_on, daemon=True).start()
    found = attach(process.pid, duration="8s")
    functions = {function for function, _ in found.python_frames()}
    assert "first" in functions and any(name.endswith("step") for name in functions), functions
    assert found.sampler["python_processes"] == 2, found.sampler


# ---- stopped for each sample ----

@pytest.mark.serial
@needs_truth
@pytest.mark.parametrize("name", SOME)
def test_blocking_mixed(attach, start, score, extension, name):  # noqa: F811
    """With no right but ptrace."""
    words, environment = PYTHONS[name]
    process = start([*words, TRUTH / "mixed.py", "-s", "1.5", "-t", "2", "-n", "3"],
                    {**environment, "MIXED_EXT_DIR": str(extension(name))})
    busy(process)
    found = attach(process.pid, "--blocking", mode="cpu", calls=(BPF, PERF_EVENT_OPEN))
    check_truth(score, found, json.loads(process.stdout.read()), 0.01)
    found.check_merged()
    assert set(found.seconds) == {"cpu"} and found.sampler["method"].startswith("stops"), found.sampler


@pytest.mark.serial
@needs_truth
@pytest.mark.parametrize("name, mode", [*((name, "plain") for name in SOME), *((ONE, mode) for mode in ("recursion", "generator", "asyncio", "flip"))])
def test_blocking_busy_split(attach, start, score, name, mode):  # noqa: F811
    words, environment = PYTHONS[name]
    process = start([*words, TRUTH / "busy_split.py", "-s", "1.5", "-m", mode], environment)
    busy(process)
    found = attach(process.pid, "--blocking", mode="cpu")
    check_truth(score, found, json.loads(process.stdout.read()), 0.01)
    found.check_merged()


def test_blocking_worst_case(attach, start, tmp_path):
    program = tmp_path / "worst.py"
    program.write_text(WORST)
    process = start([*PYTHONS[ONE][0], program, "100"])
    busy(process)
    found = attach(process.pid, "--blocking", mode="cpu", duration="2s")
    found.check_merged()
    for names, _ in found.stacks:
        levels = [name for name in names if re.fullmatch(r"f\d_[abcd]", name)]
        assert [int(name[1]) for name in levels] == list(range(6, 6 - len(levels), -1)) and len({name[-1] for name in levels}) <= 1, names


def test_blocking_shows_its_stops(infprof, attach, start, spin):  # noqa: F811
    process = start([*PYTHONS[ONE][0], spin, "100"])
    busy(process)
    found = attach(process.pid, "--blocking", mode="cpu", duration="2s")
    stops = found.run.table("thread_stops")
    told = json.loads(run([infprof, "report", "--json", "-r", found.run.path]).stdout)["stops"]
    times = sorted(row["stop_ns"] for row in stops)
    assert times and all(row["tid"] == process.pid and row["wait_ns"] >= 0 for row in stops)
    assert told["n"] == len(times) and abs(told["max_s"] - times[-1] / 1e9) < 1e-9, told
    below = 0
    for bucket in told["histogram"]:
        here = sum(time <= bucket["up_to_s"] * 1e9 + 0.5 for time in times) if bucket["up_to_s"] is not None else len(times)
        assert bucket["n"] == here - below, (bucket, here, below)
        below = here
    text = run([infprof, "report", "stops", "-r", found.run.path]).stdout
    assert "Stops of threads by --blocking" in text and "#" in text and str(len(times)) in text.replace(",", ""), text


@pytest.mark.parametrize("options, says", [
    (["--blocking", "--pid", "1"], "--blocking needs --cpu"),
    (["--cpu", "--blocking", "--", "true"], "give --pid, --name or --port"),
    (["--cpu", "--blocking", "--pid", "1", "--python=outside"], "--python=outside is another way"),
    (["--cpu", "--blocking", "--pid", "1", "--deep-stacks=after"], "leave --deep-stacks out"),
    (["--cpu", "--blocking", "--pid", "1", "--stack-size=32K"], "leave --stack-size out"),
])
def test_blocking_bad_input(record, options, says):
    done = record(*options)
    assert done.returncode == 125 and says in done.stderr, done.stderr


# Children that end just as they are looked at.
CHILDREN = """\
import os, time
begin = time.monotonic()
while time.monotonic() < begin + 0.3: pass
for i in range(30):
    for k in range(4):
        if not os.fork():
            end = time.process_time() + 0.04
            while time.process_time() < end: pass
            os._exit(7)
    time.sleep(0.15)
    for k in range(4): assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
"""


@needs_root
def test_blocking_what_ends(start, attach):
    """The kernel refuses to stop a thread that has ended: no right is missing."""
    process = start([*PYTHONS[ONE][0], "-c", CHILDREN], PYTHONS[ONE][1])
    busy(process, 0.05)
    found = attach(process.pid, "--blocking", "--wall", mode="cpu", hz=4000)
    assert process.wait() == 0 and "may not be stopped" not in found.done.stderr, found.done.stderr


@needs_root
def test_blocking_refused(infprof, record, start, spin):  # noqa: F811
    """Which right is missing, and what would give it."""
    process = start([*PYTHONS[ONE][0], spin, "100"])
    busy(process)
    done = record("--cpu", "--blocking", "--no-snapshots", "--pid", process.pid, "--duration", "1s",
                  preexec_fn=refused([101, 310], errno.EPERM))  # ptrace, process_vm_readv
    assert done.returncode == 0 and re.search(r"threads of process \d+ may not be stopped: .*SYS_PTRACE", done.stderr), done.stderr


@needs_root
def test_blocking_what_is_traced(record, start, spin):  # noqa: F811
    process = start([*PYTHONS[ONE][0], spin, "100"])
    tracer = start([sys.executable, "-c", f"import ctypes, time\nassert ctypes.CDLL(None).ptrace(0x4206, {process.pid}, 0, 0) == 0\ntime.sleep(100)"])
    wait_for(lambda: f"TracerPid:\t{tracer.pid}\n" in pathlib.Path(f"/proc/{process.pid}/status").read_text(), "the tracer")
    done = record("--cpu", "--blocking", "--no-snapshots", "--pid", process.pid, "--duration", "1s")
    tracer.kill()  # before its tracee, which is reaped by it
    assert f"process {tracer.pid} traces it already" in done.stderr, done.stderr


# ---- harm ----

def threads_of(pid):
    """{tid: (state, tracer, pending signals)}"""
    found = {}
    for tid, status in proc.thread_texts(pid, "status").items():
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        found[tid] = (fields["State"].split()[0], int(fields["TracerPid"]), int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16))
    return found


THREADS = '''\
import threading, zlib
data = bytes(range(256)) * 64
counts = [0] * 4
def step(n): return (n * 5 + 1) & 0xffff
def work(i):
    while True:
        for k in range(200): step(k)
        zlib.compress(data, 6)
        counts[i] += 1
for i in range(4): threading.Thread(target=work, args=(i,), daemon=True).start()
while True:
    input()
    print(*counts, flush=True)
'''


class Worker:
    """The busy program; `counts` asks each of its threads what it has done."""

    def __init__(self, start):
        self.process = start([*PYTHONS[ONE][0], "-c", THREADS], stdin=subprocess.PIPE)
        self.pid = self.process.pid

    def counts(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return list(map(int, self.process.stdout.readline().split()))


def test_killed_recorders_leave_nothing(infprof, run_dir, start):
    """kill -9 at any moment: the kernel lets the threads go, none is stopped or traced, no signal is pending."""
    worker = Worker(start)
    for i in range(12):
        recorder = subprocess.Popen([infprof, "record", "--cpu=999", "--blocking", "--no-snapshots", "--no-finish", "-o", run_dir, "--pid", str(worker.pid)],
                                    stderr=subprocess.DEVNULL)
        wait_for(lambda: any(tracer for _, tracer, _ in threads_of(worker.pid).values()), "a stop")
        time.sleep(0.007 * i)  # sleep: another moment each time
        recorder.kill()
        recorder.wait()
        wait_for(lambda: not any(tracer or pending or state in "tT" for state, tracer, pending in threads_of(worker.pid).values()),
                 "threads that run free")
        before = worker.counts()
        wait_for(lambda: all(now > then for now, then in zip(worker.counts(), before)), "work of every thread")
    assert worker.process.poll() is None


def test_cycles(infprof, run_dir, start):
    """Attached and let go again and again: it works on as one that was left alone does."""
    worker, witness = Worker(start), Worker(start)
    wait_for(lambda: min(worker.counts() + witness.counts()) > 0, "work")
    begin = worker.counts(), witness.counts()
    for i in range(ROUNDS):
        words = [infprof, "backtrace", str(worker.pid), "--json"] if i % 10 else \
            [infprof, "record", "--cpu=999", "--no-snapshots", "--no-finish", "-o", run_dir, "--pid", str(worker.pid), "--duration", "200ms",
             *(["--blocking"] if i % 20 else [])]
        done = run(words, preexec_fn=refused([BPF], errno.EPERM))
        assert done.returncode == 0, done.stderr
        if i % 10:
            assert len(json.loads(done.stdout)) == 5, done.stdout
    end = worker.counts(), witness.counts()
    mine, its = (sum(now) - sum(then) for now, then in zip(end, begin))
    print(f"{ROUNDS} times attached: {mine:,} units of work, {its:,} of the witness")
    assert mine > 0.5 * its, (mine, its)
    assert all(now > then for now, then in zip(end[0], begin[0])), (begin, end)
    assert worker.process.poll() is None and len(threads_of(worker.pid)) == 5
    assert not any(tracer or pending or state in "tT" for state, tracer, pending in threads_of(worker.pid).values())


# ---- containers ----

@needs_root
@pytest.mark.parametrize("way", ["running", "blocking"])
def test_pid_namespace(infprof, attach, start, way):
    """Numbers of threads differ: rows have ours."""
    program = ("import threading, time\ndef spin():\n    while True: pass\n"
               "threading.Thread(target=spin, daemon=True).start()\nprint('ready', flush=True)\ntime.sleep(1000)")
    process = start([*unshare("--pid", "--fork", "--kill-child", "--mount-proc"), *PYTHONS[ONE][0], "-c", program])
    assert process.stdout.readline() == "ready\n"
    [inner] = map(int, pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
    [thread] = [tid for tid in proc.threads(inner) if tid != inner]
    found = attach(inner, *(["--blocking"] if way == "blocking" else []), mode="cpu" if way == "blocking" else "python", duration="2s")
    mode = "cpu" if way == "blocking" else "python"
    assert found.by_thread[mode, thread] > 0.5 * sum(found.by_thread[one] for one in found.by_thread if one[0] == mode) > 0, found.by_thread
    assert sum(count for names, count in found.stacks if "spin" in names) > 0.9 * sum(count for _, count in found.stacks), found.stacks


@needs_root
@pytest.mark.parametrize("way", ["running", "blocking"])
def test_chroot(infprof, attach, start, tmp_path, way):
    """Files of another root: the interpreter is read below /proc/PID/root."""
    if not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("no Python of the system")
    root = tmp_path / "root"
    script = f"mkdir {root} && mount -t tmpfs none {root} && cd {root} && mkdir dev proc moved && " \
             "for d in usr lib lib64 bin etc; do [ ! -e /$d ] || { mkdir $d; mount --rbind /$d $d; }; done && mount -t proc proc proc && " \
             f'exec chroot {root} /usr/bin/python3 -c "$0"'
    process = start([*unshare(), "sh", "-c", script, "print('ready', flush=True)\ndef spin():\n    while True: pass\nspin()"])
    assert process.stdout.readline() == "ready\n"
    found = attach(process.pid, *(["--blocking"] if way == "blocking" else []), mode="cpu" if way == "blocking" else "python", duration="2s")
    assert sum(count for names, count in found.stacks if "spin" in names) > 0.9 * sum(count for _, count in found.stacks), found.stacks
