"""Lines of source, and Python or native functions alone, in the report and in exported tables. The run: tests/unit/stack_tool.c, put_python."""
import csv
import io
import json
import subprocess

import pytest

from test_flamegraph import stack_tool


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    path = tmp_path_factory.mktemp("mixed") / "out"
    subprocess.run([stack_tool(), path, "python"], check=True)
    return path


@pytest.fixture
def run(infprof, mixed):
    """run(verb, words...): standard output; fails: the exit code that it must have, then standard error."""
    def call(verb, *words, fails=0):
        done = subprocess.run([infprof, verb, "-r", mixed, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == fails, done
        return done.stderr if fails else done.stdout
    return call


def selfs(part):
    return {(one["name"], one["line"]): one["samples"] for one in part["top_functions"]}


def totals(part):
    return {(one["name"], one["line"]): one["samples"] for one in part["top_functions_total"]}


def test_lines(run):
    lines = json.loads(run("report", "--json"))["lines"]
    assert selfs(lines["cpu"]) == {("main", 10): 1, ("serve", 20): 2, ("matmul", None): 3, ("hook", 31): 4}
    assert totals(lines["cpu"]) == {("main", 10): 10, ("serve", 20): 9, ("matmul", None): 7, ("hook", 31): 4}
    assert lines["cpu"]["top_functions"][0]["file"] == "/srv/serve.py" and abs(lines["cpu"]["without_line"] - 0.03) < 1e-9
    assert selfs(lines["off-cpu"]) == {("matmul", None): 5}  # that called the kernel
    text = run("report", "lines")
    rows = [line.split() for line in text.split("Source lines by CPU time")[1].split("what it calls")[0].splitlines()]
    assert [row[-2:] for row in rows if row and row[0] == "40.00"] == [["serve.py:31", "hook"]]
    assert [row[-4:] for row in rows if row and row[0] == "30.00"] == [["[no", "line]", "matmul", "lib.so"]]
    assert "30.0 % of self time is in code whose lines are not known" in " ".join(text.split())
    assert "Source lines by time that threads waited" in text


def test_lines_of_a_table_in_the_terminal(infprof, mixed):
    text = subprocess.run([infprof, "flamegraph", "-r", mixed, "--top", "--by", "line"], capture_output=True, text=True, check=True).stdout
    assert "serve.py:31  hook" in text and "[no line]  matmul  lib.so" in text and "whose lines are not known" in text


def test_no_samples_by_line(infprof, record):
    done = record("--cpu=1", "--no-snapshots", command=["true"])
    text = " ".join(subprocess.run([infprof, "report", "lines", "-r", done.run.path], capture_output=True, text=True, check=True).stdout.split())
    assert "Source lines by CPU time none no stack samples" in text, text


def test_a_run_without_samples_has_no_lines(infprof, tmp_path):
    (tmp_path / "one.folded").write_text("a;b 3\n")
    subprocess.run([infprof, "import", tmp_path / "one.folded", "-o", tmp_path / "out"], check=True, capture_output=True)
    text = subprocess.run([infprof, "report", "lines", "-r", tmp_path / "out"], capture_output=True, text=True, check=True).stdout
    assert "[no line]  b" in text and "100.0 % of self time is in code whose lines are not known" in " ".join(text.split())


def test_python_only_in_the_report(run):
    said = json.loads(run("report", "--json", "--python-only"))
    assert selfs(said["functions"]["cpu"]) == {("serve", 5): 5, ("hook", 5): 4}
    assert (said["functions"]["cpu"]["total_samples"], said["functions"]["cpu"]["all_samples"]) == (9, 10)
    assert selfs(said["lines"]["cpu"]) == {("serve", 20): 5, ("hook", 31): 4}
    assert selfs(said["functions"]["off-cpu"]) == {("serve", 5): 5}
    text = run("report", "functions", "--python-only")
    assert "Functions by CPU time (Python only)" in text and "9 of 10 have such a function" in text


def test_native_only_in_the_report(run):
    said = json.loads(run("report", "--json", "--native-only"))
    assert selfs(said["functions"]["cpu"]) == {("main", 5): 3, ("matmul", 5): 7}
    assert selfs(said["functions"]["off-cpu"]) == {("matmul", 5): 5}  # the kernel is native, and it is a wait
    assert "(without Python)" in run("report", "functions", "--native-only")


def rows_of(run, table, *words):
    return list(csv.DictReader(io.StringIO(run("export", table, *words))))


def test_python_only_in_exported_tables(run):
    frames = {row["id"]: row for row in rows_of(run, "frames", "--python-only")}
    assert len(frames) == 2 and {row["fKind"] for row in frames.values()} == {"python"}
    names = {row["frame"]: row["sName"] for row in rows_of(run, "symbols", "--python-only")}
    assert sorted(names.values()) == ["hook", "serve"] and set(names) == set(frames)
    stacks = {row["id"]: row for row in rows_of(run, "stacks", "--python-only")}
    hook, serve = (next(row for row in stacks.values() if names[row["frame"]] == name) for name in ("hook", "serve"))
    assert len(stacks) == 2 and (serve["parent"], serve["depth"]) == ("", "0")
    assert (hook["parent"], hook["depth"], hook["parent_frame"], hook["parent_depth"]) == (serve["id"], "1", serve["frame"], "0")
    samples = rows_of(run, "stack_samples", "--python-only")
    found = {}
    for row in samples:
        assert (row["parent"], row["frame"], row["depth"]) == tuple(stacks[row["stack"]][column] for column in ("parent", "frame", "depth"))
        found[row["mode"], names[row["frame"]]] = found.get((row["mode"], names[row["frame"]]), 0) + 1
    assert found == {("cpu", "serve"): 5, ("cpu", "hook"): 4, ("off-cpu", "serve"): 5}
    # All other cells are as they were.
    whole = {(row["t_ns"], row["mode"], row["tName"], row["weight"], row["state"]) for row in rows_of(run, "stack_samples")}
    assert {(row["t_ns"], row["mode"], row["tName"], row["weight"], row["state"]) for row in samples} == whole


def test_native_only_in_exported_tables(run):
    frames = rows_of(run, "frames", "--native-only")
    assert sorted(row["fKind"] for row in frames) == ["kernel", "native", "native"]
    assert len(rows_of(run, "stack_samples", "--native-only", "--no-names")) == 15
    assert len(rows_of(run, "stacks", "--native-only", "--no-names")) == 3


def test_exported_parts_of_a_hostile_run(infprof, tmp_path):
    """Circles, missing parents and frames: what the tables have is followed once."""
    subprocess.run([stack_tool(), tmp_path / "out", "hostile"], check=True)
    for part in ("--python-only", "--native-only"):
        for table in ("stack_samples", "stacks", "frames", "symbols"):
            done = subprocess.run([infprof, "export", table, part, "-r", tmp_path / "out"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and done.stdout.startswith("t_ns,"), done


@pytest.mark.parametrize("verb, words, said", [
    ("report", ["--python-only", "--native-only"], "report: --python-only or --native-only, not both"),
    ("report", ["--python-only", "--csv"], "which --csv does not list"),
    ("export", ["stacks", "--python-only", "--native-only"], "export: --python-only or --native-only, not both"),
    ("export", ["--python-only"], "not for timeseries"),
    ("export", ["mem", "--native-only"], "are for stack_samples, stacks, frames and symbols, not for mem"),
    ("export", ["-f", "prom", "--native-only"], "not for a page"),
])
def test_refused(run, verb, words, said):
    assert said in run(verb, *words, fails=2)
