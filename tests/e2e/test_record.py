"""Recording a command: it is as if infprof were not there, and what it did is on disk."""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import pyarrow
import pytest

import proc
from namespaces import unshare
from waiting import wait_for


@pytest.mark.san
@pytest.mark.parametrize("script, code", [
    ("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("kill -SEGV $$", 139), ("exit 139", 139),
])
def test_exit_code_is_the_commands(infprof, record, script, code):
    done = record("-t", "50", command=["sh", "-c", script])
    assert done.returncode == code
    assert done.stdout == ""
    assert done.run.info["exit_code"] == code
    # A shell's own `exit 139` is no signal.
    number = code - 128 if script.startswith("kill") else None
    assert done.run.info["exit_signal"] == number
    assert ("was killed by signal" in done.stderr) == (number in (signal.SIGKILL, signal.SIGSEGV))
    if code in (137, 139):
        text = subprocess.run([infprof, "report", "--full", "-r", done.run.path], capture_output=True, text=True, check=True).stdout
        assert f"exit code {code}{f' (signal {number})' if number else ''}\n" in text
        assert ("ended       the command, by signal" in text) == bool(number)


def test_finish_says_where_the_run_is(record, run_dir):
    done = record("-t", "50", command=["true"])
    assert done.returncode == 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("infprof: ") and "infprof report -r " in last and str(run_dir) in last
    assert done.run.info["finished"] is True


def test_programs_that_exec_does_not_know(record, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("exit 9\n")
    plain.chmod(0o755)
    assert record(command=[plain]).returncode == 9  # as execvp: a script without a first line is the shell's
    orphan = tmp_path / "orphan"
    orphan.write_text("#!/no/such/interpreter\n")
    orphan.chmod(0o755)
    done = record(command=[orphan])
    assert done.returncode == 127
    assert str(orphan) in done.stderr and "interpreter" in done.stderr


@pytest.mark.san
def test_standard_streams_are_the_commands(infprof, run_dir):
    """10 MB through both pipes at once: nothing of ours in stdout, no deadlock, every byte."""
    data = bytes(range(256)) * 40000
    done = subprocess.run([infprof, "record", "-o", str(run_dir), "-t", "50", "--no-finish", "--", "cat"], input=data,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0
    assert done.stdout == data
    done = subprocess.run([infprof, "record", "-o", str(run_dir), "--no-finish", "--", "sh", "-c", "echo to-stderr >&2"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.stdout == ""
    assert "to-stderr" in done.stderr.splitlines()


# What a program can see of how it was started.
WORLD = """
import json, os, resource, signal, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps({
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd")), "cwd": os.getcwd(), "umask": status["Umask"],
    "masks": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt")], "nice": os.nice(0), "session": os.getsid(0),
    "limits": [resource.getrlimit(limit) for limit in range(16)], "argv": sys.argv[1:],
    "environment": {k: v for k, v in os.environ.items() if k not in ("INFPROF_RUN", "INFPROF_RING", "_", "LC_CTYPE")},
    "dumpable": status["CapEff"], "no_new_privs": status["NoNewPrivs"], "oom": open("/proc/self/oom_score_adj").read(),
}))
"""


def odd_world():
    """Ignored and blocked signals, another umask, a low limit: all of it has to arrive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
    os.umask(0o027)
    os.nice(3)


@pytest.mark.parametrize("prepare", [None, odd_world], ids=["plain", "odd"])
def test_the_command_sees_no_difference(infprof, run_dir, prepare):
    command = [sys.executable, "-c", WORLD, "an argument", "", "--flag", "-t"]
    alone = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=prepare, timeout=60)
    below = subprocess.run([infprof, "record", "-o", str(run_dir), "-t", "50", "--", *command], stdout=subprocess.PIPE,
                           stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=prepare, timeout=60)
    assert below.returncode == alone.returncode == 0, below.stderr.decode()
    assert json.loads(below.stdout) == json.loads(alone.stdout)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors_stay_closed(infprof, run_dir, tmp_path, closed):
    seen = tmp_path / "seen"
    look = f"for n in 0 1 2; do test -e /proc/$$/fd/$n && echo $n; done > {seen}; exit 6"
    done = subprocess.run(["sh", "-c", f"exec '{infprof}' record -o '{run_dir}' -t 50 -- sh -c '{look}' {closed}"], timeout=60)
    assert done.returncode == 6
    open_ones = {"0", "1", "2"} - {"0" if "<" in part else "2" if "2" in part else "1" for part in closed.split()}
    assert set(seen.read_text().split()) - {"1"} == open_ones - {"1"}  # the redirection has opened 1
    run = run_dir.run()
    assert run.info["finished"] and len(run.table("cpu")) >= 1  # and nothing of ours was written into a segment


def test_the_command_knows_its_run(record):
    done = record("--no-finish", command=["sh", "-c", "echo $INFPROF_RUN"])
    assert done.stdout.strip() == done.run.uuid


def test_programs_of_the_tree_write_rings_unless_the_user_says_otherwise(record, monkeypatch):
    monkeypatch.delenv("INFPROF_RING", raising=False)
    command = ["sh", "-c", "echo ${INFPROF_RING-unset}"]
    assert record("--no-finish", command=command).stdout.strip() == "1"
    for value in ("0", "", "/tmp/rings"):
        monkeypatch.setenv("INFPROF_RING", value)
        assert record("--no-finish", command=command).stdout.strip() == value


def test_first_sample_comes_before_the_command(record):
    program = "import time; print(time.monotonic_ns())"
    # The interpreter needs 20 ms to start; /proc/self/stat would say the start to 10 ms only.
    done = record("-t", "1000", "--no-finish", command=[sys.executable, "-S", "-c", program])
    ticks = done.run.table("ticks")
    assert ticks[0]["tick"] == 0
    assert ticks[0]["t_ns"] + ticks[0]["busy_ns"] < int(done.stdout)
    for table in ("cpu", "mem", "net", "self"):
        assert done.run.table(table)[0]["t_ns"] < int(done.stdout), table
    assert all(row["tree_processes"] == 0 for row in done.run.table("tree")[:1])


# Wakes at even distances as a recorder does, and says how late it usually was. Then for how many ns the recorder's threads had
# waited for a CPU since they began.
EVEN = """
import glob, os, sys, time
period, begin, late = int(sys.argv[1]), time.monotonic_ns(), []
deadline = begin
while deadline < begin + float(sys.argv[2]) * 1e9:
    time.sleep(max(0, deadline - time.monotonic_ns()) / 1e9)
    late.append(time.monotonic_ns() - deadline)
    deadline += (1 + late[-1] // period) * period
threads = [open(path).read().split() for path in glob.glob(f"/proc/{os.getppid()}/task/*/schedstat")]
print(sorted(late)[len(late) // 2], sum(int(wait) for _, wait, _ in threads))
"""


@pytest.mark.san
@pytest.mark.parametrize("period_ms, seconds", [(10, 2), (50, 3), (130, 3)])
def test_no_drift(record, period_ms, seconds):
    done = record("-t", period_ms, "--no-finish", "--no-snapshots", command=[sys.executable, "-S", "-c", EVEN, period_ms * 1_000_000, seconds])
    assert done.returncode == 0, done.stderr
    ticks = done.run.table("ticks")
    period = period_ms * 1_000_000
    for before, row in zip(ticks, ticks[1:]):
        assert row["deadline_ns"] == ticks[0]["deadline_ns"] + row["tick"] * period
        assert row["tick"] - before["tick"] - 1 == row["missed"] - before["missed"]
        assert row["t_ns"] == row["deadline_ns"] + row["late_ns"]
    assert all(0 <= row["late_ns"] for row in ticks[:-1])
    # A busy machine holds up the command beside it, too.
    usual, held_up = map(int, done.stdout.split())
    late = statistics.median(row["late_ns"] for row in ticks[:-1])
    assert late < period / 2 + 2 * usual, (late, usual)
    # None is missed while the recorder has its CPU.
    assert ticks[-1]["missed"] <= 0.05 * len(ticks) + held_up / period + 2, (ticks[-1]["missed"], held_up, len(ticks))
    assert len(ticks) + ticks[-1]["missed"] >= seconds * 1000 / period_ms
    assert len(done.run.table("cpu")) >= len(ticks) - 1


def test_rows_are_on_disk_within_five_seconds(infprof, run_dir):
    """What is written at once holds the rows of five seconds at most, by their own stamps, and more comes while it records."""
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "250", "--no-finish", "--", "sleep", "100"],
                               stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: list(run_dir.glob("*.infprof/cpu/*.arrows")), "the first flush")
        n = len(run_dir.run().table("cpu"))
        n = len(wait_for(lambda: (rows := run_dir.run().table("cpu")) and len(rows) > n and rows, "the second flush"))
        wait_for(lambda: len(run_dir.run().table("cpu")) > n, "the third flush")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    run = run_dir.run()
    stamps = [row["t_ns"] for row in run.table("ticks")]
    longest = max(b - a for a, b in zip(stamps, stamps[1:]))  # a flush comes with a tick, which the machine may hold up
    batches = []
    for path in run.segments("cpu"):
        with pyarrow.OSFile(str(path)) as file:
            batches += [batch.column("t_ns").to_pylist() for batch in pyarrow.ipc.open_stream(file)]
    assert len(batches) >= 3
    for rows in batches:
        assert rows[-1] - rows[0] <= 5e9 + longest, (len(rows), rows[-1] - rows[0], longest)


# Signals

TRAPS = """
trap 'echo term; exit 40' TERM
trap 'echo usr1' USR1
trap 'echo int' INT
trap 'echo hup' HUP
trap 'echo abrt' ABRT
echo ready
while :; do sleep 0.05; done
"""


@pytest.mark.san
def test_signals_of_processes_are_passed_on(infprof, run_dir):
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish", "--", "sh", "-c", TRAPS],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    for number, word in ((signal.SIGUSR1, "usr1"), (signal.SIGHUP, "hup"), (signal.SIGINT, "int"),
                         (signal.SIGABRT, "abrt"), (signal.SIGTERM, "term")):
        process.send_signal(number)
        assert process.stdout.readline() == word + "\n"
    assert process.wait(timeout=60) == 40


def test_what_the_command_sends_its_parent_does_not_come_back(record):
    done = record("-t", "50", "--no-finish", command=["sh", "-c", "trap 'echo back' USR1; kill -USR1 $PPID; sleep 0.5; exit 5"])
    assert done.returncode == 5
    assert "back" not in done.stdout


def test_kill_9_leaves_the_command_alone(infprof, run_dir):
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "50", "--", "sh", "-c", "echo $$; exec sleep 30"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    child = int(process.stdout.readline())
    wait_for(lambda: len(run_dir.run().table("cpu")) > 20, "some flushes")
    process.kill()
    assert process.wait(timeout=30) == -signal.SIGKILL
    rows = run_dir.run().table("cpu")
    assert len(rows) > 20 and all(row["vCpuTime"] is not None for row in rows)
    time.sleep(0.3)  # sleep: a death would show by then
    assert pathlib.Path(f"/proc/{child}/comm").read_text() == "sleep\n"
    os.kill(child, signal.SIGKILL)
    done = subprocess.run([infprof, "recover", str(run_dir)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(run_dir.run().table("cpu")) == len(rows)


def test_killed_at_the_gate_leaves_nothing(infprof, run_dir):
    """Until its exec the command is a fork of infprof that waits: without infprof it has to go."""
    for _ in range(15):
        process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "--", "true"], stderr=subprocess.DEVNULL)
        time.sleep(0.004)  # sleep: any moment will do
        process.kill()
        process.wait()
    wait_for(lambda: not [pid for pid, words in proc.texts("/proc", "cmdline").items() if str(run_dir) in words], "the end of all forks", 10)


# The tree

@pytest.mark.san
def test_the_run_ends_with_the_tree(record):
    begin = time.monotonic()
    done = record("-t", "100", "--no-finish", command=["sh", "-c", "(sleep 2; exit 9) & (setsid sleep 1.5 &) ; exit 4"])
    assert done.returncode == 4
    assert time.monotonic() - begin >= 2
    said = [line for line in done.stderr.splitlines() if "waiting for" in line]
    # The subshell with its sleep, and the sleep of a session of its own that came to us.
    assert len(said) == 1 and "waiting for 3 of its descendants" in said[0]
    names = [row["pName"] for row in done.run.table("process")]
    assert names.count("sleep") == 2
    last = done.run.table("tree")[-1]
    assert last["tree_processes"] == 0


def test_the_run_ends_with_the_child(record):
    begin = time.monotonic()
    done = record("-t", "100", "--wait", "child", "--no-finish", command=["sh", "-c", "sleep 3 > /dev/null 2>&1 & exit 4"])
    assert done.returncode == 4
    assert time.monotonic() - begin < 2.5
    assert "waiting for" not in done.stderr


def test_cpu_time_of_what_was_reaped_counts(record):
    burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
    done = record("-t", "500", "--no-finish", command=["sh", "-c", f"({burn}) & ({burn}) & wait; (setsid sh -c '{burn}' &); sleep 0.5"])
    total = done.run.table("tree")[-1]["tree_cpu_ns"]
    reference = os.times()
    subprocess.run(["sh", "-c", f"({burn}) & ({burn}) & ({burn}) & wait"], check=True)
    now = os.times()
    expected = (now.children_user + now.children_system - reference.children_user - reference.children_system) * 1e9
    assert 0.5 * expected < total < 2 * expected  # the same work twice on a machine with other users


def test_a_command_between_two_samples_is_seen(infprof, record):
    code = "import os; x = b'1' * (100 << 20); os.write(os.open('/dev/null', os.O_WRONLY), x); os._exit(4)"
    done = record("-t", "10000", "-p", "--no-finish", command=[sys.executable, "-c", code])
    processes = {row["id"]: row for row in done.run.table("process")}
    ours = [row for row in done.run.table("processes") if "os._exit(4)" in (processes[row["process"]]["pCmdline"] or "")]
    tree = done.run.table("tree")[-1]
    assert done.returncode == 4
    # It has its own name, and no row from before its exec has infprof's.
    assert {processes[row["process"]]["pName"] for row in ours} == {"infprof", pathlib.Path(sys.executable).name[:15]}
    recorder, command = sorted({row["process"] for row in ours}, key=lambda id: processes[id]["pName"] != "infprof")
    assert processes[recorder]["pId"] == done.run.info["recorder_pid"]
    assert processes[command]["pCmdline"].startswith(f"{sys.executable} -c ")
    last = [row for row in ours if row["process"] == command][-1]
    assert last["pState"] == "X" and last["pWriteCharsBytes"] >= 100 << 20 and last["pRssPeakBytes"] >= 100 << 20
    assert tree["tree_wchar"] >= 100 << 20 and tree["tree_process_rss_peak_bytes"] >= 100 << 20
    text = subprocess.run([infprof, "report", "--full", "-r", done.run.path], capture_output=True, text=True, check=True).stdout
    memory = next(line for line in text.splitlines() if "tree: in RAM" in line).split()
    assert memory[-1] == "MiB" and float(memory[-2]) >= 100
    assert "0 B" not in next(line for line in text.splitlines() if "tree: by calls" in line)


def test_duration_leaves_the_command(infprof, run_dir):
    begin = time.monotonic()
    done = subprocess.run([infprof, "record", "-o", str(run_dir), "-t", "100", "--duration", "1s", "--",
                           "sh", "-c", "exec sleep 30 2> /dev/null"],
                          stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0
    assert 1 <= time.monotonic() - begin < 20
    pid = int(done.stderr.split("(process ")[1].split(")")[0])
    assert "still runs" in done.stderr
    assert pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    os.kill(pid, signal.SIGKILL)
    assert run_dir.run().info["exit_code"] is None
    assert len(run_dir.run().table("ticks")) >= 10


def test_children_from_before_are_not_the_tree(infprof, run_dir):
    begin = time.monotonic()
    done = subprocess.run(["sh", "-c", f"sleep 4 2> /dev/null & exec '{infprof}' record -o '{run_dir}' -t 100 --no-finish -- sh -c 'sleep 0.5; exit 8'"],
                          stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 8
    assert time.monotonic() - begin < 3.5
    assert "waiting" not in done.stderr
    assert [row["pName"] for row in run_dir.run().table("process")].count("sleep") == 1


# Files

def test_a_snapshot_a_tick(record):
    done = record("-t", "100", "--no-finish", command=["sleep", "1"])
    ticks = done.run.table("ticks")
    assert len(done.run.snapshots()) == len(ticks)
    times = [int(path.stem[len(done.run.uuid) + 1:]) for path in done.run.snapshots()]
    assert [json.loads(path.read_text())["timestamp"] for path in done.run.snapshots()] == times
    static = json.loads((done.run.output / f"static_{done.run.uuid}.json").read_text())
    assert static["uuid"] == done.run.uuid and static["host"]["vNumProcessors"] >= 1


def test_no_snapshots_and_their_limit(record, run_dir):
    done = record("-t", "50", "--no-snapshots", "--no-finish", command=["sleep", "0.5"])
    assert done.run.snapshots() == []
    done = record("-t", "20", "--snapshot-limit", "64K", "--no-finish", command=["sleep", "2"])
    size = sum(path.stat().st_size for path in done.run.snapshots())
    assert 0 < size <= 64 * 1024
    assert "snapshot" in done.stderr


def test_many_runs_in_one_directory(record, run_dir):
    uuids = {record("--no-finish", command=["true"]).run.uuid for _ in range(3)}
    assert len(uuids) == 3
    assert len(list(run_dir.glob("*.infprof/run.json"))) == 3


def test_secrets_are_masked(record):
    done = record("-t", "50", "--no-finish", command=["sh", "-c", "sleep 0.3", "--api-key", "abc123", "TOKEN=xyz789"])
    text = (done.run.path / "run.json").read_text() + str(done.run.table("process"))
    assert "abc123" not in text and "xyz789" not in text and "***" in text
    done = record("-t", "50", "--no-finish", "--keep-secrets", command=["sh", "-c", "sleep 0.3", "--api-key", "abc123"])
    assert "abc123" in done.run.info["command"]
    assert "abc123" in str(done.run.table("process"))


def test_run_json(record):
    before = time.time() * 1000
    done = record("-t", "70", "-f", "csv", "--no-finish", command=["sleep", "0.3"])
    info = done.run.info
    assert (info["mode"], info["format"], info["period_ms"], info["finished"]) == ("run", "csv", 70, False)
    assert before - 1 <= info["started"] <= info["ended"] <= time.time() * 1000 + 1
    assert int(info["ended_t_ns"]) > int(info["started_t_ns"])
    assert {"cpu", "mem", "processes", "self"} <= {collector["name"] for collector in info["collectors"]}


def test_the_short_form_records_the_machine(infprof, run_dir):
    process = subprocess.Popen([infprof, "-o", str(run_dir), "-t", "100"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: run_dir.exists() and len(list(run_dir.glob("*-*.json"))) > 5, "some snapshots")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0 and stdout == "", stderr
    assert run_dir.run().info["mode"] == "host"
    assert run_dir.run().info["finished"] is True


def test_the_wall_clock_is_anchored(record):
    done = record("-t", "100", "--no-finish", command=["sleep", "0.5"])
    anchors = done.run.table("clock")
    assert [row["reason"] for row in anchors] == ["start", "end"]
    row = done.run.table("cpu")[-1]
    offset = time.time_ns() - time.monotonic_ns()
    assert abs(row["time"].timestamp() * 1e9 - row["t_ns"] - offset) < 50e6


def test_nohup_holds(infprof, run_dir):
    """Started with SIGHUP ignored, the machine's recording does not end by it; SIGINT of a process does end it."""
    def prepare():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does to the background jobs of a script

    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish"], stderr=subprocess.PIPE,
                               preexec_fn=prepare)
    wait_for(lambda: run_dir.exists() and len(list(run_dir.glob("*-*.json"))) > 3, "some snapshots")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)  # sleep: a death would show by then
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces of its own")


@needs_root
def test_live_full_disk_from_the_start(infprof, tmp_path):
    script = f"""
        mount -t tmpfs -o size=64k tmpfs {tmp_path}
        head -c 65536 /dev/zero > {tmp_path}/x 2> /dev/null || true
        set +e
        '{infprof}' record -o {tmp_path}/out -- echo ran
        echo code=$?
    """
    done = subprocess.run([*unshare(), "sh", "-ec", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60)
    assert "code=125" in done.stdout and "ran" not in done.stdout
    assert "No space left on device" in done.stderr and str(tmp_path) in done.stderr


@needs_root
def test_live_process_1_of_a_container_stays(infprof, run_dir):
    """With process 1 the whole pid namespace would end: when the recording is over it waits for the command."""
    begin = time.monotonic()
    done = subprocess.run([*unshare("--pid", "--fork", "--mount-proc"), infprof, "record", "-o", str(run_dir), "-t", "100",
                           "--duration", "1s", "--", "sh", "-c", "sleep 3; echo end; exit 9"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 9
    assert done.stdout == "end\n"
    assert time.monotonic() - begin >= 3
    assert int(run_dir.run().info["ended_t_ns"]) - int(run_dir.run().info["started_t_ns"]) < 2.5e9


SHOW_NAMES = "echo $NODE_OPTIONS,$ONEDNN_JIT_PROFILE,$DOTNET_PerfMapEnabled"


@pytest.mark.parametrize("said, seen", [({}, "--perf-basic-prof-only-functions,2,1"),
                                        ({"NODE_OPTIONS": "--max-old-space-size=64"}, "--max-old-space-size=64 --perf-basic-prof-only-functions,2,1"),
                                        ({"NODE_OPTIONS": "--perf-prof", "ONEDNN_JIT_PROFILE": "0", "COMPlus_PerfMapEnabled": "0"}, "--perf-prof,0,"),
                                        ({"DNNL_JIT_PROFILE": "1", "DOTNET_PerfMapEnabled": "2", "NODE_OPTIONS": "x" * 4096}, "x" * 4096 + ",,2")])
def test_jit_names(infprof, run_dir, said, seen):
    """Variables are set that make compilers write perf maps; what the user has said stays."""
    environment = {name: value for name, value in os.environ.items() if "JIT_PROFILE" not in name and "PerfMap" not in name and name != "NODE_OPTIONS"}
    done = subprocess.run([infprof, "record", "-o", run_dir, "--no-finish", "--jit-names", "--", "sh", "-c", SHOW_NAMES], capture_output=True, text=True,
                          env={**environment, **said}, timeout=60)
    assert done.returncode == 0 and done.stdout == seen + "\n", done.stderr


@pytest.mark.parametrize("words, directory, file", [([], 0o700, 0o600), (["--share"], 0o755, 0o644)])
def test_who_may_read_a_run(infprof, record, words, directory, file):
    """Command lines and output are the owner's; --share leaves it to the umask. Locks are never for others."""
    before = os.umask(0o022)
    try:
        done = record("-t", "100", "-f", "csv", "--capture", *words, command=["echo", "hello"])
        page = subprocess.run([infprof, "report", "-r", str(done.run.output), "--html"], stdout=subprocess.DEVNULL, timeout=60)
    finally:
        os.umask(before)
    assert done.returncode == 0 and page.returncode == 0, done.stderr
    assert done.run.path.stat().st_mode & 0o777 == directory
    modes = {path.name[36:]: path.stat().st_mode & 0o777 for path in done.run.output.iterdir() if path.is_file()}
    assert {".csv", "_output.txt", "_report.html"} <= set(modes) and set(modes.values()) == {file}, modes
    locks = [path.stat().st_mode & 0o777 for path in done.run.path.glob("*.lock")]
    assert locks == [0o600, 0o600]
