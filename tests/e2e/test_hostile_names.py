"""Text from outside on its way to people: names, titles, tags and answers that hold escape sequences, line ends, C1 and
bidirectional controls are shown as what they are, and no terminal obeys them."""
import http.server
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import threading

import pytest

from program import run

EVIL = "a\x1b]0;owned\x07\nFAKED line\u009b2J\u202ez\x7f"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def check_tame(data, where):
    text = data.decode() if isinstance(data, bytes) else data
    found = CONTROLS.search(text)
    assert not found, f"{where}: {text[max(0, found.start() - 80):found.end() + 20]!r}"
    assert not re.search(r"^(infprof: )?FAKED", text, re.M), f"{where}: a name has made a line: {text!r}"
    return text


def shown_on_a_terminal(words):
    """What a terminal gets from a command, without colours."""
    main, other = pty.openpty()
    with subprocess.Popen(words, stdin=other, stdout=other, stderr=other,
                          env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "120"}) as process:
        os.close(other)
        data = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError:  # EIO: the last writer has closed it
                break
            if not piece:
                break
            data += piece
        os.close(main)
        assert process.wait(timeout=60) == 0, data
    # Of our own are the lines of progress: from the margin to what erases the rest.
    return re.sub("\r[^\r\n\x1b]*\x1b\\[K", "", data.decode("utf-8", "strict").replace("\r\n", "\n"))


@pytest.fixture(scope="module")
def hostile_run(infprof, tmp_path_factory):
    """A shell under a hostile name that burns CPU, renames its thread, and prints hostile labels."""
    top = tmp_path_factory.mktemp("hostile")
    program = top / EVIL
    shutil.copy(shutil.which("bash"), program)
    thread = EVIL.encode()[:15]
    script = ("import os, sys, time; open('/proc/self/comm', 'wb').write(%r); tag = %r; "
              "print('measure_label-%%s: %%f' %% (tag, time.time()), flush=True); time.sleep(0.3); "
              "print('measure_label-end: %%f' %% time.time(), flush=True)") % (thread, EVIL.replace("\n", " "))
    out = top / "out"
    done = subprocess.run([infprof, "record", "-o", out, "-t", "100", "--cpu=499", "--capture", "--", program, "-c",
                           'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; "$@"', EVIL, sys.executable, "-c", script],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
    assert done.returncode == 0, done.stderr
    return out, done.stderr


def test_the_recording_says_it(hostile_run):
    check_tame(hostile_run[1], "record")


@pytest.mark.parametrize("words", [["report"], ["flamegraph", "--top"], ["query", "-f", "csv", "SELECT replace(pCmdline, chr(10), ' ') AS c, pName FROM process"],
                                   ["runs"], ["symbolize"]], ids=" ".join)
def test_a_terminal_obeys_no_name(infprof, hostile_run, words):
    where = [hostile_run[0]] if words[0] in ("runs", "symbolize") else ["-r", hostile_run[0]]
    check_tame(shown_on_a_terminal([infprof, words[0], *where, *words[1:]]), words)


@pytest.mark.parametrize("words", [["report", "--all"], ["report", "--labels"], ["flamegraph", "--top"], ["query", "-f", "table", "FROM process"],
                                   ["query", "-f", "jsonl", "FROM process"]], ids=" ".join)
def test_lines_for_people_are_escaped_in_a_pipe_too(infprof, hostile_run, words):
    done = run([infprof, words[0], "-r", hostile_run[0], *words[1:]])
    assert done.returncode == 0, done.stderr
    check_tame(done.stdout + done.stderr, words)


def test_marks_and_a_run_json_that_a_stranger_edited(infprof, live, tmp_path):
    done = run([infprof, "mark", "-r", live.output, EVIL])
    assert done.returncode == 0, done.stderr
    copy = tmp_path / "copy"
    shutil.copytree(live.output, copy)
    shown = run([infprof, "report", "--full", "-r", copy, "--from", "no such mark"])
    assert "owned" in check_tame(shown.stderr, "marks")
    path = next(copy.glob("*.infprof")) / "run.json"
    info = json.loads(path.read_text())
    texts = [key for key in info if isinstance(info[key], str) and key not in ("uuid", "mode")]
    for keys in (texts, ["uuid"], ["mode"]):
        path.write_text(json.dumps({**info, **{key: info[key] + EVIL for key in keys}}))
        for words in (["report", "--full", "-r", copy], ["runs", "-f", "table", copy], ["recover", copy]):
            shown = run([infprof, *words])
            check_tame(shown.stdout + shown.stderr, (keys, words))


class Models(http.server.BaseHTTPRequestHandler):
    """An engine whose model has a hostile name."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/metrics":
            name = EVIL.replace("\n", "\\n")
            self.answer(f'vllm:num_requests_running{{model_name="{name}"}} 1\n'.encode(), "text/plain")
        else:
            self.answer(json.dumps({"data": [{"id": EVIL}, {"id": "b"}]}).encode())

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(json.dumps({"error": {"message": EVIL}}).encode())


@pytest.fixture
def engine():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_an_engine_s_model(infprof, engine, run_dir):
    done = run([infprof, "load", engine, "-n", 1, "--no-record"])
    assert "\\x1B]0;owned\\x07" in check_tame(done.stdout, "load")
    check_tame(done.stderr, "load")
    done = run([infprof, "record", "-o", run_dir, "-t", 100, "--engine", engine, "--", "sleep", 0.5])
    check_tame(done.stderr, "record")
    report = run([infprof, "report", "--full", "-r", run_dir])
    assert "owned" in check_tame(report.stdout, "report"), report.stdout
