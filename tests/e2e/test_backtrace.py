"""infprof backtrace on programs whose stacks are known, and on those that cannot be read."""
import json
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import time

import pytest

import proc
from program import run
from waiting import wait_for

HERE = pathlib.Path(__file__).resolve().parent
pytestmark = pytest.mark.san


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("backtrace") / "backtrace_program"
    subprocess.run(["gcc", "-O1", "-g", "-fno-optimize-sibling-calls", "-D_GNU_SOURCE", "-Wall", HERE / "backtrace_program.c", "-o", path,
                    "-pthread"], check=True)
    return path


@pytest.fixture
def start():
    """Programs that are ended with the test, stopped ones too. With `ready` it waits for a line of output."""
    started = []

    def begin(*words, ready=True, **options):
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        started.append(process)
        process.first_line = process.stdout.readline() if ready else None
        return process

    yield begin
    for process in reversed(started):  # tracers before those that they trace
        process.kill()
        process.wait()


@pytest.fixture
def backtrace(infprof, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def take(*words):
        """Threads by their tid."""
        done = run([infprof, "backtrace", "--json", *words])
        assert done.returncode == 0, done.stderr
        threads = json.loads(done.stdout)
        assert len({thread["tid"] for thread in threads}) == len(threads)
        return {thread["tid"]: thread for thread in threads}

    return take


def names(thread, kind=None):
    return [frame["func"] for frame in thread["frames"] if kind in (None, frame["frame_type"])]


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_threads_of_a_c_program(program, start, backtrace):
    process = start(program, 3)
    wait_for(lambda: set(map(state, (f"{process.pid}/task/{tid}" for tid in os.listdir(f"/proc/{process.pid}/task")))) == {"S"}, "its threads' sleep")
    threads = backtrace(process.pid)
    assert len(threads) == 4
    for tid, thread in threads.items():
        assert thread["stack"] == "native" and not thread["incomplete"] and thread["why"] is None
        assert thread["name"] == "backtrace_progr" and thread["state"] == "S" and 0 < thread["stop_us"] < 1e6
        assert [frame["depth"] for frame in thread["frames"]] == list(range(len(thread["frames"])))
        assert {frame["frame_type"] for frame in thread["frames"]} == {"Native"}
        if tid != process.pid:
            found = names(thread)
            assert found[found.index("inner"):found.index("inner") + 4] == ["inner", "middle", "outer", "start"]
            lines = {frame["func"]: frame for frame in thread["frames"]}
            assert lines["inner"]["file"].endswith("backtrace_program.c")
            source = (HERE / "backtrace_program.c").read_text().splitlines()
            assert "pause()" in source[lines["inner"]["lineno"] - 1] and "middle()" in source[lines["outer"]["lineno"] - 1]


def test_one_thread(program, start, infprof, backtrace):
    process = start(program, 3)
    tid = max(proc.threads(process.pid))
    assert list(backtrace(process.pid, tid)) == [tid]
    done = run([infprof, "backtrace", process.pid, 1])
    assert done.returncode == 1 and "has no thread 1" in done.stderr


def test_text_for_people(program, start, infprof):
    process = start(program, 1)
    done = run([infprof, "backtrace", process.pid])
    assert done.returncode == 0 and done.stderr == ""
    assert f"Process {process.pid}  {program} 1" in done.stdout and f'Thread {process.pid} "backtrace_progr"  sleeping, was stopped for' in done.stdout
    assert re.search(r"\d  Native  inner  \S*backtrace_program.c:\d+\n +\d+  Native  middle ", done.stdout)


def test_2000_threads(program, start, backtrace):
    limit = resource.getrlimit(resource.RLIMIT_NPROC)
    if limit[0] != resource.RLIM_INFINITY and limit[0] < 4000:
        pytest.skip(f"only {limit[0]} threads are allowed")
    process = start(program, 2000)
    threads = backtrace(process.pid)
    assert len(threads) == 2001
    assert sum("inner" in names(thread) and not thread["incomplete"] for thread in threads.values()) == 2000


def test_the_tree_by_name_and_port(start, backtrace):
    name = f"a-name-of-{os.getpid()}-{time.monotonic_ns()}"
    code = ("import os, socket, sys, time\ns = socket.create_server(('127.0.0.1', 0))\nparent = os.getpid()\n"
            "if os.fork() == 0:\n    while os.getppid() == parent: time.sleep(0.1)\n    os._exit(0)\n"
            "print(s.getsockname()[1], flush=True)\ntime.sleep(1000)")
    process = start(sys.executable, "-c", code, name)
    children = wait_for(lambda: pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split(), "the fork")
    wanted = {process.pid, *map(int, children)}
    assert set(backtrace(process.pid)) == wanted
    assert set(backtrace("--name", name)) == wanted
    port = process.first_line.strip()
    assert {thread["pid"] for thread in backtrace("--port", port).values()} == wanted


def test_a_stopped_process_stays_stopped(program, start, backtrace):
    process = start(program, 3)
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: set(proc.states(process.pid).values()) == {"T"}, "the stop")
    for _ in range(5):
        threads = backtrace(process.pid)
        assert all(thread["state"] == "T" and thread["frames"] for thread in threads.values())
        # A thread that is let go enters its stop again, within the kernel, as soon as it gets a CPU.
        wait_for(lambda: set(proc.states(process.pid).values()) == {"T"}, "the stop")
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: set(proc.states(process.pid).values()) == {"S"}, "the continuation")


