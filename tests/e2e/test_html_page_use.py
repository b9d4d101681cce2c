"""What can be done with the page of `report --html`: pointing, zooming, keys, tables, files. In Chromium, on a page made by hand."""
import csv
import io
import json
import re

import pytest

from html_pages import browser, colored, files, hash_of, panel_of, saved, text, texts, usual, wait_hash, x_of  # noqa: F401 (fixtures)


def test_hover_shows_values_on_all_charts(browser, usual):
    """The cross-hair stands at the same moment in each chart in sight; the legends say the data's values there."""
    place = browser.place("#panel-mem .stage")
    browser.frames()
    browser.mouse("mouseMoved", x_of(place, 60.5 / 240), place["y"] + 60)
    browser.frames()
    at = 60
    memory = panel_of(usual, "mem")["series"][0]["v"][at]
    cpu = panel_of(usual, "cpu")["series"][0]["v"][at]
    assert texts(browser, "#panel-mem .value")[0] == f"{memory / 2 ** 30:.2f}".rstrip("0").rstrip(".") + " GiB"
    assert texts(browser, "#panel-cpu .value")[0] == f"{round(cpu)} %"
    assert browser.evaluate("document.querySelector('#panel-cpu .cross').classList.contains('on')")
    assert browser.evaluate("document.querySelector('#panel-mem .tag').textContent").startswith("11:31:00")
    browser.mouse("mouseMoved", 5, 5)
    browser.frames()
    assert text(browser, "#panel-mem .legend-when") == "mean"
    values = panel_of(usual, "mem")["series"][0]["v"]
    assert texts(browser, "#panel-mem .value")[0] == f"{sum(values) / len(values) / 2 ** 30:.2f}".rstrip("0").rstrip(".") + " GiB"


def test_a_hole_is_no_zero(browser, usual):
    """Where there is no value nothing is drawn and the legend has a dash; the gap is hatched and says why."""
    place = browser.place("#panel-cpu .stage")
    browser.frames()
    assert colored(browser, "#panel-cpu canvas", "--c0", 0.51, 0.57) == 0
    assert colored(browser, "#panel-cpu canvas", "--c0", 0.2, 0.26) > 20
    hatched = colored(browser, "#panel-cpu canvas", "--gap", 0.51, 0.57)
    assert hatched > 200 and hatched > 3 * colored(browser, "#panel-cpu canvas", "--gap", 0.2, 0.26)
    browser.mouse("mouseMoved", x_of(place, 0.54), place["y"] + 60)
    browser.frames()
    assert texts(browser, "#panel-cpu .value") == ["–", "–"]
    assert "no samples: the machine slept" in text(browser, "#panel-cpu .tag")
    # a source that is read each 5 s has no holes between
    browser.place("#panel-kv .stage")
    browser.frames()
    for share in (0.1, 0.13, 0.16, 0.2):
        assert colored(browser, "#panel-kv canvas", "--c0", share, share + 0.01) > 0


