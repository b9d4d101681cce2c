"""The page of a flame graph in Chromium: its numbers are those of the tree, and hands, keys and the address do what they should."""
import base64
import collections
import json
import re
import subprocess
import zlib

import pytest

import flame_tree
from flame_pages import (PIXELS, browser, choose, click_frame, details, drawn, focus_graph, hash_of, pixel, press, rows, search, text, texts,  # noqa: F401
                         usual)

SHIFT = 8


@pytest.fixture
def page(browser, usual):
    """The usual page, just opened; afterwards it may have complained of nothing and asked for nothing."""
    browser.open(usual)
    yield browser
    assert browser.complaints == [] and browser.dialogs == []
    assert [url for url in browser.requests if not url.startswith(("file:", "blob:", "about:"))] == []


def wait_hash(browser):
    browser.evaluate("new Promise(done => setTimeout(done, 200))")
    return hash_of(browser)


def unpack(page):
    """The packed tree, read here by another reader: (functions, nodes by path: samples of their own)."""
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', page, re.S)[1])
    data = zlib.decompress(base64.b64decode(re.search(r'id="packed">(.*?)</script>', page)[1]), wbits=-15)
    at = 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def column(n):
        return [number() for _ in range(n)]

    n = number()
    shared, more = column(n), column(n)
    strings, before = [None], b""
    for i in range(n):
        before = before[:shared[i]] + data[at:at + more[i]]
        at += more[i]
        strings.append(before)
    functions = list(zip(*[column(facts["functions"]) for _ in range(7)]))
    names = [strings[f[0]].decode() for f in functions]
    ups, of = [0] + column(facts["nodes"] - 1), [0] + column(facts["nodes"] - 1)
    own = column(facts["nodes"])
    paths = [()]
    parents = [0]
    for i in range(1, facts["nodes"]):
        parent = i - 1
        for _ in range(ups[i]):
            parent = parents[parent]
        parents.append(parent)
        paths.append(paths[parent] + (names[of[i]],))
    moments = None
    if facts["buckets"]:
        counts = column(facts["buckets"])
        nodes = [column(count) for count in counts]
        moments = [sum(column(count)) for count in counts]
        assert [len(one) for one in nodes] == counts
    assert at == len(data)
    return facts, functions, strings, dict(zip(paths, own)), moments


def test_what_is_packed_is_the_tree(usual):
    tree = flame_tree.usual()
    facts, functions, strings, own, moments = unpack(usual.read_text())
    assert own == {path: samples for path, (samples, _) in tree.totals().items()}
    assert facts["samples"] == sum(stack[0] for stack in tree.stacks)
    assert moments == [sum(stack[0] for stack in tree.stacks if stack[2] == bucket) for bucket in range(60)]
    found = {strings[name].decode(): (kind & 15, (strings[obj] or b"").decode(), (strings[file] or b"").decode(), line, kind >> 4) for name, obj, file, line, kind, _, _ in functions}
    assert found == {name: (kind, obj, file, line, flags) for name, (_, kind, obj, file, line, flags) in tree.functions.items()}


def test_a_hundred_thousand_frames_are_small(drawn, tmp_path):
    tree = flame_tree.large()
    done = tree.draw(tmp_path / "large.html")
    assert done["nodes"] > 85_000 and done["bytes"] < 460_000
    _, _, _, own, _ = unpack((tmp_path / "large.html").read_text())
    assert own == {path: samples for path, (samples, _) in tree.totals().items()}


def test_the_table_has_the_numbers_of_the_tree(page):
    tree = flame_tree.usual()
    all_samples = sum(stack[0] for stack in tree.stacks)
    names = list(tree.functions)
    own, total = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for samples, _, _, _, path in tree.stacks:
        own[names[path[-1]]] += samples
        for i in set(path):
            total[names[i]] += samples
    page.evaluate("[...document.querySelectorAll('.segments button')].find(b => b.textContent === 'Table').click()")
    page.frames()
    shown = rows(page)
    assert {name: (int(s.replace(",", "")), int(t.replace(",", ""))) for name, (_, s, _, t) in shown.items()} == {name: (own[name], total[name]) for name in names if total[name] and name != "[truncated]"}
    assert float(shown["main"][2].rstrip(" %")) == pytest.approx(100 * total["main"] / all_samples, abs=0.051)
    # Wilson's interval of main, by hand.
    n, p, z = all_samples, total["main"] / all_samples, 1.959963984540054
    half = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    low, high = ((p + z * z / (2 * n) - half) / (1 + z * z / n), (p + z * z / (2 * n) + half) / (1 + z * z / n))
    assert page.evaluate("[...document.querySelectorAll('#table tbody tr')].find(r => r.querySelector('.link').textContent === 'main').querySelector('.total .range').textContent") == f"{low * 100:.1f}–{high * 100:.1f} %"
    assert hash_of(page)["v"] == "table"
    page.evaluate("[...document.querySelectorAll('thead button')].find(b => b.textContent === 'Function').click()")
    page.frames()
    assert texts(page, "#table tbody .link")[:2] == ["0x7f21aa00", "__vdso_clock_gettime"] and page.evaluate("document.querySelector('th.name').ariaSort") == "ascending"


