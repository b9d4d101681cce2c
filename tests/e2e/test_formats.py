"""Every cell of every table is the same in every format, read by other people's libraries: pyarrow, polars, pandas, DuckDB."""
import csv
import io
import json
import math
import pathlib
import re
import shutil
import subprocess

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest

# Names that break careless writers: a comma, quotes, a line feed, a tab, a byte that is no UTF-8, a backslash.
HOSTILE = r"""import os, subprocess, sys, time
for name in [b'a,b"c', b"line\nfeed\ttab", b"\xe8\x2a\\x", "推理".encode(), b"", b" blanks "]:
    subprocess.Popen([name, "3"], executable="/bin/sleep")
time.sleep(1.5)
"""


def run(words, **options):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **options)
    assert done.returncode == 0, (words, done.stderr.decode())
    return done.stdout


@pytest.fixture(scope="module")
def output(infprof, tmp_path_factory):
    """A real run as it was recorded, Arrow segments and no time series yet; (directory, the same finished)."""
    top = tmp_path_factory.mktemp("formats")
    raw, finished = top / "raw", top / "finished"
    run([infprof, "record", "-o", raw, "-t", "100", "--no-finish", "--wait", "child", "--", "python3", "-c", HOSTILE])
    shutil.copytree(raw, finished)
    run([infprof, "finish", "-r", finished])
    return raw, finished


def only(directory, pattern):
    found = list(pathlib.Path(directory).glob(pattern))
    assert len(found) == 1, (pattern, found)
    return found[0]


def tables(infprof, directory):
    return json.loads(run([infprof, "tables", "-r", directory, "--json"]))


def by_pyarrow(directory, table):
    """The rows of a table by pyarrow alone, as (types, columns): times as integers of us."""
    files = sorted(only(directory, "*.infprof").joinpath(table).glob("*.parquet"))
    if not files:
        return None
    read = pyarrow.concat_tables([pyarrow.parquet.read_table(file) for file in files])
    return plain(read)


def plain(table):
    types, columns = {}, {}
    for name, column in zip(table.column_names, table.columns):
        types[name] = column.type
        if pyarrow.types.is_timestamp(column.type):
            column = pyarrow.compute.cast(column, pyarrow.int64())
        columns[name] = column.to_pylist()
    return types, columns


def as_text(value, kind):
    """What a text format shows of a cell."""
    if value is None:
        return None
    if pyarrow.types.is_timestamp(kind):
        return value // 1000
    return value


def check_texts(header, rows, right, parse):
    types, columns = right
    assert set(columns) <= set(header), set(columns) - set(header)
    for name, values in columns.items():
        at = header.index(name)
        shown = [parse(row[at], types[name]) for row in rows]
        expected = [as_text(value, types[name]) for value in values]
        assert len(shown) == len(expected)
        for number, (a, b) in enumerate(zip(shown, expected)):
            assert a == b and type(a) is type(b), f"{name}, row {number}: {a!r} instead of {b!r}"


def parse_field(text, kind):
    if text is None:
        return None
    if pyarrow.types.is_boolean(kind):
        assert text in ("true", "false")
        return text == "true"
    if pyarrow.types.is_floating(kind):
        return float(text)
    if pyarrow.types.is_string(kind):
        return text
    assert text.lstrip("-").isdigit(), f"{text!r} is no integer"
    return int(text)


def read_separated(data, separator):
    """CSV that tells an empty field (absent) from an empty text in quotes, which Python's reader does not."""
    rows, row, at, text = [], [], 0, data.decode("utf-8")
    while at < len(text):
        if text[at] == '"':
            end, parts = at + 1, []
            while True:
                stop = text.index('"', end)
                parts.append(text[end:stop])
                if text[stop + 1:stop + 2] != '"':
                    break
                parts.append('"')
                end = stop + 2
            row.append("".join(parts))
            at = stop + 1
        else:
            stop = at
            while text[stop] not in (separator, "\n"):
                stop += 1
            row.append(text[at:stop] if stop > at else None)
            at = stop
        if text[at] == "\n":
            rows.append(row)
            row = []
        at += 1
    return rows[0], rows[1:]


