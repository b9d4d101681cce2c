"""SQL over finished, unfinished and live runs: formats, errors, interrupts, machines without DuckDB."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pyarrow.parquet
import pytest

from program import run
from waiting import wait_for_rows

WITHOUT = {"INFPROF_LIBDUCKDB": "/nowhere/libduckdb.so"}


def answer(infprof, output, sql, *words):
    done = run([infprof, "query", "-r", output, "--json", *words, sql])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def output(infprof, tmp_path_factory):
    directory = tmp_path_factory.mktemp("query") / "out"
    done = run([infprof, "record", "-o", directory, "-t", "100", "--no-snapshots", "--", "sleep", "1.2"])
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.san
@pytest.mark.parametrize("words, text", [
    ([], "a\tb\n1\tx y\n\t\n"),
    (["-f", "tsv"], "a\tb\n1\tx y\n\t\n"),
    (["-f", "csv"], "a,b\n1,x y\n,\n"),
    (["--json"], '[\n{"a":1,"b":"x y"},\n{"a":null,"b":null}\n]\n'),
    (["-f", "jsonl"], '{"a":1,"b":"x y"}\n{"a":null,"b":null}\n'),
])
def test_formats(infprof, output, words, text):
    done = run([infprof, "query", "-r", output, *words, "SELECT * FROM (VALUES (1, 'x y'), (NULL, NULL)) t(a, b)"])
    assert (done.returncode, done.stdout) == (0, text), done.stderr


def test_table_for_people(infprof, output):
    done = run([infprof, "query", "-r", output, "-f", "table", "SELECT 42 AS answer, 'text' AS word"])
    assert done.returncode == 0
    assert [line.split() for line in done.stdout.splitlines() if line.strip()][0] == ["answer", "word"]
    assert "42" in done.stdout and "text" in done.stdout


def test_every_digit(infprof, output, tmp_path):
    """Integers beyond 2^53, sums that DuckDB makes 128 bits wide, and what exceeds 64 bits."""
    sql = """SELECT 9007199254740993 AS a, sum(x) AS b, 18446744073709551615::UBIGINT AS c, 18446744073709551616::HUGEINT AS d,
                    0.1 AS e, 1e300 AS f, -0.5::FLOAT AS g FROM (VALUES (9007199254740993), (2)) t(x)"""
    done = run([infprof, "query", "-r", output, "-f", "csv", sql])
    assert done.stdout.splitlines()[1] == "9007199254740993,9007199254740995,18446744073709551615,18446744073709551616,0.1,1e+300,-0.5"
    assert answer(infprof, output, sql)[0] == {"a": 9007199254740993, "b": 9007199254740995, "c": 18446744073709551615,
                                              "d": "18446744073709551616", "e": 0.1, "f": 1e300, "g": -0.5}
    file = tmp_path / "x.parquet"
    assert run([infprof, "query", "-r", output, "-o", file, "SELECT sum(x) AS b FROM (VALUES (9007199254740993), (2)) t(x)"]).returncode == 0
    assert pyarrow.parquet.read_table(file).to_pylist() == [{"b": 9007199254740995}]
    assert str(pyarrow.parquet.read_schema(file).field("b").type) == "int64"


@pytest.mark.parametrize("words", [["query", "-f", "parquet", "SELECT 7 AS x"], ["export", "-f", "parquet", "clock"],
                                   ["query", "-f", "parquet", "-o", "/dev/stdout", "SELECT 7 AS x"]])
def test_parquet_to_standard_output(infprof, output, tmp_path, words):
    """A file or a pipe: it gets the bytes, and /dev/stdout stays the symbolic link that it is, for root as well."""
    whole = [infprof, words[0], "-r", str(output), *words[1:]]
    link = os.readlink("/dev/stdout")
    try:
        with open(tmp_path / "out", "wb") as file:
            assert subprocess.run(whole, stdout=file, timeout=60).returncode == 0
        piped = subprocess.run(whole, stdout=subprocess.PIPE, timeout=60, check=True).stdout
        assert os.path.islink("/dev/stdout") and os.readlink("/dev/stdout") == link
    finally:
        if not os.path.islink("/dev/stdout"):
            os.unlink("/dev/stdout")
            os.symlink(link, "/dev/stdout")
    assert (tmp_path / "out").read_bytes() == piped
    assert pyarrow.parquet.read_table(tmp_path / "out").num_rows >= 1


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_through_a_link(infprof, output, tmp_path, format):
    """The file is written, the link stays."""
    real, link = tmp_path / f"real.{format}", tmp_path / f"link.{format}"
    real.write_bytes(b"old")
    link.symlink_to(real.name)
    assert run([infprof, "query", "-r", output, "-o", link, "SELECT 7 AS x"]).returncode == 0
    assert link.is_symlink() and sorted(path.name for path in tmp_path.glob("*l*.*")) == [link.name, real.name]
    if format == "csv":
        assert real.read_text() == "x\n7\n"
    else:
        assert pyarrow.parquet.read_table(real).to_pylist() == [{"x": 7}]


def test_types_without_a_column_of_ours(infprof, output):
    sql = """SELECT DATE '2026-11-28' AS day, INTERVAL 90 SECOND AS took, [1, 2] AS list, {'k': 'v'} AS pair,
                    time_bucket(INTERVAL 1 MINUTE, TIMESTAMP '2026-11-28 04:05:06') AS minute, true AS yes"""
    assert answer(infprof, output, sql) == [{"day": "2026-11-28", "took": "00:01:30", "list": "[1, 2]", "pair": "{'k': v}",
                                            "minute": 1795838700000, "yes": True}]


@pytest.mark.san
@pytest.mark.parametrize("sql, text", [
    ("SELEC 1", 'syntax error at or near "SELEC"'),
    ("SELECT nonsense FROM cpu", "nonsense"),
    ("SELECT * FROM nowhere", "Table with name nowhere does not exist"),
    ("", "no SQL statement"),
    ("SELECT error('my own words')", "my own words"),
    ("SELECT * FROM 's3://bucket/x.parquet'", "httpfs"),
])
def test_errors_are_duckdbs(infprof, output, sql, text):
    done = run([infprof, "query", "-r", output, sql])
    assert done.returncode == 1
    assert text in done.stderr and done.stdout == ""


@pytest.mark.parametrize("words, code, text", [
    ([], 2, "one SQL statement"),
    (["SELECT 1", "SELECT 2"], 2, "one SQL statement"),
    (["-f", "yaml", "SELECT 1"], 2, "no format 'yaml'"),
    (["-o", "/nowhere/x.csv", "SELECT 1"], 1, "/nowhere/x.csv"),
    (["-o", "/nowhere/x.parquet", "SELECT 1"], 1, "/nowhere/x.parquet"),
])
def test_bad_words(infprof, output, words, code, text):
    done = run([infprof, "query", "-r", output, *words])
    assert (done.returncode, text in done.stderr) == (code, True), done.stderr


def test_a_failed_query_leaves_the_file_as_it_was(infprof, output, tmp_path):
    for name in ("x.csv", "x.parquet", "x.arrows"):
        file = tmp_path / name
        file.write_text("mine")
        done = run([infprof, "query", "-r", output, "-o", file, "SELECT error('late') FROM range(5000) t(x) WHERE x = 4500"])
        assert done.returncode == 1
        assert file.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.arrows", "x.csv", "x.parquet"]


def test_standard_input(infprof, output):
    done = run([infprof, "query", "-r", output, "-"], input="SELECT 1 AS a;\nSELECT 2 AS b;\n")
    assert (done.returncode, done.stdout) == (0, "b\n2\n")


def test_what_is_there(infprof, output):
    names = {row["table_name"] for row in answer(infprof, output, "SELECT table_name FROM information_schema.tables")}
    assert {"cpu", "mem", "processes", "timeseries", "ticks", "marks"} <= names
    assert answer(infprof, output, "SELECT count(*) AS n FROM marks") == [{"n": 0}]
    row = answer(infprof, output, "SELECT pName, pCmdline FROM processes WHERE pInTree LIMIT 1")[0]
    assert row == {"pName": "sleep", "pCmdline": "sleep 1.2"}


def test_rates(infprof, output):
    """The increase in SQL is the code of reports: it sums up to the difference of a counter that never fell."""
    sql = """SELECT sum(i) AS total, max(vCpuContextSwitches) - min(vCpuContextSwitches) AS right_one, min(i) >= 0 AS positive FROM
             (SELECT infp_increase('zero', lag(vCpuContextSwitches) OVER (ORDER BY t_ns), vCpuContextSwitches) AS i, * FROM cpu)"""
    row = answer(infprof, output, sql)[0]
    assert row["total"] == row["right_one"] > 0 and row["positive"]


def test_time_series_joins_the_tables(infprof, output):
    """As docs/files.md says it: the time series has `timestamp`, the tables `time`."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "files.md").read_text()
    section = page[page.index("## The time series"):page.index("## The tables")]
    (sql,) = [line for line in section.splitlines() if line.startswith("    SELECT")]
    rows = answer(infprof, output, sql.strip())
    samples = answer(infprof, output, "SELECT count(*) AS n FROM ticks JOIN timeseries ON epoch_ms(ticks.time) = timeseries.timestamp")[0]["n"]
    assert samples == answer(infprof, output, "SELECT count(*) AS n FROM timeseries")[0]["n"] >= len(rows) >= samples - 2
    assert all(row["vMemoryUsed"] > 0 for row in rows)


