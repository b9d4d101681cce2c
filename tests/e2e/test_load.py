"""`infprof load`: what it says of servers whose answers are known, of servers that misbehave, and where its rows go."""
import http.server
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from waiting import wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
TRUTH = TOP.parent / "shared" / "truth" / "latency_truth.c"
MS = 1_000_000


def run_load(infprof, *words, timeout=120, **arguments):
    return subprocess.run([infprof, "load", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, **arguments)


def load_json(infprof, *words, code=0, **arguments):
    done = run_load(infprof, *words, "--json", **arguments)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def truth_program(tmp_path_factory):
    if not TRUTH.exists():
        pytest.skip(f"{TRUTH} is not there")
    path = tmp_path_factory.mktemp("truth") / "latency_truth"
    subprocess.run(["cc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-pthread", str(TRUTH), "-o", str(path), "-lm"], check=True)
    return path


@pytest.fixture
def truth(truth_program):
    """truth(options...): starts latency_truth, returns its URL."""
    processes = []

    def start(*options):
        process = subprocess.Popen([truth_program, "-p", "0", "-S", "300", *map(str, options)], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"

    yield start
    for process in processes:
        process.kill()
        process.wait()


# Of latency_truth, request i: time to first token, and gap k (from 1) of it.
TTFT = [30, 60, 90, 120]
ITL = [10, 20, 30]


def declared_last_ms(i, tokens):
    return TTFT[i % len(TTFT)] + sum(ITL[(i + k) % len(ITL)] for k in range(1, tokens))


@pytest.mark.san
def test_client_clock_never_runs_ahead(infprof, truth, run_dir):
    """One at a time, so that the order is known: each time is what was declared, or later."""
    url = truth("-t", ",".join(map(str, TTFT)), "-i", ",".join(map(str, ITL)), "-P", 17)
    summary = load_json(infprof, url, "-c", 1, "-n", 12, "--output-tokens", 6, "-o", run_dir)
    rows = sorted(run_dir.run().table("requests"), key=lambda row: row["number"])
    assert [row["number"] for row in rows] == list(range(12))
    for i, row in enumerate(rows):
        assert row["ok"] and row["status"] == 200 and row["failure"] is None and row["error"] is None
        assert (row["prompt_tokens"], row["output_tokens"], row["chunks"], row["max_tokens"]) == (17, 6, 6, 6)
        assert row["finish_reason"] == ("length" if i % 4 == 3 else "stop")
        assert row["first_token_ns"] - row["send_ns"] >= TTFT[i % 4] * MS
        assert row["last_token_ns"] - row["send_ns"] >= declared_last_ms(i, 6) * MS
        assert row["first_token_ns"] < row["last_token_ns"] <= row["end_ns"]
        gaps = json.loads(row["gaps"])
        assert row["gap_max_ns"] * 5 >= row["last_token_ns"] - row["first_token_ns"] and gaps[-1][0] * 1e9 >= row["gap_max_ns"]
        assert sum(count for _, count in gaps) == 5
        # The gaps' upper edges hold their sum.
        assert sum(edge * count for edge, count in gaps) * 1e9 >= row["last_token_ns"] - row["first_token_ns"]
    assert (summary["completed"], summary["failed"], summary["cut_off"]) == (12, 0, 0)
    assert (summary["total_input_tokens"], summary["total_output_tokens"]) == (12 * 17, 12 * 6)
    assert summary["finish_reasons"] == {"stop": 9, "length": 3}
    assert summary["median_ttft_ms"] >= 75 and summary["max_ttft_ms"] >= 120
    # A gap can be shorter than declared: the server's next token is due by its clock, not by when it could write the last one.
    assert summary["mean_itl_ms"] >= 0.75 * 20
    assert summary["measured_at"] == "client"


def test_percentiles_are_those_of_the_rows(infprof, truth, run_dir):
    url = truth()
    summary = load_json(infprof, url, "-c", 20, "-n", 40, "--output-tokens", 8, "-o", run_dir)
    rows = run_dir.run().table("requests")
    ttft = sorted(row["first_token_ns"] / MS for row in rows)
    tpot = sorted((row["last_token_ns"] - row["first_token_ns"]) / 7 / MS for row in rows)

    def percentile(values, q):
        rank = q * (len(values) - 1)
        low = int(rank)
        return values[low] + (rank - low) * (values[min(low + 1, len(values) - 1)] - values[low])

    for name, q in (("median", .5), ("p50", .5), ("p90", .9), ("p95", .95), ("p99", .99)):
        assert summary[f"{name}_ttft_ms"] == pytest.approx(percentile(ttft, q), rel=1e-6)
        assert summary[f"{name}_tpot_ms"] == pytest.approx(percentile(tpot, q), rel=1e-4)
    low, high = summary["itl_bounds_ms"]["p90"]
    assert low <= summary["p90_itl_ms"] <= high <= low * 1.1251


def test_open_loop_keeps_its_arrivals_while_the_server_stalls(infprof, truth, run_dir):
    """Two slots of 300 ms serve 6.7 a second; 20 a second are due. The waiting counts."""
    url = truth("-t", "300", "-i", "1", "-n", "1")
    summary = load_json(infprof, url, "--rate", 20, "--arrival", "constant", "-c", 2, "-n", 20, "--output-tokens", 1, "-o", run_dir)
    rows = sorted(run_dir.run().table("requests"), key=lambda row: row["t_ns"])
    start = rows[0]["t_ns"]
    for i, row in enumerate(rows):
        assert abs(row["t_ns"] - start - i * 50 * MS) < MS / 1000, "an arrival moved"
        assert row["end_ns"] >= row["send_ns"] + 300 * MS
    # Number 19 is due at 0.95 s and begins when nine pairs were served: not before 2.7 s.
    assert rows[-1]["send_ns"] >= (2700 - 950) * MS
    assert rows[-1]["first_token_ns"] >= (2700 - 950 + 300) * MS
    assert summary["held_back"] >= 15 and summary["sent_late"] >= 15
    assert summary["p99_ttft_ms"] > 1800


def test_closed_loop_begins_when_a_slot_is_free(infprof, truth, run_dir):
    url = truth("-t", "50", "-i", "10", "-n", "3")
    load_json(infprof, url, "-c", 3, "-n", 12, "--output-tokens", 3, "-o", run_dir)
    rows = run_dir.run().table("requests")
    assert len(rows) == 12
    ends = sorted(row["t_ns"] + row["end_ns"] for row in rows)
    later = sorted(row["t_ns"] for row in rows)[3:]
    for arrival, end in zip(later, ends):
        assert arrival == end
    moments = [(row["t_ns"], 1) for row in rows] + [(row["t_ns"] + row["end_ns"], -1) for row in rows]
    in_flight = most = 0
    for _, step in sorted(moments):
        in_flight += step
        most = max(most, in_flight)
    assert most == 3


class Hostile(http.server.BaseHTTPRequestHandler):
    """Behaves as the model that is asked for is called. Keeps the bodies."""
    protocol_version = "HTTP/1.1"
    bodies = []

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v1/models":
            self.answer(200, getattr(self.server, "models", None) or b'{"object":"list","data":[{"id":"good"},{"id":"other"}]}')
        elif self.path.startswith("/health") and getattr(self.server, "loading", 0) > 0:
            self.server.loading -= 1
            self.answer(503, b'{"error":{"message":"Loading model","code":503}}')
        else:
            self.answer(404, b"")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def stream(self, *events, end=True):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            if isinstance(event, (int, float)):
                time.sleep(event)  # sleep: the fake server is that slow
            else:
                self.chunk(event)
        if end:
            self.chunk(b"")
        self.wfile.flush()

    @staticmethod
    def text(word, reason=None):
        return b"data: " + json.dumps({"choices": [{"index": 0, "text": word, "finish_reason": reason}]}).encode() + b"\n\n"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Hostile.bodies.append((dict(self.headers), request))
        usage = b'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":%d,"total_tokens":9}}\n\n'
        done = b"data: [DONE]\n\n"
        match request.get("model"):
            case "good":
                self.stream(self.text("a"), self.text("b"), self.text("c", "stop"), usage % 3, done)
            case "unavailable":
                self.answer(503, b'{"error":{"message":"too busy","type":"x","code":503}}')
            case "missing":
                self.answer(404, b'{"error":{"message":"The model `missing` does not exist.","code":404}}')
            case "page":
                self.answer(200, b"<html>It works!</html>", "text/html")
            case "redirect":
                self.send_response(302)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.send_header("Content-Length", "0")
                self.end_headers()
            case "hang":
                time.sleep(3)  # sleep: the fake server is that slow
                self.close_connection = True
            case "slow-headers":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                for _ in range(30):
                    time.sleep(0.1)  # sleep: the fake server is that slow
                    self.wfile.write(b"X: y\r\n")
                    self.wfile.flush()
                self.close_connection = True
            case "stall":
                self.stream(self.text("a"), 3, end=False)
                self.close_connection = True
            case "cut":  # in the middle of the chunked body
                self.stream(self.text("a"), self.text("b"), end=False)
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            case "no-end":  # a whole body, but neither [DONE] nor a reason
                self.stream(self.text("a"), self.text("b"))
            case "garbage":
                self.stream(self.text("a"), b"data: {oops\n\n", done)
            case "error-inside":
                self.stream(self.text("a"), b'data: {"error":{"message":"CUDA out of memory","code":500}}\n\n', done)
            case "abort":  # the server gives it up: shutdown, pause
                self.stream(self.text("a"), self.text("", "abort"), usage % 1, done)
            case "abort-at-once":
                self.stream(self.text("", "abort"), usage % 0, done)
            case "finish-error":
                self.stream(self.text("a"), self.text("", "error"), done)
            case "bare-first":
                self.stream(b'{"error":{"code":400,"message":"the prompt is too long"}}\n')
            case "bare-later":
                self.stream(self.text("a"), b'{"error":{"code":500,"message":"the cache is full"}}\n\n')
            case "bare-after-idle":
                self.stream(b"data:\n\n", b'{"message":"worker 2 is gone"}\n\n')
            case "event-error":
                self.stream(self.text("a"), b'event: error\ndata: {"message":"worker 3 was killed","code":500}\n\n', done)
            case "event-error-words":
                self.stream(self.text("a"), b"event: error\ndata: out of memory\n\n", done)
            case "error-then-cut":
                self.stream(self.text("a"), b'data: {"error":{"message":"the engine died"}}\n\n', end=False)
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            case "keepalive":  # events without data, other types, an empty error beside each choice
                chosen = self.text("b", "stop").replace(b"{", b'{"error": "", ', 1)
                self.stream(b"data:\n\n", b": here\n\n", self.text("a"), b"event: ping\ndata: \n\n", chosen, usage % 2, done)
            case "rest-behind-done":
                self.stream(self.text("a"), self.text("b", "stop"), usage % 2, done + b"data: {oops\n\n", b'data: {"error":"late"}\n\n{"error":1}\n')
            case "cut-behind-done":
                self.stream(self.text("a"), self.text("b", "stop"), usage % 2, done, end=False)
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            case "no-usage":
                self.stream(self.text("a"), self.text("b"), self.text("", "stop"), done)
            case "many-in-one":  # several tokens in a piece, pieces cut anywhere, comments, CRLF, an empty text
                whole = (b": hello\r\n\r\n" + self.text("").replace(b"\n", b"\r\n") + self.text("two words") + self.text("x y z", "stop") +
                         usage % 10 + done)
                self.stream(*[whole[i:i + 7] for i in range(0, len(whole), 7)])
            case "whole":
                self.answer(200, b'{"choices":[{"text":"abc","finish_reason":"length"}],"usage":{"prompt_tokens":4,"completion_tokens":3}}')
            case "chat":
                deltas = [{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}, {}]
                events = [b"data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": None if delta else "stop"}]}).encode() +
                          b"\n\n" for delta in deltas]
                self.stream(events[0], 0.2, *events[1:], usage % 2, done)
            case "coin":
                Hostile.n = getattr(Hostile, "n", 0) + 1
                if Hostile.n % 2:
                    self.answer(500, b"")
                else:
                    self.stream(self.text("a", "stop"), usage % 1, done)


