"""Flame graphs as SVG: valid XML whose rectangles are those of the tree, readable without script, and safe whatever names hold."""
import random
import re
import subprocess
import xml.etree.ElementTree as ET

import pytest

import flame_tree
from flame_pages import browser, drawn  # noqa: F401
from test_flame_html import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


def read(path):
    """The root; expat refuses what is not well-formed XML."""
    return ET.fromstring(path.read_bytes())


def frames_of(root):
    """[(name, lines of the title, x, width, depth, class, label)]"""
    found = []
    for group in root.find(f"{SVG}g[@class='frames']"):
        title, rect, label = group.find(f"{SVG}title").text.split("\n"), group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        depth = abs(int(re.search(r" (-?\d+)", group.get("transform"))[1])) // 18
        found.append((title[0], title, float(rect.get("x")), float(rect.get("width")), depth, rect.get("class"), None if label is None else label.text))
    return found


def test_rectangles_are_those_of_the_tree(drawn):
    tree = flame_tree.usual()
    totals, whole = tree.totals(), sum(stack[0] for stack in tree.stacks)
    found = frames_of(read(drawn(tree, form="svg")))
    assert len(found) == len(totals)
    path, starts = [], {(): 0.0}
    for name, title, x, width, depth, _, label in found:
        path = (path[:depth] + [name])[:depth + 1]
        key = tuple(path[1:])
        own, total = totals[key]
        assert width == pytest.approx(total / whole * 1180, abs=0.52)
        if key:
            assert x == pytest.approx(starts[key[:-1]], abs=0.02)
            starts[key[:-1]] += total / whole * 1180
        starts[key] = x
        assert f"{total:,} sample" in title[-2] and title[-1].startswith(f"self: {own:,} sample")
        assert label is None or label == name or (label.endswith("…") and name.startswith(label[:-1]) and len(label) * 6.65 < width)
    assert "95 % interval" in found[1][1][-2]


def test_shares_of_kinds_are_what_widths_are(drawn):
    """Many short waits are not what the time went to."""
    tree = flame_tree.Tree(mode="off-cpu")
    tree.function("schedule", kind=flame_tree.KERNEL)
    tree.stack(10, ["schedule"], weight=8.0)
    tree.stack(90, ["main"], weight=2.0)
    said = list(read(drawn(tree, form="svg")).itertext())
    assert "kernel 80.0 %" in said and "native 20.0 %" in said


def test_it_fills_the_width_and_says_what_it_shows(drawn):
    root = read(drawn(flame_tree.usual(), "title=What it did", "subtitle=server --port 1", "note=It was throttled.", form="svg"))
    assert root.get("width") == "100%" and root.get("height") is None and re.fullmatch(r"0 0 1200 \d+", root.get("viewBox")) and root.get("role") == "img"
    said = " ".join(root.itertext())
    for words in ("What it did", "server --port 1", "It was throttled.", "5,008 samples", "0.8 % of stacks are incomplete", "40 of 5,008 samples (0.8 %) are incomplete", "C++ runtime 3.3 %"):
        assert words in said
    assert root.find(f"{SVG}title").get("id") in root.get("aria-labelledby")
    assert "prefers-color-scheme: dark" in root.find(f"{SVG}style").text
    flame = frames_of(read(drawn(flame_tree.usual(), form="svg")))
    below = read(drawn(flame_tree.usual(), "below", "plain", form="svg"))
    assert below.find(f"{SVG}script") is None and root.find(f"{SVG}script") is not None
    assert [(f[0], f[2], f[4]) for f in frames_of(below)] == [(f[0], f[2], f[4]) for f in flame]
    assert "translate(0 -18)" in ET.tostring(below).decode()


def test_narrow_frames_are_left_out_and_counted(drawn, tmp_path):
    tree = flame_tree.large()
    done = tree.draw(tmp_path / "large.svg", "svg")
    assert done["bytes"] < 1_500_000
    root = read(tmp_path / "large.svg")
    found = frames_of(root)
    left_out = done["nodes"] - len(found)
    assert f"{left_out:,} of {done['nodes']:,} frames are not drawn" in " ".join(root.itertext())
    assert min(frame[3] for frame in found) >= 0.5
    wide = frames_of(read(drawn(tree, "min=1", form="svg")))
    assert min(frame[3] for frame in wide) >= 11.3 and len(wide) < len(found) / 10


