"""Inputs from public bug reports (../shared/fixtures/reports) with their declared right answers, through the real binary."""
import csv
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from program import copy_tree, query

TOP = pathlib.Path(__file__).resolve().parents[2]
REPORTS = TOP.parent / "shared" / "fixtures" / "reports"


def case(number):
    found = sorted(REPORTS.glob(f"{number:02d}-*"))
    assert len(found) == 1, f"report {number} is not in {REPORTS}"
    return found[0]


def expected(number):
    with open(case(number) / "expected.json") as file:
        return json.load(file)


def snapshot(infprof, root, *options, **environment):
    done = subprocess.run([infprof, "snapshot", "--root", str(root), "--json", *options], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env={**os.environ, **environment}, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.decode("utf-8"))


def metrics_of(section):
    """{name: value} of an object whose numbers are {"value", "time"}."""
    return {name: cell["value"] if isinstance(cell, dict) and "value" in cell else cell for name, cell in section.items()}


def flat(sample):
    """All metrics of the sections that are objects."""
    result = {}
    for section in sample.values():
        if isinstance(section, dict):
            result.update(metrics_of(section))
    return result


def same(value, right):
    if isinstance(right, float):
        return value is not None and abs(value - right) <= 1e-9 * max(1.0, abs(right))
    return value == right and type(value) is type(right)


def check(sample, right):
    known = flat(sample)
    for name, value in right.items():
        if not isinstance(value, dict):
            assert name in known, f"{name} is not in the snapshot"
            assert same(known[name], value), f"{name}: {known[name]!r} instead of {value!r}"


def record(infprof, tmp_path, root, *options, swap=None, seconds=2.2, period_ms=200):
    """Records a copy of the root; after a while `swap` is copied over it."""
    live = tmp_path / "root"
    copy_tree(root, live)
    output = tmp_path / "out"
    process = subprocess.Popen([infprof, "record", "-o", str(output), "-t", str(period_ms), "--root", str(live),
                                "--duration", f"{seconds}s", *options], stderr=subprocess.PIPE)
    if swap is not None:
        time.sleep(seconds / 2)  # sleep: half of what is recorded
        process.send_signal(signal.SIGSTOP)  # files of two moments in one sample are what no kernel shows
        copy_tree(swap, live)
        process.send_signal(signal.SIGCONT)
    stderr = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 0, stderr
    return output


def test_01_iowait_runs_backwards(infprof, tmp_path):
    right = expected(1)
    for moment in ("t0", "t1"):
        sample = snapshot(infprof, case(1) / moment)
        check(sample, right[moment])
    output = record(infprof, tmp_path, case(1) / "t0", swap=case(1) / "t1")
    rows = query(infprof, output, "SELECT vCpuTimeIOWait AS v FROM cpu ORDER BY t_ns")
    assert {row["v"] for row in rows} == {96430, 96409}
    sql = ("SELECT core, sum(d) AS d FROM (SELECT core, infp_increase('none', lag({0}) OVER (PARTITION BY core ORDER BY t_ns),"
           " {0}) AS d FROM cpu_core) GROUP BY core ORDER BY core")
    rows = query(infprof, output, sql.format("vCpuTimeIOWait"))
    assert [row["d"] or 0 for row in rows] == [0, 12]
    reset = query(infprof, output, "SELECT DISTINCT reset FROM columns WHERE column_name = 'vCpuTimeIOWait'")
    assert reset == [{"reset": "none"}]
    report = json.loads(subprocess.run([infprof, "report", "-r", str(output), "--json"], stdout=subprocess.PIPE).stdout)
    for name, cell in report["metrics"].items():
        if name.startswith("vCpu") and cell.get("min") is not None:
            assert cell["min"] >= 0, name


def test_02_core_offline_then_back(infprof, tmp_path):
    right = expected(2)
    for moment in ("t0", "t1"):
        sample = snapshot(infprof, case(2) / moment)
        check(sample, right[moment])
        cores = {str(metrics_of(core)["core"]): metrics_of(core) for core in sample["cpu_core"]}
        assert set(cores) == set(right[moment]["cpu_core"])
        for number, values in right[moment]["cpu_core"].items():
            for name, value in values.items():
                assert cores[number][name] == value, (number, name)
    output = record(infprof, tmp_path, case(2) / "t0", swap=case(2) / "t1")
    rows = query(infprof, output, "SELECT core, max(vCpuTimeUserMode) - min(vCpuTimeUserMode) AS d FROM cpu_core GROUP BY core "
                                  "ORDER BY core")
    assert [(row["core"], row["d"]) for row in rows] == [(0, 40), (1, 7), (2, 0), (3, 90)]


