"""infprof bottlenecks and profile-report: programs with one known bottleneck, and one with none."""
import json
import os
import pathlib
import re
import subprocess
import sys

import jsonschema
import pytest

from nvml import machine  # noqa: F401 (a fixture)
from program import query, run
from pythons import with_gil
from test_engine import PAGE, server  # noqa: F401 (a fixture)
from test_python_wall import ONE

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs"
# What the machine may do to any program while tests run on it: true findings, but not those of the program.
OF_THE_MACHINE = {"cpu-neighbours", "memory", "io-wait"}


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("bottlenecks") / "bottleneck_program"
    subprocess.run(["gcc", "-O1", "-g", "-D_GNU_SOURCE", "-Wall", HERE / "bottleneck_program.c", "-o", path, "-pthread"], check=True)
    return path


@pytest.fixture
def ask(infprof, run_dir):
    def call(verb, *options):
        done = run([infprof, verb, "-r", run_dir, *options])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in options or verb == "profile-report" else " ".join(done.stdout.split())

    return call


def finding(told, rule):
    found = [one for one in told["findings"] if one["rule"] == rule]
    why = [one["reason"] for one in told["findings_not_checked"] if one["rule"] == rule]
    assert found, (rule, why, told["findings"])
    return found[0]


def is_first(told, rule):
    """Worse than all that the program itself does."""
    return [one["rule"] for one in told["findings"] if one["rule"] not in OF_THE_MACHINE or one["rule"] == rule][0] == rule


def skip_unchecked(told, rule):
    """Where the rights are missing the rule must say so, and never be clear."""
    for one in told["findings_not_checked"]:
        if one["rule"] == rule:
            pytest.skip(one["reason"])


def test_live_throttled_by_a_quota(record, ask, program):
    group = pathlib.Path("/sys/fs/cgroup/cpu") / f"infprof-bottleneck-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.cfs_quota_us").write_text("2000")
    except OSError as error:
        pytest.skip(f"no control group of v1 with a quota can be made: {error}")
    try:
        done = record("-t", "200", "--no-snapshots", command=["sh", "-c", f"echo $$ >{group}/cgroup.procs && exec {program} burn 2.5"])
    finally:
        group.rmdir()
    assert done.returncode == 0, done.stderr
    told = ask("bottlenecks", "--json")
    one = finding(told, "cpu-throttled")
    counts = [row["lCpuThrottledTimeNs"] for row in done.run.table("limits") if row["lCpuThrottledTimeNs"] is not None]
    held = (counts[-1] - counts[0]) / 1e9
    assert held > 0.3 and is_first(told, "cpu-throttled") and one["severity"] != "low", told["findings"]
    assert one["share"] <= held / told["wall_s"] + 0.01  # of that, or of more work than that
    assert one["share_low"] is None and one["interval_null_because"] == "counted by the kernel, not sampled"
    assert "throttled" in one["evidence"][0] and one["cause"] is None
    text = ask("report")
    assert f"The CPU quota holds the target back (cpu-throttled): {100 * one['share']:.0f} % of the time" in text, text



def test_starved_by_neighbours(record, ask, program, spawn, server):
    """It has a quarter of one CPU. The kernel's count of its wait is in the run, and agrees. That its requests queue follows from it, though
    they wait for a greater share of their time."""
    engine = server()
    engine.answers["/metrics"] = (200, {}, PAGE + "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 6\n")
    for _ in range(3):
        spawn("taskset", "-c", "0", program, "burn", "60")
    done = record("-t", "200", "--no-snapshots", "--engine", engine.url(), command=["taskset", "-c", "0", program, "burn", "2.5"])
    assert done.returncode == 0, done.stderr
    told = ask("bottlenecks", "--json")
    one = finding(told, "cpu-neighbours")
    queue = finding(told, "queue")
    assert queue["share"] == pytest.approx(0.75) and queue["severity"] == "critical" and queue["cause"] == "cpu-neighbours", queue
    assert f"follows from {one['title']}" in ask("bottlenecks", "--min-severity", "critical" if one["severity"] == "critical" else "medium")
    assert told["findings"][0]["rule"] == "cpu-neighbours" and one["severity"] != "low", told["findings"]
    tree = [row for row in done.run.table("tree") if row["tree_run_delay_ns"] is not None]
    waited = (tree[-1]["tree_run_delay_ns"] - tree[0]["tree_run_delay_ns"]) / 1e9
    ran = (tree[-1]["tree_cpu_ns"] - tree[0]["tree_cpu_ns"]) / 1e9
    assert waited > ran, (waited, ran)  # three times that, had they all the same share
    assert abs(one["share"] - waited / told["wall_s"]) < 0.05, (one, waited, told["wall_s"])
    own = [row["pRunDelayNs"] for row in done.run.table("processes") if row["pRunDelayNs"] is not None]
    assert abs(max(own) - tree[-1]["tree_run_delay_ns"]) < 0.1e9 + 0.1 * max(own)
    assert told["findings"][0]["query"] == "SELECT time, tree_run_delay_ns, tree_cpu_ns FROM tree ORDER BY t_ns"
    # Of a part of the run, its range is in the query.
    part = ask("bottlenecks", "--json", "--from", "+0.5s", "--to", "+2s")
    assert re.search(r"WHERE t_ns >= \d+ AND t_ns < \d+ ORDER", finding(part, "cpu-neighbours")["query"])
    assert 1.3 < part["wall_s"] < 1.7


