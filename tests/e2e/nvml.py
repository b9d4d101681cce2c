"""A machine with NVIDIA GPUs for tests: the fake library of the build (tests/fakes/nvml, whose README says what a script is)."""
import os
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
REPORTS = TOP.parent / "shared" / "fixtures" / "reports"
CODES = {1: "Uninitialized", 3: "Not Supported", 4: "Insufficient Permissions"}
MIB = 1 << 20


class Machine:
    """env: what infprof needs to find the fake. script(): what the GPUs answer, from the next start on."""

    def __init__(self, library, directory):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "libnvidia-ml.so.1").symlink_to(library)
        self.path = directory / "script"
        # The library is found as on a real machine, by the dynamic linker.
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(directory), "FAKE_NVML_SCRIPT": str(self.path)}
        self.env.pop("INFPROF_NVML_LIBRARY", None)

    def script(self, *lines, devices=1, driver="580.65.06", cuda=13000):
        head = [f"system devices {devices}", f"system driver {driver}", f"system nvml 13.{driver}", f"system cuda {cuda}"]
        self.path.write_text("\n".join([*head, *lines]) + "\n")
        return self


def library(infprof, variant):
    path = pathlib.Path(infprof).parent / "tests" / "fakes" / "nvml" / f"libfake_nvml_{variant}.so"
    if not path.exists():
        pytest.skip(f"{path} is not built (meson setup -Dtests=true)")
    return path


@pytest.fixture
def machine(infprof, tmp_path):
    """machine(lines..., variant="580", devices=1): a Machine with such a driver."""
    def call(*lines, variant="580", **head):
        made = Machine(library(infprof, variant), tmp_path / f"lib-{variant}-{len(list(tmp_path.iterdir()))}")
        return made.script(*lines, **head)

    return call


@pytest.fixture
def reported(tmp_path):
    """reported(10): a Machine whose library is that of the public report, compiled from its folder."""
    def call(number):
        (case,) = REPORTS.glob(f"{number:02d}-*")
        built = tmp_path / "reported.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(built), str(case / "fake_nvml.c")],
                       check=True)
        made = Machine(built, tmp_path / "lib")
        made.case = case
        return made

    return call


def gpus(sample):
    """{index: {name: value}} of a snapshot."""
    return {gpu["gGpuIndex"]: {name: cell["value"] if isinstance(cell, dict) and "value" in cell else cell
                               for name, cell in gpu.items()} for gpu in sample["nvidia"]}
