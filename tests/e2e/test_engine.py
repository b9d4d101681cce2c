"""Engines: what is read from which page, and what hostile servers cannot do. The servers are ../shared/truth/latency_truth, the
reports' own server, and small ones of this file; rows are read without infprof."""
import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from conftest import TOP

SHARED = TOP.parent / "shared"
TRUTH = SHARED / "truth"
REPORTS = SHARED / "fixtures" / "reports"
PAGE = ("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 2\n"
        "# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total 100\n")


@pytest.fixture(autouse=True)
def no_engine_of_the_machine(monkeypatch):
    monkeypatch.delenv("VLLM_METRICS_URL", raising=False)


class Server:
    """One HTTP server in threads of this process: answers[path] = (status, headers, body) or a function of the handler."""

    def __init__(self, address=("127.0.0.1", 0), family=socket.AF_INET, context=None):
        outer = self
        self.answers, self.requests = {}, []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def address_string(self):
                return "client"

            def log_message(self, *_):
                pass

            def do_GET(self):
                outer.requests.append((self.path, dict(self.headers)))
                answer = outer.answers.get(self.path, (404, {}, "no such page\n"))
                if callable(answer):
                    return answer(self)
                status, headers, body = answer
                body = body.encode() if isinstance(body, str) else body
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        class Listener(http.server.ThreadingHTTPServer):
            address_family = family
            daemon_threads = True

            def server_bind(self):
                if family == socket.AF_UNIX:
                    self.socket.bind(self.server_address)
                    self.server_name, self.server_port = "unix", 0
                else:
                    super().server_bind()

            def handle_error(self, *_):
                pass

        self.listener = Listener(address, Handler)
        if context:
            self.listener.socket = context.wrap_socket(self.listener.socket, server_side=True)
        self.port = self.listener.server_port
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def url(self, path="/metrics", host="127.0.0.1", scheme="http"):
        return f"{scheme}://{host}:{self.port}{path}"

    def close(self):
        self.listener.shutdown()
        self.listener.server_close()


@pytest.fixture
def server():
    """server(options...): a Server that is gone after the test, with a page at /metrics."""
    made = []

    def call(*words, **options):
        made.append(Server(*words, **options))
        made[-1].answers["/metrics"] = (200, {"Content-Type": "text/plain"}, PAGE)
        return made[-1]

    yield call
    for one in made:
        one.close()


@pytest.fixture(scope="session")
def latency_truth(tmp_path_factory):
    out = tmp_path_factory.mktemp("latency")
    subprocess.run(["make", "-s", "-C", str(TRUTH), f"OUT={out}", f"{out}/latency_truth"], check=True, timeout=300)

    @contextlib.contextmanager
    def run(*options):
        process = subprocess.Popen([str(out / "latency_truth"), "-p", "0", "-S", "110", *map(str, options)],
                                   stdout=subprocess.PIPE, text=True)
        try:
            yield json.loads(process.stdout.readline())["port"]
        finally:
            process.kill()
            process.wait()

    return run


def get(url):
    import urllib.request
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()


class Engines:
    """The tables of a run about engines, by the engine's URL."""

    def __init__(self, run):
        self.run = run
        self.by_id = {row["id"]: row for row in run.table("engines")}
        self.ids = {row["url"]: id for id, row in self.by_id.items()}
        self.series = {row["id"]: row for row in run.table("series")}
        self.sources = [row for row in run.table("sources") if row["collector"] == "engine"]

    def rows(self, table, url):
        return [row for row in self.run.table(table) if row["engine"] == self.ids[url]]

    def scrapes(self, url):
        return self.rows("engine_scrapes", url)

    def vllm(self, url):
        return self.rows("vllm", url)

    def samples(self, url, name=None):
        """(series, value) in order."""
        return [(self.series[row["series"]], row["value"]) for row in self.run.table("engine_samples")
                if self.series[row["series"]]["engine"] == self.ids[url] and
                (name is None or self.series[row["series"]]["name"] == name)]

    def state(self, instance):
        found = [row for row in self.sources if row["instance"] == instance and row["table_name"] == "*"]
        return found[-1] if found else None


