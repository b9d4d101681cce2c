"""Percentiles of engines against ../shared/truth/latency_truth: by SQL and in the report, over whole runs, windows and new starts."""
import http.server
import json
import math
import subprocess
import sys
import threading
import urllib.request

import pytest

from program import query
from test_engine import get, latency_truth, no_engine_of_the_machine  # noqa: F401  (fixtures)

REQUEST = {"prompt": "x", "stream": False}


class Relay:
    """Stands in front of a server's /metrics and counts the pages; `before(number)` is called ahead of each, from 1."""

    def __init__(self, upstream, before=lambda number: None):
        outer = self
        self.pages = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                if self.path == "/metrics":
                    outer.pages += 1
                    before(outer.pages)
                    body = get(upstream)
                else:
                    body = str(outer.pages).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.listener.server_port}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()


@pytest.fixture
def relay():
    made = []

    def call(*words, **options):
        made.append(Relay(*words, **options))
        return made[-1]

    yield call
    for one in made:
        one.close()


# Waits for the first page, sends COUNT requests at once, waits until two more pages were read, exits.
CLIENT = """
import json, sys, threading, time, urllib.request
def pages(): return int(urllib.request.urlopen(sys.argv[1] + "/pages", timeout=20).read())
def wait(n):
    while pages() < n: time.sleep(0.05)
def send(i):
    body = {"prompt": "x", "stream": False, "model": ["tiny-a", "org/big"][i % 2]}
    urllib.request.urlopen(urllib.request.Request(sys.argv[2] + "/v1/completions", json.dumps(body).encode()), timeout=60).read()
wait(1); time.sleep(0.3)
threads = [threading.Thread(target=send, args=(i,)) for i in range(int(sys.argv[3]))]
[t.start() for t in threads]; [t.join() for t in threads]
wait(pages() + 2); time.sleep(0.3)
"""