def test_frames_are_drawn_as_wide_as_they_have_samples(browser, drawn):
    path = drawn(flame_tree.small())
    browser.open(path)
    place = browser.place("#graph")
    for x_share, name in ((0.1, "wait"), (0.24, "wait"), (0.26, "work"), (0.94, "work")):
        browser.mouse("mouseMoved", place["x"] + 1 + (place["width"] - 2) * x_share, place["y"] + 24 * 2.5)
        browser.frames()
        assert text(browser, ".tip-name") == name
    # Colours of pixels: what main has of itself is bare.
    assert pixel(browser, 0.97, 60)[3] == 0 and pixel(browser, 0.9, 60)[3] == 255
    assert browser.complaints == []


def test_tooltips_say_what_a_frame_has(browser, drawn):
    browser.open(drawn(flame_tree.small()))
    place = browser.place("#graph")
    browser.mouse("mouseMoved", place["x"] + place["width"] * 0.5, place["y"] + 24 * 2.5)
    browser.frames()
    assert texts(browser, ".tip dd") == ["700 samples, 7 s", "70 % (95 % interval 67.1–72.8 %)", "700 samples, 7 s, 70 %"]
    assert "/src/work.c:42" in text(browser, ".tip-where") and "native" in text(browser, ".tip-where")


def test_a_click_zooms_and_the_way_back_leads_out(page):
    click_frame(page, 4, 0.3, 15)
    assert details(page)["name"] == "llama_decode"
    zoomed = hash_of(page)
    assert zoomed["z"] and float(zoomed["b"]) - float(zoomed["a"]) == pytest.approx(0.65, abs=0.03)
    click_frame(page, 7, 0.2, 15)
    assert details(page)["name"] == "ggml_vec_dot_q4_K_q8_K" and hash_of(page) != zoomed
    page.evaluate("history.back()")
    page.evaluate("new Promise(done => setTimeout(done, 150))")
    assert hash_of(page) == zoomed
    page.evaluate("history.back()")
    page.evaluate("new Promise(done => setTimeout(done, 150))")
    assert hash_of(page) == {} and page.evaluate("document.querySelector('.right button').hidden")
    page.evaluate("history.forward()")
    page.evaluate("new Promise(done => setTimeout(done, 150))")
    assert hash_of(page) == zoomed
    click_frame(page, 0, 0.5, 15, count=2)
    assert hash_of(page) == {}


def test_the_wheel_zooms_where_the_pointer_is(page):
    place = page.place("#graph")
    page.call("Input.dispatchMouseEvent", type="mouseWheel", x=place["x"] + place["width"] / 2, y=place["y"] + 30, deltaX=0, deltaY=-240, modifiers=2)
    found = wait_hash(page)
    assert float(found["a"]) == pytest.approx(0.316, abs=0.01) and float(found["b"]) == pytest.approx(0.684, abs=0.01)
    page.drag(place["x"] + 300, place["y"] + 60, place["x"] + 500, place["y"] + 60)
    moved = wait_hash(page)
    assert float(moved["a"]) < float(found["a"]) and float(moved["b"]) - float(moved["a"]) == pytest.approx(float(found["b"]) - float(found["a"]), abs=1e-5)