def read(record, *urls, options=(), seconds=3, **arguments):
    words = [word for url in urls for word in ("--engine", url)]
    done = record("-t", "200", "--duration", str(seconds), "--no-finish", *words, *options, **arguments)
    assert done.returncode == 0, done.stderr
    return Engines(done.run)


def test_truth_of_two_models_and_two_engines(record, latency_truth):
    with latency_truth("-H", 1000, "-m", 2, "-e", 2) as port:
        declared = json.loads(get(f"http://127.0.0.1:{port}/declared"))
        url = f"http://127.0.0.1:{port}/metrics"
        engines = read(record, url)
    for row in engines.vllm(url):
        assert row["system_requests_running"] == declared["running"]
        assert row["system_requests_waiting"] == declared["waiting"]
        assert row["cache_kv_usage_percent"] == declared["kv_usage"]
        assert row["tokens_prompt_total"] == declared["prompt_tokens"]
        assert row["tokens_generation_total"] == declared["generation_tokens"]
        assert row["requests_finished_total"] == sum(declared["finished"].values())
        assert row["latency_ttft_s_count"] == declared["ttft_s"]["count"]
        assert row["latency_ttft_s_sum"] == pytest.approx(declared["ttft_s"]["sum"], rel=1e-6)
        assert row["latency_inter_token_s_count"] == declared["itl_s"]["count"]
        assert row["latency_e2e_s_sum"] == pytest.approx(declared["e2e_s"]["sum"], rel=1e-6)
    scrapes = engines.scrapes(url)
    assert 2 <= len(scrapes) <= 5 and all(row["ok"] for row in scrapes)
    # Nothing changed after the first page: each series has one value.
    samples = engines.samples(url)
    assert len(samples) == len({series["id"] for series, _ in samples}) == len(engines.series)
    buckets = [series for series, _ in samples if series["name"] == "vllm:time_to_first_token_seconds_bucket"]
    assert len(buckets) == 4 * 23 and {series["metric"] for series in buckets} == {"latency_ttft_s"}
    assert sum(series["le"] is None for series in buckets) == 4
    assert engines.by_id[engines.ids[url]]["make"] == "vllm"


GOOD = ["", "/openmetrics", "/stamped", "/chunked", "/old"]
BAD = {"/truncated": "bytes are missing", "/error": "HTTP status 500", "/garbage": "", "/huge": "limit of 16777216 bytes"}


def test_hostile_pages_side_by_side(record, latency_truth):
    """A page that hangs, one that drips and one of 16 MB hold nobody else."""
    with latency_truth("-H", 100) as port, latency_truth("-H", 10, "-m", 2, "-e", 2) as large:
        url = {name: f"http://127.0.0.1:{port}/metrics{name}" for name in [*GOOD, *BAD, "/nan", "/mixed", "/hang"]}
        url["/slow"] = f"http://127.0.0.1:{large}/metrics/slow"  # 8 s
        begin = time.monotonic()
        engines = read(record, *url.values(), seconds=6)
        took = time.monotonic() - begin
    plain = [row for row in engines.vllm(url[""])]
    assert len(plain) >= 5
    for name in GOOD:
        for row in engines.vllm(url[name]):
            for column in ("system_requests_running", "tokens_prompt_total", "tokens_generation_total", "latency_ttft_s_sum",
                           "latency_inter_token_s_count", "cache_kv_usage_percent"):
                assert row[column] == plain[0][column] and row[column] is not None, (name, column)
        assert all(row["ok"] for row in engines.scrapes(url[name]))
    assert not any("created" in series["name"] for series in engines.series.values())
    for name, reason in BAD.items():
        scrapes = engines.scrapes(url[name])
        assert scrapes and not any(row["ok"] for row in scrapes)
        assert all(reason in row["reason"] and url[name] in row["reason"] for row in scrapes)
        assert engines.samples(url[name]) == [] and engines.vllm(url[name]) == []
    # A gauge that is no number is absent, the rest of the page is there.
    nan = engines.vllm(url["/nan"])[-1]
    assert nan["system_requests_running"] is None and nan["tokens_prompt_total"] == plain[0]["tokens_prompt_total"]
    mixed = engines.scrapes(url["/mixed"])[-1]
    assert mixed["ok"] and mixed["bad_lines"] >= 4 and "skipped" in mixed["reason"]
    assert engines.vllm(url["/mixed"])[-1]["tokens_prompt_total"] == plain[0]["tokens_prompt_total"]
    for name in ("/hang", "/slow"):
        scrapes = engines.scrapes(url[name])
        assert 1 <= len(scrapes) <= 3 and not any(row["ok"] for row in scrapes)  # asked ever more seldom
        assert engines.state(url[name])["state"] == "late"
    # The others keep their second; the collectors of the shared thread know nothing of it.
    times = sorted(row["t_ns"] for row in engines.scrapes(url[""]))
    assert max(b - a for a, b in zip(times, times[1:])) < 2.5e9
    ticks = engines.run.table("ticks")
    assert len(ticks) >= 24
    assert took < 60


