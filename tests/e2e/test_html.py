"""infprof report --html: what is in the page, and that it agrees with the other ways to see a run. How it looks in a browser is
test_html_page.py's business."""
import base64
import hashlib
import html.parser
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from nvml import machine  # noqa: F401 (fixture)
from program import query, run
from waiting import wait_for_rows

HOSTILE = "</script><img src=x onerror=alert(1)><!--"
MOST_BYTES = 2_000_000


class Page(html.parser.HTMLParser):
    """The page as a browser parses it: elements, their attributes, the text of scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.open = [], [], {}, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag in ("script", "style", "title", "h1", "p", "li", "dt", "dd", "b", "span"):
            self.open.append((tag, dict(attrs)))
            self.texts.setdefault(tag, []).append([dict(attrs), ""])

    def handle_endtag(self, tag):
        while self.open and self.open[-1][0] != tag and any(name == tag for name, _ in self.open):
            self.open.pop()
        if self.open and self.open[-1][0] == tag:
            self.open.pop()

    def handle_data(self, data):
        for tag, _ in self.open:
            self.texts[tag][-1][1] += data

    @property
    def data(self):
        return json.loads(next(text for attributes, text in self.texts["script"] if attributes.get("id") == "data"))

    def text(self, tag, **wanted):
        return [text for attributes, text in self.texts.get(tag, []) if all(attributes.get(k.rstrip("_")) == v for k, v in wanted.items())]


def page_of(infprof, output, *words):
    done = run([infprof, "report", "-r", output, "--html", "-o", "-", *words])
    assert done.returncode == 0, done.stderr
    return Page(done.stdout), done.stdout


def series(data, metric):
    return next(one for panel in data["panels"] for one in panel["series"] if one["metric"] == metric)


@pytest.fixture(scope="module")
def recorded(infprof, tmp_path_factory):
    """Two seconds of work in a child, two marks of which one is hostile, in a process with a hostile name."""
    top = tmp_path_factory.mktemp("html")
    runtime = top / "runtime"
    runtime.mkdir(mode=0o700)
    program = top / "<b>&amp;"
    program.write_text("#!/bin/sh\nexec sleep 0.9\n")
    program.chmod(0o755)
    script = (f'"$0" mark warm; python3 -S -c "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: sum(range(1000))"; '
              f'"$0" mark "$1"; "$2"; true')
    done = run([infprof, "record", "-o", top / "out", "-t", "100", "--no-snapshots", "--", "sh", "-c", script, infprof, HOSTILE, program],
               env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)})
    assert done.returncode == 0, done.stderr
    return top / "out"


def test_the_file_beside_the_run(infprof, recorded, tmp_path):
    output = tmp_path / "out"
    shutil.copytree(recorded, output)
    uuid = next(output.glob("*.infprof")).name[:-len(".infprof")]
    done = run([infprof, "report", "-r", output, "--html"])
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout == f"{output}/{uuid}_report.html\n"
    page = Page(pathlib.Path(done.stdout.strip()).read_text())
    assert page.tags[0] == "html" and page.data["report"]["run"] == uuid
    assert not list(output.glob("*.part"))
    elsewhere = run([infprof, "report", "-r", output, "--html", "-o", tmp_path / "page.html"])
    assert elsewhere.stdout == f"{tmp_path}/page.html\n" and (tmp_path / "page.html").stat().st_size < MOST_BYTES


def test_it_reads_without_script(infprof, recorded):
    """The headline and the figures stand there as HTML, as report --json has them."""
    page, _ = page_of(infprof, recorded)
    report = json.loads(run([infprof, "report", "-r", recorded, "--json"]).stdout)
    assert page.text("p", class_="headline") == [report["headline"]]
    # No GPU is said once, not of its memory too.
    no_gpu = {limit["text"] for limit in report["limits"] if limit["resource"] == "GPU" and limit["state"] == "not checked"}
    limits = [limit for limit in report["limits"] if not (limit["resource"] == "GPU memory" and limit["text"] in no_gpu)]
    assert len(page.text("li")) == len(limits) + len(report["findings"])
    for limit, text in zip(limits, page.text("li")):
        words = {"room": "headroom"}.get(limit['state'], limit['state'])
        assert text.startswith(f"{limit['resource']} {words} {limit['text']}")
    for finding, text in zip(report["findings"], page.text("li")[len(limits):]):
        assert text.startswith(f"{finding['severity']} {finding['title']}") and finding["evidence"][0] in text and finding["try"] in text
    assert "CPU of the target" in page.text("dt") and "Peak memory of the target" in page.text("dt")
    used = report["tree_cpu_s"] / report["wall_s"]
    assert any(text.startswith(f"{used:.2f} CPUs") for text in page.text("dd")), page.text("dd")


@pytest.mark.san
def test_it_agrees_with_the_report_and_with_sql(infprof, recorded):
    data = page_of(infprof, recorded)[0].data
    report = json.loads(run([infprof, "report", "-r", recorded, "--json"]).stdout)
    for key, value in report.items():
        if key not in ("self", "functions", "lines"):  # of which the page has the flame graphs
            assert data["report"][key] == value, key
    assert data["report"]["machine"] == json.loads(next(recorded.glob("static_*.json")).read_text())
    # A gauge: each sample is in the bucket of its time.
    memory = series(data, "vMemoryFree")
    assert data["is_downsampled"] is False and data["step_ms"] == 100 and len(memory["v"]) == data["n"]
    samples = query(infprof, recorded, "select t_ns, epoch_ns(time) as time, vMemoryFree as v from mem order by t_ns")
    spread = max(sample["v"] for sample in samples) - min(sample["v"] for sample in samples)
    hits = sum(abs(memory["v"][int((sample["time"] / 1e6 - data["start_ms"]) / 100)] - sample["v"]) <= max(spread / 100, 1) for sample in samples)
    assert hits >= 0.9 * len(samples), (hits, len(samples))
    # A counter: the rates over the buckets add up to its increase.
    cpu = series(data, "tree_cpu_ns")
    assert cpu["is_rate"] and cpu["quality"] == "derived"
    sum_s = sum(v for v in cpu["v"] if v is not None) / 100 * 0.1
    increase = query(infprof, recorded, "select (max(tree_cpu_ns) - min(tree_cpu_ns)) / 1e9 as s from tree")[0]["s"]
    assert sum_s == pytest.approx(increase, rel=0.1), (sum_s, increase)
    assert [mark["tag"] for mark in data["marks"]] == ["warm", HOSTILE]
    marks = query(infprof, recorded, "select epoch_ns(time) as time from marks order by t_ns")
    assert data["marks"][0]["t"] == pytest.approx(marks[0]["time"] / 1e6 - data["start_ms"], abs=2)


@pytest.mark.san
def test_processes_are_a_tree(infprof, recorded):
    data = page_of(infprof, recorded)[0].data
    seen = query(infprof, recorded, "select count(distinct process) as n from processes")[0]["n"]
    assert len(data["processes"]) + data["processes_left_out"] == seen
    for i, process in enumerate(data["processes"]):
        assert process["parent"] is None or process["parent"] < i and data["processes"][process["parent"]]["pid"] == process["ppid"]
        assert len(process["cpu"]) == len(process["rss"]) == data["spark_n"]
    busy = max(data["processes"], key=lambda process: process["cpu_s"])
    assert "process_time" in busy["cmdline"] and 0.4 <= busy["cpu_s"] <= 0.9 and busy["parent"] is not None  # cpu: the target's, by its own clock
    spark_s = sum(v for v in busy["cpu"] if v is not None) / 100 * data["spark_step_ms"] / 1000
    assert spark_s == pytest.approx(busy["cpu_s"], rel=0.35), (spark_s, busy["cpu_s"])
    assert busy["end"] is not None and busy["end"] > busy["start"]


@pytest.mark.san
def test_hostile_texts_are_texts(infprof, recorded):
    """Names, marks and commands that would be markup make no element, no comment and no attribute."""
    page, text = page_of(infprof, recorded, "--labels")
    assert "img" not in page.tags and page.tags.count("script") == 2 and page.tags.count("style") == 1
    assert text.count("</script") == 2 and "<!--" not in text
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "style"]
    assert any(HOSTILE in (process["cmdline"] or "") for process in page.data["processes"])
    assert HOSTILE in page.text("h1")[0]


def test_it_asks_nobody(infprof, recorded):
    """The policy names what the page holds, and nothing in it points elsewhere."""
    page, text = page_of(infprof, recorded)
    policy = next(value for tag, name, value in page.attributes if tag == "meta" and name == "content" and "default-src" in value)
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'" and "unsafe" not in policy
    scripts = [text for attributes, text in page.texts["script"] if "type" not in attributes]
    assert len(scripts) == 1
    for directive, held in (("script-src", scripts), ("style-src", [text for _, text in page.texts["style"]])):
        assert parts[directive].split() == [f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in held]
    assert not [value for _, name, value in page.attributes if name in ("src", "href", "action", "data") and not value.startswith("#")]
    assert not re.search(r"""(?:src|href)\s*=\s*["']?https?:""", text)
    for word in ("fetch(", "XMLHttpRequest", "import(", "eval(", "WebSocket", "innerHTML", "@import", "url("):
        assert word not in scripts[0] and word not in page.texts["style"][0][1], word


