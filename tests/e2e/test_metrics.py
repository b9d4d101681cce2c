"""infprof metrics: the column table, docs/metrics.md made from it, and the promise of tests/schema.lock."""
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]


def run(infprof, *words):
    done = subprocess.run([infprof, "metrics", *words], stdout=subprocess.PIPE, check=True, timeout=60)
    return done.stdout.decode()


def lock_tool():
    loader = importlib.machinery.SourceFileLoader("lock_schema", str(TOP / "tools" / "lock-schema"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lock_schema", loader))
    loader.exec_module(module)
    return module


@pytest.mark.san
def test_every_column_is_described(infprof):
    columns = json.loads(run(infprof, "--json"))
    names = [(column["table"], column["name"]) for column in columns]
    assert len(names) == len(set(names)) > 200
    assert ("cpu", "vCpuTime") in names and ("mem", "vMemoryFree") in names and ("processes", "pResidentSetSize") in names
    for column in columns:
        assert column["help"].endswith("."), column
        assert column["kind"] in ("label", "gauge", "counter")
        assert column["quality"] in ("measured", "derived", "estimated")
        assert (column["reset"] is not None) == (column["kind"] == "counter")
    steal = next(column for column in columns if column["name"] == "vCpuTimeIOWait" and column["table"] == "cpu")
    assert (steal["unit"], steal["kind"], steal["reset"]) == ("cs", "counter", "none")


def test_formats_agree(infprof):
    import csv
    import io

    in_json = json.loads(run(infprof, "--json"))
    in_csv = list(csv.DictReader(io.StringIO(run(infprof, "-f", "csv"))))
    in_tsv = list(csv.DictReader(io.StringIO(run(infprof, "-f", "tsv")), delimiter="\t"))
    assert in_csv == in_tsv and len(in_csv) == len(in_json)
    for a, b in zip(in_csv, in_json):
        assert a["name"] == b["name"] and a["help"] == b["help"] and a["is_key"] == str(b["is_key"]).lower()


def test_one_table(infprof):
    columns = json.loads(run(infprof, "--json", "-t", "marks"))
    assert {column["table"] for column in columns} == {"marks"}
    done = subprocess.run([infprof, "metrics", "-t", "nothing"], stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"nothing" in done.stderr


def test_docs_are_fresh(infprof):
    assert (TOP / "docs" / "metrics.md").read_text() == run(infprof, "--markdown"), "docs/metrics.md is stale: run make docs"


def test_schema_keeps_its_promise(infprof):
    tool = lock_tool()
    lock, now = tool.locked(), tool.current(infprof)
    assert len(lock) > 10
    assert tool.broken(lock, now) == [], "readers of old recordings rely on these columns"
    assert tool.missing(lock, now) == [], "new columns: run tools/lock-schema"
    assert tool.LOCK.read_text().startswith(tool.HEAD)


@pytest.mark.parametrize("change, said", [
    (lambda columns: columns[:-1], "nothing"),
    (lambda columns: [columns[1], columns[0], *columns[2:]], "place 0"),
    (lambda columns: [columns[0].replace(" i64 ", " f64 "), *columns[1:]], "f64"),
    (lambda columns: None, "is gone"),
])
def test_a_broken_promise_is_seen(change, said):
    """Removed, moved, retyped, and a table that is gone."""
    tool = lock_tool()
    lock = {"t": ["a i64 gauge -", "b i64 gauge -"]}
    changed = change(lock["t"])
    faults = tool.broken(lock, {"t": changed} if changed is not None else {})
    assert len(faults) == 1 and said in faults[0]
    assert tool.broken(lock, {"t": [*lock["t"], "c str label -"]}) == []
    assert tool.missing(lock, {"t": [*lock["t"], "c str label -"]}) == ["t c str label -"]