@pytest.fixture
def hostile():
    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_):
            pass

    server = Server(("127.0.0.1", 0), Hostile)
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    Hostile.bodies = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.san
@pytest.mark.parametrize("model, failure, status, words, pieces", [
    ("unavailable", "http 503", 503, "too busy", None),
    ("missing", "http 404", 404, "`missing` does not exist", None),
    ("redirect", "http 302", 302, "302", None),
    ("page", "garbage", 200, "<html>It works!</html>", None),
    ("hang", "timeout", None, "127.0.0.1", None),
    ("slow-headers", "timeout", 200, "127.0.0.1", None),
    ("stall", "timeout", 200, "127.0.0.1", 1),
    ("cut", "cut", 200, "127.0.0.1", 2),
    ("no-end", "cut", 200, "before its last chunk", 2),
    ("garbage", "garbage", 200, "{oops", 1),
    ("error-inside", "server error", 200, "CUDA out of memory", 1),
    ("abort", "finish abort", 200, '"abort"', 1),
    ("abort-at-once", "finish abort", 200, '"abort"', 0),
    ("finish-error", "finish error", 200, '"error"', 1),
    ("bare-first", "server error", 200, "the prompt is too long", None),
    ("bare-later", "server error", 200, "the cache is full", 1),
    ("bare-after-idle", "server error", 200, "worker 2 is gone", None),
    ("event-error", "server error", 200, "worker 3 was killed", 1),
    ("event-error-words", "server error", 200, "out of memory", 1),
    ("error-then-cut", "server error", 200, "the engine died", 1),
])
def test_failures_are_named(infprof, hostile, run_dir, model, failure, status, words, pieces):
    timeout = "1500ms" if failure == "timeout" else "30s"
    done = run_load(infprof, hostile.url, "-m", model, "-n", 2, "-c", 2, "--timeout", timeout, "-o", run_dir, "--json")
    assert done.returncode == 1 and re.search(r"load: http://\S+/v1/completions: 2 of 2 requests failed", done.stderr)
    summary = json.loads(done.stdout)
    assert summary["failures"] == {failure: 2} and summary["failed"] == 2 and summary["completed"] == 0
    assert summary["median_ttft_ms"] is None and summary["total_output_tokens"] is None
    for row in run_dir.run().table("requests"):
        assert (row["ok"], row["failure"], row["status"], row["chunks"]) == (False, failure, status, pieces)
        assert words in row["error"], row["error"]
        if failure == "timeout":
            assert row["end_ns"] >= 1490 * MS  # libcurl counts in whole ms


