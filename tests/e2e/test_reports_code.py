"""Public reports about code whose tables lie in unusual places (../shared/fixtures/reports 32 to 35), and their neighbours."""
import collections
import glob
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

from test_reports import case
from waiting import wait_for

HZ = 500
# Debian's first: it has its library compiled, which takes others half a minute.
GO = next(iter(sorted(glob.glob("/usr/lib/go-1.*/bin/go"))), None) or shutil.which("go")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def look(infprof, run):
    """({path of functions: samples}, what --json says)"""
    def say(word):
        return subprocess.run([infprof, "flamegraph", "-r", run, word], check=True, capture_output=True, text=True).stdout

    stacks = collections.Counter()
    for line in say("--folded").splitlines():
        path, n = line.rsplit(" ", 1)
        stacks[tuple(name for name in path.split(";") if not name.endswith("_[k]"))] += int(n)
    return stacks, json.loads(say("--json"))["cpu"]


def record(infprof, run_dir, *command):
    done = subprocess.run([infprof, "record", "-o", run_dir, f"--cpu={HZ}", "--no-snapshots", "--", *map(str, command)],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return (*look(infprof, run_dir), done.stderr)


def expect(stacks, *names):
    """All stacks with the innermost function have just these above it."""
    found = {path: n for path, n in stacks.items() if path and path[-1] == names[-1]}
    right = sum(n for path, n in found.items() if path[-len(names):] == names)
    assert right > 10, stacks  # how many there are is the machine's
    # The first samples may come before the program has been mapped as it is then.
    assert right >= 0.98 * sum(found.values()), found


@pytest.mark.skipif(not GO, reason="needs golang-go")
@pytest.mark.parametrize("words", [[], ["-ldflags=-s -w"]], ids=["packed", "stripped"])
def test_32_33_go_programs_have_names_and_callers(infprof, run_dir, tmp_path, words):
    """Stripped ones too; and the caller of a leaf, which has no frame of its own, is there. Other layouts: tests/unit/test_unwind_go.c."""
    program = tmp_path / "program"
    subprocess.run([GO, "build", *words, "-o", program, case(32) / "main.go"], check=True, cwd=tmp_path)
    stacks, about, said = record(infprof, run_dir, program)
    expect(stacks, "main.main", "main.(*Server).Serve", "main.middleCall", "main.hotInner")
    # A stack of the runtime that was switched (systemstack) may be guessed; a guess below main.main marks it, too. One sample was, on a
    # busy machine, twice; why is not known.
    total = next(f for f in about["top_functions_total"] if f["name"] == "main.main")
    assert total["guessed_samples"] <= 0.01 * total["samples"] + 1, total
    assert "-dbgsym" not in said
    leaf = next(f for f in about["top_functions"] if f["name"] == "main.hotInner")
    assert (os.path.basename(leaf["file"]), leaf["kind"]) == ("main.go", "go") and leaf["line"] == 4


@pytest.mark.parametrize("packing", ["zlib", "zlib-gnu", "zstd"])
def test_33_packed_call_frame_information(infprof, run_dir, tmp_path, packing):
    """Read where it is packed by zlib. What is not read is guessed, and says so."""
    source, plain, program = tmp_path / "a.c", tmp_path / "plain", tmp_path / "program"
    source.write_text("""
        volatile double sum;
        __attribute__((noinline)) double inner(double x, long n) { for (long i = 0; i < n; i++) x = x * 1.0000001 + 0.5; return x; }
        __attribute__((noinline)) double outer(double x, long n) { volatile double room[20]; room[3] = inner(x, n); return room[3] + 1; }
        int main(void) { sum = outer(1, 150000000) + 2; return 0; }""")
    subprocess.run(["gcc", "-O2", "-g", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", source, "-o", plain], check=True)
    done = subprocess.run(["objcopy", f"--compress-debug-sections={packing}", plain, program], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this objcopy cannot: {done.stderr.strip()}")
    headers = subprocess.run(["readelf", "-SW", program], check=True, capture_output=True, text=True).stdout
    assert (".zdebug_frame" if packing == "zlib-gnu" else ".debug_frame") in headers
    stacks, about, _ = record(infprof, run_dir, program)
    if packing == "zstd":
        assert about["guessed_samples"] > 0.9 * sum(stacks.values())
    else:
        expect(stacks, "main", "outer", "inner")
        assert about["guessed_samples"] == 0


def without_sections(path, into):
    data = bytearray(pathlib.Path(path).read_bytes())
    struct.pack_into("<Q", data, 40, 0)
    struct.pack_into("<HHH", data, 58, 64, 0, 0)
    into.write_bytes(data)


@pytest.mark.parametrize("hash_style", ["gnu", "sysv"])
def test_34_file_without_section_headers(infprof, run_dir, tmp_path, hash_style):
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"-Wl,--hash-style={hash_style}", case(34) / "lib.c", "-o", tmp_path / "whole.so"], check=True)
    subprocess.run(["gcc", "-O2", case(34) / "uselib.c", "-o", tmp_path / "uselib", "-ldl"], check=True)
    without_sections(tmp_path / "whole.so", tmp_path / "libnohead.so")
    stacks, about, _ = record(infprof, run_dir, tmp_path / "uselib", tmp_path / "libnohead.so")
    expect(stacks, "main", "lib_entry", "lib_inner")
    assert about["guessed_samples"] == 0


@pytest.mark.parametrize("is_attached", [False, True], ids=["launched", "attached"])
def test_35_code_in_anonymous_memory(infprof, run_dir, tmp_path, is_attached):
    """A loader for huge pages has put a copy in the place of the program's code."""
    program = tmp_path / "moved"
    subprocess.run(["gcc", "-O2", "-g", "-w", case(35) / "moved.c", "-o", program], check=True)
    if not is_attached:
        stacks, about, said = record(infprof, run_dir, program, "1")
        assert "perf map" not in said
    else:
        process = subprocess.Popen([program, "1", "long"], stdout=subprocess.DEVNULL)
        maps = pathlib.Path(f"/proc/{process.pid}/maps")
        try:
            wait_for(lambda: re.search(r" r-xp 00000000 00:00 0 *\n", maps.read_text()), "the program's move", 20)
            subprocess.run([infprof, "record", "-o", run_dir, f"--cpu={HZ}", "--pid", str(process.pid), "--duration", "0.3s"], check=True, timeout=60)
        finally:
            process.kill()
            process.wait()
        stacks, about = look(infprof, run_dir)
    expect(stacks, "main", "hot_outer", "hot_inner")
    assert about["guessed_samples"] == 0
