"""infprof snapshot and the files that record writes at each sample: the nesting that the mission declares, and valid text."""
import json
import os
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
REPORTS = TOP.parent / "shared" / "fixtures" / "reports"

# Names and sections as ../shared/mission/inference-profiler.md and reference/systems.md 0.5 have them.
MISSION = {
    "cpu": "vCpuTime vCpuTimeUserMode vCpuTimeKernelMode vCpuIdleTime vCpuTimeIOWait vCpuTimeIntSrvc vCpuTimeSoftIntSrvc "
           "vCpuNice vCpuSteal vCpuContextSwitches vLoadAvg vCpuMhz",
    "mem": "vMemoryTotal vMemoryFree vMemoryUsed vMemoryBuffers vMemoryCached vMemoryPercent vSwapTotal vSwapFree vSwapUsed "
           "vPgFault vMajorPageFault",
    "disk": "vDiskReadBytes vDiskWriteBytes vDiskSuccessfulReads vDiskSuccessfulWrites vDiskReadTime vDiskWriteTime vDiskIOTime "
            "vDiskIOInProgress vDiskSectorReads vDiskSectorWrites vDiskMergedReads vDiskMergedWrites vDiskWeightedIOTime",
    "net": "vNetworkBytesRecvd vNetworkBytesSent vNetworkPacketsRecvd vNetworkPacketsSent vNetworkErrorsRecvd "
           "vNetworkErrorsSent vNetworkDropsRecvd vNetworkDropsSent",
}
PROCESS_LABELS = "pId pName pCmdline"
PROCESS = ("pNumThreads pCpuTimeUserMode pCpuTimeKernelMode pChildrenUserMode pChildrenKernelMode pVoluntaryContextSwitches "
           "pNonvoluntaryContextSwitches pBlockIODelays pVirtualMemoryBytes pResidentSetSize")


def root(number, name="root"):
    return next(REPORTS.glob(f"{number:02d}-*")) / name