@pytest.mark.san
@pytest.mark.parametrize("model", ["keepalive", "rest-behind-done", "cut-behind-done"])
def test_a_good_answer_stays_good(infprof, hostile, run_dir, model):
    """Events without data, "error": "" beside a choice, whatever comes behind [DONE]."""
    summary = load_json(infprof, hostile.url, "-m", model, "-n", 2, "-c", 1, "-o", run_dir)
    assert summary["completed"] == 2 and summary["finish_reasons"] == {"stop": 2}
    for row in run_dir.run().table("requests"):
        assert row["ok"] and (row["chunks"], row["output_tokens"], row["error"]) == (2, 2, None)
        assert row["last_token_ns"] <= row["end_ns"]


def test_a_failing_server_is_not_asked_at_full_speed(infprof, hostile):
    """A slot rests after a failure; half of them fail, and both kinds are counted."""
    summary = load_json(infprof, hostile.url, "-m", "coin", "-c", 2, "--duration", "2s", "--no-record", code=1)
    assert 4 <= summary["failed"] <= 20 and summary["completed"] > 0
    assert summary["failures"] == {"http 500": summary["failed"]}


def test_tokens_are_the_server_s_count(infprof, hostile, run_dir):
    summary = load_json(infprof, hostile.url, "-m", "no-usage", "-n", 1, "-o", run_dir)
    assert summary["completed"] == 1 and summary["total_output_tokens"] is None and summary["requests_without_usage"] == 1
    assert summary["output_throughput"] is None and summary["mean_tpot_ms"] is None and summary["mean_ttft_ms"] > 0
    (row,) = run_dir.run().table("requests")
    assert row["output_tokens"] is None and row["chunks"] == 2
    summary = load_json(infprof, hostile.url, "-m", "many-in-one", "-n", 1, "-o", run_dir)
    (row,) = run_dir.run().table("requests")
    assert (row["output_tokens"], row["chunks"]) == (10, 2) and summary["tokens_per_piece"] == 5
    summary = load_json(infprof, hostile.url, "-m", "whole", "-n", 1, "-o", run_dir)
    (row,) = run_dir.run().table("requests")
    assert row["ok"] and (row["output_tokens"], row["chunks"], row["first_token_ns"]) == (3, None, None)
    assert summary["mean_ttft_ms"] is None and summary["mean_e2el_ms"] > 0
    summary = load_json(infprof, hostile.url, "-m", "whole", "-n", 1, "--no-stream", "-o", run_dir)
    assert summary["completed"] == 1 and Hostile.bodies[-1][1]["stream"] is False