@pytest.mark.parametrize("theme", ["kind", "hot", "cold", "rainbow", "mono", "heat"])
def test_themes(drawn, theme):
    text = drawn(flame_tree.usual(), f"theme={theme}", form="svg").read_text()
    used = set(re.findall(r'class="(c\d+)"', text))
    rules = re.findall(r"#flame-[0-9a-f]{8} \.(c\d+)\{fill:(#[0-9a-f]{6})\}", text)
    assert used == {name for name, _ in rules} and len(rules) == 2 * len(used)
    assert len(used) >= (10 if theme == "kind" else 5)


def test_a_difference(drawn):
    tree = flame_tree.Tree(has_base=True)
    for name, now, before in (("grew", 400, 100), ("same", 300, 310), ("shrank", 100, 400), ("gone", 0, 190), ("new", 200, 0)):
        tree.stack(now, ["main", name], before=before)
    root = read(drawn(tree, form="svg"))
    steps = {name: int(kind[1:]) - 5 for name, _, _, _, _, kind, _ in frames_of(root)}
    assert steps == {"all": 0, "main": 0, "grew": 5, "same": 0, "shrank": -5, "new": 5}
    words = " ".join(read(drawn(tree, "base=run a: old --x", "subtitle=run b: new --x", form="svg")).itertext())
    assert "before: 1,000 samples" in words and "; after: 1,000 samples" in words and "before: run a: old --x" in words and "after: run b: new --x" in words
    assert "samples, after compared with before:" in words
    assert "190 samples of the older run were in frames that are gone." in " ".join(root.itertext())


def test_hostile_names_do_no_harm(browser, drawn):
    tree = flame_tree.Tree()
    for i, name in enumerate(HOSTILE):
        tree.function(name, object=name[:200], file=name[:200])
        tree.stack(100 + i, ["main", name, "leaf"])
    path = drawn(tree, "title=" + HOSTILE[0], "subtitle=" + HOSTILE[1] + HOSTILE[6], "note=]]><script>alert(1)</script>", form="svg")
    root = read(path)
    assert len(list(root.iter(f"{SVG}script"))) == 1 and not list(root.iter("img"))
    assert {frame[0] for frame in frames_of(root)} >= {HOSTILE[0], HOSTILE[1], HOSTILE[4], HOSTILE[7]}
    assert not re.search("[\u202a-\u202e\ufffe\uffff]", path.read_text())
    assert path.stat().st_size < 60_000  # ten thousand letters are cut
    browser.open(path)
    assert browser.complaints == [] and browser.dialogs == []


def test_no_samples(drawn):
    assert "No samples were taken here." in " ".join(read(drawn(flame_tree.Tree(), form="svg")).itertext())


def shown(browser):
    return browser.evaluate("[...document.querySelectorAll('.frames > g:not(.off)')].map(g => [g.querySelector('title').textContent.split('\\n')[0], parseFloat(g.querySelector('rect').getAttribute('width')), g.classList.contains('way')])")


def test_it_zooms_and_searches_by_itself(browser, drawn):
    browser.open(drawn(flame_tree.small(), form="svg"))
    assert [one[0] for one in shown(browser)] == ["all", "main", "wait", "work"]
    place = browser.evaluate("(({ x, y, width, height }) => ({ x, y, width, height }))([...document.querySelectorAll('.frames > g')].at(-1).querySelector('rect').getBoundingClientRect())")
    browser.click(place["x"] + 20, place["y"] + 8)
    zoomed = shown(browser)
    assert [(one[0], one[2]) for one in zoomed] == [("all", True), ("main", True), ("work", False)] and zoomed[-1][1] == pytest.approx(1180, abs=1)
    assert browser.evaluate("[...document.querySelectorAll('.frames > g:not(.off) text')].map(t => t.textContent)") == ["all", "main", "work"]
    browser.evaluate("document.querySelector('.act').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))")
    assert [one[0] for one in shown(browser)] == ["all", "main", "wait", "work"]
    browser.evaluate("window.prompt = () => '/^wor/'")
    browser.evaluate("[...document.querySelectorAll('.act')].at(-1).dispatchEvent(new MouseEvent('click'))")
    assert browser.evaluate("document.querySelector('.found').textContent") == "1 frame matches: 70.0 %"
    browser.evaluate("window.prompt = () => 'a'")
    browser.evaluate("[...document.querySelectorAll('.act')].at(-1).dispatchEvent(new MouseEvent('click'))")
    assert browser.evaluate("document.querySelector('.found').textContent") == "2 frames match: 100.0 %"  # main, and wait within it
    assert browser.complaints == []


