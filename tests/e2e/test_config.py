"""`infprof config`: the settings of programs that record themselves, changed while they run."""
import contextlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import time

import pytest

from program import run
from pythons import FREE, PYTHONS
from test_rings import ask, program, query, started  # noqa: F401 (fixtures)
from test_torch import has_torch
from waiting import wait_for

ONE = "system" if "system" in PYTHONS else next(iter(PYTHONS), None)


def config(infprof, pid, *wishes):
    return run([infprof, "config", pid, *wishes, "--json"])


def settings(infprof, pid, *wishes):
    """{key: row}. On a machine without a free CPU a program may take longer than the second that infprof waits."""
    done = config(infprof, pid, *wishes)
    assert done.returncode == 0, done.stderr
    asked = {row["key"] for row in json.loads(done.stdout)}

    def answered():
        found = {row["key"]: row for row in json.loads(config(infprof, pid).stdout) if row["key"] in asked}
        return found if all(row["state"] != "pending" for row in found.values()) else None

    return wait_for(answered, "an answer") if "pending" in done.stdout else {row["key"]: row for row in json.loads(done.stdout)}


@pytest.fixture
def storm(infprof, started):  # noqa: F811
    """A program that marks its time line each 20 us."""
    process = started("storm", 0)
    wait_for(lambda: config(infprof, process.pid).returncode == 0, "its ring file")
    return process


def marks(infprof, pid):
    return json.loads(query(infprof, pid, "SELECT count(*) AS n FROM marks").stdout)[0]["n"]


@pytest.mark.san
def test_settings_are_listed(infprof, started):  # noqa: F811
    process = started("wait")
    found = settings(infprof, process.pid)
    assert list(found) == ["recording", "ring.bytes", "ring.records"]
    assert found["recording"] == {"key": "recording", "value": "on", "source": "environment", "state": "applied", "wanted": None,
                                  "may_be": "on, off"}
    assert (found["ring.bytes"]["value"], found["ring.bytes"]["source"]) == ("1048576", "default")
    assert (found["ring.records"]["value"], found["ring.records"]["source"]) == ("10000", "default")
    shown = run([infprof, "config", process.pid, "-f", "table"]).stdout
    assert "key" in shown and "180000, about" in shown
    other = started("wait", env={**os.environ, "INFPROF_RING_BYTES": "2M"})
    assert settings(infprof, other.pid)["ring.bytes"]["source"] == "environment"


def test_recording_stops_and_goes_on(infprof, storm):
    assert settings(infprof, storm.pid, "recording=off")["recording"]["value"] == "off"
    before = marks(infprof, storm.pid)
    assert before > 0
    time.sleep(0.05)  # sleep: 2,500 marks that are not recorded
    assert marks(infprof, storm.pid) == before
    found = settings(infprof, storm.pid, "probing.recording=on")
    assert (found["recording"]["value"], found["recording"]["state"], found["recording"]["source"]) == ("on", "applied", "config")
    wait_for(lambda: marks(infprof, storm.pid) > before, "more marks")


def test_a_value_holds_within_200_ms(infprof, storm):
    """Whatever starting infprof takes: asking takes no more than 200 ms beyond looking."""
    def seconds(*wishes):
        begin = time.monotonic()
        found = settings(infprof, storm.pid, *wishes)
        assert all(row["state"] == "applied" for row in found.values())
        return time.monotonic() - begin

    looking = min(seconds() for _ in range(5))
    assert min(seconds(f"recording={value}") for value in ("off", "on", "off", "on", "off")) < looking + 0.2


def test_a_program_that_does_not_call_takes_it_later(infprof, started):  # noqa: F811
    process = started("wait")
    done = config(infprof, process.pid, "recording=off", "ring.records=40000")
    assert done.returncode == 0
    assert f"process {process.pid} has not taken recording=off yet: it does so at its next call" in done.stderr
    found = {row["key"]: (row["value"], row["state"], row["wanted"]) for row in json.loads(done.stdout)}
    assert found == {"recording": ("on", "pending", "off"), "ring.records": ("10000", "pending", "40000")}
    ask(process)
    found = settings(infprof, process.pid)
    assert (found["recording"]["value"], found["recording"]["state"]) == ("off", "applied")
    assert found["ring.records"]["value"] == "40000" and int(found["ring.bytes"]["value"]) > 40000 * 89
    assert json.loads(query(infprof, process.pid, "SELECT tag FROM marks").stdout) == [{"tag": "ready"}]


def test_the_file_grows_to_what_is_asked_for(infprof, storm, rings):
    [file] = rings.glob("*.ring")
    assert file.stat().st_size == 1 << 20
    settings(infprof, storm.pid, "ring.bytes=3M")
    wait_for(lambda: file.stat().st_size == 3 << 20, "a file of 3 MiB")


