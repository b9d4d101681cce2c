"""What docs/files.md shows works as it stands there, and says what infprof says."""
import json
import os
import pathlib
import re
import subprocess

import duckdb
import pytest

TEXT = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "files.md").read_text()


def block(language):
    return re.search(rf"```{language}\n(.*?)```", TEXT, re.DOTALL).group(1)


@pytest.fixture(scope="module")
def place(infprof, tmp_path_factory):
    """A run in ./profiler-output, with processes whose name changes while they run."""
    directory = tmp_path_factory.mktemp("docs")
    done = subprocess.run([infprof, "record", "-t", "50", "-p", "--", "sh", "-c", "sleep 0.3; exec sleep 0.5"], cwd=directory,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr
    for path in directory.glob("profiler-output/*.infprof/cpu/000001.parquet"):
        done = subprocess.run([infprof, "query", "-f", "arrow", "-o", path.with_suffix(".arrows"), "SELECT * FROM cpu"], cwd=directory, timeout=60)
        assert done.returncode == 0
    return directory


def test_sql(infprof, place):
    here = os.getcwd()
    os.chdir(place)
    try:
        shown = duckdb.sql(block("sql")).fetchall()
    finally:
        os.chdir(here)
    done = subprocess.run([infprof, "query", "--json", "SELECT pName, max(pResidentSetSize) AS rss FROM processes GROUP BY ALL"], cwd=place,
                          stdout=subprocess.PIPE, timeout=60)
    ours = {row["pName"]: row["rss"] for row in json.loads(done.stdout)}
    assert dict(shown) == ours and len(shown) == len(ours) > 1


def test_python(infprof, place):
    code = block("python")
    assert "series.csv" in code and "UUID" in code
    done = subprocess.run([infprof, "export"], cwd=place, stdout=open(place / "series.csv", "w"), timeout=60)
    assert done.returncode == 0
    assert subprocess.run([infprof, "export", "-o", "series.tsv"], cwd=place, timeout=60).returncode == 0
    uuid = next(place.glob("profiler-output/*.infprof")).stem
    names = {}
    here = os.getcwd()
    os.chdir(place)
    try:
        exec(compile(code.replace("UUID", uuid), "docs/files.md", "exec"), names)
    finally:
        os.chdir(here)
    assert len(names["series"]) == len(names["table"]) > 5
    assert list(names["series"].columns) == list(names["table"].columns)
    assert names["cores"].height > 5 and names["cpu"].num_rows > 5
