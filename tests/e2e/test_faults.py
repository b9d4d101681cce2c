"""What goes wrong outside: full and read-only disks, lost directories, few descriptors, kill -9, a stopped recorder, bad input."""
import json
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import time

import pytest

from namespaces import unshare
from program import query, run
from waiting import wait_for

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts in a namespace of its own, other user ids")


def in_namespace(script, **options):
    """Runs a shell script where mounts are its own."""
    return run([*unshare(), "sh", "-ec", script], **options)


@needs_root
def test_live_full_disk(infprof, tmp_path):
    """The disk fills while it records: a sentence, the child goes on, what was written stays readable."""
    done = in_namespace(f"""
        mount -t tmpfs -o size=2500k tmpfs {tmp_path}
        set +e
        {infprof} record -o {tmp_path}/out -t 10 --no-finish -- sh -c 'sleep 4; exit 7' 2> /tmp/err.$$
        echo "code=$?"
        {infprof} query -r {tmp_path}/out 'SELECT count(*) FROM cpu'
        {infprof} report -r {tmp_path}/out
        {infprof} recover {tmp_path}/out 2>&1 | tail -3
        {infprof} query -r {tmp_path}/out -o {tmp_path}/x.parquet 'SELECT random() FROM range(1000000)' 2>&1
        cat /tmp/err.$$; rm /tmp/err.$$
    """)
    assert "code=7" in done.stdout, done.stdout + done.stderr
    assert f"cannot write {tmp_path}/x.parquet: no space left on the disk" in done.stdout, done.stdout
    assert "No space left on device" in done.stdout
    assert "rows dropped before it was interrupted" in " ".join(done.stdout.split())
    assert str(tmp_path) in done.stdout
    count = int(done.stdout.split("code=7")[1].split()[1])
    assert count >= 20


def test_a_parquet_file_that_grows_too_large(infprof, tmp_path):
    """Any other reason names the user's file as well, not the one that DuckDB was given."""
    assert run([infprof, "record", "-o", tmp_path / "out", "--no-snapshots", "--", "sleep", "0.2"]).returncode == 0
    done = run(["bash", "-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "bash", infprof, "query", "-r", tmp_path / "out", "-o", tmp_path / "x.parquet",
                "SELECT random() FROM range(1000000)"])
    assert (done.returncode, done.stderr) == (1, f"infprof: cannot write {tmp_path}/x.parquet: File too large\n")
    assert not (tmp_path / "x.parquet").exists()


@needs_root
def test_live_full_disk_at_the_end(infprof, tmp_path):
    """Not even run.json finds room: finishing is not begun, what helps is said, and what was written can be read."""
    done = in_namespace(f"""
        mount -t tmpfs -o size=300k tmpfs {tmp_path}
        set +e
        '{infprof}' record -o {tmp_path} -t 10 -p -f csv -- sh -c 'sleep 3; exit 7' 2> /tmp/err.$$
        echo "code=$?"
        mount -o remount,size=20M {tmp_path}
        '{infprof}' recover {tmp_path}/*.infprof 2>&1
        echo "recovered=$?"
        '{infprof}' query -r {tmp_path} 'SELECT count(*) FROM columns'
        cat /tmp/err.$$; rm /tmp/err.$$
    """)
    assert "code=7" in done.stdout and "recovered=0" in done.stdout, done.stdout + done.stderr
    assert "still being recorded" not in done.stdout
    assert "`infprof finish " in done.stdout and "run.json" in done.stdout
    assert int(done.stdout.split("recovered=0")[1].split()[1]) > 100


@needs_root
def test_live_full_disk_for_a_while(infprof, tmp_path):
    """What could not be written meanwhile is told by the report."""
    done = in_namespace(f"""
        mount -t tmpfs -o size=4M tmpfs {tmp_path}
        '{infprof}' record -o {tmp_path} -t 20 --no-snapshots -- sh -c 'cat /dev/zero > {tmp_path}/fill 2> /dev/null; sleep 6; rm {tmp_path}/fill; sleep 0.5' 2> /dev/null
        '{infprof}' report --json -r {tmp_path}
        '{infprof}' report -r {tmp_path}
    """)
    report, text = done.stdout.split("\n}\n", 1)
    lost = json.loads(report + "}")["self"]["rows_lost"]
    text = " ".join(text.split())
    assert lost > 0 and f"{lost:,} rows dropped" in text and "could not be written" in text, text


