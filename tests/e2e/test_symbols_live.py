"""Code whose names are gone when the recording ends: perf maps, jitdumps and programs that are removed meanwhile."""
import pathlib
import shutil
import subprocess

import pytest

from conftest import Run
from program import run

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = "2.5"  # of CPU time: what names code is looked at each second


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("jit") / "jit_program"
    subprocess.run(["gcc", "-O1", "-g", "-Wall", "-Wextra", HERE / "jit_program.c", "-o", path], check=True)
    return path


def record(infprof, output, *command):
    """Names of frames, as {name: its rows}, of a recording of the command."""
    done = run([infprof, "record", "--cpu=500", "--no-snapshots", "-f", "csv", "-o", output, "--", *command])
    assert done.returncode == 0, done.stderr
    recorded = Run(output)
    refused = [row for row in recorded.table("sources") if row["collector"] == "sampler" and row["instance"] == "perf" and row["state"] == "denied"]
    if refused:
        pytest.skip(refused[0]["reason"])
    sets = {}
    for row in recorded.table("symbols"):
        if row["sLevel"] == 0:
            sets[row["frame"]] = []
        sets[row["frame"]].append(row)
    return {rows[0]["sName"]: rows for rows in sets.values()}


def test_perf_map(infprof, program, tmp_path):
    found = record(infprof, tmp_path / "out", program, SECONDS, "map")
    assert found["JS:hot /srv/a b.js:3"][0]["sFrom"] == "perf map"
    assert "spin" in found


def test_jitdump(infprof, program, tmp_path):
    rows = record(infprof, tmp_path / "out", program, SECONDS, "dump", tmp_path)["py::hot:/srv/model.py"]
    assert [(row["sFrom"], row["sFile"], row["sLine"]) for row in rows] == [("jitdump", "/srv/model.py", 42)]


def test_program_that_removes_itself(infprof, program, tmp_path):
    shutil.copy(program, tmp_path / "gone")
    found = record(infprof, tmp_path / "out", tmp_path / "gone", SECONDS, "delete")
    assert found["spin"][0]["sFrom"] == "symtab" and found["spin"][0]["sFile"] is None
    assert "main" in found
