"""`infprof load` against stand-ins that refuse what vLLM, SGLang, TGI, Triton and Ollama refuse (tests/fakes/engines.py)."""
import json
import subprocess
import sys

import pytest

from conftest import TOP

sys.path.insert(0, str(TOP / "tests" / "fakes"))
from engines import ENGINES, MODEL, serve  # noqa: E402

engines = pytest.mark.parametrize("engine", ENGINES)


def load(infprof, *words):
    return subprocess.run([infprof, "load", *map(str, words), "--no-record", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60)


@engines
def test_each_engine_takes_what_is_sent(infprof, engine):
    """Both endpoints, streams and whole answers, with every option that adds a member."""
    with serve(ENGINES[engine]) as server:
        for endpoint in ("completions", "chat"):
            for more in ([], ["--no-stream"], ["--ignore-eos", "--temperature", 0]):
                done = load(infprof, server.url, "--endpoint", endpoint, "-n", 2, "-c", 1, "--output-tokens", 3, *more)
                assert done.returncode == 0, (server.refusals, done.stderr)
                summary = json.loads(done.stdout)
                assert (summary["completed"], summary["failed"], summary["model"]) == (2, 0, MODEL)
                assert (summary["total_input_tokens"], summary["total_output_tokens"]) == (14, 6)
                assert list(summary["finish_reasons"].values()) == [2]
        assert server.refusals == [] and len(server.posts) == 12
        for _, headers, _ in server.posts:
            assert headers["Content-Type"] == "application/json" and "application/json" in headers["Accept"]


@engines
def test_a_header_of_the_user_goes_before_ours(infprof, engine):
    """And what the server says of it is in the JSON and on standard error."""
    with serve(ENGINES[engine]) as server:
        done = load(infprof, server.url, "-n", 1, "-H", "content-type: text/plain", "-H", "Accept: */*")
        if engine == "ollama":  # does not look at it
            assert done.returncode == 0 and server.posts[0][1]["Accept"] == "*/*"
            return
        (kind, sentence), = json.loads(done.stdout)["failure_examples"].items()
        (status, words), = server.refusals
        assert done.returncode == 1 and kind == f"http {status}"
        words = words if words[0] != "{" else words[words.index(": ") + 3:][:20]
        for said in (sentence, done.stderr):
            assert str(status) in said and any(part in said for part in (words, "Only 'application/json'", "valid dictionary")), said


@engines
def test_a_wrong_type_is_refused_in_the_server_s_words(infprof, engine):
    with serve(ENGINES[engine]) as server:
        done = load(infprof, server.url, "-n", 1, "--extra", '{"max_tokens": "many"}')
        (kind, sentence), = json.loads(done.stdout)["failure_examples"].items()
        assert done.returncode == 1 and kind in ("http 400", "http 422") and len(server.refusals) == 1
        assert "max_tokens" in sentence or "valid int" in sentence
