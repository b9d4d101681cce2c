"""Programs that record themselves: their spans, marks and counters in recordings, and asked without one."""
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import time

import pyarrow
import pytest

from conftest import TOP
from namespaces import unshare
from program import run
from waiting import wait_for

SOURCES = ["src/lib/*.c", "src/ring/w*.c"]


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """ring_program.c with the library's own sources: it is the same for every build that is tested."""
    path = tmp_path_factory.mktemp("rings") / "ring_program"
    sources = [str(file) for pattern in SOURCES for file in sorted(TOP.glob(pattern))]
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", '-DINFP_VERSION="test"', f"-I{TOP}/include", f"-I{TOP}/src", "-o", path,
                    str(TOP / "tests/e2e/ring_program.c"), *sources, "-lpthread"], check=True)
    return str(path)


@pytest.fixture
def started(program, spawn):
    """started(mode, number): the program, which writes "ready" when its first records are out; ended by the test's end."""
    def start(*words, **arguments):
        process = spawn(program, *words, **arguments)
        if words[0] == "wait":
            assert process.stdout.readline() == "ready\n"
        return process

    return start


def ask(process):
    """One more mark of a waiting program."""
    process.stdin.write("m")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def by_name(rows):
    return {row["name"]: row for row in rows}


def tags(run):
    return [row["tag"] for row in run.table("marks") if row["source"] == "api"]


def process_of(run, row):
    """What is known of the process that a row names: the last row of an entity counts."""
    return [process for process in run.table("process") if process["id"] == row["process"]][-1]


def ring_sources(run):
    return [row for row in run.table("sources") if row["collector"] == "rings"]


def test_a_recording_has_what_its_command_says(record, program, rings):
    done = record("-t", 100, command=[program, "spans", 5])
    assert done.returncode == 0, done.stderr
    spans = [row for row in done.run.table("spans") if row["name"] == "step"]
    whole = by_name(done.run.table("spans"))["whole"]
    assert len(spans) == 5
    for i, span in enumerate(sorted(spans, key=lambda row: row["t_ns"])):
        attributes = json.loads(span["attributes"])
        expected = {"i": i, "gen_ai.request.model": 'a "model" \\\\ é', "share": 0.5, "is_odd": i % 2 == 1}
        if i == 1:
            expected["error.type"] = "timeout"
        assert attributes == expected
        assert span["status"] == ("error" if i == 1 else "ok")
        assert span["thread"] == "main loop" and span["tid"] == span["end_tid"]
        assert 1e6 <= span["duration_ns"] < 1e9
        assert whole["t_ns"] <= span["t_ns"] and span["t_ns"] + span["duration_ns"] <= whole["t_ns"] + whole["duration_ns"]
    assert whole["parent"] is None and whole["attributes"] is None
    assert tags(done.run) == ["begin", "end"]
    values = [(row["name"], row["kind"], row["unit"], row["value"]) for row in done.run.table("counters")]
    assert [v[3] for v in values if v[0] == "tokens"] == [3, 6, 9, 12, 15]
    assert ("queue", "gauge", "1", 1.0) in values
    # The process is named, and the file is gone.
    assert process_of(done.run, whole)["pName"] == "ring_program"
    assert not list(rings.iterdir())
    assert not ring_sources(done.run)


def test_the_report_has_the_spans(infprof, record, program, rings):
    done = record("-t", 100, "--no-finish", command=[program, "spans", 5])
    rows = done.run.table("spans")
    report = run([infprof, "report", "-r", done.run.path, "--json"])
    found = {span["name"]: span for span in json.loads(report.stdout)["spans"]}
    assert set(found) == {row["name"] for row in rows}
    steps = sorted(row["duration_ns"] / 1e9 for row in rows if row["name"] == "step")
    step = found["step"]
    assert (step["n"], step["errors"], step["open"]) == (5, 1, 0)
    assert step["total_s"] == pytest.approx(sum(steps)) and step["mean_s"] == pytest.approx(sum(steps) / 5)
    assert step["p50_s"] == pytest.approx(steps[2]) and step["max_s"] == pytest.approx(steps[4])
    text = run([infprof, "report", "--full", "-r", done.run.path, "--labels"]).stdout
    assert re.search(r"^Spans of programs .*\n(.*\n)*?  step +5 .*1 with an error$", text, re.M), text
    # What lies between labels comes first, and the rest of the report after it.
    assert text.index("Between labels") < text.index("Spans of programs") < text.index("CPU of the process tree")


