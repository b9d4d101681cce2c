"""GPUs of NVIDIA: old and new drivers, cards of several kinds, MIG, and what drivers get wrong."""
import json
import subprocess
import sys
import time

import pytest

from nvml import MIB, gpus, machine  # noqa: F401 (fixture)
from test_nvidia import ask, query, report, said, snapshot


def processes(sample):
    """{pid: (type, MiB, SM share)}"""
    rows = [{name: cell["value"] if isinstance(cell, dict) and "value" in cell else cell for name, cell in row.items()}
            for row in sample["nvidia_processes"]]
    return {row["gPid"]: (row["gProcessType"], None if row["gProcessMemoryBytes"] is None else row["gProcessMemoryBytes"] // MIB,
                          row["gProcessSm"]) for row in rows}


TWO = ("0 process 4001 type=CG memory=1073741824 sm=40 mem=10", "0 process 4002 memory=524288000 sm=7",
       "0 process 4003 type=G memory=104857600")


@pytest.mark.san
@pytest.mark.parametrize("variant", ["470", "535", "550", "580", "old-lists", "no-lists"])
def test_driver(infprof, machine, variant):
    """Symbols come and go: the same values from each, but for what a driver cannot tell."""
    record_size = {"no-lists": ["system process_record 32"]}.get(variant, [])
    driver = variant if variant.isdigit() else {"old-lists": "470", "no-lists": "535"}[variant]
    box = machine("0 profile a100", *record_size, *TWO, variant=variant, driver=f"{driver}.1.2")
    sample = snapshot(infprof, box)
    values = gpus(sample)[0]
    is_old = driver == "470"
    assert values["gMemoryTotalMb"] == 40960
    # Before 510 the driver does not tell its own part from the rest.
    assert values["gMemoryUsedMb"] == (34840 + 620 if is_old else 34840)
    assert values["gMemoryReservedMb"] == (None if is_old else 620)
    assert values["gTemperatureC"] == 58 and values["gPowerDrawW"] == 318.45 and values["gClockSmMhz"] == 1410
    assert values["gPowerAverageW"] == (None if is_old else 315.2)
    assert values["gRemappedRowsCorrectable"] == 2 and values["gNvlinkCount"] == 12 and values["gPcieReplays"] == 3
    assert values["gClocksEventReasons"] == 0 and values["gClocksEventReasonsText"] == "none"
    assert processes(sample) == {4001: ("CG", 1024, 40), 4002: ("C", 500, 7), 4003: ("G", 100, 0)}


def test_newer_forms_are_asked_rightly(infprof, machine):
    """Without the old calls, into which a wrong version word would fall back unseen."""
    old = ("nvmlDeviceGetTemperature", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetFanSpeed",
           "nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGet*RunningProcesses", "nvmlDeviceGet*RunningProcesses_v2")
    box = machine("0 profile rtx4090", "0 temperature.margin 24", *TWO, *(f"0 {name} rc=13" for name in old))
    sample = snapshot(infprof, box)
    values = gpus(sample)[0]
    assert (values["gTemperatureC"], values["gTemperatureMarginC"], values["gFanSpeed"], values["gFanRpm"]) == (66, 24, 41, 1410)
    assert values["gMemoryReservedMb"] == 426 and values["gClocksEventReasons"] == 0
    assert processes(sample) == {4001: ("CG", 1024, 40), 4002: ("C", 500, 7), 4003: ("G", 100, 0)}


def test_only_what_every_monitor_needs(infprof, machine):
    box = machine("0 profile h100", variant="bare")
    sample = snapshot(infprof, box)
    (values,) = gpus(sample).values()
    assert values["gUtilizationGpu"] is None and values["gPowerDrawW"] is None and values["gProcessCount"] is None
    assert snapshot(infprof, machine("0 profile h100", variant="broken"))["nvidia"] == []