def test_nobody_reads_what_it_says(infprof, tmp_path):
    """Standard error is a full pipe: the recording does not wait for its reader."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    try:
        while True:
            os.write(write_fd, b"x" * 4096)
    except BlockingIOError:
        pass
    os.set_blocking(write_fd, True)
    # The limit of the snapshots is said at once.
    process = subprocess.Popen([infprof, "record", "-o", str(tmp_path), "-t", "100", "--snapshot-limit", "1K", "--no-finish", "--",
                                "sh", "-c", "sleep 2; echo over"], stdout=subprocess.PIPE, stderr=write_fd, text=True)
    os.close(write_fd)
    assert select.select([process.stdout], [], [], 30)[0], "the command waits for a reader"
    assert process.stdout.readline() == "over\n"
    deadline = time.monotonic() + 30
    while not query_ticks(infprof, tmp_path, at_least=15) and time.monotonic() < deadline:
        time.sleep(0.2)  # sleep: between two looks
    assert query_ticks(infprof, tmp_path, at_least=15)
    # What comes at the end may wait.
    with open(read_fd, "rb") as file:
        assert b"recorded" in file.read()
    assert process.wait(timeout=60) == 0


def query_ticks(infprof, output, at_least):
    return query(infprof, output, "SELECT count(*) AS n FROM ticks")[0]["n"] >= at_least


@needs_root
def test_live_slow_disk(infprof, tmp_path):
    """Each fdatasync takes 3 s: no tick waits for it, and the end does not wait for that of each file."""
    if not shutil.which("strace"):
        pytest.skip("needs strace to slow a system call down")
    log = tmp_path / "strace"
    until = tmp_path / "ended"
    command = f"until grep -q 'fdatasync.*DELAYED' {log}; do sleep 0.5; done; sleep 3; date +%s >{until}"
    done = run(["strace", "-f", "-o", log, "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_exit=3000000", infprof,
                "record", "-o", tmp_path / "out", "-t", "50", "--no-finish", "--no-snapshots", "--", "sh", "-c", command], timeout=120)
    took = time.time() - int(until.read_text())
    if "PTRACE" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.strip()[:100]}")
    assert done.returncode == 0, done.stderr
    assert "the disk is slow" in done.stderr
    assert log.read_text().count("fdatasync(") >= 2
    assert took < 20
    row = query(infprof, tmp_path / "out", "SELECT max(self_rows_dropped) AS dropped, max(self_rows_lost) AS lost FROM self")[0]
    assert row == {"dropped": 0, "lost": 0}
    assert query(infprof, tmp_path / "out", "SELECT count(*) AS n FROM ticks")[0]["n"] >= 200


@needs_root
def test_live_read_only_output(infprof, tmp_path):
    marker = tmp_path / "ran"
    done = in_namespace(f"""
        mkdir {tmp_path}/ro; mount -t tmpfs tmpfs {tmp_path}/ro; mount -o remount,ro {tmp_path}/ro
        set +e
        {infprof} record -o {tmp_path}/ro/out -- touch {marker}
        echo "code=$?"
    """)
    assert "code=125" in done.stdout
    assert "Read-only file system" in done.stderr and f"{tmp_path}/ro/out" in done.stderr
    assert not marker.exists()


@needs_root
def test_output_of_another_user(infprof, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    for parent in [tmp_path, *tmp_path.parents][:3]:
        parent.chmod(0o755)
    done = run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", infprof, "record", "-o", closed / "out",
                "--", "true"])
    assert done.returncode == 125
    assert "Permission denied" in done.stderr and str(closed) in done.stderr


def test_output_is_a_file(infprof, tmp_path):
    (tmp_path / "file").write_text("x")
    done = run([infprof, "record", "-o", tmp_path / "file", "--", "true"])
    assert done.returncode == 125
    assert str(tmp_path / "file") in done.stderr


def test_output_directory_vanishes(infprof, tmp_path):
    process = subprocess.Popen([infprof, "record", "-o", str(tmp_path / "out"), "-t", "100", "--", "sh", "-c", "sleep 3; exit 3"],
                               stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list((tmp_path / "out").glob("*.infprof/columns/*")), "a row")
    shutil.rmtree(tmp_path / "out")
    stderr = process.communicate(timeout=60)[1]
    assert process.returncode == 3
    assert "infprof:" in stderr


@pytest.mark.san
def test_sixteen_descriptors(infprof, tmp_path):
    done = run(["sh", "-c", f"ulimit -n 16; exec '{infprof}' record -o '{tmp_path}' -t 100 -- sh -c 'ulimit -n; sleep 3; exit 5'"])
    assert done.returncode == 5, done.stderr
    assert done.stdout.strip() == "16"  # the child's limit is its own
    assert "lost" not in done.stderr and "no descriptor" not in done.stderr, done.stderr
    assert query(infprof, tmp_path, "SELECT count(*) AS n FROM cpu")[0]["n"] >= 20
    # Sources with threads and sockets of their own make room for them, and say what would let them in.
    left_out = query(infprof, tmp_path, "SELECT collector, fix FROM sources WHERE reason LIKE 'only 16 file descriptors%' ORDER BY 1")
    assert {"containers", "energy", "engine"} <= {row["collector"] for row in left_out}
    assert {row["fix"] for row in left_out} == {"ulimit -n 96"}


@pytest.mark.parametrize("verb", ["finish", "report", "query 'SHOW TABLES'", "export cpu"])
def test_too_few_descriptors_are_named(infprof, record, run_dir, verb):
    """No file is broken: the limit is named, by DuckDB's errors and by ours."""
    record("-t", "100", *(["--no-finish"] if verb == "finish" else []), command=["sleep", "0.2"])
    done = run(["sh", "-c", f"ulimit -n 8; exec '{infprof}' {verb} -r '{run_dir}'"])
    assert done.returncode == 1 and "Too many open files (`ulimit -n 1024` allows more)" in done.stderr, done.stderr
    assert "broken" not in done.stderr


