"""The page of `report --html` in Chromium: that it opens, keeps its law, and can be seen by everybody. Most tests open a page made by
hand (page_data.py), whose answers are known; test_html_page_use.py is about what can be done with it."""
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
from html_pages import browser, files, hash_of, panel_of, saved, text, texts, usual  # noqa: F401 (fixtures)

MAX_PAGE_BYTES = 120 * 1024  # script and style together
HOSTILE_TEXT = page_data.HOSTILE.replace("\u202e", "\ufffd")  # what would turn the text around


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


def test_the_day_of_the_end_is_told(browser, files):
    """Where a recording ends on another day than it began."""
    path, data = files("day", n=267, step_ms=324000, downsampled=True, n_spans=3, n_requests=5)
    browser.open(path)
    assert re.match(r"\d\d:\d\d – \d{4}-\d\d-\d\d \d\d:\d\d · 24 h", text(browser, "p.range")), text(browser, "p.range")
    browser.open(files()[0])
    assert re.match(r"[\d:]+ – [\d:]+ · ", text(browser, "p.range")), text(browser, "p.range")


def test_hostile_strings_stay_text(browser, usual):
    browser.frames()
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.querySelectorAll('script').length") == 2
    assert HOSTILE_TEXT in texts(browser, ".process-name")[2] + texts(browser, ".process-name")[1]
    assert any(HOSTILE_TEXT in cell for cell in texts(browser, "#marks-table th"))
    assert any(HOSTILE_TEXT in cell for cell in texts(browser, "#absent td"))
    assert f"llama-server -m {HOSTILE_TEXT}" in text(browser, "#run code")


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


def test_means_of_ratios_and_bars_of_percentiles(browser, tmp_path):
    """A mean of means counts each by its number; bars of one card have one scale; a share is no bare number."""
    data = page_data.make(n=4)
    data["panels"] = [page_data.panel("gaps", "engine", "Time between tokens", "s", [
        page_data.series("between tokens", [1, None, 3, 9], weight=[98, 0, 1, 1]), page_data.series("plain", [1, None, 3, 5])])]
    data["report"]["engines"][0]["cache_kv_usage_percent"] = {"mean": 0.00153, "max": 0.5}
    path = tmp_path / "means.html"
    path.write_text(page_data.page(data), encoding="utf-8")
    browser.open(path)
    legend = browser.evaluate("document.querySelector('figure:has(canvas)').textContent")
    assert "between tokens1.1 s" in legend.replace("\xa0", " ") and "plain3 s" in legend.replace("\xa0", " "), legend
    assert "mean 0.153" in browser.evaluate("document.querySelector('#engine').textContent")
    cards = browser.evaluate("""[...document.querySelectorAll('.percentiles')].map(card => [...card.querySelectorAll('.track, .ticks')].map(track => {
        const box = track.getBoundingClientRect(); return [Math.round(box.left), Math.round(box.right)]; }))""")
    assert cards and all(len(set(map(tuple, tracks))) == 1 for tracks in cards), cards


def test_words_for_names_and_for_what_is_empty(browser, tmp_path):
    """Columns read as words; what is zero or has no value is a sentence, not a chart; names stay whole."""
    data = page_data.make(n=4, n_requests=40)
    for id, values in (("net", [0, 0, 0, None]), ("power", [None] * 4)):
        panel_of(data, id)["series"] = [page_data.series("one", values), page_data.series("two", values)]
    names = [f"latency_inter_token_of_a_long_name_{i}_s" for i in range(3)]
    data["panels"] += [page_data.panel(name, "all", name, "s", [page_data.series(name, [1, 2, 3, 4])]) for name in names]
    data["report"]["engines"][0].update(tokens_generation_live_total={"total": 12, "per_s": 3}, make="llamacpp", make_name="llama.cpp",
                                       scrapes_failed=3, scrapes_failed_before_first=2, scrapes_failed_after_last=1)
    data["report"]["containers"][0].update(cpus=None, cpus_allowed=None)
    data["report"]["absent"][0]["reason"] = "this make never gives " + ", ".join(f"column_{i}" for i in range(60))
    for i, request in enumerate(data["requests"]):
        request["load"] = "named" if i % 2 else "1795924211231"
    path = tmp_path / "words.html"
    path.write_text(page_data.page(data), encoding="utf-8")
    browser.open(path)
    assert not browser.evaluate("document.getElementById('panel-net') || document.getElementById('panel-power')")
    assert "Zero throughout: Network" in text(browser, "#io") and "Without a value: Power" in text(browser, "#energy")
    engine = text(browser, "#engine")
    assert "Tokens generated, step by step12 (3/s)" in engine and "tokens generation" not in engine
    assert "2 scrapes failed before the first success" in engine and "1 scrape failed after the last success" in engine
    assert "llama.cpp" in engine and "llamacpp" not in engine and not browser.evaluate("document.querySelector('#engine .notice')")
    data["report"]["engines"][0].update(scrapes_failed=5, scrapes_failed_between=2, last_failure_between="timed out")
    path.write_text(page_data.page(data), encoding="utf-8")
    browser.open(path)
    assert "2 scrapes failed between others that succeeded: timed out" in text(browser, "#engine .notice")
    [cpu] = browser.evaluate("[...document.querySelectorAll('#containers .use')].filter(use => use.textContent.startsWith('CPUs, mean')).map(use => [use.textContent, use.querySelectorAll('.use-track').length])")
    assert cpu == ["CPUs, meannot measured", 0]
    machine = texts(browser, "#run .facts dt")
    assert {"Hostname", "Kernel info", "Processors", "CPU type", "Memory total", "CPU cache L2"} <= set(machine)
    assert texts(browser, "#run .facts dd")[machine.index("Time max error")] == "16 s"
    legend = texts(browser, "#requests .legend .name")
    assert "named" in legend and any(name.startswith("load of ") for name in legend) and "1795924211231" not in legend
    reason = "document.querySelector('#absent details summary')"
    assert browser.evaluate(f"{reason}.textContent") == "more" and "column_59" in text(browser, "#absent")
    browser.evaluate("document.querySelector('#more summary').click()")
    browser.frames()
    shown = browser.evaluate("[...document.querySelectorAll('#more .compact h4')].map(head => [head.textContent, head.scrollWidth <= head.clientWidth + 1])")
    assert [name for name, _ in shown] == names and all(is_whole for _, is_whole in shown), shown
    assert browser.complaints == []


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
