"""Reports of runs that are not as usual: attached, without a tree, of one sample, killed, of a binary without DuckDB."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from program import cpu_seconds
from waiting import wait_for, wait_for_rows

BUSY = "import time\nend = time.process_time() + 30\nprint('up', flush=True)\nwhile time.process_time() < end: sum(range(1000))"


def report(infprof, output, *words, **arguments):
    done = subprocess.run([infprof, "report", "--full", "-r", str(output), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, **arguments)
    assert done.returncode == 0, done.stderr
    for word in ("nan", "inf"):  # no figure is better than a figure that is none
        assert not re.search(rf"\b{word}\b", done.stdout), done.stdout
    return done.stdout


def as_json(infprof, output, *words, **arguments):
    return json.loads(report(infprof, output, "--json", *words, **arguments))


def plain(text):
    return re.sub(r"\s+", " ", text)


@pytest.fixture
def busy():
    """A process that computes and has used CPU time before anybody looks."""
    with subprocess.Popen(["python3", "-S", "-c", BUSY], stdout=subprocess.PIPE) as process:
        wait_for(lambda: cpu_seconds(process) > 0.3, "its work")
        yield process
        process.kill()


@pytest.mark.san
def test_attached(infprof, record, run_dir, busy):
    """What it had used before is not included: /proc knows how much that was at the start and at the end."""
    before = cpu_seconds(busy)
    done = record("-t", "50", "--pid", busy.pid, "--duration", "1s")
    after = cpu_seconds(busy)
    assert done.returncode == 0, done.stderr
    found = as_json(infprof, run_dir)
    assert found["mode"] == "pid" and found["exit_code"] is None and not found["cut_short"]
    assert 0 < found["tree_cpu_s"] <= after - before
    assert found["tree_cpu_s"] <= found["wall_s"] * 1.05
    # The increase of its own rows: nothing is added to it.
    rows = run_dir.run().table("tree")
    assert found["tree_cpu_s"] == pytest.approx((rows[-1]["tree_cpu_ns"] - rows[0]["tree_cpu_ns"]) / 1e9, rel=1e-9)
    text = plain(report(infprof, run_dir))
    assert "python3 -S -c" in text.split("machine")[0] and "excludes CPU time from before infprof attached" in text


def test_the_machine(infprof, run_dir):
    """Without processes the CPU time is that of the cores."""
    assert subprocess.run([infprof, "record", "-o", str(run_dir), "-t", "100", "--duration", "0.7s"], stderr=subprocess.PIPE).returncode == 0
    found = as_json(infprof, run_dir)
    assert found["mode"] == "host" and found["tree_cpu_s"] is None
    rows = run_dir.run().table("cpu")
    seconds = (rows[-1]["vCpuTimeUserMode"] - rows[0]["vCpuTimeUserMode"]) / 100
    text = report(infprof, run_dir)
    shown = re.search(r"CPU of the machine\n  user +([\d.]+) (m?)s: ([\d.]+) cores", text)
    assert float(shown[1]) / (1000 if shown[2] else 1) == pytest.approx(seconds, rel=0.02, abs=0.0006)
    assert float(shown[3]) == pytest.approx(seconds * 1e9 / (rows[-1]["t_ns"] - rows[0]["t_ns"]), abs=0.006)
    assert "tree:" not in text and "processes: in RAM" not in text and "machine: used" in text


def test_all_processes(infprof, run_dir):
    assert subprocess.run([infprof, "record", "-o", str(run_dir), "-p", "--duration", "2.2s"], stderr=subprocess.PIPE).returncode == 0
    text = report(infprof, run_dir)
    assert "CPU of all processes" in text and "processes: in RAM (RSS)" in text and "tree:" not in text
    assert as_json(infprof, run_dir)["tree_cpu_s"] >= 0


def test_between_two_samples(infprof, record, run_dir):
    """The command came and went: rates are null, what is known of it is its CPU time."""
    assert record("-t", "60000", command=["python3", "-S", "-c", "sum(range(10**7))"]).returncode == 0
    found = as_json(infprof, run_dir)
    assert found["tree_cpu_s"] > 0.02
    assert found["metrics"]["vCpuTime"]["n"] <= 1 and found["metrics"]["vMemoryFree"]["n"] in (1, 2)
    if found["metrics"]["vCpuTime"]["n"] == 0:
        assert found["metrics"]["vCpuTime"]["mean"] is None and found["metrics"]["vCpuTime"]["total"] is None
    text = plain(report(infprof, run_dir))
    assert "ran for less than one interval" in text and "Use a smaller -t" in text
    assert "cpu" in report(infprof, run_dir, "--all")


@pytest.mark.san
def test_not_seen(infprof, record, run_dir):
    """What no sample saw is not 0."""
    assert record("-t", "1000", command=["true"]).returncode == 0
    text = report(infprof, run_dir)
    assert re.search(r"tree: in RAM \(RSS\) +not seen +(not seen|[0-9.]+ MiB)", text) and re.search(r"threads +not seen", text)
    assert re.search(r"tree: address space \(VMS\) +not seen +not seen", text)
    assert re.search(r"tree: by calls, caches too +[0-9.]+ KiB +0 B", text)  # of its end: this 0 is one
    assert "ran for less than one interval" in plain(text)
    found = as_json(infprof, run_dir)
    assert found["metrics"]["tree_rss_bytes"]["max"] is None and found["metrics"]["tree_threads"]["n"] == 0
    assert [process["name"] for process in found["processes"]] == ["true"] and found["broken"] == []


@pytest.mark.san
def test_processes(infprof, record, run_dir):
    """A shell, a child that computes and one that holds memory: each with its own figures."""
    program = ("python3 -S -c 'import time\nwhile time.process_time() < 0.8: pass' --token=hunter2 &"
               "python3 -S -c 'import time; b = bytearray(90 << 20); time.sleep(1)' & wait")
    assert record("-t", "50", command=["sh", "-c", program]).returncode == 0
    found = as_json(infprof, run_dir)
    busy, *others = found["processes"]
    assert busy["name"] == "python3" and "process_time" in busy["command"] and "hunter2" not in busy["command"]
    assert 0.75 <= busy["cpu_s"] <= 1.2  # cpu: the target's, by its own clock
    assert busy["cpu_share_percent"] == pytest.approx(100 * busy["cpu_s"] / found["tree_cpu_s"], rel=1e-9)
    assert found["statistics"]["process_cpu_share"] == "of tree_cpu_s"
    big = max(found["processes"], key=lambda process: process["rss_peak_bytes"] or 0)
    assert "bytearray" in big["command"] and 90 << 20 <= big["rss_peak_bytes"] <= 200 << 20
    assert found["from"] <= busy["first_seen"] <= busy["last_seen"] <= found["to"] + 1
    assert sum(process["cpu_s"] for process in found["processes"]) <= found["tree_cpu_s"] * 1.05 + 0.03
    text = report(infprof, run_dir)
    line = next(line for line in text.splitlines() if line.startswith(f"  {busy['pid']:7} "))
    assert "python3 -S -c 'import" in line and len(line) <= 80 and "..." in line
    # A part of the run: what was used before is not included. On a busy machine either may be the last to end.
    last = max((busy, big), key=lambda process: process["last_seen"])
    later = {process["pid"]: process for process in as_json(infprof, run_dir, "--from", "-300ms")["processes"]}
    assert later[last["pid"]]["cpu_s"] < last["cpu_s"]


def flip(path):
    """The beginning of what describes a Parquet file: its columns and where they are."""
    content = bytearray(path.read_bytes())
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[start:start + 64] = bytes(byte ^ 0x55 for byte in content[start:start + 64])
    path.write_bytes(content)


@pytest.mark.san
@pytest.mark.parametrize("table", ["mem", "processes", "process", "clock", "host"])
def test_a_broken_table(infprof, record, run_dir, table):
    """One that cannot be read is named, with the reason; the others are reported all the same."""
    assert record("-t", "50", command=["sleep", "0.5"]).returncode == 0
    whole = as_json(infprof, run_dir)
    for path in pathlib.Path(run_dir.run().path).glob(f"{table}/*"):
        flip(path)
    found = as_json(infprof, run_dir)
    assert [broken["table"] for broken in found["broken"]] == [table] and found["broken"][0]["reason"]
    assert ("vMemoryFree" in found["metrics"]) == (table != "mem")
    assert bool(found["processes"]) == (table not in ("process", "processes"))
    assert found["metrics"]["tree_rss_bytes"] == whole["metrics"]["tree_rss_bytes"]
    assert found["wall_s"] == whole["wall_s"] and abs(found["from"] - whole["from"]) <= 1
    assert f"Table {table} cannot be read and is missing here: " in plain(report(infprof, run_dir))
    done = subprocess.run([infprof, "report", "-r", str(run_dir), "--csv"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and done.stderr.startswith(f"infprof: report: table {table} cannot be read")


def test_nothing_can_be_read(infprof, record, run_dir):
    assert record("-t", "50", command=["sleep", "0.3"]).returncode == 0
    for path in pathlib.Path(run_dir.run().path).glob("*/*"):
        if path.parent.name != "columns":
            path.write_bytes(b"no such thing")
    done = subprocess.run([infprof, "report", "--full", "-r", str(run_dir)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and not done.stdout and "nor any other" in done.stderr


@pytest.mark.san
def test_killed_and_recovered(infprof, run_dir):
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "50", "--", "sleep", "30"], stderr=subprocess.DEVNULL)
    wait_for_rows(infprof, run_dir, 5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = as_json(infprof, run_dir)
    assert killed["state"] == "interrupted" and killed["cut_short"] and killed["metrics"]["vMemoryFree"]["n"] >= 1
    assert "infprof recover" in plain(report(infprof, run_dir))
    assert subprocess.run([infprof, "recover", str(run_dir)], stdout=subprocess.DEVNULL, timeout=60).returncode == 0
    recovered = as_json(infprof, run_dir)
    assert recovered.pop("state") == "finished" and killed.pop("state")
    assert recovered == killed
    assert "then the recording was interrupted; what followed is not known" in plain(report(infprof, run_dir))


def test_a_live_run_is_not_cut_short(infprof, run_dir):
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "50", "--", "sleep", "30"], stderr=subprocess.DEVNULL)
    try:
        wait_for_rows(infprof, run_dir, 5)
        found = as_json(infprof, run_dir)
        assert found["state"] == "recording" and not found["cut_short"]
        assert "still recording" in report(infprof, run_dir)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
    assert not as_json(infprof, run_dir)["cut_short"]


def test_without_duckdb(infprof, run_dir, tmp_path):
    """A copy of the binary with nothing beside it: the tables stay Arrow, and the report of the same rows is the same."""
    alone = tmp_path / "alone" / "infprof"
    alone.parent.mkdir()
    shutil.copy(infprof, alone)
    without = {**os.environ, "INFPROF_LIBDUCKDB": "/nonexistent"}
    done = subprocess.run([alone, "record", "-o", run_dir, "-t", "50", "--", "sleep", "0.5"], env=without, stderr=subprocess.PIPE, text=True,
                          timeout=60)
    assert done.returncode == 0 and "DuckDB" in done.stderr
    run = run_dir.run()
    assert {path.suffix for path in pathlib.Path(run.path).glob("*/*")} == {".arrows"}
    found = as_json(alone, run_dir, env=without)
    assert found["state"] == "finished" and found["exit_code"] == 0 and found["metrics"]["vMemoryFree"]["n"] >= 8
    assert found == as_json(infprof, run_dir)
    assert "Cost of infprof itself" in report(alone, run_dir, env=without)


def test_parquet_without_duckdb(infprof, record, run_dir, tmp_path):
    """Says what is missing, in one line."""
    assert record("-t", "100", command=["sleep", "0.3"]).returncode == 0
    if not any(run_dir.run().path.glob("*/*.parquet")):
        pytest.skip("this machine has no DuckDB")
    done = subprocess.run([infprof, "report", "--full", "-r", run_dir], env={**os.environ, "INFPROF_LIBDUCKDB": "/nonexistent"}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "DuckDB" in done.stderr and len(done.stderr.splitlines()) == 1


def test_what_is_listed(infprof, record, run_dir):
    """By default the tree's metrics and what is asked first of a machine; --all lists as many as --json holds."""
    assert record("-t", "50", command=["python3", "-S", "-c", "import time\nfor i in range(8): b = bytearray(i << 20); sum(range(10**6)); time.sleep(0.05)"]).returncode == 0
    metrics = as_json(infprof, run_dir)["metrics"]

    def listed(*words):
        section = re.split(r"\n(?=Metrics )", report(infprof, run_dir, *words))[1].split("\n\n")[0]
        names, prefix = set(), ""
        for line in section.splitlines():
            if group := re.match(r" \w+(?:: (\w+)\.\.\.)?$", line):
                prefix = group[1] or ""
            elif name := re.match(r" [ ~](\w+)( |$)", line):
                names.add(prefix + name[1])
        return names & set(metrics), section

    few, section = listed()
    # What never changed is left out as well: at least these did.
    assert {"tree_rss_bytes", "tree_cpu_ns"} <= few and few & {"vMemoryFree", "vMemoryUsed", "vCpuTimeUserMode", "vCpuTimeKernelMode"}
    assert not few & {"vInterrupts", "vSoftInterrupts", "vNumaHit", "vMemoryPageTables", "vDiskFlushes"}
    assert len([name for name in few if re.match("v(?!Pressure)", name)]) <= 16 and not any("Avg" in name for name in few - {"vLoadAvg"})
    left_out = int(re.search(r"(\d+) more were left out", section)[1])
    assert left_out == len(metrics) - len(few)
    everything, section = listed("--all")
    assert everything == set(metrics) and "left out" not in section


def test_first_metrics_are_there(infprof):
    """Names that the report knows are names of this build."""
    source = (pathlib.Path(__file__).resolve().parents[2] / "src" / "view" / "report" / "metrics.c").read_text()
    names = re.findall(r'"(v[A-Z]\w+)"', source)
    known = {row["name"] for row in json.loads(subprocess.run([infprof, "metrics", "--json"], stdout=subprocess.PIPE, check=True).stdout)}
    assert len(names) >= 16 and set(names) <= known
