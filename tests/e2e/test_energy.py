"""Energy through the real binary. No machine that runs these tests need have a meter: a scripted tree stands for one, and what
the script wrote is the truth."""
import bisect
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time

import pytest

from conftest import Run
from program import copy_tree

TOP = pathlib.Path(__file__).resolve().parents[2]
SHARED = TOP.parent / "shared"
REPORTS = SHARED / "fixtures" / "reports"
TRUTH = SHARED / "truth"
FIX = "z /sys/class/powercap/intel-rapl:*/energy_uj 0444 root power -"


def write(path, text):
    """Whole or not at all: no reader sees an empty file."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.rename(path)


class Zone:
    """A zone of powercap that turns watts into a counter which wraps."""

    def __init__(self, root, name, label, range_uj, start_uj=0):
        self.path = root / "sys" / "class" / "powercap" / name
        self.path.mkdir(parents=True)
        (self.path / "name").write_text(f"{label}\n")
        (self.path / "max_energy_range_uj").write_text(f"{range_uj}\n")
        self.range_uj, self.total_uj = range_uj, start_uj
        self.written = []  # all that stood there, not wrapped, in order
        self.add(0)

    def add(self, uj):
        self.total_uj += uj
        write(self.path / "energy_uj", f"{self.total_uj % self.range_uj}\n")
        self.written.append(self.total_uj)

    def truth_j(self, raw_values):
        """Joules from the first to the last of the values that were read, by what was written."""
        at = min(total for total in self.written if total % self.range_uj == raw_values[0])
        start = at
        for raw in raw_values[1:]:
            index = bisect.bisect_left(self.written, at)
            while self.written[index] % self.range_uj != raw:
                index += 1
            at = self.written[index]
        return (at - start) / 1e6


@contextlib.contextmanager
def powered(watts):
    """Turns {zone: W} into counters that move every 20 ms; watts may change. powered.late_s: the longest time between two moves."""
    stop = threading.Event()
    powered.late_s = 0

    def drive():
        before = time.monotonic()
        while not stop.wait(0.02):
            now = time.monotonic()
            powered.late_s = max(powered.late_s, now - before)
            for zone, power in watts.items():
                zone.add(int(power * 1e6 * (now - before)))
            before = now

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        yield watts
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def root(tmp_path):
    """A machine with this one's processes and no meter yet."""
    path = tmp_path / "root"
    path.mkdir()
    (path / "proc").symlink_to("/proc")
    return path