def test_keys_go_from_frame_to_frame(page):
    focus_graph(page)
    names = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"):
        page.key(key)
        names.append(details(page)["name"])
    assert names == ["_start", "main", "server_context::update_slots()", "server_context::update_slots()", "server_context::update_slots()", "main"]
    page.key("Enter")
    assert "z" in hash_of(page)
    page.evaluate("new Promise(done => setTimeout(done, 200))")
    assert text(page, "[role=status][aria-live]").startswith("Zoomed to main: ")
    page.key("Backspace")
    assert details(page)["name"] == "_start"
    press(page, "+", "+")
    assert float(wait_hash(page)["b"]) - float(wait_hash(page)["a"]) < 0.25
    page.key("Escape")
    assert hash_of(page) == {}
    page.key("i")
    assert wait_hash(page) == {"below": "1"}
    page.key("ArrowUp")
    assert details(page)["name"] == "_start"
    page.key("?")
    assert page.evaluate("document.querySelector('dialog').open") and "Backspace" in text(page, "dialog")
    page.evaluate("document.querySelector('dialog button').click()")
    page.key("/")
    assert page.evaluate("document.activeElement.id") == "search"


def test_search_counts_no_sample_twice(page):
    tree = flame_tree.usual()
    all_samples = sum(stack[0] for stack in tree.stacks)
    names = list(tree.functions)

    def share(matches):
        return 100 * sum(s for s, _, _, _, path in tree.stacks if any(matches(names[i], tree.functions[names[i]][2]) for i in path)) / all_samples

    said = search(page, "ggml")
    wanted = share(lambda name, obj: "ggml" in name or "ggml" in obj)
    assert float(re.search(r": ([\d.]+) % of all", said)[1]) == pytest.approx(wanted, abs=0.06) and said.startswith("5 functions, ")
    said = search(page, "/^std::.*_M_dfs$/")
    assert float(re.search(r": ([\d.]+) % of all", said)[1]) == pytest.approx(share(lambda name, obj: name.endswith("_M_dfs")), abs=0.06)
    assert said.startswith("1 function, 9 frames")
    assert search(page, "/(/") == "not a regular expression" and search(page, "no such thing") == "no match"
    search(page, "malloc")
    page.key("Enter")
    first = details(page)["name"]
    page.key("Enter", SHIFT)
    assert first == details(page)["name"] == "malloc"
    assert wait_hash(page)["q"] == "malloc"
    page.key("Escape")
    assert text(page, ".status") == "" and "q" not in wait_hash(page)


def test_matches_are_marked_and_the_rest_is_pale(page):
    search(page, "gomp")
    counted = page.evaluate("""(() => { const data = %s(0, 0); let match = 0;
        for (let i = 0; i < data.length; i += 4) if (Math.abs(data[i] - 163) + Math.abs(data[i + 1] - 20) + Math.abs(data[i + 2] - 143) < 12) match++;
        return match; })()""" % PIXELS)
    tree = flame_tree.usual()
    share = sum(s for s, _, _, _, path in tree.stacks if tree.function("gomp_team_barrier_wait_end") in path) / sum(s for s, *_ in tree.stacks)
    width = page.evaluate("document.querySelector('#graph canvas').width")
    height = page.evaluate("document.querySelector('.filler').clientHeight") / 15
    assert counted == pytest.approx(share * width * height, rel=0.25)  # letters take some


def test_a_sandwich_has_callers_above_and_callees_below(page):
    page.evaluate("[...document.querySelectorAll('.segments button')].find(b => b.textContent === 'Table').click()")
    page.frames()
    page.evaluate("[...document.querySelectorAll('#table .link')].find(b => b.textContent === 'malloc').click()")
    page.frames()
    tree = flame_tree.usual()
    names = list(tree.functions)
    total = sum(s for s, _, _, _, path in tree.stacks if names.index("malloc") in path)
    by_guess = sum(s for s, _, _, _, path in tree.stacks if path[-2:] == [names.index("handle_guess"), names.index("malloc")])
    assert hash_of(page)["v"] == "sandwich"
    focus_graph(page)
    page.key("ArrowUp")
    first = details(page)
    page.key("ArrowLeft" if first["name"].startswith("operator") else "ArrowRight")
    second = details(page)
    assert {first["name"], second["name"]} == {"operator new(unsigned long)", "handle_guess"}
    guess = first if first["name"] == "handle_guess" else second
    assert guess["Total"].startswith(f"{by_guess} sample")
    assert float(guess["Of malloc"].rstrip(" %")) == pytest.approx(100 * by_guess / total, abs=0.06)
    page.key("Enter")
    assert hash_of(page)["v"] == "sandwich"
    page.evaluate("[...document.querySelectorAll('.segments button')].find(b => b.textContent === 'Graph').click()")
    page.frames()
    assert "v" not in hash_of(page)


