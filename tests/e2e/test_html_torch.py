"""report --html of a program with PyTorch: its modules and steps as tables that read without script, and over the shown time. The rows are
those that infprof.torch would write, so that the answers are known; no torch is needed."""
import json
import os
import re

import pytest

from html_pages import browser, panel_of, texts  # noqa: F401 (fixtures)
from program import query, run
from test_html import HOSTILE, MOST_BYTES, page_of
from test_torch import ODD

PYTHON = "/usr/bin/python3"
ROWS = """
import sys, time
from infprof import _core
TRACE, STEPS, OVERHEAD = (_core.open_table(name, columns) for name, columns in (
    ("torch_trace", "step module stage class duration self_duration growth"), ("torch_steps", "step phase shape kind duration gc data note"),
    ("torch_overhead", "pairs every hooks hooks_low hooks_high own overhead low high")))
begin = time.monotonic_ns()
def until(seconds):
    time.sleep(max(0, begin * 1e-9 + seconds - time.monotonic()))  # sleep: rows of two halves of the recording
"""
# In the first half a takes three quarters of 0.4 s, in the second all of 0.2 s.
PROGRAM = ROWS + """
for i in range(10):
    TRACE.write(0, i, "a", "forward", "Linear", 0.03, 0.03, 2.0)
    TRACE.write(0, i, sys.argv[1], "forward", "Block", 0.04, 0.01, 0.0)
    STEPS.write(0, i, "decode", "1x1", "hooked", 0.05, 0.0, 0.0, None)
STEPS.write(0, 10, "decode", "1x1", "bare", 0.45, 0.4, 0.0, None)
STEPS.write(0, 11, "prefill", "1x512", "bare", 0.2, 0.0, 0.0, None)
OVERHEAD.write(0, 8, 10, 0.02, 0.01, 0.03, 0.001, 0.003, 0.002, 0.004)
until(1.2)
for i in range(10):
    TRACE.write(0, 20 + i, "a", "backward", "Linear", 0.02, 0.02, None)
until(1.6)
"""


@pytest.fixture(scope="module")
def recorded(infprof, tmp_path_factory):
    top = tmp_path_factory.mktemp("torch")
    (top / "program.py").write_text(PROGRAM)
    done = run([infprof, "record", "-o", top / "out", "-t", "100", "--no-snapshots", "--python", "--", PYTHON, top / "program.py", HOSTILE])
    assert done.returncode == 0, done.stderr
    return top / "out"


def rows_of(text, caption):
    """Cells of a table that reads without script."""
    table = re.search(rf'aria-label="Table: {caption}"><table>.*?<tbody>(.*?)</tbody>', text, re.DOTALL).group(1)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in table.split("<tr>")[1:]]


def test_it_reads_without_script(infprof, recorded):
    _, text = page_of(infprof, recorded)
    shown = HOSTILE.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    modules = rows_of(text, "modules of PyTorch")
    assert modules == [["a", "Linear", "20", "500 ms", "83.3 %", "500 ms"], [shown, "Block", "10", "100 ms", "16.7 %", "400 ms"]]
    assert [row[0] for row in rows_of(text, "classes of modules")] == ["Linear", "Block"]
    assert rows_of(text, "stages of modules") == [["forward", "20", "400 ms", "66.7 %"], ["backward", "10", "200 ms", "33.3 %"]]
    assert rows_of(text, "growth of memory by module") == [["a", "Linear", "10", "20.0 MiB", "2.00 MiB"]]
    assert rows_of(text, "steps by phase") == [["decode", "11", "10", "50.0 ms", "450 ms"], ["prefill", "1", "0", "200 ms", "200 ms"]]
    assert rows_of(text, "slowest steps") == [["10", "decode", "1x1", "400 ms of garbage collection", "450 ms", "400 ms"]]
    words = " ".join(run([infprof, "report", "torch", "-r", recorded]).stdout.split())
    (overhead,) = re.findall(r"overhead: (.*?)</p>", text)
    assert overhead.startswith("0.300 % of the time of steps [95 %: 0.200 to 0.400]") and overhead in words


