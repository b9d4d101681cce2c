"""Files that are not what they should be: every verb ends with a sentence, and the rest of the run can be read."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile

import pytest

from program import query, run

NOISE = random.Random(7).randbytes(300)
WITHOUT = {"INFPROF_LIBDUCKDB": "/nowhere/libduckdb.so"}


@pytest.fixture(scope="module")
def recorded(infprof, tmp_path_factory):
    """A finished run, and one whose tables stayed Arrow."""
    top = tmp_path_factory.mktemp("broken")
    for name, env in (("parquet", {}), ("arrow", WITHOUT)):
        done = run([infprof, "record", "-o", top / name, "-t", "50", "--no-snapshots", "--", "sleep", "0.6"], env=env)
        assert done.returncode == 0, done.stderr
    return top


@pytest.fixture(params=["parquet", "arrow"])
def output(request, recorded, tmp_path):
    """A copy to break."""
    shutil.copytree(recorded / request.param, tmp_path / "out")
    return tmp_path / "out"


def segment(output, table):
    return next(output.glob(f"*.infprof/{table}/000001.*"))


@pytest.mark.san
def test_one_broken_table_leaves_the_others(infprof, output):
    path = segment(output, "cpu")
    path.write_bytes(NOISE)
    assert query(infprof, output, "SELECT count(*) AS n FROM mem")[0]["n"] > 5
    for sql in ("SELECT count(*) FROM cpu", "SELECT 1 FROM cpu", "SELECT vLoadAvg FROM cpu", "SELECT EXISTS (FROM cpu)"):
        done = run([infprof, "query", "-r", output, sql])
        assert done.returncode == 1 and done.stdout == "", sql
        assert "cpu/000001" in done.stderr and str(output) in done.stderr and "move the broken file away" in done.stderr
        assert "/proc/self" not in done.stderr and "LINE 1" not in done.stderr
    done = run([infprof, "export", "cpu", "-r", output, "-o", output / "x.csv"])
    assert done.returncode == 1 and str(output) in done.stderr and "move the broken file away" in done.stderr
    assert not list(output.glob("x.csv*"))

    done = run([infprof, "tables", "-r", output, "--json"])
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "cpu/000001" in done.stderr
    listed = {row["table_name"]: row["rows"] for row in json.loads(done.stdout)}
    assert listed["cpu"] is None and listed["timeseries"] is None and listed["mem"] > 5

    path.unlink()  # what the sentence says
    assert run([infprof, "tables", "-r", output]).returncode == 0
    assert query(infprof, output, "SELECT count(*) AS n FROM cpu") == [{"n": 0}]


@pytest.mark.san
@pytest.mark.parametrize("name", ["foreign/000001.arrows", "foreign/000001.parquet"])
def test_a_foreign_file(infprof, output, name):
    path = next(output.glob("*.infprof")) / name
    path.parent.mkdir()
    path.write_bytes(NOISE)
    assert query(infprof, output, "SELECT count(*) AS n FROM mem")[0]["n"] > 5
    assert query(infprof, output, "SELECT count(*) AS n FROM timeseries")[0]["n"] > 5
    done = run([infprof, "query", "-r", output, 'SELECT * FROM "foreign"'])
    assert done.returncode == 1 and name in done.stderr
    assert name in run([infprof, "tables", "-r", output]).stderr


@pytest.mark.san
def test_no_units(infprof, output):
    """What they are stands in table columns alone; a program that wrote a run without it may know none."""
    shutil.rmtree(next(output.glob("*.infprof")) / "columns")
    for verb in ("report", "tables"):
        done = run([infprof, verb, "-r", output])
        assert done.returncode == 0 and done.stderr.count("table columns is missing: the units of all tables are not known") == 1, done.stderr


def test_links_are_not_followed(infprof, recorded, tmp_path):
    """A run that somebody sent may point anywhere."""
    output = tmp_path / "out"
    shutil.copytree(recorded / "arrow", output)
    one, folder = segment(output, "cpu"), segment(output, "net").parent
    one.unlink()
    one.symlink_to("/etc/passwd")
    shutil.rmtree(folder)
    folder.symlink_to(recorded)
    assert query(infprof, output, "SELECT count(*) AS n FROM mem")[0]["n"] > 5
    for table, text in (("cpu", "Too many levels of symbolic links"), ("net", "Not a directory")):
        for words in (["query", f"SELECT count(*) FROM {table}"], ["export", table]):
            done = run([infprof, *words, "-r", output])
            assert done.returncode == 1 and text in done.stderr and str(output) in done.stderr, (words, done.stderr)
    done = run([infprof, "tables", "-r", output, "--json"])
    listed = {row["table_name"]: row["rows"] for row in json.loads(done.stdout)}
    assert done.returncode == 1 and listed["cpu"] is None and listed["net"] is None and listed["mem"] > 5


def test_a_broken_time_series(infprof, recorded, tmp_path):
    """It is made again from the tables."""
    shutil.copytree(recorded / "parquet", tmp_path / "out")
    whole = query(infprof, tmp_path / "out", "SELECT * FROM timeseries")
    next((tmp_path / "out").glob("*.parquet")).write_bytes(NOISE)
    assert query(infprof, tmp_path / "out", "SELECT * FROM timeseries") == whole


@pytest.mark.san
def test_no_damage_is_a_crash(infprof, output):
    """Random damage: an answer or a sentence, never a signal, a sanitizer's report or an internal error."""
    noise = random.Random(11)
    files = sorted(path for path in output.rglob("*") if path.is_file() and path.stat().st_size)
    for _ in range(6):
        path = noise.choice(files)
        kept = path.read_bytes()
        broken = bytearray(kept)
        for _ in range(noise.choice((1, 4, 40))):
            broken[noise.randrange(len(broken))] ^= 1 << noise.randrange(8)
        path.write_bytes(broken[:noise.choice((len(broken), noise.randrange(len(broken))))])
        table = path.parent.name if path.parent.parent.suffix == ".infprof" else "mem"
        for words in (["query", f'SELECT * FROM "{table}"'], ["export", table, "--json"], ["report"]):
            done = run([infprof, *words, "-r", output])
            assert done.returncode in (0, 1), (path, words, done.stderr)
            assert done.returncode == 0 or done.stderr, (path, words)
            assert "INTERNAL" not in done.stderr, done.stderr
        path.write_bytes(kept)


