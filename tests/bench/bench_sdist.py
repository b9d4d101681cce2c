#!/usr/bin/env python3
"""The sdist through pip: built, installed into a virtual environment without a network, and used. Prints what that takes.

  bench_sdist.py [DIRECTORY]     works in DIRECTORY, which it keeps, else in a temporary one
"""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import zipfile

TOP = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
ENVIRONMENT = {**os.environ, "PATH": f"{TOP}/.deps/venv/bin:{os.environ['PATH']}", "INFPROF_LIBDUCKDB": str(TOP / ".deps" / "duckdb" / "libduckdb.so")}
SPAN = "import infprof, time\nwith infprof.span('step', batch=8):\n    end = time.time() + 0.5\n    while time.time() < end: pass\n"


def output(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd="/")
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def expect(truth, what):
    if not truth:
        sys.exit(f"not so: {what}")


def main():
    with tempfile.TemporaryDirectory() as temporary:
        work = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        sdist = output(sys.executable, TOP / "tools" / "wheel", "--sdist", work).strip()
        output(PYTHON, "-m", "venv", work / "venv")
        begin = time.monotonic()
        output(work / "venv" / "bin" / "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--wheel-dir", work / "wheels", sdist)
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        (wheel,) = (work / "wheels").iterdir()
        print(f"sdist of {os.path.getsize(sdist) / 1e6:.1f} MB: built in {time.monotonic() - begin:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of CPU, "
              f"to a wheel of {wheel.stat().st_size / 1e6:.1f} MB")
        output(work / "venv" / "bin" / "pip", "install", "--quiet", "--no-index", wheel)
        program, python = work / "venv" / "bin" / "infprof", work / "venv" / "bin" / "python"
        names = set(zipfile.ZipFile(wheel).namelist())
        expect({"infprof/_native.abi3.so", "infprof/__init__.py", "infprof.pth"} <= names, "the package and its extension are in the wheel")
        output(program, "record", "-o", work / "out", "--no-snapshots", "--heap", "--python", "--", python, "-c", SPAN)
        asked = output(program, "query", "-r", work / "out", "-f", "csv", "SELECT name, attributes, duration_ns > 4e8 FROM spans")
        expect(asked.splitlines()[1:] == ['step,"{""batch"":8}",true'], f"the span was recorded: {asked}")
        expect("malloc" in output(program, "query", "-r", work / "out", "-f", "csv", "SELECT DISTINCT allocator FROM heap_samples"), "its heap was sampled")
        expect(output(python, "-c", "import sys, infprof; infprof.is_recording(); print('infprof._native' in sys.modules)") == "True\n", "Python has the extension")
        print(f"installed without a network: {output(program, '--version').strip()}, record --heap --python, query, import infprof")


if __name__ == "__main__":
    main()
