"""Engines that are found by command lines of the profiled tree: which ports are asked, and which never. Other tests of engines are
in test_engine.py."""
import os
import pathlib
import socket
import subprocess
import sys
import textwrap
import time

import pytest

from waiting import wait_for
from test_engine import Engines, no_engine_of_the_machine, server  # noqa: F401  (fixtures)

SERVE = textwrap.dedent('''
    """An engine by its command line: serves metrics on the port that --port names, and notes what comes to --other."""
    import http.server, os, sys, threading, time
    page = b"# TYPE llamacpp:requests_processing gauge\\nllamacpp:requests_processing 3\\n"
    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass
        def do_GET(self):
            with open(sys.argv[-1], "a") as file:
                file.write(f"{self.server.server_port} {self.path}\\n")
            prefix = sys.argv[sys.argv.index("--api-prefix") + 1].rstrip("/") if "--api-prefix" in sys.argv else ""
            good = self.path == prefix + "/metrics"
            self.send_response(200 if good else 404)
            self.send_header("Content-Length", str(len(page) if good else 0))
            self.end_headers()
            self.wfile.write(page if good else b"")
    for flag in ("--port", "--other"):
        if flag in sys.argv:
            port = int(sys.argv[sys.argv.index(flag) + 1])
            server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
    time.sleep(float(os.environ.get("SECONDS_TO_LIVE", "4")))
''')


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def llama(tmp_path, *words):
    """The command line of a process that calls itself llama-server."""
    script = tmp_path / "serve.py"
    script.write_text(SERVE)
    log = tmp_path / "log"
    log.touch()
    return ["bash", "-c", 'exec -a llama-server "$@"', "bash", sys.executable, str(script), *map(str, words), str(log)], log


def test_engine_found_by_its_command_line(record, tmp_path):
    port, other = free_ports(2)
    command, log = llama(tmp_path, "--metrics", "--port", port, "--other", other)
    done = record("-t", "200", "--no-finish", command=command)
    assert done.returncode == 0, done.stderr
    engines = Engines(done.run)
    url = f"http://127.0.0.1:{port}/metrics"
    assert engines.vllm(url)[-1]["system_requests_running"] == 3
    row = engines.by_id[engines.ids[url]]
    assert row["make"] == "llamacpp" and "--metrics" in row["flags"]
    process = {one["id"]: one for one in done.run.table("process")}[row["process"]]
    assert "serve.py" in process["pCmdline"]
    # Never another socket, though the same process listens there.
    asked = {line.split()[0] for line in log.read_text().splitlines()}
    assert asked == {str(port)}


def test_engine_with_a_prefix_before_its_paths(record, tmp_path):
    port, = free_ports(1)
    command, log = llama(tmp_path, "--metrics", "--port", port, "--api-prefix", "/llm/")
    done = record("-t", "200", "--no-finish", command=command)
    engines = Engines(done.run)
    assert engines.vllm(f"http://127.0.0.1:{port}/llm/metrics")[-1]["system_requests_running"] == 3
    asked = {line.split()[1] for line in log.read_text().splitlines()}
    assert not any("is not that of a known inference server" in (row["reason"] or "") for row in engines.sources)
    assert {"/llm/metrics", "/llm/slots", "/llm/props", "/llm/v1/models"} <= asked
    assert all(path.startswith("/llm/") for path in asked), asked


def test_a_server_that_is_not_known_is_named(record, tmp_path):
    """The target listens, but its command line is of no engine: what would help is said without being asked for."""
    port, = free_ports(1)
    command, log = llama(tmp_path, "--port", port)
    done = record("-t", "200", "--no-finish", command=[*command[:2], command[2].replace("llama-server", "my-server"), *command[3:]])
    engines = Engines(done.run)
    row = next(row for row in reversed(engines.sources) if row["instance"] == "http://localhost:8000/metrics")
    if engines.ids:
        pytest.skip("an engine runs on port 8000 of this machine")
    assert f"listens on port {port}" in row["reason"] and row["fix"] == f"if it is one: --engine http://127.0.0.1:{port}/metrics"
    assert log.read_text() == ""
    report = subprocess.run([os.environ["INFPROF"], "report", "--full", "-r", str(done.run.path)], stdout=subprocess.PIPE, text=True, timeout=60)
    assert f"listens on port {port}" in " ".join(report.stdout.split())


