"""Tells whether a llama.cpp server works on this machine: starts it and has it make a few tokens.

  probe_server.py SERVER MODEL

Its exit status is 0 if it does; else it prints one sentence why not. `--version` would not do: a server that was compiled for
another CPU starts well and dies when it first multiplies matrices.
"""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

LIMIT_S = 180  # to load the model and answer, on a machine whose cores others keep busy


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def how_it_ended(status):
    """The words for an exit status of subprocess: negative for a signal."""
    if status >= 0:
        return f"it ended with exit code {status}"
    words = f"it was killed by {signal.Signals(-status).name}"
    if status == -signal.SIGILL:
        words += ": it was compiled for a CPU that has other instructions than this one"
    return words


def ask(url, body=None, timeout=5):
    """The answer as JSON, None if there is none."""
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)
    except (OSError, ValueError):
        return None


def probe(server, url):
    """None if it works, else why not."""
    end = time.monotonic() + LIMIT_S
    while ask(url + "/health") is None:
        if server.poll() is not None:
            return how_it_ended(server.returncode)
        if time.monotonic() > end:
            return f"it was not ready within {LIMIT_S} s"
        time.sleep(0.2)
    # Longer than a few tokens: short prompts take another way through the matrices than those of the demo.
    prompt = "One two three four five six seven eight nine ten. " * 8
    answer = ask(url + "/completion", {"prompt": prompt, "n_predict": 4, "ignore_eos": True},
                 timeout=max(1, end - time.monotonic()))
    if answer and answer.get("tokens_predicted", 0) > 0:
        return None
    try:
        return how_it_ended(server.wait(2))
    except subprocess.TimeoutExpired:
        return f"it answered a request with {json.dumps(answer)[:200]}" if answer else "it did not answer a request"


def main():
    program, model = sys.argv[1:]
    port = free_port()
    with tempfile.TemporaryFile() as log:
        try:
            server = subprocess.Popen([program, "-m", model, "--host", "127.0.0.1", "--port", str(port), "-t",
                                       str(os.cpu_count() or 1), "-np", "1", "-c", "1024", "--no-webui"],
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        except OSError as error:
            sys.exit(f"it could not be started: {error.strerror}")
        try:
            why = probe(server, f"http://127.0.0.1:{port}")
        finally:
            server.kill()
            server.wait()
        if not why:
            return
        if server.returncode == -signal.SIGILL:  # what it said before has nothing to do with it
            sys.exit(why)
        log.seek(0)
        lines = log.read().decode(errors="replace").strip().splitlines()
        said = lines[-1].strip()[:160] if lines else "nothing"
        sys.exit(f"{why}; the last that it said: {said}")


main()
