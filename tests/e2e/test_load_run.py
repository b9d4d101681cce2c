"""Which run takes the requests of `infprof load`: that of its server, one that is named, or one of its own."""
import json
import os
import subprocess
import sys

import pytest

from conftest import TOP
from namespaces import unshare
from test_load import load_json, run_load, truth, truth_program  # noqa: F401  (fixtures)
from waiting import wait_for


def record_beside(infprof, output, *words):
    process = subprocess.Popen([infprof, "record", "-o", str(output), "-t", "200", "--no-finish", *map(str, words)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = wait_for(lambda: list(output.glob("*.infprof/columns/*.arrows")), "a row")[0].parents[1]
    return process, run.name.removesuffix(".infprof")


def end(process):
    process.terminate()
    process.wait(timeout=60)


def test_a_run_takes_the_requests_of_its_own_server_alone(infprof, truth, tmp_path):
    """The newest run is another's: each load goes where its server is the target, and a stranger's into a run of its own."""
    stranger, asked = truth("-t", "5", "-i", "2"), truth("-t", "5", "-i", "2")
    script = tmp_path / "serve.py"
    script.write_text("import sys; sys.path.insert(0, sys.argv[1]); from engines import Server, VLLM\n"
                      "server = Server(VLLM); print(server.url, file=open(sys.argv[2], 'w'), flush=True); server.serve_forever()\n")
    python = [sys.executable, script, TOP / "tests" / "fakes"]
    # In a child of the command, by a shell: the socket is not the command's own.
    shell = ["sh", "-c", "trap 'kill $p' TERM; \"$@\" & p=$!; wait", "sh"]
    launched, launched_uuid = record_beside(infprof, tmp_path / "a", "--", *shell, *python, tmp_path / "url")
    named, named_uuid = record_beside(infprof, tmp_path / "b", "--engine", asked, "--", "sleep", "100")
    try:
        url = wait_for(lambda: (tmp_path / "url").exists() and (tmp_path / "url").read_text().strip(), "the server")
        short = ("-n", 2, "--output-tokens", 2)
        assert load_json(infprof, url, *short, cwd=tmp_path)["run"] == launched_uuid
        assert load_json(infprof, url.replace("127.0.0.1", "localhost"), *short, cwd=tmp_path)["run"] == launched_uuid
        assert load_json(infprof, asked, *short, cwd=tmp_path)["run"] == named_uuid
        done = run_load(infprof, stranger, *short, "--json", cwd=tmp_path)
        own = json.loads(done.stdout)
        assert done.returncode == 0 and own["run"] not in (launched_uuid, named_uuid)
        assert own["output"] == "./profiler-output" and f"-r {named_uuid[:13]}" in done.stderr and "a new run" in done.stderr
        # The directory of a run does not name the run either.
        own = load_json(infprof, stranger, *short, "-o", tmp_path / "b")
        assert own["run"] != named_uuid
        assert load_json(infprof, stranger, *short, "-r", launched_uuid[:13], cwd=tmp_path)["run"] == launched_uuid
        assert load_json(infprof, stranger, *short, cwd=tmp_path, env={**os.environ, "INFPROF_RUN": named_uuid})["run"] == named_uuid
    finally:
        end(launched)
        end(named)


def test_a_server_in_a_network_of_its_own(infprof, tmp_path):
    """As a container has: the port is known by the target's own network, and not ours."""
    if subprocess.run([*unshare("--net"), "ip", "link", "set", "lo", "up"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("the loopback of another network cannot be switched on")
    server = subprocess.Popen([*unshare("--net"), "sh", "-ec", 'ip link set lo up; exec "$@"', "-", sys.executable, "-u",
                               str(TOP / "tests" / "fakes" / "engines.py"), "vllm"], stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().strip()
    process, uuid = record_beside(infprof, tmp_path / "attached", "--pid", server.pid)
    try:
        inside = ["nsenter", "-t", server.pid, "-n", infprof]
        words = [*inside, "load", url, "-n", 1, "--output-tokens", 2, "--json"]
        done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, check=True, timeout=120, cwd=tmp_path)
        assert json.loads(done.stdout)["run"] == uuid
    finally:
        end(process)
        server.kill()
        server.wait()


def test_a_run_of_the_machine_takes_its_servers(infprof, truth, tmp_path):
    url = truth("-t", "5", "-i", "2")
    process, uuid = record_beside(infprof, tmp_path / "host")
    try:
        assert load_json(infprof, url, "-n", 1, "--output-tokens", 2, cwd=tmp_path)["run"] == uuid
    finally:
        end(process)


def test_the_run_that_it_lives_in(infprof, truth, record):
    url = truth("-t", "5", "-i", "2", "-n", "2")
    done = record("--no-finish", command=[infprof, "load", url, "-n", 6, "--output-tokens", 2])
    assert done.returncode == 0, done.stderr
    assert len(done.run.table("requests")) == 6
    assert "client-side" in done.stdout
