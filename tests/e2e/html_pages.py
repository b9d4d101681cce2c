"""Pages in Chromium for tests: fixtures `browser`, `files`, `usual`, and how to ask a page what it shows."""
import json

import pytest

import page_data
from browser import Browser, find_chromium


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