def test_a_role_is_no_token(infprof, hostile, run_dir):
    load_json(infprof, hostile.url, "--endpoint", "chat", "-m", "chat", "-n", 1, "-o", run_dir)
    (row,) = run_dir.run().table("requests")
    assert row["ok"] and row["chunks"] == 2 and row["first_token_ns"] >= 200 * MS and row["finish_reason"] == "stop"
    assert Hostile.bodies[0][1]["messages"][0]["role"] == "user"


def test_what_is_asked(infprof, hostile, tmp_path):
    token = tmp_path / "token"
    token.write_text("sk-secret\n")
    words = [hostile.url, "-n", 6, "-c", 1, "--seed", 5, "--input-tokens", "10..20", "--output-tokens", "3..9", "--shared-prefix", 4,
             "--ignore-eos", "--temperature", 0, "--extra", '{"top_k": 7}', "--token-file", token, "-H", "X-Who: me", "--no-record",
             "--warmup", 2]
    done = run_load(infprof, *words)
    assert done.returncode == 0, done.stderr
    assert "2 models" in done.stderr  # the first was taken
    first = Hostile.bodies
    assert len(first) == 8
    for headers, body in first[2:]:
        assert headers["Authorization"] == "Bearer sk-secret" and headers["X-Who"] == "me"
        assert body["model"] == "good" and body["ignore_eos"] is True and body["temperature"] == 0 and body["top_k"] == 7
        assert body["stream_options"] == {"include_usage": True}
        assert 10 <= len(body["prompt"].split()) <= 20 and 3 <= body["max_tokens"] <= 9
    prompts = [body["prompt"].split() for _, body in first]
    assert len({tuple(words[:4]) for words in prompts[2:]}) == 1 and len({tuple(words) for words in prompts}) == 8
    assert prompts[0][:4] != prompts[2][:4]  # the warm-up teaches the cache nothing
    Hostile.bodies = []
    assert run_load(infprof, *words).returncode == 0
    assert [body for _, body in Hostile.bodies] == [body for _, body in first], "the same seed asks the same"
    Hostile.bodies = []
    words[words.index("--seed") + 1] = 6
    assert run_load(infprof, *words).returncode == 0
    assert [body["prompt"] for _, body in Hostile.bodies] != [body["prompt"] for _, body in first]


