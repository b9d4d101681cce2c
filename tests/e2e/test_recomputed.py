"""Every figure of `report --json` of a real run, computed anew with pandas from its exported tables."""
import io
import json
import math
import subprocess

import pandas
import pytest

# Two seconds: one busy child on each of two cores in turn, then both, then neither.
LOAD = """
import os, time
cores = sorted(os.sched_getaffinity(0))
def burn(core, seconds):
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {core})
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        os._exit(0)
    return pid
for core in (cores[0], cores[-1]):
    os.waitpid(burn(core, 0.6), 0)
both = [burn(core, 0.3) for core in (cores[0], cores[-1])]
for pid in both:
    os.waitpid(pid, 0)
time.sleep(0.3)
"""
WORK = ["vCpuTimeUserMode", "vCpuNice", "vCpuTimeKernelMode", "vCpuTimeIntSrvc", "vCpuTimeSoftIntSrvc"]
REST = ["vCpuIdleTime", "vCpuTimeIOWait", "vCpuSteal"]


class Exported:
    def __init__(self, infprof, output):
        self.infprof, self.output = infprof, output

    def call(self, *words):
        done = subprocess.run([self.infprof, *words, "-r", str(self.output)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def table(self, name):
        """Integers stay exact, absent cells stay absent."""
        return pandas.read_csv(io.BytesIO(self.call("export", name, "--no-names")), dtype_backend="numpy_nullable")


@pytest.fixture(scope="module")
def exported(infprof, tmp_path_factory):
    output = tmp_path_factory.mktemp("recomputed") / "out"
    done = subprocess.run([infprof, "record", "-o", str(output), "-t", "50", "-p", "--no-snapshots", "--", "python3", "-S", "-c", LOAD],
                          stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stderr
    return Exported(infprof, output)


@pytest.fixture(scope="module")
def report(exported):
    return json.loads(exported.call("report", "--json"))


def increase(before, after, reset):
    if after >= before:
        return after - before
    return after if reset == "zero" else 0


def statistics(table, column, reset):
    """Mean, std of the population, min and max; of a counter (with reset) those of its rates, weighted by time, and its increase."""
    rows = [(t, v) for t, v in zip(table["t_ns"].tolist(), table[column].tolist()) if v is not pandas.NA]
    if reset is None:
        values, weights, total = [v for _, v in rows], [1] * len(rows), None
    else:
        pairs = [(b[0] - a[0], increase(a[1], b[1], reset)) for a, b in zip(rows, rows[1:])]
        values = [more / (ns / 1e9) for ns, more in pairs]
        weights = [ns / 1e9 for ns, _ in pairs]
        total = sum(more for _, more in pairs)
    if not values:
        return None
    mean = math.fsum(v * w for v, w in zip(values, weights)) / math.fsum(weights)
    variance = math.fsum(w * (v - mean) ** 2 for v, w in zip(values, weights)) / math.fsum(weights)
    return {"n": len(values), "mean": mean, "std": math.sqrt(variance), "min": min(values), "max": max(values), "total": total}


def test_metrics(exported, report):
    columns = pandas.DataFrame(json.loads(exported.call("export", "columns", "--json"))).drop_duplicates(["table_name", "column_name"])
    # A table of the time series, without keys: its columns are metrics by their own names.
    keyed = set(columns[columns.is_key].table_name)
    numbers = columns[columns.series.notna() & columns.type.isin(["i64", "u64", "f64"]) & columns.kind.isin(["gauge", "counter"])]
    checked = {"gauge": 0, "counter": 0}
    tables = {}
    for _, column in numbers.iterrows():
        name = column.table_name
        if name in keyed or column.column_name not in report["metrics"]:
            continue
        table = tables.setdefault(name, exported.table(name))
        if name == "tree" and column.kind == "gauge" and column.column_name.startswith("tree_") and "_peak_" not in column.column_name:
            table = table[table["tree_processes"] != 0]  # a tree without a process has no memory, whatever was written
        expected = statistics(table, column.column_name, column.reset if column.kind == "counter" else None)
        found = report["metrics"][column.column_name]
        assert found["kind"] == column.kind and found["quality"] == column.quality
        if expected is None:
            assert found["mean"] is None or found["n"] == 0, column.column_name
            continue
        assert found["n"] == expected["n"], column.column_name
        scale = max(abs(expected["min"]), abs(expected["max"]), 1e-300)
        for key in ("mean", "min", "max"):
            assert found[key] == pytest.approx(expected[key], rel=1e-9, abs=1e-9 * scale), (column.column_name, key)
        assert found["std"] == pytest.approx(expected["std"], rel=1e-6, abs=1e-7 * scale), column.column_name
        if expected["total"] is not None:
            assert found["total"] == pytest.approx(expected["total"], rel=1e-12), column.column_name
        checked[column.kind] += 1
    assert checked["gauge"] > 20 and checked["counter"] > 40, checked


def test_tree_cpu(exported, report):
    """The whole run of a command: what its counters say at the end, since they began with it."""
    tree = exported.table("tree")
    last = tree["tree_cpu_ns"].dropna().iloc[-1]
    assert report["tree_cpu_s"] == pytest.approx(last / 1e9, rel=1e-9)
    assert 0.1 < report["tree_cpu_s"] < 3  # 0.6 + 0.6 + 2 * 0.3, less what others took, more for the starts
    assert report["tree_cpu_user_s"] == pytest.approx(tree["tree_cpu_user"].dropna().iloc[-1] / 100)
    assert report["tree_cpu_system_s"] == pytest.approx(tree["tree_cpu_system"].dropna().iloc[-1] / 100)


def increase_of(rows):
    values = rows["pCpuTimeNs"].dropna().tolist()
    return sum(increase(a, b, "zero") for a, b in zip(values, values[1:])) * 1e-9 + 1e-6


def test_processes(exported, report):
    """The five with the most CPU time, and the one with the most memory: from their own rows, counted as a whole if they began in
    the range, else from the first row."""
    names = exported.table("process").groupby("id").last()
    mine, tree = [], set(exported.table("processes").query("pInTree")["process"])
    for id_, rows in exported.table("processes").groupby("process"):
        rows = rows.sort_values("t_ns")
        # The run is one of a command: its processes, and others that were started later, count from 0.
        is_new = id_ in tree or names.pStartTime[id_] + 10 > report["from"]
        if not is_new and names.pStartTime[id_] + 10 > report["from"] - 2:  # parts of a millisecond decide, which are not exported
            is_new = names.pId[id_] in [p["pid"] for p in report["processes"] if p["cpu_s"] > increase_of(rows)]
        figures = []
        for values, factor in ((rows["pCpuTimeNs"].dropna(), 1e-9),
                               ((rows["pCpuTimeUserMode"] + rows["pCpuTimeKernelMode"]).dropna(), 1e-2)):
            values = values.tolist()
            more = sum(increase(a, b, "zero") for a, b in zip(values, values[1:]))
            figures.append((more + (values[0] if is_new else 0)) * factor if values else None)
        ns, ticks = figures
        cpu = ticks if ns is None or (ticks is not None and ticks > ns + 0.02) else ns
        rss = max([*rows["pResidentSetSize"].dropna(), *(rows["pRssPeakBytes"].dropna() if is_new else []), -1])
        mine.append((id_, cpu, rss, rows["time"].iloc[0], rows["time"].iloc[-1]))
    mine = [p for p in mine if p[1] is not None]
    mine.sort(key=lambda p: -p[1])
    assert report["processes_seen"] == len(set(exported.table("processes")["process"])) and report["process_rows_left_out"] == 0
    assert [p["cpu_s"] for p in report["processes"][:5]] == pytest.approx([p[1] for p in mine[:5]], abs=1e-9)
    assert report["statistics"]["process_cpu_share"].startswith("of wall_s")  # -p
    cpus = exported.table("host")["vNumProcessors"].dropna().iloc[-1]
    for found, (id_, cpu, rss, first, last) in zip(report["processes"][:5], mine):
        assert found["pid"] == names.pId[id_] and found["name"] == names.pName[id_]
        assert found["command"] == (None if names.pCmdline[id_] is pandas.NA else names.pCmdline[id_])
        assert found["rss_peak_bytes"] == (None if rss < 0 else rss)
        assert found["cpu_share_percent"] == pytest.approx(100 * cpu / report["wall_s"] / cpus, rel=1e-6)
        assert (found["first_seen"], found["last_seen"]) == (first, last)
    assert max(p["rss_peak_bytes"] or 0 for p in report["processes"]) == max(p[2] for p in mine)
    assert len(report["processes"]) in (5, 6)
    # The burners of the load: 0.6 s each while they had a core to themselves.
    assert sum(p["name"] == "python3" or "python" in (p["command"] or "") for p in report["processes"]) >= 2


def gini(loads):
    loads = sorted(loads)
    n, total = len(loads), math.fsum(loads)
    g = (2 * math.fsum((i + 1) * load / total for i, load in enumerate(loads)) - n - 1) / n
    return 100 * max(g, 0) / ((n - 1) / n)


def core_loads(exported):
    """For each moment: the load of each core since the moment before, in percent, and the seconds between."""
    table = exported.table("cpu_core")
    resets = exported.table("columns").query("table_name == 'cpu_core'").set_index("column_name")["reset"]
    before, moments = {}, []
    for t_ns, rows in table.groupby("t_ns", sort=True):
        now = {int(row["core"]): row for _, row in rows.iterrows()}
        loads = {}
        for core, row in now.items():
            if core not in before:
                continue
            more = {c: increase(before[core][c], row[c], resets[c]) for c in WORK + REST if row[c] is not pandas.NA}
            total = sum(more.values())
            if total:
                loads[core] = (100 * sum(more.get(c, 0) for c in WORK) / total, (t_ns - before[core]["t_ns"]) / 1e9)
        moments.append(loads)
        before = now
    return moments


def test_cores(exported, report):
    moments = core_loads(exported)
    for cell in report["cores"]:
        mine = [loads[cell["core"]] for loads in moments if cell["core"] in loads]
        weight = math.fsum(w for _, w in mine)
        mean = math.fsum(load * w for load, w in mine) / weight
        std = math.sqrt(math.fsum(w * (load - mean) ** 2 for load, w in mine) / weight)
        assert cell["load_percent"] == pytest.approx(mean, rel=1e-9, abs=1e-9)
        assert cell["std"] == pytest.approx(std, rel=1e-6, abs=1e-6)
        assert cell["max"] == pytest.approx(max(load for load, _ in mine))
    assert len(report["cores"]) == len({core for loads in moments for core in loads})
    if len(report["cores"]) < 2:
        assert report["core_disparity_percent"] is None
        return
    uneven = [gini([load for load, _ in loads.values()]) for loads in moments
              if len(loads) > 1 and any(load for load, _ in loads.values())]
    assert report["core_disparity_percent"] == pytest.approx(math.fsum(uneven) / len(uneven), rel=1e-9, abs=1e-9)

    changes, dominant = 0, None
    for loads in moments:
        order = sorted(((load, -core) for core, (load, _) in loads.items()), reverse=True)
        if len(order) < 2 or order[0][0] - order[1][0] < 70:
            continue
        changes += dominant is not None and dominant != order[0][1]
        dominant = order[0][1]
    assert report["dominant_core_changes"] == changes


def test_cost_and_ticks(exported, report):
    ticks, own = exported.table("ticks"), exported.table("self")
    assert report["self"]["ticks"] == len(ticks)
    assert report["self"]["ticks_missed"] == ticks["missed"].iloc[-1]
    assert report["self"]["tick_late_max_ms"] == pytest.approx(ticks["late_ns"].max() / 1e6)
    # The sample at the end comes before its time, which is not late.
    assert report["self"]["tick_late_mean_ms"] == pytest.approx(ticks["late_ns"].clip(lower=0).mean() / 1e6)
    assert report["self"]["rss_max_bytes"] == own["self_rss_bytes"].max()
    assert report["self"]["errors"] == own["self_errors"].iloc[-1]