@pytest.mark.san
def test_what_makes_no_sense_is_refused(infprof, storm):
    for wish, why in (("recording=maybe", "it is on or off"), ("ring.bytes=64M", "it is more than this process can have"),
                      ("ring.bytes=1k", "does not shrink"), ("ring.records=-3", "it is a number of records")):
        done = config(infprof, storm.pid, wish)
        assert done.returncode == 1
        assert done.stderr.startswith(f"infprof: config: process {storm.pid} refuses {wish}: ") and why in done.stderr
        [row] = json.loads(done.stdout)
        assert row["state"] == "refused" and row["wanted"] == wish.partition("=")[2] and why in row["may_be"]
    done = config(infprof, storm.pid, "recording=off", "no.such=1")
    assert done.returncode == 1
    assert f"process {storm.pid} has no setting no.such; it has recording, ring.bytes, ring.records" in done.stderr
    assert settings(infprof, storm.pid)["recording"]["value"] == "on"  # nothing of it was asked for
    done = config(infprof, storm.pid, "probing.sample_rate=0.1")
    assert "no setting backtrace.period" in done.stderr and "`infprof record --cpu` and --wall do" in done.stderr
    for value in ("x" * 64, "tab\t", "ünicode"):
        done = config(infprof, storm.pid, f"recording={value}")
        assert done.returncode == 1 and "takes values of" in done.stderr
    assert settings(infprof, storm.pid, "recording=on")


@pytest.mark.san
@pytest.mark.parametrize("words, why", [
    (["nothing"], "nothing is not a process id"), (["localhost:8080"], "is an address, and no program listens there"),
    ([], "it takes a PID"), (["1", "recording"], "recording is not key=value"), (["1", "=on"], "=on is not key=value"),
    (["1", "k" * 40 + "=1"], "is not key=value"), (["1", *["a=b"] * 17], "it takes a PID")])
def test_other_words_are_refused(infprof, words, why):
    done = run([infprof, "config", *words])
    assert done.returncode == 2 and why in done.stderr, done.stderr


@pytest.mark.san
def test_processes_without_settings(infprof, started, monkeypatch):  # noqa: F811
    process = started("wait")
    process.kill()
    process.wait()
    done = config(infprof, process.pid, "recording=off")
    assert done.returncode == 1 and f"no process {process.pid}" in done.stderr
    monkeypatch.delenv("INFPROF_RING")
    with subprocess.Popen(["sleep", "100"]) as silent:
        done = config(infprof, silent.pid)
        silent.kill()
    assert done.returncode == 1 and f"process {silent.pid} does not record: start it with INFPROF_RING=1" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user")
def test_other_users_may_not(infprof, storm, rings):
    [file] = rings.glob("*.ring")
    assert file.stat().st_mode & 0o777 == 0o600
    done = run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", infprof, "config", storm.pid, "recording=off"])
    assert done.returncode == 1 and "only that user and root may" in done.stderr
    assert settings(infprof, storm.pid)["recording"]["value"] == "on"


def test_two_who_ask_at_once(infprof, storm):
    with contextlib.ExitStack() as stack:
        all = [stack.enter_context(subprocess.Popen([infprof, "config", str(storm.pid), f"recording={value}"], stdout=subprocess.PIPE))
               for value in ["on", "off"] * 5]
        assert [process.wait(timeout=60) for process in all] == [0] * 10
    assert settings(infprof, storm.pid)["recording"]["state"] == "applied"