def test_several_in_one_page_do_not_clash(browser, drawn, tmp_path):
    """As part of a page their scripts know their own picture alone, and their colours stay theirs."""
    parts = [re.sub(r"^<\?xml.*?\?>", "", drawn(flame_tree.small(), f"theme={theme}", form="svg").read_text()) for theme in ("hot", "cold")]
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><meta charset=utf-8>" + "".join(parts))
    browser.open(page)
    ids = browser.evaluate("[...document.querySelectorAll('[id]')].map(n => n.id)")
    assert len(ids) == len(set(ids)) == 6
    fills = browser.evaluate("[...document.querySelectorAll('svg')].map(s => getComputedStyle(s.querySelector('.frames > g:nth-child(2) rect')).fill)")
    assert fills[0] != fills[1]
    browser.evaluate("document.querySelectorAll('svg')[1].querySelector('.frames > g:last-child rect').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
    assert browser.evaluate("[...document.querySelectorAll('svg')].map(s => s.querySelectorAll('g.off').length)") == [0, 1]
    assert browser.complaints == []


def test_as_an_image_it_is_whole(browser, drawn, tmp_path):
    """As <img> no script runs: it must be right without."""
    picture = drawn(flame_tree.small(), form="svg")
    page = tmp_path / "image.html"
    page.write_text(f'<!doctype html><img src="{picture.as_uri()}" style="width:600px">')
    browser.open(page)
    assert browser.evaluate("(() => { const i = document.images[0]; return [i.naturalWidth > 0, i.width, i.height > 50]; })()") == [True, 600, True]
    assert browser.complaints == []


def test_a_deep_stack_is_scrolled_not_shrunk(browser, drawn):
    tree = flame_tree.Tree()
    tree.stack(10, [f"f{i}" for i in range(1023)])
    browser.open(drawn(tree, form="svg"))
    assert browser.evaluate("document.documentElement.getBoundingClientRect().height") > 18000
    assert browser.evaluate("document.querySelector('.frames rect').getBoundingClientRect().width") > 1000


def test_names_that_are_no_text_stay_within_theirs(tmp_path):
    """Bytes that are no UTF-8, cut characters, surrogates: whatever a file calls its functions, both pictures stay whole."""
    rng = random.Random(3)
    bytes_of = [0xc2, 0xe2, 0x80, 0xaa, 0xff, 0xf0, 0x9f, 0x41, 0xed, 0xa0, 0xef, 0xbf, 0xbe, 0x26, 0x3c]
    for width in (1, 300, 1200, 99999):
        lines = [b"M\tcpu\tseconds\t0\t1\t0\t0\t0\t0"]
        for _ in range(5):
            name = bytes(rng.choice(bytes_of) for _ in range(rng.randrange(1, 60)))
            lines.append(b"\t".join([b"F", b"0", b"0", b"0", name, name, name]))
        text = b"\n".join([*lines, b"S\t5\t0.5\t-1\t0\t0\t1\t2", b"S\t5\t0.5\t-1\t0\t0\t3\t4"]) + b"\n"
        for form in ("svg", "html"):
            done = subprocess.run([flame_tree.tool(), form, f"width={width}"], input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True)
            assert done.stdout.decode().rstrip().endswith(f"</{form}>")
            if form == "svg":
                assert len(frames_of(ET.fromstring(done.stdout))) == 6