@pytest.mark.san
def test_kill_9_at_random_moments(infprof, tmp_path):
    """Rows whose write returned are there, the target runs on, `recover` mends the run. 1,000 of these are in `make fuzz`."""
    rounds = int(os.environ.get("INFPROF_KILL_ROUNDS", "20"))
    chance = random.Random(os.environ.get("INFPROF_SEED", "7"))
    for number in range(rounds):
        output = tmp_path / str(number)
        process = subprocess.Popen([infprof, "record", "-o", str(output), "-t", "20", "--", "sh", "-c", "echo $$; exec sleep 20"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        child = int(process.stdout.readline())
        time.sleep(chance.uniform(0.0, 0.6))  # sleep: any moment will do
        process.kill()
        process.wait()
        assert pathlib.Path(f"/proc/{child}/stat").read_text().split(")")[1].split()[0] in "SR"
        os.kill(child, signal.SIGKILL)
        done = run([infprof, "recover", output])
        assert done.returncode == 0, done.stderr
        rows = query(infprof, output, "SELECT count(*) AS n, count(vCpuTime) AS v FROM cpu")[0]
        assert rows["n"] == rows["v"]
        shutil.rmtree(output)


def test_stopped_for_a_while(infprof, tmp_path):
    process = subprocess.Popen([infprof, "record", "-o", str(tmp_path), "-t", "100", "--duration", "5s"],
                               stderr=subprocess.DEVNULL)
    wait_for(lambda: [path for path in tmp_path.glob("*.json") if not path.name.startswith("static")], "a snapshot")
    process.send_signal(signal.SIGSTOP)
    time.sleep(2)  # sleep: the ticks of this time are missed
    process.send_signal(signal.SIGCONT)
    assert process.wait(timeout=60) == 0
    rows = query(infprof, tmp_path, "SELECT tick, missed, deadline_ns FROM ticks ORDER BY tick")
    assert rows[-1]["missed"] >= 15
    # The grid of deadlines is the old one: no drift.
    assert {(row["deadline_ns"] - rows[0]["deadline_ns"]) % 100_000_000 for row in rows} == {0}


@pytest.mark.parametrize("words, code, text", [
    (["record", "--no-such-flag"], 125, "--no-such-flag"),
    (["record", "-t"], 125, "-t"),
    (["record", "-t", "5", "--", "true"], 125, "10"),
    (["record", "-t", "abc", "--", "true"], 125, "abc"),
    (["record", "-f", "xls", "--", "true"], 125, "xls"),
    (["record", "--pid", "999999999"], 125, "999999999"),
    (["record", "--root", "/no/such/root"], 125, "/no/such/root"),
    (["record", "--", "/no/such/program"], 127, "/no/such/program"),
    (["record", "--", "no-such-program-at-all"], 127, "no-such-program-at-all"),
    (["record", "--", ""], 127, "is empty"),
    (["record", "--name", ""], 125, "--name"),
    (["record", "--", "/"], 126, "/"),
    (["record", "--", "/etc/passwd"], 126, "/etc/passwd"),
    (["frobnicate"], 2, "frobnicate"),
    (["report", "-r", "/no/such/run"], 1, "/no/such/run"),
    (["query", "SELECT 1", "-r", "/no/such/run"], 1, "/no/such/run"),
    (["query"], 2, "SQL"),
    (["export"], 1, "no run in ./profiler-output"),
    (["snapshot", "--root", "/etc/passwd"], 1, "/etc/passwd"),
    (["mark"], 2, "TAG"),
    (["mark", "x"], 1, "record"),
])
def test_bad_input(infprof, tmp_path, words, code, text):
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = run([infprof, *words], cwd=tmp_path, env=environment)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert text in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_sql_errors_are_duckdbs(infprof, tmp_path):
    assert run([infprof, "record", "-o", tmp_path, "-t", "100", "--", "sleep", "0.3"]).returncode == 0
    done = run([infprof, "query", "-r", tmp_path, "SELECT nothing FROM cpu"])
    assert done.returncode == 1
    assert "nothing" in done.stderr and "Binder Error" in done.stderr
    done = run([infprof, "query", "-r", tmp_path, "SELEKT 1"])
    assert done.returncode == 1 and "Parser Error" in done.stderr


def test_output_cannot_be_written(infprof, tmp_path):
    assert run([infprof, "record", "-o", tmp_path, "-t", "100", "--", "sleep", "0.3"]).returncode == 0
    for words in (["query", "SELECT * FROM cpu"], ["export", "cpu", "-f", "csv"], ["report"], ["report", "--json"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([infprof, *words, "-r", str(tmp_path)], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1, words
        assert "No space left on device" in done.stderr