def report(infprof, output, *options):
    done = subprocess.run([infprof, "report", "--full", "-r", str(output), *options], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


STEMS = {"ttft_s": "latency_ttft_s", "itl_s": "latency_inter_token_s"}


def check_truth(rows, declared):
    """rows: of one metric, with quantile, low, estimate, high (null: beyond the last edge), n, mean."""
    by_quantile = {row["quantile"]: row for row in rows}
    assert sorted(by_quantile) == [0.5, 0.9, 0.95, 0.99]
    for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        row, truth = by_quantile[q], declared[name]
        high = math.inf if row["high"] is None else row["high"]
        # As Prometheus has it, but where all lie in one bucket no further than the mean allows.
        assert row["estimate"] == pytest.approx(min(max(truth["quantile"], row["low"]), high), abs=1e-6), name
        assert row["low"] <= truth["exact"] <= high, name
        assert row["low"] <= row["estimate"] <= high


# Two lists of times: the usual one, and one with times beyond the last edge of the histogram is not served (2,560 s); instead
# all of it in one bucket.
@pytest.mark.parametrize("options", [(), ("-t", "300", "-i", "30"), ("-m", 2, "-e", 2)], ids=["plain", "one-bucket", "models"])
def test_percentiles_of_a_run(infprof, record, run_dir, latency_truth, relay, options):  # noqa: F811
    """40 requests: whole cycles of 10 and 8. What was served before the recording (-H) does not count."""
    with latency_truth("-H", 400, *options) as port:
        upstream = f"http://127.0.0.1:{port}"
        server = relay(f"{upstream}/metrics")
        before = json.loads(get(f"{upstream}/declared"))
        done = record("-t", 500, "--engine", f"{server.url}/metrics", "--no-snapshots",
                      command=[sys.executable, "-c", CLIENT, server.url, upstream, 40])
        assert done.returncode == 0, done.stderr
        declared = json.loads(get(f"{upstream}/declared"))
    n = {name: declared[name]["count"] - before[name]["count"] for name in STEMS}
    assert n == {"ttft_s": 40, "itl_s": 600}
    rows = query(infprof, run_dir, "SELECT * FROM engine_quantiles")
    shown = json.loads(report(infprof, run_dir, "--json"))["engines"][0]
    for name, metric in STEMS.items():
        mine = [row for row in rows if row["metric"] == metric]
        assert {row["n"] for row in mine} == {n[name]}
        assert all(row["mean"] == pytest.approx((declared[name]["sum"] - before[name]["sum"]) / n[name], rel=1e-5)
                   for row in mine)
        assert {row["url"] for row in mine} == {f"{server.url}/metrics"}
        # The history and the run are the same cycles: so are their percentiles.
        check_truth(mine, declared[name])
        distribution = shown["distributions"][metric]
        assert distribution["n"] == n[name]
        check_truth([{**q, "n": distribution["n"]} for q in distribution["quantiles"]], declared[name])
    assert shown["requests_finished_total"]["total"] == 40
    assert shown["tokens_generation_total"]["total"] == 640
    assert shown["tokens_prompt_total"]["total"] == declared["prompt_tokens"] - before["prompt_tokens"]
    text = report(infprof, run_dir)
    assert "  requests    40 finished" in text and "  server-side " in text and "\n    n 40 " in text

    # Windows side by side add up; the window of the first page has no percentiles: absent, not 0.
    first, last = (query(infprof, run_dir, f"SELECT {f}(t_ns) AS t FROM engine_scrapes WHERE ok")[0]["t"] for f in ("min", "max"))
    assert query(infprof, run_dir, f"SELECT * FROM engine_quantiles_between(NULL, {first + 1})") == []
    halves = [query(infprof, run_dir, "SELECT coalesce(any_value(n), 0) AS n FROM "
                    f"engine_quantiles_between({a}, {b}) WHERE metric = 'latency_ttft_s'")[0]["n"]
              for a, b in (("NULL", (first + last) // 2), ((first + last) // 2, "NULL"))]
    assert sum(halves) == 40
    steps = query(infprof, run_dir, "SELECT t_ns, time, n FROM engine_quantiles_by(1) WHERE metric = 'latency_ttft_s' AND quantile = 0.95")
    assert sum(row["n"] for row in steps) == 40 and all(row["time"] % 1000 == 0 for row in steps)
    assert [row["t_ns"] for row in steps] == sorted({row["t_ns"] for row in steps})
    names = "metric, quantile, low, estimate, high"
    day = query(infprof, run_dir, f"SELECT {names}, n FROM engine_quantiles_by(31536000) ORDER BY ALL")
    assert day == query(infprof, run_dir, f"SELECT {names}, n FROM engine_quantiles ORDER BY ALL")


def test_no_traffic_no_percentiles(infprof, record, run_dir, latency_truth):  # noqa: F811
    with latency_truth("-H", 1000) as port:
        done = record("-t", 500, "--duration", 3, "--engine", f"http://127.0.0.1:{port}/metrics")
        assert done.returncode == 0, done.stderr
    assert query(infprof, run_dir, "SELECT * FROM engine_quantiles") == []
    engine = json.loads(report(infprof, run_dir, "--json"))["engines"][0]
    assert engine["scrapes_ok"] >= 2 and engine["scrapes_failed"] == 0
    ttft = engine["distributions"]["latency_ttft_s"]
    assert ttft["n"] == 0 and ttft["mean"] is None and ttft["quantiles"] == []
    assert engine["requests_finished_total"] == {"total": 0.0, "per_s": 0.0}
    text = report(infprof, run_dir)
    assert "  requests    0 finished" in text and "TTFT" not in text


def test_new_starts_lose_only_what_nobody_saw(infprof, record, run_dir, latency_truth, relay):  # noqa: F811
    """Before each page ten requests are served; before every third one the server starts anew, and those ten are gone."""
    with latency_truth("-t", "2", "-i", "1", "-n", "2", "-R", 3) as port:
        def serve(number):
            for _ in range(10):
                body = json.dumps(REQUEST).encode()
                urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body), timeout=20).read()

        server = relay(f"http://127.0.0.1:{port}/metrics", before=serve)
        done = record("-t", 500, "--duration", 9, "--engine", f"{server.url}/metrics")
        assert done.returncode == 0, done.stderr
    scrapes = query(infprof, run_dir, "SELECT ok, engine_restarts FROM engine_scrapes ORDER BY t_ns")
    assert len(scrapes) >= 5 and all(row["ok"] for row in scrapes)
    seen = 10 * sum(1 for number in range(2, len(scrapes) + 1) if number % 3)
    engine = json.loads(report(infprof, run_dir, "--json"))["engines"][0]
    assert engine["requests_finished_total"]["total"] == seen
    assert engine["tokens_generation_total"]["total"] == 2 * seen
    assert engine["restarts"] == len(scrapes) // 3 > 0
    assert engine["distributions"]["latency_ttft_s"]["n"] == seen
    assert query(infprof, run_dir, "SELECT sum(n) AS n FROM engine_quantiles_by(2) WHERE metric = 'latency_ttft_s' AND quantile = 0.5") == [{"n": seen}]
    rows = query(infprof, run_dir, "SELECT n, low, high FROM engine_quantiles WHERE metric = 'latency_ttft_s'")
    # All lie in one bucket, of 1 to 5 ms, and their mean is 2 ms: half of them are below 3 ms, else the mean were larger.
    bounds = [(max(1, (2 - (1 - q) * 5) / q), min(5, (2 - q * 1) / (1 - q))) for q in (0.5, 0.9, 0.95, 0.99)]
    assert rows == [{"n": seen, "low": pytest.approx(low / 1e3), "high": pytest.approx(high / 1e3)} for low, high in bounds]