def test_drag_wheel_and_hash(browser, files, usual):
    total = usual["n"] * usual["step_ms"]
    place = browser.place("#panel-mem .stage")
    browser.drag(x_of(place, 0.25), place["y"] + 60, x_of(place, 0.5), place["y"] + 60)
    found = wait_hash(browser)
    assert abs(int(found["from"]) - total * 0.25) < total * 0.01 and abs(int(found["to"]) - total * 0.5) < total * 0.01
    # the same link shows the same range
    browser.open(files()[0], fragment="#from=60000&to=120000&axis=elapsed&theme=dark")
    assert text(browser, ".range").startswith("11:31:00 – 11:32:00")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 28)"
    # shift and drag moves, ctrl and wheel zooms, a double click shows all
    place = browser.place("#panel-mem .stage")
    browser.drag(x_of(place, 0.5), place["y"] + 60, x_of(place, 0.25), place["y"] + 60, modifiers=8)
    found = wait_hash(browser)
    assert abs(int(found["from"]) - 75000) < 1000 and found["theme"] == "dark" and found["axis"] == "elapsed"
    browser.mouse("mouseWheel", x_of(place, 0.5), place["y"] + 60, deltaX=0, deltaY=-200, modifiers=2)
    browser.frames()
    found = wait_hash(browser)
    width = int(found["to"]) - int(found["from"])
    assert 20000 < width < 45000 and abs((int(found["to"]) + int(found["from"])) / 2 - 105000) < 2500
    browser.click(x_of(place, 0.5), place["y"] + 60, count=2)
    assert "from" not in wait_hash(browser)
    # the wheel alone scrolls the page
    before = browser.evaluate("scrollY")
    browser.mouse("mouseWheel", x_of(place, 0.5), place["y"] + 60, deltaX=0, deltaY=120)
    browser.evaluate("new Promise(done => setTimeout(done, 300))")
    assert browser.evaluate("scrollY") > before and "from" not in wait_hash(browser)


def test_overview_strip(browser, usual):
    place = browser.place(".strip")
    browser.drag(place["x"] + place["width"] * 0.5, place["y"] + 20, place["x"] + place["width"] * 0.75, place["y"] + 20)
    found = wait_hash(browser)
    assert abs(int(found["from"]) - 120000) < 2500 and abs(int(found["to"]) - 180000) < 2500
    browser.drag(place["x"] + place["width"] * 0.6, place["y"] + 20, place["x"] + place["width"] * 0.5, place["y"] + 20)
    assert abs(int(wait_hash(browser)["from"]) - 96000) < 2500
    browser.evaluate("[...document.querySelectorAll('.timebar button')].find(b => b.textContent === 'Show all').click()")
    assert "from" not in wait_hash(browser)


def test_keyboard(browser, usual):
    """Charts are reached by Tab; arrows move the cursor and are heard, + and - zoom, 0 shows all, T opens the table."""
    browser.key("Tab")
    assert browser.evaluate("document.activeElement.className") == "skip"
    browser.place("#panel-mem .stage")
    browser.evaluate("document.querySelector('#panel-mem canvas').focus()")
    browser.key("Home")
    browser.key("ArrowRight")
    browser.evaluate("new Promise(done => setTimeout(done, 300))")
    said = text(browser, "[role=status]")
    assert said.startswith("11:30:01") and "RSS" in said and "GiB" in said
    browser.key("+")
    found = wait_hash(browser)
    assert int(found["to"]) - int(found["from"]) == usual["n"] * 500
    browser.key("0")
    assert "from" not in wait_hash(browser)
    browser.key("t")
    assert browser.evaluate("document.querySelector('#panel-mem .twin table') !== null")
    assert browser.evaluate("document.querySelector('#panel-mem .tools button').getAttribute('aria-expanded')") == "true"
    # a series is put away by the keyboard as well
    assert colored(browser, "#panel-mem canvas", "--c0") > 100
    browser.evaluate("document.querySelector('#panel-mem .key').focus()")
    browser.key(" ")
    assert browser.evaluate("document.querySelector('#panel-mem .key').getAttribute('aria-pressed')") == "false"
    assert colored(browser, "#panel-mem canvas", "--c0") == 0