def test_a_part_of_a_run(infprof, recorded):
    whole, part = page_of(infprof, recorded)[0].data, page_of(infprof, recorded, "--from", "warm", "--to", HOSTILE)[0].data
    assert part["n"] < whole["n"] and part["report"]["from"] > whole["report"]["from"]
    assert abs(part["start_ms"] + part["n"] * 100 - part["report"]["to"]) <= 200
    assert [mark["tag"] for mark in part["marks"]] == ["warm"]
    skipped = page_of(infprof, recorded, "--skip", "500ms")[0].data
    assert skipped["report"]["from"] == pytest.approx(whole["report"]["from"] + 500, abs=2)
    with_labels = page_of(infprof, recorded, "--labels")[0].data
    assert with_labels["report"]["intervals"] and not whole["report"].get("intervals")
    between = page_of(infprof, recorded, "--labels")[1].split('<section id="labels"')[1].split("</section>")[0]
    assert between.count("<tr>") == 2 and '<th scope="row">warm</th><td>&lt;/script&gt;' in between
    assert '<section id="labels"' not in page_of(infprof, recorded)[1]


def test_where_it_cannot_be_written(infprof, recorded, tmp_path):
    done = run([infprof, "report", "-r", recorded, "--html", "-o", tmp_path / "nowhere" / "page.html"])
    assert done.returncode == 1 and done.stdout == ""
    assert f"cannot write {tmp_path}/nowhere/page.html: No such file or directory" in done.stderr
    done = run([infprof, "report", "-r", recorded, "--html", "-o", tmp_path])
    assert done.returncode == 1 and f"cannot write {tmp_path}: Is a directory" in done.stderr
    output = tmp_path / "out"
    shutil.copytree(recorded, output)
    uuid = next(output.glob("*.infprof")).name[:-len(".infprof")]
    (output / f"{uuid}_report.html").mkdir()
    done = run([infprof, "report", "-r", output, "--html"])
    assert done.returncode == 1 and f"cannot write {output}/{uuid}_report.html: Is a directory; -o FILE writes it elsewhere" in done.stderr
    done = run([infprof, "report", "-r", recorded, "--html", "--json"])
    assert done.returncode == 2 and "one of --json, --csv and --html" in done.stderr


