"""Rows of tables that programs send by infp_row(): in recordings, in exports, and asked of the process itself; and the SQL of the
mission's page on profiling, as it stands there."""
import csv
import io
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from waiting import wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
LIST = "SELECT table_name FROM information_schema.tables;"
TRACE = "SELECT * FROM python.torch_trace WHERE step > 100;"
BACKTRACE = "SELECT * FROM python.backtrace;"
BY_MODULE = """SELECT
    module,
    COUNT(*) as count,
    AVG(duration) as avg_duration,
    MAX(allocated) as peak_memory
FROM python.torch_trace
GROUP BY module;"""

PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infprof/infprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static infp_table *table;
static infp_cell of_int(int64_t i) { infp_cell c = { INFP_CELL_INT, 0, { 0 } }; c.value.i = i; return c; }
static infp_cell of_double(double d) { infp_cell c = { INFP_CELL_DOUBLE, 0, { 0 } }; c.value.d = d; return c; }
static infp_cell of_text(const char *t) { infp_cell c = { INFP_CELL_TEXT, 0, { 0 } }; c.value.text = t; return c; }
static void rows(int n)
{
        static const char *const modules[] = { "layers.0", "layers.1", "head" };
        infp_cell cells[6];
        for (int i = 0; i < n; i++) {
                cells[0] = of_int(i / 3);
                cells[1] = of_int(i);
                cells[2] = of_text(modules[i % 3]);
                cells[3] = of_text("forward");
                cells[4] = of_double(0.5 * (i % 3));
                cells[5] = of_int(i); /* into a column of real numbers */
                infp_row(table, 0, cells, 6);
        }
}
static infp_table *table_of_storm(void)
{
        return infp_table_open("torch_trace", "seq module step");
}
int main(int argc, char **argv)
{
        const char *mode = argc > 2 ? argv[2] : "";
        table = infp_table_open("torch_trace", "step seq module stage duration allocated");
        infp_thread_name("trainer");
        rows(atoi(argv[1]));
        if (!strcmp(mode, "fork") && fork() == 0) {
                rows(6);
                exit(0);
        }
        if (!strcmp(mode, "fork"))
                wait(NULL);
        if (!strcmp(mode, "strange")) {
                infp_cell cells[2];
                cells[0] = of_int(1);
                cells[1] = of_text("no");
                infp_row(infp_table_open("torch_trace", "seq column_of_the_future"), 0, cells, 2);
                infp_row(infp_table_open("table_of_the_future", "seq"), 0, cells, 1);
                infp_row(infp_table_open("cpu", "vCpuPercent"), 0, cells, 1); /* not of schema python */
        }
        if (!strcmp(mode, "both")) {
                void *library = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
                infp_table *(*open_other)(const char *, const char *) = dlsym(library, "infp_table_open");
                void (*row_other)(infp_table *, uint64_t, const infp_cell *, size_t) = dlsym(library, "infp_row");
                infp_cell cells[1];
                cells[0] = of_int(100);
                row_other(open_other("torch_trace", "seq"), 0, cells, 1);
        }
        for (uint32_t i = 0; !strcmp(mode, "storm"); i++) { /* until it is killed */
                infp_cell cells[3];
                char name[16];
                snprintf(name, sizeof name, "m%u", i);
                cells[0] = of_int(i);
                cells[1] = of_text(name); /* each is another one: the arena is full soon */
                cells[2] = of_int((int64_t) (uint32_t) (i * 2654435761u));
                infp_row(table_of_storm(), 0, cells, 3);
                if (i % 4 == 0)
                        usleep(20);
        }
        if (!strcmp(mode, "wait")) {
                puts("ready");
                fflush(stdout);
                getchar();
        }
        return 0;
}
"""


@pytest.fixture(scope="session")
def program(infprof, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows"
    path.with_suffix(".c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-I", TOP / "include", "-o", path, path.with_suffix(".c"),
                    pathlib.Path(infprof).parent / "libinfprof.a", "-pthread", "-ldl"], check=True)
    return str(path)


@pytest.fixture
def waiting(program, spawn):
    """waiting(n): the program, which has sent n rows and lives; ended by the test's end."""
    def start(n, **environment):
        process = spawn(program, n, "wait", env={**os.environ, **environment})
        assert process.stdout.readline() == "ready\n"
        return process

    return start