def test_cards(infprof, machine):
    """A card with fans, one that retires pages, one without a memory of its own."""
    box = machine("0 profile rtx4090", "1 profile t4", "2 profile gb10", devices=3)
    sample = gpus(snapshot(infprof, box))
    geforce, tesla, soc = sample[0], sample[1], sample[2]
    assert geforce["gFanSpeed"] == 41 and geforce["gFanRpm"] == 1410
    fans = geforce["gFans"] if isinstance(geforce["gFans"], list) else json.loads(geforce["gFans"])
    assert [fan["percent"] for fan in fans] == [41, 43]
    assert geforce["gEccSingleBitErrors"] is None and geforce["gNvlinkCount"] is None and geforce["gTemperatureMemoryC"] is None
    assert (geforce["gUtilizationEncoder"], geforce["gUtilizationDecoder"]) == (12, 3)
    assert (tesla["gRetiredPagesSingleBit"], tesla["gRetiredPagesDoubleBit"], tesla["gRetiredPagesPending"]) == (3, 1, True)
    assert tesla["gRemappedRowsFailure"] is None and tesla["gPerfState"] == "P0" and tesla["gEccDoubleBitErrors"] == 0
    assert "sw_power_cap" in tesla["gClocksEventReasonsText"] and "sw_thermal_slowdown" in tesla["gClocksEventReasonsText"]
    assert soc["gMemoryTotalMb"] is None and soc["gMemoryUsedMb"] is None and soc["gPowerLimitW"] is None
    assert soc["gUtilizationGpu"] == 95 and soc["gPowerDrawW"] == 43.27


def test_a_total_of_zero_is_none(infprof, machine):
    """Others of such systems answer, with 0 of 0."""
    sample = gpus(snapshot(infprof, machine("0 profile gb10", "0 memory.total 0", "0 memory.used 0")))
    assert sample[0]["gMemoryTotalMb"] is None and sample[0]["gMemoryUsedMb"] is None


@pytest.mark.san
def test_not_available(infprof, machine):
    """All bits set means that there is no value, never 16 EiB; a share above 100 is no share."""
    box = machine("0 profile h100", "0 power.usage 4294967295", "0 temperature.memory 4294967295", "0 energy 18446744073709551615",
                  "0 utilization.gpu 4294967295", "0 ecc.corrected.volatile 18446744073709551615", "0 pstate 32",
                  "0 process 4001 type=C", "0 process 4002 memory=1048576 sm=173 mem=5")
    sample = snapshot(infprof, box)
    values = gpus(sample)[0]
    for name in ("gPowerDrawW", "gUtilizationGpu", "gEnergyMj", "gEccSingleBitErrors", "gPerfState", "gTemperatureMemoryC"):
        assert values[name] is None, name
    # No sample is 0: the driver lists those that did something. A sample that is none says nothing.
    assert processes(sample) == {4001: ("C", None, 0), 4002: ("C", 1, None)}
    assert "EiB" not in json.dumps(sample)


@pytest.mark.san
def test_garbage_of_shares(infprof, record, machine):
    """Samples of dead processes, stale ones, and none at all."""
    box = machine("0 profile h100", "0 process 4001 memory=1048576 sm=50", "0 process 4002 memory=1048576 sm=30 age=60000",
                  "0 use 4999 sm=80", "1 profile h100", "1 uuid GPU-1", "1 process 4003 memory=1048576", devices=2)
    done = record("-t", 100, "--duration", "700ms", "--no-finish", env=box.env)
    assert done.returncode == 0, done.stderr
    shares = {}
    for row in done.run.table("nvidia_processes"):
        shares.setdefault(row["gPid"], set()).add(row["gProcessSm"])
    assert set(shares) == {4001, 4002, 4003}
    assert 50 in shares[4001] and not shares[4002] - {None, 0} and not shares[4003] - {None, 0}


@pytest.mark.san
def test_list_grows_between_the_calls(infprof, record, machine):
    """The driver said n and has more when the list is fetched."""
    grown = [f"0 process {5000 + i} memory=1048576 call={2 + i // 3}" for i in range(60)]
    box = machine("0 profile h100", "0 process 4001 memory=1048576", *grown)
    done = record("-t", 100, "--duration", "1500ms", "--no-finish", env=box.env)
    assert done.returncode == 0, done.stderr
    rows = done.run.table("nvidia")
    counts = [row["gProcessCount"] for row in rows if row["gProcessCount"] is not None]
    assert counts[-1] > 20 and counts == sorted(counts)
    last = max(row["t_ns"] for row in done.run.table("nvidia_processes"))
    pids = [row["gPid"] for row in done.run.table("nvidia_processes") if row["t_ns"] == last]
    assert len(pids) == len(set(pids)) == counts[-1]


def test_energy_counter_begins_again(infprof, record, machine):
    """The driver was loaded anew: joules never fall, and only what the new counter shows is added."""
    box = machine("0 profile h100", "0 energy 500000000 rate=200000", "0 energy 1000 rate=200000 at=1000")
    done = record("-t", 100, "--duration", "2500ms", env=box.env)
    assert done.returncode == 0, done.stderr
    rows = [row for row in done.run.table("nvidia") if row["gEnergyJoules"] is not None]
    joules = [row["gEnergyJoules"] for row in rows]
    assert joules == sorted(joules)
    assert {row["gEnergyMj"] > 400_000_000 for row in rows} == {True, False}
    seconds = (rows[-1]["t_ns"] - rows[0]["t_ns"]) / 1e9
    assert joules[-1] - joules[0] == pytest.approx(200 * seconds, abs=60)


