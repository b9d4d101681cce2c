"""infprof report and doctor, through the real binary."""
import csv
import io
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import pytest

from waiting import wait_for_rows

FIXED_KEYS = {"run", "wall_s", "tree_cpu_s", "tree_cpu_user_s", "tree_cpu_system_s", "metrics", "absent", "self"}
BUSY = "import time\nend = time.process_time() + {0}\nwhile time.process_time() < end: sum(range(1000))"


def report(infprof, output, *words, check=True, **arguments):
    done = subprocess.run([infprof, "report", "--full", "-r", str(output), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, **arguments)
    if check:
        assert done.returncode == 0, done.stderr
    return done


def as_json(infprof, output, *words):
    return json.loads(report(infprof, output, "--json", *words).stdout)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU is all there is")
@pytest.mark.parametrize("attach", [False, True])
def test_limits_of_the_target(infprof, record, run_dir, attach):
    """The target may use one CPU, and infprof all of them."""
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), "python3", "-S", "-c", BUSY.format(0.5) + "\ntime.sleep(0.5)"]
    target = subprocess.Popen(command) if attach else None
    done = record("--pid", str(target.pid), "-t", "100") if attach else record("-t", "100", command=command)
    if target:
        target.wait(timeout=30)
    assert done.returncode == 0, done.stderr
    assert as_json(infprof, run_dir)["effective_cpus"] == 1


@pytest.mark.san
def test_known_answers(infprof, record, run_dir):
    """One second of CPU, 32 MiB written, a memory of its own of 40 MiB."""
    program = BUSY.format(1) + "\nb = bytearray(40 << 20)\nopen('{0}', 'wb').write(b[:32 << 20])\ntime.sleep(0.5)"
    run_dir.mkdir(parents=True)
    done = record("-t", "50", command=["python3", "-S", "-c", program.format(run_dir / "data")])
    assert done.returncode == 0, done.stderr
    found = as_json(infprof, run_dir)
    assert FIXED_KEYS <= set(found)
    assert found["run"] == done.run.uuid
    assert 1.0 <= found["tree_cpu_s"] <= 1.6, found["tree_cpu_s"]
    assert abs(found["tree_cpu_user_s"] + found["tree_cpu_system_s"] - found["tree_cpu_s"]) <= 0.1
    assert 1.5 <= found["wall_s"] <= 30
    assert found["exit_code"] == 0 and found["mode"] == "run"
    assert found["metrics"]["tree_wchar"]["total"] >= 32 << 20
    assert 40 << 20 <= found["metrics"]["tree_rss_bytes"]["max"] <= 200 << 20
    assert found["self"]["cpu_s"] > 0 and found["self"]["rows_dropped"] == 0 and found["self"]["ticks"] >= 20
    assert found["statistics"]["std"] == "population"


@pytest.mark.san
def test_statistics_are_those_of_the_rows(infprof, record, run_dir):
    """Mean, std, min and max of a gauge, and the rate of a counter, computed anew from the files."""
    assert record("-t", "50", command=["python3", "-S", "-c", BUSY.format(0.8)]).returncode == 0
    found = as_json(infprof, run_dir)["metrics"]
    rows = run_dir.run().table("mem")
    values = [row["vMemoryFree"] for row in rows]
    mean = sum(values) / len(values)
    assert found["vMemoryFree"]["n"] == len(values)
    assert found["vMemoryFree"]["mean"] == pytest.approx(mean, rel=1e-12)
    assert found["vMemoryFree"]["std"] == pytest.approx((sum((v - mean) ** 2 for v in values) / len(values)) ** 0.5, rel=1e-6)
    assert (found["vMemoryFree"]["min"], found["vMemoryFree"]["max"]) == (min(values), max(values))
    assert found["vMemoryFree"]["unit"] == "bytes" and found["vMemoryFree"]["quality"] == "measured"
    rows = run_dir.run().table("cpu")
    more = rows[-1]["vCpuContextSwitches"] - rows[0]["vCpuContextSwitches"]
    seconds = (rows[-1]["t_ns"] - rows[0]["t_ns"]) / 1e9
    rates = [(b["vCpuContextSwitches"] - a["vCpuContextSwitches"]) * 1e9 / (b["t_ns"] - a["t_ns"]) for a, b in zip(rows, rows[1:])]
    cell = found["vCpuContextSwitches"]
    assert cell["total"] == more and cell["unit"] == "count/s" and cell["kind"] == "counter"
    assert cell["mean"] == pytest.approx(more / seconds, rel=1e-9)
    assert (cell["min"], cell["max"]) == (pytest.approx(min(rates)), pytest.approx(max(rates)))