def test_version_is_asked_again_of_a_busy_server(record, server):
    one = server()

    def version(handler):
        if sum(path == "/version" for path, _ in one.requests) == 1:
            time.sleep(3)  # sleep: the fake engine is that slow
        body = b'{"version": "1.2.3"}'
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    one.answers["/version"] = version
    engines = read(record, one.url(), seconds=8)
    assert engines.run.table("engines")[-1]["version"] == "1.2.3"
    assert 2 <= sum(path == "/version" for path, _ in one.requests) <= 3


def test_long_page_is_read_less_often(record, server):
    """What reading costs is bounded by reading seldom; others keep their second, and its values are right."""
    one = server()
    one.answers["/long"] = (200, {}, "".join(f'vllm:alien{{n="{i}"}} {i}\n' for i in range(300000)) + PAGE)
    engines = read(record, one.url("/long"), one.url(), seconds=10)
    rows = engines.vllm(one.url("/long"))
    assert {row["tokens_generation_total"] for row in rows} == {100} and 2 <= len(rows) <= 6
    assert "less often" in engines.scrapes(one.url("/long"))[-1]["reason"]
    assert all(row["ok"] and not row["reason"] for row in engines.scrapes(one.url()))


def test_page_cut_in_the_middle_of_a_number(record, run_dir):
    """Report 14: the pages of its server in turn."""
    root = REPORTS / "14-page-cut-in-the-middle-of-a-number"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(root / "serve.py"), str(port), "good.http", "short.http", "http10.http",
                                "noeof.http", "good.http"], cwd=root)
    url = f"http://127.0.0.1:{port}/metrics"
    try:
        while "0A" not in states_of(port):  # a connection would take one of its answers
            time.sleep(0.05)  # sleep: between two looks
        engines = read(record, url, seconds=6)
    finally:
        process.kill()
        process.wait()
    scrapes = engines.scrapes(url)
    # Side pages (/version ...) of vLLM take answers of this server as well: which page came is seen by what was said of it.
    good = [row for row in scrapes if row["ok"]]
    bad = [row for row in scrapes if not row["ok"]]
    assert good and scrapes[0]["ok"]
    for row in bad:
        assert "bytes are missing" in row["reason"] or "is truncated" in row["reason"]
    for row in engines.vllm(url):
        assert (row["system_requests_running"], row["tokens_prompt_total"], row["tokens_generation_total"]) == (6, 91500, 48213)
    values = {value for series, value in engines.samples(url) if "generation" in series["name"]}
    assert values == {48213}
    assert {row["engine_restarts"] for row in scrapes} == {0}


def states_of(port):
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [words[3] for words in lines if words[1].endswith(f":{port:04X}")]


