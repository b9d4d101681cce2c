"""Attaching to what runs already: by pid, by name, by port; and finding it again."""
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from test_record import wait_for


class Recording:
    def __init__(self, infprof, run_dir, *options):
        self.run_dir = run_dir
        self.process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish", *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def pids(self):
        """Processes seen in the tree so far."""
        if not list(self.run_dir.glob("*.infprof")):
            return set()
        return {row["pId"] for row in self.run_dir.run().table("process")}

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        self.stdout, self.stderr = self.process.communicate(timeout=60)
        return self.process.returncode


@pytest.fixture
def recording(infprof, run_dir):
    made = []

    def begin(*options):
        made.append(Recording(infprof, run_dir, *options))
        return made[-1]

    yield begin
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.fixture
def start():
    """start(words...): a process that is gone after the test."""
    made = []

    def call(*words, **options):
        made.append(subprocess.Popen(list(map(str, words)), **options))
        return made[-1]

    yield call
    for process in made:
        process.kill()
        process.wait()


@pytest.mark.san
def test_by_pid(recording, start, run_dir):
    target = start("sh", "-c", "sleep 100 & sleep 101 & read go; kill %1 %2; exit 0", stdin=subprocess.PIPE)
    one = recording("--pid", target.pid)
    wait_for(lambda: len(one.pids()) == 3, "all three are seen")
    target.communicate(b"go\n")
    assert one.wait() == 0  # it ends with its target
    assert one.stdout == ""
    assert "the target has ended" in one.stderr
    rows = run_dir.run().table("process")
    assert [row["pName"] for row in rows].count("sleep") == 2
    assert target.pid in one.pids()
    assert run_dir.run().info["mode"] == "pid"
    assert {row["pState"] for row in run_dir.run().table("processes")} >= {"S", "X"}


def test_several_pids(recording, start, run_dir):
    targets = [start("cat", stdin=subprocess.PIPE) for _ in range(2)]
    one = recording("--pid", targets[0].pid, "--pid", targets[1].pid)
    for target in targets:
        wait_for(lambda: target.pid in one.pids(), "it is seen")
    for target in targets:
        target.communicate()
    assert one.wait() == 0
    assert {target.pid for target in targets} <= one.pids()


def test_the_target_is_left_alone(recording, start):
    target = start("sleep", "30")
    one = recording("--pid", target.pid)
    wait_for(lambda: target.pid in one.pids(), "the target is seen")
    assert one.end() == 0
    assert target.poll() is None


def test_by_name_with_a_restart(recording, start, tmp_path):
    name = f"target-{os.getpid()}"
    program = tmp_path / name
    os.symlink(sys.executable, program)
    words = [program, "-c", "import time; time.sleep(60)"]
    one = recording("--name", f"target-{os.getpid()}")
    time.sleep(1)  # sleep: infprof looks a few times before the target comes
    first = start(*words)  # infprof was there before it
    wait_for(lambda: first.pid in one.pids(), "the first is seen")
    first.kill()
    first.wait()
    second = start(*words)
    wait_for(lambda: second.pid in one.pids(), "the second is seen")
    assert one.process.pid not in one.pids()  # its own command line holds the name
    assert one.end() == 0
    said = one.stderr
    assert "waiting for the target to appear" in said
    assert f"recording process {first.pid}" in said
    assert f"recording process {second.pid} now" in said


def test_bad_expression(recording):
    one = recording("--name", "a(b")
    assert one.wait() == 125
    assert "a(b" in one.stderr


SERVER = """
import os, socket, sys, time
listener = socket.socket(getattr(socket, sys.argv[2]))
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try:
        listener.bind(("::1" if sys.argv[2] == "AF_INET6" else "127.0.0.1", int(sys.argv[1])))
        break
    except OSError:  # a worker of the first server is still about to end
        time.sleep(0.01)
listener.listen()
print(listener.getsockname()[1], flush=True)
os.fork()  # a worker that shares the socket
time.sleep(60)
"""


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_by_port_with_a_restart(recording, start, family):
    try:
        socket.socket(getattr(socket, family)).bind(("::1" if family == "AF_INET6" else "127.0.0.1", 0))
    except OSError as error:
        pytest.skip(f"no {family} here: {error}")
    first = start(sys.executable, "-c", SERVER, 0, family, stdout=subprocess.PIPE, text=True, start_new_session=True)
    port = int(first.stdout.readline())
    one = recording("--port", port)
    wait_for(lambda: len(one.pids()) == 2, "the server and its worker are seen")
    assert first.pid in one.pids()
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    second = start(sys.executable, "-c", SERVER, port, family, stdout=subprocess.PIPE, text=True, start_new_session=True)
    second.stdout.readline()
    wait_for(lambda: second.pid in one.pids(), "the second is seen")
    assert one.end(signal.SIGTERM) == 0
    os.killpg(second.pid, signal.SIGKILL)


def test_duration(recording):
    begin = time.monotonic()
    one = recording("--pid", os.getpid(), "--duration", "1s")
    assert one.wait() == 0
    assert time.monotonic() - begin < 20