def test_csv_and_json_agree(infprof, record, run_dir):
    assert record("-t", "100", command=["sleep", "0.5"]).returncode == 0
    found = as_json(infprof, run_dir)["metrics"]
    lines = list(csv.DictReader(io.StringIO(report(infprof, run_dir, "--csv").stdout)))
    assert {line["metric"] for line in lines} == set(found)
    for line in lines:
        for key in ("mean", "std", "min", "max"):
            assert (float(line[key]) if line[key] else None) == found[line["metric"]][key], line
        assert line["unit"] == found[line["metric"]]["unit"]


def columns_of(infprof, output, columns):
    """The text report on a terminal of that width."""
    master, slave = os.openpty()
    with subprocess.Popen([infprof, "report", "--full", "-r", str(output)], stdout=slave, env={**os.environ, "COLUMNS": str(columns)}) as process:
        os.close(slave)
        text = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            text += piece
        assert process.wait() == 0
    os.close(master)
    return text.decode()


def test_text(infprof, record, run_dir):
    assert record("-t", "100", command=["python3", "-S", "-c", BUSY.format(0.5)]).returncode == 0
    text = report(infprof, run_dir).stdout
    for words in ("CPU of the process tree", "effective CPU", "Load of the machine's cores", "imbalance", "in RAM (RSS)", "in swap",
                  "machine: disks", "Network", "std is that of the population", "Absent, and why", "Cost of infprof itself",
                  "ticks of 10 ms"):
        assert words in re.sub(r"\s+", " ", text), words
    assert "\033" not in text
    for width in (80, 120):
        shown = columns_of(infprof, run_dir, width)
        assert "\033[1m" in shown
        for line in shown.splitlines():
            assert len(re.sub(r"\033\[\d*m", "", line)) <= width, line
    # What is asked first fits on a screen; a section is found by its name.
    first = subprocess.run([infprof, "report", "-r", str(run_dir)], capture_output=True, text=True, check=True).stdout
    assert "What it used" in first and "Metrics" not in first and len(first.splitlines()) <= 45
    assert all(len(line) <= 80 for line in first.splitlines())
    one = subprocess.run([infprof, "report", "-r", str(run_dir), "cores", "memory"], capture_output=True, text=True, check=True).stdout
    assert one.index("imbalance") < one.index("in RAM (RSS)") and "What limited it" not in one
    # NO_COLOR is respected.
    os.environ["NO_COLOR"] = "1"
    try:
        assert "\033" not in columns_of(infprof, run_dir, 80)
    finally:
        del os.environ["NO_COLOR"]


@pytest.mark.san
def test_ranges(infprof, run_dir):
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "50", "--", "python3", "-S", "-c",
                                "import time\ntime.sleep(1)\n" + BUSY.format(1) + "\ntime.sleep(1)"], stderr=subprocess.PIPE)
    time.sleep(1.0)  # sleep: time that is recorded
    for tag in ("busy", "idle"):
        assert subprocess.run([infprof, "mark", tag], timeout=30).returncode == 0
        time.sleep(1.1)  # sleep: time that is recorded
    assert process.wait(timeout=60) == 0, process.stderr.read()
    whole = as_json(infprof, run_dir)
    part = as_json(infprof, run_dir, "--from", "busy", "--to", "idle")
    assert 0.9 <= part["wall_s"] <= whole["wall_s"] - 1
    assert part["metrics"]["tree_cpu_ns"]["n"] < whole["metrics"]["tree_cpu_ns"]["n"]
    assert whole["from"] < part["from"] < part["to"] < whole["to"]
    marks = {row["tag"]: row["t_ns"] for row in run_dir.run().table("marks")}
    assert part["wall_s"] == pytest.approx((marks["idle"] - marks["busy"]) / 1e9, abs=1e-6)
    skipped = as_json(infprof, run_dir, "--skip", "1.5s")
    assert skipped["wall_s"] == pytest.approx(whole["wall_s"] - 1.5, abs=1e-6)
    last = as_json(infprof, run_dir, "--from", "-500ms")
    assert last["wall_s"] == pytest.approx(0.5, abs=1e-6)
    clock = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(part["from"] / 1000 + 1))
    since = as_json(infprof, run_dir, "--from", clock)
    assert since["from"] == int(time.mktime(time.strptime(clock, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone) * 1000
    done = report(infprof, run_dir, "--from", "lunch", check=False)
    assert done.returncode == 1 and "busy, idle" in done.stderr and len(done.stderr.splitlines()) == 1
    assert report(infprof, run_dir, "--skip", "soon", check=False).returncode == 2


def test_a_live_run(infprof, run_dir):
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "50", "--", "sleep", "30"], stderr=subprocess.DEVNULL)
    try:
        wait_for_rows(infprof, run_dir, 15)
        found = as_json(infprof, run_dir)
        assert found["state"] == "recording" and found["exit_code"] is None
        assert found["metrics"]["vMemoryFree"]["n"] >= 5
        assert 0.5 <= found["wall_s"] <= 30
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_the_machine(infprof, run_dir, form):
    """Without a command: the machine; the report does not promise figures of processes that were not recorded."""
    assert subprocess.run([infprof, "record", "-o", str(run_dir), "-t", "100", "-f", form, "--duration", "0.6s"],
                          stderr=subprocess.PIPE).returncode == 0
    found = as_json(infprof, run_dir)
    assert found["mode"] == "host" and found["command"] is None
    text = report(infprof, run_dir).stdout
    assert "the machine" in text and "CPU of the machine" in text and "report absent` says why" not in text


