"""Tables of this process, read by the program `infprof` as anybody else reads them: there is one reader of ring files."""
import os

from infprof import _place

OF_THE_API = ("marks", "spans", "counters", "process", "clock", "columns")  # all others are those of the package, in schema python


class Table:
    """Rows of this process as Arrow: what __arrow_c_stream__ takes (pyarrow.table(t), polars.DataFrame(t), duckdb), takes this. The rows
    are read once, when they are first asked for."""

    def __init__(self, sql):
        self.sql = sql
        self._bytes = None

    def __repr__(self):
        return f"<infprof.Table of {self.sql!r}>"

    def _ask(self, form):
        import subprocess

        words = [_place.program(), "query", "--pid", str(os.getpid()), "-f", form, self.sql]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = done.stderr.decode("utf-8", "replace").strip()
        if done.returncode:
            raise RuntimeError(said or f"infprof query ended with code {done.returncode}")
        return done.stdout

    def to_bytes(self):
        """An Arrow IPC stream."""
        if self._bytes is None:
            self._bytes = self._ask("arrow")
        return self._bytes

    def __arrow_c_stream__(self, requested_schema=None):
        for convert in (self.to_pyarrow, self.to_polars):
            try:
                table = convert()
            except ImportError:
                continue
            return table.__arrow_c_stream__(requested_schema)
        raise ImportError("Arrow's C stream needs pyarrow or polars; to_dicts() needs neither")

    def to_pyarrow(self):
        """A pyarrow.Table."""
        import pyarrow

        return pyarrow.ipc.open_stream(self.to_bytes()).read_all()

    def to_polars(self):
        """A polars.DataFrame."""
        import polars

        return polars.read_ipc_stream(self.to_bytes())

    def to_pandas(self):
        """A pandas.DataFrame; needs pyarrow beside pandas."""
        return self.to_pyarrow().to_pandas()

    def to_dicts(self):
        """A list with a dictionary a row, by JSON: no package is needed. Times are milliseconds since 1970."""
        import json

        return json.loads(self._ask("json"))


def query(sql):
    """The rows that SQL gives over the tables of this process: query("SELECT name, count(*) FROM spans GROUP BY ALL")."""
    return Table(sql)


def table(name):
    """A table of this process: "spans", "marks", "counters", "torch_trace"; what it still holds (see `infprof query --pid`)."""
    schema, _, own = name.rpartition(".")
    schema = schema or ("main" if own in OF_THE_API else "python")
    return Table("SELECT * FROM " + ".".join('"' + part.replace('"', '""') + '"' for part in (schema, own)))
