"""The report's page: functions and their flame graph in the shown time. The run and its answers: tests/unit/stack_rows.h."""
import json
import subprocess

import pytest

from flame_pages import rows
from html_pages import browser, texts  # noqa: F401
from test_flamegraph import stack_tool


@pytest.fixture(scope="module")
def page(infprof, tmp_path_factory):
    """page(words...): the path of the page of such a run, made once."""
    made = {}

    def make(*words):
        if words not in made:
            folder = tmp_path_factory.mktemp("code")
            subprocess.run([stack_tool(), folder / "out", *words], check=True)
            subprocess.run([infprof, "report", "--html", "-r", folder / "out", "-o", folder / "page.html"], check=True, capture_output=True)
            made[words] = folder / "page.html"
        return made[words]

    return make


OPEN = """new Promise((done) => {
    document.getElementById('functions').scrollIntoView();
    const look = () => document.querySelector('#functions .card:not([hidden]) .plain').hidden ? done() : setTimeout(look, 20);
    look();
})"""
SHOWN = "document.querySelector('#functions .card:not([hidden]) .code-frame').shadowRoot"


def show(browser, path, fragment="", **more):
    browser.open(path, fragment=fragment, **more)
    browser.evaluate(OPEN)
    browser.frames()


def selfs(browser):
    """{function: samples of its own}, of those that have any."""
    rows = browser.evaluate(f"[...{SHOWN}.querySelectorAll('#table tbody tr')].map((row) => [row.querySelector('.link').textContent, row.querySelector('.self .samples').textContent])")
    return {name: int(n) for name, n in rows if n != "0"}


def range_text(browser):
    return texts(browser, "#functions .card:not([hidden]) .code .range")[0]


ALL = {"work": 7, "helper": 3, "[lib.so]": 1, "[lib.so+0x180]": 1, "main": 1}


def test_functions_of_the_shown_time(browser, page):
    show(browser, page())
    assert selfs(browser) == ALL and range_text(browser).startswith("The whole time: 13 samples.")
    # The recording is 6 s; 4 steps are the least that it shows. Samples lie at 1, 2 ... 5 s.
    browser.evaluate("location.hash = '#from=0&to=4000'")
    browser.frames(4)
    assert selfs(browser) == {"work": 6, "helper": 3} and ": 9 samples." in range_text(browser)
    browser.evaluate("location.hash = '#from=2000&to=6000'")
    browser.frames(4)
    assert selfs(browser) == {"work": 7, "[lib.so]": 1, "[lib.so+0x180]": 1, "main": 1} and ": 10 samples." in range_text(browser)
    assert "work 70 %" in browser.evaluate(f"{SHOWN}.querySelector('.most').textContent")
    browser.evaluate("location.hash = ''")
    browser.frames(4)
    assert selfs(browser) == ALL and browser.complaints == []


def test_a_drag_on_the_strip_chooses_the_time(browser, page):
    show(browser, page())
    place = browser.place(".timebar .strip")
    y = place["y"] + place["height"] / 2
    browser.drag(place["x"] + 1, y, place["x"] + place["width"] * 0.62, y)  # of 7 s, which begin half a second before the run
    browser.frames(4)
    assert selfs(browser) == {"work": 6, "helper": 3}
    assert browser.complaints == []


def test_modes_are_shown_one_at_a_time(browser, page):
    show(browser, page())
    assert texts(browser, "#functions .modes button") == ["by CPU time", "by wall-clock time of all threads"]
    browser.evaluate("document.querySelectorAll('#functions .modes button')[1].click()")
    browser.evaluate(OPEN)
    browser.frames()
    assert selfs(browser) == {"main": 1} and len(texts(browser, "#functions .card:not([hidden])")) == 1


def test_waits_count_for_who_waited(browser, page):
    show(browser, page("python"))
    browser.evaluate("document.querySelectorAll('#functions .modes button')[1].click()")
    browser.evaluate(OPEN)
    browser.frames()
    rows = browser.evaluate(f"[...{SHOWN}.querySelectorAll('#table tbody tr')].map((row) => [row.querySelector('.link').textContent, row.querySelector('.self b').textContent])")
    assert dict(rows) == {"matmul": "100 %", "schedule": "0 %", "serve": "0 %", "main": "0 %"}


@pytest.mark.parametrize("mode, expected", [("cpu", {"hook": "4", "matmul": "3", "serve": "2", "main": "1"}), ("off-cpu", {"matmul": "5"})])
def test_a_graph_that_begins_with_leaves_has_the_same_table(browser, infprof, page, tmp_path, mode, expected):
    for words in ([], ["--reverse"]):
        subprocess.run([infprof, "flamegraph", "-r", page("python").parent / "out", "--mode", mode, "-o", tmp_path / "flame.html", *words], check=True)
        browser.open(tmp_path / "flame.html", fragment="#v=table")
        assert {name: row[1] for name, row in rows(browser).items() if row[1] != "0"} == expected, words


def test_frames_have_the_colour_of_their_kind(browser, page):
    for scheme in ("light", "dark"):
        show(browser, page("python"), scheme=scheme)
        facts = json.loads(browser.evaluate("document.getElementById('code-facts-0').textContent"))
        legend = browser.evaluate(f"[...{SHOWN}.querySelectorAll('.legend li')].map((item) => [item.textContent.replace(/ [0-9.]+ %/, ''), item.querySelector('.swatch').style.getPropertyValue('--color')])")
        kinds = facts["classes"]
        assert dict(legend) == {name: facts[scheme]["kind"][kinds.index(name) * facts["constants"]["shades"] + 4] for name in ("native", "Python")}
        found = browser.evaluate(f"""(() => {{
            const canvas = {SHOWN}.querySelector('#graph canvas'), c = canvas.getContext('2d'), width = canvas.width;
            return [1, 2].map((row) => '#' + [...c.getImageData(width / 4, row * (canvas.height > 0 ? {SHOWN}.querySelector('.filler').clientHeight / 5 : 0) + 3, 1, 1).data].slice(0, 3).map((v) => v.toString(16).padStart(2, '0')).join(''));
        }})()""")
        for colour, name in zip(found, ("native", "Python")):
            first = kinds.index(name) * facts["constants"]["shades"]
            assert colour in facts[scheme]["kind"][first:first + facts["constants"]["shades"]], (scheme, name, colour)
    browser.evaluate("document.querySelector('.top-buttons button').click()")
    browser.frames(4)
    assert browser.evaluate(f"getComputedStyle({SHOWN}.host).getPropertyValue('--ground').trim()") == "#f4f6f8"


def test_it_reads_without_script(infprof, page):
    """The tables of each mode stand in the page itself."""
    text = page().read_text()
    plain = text.split('<div class="plain">')[1].split("</div>")[0]
    assert "work" in plain and "95 % of self" in plain and 'class="plain" hidden' not in text


def test_a_large_run_says_what_was_merged(browser, infprof, page):
    """100,000 frames, each as rare as the others: the page has the larger ones, and all samples."""
    path = page("200000", "100000")
    assert path.stat().st_size < 1_200_000
    show(browser, path)
    note = texts(browser, "#functions .code .note")[0]
    assert "frames with less than" in note and "merged into their callers" in note
    assert range_text(browser).startswith("The whole time: 200,000 samples.")
    browser.evaluate("location.hash = '#from=0&to=100000'")
    browser.frames(6)
    n = int(range_text(browser).split(": ")[1].split(" ")[0].replace(",", ""))
    assert 99_000 <= n <= 101_000 and browser.complaints == []
