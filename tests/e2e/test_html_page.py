"""The page of `report --html` in Chromium. Most tests open a page made by hand (page_data.py), whose answers are known."""
import csv
import io
import json
import pathlib
import re
import struct
import subprocess
import zlib

import pytest

import page_data
from browser import Browser, find_chromium

MAX_PAGE_BYTES = 120 * 1024  # script and style together
HOSTILE_TEXT = page_data.HOSTILE


@pytest.fixture(scope="module")
def browser():
    if not find_chromium():
        pytest.fail("Chromium is not there: run `tools/setup check`")
    one = Browser()
    yield one
    one.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Pages by name, each made once: {name: (path, data)}."""
    folder = tmp_path_factory.mktemp("pages")
    made = {}

    def get(name="usual", **arguments):
        if name not in made:
            data = page_data.make(**arguments)
            path = folder / f"{name}.html"
            path.write_text(page_data.page(data, cards=page_data.CARDS), encoding="utf-8")
            made[name] = path, data
        return made[name]

    return get


@pytest.fixture
def usual(browser, files):
    """The page of a recording with something of everything, just opened; afterwards nothing may have been complained of."""
    path, data = files()
    browser.open(path)
    yield data
    assert browser.complaints == [] and browser.dialogs == []


def panel_of(data, name):
    return next(panel for panel in data["panels"] if panel["id"] == name)


def text(browser, selector):
    return browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")


def texts(browser, selector):
    return browser.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(node => node.textContent)")


def hash_of(browser):
    return dict(pair.split("=") for pair in browser.evaluate("location.hash.slice(1)").split("&") if pair)


def wait_hash(browser):
    browser.evaluate("new Promise(done => setTimeout(done, 200))")  # it is written when the hand rests
    return hash_of(browser)


LEFT, RIGHT = 52, 12  # of a chart's box


def x_of(place, share):
    return place["x"] + LEFT + (place["width"] - LEFT - RIGHT) * share


def pixels(png):
    """(width, height, rows of bytes, bytes a pixel) of a PNG as Chromium writes it."""
    at, packed = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, _, color = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    return width, height, zlib.decompress(packed), {2: 3, 6: 4}[color]


def is_drawn(png):
    """More than a plain ground: its lines do not compress to nothing."""
    width, height, raw, depth = pixels(png)
    assert width >= 400 and height >= 400 and depth in (3, 4)
    return len(zlib.compress(raw)) > 10_000


def colored(browser, selector, variable, share0=0.0, share1=1.0):
    """Pixels of a chart that have nearly the colour of a CSS variable, between two shares of its width."""
    return browser.evaluate("""(() => {
        const canvas = document.querySelector(%s), copy = document.createElement('canvas');
        [copy.width, copy.height] = [canvas.width, canvas.height];
        const c = copy.getContext('2d', { willReadFrequently: true });
        c.drawImage(canvas, 0, 0);
        const hex = getComputedStyle(document.documentElement).getPropertyValue(%s).trim();
        const wanted = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
        const ratio = canvas.width / canvas.clientWidth, width = canvas.width - %d * ratio;
        const x = Math.round(%d * ratio + width * %f), w = Math.max(1, Math.round(width * %f));
        const { data } = c.getImageData(x, 0, w, canvas.height);
        let n = 0;
        for (let i = 0; i < data.length; i += 4)
            if (data[i + 3] > 200 && wanted.every((v, k) => Math.abs(v - data[i + k]) < 24)) n++;
        return n;
    })()""" % (json.dumps(selector), json.dumps(variable), LEFT + RIGHT, LEFT, share0, share1 - share0))


def test_opens_without_a_word(browser, files):
    """No error, no violation of the policy, no request but for itself; all sections; soon."""
    path, _ = files()
    browser.open(path)
    assert browser.complaints == [] and browser.dialogs == []
    assert browser.requests == [path.as_uri()]
    found = texts(browser, "main h2")
    for title in ("What limited the run", "Engine", "Requests", "Target", "Spans and marks", "GPUs", "Container", "Host", "Pressure", "Disk and network",
                  "Energy", "Counters of the program", "What was absent, and why", "The recording"):
        assert title in found
    assert browser.evaluate("document.querySelectorAll('figure canvas').length") >= 18


def test_an_hour_opens_soon(browser, files):
    """60 charts and ten GPUs of 720 steps. Times are said, not judged: the machine is shared."""
    path, data = files("hour", n=720, step_ms=5000, gpus=10, cores=64, downsampled=True, extra_panels=40, n_spans=600, n_requests=2000)
    browser.open(path)
    took = browser.evaluate("performance.timing.loadEventEnd - performance.timing.navigationStart")
    print(f"\nan hour, {path.stat().st_size / 1e6:.1f} MB: loaded in {took} ms")
    assert took < 10_000
    assert browser.complaints == []
    drawn = browser.evaluate("[...document.querySelectorAll('figure canvas')].filter(canvas => canvas.width !== 300 || canvas.height !== 150).length")
    everything = browser.evaluate("document.querySelectorAll('figure canvas').length")
    assert 0 < drawn < everything / 2, "only what is near the window is drawn"
    assert "720 steps of 5 s" in text(browser, ".sampled")
    # ten GPUs: a small chart each, one scale
    cards = browser.evaluate("[...document.querySelectorAll('.multiples')].map(card => card.querySelectorAll('canvas').length)")
    assert cards == [10, 10, 10]
    browser.place(".multiples")
    browser.frames()
    assert len(set(texts(browser, ".multiples .unit"))) <= 3
    assert data["is_downsampled"]


def test_the_sources_keep_the_law(browser):
    """Small, and no way for data to become markup or code."""
    js, css = page_data.script(), page_data.style()
    assert len(js.encode()) + len(css.encode()) <= MAX_PAGE_BYTES
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "fetch(", "XMLHttpRequest", "import(", "localStorage"):
        assert word not in js, word
    assert "://" not in js and "http" not in css and "@import" not in css and "url(" not in css


def test_hostile_strings_stay_text(browser, usual):
    browser.frames()
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.querySelectorAll('script').length") == 2
    assert HOSTILE_TEXT in texts(browser, ".process-name")[2] + texts(browser, ".process-name")[1]
    assert any(HOSTILE_TEXT in cell for cell in texts(browser, "#marks-table th"))
    assert any(HOSTILE_TEXT in cell for cell in texts(browser, "#absent td"))
    assert usual["report"]["command"].strip() in text(browser, "#run code")


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


def saved(browser, selector, label):
    """Text that a button gives as a file."""
    return browser.evaluate("""(async () => {
        let blob = null; const old = URL.createObjectURL;
        URL.createObjectURL = (one) => { blob = one; return 'about:blank'; };
        const old_click = HTMLAnchorElement.prototype.click; let name = null;
        HTMLAnchorElement.prototype.click = function () { name = this.download; };
        [...document.querySelectorAll(%s + ' button')].find(b => b.textContent === %s).click();
        URL.createObjectURL = old; HTMLAnchorElement.prototype.click = old_click;
        return [name, await blob.text()];
    })()""" % (json.dumps(selector), json.dumps(label)))


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
    browser.evaluate("document.querySelector('#spans-chart canvas').focus()")
    browser.key("ArrowDown")
    assert "prefill" in text(browser, "#spans-chart .detail strong")
    browser.key("Escape")
    browser.key("0")
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
    assert texts(browser, ".percentile .reading")[3] == "– over 500 ms"
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


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures(browser, files, tmp_path, width, scheme):
    """Both schemes, both widths: drawn, and nothing reaches beyond the window."""
    path, _ = files()
    browser.open(path, width, 900, scheme, mobile=width < 500)
    assert is_drawn(browser.picture(tmp_path / "page.png", whole=True))
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    beyond = browser.evaluate("""[...document.querySelectorAll('#page *, header *, nav *, #summary *')].filter(node => !node.closest('.scroll, .hidden, .tag, .skip')
        && node.getBoundingClientRect().right > innerWidth + 1 && node.getBoundingClientRect().width).map(node => node.outerHTML.slice(0, 120))""")
    assert beyond == []
    assert browser.complaints == []


def test_paper(browser, files, tmp_path):
    """All charts are on it, though the window never showed them, in light colours even for who reads in the dark."""
    path, _ = files()
    browser.open(path, scheme="dark")
    pdf = browser.pdf(tmp_path / "page.pdf")
    assert pdf.startswith(b"%PDF")
    assert 4 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 14
    drawn = browser.evaluate("""(() => {
        dispatchEvent(new Event('beforeprint'));
        const ink = [...document.querySelectorAll('figure canvas, canvas.spark')].map(canvas => {
            const copy = document.createElement('canvas');
            [copy.width, copy.height] = [canvas.width, canvas.height];
            const c = copy.getContext('2d', { willReadFrequently: true });
            c.drawImage(canvas, 0, 0);
            return c.getImageData(0, 0, copy.width, copy.height).data.some(v => v > 0);
        });
        const ground = getComputedStyle(document.documentElement).getPropertyValue('--ground').trim();
        dispatchEvent(new Event('afterprint'));
        return [ink.length, ink.filter(Boolean).length, ground];
    })()""")
    assert drawn[0] == drawn[1] >= 25 and drawn[2] == "#f4f6f8"
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 28)"
    assert browser.complaints == []


def luminance(color):
    parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(w * (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4) for w, v in zip((0.2126, 0.7152, 0.0722), parts))


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_told_apart(browser, files, scheme):
    """WCAG AA: 4.5 for text, 3 for lines, to the grounds that they stand on."""
    path, _ = files()
    browser.open(path, scheme=scheme)

    def color(name):
        return browser.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")

    for ground in ("card", "ground"):
        for name in ("text", "soft", "accent", "limit", "mark", "bad", "warn", "good"):
            assert contrast(color(name), color(ground)) >= 4.5, (scheme, name, ground, contrast(color(name), color(ground)))
    for i in range(8):
        assert contrast(color(f"c{i}"), color("card")) >= 3, (scheme, i)
    for name in ("text", "soft"):
        assert contrast(color(name), color("accent-soft")) >= 4.5, (scheme, name)


def test_theme_button(browser, usual):
    browser.evaluate("[...document.querySelectorAll('header.top button')].find(b => b.textContent === 'Dark').click()")
    assert hash_of(browser) == {"theme": "dark"}
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 28)"


def test_structure_for_screen_readers(browser, usual):
    """One h1, no level is left out, each control has a name, ids are unique, tables behind all charts."""
    levels = browser.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map(node => Number(node.tagName[1]))")
    assert levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:])), levels
    nameless = browser.evaluate("""[...document.querySelectorAll('button, canvas, nav, [role=region]')].filter(node =>
        !(node.getAttribute('aria-label') || node.textContent.trim() || (node.getAttribute('aria-labelledby')))).map(node => node.outerHTML.slice(0, 100))""")
    assert nameless == []
    ids = browser.evaluate("[...document.querySelectorAll('[id]')].map(node => node.id)")
    assert len(ids) == len(set(ids))
    assert browser.evaluate("[...document.querySelectorAll('figure canvas')].every(canvas => canvas.closest('figure').querySelector('.tools button'))")
    assert browser.evaluate("document.querySelector('#' + document.querySelector('figure canvas').getAttribute('aria-describedby')) !== null")
    small = browser.evaluate("""[...document.querySelectorAll('button')].filter(node => node.getBoundingClientRect().width && (node.getBoundingClientRect().height < 23.5
        || node.getBoundingClientRect().width < 23.5)).map(node => node.outerHTML.slice(0, 100))""")
    assert small == []


@pytest.mark.parametrize("what", ["nothing", "least"])
def test_little_data(browser, tmp_path, what):
    """A recording of nothing, or of one sample, is a page as well."""
    data = page_data.make(n=1, gpus=0, cores=1, n_spans=0, n_requests=0)
    if what == "nothing":
        data.update(n=0, panels=[], cores=None, processes=None, marks=None, gaps=[], lanes=None)
        data["report"] = {"run": None, "command": None, "absent": [], "self": {}, "engines": [], "requests": None, "containers": [],
                          "energy": {"joules": None, "domains": []}, "machine": None}
    path = tmp_path / "little.html"
    path.write_text(page_data.page(data), encoding="utf-8")
    browser.open(path)
    browser.picture(tmp_path / "little.png", whole=True)
    assert browser.complaints == []
    assert text(browser, "#run h3") == "The run"


PROGRAM = r"""
import ctypes, os, subprocess, sys, time
class Span(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("parent", ctypes.c_uint64), ("begin_ns", ctypes.c_uint64), ("name_at", ctypes.c_uint32),
                ("name_size", ctypes.c_uint32), ("tid", ctypes.c_uint32), ("flags", ctypes.c_uint32)]
