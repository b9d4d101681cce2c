#!/usr/bin/env python3
"""What finishing a short recording costs: one of a second is recorded, and copies of it are finished.

  bench_finish.py [--infprof PATH] [-r ROUNDS] [--record OPTION]... [--json FILE]

CPU time and peak resident memory of the whole `infprof finish`, the least of ROUNDS (a busy machine only adds to both). Exit
code 1 when a budget is broken.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
BUDGET_S, BUDGET_MB = 0.12, 45


def finish(infprof, run):
    child = subprocess.Popen([infprof, "finish", "-r", run], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit("finish failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--infprof", default=TOP / "build-gcc" / "infprof")
    parser.add_argument("-r", "--rounds", type=int, default=10)
    parser.add_argument("--record", action="append", default=[])
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        recorded = os.path.join(directory, "recorded")
        subprocess.run([args.infprof, "record", "--no-finish", "-o", recorded, *args.record, "--", "sleep", "1"], check=True, stderr=subprocess.DEVNULL)
        results = []
        for number in range(args.rounds):
            copy = shutil.copytree(recorded, os.path.join(directory, str(number)))
            results.append(finish(args.infprof, copy))
    cpu_s, memory_mb = min(cpu for cpu, _ in results), max(memory for _, memory in results)
    print(f"finishing a second: {cpu_s:.3f} s of CPU (budget {BUDGET_S}), {memory_mb:.1f} MB (budget {BUDGET_MB})")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"cpu_s": cpu_s, "peak_mb": memory_mb}))
    return 0 if cpu_s <= BUDGET_S and memory_mb <= BUDGET_MB else 1


if __name__ == "__main__":
    sys.exit(main())
