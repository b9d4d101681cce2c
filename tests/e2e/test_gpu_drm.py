"""GPUs of AMD and Intel through the real binary: fixture machines against golden files (INFP_UPDATE_GOLDEN=1 writes them anew; their
figures are proven by tests/unit/test_amdgpu.c and test_intel.c), and a recording of a machine whose card the test turns."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from waiting import wait_for_rows

TOP = pathlib.Path(__file__).resolve().parents[2]
MACHINES = ["amdgpu-mi300x", "amdgpu-rx7900", "amdgpu-apu", "intel-arc-xe", "intel-i915"]
SECTIONS = ["amdgpu", "amdgpu_processes", "intel", "intel_processes"]


def table(text):
    """The binary table of a gpu_metrics.txt, as tests/unit/gpu_tree.h makes it."""
    ret = bytearray()
    for line in text.splitlines():
        field = re.match(r"u(\d+)(?:\*(\d+))? \w+(?: = (.*))?$", line)
        pad = re.match(r"pad (\d+)$", line)
        width = int(field[1]) // 8 if field else int(pad[1]) if pad else 1
        ret += bytes(-len(ret) % width)
        if not field:
            assert pad or line.startswith("#"), line
            continue
        values = [int(word, 0) for word in (field[3] or "").split()] or [2 ** (8 * width) - 1]
        for i in range(int(field[2] or 1)):
            ret += values[min(i, len(values) - 1)].to_bytes(width, "little")
    return bytes(ret)


def machine(tmp_path, name):
    root = tmp_path / name
    shutil.copytree(TOP / "tests" / "fixtures" / name, root, symlinks=True)
    for path in root.glob("sys/class/drm/card*/device/gpu_metrics.txt"):
        path.with_suffix("").write_bytes(table(path.read_text()))
    return root


def run(infprof, *words):
    done = subprocess.run([infprof, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def present(row):
    """Without times, and without what the card does not give."""
    plain = {name: value["value"] if isinstance(value, dict) else value for name, value in row.items()}
    return {name: value for name, value in plain.items() if value is not None}


@pytest.mark.san
@pytest.mark.parametrize("name", MACHINES)
def test_golden(infprof, tmp_path, name):
    sample = json.loads(run(infprof, "snapshot", "-p", "--root", str(machine(tmp_path, name)), "--json"))
    result = {section: [present(row) for row in sample[section]] for section in SECTIONS}
    result["sources"] = sorted(f"{row['table_name']} {row['column_name']} {row['instance']} {row['state']}: {row['reason']}"
                               for row in sample["sources"] if row["collector"] in ("amdgpu", "intel") and row["state"] != "ok")
    text = json.dumps(result, indent=1) + "\n"
    path = TOP / "tests" / "golden" / f"{name}.json"
    if os.environ.get("INFP_UPDATE_GOLDEN"):
        path.write_text(text)
    assert json.loads(path.read_text()) == json.loads(text)


def test_doctor(infprof, tmp_path):
    # A tree of a card alone has no CPUs: doctor says so by its exit code.
    done = subprocess.run([infprof, "doctor", "--root", machine(tmp_path, "amdgpu-mi300x")], stdout=subprocess.PIPE, timeout=60)
    assert re.search(rb"amdgpu0 +ok +AMD Instinct MI300X OAM, 192 GiB, at 0000:05:00.0", done.stdout)


def write(path, text):
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.rename(path)


def test_recording(infprof, tmp_path):
    """A card of 200 W for 2 s or so, then asleep: integrated power stops, nothing is invented, and the reason is kept."""
    root = machine(tmp_path, "amdgpu-rx7900")
    device = root / "sys/class/drm/card0/device"
    write(device / "hwmon/hwmon2/power1_average", "200000000\n")
    with subprocess.Popen([infprof, "record", "--root", root, "-o", tmp_path / "out", "-t", "200", "--duration", "5", "--no-snapshots"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as recorder:
        wait_for_rows(infprof, tmp_path / "out", 4, "amdgpu")
        write(device / "power/runtime_status", "suspended\n")
        assert recorder.wait(timeout=60) == 0, recorder.stderr.read().decode()
    rows = json.loads(run(infprof, "query", "-r", str(tmp_path / "out"), "--json",
                          "SELECT t_ns, gPowerDrawW, gEnergyJoules, gEnergySource, gUtilizationGpu FROM amdgpu ORDER BY t_ns"))
    awake = [row for row in rows if row["gUtilizationGpu"] is not None]
    assert len(awake) >= 3 and len(rows) >= len(awake) + 3
    assert rows[:len(awake)] == awake, "it was read after it slept"
    joules = awake[-1]["gEnergyJoules"]
    assert joules == pytest.approx(200 * (awake[-1]["t_ns"] - awake[0]["t_ns"]) / 1e9, rel=1e-6)
    assert {row["gEnergySource"] for row in awake[1:]} == {"power"}
    assert all(row["gEnergyJoules"] is None for row in rows[len(awake):])
    reasons = json.loads(run(infprof, "query", "-r", str(tmp_path / "out"), "--json",
                             "SELECT reason FROM sources WHERE collector = 'amdgpu' AND state = 'absent' AND instance = '0000:03:00.0'"))
    assert any("sleeps" in row["reason"] for row in reasons)
