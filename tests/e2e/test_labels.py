"""Labels in a captured output: marks at the time that stands in the line, and what the report says between them."""
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import Run

TOP = pathlib.Path(__file__).resolve().parents[2]
TRUTH = TOP.parent / "shared" / "truth"


def report(infprof, output, *options, json_too=True):
    done = subprocess.run([infprof, "report", "-r", str(output), *options, *(["--json"] if json_too else [])],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if json_too else done.stdout


def marks(run):
    return {row["tag"]: row for row in run.table("marks")}


@pytest.mark.san
def test_marks(record):
    """Python holds its output back until the end: the line's own time is what counts."""
    script = ("import time\n"
              "def label(tag): print(f'measure_label-{tag}: {time.time()}')\n"
              "label('start'); time.sleep(0.4); label('phase: two'); time.sleep(0.4); label('end')\n"
              "print('measure_label-filename: gemm_512')\n"
              "print('measure_label-no time'); print('measure_label-old: 5'); print('measure_label-odd: soon')\n"
              "print('\\x1b[32mmeasure_label-green\\x1b[0m: %f' % time.time())\n"
              "print('10 %%\\r50 %%\\rmeasure_label-bar: %f' % time.time(), end='\\r\\n')\n"
              "import sys; sys.stdout.flush(); sys.stdout.buffer.write(b'measure_label-\\xff\\\\\\x00: %f\\n' % time.time())\n"
              "print('measure_label-token=S3cret: %f' % time.time()); print('see measure_label-docs: in the text')\n")
    done = record("-t", "50", "--capture", "--no-finish", command=[sys.executable, "-c", script],
                  errors="surrogateescape", env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"})
    assert done.returncode == 0, done.stderr
    lines = {line[len("measure_label-"):].rsplit(":", 1)[0]: float(line.rsplit(":", 1)[1]) for line in done.stdout.splitlines()
             if line.startswith(("measure_label-start", "measure_label-phase", "measure_label-end"))}
    found = marks(done.run)
    assert set(found) == {"start", "phase: two", "end", "filename: gemm_512", "no time", "old", "odd", "green", "bar", "\\xFF\\\\", "token=***"}
    assert all(row["source"] == "output" for row in found.values())
    for tag, unix_s in lines.items():
        assert found[tag]["stamp"] == "line"
        assert abs(found[tag]["time"].timestamp() - unix_s) < 1e-5, tag
    between = lines["end"] - lines["phase: two"]
    assert between > 0.39 and abs((found["end"]["t_ns"] - found["phase: two"]["t_ns"]) / 1e9 - between) < 0.01
    assert found["no time"]["stamp"] == "seen: the line has no time"
    assert found["old"]["stamp"] == "seen: its time 5.000000000 is not within the recording"
    assert found["odd"]["stamp"] == "seen: its time cannot be read"
    assert found["green"]["stamp"] == found["bar"]["stamp"] == "line"
    assert found["old"]["t_ns"] >= found["end"]["t_ns"]


def test_a_hostile_stream(record, infprof):
    """Random bytes, endless lines, half labels, a storm of them: nothing breaks, what is true is found."""
    script = ("import os, sys, time\nout = sys.stdout.buffer\n"
              "out.write(os.urandom(300000)); out.write(b'\\n' + b'z' * 3000000 + b'measure_label-behind: %f\\n' % time.time())\n"
              "out.write(b'measure_label-' * 100000 + b'\\n'); out.write(b'measure_label-' + b't' * 10000 + b': 5\\n')\n"
              "for i in range(5000): out.write(b'measure_label-storm: %f\\n' % time.time())\n"
              "out.write(b'measure_label-cut: ')\n")
    done = record("-t", "50", "--capture", "--no-finish", command=[sys.executable, "-c", script], stdin=subprocess.DEVNULL, errors="replace")
    assert done.returncode == 0
    tags = [row["tag"] for row in done.run.table("marks")]
    assert "behind" in tags and 900 <= len(tags) <= 4000 and all(len(tag) <= 1024 for tag in tags)
    assert "labels did not become marks: the command printed more than 1000 in a second" in done.stderr
    found = report(infprof, done.run.output, "--labels")
    assert len(found["labels"]) + found["labels_left_out"] == len(tags) and len(found["labels"]) <= 1000


@pytest.fixture(scope="module")
def busy_split(tmp_path_factory):
    out = tmp_path_factory.mktemp("truth")
    subprocess.run(["make", "-s", "-C", str(TRUTH), f"OUT={out}", f"{out}/busy_split"], check=True)
    return out / "busy_split"


@pytest.fixture(scope="module")
def labelled(busy_split, tmp_path_factory):
    """A run with an idle second, then busy_split, then 64 MiB held for a second; with what was true."""
    out = tmp_path_factory.mktemp("labelled")
    infprof = pathlib.Path(os.environ.get("INFPROF", TOP / "build" / "infprof")).resolve()
    script = ("import subprocess, sys, time\n"
              "def label(tag): print(f'measure_label-{tag}: {time.time()}', flush=True)\n"
              "print('measure_label-filename: split', flush=True)\n"
              "label('idle'); time.sleep(1.2)\n"
              f"label('busy'); truth = subprocess.run([{str(busy_split)!r}, '-s', '2'], stdout=subprocess.PIPE).stdout\n"
              "label('memory'); held = bytearray(b'm') * (64 << 20); time.sleep(1.2)\n"
              "label('end'); time.sleep(0.2); print(truth.decode(), end='')\n")
    done = subprocess.run([str(infprof), "record", "-o", str(out), "-t", "50", "--capture", "--no-snapshots", "--", sys.executable, "-c", script],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    times = {line.split("-", 1)[1].split(":")[0]: float(line.split(": ")[1]) for line in lines if line.startswith("measure_label-") and "filename" not in line}
    return out, times, json.loads(lines[-1])


def test_between_neighbours(infprof, labelled):
    out, times, truth = labelled
    found = report(infprof, out, "--labels")
    assert [label["tag"] for label in found["labels"]] == ["idle", "busy", "memory", "end"]
    assert found["filename"] == "split"
    idle, busy, memory = found["intervals"]
    assert (busy["from"], busy["to"]) == ("busy", "memory")
    for span in found["intervals"]:
        assert abs(span["seconds"] - (times[span["to"]] - times[span["from"]])) < 0.001
        assert 0 < span["samples"] <= span["seconds"] / 0.05 + 2
    cpus = os.cpu_count()
    # What lies between the first sample and the label before it is lost: an interval at each end, as long as the machine made it.
    stamps = [row["t_ns"] / 1e9 for row in Run(out).table("tree")]
    longest = max(b - a for a, b in zip(stamps, stamps[1:]))
    cpu_s = busy["cpu_percent"]["mean"] / 100 * cpus * busy["seconds"]
    assert abs(cpu_s - truth["cpu_s"]) <= 0.1 * truth["cpu_s"] + 2 * longest, (cpu_s, truth, longest)
    assert idle["cpu_percent"]["mean"] < 5 and busy["cpu_percent"]["max"] <= 100.5
    assert memory["rss_bytes"]["max"] - idle["rss_bytes"]["max"] >= 64 << 20
    assert memory["vms_bytes"]["min"] > 0 and idle["swap_bytes"]["min"] >= 0
    for span in found["intervals"]:
        for core in span["cores"]:
            assert core["load_percent"] is None or 0 <= core["load_percent"]["min"] <= core["load_percent"]["mean"] <= 100
        if span["cores_mean_percent"]:
            mean = sum(core["load_percent"]["mean"] for core in span["cores"]) / len(span["cores"])
            assert abs(mean - span["cores_mean_percent"]["mean"]) < 3
    assert found["statistics"]["intervals"]


def test_recomputed_from_the_rows(infprof, labelled):
    """Mean and pandas' std of the rows between two labels are what the report says."""
    import pandas

    out, _, _ = labelled
    done = subprocess.run([infprof, "query", "-r", str(out), "-f", "csv", "SELECT t_ns, tree_rss_bytes AS rss, tree_cpu_ns AS cpu FROM tree WHERE "
                           "t_ns >= (SELECT t_ns FROM marks WHERE tag = 'busy') AND t_ns < (SELECT t_ns FROM marks WHERE tag = 'memory') ORDER BY t_ns"],
                          stdout=subprocess.PIPE, check=True, text=True)
    frame = pandas.read_csv(io.StringIO(done.stdout))
    span = report(infprof, out, "--from", "busy", "--to", "memory")["intervals"][0]
    assert span["rss_bytes"]["mean"] == pytest.approx(frame["rss"].mean(), rel=1e-9)
    assert span["rss_bytes"]["std"] == pytest.approx(frame["rss"].std(), rel=1e-9)
    assert (span["rss_bytes"]["min"], span["rss_bytes"]["max"]) == (frame["rss"].min(), frame["rss"].max())
    kept = []  # rows that come sooner than half a period after the one before have no rate of their own
    for t_ns in frame["t_ns"]:
        kept += [t_ns] if not kept or t_ns - kept[-1] >= 25_000_000 else []
    rated = frame[frame["t_ns"].isin(kept)]
    percent = 100 * rated["cpu"].diff() / rated["t_ns"].diff() / os.cpu_count()
    assert span["cpu_percent"]["mean"] == pytest.approx(percent.mean(), rel=1e-6)
    assert span["cpu_percent"]["std"] == pytest.approx(percent.std(), rel=1e-6)
    assert span["cpu_percent"]["n"] == percent.count()


def test_text_and_csv(infprof, labelled):
    out, times, _ = labelled
    text = report(infprof, out, "--from", "busy", "--to", "memory", json_too=False)
    assert "Between labels" in text and "\n  busy to memory\n" in text and "CPU of the tree, of all CPUs" in text
    assert "Between labels" not in report(infprof, out, "--from", "+1s", json_too=False)
    text = report(infprof, out, "--labels", json_too=False)
    assert report(infprof, out, "labels", json_too=False).split("Between labels")[1] in text
    assert "\n  busy to memory " in text and "named       split" in text and max(map(len, text.split("Between labels")[1].splitlines())) <= 80
    lines = list(csv.DictReader(io.StringIO(report(infprof, out, "--labels", "--csv", json_too=False))))
    assert [(line["from_label"], line["to_label"]) for line in lines] == [("idle", "busy"), ("busy", "memory"), ("memory", "end")]
    assert abs(float(lines[1]["from_time"]) / 1000 - times["busy"]) < 0.002
    spans = report(infprof, out, "--labels")["intervals"]
    assert [float(line["cpu_percent_mean"]) for line in lines] == [span["cpu_percent"]["mean"] for span in spans]


def test_sql_of_the_docs(infprof, labelled):
    """docs/labels.md: the upstream profiler's CSV by a query."""
    out, times, truth = labelled
    text = (TOP / "docs" / "labels.md").read_text()
    blocks = re.search(r"```sql\n(.*?)```", text, re.DOTALL).group(1).split("\n\n")
    tables = []
    for sql in blocks:
        sql = "\n".join(line for line in sql.splitlines() if not line.startswith("--"))
        done = subprocess.run([infprof, "query", "-r", str(out), "-f", "csv", sql], stdout=subprocess.PIPE, check=True, text=True)
        tables.append(list(csv.DictReader(io.StringIO(done.stdout))))
    samples, cores = tables
    assert list(samples[0]) == ["uptime", "cpu_usage", "virtual_memory_usage", "ram_usage", "swap_usage", "energy_consumed", "cpu_temperature"]
    busy = [row for row in samples if row["cpu_usage"] and times["busy"] + 0.2 <= float(row["uptime"]) <= times["memory"] - 0.2]
    span = report(infprof, out, "--from", "busy", "--to", "memory")["intervals"][0]
    mean = sum(float(row["cpu_usage"]) for row in busy) / len(busy)
    assert len(busy) >= 10 and abs(mean - span["cpu_percent"]["mean"]) < 0.25 * mean + 5
    assert max(float(row["ram_usage"]) for row in samples if row["ram_usage"]) >= 1 / 16
    assert {int(row["core"]) for row in cores} == set(range(os.cpu_count()))
    assert all(0 <= float(row["usage"]) <= 100 for row in cores if row["usage"])


def test_marks_of_other_sources(infprof, record):
    """Labels are marks: those that `infprof mark` sets count as well."""
    done = record("-t", "50", "--capture", command=["sh", "-c", f"'{infprof}' mark by-hand; sleep 0.3; echo measure_label-shell; sleep 0.2"])
    assert done.returncode == 0, done.stderr
    found = report(infprof, done.run.output, "--labels")
    assert [(label["tag"], label["source"]) for label in found["labels"]] == [("by-hand", "mark"), ("shell", "output")]
    assert len(found["intervals"]) == 1 and 0.2 < found["intervals"][0]["seconds"] < 5


def test_no_labels(infprof, record):
    done = record("-t", "50", command=["sleep", "0.2"])
    assert "no label is set in this range" in report(infprof, done.run.output, "--labels", json_too=False)
    found = report(infprof, done.run.output, "--labels")
    assert found["labels"] == [] and found["intervals"] == []
    assert "intervals" not in report(infprof, done.run.output)