def test_a_reader_that_leaves(infprof, output):
    """infprof query ... | head: no complaint."""
    process = subprocess.Popen([infprof, "query", "-r", str(output), "SELECT * FROM range(3000000)"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.read(100)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) in (0, -signal.SIGPIPE)


def test_interrupt(infprof, output):
    process = subprocess.Popen([infprof, "query", "-r", str(output),
                                "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = 7"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)  # sleep: any moment will do; best while it computes
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert time.monotonic() - began < 10
    assert process.stdout.read() == b""


def test_interrupt_between_statements(infprof, output):
    """While the views are made there is nothing to interrupt, and the query that follows must hear of it."""
    for n in range(10):
        process = subprocess.Popen([infprof, "query", "-r", str(output), "SELECT * FROM range(1000000000000)"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        time.sleep(0.02 + n * 0.015)  # sleep: any moment will do
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=20) in (130, -signal.SIGINT)
        finally:
            process.kill()


def test_no_file_is_left_anywhere(infprof, output, tmp_path):
    done = run([infprof, "query", "-r", output, "SELECT count(*) FROM (SELECT random() AS x FROM range(2000000) ORDER BY x)"], cwd=tmp_path,
               env={"HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.san
def test_live_run(infprof, run_dir):
    """A query sees what was sampled a moment ago, not what was flushed up to five seconds before."""
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-snapshots", "--no-finish", "--duration", "30s"],
                               stderr=subprocess.PIPE)
    try:
        wait_for_rows(infprof, run_dir, 10)
        for _ in range(2):
            done = run([infprof, "query", "-r", run_dir, "--json", "SELECT max(t_ns) AS newest, count(*) AS n FROM cpu"])
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            assert done.returncode == 0, done.stderr
            row = json.loads(done.stdout)[0]
            assert row["n"] >= 10
            assert now - row["newest"] < 2_500_000_000
        assert run([infprof, "tables", "-r", run_dir]).returncode == 0
        assert "vCpuTime" in run([infprof, "export", "-r", run_dir]).stdout.splitlines()[0]
        refused = run([infprof, "finish", "-r", run_dir])
        assert refused.returncode == 1 and "still being recorded" in refused.stderr
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)


def test_sql_that_begins_with_a_comment(infprof, output):
    sql = "-- how many\nSELECT count(*) AS n FROM cpu"
    for words in ([sql, "--json"], ["--json", sql], ["--json", "--", sql]):
        done = run([infprof, "query", "-r", output, *words])
        assert done.returncode == 0 and json.loads(done.stdout)[0]["n"] >= 10, done.stderr
    assert run([infprof, "query", "-r", output, "--jsonn", sql]).returncode == 2


def test_tables(infprof, output):
    rows = {row["table_name"]: row for row in json.loads(run([infprof, "tables", "-r", output, "--json"]).stdout)}
    assert rows["cpu"]["rows"] >= 10 and rows["marks"]["rows"] == 0 and rows["timeseries"]["rows"] == rows["ticks"]["rows"]
    assert all(row["help"] for row in rows.values())
    columns = {row["column_name"]: row for row in json.loads(run([infprof, "tables", "cpu", "-r", output, "--json"]).stdout)}
    assert columns["vCpuTime"]["unit"] == "cs" and columns["vCpuTime"]["kind"] == "counter" and columns["vCpuTimeIOWait"]["reset"] == "none"
    for view in ("engine_quantiles", "energy_watts", "samples_named"):  # made when they are read: their rows are not known before
        assert rows[view]["rows"] is None
        names = [row["column_name"] for row in json.loads(run([infprof, "tables", view, "-r", output, "--json"]).stdout)]
        assert len(names) == rows[view]["columns"]
        read = run([infprof, "query", "-r", output, "-f", "csv", f"SELECT * FROM {view}"])
        assert read.stdout.splitlines()[0].split(",") == names
        done = run([infprof, "export", view, "-r", output])
        assert done.returncode == 1 and f'infprof query -f csv "SELECT * FROM {view}"' in done.stderr
    done = run([infprof, "tables", "nowhere", "-r", output])
    assert done.returncode == 1 and "no table nowhere" in done.stderr


@pytest.mark.parametrize("words, n", [(["--from", "+0.3s", "--to", "+0.8s"], 5), (["--from", "-0.45s"], 5), (["--to", "+0.25s"], 3)])
def test_export_of_a_range(infprof, output, words, n):
    for table in ("cpu", "timeseries"):
        done = run([infprof, "export", table, "-r", output, "-f", "csv", *words])
        assert done.returncode == 0, done.stderr
        assert n - 2 <= len(done.stdout.splitlines()) - 1 <= n + 2, (table, done.stdout)


def test_export_of_what_is_not_there(infprof, output):
    for words, text in ((["nowhere"], "no table nowhere"), (["cpu", "--from", "no such mark"], "no such mark"), (["-f", "yaml"], "no format 'yaml'")):
        done = run([infprof, "export", *words, "-r", output])
        assert done.returncode in (1, 2) and text in done.stderr, done.stderr


@pytest.mark.san
def test_without_duckdb(infprof, run_dir):
    """Everything but SQL and Parquet works; one notice says what is missing; with DuckDB `finish` makes up for it."""
    done = run([infprof, "record", "-o", run_dir, "-t", "100", "--no-snapshots", "--", "sleep", "0.5"], env=WITHOUT)
    assert done.returncode == 0
    assert done.stderr.count("DuckDB") == 1, done.stderr
    assert not list(run_dir.rglob("*.parquet")) and len(list(run_dir.rglob("*.arrows"))) > 10
    series = next(run_dir.glob("*.csv"))
    assert len(series.read_text().splitlines()) >= 5
    for words in (["report"], ["tables"], ["export"], ["export", "processes", "--json"], ["export", "cpu", "-f", "arrow"]):
        done = run([infprof, *words, "-r", run_dir], env=WITHOUT, **({"encoding": "latin1"} if "arrow" in words else {}))
        assert done.returncode == 0 and done.stdout, (words, done.stderr)
    assert run([infprof, "export", "-r", run_dir], env=WITHOUT).stdout == series.read_text()
    for words in (["query", "SELECT 1"], ["export", "cpu", "-f", "parquet"]):
        done = run([infprof, *words, "-r", run_dir], env=WITHOUT)
        assert done.returncode == 1 and "/nowhere/libduckdb.so" in done.stderr
    assert run([infprof, "finish", "-r", run_dir]).returncode == 0
    assert not list(run_dir.rglob("*.arrows")) and len(list(run_dir.glob("*.parquet"))) == 1
    done = run([infprof, "report", "--full", "-r", run_dir], env=WITHOUT)
    assert done.returncode == 1 and "DuckDB" in done.stderr


def test_output_directories_with_strange_names(infprof, tmp_path):
    """Quotes, patterns and blanks in a path are DuckDB's business nowhere."""
    for name in ("it's", "a[b]*?", "two words", "x=1", "üñ", 'q"q', "%41"):
        directory = tmp_path / name
        assert run([infprof, "record", "-o", directory, "--no-snapshots", "--", "true"]).returncode == 0
        assert len(list(directory.rglob("cpu/*.parquet"))) == 1, name
        assert answer(infprof, directory, "SELECT count(*) AS n FROM cpu")[0]["n"] >= 1
        assert answer(infprof, directory, "SELECT count(*) AS n FROM timeseries")[0]["n"] >= 1
        file = directory / "out.parquet"
        assert run([infprof, "query", "-r", directory, "-o", file, "SELECT 1 AS x"]).returncode == 0
        assert pyarrow.parquet.read_table(file).to_pylist() == [{"x": 1}]
        shutil.rmtree(directory)


def test_locale_does_not_matter(infprof, output):
    """Numbers have points whatever the user's language is."""
    sql = "SELECT 0.45 AS a, 1234567.5 AS b"
    done = [run([infprof, "query", "-r", output, "-f", "csv", sql], env={"LC_ALL": locale}) for locale in ("C", "de_DE.UTF-8")]
    assert done[0].stdout == done[1].stdout == "a,b\n0.45,1234567.5\n"


@pytest.mark.parametrize("sql, why", [
    ("SELECT * FROM read_csv('{secret}')", "file system operations are disabled"),
    ("SELECT * FROM read_text('/proc/self/fd/../environ')", "file system operations are disabled"),
    ("SELECT * FROM glob('/*')", "file system operations are disabled"),
    ("COPY (SELECT 1) TO '{new}'", "file system operations are disabled"),
    ("EXPORT DATABASE '{new}'", "file system operations are disabled"),
    ("ATTACH '{new}'", "--restricted takes a SELECT"),
    ("INSTALL httpfs", "--restricted takes a SELECT"),
    ("SET enable_external_access=true", "--restricted takes a SELECT"),
    ("SELECT 1; SELECT 2", "--restricted takes one SELECT"),
])
def test_restricted(infprof, output, tmp_path, sql, why):
    """A statement of somebody else reads the run and nothing else, and writes nothing."""
    secret, new = tmp_path / "secret.csv", tmp_path / "new"
    secret.write_text("S3cret\n")
    done = run([infprof, "query", "-r", output, "--restricted", sql.format(secret=secret, new=new)])
    assert done.returncode == 1 and why in done.stderr and "S3cret" not in done.stdout + done.stderr
    assert not new.exists()


def test_restricted_reads_the_run(infprof, output, tmp_path):
    for sql in ("SELECT count(*) AS n FROM cpu", "SELECT count(*) AS n FROM timeseries", "SELECT count(pName) AS n FROM processes"):
        assert answer(infprof, output, sql, "--restricted") == answer(infprof, output, sql)
    hostile = tmp_path / "out"
    shutil.copytree(output, hostile)
    [segment] = hostile.glob("*.infprof/cpu/*.parquet")
    segment.rename(tmp_path / "elsewhere.parquet")
    segment.symlink_to(tmp_path / "elsewhere.parquet")
    done = run([infprof, "query", "-r", hostile, "--restricted", "SELECT count(*) FROM mem"])
    assert done.returncode == 1 and "cpu/000001.parquet" in done.stderr and "symbolic link" in done.stderr
    done = run([infprof, "query", "-r", output, "--restricted", "-f", "parquet", "SELECT 1"])
    assert done.returncode == 2 and "--restricted cannot write Parquet" in done.stderr


def test_views_have_their_columns_before_the_sql_names_them(infprof, live):
    """Planning them is expensive, so that they are made when they are named; tools that list tables see them all the same."""
    def columns(more):
        sql = f"SELECT table_schema, table_name, column_name, data_type FROM information_schema.columns {more}"
        words = [infprof, "query", "-r", str(live.output), "--json", sql]
        return json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=60).stdout)

    announced = columns("")
    for name in ("engine_quantiles", "energy_watts", "samples_named", "heap_live", "backtrace"):
        made = columns(f"WHERE table_name = '{name}'")
        assert made and made == [row for row in announced if row["table_name"] == name]
