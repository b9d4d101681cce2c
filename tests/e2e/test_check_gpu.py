"""tools/check-gpu, which people run on machines with a real GPU: it passes where infprof and nvidia-smi agree, fails where they do
not, and says when there is nothing to check."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

from nvml import machine  # noqa: F401 (fixture)

TOP = pathlib.Path(__file__).resolve().parents[2]
CHECK = TOP / "tools" / "check-gpu"
SMI = TOP / "tests" / "fakes" / "nvidia-smi"

# What nvidia-smi shows of the H100 that the fake library is.
H100 = {"uuid": "GPU-00000000-5a5a-4b4b-8c8c-000000000100", "name": "NVIDIA H100 80GB HBM3", "pci.bus_id": "00000000:18:00.0",
        "pstate": "P0", "utilization.gpu": 87, "utilization.memory": 46, "memory.total": 81559, "memory.used": 69488,
        "memory.free": 11517, "memory.reserved": 553, "temperature.gpu": 54, "temperature.memory": 63, "power.draw": 512.34,
        "enforced.power.limit": "700.00", "clocks.gr": 1755, "clocks.sm": 1755, "clocks.mem": 2619, "fan.speed": "[N/A]",
        "pcie.link.gen.current": 5, "ecc.errors.corrected.volatile.total": 0}


def check(infprof, box, tmp_path, *options, apps=(), **values):
    """What the tool printed, and the names of what failed."""
    known = tmp_path / "smi.json"
    known.write_text(json.dumps({"gpus": [{**H100, **values}], "apps": list(apps)}))
    words = [sys.executable, str(CHECK), "--infprof", infprof, "--nvidia-smi", str(SMI), *map(str, options)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                          env={**box.env, "FAKE_SMI": str(known)})
    failed = {line.split()[2] for line in done.stdout.splitlines() if line.startswith("FAILED nvidia")}
    return done, failed


@pytest.mark.serial
def test_agreement(infprof, machine, tmp_path):
    """All values, the process, energy. The cost of the metering is printed: its limit of CPU is for who runs the tool."""
    box = machine("0 profile h100", "0 process 4001 memory=1073741824 sm=40")
    done, failed = check(infprof, box, tmp_path, "--seconds", 2, apps=[[H100["uuid"], 4001, 1024]])
    broken = [line for line in done.stdout.splitlines() if line.startswith("FAILED") and "cost at 10 Hz" not in line]
    assert not failed and not broken and "1 GPUs: " in done.stdout, done.stdout
    assert "nvidia0 energy (counter)" in done.stdout and "cost at 10 Hz" in done.stdout
    assert "nvidia0 fan.speed = gFanSpeed" in done.stdout and "neither has it" in done.stdout
    assert "process 4001" in done.stdout and "retired_pages" not in done.stdout


def test_disagreement(infprof, machine, tmp_path):
    """Each of these is told, and nothing else: memory with the driver's part in it, a value that only one of them has, a wrong one,
    a counter of energy that is not what the power says, a process that is not listed."""
    box = machine("0 profile h100", "0 energy 1000000 rate=100000")
    wrong = {"memory.used": 70041, "fan.speed": 30, "temperature.gpu": 71, "pstate": "P8"}
    done, failed = check(infprof, box, tmp_path, "--seconds", 2, "--no-cost", apps=[[H100["uuid"], 4001, 1024]], **wrong)
    assert done.returncode == 1 and failed == {*wrong, "energy", "process"}, done.stdout


def test_infprof_sees_no_gpu(infprof, machine, tmp_path):
    """The GPU is there, and infprof says why it cannot be read: a failure, not a pass."""
    box = machine("0 profile h100", "system nvmlInit_v2 rc=18")
    done, _ = check(infprof, box, tmp_path, "--seconds", 1, "--no-cost")
    assert done.returncode == 1 and "different versions" in done.stdout, done.stdout
    assert "FAILED nvidia0 is recorded" in done.stdout, done.stdout


def test_no_gpu_here(infprof, tmp_path):
    """77, and a sentence: neither passed nor failed."""
    known = tmp_path / "smi.json"
    known.write_text('{"gpus": []}')
    words = [sys.executable, str(CHECK), "--infprof", infprof]
    done = subprocess.run([*words, "--nvidia-smi", str(SMI)], stdout=subprocess.PIPE, text=True, timeout=60,
                          env={**os.environ, "FAKE_SMI": str(known)})
    assert done.returncode == 77 and "No devices were found" in done.stdout and "nothing was checked" in done.stdout
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=60, env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 77 and "nvidia-smi is not installed" in done.stdout