def ask(infprof, *words, **options):
    done = subprocess.run([infprof, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
                          **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(infprof, run, *options):
    return json.loads(ask(infprof, "report", "-r", run.path, "--json", *options))


def domain_rows(run, domain):
    return [row for row in run.table("energy") if row["domain"] == domain]


def test_wraps_are_counted(infprof, record, root):
    """The package wraps each third of a second, the memory each second: joules are right to a thousandth, raw values kept."""
    package = Zone(root, "intel-rapl:0", "package-0", 100_000_000, 95_000_000)
    dram = Zone(root, "intel-rapl:0:0", "dram", 31_000_000)
    core = Zone(root, "intel-rapl:0:1", "core", 70_000_000)
    with powered({package: 300, dram: 30, core: 200}):
        done = record("-t", 100, "--root", root, "--duration", "3s")
    assert done.returncode == 0, done.stderr
    total = 0
    for zone, domain in ((package, "package-0"), (dram, "dram-0"), (core, "package-0/core")):
        rows = domain_rows(done.run, domain)
        assert len(rows) >= 20
        truth = zone.truth_j([row["eRawUj"] for row in rows])
        assert rows[-1]["eJoules"] == pytest.approx(truth, rel=1e-3), domain
        assert rows[-1]["eJoules"] == pytest.approx(truth, abs=1e-5), domain
        assert all(row["eRangeUj"] == zone.range_uj for row in rows)
        assert rows[-1]["eWraps"] >= (7 if zone is package else 2)
        steps = [after["eJoules"] - before["eJoules"] for before, after in zip(rows, rows[1:]) if before["eJoules"] is not None]
        assert min(steps) >= 0
        total += truth if zone is not core else 0
    last = done.run.table("energy_total")[-1]
    assert last["eMachineJoules"] == pytest.approx(total, rel=1e-3)
    assert last["eMachineDomains"] == "package-0, dram-0"
    sql = "SELECT sum(joules) AS j, avg(watts) AS w FROM energy_watts WHERE domain = 'package-0'"
    (watts,) = json.loads(ask(infprof, "query", "-r", done.run.path, "-f", "json", sql))
    assert watts["j"] == pytest.approx(domain_rows(done.run, "package-0")[-1]["eJoules"])
    assert watts["w"] == pytest.approx(300, rel=0.2)
    energy = report(infprof, done.run)["energy"]
    assert energy["joules"] == pytest.approx(total, rel=1e-3)
    assert energy["quality"] == "measured"
    assert {d["domain"]: d["in_total"] for d in energy["domains"]} == {"package-0": True, "dram-0": True, "package-0/core": False}


def replay(record, tmp_path, number, seconds_a_tick=0.5):
    """A report's tree, its ticks at this pace, recorded."""
    (case,) = REPORTS.glob(f"{number:02d}-*")
    live = tmp_path / "root"
    copy_tree(case / "root", live)
    ticks = [line.split("\t") for line in (case / "ticks.tsv").read_text().splitlines()[1:]]
    last = max(int(tick) for tick, _, _ in ticks)

    def play():
        for number in range(1, last + 1):
            time.sleep(seconds_a_tick)  # sleep: the pace of the fake meter
            for tick, name, value in ticks:
                if int(tick) == number:
                    write(live / name, value + "\n")

    thread = threading.Thread(target=play)
    thread.start()
    done = record("-t", 100, "--root", live, "--duration", f"{(last + 1) * seconds_a_tick + 0.3}s")
    thread.join()
    assert done.returncode == 0, done.stderr
    return done.run


def test_report_08_each_zone_wraps_at_its_own_range(infprof, record, tmp_path):
    run = replay(record, tmp_path, 8)
    package, dram = domain_rows(run, "package-0"), domain_rows(run, "dram-0")
    assert package[-1]["eJoules"] == pytest.approx(120.0, abs=0.001)
    assert dram[-1]["eJoules"] == pytest.approx(18.0, abs=0.001)
    assert {row["eRawUj"] for row in package} == {262060000000, 262100000000, 262140000000, 36671150}
    assert run.table("energy_total")[-1]["eMachineJoules"] == pytest.approx(138.0, abs=0.001)
    assert report(infprof, run)["energy"]["joules"] == pytest.approx(138.0, abs=0.001)
    sql = ("SELECT sum(d) AS j FROM (SELECT infp_increase('wrap', lag(eRawUj) OVER (ORDER BY t_ns), eRawUj, eRangeUj) / 1e6 AS d "
           "FROM energy WHERE domain = 'package-0')")
    assert json.loads(ask(infprof, "query", "-r", run.path, "-f", "json", sql))[0]["j"] == pytest.approx(120.0, abs=0.001)


def test_report_09_overlapping_energy_domains(infprof, record, tmp_path):
    run = replay(record, tmp_path, 9)
    joules = {row["domain"]: row["eJoules"] for row in run.table("energy")}
    assert joules == {"package-0": pytest.approx(30.0), "package-0/core": pytest.approx(18.0),
                      "package-0/uncore": pytest.approx(4.0), "dram-0": pytest.approx(5.0), "psys": pytest.approx(52.0),
                      "mmio-package-0": pytest.approx(30.1)}
    last = run.table("energy_total")[-1]
    assert last["eMachineJoules"] == pytest.approx(35.0)
    energy = report(infprof, run)["energy"]
    assert energy["joules"] == pytest.approx(35.0)
    same = {d["domain"]: d["same_as"] for d in energy["domains"]}
    assert same["mmio-package-0"] == "package-0"
    sample = json.loads(max(run.snapshots()).read_text())
    assert {row["domain"] for row in sample["energy"]} == set(joules)
    assert sample["energy_total"]["eMachineJoules"]["value"] == pytest.approx(35.0)
    page = ask(infprof, "snapshot", "--root", tmp_path / "root", "--prom").splitlines()
    assert 'infprof_energy_raw_joules_total{domain="package-0"} 1030.0' in page


def test_nothing_to_read(infprof, record, root):
    """Absent everywhere, never 0; the report says why in a line."""
    done = record("-t", 100, "-f", "csv", "--root", root, "--duration", "600ms")
    assert done.returncode == 0, done.stderr
    assert not done.run.table("energy") and not done.run.table("energy_total")
    header, *rows = (done.run.output / f"{done.run.uuid}.csv").read_text().splitlines()
    at = header.split(",").index("eMachineJoules")
    assert rows and {row.split(",")[at] for row in rows} == {""}
    energy = report(infprof, done.run)["energy"]
    assert energy["joules"] is None and energy["state"] == "absent" and "powercap" in energy["reason"]
    assert "not measured: this machine shows no energy" in " ".join(ask(infprof, "report", "--full", "-r", done.run.path).split())
    sample = json.loads(ask(infprof, "snapshot", "--root", root, "--json"))
    values = [cell["value"] if cell else None for cell in sample["energy_total"].values()]
    assert sample["energy"] == [] and set(values) == {None}
    assert "infprof_energy_" not in ask(infprof, "snapshot", "--root", root, "--prom")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_unreadable_counters(infprof, root, tmp_path):
    """0400, as Linux has them since 5.10, and a normal user: denied, with the mission's fix."""
    zone = Zone(root, "intel-rapl:0", "package-0", 262143328850, 1000)
    (zone.path / "energy_uj").chmod(0o400)
    own = tmp_path / "own"
    own.mkdir()
    os.chown(own, 65534, 65534)
    for path in [tmp_path, *tmp_path.parents]:
        if str(path).startswith("/tmp/"):
            path.chmod(path.stat().st_mode | 0o055)
    options = {"user": 65534, "group": 65534, "extra_groups": [], "cwd": own, "env": {**os.environ, "XDG_RUNTIME_DIR": str(own), "HOME": str(own)}}
    if subprocess.run([infprof, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options).returncode:
        pytest.skip(f"{infprof} cannot be run by another user")
    ask(infprof, "record", "-o", own / "out", "-t", 100, "-f", "csv", "--root", root, "--duration", "600ms", **options)
    energy = json.loads(ask(infprof, "report", "-r", own / "out", "--json", **options))["energy"]
    assert energy["joules"] is None and energy["state"] == "denied"
    assert FIX in energy["fix"] and "groupadd power" in energy["fix"] and "usermod -aG power" in energy["fix"]
    text = " ".join(ask(infprof, "report", "--full", "-r", own / "out", **options).split())
    assert FIX in text
    findings = json.loads(subprocess.run([infprof, "doctor", "--root", str(root), "--json"], stdout=subprocess.PIPE, **options).stdout)
    (found,) = [f for f in findings["findings"] if f["group"] == "sources" and f["name"] == "energy"]
    assert found["state"] == "denied" and FIX in found["fix"]
    # Root may read it.
    sample = json.loads(ask(infprof, "snapshot", "--root", root, "--json"))
    assert sample["energy"][0]["eRawUj"]["value"] == 1000


def test_baseline_comes_before_the_command(infprof, record, root, tmp_path):
    zone = Zone(root, "intel-rapl:0", "package-0", 262143328850)
    started = tmp_path / "started"
    script = f"date +%s%N > {started}; i=0; while [ $i -lt 40 ]; do i=$((i + 1)); sleep 0.05; done; exit 3"
    watts = {zone: 20}
    begun = time.time_ns()

    def load():
        while not started.exists():
            time.sleep(0.01)  # sleep: between two looks
        watts[zone] = 50

    watcher = threading.Thread(target=load)
    with powered(watts):
        watcher.start()
        done = record("-t", 100, "--root", root, "--energy-baseline", "2s", command=["sh", "-c", script])
        watcher.join()
    assert done.returncode == 3
    assert "measuring the idle power for 2 s before the command starts" in done.stderr
    assert int(started.read_text()) - begun >= 2_000_000_000
    marks = [(row["source"], row["tag"], row["t_ns"]) for row in done.run.table("marks")]
    assert [mark[:2] for mark in marks] == [("infprof", "energy-baseline-start"), ("infprof", "energy-baseline-end")]
    assert marks[1][2] - marks[0][2] == pytest.approx(2e9, rel=0.1)
    whole = report(infprof, done.run)
    energy = whole["energy"]
    recorded_s = (int(done.run.info["ended_t_ns"]) - int(done.run.info["started_t_ns"])) / 1e9
    assert whole["wall_s"] == pytest.approx(recorded_s - 2, abs=0.4)  # the baseline is no part of the command
    assert energy["idle"]["watts"] == pytest.approx(20, rel=0.1)
    assert energy["idle"]["measured"] == "before the command"
    assert energy["mean_watts"] == pytest.approx(50, rel=0.1)
    assert energy["idle"]["joules"] + energy["idle"]["joules_above"] == pytest.approx(energy["joules"], rel=1e-9)
    split = energy["split"]
    assert split["quality"] == "estimated"
    parts = split["target_joules"] + split["others_joules"] + split["idle_joules"] + split["residual_joules"]
    assert parts == pytest.approx(energy["joules"], rel=1e-9)
    text = " ".join(ask(infprof, "report", "--full", "-r", done.run.path).split())
    assert "before the command started" in text and "ESTIMATED by CPU time" in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_baseline(infprof, run_dir, root, tmp_path, number):
    """The command never begins, and the signal counts at once."""
    Zone(root, "intel-rapl:0", "package-0", 262143328850)
    started = tmp_path / "started"
    process = subprocess.Popen([infprof, "record", "-o", run_dir, "-t", "100", "-f", "csv", "--root", root, "--energy-baseline", "60s",
                                "--", "touch", started], stderr=subprocess.PIPE, text=True, start_new_session=True)
    begun = time.monotonic()
    for line in process.stderr:
        if "idle power" in line:
            break
    time.sleep(0.3)  # sleep: within the minute of the baseline
    os.kill(process.pid, number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert time.monotonic() - begun < 25
    assert not started.exists()
    assert report(infprof, run_dir.run())["energy"]["idle"] is None


def test_baseline_of_the_machine(infprof, record, root):
    """Nothing waits: the first seconds are named for what they are."""
    zone = Zone(root, "intel-rapl:0", "package-0", 262143328850)
    with powered({zone: 20}):
        done = record("-t", 100, "--root", root, "--energy-baseline", "1s", "--duration", "2500ms")
    assert done.returncode == 0, done.stderr
    energy = report(infprof, done.run)["energy"]
    assert energy["idle"]["watts"] == pytest.approx(20, rel=0.13 + 2 * powered.late_s)  # of a second that begins and ends between moves
    assert energy["idle"]["measured"] == "in the first seconds of the recording"
    assert energy["seconds"] > 2


def test_joules_per_token(infprof, record, root, tmp_path):
    """Tokens that a server declares, joules that the script wrote: their quotient is exact."""
    subprocess.run(["make", "-s", "-C", str(TRUTH), f"OUT={tmp_path}", f"{tmp_path}/latency_truth"], check=True, timeout=300)
    zone = Zone(root, "intel-rapl:0", "package-0", 100_000_000)
    server = subprocess.Popen([tmp_path / "latency_truth", "-p", "0", "-t", "5", "-i", "1", "-n", "20"], stdout=subprocess.PIPE,
                              text=True)
    try:
        port = json.loads(server.stdout.readline())["port"]
        ask_it = ("import json, time, urllib.request\n"
                  "time.sleep(1.5)\n"
                  "for i in range(12):\n"
                  "    body = json.dumps({'model': 'm', 'prompt': 'a b c', 'max_tokens': 20}).encode()\n"
                  f"    urllib.request.urlopen(urllib.request.Request('http://127.0.0.1:{port}/v1/completions', body,\n"
                  "        {'Content-Type': 'application/json'})).read()\n"
                  "time.sleep(2.5)\n")
        with powered({zone: 40}):
            done = record("-t", 200, "--root", root, "--engine", f"http://127.0.0.1:{port}/metrics", command=["python3", "-c", ask_it])
    finally:
        server.kill()
        server.wait()
    assert done.returncode == 0, done.stderr
    energy = report(infprof, done.run)["energy"]
    assert energy["tokens"]["counted_by"] == "the engine's counters"
    assert energy["tokens"]["generated"] == 240
    assert energy["tokens"]["requests"] == 12
    rows = domain_rows(done.run, "package-0")
    truth = zone.truth_j([row["eRawUj"] for row in rows])
    assert energy["joules"] == pytest.approx(truth, rel=1e-3)
    assert energy["tokens"]["joules"] == pytest.approx(40 * energy["tokens"]["seconds"], rel=0.15)
    assert energy["tokens"]["joules_per_generated_token"] == pytest.approx(energy["tokens"]["joules"] / 240, rel=1e-9)
    tokens = energy["tokens"]["generated"] + energy["tokens"]["prompt"]
    assert energy["tokens"]["joules_per_token"] == pytest.approx(energy["tokens"]["joules"] / tokens, rel=1e-9)
    text = " ".join(ask(infprof, "report", "--full", "-r", done.run.path).split())
    assert "per generated token" in text and "all of package-0, idle included" in text


def test_a_hung_read_holds_nobody_up(infprof, run_dir, root, tmp_path):
    """A meter that does not answer for 4 s: the other collectors keep their ticks, and `sources` says late."""
    if not shutil.which("strace"):
        pytest.skip("needs strace to make a read hang")
    zone = Zone(root, "intel-rapl:0", "package-0", 262143328850)

    def words(output, *injected):
        return ["strace", "-f", "-o", tmp_path / f"{output.name}.strace", "-P", zone.path / "energy_uj", "-e", "trace=pread64", *injected,
                infprof, "record", "-o", output, "-t", "100", "-f", "csv", "--root", root, "--duration", "2500ms"]

    env = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    # The same beside it, whose meter answers: what the machine and strace do to a recording.
    with subprocess.Popen(words(tmp_path / "witness"), stderr=subprocess.DEVNULL, env=env) as witness:
        done = subprocess.run(words(run_dir, "-e", "inject=pread64:delay_enter=4000000"), stderr=subprocess.PIPE, text=True, timeout=120,
                              env=env)
        witness.wait(timeout=60)
    if "ptrace" in done.stderr and "Operation not permitted" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.strip()[:100]}")
    assert done.returncode == 0, done.stderr
    assert "energy: it has not returned" in done.stderr
    run = run_dir.run()
    stamps, others = ([row["t_ns"] for row in one.table("cpu")] for one in (run, Run(tmp_path / "witness")))
    # It lasts longer, since its end waits for the meter: rows per second.
    rate, right = ((len(times) - 1) / (times[-1] - times[0]) for times in (stamps, others))
    assert len(others) > 2 and rate >= 0.8 * right, (len(stamps), len(others), rate, right)
    assert max(b - a for a, b in zip(stamps, stamps[1:])) < 2e9  # half of what the meter needs
    assert {row["state"] for row in run.table("sources") if row["collector"] == "energy"} & {"late"}