def test_export_of_every_table_in_text(infprof, output):
    _, finished = output
    checked = 0
    for line in tables(infprof, finished):
        name = line["table_name"]
        if name == "timeseries" or not line["rows"]:
            continue
        right = by_pyarrow(finished, name)
        for words, separator in ((["-f", "csv"], ","), (["-f", "tsv"], "\t")):
            data = run([infprof, "export", name, "-r", finished, *words])
            header, rows = read_separated(data, separator)
            assert all(len(row) == len(header) for row in rows)
            assert list(csv.reader(io.StringIO(data.decode()), delimiter=separator))[0] == header
            check_texts(header, rows, right, parse_field)
        objects = json.loads(run([infprof, "export", name, "-r", finished, "--json"]))
        assert all(list(o) == header for o in objects)
        check_texts(header, [list(o.values()) for o in objects], right, lambda value, kind: float(value)
                    if pyarrow.types.is_floating(kind) and value is not None else value)
        lines = [json.loads(line) for line in run([infprof, "export", name, "-r", finished, "-f", "jsonl"]).splitlines()]
        assert lines == objects
        checked += len(objects)
    assert checked > 300


def test_queries_show_what_exports_show(infprof, output):
    _, finished = output
    for line in tables(infprof, finished):
        name = line["table_name"]
        if not line["rows"]:
            continue
        for words in (["-f", "tsv"], ["--json"]):
            exported = run([infprof, "export", name, "-r", finished, *words])
            queried = run([infprof, "query", "-r", finished, *words, f'SELECT * FROM "{name}"'])
            assert exported == queried, name


def test_segments_say_what_parquet_says(infprof, output):
    """The same run before and after finish, byte for byte."""
    raw, finished = output
    assert not list(raw.rglob("*.parquet"))
    assert not list(finished.rglob("*.arrows"))
    before, after = tables(infprof, raw), tables(infprof, finished)
    assert before == after
    for line in before:
        if line["rows"] is None:  # a view
            continue
        exported = [run([infprof, "export", line["table_name"], "-r", directory, "-f", "csv"]) for directory in (raw, finished)]
        assert exported[0] == exported[1], line["table_name"]
        queried = [run([infprof, "query", "-r", directory, "-f", "csv", f'SELECT * FROM "{line["table_name"]}"'])
                   for directory in (raw, finished)]
        assert queried[0] == queried[1], line["table_name"]


def test_arrow_and_parquet_hold_the_same(infprof, output, tmp_path):
    _, finished = output
    for line in tables(infprof, finished):
        name = line["table_name"]
        if not line["rows"]:
            continue
        for words in (["export", name], ["query", f'SELECT * FROM "{name}"']):
            arrow, parquet = tmp_path / "x.arrows", tmp_path / "x.parquet"
            run([infprof, *words, "-r", finished, "-o", arrow])
            run([infprof, *words, "-r", finished, "-o", parquet])
            with pyarrow.OSFile(str(arrow)) as file:
                a = plain(pyarrow.ipc.open_stream(file).read_all())
            b = plain(pyarrow.parquet.read_table(parquet))
            assert a[1] == b[1], name
            assert a[0] == b[0], name
            right = by_pyarrow(finished, name)
            if right:
                assert {column: a[1][column] for column in right[1]} == right[1], name