@pytest.mark.parametrize("words, code", [(["--json", "--csv"], 2), (["x"], 2), (["-r", "/no/such/run"], 1)])
def test_usage(infprof, tmp_path, words, code):
    done = subprocess.run([infprof, "report", *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == code and len(done.stderr.splitlines()) == 1


def test_sections_have_names(infprof, tmp_path):
    """-h, the error for an unknown one and the suggestion have them from one table."""
    def say(*words):
        return subprocess.run([infprof, "report", *words], cwd=tmp_path, capture_output=True, text=True)
    listed = re.findall(r"^  (\w+) +\S", say("-h").stdout.split("\nsections:\n")[1].split("\n\n")[0], re.M)
    assert {"limits", "functions", "metrics", "absent"} <= set(listed)
    unknown = say("x" * 30)
    assert unknown.returncode == 2 and ", ".join(listed) in unknown.stderr
    assert "did you mean functions?" in say("functoins").stderr
    assert say("cpu", "--json").returncode == 2


def test_no_run_at_all(infprof, tmp_path):
    done = subprocess.run([infprof, "report"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "profiler-output" in done.stderr


@pytest.mark.san
def test_doctor(infprof, tmp_path):
    done = subprocess.run([infprof, "doctor", "--json"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=60)
    found = json.loads(done.stdout)
    states = {(finding["group"], finding["name"]): finding for finding in found["findings"]}
    for name in ("cpu", "mem", "disk", "net", "host", "processes", "self"):
        assert states["sources", name]["state"] == "ok", name
    assert states["program", "output"]["state"] == "ok" and states["program", "live runs"]["state"] == "ok"
    assert done.returncode == 0 and found["ok"]
    text = subprocess.run([infprof, "doctor"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, timeout=60).stdout
    assert "The essentials work." in text
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)  # a path is never cut


def test_decisions_of_infprof_itself(infprof, tmp_path, monkeypatch):
    def run(*words):
        return subprocess.run([infprof, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    def lines():
        return [f["text"] for f in json.loads(run("doctor", "--json").stdout)["findings"] if f["group"] == "debug"]

    assert not lines() and "debug" not in run("runs").stderr
    monkeypatch.setenv("INFPROF_DEBUG", "1")
    assert any(line.startswith("source mem: ok") for line in lines())
    refused = run("runs", "-r", "none")
    assert refused.returncode == 1 and re.search(r"infprof: debug: \+[0-9.]+ ms failed: ", refused.stderr)


def test_doctor_of_a_broken_machine(infprof, tmp_path):
    done = subprocess.run([infprof, "doctor", "--root", str(tmp_path), "--json"], stdout=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    found = json.loads(done.stdout)
    states = {finding["name"]: finding for finding in found["findings"] if finding["group"] == "sources"}
    assert states["cpu"]["state"] == "absent" and "/proc" in states["cpu"]["text"]


def test_doctor_where_nothing_can_be_written(infprof):
    if os.getuid() != 0:
        pytest.skip("needs another user's directory")
    directory = tempfile.mkdtemp()  # pytest's own directories let nobody else in
    os.chmod(directory, 0o755)
    try:
        done = subprocess.run([infprof, "doctor", "--json"], cwd=directory, stdout=subprocess.PIPE, text=True, timeout=60, user=65534,
                              group=65534, extra_groups=[], env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": "/nonexistent"})
    except PermissionError:
        pytest.skip("another user cannot run the binary where it lies")
    finally:
        os.rmdir(directory)
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == 1
    assert found["output"]["state"] == "denied" and found["output"]["fix"]
