"""Code whose names are gone when the recording ends: perf maps, jitdumps and programs that are removed meanwhile."""
import contextlib
import os
import pathlib
import re
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


def skip_without_perf(recorded):
    refused = [row for row in recorded.table("sources") if row["collector"] == "sampler" and row["instance"] == "perf" and row["state"] == "denied"]
    if refused:
        pytest.skip(refused[0]["reason"])


def record(infprof, output, *command):
    """Names of frames, as {name: its rows}, of a recording of the command."""
    done = run([infprof, "record", "--cpu=500", "--no-snapshots", "-f", "csv", "-o", output, "--", *command])
    assert done.returncode == 0, done.stderr
    recorded = Run(output)
    skip_without_perf(recorded)
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


LIBRARIES = 6
MARK = b"\x11" * 20  # the build id of the library that the others are copies of


@pytest.fixture(scope="module")
def heavy(tmp_path_factory):
    """A program that burns CPU in libraries, and one whose symbols take 12 MB of memory, as those of an inference server do."""
    folder = tmp_path_factory.mktemp("heavy")
    lines = ["\t.section .note.GNU-stack,\"\",@progbits", "\t.text"]
    for i in range(40000):
        name = f"_ZN2at6native{'x' * 220}{i:06d}Ev"
        lines.append(f"\t.globl {name}\n\t.type {name},@function\n{name}:\n\tret\n\t.size {name},1")
    (folder / "symbols.s").write_text("\n".join(lines) + "\n")
    (folder / "burn.c").write_text("""
        #include <time.h>
        static volatile unsigned long sink;
        static double now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec / 1e9; }
        __attribute__((noinline)) void burn_in_library(double s)
        { const double begin = now(); do for (int i = 0; i < 100000; i++) sink += i; while (now() - begin < s); }""")
    (folder / "main.c").write_text("""
        #include <dlfcn.h>
        #include <string.h>
        #include <unistd.h>
        int main(int n, char **words) {
            for (int i = 1; i < n; i++) {
                void *library = dlopen(words[i], RTLD_NOW), *symbol = library ? dlsym(library, "burn_in_library") : 0;
                void (*burn)(double);
                if (!symbol || (i % 2 && unlink(words[i]) < 0)) return 1; /* half of them */
                memcpy(&burn, &symbol, sizeof burn);
                burn(0.15);
            }
            return 0; }""")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", f"-Wl,--build-id=0x{MARK.hex()}", "symbols.s", "burn.c", "-o", "lib.so"],
                   cwd=folder, check=True)
    subprocess.run(["gcc", "-O1", "main.c", "-o", "main", "-ldl"], cwd=folder, check=True)
    return folder


def test_names_cost_the_recorder_little(infprof, heavy, tmp_path):
    """Names of libraries below /tmp that stay there are read after the recording, those of removed ones in little memory."""
    whole = (heavy / "lib.so").read_bytes()
    assert whole.count(MARK) == 1
    libraries = [tmp_path / f"lib{i}.so" for i in range(LIBRARIES)]
    for i, path in enumerate(libraries):
        path.write_bytes(whole.replace(MARK, bytes([i + 1]) * 20))
    peak = 0
    with subprocess.Popen([infprof, "record", "--cpu=500", "--no-snapshots", "-f", "csv", "-o", tmp_path / "out", "--", heavy / "main",
                           *libraries], stderr=subprocess.PIPE, text=True) as process:
        while process.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.002)
            with contextlib.suppress(OSError):  # it may have ended
                found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process.pid}/status").read_text())
                peak = max(peak, int(found[1]) if found else 0)
        assert process.returncode == 0, process.stderr.read()
    recorded = Run(tmp_path / "out")
    skip_without_perf(recorded)
    names = {row["frame"]: row["sName"] for row in recorded.table("symbols") if row["sLevel"] == 0}
    objects = {row["fObject"] for row in recorded.table("frames") if names.get(row["id"]) == "burn_in_library"}
    # One that was removed before its first sample has no name: /proc/PID/map_files is root's.
    assert objects == {str(path) for path in (libraries if os.geteuid() == 0 else libraries[1::2])}
    assert 0 < peak < 45 * 1024, f"{peak} kB"