@pytest.mark.parametrize("host", ["127.0.0.2", "LocalHost", "[::1]", socket.gethostname()])
def test_found_engine_that_is_named_otherwise(record, tmp_path, host):
    """The same server by another of this machine's addresses is one engine: its tokens are not there twice."""
    port, = free_ports(1)
    command, log = llama(tmp_path, "--metrics", "--port", port)
    (tmp_path / "serve.py").write_text(SERVE.replace('"127.0.0.1"', '"0.0.0.0"'))
    url = f"http://{host}:{port}/metrics"
    done = record("-t", "200", "--no-finish", "--engine", url, command=command)
    engines = Engines(done.run)
    assert set(engines.ids) == {url}
    assert engines.by_id[engines.ids[url]]["process"]


def test_workers_that_wait_are_one_word(record, tmp_path):
    """Two processes of one command line, neither of which listens (yet): told once, not at each look at either."""
    port, = free_ports(1)
    command, _ = llama(tmp_path, "--metrics", f"--port={port}")
    command[2] = '(exec -a llama-server "$@") & (exec -a llama-server "$@") & wait'
    done = record("-t", "500", "--no-finish", command=command, env={**os.environ, "SECONDS_TO_LIVE": "5"})
    rows = [row for row in Engines(done.run).sources if row["instance"] == f"llamacpp, port {port}"]
    assert [row["state"] for row in rows] == ["absent"], rows


def test_engine_without_metrics_is_not_asked(record, tmp_path):
    port, = free_ports(1)
    command, log = llama(tmp_path, "--port", port)
    done = record("-t", "200", "--no-finish", command=command, env={**os.environ, "SECONDS_TO_LIVE": "3"})
    engines = Engines(done.run)
    row = engines.state(f"llamacpp, port {port}")
    assert row["state"] == "absent" and "--metrics" in row["reason"] and row["fix"]
    assert log.read_text() == ""


def test_port_of_somebody_else_is_not_asked(record, server, tmp_path):
    """The engine names a port on which another program listens: here the test itself."""
    stranger = server()
    command, log = llama(tmp_path, "--metrics", "--elsewhere", "--port=" + str(stranger.port))
    done = record("-t", "200", "--no-finish", command=command, env={**os.environ, "SECONDS_TO_LIVE": "3"})
    engines = Engines(done.run)
    assert "does not listen" in engines.state(f"llamacpp, port {stranger.port}")["reason"]
    assert stranger.requests == [] and log.read_text() == ""
    assert engines.ids == {}


def test_found_engine_that_dies_and_comes_back(record, tmp_path):
    port, = free_ports(1)
    command, log = llama(tmp_path, "--metrics", "--port", port)
    script = tmp_path / "twice.sh"
    quoted = " ".join(f"'{word}'" for word in command)
    script.write_text(f"export SECONDS_TO_LIVE=3\n{quoted}\nsleep 2.5\n{quoted}\n")
    done = record("-t", "200", "--no-finish", command=["bash", script])
    engines = Engines(done.run)
    url = f"http://127.0.0.1:{port}/metrics"
    oks = [row["ok"] for row in engines.scrapes(url)]
    assert oks[0] and False in oks and True in oks[oks.index(False):]
    down = [row["reason"] for row in engines.scrapes(url) if not row["ok"]]
    assert any("has ended" in reason or "listens there" in reason or "refused" in reason for reason in down)
    assert engines.scrapes(url)[-1]["engine_restarts"] == 1


def test_engine_in_another_network(record, tmp_path):
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        pytest.skip("this user may not make network namespaces")
    port, = free_ports(1)
    command, log = llama(tmp_path, "--metrics", "--port", port)
    done = record("-t", "200", "--no-finish", command=["unshare", "-n", *command], env={**os.environ, "SECONDS_TO_LIVE": "3"})
    row = Engines(done.run).state(f"llamacpp, port {port}")
    assert row["state"] == "absent" and "network of its own" in row["reason"] and "--engine" in row["fix"]
    assert log.read_text() == ""


def test_port_in_another_network(record, tmp_path):
    """--port finds who listens there, though not in our network, and the page that cannot be reached is explained."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        pytest.skip("this user may not make network namespaces")
    port, = free_ports(1)
    command, log = llama(tmp_path, "--metrics", "--port", port)
    process = subprocess.Popen(["unshare", "-n", *command], env={**os.environ, "SECONDS_TO_LIVE": "100"})
    try:
        wait_for(lambda: f":{port:04X}" in pathlib.Path(f"/proc/{process.pid}/net/tcp").read_text(), "the server")
        done = record("-t", "200", "--duration", "1500ms", "--no-finish", "--port", port)
        assert done.returncode == 0 and f"recording process {process.pid}" in done.stderr, done.stderr
        row = Engines(done.run).state(f"llamacpp, port {port}")
        assert "network of its own" in row["reason"] and "nsenter" in row["fix"]
        assert log.read_text() == ""
    finally:
        process.kill()
        process.wait()
