"""Fixture machines through the real binary against golden files, and the tools that make such machines.

INFP_UPDATE_GOLDEN=1 writes the golden files anew; the figures in them are proven by tests/unit/test_collectors_host.c.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
SECTIONS = ["cpu", "cpu_core", "mem", "disk", "disk_device", "net", "net_interface", "host"]
COLLECTORS = ["cpu", "cpu_clock", "mem", "disk", "net", "host"]


def snapshot(infprof, root):
    done = subprocess.run([infprof, "snapshot", "--root", str(root), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def without_times(value):
    if isinstance(value, list):
        return [without_times(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"value", "time"}:
            assert (value["value"] is None) == (value["time"] is None)
            return value["value"]
        return {name: without_times(item) for name, item in value.items()}
    return value


def metrics_and_reasons(sample):
    result = {name: without_times(sample[name]) for name in SECTIONS}
    result["sources"] = sorted(f"{row['table_name']} {row['column_name']} {row['state']}: {row['reason']}"
                               for row in sample["sources"] if row["collector"] in COLLECTORS and row["state"] != "ok")
    return result


@pytest.mark.san
@pytest.mark.parametrize("machine", ["bare-metal", "vm", "hybrid-cgroup"])
def test_golden(infprof, machine):
    path = TOP / "tests" / "golden" / f"machine-{machine}.json"
    text = json.dumps(metrics_and_reasons(snapshot(infprof, TOP / "tests" / "fixtures" / machine)), indent=1) + "\n"
    if os.environ.get("INFP_UPDATE_GOLDEN"):
        path.write_text(text)
    assert json.loads(path.read_text()) == json.loads(text)


def generate(directory, *words):
    return subprocess.run([TOP / "tools" / "generate_testdata.sh", directory, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60)


@pytest.mark.san
def test_mock_machine(infprof, tmp_path):
    """The figures are those of the head of tools/generate_testdata.sh."""
    assert generate(tmp_path / "mock", "4").returncode == 0
    sample = without_times(snapshot(infprof, tmp_path / "mock"))
    assert sample["cpu"]["vCpuTimeUserMode"] == 4 * 1000 + 6
    assert sample["cpu"]["vCpuTime"] == 4 * 1500 + 12
    assert sample["cpu"]["vCpuMhz"] == 2001.5
    assert [core["vCpuIdleTime"] for core in sample["cpu_core"]] == [8000, 8001, 8002, 8003]
    assert sample["mem"]["vMemoryPercent"] == 37.5
    assert sample["mem"]["vMemoryUsed"] == 6200000 * 1024
    assert sample["disk"]["vDiskReadBytes"] == 30000 * 512
    assert sample["net"]["vNetworkBytesRecvd"] == 3000000
    assert sample["host"]["vNumProcessors"] == 4
    assert {zone["domain"]: zone["eRawUj"] for zone in sample["energy"]} == {
        "package-0": 262142328850, "package-0/core": 262142328850, "dram-0": 65711999613}
    assert sample["host"]["vCpuCacheL1d"] == 4 * 32768


def test_mock_machine_refuses(tmp_path):
    (tmp_path / "file").write_text("precious")
    for words, code, says in [((), 2, "usage"), ((tmp_path,), 1, "not empty"), ((tmp_path / "new", "0"), 2, "CPUS"),
                              ((tmp_path / "new", "x"), 2, "CPUS")]:
        done = subprocess.run([TOP / "tools" / "generate_testdata.sh", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == code
        assert says in done.stderr
    assert (tmp_path / "file").read_text() == "precious"


def all_text(directory):
    return "\n".join(f"{path}\n{path.read_bytes().decode('utf-8', 'replace')}" for path in sorted(directory.rglob("*")) if path.is_file())


def test_capture_is_scrubbed(infprof, tmp_path):
    words = ["--token=tok-1234567", "--api-key", "key-1234567", "API_SECRET=sec-1234567", "Authorization: Bearer aut-1234567",
             "hf_abcdefgh1234567", "http://user:pas-1234567@198.51.100.7:80/", "02:42:ac:11:00:02"]
    with subprocess.Popen([sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", *words],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        done = subprocess.run([TOP / "tools" / "capture-root", "-p", str(child.pid), tmp_path / "root"], stderr=subprocess.PIPE, text=True)
        child.stdin.close()
    assert done.returncode == 0, done.stderr
    text = all_text(tmp_path / "root")
    for secret in ("1234567", "198.51.100.7", "02:42:ac:11:00:02",
                   pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()):
        assert secret not in text, secret
    cmdline = (tmp_path / "root" / "proc" / str(child.pid) / "cmdline").read_bytes().decode().rstrip("\0").split("\0")
    assert cmdline[3:8] == ["--token=***", "--api-key", "***", "API_SECRET=***", "Authorization: ***"]
    machine_id = pathlib.Path("/etc/machine-id")
    if machine_id.exists() and machine_id.read_text().strip():
        assert machine_id.read_text().strip() not in text
        assert re.fullmatch(r"c0ffee[0-9a-f]{26}\n", (tmp_path / "root" / "etc" / "machine-id").read_text())
    # What was captured is a machine: infprof sees in it what it sees here.
    captured, here = (without_times(snapshot(infprof, root)) for root in (tmp_path / "root", "/"))
    assert captured["host"]["vHostname"] == "host"
    for name in ("vNumProcessors", "vCpuType", "vCpuCacheL2", "vMemoryTotalBytes", "vCgroupMode", "vBootTime"):
        assert captured["host"][name] == here["host"][name], name
    assert captured["cpu"]["vCpuTimeUserMode"] <= here["cpu"]["vCpuTimeUserMode"]


def test_capture_refuses(tmp_path):
    (tmp_path / "file").write_text("precious")
    for words, says in [((tmp_path,), "not empty"), (("-p", "999999999", tmp_path / "new"), "no process 999999999")]:
        done = subprocess.run([TOP / "tools" / "capture-root", *words], stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1
        assert says in done.stderr