def test_down_idle_and_missing_pages(infprof, record, server):
    one = server()
    one.answers["/501"] = (501, {}, json.dumps({"error": {"message": "This server does not support metrics endpoint."}}))
    one.answers["/401"] = (401, {}, "{}")
    one.answers["/403"] = (403, {}, json.dumps({"error": {"message": "token sk-hidden12345678901234 has no access to metrics"}}))
    one.answers["/503"] = (503, {}, json.dumps("the model\nis being loaded"))
    one.answers["/418"] = (418, {}, "plain words\n")
    one.answers["/500"] = (500, {}, "<html>what a web server makes up</html>")
    one.answers["/empty"] = (200, {}, "")
    one.answers["/comments"] = (200, {}, "# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n")
    one.answers["/moved"] = (302, {"Location": one.url("/metrics")}, "")
    one.answers["/html"] = (200, {"Content-Type": "text/plain"}, "<html>\n<body>hello</body>\n</html>\n")
    paths = {"/501": ("absent", "--metrics"), "/401": ("denied", "--engine-token"), "/moved": ("broken", None),
             "/html": ("broken", None), "/none": ("absent", "--engine"), "/403": ("denied", "--engine-token"), "/503": ("late", None),
             "/418": ("broken", None), "/500": ("broken", None), "/empty": ("absent", "--engine"), "/comments": ("absent", "--engine")}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{probe.getsockname()[1]}/metrics"
    engines = read(record, one.url(), closed, *[one.url(path) for path in paths], seconds=2)
    for path, (state, fix) in paths.items():
        row = engines.state(one.url(path))
        assert row["state"] == state and row["reason"]
        assert fix is None or fix in row["fix"]
        assert not any(scrape["ok"] for scrape in engines.scrapes(one.url(path)))
    assert "redirect" in engines.state(one.url("/moved"))["reason"]
    # What the server says is in the reason, its secrets are not.
    for path, words in {"/501": "501: This server does not support metrics", "/403": "has no access to metrics", "/418": "plain words",
                        "/503": "503: the model is being loaded", "/empty": "no samples", "/comments": "no samples"}.items():
        assert words in engines.state(one.url(path))["reason"], engines.state(one.url(path))
        assert words in engines.scrapes(one.url(path))[-1]["reason"]
    assert "sk-hidden" not in str(engines.sources) and "html" not in engines.state(one.url("/500"))["reason"]
    assert engines.vllm(one.url("/empty")) == []
    assert engines.state(closed)["state"] == "absent" and "refused" in engines.state(closed)["reason"]
    assert all("refused" in row["reason"] for row in engines.scrapes(closed))
    assert all(row["ok"] for row in engines.scrapes(one.url()))
    assert engines.vllm(one.url())[-1]["system_requests_running"] == 2
    report = subprocess.run([infprof, "report", "--full", "-r", engines.run.path], stdout=subprocess.PIPE, text=True, check=True).stdout
    heading = report[report.index(one.url("/401")):]
    assert re.match(r".*\n  scrapes +all \d+ failed: .*(\n {14}.*)*\n  fix +--engine-token", heading), heading[:500]


def test_a_page_that_ends_without_a_line_feed(record, server):
    """Whole by its Content-Length: its last line counts. Where the connection's end is the page's end, it may be cut."""
    def closes(handler):
        handler.send_response(200)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(PAGE.rstrip("\n").encode())
        handler.close_connection = True

    one = server()
    one.answers["/metrics"] = (200, {}, PAGE.rstrip("\n"))
    one.answers["/closes/metrics"] = closes
    engines = read(record, one.url(), one.url("/closes/metrics"), seconds=2)
    assert engines.vllm(one.url())[-1]["tokens_generation_total"] == 100
    assert "is truncated" in engines.state(one.url("/closes/metrics"))["reason"]


def test_a_path_that_is_named_without_its_page(record, server):
    """--engine URL/llm asks URL/llm/metrics when URL/llm is no page, and the other pages of the server below it."""
    one = server()
    one.answers["/llm/metrics"] = one.answers["/metrics"]
    one.answers["/llm/version"] = (200, {}, '{"version": "0.32.0"}')
    engines = read(record, one.url("/llm"), seconds=2)
    assert engines.vllm(one.url("/llm/metrics"))[-1]["system_requests_running"] == 2
    assert engines.by_id[engines.ids[one.url("/llm/metrics")]]["version"] == "0.32.0"
    assert [path for path, _ in one.requests].count("/llm") == 1


