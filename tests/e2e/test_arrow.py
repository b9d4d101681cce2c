"""Segments and other programs: pyarrow, polars, pandas and DuckDB read what the store writes, cell by cell; the store reads what
pyarrow writes. By build*/tests/unit/arrow_tool, beside the binary under test."""
import json
import math
import pathlib
import subprocess

import duckdb
import polars
import pyarrow
import pyarrow.ipc
import pytest

TIME = 1764302400123456  # us


@pytest.fixture(scope="module")
def tool(infprof):
    path = pathlib.Path(infprof).parent / "tests" / "unit" / "arrow_tool"
    if not path.exists():
        pytest.skip(f"{path} is not there: this build is without tests")
    return str(path)


def sample(i):
    """Row i as tests/unit/store_sample.h declares it."""
    row = {"t_ns": 1000000000 + i, "time": TIME + i, "process": 0xFEDCBA9876543210 + i}
    rest = {"delta": -i, "ticks": 18446744073709551000 + i % 600, "ratio": None if i % 5 == 4 else i * 0.25,
            "is_on": i % 2 == 0, "name": None if i % 3 == 2 else f"row é {i}", "born": TIME - i}
    return row | (dict.fromkeys(rest) if i % 7 == 6 else rest)


def write(tool, directory, rows):
    done = subprocess.run([tool, "write", directory, str(rows)], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def integers(table):
    """Times as the us that they are."""
    for name in ("time", "born"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast("int64"))
    return table.to_pylist()


@pytest.mark.san
@pytest.mark.parametrize("rows", [1, 7, 2500])
def test_pyarrow_reads_every_cell(tool, tmp_path, rows):
    with pyarrow.ipc.open_stream(write(tool, tmp_path, rows)) as stream:
        table = stream.read_all()
    table.validate(full=True)
    assert table.schema.field("ticks").metadata[b"unit"] == b"cs"
    assert table.schema.field("t_ns").metadata[b"unit"] == b"ns"
    assert table.schema.field("process").metadata[b"type"] == b"id64"
    assert str(table.schema.field("time").type) == "timestamp[us, tz=UTC]"
    assert integers(table) == [sample(i) for i in range(rows)]


def test_polars_reads_every_cell(tool, tmp_path):
    frame = polars.read_ipc_stream(write(tool, tmp_path, 2500))
    frame = frame.with_columns(polars.col("time", "born").cast(polars.Int64))
    assert frame.to_dicts() == [sample(i) for i in range(2500)]


def test_pandas_reads_every_cell(tool, tmp_path):
    with pyarrow.ipc.open_stream(write(tool, tmp_path, 100)) as stream:
        frame = stream.read_pandas(types_mapper=lambda _: None)
    for i, row in enumerate(frame.to_dict("records")):
        for name, want in sample(i).items():
            if want is None:
                assert row[name] is None or row[name] != row[name], (i, name)
            elif name in ("time", "born"):
                assert row[name].value == want * 1000, (i, name)
            else:
                assert row[name] == pytest.approx(want), (i, name)


def test_duckdb_reads_every_cell(tool, tmp_path):
    with pyarrow.ipc.open_stream(write(tool, tmp_path, 2500)) as stream:
        table = stream.read_all()
    connection = duckdb.connect()
    connection.register("sample", table)
    columns = [name if name not in ("time", "born") else f"epoch_us({name})" for name in sample(0)]
    rows = connection.execute(f"select {', '.join(columns)} from sample order by t_ns").fetchall()
    for i, row in enumerate(rows):
        assert row == tuple(sample(i).values())
    assert len(rows) == 2500


def cat(tool, path):
    done = subprocess.run([tool, "cat", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.strip()


def put(path, *tables, **options):
    with pyarrow.ipc.new_stream(path, tables[0].schema, options=pyarrow.ipc.IpcWriteOptions(**options)) as stream:
        for table in tables:
            stream.write_table(table)
    return path


NUMBERS = {
    "int8": ("i64", [-128, 127, None]), "int16": ("i64", [-32768, 32767, None]), "int32": ("i64", [-2**31, 2**31 - 1, None]),
    "int64": ("i64", [-2**63, 2**63 - 1, None]), "uint8": ("u64", [0, 255, None]), "uint16": ("u64", [0, 65535, None]),
    "uint32": ("u64", [0, 2**32 - 1, None]), "uint64": ("u64", [0, 2**64 - 1, None]), "float": ("f64", [-0.5, 3e38, None]),
    "double": ("f64", [-0.1, 1e308, None]), "bool": ("bool", [True, False, None]), "string": ("str", ["", "é", None]),
    "large_string": ("str", ["", "é" * 99, None]), "null": ("str", [None, None, None]),
}


@pytest.mark.san
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("with_dictionary", [False, True])
def test_types_of_pyarrow(tool, tmp_path, kind, with_dictionary):
    ours, values = NUMBERS[kind]
    column = pyarrow.array(values, pyarrow.type_for_alias(kind))
    if with_dictionary:
        if kind == "null":
            pytest.skip("pyarrow makes no dictionary of nothing")
        column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([2, 0, None, 1], pyarrow.int16()), column)
        values = [values[2], values[0], None, values[1]]
    code, lines, error = cat(tool, put(tmp_path / "x.arrows", pyarrow.table({"x": column})))
    assert (code, error) == (0, "")
    assert lines[0] == ["x", ours]
    for (got,), want in zip(lines[1:], values, strict=True):
        assert got == want or (isinstance(want, float) and math.isclose(got, want, rel_tol=1e-7))


@pytest.mark.parametrize("unit, factor", [("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_of_pyarrow(tool, tmp_path, unit, factor, zone):
    column = pyarrow.array([-5, 0, 1764302400, None], pyarrow.timestamp(unit, zone))
    code, lines, error = cat(tool, put(tmp_path / "x.arrows", pyarrow.table({"x": column})))
    assert (code, error) == (0, "")
    assert lines == [["x", "ts_ns"], [-5 * factor], [0], [1764302400 * factor], [None]]


def test_large_messages_and_replaced_dictionaries(tool, tmp_path):
    many = [None if i % 3 == 0 else f"{i}" for i in range(20000)]
    code, lines, error = cat(tool, put(tmp_path / "x.arrows", pyarrow.table({"x": many})))
    assert (code, error) == (0, "") and [line[0] for line in lines[1:]] == many
    tables = [pyarrow.table({"x": pyarrow.array(values).dictionary_encode()}) for values in (["a", "b"], ["c", "d", "c"])]
    code, lines, error = cat(tool, put(tmp_path / "y.arrows", *tables))
    assert (code, error) == (0, "") and [line[0] for line in lines[1:]] == ["a", "b", "c", "d", "c"]


@pytest.mark.parametrize("name, table, options, words", [
    ("list", pyarrow.table({"ok": [1], "bad": [[1, 2]]}), {}, "column 'bad' has the Arrow type List, which infprof does not read"),
    ("struct", pyarrow.table({"bad": [{"a": 1}]}), {}, "column 'bad' has the Arrow type Struct, which infprof does not read"),
    ("decimal", pyarrow.table({"bad": pyarrow.array([1], pyarrow.decimal128(9, 2))}), {}, "the Arrow type Decimal"),
    ("half", pyarrow.table({"bad": pyarrow.array([1], pyarrow.float16())}), {}, "the Arrow type FloatingPoint"),
    ("zstd", pyarrow.table({"x": list(range(1000))}), {"compression": "zstd"}, "compressed, which infprof does not read"),
])
def test_what_is_not_read_is_said(tool, tmp_path, name, table, options, words):
    code, _, error = cat(tool, put(tmp_path / f"{name}.arrows", table, **options))
    assert code == 1
    assert words in error and f"{name}.arrows" in error and "\n" not in error