def test_many_threads_are_told_apart(record, program):
    done = record("-t", 100, command=[program, "threads", 4000])
    assert done.returncode == 0, done.stderr
    spans = done.run.table("spans")
    assert len(spans) == 4000
    for span in spans:
        assert span["thread"] == f"worker {json.loads(span['attributes'])['number']}"
    assert not ring_sources(done.run)


def test_children_that_live_for_a_moment_are_recorded(record, program, rings):
    done = record("-t", 1000, command=[program, "fork", 20])
    assert done.returncode == 0, done.stderr
    rows = [row for row in done.run.table("marks") if row["source"] == "api"]
    assert sorted(row["tag"] for row in rows) == sorted(["parent", "parent again"] + [f"child {i}" for i in range(20)])
    children = {row["process"] for row in rows if row["tag"].startswith("child")}
    named = {row["id"]: (row["pName"], row["pId"]) for row in done.run.table("process")}
    assert all(named[process][0] == "ring_program" for process in children)
    assert len({named[process][1] for process in children}) == 20
    assert len(children) == 20 and len({row["process"] for row in rows if not row["tag"].startswith("child")} - children) == 1
    assert not list(rings.iterdir())


def test_what_was_recorded_before_an_exec_is_kept(record, program, rings):
    done = record("-t", 100, command=[program, "exec"])
    assert done.returncode == 0, done.stderr
    assert tags(done.run) == ["before exec", "begin", "end"]
    spans = by_name(done.run.table("spans"))
    assert spans["cut off by exec"]["status"] == "open" and spans["cut off by exec"]["duration_ns"] is None
    assert spans["whole"]["status"] == "ok"
    assert len({row["process"] for row in done.run.table("spans")}) == 1
    assert not list(rings.iterdir())


def test_a_killed_command_has_what_it_has_written(infprof, run_dir, program, rings):
    recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish", "--", program, "wait"],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert recorder.stdout.readline() == "ready\n"
    pid = int(next(rings.iterdir()).name.split("-")[0])
    os.kill(pid, signal.SIGKILL)
    recorder.communicate(timeout=60)
    assert recorder.returncode == 128 + signal.SIGKILL
    run = run_dir.run()
    assert tags(run) == ["ready"]
    assert by_name(run.table("spans"))["waiting"]["status"] == "open"
    assert not list(rings.iterdir())


def test_attaching_later_takes_up_where_the_program_is(infprof, run_dir, started, rings):
    process = started("wait")
    recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish", "--pid", str(process.pid),
                                 "--duration", "60"], stderr=subprocess.DEVNULL)
    wait_for(lambda: run_dir.exists() and list(run_dir.glob("*.infprof")) and tags(run_dir.run()), "the first mark", 20)
    ask(process)
    ask(process)
    recorder.send_signal(signal.SIGINT)
    recorder.wait(timeout=60)
    run = run_dir.run()
    assert tags(run) == ["ready", "asked", "asked"]
    waiting = by_name(run.table("spans"))["waiting"]
    assert waiting["status"] == "open" and waiting["t_ns"] < int(run.info["started_t_ns"])
    # It lives, so its file stays; when it ends nobody is to read it, and it removes it.
    assert process.poll() is None and len(list(rings.iterdir())) == 1
    process.communicate(timeout=20)
    assert process.returncode == 0 and not list(rings.iterdir())


def numbered(run):
    """Numbers of the marks of `storm`, each checked against its own sum."""
    numbers = []
    for tag in tags(run):
        number, check = tag[1:].split(":")
        assert int(check, 16) == int(number) * 2654435761 % 2**32, tag
        numbers.append(int(number))
    return numbers