def test_prompts_of_a_file(infprof, hostile, tmp_path):
    lines = tmp_path / "prompts"
    lines.write_text('{"prompt": "one"}\n{"messages": [{"role": "system", "content": "be brief"}], "max_tokens": 2}\n')
    load_json(infprof, hostile.url, "-m", "chat", "-n", 3, "-c", 1, "--prompts", lines, "--no-record")
    bodies = [body for _, body in Hostile.bodies]
    assert bodies[0]["messages"] == [{"role": "user", "content": "one"}] == bodies[2]["messages"]
    assert bodies[1]["messages"] == [{"role": "system", "content": "be brief"}] and bodies[1]["max_tokens"] == 2
    lines.write_text('{"prompt": "one"}\nnot json\n')
    done = run_load(infprof, hostile.url, "--prompts", lines)
    assert done.returncode == 2 and f"{lines}, line 2" in done.stderr


def test_a_token_file_that_is_not_there(infprof, hostile, tmp_path):
    """Waiting for the server does not make it."""
    done = run_load(infprof, hostile.url, "-n", 1, "--no-record", "--token-file", tmp_path / "none", "--wait", "60s", timeout=30)
    assert done.returncode == 1 and str(tmp_path / "none") in done.stderr and "server" not in done.stderr


def test_a_model_whose_name_leaves_no_room(infprof, hostile, run_dir):
    """It would stand in each row."""
    hostile.models = json.dumps({"data": [{"id": "x" * 3_000_000}]}).encode()
    done = run_load(infprof, hostile.url, "-n", 1, "-o", run_dir)
    assert done.returncode == 1 and "--model NAME" in done.stderr and len(done.stderr) < 1000
    assert load_json(infprof, hostile.url, "-n", 1, "-m", "good", "-o", run_dir)["finish_reasons"] == {"stop": 1}