def test_signals_are_passed_on(program, start, infprof):
    """As many as were sent arrive, whatever stops there are meanwhile."""
    process = start(program, 2, "busy")
    sent = 0
    for _ in range(10):
        taking = subprocess.Popen([infprof, "backtrace", str(process.pid)], stdout=subprocess.DEVNULL)
        while taking.poll() is None:
            process.send_signal(signal.SIGUSR1)
            sent += 1

            def arrived():
                process.stdin.write("\n")
                process.stdin.flush()
                return int(process.stdout.readline().split()[1]) == sent

            wait_for(arrived, "a signal")
        assert taking.returncode == 0
    assert sent > 10


def test_killed_at_any_moment(program, start, infprof):
    """kill -9 of infprof: the target goes on, and no thread of it stays stopped or traced."""
    rounds = int(os.environ.get("INFPROF_ATTACH_ROUNDS", 100))
    process = start(program, 8, "busy")
    pause, before = random.Random(7), 0

    def count():
        process.stdin.write("\n")
        process.stdin.flush()
        return int(process.stdout.readline().split()[0])

    for _ in range(rounds):
        taking = subprocess.Popen([infprof, "backtrace", str(process.pid)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(pause.uniform(0, 0.03))  # sleep: the moment is what is tried
        taking.kill()
        taking.wait()
        wait_for(lambda: not set(proc.states(process.pid).values()) & {"T", "t"}, "the end of the stop")
        wait_for(lambda: count() > before, "work")
        before = count()
    for status in proc.thread_texts(process.pid, "status").values():
        assert "TracerPid:\t0\n" in status


def test_interrupted(program, start, infprof):
    process = start(program, 200)
    taking = subprocess.Popen([infprof, "backtrace", str(process.pid)], stdout=subprocess.DEVNULL)
    time.sleep(0.01)  # sleep: somewhere within it
    taking.send_signal(signal.SIGINT)
    assert taking.wait(60) in (0, -signal.SIGINT)
    wait_for(lambda: set(proc.states(process.pid).values()) == {"S"}, "the end of the stop")


def test_a_traced_process(program, start, infprof):
    process = start(program, 0)
    code = f"import ctypes, time\nassert ctypes.CDLL(None).ptrace(0x4206, {process.pid}, 0, 0) == 0\nprint('seized', flush=True)\ntime.sleep(1000)"
    tracer = start(sys.executable, "-c", code)
    done = run([infprof, "backtrace", process.pid])
    assert done.returncode == 1 and f"process {tracer.pid} traces it already" in done.stderr


def test_a_thread_that_cannot_be_interrupted(program, start, infprof):
    """The others are shown, it says why it is not, and it is let go."""
    process = start(program, 2, "vfork")
    tid = wait_for(lambda: [task for task, state in proc.states(process.pid).items() if state == "D"], "the wait for the child")[0]
    done = run([infprof, "backtrace", "--json", process.pid])
    assert done.returncode == 0, done.stderr
    threads = {thread["tid"]: thread for thread in json.loads(done.stdout) if thread["pid"] == process.pid}
    assert len(threads) == 4
    assert "did not stop within 200 ms" in threads[tid]["why"] and threads[tid]["state"] == "D" and threads[tid]["stack"] == "none"
    assert all(thread["stack"] == "native" and thread["frames"] for thread in threads.values() if thread["tid"] != tid)
    for task in threads:
        assert "TracerPid:\t0\n" in pathlib.Path(f"/proc/{process.pid}/task/{task}/status").read_text()


def test_no_such_process(infprof):
    done = run([infprof, "backtrace", 2 ** 22 + 1])
    assert done.returncode == 1 and f"there is no process {2 ** 22 + 1}" in done.stderr
    done = run([infprof, "backtrace", "--name", "no-process-has-this-name"])
    assert done.returncode == 1 and "no process is named 'no-process-has-this-name'" in done.stderr
    done = run([infprof, "backtrace", "--port", 1])
    assert done.returncode == 1 and "nothing listens on port 1" in done.stderr


def test_a_zombie(start, infprof):
    code = "import os, time\npid = os.fork()\nif pid == 0: os._exit(0)\nprint(pid, flush=True)\ntime.sleep(1000)"
    zombie = int(start(sys.executable, "-c", code).first_line)
    wait_for(lambda: state(zombie) == "Z", "the end")
    done = run([infprof, "backtrace", zombie])
    assert done.returncode == 1 and "is a zombie" in done.stderr


def test_a_thread_of_the_kernel(infprof):
    status = pathlib.Path("/proc/2/status")
    if not status.exists() or "Kthread:\t1" not in status.read_text() and "kthreadd" not in status.read_text():
        pytest.skip("no thread of the kernel is visible")
    done = run([infprof, "backtrace", 2, 2])
    if done.returncode == 0:
        assert re.search(r"Kernel  \w+", done.stdout)
    else:
        assert "thread of the kernel" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_without_the_right(program, start, infprof):
    process = start(program, 1)
    done = run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", infprof, "backtrace", process.pid])
    assert done.returncode == 1 and done.stdout == ""
    for words in ("may not be stopped", "as root", "setcap cap_sys_ptrace", "docker run --cap-add SYS_PTRACE", "kubectl debug"):
        assert words in done.stderr, done.stderr


def test_programs_that_end_or_exec(infprof, start):
    """Each look finds one that is about to end, or to become another program."""
    code = ("import os, subprocess, sys, threading, time\n"
            "def churn():\n"
            "    while True: subprocess.run(['/bin/true'])\n"
            "for i in range(3): threading.Thread(target=churn, daemon=True).start()\n"
            "print('ready', flush=True)\ntime.sleep(1000)")
    process = start(sys.executable, "-c", code)
    for _ in range(20):
        done = run([infprof, "backtrace", "--json", process.pid])
        assert done.returncode == 0, done.stderr
        assert process.pid in {thread["tid"] for thread in json.loads(done.stdout)}
    assert process.poll() is None


@pytest.mark.parametrize("words, message", [
    ([], "name a process"),
    (["x"], "x is not the number of a process"),
    (["0"], "0 is not the number of a process"),
    (["-1"], "-1"),
    (["99999999999"], "99999999999 is not the number of a process"),
    (["1", "y"], "y is not the number of a thread"),
    (["1", "2", "3"], "it takes a PID and a TID"),
    (["1", "--name", "x"], "only one of"),
    (["--name", "x", "--port", "80"], "only one of"),
    (["--name", ""], "the expression is empty"),
    (["--port", "0"], "a TCP port is from 1 to 65535"),
    (["1", "--python-only", "--native-only"], "not both"),
    (["1", "--no-block", "--native-only"], "--no-block reads no native frames"),
    (["1", "--locals", "--native-only"], "cannot be combined with --native-only"),
    (["1", "--locals", "--no-block"], "cannot be combined with --no-block"),
])
def test_bad_arguments(infprof, words, message):
    done = run([infprof, "backtrace", *words])
    assert done.returncode == 2 and message in done.stderr and done.stdout == ""
