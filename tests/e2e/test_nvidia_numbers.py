"""Numbers of GPUs when not all of them answer, and a driver that goes and comes back."""
import json

from nvml import machine  # noqa: F401 (fixture)


def test_series_bear_the_drivers_numbers(record, machine):
    """GPU 0 may not be opened: GPU 1 stays nvidia1_ and is not taken for it."""
    box = machine("* profile h100", "0 nvmlDeviceGetHandleByIndex_v2 rc=4", "1 uuid GPU-1", "2 uuid GPU-2", "2 utilization.gpu 22", devices=3)
    done = record("-t", 200, "-f", "csv", "--duration", "1s", env=box.env)
    assert done.returncode == 0, done.stderr
    run = done.run
    header, *rows = (run.output / f"{run.uuid}.csv").read_text().splitlines()
    at = {name: column for column, name in enumerate(header.split(","))}
    assert rows[-2].split(",")[at["nvidia1_gUtilizationGpu"]] == "87"
    assert rows[-2].split(",")[at["nvidia2_gUtilizationGpu"]] == "22"
    assert "nvidia0_gUtilizationGpu" not in at
    (said,) = [row for row in run.table("sources") if row["instance"] == "GPU 0"]
    assert said["state"] == "denied" and "refuses" in said["reason"] and "--gpus" in said["fix"]
    static = json.loads((run.output / f"static_{run.uuid}.json").read_text())["nvidia"]
    assert [gpu["gUuid"] for gpu in static["gpus"]] == ["GPU-1", "GPU-2"]
    assert run.table("nvidia_driver")[0]["gGpuCount"] == 3


def test_driver_goes_and_comes_back(record, machine, tmp_path):
    """All GPUs say that the library was shut down: it is started again; what was not counted is not in the energy."""
    box = machine("0 profile h100", "0 nvmlDeviceGetUtilizationRates rc=1 at=600 until=900")
    done = record("-t", 200, "--duration", "2s", env=box.env)
    assert done.returncode == 0, done.stderr
    assert "has stopped answering" in done.stderr
    rows = done.run.table("nvidia")
    values = [row["gUtilizationGpu"] for row in rows]
    assert None in values and 87 in values[values.index(None):], values
    joules = [row["gEnergyJoules"] for row in rows if row["gEnergyJoules"] is not None]
    assert joules == sorted(joules) and joules[-1] < 2000
    states = [row["state"] for row in done.run.table("sources") if row["collector"] == "nvidia" and row["table_name"] == "*"]
    assert states[:3] == ["ok", "broken", "ok"]