def test_libraries_agree_on_every_file(output):
    _, finished = output
    files = list(finished.rglob("*.parquet"))
    assert len(files) > 12
    for file in files:
        _, right = plain(pyarrow.parquet.read_table(file))
        frame = polars.read_parquet(file)
        frame = frame.with_columns(polars.col(polars.Datetime).cast(polars.Int64))
        assert frame.to_dict(as_series=False) == right, file
        # Times with a zone as numbers: DuckDB's Python package makes objects of them only with pytz.
        fetched = duckdb.connect().execute("SELECT COLUMNS(c -> c NOT IN ?) FROM read_parquet(?)", [
            [field.name for field in pyarrow.parquet.read_schema(file) if pyarrow.types.is_timestamp(field.type)], str(file)])
        names = [column[0] for column in fetched.description]
        rows = fetched.fetchall()
        for at, name in enumerate(names):
            assert [row[at] for row in rows] == right[name], (file, name)
        data = pandas.read_parquet(file, dtype_backend="pyarrow")
        for name in right:
            values = data[name]
            if str(values.dtype).startswith("timestamp"):
                values = values.astype("int64[pyarrow]")
            assert [None if value is pandas.NA or (isinstance(value, float) and math.isnan(value)) else value
                    for value in values] == right[name], (file, name)


def test_live_and_finished_tables_join(infprof, tmp_path):
    """A segment and the Parquet of the same rows have one type for times: what libraries refuse otherwise."""
    run([infprof, "record", "--no-finish", "-o", tmp_path, "-t", "100", "--", "sleep", "0.5"])
    segment = next(tmp_path.glob("*.infprof/mem/*.arrows"))
    live = polars.read_ipc_stream(segment.read_bytes())
    run([infprof, "finish", "-r", tmp_path])
    finished = polars.read_parquet(segment.with_suffix(".parquet"))
    assert live.schema == finished.schema and live.schema["time"] == polars.Datetime("us", "UTC")
    assert len(live.join(finished, on="time")) == len(live) == len(finished) > 3
    assert live.equals(finished)
    assert pandas.read_parquet(segment.with_suffix(".parquet"))["time"].dt.tz is not None
    series = polars.read_parquet(next(tmp_path.glob("*.parquet")))
    assert len(series) > 3 and series["timestamp"].dtype == polars.Int64


def test_absent_is_null(infprof, output):
    """Something was absent, and is neither 0 nor an empty text anywhere."""
    _, finished = output
    types, columns = by_pyarrow(finished, "processes")
    absent = [name for name, values in columns.items() if all(value is None for value in values)]
    assert "pPssBytes" in absent and "pBlockIODelays" in absent
    header, rows = read_separated(run([infprof, "export", "processes", "-r", finished, "-f", "csv"]), ",")
    objects = json.loads(run([infprof, "export", "processes", "-r", finished, "--json"]))
    for name in absent:
        assert {row[header.index(name)] for row in rows} == {None}
        assert {o[name] for o in objects} == {None}
    answer = json.loads(run([infprof, "query", "-r", finished, "--json", "SELECT count(pPssBytes) AS n, any_value(pPssBytes) AS v FROM processes"]))
    assert answer == [{"n": 0, "v": None}]


def test_hostile_names_survive(infprof, output):
    _, finished = output
    commands = {row["pCmdline"] for row in json.loads(run([infprof, "export", "processes", "-r", finished, "--json"]))}
    for name in ('a,b"c 3', "line\nfeed\ttab", "\\xE8*\\\\x 3", "推理 3"):
        assert any(command and name in command for command in commands), (name, commands)


@pytest.mark.parametrize("format", ["csv", "tsv", "json", "parquet"])
def test_time_series_file(infprof, output, tmp_path, format):
    """<uuid>.<format> is what `export` of the time series says, columns sorted behind `timestamp`."""
    raw, _ = output
    directory = tmp_path / "out"
    shutil.copytree(raw, directory)
    about = only(directory, "*.infprof") / "run.json"
    wanted = json.loads(about.read_text())
    wanted["format"] = format
    about.write_text(json.dumps(wanted))
    run([infprof, "finish", "-r", directory])
    file = directory / f"{only(directory, '*.infprof').stem}.{format}"
    assert not list(directory.rglob("*.part"))
    if format == "parquet":
        types, columns = plain(pyarrow.parquet.read_table(file))
        header, rows = read_separated(run([infprof, "export", "-r", directory, "-f", "csv"]), ",")
        check_texts(header, rows, (types, columns), parse_field)
    else:
        assert file.read_bytes() == run([infprof, "export", "-r", directory, "-f", "jsonl" if format == "json" else format])
        header = list(json.loads(file.read_text().splitlines()[0])) if format == "json" else read_separated(
            file.read_bytes(), "," if format == "csv" else "\t")[0]
    assert header[0] == "timestamp" and header[1:] == sorted(header[1:])
    assert "vCpuTime" in header and "vCpuTime_time" in header and "tree_rss_bytes" in header


