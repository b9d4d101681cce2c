"""Flame graphs in Chromium for tests: fixtures that draw trees with known answers, and what a page shows of them."""
import json

import pytest

import flame_tree
from html_pages import browser, hash_of, text, texts  # noqa: F401


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """drawn(tree, *options, form="html"): the path of the picture."""
    folder = tmp_path_factory.mktemp("flames")
    count = 0

    def draw(tree, *options, form="html"):
        nonlocal count
        count += 1
        path = folder / f"{count}.{form}"
        tree.draw(path, form, *options)
        return path

    return draw


@pytest.fixture(scope="module")
def usual(drawn):
    return drawn(flame_tree.usual(), "subtitle=llama-server -m model.gguf (pid 4242), 99 Hz")


def press(browser, *keys, modifiers=0):
    for key in keys:
        browser.key(key, modifiers)


def details(browser):
    """{label: text} of the frame in focus, and its name."""
    return browser.evaluate("""(() => {
        const found = { name: document.querySelector('.detail-name b')?.textContent };
        for (const span of document.querySelectorAll('.detail-facts span')) {
            const label = span.querySelector('i').textContent;
            found[label.trim()] = span.textContent.slice(label.length);
        }
        return found;
    })()""")


def focus_graph(browser):
    browser.evaluate("document.getElementById('graph').focus()")
    browser.frames()


def rows(browser):
    """Of the table: {function: (self %, self samples, total %, total samples)}."""
    return {row[0]: tuple(row[1:]) for row in browser.evaluate("""[...document.querySelectorAll('#table tbody tr')].map((row) => [row.querySelector('.link').textContent,
        ...['self', 'total'].flatMap((c) => [row.querySelector(`.${c} b`).textContent, row.querySelector(`.${c} .samples`).textContent])])""")}


def row_height(browser):
    return browser.evaluate("(() => { const f = document.querySelector('.filler'); return f.clientHeight; })()")


def click_frame(browser, depth, share, rows_in_all, count=1):
    """A click into the graph: row `depth` from the top, at a share of the width."""
    place = browser.place("#graph")
    height = row_height(browser) / rows_in_all
    browser.click(place["x"] + 1 + (place["width"] - 2) * share, place["y"] + 1 + height * (depth + 0.5), count)


PIXELS = """((x, y, width, height) => { const canvas = document.querySelector('#graph canvas'), copy = document.createElement('canvas');
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const c = copy.getContext('2d', { willReadFrequently: true });
    c.drawImage(canvas, 0, 0);
    return c.getImageData(Math.round(x * canvas.width), y, width || canvas.width, height || canvas.height).data; })"""


def pixel(browser, share, y):
    """[red, green, blue, opacity] at a share of the graph's width."""
    return browser.evaluate(f"[...{PIXELS}({share}, {y}, 1, 1)]")


def choose(browser, label, value):
    """A choice among the options."""
    browser.evaluate("""(() => {
        const label = [...document.querySelectorAll('.options label')].find((one) => one.textContent.startsWith(%s)), field = label.querySelector('select, input');
        if (field.type === 'checkbox') field.checked = %s; else field.value = %s;
        field.dispatchEvent(new Event('change', { bubbles: true }));
    })()""" % (json.dumps(label), json.dumps(bool(value)), json.dumps(value)))
    browser.frames()


def search(browser, query):
    browser.evaluate("(() => { const f = document.getElementById('search'); f.focus(); f.value = %s; f.dispatchEvent(new Event('input', { bubbles: true })); return new Promise(done => setTimeout(done, 120)); })()" % json.dumps(query))
    browser.frames()
    return text(browser, ".status")
