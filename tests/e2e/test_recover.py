"""What a killed recorder leaves is readable at once, and `recover` makes a finished run of it; `finish` may be repeated."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pyarrow.parquet
import pytest

from namespaces import unshare
from program import run
from waiting import wait_for, wait_for_rows

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts in a namespace of its own")


def count(infprof, output, table):
    done = run([infprof, "query", "-r", output, "-f", "csv", f"SELECT count(*) FROM {table}"])
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[1])


def start(infprof, output, *options):
    return subprocess.Popen([infprof, "record", "-o", str(output), "-t", "50", "--no-snapshots", *options, "--duration", "60s"],
                            stderr=subprocess.PIPE)


@pytest.fixture
def killed(infprof, run_dir):
    """A run whose recorder was killed. A reader made it write out what it held, so that there is something to recover."""
    process = start(infprof, run_dir, "-f", "csv")
    wait_for_rows(infprof, run_dir, 20)
    process.kill()
    process.wait()
    return run_dir


@pytest.mark.san
def test_killed_run(infprof, killed):
    before = count(infprof, killed, "cpu")
    assert before >= 20
    refused = run([infprof, "symbolize", "-r", killed])
    assert refused.returncode == 1
    advice = re.search("`infprof (recover .*)`", refused.stderr).group(1)
    done = run([infprof, *advice.split()])
    assert done.returncode == 0, done.stderr
    uuid = killed.run().uuid
    # Segments that only lack their end mark are whole.
    assert re.match(uuid + r": the recording was interrupted; (\d+) of \1 segments hold whole rows, (?!0 bytes)", done.stdout), done.stdout
    assert f"{uuid}.csv" in done.stdout
    assert count(infprof, killed, "cpu") == before
    assert not list(killed.rglob("*.arrows")) and not list(killed.rglob("*.part"))
    info = killed.run().info
    assert info["finished"] is True and int(info["ended_unix_ns"]) > int(info["started_unix_ns"])
    lines = (killed / f"{uuid}.csv").read_text().splitlines()
    assert len(lines) - 1 == count(infprof, killed, "ticks")
    again = run([infprof, "recover", killed])
    assert (again.returncode, again.stdout) == (0, f"nothing to recover in {killed}\n")
    assert run([infprof, "report", "-r", killed]).returncode == 0


def test_finish_of_a_killed_run(infprof, killed):
    before = count(infprof, killed, "cpu")
    done = run([infprof, "finish", "-r", killed])
    assert done.returncode == 0 and "was interrupted" in done.stderr
    assert killed.run().info["finished"] is True and count(infprof, killed, "cpu") == before


def test_several_at_once(infprof, killed):
    """Each says what it did: none counts segments that another one has mended."""
    made = [subprocess.Popen([infprof, "recover", killed], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = [process.communicate(timeout=120)[0] for process in made]
    assert [process.returncode for process in made] == [0] * 4
    assert len([line for line in said if "was interrupted" in line]) == 1, said
    assert " 0 of 0 " not in "".join(said)
    assert killed.run().info["finished"] is True


def test_torn_and_empty_segments(infprof, killed):
    """A power cut: the last message of a segment is half there, another segment is empty, a third is noise."""
    path = killed.run().path
    rows = count(infprof, killed, "cpu")
    segment = path / "cpu" / "000001.arrows"
    os.truncate(segment, segment.stat().st_size - 7)
    os.truncate(path / "net" / "000001.arrows", 0)
    (path / "mem" / "000001.arrows").write_bytes(os.urandom(5000))
    (path / "disk" / "000001.parquet.part").write_bytes(b"half")
    done = run([infprof, "recover", killed])
    assert done.returncode == 0, done.stderr
    assert re.search(r"[0-9]+ segments hold whole rows, [1-9][0-9,]* bytes of torn batches are cut off, 1 had no row, 1 cannot be read and are set aside",
                     done.stdout), done.stdout
    assert 0 < count(infprof, killed, "cpu") < rows
    assert count(infprof, killed, "net") == 0 and count(infprof, killed, "disk") >= 20
    assert not list(killed.rglob("*.part"))
    assert pyarrow.parquet.read_table(path / "cpu" / "000001.parquet").num_rows == count(infprof, killed, "cpu")


def test_nothing_is_called_whole_that_is_not(infprof, killed):
    """All of it lost: noise and empty files."""
    segments = sorted(killed.rglob("*.arrows"))
    for n, path in enumerate(segments):
        path.write_bytes(b"" if n % 2 else b"noise " * 100)
    done = run([infprof, "recover", "-r", killed])
    assert done.returncode == 0, done.stderr
    assert f"; 0 of {len(segments)} segments hold whole rows, {len(segments) // 2} had no row, {(len(segments) + 1) // 2} cannot" in done.stdout
    assert ", 0 samples in " in done.stdout
    assert len(list(killed.rglob("*.broken"))) == (len(segments) + 1) // 2


def test_lost_run_json(infprof, killed):
    path = killed.run().path
    (path / "run.json").write_text('{"uuid": "trunc')
    done = run([infprof, "recover", killed])
    assert done.returncode == 0, done.stderr
    assert "run.json" in done.stderr
    assert json.loads((path / "run.json").read_text())["finished"] is True
    assert count(infprof, killed, "cpu") >= 20
    assert len(list(killed.glob("*.parquet"))) == 1


def test_live_runs_are_left_alone(infprof, run_dir):
    dead, live = start(infprof, run_dir), None
    try:
        wait_for_rows(infprof, run_dir, 5)
        dead.kill()
        dead.wait()
        live = start(infprof, run_dir)
        wait_for(lambda: len(list(run_dir.glob("*.infprof/run.json"))) == 2, "the second run")
        done = run([infprof, "recover", run_dir])
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("the recording was interrupted") == 1
        assert f"still being recorded by process {live.pid}" in done.stderr
        assert live.poll() is None
        assert len(list(run_dir.glob("*.parquet"))) == 1
    finally:
        for process in filter(None, (dead, live)):
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)
    assert len(list(run_dir.glob("*.parquet"))) == 2


def test_one_of_many(infprof, killed):
    other = start(infprof, killed)
    wait_for(lambda: len(list(killed.glob("*.infprof/run.json"))) == 2, "the second run")
    wait_for_rows(infprof, killed, 5)
    other.kill()
    other.wait()
    first, second = sorted(path.name[:36] for path in killed.glob("*.infprof"))
    assert run([infprof, "recover", second], cwd=killed).returncode == 1  # it is sought in ./profiler-output
    done = run([infprof, "recover", killed / f"{second}.infprof"])
    assert done.returncode == 0 and done.stdout.startswith(second), done.stderr
    assert json.loads((killed / f"{first}.infprof" / "run.json").read_text())["finished"] is False
    shutil.move(killed, killed.parent / "profiler-output")
    done = run([infprof, "recover", first[:-2]], cwd=killed.parent)
    assert done.returncode == 0 and done.stdout.startswith(first), done.stderr


@pytest.mark.parametrize("words, code, text", [(["/nowhere"], 1, "/nowhere"), (["a", "b"], 2, "one directory"), ([], 1, "profiler-output")])
def test_nothing_there(infprof, tmp_path, words, code, text):
    done = run([infprof, "recover", *words], cwd=tmp_path)
    assert done.returncode == code and text in done.stderr, done.stderr


@pytest.mark.san
def test_finish_again(infprof, run_dir):
    """Killed anywhere in finish: both files of a segment, or a left-over .part; doing it again changes nothing that is right."""
    assert run([infprof, "record", "-o", run_dir, "-t", "50", "--no-snapshots", "--no-finish", "--", "sleep", "0.5"]).returncode == 0
    keep = run_dir.parent / "raw"
    shutil.copytree(run_dir, keep)
    assert run([infprof, "finish", "-r", run_dir]).returncode == 0
    path = run_dir.run().path
    series = next(run_dir.glob("*.parquet")).read_bytes()
    rows = count(infprof, run_dir, "cpu")
    shutil.copy(keep / path.name / "cpu" / "000001.arrows", path / "cpu" / "000001.arrows")
    assert count(infprof, run_dir, "cpu") == rows  # Parquet wins
    assert run([infprof, "finish", "-r", run_dir]).returncode == 0
    assert not list(run_dir.rglob("*.arrows"))
    assert count(infprof, run_dir, "cpu") == rows
    assert next(run_dir.glob("*.parquet")).read_bytes() == series


def test_two_at_once(infprof, run_dir):
    assert run([infprof, "record", "-o", run_dir, "-t", "50", "--no-snapshots", "--no-finish", "--", "sleep", "0.5"]).returncode == 0
    both = [subprocess.Popen([infprof, "finish", "-r", str(run_dir)], stderr=subprocess.PIPE) for _ in range(3)]
    for process in both:
        assert process.wait(timeout=60) == 0, process.stderr.read()
    assert not list(run_dir.rglob("*.arrows")) and not list(run_dir.rglob("*.part"))
    assert count(infprof, run_dir, "cpu") >= 8


def test_recovered_by_many_at_once(infprof, killed):
    """One mends while another finishes: it must not take away what that one writes."""
    for wait in (0, 0.02, 0.04, 0.06):
        copy = killed.parent / f"copy{wait}"
        shutil.copytree(killed, copy)
        many = []
        for _ in range(4):
            many.append(subprocess.Popen([infprof, "recover", str(copy)], stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            time.sleep(wait)  # sleep: started at different moments
        for process in many:
            _, words = process.communicate(timeout=60)
            assert process.returncode == 0, words
        assert json.loads(next(copy.glob("*.infprof/run.json")).read_text())["finished"]
        assert not list(copy.rglob("*.arrows")) and not list(copy.rglob("*.part"))


def test_killed_in_finish(infprof, run_dir):
    """At random moments: every row is there afterwards, once."""
    assert run([infprof, "record", "-o", run_dir, "-t", "20", "--no-snapshots", "--no-finish", "-p", "--", "sleep", "1"]).returncode == 0
    names = ("cpu", "processes", "columns")
    rows = [count(infprof, run_dir, name) for name in names]
    for wait in (0.02, 0.06, 0.1, 0.15, 0.2):
        process = subprocess.Popen([infprof, "finish", "-r", str(run_dir)])
        time.sleep(wait)  # sleep: killed at different moments
        process.kill()
        process.wait()
        assert [count(infprof, run_dir, name) for name in names] == rows
    assert run([infprof, "finish", "-r", run_dir]).returncode == 0
    assert [count(infprof, run_dir, name) for name in names] == rows
    assert not list(run_dir.rglob("*.arrows"))


@needs_root
def test_live_full_disk_in_finish(infprof, run_dir, tmp_path):
    """Nothing is lost, the sentence says what to do, and doing it again with room finishes the run."""
    assert run([infprof, "record", "-o", run_dir, "-t", "20", "--no-snapshots", "--no-finish", "-p", "--", "sleep", "1.5"]).returncode == 0
    rows = count(infprof, run_dir, "processes")
    small = tmp_path / "small"
    small.mkdir()
    kib = sum(path.stat().st_size for path in run_dir.rglob("*") if path.is_file()) // 1024
    done = run([*unshare(), "sh", "-ec", f"""
        mount -t tmpfs -o size={2 * kib + 400}k tmpfs {small}
        cp -r {run_dir} {small}/out
        head -c {4 * kib + 800}k /dev/zero > {small}/filler 2>/dev/null || true
        set +e
        {infprof} finish -r {small}/out; echo "first=$?"
        {infprof} query -r {small}/out -f csv 'SELECT count(*) FROM processes' | tail -1
        find {small}/out -name '*.part' | wc -l
        rm {small}/filler
        {infprof} finish -r {small}/out; echo "second=$?"
        {infprof} query -r {small}/out -f csv 'SELECT count(*) FROM processes' | tail -1
        find {small}/out -name '*.arrows' | wc -l
    """])
    assert done.stdout.split() == ["first=1", str(rows), "0", "second=0", str(rows), "0"], done.stdout + done.stderr
    assert "no space left on the disk" in done.stderr.lower() and "infprof finish -r" in done.stderr, done.stderr


def test_damage_costs_what_it_hits(infprof, killed):
    """Noise in a batch in the middle, noise behind the last one, a cut: rows that are whole are given, and one sentence says what is not."""
    path = killed.run().path
    rows = {name: count(infprof, killed, name) for name in ("cpu", "mem", "disk")}
    cpu = path / "cpu" / "000001.arrows"
    bytes_of = bytearray(cpu.read_bytes())
    bytes_of[len(bytes_of) - 200:len(bytes_of) - 100] = b"x" * 100  # in the last body
    cpu.write_bytes(bytes_of)
    with open(path / "mem" / "000001.arrows", "ab") as segment:
        segment.write(b"noise " * 20)
    disk = path / "disk" / "000001.arrows"
    os.truncate(disk, disk.stat().st_size - 9)
    done = run([infprof, "query", "-r", killed, "-f", "csv", "SELECT (SELECT count(*) FROM cpu), (SELECT count(*) FROM mem), (SELECT count(*) FROM disk)"])
    assert done.returncode == 0, done.stderr
    left = [int(word) for word in done.stdout.splitlines()[1].split(",")]
    assert left[0] < rows["cpu"] and left[1] == rows["mem"] and left[2] < rows["disk"], (left, rows)
    said = done.stderr.splitlines()
    assert len(said) == 3, said
    assert any(re.search(r"[0-9]+ bytes of cpu/000001.arrows are damaged and skipped \(.*checksum is wrong\)", line) for line in said)
    assert any("120 bytes of mem/000001.arrows are damaged and skipped" in line for line in said)
    assert any(re.search("disk/000001.arrows ends in an incomplete batch: its [0-9]{1,3}(?:,[0-9]{3})* bytes are skipped", line) for line in said)
    notes = json.loads(run([infprof, "report", "-r", killed, "--json"]).stdout)["notes"]
    assert {line.removeprefix("infprof: ") for line in said} <= set(notes)
    mended = run([infprof, "recover", killed, "--json"])
    (one,) = json.loads(mended.stdout)["recovered"]
    assert mended.returncode == 0 and one["run"] == path.stem and one["segments"] > 3 and one["bytes_cut"] > 120 and one["samples"] > 0, one
    assert [count(infprof, killed, name) for name in rows] == left