def test_the_charts_are_of_the_rows(infprof, recorded):
    data = page_of(infprof, recorded)[0].data
    panels = {panel["id"]: panel for panel in data["panels"] if panel["group"] == "torch"}
    assert set(panels) == {"torch-steps", "torch-modules", "torch-classes", "torch-stages", "torch-growth"}
    a, other = panels["torch-modules"]["series"]
    assert (a["name"], other["name"]) == ("a", HOSTILE) and a["quality"] == "derived"
    first = next(i for i, v in enumerate(a["v"]) if v is not None)
    for begin, end, share, seconds in ((first, first + 6, 75, 0.4), (first + 6, data["n"], 100, 0.2)):
        found = [(v, weight) for v, weight in zip(a["v"][begin:end], a["weight"][begin:end]) if v is not None]
        assert sum(weight for _, weight in found) == pytest.approx(seconds, rel=0.01)
        assert sum(v * weight for v, weight in found) / sum(weight for _, weight in found) == pytest.approx(share, abs=0.5)
    sum_s = query(infprof, recorded, "SELECT sum(self_duration) AS s FROM python.torch_trace")[0]["s"]
    assert sum_s == pytest.approx(0.6)
    steps = {series["name"]: series for series in panels["torch-steps"]["series"]}
    assert max(v for v in steps["decode"]["max"] if v is not None) == pytest.approx(0.45, rel=0.01)


def test_they_follow_the_shown_time(browser, infprof, recorded, tmp_path):
    page = tmp_path / "page.html"
    assert run([infprof, "report", "-r", recorded, "--html", "-o", page]).returncode == 0
    browser.open(page)
    data = json.loads(browser.evaluate("document.getElementById('data').textContent"))
    assert browser.evaluate("document.querySelectorAll('#torch').length") == 1
    assert browser.evaluate("[...document.querySelectorAll('#torch table caption, #torch .scroll')].length") >= 6
    assert "PyTorch" in texts(browser, "nav a")
    browser.place("#panel-torch-modules .stage")
    browser.frames()
    assert texts(browser, "#panel-torch-modules .value") == ["83.3 %", "16.7 %"]
    last = max(i for i, v in enumerate(panel_of(data, "torch-modules")["series"][0]["v"]) if v is not None)
    browser.evaluate(f"location.hash = '#from={(last - 3) * data['step_ms']}&to={(last + 1) * data['step_ms']}'")
    browser.frames(4)
    assert texts(browser, "#panel-torch-modules .value") == ["100 %", "0 %"]
    assert browser.complaints == [] and browser.dialogs == []


MANY = ROWS + """
for i in range(3000):
    TRACE.write(0, i, "model.layers.%d.self_attention.output.dense" % i, "forward", "Linear%d" % i, 0.001, 0.001, 0.5)
"""


def test_many_modules_are_a_small_page(infprof, record, tmp_path):
    program = tmp_path / "many.py"
    program.write_text(MANY)
    done = record("--python", "--no-snapshots", command=[PYTHON, program], env={**os.environ, "INFPROF_RING_BYTES": "16M"})
    assert done.returncode == 0, done.stderr
    page, text = page_of(infprof, done.run.path)
    n = len(done.run.table("torch_trace"))
    assert n > 2000 and len(text.encode()) < MOST_BYTES / 2
    assert len(page.data["report"]["torch"]["modules"]) == 200 and any(f"200 of {n} modules of PyTorch" in note for note in page.data["notes"])
    assert len(rows_of(text, "modules of PyTorch")) == 20
    (panel,) = [panel for panel in page.data["panels"] if panel["id"] == "torch-modules"]
    assert len(panel["series"]) == 8 and panel["series"][-1]["name"] == "all others"


def test_a_run_without_it_has_no_word_of_it(infprof, record, run_dir):
    record("--no-snapshots", command=["true"])
    page, text = page_of(infprof, run_dir)
    assert 'id="torch"' not in text and not [panel for panel in page.data["panels"] if panel["group"] == "torch"]


@pytest.mark.san
def test_odd_rows_make_a_sound_page(infprof, record, tmp_path):
    """Numbers that no program means, names that are no names: figures are numbers or null, and the page stays one."""
    (tmp_path / "odd.py").write_text(ODD)
    done = record("--python", "--no-snapshots", command=[PYTHON, tmp_path / "odd.py"])
    assert done.returncode == 0, done.stderr
    page, text = page_of(infprof, done.run.path)

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    data = json.loads(next(text for attributes, text in page.texts["script"] if attributes.get("id") == "data"), parse_constant=refuse)
    panels = [panel for panel in data["panels"] if panel["group"] == "torch"]
    assert {panel["id"] for panel in panels} >= {"torch-steps", "torch-modules", "torch-stages"} and len(rows_of(text, "modules of PyTorch")) > 5
    for series in (series for panel in panels if panel["unit"] == "%" for series in panel["series"]):
        assert all(v is None or 0 <= v <= 100.5 for key in ("v", "min", "max", "mean") for v in series.get(key, [])), series["name"]
