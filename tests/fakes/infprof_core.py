"""Stands in for infprof._core where a test looks at the rows themselves: `rows[table]` is a list of dictionaries. Import it before
anything of infprof."""
import collections
import sys
import time
import types

rows = collections.defaultdict(list)
recording = True


class Table:
    def __init__(self, name, columns):
        self.name, self.columns = name, columns.split()

    def write(self, t_ns, *cells):
        assert len(cells) == len(self.columns), (self.name, cells)
        for cell in cells:
            assert cell is None or type(cell) in (int, float, str, bool), (self.name, cell)
        rows[self.name].append({"t_ns": t_ns or time.monotonic_ns(), **dict(zip(self.columns, cells))})


core = types.ModuleType("infprof._core")
core.open_table = Table
core.is_recording = lambda: recording
core.look = lambda: None
core.now_ns = time.monotonic_ns
sys.modules["infprof._core"] = core
import infprof  # noqa: E402

infprof._core = core
