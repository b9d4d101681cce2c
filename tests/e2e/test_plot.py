"""infprof plot: figures as SVG and PNG, of a real recording."""
import re
import struct
import subprocess
import xml.etree.ElementTree as ET
import zlib

import pytest

from program import query, run

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert(1)</script>&"\' \x1b[31m \u202e \ufffe'


@pytest.fixture(scope="module")
def recorded(infprof, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plot")
    code = "import time\nt = time.time()\nprint('measure_label-warm: %f' % t, flush=True)\nx = []\nwhile time.time() - t < 2: x.append(bytearray(100000)); time.sleep(.01)"
    done = run([infprof, "record", "-o", folder, "-t", "100", "--capture", "--", "python3", "-c", code])
    assert done.returncode == 0, done.stderr
    return folder


def texts(svg):
    return ["".join(e.itertext()) for e in svg.iter(SVG + "text")]


def test_a_mark_before_the_first_sample(infprof, run_dir, tmp_path):
    """At the left edge, unless the range was chosen."""
    code = "import time; print(f'measure_label-early: {time.time() - 1}', flush=True); time.sleep(0.5)"
    assert run([infprof, "record", "-o", run_dir, "-t", "100", "--capture", "--", "python3", "-c", code]).returncode == 0
    for words, n in ([], 1), (["--from", "+0s"], 0):
        assert run([infprof, "plot", "-r", run_dir, "tree_rss_bytes", "-o", tmp_path / "a.svg", *words]).returncode == 0
        assert texts(ET.parse(tmp_path / "a.svg").getroot()).count("early") == n, words


def test_lines(infprof, recorded, tmp_path):
    out = tmp_path / "a.svg"
    done = run([infprof, "plot", "-r", recorded, "tree_rss_bytes", "tree_vms_bytes", "tree_cpu_ns", "-o", out])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    svg = ET.parse(out).getroot()
    words = texts(svg)
    highest = query(infprof, recorded, "SELECT max(tree_rss_bytes) AS v FROM tree")[0]["v"]
    legend = next(w for w in words if w.startswith("tree_rss_bytes: min "))
    assert abs(float(re.search(r"max ([\d.]+) MiB", legend)[1]) / (highest / 2**20) - 1) < 0.01
    assert any(w.startswith("tree_cpu_ns, rate: min ") for w in words)
    n = query(infprof, recorded, "SELECT count(tree_rss_bytes) AS n FROM tree")[0]["n"]
    paths = [p.get("d") for p in svg.iter(SVG + "path") if p.get("d").count("L") + p.get("d").count("M") == n]
    assert len(paths) == 2  # memory of both kinds, a point a sample
    assert words.count("warm") == 2  # the mark, in each panel
    assert "<script" not in out.read_text() and "href" not in out.read_text()


def test_standard_output_and_delta(infprof, recorded):
    raw = ET.fromstring(run([infprof, "plot", "-r", recorded, "tree_cpu_ns", "--raw"]).stdout)
    delta = ET.fromstring(run([infprof, "plot", "-r", recorded, "tree_cpu_ns", "--delta"]).stdout)
    total = query(infprof, recorded, "SELECT max(tree_cpu_ns) AS v FROM tree")[0]["v"] / 1e9
    legend = next(w for w in texts(raw) if w.startswith("tree_cpu_ns: min "))
    value, unit = re.search(r"max ([\d.]+) (ms|s)", legend).groups()
    assert abs(float(value) * {"ms": 1e-3, "s": 1}[unit] / total - 1) < 0.01
    assert any("difference of two samples" in w for w in texts(delta))


def test_histogram(infprof, recorded):
    svg = ET.fromstring(run([infprof, "plot", "-r", recorded, "tree_rss_bytes", "--hist"]).stdout)
    n = query(infprof, recorded, "SELECT count(tree_rss_bytes) AS n FROM tree")[0]["n"]
    assert any(w.startswith(f"tree_rss_bytes: {n} samples, p50 ") for w in texts(svg))
    # Heights of the bars are counts: with some whole number for the lowest all are whole, and together all samples.
    bars = [float(r.get("height")) for r in svg.iter(SVG + "rect")][1:]
    lowest = min(bars)
    assert any(abs(sum(round(k * h / lowest) for h in bars) - n) < 1 and all(abs(k * h / lowest - round(k * h / lowest)) < 0.05 * k for h in bars)
               for k in range(1, n + 1)), bars


def test_hostile_title(infprof, recorded):
    done = run([infprof, "plot", "-r", recorded, "tree_rss_bytes", "--title", HOSTILE])
    assert done.returncode == 0, done.stderr
    svg = ET.fromstring(done.stdout)  # well formed, whatever it was
    assert not list(svg.iter(SVG + "script"))
    assert svg.find(SVG + "title").text.startswith("</text><script>alert(1)</script>&\"' \\x1B[31m")
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout and "\ufffe" not in done.stdout


def chunks(data):
    at = 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        yield kind, data[at + 8:at + 8 + size]
        at += 12 + size


def test_png(infprof, recorded, tmp_path):
    out = tmp_path / "a.PNG"
    done = run([infprof, "plot", "-r", recorded, "tree_rss_bytes", "--size", "600x200", "-o", out])
    if done.returncode and "libcairo.so.2" in done.stderr:
        pytest.skip("no libcairo here")
    assert done.returncode == 0, done.stderr
    data = out.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    parts = list(chunks(data))
    assert struct.unpack(">II", parts[0][1][:8]) == (1200, 2 * (64 + 200))
    pixels = zlib.decompress(b"".join(d for k, d in parts if k == b"IDAT"))
    assert len(set(pixels)) > 20  # something was drawn


def test_many_metrics_in_a_small_figure(infprof, recorded, tmp_path):
    """The smallest panel, a legend of many lines: what is drawn in stays upright and inside, long texts end with an ellipsis."""
    out = tmp_path / "small.svg"
    counts = ["tree_processes", "tree_threads", "tree_minor_faults", "tree_major_faults", "tree_voluntary_switches", "tree_involuntary_switches", "pNumProcesses"]
    done = run([infprof, "plot", "-r", recorded, "--delta", "--size", "300x150", *counts, "tree_swap_bytes", "-o", out])
    assert done.returncode == 0, done.stderr
    svg = ET.parse(out).getroot()
    height = float(svg.get("height"))
    for path in svg.iter(SVG + "path"):
        for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path.get("d")):
            assert 0 <= float(x) <= 300 and 0 <= float(y) <= height
    axis = [(float(e.get("y")), e.text) for e in svg.iter(SVG + "text") if e.get("text-anchor") == "end"]
    numbers = [(y, float(text.replace(",", ""))) for y, text in axis if re.fullmatch(r"-?[\d.,]+", text)]
    assert len(numbers) >= 2 and 0 in [v for _, v in numbers] and numbers == sorted(numbers, key=lambda one: -one[0]) and numbers == sorted(numbers, key=lambda one: one[1])
    assert numbers[0][0] - numbers[-1][0] > 40  # the uppermost number may stand at half of the panel: 500 of 999
    starts = [e for e in svg.iter(SVG + "text") if e.get("text-anchor") == "start"]
    assert sum(e.text.endswith("…") for e in starts) >= 3
    assert [text for _, text in axis].count("0 B") == 1 and "1 B" in [text for _, text in axis]  # no halves of a byte