@pytest.mark.san
def test_a_recorder_and_settings(infprof, run_dir, program):  # noqa: F811
    """The recorder holds the file meanwhile; what is not recorded is missing, and nothing else."""
    words = [infprof, "record", "-o", run_dir, "-t", "100", "--no-finish", "--", program, "wait"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == "ready\n"
        [child] = run(["pgrep", "-P", process.pid, "ring_program"]).stdout.split()
        config(infprof, child, "recording=off")
        ask(process)
        config(infprof, child, "recording=on")
        ask(process)
        assert settings(infprof, child)["recording"]["value"] == "on"
        process.stdin.close()
        assert process.wait(timeout=60) == 0
    tags = [row["tag"] for row in run_dir.run().table("marks") if row["source"] == "api"]
    assert tags == ["ready", "asked", "over"]


@pytest.mark.san
def test_a_page_full_of_nonsense(infprof, storm, rings):
    """Another program of the same user writes into the page: both sides live, and what is shown is printable."""
    [file] = rings.glob("*.ring")
    chance = random.Random(1)
    with open(file, "r+b", buffering=0) as page:
        page.seek(88)
        at = struct.unpack("<I", page.read(4))[0] - 4096  # chunks_at
        for kind in range(12):
            page.seek(at)
            page.write(chance.randbytes(4096) if kind % 2 else bytes([chance.choice([0, 1, 0x41, 0xff])]) * 4096)
            for wishes in ([], ["recording=off"]):
                done = config(infprof, storm.pid, *wishes)
                assert done.returncode in (0, 1), done.stderr
                text = done.stdout + done.stderr
                assert all(c == "\n" or " " <= c <= "~" for c in text) and (done.returncode or json.loads(done.stdout) is not None)
    assert storm.poll() is None and marks(infprof, storm.pid) > 0


EXEC = """\
import ctypes, os, sys, time
library = ctypes.CDLL(sys.argv[1])
library.infp_enable()
library.infp_mark(b"m")
if len(sys.argv) == 2:
    os.execv(sys.executable, [sys.executable, __file__, sys.argv[1], "again"])
print("ready", flush=True)
for _ in range(2000):
    library.infp_mark(b"m")
    time.sleep(0.005)
"""


def test_the_program_after_an_exec_is_asked(infprof, tmp_path, rings):
    """The file of the one before it is still there, with the same process id."""
    (tmp_path / "program.py").write_text(EXEC)
    library = pathlib.Path(infprof).parent / "libinfprof.so"
    with subprocess.Popen([sys.executable, tmp_path / "program.py", library], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert len(list(rings.glob("*.ring"))) == 2
        done = config(infprof, process.pid, "recording=off")
        process.kill()
    assert [(row["key"], row["state"]) for row in json.loads(done.stdout)] == [("recording", "applied")], done.stderr


# ---- Python ----

STEPS = """\
import sys, time, infprof
print("ready", flush=True)
for _ in range(3000):
    {step}
    time.sleep(0.005)
"""
MODEL = """\
import sys, time, torch
from torch import nn
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
print("ready", flush=True)
for _ in range(3000):
    if "train" in sys.argv:
        model(torch.zeros(2, 8)).sum().backward()
        optimizer.step()
    else:
        with torch.no_grad():
            model(torch.zeros(2, 8))
    time.sleep(0.005)
"""


@pytest.fixture
def python(infprof, tmp_path):
    """python(text, *words, environment...): a Python program that has printed "ready", with the package of the build."""
    with contextlib.ExitStack() as stack:
        def start(text, *words, name=ONE, **environment):
            program = tmp_path / "program.py"  # noqa: F811
            program.write_text(text)
            own, needed = PYTHONS[name]
            package = pathlib.Path(infprof).parent / "python"
            process = stack.enter_context(subprocess.Popen(
                [*own, program, *words], stdout=subprocess.PIPE, text=True,
                env={**os.environ, "PYTHONPATH": f"{package / 'infprof' / 'start'}:{package}", **needed, **environment}))
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
            return process

        yield start


def when_listed(infprof, process, key):
    """The package registers its setting when it is first used."""
    return wait_for(lambda: config(infprof, process.pid).returncode == 0 and settings(infprof, process.pid).get(key), f"setting {key}")


@pytest.mark.skipif(not PYTHONS, reason="no Python")
@pytest.mark.parametrize("name", [name for name in (ONE, *FREE[:1]) if name])
@pytest.mark.parametrize("step", ['infprof.mark("m")', "infprof.step()", 'infprof.span("s").__enter__().end()'])
def test_a_python_program_takes_settings(infprof, python, step, name):
    process = python(STEPS.format(step=step), name=name)
    assert when_listed(infprof, process, "torch.profiling")["value"] == "off"
    found = settings(infprof, process.pid, "probing.torch.profiling=ordered:0.5")["torch.profiling"]
    assert (found["value"], found["source"], found["state"]) == ("ordered:0.5", "config", "applied")
    done = config(infprof, process.pid, "torch.profiling=loud,exprs=x@f")
    assert done.returncode == 1 and f"process {process.pid} refuses torch.profiling=loud,exprs=x@f: it does not know" in done.stderr
    assert settings(infprof, process.pid, "recording=off")["recording"]["value"] == "off"
    found = settings(infprof, process.pid, "torch.profiling=off", "recording=on")
    assert {row["value"] for row in found.values()} == {"off", "on"} and {row["state"] for row in found.values()} == {"applied"}


def rows(infprof, pid, table="torch_trace"):
    done = query(infprof, pid, f"SELECT count(*) AS n FROM python.{table}")
    return json.loads(done.stdout)[0]["n"] if done.returncode == 0 else 0


@pytest.mark.parametrize("words", [[], ["train"]])
def test_torch_profiling_is_switched_while_it_runs(infprof, python, words):
    if not has_torch():
        pytest.skip("no python3-torch (tools/setup check installs it)")
    process = python(MODEL, *words, name="system", INFPROF_TORCH="every=1,shadow=off")
    assert when_listed(infprof, process, "torch.profiling")["source"] == "environment"
    wait_for(lambda: rows(infprof, process.pid) > 10, "rows of modules")
    assert settings(infprof, process.pid, "torch.profiling=off")["torch.profiling"]["state"] == "applied"
    before = rows(infprof, process.pid), rows(infprof, process.pid, "torch_steps")
    time.sleep(0.1)  # sleep: 20 steps that are not profiled
    assert (rows(infprof, process.pid), rows(infprof, process.pid, "torch_steps")) == before
    found = settings(infprof, process.pid, "torch.profiling=every=1")["torch.profiling"]
    assert (found["value"], found["source"], found["state"]) == ("every=1", "config", "applied")
    wait_for(lambda: rows(infprof, process.pid) > before[0] + 10, "more rows of modules")
    assert settings(infprof, process.pid, "torch.profiling=0.01")["torch.profiling"]["state"] == "applied"
