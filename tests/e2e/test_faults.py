"""What goes wrong outside: full and read-only disks, lost directories, few descriptors, kill -9, a stopped recorder, bad input."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from namespaces import unshare

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts in a namespace of its own, other user ids")


def run(words, **options):
    options.setdefault("timeout", 60)
    return subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def in_namespace(script, **options):
    """Runs a shell script where mounts are its own."""
    return run([*unshare(), "sh", "-ec", script], **options)


def query(infprof, output, sql):
    done = run([infprof, "query", "-r", output, "-f", "json", sql])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_root
def test_live_full_disk(infprof, tmp_path):
    """The disk fills while it records: a sentence, the child goes on, what was written stays readable."""
    done = in_namespace(f"""
        mount -t tmpfs -o size=1500k tmpfs {tmp_path}
        set +e
        {infprof} record -o {tmp_path}/out -t 10 --no-finish -- sh -c 'sleep 4; exit 7' 2> /tmp/err.$$
        echo "code=$?"
        {infprof} query -r {tmp_path}/out 'SELECT count(*) FROM cpu'
        {infprof} recover {tmp_path}/out 2>&1 | tail -3
        cat /tmp/err.$$; rm /tmp/err.$$
    """)
    assert "code=7" in done.stdout, done.stdout + done.stderr
    assert "No space left on device" in done.stdout
    assert str(tmp_path) in done.stdout
    count = int(done.stdout.split("code=7")[1].split()[1])
    assert count >= 20


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
    time.sleep(1)
    shutil.rmtree(tmp_path / "out")
    stderr = process.communicate(timeout=60)[1]
    assert process.returncode == 3
    assert "infprof:" in stderr


@pytest.mark.san
def test_sixteen_descriptors(infprof, tmp_path):
    done = run(["sh", "-c", f"ulimit -n 16; exec '{infprof}' record -o '{tmp_path}' -t 100 -- sh -c 'ulimit -n; sleep 1; exit 5'"])
    assert done.returncode == 5, done.stderr
    assert done.stdout.strip() == "16"  # the child's limit is its own
    assert query(infprof, tmp_path, "SELECT count(*) AS n FROM cpu")[0]["n"] >= 5


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
        time.sleep(chance.uniform(0.0, 0.6))
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
    time.sleep(1)
    process.send_signal(signal.SIGSTOP)
    time.sleep(2)
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
