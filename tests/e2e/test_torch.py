"""infprof.torch with a real PyTorch: Debian's python3-torch. Its checks are in torch_checks_hooks.py and torch_checks_steps.py."""
import collections
import functools
import json
import os
import pathlib
import re
import statistics
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = "/usr/bin/python3"
NEWER = pathlib.Path(os.environ.get("INFPROF_TORCH_ROOT", HERE.parents[1] / ".deps" / "bench" / "torch"))  # files of Debian 13, unpacked


def of_newer_torch():
    """(words that start its Python, what its environment needs); None: it is not here."""
    libraries = NEWER / "usr" / "lib" / "x86_64-linux-gnu"
    program = next(iter(sorted((NEWER / "usr" / "bin").glob("python3.*[0-9]"))), None)
    if program is None:
        return None
    path = ":".join(str(libraries / folder) for folder in (".", "blas", "lapack"))
    return ([str(libraries / "ld-linux-x86-64.so.2"), "--library-path", path, str(program)],
            {"PYTHONHOME": str(NEWER / "usr"), "PYTHONPATH": str(NEWER / "usr" / "lib" / "python3" / "dist-packages")})


TORCHES = {name: start for name, start in (("system", ([PYTHON], {})), ("newer", of_newer_torch())) if start}


@functools.lru_cache(maxsize=None)
def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode == 0


@pytest.fixture(autouse=True)
def torch(request):
    if "needs_no_torch" not in request.node.name and not has_torch():
        pytest.skip("no python3-torch (tools/setup check installs it)")


@pytest.mark.parametrize("part", ["hooks", "steps"])
@pytest.mark.parametrize("which", TORCHES)
def test_checks(which, part):
    """Importing torch takes a second, so the checks of a file run in one process. `newer`: where tools/setup bench has put PyTorch 2."""
    words, environment = TORCHES[which]
    names = re.findall(r"^@check\ndef (\w+)", (HERE / f"torch_checks_{part}.py").read_text(), re.MULTILINE)
    done = subprocess.run([*words, str(HERE / "torch_checks.py"), *names], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=170, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert list(results) == names and len(names) > 10
    faults = {name: fault for name, fault in results.items() if fault}
    assert not faults, "\n".join(f"{name}: {fault}" for name, fault in faults.items())


SLEEPS = {"first": 0.004, "second.inner": 0.002, "second": 0.001}
PROGRAM = """
import json, time
import torch
from torch import nn

class Sleeper(nn.Module):
    def __init__(self, seconds, inner=None):
        super().__init__()
        self.seconds, self.inner, self.slept = seconds, inner, []
    def forward(self, x):
        if self.inner:
            x = self.inner(x)
        began = time.monotonic()
        time.sleep(self.seconds)
        self.slept.append(time.monotonic() - began)
        return x

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8, 2)
        self.first, self.second = Sleeper(0.004), Sleeper(0.001, Sleeper(0.002))
    def forward(self, ids):
        return self.second(self.first(self.embed(ids)))

torch.set_num_threads(1)
model = Model().eval()
with torch.no_grad():
    for i in range(60):
        model(torch.zeros(1, 8 if i % 10 == 0 else 1, dtype=torch.int64))
{more}
print(json.dumps({{name: module.slept for name, module in model.named_modules() if isinstance(module, Sleeper)}}))
"""


@pytest.fixture
def profiled(record, tmp_path):
    def call(how, more="", **arguments):
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.format(more=more))
        done = record(f"--torch={how}", "--no-snapshots", command=[PYTHON, program], **arguments)
        assert done.returncode == 0, done.stderr
        return done

    return call