def test_a_sandwich_of_what_calls_itself_counts_each_sample_once(browser, usual):
    tree = flame_tree.usual()
    name = "std::__detail::_Executor<char const*>::_M_dfs"
    total = sum(s for s, _, _, _, path in tree.stacks if tree.function(name) in path)
    browser.open(usual, fragment=f"#v=sandwich&f={list(sorted(tree.functions, key=lambda n: tree.functions[n][0])).index(name):x}")
    focus_graph(browser)
    browser.key("ArrowDown")
    inner = sum(s for s, _, _, _, path in tree.stacks if path.count(tree.function(name)) > 1)
    assert details(browser)["name"] == name and details(browser)["Total"].startswith(f"{inner} samples")
    browser.key("ArrowUp")
    assert details(browser)["name"] == name and details(browser)["Total"].startswith(f"{total} samples")
    browser.key("ArrowUp")
    assert details(browser)["name"] == "server_context::update_slots()" and details(browser)["Total"].startswith(f"{total} samples")
    assert browser.complaints == []


def test_recursion_can_be_merged(page):
    search(page, "_M_dfs")
    assert ", 9 frames: " in text(page, ".status")
    before = re.search(r": ([\d.]+ %)", text(page, ".status"))[1]
    choose(page, "Recursion", "direct")
    assert text(page, ".status") == f"1 function, 1 frame: {before} of all" and wait_hash(page)["rec"] == "direct"
    choose(page, "Recursion", "all")
    assert text(page, ".status") == f"1 function, 1 frame: {before} of all"
    choose(page, "Leaf first", True)
    focus_graph(page)
    page.key("ArrowDown")
    assert details(page)["name"] == "ggml_vec_dot_q4_K_q8_K"


def test_a_part_of_the_time_is_drawn_alone(page):
    place = page.place("#strip")
    page.drag(place["x"] + 1 + (place["width"] - 2) * 10.1 / 60, place["y"] + 20, place["x"] + 1 + (place["width"] - 2) * 19.9 / 60, place["y"] + 20)
    tree = flame_tree.usual()
    wanted = sum(s for s, _, bucket, _, _ in tree.stacks if 10 <= bucket < 20)
    assert text(page, ".strip-text") == f"10 s to 20 s of 60 s selected, {wanted} samples"
    assert hash_of(page)["t"] == "10-20"
    focus_graph(page)
    page.key("ArrowUp")
    page.evaluate("document.getElementById('graph').blur()")
    focus_graph(page)
    page.key("ArrowDown")
    main = sum(s for s, _, bucket, _, path in tree.stacks if 10 <= bucket < 20 and path[0] == tree.function("_start"))
    assert details(page)["name"] == "_start" and details(page)["Total"].startswith(f"{main:,} samples")
    page.evaluate("document.getElementById('strip').focus()")
    page.key("ArrowRight")
    assert hash_of(page)["t"] == "11-21"
    page.key("ArrowLeft", SHIFT)
    assert hash_of(page)["t"] == "11-20"
    page.key("Escape")
    assert "t" not in hash_of(page)


def test_the_address_brings_a_view_back(browser, usual):
    browser.open(usual, fragment="#theme=hot&scheme=dark&below=1&q=ggml&t=10-20&z=5")
    assert text(browser, ".status").endswith("of the zoomed frame")
    assert browser.evaluate("document.querySelector('.options select').value") == "hot"
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 23, 28)"
    assert browser.evaluate("document.getElementById('search').value") == "ggml"
    # What makes no sense is left out.
    browser.open(usual, fragment="#theme=%00&z=zzzzzzz&a=7&b=-1&t=900-1000&v=sandwich&f=-5&min=x&s=__proto__&q=%E0%A4%A")
    assert browser.complaints == [] and hash_of(browser) is not None
    assert texts(browser, ".segments [aria-pressed=true]") == ["Graph"]


def test_heat(browser, drawn):
    """By the self time of functions, as src/view/flame/palette.c has it for the picture."""
    page = drawn(flame_tree.usual(), "theme=heat")
    browser.open(page)
    assert texts(browser, ".legend li") == ["self time above 10 %", "self time above 5 %", "self time above 2 %", "self time above 1 %", "less"]
    seen = {tuple(pixel(browser, x / 400, y)[:3]) for x in range(0, 400, 3) for y in range(30, 200, 18)}
    assert {(255, 48, 48), (255, 255, 0)} <= seen and browser.complaints == []