def test_lock_convoy(record, ask, program):
    done = record("-t", "200", "--off-cpu", "--no-snapshots", command=[program, "convoy", "2.5"])
    assert done.returncode == 0, done.stderr
    told = ask("bottlenecks", "--json")
    skip_unchecked(told, "lock-wait")
    one = finding(told, "lock-wait")
    assert is_first(told, "lock-wait") and one["severity"] in ("high", "critical") and one["share"] > 0.3, told["findings"]
    assert [place["function"] for place in one["functions"]] == ["update_the_table"] and one["function"] == "update_the_table"
    assert one["avg_time_ms"] is None and one["call_count"] is None and "samples do not count calls" in one["null_because"]


def test_gil_bound(record, ask, tmp_path):
    script = tmp_path / "bound.py"
    script.write_text("import threading, time\nend = time.monotonic() + 2.5\n"
                      "def work():\n    while time.monotonic() < end:\n        sum(range(1000))\n"
                      "threads = [threading.Thread(target=work) for _ in range(4)]\n"
                      "[one.start() for one in threads]\n[one.join() for one in threads]\n")
    words, environment = with_gil(ONE)
    done = record("--gil", "--no-snapshots", command=[*words, script], env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    told = ask("bottlenecks", "--json")
    skip_unchecked(told, "gil-wait")
    one = finding(told, "gil-wait")
    assert is_first(told, "gil-wait") and one["share"] > 0.3, told["findings"]
    assert one["share_low"] < one["share"] < one["share_high"] and one["estimated"]
    assert sum(row["weight"] for row in done.run.table("stack_samples") if row["gil"] == "waits") > 2


def test_busy_waiting(record, ask, program):
    """Two of three threads spin: they use what CPUs there are, so that what waits for a CPU follows from it."""
    done = record("--cpu", "--no-snapshots", command=[program, "spin", "0.8"])
    assert done.returncode == 0, done.stderr
    told = ask("bottlenecks", "--json")
    skip_unchecked(told, "busy-wait")
    one = finding(told, "busy-wait")
    assert is_first(told, "busy-wait") and one["share"] > 0.2, told["findings"]
    assert one["share_low"] < one["share"] < one["share_high"]
    assert any("spin locks" in line for line in one["evidence"]), one["evidence"]
    hot = {one["function"]: one for one in told["hotspots"]}
    assert "compute" in hot and hot["compute"]["severity"] in ("medium", "high", "critical"), hot
    for one in told["findings"]:
        if one["rule"] == "cpu-saturated":
            assert one["cause"] == "busy-wait"


def test_gpu(infprof, record, ask, run_dir, machine):
    """The driver's counter of held-down clocks moves by a quarter of the time; the GPU works 15 % of it."""
    done = record("-t", "200", "--no-snapshots", command=["sleep", "3"], env=machine("0 profile h100", "0 utilization.gpu 15").env)
    assert done.returncode == 0, done.stderr
    told = ask("bottlenecks", "--json")
    held, idle, memory = (finding(told, f"gpu-{name}") for name in ("held", "idle", "memory"))
    assert held["share"] == pytest.approx(0.25, rel=0.1) and held["severity"] == "high", held
    assert held["evidence"] == ["nvidia0: its clocks were held down by its power limit 25 % of the time"]
    assert idle["share"] == pytest.approx(0.85) and idle["severity"] == "high", idle
    assert memory["severity"] == "high" and memory["share"] is None and memory["share_null_because"]
    for one in (held, idle, memory):
        assert len(query(infprof, run_dir, one["query"])) > 10


@pytest.fixture
def calm(record, program):
    done = record("-t", "200", "--cpu", "--off-cpu", "--no-snapshots", command=[program, "calm", "3"])
    assert done.returncode == 0, done.stderr
    return done.run


def test_a_healthy_program(infprof, ask, calm, run_dir, tmp_path):
    """Nothing is found that the program does; what was not recorded is not checked, with the reason. All queries of rules can be asked."""
    told = ask("bottlenecks", "--json")
    assert {one["rule"] for one in told["findings"]} <= OF_THE_MACHINE, told["findings"]
    unchecked = {one["rule"]: one["reason"] for one in told["findings_not_checked"]}
    assert unchecked["gil-wait"] == "who held the GIL was not sampled: record with --gil"
    assert unchecked["memory-leak"].endswith("record with --heap") and unchecked["gc-pause"].endswith("record with --torch")
    assert "cpu-saturated" in told["findings_clear"] and "swap" in told["findings_clear"]
    everything = set(told["findings_clear"]) | set(unchecked) | {one["rule"] for one in told["findings"]}
    rules = run([infprof, "bottlenecks", "--rules"]).stdout
    assert everything == set(re.findall(r"^### (.*)$", rules, re.M)) and len(everything) > 20
    text = ask("bottlenecks")
    assert "gil-wait: who held the GIL was not sampled: record with --gil" in text
    if not told["findings"]:
        assert "nothing was found by the rules that could be checked" in text and "Bottlenecks" not in ask("report")
    report = ask("report", "--json")
    assert report["findings"] == told["findings"] and "headline" in report and "limits" in report
    tables = {path.name for path in calm.path.iterdir()}
    for sql in re.findall(r"\*\*Query:\*\* `(.*)`", rules):
        if re.search(r"FROM (\w+\.)?(\w+)", sql)[2] in tables | {"backtrace"}:
            query(infprof, run_dir, sql)
    page = run([infprof, "report", "--html", "-o", "-", "-r", run_dir]).stdout
    assert ('<ul class="findings">' in page) == bool(told["findings"])
    check_profile(ask("profile-report"), calm)


def check_profile(told, recorded):
    """Exactly the mission's keys, one more, and a reason for each null."""
    schema = json.loads((DOCS / "profile-report.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(told, schema)
    assert list(told) == ["profile_id", "duration_seconds", "cpu", "memory", "bottlenecks", "absent"]
    samples = sum(row["samples"] for row in recorded.table("stack_samples") if row["mode"] == "cpu")
    if samples:
        assert told["cpu"]["total_samples"] == samples
    assert 1 < told["memory"]["peak_mb"] < 1000 and told["memory"]["allocations"] is None
    nulls = {path for path, value in leaves(told) if value is None}
    assert nulls == set(told["absent"]), nulls ^ set(told["absent"])
    assert all(told["absent"].values())


def leaves(value, path=""):
    if isinstance(value, dict):
        for key, one in value.items():
            if path or key != "absent":
                yield from leaves(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for i, one in enumerate(value):
            yield from leaves(one, f"{path}[{i}]")
    else:
        yield path, value


def test_profile_report_of_the_heap(record, ask):
    done = record("--heap=exact", "--no-snapshots", command=[sys.executable, "-c", "kept = [bytes(100000 + i) for i in range(200)]"])
    assert done.returncode == 0, done.stderr
    told = ask("profile-report")
    if "memory.allocations" in told["absent"]:
        pytest.skip(told["absent"]["memory.allocations"])
    assert told["memory"]["leaked_mb"] == 0 and told["memory"]["allocations"] > 200
    assert told["cpu"]["total_samples"] is None and "record with --cpu" in told["absent"]["cpu.total_samples"]
    jsonschema.validate(told, json.loads((DOCS / "profile-report.schema.json").read_text()))


@pytest.mark.parametrize("words, code, said", [
    (["bottlenecks", "--min-severity", "grave"], 2, "--min-severity grave: give low, medium, high or critical"),
    (["bottlenecks", "--min-samples", "0"], 2, "--min-samples 0: not a number of samples; give one from 1 on"),
    (["bottlenecks", "--min-samples", "many"], 2, "--min-samples many: not a number of samples"),
    (["bottlenecks", "--threshold-ms", "-1"], 2, "--threshold-ms -1: not a time in milliseconds; give a number from 0 on"),
    (["bottlenecks", "--threshold-ms", "nan"], 2, "--threshold-ms nan: not a time in milliseconds"),
    (["bottlenecks", "-r", "/nowhere"], 1, "/nowhere"),
    (["profile-report", "-r", "/nowhere"], 1, "/nowhere"),
    (["bottlenecks", "what"], 2, "bottlenecks: what: it takes no words; a run is given by -r"),
    (["profile-report", "what"], 2, "profile-report: what: it takes no words"),
])
def test_bad_input(infprof, tmp_path, words, code, said):
    done = run([infprof, *words], cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert said in done.stderr and done.stderr.startswith("infprof: ")


def test_the_page_of_rules_is_that_of_the_records(infprof):
    """docs/bottlenecks.md is made by tools/docs."""
    text = (DOCS / "bottlenecks.md").read_text()
    assert text.endswith(run([infprof, "bottlenecks", "--rules"]).stdout), "run `make docs`"