infp = ctypes.CDLL(sys.argv[1])
infp.infp_span_begin.restype = Span
hostile = sys.argv[2].encode()
child = subprocess.Popen([sys.argv[2], "1.5"], executable="/bin/sleep")
infp.infp_mark(hostile)
for i in range(6):
    outer = infp.infp_span_begin(b"step")
    infp.infp_span_text(ctypes.byref(outer), b"gen_ai.request.model", hostile)
    inner = infp.infp_span_begin(hostile)
    end = time.process_time() + 0.1
    while time.process_time() < end:
        sum(range(1000))
    infp.infp_span_end(ctypes.byref(inner))
    time.sleep(0.05)
    infp.infp_span_end(ctypes.byref(outer))
child.wait()
"""


def test_a_real_recording(browser, infprof, record, run_dir, tmp_path):
    """A program with hostile names in its arguments, spans, attributes and marks, through the real binary: its page opens without a
    word, its spans can be gone through, and what it shows is what the run holds."""
    library = pathlib.Path(infprof).parent / "libinfprof.so"
    if not library.exists():
        pytest.skip(f"{library} is not built")
    name = "</script><img src=x onerror=alert(1)>"
    done = record("-t", "100", command=["python3", "-S", "-c", PROGRAM, str(library), name])
    assert done.returncode == 0, done.stderr
    page = tmp_path / "page.html"
    made = subprocess.run([infprof, "report", "-r", str(run_dir), "--html", "-o", str(page)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60)
    assert made.returncode == 0, made.stderr
    browser.open(page)
    assert browser.complaints == [] and browser.dialogs == [] and browser.requests == [page.as_uri()]
    assert browser.evaluate("document.images.length") == 0
    spans = [row for row in done.run.table("spans") if row["name"] in ("step", name)]
    assert len(spans) == 12
    browser.place("#spans-chart .stage")
    browser.evaluate("document.querySelector('#spans-chart .tools button').click()")
    browser.frames()
    shown = browser.evaluate("[...document.querySelectorAll('#spans-chart tbody tr')].map(row => [...row.children].map(cell => cell.textContent))")
    assert sorted(row[0] for row in shown) == [name] * 6 + ["step"] * 6
    assert all(f"gen_ai.request.model={name}" in row[-1] for row in shown if row[0] == "step")
    assert name in texts(browser, "#marks-table th")
    browser.evaluate("document.querySelector('#spans-chart canvas').focus()")
    browser.key("ArrowRight")
    assert "step" in text(browser, "#spans-chart .detail strong")
    # the table behind a chart agrees with what `report --json` says of the same run
    found = json.loads(subprocess.run([infprof, "report", "-r", str(run_dir), "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    browser.evaluate("document.querySelector('#panel-tree-memory .tools button').click()")
    browser.frames()
    rows = list(csv.reader(io.StringIO(saved(browser, "#panel-tree-memory", "Save as CSV")[1])))
    most = max(float(row[2]) for row in rows[1:] if row[2])
    assert most == pytest.approx(found["metrics"]["tree_rss_bytes"]["max"], rel=0.01)
    assert browser.complaints == []