def test_narrow_frames_can_be_left_out_and_it_says_so(browser, drawn):
    browser.open(drawn(flame_tree.usual(), "min=5"))
    assert pixel(browser, 0.99, 30)[3] == 255 and pixel(browser, 0.005, 36)[3] == 0  # serve has 13.6 %, what stands first 1 %
    assert "frames below 5 % of what is shown are hidden" in text(browser, ".legend")
    choose(browser, "Hide frames below this share of the view (%)", "0")
    assert pixel(browser, 0.005, 36)[3] == 255 and "hidden" not in text(browser, ".legend") and browser.complaints == []


def test_copies(page):
    focus_graph(page)
    press(page, "ArrowDown", "ArrowDown")
    copied = page.evaluate("""(async () => { let got = null; navigator.clipboard.writeText = async (text) => { got = text; };
        [...document.querySelectorAll('.detail-acts button')].find(b => b.textContent === 'Copy stack').click(); await 0; return got; })()""")
    assert copied == "_start\nmain"


def test_a_difference_is_red_and_blue_where_it_is_certain(browser, drawn):
    tree = flame_tree.Tree(has_base=True)
    for name, now, before in (("grew", 400, 100), ("same", 300, 310), ("shrank", 100, 400), ("gone", 0, 190), ("new", 200, 0)):
        tree.stack(now, ["main", name], before=before)
    browser.open(drawn(tree))
    facts = browser.evaluate("JSON.parse(document.getElementById('facts').textContent)")

    def color_of(name, step):
        found = pixel(browser, {"grew": 0.2, "new": 0.5, "same": 0.75, "shrank": 0.95}[name], 68)
        return "#%02x%02x%02x" % tuple(found[:3]) == facts["light"]["change"][5 + step]

    assert color_of("grew", 5) and color_of("new", 5) and color_of("same", 0) and color_of("shrank", -5)
    choose(browser, "Width by", "before")
    place = browser.place("#graph")
    browser.mouse("mouseMoved", place["x"] + place["width"] * 0.05, place["y"] + 24 * 2.5)
    browser.frames()
    assert text(browser, ".tip-name") == "gone"
    assert texts(browser, ".tip dd")[-2:] == ["190 samples, 19 %", "−190 samples"]
    assert text(browser, ".legend").startswith("Samples, after compared with before:less: −64 % or gone") and browser.complaints == []


HOSTILE = ["</script><img src=x onerror=alert(1)>", "\"'><b>&amp;", "\u202eevil\u202c", "a\x00b\x1b[31m", "\U0001f525 flame \u00e9\u4e2d", "x" * 10_000, "]]><!-- \u2028", "__proto__", "constructor", "%s%n", " " * 3, "\ufffe\uffff"]


def test_hostile_names_do_no_harm(browser, drawn):
    tree = flame_tree.Tree()
    for i, name in enumerate(HOSTILE):
        tree.function(name, object=name[:200], file=name[:200])
        tree.stack(100 + i, ["main", name, "leaf"])
    path = drawn(tree, "title=</title><script>alert(1)</script>", "subtitle=" + HOSTILE[0] + "\u202e", "note=<b>&" + HOSTILE[6])
    browser.open(path)
    assert browser.complaints == [] and browser.dialogs == [] and browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.querySelector('h1').textContent") == "</title><script>alert(1)</script>"
    focus_graph(browser)
    press(browser, "ArrowDown", "ArrowDown")
    for _ in range(len(HOSTILE)):
        browser.key("ArrowLeft")
    place = browser.place("#graph")
    for i in range(len(HOSTILE)):
        browser.mouse("mouseMoved", place["x"] + place["width"] * (i + 0.5) / len(HOSTILE), place["y"] + 24 * 2.5)
        browser.frames()
        assert not re.search("[\x00-\x08\u202a-\u202e]", text(browser, ".tip"))
    browser.evaluate("[...document.querySelectorAll('.segments button')].find(b => b.textContent === 'Table').click()")
    browser.frames()
    assert len(texts(browser, "#table tbody tr")) == len(HOSTILE) + 2
    for query in HOSTILE:
        search(browser, query[:200])
    assert browser.complaints == [] and browser.dialogs == [] and browser.evaluate("document.images.length") == 0