def ask(infprof, where, sql, *options):
    words = [infprof, "query", *where, "--json", *options, sql]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def check_answers(infprof, where, n):
    """The mission's SQL over n rows."""
    names, _ = ask(infprof, where, LIST)
    assert {"torch_trace", "backtrace", "spans"} <= {row["table_name"] for row in names}
    rows, _ = ask(infprof, where, TRACE)
    assert [row["seq"] for row in rows] == list(range(303, n))
    assert rows[0]["step"] == 101 and rows[0]["module"] == "layers.0" and rows[0]["stage"] == "forward"
    assert rows[0]["thread"] == "trainer" and rows[0]["allocated"] == 303.0 and rows[0]["cached"] is None
    times = [row["t_ns"] for row in rows]
    assert times == sorted(times) and rows[0]["pName"] == "rows"
    by_module, _ = ask(infprof, where, BY_MODULE)
    assert {row["module"]: (row["count"], row["avg_duration"], row["peak_memory"]) for row in by_module} == {
        name: (n // 3, 0.5 * i, float(n - 3 + i)) for i, name in enumerate(("layers.0", "layers.1", "head"))}


def test_a_recording_answers_the_missions_sql(infprof, record, run_dir, program):
    done = record("-t", "100", command=[program, "600"])
    assert done.returncode == 0, done.stderr
    where = ["-r", str(run_dir)]
    check_answers(infprof, where, 600)
    assert ask(infprof, where, BACKTRACE)[0] == []  # no stacks were asked for
    assert len(ask(infprof, where, "SELECT * FROM torch_trace", "--restricted")[0]) == 600
    schemas, _ = ask(infprof, where, "SELECT table_schema, table_name FROM information_schema.tables")
    assert {row["table_name"] for row in schemas if row["table_schema"] == "python"} == {
        "torch_trace", "torch_steps", "torch_overhead", "gc", "own_stacks", "variables", "backtrace"}


def test_other_verbs_have_the_table(infprof, record, run_dir, program):
    record("-t", "100", "--no-finish", command=[program, "6"])

    def call(*words):
        return subprocess.run([infprof, *words, "-r", str(run_dir)], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout

    listed = {line.split("\t")[0]: line.split("\t") for line in call("tables").splitlines()}
    assert listed["torch_trace"][1] == "6" and "backtrace" in listed
    for name in ("torch_trace", "python.torch_trace"):
        rows = list(csv.DictReader(io.StringIO(call("export", name))))
        assert [row["seq"] for row in rows] == list("012345")
        assert "max_cached" in call("tables", name)
    assert "exists only in SQL" in subprocess.run([infprof, "export", "-r", str(run_dir), "python.backtrace"], stderr=subprocess.PIPE,
                                                  text=True, timeout=60).stderr


def test_a_live_process_answers_without_a_recorder(infprof, waiting):
    process = waiting(600)
    where = ["--pid", str(process.pid)]
    check_answers(infprof, where, 600)
    rows, _ = ask(infprof, where, BACKTRACE)
    assert rows and {row["pid"] for row in rows} == {process.pid}
    assert [row["depth"] for row in rows if row["sample"] == 0] == list(range(len([row for row in rows if row["sample"] == 0])))
    assert "main" in [row["func"] for row in rows] and {row["frame_type"] for row in rows} == {"Native"}


def test_the_newest_rows_are_kept_and_the_lost_ones_counted(infprof, waiting):
    process = waiting(60000)
    (answer,), said = ask(infprof, ["--pid", str(process.pid)], "SELECT count(*) AS n, min(seq) AS a, max(seq) AS b FROM python.torch_trace")
    assert answer["b"] == 59999 and answer["a"] == 60000 - answer["n"] and 5000 < answer["n"] < 20000
    lost = f"{60000 - answer['n']:,} older rows of tables of process {process.pid} were overwritten"
    assert lost in said, said


def test_a_recording_says_how_many_rows_were_overwritten(infprof, run_dir, program):
    """The recorder is stopped meanwhile."""
    recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish", "--", "sh", "-c",
                                 f"kill -STOP $PPID; {program} 60000; kill -CONT $PPID; sleep 0.5"],
                                env={**os.environ, "INFPROF_RING_BYTES": "256k"}, stderr=subprocess.PIPE, text=True)
    _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, said
    run = run_dir.run()
    numbers = [row["seq"] for row in run.table("torch_trace")]
    assert numbers == list(range(60000 - len(numbers), 60000)) and 500 < len(numbers) < 10000
    reasons = [row["reason"] for row in run.table("sources") if row["collector"] == "rings" and row["reason"]]
    assert any(f"{60000 - len(numbers)} rows of tables were overwritten" in reason for reason in reasons), reasons


def test_children_of_fork_have_rows_of_their_own(record, program):
    done = record("-t", "100", "--no-finish", command=[program, "3", "fork"])
    rows = done.run.table("torch_trace")
    assert sorted(row["seq"] for row in rows) == [0, 0, 1, 1, 2, 2, 3, 4, 5]
    assert len({row["process"] for row in rows}) == 2


def test_kills_at_random_moments_leave_nothing_torn(infprof, run_dir, program, rings):
    seed = int.from_bytes(os.urandom(4), "little")
    rng = random.Random(seed)
    n_rows = 0
    for _ in range(4):
        recorder = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "50", "--no-finish", "--", program, "0", "storm"],
                                    stderr=subprocess.DEVNULL)
        pid = wait_for(lambda: [int(path.name.split("-")[0]) for path in rings.iterdir() if path.name[0] != "."], "the ring")[0]
        time.sleep(rng.uniform(0, 0.3))  # sleep: the moment of the kill is the test's
        os.kill(pid, signal.SIGKILL)
        assert recorder.wait(timeout=60) == 128 + signal.SIGKILL
        run = run_dir.run()
        rows = run.table("torch_trace")
        numbers = [row["seq"] for row in rows]
        assert numbers == sorted(set(numbers)), seed
        assert all(row["step"] == row["seq"] * 2654435761 % 2**32 and row["module"] == f"m{row['seq']}" for row in rows), seed
        assert not [row["reason"] for row in run.table("sources") if row["collector"] == "rings" and row["state"] == "broken"], seed
        n_rows += len(rows)
    assert n_rows > 100, seed


