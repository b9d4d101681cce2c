"""A recording of vLLM's captured pages, served one after another by a fake: the `vllm` group is complete in table, SQL, snapshot and
time series. The same for llama.cpp with its side pages. Values: tests/fixtures/engines/expected.tsv, written from the pages."""
import csv
import http.server
import json
import os
import subprocess
import threading

import pytest

from conftest import TOP, Run
from program import query

PAGES = TOP.parent / "shared" / "fixtures" / "engines"
EXPECTED = TOP / "tests" / "fixtures" / "engines" / "expected.tsv"
ORDER = ["idle", "load", "load2", "after"]


def expected(page):
    """{field: value} of a captured page."""
    rows = [line.rstrip("\n").split("\t") for line in EXPECTED.open() if not line.startswith("#")]
    return {field: float(value) for name, field, value in (row for row in rows if len(row) == 3) if name == page}


class Fake:
    """Serves the pages of a folder in order: each scrape is the next, the last stays."""

    def __init__(self, folder, side):
        fake = self
        self.folder, self.side, self.n_scrapes, self.asked = PAGES / folder, side, 0, []

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_GET(self):
                fake.asked.append(self.path)
                body = fake.body(self.path)
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self):
        return ORDER[max(0, min(self.n_scrapes, len(ORDER)) - 1)]

    def body(self, path):
        if path == "/metrics":
            self.n_scrapes += 1
            return (self.folder / f"metrics-{self.page()}.prom").read_bytes()
        if path in self.side:
            return (self.folder / self.side[path].format(page=self.page().rstrip("2"))).read_bytes()
        return None

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def fake():
    made = []

    def call(*words):
        made.append(Fake(*words))
        return made[-1]

    yield call
    for one in made:
        one.close()


@pytest.fixture(autouse=True)
def no_engine_of_the_machine(monkeypatch):
    monkeypatch.delenv("VLLM_METRICS_URL", raising=False)


def rows_of(run, url):
    ids = {row["url"]: row["id"] for row in run.table("engines")}
    return [row for row in run.table("vllm") if row["engine"] == ids[url]]


def values(row):
    return {name: value for name, value in row.items()
            if value is not None and name not in ("t_ns", "time", "engine")}


def snapshot_values(group):
    """Members of the snapshot's group that are numbers, in whichever shape a number has."""
    found = {}
    for name, member in group.items():
        if isinstance(member, dict) and "value" in member:
            member = member["value"]
        if isinstance(member, (int, float)) and not isinstance(member, bool):
            found[name] = member
    return found


def near(found, wanted):
    assert set(wanted) <= set(found), sorted(set(wanted) - set(found))
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-9), name


@pytest.fixture(scope="module")
def vllm_run(infprof, tmp_path_factory):
    """(the fake, the run): recorded once for all tests, which only read it."""
    server = Fake("vllm-0.32.0", {"/version": "version.json", "/v1/models": "models.json"})
    output = tmp_path_factory.mktemp("vllm")
    registry = tmp_path_factory.mktemp("registry")
    registry.chmod(0o700)
    environment = {name: value for name, value in os.environ.items() if name not in ("VLLM_METRICS_URL", "INFPROF_RUN")}
    environment["XDG_RUNTIME_DIR"] = str(registry)
    words = [infprof, "record", "-o", output, "--engine", server.url, "-t", "1000", "-f", "csv", "--", "sleep", "7"]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=120, env=environment)
    server.close()
    assert done.returncode == 0, done.stderr
    return server, Run(output)


def test_vllm_table_holds_the_pages(vllm_run):
    server, run = vllm_run
    rows = [values(row) for row in rows_of(run, server.url)]
    assert len(rows) >= len(ORDER)
    for row, page in zip(rows, ORDER):
        assert set(row) == set(expected(f"vllm-0.32.0/metrics-{page}.prom")), page
        near(row, expected(f"vllm-0.32.0/metrics-{page}.prom"))


def test_vllm_is_known(vllm_run):
    server, run = vllm_run
    engine = {row["id"]: row for row in run.table("engines") if row["url"] == server.url}.popitem()[1]
    assert {name: engine[name] for name in ("make", "version", "model", "max_model_len", "block_size", "num_gpu_blocks")} == {
        "make": "vllm", "version": "0.32.0", "model": "tiny", "max_model_len": 1024, "block_size": 128,
        "num_gpu_blocks": 1024}
    assert json.loads(engine["config"])["cache_config_info"]["cache_dtype"] == "auto"
    # Side pages are asked once, not at each scrape.
    assert server.asked.count("/version") == 1 and server.asked.count("/v1/models") == 1


