"""Containers and control groups through the real binary: public reports 05 to 07, and on this machine where it is allowed."""
import csv
import hashlib
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from program import copy_tree
from waiting import wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
REPORTS = TOP.parent / "shared" / "fixtures" / "reports"
BUSY = "import time\nend = time.time() + {0}\nwhile time.time() < end: pass"


def report(number):
    return next(iter(sorted(REPORTS.glob(f"{number:02d}-*"))))


def snapshot(infprof, root):
    done = subprocess.run([infprof, "snapshot", "--root", str(root), "--containers", "--json"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def containers(sample):
    """{cId: {name: value}}"""
    section = sample["containers"]
    found = section.get("containers", [section])
    return {c["cId"]: {name: cell["value"] if isinstance(cell, dict) and "value" in cell else cell
                       for name, cell in c.items()} for c in found}


NAMES = {"memory limit": "cMemoryLimit", "memory limit that holds": "cMemoryLimitEffective"}


@pytest.mark.san
@pytest.mark.parametrize("number", [5, 6, 7])
def test_report(infprof, number):
    case = report(number)
    right = json.loads((case / "expected.json").read_text())["root"]["containers"]
    found = containers(snapshot(infprof, case / "root"))
    assert list(found) and set(found) == set(right)
    for cid, values in right.items():
        for name, value in values.items():
            name = NAMES.get(name, name)
            assert name in found[cid], f"{cid}: no {name}"
            assert found[cid][name] == value, f"{cid} {name}: {found[cid][name]} instead of {value}"


@pytest.mark.san
def test_report_05_devices(infprof):
    rows = snapshot(infprof, report(5) / "root")["container_device"]
    assert {row["device"]: (row["cDeviceReadBytes"]["value"], row["cDeviceWriteBytes"]["value"]) for row in rows} == {
        "8:0": (73728, 1048576), "259:0": (5368709120, 268435456)}


def test_report_06_layers_are_shown_and_not_added(infprof):
    rows = {row["device"]: row for row in snapshot(infprof, report(6) / "root")["container_device"]}
    assert {device: (row["cDeviceName"], row["cDeviceLower"], row["cDeviceCounted"]) for device, row in rows.items()} == {
        "8:0": ("sda", None, True), "253:0": ("dm-0", "sda", False), "253:1": ("dm-1", "sda", False)}


def test_report_06_each_cpu_in_the_time_series(infprof, tmp_path):
    out = tmp_path / "out"
    subprocess.run([infprof, "record", "-o", out, "--root", report(6) / "root", "--containers", "-f", "csv", "-t", "200",
                    "--duration", "1s"], check=True, stderr=subprocess.PIPE, timeout=60)
    with open(next(iter(out.glob("*.csv"))), newline="") as file:
        rows = list(csv.DictReader(file))
    assert {(row["container0_cCpu0Time"], row["container0_cCpu1Time"]) for row in rows} == {("40000000000", "24123456789")}
    assert all(row["container0_cCpu1Time_time"] for row in rows) and "container0_cCpuNTime" not in rows[0]


def test_report_07_order_and_no_exabytes(infprof):
    sample = snapshot(infprof, report(7) / "root")
    assert list(containers(sample)) == ["76e2a678ab53", "26c55a95d1d4", "692b7e539e7c", "182d831caa15"]
    assert max((v for c in containers(sample).values() for v in c.values() if isinstance(v, int)), default=0) < 1 << 40
    reasons = {s["column_name"]: s["reason"] for s in sample["sources"] if s["collector"] == "containers"}
    assert reasons["cMemoryLimit"] == "no limit is set"


def test_report_sets_memory_against_the_machine_where_there_is_no_limit(infprof, tmp_path):
    """The denominators of report 07: the machine's memory for a, c, d and the parent's limit for b."""
    root = tmp_path / "root"
    copy_tree(report(7) / "root", root)
    out = tmp_path / "out"
    subprocess.run([infprof, "record", "-o", out, "--root", root, "--containers", "--duration", "1500ms", "-t", "300"],
                   check=True, stderr=subprocess.PIPE, timeout=60)
    done = subprocess.run([infprof, "report", "--json", "-r", out], check=True, stdout=subprocess.PIPE, timeout=60)
    found = {c["cId"]: c for c in json.loads(done.stdout)["containers"]}
    machine = 65812340 * 1024
    for cid in ("76e2a678ab53", "692b7e539e7c", "182d831caa15"):
        assert found[cid]["memory_limit_bytes"] is None and found[cid]["memory_allowed_bytes"] == machine
    b = found["26c55a95d1d4"]
    assert b["memory_limit_bytes"] == b["memory_allowed_bytes"] == 2147483648
    assert abs(b["memory_peak_ratio"] - 63488000 / 2147483648) < 1e-9
    text = subprocess.run([infprof, "report", "--full", "-r", out], check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout
    assert "EiB" not in text and "Containers" in text


class Groups:
    """Control groups of v1 as docker makes them: removed at the end, with their processes. Below one of this process's own: tests
    run side by side, and one must not remove a parent that another has just found."""
    HIERARCHIES = ("memory", "cpu", "cpuacct", "pids")
    OWN = f"tests-{os.getpid()}"

    def __init__(self):
        self.made, self.processes = [], []

    def mkdir(self, path):
        if not path.is_dir():
            try:
                path.mkdir()
            except OSError as error:
                pytest.skip(f"no cgroup can be made at {path}: {error}")
            self.made.append(path)
        return path

    def docker(self, name):
        cid = hashlib.sha256(name.encode()).hexdigest()
        for hierarchy in self.HIERARCHIES:
            base = pathlib.Path("/sys/fs/cgroup") / hierarchy
            if not (base / "cgroup.procs").exists():
                pytest.skip(f"{base} is no control group of v1")
            self.mkdir(base / self.OWN)
            self.mkdir(base / self.OWN / "docker")
            self.mkdir(self.directory(cid, hierarchy))
        return cid

    def directory(self, cid, hierarchy):
        return pathlib.Path("/sys/fs/cgroup") / hierarchy / self.OWN / "docker" / cid

    def run(self, cid, *words):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.processes.append(process)
        for hierarchy in self.HIERARCHIES:
            (self.directory(cid, hierarchy) / "cgroup.procs").write_text(str(process.pid))
        return process

    def remove(self, cid):
        for path in [p for p in self.made if p.name == cid]:
            path.rmdir()
            self.made.remove(path)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for path in reversed(self.made):
            for _ in range(50):
                try:
                    path.rmdir()
                    break
                except OSError:
                    time.sleep(0.02)  # sleep: between two tries


@pytest.fixture
def groups():
    groups = Groups()
    yield groups
    groups.close()


def rows_of(run, cid):
    ids = {row["id"] for row in run.table("container") if row["cId"] == cid[:12]}
    return [row for row in run.table("containers") if row["container"] in ids]


@pytest.mark.live
def test_live_a_cpu_quota_shows_its_throttling(groups, record, infprof):
    cid = groups.docker("quota")
    cpu = groups.directory(cid, "cpu")
    (cpu / "cpu.cfs_period_us").write_text("100000")
    (cpu / "cpu.cfs_quota_us").write_text("20000")
    busy = groups.run(cid, sys.executable, "-c", BUSY.format(60))

    def stat():
        return {name: int(value) for name, value in (line.split() for line in (cpu / "cpu.stat").read_text().splitlines())}

    # How often it is throttled depends on what else runs: the kernel's own counts beside each row are the truth.
    wait_for(lambda: stat()["nr_throttled"], "a throttled period")
    seen, is_over = [], threading.Event()

    def watch():
        while not is_over.is_set():
            begin = time.monotonic_ns()
            values = stat()
            seen.append((begin, time.monotonic_ns(), values))
            time.sleep(0.02)  # sleep: between two looks

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        done = record("-t", "200", "--duration", "3s", "--pid", busy.pid)
    finally:
        is_over.set()
        watcher.join()
    seen.append((time.monotonic_ns(), time.monotonic_ns(), stat()))
    assert done.returncode == 0, done.stderr
    rows = rows_of(done.run, cid)
    assert len(rows) >= 10 and all(row["cIsTarget"] for row in rows)
    assert {(row["cCpuQuota"], row["cCpuPeriod"], row["cCpuLimit"]) for row in rows} == {(20000, 100000, 0.2)}
    periods = rows[-1]["cCpuPeriods"] - rows[0]["cCpuPeriods"]
    throttled = rows[-1]["cCpuThrottledPeriods"] - rows[0]["cCpuThrottledPeriods"]
    assert periods > 0
    names = {"cCpuPeriods": "nr_periods", "cCpuThrottledPeriods": "nr_throttled", "cCpuThrottledTime": "throttled_time"}
    # A row is read after its own stamp and before the next one's.
    for row, end_ns in zip(rows, [row["t_ns"] for row in rows[1:]] + [math.inf]):
        before = [values for _, end, values in seen if end <= row["t_ns"]][-1]
        after = next((values for begin, _, values in seen if begin >= end_ns), seen[-1][2])
        for column, name in names.items():
            assert before[name] <= row[column] <= after[name], (column, row, before, after)
    seconds = (rows[-1]["t_ns"] - rows[0]["t_ns"]) / 1e9
    used = (rows[-1]["cCpuTime"] - rows[0]["cCpuTime"]) / 1e9
    assert used <= 0.2 * seconds + 0.06  # a quota and a slice more
    done = subprocess.run([infprof, "report", "--json", "-r", str(done.run.path)], check=True, stdout=subprocess.PIPE, timeout=60)
    said = json.loads(done.stdout)["containers"][0]
    assert said["is_target"] and said["cpu_periods"] == periods and said["cpu_throttled_periods"] == throttled
    assert abs(said["throttled_ratio"] - throttled / periods) < 1e-9
    assert said["cpus_allowed"] == 0.2 and said["cpus"] <= 0.25


@pytest.mark.live
def test_live_a_sleeping_container_has_all_its_figures_and_wakes(groups, record):
    """What a container that sleeps cannot change is not read again: it stays in each row, and is read at once when it has run."""
    cid = groups.docker("sleeper")
    memory = 40 << 20
    sleeper = groups.run(cid, sys.executable, "-c", f"import time; time.sleep(3); x = b'1' * {memory}; time.sleep(60)")
    done = record("-t", "100", "--duration", "5s", "--pid", sleeper.pid)
    assert done.returncode == 0, done.stderr
    rows = rows_of(done.run, cid)
    woke = next(i for i, row in enumerate(rows) if row["cMemoryAnon"] > rows[0]["cMemoryAnon"] + memory / 2)
    still = rows[5:woke - 1]  # Python may be starting in the first ones
    assert len(still) >= 10
    there = {name for name, value in rows[0].items() if value is not None}
    assert {"cCpuTimeUserMode", "cMemoryAnon", "cMemoryMaxUsed", "cOomKills", "cPidsLimitHits"} <= there
    for row in rows:
        assert there <= {name for name, value in row.items() if value is not None}
    assert len({row["cMemoryAnon"] for row in still}) <= 2
    stat = dict(line.split() for line in (groups.directory(cid, "memory") / "memory.stat").read_text().splitlines())
    assert abs(rows[-1]["cMemoryAnon"] - int(stat["total_rss"])) < memory / 8
    assert rows[-1]["cMemoryMaxUsed"] >= rows[-1]["cMemoryUsed"] > memory
    assert rows[-1]["cCpuTime"] > rows[0]["cCpuTime"]


@pytest.mark.live
def test_live_containers_come_and_go(groups, infprof, run_dir):
    first = groups.docker("first")
    groups.run(first, "sleep", "60")
    recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "200", "--containers", "--no-snapshots"], stderr=subprocess.PIPE)

    def wait_for_rows(cid, after_ns=0):
        """Asking makes a live recorder write out what it holds."""
        words = [infprof, "query", "-r", str(run_dir), "--json",
                 f"SELECT count(*) AS n FROM containers WHERE cId = '{cid[:12]}' AND t_ns > {after_ns}"]

        def are_there():
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
            return done.returncode == 0 and json.loads(done.stdout)[0]["n"] >= 10

        wait_for(are_there, f"rows of {cid}")

    try:
        wait_for_rows(first)
        second = groups.docker("second")
        sleeper = groups.run(second, "sleep", "60")
        wait_for_rows(second)
        sleeper.kill()
        sleeper.wait()
        groups.remove(second)
        removed = time.monotonic_ns()
        wait_for_rows(first, removed)
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.communicate(timeout=60)
    assert recorder.returncode == 0
    run = run_dir.run()
    rows = rows_of(run, second)
    # It is gone at the next look at the groups, after 2 s of ticks at most.
    assert sum(row["t_ns"] > removed for row in rows) <= 10
    assert rows_of(run, first)[-1]["t_ns"] > rows[-1]["t_ns"]
    assert {row["cRuntime"] for row in run.table("container") if row["cId"] in (first[:12], second[:12])} == {"docker"}
    # It may have been seen between its making and the first process in it.
    assert {row["cPids"] for row in rows} - {0} == {1}


@pytest.mark.live
def test_live_a_command_that_moves_at_its_start(groups, record):
    """What starts containers moves itself into their cgroup: its figures are the container's soon, not seconds later."""
    cid = groups.docker(f"infprof-test-move-{os.getpid()}")
    files = " ".join(str(groups.directory(cid, hierarchy) / "cgroup.procs") for hierarchy in groups.HIERARCHIES)
    done = record("-t", "200", command=["bash", "-c", f"sleep 0.4; for i in {files}; do echo $$ > $i; done; exec sleep 2.6"])
    assert done.returncode == 0, done.stderr
    rows = rows_of(done.run, cid)
    assert rows and (int(done.run.info["ended_t_ns"]) - rows[0]["t_ns"]) / 1e9 > 0.8


@pytest.mark.live
def test_live_a_network_namespace_shows_its_own_bytes(groups, record):
    name = f"infp{os.getpid()}"
    if not shutil.which("ip"):
        pytest.skip("ip(8) is not here")
    if subprocess.run(["ip", "netns", "add", name], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no network namespace can be made here")
    host, inner = f"ih{os.getpid() % 100000}", f"ii{os.getpid() % 100000}"
    try:
        for probe in (["-n", name, "link"], ["netns", "exec", name, "true"]):
            tried = subprocess.run(["ip", *probe], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if tried.returncode:
                pytest.skip(f"no network namespace can be entered here: {tried.stderr.strip()}")
        made = subprocess.run(["ip", "link", "add", host, "type", "veth", "peer", "name", inner], stderr=subprocess.PIPE)
        if made.returncode:
            pytest.skip(f"no veth pair can be made here: {made.stderr.decode().strip()}")
        for words in (["link", "set", inner, "netns", name], ["addr", "add", "10.231.7.1/24", "dev", host],
                      ["link", "set", host, "up"], ["-n", name, "addr", "add", "10.231.7.2/24", "dev", inner],
                      ["-n", name, "link", "set", inner, "up"]):
            subprocess.run(["ip", *words], check=True)
        cid = groups.docker("net")
        sleeper = groups.run(cid, "ip", "netns", "exec", name, "sleep", "60")
        time.sleep(0.5)  # sleep: the group's network is there, then its counters are
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            for _ in range(200):
                out.sendto(b"x" * 1000, ("10.231.7.2", 9))
        time.sleep(0.5)  # sleep: the group's network is there, then its counters are
        done = record("-t", "200", "--duration", "1500ms", "--pid", sleeper.pid)
        rows = rows_of(done.run, cid)
        dev = pathlib.Path(f"/proc/{sleeper.pid}/net/dev").read_text()
        words = next(line for line in dev.splitlines() if inner in line).split(":")[1].split()
        assert rows[-1]["cNetworkBytesRecvd"] >= 200 * 1000
        assert rows[0]["cNetworkBytesRecvd"] <= rows[-1]["cNetworkBytesRecvd"] <= int(words[0])
        assert rows[-1]["cNetworkBytesSent"] <= int(words[8])
    finally:
        subprocess.run(["ip", "link", "del", host], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def own_groups():
    """Those of every infprof that runs: tests beside this one have theirs."""
    return sorted(str(path) for path in pathlib.Path("/sys/fs/cgroup").rglob("infprof-*"))


def groups_of(run):
    paths = {row["cPath"] for row in run.table("container") if row["cRuntime"] == "infprof"}
    assert paths
    return [path for path in own_groups() if any(path.endswith(one) for one in paths)]


def skip_without_own_cgroup(done):
    if "--own-cgroup" in done.stderr:
        pytest.skip(done.stderr.strip())


@pytest.mark.live
@pytest.mark.parametrize("waiting", [[], ["--energy-baseline", "1s"]])
def test_live_own_cgroup_counts_the_command_alone(record, waiting):
    done = record("-t", "200", "--own-cgroup", *waiting, command=[sys.executable, "-c", BUSY.format(1)])
    skip_without_own_cgroup(done)
    assert done.returncode == 0
    assert not groups_of(done.run)
    who = [row for row in done.run.table("container") if row["cRuntime"] == "infprof"]
    assert len({row["id"] for row in who}) == 1
    rows = done.run.table("containers")
    assert {row["container"] for row in rows} == {who[0]["id"]}
    assert all(row["cOtherProcesses"] == 0 for row in rows)
    tree = done.run.table("tree")
    ours, theirs = rows[-1]["cCpuTime"] / 1e9, tree[-1]["tree_cpu_ns"] / 1e9
    assert abs(ours - theirs) < 0.1 + 0.1 * theirs


@pytest.mark.live
def test_live_own_cgroup_goes_with_those_that_the_command_made_in_it(record):
    make = ("import pathlib\n"
            "made = 0\n"
            "for line in open('/proc/self/cgroup'):\n"
            "    _, names, path = line.strip().split(':', 2)\n"
            "    top = pathlib.Path('/sys/fs/cgroup', names or 'unified')\n"
            "    if 'infprof-' in path and (top / path[1:]).is_dir():\n"
            "        (top / path[1:] / 'infprof-inner' / 'most').mkdir(parents=True)\n"
            "        made += 1\n"
            "raise SystemExit(0 if made else 9)\n")
    done = record("--own-cgroup", command=[sys.executable, "-c", make])
    skip_without_own_cgroup(done)
    if done.returncode == 9:
        pytest.skip("the hierarchies are not where this test looks for them")
    assert done.returncode == 0
    assert not groups_of(done.run)


@pytest.mark.live
def test_live_own_cgroup_of_a_killed_infprof_is_removed_by_the_next(infprof, run_dir, record):
    words = [infprof, "record", "-o", str(run_dir), "-t", "200", "--own-cgroup", "--", "sleep", "30"]
    recorder = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    deadline = time.time() + 20
    mine = []
    while not mine and time.time() < deadline and recorder.poll() is None:
        mine = [path for path in own_groups() if f"infprof-{recorder.pid}-" in path]
        time.sleep(0.05)  # sleep: between two looks
    recorder.kill()
    _, said = recorder.communicate()
    if not mine:
        pytest.skip(f"no cgroup of its own here: {said}")
    time.sleep(0.3)  # sleep: the command starts, or has ended
    for path in mine:  # the command runs on, or has ended at its gate
        for pid in (pathlib.Path(path) / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    time.sleep(0.5)  # sleep: the kernel empties the group; what is removed too early is removed twice
    assert [path for path in own_groups() if path in mine] == mine
    done = record("--own-cgroup", command=["true"])
    assert done.returncode == 0
    assert not [path for path in own_groups() if path in mine]