@pytest.mark.parametrize("tree", ["one", "all"])
def test_03_frequency_is_a_text(infprof, tree):
    sample = snapshot(infprof, case(3) / tree)
    check(sample, expected(3)[tree])
    assert flat(sample)["vMemoryTotal"] is None


@pytest.mark.parametrize("tree", ["k5.5", "k4.18", "k3.10"])
def test_04_disks_are_summed_once(infprof, tree):
    sample = snapshot(infprof, case(4) / tree)
    check(sample, expected(4)[tree])
    devices = {metrics_of(device)["device"] for device in sample["disk_device"]}
    assert devices >= {"nvme0n1", "sda", "sdaa", "mmcblk0"}


def processes_of(sample):
    return {metrics_of(process)["pId"]: metrics_of(process) for process in sample["processes"]["processes"]}


def check_processes(sample, right):
    found = processes_of(sample)
    assert set(found) == {int(pid) for pid in right}
    for pid, values in right.items():
        for name, value in values.items():
            if name.startswith("p") and name != "ppid":
                assert found[int(pid)][name] == value, (pid, name)
            elif name in ("state", "ppid"):
                assert found[int(pid)]["pState" if name == "state" else "pParentId"] == value, (pid, name)


def test_15_names_that_look_like_stat_lines(infprof):
    check_processes(snapshot(infprof, case(15) / "root", "-p"), expected(15)["root"]["processes"])


def test_15_tree_below_a_pid(infprof, tmp_path):
    output = record(infprof, tmp_path, case(15) / "root", "--pid", "2990", seconds=1)
    rows = query(infprof, output, "SELECT DISTINCT pId FROM processes ORDER BY pId")
    assert [row["pId"] for row in rows] == [2990, 3001, 3002, 3003, 3004, 3005]


def test_16_names_that_are_not_utf8(infprof, tmp_path):
    right = expected(16)["root"]["processes"]
    check_processes(snapshot(infprof, case(16) / "root", "-p"), right)
    names = sorted(values["pName"] for values in right.values())
    output = record(infprof, tmp_path, case(16) / "root", "-p", seconds=1)
    texts = {}
    for form in ("json", "csv", "tsv"):
        done = subprocess.run([infprof, "export", "-r", str(output), "processes", "-f", form], stdout=subprocess.PIPE, check=True)
        texts[form] = done.stdout.decode("utf-8")
    in_json = sorted({row["pName"] for row in json.loads(texts["json"])})
    in_csv = sorted({row["pName"] for row in csv.DictReader(texts["csv"].splitlines())})
    assert in_json == names
    assert in_csv == names
    lines = [line.split("\t") for line in texts["tsv"].rstrip("\n").split("\n")]
    at = lines[0].index("pName")
    assert sorted({line[at] for line in lines[1:]}) == names
    command_lines = {row["pId"]: row["pCmdline"] for row in json.loads(texts["json"])}
    assert "推理服务" in command_lines[410] and "--模型" in command_lines[410]
    assert "mod\\xE8le.py" in command_lines[411] and "a\\\\b" in command_lines[411]


def test_17_a_pid_is_used_again(infprof, tmp_path):
    output = record(infprof, tmp_path, case(17) / "t0", "--pid", "5100", swap=case(17) / "t1", seconds=4, period_ms=1000)
    rows = query(infprof, output, "SELECT pId, pName, pState, pCpuTimeUserMode AS u, pCpuTimeKernelMode AS k, process "
                                  "FROM processes WHERE pId = 5150 ORDER BY t_ns")
    assert len({row["process"] for row in rows}) == 2
    trainer = [row for row in rows if row["pName"] == "trainer"]
    sleeper = [row for row in rows if row["pName"] == "sleep"]
    assert (trainer[-1]["pState"], trainer[-1]["u"], trainer[-1]["k"]) == ("X", 91234, 3210)
    assert (sleeper[0]["u"], sleeper[0]["k"]) == (12, 1)
    totals = query(infprof, output, "SELECT tree_cpu_user + tree_cpu_system AS v FROM tree ORDER BY t_ns")
    values = [row["v"] for row in totals]
    assert values == sorted(values)
    # It was attached to: what it had used by then, 91237 + 3212, is not counted; all of it came to 94470.
    assert values[0] == 0 and values[-1] == 94470 - (91237 + 3212)