def test_a_deep_stack_scrolls(browser, drawn):
    tree = flame_tree.Tree()
    tree.stack(10, [f"f{i}" for i in range(1023)])
    browser.open(drawn(tree))
    focus_graph(browser)
    browser.evaluate("(() => { const g = document.getElementById('graph'); g.scrollTop = g.scrollHeight; })()")
    browser.frames()
    assert browser.evaluate("document.querySelector('#graph canvas').height") < 1000
    place = browser.place("#graph")
    browser.mouse("mouseMoved", place["x"] + 100, place["y"] + place["height"] - 12)
    browser.frames()
    assert text(browser, ".tip-name") == "f1022" and browser.complaints == []


def test_a_page_without_samples_says_so(browser, drawn):
    browser.open(drawn(flame_tree.Tree()))
    assert "No samples were taken here." in text(browser, "main") and browser.complaints == []
    assert "0 samples" in text(browser, "header")


def test_weights_of_their_own_are_drawn_as_such(browser, drawn):
    tree = flame_tree.Tree(mode="off-cpu")
    tree.stack(10, ["main", "read"], weight=8.0)
    tree.stack(90, ["main", "poll"], weight=2.0)
    browser.open(drawn(tree))
    place = browser.place("#graph")
    browser.mouse("mouseMoved", place["x"] + place["width"] * 0.5, place["y"] + 24 * 2.5)
    browser.frames()
    # The interval is that of 12 of 16: these samples say as much as 15.5 of equal weight.
    assert texts(browser, ".tip dd")[:2] == ["10 samples, 8 s", "80 % (95 % interval 50.5–89.8 %)"]
    assert text(browser, ".tip-name") == "read" and text(browser, "h1") == "Off-CPU flame graph"
    assert texts(browser, ".most button") == ["read 80 %", "poll 20 %"]
    choose(browser, "Width is", "samples")
    browser.mouse("mouseMoved", place["x"] + place["width"] * 0.5 + 1, place["y"] + 24 * 2.5)
    browser.frames()
    assert text(browser, ".tip-name") == "poll"


def test_without_what_unpacks_it_there_is_a_sentence(browser, usual, tmp_path):
    browser.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.DecompressionStream")
    browser.open(usual)
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier="1")
    assert "This browser cannot unpack the picture" in text(browser, "main") and "ggml_vec_dot_q4_K_q8_K" in text(browser, "#plain table")
    damaged = tmp_path / "damaged.html"
    page = usual.read_text()
    start = page.index('id="packed">') + 12
    damaged.write_text(page[:start + 40] + "AAAA" + page[start + 44:])
    browser.open(damaged)
    assert "The data of this page is damaged" in text(browser, "main") or browser.evaluate("document.querySelector('#graph') !== null")
    assert browser.complaints == []


def test_names_roles_and_order_for_those_who_do_not_see(page):
    unnamed = page.evaluate("""[...document.querySelectorAll('button, input, select, [role=application], [role=region], dialog')].filter((node) => !(node.getAttribute('aria-label')
        || node.textContent.trim() || node.closest('label')?.textContent.trim() || node.title)).map((node) => node.outerHTML.slice(0, 80))""")
    assert unnamed == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(n => n.id)")
    assert len(ids) == len(set(ids)) and page.evaluate("document.documentElement.lang") == "en" and page.evaluate("document.querySelectorAll('h1').length") == 1
    assert page.evaluate("document.getElementById(document.getElementById('graph').getAttribute('aria-describedby')) !== null")
    order = []
    for _ in range(16):
        page.key("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.slice(0, 12)"))
    assert "search" in order and "graph" in order and "strip" in order
    # Letters on frames: at least 4.5 to 1, in both schemes and all themes.
    worst = page.evaluate("""(() => {
        const facts = JSON.parse(document.getElementById('facts').textContent);
        const light = (hex) => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16) / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
        const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
        return Math.min(...Object.values(facts.light).flat().map(c => ratio(c, '#171b20')), ...Object.values(facts.dark).flat().map(c => ratio(c, '#12161a')));
    })()""")
    assert worst >= 4.5


