"""`infprof load` where no load comes about: wrong options, servers that are not there or say nothing."""
import signal
import socket
import subprocess
import time

import pytest


def run_load(infprof, *words):
    return subprocess.run([infprof, "load", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)


def test_nobody_listens(infprof):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    done = run_load(infprof, f"127.0.0.1:{port}")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert f"127.0.0.1:{port}" in done.stderr and "--wait" in done.stderr


def test_ctrl_c_while_nobody_answers(infprof):
    """The server takes the connection and says nothing: whoever waits for it may stop at once, before and behind /health."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        for seconds in (1, 6):
            process = subprocess.Popen([infprof, "load", f"127.0.0.1:{server.getsockname()[1]}", "--wait", "30s", "--no-record"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(seconds)  # sleep: any moment will do
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            assert time.monotonic() - begin < 2 and process.returncode == 1 and "stopped while waiting" in err, err


@pytest.mark.parametrize("words, complaint", [
    ([], "URL"),
    (["http://a", "http://b"], "one URL"),
    (["http://a", "-c", "0"], "--concurrency"),
    (["http://a", "--rate", "0"], "--rate"),
    (["http://a", "--arrival", "poisson"], "--rate"),
    (["http://a", "--rate", "1", "--arrival", "bursty"], "constant"),
    (["http://a", "--input-tokens", "9..3"], "--input-tokens"),
    (["http://a", "--shared-prefix", "500"], "--shared-prefix"),
    (["http://a", "--goodput", "latency:5"], "ttft:MS"),
    (["http://a", "--extra", "[1]"], "JSON object"),
    (["http://a", "--duration", "0"], "--duration"),
    (["http://a", "--endpoint", "embeddings"], "completions"),
    (["http://a/v1/completions", "--endpoint", "chat"], "--endpoint"),
    (["ftp://a"], "ftp"),
    (["http://a", "--no-record", "-o", "x"], "--no-record"),
    (["http://a", "-H", "no colon"], "--header"),
    (["http://a", "--prompts", "/nonexistent"], "/nonexistent"),
    (["http://a", "--bogus"], "bogus"),
])
def test_bad_usage(infprof, words, complaint):
    done = run_load(infprof, *words)
    assert done.returncode == 2 and complaint in done.stderr and not done.stdout
