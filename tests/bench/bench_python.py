#!/usr/bin/env python3
"""Calls of the Python package, by each Python of the machine, and what a start of Python costs with it.

  bench_python.py [--infprof PATH] [--quick]

The least of many rounds of CPU time. Exits with 1 when a call of the extension takes twice its budget, or infprof.pth twice its own:
caches are shared with whatever else runs.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from bench_start import cpu_ms  # noqa: E402
from pythons import FREE, PYTHONS  # noqa: E402

TOP = HERE.parents[1]
BUDGET_NS = {"counter": 250, "span": 1500}
BUDGET_START_MS = 1
FACTOR = 2

CALLS = '''
import json, sys, time
import infprof

rounds = int(sys.argv[1])
tokens, queue = infprof.counter("tokens"), infprof.gauge("queue")
rows = infprof._core.open_table("torch_trace", "step module stage duration").write

@infprof.span("function")
def function(): pass

def bare(n):
    for _ in range(n): pass
def counter(n):
    for _ in range(n): tokens.add(1)
def gauge(n):
    for _ in range(n): queue.set(1.5)
def mark(n):
    for _ in range(n): infprof.mark("mark")
def step(n):
    for _ in range(n): infprof.step()
def row(n):
    for _ in range(n): rows(0, 1, "layers.0", "forward", 0.5)
def span(n):
    for _ in range(n):
        with infprof.span("span"): pass
def span_and_attribute(n):
    for _ in range(n):
        with infprof.span("span", batch=8): pass
def decorated(n):
    for _ in range(n): function()

def least(call, n=2000):
    times = []
    for _ in range(rounds):
        begin = time.thread_time_ns()
        call(n)
        times.append((time.thread_time_ns() - begin) / n)
    return min(times)

found = {}
for is_on in (False, True):
    if is_on: infprof.enable()
    loop = least(bare)
    found["recorded" if is_on else "not recorded"] = {call.__name__: round(least(call) - loop)
        for call in (counter, gauge, mark, step, row, span, span_and_attribute, decorated)}
print(json.dumps(found))
'''


def calls(package, rings, rounds):
    code = 0
    for name, (words, environment) in PYTHONS.items():
        environment = {**os.environ, **environment, "PYTHONPATH": str(package), "INFPROF_RING": "0", "XDG_RUNTIME_DIR": rings,
                       "INFPROF_RING_BYTES": "16M"}
        done = subprocess.run([*words, "-c", "import infprof._core\n" + CALLS, str(rounds)], env=environment, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"{name}: failed")
            code = 1
            continue
        for when, found in json.loads(done.stdout).items():
            print(f"{name:18} {when:12} " + "  ".join(f"{call} {ns} ns" for call, ns in found.items()))
            for call, budget in BUDGET_NS.items():
                if name not in FREE and found[call] > FACTOR * budget:
                    print(f"over budget: {call} takes {found[call]} ns, of {budget} ns")
                    code = 1
    return code


def starts(package, folder, n):
    """A virtual environment with the package in it as pip leaves it, with and without infprof.pth; and started by record --python."""
    python = PYTHONS["system"][0][0] if "system" in PYTHONS else sys.executable
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    site = next((folder / "lib").glob("python3*/site-packages"))
    shutil.copytree(package / "infprof", site / "infprof", ignore=shutil.ignore_patterns("*.p"))
    subprocess.run([folder / "bin" / "python", "-m", "compileall", "-q", site], check=True)
    words = [str(folder / "bin" / "python"), "-c", "pass"]
    ways = {"without": {}, "infprof.pth": {}, "with INFPROF_TORCH": {"INFPROF_TORCH": "on"},
            "record --python": {"PYTHONPATH": str(site / "infprof" / "start")}}
    found = {way: [] for way in ways}
    for _ in range(n):
        for way, variables in ways.items():
            pth = site / "infprof.pth"
            pth.unlink(missing_ok=True)
            if way in ("infprof.pth", "with INFPROF_TORCH"):
                shutil.copy(package / "infprof.pth", pth)
            os.environ.update(variables)
            found[way].append(cpu_ms(words))
            for name in variables:
                del os.environ[name]
    least = {way: min(times) for way, times in found.items()}
    print(f"start of Python, CPU, least of {n}: {least['without']:.2f} ms; " +
          ", ".join(f"{way} +{ms - least['without']:.2f} ms" for way, ms in least.items() if way != "without"))
    if least["infprof.pth"] - least["without"] > FACTOR * BUDGET_START_MS:
        print(f"over budget: infprof.pth may take {BUDGET_START_MS} ms")
        return 1
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default=str(TOP / "build" / "infprof"))
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    package = pathlib.Path(options.infprof).resolve().parent / "python"
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as work:
        os.makedirs(f"{work}/rings", mode=0o700)
        code = calls(package, f"{work}/rings", 30 if options.quick else 300)
        code |= starts(package, pathlib.Path(work) / "venv", 20 if options.quick else 200)
    return code


if __name__ == "__main__":
    sys.exit(main())