def test_a_query_in_the_url(infprof, hostile):
    """It goes behind the path; its secrets are in no message."""
    done = run_load(infprof, hostile.url + "/?api_key=hidden1", "-m", "good", "-n", 1, "--no-record", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["url"] == hostile.url + "/v1/completions?api_key=***"
    hostile.loading = 1
    host = hostile.url[len("http://"):]
    done = run_load(infprof, f"http://me:hidden2@{host}/", "-m", "good", "-n", 1, "--no-record")
    assert done.returncode == 1 and "503" in done.stderr and "hidden" not in done.stderr


def test_waits_for_a_server_that_loads(infprof, hostile):
    hostile.loading = 3
    done = run_load(infprof, hostile.url, "-n", 1, "--no-record")
    assert done.returncode == 1 and "503" in done.stderr
    hostile.loading = 3
    assert load_json(infprof, hostile.url, "-n", 1, "--no-record", "--wait", "30s")["completed"] == 1
    assert hostile.loading == 0


def test_goodput(infprof, truth):
    url = truth("-t", "20,20,20,1500", "-i", "5", "-n", "2")
    summary = load_json(infprof, url, "-c", 1, "-n", 8, "--output-tokens", 2, "--no-record", "--goodput", "ttft:1400", "tpot:2000")
    assert summary["request_goodput"] * summary["duration"] == pytest.approx(6)
    assert summary["completed"] == 8


def test_the_recorder_is_killed(infprof, truth, live, tmp_path):
    """While rows go into its run: the summary is whole, what was lost is said once, and it is a failure where the run was named."""
    url = truth("-t", "10", "-i", "2", "-n", "4")
    words = [infprof, "load", url, "--rate", "20", "--duration", "4s", "--output-tokens", "4", "-r", live.uuid, "--json"]
    load = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    first = len(wait_for(lambda: live.table("requests"), "a row of a request"))
    # A second batch is sent when the first was answered: the load knows whose run it is.
    kept = len(wait_for(lambda: (rows := live.table("requests")) and len(rows) > first and rows, "a row of a second batch"))
    pid = json.loads(next((pathlib.Path(os.environ["XDG_RUNTIME_DIR"])).rglob(f"{live.uuid}.json")).read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    out, err = load.communicate(timeout=60)
    summary = json.loads(out)
    assert load.returncode == 1 and summary["completed"] == summary["requests"] > kept
    assert err.count("were not recorded") == 1 and len(err.splitlines()) == 1, err
    assert live.uuid in err or f"the recorder (pid {pid}) ended before it answered" in err, err  # where the answer was still on its way


@pytest.mark.san
def test_rows_go_into_the_live_run(infprof, truth, live, tmp_path):
    url = truth("-t", "10", "-i", "2", "-n", "4")
    before = time.monotonic_ns()
    summary = load_json(infprof, url, "-n", 30, "-c", 4, "--output-tokens", 4, "--name", "phase one", "-r", live.uuid, cwd=tmp_path)
    rows = live.table("requests")
    assert len(rows) == 30 and summary["run"] == live.uuid
    assert all(before < row["t_ns"] < time.monotonic_ns() and row["load"] == "phase one" and row["ok"] for row in rows)
    assert sorted(row["number"] for row in rows) == list(range(30))
    assert all(abs((row["time"].timestamp() if hasattr(row["time"], "timestamp") else row["time"]) - time.time()) < 300 for row in rows)
    load_json(infprof, url, "-n", 5, "--output-tokens", 4, "--name", "phase two", "-r", live.uuid[:13], cwd=tmp_path)
    assert len(live.table("requests")) == 35
    report = json.loads(subprocess.run([infprof, "report", "-r", str(live.output), "--json"], stdout=subprocess.PIPE,
                                       timeout=60, check=True).stdout)
    assert report["requests"]["completed"] == 35 and report["requests"]["total_output_tokens"] == 140
    text = subprocess.run([infprof, "report", "--full", "-r", str(live.output)], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    assert "Requests (client-side)" in text and "phase two" in text and "CPU of the process tree" in text
    assert not (tmp_path / "profiler-output").exists()
    # A directory that is named is meant: a run of its own beside one that lives elsewhere.
    own = load_json(infprof, url, "-n", 2, "--output-tokens", 4, "-o", tmp_path / "own")
    assert own["run"] != live.uuid and len(live.table("requests")) == 35


def test_more_than_a_message_holds(infprof, truth, live):
    """A few thousand rows in seconds: many messages, none above the limit, none lost."""
    url = truth("-t", "1", "-i", "1", "-n", "3")
    summary = load_json(infprof, url, "-n", 3000, "-c", 64, "--output-tokens", 3, "-r", live.uuid)
    assert summary["completed"] == 3000
    rows = live.table("requests")
    assert sorted(row["number"] for row in rows) == list(range(3000))


def test_ctrl_c_still_reports(infprof, truth, run_dir):
    url = truth("-t", "50", "-i", "100", "-n", "1000")
    process = subprocess.Popen([infprof, "load", url, "-c", "3", "--output-tokens", "1000", "--duration", "100s", "-o", str(run_dir),
                                "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)  # sleep: ten times what three requests need for two chunks
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    summary = json.loads(out)
    assert process.returncode == 0, err
    assert summary["stopped"] is True and summary["cut_off"] == 3 and summary["failed"] == 0
    rows = run_dir.run().table("requests")
    assert [row["failure"] for row in rows] == ["cut off"] * 3
    assert all(row["chunks"] >= 2 and row["output_tokens"] is None and row["first_token_ns"] >= 50 * MS for row in rows)


def test_the_end_of_the_duration(infprof, truth, run_dir):
    """New ones stop; those in flight have the grace, then they are cut off and are no failures."""
    url = truth("-t", "100", "-i", "100", "-n", "100")
    start = time.monotonic()
    done = run_load(infprof, url, "-c", 2, "--output-tokens", 100, "--duration", "1s", "--grace", "500ms", "-o", run_dir, "--json")
    assert time.monotonic() - start < 20
    assert done.returncode == 1 and "--grace" in done.stderr  # nothing came to its end
    assert json.loads(done.stdout)["cut_off"] == 2
    summary = load_json(infprof, url, "-c", 2, "--output-tokens", 5, "--duration", "1s", "--grace", "10s", "--no-record")
    assert summary["cut_off"] == 0 and summary["completed"] >= 2


def test_many_streams(infprof, truth, run_dir):
    url = truth("-t", "100", "-i", "20", "-n", "20")
    summary = load_json(infprof, url, "-c", 256, "-n", 512, "--output-tokens", 20, "-o", run_dir)
    assert summary["completed"] == 512 and summary["total_output_tokens"] == 512 * 20
    rows = run_dir.run().table("requests")
    assert all(row["first_token_ns"] - row["send_ns"] >= 100 * MS for row in rows)
    print("client CPU for 1,000 tokens, 256 streams:", summary["client_cpu_ms_per_1000_tokens"], "ms")


def test_a_run_of_its_own_reads_like_any(infprof, truth, run_dir):
    url = truth("-t", "5", "-i", "2", "-n", "2")
    done = run_load(infprof, url, "-n", 4, "--output-tokens", 2, "-o", run_dir, "-H", "Authorization: Bearer sk-abc")
    assert done.returncode == 0, done.stderr
    text = subprocess.run([infprof, "report", "--full", "-r", str(run_dir)], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    assert "Requests (client-side)" in text and "4 ok" in text and "not measured" not in text and "sk-abc" not in text
    assert "sk-abc" not in (run_dir.run().path / "run.json").read_text()
    tables = subprocess.run([infprof, "tables", "-r", str(run_dir)], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    assert "requests" in tables


def test_a_killed_load_can_be_read_and_recovered(infprof, truth, run_dir):
    url = truth("-t", "5", "-i", "2", "-n", "2")
    process = subprocess.Popen([infprof, "load", url, "-c", "2", "--output-tokens", "2", "-o", str(run_dir)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while not list(run_dir.glob("*.infprof")) or len(run_dir.run().table("requests")) < 20:
        assert time.monotonic() < end, "no 20 rows within 30 s"
        time.sleep(0.1)  # sleep: between two looks
    process.kill()
    process.wait()
    n = len(run_dir.run().table("requests"))
    for words in (["recover", str(run_dir)], []):
        report = json.loads(subprocess.run([infprof, "report", "-r", str(run_dir), "--json"], stdout=subprocess.PIPE, timeout=60, check=True).stdout)
        assert report["requests"]["completed"] == n and report["cut_short"] is True
        if words:
            assert subprocess.run([infprof, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode == 0


def test_progress_is_for_terminals_only(infprof, truth):
    url = truth("-t", "5", "-i", "2", "-n", "2")
    done = run_load(infprof, url, "-n", 4, "--output-tokens", 2, "--no-record")
    assert "\r" not in done.stderr and done.stderr == ""