def test_the_port_that_is_attached_to(record, tmp_path):
    """Its page is tried, whatever the command line of its process says (here: Python's own server of files)."""
    (tmp_path / "metrics").write_text(PAGE)
    process = subprocess.Popen([sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1", "0"], cwd=tmp_path,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = re.search(r"port (\d+)", process.stdout.readline())[1]
        done = record("-t", "200", "--duration", "2", "--no-finish", "--port", port)
        assert done.returncode == 0, done.stderr
        assert Engines(done.run).vllm(f"http://localhost:{port}/metrics")[-1]["system_requests_running"] == 2
    finally:
        process.kill()
        process.wait()


def test_who_started_us_is_not_followed(record, server):
    one = server()
    done = record("-t", "200", "--duration", "1", "--port", one.port)
    assert done.returncode == 125 and done.run is None and "belongs to a process that started this infprof" in done.stderr


def test_nothing_is_there(record, run_dir, server):
    """The default page is asked silently: a stranger on port 8000 is no engine."""
    done = record("-t", "200", "--duration", "2", "--no-finish")
    assert done.returncode == 0 and "engine" not in done.stderr
    engines = Engines(done.run)
    if engines.ids:
        pytest.skip("an engine runs on port 8000 of this machine")
    assert {row["state"] for row in engines.sources if row["instance"]} == {"absent"}
    assert done.run.table("engine_scrapes") == [] and done.run.table("vllm") == []
    off = record("-t", "200", "--duration", "1", "--no-finish", "--engine", "off")
    assert off.returncode == 0 and Engines(off.run).sources == []


def test_url_of_the_environment(record, server):
    one = server()
    done = record("-t", "200", "--duration", "2", "--no-finish", env={**os.environ, "VLLM_METRICS_URL": one.url()})
    assert Engines(done.run).vllm(one.url())
    done = record("-t", "200", "--no-finish", command=["true"], env={**os.environ, "VLLM_METRICS_URL": "http://u:pw@:::"})
    assert done.returncode == 0 and "VLLM_METRICS_URL" in done.stderr and "pw@" not in done.stderr


@pytest.mark.parametrize("url", ["", "http://", "ftp://host/x", "host:99999", "http://a b/", "unix://rel:/metrics", "http://h/" + 600 * "a"])
def test_addresses_that_are_none(infprof, run_dir, tmp_path, url):
    """Before anything is started: hours without the engine that was asked for would be worse."""
    good = ["--engine", "http://127.0.0.1:1/metrics"]
    for verb, rest in (("record", ["-o", str(run_dir), "--", "touch", str(tmp_path / "ran")]), ("snapshot", []), ("doctor", [])):
        done = subprocess.run([infprof, verb, *good, "--engine", url, *rest], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == (125 if verb == "record" else 2) and done.stdout == "" and "--engine: " in done.stderr, verb
    assert not run_dir.exists() and not (tmp_path / "ran").exists()


def test_off_takes_back_what_stands_before_it(record, server):
    first, second = server(), server()
    engines = read(record, first.url(), "off", second.url(), seconds=1)
    assert set(engines.ids) == {second.url()} and not first.requests


def test_addresses_and_tokens(record, server, tmp_path):
    token = tmp_path / "token"
    token.write_text("abc-123\n")
    path = str(tmp_path / "engine.sock")
    local = server(path, family=socket.AF_UNIX)
    urls = [f"unix://{path}:/metrics"]
    servers = [local]
    try:
        servers.append(server(("::1", 0), family=socket.AF_INET6))
        urls.append(servers[1].url(host="[::1]"))
    except OSError:
        pass
    engines = read(record, *urls, options=("--token-file", token, "--header", "X-Key: k1", "-H", "X-Other: k2"), seconds=2)
    for url, one in zip(urls, servers):
        assert engines.vllm(url), url
        assert all((headers["Authorization"], headers["X-Key"], headers["X-Other"]) == ("Bearer abc-123", "k1", "k2") for _, headers in one.requests)
    token.unlink()
    engines = read(record, urls[0], options=("--engine-token", token), seconds=1)
    assert str(token) in engines.scrapes(urls[0])[-1]["reason"]


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl")
def test_certificate_that_nobody_trusts(record, server, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-keyout", tmp_path / "key", "-out", tmp_path / "cert"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    one = server(context=context)
    url = one.url(host="localhost", scheme="https")
    engines = read(record, url, seconds=2)
    row = engines.state(url)
    assert row["state"] == "denied" and "certificate" in row["reason"] and "not trusted" in row["reason"]
    assert one.requests == [] and engines.vllm(url) == []


def test_secrets_in_urls_are_not_stored(record, server):
    one = server()
    one.answers["/metrics?token=hunter2hunter2"] = one.answers["/metrics"]
    engines = read(record, one.url("/metrics?token=hunter2hunter2"), seconds=1)
    assert one.requests[0][0].endswith("hunter2hunter2")
    assert list(engines.ids) == [one.url("/metrics?token=***")]
    for path in engines.run.path.rglob("*.arrows"):
        assert b"hunter2" not in path.read_bytes(), path


def test_secrets_tell_engines_apart(record, server):
    """Two tokens at one address lead to two servers: their counters are not one counter that jumps."""
    one = server()
    for token, tokens in (("hunter1hunter1", 100), ("hunter2hunter2", 900)):
        one.answers[f"/metrics?token={token}"] = (200, {}, PAGE.replace("100", str(tokens)))
    engines = read(record, *(one.url(f"/metrics?token=hunter{i}hunter{i}") for i in (1, 2)), seconds=2)
    shown = one.url("/metrics?token=***")
    assert set(engines.ids) == {shown, f"{shown} (2)"}
    for url, tokens in ((shown, 100), (f"{shown} (2)", 900)):
        assert {row["tokens_generation_total"] for row in engines.vllm(url)} == {tokens}
        assert {row["engine_restarts"] for row in engines.scrapes(url)} == {0}


def test_truth_that_starts_anew(record, latency_truth):
    """-R 3: all counters begin at 0 before every third scrape; totals go on, nothing runs backwards."""
    import urllib.request
    with latency_truth("-R", 3, "-t", 5, "-i", 1, "-n", 8) as port:
        url = f"http://127.0.0.1:{port}/metrics"
        is_over = threading.Event()

        def traffic():
            while not is_over.wait(0.05):
                request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", b'{"prompt":"a"}')
                with urllib.request.urlopen(request, timeout=20) as answer:
                    answer.read()

        thread = threading.Thread(target=traffic)
        thread.start()
        engines = read(record, url, seconds=7)
        is_over.set()
        thread.join()
        declared = json.loads(get(f"http://127.0.0.1:{port}/declared"))
    scrapes, tokens = engines.scrapes(url), [row["tokens_generation_total"] for row in engines.vllm(url)]
    restarts = scrapes[-1]["engine_restarts"]
    assert restarts == len(scrapes) // 3
    increase = tokens[0] + sum(b - a if b >= a else b for a, b in zip(tokens, tokens[1:]))
    # What came between the last scrape and a new start was seen by nobody, neither what came after the end.
    lost = declared["generation_tokens"] - increase
    assert 0 < increase and 0 <= lost <= (restarts + 1) * 20 * 8
    assert not [row for row in engines.sources if row["state"] == "broken"]


def test_first_named_is_first(record, server):
    """The first stands in the time series, though the second answers faster."""
    slow, fast = server(), server()

    def page(handler):
        time.sleep(0.15)  # sleep: the fake engine is that slow
        body = b"vllm:num_requests_running 7\n"
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    slow.answers["/metrics"] = page
    engines = read(record, slow.url(), fast.url(), seconds=2)
    assert [engines.by_id[engines.ids[one.url()]]["number"] for one in (slow, fast)] == [0, 1]
    assert engines.run.table("vllm")[0]["system_requests_running"] == 7


def test_restart_is_seen(record, server):
    one = server()
    state = {"n": 0}

    def page(handler):
        state["n"] += 1
        tokens = 100 * state["n"] if state["n"] < 3 else 10 * state["n"]
        body = f"# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total {tokens}\n".encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    one.answers["/metrics"] = page
    engines = read(record, one.url(), seconds=5)
    restarts = [row["engine_restarts"] for row in engines.scrapes(one.url())]
    assert restarts[:2] == [0, 0] and set(restarts[2:]) == {1}
    values = [value for _, value in engines.samples(one.url())]
    assert values[:3] == [100, 200, 30]


def test_recording_ends_while_an_engine_hangs(infprof, record, latency_truth):
    with latency_truth("-H", 1) as port:
        begin = time.monotonic()
        read(record, f"http://127.0.0.1:{port}/metrics/hang", seconds=1)
        assert time.monotonic() - begin < 10


def test_report_27_an_ensemble_and_its_steps(record, server):
    """Requests are those of the ensemble, work is that of its steps, and `sources` says so."""
    one = server()
    page = next(REPORTS.glob("27-*/page.txt")).read_text()
    one.answers["/metrics"] = (200, {}, page)
    # A release without queues on the page: only the name tells; and models of which none is known to hold others.
    one.answers["/old/metrics"] = (200, {}, "".join(line for line in page.splitlines(True) if "pending" not in line))
    one.answers["/two/metrics"] = (200, {}, page.replace("ensemble", "whole").replace("nv_inference_pending", "nv_other"))
    engines = read(record, one.url(), one.url("/old/metrics"), one.url("/two/metrics"), seconds=2)

    def reason(url):
        return next(row["reason"] for row in reversed(engines.sources) if row["instance"] == url and
                    row["column_name"] == "requests_finished_total")

    for url in (one.url(), one.url("/old/metrics")):
        row = engines.vllm(url)[-1]
        assert (row["requests_finished_total"], row["requests_errored_total"]) == (102, 2)
        assert row["latency_e2e_s_sum"] / row["latency_e2e_s_count"] == 0.25
        assert row["steps_total"] == 300 and row["latency_queue_s_sum"] == pytest.approx(0.3)
        assert "those of the ensemble ensemble" in reason(url)
    assert engines.vllm(one.url())[-1]["system_requests_waiting"] == 4
    assert engines.vllm(one.url("/two/metrics"))[-1]["requests_finished_total"] == 404
    assert "sums over 4 models" in reason(one.url("/two/metrics"))


def test_report_28_a_server_that_sleeps_when_idle(record, tmp_path):
    """It falls asleep as if nobody looked: what counts as a request is asked only while it works."""
    shutil.copy(next(REPORTS.glob("28-*/llama-server")), tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, "./llama-server", "--port", port, "--metrics", "--sleep-idle-seconds", 1.5, "--life", 6]
    done = record("-t", "200", "--no-finish", command=words, cwd=tmp_path)
    seen = (tmp_path / "seen.log").read_text()
    lines = [line.split(" ", 1)[1] for line in seen.splitlines()]
    assert "/metrics" in lines and "ASLEEP" in lines, seen
    for i in [i for i, line in enumerate(lines) if line == "WOKEN"]:
        # It may fall asleep between two of our requests: no fault where it had just said that it was awake.
        asked = max(k for k in range(i) if lines[k].startswith("/props"))
        between = [line.split()[0] for line in lines[asked:i]]
        assert "asleep" not in lines[asked] and len(set(between)) == len(between), seen
    assert "WOKEN" in lines or "wakes 0 asleep True" in lines, seen
    engines = Engines(done.run)
    assert engines.run.table("vllm") and any("keep it from sleeping" in (row["reason"] or "") for row in engines.sources)