def test_kills_at_random_moments_leave_nothing_torn(infprof, run_dir, program, rings):
    seed = int.from_bytes(os.urandom(4), "little")
    rng = random.Random(seed)
    n_recorded = 0
    for turn in range(int(os.environ.get("INFPROF_KILL_ROUNDS", "20"))):
        target = subprocess.Popen([program, "storm"])
        recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir / str(turn)), "-t", "50", "--no-finish", "--no-snapshots",
                                     "--pid", str(target.pid)], stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.05, 0.3))  # sleep: any moment will do
        victim, other = (target, recorder) if turn % 2 else (recorder, target)
        victim.kill()
        victim.wait()
        if victim is recorder:
            # The target has not noticed.
            time.sleep(0.02)  # sleep: a death would show by then
            assert target.poll() is None, seed
            target.kill()
            target.wait()
        else:
            other.wait(timeout=60)
            # 125: the target was gone before the recorder had begun.
            assert other.returncode in (0, 125), seed
        if not list(run_dir.glob(f"{turn}/*.infprof/columns")):
            continue
        try:
            numbers = numbered(type(run_dir)(run_dir / str(turn)).run())
        except pyarrow.ArrowInvalid:  # killed between making a segment and writing its schema
            assert victim is recorder, seed
            continue
        n_recorded += 1
        assert numbers == sorted(set(numbers)), seed
        if victim is target and numbers:
            assert numbers == list(range(numbers[0], numbers[-1] + 1)), seed
    assert n_recorded > 0


def test_a_killed_recorder_is_followed_by_the_next(infprof, run_dir, started, rings):
    process = started("wait")

    def record_until(tag, number):
        recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir / number), "-t", "100", "--no-finish", "--pid",
                                     str(process.pid)], stderr=subprocess.DEVNULL)
        out = type(run_dir)(run_dir / number)
        wait_for(lambda: out.exists() and list(out.glob("*.infprof")) and tag in tags(out.run()), tag, 20)
        return recorder, out

    first, _ = record_until("ready", "1")
    first.kill()
    first.wait()
    ask(process)
    second, out = record_until("asked", "2")
    assert tags(out.run()) == ["asked"]  # what the first has taken is in its run
    process.communicate(timeout=20)
    second.wait(timeout=60)
    assert tags(out.run()) == ["asked", "over"]
    assert process.returncode == 0 and not list(rings.iterdir())


def test_a_second_recording_only_looks_on(infprof, run_dir, started):
    process = started("wait")
    recorders = []
    for number in ("1", "2"):
        recorders.append(subprocess.Popen([infprof, "record", "-o", str(run_dir / number), "-t", "100", "--no-finish", "--pid",
                                           str(process.pid)], stderr=subprocess.DEVNULL))
        out = type(run_dir)(run_dir / number)
        wait_for(lambda: out.exists() and list(out.glob("*.infprof")) and tags(out.run()), "the first mark", 20)
    ask(process)
    process.communicate(timeout=20)
    for recorder in recorders:
        recorder.wait(timeout=60)
    for number in ("1", "2"):
        assert tags(type(run_dir)(run_dir / number).run()) == ["ready", "asked", "over"]
    [row] = ring_sources(out.run())
    assert row["state"] == "late" and "is read by another recording" in row["reason"], row
    assert row["instance"] == f"process {process.pid}"


def test_a_program_that_cuts_its_own_file_harms_nobody(record, program, rings):
    done = record("-t", 100, command=[program, "cut", rings])
    assert done.returncode == 0, done.stderr
    assert tags(done.run) == ["before"]
    assert any("was truncated while it was read" in row["reason"] for row in ring_sources(done.run))


def test_what_finds_no_room_is_counted_and_said(infprof, run_dir, program, rings):
    """The recorder is stopped meanwhile: a ring of 256 KiB cannot hold 100,000 marks."""
    recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish", "--", "sh", "-c",
                                 f"kill -STOP $PPID; {program} storm 100000; kill -CONT $PPID; sleep 0.5"],
                                env={**os.environ, "INFPROF_RING_BYTES": "256k"}, stderr=subprocess.PIPE, text=True)
    _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, said
    run = run_dir.run()
    numbers = numbered(run)
    assert 1000 < len(numbers) < 100000 and numbers == list(range(len(numbers)))
    reasons = [row for row in ring_sources(run) if row["table_name"] == "spans"]
    assert f"{100000 - len(numbers)} spans, attributes, marks and rows were dropped" in reasons[-1]["reason"], reasons
    assert "INFPROF_RING_BYTES" in reasons[-1]["fix"]
    # The newest value of the counter is there, though its change was overwritten or not.
    assert max(row["value"] for row in run.table("counters") if row["name"] == "marks") == 100000