@pytest.mark.parametrize("width, scheme", [(400, "light"), (400, "dark"), (1400, "dark")])
def test_it_fits_its_window(browser, usual, width, scheme):
    browser.open(usual, width=width, height=800, scheme=scheme, mobile=width < 500)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.getElementById('graph').clientHeight") >= 150
    browser.evaluate("[...document.querySelectorAll('.segments button')].find(b => b.textContent === 'Table').click()")
    browser.frames()
    assert browser.evaluate("document.documentElement.scrollWidth") <= width and browser.complaints == []


def test_zoom_of_a_hundred_thousand_frames_is_quick(browser, drawn):
    """Processor time of drawing, the least of several: a busy machine only makes it longer."""
    browser.open(drawn(flame_tree.large()))
    focus_graph(browser)
    spent = []
    for key in ("ArrowDown", "Enter", "Escape", "Enter", "Escape", "Enter"):
        spent.append((key, browser.evaluate("""(() => { const begun = performance.now();
            document.getElementById('graph').dispatchEvent(new KeyboardEvent('keydown', { key: %s, bubbles: true })); return performance.now() - begun; })()""" % json.dumps(key))))
        browser.frames()
    assert min(ms for key, ms in spent if key != "ArrowDown") < 60, spent
    print(spent)


def test_fingers(browser, usual):
    """A tap zooms, two fingers pull apart, one scrolls a deep graph (the browser does)."""
    browser.open(usual, width=400, height=800, mobile=True)
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True)
    place = browser.place("#graph")

    def touch(kind, *points):
        browser.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)])

    try:
        y = place["y"] + 50
        touch("touchStart", (100, y), (200, y))
        for step in range(1, 6):
            touch("touchMove", (100 - 10 * step, y), (200 + 10 * step, y))
        touch("touchEnd")
        zoomed = wait_hash(browser)
        assert float(zoomed["b"]) - float(zoomed["a"]) == pytest.approx(0.5, abs=0.02)
        browser.evaluate("document.querySelector('.right button').click()")
        browser.frames()
        touch("touchStart", (place["x"] + 150, place["y"] + 1.5 * browser.evaluate("document.querySelector('.filler').clientHeight") / 15))
        touch("touchEnd")
        browser.frames()
        assert details(browser)["name"] == "_start" and "z" in wait_hash(browser)
    finally:
        browser.call("Emulation.setTouchEmulationEnabled", enabled=False)
    assert browser.complaints == []


def test_sharp_on_fine_screens(browser, usual):
    browser.open(usual)
    browser.call("Emulation.setDeviceMetricsOverride", width=1300, height=900, deviceScaleFactor=2, mobile=False)
    browser.frames(4)
    assert browser.evaluate("(() => { const c = document.querySelector('#graph canvas'); return c.width / c.clientWidth; })()") == 2
    assert pixel(browser, 0.5, 20)[3] == 255
    browser.resize(1400, 900)


def test_it_prints_light_and_without_tools(browser, usual, tmp_path):
    browser.open(usual, scheme="dark")
    assert browser.pdf(tmp_path / "page.pdf")[:5] == b"%PDF-"
    assert browser.evaluate("document.querySelector('.filler').clientHeight") > 0 and browser.complaints == []


def test_a_run_becomes_a_page_with_the_counts_of_sql(browser, infprof, tmp_path):
    """All the way: rows on disk, `infprof flamegraph`, Chromium."""
    run, page = tmp_path / "out", tmp_path / "page.html"
    subprocess.run([flame_tree.tool().with_name("stack_tool"), run], check=True)
    subprocess.run([infprof, "flamegraph", "-r", run, "--mode", "cpu", "-o", page], check=True)
    said = subprocess.run([infprof, "query", "-r", run, "--format", "json", "SELECT function, sum(samples)::INT AS n FROM samples_named WHERE mode = 'cpu' GROUP BY ALL"],
                          check=True, stdout=subprocess.PIPE, text=True).stdout
    sql = {row["function"]: row["n"] for row in json.loads(said)}
    browser.open(page, fragment="#v=table")
    shown = collections.Counter()  # functions of one name may be several: in other objects
    for name, own in browser.evaluate("[...document.querySelectorAll('#table tbody tr')].map(r => [r.querySelector('.link').textContent, Number(r.querySelector('.self .samples').textContent)])"):
        shown[name] += own
    shown = {name: own for name, own in shown.items() if own}
    assert shown == sql and sum(shown.values()) > 5
    assert f"{sum(sql.values())} samples" in text(browser, ".amount") and browser.complaints == []
