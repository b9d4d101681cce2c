#!/usr/bin/env python3
"""All benchmarks; what `make bench` runs. Figures with budgets fail the run when they are over; the rest is printed.

  run.py [--infprof PATH] [--quick]
"""
import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
MONITORS = TOP.parent / "shared" / "truth" / "monitors.py"
ENGINES = TOP.parent / "shared" / "fixtures" / "engines"
PAGE_MB_S = 300
RING_FACTOR = 2  # beyond so many times its budget a call fails the run: caches are shared with whoever else runs
SAMPLER = (("cost", "what it costs a program (CPU time, interleaved pairs)"), ("own", "its own CPU, bytes a sample"),
           ("python", "Python frames"), ("inside", "the sampler inside Python"), ("waits", "switches and tasks"),
           ("deep", "stacks beyond the kernel's copy"), ("torch", "PyTorch"), ("peers", "beside other profilers (one JSON line each)"),
           ("unwind", "stacks against elfutils"),
           ("go", "a Go program against its own profile"), ("debug", "debug builds of Python"), ("harm", "attached and killed, again and again"))
UNWIND_FACTOR = 2  # the same of a frame


def title(text):
    print(f"\n== {text}", flush=True)


def run(words, **options):
    print("$ " + shlex.join(os.path.relpath(word, TOP) if str(word).startswith(str(TOP)) else str(word) for word in words), flush=True)
    return subprocess.run([str(word) for word in words], cwd=TOP, **options).returncode


def peers(infprof, seconds):
    """Other monitors and infprof in one run: CPU per sample with 500 processes present."""
    if not MONITORS.exists():
        print(f"{MONITORS} is not here: no comparison with other monitors")
        return
    environment = {**os.environ, "INFPROF": f"{infprof} record -o $OUT -t 1000 -p --duration 3600"}
    with tempfile.TemporaryDirectory() as work:
        os.symlink(TOP / ".deps" / "bench" / "venv", os.path.join(work, "venv"))
        run([sys.executable, MONITORS, "-n", "500", "-s", str(seconds), "-d", work, "pidstat", "psrecord", "psrecord+children",
             "node_exporter", "top", "infprof"], env=environment)


def pages():
    """Captured pages of engines through the parser."""
    found = sorted(ENGINES.glob("*/metrics-*.prom"))
    if not found:
        print(f"{ENGINES} is not here: no pages to read")
        return 0
    program = pathlib.Path("tests") / "bench" / "bench_promtext"
    if run([TOP / "tools" / "build", "build-gcc", program], stdout=subprocess.DEVNULL):
        return 1
    return run([TOP / "build-gcc" / program, PAGE_MB_S, *found])


def ring():
    """Calls of the public API."""
    program = pathlib.Path("tests") / "bench" / "bench_ring"
    if run([TOP / "tools" / "build", "build-gcc", program], stdout=subprocess.DEVNULL):
        return 1
    return run([TOP / "build-gcc" / program, RING_FACTOR])


def unwind():
    """Unwind tables, and stacks of a Python program."""
    program = pathlib.Path("tests") / "bench" / "bench_unwind"
    if run([TOP / "tools" / "build", "build-gcc", program], stdout=subprocess.DEVNULL):
        return 1
    return run([TOP / "build-gcc" / program, UNWIND_FACTOR])


def arm():
    """The wheel for 64-bit Arm, by QEMU."""
    if not (TOP / ".deps" / "roots" / "arm64").exists():
        print("the libraries of 64-bit Arm are not here (tools/setup arm): no wheel for it")
        return 0
    if run([TOP / "tools" / "build", "build-wheel-aarch64", "--quiet"]):
        return 1
    return run([sys.executable, "-m", "pytest", "-q", "--no-header", TOP / "tests" / "e2e" / "test_wheel_arm.py"],
               env={**os.environ, "INFPROF": str(TOP / "build" / "infprof")})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default=str(TOP / "build" / "infprof"))
    parser.add_argument("--quick", action="store_true", help="one round, short: to see that it runs")
    options = parser.parse_args()
    rounds, seconds = ("1", "5") if options.quick else ("3", "15")

    title("Starting (CPU time of `infprof --version`)")
    code = run([sys.executable, HERE / "bench_start.py", "--infprof", options.infprof])
    title("What a recording costs (CPU of infprof's own threads, median of interleaved rounds)")
    code |= run([sys.executable, HERE / "bench_cost.py", "--infprof", options.infprof, "-r", rounds, "-s", seconds])
    title("All sources: an engine with 300 series that change, 50 containers")
    code |= run([sys.executable, HERE / "bench_sources.py", "--infprof", options.infprof, "-r", rounds, "-s", seconds,
                 *(["--hour", "600", "--segments", "30"] if options.quick else [])])
    title("Beside other monitors, 1 Hz, every process (one JSON line each)")
    peers(options.infprof, seconds)
    title("Reading")
    code |= run([sys.executable, HERE / "bench_query.py", "--infprof", options.infprof, "-r", rounds,
                 *(["--rows", "1000000", "--seconds", "3600"] if options.quick else [])])
    title("Finishing a short recording")
    code |= run([sys.executable, HERE / "bench_finish.py", "--infprof", options.infprof])
    title("Comparing runs: equal ones, and 3 % more CPU")
    code |= run([sys.executable, HERE / "bench_compare.py", "--infprof", options.infprof,
                 *(["--runs", "5", "--seconds", "5", "--rounds", "1"] if options.quick else [])])
    title("Drawing flame graphs")
    code |= run([sys.executable, HERE / "bench_flame.py"])
    title(f"Pages of metrics (CPU time; at least {PAGE_MB_S} MB/s each)")
    code |= pages()
    title("Calls of the public API (CPU time of the calling thread)")
    code |= ring()
    title("The Python package (CPU time)")
    code |= run([sys.executable, HERE / "bench_python.py", "--infprof", options.infprof, *(["--quick"] if options.quick else [])])
    title("Unwinding (CPU time)")
    code |= unwind()
    title("The heap: what sampling it costs a program")
    code |= run([sys.executable, HERE / "bench_heap.py", "--infprof", options.infprof, *(["-n", "3"] if options.quick else [])])
    title("PyTorch's modules: what hooks cost a program (CPU time)")
    code |= run([sys.executable, HERE / "bench_torch.py", "--infprof", options.infprof, *(["-n", "3"] if options.quick else [])])
    for verb, what in SAMPLER:
        title(f"Sampling of stacks: {what}")
        code |= run([sys.executable, HERE / "bench_sampler.py", verb, "--infprof", options.infprof, *(["--quick"] if options.quick else [])])
    title("The sdist, built and installed by pip")
    code |= run([sys.executable, HERE / "bench_sdist.py"])
    title("The wheel for 64-bit Arm")
    code |= arm()
    print("\nAll budgets are kept." if code == 0 else "\nA budget is broken: see the lines `over budget` above.")
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
