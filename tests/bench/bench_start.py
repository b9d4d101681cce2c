#!/usr/bin/env python3
"""User and system CPU time of `infprof --version`, beside /bin/true: what each call of infprof costs before it does anything.

  bench_start.py [--infprof PATH] [-n RUNS]

Exits with 1 when the fastest run is over the budget.
"""
import argparse
import os
import pathlib
import statistics
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
BUDGET_MS = 2.0


def cpu_ms(words):
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    _, status, usage = os.wait4(os.posix_spawn(words[0], words, os.environ, file_actions=quiet), 0)
    if status:
        sys.exit(f"{words[0]} failed")
    return 1e3 * (usage.ru_utime + usage.ru_stime)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infprof", default=str(TOP / "build" / "infprof"))
    parser.add_argument("-n", type=int, default=200)
    options = parser.parse_args()
    least = 0
    for words in (["/bin/true"], [options.infprof, "--version"]):
        runs = [cpu_ms(words) for _ in range(options.n)]
        least = min(runs)
        print(f"{os.path.basename(words[0]):8} CPU of {options.n} runs: at least {least:.2f} ms, median {statistics.median(runs):.2f} ms")
    if least > BUDGET_MS:
        sys.exit(f"over the budget of {BUDGET_MS:.1f} ms")


if __name__ == "__main__":
    main()