@pytest.mark.parametrize("downsampled", [False, True])
def test_tables_say_what_the_data_says(browser, files, downsampled):
    path, data = files("downsampled", downsampled=True) if downsampled else files()
    browser.open(path)
    for name in ("mem", "disk", "cpu", "kv"):
        browser.evaluate(f"document.querySelector('#panel-{name} .tools button').click()")
        browser.frames()
        file, body = saved(browser, f"#panel-{name}", "Save as CSV")
        assert file.endswith(".csv")
        rows = list(csv.reader(io.StringIO(body)))
        assert rows[0][:2] == ["time", "since start (s)"] and len(rows) == data["n"] + 1
        wanted = [series[key] for series in panel_of(data, name)["series"] for key in (("min", "mean", "max") if "min" in series else ("v",))]
        for i, row in enumerate(rows[1:]):
            assert float(row[1]) == i * data["step_ms"] / 1000
            assert [float(cell) if cell else None for cell in row[2:]] == [values[i] for values in wanted], (name, i)
        assert browser.evaluate(f"document.querySelectorAll('#panel-{name} tbody tr').length") == 200
        shown = browser.evaluate(f"document.querySelector('#panel-{name} tbody tr:nth-child(2)').innerText").split("\t")
        assert shown[0] == "11:30:01"
    if not downsampled:
        assert [cell for cell in texts(browser, "#panel-cpu tbody tr:nth-child(125) td")[1:]] == ["–", "–"]
        browser.evaluate("[...document.querySelectorAll('#panel-cpu .twin button')].find(b => b.textContent.startsWith('Show 40')).click()")
        assert browser.evaluate("document.querySelectorAll('#panel-cpu tbody tr').length") == data["n"]
    assert browser.complaints == []


def test_spans(browser, usual):
    """A click on a span shows it alone, shades it elsewhere and tells its attributes; Escape takes the shade away."""
    place = browser.place("#spans-chart .stage")
    browser.frames()
    total = usual["n"] * usual["step_ms"]
    span = next(one for one in usual["spans"] if one["lane"] == 0 and one["depth"] == 0 and one["t"] > total * 0.2)
    x = place["x"] + 12 + (place["width"] - 24) * (span["t"] + span["d"] * 0.8) / total
    browser.mouse("mouseMoved", x, place["y"] + 22 + 16 + 8)
    browser.frames()
    assert text(browser, "#spans-chart .tag").startswith("request") and "gen_ai.request.model = gemma-3-270m" in text(browser, "#spans-chart .tag")
    browser.click(x, place["y"] + 22 + 16 + 8)
    found = wait_hash(browser)
    assert abs(float(found["from"]) - (span["t"] - span["d"] * 0.08)) < 5 and abs(float(found["to"]) - (span["t"] + span["d"] * 1.08)) < 5
    assert "gen_ai.usage.output_tokens" in text(browser, "#spans-chart .detail")
    shaded = """(() => { const canvas = document.querySelector('#panel-kv canvas'), copy = document.createElement('canvas');
        [copy.width, copy.height] = [canvas.width, canvas.height];
        const c = copy.getContext('2d', { willReadFrequently: true });
        c.drawImage(canvas, 0, 0);
        return c.getImageData(0, 0, copy.width, copy.height).data.filter((v, i) => i % 4 === 3 && v > 20 && v < 40).length; })()"""
    browser.place("#panel-kv .stage")
    assert browser.evaluate(shaded) > 5000
    browser.place("#spans-chart .stage")
    browser.evaluate("document.querySelector('#spans-chart canvas').focus()")
    browser.key("ArrowDown")
    assert "prefill" in text(browser, "#spans-chart .detail strong")
    browser.key("Escape")
    browser.key("0")
    browser.place("#panel-kv .stage")
    assert browser.evaluate(shaded) < 500
    browser.evaluate("document.querySelector('#spans-chart .tools button').click()")
    browser.frames()
    assert browser.evaluate("document.querySelectorAll('#spans-chart tbody tr').length") == len(usual["spans"])
    assert "12 shorter spans are not in this page" in text(browser, "#spans-chart .note")