@pytest.mark.san
@pytest.mark.parametrize("words", [["tables"], ["export", "mem"], ["export", "mem", "-f", "arrow"], ["export", "mem", "-f", "parquet"],
                                   ["export", "-f", "prom"], ["query", "SELECT 1"], ["query", "-f", "parquet", "SELECT 1"], ["report"]])
def test_a_full_disk(infprof, recorded, words):
    with open("/dev/full", "w") as full:
        done = subprocess.run([infprof, *words, "-r", recorded / "parquet"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "no space left on" in done.stderr.lower() and ("standard output" in done.stderr or "/dev/stdout" in done.stderr)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: becomes somebody else")
def test_a_run_of_somebody_else(infprof, recorded):
    with tempfile.TemporaryDirectory() as top:  # pytest's own directories are closed to others
        os.chmod(top, 0o755)
        output = pathlib.Path(top) / "out"
        shutil.copytree(recorded / "arrow", output)

        def nobody(*words):
            return run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", infprof, *words, "-r", output])

        done = nobody("tables")
        assert done.returncode == 1 and "Permission denied; uid 0 alone and root may read it: `record --share`" in done.stderr and top in done.stderr
        next(output.glob("*.infprof")).chmod(0o755)
        assert nobody("tables").returncode == 0
        segment(output, "cpu").chmod(0o600)
        done = nobody("export", "cpu")
        assert done.returncode == 1 and "Permission denied; become its owner" in done.stderr and top in done.stderr
        assert nobody("export", "mem").returncode == 0


@pytest.mark.san
def test_places_that_are_no_run(infprof, tmp_path):
    (tmp_path / "x.infprof").mkdir()
    empty = tmp_path / "0198f3aa-0000-7000-8000-000000000000.infprof"
    for words, text in ((["-r", tmp_path / "x.infprof"], "its name must be <uuid>.infprof"),
                        (["-r", tmp_path], "no run in"),
                        (["-r", "a b'c\"\n"], "no directory"),
                        (["-r", "x" * 5000], "File name too long"),
                        (["-r", "/dev/null"], "is a file")):
        done = run([infprof, "tables", *words], cwd=tmp_path)
        assert done.returncode == 1 and text in done.stderr, done.stderr
    empty.mkdir()
    done = run([infprof, "tables", "--json", "-r", tmp_path])
    assert done.returncode == 0 and json.loads(done.stdout)[0]["table_name"] == "timeseries", done.stderr
    for verb in ("tables", "export", "report"):
        assert run([infprof, verb, "-r", tmp_path]).returncode in (0, 1)
    assert run([infprof, "recover", tmp_path]).returncode == 0
    assert json.loads((empty / "run.json").read_text())["finished"] is True