def test_hostile_files_are_left_alone(record, program, rings):
    (rings / "1-1-1.ring").write_bytes(b"infpring" + b"\xff" * 9000)
    (rings / "2-1-1.ring").symlink_to("/etc/passwd")
    os.mkfifo(rings / "3-1-1.ring")
    (rings / "4-1-1.ring").mkdir()
    (rings / "no ring").write_text("mine")
    done = record("-t", 100, command=[program, "spans", 2])
    assert done.returncode == 0, done.stderr
    assert tags(done.run) == ["begin", "end"]
    assert len(list(rings.iterdir())) == 5


def query(infprof, pid, sql, **arguments):
    return subprocess.run([infprof, "query", "--pid", str(pid), "-f", "json", sql], capture_output=True, text=True, timeout=60,
                          **arguments)


def test_query_asks_a_running_program(infprof, started, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    os.utime(tmp_path, (0, 0))
    process = started("wait", 7)
    done = query(infprof, process.pid, "SELECT tag, pName, pId, thread FROM marks")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"tag": "ready", "pName": "ring_program", "pId": process.pid, "thread": None}]
    done = query(infprof, process.pid, "SELECT name, status, duration_ns, attributes FROM spans")
    [span] = json.loads(done.stdout)
    assert (span["name"], span["status"], span["duration_ns"]) == ("waiting", "open", None)
    assert span["attributes"] in ({"number": 7}, '{"number":7}')
    # Asked again it says the same: nothing was taken.
    ask(process)
    done = query(infprof, process.pid, "SELECT tag FROM marks ORDER BY t_ns")
    assert [row["tag"] for row in json.loads(done.stdout)] == ["ready", "asked"]
    # The directory that it needed was here, and is gone.
    assert tmp_path.stat().st_mtime > 0 and not list(tmp_path.glob("infprof-query-*"))


@pytest.mark.parametrize("table", ["cpu", "processes", "timeseries"])
def test_query_says_where_other_tables_are(infprof, started, table):
    process = started("wait")
    done = query(infprof, process.pid, f"SELECT * FROM {table}")
    assert done.returncode == 1
    assert f"for table {table} use `infprof record --pid {process.pid}`" in done.stderr


def test_query_says_why_a_process_has_nothing(infprof, started, tmp_path):
    with subprocess.Popen(["sleep", "60"], env={"PATH": os.environ["PATH"]}) as silent:
        done = query(infprof, silent.pid, "SELECT 1")
        assert done.returncode == 1
        assert f"process {silent.pid} does not record: start it with INFPROF_RING=1" in done.stderr
        silent.kill()
    done = query(infprof, silent.pid, "SELECT 1")
    assert (done.returncode, done.stderr) == (1, f"infprof: there is no process {silent.pid}\n")
    (tmp_path / "open").mkdir(mode=0o755)
    process = started("wait", env={**os.environ, "INFPROF_RING": str(tmp_path / "open")})
    done = query(infprof, process.pid, "SELECT 1")
    assert done.returncode == 1 and "it must be a directory of its user with mode 0700" in done.stderr
    process = started("wait")
    assert query(infprof, process.pid, "SELECT * FROM nowhere").returncode == 1
    for words in (["--pid", "x"], ["--pid", "0"], ["--pid", str(process.pid), "-r", "x"]):
        done = subprocess.run([infprof, "query", *words, "SELECT 1"], capture_output=True, text=True)
        assert done.returncode == 2 and "--pid" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_users_program_is_refused(infprof, started, tmp_path):
    process = started("wait")
    done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", infprof, "query", "--pid", str(process.pid), "SELECT 1"],
                          capture_output=True, text=True)
    if "setpriv" in done.stderr or "ermission" in done.stderr:
        pytest.skip(f"no other user here: {done.stderr.strip()}")
    assert done.returncode == 1
    assert f"process {process.pid} belongs to uid 0, and infprof runs as uid 65534" in done.stderr


