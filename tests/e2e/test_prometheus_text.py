"""The Prometheus text of every table and of the page, read by a parser that forgives nothing."""
import json
import re
import shutil
import subprocess

import pytest

HOSTILE = 'a"b\\c\nd{}=,#'  # a program's name; the kernel keeps 15 bytes
NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
VALUE = re.compile(r"[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN", re.IGNORECASE)


def parse(text):
    """{family: {"type", "samples": [(labels, stamp, value)]}}; a line that is not right is an AssertionError."""
    assert text == "" or text.endswith("\n")
    families, current = {}, None
    for line in text.split("\n")[:-1]:
        if line.startswith("# HELP "):
            name, help_text = line[7:].split(" ", 1)
            assert NAME.fullmatch(name) and name not in families, line
            assert re.fullmatch(r"(?:[^\\]|\\[\\n])+", help_text), line
            families[name] = {"type": None, "samples": []}
            current = name
            continue
        if line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name == current and families[name]["type"] is None and not families[name]["samples"], line
            assert kind in ("counter", "gauge"), line
            assert (kind == "counter") == name.endswith("_total"), line
            families[name]["type"] = kind
            continue
        assert not line.startswith("#") and line, line
        name = NAME.match(line).group()
        assert name == current and families[name]["type"], f"not below its own TYPE: {line}"
        rest, labels = line[len(name):], ()
        if rest.startswith("{"):
            at, found = 1, []
            while rest[at] != "}":
                label = LABEL.match(rest, at)
                assert label, line
                found.append(label.groups())
                at = label.end()
                if rest[at] == ",":
                    at += 1
            labels, rest = tuple(sorted(found)), rest[at + 1:]
            assert len({key for key, _ in labels}) == len(labels), line
        words = rest.split(" ")
        assert words[0] == "" and len(words) in (2, 3) and VALUE.fullmatch(words[1]), line
        stamp = int(words[2]) if len(words) == 3 else None
        # With a stamp: rows of a table are told apart by nanoseconds, of which the text shows the milliseconds.
        assert stamp or (labels, None) not in {sample[:2] for sample in families[name]["samples"]}, f"twice: {line}"
        families[name]["samples"].append((labels, stamp, float(words[1])))
    return families


@pytest.fixture(scope="module")
def output(infprof, tmp_path_factory):
    directory = tmp_path_factory.mktemp("prom")
    shutil.copy("/bin/sleep", directory / HOSTILE)
    done = subprocess.run([infprof, "record", "-o", str(directory / "out"), "-t", "100", "-p", "--no-snapshots", "--", str(directory / HOSTILE), "1"],
                          stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr
    return directory / "out"


def export(infprof, output, *words):
    done = subprocess.run([infprof, "export", *words, "-r", str(output)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.san
def test_page(infprof, output):
    families = parse(export(infprof, output, "-f", "prom"))
    assert len(families) > 100
    assert all(family["samples"] for family in families.values())
    assert all(stamp is None for family in families.values() for _, stamp, _ in family["samples"])


def test_every_table(infprof, output):
    described = json.loads(export(infprof, output, "columns", "--json"))
    rows = {name: json.loads(export(infprof, output, name, "--json")) for name in {row["table_name"] for row in described}}
    n_counted = 0
    for name, expected in rows.items():
        families = parse(export(infprof, output, name, "-f", "prom"))
        metrics = {row["column_name"]: row["prometheus"] for row in described
                   if row["table_name"] == name and row["prometheus"] and row["kind"] != "label"}
        keys = [row["column_name"] for row in described if row["table_name"] == name and row["is_key"]]
        stamps = {}  # of two rows of one thing within a millisecond the first stands
        for row in expected:
            stamps.setdefault((row["time"], *(row[key] for key in keys)), row)
        for column, family in metrics.items():
            present = sum(1 for row in stamps.values() if row[column] is not None)
            assert len(families.get(family, {"samples": ()})["samples"]) == present, (name, column)
            n_counted += present
    assert n_counted > 1000


def test_time_series(infprof, output):
    """All of its columns, however many: each value with its tick."""
    described = {}  # a column of several tables has several names
    for row in json.loads(export(infprof, output, "columns", "--json")):
        if row["prometheus"] and row["kind"] != "label":
            described.setdefault(row["column_name"], set()).add(row["prometheus"])
    rows = json.loads(export(infprof, output, "timeseries", "--json"))
    families = parse(export(infprof, output, "timeseries", "-f", "prom"))
    wanted = [described[name] for name in rows[0] if name in described and any(row[name] is not None for row in rows)]
    assert len(wanted) > 100 and all(names & set(families) for names in wanted)
    stamps = {stamp for family in families.values() for _, stamp, _ in family["samples"]}
    assert stamps == {row["timestamp"] for row in rows}


@pytest.mark.san
def test_hostile_text_is_one_label(infprof, output):
    names = {row["pName"] for row in json.loads(export(infprof, output, "process", "--json")) if row["pName"]}
    hostile = [name for name in names if name.startswith('a"b')]
    assert len(hostile) == 1
    labels = [dict(labels) for family in parse(export(infprof, output, "processes", "-f", "prom")).values() for labels, _, _ in family["samples"]]
    escaped = hostile[0].replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    assert any(escaped in label.values() for label in labels), labels[:3]