def test_requests(browser, usual):
    """Failed ones have another colour and shape; the keyboard goes from one to the next."""
    browser.place("#ttft .stage")
    browser.frames()
    assert colored(browser, "#ttft canvas", "--bad") > 20
    browser.evaluate("document.querySelector('#e2e canvas').focus()")
    browser.key("ArrowRight")
    browser.key("ArrowRight")
    browser.evaluate("new Promise(done => setTimeout(done, 300))")
    said = text(browser, "[role=status]")
    assert "1 stream" in said and f"{usual['requests'][1]['tokens']} tokens" in said
    browser.evaluate("document.querySelector('#e2e .tools button').click()")
    browser.frames()
    rows = texts(browser, "#e2e tbody td:last-child")
    assert rows[:8].count("timeout") == 1 and rows[7] == "timeout"


def test_heat_map_and_processes(browser, usual):
    place = browser.place("#cores .stage")
    browser.frames()
    browser.mouse("mouseMoved", x_of(place, 60.5 / 240), place["y"] + 8)
    browser.frames()
    v = usual["cores"]["v"][0][60]
    assert text(browser, "#cores .tag").startswith("11:31:00") and re.search(r"cpu0 ([\d.]+) %", text(browser, "#cores .tag"))
    assert abs(float(re.search(r"cpu0 ([\d.]+) %", text(browser, "#cores .tag"))[1]) - v) < 0.5
    browser.mouse("mouseMoved", x_of(place, 0.54), place["y"] + 8)
    browser.frames()
    assert "cpu0 not measured" in text(browser, "#cores .tag")
    shown = "[...document.querySelectorAll('.processes tbody tr')].filter(row => !row.hidden).length"
    assert browser.evaluate(shown) == len(usual["processes"])
    browser.evaluate("document.querySelector('button.twisty').click()")
    assert browser.evaluate(shown) == 1
    browser.evaluate("document.querySelector('button.twisty').click()")
    assert browser.evaluate(shown) == len(usual["processes"])


def test_what_is_estimated_or_limited_is_said(browser, usual):
    assert "estimated" in text(browser, "#panel-power .key.estimated")
    assert texts(browser, ".percentile .reading")[0].startswith("≈ 80 ms") and "50 … 100 ms" in texts(browser, ".percentile .reading")[0]
    assert texts(browser, ".percentile .reading")[3] == "– above 500 ms"
    assert "1.72 of 2 (86 %)" in texts(browser, "#containers .use-text")
    rows = texts(browser, "#absent tbody tr")
    assert len(rows) == 2 and "and 3 more" in rows[1] and "run as root" in rows[1]
    browser.place("#panel-cpu .stage")
    browser.frames()
    assert colored(browser, "#panel-cpu canvas", "--limit") > 20


def test_raw_data(browser, usual):
    name, body = saved(browser, "header.top", "Raw data")
    assert name == "infprof-01a221bf-1491.json"
    assert json.loads(body)["report"] == usual["report"]


def test_theme_button(browser, usual):
    browser.evaluate("[...document.querySelectorAll('header.top button')].find(b => b.textContent === 'Dark').click()")
    assert hash_of(browser) == {"theme": "dark"}
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 28)"


def test_fingers(browser, files):
    """One finger moves the cursor, two zoom; up and down scrolls the page, as everywhere."""
    browser.open(files()[0], 400, 900, mobile=True)
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    try:
        place = browser.place("#panel-mem .stage")

        def touch(kind, *points):
            browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": place["x"] + x, "y": place["y"] + 80, "id": i} for i, x in enumerate(points)])

        touch("touchStart", 150)
        touch("touchMove", 180)
        browser.frames()
        assert "RSS" in text(browser, "#panel-mem .tag")
        touch("touchEnd")
        touch("touchStart", 150)
        touch("touchStart", 150, 200)
        for i in range(1, 6):
            touch("touchMove", 150 - 10 * i, 200 + 10 * i)
        touch("touchEnd")
        found = wait_hash(browser)
        assert int(found["to"]) - int(found["from"]) == pytest.approx(240_000 / 3, rel=0.1)
        assert browser.evaluate("getComputedStyle(document.querySelector('#panel-mem .stage')).touchAction") == "pan-y"
    finally:
        browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
    assert browser.complaints == []