def run(infprof, *words, **arguments):
    return subprocess.run([infprof, "snapshot", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                          **arguments)


def snapshot(infprof, *words):
    done = run(infprof, *words)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    return json.loads(done.stdout.decode("utf-8"))


def is_timed(cell):
    return isinstance(cell, dict) and set(cell) == {"value", "time"} and (cell["value"] is None) == (cell["time"] is None)


def check_nesting(sample):
    assert isinstance(sample["timestamp"], int)
    for section, names in MISSION.items():
        for name in names.split():
            cell = sample[section][name]
            assert is_timed(cell), (section, name, cell)
            if cell["time"] is not None:
                assert isinstance(cell["time"], int) and abs(cell["time"] - sample["timestamp"]) < 60000
    assert is_timed(sample["processes"]["pNumProcesses"])
    for process in sample["processes"]["processes"]:
        for name in PROCESS_LABELS.split():
            assert not isinstance(process[name], dict), name
        for name in PROCESS.split():
            assert is_timed(process[name]), name


@pytest.mark.san
def test_this_machine(infprof):
    sample = snapshot(infprof, "-p")
    check_nesting(sample)
    assert list(sample)[0] == "timestamp"
    me = [process for process in sample["processes"]["processes"] if process["pId"] == os.getpid()]
    assert len(me) == 1 and me[0]["pResidentSetSize"]["value"] > 1 << 20
    assert sample["mem"]["vMemoryTotal"]["value"] > 1 << 26
    assert sample["processes"]["pNumProcesses"]["value"] == len(sample["processes"]["processes"])


def test_without_p_no_process_is_read(infprof):
    sample = snapshot(infprof)
    assert sample["processes"]["processes"] == []


@pytest.mark.san
def test_an_empty_machine(infprof, tmp_path):
    """All sources are missing: exit code 0, every name is there and null, and `sources` says why."""
    sample = snapshot(infprof, "--root", tmp_path, "-p")
    check_nesting(sample)
    for section, names in MISSION.items():
        for name in names.split():
            assert sample[section][name] == {"value": None, "time": None}
    said = {source["collector"] for source in sample["sources"]}
    assert {"cpu", "mem", "disk", "net"} <= said
    for source in sample["sources"]:
        assert source["state"] in ("absent", "denied", "broken") and source["reason"], source
    done = run(infprof, "--root", tmp_path, "--prom")
    assert done.returncode == 0


def test_a_root_that_is_none(infprof, tmp_path):
    for path in (tmp_path / "no", "/etc/passwd"):
        done = run(infprof, "--root", path)
        assert done.returncode == 1 and str(path) in done.stderr.decode()
        assert len(done.stderr.splitlines()) == 1


def test_names_that_are_hard_to_quote(infprof):
    """Report 15: blanks, parentheses, a line feed, and an empty name that is not an absent one."""
    sample = snapshot(infprof, "--root", root(15), "-p")
    names = {process["pId"]: process["pName"] for process in sample["processes"]["processes"]}
    assert names == {2990: "bash", 3001: ") S 1 1 1 (", 3002: "a) R 7 (b", 3003: "", 3004: "two words", 3005: "x\ny"}


SAMPLE = re.compile(rb'([a-z_][a-z0-9_]*)(?:\{((?:[a-z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)+)\})? (\S+)\n')


def page_of(text):
    """{(name, labels): value} of an exposition; the grammar is checked on the way."""
    found, helps, types, family, seen = {}, set(), {}, None, set()
    for line in text.splitlines(keepends=True):
        if line.startswith(b"# HELP "):
            family = line.split(b" ", 3)[2].decode()
            assert family not in helps, f"{family}: two HELP lines, or its samples are not together"
            helps.add(family)
        elif line.startswith(b"# TYPE "):
            name, kind = line.decode().split()[2:]
            assert name == family and kind in ("counter", "gauge")
            assert (kind == "counter") == name.endswith("_total"), name
            types[name] = kind
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            name, labels, value = match[1].decode(), (match[2] or b"").decode(), float(match[3])
            assert name == family and name in types
            assert (name, labels) not in seen, (name, labels)
            seen.add((name, labels))
            found[name, labels] = value
    return found


@pytest.mark.san
def test_prometheus_text(infprof):
    page = page_of(run(infprof, "--prom", "-p").stdout)
    names = {name for name, _ in page}
    assert all(name.startswith("infprof_") for name in names)
    assert page["infprof_host_cpu_user_seconds_total", ""] > 0
    assert [labels for name, labels in page if name == "infprof_host_cpu_user_seconds_total"] == [""]
    cores = [labels for name, labels in page if name == "infprof_cpu_core_user_seconds_total"]
    assert sorted(cores) == sorted(f'core="{core}"' for core in range(len(cores)))
    assert ("infprof_process_threads", f'pid="{os.getpid()}",name="{open("/proc/self/comm").read().strip()}"') in page


def test_prometheus_units(infprof):
    """Report 2: 107501 cs of user time are 1075.01 s, and no rounding shows; report 21: 68.75 % is a ratio of 0.6875."""
    page = page_of(run(infprof, "--prom", "--root", root(2, "t0")).stdout)
    assert page["infprof_host_cpu_user_seconds_total", ""] == 1075.01
    assert page["infprof_cpu_core_user_seconds_total", 'core="3"'] == 298.7
    text = run(infprof, "--prom", "--root", root(21)).stdout.decode()
    assert re.search(r"^infprof_host_memory_\w*ratio 0\.6875$", text, re.M), text


def test_prometheus_labels_are_escaped(infprof):
    page = page_of(run(infprof, "--prom", "-p", "--root", root(15)).stdout)
    assert ("infprof_process_threads", 'pid="3005",name="x\\ny"') in page
    assert ("infprof_process_threads", 'pid="3001",name=") S 1 1 1 ("') in page


@pytest.mark.san
def test_files_of_a_recording(record):
    done = record("-t", "100", command=["sleep", "0.7"])
    assert done.returncode == 0, done.stderr
    files = done.run.snapshots()
    assert len(files) >= 5
    stamps = []
    for path in files:
        sample = json.loads(path.read_text())
        check_nesting(sample)
        assert path.name == f"{done.run.uuid}-{sample['timestamp']}.json"
        assert sample["host"]["vHostname"] is not None  # written once, carried forward
        stamps.append(sample["timestamp"])
    assert stamps == sorted(stamps)
    lists = [{process["pName"]: process["pState"] for process in json.loads(path.read_text())["processes"]["processes"]}
             for path in files]
    assert any(found.get("sleep") == "S" for found in lists)
    # A process is shown with X once, when it ended, and then no more.
    assert sum(found.get("sleep") == "X" for found in lists) <= 1


def test_limit_of_the_snapshots(record):
    done = record("-t", "50", "--snapshot-limit", "100K", command=["sleep", "1.5"])
    assert done.returncode == 0
    files = done.run.snapshots()
    assert files and sum(path.stat().st_size for path in files) <= 100 * 1024
    assert len(files) < len(done.run.table("ticks"))
    assert done.stderr.count("--snapshot-limit") == 1, done.stderr


def test_no_snapshots(record):
    done = record("-t", "100", "--no-snapshots", command=["sleep", "0.3"])
    assert done.returncode == 0 and done.run.snapshots() == []