def test_live_a_process_in_another_pid_namespace_is_found(record, program):
    done = record("-t", 100, command=[*unshare("--pid", "--fork", "--mount-proc"), program, "spans", 300])
    assert done.returncode == 0, done.stderr
    assert tags(done.run) == ["begin", "end"]
    whole = by_name(done.run.table("spans"))["whole"]
    row = process_of(done.run, whole)
    assert row["pName"] == "ring_program" and row["pId"] > 1  # as we see it; there it is 1 or 2


def test_live_a_process_in_a_root_of_its_own_is_found(infprof, run_dir, program, tmp_path, started):
    """As in a container: its /dev/shm is another one, which we reach through /proc/PID/root alone."""
    words = unshare()
    script = (f"mount -t tmpfs none /dev/shm && mkdir -m 700 /dev/shm/infprof-{os.geteuid()} && "
              f"exec env INFPROF_RING=1 {program} wait")
    process = subprocess.Popen([*words, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        done = query(infprof, process.pid, "SELECT tag FROM marks")
        assert json.loads(done.stdout) == [{"tag": "ready"}], done.stderr
        recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish", "--pid",
                                     str(process.pid)], stderr=subprocess.DEVNULL)
        wait_for(lambda: run_dir.exists() and list(run_dir.glob("*.infprof")) and tags(run_dir.run()), "the first mark", 20)
        ask(process)
        process.communicate(timeout=20)
        recorder.wait(timeout=60)
        assert tags(run_dir.run()) == ["ready", "asked", "over"]
    finally:
        process.kill()
        process.wait()


@pytest.mark.serial  # recordings of the machine by other tests take files of the default directory, too
def test_the_machines_recording_has_whatever_records(infprof, run_dir, program, monkeypatch):
    monkeypatch.setenv("INFPROF_RING", "1")
    recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish"], stderr=subprocess.DEVNULL)
    process = None

    def mine():
        run = run_dir.run()
        named = {row["id"] for row in run.table("process") if row["pId"] == process.pid}
        return [row["tag"] for row in run.table("marks") if row["process"] in named]

    try:
        wait_for(lambda: list(run_dir.glob("*.infprof/columns/*.arrows")), "a row")
        process = subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        [file] = pathlib.Path(f"/dev/shm/infprof-{os.geteuid()}").glob(f"{process.pid}-*.ring")
        wait_for(lambda: struct.pack("<Q", recorder.pid) in file.read_bytes()[:4096], "its reader", 20)
        process.communicate(timeout=20)
        recorder.send_signal(signal.SIGINT)
        recorder.wait(timeout=60)
        assert recorder.returncode == 0 and mine() == ["ready", "over"]
    finally:  # one that is left would take the files of all that come after it
        recorder.kill()
        recorder.wait()
        if process:
            process.kill()
            process.wait()


@pytest.mark.serial  # recordings of the machine by other tests take files of the default directory, too
def test_files_of_the_dead_are_removed_by_the_next_recording(infprof, run_dir, program, monkeypatch):
    """In the default directory, and only when they are some seconds old: their recorder may be about to open them."""
    monkeypatch.setenv("INFPROF_RING", "1")
    directory = pathlib.Path(f"/dev/shm/infprof-{os.geteuid()}")
    processes = [subprocess.Popen([program, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    dead, living = processes
    [old] = directory.glob(f"{dead.pid}-*.ring")
    [alive] = directory.glob(f"{living.pid}-*.ring")
    dead.kill()
    dead.wait()
    start_ticks = old.name.split("-")[1]
    aged = directory / f"{dead.pid}-{start_ticks}-1.ring"  # as if it had been made when the machine started
    old.rename(aged)
    subprocess.run([infprof, "record", "-o", str(run_dir), "--no-finish", "--", "true"], check=True, stderr=subprocess.DEVNULL)
    assert not aged.exists() and alive.exists()
    living.communicate(timeout=20)
    assert not alive.exists()