def test_vllm_absence_is_explained(vllm_run):
    _, run = vllm_run
    said = [row for row in run.table("sources") if row["table_name"] == "vllm"]
    table = [row for row in said if row["column_name"] == "*"]
    # One row for all columns of other makes; another one when requests_received_total appears behind the idle page.
    assert ["requests_received_total" in row["reason"] for row in table] == [True, False]
    assert all("speed_prompt_tokens_per_s" in row["reason"] for row in table)
    aborted = [row for row in said if row["column_name"] == "requests_aborted_total"]
    assert [row["state"] for row in aborted] == ["absent"]
    assert "does not mean that nothing was aborted" in aborted[0]["reason"]


def test_vllm_in_sql(infprof, vllm_run):
    server, run = vllm_run
    wanted = expected("vllm-0.32.0/metrics-after.prom")
    names = sorted(wanted)
    answer = query(infprof, run.output, f"SELECT {', '.join(names)} FROM vllm ORDER BY t_ns DESC LIMIT 1")
    rows = answer["rows"] if isinstance(answer, dict) else answer
    row = rows[0] if isinstance(rows[0], dict) else dict(zip(names, rows[0]))
    near(row, wanted)


def test_vllm_in_snapshots(vllm_run):
    _, run = vllm_run
    groups = [json.loads(path.read_text()).get("vllm") for path in run.snapshots()]
    # The first may be older than the first page.
    groups = [values for group in groups if group and (values := snapshot_values(group))]
    assert groups
    for group in groups:
        assert set(expected("vllm-0.32.0/metrics-idle.prom")) - {"requests_received_total"} <= set(group)
    near(groups[-1], expected("vllm-0.32.0/metrics-after.prom"))
    # What the mission asks for by name, in every one of them.
    for name in ("system_requests_running", "system_requests_waiting", "cache_kv_usage_percent", "requests_finished_total",
                 "tokens_prompt_total", "tokens_generation_total", "latency_ttft_s_sum", "latency_e2e_s_sum"):
        assert all(name in group for group in groups)


def test_vllm_in_the_time_series(vllm_run):
    _, run = vllm_run
    with (run.output / f"{run.uuid}.csv").open() as file:
        rows = list(csv.DictReader(file))
    wanted = expected("vllm-0.32.0/metrics-after.prom")
    assert set(wanted) <= set(rows[0])
    last = [row for row in rows if row["tokens_generation_total"]][-1]
    near({name: float(last[name]) for name in wanted}, wanted)
    # Of a tick are the rows that were stamped before the next one.
    assert int(last["tokens_generation_total_time"]) < int(last["timestamp"]) + 1000
    # Absent is not zero.
    assert all(not row["requests_aborted_total"] for row in rows)


def test_llamacpp_with_its_side_pages(fake, record):
    server = fake("llamacpp-b10434", {"/props": "props.json", "/v1/models": "models.json", "/slots": "slots-{page}.json"})
    done = record("--engine", server.url, "-t", 1000, "-f", "csv", command=["sleep", "7"])
    assert done.returncode == 0, done.stderr
    engine = {row["id"]: row for row in done.run.table("engines") if row["url"] == server.url}.popitem()[1]
    assert {name: engine[name] for name in ("make", "version", "model", "quantisation", "max_num_seqs", "max_model_len")} == {
        "make": "llamacpp", "version": "b1-7e4c0a9", "model": "models/gemma-3-270m-q4_k_m.gguf",
        "quantisation": "Q4_K - Medium", "max_num_seqs": 4, "max_model_len": 2048}
    rows = [values(row) for row in rows_of(done.run, server.url)]
    assert len(rows) >= len(ORDER)
    live = [row["tokens_generation_live_total"] for row in rows]
    assert live == sorted(live), "it must never fall"
    # idle: none. load: 648 tokens of finished requests and 20 + 19 + 20 + 20 in slots.
    assert live[:2] == [0, 727]
    for row, page in zip(rows, ORDER):
        wanted = expected(f"llamacpp-b10434/metrics-{page}.prom") | {"system_slots": 4}
        del wanted["tokens_generation_live_total"]
        near(row, wanted)
        assert row["tokens_generation_live_total"] >= row["tokens_generation_total"]
    # /slots is read at each scrape, behind the page; the others once.
    assert server.asked.count("/slots") >= len(ORDER)
    assert server.asked.count("/props") == 1