def test_a_full_disk(infprof, recorded, tmp_path):
    """A limit on the size of files stands for a full disk: the error names the file, and no half of it stays."""
    path = tmp_path / "page.html"
    path.write_text("what was there before")
    code = ("import os, resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)); os.execv(sys.argv[1], sys.argv[1:])")
    done = run(["python3", "-S", "-c", code, infprof, "report", "-r", recorded, "--html", "-o", path])
    assert done.returncode == 1 and str(path) in done.stderr and done.stdout == ""
    assert path.read_text() == "what was there before" and [p.name for p in tmp_path.iterdir()] == ["page.html"]
    with open("/dev/full", "w") as full:
        done = subprocess.run([infprof, "report", "-r", str(recorded), "--html", "-o", "-"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "No space left on device" in done.stderr


@pytest.mark.san
def test_broken_tables(infprof, recorded, tmp_path):
    """Whichever table is broken, there is a page of the others, and it says so."""
    for table, metric, panel in (("mem", "tree_cpu_ns", "host-memory"), ("tree", "vMemoryFree", "tree-cpu"), ("processes", "tree_cpu_ns", None),
                                 ("process", "tree_cpu_ns", None), ("ticks", "tree_cpu_ns", None), ("marks", "tree_cpu_ns", None),
                                 ("cpu_core", "tree_cpu_ns", None), ("containers", "tree_cpu_ns", "container-memory")):
        output = tmp_path / table
        shutil.copytree(recorded, output)
        for path in output.glob(f"*.infprof/{table}/*"):
            path.write_bytes(b"no table" * 40)
        page, _ = page_of(infprof, output)
        assert table in [broken["table_name"] for broken in page.data["report"]["broken"]]
        assert any(f"Table {table} cannot be read" in note for note in page.data["notes"]) or table == "cpu_core", table
        assert series(page.data, metric) and panel not in [p["id"] for p in page.data["panels"]]


def test_a_run_of_nothing(infprof, record, run_dir):
    """A command that ends at once: few samples, none of its rates, and still a page."""
    assert record("-t", "1000", "--no-snapshots", command=["true"]).returncode == 0
    page, text = page_of(infprof, run_dir)
    assert 1 <= page.data["n"] <= 3 and page.data["requests"] is None and page.data["spans"] is None
    assert len(text) < MOST_BYTES


def test_a_live_run(infprof, live):
    page, _ = page_of(infprof, live.output)
    assert page.data["report"]["state"] == "recording"
    before = page.data["n"]
    end = time.monotonic() + 20
    while page.data["n"] <= before and time.monotonic() < end:
        time.sleep(0.2)  # sleep: between two looks
        page, _ = page_of(infprof, live.output)
    assert page.data["n"] > before


def test_a_killed_recorder(infprof, run_dir):
    process = subprocess.Popen([infprof, "record", "-o", str(run_dir), "-t", "100", "--no-finish", "--", "sleep", "30"], stderr=subprocess.DEVNULL)
    wait_for_rows(infprof, run_dir, 10, "tree")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    page, text = page_of(infprof, run_dir)
    assert page.data["report"]["cut_short"] and "incomplete" in text


def test_an_hour_is_a_small_page(infprof):
    """An hour at 1 Hz with an engine, containers, a GPU, 60 processes, requests and spans; every value is noise,
    which takes the most digits."""
    program = pathlib.Path(infprof).parent / "tests" / "bench" / "make_rows"
    if not program.exists():
        pytest.skip(f"{program} is not built: this build has no tests")
    # In memory where there is room: the end of a run waits for the disk.
    with tempfile.TemporaryDirectory(prefix="infprof-hour-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as output:
        made = run([program, "page", output, "3600"])
        assert made.returncode == 0, made.stderr
        page, text = page_of(infprof, output)
    data = page.data
    assert 600_000 < len(text.encode()) < MOST_BYTES
    assert data["is_downsampled"] and data["n"] >= 300 and data["n"] * data["step_ms"] >= 3_590_000
    assert {"tree", "host", "engine", "gpu", "container", "energy", "pressure", "io", "net"} <= {panel["group"] for panel in data["panels"]}
    for panel in data["panels"]:
        for one in panel["series"]:
            assert len(one["mean"] if "mean" in one else one["v"]) == data["n"]
            if "mean" in one:
                assert all(low is None or low <= mid * 1.01 + 1e-9 and mid <= high * 1.01 + 1e-9
                           for low, mid, high in zip(one["min"], one["mean"], one["max"])), one["metric"]
    assert len(data["processes"]) >= 40 and data["processes_left_out"] + len(data["processes"]) >= 58
    assert len(data["requests"]["t"]) <= 5000 and 0 <= 4 * 3600 - data["requests_left_out"] - len(data["requests"]["t"]) < 4
    assert len(data["spans"]["t"]) == 2000 and 0 <= 4 * 3600 - 2000 - data["spans_left_out"] < 4  # the end of the run is its last row
    notes = [value for _, name, value in page.attributes if name == "data-note"]
    assert len(notes) == 2 and all(re.match(r"Time has steps of [0-9.]+ m?s\. [0-9,]+ frames with less than [0-9.]+ % of", note) for note in notes)
    assert len(data["marks"]) == 120 and any("not drawn" in note for note in data["notes"])


def test_ten_gpus(infprof, record, machine):  # noqa: F811
    """One chart for all of them a figure: use, memory with its total, power with its limit, temperature, clocks, PCIe."""
    lines = ["* profile h100"] + [line for i in range(10) for line in (f"{i} uuid GPU-{i:032x}", f"{i} utilization.gpu {10 * i}")]
    box = machine(*lines, devices=10)
    done = record("-t", 200, "--no-snapshots", "--duration", "2s", env=box.env)
    assert done.returncode == 0, done.stderr
    page, _ = page_of(infprof, done.run.path)
    panels = {panel["id"]: panel for panel in page.data["panels"] if panel["group"] == "gpu"}
    assert {"gpus-utilization", "gpus-memory", "gpus-power", "gpus-temperature", "gpus-clocks", "gpus-received", "gpus-sent"} <= set(panels)
    use = panels["gpus-utilization"]["series"]
    assert [one["instance"] for one in use] == [f"GPU {i} NVIDIA H100 80GB HBM3" for i in range(10)]
    for i, one in enumerate(use):
        assert {v for v in one["v"] if v is not None} == {10 * i} and one["metric"] == "gUtilizationGpu" and one["table_name"] == "nvidia"
    assert [(limit["name"], limit["value"]) for limit in panels["gpus-memory"]["limits"]] == [("total", 81559 << 20)]
    assert panels["gpus-power"]["limits"][0]["name"] == "limit" and panels["gpus-power"]["unit"] == "W"
    assert {v for one in panels["gpus-power"]["series"] for v in one["v"] if v is not None} == {512.34}
    assert any(text.startswith("GPU 0, NVIDIA H100") for text in page.text("dt"))


def test_one_gpu(infprof, record, machine):  # noqa: F811
    """All of its figures, a chart each."""
    done = record("-t", 200, "--no-snapshots", "--duration", "2s", env=machine("* profile h100", devices=1).env)
    assert done.returncode == 0, done.stderr
    panels = {panel["id"]: panel for panel in page_of(infprof, done.run.path)[0].data["panels"] if panel["group"] == "gpu"}
    assert {"gpu-utilization", "gpu-activity", "gpu-memory", "gpu-power", "gpu-temperature", "gpu-clocks", "gpu-throttling", "gpu-pcie"} <= set(panels)
    assert {one["name"] for one in panels["gpu-clocks"]["series"]} >= {"graphics", "multiprocessors", "memory"}
    assert panels["gpu-memory"]["limits"] == [{"name": "total", "value": 81559 << 20}]


def test_functions(infprof, tmp_path):
    """Tables of functions that read without script, and the command that draws all of it."""
    profile = tmp_path / "a.folded"
    profile.write_text("main;a&b 30\nmain;rest 10\n")
    done = run([infprof, "import", profile, "-o", tmp_path / "out"])
    assert done.returncode == 0, done.stderr
    _, text = page_of(infprof, tmp_path / "out")
    assert '<h2 id="functions-title">Functions</h2>' in text
    rows = re.findall('<th scope="row">a&amp;b</th><td class="number">75.00 %</td><td class="number">75.00 %</td><td class="number">(.*) to (.*) %</td>', text)
    assert len(rows) == 2 and all(float(low) < 75 < float(high) for low, high in rows)
    assert "<code>infprof flamegraph -r " in text


def test_spans_of_a_program(infprof, record, tmp_path):
    """What a C++ program says of itself (examples/serve.cc): marks, spans in lanes, counters and gauges."""
    library = pathlib.Path(infprof).parent / "libinfprof.so"
    if not library.exists():
        pytest.skip(f"{library} is not built")
    top = pathlib.Path(__file__).resolve().parents[2]
    program = tmp_path / "serve"
    subprocess.run(["g++", "-O1", "-std=c++11", str(top / "examples" / "serve.cc"), "-o", str(program), "-pthread", f"-I{top}/include", str(library),
                    f"-Wl,-rpath,{library.parent}"], check=True)
    done = record("-t", 200, "--no-snapshots", command=[program, "3"])
    assert done.returncode == 0, done.stderr
    page, text = page_of(infprof, done.run.path)
    data = page.data
    times = next(one for one in json.loads(run([infprof, "report", "-r", done.run.path, "--json"]).stdout)["spans"] if one["name"] == "chat toy-1b")
    assert f'<th scope="row">chat toy-1b</th><td class="number">{times["n"]}</td>' in text
    spans = data["spans"]
    assert "chat toy-1b" in spans["names"] and len(data["lanes"]) >= 2 and data["lanes"][0]["name"].startswith("serve (")
    n = query(infprof, done.run.path, "select count(*) as n from spans")[0]["n"]
    assert len(spans["t"]) + data["spans_left_out"] == n
    longest = query(infprof, done.run.path, "select max(duration_ns) / 1e6 as ms from spans")[0]["ms"]
    assert max(d for d in spans["d"] if d is not None) == pytest.approx(longest, abs=0.01)
    # Of two in one place (lane and depth) none begins before the other has ended.
    places = {}
    for t, d, lane, depth in zip(spans["t"], spans["d"], spans["lane"], spans["depth"]):
        assert t >= places.get((lane, depth), -1e9) - 0.002
        places[(lane, depth)] = t + (d if d is not None else 1e9)
    program = {panel["title"]: panel for panel in data["panels"] if panel["group"] == "program"}
    assert {"serve.queue", "serve.tokens"} <= set(program)
    made = query(infprof, done.run.path, "select max(value) - min(value) as v from counters where name = 'serve.tokens'")[0]["v"]
    drawn = sum(v for v in program["serve.tokens"]["series"][0]["v"] if v is not None) * data["step_ms"] / 1000
    assert program["serve.tokens"]["unit"] == "tokens/s" and drawn == pytest.approx(made, rel=0.05)
    assert data["marks"] and data["marks"][0]["source"] == "api" and data["marks"][0]["process"].startswith("serve (")