BUSY_SERVER = """
import socket, sys, time
while time.process_time() < 1.5:
    pass
listener = socket.socket()
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
print("ready", flush=True)
time.sleep(60)
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.mark.san
def test_nothing_of_what_a_late_target_used_before(infprof, recording, start, run_dir):
    port = free_port()
    one = recording("--port", port)
    wait_for(lambda: list(run_dir.glob("*.infprof/tree/*")), "it records")
    server = start(sys.executable, "-c", BUSY_SERVER, port, "--api-key", "hunter2", stdout=subprocess.PIPE, text=True)
    server.stdout.readline()
    wait_for(lambda: server.pid in one.pids(), "the server is seen")
    assert one.end() == 0
    run = run_dir.run()
    rows = run.table("tree")
    assert rows[-1]["tree_processes"] == 1 and rows[0]["tree_processes"] == 0
    assert rows[-1]["tree_cpu_ns"] < 1e9 and rows[-1]["tree_cpu_user"] < 100  # of its 1.5 s nothing
    for row in rows:  # memory that is not there is not 0
        gauges = [row[name] for name in ("tree_rss_bytes", "tree_vms_bytes", "tree_swap_bytes", "tree_threads")]
        assert (None not in gauges and gauges[0] > 0) if row["tree_processes"] else gauges == [None] * 4, row
    said = [row for row in run.table("sources") if row["instance"] == "target"]
    assert [row["state"] for row in said] == ["absent", "ok"]
    assert run.info["target"] == {"port": port}
    assert run.info["target_command"].endswith("--api-key ***")
    found = json.loads(subprocess.run([infprof, "report", "--json", "-r", run_dir], capture_output=True, text=True, check=True).stdout)
    assert [process["cpu_s"] < 1 for process in found["processes"]] == [True]  # cpu: nor in the report's list


@pytest.mark.parametrize("end", ["--duration", "signal"])
def test_a_target_that_never_comes_leaves_nothing(recording, run_dir, end):
    port = free_port()
    one = recording(*(["--port", port, "--duration", "300ms"] if end == "--duration" else ["--name", "no such program"]))
    if end == "signal":
        wait_for(lambda: list(run_dir.glob("*-*.json")), "a snapshot")
    reason = f"nothing listens on port {port} yet" if end == "--duration" else "no process is named 'no such program' yet"
    assert (one.wait() if end == "--duration" else one.end()) == 125
    assert one.stderr.splitlines()[-1] == f"infprof: record: nothing was recorded: {reason}"
    assert list(run_dir.iterdir()) == []


def test_a_target_that_did_not_come_yet(infprof, recording, run_dir):
    port = free_port()
    reason = f"nothing listens on port {port} yet"
    recording("--port", port)
    wait_for(lambda: list(run_dir.glob("*.infprof/tree/*")), "it records")
    run = run_dir.run()
    assert run.info["target"] == {"port": port} and run.info["target_command"] == ""
    assert {(row["tree_processes"], row["tree_rss_bytes"], row["tree_threads"]) for row in run.table("tree")} == {(0, None, None)}
    said = [row for row in run.table("sources") if row["table_name"] == "tree" and row["instance"] == "target"]
    assert [(row["state"], row["reason"]) for row in said] == [("absent", reason)]
    assert not [row for row in run.table("sources") if row["column_name"] in ("tree_rss_bytes", "tree_threads")]
    text = subprocess.run([infprof, "report", "--full", "-r", run_dir], capture_output=True, text=True, check=True).stdout
    assert reason in text and f"not found: the process on port {port}" in " ".join(text.split())


@pytest.mark.parametrize("way", ["--pid", "--port"])
def test_what_an_ended_target_leaves(recording, start, way):
    code = "import socket, subprocess, sys; s = socket.create_server(('127.0.0.1', 0)); subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL); print(s.getsockname()[1], flush=True); sys.stdin.read()"
    target = start(sys.executable, "-c", code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(target.stdout.readline())
    one = recording(way, target.pid if way == "--pid" else port)
    wait_for(lambda: len(one.pids()) == 2, "both processes are seen")
    (orphan,) = one.pids() - {target.pid}
    try:
        target.stdin.close()
        target.wait(timeout=60)
        if way == "--port":
            line = ""
            while "has ended" not in line:
                line = one.process.stderr.readline()
            assert "but 1 process that it started lives on (" in line and "still recorded" in line
            assert one.end() == 0
        else:
            assert one.wait() == 0
            assert "the target has ended, but 1 process that it started lives on (" in one.stderr
            assert "the recording ends with the target" in one.stderr
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_signals_of_one_moment_are_one_wish(infprof, run_dir):
    """`timeout -s INT` signals infprof and then its group: the run is finished all the same."""
    with subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100"], stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: list(run_dir.glob("*.infprof/cpu/*")), "it records")
        for number in signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT:  # stopped, or we might lose our CPU between the two
            process.send_signal(number)
        assert "read it with" in process.communicate(timeout=60)[1]
    assert run_dir.run().info["finished"] is True


def test_who_was_recorded(recording, start, run_dir):
    target = start("sleep", "30")
    one = recording("--pid", target.pid, "--duration", "1s")
    assert one.wait() == 0
    assert f"recording process {target.pid}\n" in one.stderr
    assert run_dir.run().info["target"] == {"pid": [target.pid]}
    assert run_dir.run().info["target_command"] == "sleep 30"


def test_a_command_has_memory_only_while_it_lives(record):
    rows = record("-t", "100", command=["sleep", "0.5"]).run.table("tree")
    assert rows[-1]["tree_processes"] == 0 and rows[-1]["tree_rss_bytes"] is None and rows[-1]["tree_cpu_ns"] > 0
    assert min(row["tree_rss_bytes"] for row in rows if row["tree_rss_bytes"] is not None) > 0


def test_the_machines_processes_come_once_a_second(record):
    run = record("-p", "-t", "200", "--duration", "2500ms").run
    periods = {collector["name"]: collector["period_ms"] for collector in run.info["collectors"]}
    assert periods["processes"] == 1000 and periods["cpu"] == 200
    assert 2 <= len(run.table("tree")) <= 5
    with_tree = [json.loads(path.read_text())["processes"]["tree_processes"]["value"] for path in run.snapshots()]
    assert len(with_tree) >= 8 and None not in with_tree, with_tree