def test_energy_without_a_counter(infprof, record, machine):
    """Power integrated, and named so; the report says that it is an estimate."""
    box = machine("0 profile h100", "0 energy none", "0 power.usage 300000", "0 power.instant none", "0 power.average none")
    done = record("-t", 100, "--duration", "2s", env=box.env)
    assert done.returncode == 0, done.stderr
    rows = [row for row in done.run.table("nvidia") if row["gEnergyJoules"] is not None]
    assert {(row["gEnergySource"], row["gEnergyQuality"], row["gEnergyMj"]) for row in rows[1:]} == {("power", "estimated", None)}
    seconds = (rows[-1]["t_ns"] - rows[0]["t_ns"]) / 1e9
    assert rows[-1]["gEnergyJoules"] - rows[0]["gEnergyJoules"] == pytest.approx(300 * seconds, rel=1e-6)
    about = report(infprof, done.run)
    assert about["gpus"][0]["energy_quality"] == "estimated" and about["energy"]["gpu_quality"] == "estimated"
    assert "ESTIMATED from power" in ask(infprof, "report", "--full", "-r", done.run.path)


@pytest.mark.san
@pytest.mark.parametrize("is_allowed", [True, False])
def test_mig(infprof, record, machine, is_allowed):
    """Two parts of one GPU: what the parent cannot tell is absent, power is the parent's alone. Without rights only the parts tell
    their processes."""
    part = ("attribute.multiprocessors 14", "attribute.gpu_slices 1", "memory.total 10468982784", "memory.reserved 0", "gpm.5 12.5",
            "gpm.10 25")
    lines = ["0 profile h100", "0 mig.mode 1", "0 utilization.gpu none"]
    for number, gi in ((0, 7), (1, 9)):
        lines += [f"0/{number} name NVIDIA H100 80GB HBM3 MIG 1g.10gb", f"0/{number} uuid MIG-{number}", f"0/{number} gi {gi}",
                  f"0/{number} ci 0", f"0/{number} memory.used {(number + 1) * 1073741824}",
                  f"0/{number} process {6000 + number} memory=1073741824 gi={gi} ci=0", *(f"0/{number} {line}" for line in part)]
    box = machine(*lines, *([] if is_allowed else ["0 nvmlDeviceGetComputeRunningProcesses* rc=4"]))
    done = record("-t", 200, "--duration", "1200ms", "--no-finish", env=box.env)
    assert done.returncode == 0, done.stderr
    rows = done.run.table("nvidia")
    assert {row["gUtilizationGpu"] for row in rows} == {None} and {row["gPowerDrawW"] for row in rows} == {512.34}
    assert {row["gMigMode"] for row in rows} == {"enabled"} and {row["gMigDevices"] for row in rows} == {2}
    parts = done.run.table("nvidia_mig")
    assert {(row["gMigUuid"], row["gGpuInstance"], row["gMigMemoryUsedBytes"]) for row in parts} == {
        ("MIG-0", 7, 1073741824), ("MIG-1", 9, 2 * 1073741824)}
    assert {row["gMigSmCount"] for row in parts} == {14} and parts[-1]["gMigDramBandwidth"] == 25
    assert {row["gPid"]: row["gGpuInstance"] for row in done.run.table("nvidia_processes")} == {6000: 7, 6001: 9}


def test_counters_in_the_chip(infprof, record, machine):
    """GPM lies between two samples: the first one gives none."""
    box = machine("0 profile h100", "1 profile a100", devices=2)
    done = record("-t", 200, "--duration", "1200ms", env=box.env)
    assert done.returncode == 0, done.stderr
    hopper = [row for row in done.run.table("nvidia") if row["gGpuIndex"] == 0]
    ampere = [row for row in done.run.table("nvidia") if row["gGpuIndex"] == 1]
    assert hopper[0]["gGpmDramBandwidth"] is None
    last = hopper[-1]
    assert (last["gGpmSmActive"], last["gGpmTensorActive"], last["gGpmDramBandwidth"]) == (71.25, 18.75, 61.5)
    # 2 x 2619 MHz x 5120 bits: the peak of an H100.
    assert last["gMemoryBandwidthKbps"] == pytest.approx(0.615 * 2 * 2619e6 * 640 / 1024, rel=0.01)
    assert {row["gGpmDramBandwidth"] for row in ampere} == {None}
    assert report(infprof, done.run)["gpus"][0]["memory_bandwidth_percent"] == 61.5


