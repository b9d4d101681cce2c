"""GPUs of NVIDIA through the real binary, by a library that answers as a script says: the script is the truth."""
import http.server
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from nvml import MIB, gpus, machine, reported  # noqa: F401 (fixtures)
from waiting import wait_for


def ask(infprof, *words, env=None):
    done = subprocess.run([infprof, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def snapshot(infprof, box):
    return json.loads(ask(infprof, "snapshot", "--json", env=box.env))


def report(infprof, run):
    return json.loads(ask(infprof, "report", "-r", run.path, "--json"))


def query(infprof, run, sql):
    return json.loads(ask(infprof, "query", "-r", run.path, "-f", "json", sql))


def said(run, instance=None):
    """Words of `sources` about the collector: {(instance, column): (state, reason, fix)}, the last of each."""
    return {(row["instance"] or "", row["column_name"] or ""): (row["state"], row["reason"] or "", row["fix"] or "")
            for row in run.table("sources") if row["collector"] == "nvidia"}


H100 = {"gUtilizationGpu": 87, "gUtilizationMem": 46, "gMemoryTotalMb": 81559, "gMemoryUsedMb": 69488, "gMemoryFreeMb": 11517,
        "gMemoryReservedMb": 553, "gBar1UsedMb": 72, "gTemperatureC": 54, "gTemperatureMemoryC": 63, "gPowerDrawW": 512.34,
        "gPowerInstantW": 540.125, "gPowerLimitW": 700.0, "gClockGraphicsMhz": 1755, "gClockMemMhz": 2619, "gPerfState": "P0",
        "gPcieGen": 5, "gPcieWidth": 16, "gNvlinkCount": 18, "gEccSingleBitErrors": 0, "gEccAggregateSingleBitErrors": 2,
        "gClocksEventReasons": 4, "gFanSpeed": None, "gXidLast": None, "gRetiredPagesSingleBit": None,
        "gRemappedRowsPending": False, "gUuid": "GPU-00000000-5a5a-4b4b-8c8c-000000000100"}


@pytest.mark.san
def test_snapshot_is_shaped_as_the_mission_says(infprof, machine):
    box = machine("0 profile h100", "0 process 1 type=CG memory=2147483648 sm=33")
    sample = snapshot(infprof, box)
    (gpu,) = sample["nvidia"]
    assert gpu["gGpuIndex"] == 0
    assert set(gpu["gUtilizationGpu"]) == {"value", "time"} and abs(gpu["gUtilizationGpu"]["time"] / 1000 - time.time()) < 60
    values = gpus(sample)[0]
    for name, right in H100.items():
        assert values[name] == (pytest.approx(right) if isinstance(right, float) else right), name
    assert values["gProcessCount"] == 1
    assert len(values["gProcesses"]) >= 1 and "(2048 MB)" in json.dumps(values["gProcesses"])
    page = ask(infprof, "snapshot", "--prom", env=box.env)
    line = next(line for line in page.splitlines() if line.startswith("infprof_gpu_power_watts{"))
    assert 'gpu="0"' in line and 'uuid="GPU-00000000-5a5a-4b4b-8c8c-000000000100"' in line and line.endswith(" 512.34")
    names = {row["name"] for row in json.loads(ask(infprof, "metrics", "--json")) if row["table"] == "nvidia"}
    assert set(H100) <= names


def test_recording_of_ten(infprof, record, machine):
    """Ten GPUs: series, SQL, static record, report, Prometheus."""
    lines = ["* profile h100"]
    for i in range(10):
        lines += [f"{i} uuid GPU-{i:032x}", f"{i} bus 00000000:{0x10 + i:02X}:00.0", f"{i} utilization.gpu {10 * i}",
                  f"{i} energy {1_000_000 * i} rate={100_000 * (i + 1)}"]
    box = machine(*lines, devices=10)
    done = record("-t", 200, "-f", "csv", "--duration", "2s", env=box.env)
    assert done.returncode == 0, done.stderr
    run = done.run
    header, *rows = (run.output / f"{run.uuid}.csv").read_text().splitlines()
    at = {name: column for column, name in enumerate(header.split(","))}
    cells = rows[-2].split(",")
    for i in range(10):
        assert cells[at[f"nvidia{i}_gUtilizationGpu"]] == str(10 * i)
        assert float(cells[at[f"nvidia{i}_gPowerDrawW"]]) == 512.34
        assert int(cells[at[f"nvidia{i}_gUtilizationGpu_time"]]) > 1.7e12
    static = json.loads((run.output / f"static_{run.uuid}.json").read_text())["nvidia"]
    assert (static["gDriverVersion"], static["gCudaVersion"]) == ("580.65.06", "13.0")
    assert [gpu["gUuid"] for gpu in static["gpus"]] == [f"GPU-{i:032x}" for i in range(10)]
    assert static["gpus"][0]["gName"] == "NVIDIA H100 80GB HBM3" and static["gpus"][0]["gTotalMemoryMb"] == 81559
    assert static["gpus"][3]["gPciBusId"].lower().endswith("13:00.0")
    assert (static["gpus"][0]["gMaxGraphicsClock"], static["gpus"][0]["gMaxMemClock"]) == (1980, 2619)
    found = query(infprof, run, "SELECT gGpuIndex AS i, count(*) AS n, max(gEnergyJoules) - min(gEnergyJoules) AS j, "
                                "(max(t_ns) - min(t_ns)) / 1e9 AS s FROM nvidia GROUP BY i ORDER BY i")
    assert [row["i"] for row in found] == list(range(10)) and min(row["n"] for row in found) >= 7
    for row in found:
        assert row["j"] == pytest.approx(100 * (row["i"] + 1) * row["s"], rel=0.15)
    about = report(infprof, run)
    assert [gpu["gpu"] for gpu in about["gpus"]] == [f"nvidia{i}" for i in range(10)]
    assert about["gpus"][7]["utilization_percent"] == 70 and about["gpus"][7]["energy_source"] == "counter"
    assert about["gpus"][7]["held_back_ratio"]["power_limit"] == pytest.approx(0.25, rel=0.05)
    assert about["energy"]["gpu_joules"] == pytest.approx(sum(gpu["energy_joules"] for gpu in about["gpus"]))
    assert {d["domain"] for d in about["energy"]["domains"] if d["is_gpu"] and d["in_total"]} == {f"nvidia{i}" for i in range(10)}
    page = ask(infprof, "export", "-r", run.path, "nvidia", "-f", "prom")
    assert 'infprof_gpu_utilization_ratio{gpu="9"' in page and "infprof_gpu_energy_joules_total{" in page


def test_slow_gpu_disturbs_nobody(infprof, record, machine):
    """Each answer of the driver takes 2 s: ticks and CPU stay on time."""
    box = machine("0 profile h100", "0 nvmlDeviceGetUtilizationRates delay=2000")
    done = record("-t", 100, "--duration", "3s", env=box.env)
    assert done.returncode == 0, done.stderr
    late = sorted(row["late_ns"] for row in done.run.table("ticks"))
    assert len(late) >= 25 and late[len(late) // 2] < 50_000_000
    assert len(done.run.table("cpu")) >= 25
    rows = done.run.table("nvidia")
    assert 1 <= len(rows) <= 3 and rows[0]["gUtilizationGpu"] == 87


def test_recording_ends_while_the_driver_hangs(infprof, record, machine):
    """A driver that never returns holds up neither the rest nor the end, and `sources` names it."""
    box = machine("0 profile h100", "0 nvmlDeviceGetPowerUsage delay=90000 at=500")
    begun = time.monotonic()
    # The thread that hangs keeps its memory.
    done = record("-t", 100, "--duration", "2s", "--no-finish", env={**box.env, "ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 0 and time.monotonic() - begun < 30, done.stderr
    assert "nvidia: it has not returned" in done.stderr
    assert said(done.run)["", "*"][0] == "late"
    assert len(done.run.table("cpu")) >= 15 and len(done.run.table("nvidia")) >= 2


@pytest.mark.parametrize("verb, key", [("snapshot", "nvidia"), ("doctor", "findings")])
@pytest.mark.parametrize("call", ["nvmlInit_v2", "nvmlDeviceGetPowerUsage"])
def test_one_look_ends_while_the_driver_hangs(infprof, machine, verb, key, call):
    """It waits for 10 s and says so; all else is there."""
    box = machine("0 profile h100", f"* {call} delay=90000", f"system {call} delay=90000")
    begun = time.monotonic()
    done = subprocess.run([infprof, verb, "--json"], capture_output=True, text=True, timeout=60, env={**box.env, "ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 0 and 9 < time.monotonic() - begun < 30, done.stderr
    assert "no answer within 10 s" in done.stdout and key in json.loads(done.stdout)


SPAWNING = r"""
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int nvmlInit_v2(void)
{
        pid_t pid = fork();

        if (pid == 0) {
                prctl(PR_SET_NAME, "nvidia-modprobe");
                while (clock() < 300000)
                        ;
                _exit(0);
        }
        return waitpid(pid, NULL, 0) == pid ? 9 : 999;
}
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(uint32_t *n) { *n = 0; return 0; }
int nvmlDeviceGetHandleByIndex_v2(uint32_t i, void **p) { return 3; }
"""


def test_what_the_driver_starts_is_not_the_targets(infprof, run_dir, tmp_path):
    """The driver's library starts nvidia-modprobe and waits for it: neither disturbed nor counted."""
    (tmp_path / "spawning.c").write_text(SPAWNING)
    (tmp_path / "lib").mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", tmp_path / "lib" / "libnvidia-ml.so.1", tmp_path / "spawning.c"], check=True)
    recorder = subprocess.Popen([infprof, "record", "-o", run_dir, "-t", "100", "--", "sleep", "100"], stderr=subprocess.DEVNULL,
                                env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path / "lib")})
    try:
        wait_for(lambda: list(run_dir.glob("*.infprof/sources/*")), "a row")
        wait_for(lambda: "the kernel driver nvidia is not loaded" in said(run_dir.run()).get(("", "*"), ("", ""))[1], "the driver's answer")
    finally:
        recorder.terminate()
        recorder.wait(timeout=60)
    rows = run_dir.run().table("tree")
    assert max(row["tree_cpu_ns"] for row in rows) < 150_000_000 and max(row["tree_processes"] for row in rows) == 1


@pytest.mark.san
def test_report_10_process_in_two_lists(infprof, reported):
    box = reported(10)
    right = json.loads((box.case / "expected.json").read_text())["nvidia"]["0"]
    sample = snapshot(infprof, box)
    values = gpus(sample)[0]
    for name, value in right.items():
        if name.startswith("g"):
            assert values[name] == value, name
    assert values["gEnergyMj"] == round(right["energy J"] * 1000)
    rows = [{name: cell["value"] if isinstance(cell, dict) else cell for name, cell in row.items()} for row in sample["nvidia_processes"]]
    found = {str(row["gPid"]): (row["gProcessType"], row["gProcessMemoryBytes"]) for row in rows}
    assert found == {pid: (p["type"], p["memory MiB"] * MIB) for pid, p in right["processes"].items()}
    assert sum(row["gProcessMemoryBytes"] for row in rows) == 2751463424


def test_report_11_one_gpu_lost_and_back(infprof, run_dir, reported, tmp_path):
    box = reported(11)
    lost = tmp_path / "lost"
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "200", "-f", "csv"],
                               env={**box.env, "FAKE_NVML_LOST": str(lost)}, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list(run_dir.glob("*.infprof/columns/*.arrows")), "a row")

    def last_of_1():
        return [row["gUtilizationGpu"] for row in run_dir.run().table("nvidia") if row["gGpuIndex"] == 1][-1:]

    try:
        # The file is made before its schema is in it.
        wait_for(lambda: any(path.stat().st_size for path in run_dir.run().segments("nvidia")), "the table's schema")
        wait_for(lambda: last_of_1() == [66], "a row of GPU 1")
        lost.touch()
        at_lost = time.time()
        wait_for(lambda: last_of_1() == [None], "a row of GPU 1 without values")
        lost.unlink()
        at_back = time.time()
        wait_for(lambda: last_of_1() == [66], "GPU 1 to be back")
        process.terminate()
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
    finally:
        process.kill()
    run = run_dir.run()
    right = {0: ("GPU-22aa", 55, 40.5, 9000), 1: ("GPU-22bb", 66, 50.5, 10000), 2: ("GPU-22cc", 77, 60.5, 11000)}
    times = {0: [], 1: [], 2: []}
    for row in run.table("nvidia"):
        uuid, *values = right[row["gGpuIndex"]]
        if row["gUtilizationGpu"] is None:
            assert row["gPowerDrawW"] is None and row["gMemoryUsedMb"] is None
            continue
        assert row["gUuid"].startswith(uuid)
        assert [row["gUtilizationGpu"], row["gPowerDrawW"], row["gMemoryUsedMb"]] == values
        times[row["gGpuIndex"]].append(row["time"].timestamp())
    for healthy in (0, 2):
        # One that is lost holds its neighbours up no more than the machine does others: they have a row at each tick.
        assert len(times[healthy]) >= len(run.table("cpu")) - 3, (len(times[healthy]), len(run.table("cpu")))
    # Between two of its samples the file may have come or gone.
    assert not [t for t in times[1] if at_lost + 0.25 < t < at_back]
    assert [t for t in times[1] if t < at_lost]
    back = min(t for t in times[1] if t > at_back)
    # Two samples, and its last pause: four samples, or as many as it had been lost for, since each pause is twice the one before.
    waited = sum(at_back < row["time"].timestamp() < back for row in run.table("cpu"))
    assert waited <= max(4, (at_back - at_lost) / 0.2) + 2, (waited, at_back - at_lost)
    header, *rows = (run.output / f"{run.uuid}.csv").read_text().splitlines()
    at = header.split(",").index("nvidia1_gUtilizationGpu")
    assert {row.split(",")[at] for row in rows} == {"", "66"}
    words = [row for row in run.table("sources") if row["collector"] == "nvidia" and "lost" in (row["reason"] or "")]
    assert words and "22bb" in (words[0]["instance"] or "") and words[0]["fix"]
    assert at_lost - 0.3 < words[0]["time"].timestamp()
    last = [row for row in run.table("sources") if row["collector"] == "nvidia" and row["instance"] == words[0]["instance"]
            and (row["column_name"] or "") == (words[0]["column_name"] or "")][-1]
    assert last["state"] == "ok"


def test_lost_while_it_is_asked(infprof, record, machine):
    """The same by the script: its neighbours keep rows and numbers, its joules go on by its counter."""
    box = machine("* profile h100", "1 uuid GPU-1", "2 uuid GPU-2", "1 lost 1 at=1000 until=2000", devices=3)
    done = record("-t", 100, "--duration", "4s", env=box.env)
    assert done.returncode == 0, done.stderr
    rows = done.run.table("nvidia")
    assert {row["gUuid"][-3:] for row in rows if row["gGpuIndex"] == 2} == {"U-2"}
    ones = [row for row in rows if row["gGpuIndex"] == 1 and row["gEnergyJoules"] is not None]
    gap = max(b["t_ns"] - a["t_ns"] for a, b in zip(ones, ones[1:]))
    assert 900e6 < gap < 2900e6
    joules, seconds = ones[-1]["gEnergyJoules"] - ones[0]["gEnergyJoules"], (ones[-1]["t_ns"] - ones[0]["t_ns"]) / 1e9
    assert joules == pytest.approx(512.34 * seconds, rel=0.1)


def test_no_library(infprof, record, tmp_path):
    """Most machines: silent, and the reason where it is asked for."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "INFPROF_NVML_LIBRARY": str(tmp_path / "libnvidia-ml.so.1")}
    done = record("-t", 200, "--duration", "500ms", env=env)
    assert done.returncode == 0 and "nvidia" not in done.stderr.lower()
    assert not done.run.table("nvidia")
    (state, reason, _), = {said(done.run)[key] for key in said(done.run)}
    assert state == "absent" and "libnvidia-ml.so.1" in reason
    assert "libnvidia-ml.so.1" in ask(infprof, "doctor", env=env)
    sample = json.loads(ask(infprof, "snapshot", "--json", env=env))
    assert sample["nvidia"] == []
    env.pop("INFPROF_NVML_LIBRARY")
    if subprocess.run("ldconfig -p | grep -q libnvidia-ml.so.1", shell=True).returncode:
        words = " ".join(ask(infprof, "doctor", env=env).split())
        assert "libnvidia-ml.so.1 is not here" in words and "--gpus" in words, words


@pytest.mark.parametrize("code, words", [
    (4, ["refuses", "--gpus"]), (9, ["not loaded", "/proc/driver/nvidia/version"]), (12, ["missing"]),
    (17, ["block", "--gpus"]), (18, ["different versions", "restart"]), (999, ["999", "dmesg"])])
def test_library_does_not_start(infprof, machine, code, words):
    """Each error of the start is a sentence that says what would help."""
    box = machine("0 profile h100", f"system nvmlInit_v2 rc={code}")
    text = " ".join(ask(infprof, "doctor", env=box.env).split())
    for word in words:
        assert word in text, text
    assert snapshot(infprof, box)["nvidia"] == []


@pytest.mark.parametrize("code, word, has_fix", [
    (4, "refuses", True), (11, "interrupts", True), (14, "infoROM", True), (15, "lost", True), (16, "reset", True),
    (17, "block", True), (999, "", True)])
def test_one_gpu_cannot_be_opened(infprof, record, machine, code, word, has_fix):
    """The others are read, under their own numbers; the reason has a fix."""
    box = machine("* profile h100", "0 uuid GPU-0", "1 uuid GPU-1", "2 uuid GPU-2",
                  f"1 nvmlDeviceGetHandleByIndex_v2 rc={code}", devices=3)
    done = record("-t", 100, "--duration", "600ms", "--no-finish", env=box.env)
    assert done.returncode == 0, done.stderr
    rows = done.run.table("nvidia")
    assert {(row["gGpuIndex"], row["gUuid"]) for row in rows if row["gUtilizationGpu"] is not None} == {(0, "GPU-0"), (2, "GPU-2")}
    words = [value for (instance, _), value in said(done.run).items() if instance and "GPU-0" not in instance and "GPU-2" not in instance]
    assert any(word in reason and bool(fix) == has_fix for _, reason, fix in words), words


@pytest.mark.parametrize("code", [2, 3, 4, 6, 7, 10, 13, 14, 17, 21, 24, 25, 26, 27, 999])
def test_one_value_is_refused(infprof, record, machine, code):
    """A call that fails takes its column with it, and nothing else; said why."""
    box = machine("0 profile h100", f"0 nvmlDeviceGetPowerUsage rc={code}")
    done = record("-t", 100, "--duration", "500ms", "--no-finish", env=box.env)
    assert done.returncode == 0, done.stderr
    rows = done.run.table("nvidia")
    assert rows and {row["gPowerDrawW"] for row in rows} == {None}
    assert {row["gUtilizationGpu"] for row in rows} == {87} and {row["gTemperatureC"] for row in rows} == {54}
    if code in (3, 4, 13):
        assert any(column == "gPowerDrawW" and state in ("absent", "denied") for (_, column), (state, _, _) in said(done.run).items())


def test_killed_recorder(infprof, run_dir, machine):
    """SIGKILL in the middle of a call of the driver: what was written is there."""
    box = machine("0 profile h100", "0 nvmlDeviceGetPowerUsage delay=300 at=2000")
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--", "sleep", "30"], env=box.env,
                               stderr=subprocess.DEVNULL)
    wait_for(lambda: list(run_dir.glob("*.infprof/nvidia/*.arrows")) and len(run_dir.run().table("nvidia")) > 5, "rows of nvidia")
    child = int(subprocess.run(["pgrep", "-P", str(process.pid), "sleep"], stdout=subprocess.PIPE, text=True).stdout or 0)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if child:
        os.kill(child, signal.SIGKILL)
    run = run_dir.run()
    assert {row["gUtilizationGpu"] for row in run.table("nvidia")} == {87}
    ask(infprof, "recover", "-r", run.path)
    assert report(infprof, run)["gpus"][0]["utilization_percent"] == 87


class Counting(http.server.BaseHTTPRequestHandler):
    """A vLLM that generates 1,000 tokens a second."""
    begun = time.monotonic()

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path != "/metrics":
            self.send_error(404)
            return
        tokens = int(1000 * (time.monotonic() - self.begun))
        body = f"# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total {tokens}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_joules_per_token(infprof, record, machine):
    """300 W for 1,000 tokens a second: 0.3 J each, and whose joules these are."""
    box = machine("0 profile h100", "0 energy 1000000 rate=300000", "0 power.usage 300000")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = record("-t", 200, "--duration", "4s", "--engine", f"http://127.0.0.1:{server.server_port}", env=box.env)
        server.shutdown()
    assert done.returncode == 0, done.stderr
    about = report(infprof, done.run)
    tokens, energy = about["energy"]["tokens"], about["energy"]
    # The pages are read once a second: the tokens of less than the first and last second are missing, and so are their joules.
    assert tokens["gpu_joules_per_generated_token"] == pytest.approx(tokens["gpu_joules"] / tokens["generated"])
    assert energy["gpu_joules"] == pytest.approx(300 * energy["seconds"], rel=0.1)
    # That time is where both were read: all of the GPU's when the first page came before its first row and the last one after its last.
    pages, rows = ([row["t_ns"] / 1e9 for row in done.run.table(table)] for table in ("vllm", "nvidia"))
    assert energy["seconds"] == pytest.approx(rows[-1] - rows[0], abs=1e-3)
    assert tokens["seconds"] == pytest.approx(min(pages[-1], rows[-1]) - max(pages[0], rows[0]), abs=1e-3)
    assert tokens["gpu_joules"] <= energy["gpu_joules"]
    assert tokens["gpu_joules_per_generated_token"] == pytest.approx(0.3, rel=0.15)
    assert "nvidia0" in tokens["domains"] and energy["gpu_quality"] == "measured"
    text = " ".join(ask(infprof, "report", "--full", "-r", done.run.path).split())
    assert "J per generated token" in text and "nvidia0, idle included; tokens by the engine's counters" in text