def test_small_files_take_snappy(output):
    """zstd prepares each of a thousand columns longer than it packs it."""
    _, finished = output
    for file in [only(finished, "*.infprof/ticks/*.parquet"), only(finished, "*.parquet")]:
        assert pyarrow.parquet.read_metadata(file).row_group(0).column(0).compression == "SNAPPY", file


def test_time_series_rows(infprof, output):
    """A row a tick, each cell with the time of its own reading, which a table's row has as well."""
    _, finished = output
    _, series = plain(pyarrow.parquet.read_table(next(finished.glob("*.parquet"))))
    _, ticks = by_pyarrow(finished, "ticks")
    _, cpu = by_pyarrow(finished, "cpu")
    assert series["timestamp"] == [time // 1000 for time in ticks["time"]]
    stored = {time // 1000: value for time, value in zip(cpu["time"], cpu["vCpuContextSwitches"])}
    shown = list(zip(series["vCpuContextSwitches_time"], series["vCpuContextSwitches"]))
    assert [stored[time] for time, _ in shown if time is not None] == [value for time, value in shown if time is not None]
    assert len([1 for time, _ in shown if time is not None]) >= 10
    snapshots = sorted(finished.glob("????????-*-*-*-????????????-*.json"))
    assert [int(path.stem.rsplit("-", 1)[1]) for path in snapshots] == series["timestamp"]


def test_types_are_the_declared_ones(infprof, output):
    """A column without a single value has the type of its declaration, in tables and in the series."""
    _, finished = output
    names = {"i64": "int64", "u64": "uint64", "id64": "uint64", "f64": "double", "bool": "bool", "str": "string", "ts_ns": "timestamp[us, tz=UTC]"}
    declared = json.loads(run([infprof, "query", "-r", finished, "--json", "SELECT table_name, column_name, type FROM columns"]))
    series = {field.name: str(field.type) for field in pyarrow.parquet.read_schema(next(finished.glob("*.parquet")))}
    checked = 0
    for column in declared:
        kind, name = names[column["type"]], column["column_name"]
        for file in only(finished, "*.infprof").joinpath(column["table_name"]).glob("*.parquet"):
            assert str(pyarrow.parquet.read_schema(file).field(name).type) == kind, (file, name)
            checked += 1
        if f"{name}_time" in series:
            assert series[name] == kind and series[f"{name}_time"] == "int64"
    assert checked > 200


@pytest.mark.san
def test_prometheus_page(infprof, output):
    """The last value of a counter, in base units, and its labels."""
    _, finished = output
    page = run([infprof, "export", "-r", finished, "-f", "prom"]).decode()
    _, cpu = by_pyarrow(finished, "cpu")
    line = next(line for line in page.splitlines() if line.startswith("infprof_host_cpu_user_seconds_total "))
    assert float(line.split()[1]) == pytest.approx(cpu["vCpuTimeUserMode"][-1] / 100, rel=1e-12)
    assert 'infprof_cpu_core_user_seconds_total{core="0"}' in page
    # sum() over a family counts nothing twice: the samples of a name have the same labels.
    labels = {}
    for sample in page.splitlines():
        if not sample.startswith("#"):
            name, _, rest = sample.rpartition(" ")[0].partition("{")
            labels.setdefault(name, set()).add(tuple(re.findall(r'(\w+)="', rest)))
    assert all(len(found) == 1 for name, found in labels.items() if not name.startswith("infprof_process_")), labels
    many = run([infprof, "export", "cpu", "-r", finished, "-f", "prom"]).decode()
    assert len([line for line in many.splitlines() if line.startswith("infprof_host_cpu_user_seconds_total ")]) == len(cpu["t_ns"])