def test_a_file_that_may_not_be_that_large(infprof, recorded, tmp_path):
    done = subprocess.run(["bash", "-c", 'ulimit -f 1; "$0" plot -r "$1" tree_rss_bytes tree_vms_bytes tree_cpu_ns -o "$2"', infprof, recorded, tmp_path / "x.svg"],
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "File too large" in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


FIVE = ["tree_rss_bytes", "tree_vms_bytes", "tree_cpu_ns", "tree_threads", "tree_processes"]


@pytest.mark.parametrize("arguments, code, words", [
    ([], 2, "name one metric or more"),
    (["tree_rss_byte"], 1, "has no metric 'tree_rss_byte'; did you mean tree_rss_bytes?"),
    (["tree_rss_bytes", "-o", "x.gif"], 2, "a figure is FILE.svg or FILE.png"),
    (["tree_rss_bytes", "-o", "/no/such/x.svg"], 1, "/no/such"),
    (["tree_rss_bytes", "--size", "10x10"], 2, "write it like 1000x320"),
    (["tree_rss_bytes", "--raw", "--delta"], 2, "not both"),
    (["container9_cMemoryUsed"], 1, "has no metric"),
    (["--hist", "--size", "8000x4000", *FIVE, "-o", "x.png"], 1, "a PNG of 16000 x 40128 pixels is too large, 32767 on a side at most"),
    (["tree_rss_bytes", "--from", "nowhere"], 1, "nowhere"),
])
def test_bad(infprof, recorded, arguments, code, words):
    done = run([infprof, "plot", "-r", recorded, *arguments])
    assert done.returncode == code
    assert words in done.stderr and done.stderr.count("\n") == 1
    assert not done.stdout


def test_absent(infprof, recorded):
    absent = query(infprof, recorded, "SELECT column_name AS c, reason AS r FROM sources WHERE state = 'absent' AND table_name = 'pressure' AND column_name <> '*'")
    if not absent:
        pytest.skip("this kernel has every kind of pressure")
    done = run([infprof, "plot", "-r", recorded, absent[0]["c"]])
    assert done.returncode == 1 and absent[0]["r"] in done.stderr