def test_xid(infprof, record, machine):
    box = machine("* profile h100", "1 uuid GPU-1", "1 xid 79 at=600", "1 xid 94 at=900", devices=2)
    done = record("-t", 100, "--duration", "1800ms", env=box.env)
    assert done.returncode == 0, done.stderr
    last = {row["gGpuIndex"]: (row["gXidErrors"], row["gXidLast"]) for row in done.run.table("nvidia")}
    assert last[1] == (2, 94) and last[0][1] is None
    assert report(infprof, done.run)["gpus"][1]["xid_errors"] == 2


def test_the_target_on_its_gpu(infprof, record, machine):
    """Whose memory it is, joined with the process that was attached to."""
    target = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        time.sleep(0.2)  # sleep: its name is that of the program once it was started
        box = machine("0 profile h100", f"0 process {target.pid} type=C memory=64424509440 sm=85", "0 process 4100 memory=1048576 sm=3")
        done = record("-t", 200, "--duration", "1500ms", "--pid", target.pid, env=box.env)
    finally:
        target.kill()
        target.wait()
    assert done.returncode == 0, done.stderr
    own = [row for row in done.run.table("nvidia_processes") if row["gPid"] == target.pid]
    if own[0]["gPidIsHost"]:
        pytest.skip("pids of the driver are those of the host: this is another pid namespace")
    assert {row["gInTree"] for row in own} <= {True, None} and own[-1]["gInTree"] and own[0]["gProcessName"].startswith("python")
    (joined,) = query(infprof, done.run, "SELECT count(*) AS n FROM nvidia_processes n JOIN processes p ON n.process = p.process "
                                         f"WHERE n.gPid = {target.pid}")
    assert joined["n"] > 0
    first, second = report(infprof, done.run)["gpus"][0]["processes"]
    assert (first["pid"], first["is_target"], first["memory_peak_bytes"], first["sm_percent"]) == (target.pid, True, 64424509440, 85)
    assert second["pid"] == 4100 and not second["is_target"]
    text = " ".join(ask(infprof, "report", "--full", "-r", done.run.path).split())
    assert f"({target.pid}), the target's, 60.0 GiB at most, busy for it 85.0 % of the time" in text


@pytest.mark.parametrize("driver, is_there", [
    ("570.86.10", False), ("575.51.03", True), ("580.65.06", True), ("590.44.01", True), ("", False)])
def test_fields_that_were_numbered_anew(infprof, machine, driver, is_there):
    """Between drivers 580 and 590; what the other driver has under their numbers is no time."""
    sample = snapshot(infprof, machine("0 profile h100", "0 violation.sw_thermal 11000", "0 violation.hw_thermal 12000",
                                       "0 violation.hw_brake 13000", "0 smoothing.enabled 1", "0 smoothing.profile 2",
                                       "0 smoothing.floor 3", "0 smoothing.ramp_up 4", driver=driver))
    values = gpus(sample)[0]
    assert [values[f"gViolation{name}Ns"] for name in ("SwThermal", "HwThermal", "HwPowerBrake")] == (
        [11000, 12000, 13000] if is_there else [None] * 3)


@pytest.mark.parametrize("bits", [2 ** 32 - 1, 2 ** 64 - 1])
def test_all_bits_set_is_no_value(infprof, machine, bits):
    """A failing library leaves them behind."""
    keys = ("memory.total", "memory.used", "memory.reserved", "bar1.total", "bar1.used", "temperature.gpu", "temperature.shutdown",
            "temperature.slowdown", "power.min", "power.max", "remap.corrected", "remap.uncorrected", "clock.sm", "gpm.20")
    values = gpus(snapshot(infprof, machine("0 profile h100", *(f"0 {key} {bits}" for key in keys))))[0]
    assert [values[name] for name in ("gMemoryFreeMb", "gTemperatureC", "gTemperatureShutdownC", "gTemperatureSlowdownC",
                                      "gPowerLimitMinW", "gPowerLimitMaxW", "gClockSmMhz",
                                      "gRemappedRowsCorrectable")] == [None] * 8
    assert values["gMemoryUsedBytes"] is None and values["gUtilizationGpu"] == 87
    assert values["gGpmPcieTxKbps"] is None or values["gGpmPcieTxKbps"] < 1e13