def test_two_libraries_of_one_process_have_a_file_each(infprof, record, program):
    done = record("-t", "100", "--no-finish", command=[program, "3", "both", pathlib.Path(infprof).parent / "libinfprof.so"])
    assert done.returncode == 0, done.stderr
    rows = done.run.table("torch_trace")
    assert sorted(row["seq"] for row in rows) == [0, 1, 2, 100] and len({row["process"] for row in rows}) == 1


def test_what_is_not_known_is_left_out_and_said(record, program):
    done = record("-t", "100", "--no-finish", command=[program, "3", "strange"])
    assert [row["seq"] for row in done.run.table("torch_trace")] == [0, 1, 2, 1]
    reasons = [row for row in done.run.table("sources") if row["collector"] == "rings"]
    assert any("3 records are of unknown kinds" in row["reason"] and "as new as" in row["fix"] for row in reasons), reasons


CTYPES = """
import ctypes, sys
infp = ctypes.CDLL(sys.argv[1])
class Value(ctypes.Union):
    _fields_ = [("i", ctypes.c_int64), ("d", ctypes.c_double), ("text", ctypes.c_char_p)]
class Cell(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), ("unused", ctypes.c_uint32), ("value", Value)]
infp.infp_table_open.restype = ctypes.c_void_p
infp.infp_row.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(Cell), ctypes.c_size_t]
infp.infp_row.restype = None
table = infp.infp_table_open(b"torch_trace", b"step module duration")
for step in range(100, 103):
    infp.infp_row(table, 0, (Cell * 3)(Cell(1, 0, Value(i=step)), Cell(3, 0, Value(text="schicht é".encode())), Cell(2, 0, Value(d=0.25))), 3)
"""


def test_rows_by_ctypes(infprof, record, run_dir):
    done = record("-t", "100", command=[sys.executable, "-c", CTYPES, pathlib.Path(infprof).parent / "libinfprof.so"])
    assert done.returncode == 0, done.stderr
    rows, _ = ask(infprof, ["-r", str(run_dir)], TRACE)
    assert [(row["step"], row["module"], row["duration"]) for row in rows] == [(101, "schicht é", 0.25), (102, "schicht é", 0.25)]


def test_backtrace_has_the_frames_of_each_sample(infprof, record, run_dir, tmp_path):
    """Against samples_named: the same samples, and the same functions in the same order."""
    source = tmp_path / "spin.py"
    source.write_text("import time\ndef inner():\n    end = time.monotonic() + 0.6\n    while time.monotonic() < end:\n"
                      "        sum(range(100))\ndef outer():\n    inner()\nouter()\n")
    done = record("-t", "200", "--cpu", command=[sys.executable, source])
    assert done.returncode == 0, done.stderr
    where = ["-r", str(run_dir)]
    frames, _ = ask(infprof, where, BACKTRACE)
    if not frames:
        pytest.skip("no stacks can be sampled here")
    samples, _ = ask(infprof, where, "SELECT t_ns, tid, pId, tName, stack_text, mode FROM samples_named WHERE stack IS NOT NULL")
    stacks = {}
    for frame in frames:
        stacks.setdefault(frame["sample"], []).append(frame)
    assert len(stacks) == len(samples)
    for stack in stacks.values():
        assert [frame["depth"] for frame in stack] == list(range(len(stack)))
    named = sorted((row["t_ns"], row["tid"], row["pId"], row["mode"], row["stack_text"].removeprefix("[truncated];").count(";") + 1)
                   for row in samples)
    assert named == sorted((stack[0]["t_ns"], stack[0]["tid"], stack[0]["pid"], stack[0]["mode"], len(stack)) for stack in stacks.values())
    python = [[(frame["func"], frame["file"]) for frame in stack if frame["frame_type"] == "Python"] for stack in stacks.values()]
    if not any(python):
        pytest.skip("no Python frames can be read here")
    assert [("inner", str(source)), ("outer", str(source)), ("<module>", str(source))] in python
    assert {frame["frame_type"] for frame in frames} <= {"Python", "Native", "Kernel", "JIT"}
    assert {frame["lineno"] for frame in frames if frame["func"] == "inner"} <= {2, 3, 4, 5}