def german_locale(tmp_path):
    path = tmp_path / "locale"
    path.mkdir()
    done = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", str(path / "de_DE.UTF-8")], stderr=subprocess.PIPE)
    if done.returncode not in (0, 1) or not (path / "de_DE.UTF-8").exists():
        pytest.skip("localedef has no sources of de_DE here (Debian: locales)")
    return {"LOCPATH": str(path), "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}


def test_21_decimal_comma(infprof, tmp_path):
    german = german_locale(tmp_path)
    assert b"4,5" in subprocess.run(["/usr/bin/printf", "%.1f", "4,5"], env={**os.environ, **german}, stdout=subprocess.PIPE).stdout
    root = case(21) / "root"
    sample = snapshot(infprof, root, **german)
    check(sample, expected(21)["root"])
    outputs = {}
    for name, environment in (("c", {"LC_ALL": "C"}), ("de", german)):
        env = {**os.environ, **environment}
        output = tmp_path / name
        subprocess.run([infprof, "record", "-o", str(output), "-t", "200", "-f", "csv", "--root", str(root), "--duration", "0.5s"],
                       env=env, check=True, stderr=subprocess.DEVNULL)
        series = list(output.glob("*.csv"))[0].read_text().splitlines()
        assert len({len(row) for row in csv.reader(series)}) == 1
        texts = [subprocess.run([infprof, *words, "-r", str(output)], env=env, check=True, stdout=subprocess.PIPE).stdout.decode()
                 for words in (["query", "SELECT vLoadAvg / 2 AS half, vMemoryPercent FROM cpu, mem LIMIT 1"],
                               ["export", "mem", "-f", "prom"])]
        texts.append(subprocess.run([infprof, "report", "-r", str(output), "--json"], env=env, check=True,
                                    stdout=subprocess.PIPE).stdout.decode())
        json.loads(texts[-1])
        outputs[name] = texts[:2]
        assert "0.225" in texts[0] and "68.75" in texts[0]
        report = json.loads(texts[-1])["metrics"]
        assert report["vLoadAvg"]["mean"] == 0.45 and report["vMemoryPercent"]["max"] == 68.75
    assert outputs["c"][0] == outputs["de"][0]


def test_22_digits_past_2_to_the_53(infprof, tmp_path):
    root, right = case(22) / "root", expected(22)["root"]
    check(snapshot(infprof, root), right)
    for form in ("csv", "tsv", "json", "parquet"):
        output = tmp_path / form
        subprocess.run([infprof, "record", "-o", str(output), "-t", "200", "-f", form, "--root", str(root), "--duration", "0.5s"],
                       check=True, stderr=subprocess.DEVNULL)
        stamps = {}
        for result in ("json", "csv", "tsv"):
            text = subprocess.run([infprof, "query", "-r", str(output), "-f", result, "SELECT vNetworkBytesRecvd, t_ns FROM net ORDER BY t_ns"],
                                  check=True, stdout=subprocess.PIPE).stdout.decode()
            assert "9007199254740993" in text and "e+" not in text
            if result == "json":
                stamps[result] = [row["t_ns"] for row in json.loads(text)]
            else:
                stamps[result] = [int(line.replace("\t", ",").split(",")[1]) for line in text.splitlines()[1:]]
        assert stamps["json"] == stamps["csv"] == stamps["tsv"]
        if form in ("csv", "tsv"):
            with open(list(output.glob(f"*.{form}"))[0], newline="") as file:
                row = next(csv.DictReader(file, delimiter="," if form == "csv" else "\t"))
            for name, value in right.items():
                assert row[name] == str(value), name
        elif form == "json":
            lines = [path for path in output.glob("*.json") if not path.name.startswith("static_") and path.stem.count("-") == 4]
            row = json.loads(lines[0].read_text().splitlines()[0])
            for name, value in right.items():
                assert row[name] == value, name
        else:
            import pyarrow.parquet
            table = pyarrow.parquet.read_table(list(output.glob("*.parquet"))[0])
            for name, value in right.items():
                assert table.column(name).to_pylist()[0] == value, name


def test_23_column_of_nothing_keeps_its_type(infprof, tmp_path):
    import duckdb
    import polars
    import pyarrow
    import pyarrow.parquet

    files = []
    for tree in ("with", "without"):
        output = tmp_path / tree
        subprocess.run([infprof, "record", "-o", str(output), "-t", "200", "--root", str(case(23) / tree), "--duration", "0.5s"],
                       check=True, stderr=subprocess.DEVNULL)
        files.append(str(list(output.glob("*.parquet"))[0]))
    schemas = [pyarrow.parquet.read_schema(path) for path in files]
    assert schemas[0].names == schemas[1].names
    for schema in schemas:
        assert schema.field("vCpuMhz").type == pyarrow.float64()
        assert schema.field("vLoadAvg").type == pyarrow.float64()
    without = pyarrow.parquet.read_table(files[1])
    assert without.column("vCpuMhz").null_count == without.num_rows >= 3
    assert without.column("vLoadAvg").to_pylist()[0] == 1.0
    both = duckdb.sql(f"SELECT count(*), count(vCpuMhz), avg(vCpuMhz) FROM read_parquet({files!r})").fetchone()
    assert both[0] >= 6 and both[1] >= 3 and both[2] == 2000.0
    assert polars.read_parquet(files)["vCpuMhz"].mean() == 2000.0
