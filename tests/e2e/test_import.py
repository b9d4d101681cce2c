"""`infprof import`: profiles of other programs become runs with the same sums, which every verb takes; what is broken is refused
and leaves nothing. tests/fixtures/import holds what Go 1.26, perf 6.1, Speedscope and profilers of the heap wrote; its answers are those of `go tool pprof -raw`
and `perf report -n`."""
import collections
import gzip
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from program import query

TOP = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = TOP / "tests" / "fixtures" / "import"
REPORTS = TOP.parent / "shared" / "fixtures" / "reports"
REPORT_18 = next(iter(REPORTS.glob("18-*/perf.txt")), None)


@pytest.fixture
def imported(infprof, run_dir):
    """imported(file or bytes, options...): what `import --json` says; bytes go to standard input."""
    def call(source, *options):
        is_input = isinstance(source, (bytes, str)) and not isinstance(source, pathlib.Path)
        words = [infprof, "import", "-" if is_input else str(source), "-o", str(run_dir), "--json", *options]
        data = source.encode() if isinstance(source, str) else source if is_input else None
        done = subprocess.run(words, input=data, capture_output=True, timeout=120)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    return call


@pytest.fixture
def folded(infprof, run_dir):
    """folded(options...): {stack: samples} of the newest run."""
    def call(*options, run=run_dir):
        done = subprocess.run([infprof, "flamegraph", "-r", str(run), "--folded", *options], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        lines = [line.rsplit(" ", 1) for line in done.stdout.splitlines()]
        return {stack: int(count) for stack, count in lines}

    return call


def refused(infprof, run_dir, data, *options):
    """Standard error of an import that fails, with exit code 1 and nothing left."""
    done = subprocess.run([infprof, "import", "-", "-o", str(run_dir), *options], input=data, capture_output=True, timeout=60)
    assert done.returncode == 1, done
    assert not run_dir.exists() or not list(run_dir.iterdir())
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_folded(imported, folded):
    stacks = {"main;load;read_[k]": 7, "main;load": 2, "main;serve;java.util.HashMap.get_[j]": 5, "main;serve;std::map<int, char>::at(int)": 1}
    text = "".join(f"{stack} {count}\r\n" for stack, count in stacks.items())
    said = imported(text + "main;load 3\n\n")
    assert (said["format"], said["samples"], said["notes"]) == ("folded", 18, [])
    assert folded() == {**stacks, "main;load": 5}


def test_packed(imported, folded):
    said = imported(gzip.compress(b"a;b 3\n") + gzip.compress(b"a;c 4\n"))
    assert said["is_gzip"] and said["content_bytes"] == 12
    assert folded() == {"a;b": 3, "a;c": 4}


def test_what_is_left_out_is_said(infprof, run_dir):
    done = subprocess.run([infprof, "import", "-", "-o", str(run_dir)], input=b"# x\na;b\n\na;;c 2\na 0\n", capture_output=True, timeout=60)
    assert done.returncode == 0
    text = done.stderr.decode()
    for note in ("comments: 1, first in line 1", "lines without a count (each taken as one sample): 1, first in line 2",
                 "blank names (shown as [unknown]): 1, first in line 4", "stacks that were counted 0 times: 1, first in line 5"):
        assert note in text


@pytest.mark.skipif(REPORT_18 is None, reason="the reports are not here")
def test_18_perf_script_text_with_blanks(infprof, run_dir, imported, folded):
    said = imported(REPORT_18)
    assert (said["format"], said["samples"], said["rows"], said["notes"]) == ("perf-script", 6, 6, [])
    assert folded() == {
        "start_thread;thread_start;std::thread::spawn;my_server::step::{{closure}}": 1,
        "start_thread;java.util.HashMap.getNode_[j]": 1,
        "main;ns::(anonymous namespace)::Run(int (*)(char, long)) const": 2,
        "[unknown];[kernel.kallsyms]_[k]": 1,
        "[truncated]": 1,  # without frames
    }
    rows = query(infprof, run_dir, "select t_ns, pId, tid, tName, cpu, stack from stack_samples order by t_ns")
    assert [row["t_ns"] for row in rows] == [88123456789000 + i * 10000000 for i in range(6)]
    assert [(row["pId"], row["tid"], row["tName"], row["cpu"]) for row in rows] == [
        (4711, 4720, "tokio runtime w", 3), (5000, 5001, "java", 0), (6000, 6000, "Web 7 C", 1), (6000, 6000, "Web 7 C", 1),
        (6100, 6100, "idle-ish", 2), (6200, 6201, "stripped", 2)]
    assert [row["stack"] is None for row in rows] == [False] * 4 + [True, False]
    assert rows[2]["stack"] == rows[3]["stack"]  # an offset is no part of a name
    objects = query(infprof, run_dir, "select sName, fObject from symbols where sLevel = 0")
    objects = {row["sName"]: row["fObject"] for row in objects}
    assert objects["my_server::step::{{closure}}"] == "/opt/my app/bin/serve (v2)"
    assert objects["start_thread"] == "/usr/lib/libc.so.6"
    assert objects["java.util.HashMap.getNode"] == "[JIT app cache]"
    assert objects["[unknown]"] is None
    assert {"mPath": "/usr/lib/libc.so.6", "mIsDeleted": True} in query(infprof, run_dir, "select mPath, mIsDeleted from mappings")


def report(number, name):
    """A file of a case; the reports may be missing beside a checkout."""
    found = list(REPORTS.glob(f"{number}-*/{name}"))
    if not found:
        pytest.skip("the reports are not here")
    return found[0]


def test_29_two_counts_in_a_folded_line(infprof, run_dir, imported, folded):
    for text in (report(29, "diff.folded").read_bytes(), b"# difference\na 1 2\n\nb;c 0 17"):
        assert "`infprof flamegraph --diff`" in refused(infprof, run_dir, text)
    assert imported("main;decode stage 2 7\nmain;decode 3\n")["samples"] == 10  # one name that ends like a count is a name
    assert folded() == {"main;decode": 3, "main;decode stage_2": 7}
    assert imported(report(29, "leaf.perf"))["samples"] == 2
    assert folded() == {"main;decode stage_2": 2}
    for name, written in (("x -1", "x_-1"), ("p 0.99", "p_0.99"), ("v 1e5", "v_1e5"), ("v 1a", "v 1a"), ("12", "12")):
        imported(f"main;{name};leaf 1\nmain 4\n")
        assert folded() == {"main": 4, f"main;{written};leaf": 1}


def test_30_pyspy_command_with_semicolon(infprof, run_dir, imported, folded):
    imported(report(30, "pyspy.raw"))
    assert folded() == {"<module>;work": 29, "run;work": 27}
    sql = "select pId, pName, tid, tName, sum(samples)::bigint as n from stack_samples group by all order by tid"
    command = 'python3 -S serve.py --labels=a;b q"; r'
    assert query(infprof, run_dir, sql) == [{"pId": 4711, "pName": command, "tid": 4711, "tName": "MainThread", "n": 29},
                                            {"pId": 4711, "pName": command, "tid": 4712, "tName": "Thread-1 (work)", "n": 27}]


def test_pyspy_command_without_threads(infprof, run_dir, imported, folded):
    imported('process 7:"a;b";f;g 2\nprocess 8:plain;thread (9): T;h 1\n')
    assert folded() == {"f;g": 2, "h": 1}
    sql = "select distinct pId, pName, tName from stack_samples order by 1, 3 nulls first"
    assert query(infprof, run_dir, sql) == [{"pId": 7, "pName": "a;b", "tName": None}, {"pId": 8, "pName": "plain", "tName": "T"}]


@pytest.mark.parametrize("name", ["wall", "full"])
def test_31_austin_microseconds(imported, folded, name):
    said = imported(report(31, f"{name}.austin"))
    assert said["modes"] == [{"mode": "wall", "rows": 3, "samples": 3, "weight": pytest.approx(0.030, abs=1e-9)}]
    assert folded() == {"main": 1, "main;run": 2}
    assert [note["what"] for note in said["notes"]] == ["comments", *["memory values (the time beside them is used)"][:name == "full"]]


def test_austin_in_other_modes(imported):
    said = imported("# austin: 3.6.0\n# mode: cpu\nP1;T2;a.py:f:1 500000\n")
    assert said["modes"] == [{"mode": "cpu", "rows": 1, "samples": 1, "weight": 0.5}]
    said = imported("# austin: 3.6.0\n# mode: memory\nP1;T2;a.py:f:1 4096\nP1;T2;a.py:f:1 -4096\n")
    assert said["modes"] == [{"mode": "memory/bytes", "rows": 1, "samples": 1, "weight": 4096}]
    assert "stacks that freed memory" in [note["what"] for note in said["notes"]]


def by_leaf(stacks):
    leaves = collections.Counter()
    for stack, count in stacks.items():
        leaves[stack.rsplit(";", 1)[-1]] += count
    return leaves


def test_perf(imported, folded):
    said = imported(FIXTURES / "perf-cpu-clock.txt")
    assert said["modes"] == [{"mode": "cpu", "rows": 76, "samples": 76, "weight": pytest.approx(76 * 2004008e-9)}]
    assert by_leaf(folded()) == {"heavy": 59, "light": 4, "do_syscall_64_[k]": 4, "__rcu_read_unlock_[k]": 3, "__GI___getppid": 2,
                                 "finish_task_switch.isra.0_[k]": 1, "irqentry_exit_to_user_mode_[k]": 1, "__task_pid_nr_ns_[k]": 1,
                                 "__x64_sys_getppid_[k]": 1}


def test_perf_without_chains(imported, folded):
    assert imported(FIXTURES / "perf-no-chains.txt")["samples"] == 76
    assert folded()["heavy"] == 59


@pytest.mark.san
def test_perf_of_two_events_with_sources(infprof, run_dir, imported, folded):
    said = imported(FIXTURES / "perf-sources.txt")
    assert {mode["mode"]: (mode["samples"], round(mode["weight"], 9)) for mode in said["modes"]} == {
        "cpu": (26, round(26 * 5025125e-9, 9)), "context-switches/count": (11, 25)}
    assert by_leaf(folded("--mode", "cpu")) == {"inl": 25, "light": 1}
    assert by_leaf(folded("--mode", "context-switches/count")) == {"schedule_[k]": 11}
    rows = query(infprof, run_dir, "select distinct sName, sLevel, sFile, sLine from symbols where sName in ('inl', 'heavy') order by sLevel")
    assert rows == [{"sName": "heavy", "sLevel": 0, "sFile": "t.c", "sLine": 9}, {"sName": "inl", "sLevel": 1, "sFile": "t.c", "sLine": 8}]
    assert query(infprof, run_dir, "select pId, pName from process") == [{"pId": 16712, "pName": "t"}]


def test_go_cpu(infprof, run_dir, imported, folded):
    said = imported(FIXTURES / "go-cpu.pprof")
    assert (said["format"], said["is_gzip"], said["taken_at"]) == ("pprof", True, 1795875047545)
    assert said["modes"] == [{"mode": "cpu", "rows": 13, "samples": 118, "weight": pytest.approx(1.18)}]
    assert folded() == {"runtime.main;main.main;main.heavy": 110, "runtime.main;main.main;main.light": 8}
    assert query(infprof, run_dir, "select distinct fKind as kind from frames") == [{"kind": "go"}]
    assert query(infprof, run_dir, "select mPath, mStart from mappings where mBuildId is not null") == [{"mPath": "/tmp/s7/go/tiny", "mStart": 0x400000}]


@pytest.mark.san
def test_go_heap(infprof, run_dir, imported, folded):
    said = imported(FIXTURES / "go-heap.pprof")
    assert {mode["mode"]: mode["weight"] for mode in said["modes"]} == {"heap-allocated": 28082285, "heap": 25407303}
    in_use = {"runtime.main;main.main": 24882959, "runtime.main;runtime.makechan;runtime.mallocgc": 524344}
    for mode in ("heap", "heap-live", "inuse_space"):
        assert folded("--mode", mode) == in_use
    assert sum(folded("--mode", "inuse_objects").values()) == 7110
    # Go samples a block each 512 KiB: of 7,110 that were estimated few were seen.
    rows = query(infprof, run_dir, "select mode, sum(samples)::bigint as n, sum(objects) as objects from stack_samples group by mode order by mode")
    assert [(row["mode"], row["objects"]) for row in rows] == [("heap", 7110), ("heap-allocated", 7131)]
    assert rows[0]["n"] == 48  # 2,429 blocks of 10,244 bytes are 46.9998 samples, 4,681 of 112 are 1.0000
    (row,) = query(infprof, run_dir, "select method from sampler where mode = 'heap'")
    assert "one each 524288 bytes on average: bytes are estimated" in row["method"]
    # NewWriter was inlined into Write.
    builder = "runtime/pprof.profileWriter;runtime/pprof.(*profileBuilder).build;compress/gzip.(*Writer).Write;compress/flate.NewWriter"
    assert folded("--mode", "heap-allocated")[builder] > 500_000


# ---- the heap: what heaptrack 1.4, jemalloc 5.3, tcmalloc of gperftools 2.10 and memray 1.20 wrote of tests/fixtures/import/heap.c.txt and heap.py ----

def test_heaptrack(infprof, run_dir, imported, folded):
    """Answers are those of heaptrack_print -F with each cost type; it leaves out what calls main."""
    said = imported(FIXTURES / "heaptrack.txt")
    assert (said["format"], said["written_by"], said["notes"]) == ("heaptrack", "heaptrack 1.4.0", [])
    assert {mode["mode"]: (mode["samples"], mode["weight"]) for mode in said["modes"]} == {
        "heap-allocated": (311, 72704 + 10 * 1000 + 100 * 10000 + 200 * 64), "heap-peak": (111, 72704 + 10000 + 1000000), "heap": (50, 410000)}
    assert by_leaf(folded("--mode", "heap")) == {"leak": 10000, "keep": 400000}
    assert by_leaf(folded("--mode", "heap-peak"))["keep"] == 1000000
    assert by_leaf(folded("--mode", "alloc_objects")) == {"leak": 10, "keep": 100, "churn": 200, "[libstdc++.so.6]": 1}
    top = subprocess.run([infprof, "flamegraph", "-r", str(run_dir), "--mode", "heap", "--top"], capture_output=True, text=True, timeout=60)
    assert "which sees each block: its figures are exact" in " ".join(top.stdout.split())
    report = subprocess.run([infprof, "report", "functions", "-r", str(run_dir)], capture_output=True, text=True, timeout=60)
    assert "keep" in report.stdout and "bytes of the heap that were in use at the end" in " ".join(report.stdout.split())
    assert query(infprof, run_dir, "select distinct sFile, sLine from symbols where sName = 'churn'") == [{"sFile": "/tmp/h3x/t.c", "sLine": 7}]


def test_heaptrack_folded(imported, folded):
    """heaptrack_print -F --flamegraph-cost-type leaked: numbers that are bytes of what is in use, which the file does not say."""
    said = imported(FIXTURES / "heaptrack-leaked.folded", "--mode", "heap-live")
    assert [(mode["mode"], mode["weight"]) for mode in said["modes"]] == [("heap", 410000)]
    assert folded("--mode", "heap") == {"main (t.c);leak (t.c)": 10000, "main (t.c);keep (t.c)": 400000}


def test_jemalloc(infprof, run_dir, imported, folded):
    """Counts of samples are made what they stand for as jeprof makes them: n / (1 - e^(-(bytes / n) / mean))."""
    said = imported(FIXTURES / "jemalloc.heap")
    blocks = {"leak": (2, 2056), "keep": (40, 396435), "libstdc++": (1, 81920)}

    def estimate(n, size):
        return size / (1 - math.exp(-size / n / 4096))

    weight = sum(estimate(*block) for block in blocks.values())
    assert [(mode["mode"], mode["samples"]) for mode in said["modes"]] == [("heap", 43), ("heap-allocated", 104)]
    assert said["modes"][0]["weight"] == pytest.approx(weight)
    # Addresses of calls, in the file: keep() calls malloc before 0x181 of its second page.
    assert by_leaf(folded("--mode", "heap"))["[t+0x1180]"] == round(estimate(*blocks["keep"]))
    rows = query(infprof, run_dir, "select fObject, fAddress from frames where fObject = '/tmp/h3x/t' order by fAddress")
    assert [row["fAddress"] for row in rows] == [0x1090, 0x1166, 0x1180, 0x11b5, 0x11de, 0x11ef, 0x1220]
    (row,) = query(infprof, run_dir, "select method, taken from sampler where mode = 'heap'")
    assert row == {"method": "jemalloc, one each 4096 bytes on average: bytes are estimated from them", "taken": 43}


def test_tcmalloc(infprof, run_dir, imported, folded):
    imported(FIXTURES / "tcmalloc.heap")
    assert by_leaf(folded("--mode", "heap")) == {"[t+0x1180]": 400000, "[t+0x1166]": 10000}
    assert by_leaf(folded("--mode", "alloc_objects")) == {"[t+0x1180]": 100, "[t+0x1166]": 10, "[t+0x11b5]": 200}


def test_memray(infprof, run_dir, imported, folded):
    """Python's own bytearrays: 14 of 100,000 bytes at the peak, by two threads."""
    said = imported(FIXTURES / "memray.csv")
    assert (said["format"], [mode["mode"] for mode in said["modes"]]) == ("memray", ["heap-peak"])
    by_function = by_leaf(folded("--mode", "heap-peak"))
    assert 14 * 100_000 <= by_function["load"] < 14 * 100_100
    assert {row["fKind"] for row in query(infprof, run_dir, "select distinct fKind from frames")} == {"python"}
    modules = query(infprof, run_dir, "select distinct fObject from symbols where sName = '<module>'")
    assert len({row["fObject"] for row in modules}) == 2  # of t.py, and of pkgutil, which memray loads
    assert imported(FIXTURES / "memray.csv", "--mode", "heap")["modes"][0]["mode"] == "heap"


WHERE = r"""
#include <stdio.h>
#include <stdint.h>
__attribute__((noinline)) void allocates(void) { __asm__ volatile(""); }
int main(void)
{
        char line[4096];
        FILE *maps = fopen("/proc/self/maps", "r");
        printf("heap_v2/1000\n@ 0x%zx 0x%zx\n t*: 1: 5000 [0: 0]\n\nMAPPED_LIBRARIES:\n", (size_t) (uintptr_t) allocates + 1, (size_t) (uintptr_t) main + 1);
        while (fgets(line, sizeof(line), maps))
                fputs(line, stdout);
        return 0;
}
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")
@pytest.mark.parametrize("how", [["-pie"], ["-no-pie"]])
def test_addresses_get_names(infprof, run_dir, tmp_path, imported, folded, how):
    (tmp_path / "where.c").write_text(WHERE)
    subprocess.run(["gcc", "-g", *how, tmp_path / "where.c", "-o", tmp_path / "where"], check=True, timeout=60)
    text = subprocess.run([tmp_path / "where"], capture_output=True, check=True, timeout=60, text=True).stdout
    (tmp_path / "profile").write_text(text)
    imported(tmp_path / "profile")
    assert folded("--mode", "heap") == {"main;allocates": round(5000 / (1 - math.exp(-5)))}
    # Of another file under that path nothing is said: its inode is another one, or it is newer.
    (tmp_path / "elsewhere").write_text(re.sub(r"(\d+)( +/\S+/where)$", r"1\1\2", text, flags=re.MULTILINE))
    os.utime(tmp_path / "profile", (1, 1))
    for path in ("elsewhere", "profile"):
        said = imported(tmp_path / path)
        assert [note["count"] for note in said["notes"] if "not here as they were" in note["what"]] == [2]
        assert all(re.fullmatch(r"\[where\+0x[0-9a-f]+\];\[where\+0x[0-9a-f]+\]", stack) for stack in folded("--mode", "heap"))


def test_pprof_of_the_heap(infprof, run_dir, tmp_path, imported):
    imported(FIXTURES / "heaptrack.txt")
    path = tmp_path / "heap.pb.gz"
    subprocess.run([infprof, "flamegraph", "-r", str(run_dir), "--mode", "heap", "--pprof", "-o", str(path)], check=True, timeout=60)
    data = gzip.decompress(path.read_bytes())
    assert all(name in data for name in (b"alloc_objects", b"alloc_space", b"inuse_objects", b"inuse_space", b"peak_space"))
    shutil.rmtree(run_dir)
    said = imported(path)
    # The file has blocks, and not of how many samples they are: a stack counts as one.
    assert {mode["mode"]: (mode["samples"], mode["weight"]) for mode in said["modes"]} == {
        "heap-allocated": (4, 1095504), "heap-peak": (3, 1082704), "heap": (2, 410000)}
    rows = query(infprof, run_dir, "select mode, sum(objects) as objects from stack_samples group by mode order by mode")
    assert [(row["mode"], row["objects"]) for row in rows] == [("heap", 50), ("heap-allocated", 311), ("heap-peak", 111)]
    (row,) = query(infprof, run_dir, "select method, taken from sampler where mode = 'heap'")
    assert "each stack counts as one sample" in row["method"] and row["taken"] == 2


def varint(value):
    return bytes([value | 0x80]) + varint(value >> 7) if value > 127 else bytes([value])


def test_go_heap_with_each_block(infprof, run_dir, imported):
    """runtime.MemProfileRate of 1: the same profile with another period is one of blocks that were all counted."""
    whole = gzip.decompress((FIXTURES / "go-heap.pprof").read_bytes())
    imported(whole + varint(12 << 3) + varint(1))  # of a field that is there twice the last one counts
    rows = query(infprof, run_dir, "select sum(samples)::bigint as n, sum(objects) as objects from stack_samples where mode = 'heap'")
    assert rows == [{"n": 7110, "objects": 7110}]
    (row,) = query(infprof, run_dir, "select method from sampler where mode = 'heap'")
    assert "figures are exact" in row["method"]


def speedscope(*profiles):
    return json.dumps({"$schema": "https://www.speedscope.app/file-format-schema.json", "exporter": "other@2",
                       "shared": {"frames": [{"name": "main", "file": "a.py", "line": 3}, {"name": "b"}, {"name": "c"}]}, "profiles": profiles})


def test_speedscope(infprof, run_dir, imported, folded):
    said = imported(speedscope(
        {"type": "sampled", "name": "Thread 1", "unit": "milliseconds", "startValue": 100, "endValue": 110, "samples": [[0, 1], [0, 1, 2], [0]], "weights": [2, 3, 5]},
        {"type": "evented", "name": "Thread 2", "unit": "seconds", "startValue": 0.101, "endValue": 0.109,
         "events": [{"type": "O", "frame": 0, "at": 0.101}, {"type": "O", "frame": 2, "at": 0.103}, {"type": "C", "frame": 2, "at": 0.106}]},
        {"type": "sampled", "name": "heap", "unit": "bytes", "startValue": 0, "endValue": 1, "samples": [[0, 1]], "weights": [4096]}))
    assert (said["written_by"], said["has_times"]) == ("other@2", True)
    assert {mode["mode"]: (mode["samples"], mode["weight"]) for mode in said["modes"]} == {
        "time/seconds": (6, pytest.approx(0.018)), "weight/bytes": (1, 4096)}
    assert folded("--mode", "time/seconds") == {"main;b": 1, "main;b;c": 1, "main": 3, "main;c": 1}
    rows = query(infprof, run_dir, "select (t_ns - min(t_ns) over ()) / 1000000 as ms, tName from stack_samples where mode = 'time/seconds' order by 1")
    assert [(round(row["ms"], 6), row["tName"]) for row in rows] == [(0, "Thread 1"), (1, "Thread 2"), (2, "Thread 1"), (3, "Thread 2"), (5, "Thread 1"), (6, "Thread 2")]


def test_speedscope_of_nanoseconds_since_1970(infprof, run_dir, imported):
    begin = 1795895215000000001
    imported(speedscope({"type": "evented", "name": "x", "unit": "nanoseconds", "startValue": begin, "endValue": begin + 30,
                         "events": [{"type": kind, "frame": 0, "at": begin + at} for kind, at in (("O", 1), ("C", 2), ("O", 7), ("C", 29))]}))
    rows = query(infprof, run_dir, "select t_ns - min(t_ns) over () as at, round(weight * 1e9)::bigint as ns from stack_samples order by 1")
    assert [(row["at"], row["ns"]) for row in rows] == [(0, 1), (6, 22)]


@pytest.mark.san
def test_what_speedscope_saved(infprof, run_dir, imported):
    """Speedscope 1.25 opened go-cpu.pprof and saved it: one evented profile in nanoseconds."""
    said = imported(FIXTURES / "speedscope-go-cpu.json")
    assert (said["written_by"], said["modes"][0]["weight"]) == ("speedscope@1.25.0", pytest.approx(1.18))
    rows = query(infprof, run_dir, "select function, sum(weight) as s, any_value(fKind) as kind from samples_named group by function order by s desc")
    assert [(row["function"], round(row["s"], 9), row["kind"]) for row in rows] == [("main.heavy", 1.1, "go"), ("main.light", 0.08, "go")]


def test_every_verb_takes_it(infprof, run_dir, imported):
    uuid = imported(FIXTURES / "perf-cpu-clock.txt", "--name", "before the change")["run"]
    run = run_dir.run()
    assert run.uuid == uuid
    assert (run.info["mode"], run.info["command"], run.info["finished"]) == ("import", "before the change", True)
    static = json.loads((run_dir / f"static_{uuid}.json").read_text())
    assert static["name"] == "before the change"
    assert (static["import"]["file"], static["import"]["size_bytes"]) == (str(FIXTURES / "perf-cpu-clock.txt"), 15983)
    assert all(path.suffix == ".parquet" for path in run.segments("stack_samples"))
    for words in (["report"], ["report", "--json"], ["tables"], ["runs"], ["finish"], ["flamegraph", "--top"], ["export", "stack_samples", "-f", "csv"]):
        target = [str(run_dir)] if words[0] in ("runs", "finish") else ["-r", str(run_dir)]
        done = subprocess.run([infprof, *words, *target], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (words, done.stderr)
        if words[0] == "runs":
            assert "before the change" in done.stdout
        if words == ["report"]:
            assert "interrupted" not in done.stdout and "infprof itself" not in done.stdout
    # Compared with another one.
    imported((FIXTURES / "perf-no-chains.txt"))
    done = subprocess.run([infprof, "flamegraph", "-r", str(run_dir), "--diff", str(run.path), "--folded"], capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 2), done.stderr


def weights(infprof, run, mode):
    rows = query(infprof, run, f"select sum(samples)::bigint as n, sum(weight) as w from stack_samples where mode = '{mode}'")
    return rows[0]["n"], rows[0]["w"]


@pytest.mark.parametrize("option", ["folded", "pprof", "speedscope", "perf-script"])
@pytest.mark.parametrize("source", ["perf-sources.txt", "go-heap.pprof", "report 18"])
def test_what_flamegraph_writes_comes_back(infprof, run_dir, tmp_path, imported, folded, option, source):
    """Counts of the run and of the import of its export are equal; speedscope has no counts of sums, only weights, and folded stacks of the
    heap have bytes."""
    mode = {"perf-sources.txt": "cpu", "go-heap.pprof": "heap", "report 18": "cpu"}[source]
    path = REPORT_18 if source == "report 18" else FIXTURES / source
    if path is None:
        pytest.skip("the reports are not here")
    imported(path)
    before, (n, weight) = folded("--mode", mode), weights(infprof, run_dir, mode)
    shutil.move(run_dir, tmp_path / "first")
    file = tmp_path / "profile"
    done = subprocess.run([infprof, "flamegraph", "-r", str(tmp_path / "first"), "--mode", mode, f"--{option}", "-o", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said = imported(file)
    assert said["format"] == option
    after_mode = "samples/count" if option == "folded" else mode
    assert after_mode in [is_mode["mode"] for is_mode in said["modes"]]
    after = folded("--mode", after_mode)
    if option == "speedscope":  # knows neither kinds of code nor counts
        before = {stack.replace("_[j]", ""): count for stack, count in before.items()}
    if option == "speedscope" and source.startswith("go"):
        assert after.keys() == before.keys()
    elif source.startswith("go") and option == "pprof":  # has blocks, not samples: a row counts as one
        assert after == before and said["samples"] == said["rows"]
        assert folded("--mode", "alloc_space")
    elif source.startswith("go"):
        assert after == pytest.approx(before, rel=1e-3)  # each sample of perf script has a whole period
        assert said["samples"] == (sum(before.values()) if option == "folded" else n)
    else:
        assert after == before
        assert said["samples"] == n
    if option != "folded":
        tolerance = 1e-3 if option == "perf-script" and source.startswith("go") else 1e-9  # each sample has a whole period
        assert weights(infprof, run_dir, after_mode)[1] == pytest.approx(weight, rel=tolerance)


BUSY = """
import os, threading, zlib
def work():
    block = os.urandom(1 << 20)
    for _ in range(8):
        zlib.compress(block)
thread = threading.Thread(target=work)
thread.start()
work()
thread.join()
"""


def test_a_recording_of_ours_comes_back(infprof, tmp_path, run_dir, record, imported, folded):
    done = record("--cpu=199", "--no-snapshots", command=[sys.executable, "-c", BUSY])
    assert done.returncode == 0, done.stderr
    if not done.run.table("stack_samples"):
        pytest.skip("no stacks may be sampled here")
    before, (n, weight) = folded("--mode", "cpu"), weights(infprof, run_dir, "cpu")
    owners = query(infprof, run_dir, "select pId, tid, coalesce(tPythonName, tName) as tName, count(*) as n from stack_samples where mode = 'cpu' group by all order by all")
    shutil.move(run_dir, tmp_path / "first")
    for option in ("folded", "pprof", "speedscope", "perf-script"):
        file = tmp_path / option
        written = subprocess.run([infprof, "flamegraph", "-r", str(tmp_path / "first"), f"--{option}", "-o", str(file)], capture_output=True, text=True, timeout=60)
        assert written.returncode == 0, written.stderr
        shutil.rmtree(run_dir, ignore_errors=True)
        assert imported(file)["samples"] == n
        mode = "samples/count" if option == "folded" else "cpu"
        after = folded("--mode", mode)
        plain = {re.sub(r"_\[[kj]\]", "", stack): count for stack, count in before.items()}
        assert after == (plain if option == "speedscope" else before)
        if option != "folded":
            assert weights(infprof, run_dir, mode)[1] == pytest.approx(weight, rel=1e-6)
        if option in ("pprof", "perf-script"):
            sql = "select pId, tid, tName, sum(samples)::bigint as n from stack_samples group by all order by all"
            assert query(infprof, run_dir, sql) == owners


@pytest.mark.san
def test_hostile_files_are_refused(infprof, run_dir):
    bomb = gzip.compress(b"a;b 1\n" + b"\n" * (80 << 20), 9)
    cases = [
        (b"", "standard input is empty"), (b"hello world\n", "unrecognised profile format; it can be one of folded, heap-text, heaptrack, memray, perf-script, pprof, speedscope: name it with --format"),
        (b"a;b 1\na;b -3\n", "line 2"), (b"a;b 1\n" * 3 + b"a;b 1e999\n", "line 4"), (b"a;b NaN\n", "line 1"),
        (b"a;b " + b"9" * 30 + b"\n", "line 1"), (b"a;" * (3 << 20), "line 1: longer than 4 MiB"),
        (bomb, "500 times its size"), (gzip.compress(gzip.compress(b"a 1\n")), "gzip within gzip"), (gzip.compress(b"a;b 1\n" * 99)[:-20], "gzip data end"),
        (b"PERFILE2" + bytes(100), "perf script"), (b"\x7fELF" + bytes(100), "a program"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "unrecognised profile format"), (b'{"traceEvents":[]}', "JSON, but not speedscope"),
        (speedscope({"type": "sampled", "name": "x", "unit": "none", "startValue": 0, "endValue": 1, "samples": [[99]], "weights": [1]}).encode(), "(profile 'x')"),
    ]
    for data, part in cases:
        assert part in refused(infprof, run_dir, data), part
    assert "line 2: a NUL byte" in refused(infprof, run_dir, b"a;b 1\na\0;b 1\n", "--format", "folded")
    whole = gzip.decompress((FIXTURES / "go-cpu.pprof").read_bytes())
    assert "near byte" in refused(infprof, run_dir, whole[:-5], "--format", "pprof")


def test_usage(infprof, tmp_path):
    for words in ([], ["a", "b"], ["--format", "perf", "a"], ["--mode", "cpu", "a"]):
        assert subprocess.run([infprof, "import", *words], capture_output=True, timeout=60).returncode == 2
    for path in (tmp_path, tmp_path / "missing"):
        done = subprocess.run([infprof, "import", str(path), "-o", str(tmp_path / "out")], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and str(path) in done.stderr


@pytest.mark.parametrize("name", ["go-heap.pprof", "heaptrack.txt", "jemalloc.heap", "austin"])
def test_mode_of_what_says_it_itself(infprof, run_dir, name):
    data = b"# austin: 3.7.0\n# mode: cpu\nP1;T1;a.py:f:1 5\n" if name == "austin" else (FIXTURES / name).read_bytes()
    done = subprocess.run([infprof, "import", "-", "-o", str(run_dir), "--mode", "heap-peak"], input=data, capture_output=True, timeout=60)
    assert done.returncode == 2 and b"--mode: standard input says itself what its numbers are" in done.stderr
    assert not run_dir.exists() or not list(run_dir.iterdir())


def test_long_files_need_little_memory(infprof, run_dir):
    """120 MB of folded text through a pipe, with 10,000 different stacks."""
    chunk = "".join(f"main;loop_{i % 10};function_number_{i}_of_the_namespace;{'x' * 60}_{i};leaf {1 + i % 3}\n" for i in range(10000)).encode()
    process = subprocess.Popen([infprof, "import", "-", "-o", str(run_dir), "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    n = (120 << 20) // len(chunk)
    for _ in range(n):
        process.stdin.write(chunk)
    process.stdin.flush()
    peak = int(next(line for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("VmHWM")).split()[1])
    said = json.loads(process.communicate(timeout=120)[0])
    assert process.returncode == 0
    assert said["samples"] == n * sum(1 + i % 3 for i in range(10000))
    assert peak < 120 * 1024  # kB


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_it_waits(infprof, run_dir, number):
    process = subprocess.Popen([infprof, "import", "-", "-o", str(run_dir)], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdin.write("a;b 1\n" * 20000)
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not list(run_dir.glob("*.infprof/run.json")):
        assert time.monotonic() < deadline
        time.sleep(0.02)  # sleep: between two looks
    process.send_signal(number)
    assert "was stopped" in process.stderr.read()
    assert process.wait(timeout=30) == 1
    assert not list(run_dir.iterdir())


def test_killed_run_is_not_finished(infprof, run_dir):
    process = subprocess.Popen([infprof, "import", "-", "-o", str(run_dir)], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdin.write(b"".join(b"a;b%d 1\n" % i for i in range(100000)))
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not list(run_dir.glob("*.infprof/stack_samples/*.arrows")):
        assert time.monotonic() < deadline
        time.sleep(0.02)  # sleep: between two looks
    process.kill()
    process.wait()
    assert run_dir.run().info["finished"] is False
    assert "interrupted" in subprocess.run([infprof, "runs", str(run_dir)], capture_output=True, text=True, timeout=60).stdout