def infprof_says(infprof, run_dir, *words):
    return subprocess.run([infprof, *words, "-r", str(run_dir)], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout


def test_a_recording_has_what_the_modules_cost(infprof, profiled, run_dir):
    done = profiled("every=1,budget=off,shadow=off")
    slept = json.loads(done.stdout.splitlines()[-1])
    rows = done.run.table("torch_trace")
    assert {row["module"] for row in rows} == {"Model", "embed", *SLEEPS} and len(rows) == 300
    assert {row["stage"] for row in rows} == {"forward"} and {row["device"] for row in rows} == {"cpu"}
    assert len({row["process"] for row in rows}) == 1 and len({row["tid"] for row in rows}) == 1
    for name, module_slept in slept.items():
        mine = sorted((row for row in rows if row["module"] == name), key=lambda row: row["t_ns"])
        apart = [row["self_duration"] - seconds for row, seconds in zip(mine, module_slept)]
        # The hooks themselves, on a machine whose caches others use, are a tenth of a millisecond.
        error = statistics.stdev(apart) / len(apart)**0.5
        assert len(apart) == 60 and abs(statistics.mean(apart)) < 3 * error + 200e-6, (name, statistics.mean(apart), error)
        assert all(row["duration"] >= SLEEPS[name] for row in mine)
    steps = sorted(done.run.table("torch_steps"), key=lambda row: row["step"])
    assert [row["phase"] for row in steps] == (["prefill"] + ["decode"] * 9) * 6 and [row["step"] for row in steps] == list(range(60))

    shown = json.loads(infprof_says(infprof, run_dir, "report", "--json"))["torch"]
    assert (shown["steps"], shown["hooked"], len(shown["modules"])) == (60, 60, 5)
    assert [module["name"] for module in shown["modules"]][:3] == ["first", "second.inner", "second"]
    for module in shown["modules"]:
        mine = [row for row in rows if row["module"] == module["name"]]
        assert module["calls"] == module["forward"]["calls"] == 60 and module["growth_mib"] is None
        assert module["total_s"] == pytest.approx(sum(row["duration"] for row in mine))
        assert module["self_s"] == pytest.approx(sum(row["self_duration"] for row in mine))
    phases = {phase["phase"]: phase for phase in shown["phases"]}
    assert {name: phase["steps"] for name, phase in phases.items()} == {"prefill": 6, "decode": 54}
    assert phases["decode"]["median_s"] == pytest.approx(statistics.median(row["duration"] for row in steps if row["phase"] == "decode"))
    first = phases["prefill"]["slowest"]
    assert len(first) == 5 and first[0]["duration_s"] == pytest.approx(phases["prefill"]["max_s"])
    assert [step["duration_s"] for step in first] == sorted((row["duration"] for row in steps if row["phase"] == "prefill"), reverse=True)[:5]

    text = infprof_says(infprof, run_dir, "report", "torch")
    assert "Modules of PyTorch" in text and "54 decode of" in text and "hooks stood on 60 of 60" in text and "Sleeper" in text
    assert "(Sleeper) takes most" in infprof_says(infprof, run_dir, "report")
    answer = infprof_says(infprof, run_dir, "query", "--json", "SELECT module, COUNT(*) AS count, AVG(duration) AS avg_duration, "
                          "MAX(allocated) AS peak_memory FROM python.torch_trace GROUP BY module")
    assert {row["module"]: row["count"] for row in json.loads(answer)} == {name: 60 for name in ("Model", "embed", *SLEEPS)}


def test_the_report_says_what_it_cost(infprof, profiled, run_dir):
    done = profiled("every=2,budget=off")
    pairs = done.run.table("torch_overhead")
    assert len(pairs) >= 6
    kinds = {row["step"]: row["kind"] for row in done.run.table("torch_steps")}
    assert all(kinds[row["step"]] == "hooked" and kinds[row["shadow"]] == "shadow" for row in pairs)
    last = max(pairs, key=lambda row: row["pairs"])
    assert last["low"] <= last["overhead"] <= last["high"] and last["every"] == 2
    (shown,) = json.loads(infprof_says(infprof, run_dir, "report", "--json"))["torch"]["overhead"]
    assert shown == {key: last[key] for key in shown}
    text = infprof_says(infprof, run_dir, "report", "torch")
    assert re.search(r"overhead +\S+ % of the time of steps \[95 %: \S+ to \S+\]", text), text


def test_why_there_are_no_hooks(infprof, profiled, run_dir):
    """This torch has no torch.compile, so the program brings one that does nothing; what was recorded before it stays."""
    done = profiled("every=1,budget=off", more="""
import infprof
infprof.disable_torch_profiling()
torch.compile = lambda model: model
infprof.enable_torch_profiling(every=1, budget=None)
model = torch.compile(model)
for i in range(3):
    model(torch.zeros(1, 1, dtype=torch.int64))
""")
    steps = done.run.table("torch_steps")
    (note,) = [row["note"] for row in steps if row["kind"] == "none"]
    assert "torch.compile" in note and len(steps) == 61
    text = infprof_says(infprof, run_dir, "report", "torch")
    assert "no hooks" in text and "torch.compile is in use" in " ".join(text.split()), text


def test_children_have_rows_of_their_own(profiled):
    done = profiled("every=1,budget=off,shadow=off", more="""
import os
for kind in ("fork", "fork"):
    pid = os.fork()
    if pid == 0:
        with torch.no_grad():
            for i in range(4):
                model(torch.zeros(1, 1, dtype=torch.int64))
        raise SystemExit(0)
    assert os.waitpid(pid, 0)[1] == 0
""")
    rows = done.run.table("torch_trace")
    counts = collections.Counter(row["process"] for row in rows)
    assert len(counts) == 3 and sorted(counts.values())[:2] == [20, 20], counts


def test_spans_and_steps_of_the_program(profiled):
    done = profiled("every=1,budget=off,shadow=off", more="""
import infprof
ids = torch.zeros(1, 1, dtype=torch.int64)
with infprof.span("request"):
    model(ids)
for i in range(3):
    infprof.step()
    model(ids)
    model(ids)
infprof.step()
""")
    (span,) = [row["span"] for row in done.run.table("spans") if row["name"] == "request"]
    rows = done.run.table("torch_trace")
    assert {row["span"] for row in rows if row["step"] < 60} == {None} and {row["span"] for row in rows if row["step"] == 60} == {span}
    calls = collections.Counter(row["step"] for row in rows if row["module"] == "first")
    assert [calls[step] for step in range(60, 64)] == [1, 2, 2, 2]


def test_rows_are_there_while_the_program_runs(infprof, tmp_path, rings):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(more="import sys\nprint('ready', flush=True)\nsys.stdin.read()"))
    environment = {**os.environ, "INFPROF_TORCH": "every=1,budget=off,shadow=off",
                   "PYTHONPATH": str(pathlib.Path(infprof).parent / "python" / "infprof" / "start")}
    with subprocess.Popen([PYTHON, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout.readline() == "ready\n"
        answer = subprocess.run([infprof, "query", "--pid", str(process.pid), "--json",
                                 "SELECT max(step) AS last, count(*) AS n FROM python.torch_trace"], stdout=subprocess.PIPE, text=True,
                                check=True, timeout=60).stdout
        assert json.loads(answer) == [{"last": 59, "n": 300}]
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_a_run_without_it_says_how(infprof, record, run_dir):
    record("--no-snapshots", command=["true"])
    assert "infprof record --torch" in " ".join(infprof_says(infprof, run_dir, "report", "torch").split())
    assert json.loads(infprof_says(infprof, run_dir, "report", "--json"))["torch"] is None


ODD = """
import random
from infprof import _core
generator = random.Random(7)
values = [None, 0, -1, 1 << 62, -(1 << 62), 0.5, -2.5, 1e300, -1e300, float("inf"), float("nan"), "", "forward", "x" * 1000, "\\n\\x1b[2J", True]
for name, columns in (("torch_trace", "step seq module stage class duration self_duration growth"),
                      ("torch_steps", "step model phase shape kind duration own gc data wait calls note"),
                      ("torch_overhead", "step shadow every pairs hooks hooks_low hooks_high own overhead low high"),
                      ("gc", "generation duration collected uncollectable short short_duration")):
    table = _core.open_table(name, columns)
    for i in range(300):
        cells = [generator.choice(values) for _ in columns.split()]
        if name == "torch_trace":
            cells[3] = generator.choice(("forward", "backward", "step", "other"))
        table.write(0, *cells)
"""


@pytest.mark.san
def test_odd_rows_harm_no_report_needs_no_torch(infprof, record, run_dir, tmp_path):
    program = tmp_path / "odd.py"
    program.write_text(ODD)
    done = record("--python", "--no-snapshots", command=[PYTHON, program])
    assert done.returncode == 0 and len(done.run.table("torch_steps")) == 300, done.stderr
    shown = json.loads(infprof_says(infprof, run_dir, "report", "--json"))["torch"]
    assert shown["steps"] > 50 and shown["modules"] and all(phase["median_s"] >= 0 for phase in shown["phases"])
    text = infprof_says(infprof, run_dir, "report", "torch")
    assert "Modules of PyTorch" in text and "\x1b" not in text
